"""Telling others of decisions as they are recorded: what ``agent.on_change`` calls.

1. A change is told after it has been recorded, in the order of the record, on the thread that recorded it.
2. A callback that raises is reported in the Python log and disturbs nobody; what it returns is not looked at.
3. Everything in a change is masked, and its parameters are a copy: a callback can change nothing of a call.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from agentperm_nb.approvals.listeners import Listeners
from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import thaw

__all__ = ["ChangeEvent", "ChangeEventType", "Changes", "change_of"]


class ChangeEventType(str, Enum):  # noqa: UP042 - str() is published as "ChangeEventType.PERMISSION_DENIED"
    """What happened to a call."""

    PERMISSION_ASKED = "permission_asked"
    """It is put to a person or a handler."""
    PERMISSION_ANSWERED = "permission_answered"
    """There is an answer: of a person, a handler or memory."""
    PERMISSION_ALLOWED = "permission_allowed"
    """It may run, once all calls of its turn are decided."""
    PERMISSION_DENIED = "permission_denied"
    """It does not run."""


_TYPES = {"asked": ChangeEventType.PERMISSION_ASKED, "answered": ChangeEventType.PERMISSION_ANSWERED}
_OF_VERDICT = {"allowed": ChangeEventType.PERMISSION_ALLOWED, "denied": ChangeEventType.PERMISSION_DENIED}


@dataclass(frozen=True)
class ChangeEvent:
    """One decision, or a step towards one."""

    event_type: ChangeEventType
    tool_name: str | None = None
    """The tool of the call."""
    reason: str = ""
    """Why, masked."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """``decided_by`` (who decided, or sent the call to a person, as the log has it), ``rule_name`` (the same; of a
    policy the rule's own name, as its handler knows it, and empty for the fallback), ``parameters`` (masked),
    ``call_key``, ``run``; of an answer also ``answered_by``, ``answer`` and ``approver``."""


class Changes:
    """Who is told of an agent's decisions; thread-safe."""

    def __init__(self) -> None:
        self._callbacks: Listeners[Callable[[ChangeEvent], object]] = Listeners(threading.Lock())

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def subscribe(self, callback: Callable[[ChangeEvent], object]) -> Callable[[], None]:
        """Call `callback` with each change; return the function that ends it.

        Raises:
            TypeError: It cannot be called.
        """
        if not callable(callback):
            raise TypeError(
                fix_message(
                    f"on_change takes a function (got: {callback!r})", "give a function", "agent.on_change(print)"
                )
            )
        return self._callbacks.add(callback)

    def tell(self, changes: list[ChangeEvent]) -> None:
        """Call all callbacks with each of the changes."""
        callbacks = self._callbacks.now()
        for change in changes:
            for callback in callbacks:
                try:
                    callback(change)
                except Exception:
                    import logging

                    log = logging.getLogger("agentperm_nb")
                    log.exception("a callback of on_change raised at %s", change.event_type.value)


def change_of(
    kind: str,
    tool: str,
    args: Mapping[str, Any],
    call_key: str,
    run: str,
    data: Mapping[str, Any],
    approver: str | None,
    *,
    decided_by: str,
    rule_name: str,
) -> ChangeEvent | None:
    """Return what is told of an event, or None where nothing is.

    Args:
        kind: The event's kind.
        tool: Name of the call's tool.
        args: Its arguments, masked.
        call_key: Its key.
        run: Its run.
        data: The event's data, masked.
        approver: Who answered.
        decided_by: Who decided, or sent the call to a person, as the log calls it.
        rule_name: The same, a rule of a policy by its own name.
    """
    event_type = _TYPES.get(kind)
    if kind == "decided":
        event_type = _OF_VERDICT.get(data["verdict"])
    if event_type is None:
        return None
    metadata = {
        "rule_name": rule_name,
        "decided_by": decided_by,
        "parameters": thaw(args),
        "call_key": call_key,
        "run": run,
    }
    if kind == "answered":
        metadata.update(answered_by=data["answered_by"], answer=data["action"], approver=approver)
    return ChangeEvent(event_type, tool, data.get("reason") or "", metadata)
