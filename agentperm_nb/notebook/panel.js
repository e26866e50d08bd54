// Draws what the kernel sends, as text only, and sends one message an answer. See panel.py for the law.

const GUARD_MS = 350; // a click this soon after a card appeared or changed was meant for something else
const SILENCE_MS = 4000; // after this long without a word from the kernel a sent answer says so
const REPLACED_MS = 250; // by then a page that follows the cell has put the record in the place of the panel
const POINTER_MS = 400; // out of view for so long before the pointer to the panel shows
const QUIET = "data-lm-suppress-shortcuts"; // the notebook's own shortcuts stay out; Lumino looks at the target first

let count = 0; // makes ids unique on the page

function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

function quiet(element) {
  element.setAttribute(QUIET, "true");
  return element;
}

function button(label, look) {
  const element = quiet(make("button", `apnb-button apnb-${look}`, label));
  element.type = "button";
  return element;
}

function span(milliseconds) {
  const seconds = Math.floor(milliseconds / 1000);
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(seconds % 60).padStart(2, "0")} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
}

function badge({ text, tone, about }) {
  const element = make("span", `apnb-badge apnb-${tone === "caution" ? "caution" : "plain"}`, text);
  if (about) element.title = about;
  element.setAttribute("role", "listitem");
  return element;
}

const kinds = {
  badges(node) {
    const list = make("div", "apnb-badges");
    list.setAttribute("role", "list");
    list.setAttribute("aria-label", "Remarks");
    list.append(...node.badges.map(badge));
    return list;
  },
  facts(node) {
    const box = make("div", "apnb-facts");
    for (const { label, text } of node.facts) {
      const fact = make("span");
      fact.append(make("span", "", label), text);
      box.append(fact);
    }
    return box;
  },
  notice(node) {
    return make("p", `apnb-notice apnb-${node.tone === "caution" ? "caution" : "plain"}`, node.text);
  },
  text(node) {
    return make("p", "apnb-text", node.text);
  },
  table(node) {
    const table = make("table", "apnb-args");
    table.setAttribute("aria-label", "Arguments");
    const body = make("tbody");
    for (const { name, value } of node.rows) {
      const row = make("tr");
      const head = make("th");
      head.scope = "row";
      head.append(make("div", "apnb-name", name));
      const cell = make("td");
      cell.append(draw(value));
      row.append(head, cell);
      body.append(row);
    }
    table.append(body);
    return table;
  },
  value(node) {
    const box = make("div", "apnb-value");
    if (node.text) box.append(make("code", "", node.text));
    if (node.type) box.append(make("span", "apnb-type", node.type));
    return box;
  },
  code(node) {
    const box = make("div", "apnb-long");
    const text = quiet(make("pre", "apnb-code", node.text));
    text.tabIndex = 0; // so that the keyboard can scroll it
    text.setAttribute("role", "region");
    text.setAttribute("aria-label", node.label);
    box.append(text, make("span", "apnb-type", node.type ? `${node.type}, ${node.size}` : node.size));
    return box;
  },
};

function draw(node) {
  const kind = Object.hasOwn(kinds, node.kind) ? kinds[node.kind] : null;
  return kind ? kind(node) : make("p", "apnb-notice apnb-caution", "This page is older than the kernel: reload it.");
}

class Card {
  constructor(panel, data) {
    this.panel = panel;
    this.id = data.id;
    this.key = `apnb-${++count}`;
    this.element = quiet(make("section", "apnb-card"));
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-labelledby", `${this.key}-title`);
    this.element.tabIndex = -1; // takes the focus when the card before it is done; never a button by itself
    this.update(data);
  }

  get waits() {
    return this.form !== "settled";
  }

  get edited() {
    return this.editor !== null && !this.editBox.hidden && this.editor.value !== this.original;
  }

  // Clicks are refused from now until GUARD_MS after it was painted, which a busy page may do late.
  changed() {
    clearTimeout(this.guard);
    this.changedAt = Infinity;
    this.element.dataset.guarded = "true";
    requestAnimationFrame(() => {
      clearTimeout(this.guard); // of a change before the same painting
      this.changedAt = performance.now();
      this.guard = setTimeout(() => delete this.element.dataset.guarded, GUARD_MS + 1); // timers have whole ms only
    });
  }

