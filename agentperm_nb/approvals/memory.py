"""Answers that hold for later calls.

1. A remembered answer is looked up after the rules: it never passes a deny.
2. It holds for one user and one path of agents, for a run or a session, for the same call or for a tool.
3. Where several apply, a denial wins.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from agentperm_nb.approvals.decisions import Scope
from agentperm_nb.calls import ToolCall
from agentperm_nb.context import RunContext
from agentperm_nb.json_values import digest

__all__ = ["Memory", "Remembered"]


@dataclass(slots=True, eq=False, repr=False)
class Remembered:
    """One remembered answer."""

    allow: bool
    scope: Scope
    tool: str
    reason: str | None
    approver: str | None
    from_call: str
    """Key of the call whose answer it was."""


class Memory:
    """The remembered answers of an agent; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[tuple[object, ...], Remembered] = {}

    def __repr__(self) -> str:
        return f"Memory({len(self._entries)} remembered)"

    def entries(self) -> tuple[Remembered, ...]:
        """Return what is remembered, oldest first."""
        with self._lock:
            return tuple(self._entries.values())

    def remember(self, context: RunContext, call: ToolCall, entry: Remembered) -> None:
        """Keep an answer for calls like `call`."""
        with self._lock:
            self._entries[_key(context, call, entry.scope, entry.allow)] = entry

    def look_up(self, context: RunContext, call: ToolCall) -> Remembered | None:
        """Return the answer that holds for a call, or None."""
        if not self._entries:
            return None
        with self._lock:
            for allow in (False, True):
                for covers in ("call", "tool"):
                    for lasts in ("run", "session"):
                        entry = self._entries.get(_key(context, call, Scope(covers, lasts), allow))
                        if entry is not None:
                            return entry
        return None

    def forget(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()


def _key(context: RunContext, call: ToolCall, scope: Scope, allow: bool) -> tuple[object, ...]:
    where = context.run_id if scope.lasts == "run" else context.session_id
    what = call.name if scope.covers == "tool" else digest(call.name, call.args)
    return context.user_id, context.agent_path, scope.lasts, where, scope.covers, what, allow
