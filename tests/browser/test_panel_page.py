"""The panel in a real page: clicks, typing, the keyboard, the themes, and what is left in the notebook."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from driver import PATIENCE, NotebookPage
from servers import EVERYWHERE, LAB_7, NOTEBOOK_7

TESTS = Path(__file__).parents[1]
SETUP = (
    f"{PATIENCE}import sys; sys.path.insert(0, {str(TESTS)!r})\n"
    "from waiting import *\nfrom agentperm_nb.notebook.human import *"
)
ONE = "print(await ask(make_request()))"
THREE = (
    "print(await ask(make_request(), make_request('delete_file', {'path': 'x'}), make_request('send', {'to': 'ada'})))"
)


def started(open_notebook, where, *cells: str, theme: str = "light", fresh: bool = False) -> NotebookPage:
    """Run all cells after the set-up; return when the panel takes clicks."""
    nb = open_notebook([SETUP, *cells], where, theme=theme, fresh=fresh)
    nb.run_all()
    nb.wait_button("Approve")
    nb.wait_guard()
    return nb


@pytest.mark.parametrize("where", EVERYWHERE, ids=str)
def test_a_click_lets_the_cell_go_on_and_the_cells_behind_it_follow_in_order(open_notebook, where):
    nb = started(open_notebook, where, ONE, *[f"print('behind', {n})" for n in range(5)])
    nb.click("Approve")
    nb.wait_output(6, "behind 4")
    nb.wait_idle()
    assert "✓ write_file" in nb.output(1)
    assert "answered allow" in nb.output(1)
    counts = nb.execution_counts()
    assert counts == sorted(counts)


@pytest.mark.parametrize("where", EVERYWHERE, ids=str)
def test_an_edit_that_is_typed_and_sent_at_once_arrives_whole(open_notebook, where):
    nb = started(open_notebook, where, ONE)
    nb.click("Edit…")
    nb.wait_visible(nb.field(".apnb-editor"))
    text = json.dumps({"path": "edited text one two.txt", "content": "three " * 20})
    nb.type(text, ".apnb-editor", delay=0.002)
    nb.click("Approve edited")
    nb.wait_output(1, f"answered edit args={json.loads(text)}")
    assert 'path: "notes.txt" → "edited text one two.txt"' in nb.output(1)


@pytest.mark.parametrize("where", EVERYWHERE, ids=str)
def test_a_blocking_cell_gets_its_click(open_notebook, where):
    nb = started(open_notebook, where, "print(block(make_request()))", "print('behind')")
    nb.field(".apnb-reason").fill("not now")
    nb.click("Deny")
    nb.wait_output(2, "behind")
    assert "answered deny reason=not now" in nb.output(1)


@pytest.mark.parametrize("where", EVERYWHERE, ids=str)
@pytest.mark.parametrize("call", ["await ask(request)", "block(request)"], ids=["awaiting", "blocking"])
def test_an_interrupt_ends_the_wait_and_approves_nothing(open_notebook, where, call):
    nb = started(open_notebook, where, f"request = make_request()\n{call}", "from waiting import the_desk\nthe_desk")
    nb.interrupt()
    nb.wait_output(1, "not answered: the wait was cancelled")
    nb.wait_idle()
    nb.wait_no(".apnb")
    nb.run(2)
    nb.wait_output(2, "Desk(1 waiting)")


@pytest.mark.parametrize(
    ("button", "expected"),
    [("Deny", "answered deny reason=not today"), ("Deny and stop", "answered deny stop reason=not today")],
)
def test_a_denial_carries_the_reason_that_was_typed(open_notebook, button, expected):
    nb = started(open_notebook, LAB_7, ONE)
    nb.type("not today", ".apnb-reason", delay=0)
    nb.click(button)
    nb.wait_output(1, expected)


def test_an_edit_that_does_not_fit_is_said_at_the_form(open_notebook):
    nb = started(
        open_notebook, LAB_7, "print(await ask(make_request(properties={'path': {'type': 'string'}, 'content': {}})))"
    )
    nb.click("Edit…")
    nb.type('{"path": 7}', ".apnb-editor", delay=0)
    nb.click("Approve edited")
    problems = nb.wait_visible(nb.page.locator(".apnb-problems"))
    assert 'path: 7 is not of type "string"' in problems.inner_text()
    assert nb.field(".apnb-editor").get_attribute("aria-invalid") == "true"
    nb.click("Back to the original")
    assert json.loads(nb.field(".apnb-editor").input_value()) == {"path": "notes.txt", "content": "Buy milk."}
    problems.wait_for(state="hidden")
    nb.click("Approve edited")
    nb.wait_output(1, "answered allow")


def test_approve_all_approves_what_still_waits_and_reasons_stay_with_their_cards(open_notebook):
    nb = started(open_notebook, LAB_7, THREE)
    assert "3 of 3 waiting" in nb.page.locator(".apnb-top").inner_text()
    nb.click("Deny", nth=1)
    nb.wait_button("Approve all 2 as shown")
    assert "2 of 3 waiting" in nb.page.locator(".apnb-top").inner_text()
    nb.field(".apnb-reason", nth=1).fill("only to ada")
    nb.click("Approve all 2 as shown")
    nb.wait_output(1, "['answered deny', 'answered allow reason=only to ada', 'answered allow']")


def test_approve_all_waits_for_an_edit_that_is_open(open_notebook):
    nb = started(open_notebook, LAB_7, THREE)
    nb.click("Edit…")
    nb.type("{}", ".apnb-editor", delay=0)
    nb.click("Approve all 3 as shown")
    nb.wait_visible(nb.page.get_by_text("Not sent: an edit is open."))
    assert nb.button("Deny", nth=2).is_enabled()


def test_a_click_on_a_card_that_has_only_just_appeared_is_ignored_and_noted(open_notebook):  # P11
    nb = open_notebook([SETUP, "request = make_request()\nlog = open_requests(request)", ONE], LAB_7)
    nb.js(
        """new MutationObserver((_, watch) => { const b = document.querySelector('.apnb [data-action=approve]');
            if (b) { watch.disconnect(); b.click(); } }).observe(document.body, {childList: true, subtree: true});"""
    )
    nb.run_all()
    nb.wait_visible(nb.page.get_by_text("Not sent: this had only just appeared"))
    nb.click("Deny")
    nb.wait_output(2, "answered deny")
    assert "late allow (clicked " in nb.output(2)
    assert "ms after the card had appeared or changed)" in nb.output(2)


def test_a_card_that_a_busy_page_has_not_painted_yet_takes_no_click(open_notebook):  # P11
    imported = "from agentperm_nb.notebook.panel import ApprovalPanel"
    held = "window.paints = []; const requestAnimationFrame = paint => window.paints.push(paint);\\n"
    cell = f"{imported}\nApprovalPanel._esm = '{held}' + ApprovalPanel._esm\n"
    nb = open_notebook([SETUP, cell + ONE], LAB_7)
    nb.run_all()
    nb.wait_button("Approve")
    nb.js("await new Promise(done => setTimeout(done, 500));")  # longer than a painted card refuses clicks
    nb.button("Approve").click()
    nb.wait_visible(nb.page.get_by_text("Not sent: this had only just appeared"))
    nb.js("window.paints.forEach(paint => paint());")
    nb.click("Approve")
    nb.wait_output(1, "answered allow")


def test_two_clicks_are_one_answer(open_notebook):  # A16
    nb = started(open_notebook, LAB_7, ONE)
    nb.button("Approve").evaluate("button => { button.click(); button.click(); }")
    nb.wait_output(1, "['answered allow']")


def test_the_panel_never_takes_the_focus(open_notebook):  # P11
    nb = started(open_notebook, LAB_7, THREE)
    assert nb.js("return !document.querySelector('.apnb').contains(document.activeElement);")
    nb.button("Deny", nth=0).focus()
    nb.page.keyboard.press("Enter")
    nb.wait_button("Approve all 2 as shown")
    nb.wait_js("() => document.activeElement.matches('.apnb-card')", what="the focus on the next card")
    assert nb.js("return document.activeElement.textContent.includes('delete_file');")


def test_everything_can_be_done_with_the_keyboard_alone(open_notebook):
    nb = started(open_notebook, LAB_7, ONE, "print('behind')")
    nb.js("document.querySelector('.apnb').focus();")
    reached = []
    for _ in range(12):
        nb.page.keyboard.press("Tab")
        reached.append(nb.js("const e = document.activeElement; return e.getAttribute('aria-label') || e.textContent;"))
        if reached[-1] == "Deny and stop":
            break
    assert reached == ["Reason", "Approve", "Edit…", "Deny", "Deny and stop"]
    shadow = nb.js("return getComputedStyle(document.activeElement).outlineStyle;")
    assert shadow == "solid"  # the focus is seen
    nb.page.keyboard.press("Shift+Tab")
    nb.page.keyboard.press("Shift+Tab")
    nb.page.keyboard.press("Enter")
    nb.wait_js("() => document.activeElement.matches('.apnb-editor')", what="the focus in the editor")
    nb.wait_guard()
    nb.page.keyboard.press("Control+a")
    nb.page.keyboard.type('{"path": "k", "content": "keys"}')
    nb.page.keyboard.press("Tab")
    nb.page.keyboard.type("by keys")
    nb.page.keyboard.press("Enter")  # no answer
    nb.page.keyboard.press("Tab")
    assert nb.js("return document.activeElement.textContent;") == "Approve edited"
    nb.page.keyboard.press("Enter")
    nb.wait_output(1, "answered edit reason=by keys args={'path': 'k', 'content': 'keys'}")
    nb.wait_output(2, "behind")


@pytest.mark.parametrize("where", [LAB_7, NOTEBOOK_7], ids=str)
def test_the_notebooks_shortcuts_do_not_act_in_the_panel(open_notebook, where):
    nb = started(
        open_notebook,
        where,
        "print(await ask(make_request(args={'path': 'x', 'content': 'line\\n' * 50})))",
        "'behind'",
    )
    nb.click("Edit…")
    nb.wait_visible(nb.field(".apnb-editor"))
    nb.wait_guard()
    before = nb.js("return [cells().length, panel().content.activeCellIndex];")
    places = [".apnb-reason", ".apnb-editor", ".apnb-code", "[data-action=deny]", "[data-action=approve]", ".apnb-card"]
    for place in places:
        nb.page.locator(place).first.focus()
        for keys in ("d", "d", "j", "k", "a", "x", "0", "0", "Shift+Enter", "Control+s", "Escape"):
            if keys == "Shift+Enter" and place.startswith("["):
                continue  # presses the button, as it should
            nb.page.keyboard.press(keys)
    assert nb.js("return [cells().length, panel().content.activeCellIndex];") == before
    assert nb.button("Approve edited").is_enabled()
    assert nb.execution_counts()[1:] == [None, None]
    nb.click("Deny")
    nb.wait_output(1, "answered deny")


def test_hostile_text_makes_no_element(open_notebook):  # P07
    args = {
        "path": "<img src=x onerror=alert(1)>",
        "content": "</pre><button>Approve</button>\n<script>alert(2)</script>",
    }
    nb = started(open_notebook, LAB_7, f"print(await ask(make_request(args={args!r}, question='<b>Sure</b>\\u202e?')))")
    assert nb.page.locator(".apnb img, .apnb script, .apnb b").count() == 0
    assert nb.button("Approve").count() == 1
    assert "<img src=x onerror=alert(1)>" in nb.page.locator(".apnb-args").inner_text()
    assert "\\u{202E}" in nb.page.locator(".apnb-title").inner_text()
    nb.click("Deny")
    nb.wait_output(1, "answered deny")
    assert nb.page.locator(".jp-OutputArea img, .jp-OutputArea script").count() == 0


def test_the_page_tells_a_screen_reader_what_is_what(open_notebook):  # P18
    nb = started(open_notebook, LAB_7, THREE)
    nb.wait_js(
        "s => document.querySelector('.apnb [aria-live=polite]').textContent.includes(s)",
        "3 answers are needed: write_file, delete_file, send.",
    )
    cards = nb.page.locator(".apnb [role=group]")
    assert cards.count() == 3
    nb.page.get_by_role("group", name="Run delete_file(…)?").get_by_role("button", name="Deny", exact=True).click()
    nb.wait_js("() => document.querySelector('.apnb [aria-live]').textContent.includes('delete_file: denied')")
    unlabelled = "button:not(:has-text(' ')):empty, input:not([aria-label]), textarea:not([id]):not([aria-labelledby])"
    assert nb.page.locator(f".apnb :is({unlabelled})").count() == 0


_CONTRAST = """
const rgb = text => text.match(/[\\d.]+/g).map(Number).map((v, i) => text.startsWith('color') && i < 3 ? v * 255 : v);
const over = (top, below) => { const a = top[3] ?? 1; return [0, 1, 2].map(i => top[i] * a + below[i] * (1 - a)); };
const behind = e => { let layers = [];
    for (; e; e = e.parentElement) layers.push(rgb(getComputedStyle(e).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255]); };