  update(data) {
    if (this.form === data.form) return this.release(); // drawn already; typed text stays
    const focused = this.element.contains(document.activeElement);
    this.form = data.form;
    this.name = data.name;
    this.since = performance.now() - (data.waited ?? 0);
    this.controls = [];
    this.editor = null;
    this.element.dataset.form = data.form;
    this.element.replaceChildren(...this.parts(data));
    this.release();
    this.changed();
    if (focused && !this.waits) this.panel.focusNext(this);
  }

  parts(data) {
    if (data.form === "settled") return this.settledParts(data);
    const title = make("div", "apnb-title", data.title);
    title.id = `${this.key}-title`;
    this.clock = make("span", "apnb-clock");
    const head = make("div", "apnb-head");
    head.append(title, this.clock);
    const top = [head];
    if (data.form === "approval") {
      const tool = make("div", "apnb-tool");
      if (!data.plain) tool.append(make("code", "", data.name)); // else the title says it
      if (data.server) tool.append(make("span", "apnb-server", `server ${data.server}`));
      if (data.badges.length) tool.append(draw({ kind: "badges", badges: data.badges }));
      if (tool.childElementCount) top.push(tool);
    }
    this.problems = make("ul", "apnb-problems");
    this.problems.id = `${this.key}-problems`;
    this.problems.setAttribute("role", "alert");
    this.problems.hidden = true;
    this.note = make("span", "apnb-note");
    this.note.setAttribute("role", "status");
    const rest = data.form === "approval" ? this.approvalParts(data) : this.questionParts(data);
    return [...top, ...data.body.map(draw), ...rest];
  }

  settledParts(data) {
    const mark = make("span", `apnb-mark apnb-mark-${data.tone}`);
    mark.setAttribute("aria-hidden", "true");
    const title = make("span", "apnb-settled");
    title.id = `${this.key}-title`;
    title.append(make("code", "", data.name), make("span", "", ` ${data.text}`));
    this.outcome = `${data.name}: ${data.text}`;
    return [mark, title];
  }

  control(element, action) {
    if (action) {
      element.setAttribute("aria-describedby", `${this.key}-title`);
      element.dataset.action = action;
    }
    this.controls.push(element);
    return element;
  }

  approvalParts(data) {
    this.original = data.edit;
    this.editBox = make("div", "apnb-edit");
    this.editBox.hidden = true;
    this.reason = this.control(quiet(make("input", "apnb-field apnb-reason")));
    this.reason.type = "text";
    this.reason.maxLength = 10000;
    this.reason.placeholder = "Reason (optional; the model reads it when you deny)";
    this.reason.setAttribute("aria-label", "Reason");
    this.reason.autocomplete = "off";
    const bar = make("div", "apnb-actions");
    for (const { action, label, look } of data.actions) {
      const element = this.control(button(label, look), action);
      if (action === "edit") {
        this.editButton = element;
        element.setAttribute("aria-expanded", "false");
        element.addEventListener("click", () => this.toggleEdit());
      } else {
        if (action === "approve") this.approveButton = element;
        if (action === "deny") bar.append(make("span", "apnb-gap"));
        element.addEventListener("click", (event) => this.click(event, action));
      }
      bar.append(element);
    }
    return [this.editBox, this.problems, this.reason, bar, this.note];
  }

  questionParts(data) {
    const bar = make("div", "apnb-actions");
    const reply = (event, content) => {
      if (this.guarded(event, "choose")) return;
      this.send({ type: "reply", id: this.id, ...content });
    };
    if (data.choices) {
      data.choices.forEach((label, choice) => {
        const element = this.control(button(label, "plain"), "choose");
        element.addEventListener("click", (event) => reply(event, { choice }));
        bar.append(element);
      });
      return [this.problems, bar, this.note];
    }
    const field = this.control(quiet(make("textarea", "apnb-field")));
    field.rows = 2;
    field.setAttribute("aria-labelledby", `${this.key}-title`);
    const send = this.control(button("Send", "primary"), "choose");
    send.addEventListener("click", (event) => reply(event, { text: field.value }));
    bar.append(send);
    return [field, this.problems, bar, this.note];
  }

