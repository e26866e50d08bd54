"""What became of a call."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, ClassVar, Literal

from agentperm_nb.calls import ToolCall
from agentperm_nb.results import Image

__all__ = ["CallResult", "ToolOutcome", "ToolOutcomeKind", "outcome_of"]


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


@lru_cache(maxsize=1_000)
def outcome_of(kind: ToolOutcomeKind, decided_by: str | None) -> ToolOutcome:
    """Return the outcome of a call that raised nothing; calls that ended alike share it."""
    return ToolOutcome(kind, None, decided_by)


@dataclass(frozen=True, repr=False)  # no slots: `made` fills all fields at once
class CallResult:
    """One call of a turn and what became of it; an entry of ``state.history``."""

    kind: ClassVar[Literal["tool_result"]] = "tool_result"

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
    ``budget``, ``unchecked``."""
    answered_by: str | None = None
    """``human``, ``handler``, ``memory``, ``timeout`` or ``nobody``; None when nobody was asked."""
    reason: str = ""
    """Why it was refused, or what the person said."""
    args_run: Any = None
    """The arguments that ran, when a person changed them; else None."""
    value: Any = None
    """What the tool returned."""
    images: tuple[Image, ...] = ()
    """Images that the model is shown beside `content`."""
    late: bool = False
    """Whether the call finished after its turn had gone on without it."""
    turn: int = 0
    """Number of the turn in its run, from 1."""
    at: datetime | None = None
    """When it ended, in UTC."""

    @classmethod
    def made(cls, fields: dict[str, Any]) -> CallResult:
        """Return a result with these fields, all of them given: several times as fast as the constructor."""
        result = object.__new__(cls)
        result.__dict__.update(fields)
        return result

    def __repr__(self) -> str:
        # Arguments, results and reasons may hold secrets, and what a cell shows is saved with the notebook.
        by = f" by {self.decided_by}" if self.decided_by else ""
        return f"CallResult({self.call.name}: {self.verdict}{by}, {self.outcome.kind.value})"

    @property
    def is_error(self) -> bool:
        """Whether the model is told that the call did not succeed."""
        return self.outcome.kind is not ToolOutcomeKind.DONE

    @property
    def error(self) -> BaseException | None:
        """What the tool, or a permission, raised."""
        return self.outcome.error

    @property
    def decided_by(self) -> str | None:
        """Name of the permission that decided."""
        return self.outcome.decided_by
