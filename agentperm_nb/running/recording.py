"""What the engine writes into the log of one turn. Everything passes the redactor on its way.

A reason, an error or a question may quote an argument that is masked whole: its value is masked there too, which the
redactor alone, to which it is a word like any other, could not know.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from agentperm_nb.approvals.desk import Answer
from agentperm_nb.audit.changes import ChangeEvent, Changes, change_of
from agentperm_nb.audit.events import Event, EventKind
from agentperm_nb.audit.store import Store
from agentperm_nb.context import RunContext
from agentperm_nb.json_values import sha256
from agentperm_nb.redaction import Redactor
from agentperm_nb.render import MASK

if TYPE_CHECKING:
    from agentperm_nb.running.items import CallItem

__all__ = ["Recorder", "describe_error", "hidden_values", "without"]

_SHORTEST = 4  # characters of a value that is looked for in other texts


class Recorder:
    """Makes the events of a turn and appends them."""

    def __init__(
        self,
        store: Store,
        redactor: Redactor,
        policy_id: str,
        context: RunContext,
        turn: int | None,
        changes: Changes | None = None,
    ) -> None:
        self._store, self._redactor = store, redactor
        self._changes = changes
        """Who is told of decisions, if anybody."""
        self._untold: list[ChangeEvent] = []
        self._turn = turn
        self._same = (context.run_id, context.session_id, _host(), context.agent_path, context.user_id, policy_id)
        """What every event of the turn has, in the order of an event's fields."""
        self._held: list[Event] = []
        self.latest: datetime = datetime.now(UTC)
        """Time of the latest event."""
        self._reason: str = ""
        self._reason_masked: str | None = None

    def hold(self, kind: EventKind, item: CallItem | None = None, answer: Answer | None = None, **data: Any) -> None:
        """Make an event that is written with the next `write`."""
        self._held.append(self._event(kind, item, answer, data))

    def at_once(self, kind: EventKind, item: CallItem | None = None, answer: Answer | None = None, **data: Any) -> None:
        """Append one event past those that are held; may be called from any thread."""
        self._store.append([self._event(kind, item, answer, data)])

    def _event(self, kind: EventKind, item: CallItem | None, answer: Answer | None, data: dict[str, Any]) -> Event:
        if item is None:
            event = Event(kind, datetime.now(UTC), *self._same, "", self._turn, data=data)
        else:
            event = self._of_call(kind, item, data)
        if answer is not None:
            event.approver, event.approver_from = answer.approver, answer.approver_from
        self._note_change(event, item)
        return event

    def _note_change(self, event: Event, item: CallItem | None) -> None:
        if self._changes and item is not None:
            by = item.decided_by if event.kind == "decided" else item.rule
            rule = item.rule_names.get(by or "", by or "")
            if item.may_hide:
                by, rule = without(by, item.hidden), without(rule, item.hidden)
            told = change_of(
                event.kind, item.call.name, item.shown_args, item.call_key, event.run, event.data, event.approver,
                decided_by=by or "", rule_name=rule,
            )  # fmt: skip
            if told is not None:
                self._untold.append(told)

    def _of_call(self, kind: EventKind, item: CallItem, data: dict[str, Any], now: datetime | None = None) -> Event:
        if item.may_hide:
            data = without(data, item.hidden)
        if now is None:
            self.latest = now = datetime.now(UTC)
        return Event(
            kind, now, *self._same, item.call_key, self._turn, item.position, item.call.id, item.digest,
            None, None, data,
        )  # fmt: skip

    def write(self) -> None:
        """Append what is held."""
        held, self._held = self._held, []
        if held:
            self._store.append(held)
        if self._untold and self._changes is not None:
            untold, self._untold = self._untold, []
            self._changes.tell(untold)

    def note(self, kind: EventKind, item: CallItem | None = None, answer: Answer | None = None, **data: Any) -> None:
        """Append an event now."""
        self.hold(kind, item, answer, **data)
        self.write()

    def requested(self, item: CallItem, now: datetime) -> None:
        """Hold the event of a call that the model wants; all calls of a turn come at the same time."""
        hints = item.hints
        self._held.append(
            self._of_call(
                "requested",
                item,
                {
                    "tool": item.call.name,
                    "server": item.tool.server if item.tool is not None else None,
                    "args": item.shown_args,
                    "args_json": item.args_json,
                    "masked": item.masked,
                    "read_only": hints.read_only if hints else None,
                    "destructive": hints.destructive if hints else None,
                    "open_world": hints.open_world if hints else None,
                    "hints_from": hints.source if hints and hints.said else None,
                },
                now,
            )
        )

    def decided(self, item: CallItem, verdict: str, *, reason: str = "", stop: bool = False) -> None:
        """Hold the event of a verdict."""
        event = self._of_call(
            "decided",
            item,
            {
                "verdict": verdict,
                "decided_by": item.decided_by,
                "decided_kind": item.decided_kind,
                "reason": self._masked_reason(reason) if reason else None,
                "stop": stop,
                "error": None if item.error is None else self.error(item.error),
            },
        )
        self._held.append(event)
        self._note_change(event, item)

    def _masked_reason(self, reason: str) -> str | None:
        """Return a reason, masked; a rule gives the same one for many calls."""
        if reason is not self._reason:
            self._reason, self._reason_masked = reason, self.text(reason) or None
        return self._reason_masked

    def answered(self, item: CallItem, answer: Answer) -> None:
        """Hold the event of an answer, and of the edit that came with it."""
        decision = answer.decision
        self.hold(
            "answered",
            item,
            answer,
            action=answer.action,
            reason=self.text(decision.reason or "") or None,
            stop=decision.stop,
            answered_by=answer.answered_by,
            via=answer.via,
            error=None if answer.error is None else self.error(answer.error),
        )
        if item.edited is not None:
            self.hold("edited", item, answer, args=self.masked(item), original_args=item.shown_args)

    def finished(self, item: CallItem, content: str, error: BaseException | None) -> None:
        """Append the event of a call that has run. Of its result only the digest is kept."""
        self._held.append(self._of_call("finished", item, self._end(content, error)))
        self.write()

    def late_result(self, item: CallItem, content: str, error: BaseException | None) -> None:
        """Append the event of a call that has finished after its turn had ended; may be called from any thread."""
        self.at_once("late", item, **self._end(content, error))

    def _end(self, content: str, error: BaseException | None) -> dict[str, Any]:
        return {
            "outcome": "ran" if error is None else "failed",
            "error": None if error is None else self.error(error),
            "result_digest": sha256(content),
        }

    def masked(self, item: CallItem) -> Any:
        """Return the arguments that will run, masked."""
        return self._redactor.value(item.final.args, secret=item.tool.secret if item.tool is not None else ())

    def text(self, text: str, item: CallItem | None = None) -> str:
        """Return a text, masked; with `item`, also what its call hides."""
        masked: str = without(self._redactor.text(text), () if item is None else item.hidden)
        return masked

    def error(self, error: BaseException) -> str:
        """Return an error in words, masked."""
        return self._redactor.text(describe_error(error))