const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b; };
const bad = [];
for (const e of document.querySelectorAll('.apnb *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || !e.offsetParent) continue;
    const back = behind(e), ink = over(rgb(getComputedStyle(e).color), back);
    const [x, y] = [light(back), light(ink)].sort((a, b) => b - a), ratio = (x + .05) / (y + .05);
    if (ratio < 4.5) bad.push(`${e.className || e.tagName}: ${ratio.toFixed(2)}`);
}
return bad;
"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_text_can_be_read_in_both_themes(open_notebook, theme):
    cell = "print(await ask(make_request(args={'path': 'a\\u200b', 'content': 'x\\n' * 9}), make_request()))"
    nb = started(open_notebook, LAB_7, cell, theme=theme)
    nb.click("Edit…")
    nb.type("{", ".apnb-editor", delay=0)
    nb.click("Approve edited")
    nb.wait_visible(nb.page.locator(".apnb-problems").first)
    assert nb.js(_CONTRAST) == []


@pytest.mark.parametrize("where", EVERYWHERE, ids=str)
def test_the_saved_notebook_holds_the_record_and_no_widget_and_no_secret(open_notebook, where):
    nb = started(
        open_notebook, where, "print(await ask(make_request('get', {'url': 'u', 'token': 't' + '0k-1234567890'})))"
    )
    while_waiting = json.dumps(nb.save())
    assert "Asked at" in while_waiting
    nb.click("Approve")
    nb.wait_output(1, "answered allow")
    nb.wait_idle()
    saved = nb.save()
    record = saved["cells"][1]["outputs"][0]["data"]
    assert set(record) == {"text/plain", "text/html"}
    assert "[masked]" in "".join(record["text/plain"])
    for content in (while_waiting, json.dumps(saved)):
        assert "t0k-1234567890" not in content
    assert "apnb" not in json.dumps(saved["metadata"])


@pytest.mark.parametrize("where", EVERYWHERE, ids=str)
@pytest.mark.parametrize("call", ["await ask(request)", "block(request)"], ids=["awaiting", "blocking"])
def test_a_reloaded_page_draws_the_panel_again_and_its_click_counts(open_notebook, where, call):
    nb = started(open_notebook, where, f"request = make_request()\nsaid = {call}", "said", fresh=True)
    nb.save()
    nb.reload()
    nb.click("Approve")
    nb.wait_no(".apnb [data-action=approve]")
    nb.wait_idle()
    nb.run(2)
    nb.wait_output(2, "['answered allow']")


_MUTE = (
    "from agentperm_nb.notebook.panel import ApprovalPanel\nApprovalPanel._esm = 'export default {{ render() {{}} }}'\n"
)


@pytest.mark.parametrize("where", EVERYWHERE, ids=str)
@pytest.mark.parametrize("call", ["await ask(request, prompt_after=4)", "block(request, prompt_after=4)"])
def test_a_panel_that_does_not_show_itself_becomes_a_text_prompt(open_notebook, where, call):
    nb = open_notebook([SETUP, f"{_MUTE.format()}request = make_request()\nprint({call})", "print('behind')"], where)
    nb.run_all()
    nb.wait_output(1, "pip install anywidget")
    nb.answer_input("d")
    nb.answer_input("by text")
    nb.wait_output(2, "behind")
    assert "answered deny reason=by text" in nb.output(1)


_LATE = """
from agentperm_nb.notebook import waits
waits._PATIENCE = 60.0  # for a page that takes long on a busy machine
from agentperm_nb.notebook.panel import ApprovalPanel
hello = 'model.send({ type: "hello" });'
assert hello in ApprovalPanel._esm
ApprovalPanel._esm = ApprovalPanel._esm.replace(hello, 'window.greet = () => ' + hello)
print(await ask(make_request(), prompt_after=0.5))
"""


def type_name(nb: NotebookPage) -> None:
    """Run cell 2, which asks for a name, and type it: another reader of the input would take it away."""
    nb.run(2)
    nb.answer_input("ada", cell=2)
    nb.wait_output(2, "got ada")


@pytest.mark.parametrize("where", EVERYWHERE, ids=str)
def test_a_late_panel_answers_and_takes_the_text_prompt_back(open_notebook, where):
    nb = open_notebook([SETUP, _LATE, "print('got', input('name? '))"], where)
    nb.run(0)
    nb.wait_idle()
    nb.run(1)
    nb.wait_visible(nb.page.locator("input.jp-Stdin-input"))
    nb.js("window.greet();")
    nb.click("Approve")
    nb.wait_output(1, "['answered allow']")
    nb.wait_idle()
    type_name(nb)


@pytest.mark.parametrize("where", EVERYWHERE, ids=str)
def test_an_interrupt_at_the_text_prompt_leaves_the_input_to_the_next_cell(open_notebook, where):
    cell = f"{_MUTE.format()}await ask(make_request(), prompt_after=0.5)"
    nb = open_notebook([SETUP, cell, "print('got', input('name? '))"], where)
    nb.run(0)
    nb.wait_idle()
    nb.run(1)
    nb.wait_visible(nb.page.locator("input.jp-Stdin-input"))
    nb.interrupt()
    nb.wait_output(1, "not answered: the wait was cancelled")
    nb.wait_idle()
    type_name(nb)


@pytest.mark.parametrize(
    "call", ["await NotebookHuman().aask(None, 'Colour?', c)", "NotebookHuman().ask(None, 'Colour?', c)"]
)
def test_a_plain_question_is_asked_in_the_panel(open_notebook, call):
    nb = open_notebook([SETUP, f"from typing import Literal\nc = Literal['red', 'green']\nprint('got', {call})"], LAB_7)
    nb.run_all()
    nb.click("green")
    nb.wait_output(1, "got green")
    assert "✓ Colour?: green" in nb.output(1)
