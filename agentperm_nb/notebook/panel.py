"""The panel: one widget for a waiting turn, whatever the number of its requests.

1. It draws what waits at the desk, and hands what is clicked to the desk. It decides nothing.
2. Nothing of the arguments is in the widget's state: cards go to the page as messages, on its greeting and on changes.
3. A click is one message which carries the whole answer, so no typed text is lost. An edit that does not fit is said at
   its form, and nothing reaches the desk.
4. A message that is not exactly of a known form, or that names something this panel has not sent to a page, changes
   nothing and is reported in the Python log.
5. A page that takes its view away says so; a page that still has one says that when it is asked. So it is known whether
   any page shows the panel, though pages may go without a word.
6. A click within 350 ms after its card appeared or changed is ignored by the page and noted at the desk.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anywidget

from agentperm_nb.approvals.decisions import ApprovalDecision
from agentperm_nb.approvals.desk import Answer, Desk, DeskChange, the_desk
from agentperm_nb.approvals.editing import decision_of
from agentperm_nb.approvals.facts import clock
from agentperm_nb.approvals.requests import ApprovalRequest, EditError
from agentperm_nb.context import who
from agentperm_nb.human import parse_answer
from agentperm_nb.notebook.cards import Node, answer_word, approval_card, choices_of, question_card
from agentperm_nb.render import visible

__all__ = ["ApprovalPanel", "Question"]

_log = logging.getLogger("agentperm_nb")
_HERE = Path(__file__).parent
_LONGEST_REASON = 10_000
_ACTIONS = ("approve", "deny", "deny_stop", "edit")
_UNANSWERED: Any = object()


class Question:
    """A plain question in a panel, and its answer.

    Args:
        prompt: The question.
        returns: ``str``, ``bool`` or a ``Literal``.
    """

    def __init__(self, prompt: str, returns: Any = str) -> None:
        self.id: str = f"question_{secrets.token_hex(8)}"
        self.prompt = prompt
        self.returns = returns
        self.asked_at: datetime = datetime.now(UTC)
        self.answered_at: datetime | None = None
        self.value: Any = _UNANSWERED

    @property
    def answered(self) -> bool:
        """Whether it has its answer, which is `value`."""
        return self.value is not _UNANSWERED

    def answer(self, value: object) -> None:
        """Give the answer; a second one changes nothing.

        Raises:
            ValueError: It does not fit; the message says what would.
        """
        parsed = parse_answer(value, self.returns)
        if not self.answered:
            self.value, self.answered_at = parsed, datetime.now(UTC)


class _RefusedError(Exception):
    """A message that changes nothing."""


class ApprovalPanel(anywidget.AnyWidget):
    """Requests and questions, drawn under a cell.

    Args:
        requests: Requests that wait at the desk.
        questions: Plain questions.
        desk: The desk.
    """

    _esm = (_HERE / "panel.js").read_text("utf-8")
    _css = (_HERE / "panel.css").read_text("utf-8")

    def __init__(
        self,
        requests: Sequence[ApprovalRequest] = (),
        questions: Sequence[Question] = (),
        *,
        desk: Desk = the_desk,
    ) -> None:
        super().__init__()
        self.greeted_at: datetime | None = None
        """When a page first said that the panel is on the screen."""
        self.settled: dict[str, DeskChange] = {}
        """How the requests that no longer wait left the desk, by request id."""
        self.settled_at: dict[str, datetime] = {}
        self._requests = {request.id: request for request in requests}
        self._questions = {question.id: question for question in questions}
        self._desk = desk
        self._on_change: Callable[[], object] = lambda: None
        self._seen: set[str] = set()
        self._stale: set[str] = set()
        self._over = False
        self._gone_since: float | None = None
        self._unsubscribe = desk.subscribe(self._desk_changed)
        for request in requests:  # what left before the panel was made is not told by the subscription
            if not desk.is_open(request.id):
                self._settle(DeskChange("withdrawn", request.id, detail="it no longer waited"))
        self.on_msg(self._received)

    @property
    def on_screen(self) -> bool:
        """Whether a page shows the panel, as far as is known."""
        return self.greeted_at is not None and self._gone_since is None

    @property
    def gone_since(self) -> float | None:
        """Since when (`time.monotonic`) no page shows it, after one did; None while one does."""
        return self._gone_since

    @property
    def waiting(self) -> int:
        """How many requests and questions still wait."""
        open_requests = sum(self._desk.is_open(request_id) for request_id in self._requests)
        return open_requests + sum(not question.answered for question in self._questions.values())

    def listen(self, on_change: Callable[[], object]) -> None:
        """Call `on_change` after anything that may end the waiting or change what is shown, on any thread."""
        self._on_change = on_change

    def refresh(self) -> None:
        """Send the cards that have changed to the pages, if any page is there."""
        stale = [key for key in self._cards_order() if key in self._stale]
        self._stale.difference_update(stale)
        if stale and self.greeted_at is not None and not self._over:
            self.send({"type": "cards", "cards": [self._card(key) for key in stale], **self._counts()})

    def take_prompt_back(self) -> None:
        """Ask the pages to end a text prompt that is open below the panel."""
        if self.greeted_at is not None and not self._over:
            self.send({"type": "prompt_over"})

    def tell_record(self, record: Mapping[str, Any]) -> None:
        """Give the pages what to show in place of the panel where they cannot replace its output; see `Record.node`."""
        if self.greeted_at is not None and not self._over:
            self.refresh()
            self.send({"type": "over", "record": dict(record)})

    def finish(self) -> None:
        """Show nothing more, take no more clicks, and close the widget with all that belongs to it."""
        if self._over:
            return
        self.refresh()
        self._over = True
        self._unsubscribe()
        layout = self.layout
        self.close()
        if layout is not None:
            layout.close()

    # Messages from the page ---------------------------------------------------------------------------------------

    def _received(self, _widget: object, content: object, _buffers: object) -> None:
        # A click handler prints nothing and raises nothing: whatever happens, happens in the log.
        try:
            self._take(content)
        except _RefusedError as refused:
            _log.warning("a message to an approval panel was ignored: %s", refused)
        except Exception:  # noqa: BLE001 - see above
            _log.exception("a message to an approval panel could not be handled")

    def _take(self, content: object) -> None:
        if self._over:
            raise _RefusedError("the panel is over")
        if not isinstance(content, dict):
            raise _RefusedError("it is not an object")
        takers: dict[str, Callable[[Mapping[str, Any]], None]] = {
            "hello": self._hello,
            "here": self._here,
            "gone": self._gone,
            "shown": self._shown,
            "answer": self._answer,
            "refused": self._refused,
            "reply": self._reply,
        }
        kind = content.get("type")
        if not isinstance(kind, str) or kind not in takers:
            raise _RefusedError("its type is not known")
        if kind != "hello" and self.greeted_at is None:
            raise _RefusedError(f"{kind!r} came before any greeting")
        takers[kind](content)

    def _hello(self, content: Mapping[str, Any]) -> None:
        _fields(content, {})
        if self.greeted_at is None:
            self.greeted_at = datetime.now(UTC)
        self._gone_since = None
        self._stale.clear()
        self._seen.update(self._cards_order())
        cards = [self._card(key) for key in self._cards_order()]
        self.send({"type": "cards", "all": True, "cards": cards, **self._counts()})
        self._on_change()

    def _here(self, content: Mapping[str, Any]) -> None:
        _fields(content, {})
        self._gone_since = None

    def _gone(self, content: Mapping[str, Any]) -> None:
        _fields(content, {})
        if self._gone_since is None:
            self._gone_since = time.monotonic()
        self.send({"type": "who"})  # pages that went away without a word do not answer

    def _shown(self, content: Mapping[str, Any]) -> None:
        _fields(content, {"ids": list})
        for request_id in self._known(content["ids"]):
            if request_id in self._requests:
                self._desk.shown(request_id, "panel")

    def _answer(self, content: Mapping[str, Any]) -> None:
        _fields(content, {"ids": list, "action": str, "reason": str}, {"text": str})
        action, reason = content["action"], _reason(content["reason"])
        if action not in _ACTIONS:
            raise _RefusedError("its action is not known")
        requests = [self._requests[key] for key in self._known(content["ids"]) if key in self._requests]
        if len(requests) != len(content["ids"]):
            raise _RefusedError("it answers a question as if it were a request")
        if (action in ("edit", "deny_stop")) and len(requests) != 1:
            raise _RefusedError(f"{action!r} goes with one request")
        if (action == "edit") != ("text" in content):
            raise _RefusedError("a text goes with an edit, and only with an edit")
        if action == "edit":
            self._edit(requests[0], content["text"], reason)
        else:
            decision = _decision(action, reason)
            for request in requests:
                self._hand_over(request.id, decision)
        self.refresh()

    def _edit(self, request: ApprovalRequest, text: str, reason: str | None) -> None:
        try:
            decision = decision_of(request, text, reason=reason)
        except EditError as error:
            problems = [{"field": visible(field), "problem": visible(problem)} for field, problem in error.problems]
            self.send({"type": "problems", "id": request.id, "problems": problems})
            return
        self._hand_over(request.id, decision)

    def _hand_over(self, request_id: str, decision: ApprovalDecision) -> None:
        name, name_from = who()
        counted = self._desk.answer(
            request_id, Answer(decision, "human", approver=name, approver_from=name_from, via="panel")
        )
        if not counted:
            self._stale.add(request_id)  # another answer came first: the page shows which

    def _refused(self, content: Mapping[str, Any]) -> None:
        _fields(content, {"ids": list, "action": str, "age": int})
        if content["action"] not in (*_ACTIONS, "choose"):
            raise _RefusedError("its action is not known")
        age = max(0, min(content["age"], 10_000))
        action = "approve" if content["action"] == "edit" else content["action"]
        name, name_from = who()
        for key in self._known(content["ids"]):
            if key in self._requests and self._desk.is_open(key):
                answer = Answer(_decision(action, None), "human", approver=name, approver_from=name_from, via="panel")
                self._desk.refuse(key, answer, f"clicked {age} ms after the card had appeared or changed")

    def _reply(self, content: Mapping[str, Any]) -> None:
        _fields(content, {"id": str}, {"choice": int, "text": str})
        question = self._questions.get(self._known([content["id"]])[0])
        if question is None:
            raise _RefusedError("it answers a request as if it were a question")
        if ("choice" in content) == ("text" in content):
            raise _RefusedError("a reply holds a choice or a text")
        if question.returns is str:
            value = content.get("text")
        else:
            choices = choices_of(question.returns)
            place = content.get("choice", -1)
            value = choices[place] if 0 <= place < len(choices) else None
        if value is None:
            raise _RefusedError("its choice is not one of the question's")
        try:
            question.answer(value)
        except ValueError as error:
            problem = {"field": "", "problem": visible(str(error))}
            self.send({"type": "problems", "id": question.id, "problems": [problem]})
            return
        self._stale.add(question.id)
        self.refresh()
        self._on_change()

    def _known(self, ids: list[Any]) -> list[str]:
        if not ids or not all(isinstance(key, str) for key in ids) or len(set(ids)) != len(ids):
            raise _RefusedError("its ids are not a list of different texts")
        if any(key not in self._seen for key in ids):
            raise _RefusedError("it names something that this panel does not show")
        return ids

    # What the page is told ----------------------------------------------------------------------------------------

    def _desk_changed(self, change: DeskChange) -> None:
        if change.request_id not in self._requests:
            return
        if change.kind in ("answered", "withdrawn", "expired"):
            self._settle(change)
            self._on_change()

    def _settle(self, change: DeskChange) -> None:
        self.settled[change.request_id] = change
        self.settled_at[change.request_id] = change.answer.time if change.answer else datetime.now(UTC)
        self._stale.add(change.request_id)

    def _cards_order(self) -> list[str]:
        return [*self._requests, *self._questions]

    def _counts(self) -> Node:
        return {"waiting": self.waiting, "total": len(self._requests) + len(self._questions)}

    def _card(self, key: str) -> Node:
        if key in self._questions:
            question = self._questions[key]
            if question.answered:
                text = f"Answered: {visible(str(question.value))}"
                return {"id": key, "form": "settled", "name": visible(question.prompt), "tone": "yes", "text": text}
            return question_card(key, question.prompt, question.returns, question.asked_at)
        change = self.settled.get(key)
        return approval_card(self._requests[key], settled=None if change is None else self._outcome(change))

    def _outcome(self, change: DeskChange) -> Node:
        at = clock(self.settled_at[change.request_id], seconds=True)
        if change.answer is None:
            why = f": {visible(change.detail)}" if change.detail else ""
            return {"tone": "none", "text": f"{change.kind} at {at}{why}"}
        by = change.answer.approver or change.answer.answered_by
        reason = change.answer.decision.reason
        said = f" — {visible(reason)}" if reason else ""
        tone = "yes" if change.answer.decision.allows else "no"
        return {"tone": tone, "text": f"{answer_word(change.answer)} by {visible(by)} at {at}{said}"}


def _decision(action: str, reason: str | None) -> ApprovalDecision:
    if action == "approve":
        return ApprovalDecision("allow", reason=reason)
    return ApprovalDecision("deny", reason=reason, stop=action == "deny_stop")


def _reason(text: str) -> str | None:
    if len(text) > _LONGEST_REASON:
        raise _RefusedError("its reason is too long")
    return text.strip() or None


def _fields(content: Mapping[str, Any], needed: Mapping[str, type], optional: Mapping[str, type] | None = None) -> None:
    """Refuse a message that lacks a field, has one too many, or one of another type."""
    known = {"type": str, **needed, **(optional or {})}
    if not set(content) <= set(known) or not set(needed) <= set(content):
        raise _RefusedError("its fields are not those of its type")
    for name, value in content.items():
        if type(value) is not known[name]:
            raise _RefusedError(f"its field {name} has the wrong type")