def describe_error(error: BaseException) -> str:
    """Return ``Type: message``; an error whose message cannot be made is named by its type."""
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - a foreign __str__ may do anything
        message = ""
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def hidden_values(args: Any, secret: Iterable[str]) -> tuple[str, ...]:
    """Return the values, as texts, that are masked whole because of their names; the longest first.

    Args:
        args: The arguments of a call.
        secret: Names whose values are masked, beside those that look like a secret's.
    """
    from agentperm_nb.masking import is_secret_name

    found: set[str] = set()
    names = frozenset(secret)

    def look(value: Any, hide: bool) -> None:
        if isinstance(value, Mapping):
            for key, item in value.items():
                look(item, hide or (isinstance(key, str) and (key in names or is_secret_name(key))))
        elif isinstance(value, list | tuple):
            for item in value:
                look(item, hide)
        elif hide and isinstance(value, str):
            found.update((value, repr(value)[1:-1], json.dumps(value)[1:-1]))  # as it is, and as it is quoted
        elif hide and isinstance(value, int | float):
            with contextlib.suppress(ValueError):  # an integer of more digits than Python writes
                found.add(repr(value))

    look(args, False)
    texts = (text for text in found if len(text) >= _SHORTEST and text not in MASK)
    return tuple(sorted(texts, key=len, reverse=True))


def without(value: Any, hidden: tuple[str, ...]) -> Any:
    """Return a JSON value with each of the hidden texts masked wherever it stands."""
    if not hidden:
        return value
    if isinstance(value, str):
        for text in hidden:
            value = value.replace(text, MASK)
        return value
    if isinstance(value, Mapping):
        return {key: without(item, hidden) for key, item in value.items()}
    return [without(item, hidden) for item in value] if isinstance(value, list | tuple) else value


@cache
def _host() -> str:
    import socket

    return socket.gethostname()