  toggleEdit() {
    const open = this.editBox.hidden;
    if (open && !this.editor) {
      const label = make("label", "apnb-label", "Arguments as JSON");
      this.editor = this.control(quiet(make("textarea", "apnb-field apnb-editor")));
      this.editor.id = `${this.key}-editor`;
      this.editor.spellcheck = false;
      this.editor.autocomplete = "off";
      this.editor.value = this.original;
      this.editor.rows = Math.min(16, Math.max(3, this.original.split("\n").length));
      label.htmlFor = this.editor.id;
      const back = this.control(button("Back to the original", "link"));
      back.addEventListener("click", () => {
        this.editor.value = this.original;
        this.showProblems([]);
        this.editor.focus();
      });
      const line = make("div", "apnb-editline");
      line.append(label, back);
      this.editBox.append(line, this.editor);
    }
    this.editBox.hidden = !open;
    this.showProblems([]);
    this.editButton.setAttribute("aria-expanded", String(open));
    this.editButton.textContent = open ? "Cancel edit" : "Edit…";
    this.approveButton.textContent = open ? "Approve edited" : "Approve";
    this.changed();
    if (open) this.editor.focus();
    else this.editButton.focus();
  }

  guarded(event, action, ids = [this.id]) {
    const age = performance.now() - this.changedAt;
    if (age >= GUARD_MS) return false;
    this.panel.model.send({ type: "refused", ids, action, age: Math.max(0, Math.round(age)) });
    this.note.textContent = "Not sent: this had only just appeared or changed. Click again.";
    return true;
  }

  click(event, action) {
    const editing = action === "approve" && !this.editBox.hidden;
    const sent = editing ? "edit" : action;
    if (this.guarded(event, sent)) return;
    const message = { type: "answer", ids: [this.id], action: sent, reason: this.reason.value };
    if (editing) message.text = this.editor.value; // what is typed travels with the click
    this.send(message);
  }

  send(message) {
    this.hold();
    this.panel.model.send(message);
  }

  hold() {
    // A button that is switched off loses the focus, and keys would then go to the notebook.
    if (this.element.contains(document.activeElement)) this.element.focus({ preventScroll: true });
    for (const control of this.controls) control.disabled = true;
    this.note.textContent = "Sent …";
    clearTimeout(this.silence);
    this.silence = setTimeout(() => {
      this.note.textContent = "The kernel has not taken this yet.";
    }, SILENCE_MS);
  }

  release() {
    clearTimeout(this.silence);
    for (const control of this.controls) control.disabled = false;
    if (this.note) this.note.textContent = "";
  }

  showProblems(problems) {
    this.problems.replaceChildren(
      ...problems.map(({ field, problem }) => {
        const item = make("li");
        if (field) item.append(make("code", "", field), ": ");
        item.append(make("span", "", problem));
        return item;
      }),
    );
    this.problems.hidden = !problems.length;
    if (!this.editor) return;
    this.editor.setAttribute("aria-invalid", String(problems.length > 0));
    if (problems.length) this.editor.setAttribute("aria-describedby", this.problems.id);
    else this.editor.removeAttribute("aria-describedby");
  }

  problemsCame(problems) {
    if (!this.waits) return;
    this.release();
    this.showProblems(problems);
    this.changed();
    if (document.activeElement === this.element) this.controls.find((control) => control.matches("textarea"))?.focus();
  }

  tick() {
    if (this.waits && this.clock) this.clock.textContent = `waiting ${span(performance.now() - this.since)}`;
  }
}

// The record of a panel, in a page that was reloaded while the panel waited: what the kernel shows for the cell does not
// reach such a page any more. It stands beside the output and goes with it.
function recordBlock({ caption, lines }) {
  const block = make("div", "apnb-record");
  const table = make("table");
  table.append(make("caption", "", caption));
  const body = make("tbody");
  for (const line of lines) {
    const row = make("tr");
    const rest = make("td");
    rest.append(make("code", "", line.call));
    for (const note of line.notes) rest.append(make("div", "", note));
    rest.append(make("div", "apnb-when", line.when));
    row.append(make("td", "apnb-answer", line.answer), rest);
    body.append(row);
  }
  table.append(body);
  block.append(table);
  return block;
}

