"""What a state remembers, in order: entries that are only ever added.

A `CallResult` is an entry too. Every entry has ``kind``, ``turn`` and ``at``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, Literal, TypeAlias, overload

from agentperm_nb.calls import ToolCall
from agentperm_nb.running.messages import Message
from agentperm_nb.running.outcomes import CallResult

__all__ = [
    "ErrorEntry",
    "Exchange",
    "ExchangeEntry",
    "ExtraDataEntry",
    "History",
    "HistoryEntry",
    "MessageEntry",
    "RunStartEntry",
    "StateSnapshot",
    "StopEntry",
    "Stopped",
    "StoppedByBudget",
    "StoppedByFinish",
    "StoppedByLimit",
    "StoppedByPermission",
    "StoppedByUntil",
]


@dataclass(frozen=True, slots=True)
class StoppedByPermission:
    """A permission, or the person whom it asked, denied a call with ``stop=True``."""

    call: ToolCall
    permission: str
    """Name of the permission."""

    def __str__(self) -> str:
        return f"stopped by permission {self.permission}"


@dataclass(frozen=True, slots=True)
class StoppedByBudget:
    """A budget is used up: something was refused because of it, or its time is over."""

    reason: str
    """``budget:`` and the name of the cap, such as ``budget:max_calls``."""

    def __str__(self) -> str:
        return f"stopped by {self.reason}"


@dataclass(frozen=True, slots=True)
class StoppedByFinish:
    """``state.finish()`` was called."""

    answer: Any = None

    def __str__(self) -> str:
        return "stopped by finish"


@dataclass(frozen=True, slots=True)
class StoppedByLimit:
    """A loop has taken as many turns as it may."""

    turns: int

    def __str__(self) -> str:
        return f"stopped at limit {self.turns}"


@dataclass(frozen=True, slots=True)
class StoppedByUntil:
    """The condition on which a loop ends has come true."""

    name: str
    """Name of the condition."""

    def __str__(self) -> str:
        return f"stopped by {self.name}"


Stopped: TypeAlias = StoppedByPermission | StoppedByBudget | StoppedByFinish | StoppedByLimit | StoppedByUntil


@dataclass(frozen=True, slots=True)
class MessageEntry:
    """A message was added: of the user, of the model, or a notice."""

    kind: ClassVar[Literal["message"]] = "message"

    content: Message
    turn: int
    at: datetime


@dataclass(frozen=True, slots=True)
class RunStartEntry:
    """``run`` or ``arun`` began."""

    kind: ClassVar[Literal["run_start"]] = "run_start"

    content: str
    """Name of the agent."""
    parent_id: str | None
    """Id of the run above, of a subagent."""
    turn: int
    at: datetime


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question and its answer."""

    question: str
    answer: Any
    """A JSON value; the ``repr`` of what is none."""


@dataclass(frozen=True, slots=True)
class ExchangeEntry:
    """A person was asked, about a call or by ``ask_human``."""

    kind: ClassVar[Literal["human"]] = "human"

    content: Exchange
    call_key: str
    """Our key of the call that was asked about; empty for a question of ``ask_human``."""
    turn: int
    at: datetime


@dataclass(frozen=True, slots=True)
class StopEntry:
    """The run is to stop, and why."""

    kind: ClassVar[Literal["stop"]] = "stop"

    content: Stopped
    turn: int
    at: datetime


@dataclass(frozen=True, slots=True)
class ErrorEntry:
    """An exception ended a turn, a request to the model, or a run."""

    kind: ClassVar[Literal["error"]] = "error"

    content: str
    """``Type: message``."""
    error: BaseException | None
    call: ToolCall | None
    """The call that could not be decided, where it was about one."""
    turn: int
    at: datetime


@dataclass(frozen=True, slots=True)
class ExtraDataEntry:
    """``extra_data`` was changed."""

    kind: ClassVar[Literal["extra_data"]] = "extra_data"

    content: Any
    """What the changed keys hold now."""
    removed: tuple[str, ...]
    turn: int
    at: datetime


HistoryEntry: TypeAlias = (
    MessageEntry | RunStartEntry | CallResult | ExchangeEntry | StopEntry | ErrorEntry | ExtraDataEntry
)


@dataclass(frozen=True, slots=True)
class StateSnapshot:
    """What a state was at one moment; it never changes."""

    id: str
    parent_id: str | None
    history: tuple[HistoryEntry, ...]
    messages: tuple[Message, ...]
    pending_calls: tuple[ToolCall, ...]
    turn: int
    stopped: Stopped | None
    finished: bool
    answer: Any
    extra_data: Mapping[str, Any]


class History(Sequence[HistoryEntry]):
    """The entries of a state, oldest first; it grows as things happen, and cannot be changed by its readers."""

    __slots__ = ("_entries",)

    def __init__(self, entries: list[HistoryEntry]) -> None:
        self._entries = entries

    @overload
    def __getitem__(self, index: int) -> HistoryEntry: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[HistoryEntry, ...]: ...
    def __getitem__(self, index: int | slice) -> HistoryEntry | tuple[HistoryEntry, ...]:
        """Return an entry, or the entries of a slice."""
        return tuple(self._entries[index]) if isinstance(index, slice) else self._entries[index]

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[HistoryEntry]:
        return iter(tuple(self._entries))  # another thread may add to it meanwhile

    def __eq__(self, other: object) -> bool:
        if isinstance(other, History):
            return self._entries == other._entries
        return isinstance(other, list | tuple) and list(self) == list(other)

    __hash__: ClassVar[None]  # type: ignore[assignment]  # it grows

    def __repr__(self) -> str:
        counts = dict.fromkeys((entry.kind for entry in self), 0)
        for entry in self:
            counts[entry.kind] += 1
        told = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        return f"History({told or 'empty'})"
