"""The state of a run, and what became of its calls."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.context import new_id

__all__ = ["CallResult", "State", "StoppedByPermission", "ToolOutcome", "ToolOutcomeKind", "result_text"]


class ToolOutcomeKind(StrEnum):
    """How a call ended."""

    DONE = "done"
    ERROR = "error"
    INPUT_ERROR = "input_error"
    ABORTED = "aborted"
    INTERRUPTED = "interrupted"
    DENIED = "denied"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """How a call ended, and who decided about it.

    Raises:
        ValueError: `kind` is none of `ToolOutcomeKind`.
    """

    kind: ToolOutcomeKind
    error: BaseException | None = None
    """What the tool, or a permission, raised."""
    decided_by: str | None = None
    """Name of the permission that decided, for allowed calls too."""

    def __post_init__(self) -> None:
        if type(self.kind) is not ToolOutcomeKind:
            object.__setattr__(self, "kind", ToolOutcomeKind(self.kind))


@dataclass(frozen=True, slots=True)
class StoppedByPermission:
    """Why a turn was stopped: a permission, or the person it asked, denied a call with ``stop=True``."""

    call: ToolCall
    permission: str

    def __str__(self) -> str:
        return f"stopped by permission {self.permission}"


@dataclass(frozen=True, slots=True, repr=False)
class CallResult:
    """One call of a turn and what became of it."""

    call: ToolCall
    """The call as the model made it."""
    call_key: str
    """Our key of the call: ``run/turn/position``."""
    outcome: ToolOutcome
    content: str
    """What the model is told."""
    verdict: str
    """``allowed``, ``denied``, ``input_error`` or ``cancelled``."""
    decided_kind: str = ""
    """Kind of the permission that decided, or ``human``, ``memory``, ``timeout``, ``nobody``, ``schema``,
    ``unchecked``."""
    answered_by: str | None = None
    """``human``, ``handler``, ``memory``, ``timeout`` or ``nobody``; None when nobody was asked."""
    reason: str = ""
    """Why it was refused, or what the person said."""
    args_run: Any = None
    """The arguments that ran, when a person changed them; else None."""
    value: Any = None
    """What the tool returned."""
    late: bool = False
    """Whether the call finished after its turn had been interrupted."""

    def __repr__(self) -> str:
        # Arguments, results and reasons may hold secrets, and what a cell shows is saved with the notebook.
        by = f" by {self.decided_by}" if self.decided_by else ""
        return f"CallResult({self.call.name}: {self.verdict}{by}, {self.outcome.kind.value})"

    @property
    def is_error(self) -> bool:
        """Whether the model is told that the call did not succeed."""
        return self.outcome.kind is not ToolOutcomeKind.DONE

    @property
    def decided_by(self) -> str | None:
        """Name of the permission that decided."""
        return self.outcome.decided_by


class State:
    """The state of one run: what the permissions of the next call may look at.

    Args:
        id: Its id, which is the run's; made when left out.
        parent_id: Id of the run above, for a subagent.
        pending_calls: Calls to decide, for ``use_tools(state)``.
    """

    def __init__(self, *, id: str | None = None, parent_id: str | None = None, pending_calls: Any = ()) -> None:
        self.id = id if id is not None else new_id("run")
        self.parent_id = parent_id
        self.pending_calls: list[ToolCall] = list(pending_calls)
        """Calls that have no result yet: those of the turn in hand, and those that wait for one."""
        self._in_hand: list[ToolCall] = []
        self.history: list[CallResult] = []
        """The results so far, in the order in which they came; a call that was interrupted may have a late one too."""
        self.turn = 0
        """Number of the latest turn, from 1."""
        self.stopped: StoppedByPermission | None = None
        """Set when a permission stopped the latest turn."""
        self.human: Any = None
        """Who is asked by a permission that asks by itself; set by the agent."""

    def waiting(self) -> list[ToolCall]:
        """Return the pending calls that no turn has in hand."""
        return [call for call in self.pending_calls if not any(call is other for other in self._in_hand)]

    def take(self) -> list[ToolCall]:
        """Return the pending calls that no turn has in hand, and take them off: a call is decided once."""
        taken = self.waiting()
        self.pending_calls[:] = self._in_hand
        return taken

    def begin(self, calls: list[ToolCall]) -> None:
        """Note the calls of a turn that begins."""
        self.pending_calls.extend(calls)
        self._in_hand.extend(calls)

    def settle(self, result: CallResult) -> None:
        """Note the result of a call of the turn in hand."""
        self.history.append(result)
        for calls in (self.pending_calls, self._in_hand):
            for index, call in enumerate(calls):
                if call is result.call:
                    del calls[index]
                    break

    def add_late(self, result: CallResult) -> None:
        """Note the result of a call whose turn has ended without it."""
        self.history.append(result)

    def __repr__(self) -> str:
        return f"State({self.id!r}, turn {self.turn}, {len(self.history)} results)"


def result_text(value: Any) -> str:
    """Return what the model is told of a tool's return value.

    A text as it is, None as ``(done)``, anything else as JSON, and what JSON has no form for as its ``str``.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return "(done)"
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return str(value)