// A button at the edge of the window while something waits in a panel that is out of view. It never takes the focus; a
// click scrolls to the panel and puts the focus there.
class Pointer {
  constructor(panel) {
    this.panel = panel;
    this.waiting = 0;
    this.seen = false;
    this.since = performance.now(); // of the last change of `seen`
    this.place = null; // where the panel was last seen, for a notebook that takes out of the page what is far away
    this.button = quiet(make("button", "apnb-pointer"));
    this.button.type = "button";
    this.button.addEventListener("click", () => this.go());
    this.watch = new IntersectionObserver((entries) => this.saw(entries[entries.length - 1]), {
      threshold: Array.from({ length: 21 }, (_, step) => step / 20),
    });
    this.watch.observe(panel.root);
  }

  saw({ isIntersecting, intersectionRect, boundingClientRect }) {
    const seen = isIntersecting && intersectionRect.height >= Math.min(80, boundingClientRect.height * 0.9);
    if (seen !== this.seen) this.since = performance.now();
    this.seen = seen;
    this.draw();
    if (!seen) setTimeout(() => this.draw(), POINTER_MS); // not for a panel that is only being put in its place
  }

  count(waiting) {
    this.waiting = waiting;
    this.draw();
  }

  draw() {
    if (this.over) return;
    this.remember();
    const away = !this.seen && performance.now() - this.since >= POINTER_MS - 1;
    if (!this.waiting || !away) return this.remove();
    const words = this.waiting === 1 ? "1 answer needed" : `${this.waiting} answers needed`;
    const text = `${words} ${this.direction()}`.trim();
    if (this.button.textContent !== text) {
      this.button.textContent = text;
      this.button.disabled = this.behind();
      const where = this.button.disabled ? "the approval panel is in another tab" : "go to the approval panel";
      this.button.setAttribute("aria-label", `${words}: ${where}`);
    }
    if (!this.button.isConnected) this.shelf().append(this.button);
  }

  shelf() {
    const found = document.querySelector("body > .apnb-pointers");
    if (found) return found;
    const shelf = quiet(make("div", "apnb-pointers"));
    for (const type of ["keydown", "keyup", "keypress"]) {
      shelf.addEventListener(type, (event) => event.stopPropagation());
    }
    document.body.append(shelf);
    return shelf;
  }

  remember() {
    const { root } = this.panel;
    this.panel.notebook ??= root.closest(".jp-Notebook"); // the first cards may come before the view is in the page
    if (!root.getClientRects().length) return;
    const scroller = root.closest(".jp-WindowedPanel-outer") ?? document.scrollingElement;
    const middle = scroller.getBoundingClientRect().top + scroller.clientHeight / 2;
    this.place = { scroller, top: scroller.scrollTop + root.getBoundingClientRect().top - middle };
  }

  // Whether the whole notebook is out of the page, behind another tab: a page's script cannot bring it to the front.
  behind() {
    return !this.place?.scroller.getClientRects().length;
  }

  direction() {
    if (this.behind()) return "in another tab";
    return this.place.top < this.place.scroller.scrollTop ? "↑" : "↓";
  }

  go() {
    const { root, waiting } = this.panel;
    const arrive = () => {
      if (!root.getClientRects().length) return;
      (waiting[0]?.element ?? root).focus({ preventScroll: true });
      const tall = root.getBoundingClientRect().height > 0.8 * window.innerHeight;
      root.scrollIntoView({ block: tall ? "start" : "center" });
    };
    if (root.getClientRects().length) return arrive();
    const { scroller, top } = this.place ?? {};
    if (scroller?.getClientRects().length) scroller.scrollTop = top; // the notebook puts the cell back into the page
    setTimeout(arrive, POINTER_MS);
  }

  remove() {
    const shelf = this.button.parentElement;
    this.button.remove();
    if (shelf && !shelf.childElementCount) shelf.remove();
  }

  close() {
    this.over = true;
    this.watch.disconnect();
    this.remove();
  }
}

class Panel {
  constructor(model, element) {
    this.model = model;
    this.end = null; // what to do when the view is gone and the waiting is over
    this.cards = new Map();
    this.root = quiet(make("div", "apnb"));
    this.root.tabIndex = -1;
    this.root.setAttribute("role", "region");
    this.root.setAttribute("aria-label", "Approval of tool calls");
    quiet(element);
    this.live = make("div", "apnb-unseen");
    this.live.setAttribute("role", "status");
    this.live.setAttribute("aria-live", "polite");
    this.state = make("span", "apnb-state", "Waiting for the kernel …");
    this.bar = make("div", "apnb-all");
    this.top = make("header", "apnb-top");
    const heading = make("div", "apnb-heading", "Approval needed");
    for (const [attribute, value] of [["role", "heading"], ["aria-level", "3"]]) heading.setAttribute(attribute, value);
    this.top.append(heading, this.state, this.bar);
    this.list = make("div", "apnb-list");
    this.note = make("div", "apnb-note");
    this.note.setAttribute("role", "status");
    this.root.append(this.top, this.note, this.list, this.live);
    this.allButtons = [this.all("approve", "primary"), this.all("deny", "plain")];
    this.bar.append(...this.allButtons);
    this.bar.hidden = true;
    for (const type of ["keydown", "keyup", "keypress"]) {
      this.root.addEventListener(type, (event) => event.stopPropagation());
    }
    element.append(this.root);
    this.pointer = new Pointer(this);
    this.timer = setInterval(() => {
      this.cards.forEach((card) => card.tick());
      this.pointer.draw();
    }, 1000);
  }

  all(action, look) {
    const element = button("", look);
    element.dataset.action = `${action}-all`;
    element.addEventListener("click", (event) => {
      const waiting = this.waiting;
      const ids = waiting.map((card) => card.id);
      const youngest = waiting.reduce((one, card) => (card.changedAt > one.changedAt ? card : one), waiting[0]);
      if (!youngest) return;
      if (youngest.guarded(event, action, ids)) {
        this.note.textContent = "Not sent: a card had only just appeared or changed. Click again.";
        return;
      }
      if (action === "approve" && waiting.some((card) => card.edited)) {
        this.note.textContent = "Not sent: an edit is open. Approve or cancel it first.";
        return;
      }
      this.note.textContent = "";
      if (this.bar.contains(document.activeElement)) this.root.focus({ preventScroll: true });
      for (const one of this.allButtons) one.disabled = true;
      for (const card of waiting) card.hold();
      const plain = waiting.filter((card) => !card.reason.value);
      for (const card of waiting) {
        if (card.reason.value) this.model.send({ type: "answer", ids: [card.id], action, reason: card.reason.value });
      }
      if (plain.length) this.model.send({ type: "answer", ids: plain.map((card) => card.id), action, reason: "" });
    });
    return element;
  }

  get waiting() {
    return [...this.cards.values()].filter((card) => card.waits);
  }

  take(message) {
    if (message?.type === "problems") this.cards.get(message.id)?.problemsCame(message.problems);
    if (message?.type === "cards") this.takeCards(message);
    if (message?.type === "prompt_over") this.endPrompt();
    if (message?.type === "who") this.model.send({ type: "here" });
    if (message?.type === "over") this.over(message.record);
  }

  over(record) {
    this.pointer.close();
    const cell = this.root.closest(".jp-Cell");
    const output = this.root.closest(".jp-OutputArea-output");
    const slot = output?.parentElement;
    const area = slot?.parentElement;
    const focused = this.root.contains(document.activeElement);
    this.end = () => {
      // The place of the focus in command mode; nothing is taken from whoever has moved it meanwhile.
      const nowhere = !document.activeElement || document.activeElement === document.body;
      if (focused && nowhere) cell?.focus({ preventScroll: true });
      setTimeout(() => {
        if (output && output.parentElement === slot && slot.parentElement === area) slot.append(recordBlock(record));
      }, REPLACED_MS);
    };
  }

  // A text prompt that was put before this panel was there: an empty line ends it, and answers nothing.
  endPrompt() {
    const field = this.root.closest(".jp-OutputArea")?.querySelector("input.jp-Stdin-input:not(:disabled)");
    if (!field) return;
    field.value = "";
    field.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", bubbles: true, cancelable: true }));
  }

  takeCards({ cards, waiting, total }) {
    this.notebook ??= this.root.closest(".jp-Notebook");
    const fresh = [];
    const news = [];
    let moved = false;
    for (const data of cards) {
      let card = this.cards.get(data.id);
      if (!card) {
        card = new Card(this, data);
        this.cards.set(data.id, card);
        this.list.append(card.element);
        if (card.waits) fresh.push(card);
      } else {
        const waited = card.waits;
        card.update(data);
        if (waited && !card.waits) {
          moved = true;
          news.push(card.outcome);
        }
      }
    }
    if (moved) for (const card of this.waiting) card.changed(); // what was below may now be under the pointer
    this.cards.forEach((card) => card.tick());
    this.count(waiting, total);
    if (fresh.length) {
      if (fresh.length === this.cards.size) requestAnimationFrame(() => this.reveal());
      this.model.send({ type: "shown", ids: fresh.map((card) => card.id) });
      const names = fresh.slice(0, 5).map((card) => card.name).join(", ");
      const more = fresh.length > 5 ? ` and ${fresh.length - 5} more` : "";
      news.push(`${fresh.length === 1 ? "Your answer is needed" : `${fresh.length} answers are needed`}: ${names}${more}`);
    }
    if (news.length) setTimeout(() => (this.live.textContent = `${[...news, this.state.textContent].join(". ")}.`), 100);
  }

  // A cell that was run near the end of the page would wait below its edge, unseen. A page that shows another part of
  // the notebook is left where it is.
  reveal() {
    const { top, bottom } = this.root.getBoundingClientRect();
    const edge = window.innerHeight;
    const near = top > 0 && top < 1.5 * edge;
    if (near && bottom > edge) this.root.scrollIntoView({ block: bottom - top > 0.8 * edge ? "start" : "end" });
  }

  count(waiting, total) {
    this.state.textContent = `${waiting} of ${total} waiting`;
    this.pointer.count(waiting);
    const approvals = this.waiting.filter((card) => card.form === "approval");
    this.bar.hidden = approvals.length < 2 || approvals.length !== this.waiting.length;
    const [approve, deny] = this.allButtons;
    approve.textContent = `Approve all ${approvals.length} as shown`;
    deny.textContent = `Deny all ${approvals.length}`;
    for (const one of this.allButtons) one.disabled = false;
  }

  focusNext(done) {
    const cards = [...this.cards.values()];
    const place = cards.indexOf(done);
    const next = [...cards.slice(place + 1), ...cards.slice(0, place)].find((card) => card.waits);
    (next ?? done).element.focus({ preventScroll: false });
  }

  lost() {
    clearInterval(this.timer);
    this.pointer.close();
    this.state.textContent = "The kernel has been restarted: nothing waits here any more.";
    for (const card of this.waiting) for (const control of card.controls) control.disabled = true;
    for (const one of this.allButtons) one.disabled = true;
  }

  close() {
    clearInterval(this.timer);
    this.cards.forEach((card) => clearTimeout(card.silence));
    this.pointer.close();
    const { end, notebook, model } = this;
    setTimeout(() => {
      if (end) end();
      else if (notebook?.isConnected) model.send({ type: "gone" }); // the output was cleared, the notebook is still there
    });
  }
}

export default {
  render({ model, el }) {
    const panel = new Panel(model, el);
    const take = (message) => panel.take(message);
    const lost = () => panel.lost();
    model.on("msg:custom", take);
    model.on("comm_live_update", lost); // the manager cuts its widgets off when the kernel restarts
    model.send({ type: "hello" });
    return () => {
      model.off("msg:custom", take);
      model.off("comm_live_update", lost);
      panel.close();
    };
  },
};
