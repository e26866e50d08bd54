"""Where events are kept.

A store numbers events in the order in which they are appended, and keeps one row a call beside them (`project`).
The memory store forgets the oldest calls when it is full, and says so.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from agentperm_nb.audit.events import Event
from agentperm_nb.audit.projection import Row, project
from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import freeze

__all__ = ["MemoryStore", "Store"]


class Store(Protocol):
    """An append-only log of events with one row a call."""

    def append(self, events: Sequence[Event]) -> None:
        """Number and keep events, all or none. When it returns they are kept as safely as the store can."""
        ...

    def events(self, call_key: str | None = None) -> list[Event]:
        """Return the events, oldest first, of one call or of all."""
        ...

    def rows(self, where: Callable[[Row], bool] | None = None) -> list[Row]:
        """Return copies of the rows in order of their first event, all or those for which `where` is true."""
        ...


class MemoryStore:
    """Keeps the newest calls in memory; they are gone with the process. What it gives out cannot change what it keeps.

    Args:
        capacity: How many calls are kept.

    Raises:
        ValueError: `capacity` is not a positive whole number.
    """

    def __init__(self, capacity: int = 100_000) -> None:
        if isinstance(capacity, bool) or not isinstance(capacity, int) or capacity < 1:
            raise ValueError(
                fix_message(
                    f"capacity= takes a number of calls (got: {capacity!r})", "give 1 or more", "MemoryStore(10_000)"
                )
            )
        self.capacity = capacity
        self.dropped = 0
        self._lock = threading.Lock()
        self._rows: dict[str, Row] = {}
        self._by_call: dict[str, list[Event]] = {}
        self._forgotten: dict[str, None] = {}
        self._next = 1

    def __repr__(self) -> str:
        lost = f", {self.dropped} oldest dropped" if self.dropped else ""
        return f"MemoryStore({len(self._rows)} of at most {self.capacity} calls{lost})"

    def append(self, events: Iterable[Event]) -> None:
        """Number and keep events."""
        first_drop = False
        with self._lock:
            for event in events:
                if event.call_key in self._forgotten:
                    continue  # the end of a call whose beginning was dropped would make half a row
                event.seq = self._next
                self._next += 1
                if event.call_key and event.call_key not in self._rows and event.kind != "requested":
                    continue  # its call has been dropped: half a row would tell nothing
                self._by_call.setdefault(event.call_key, []).append(event)
                row = project(self._rows.get(event.call_key), event)
                if row is not None and event.call_key not in self._rows:
                    first_drop = self._make_room() or first_drop
                    self._rows[event.call_key] = row
        if first_drop:
            warnings.warn(
                f"the log in memory is full: it keeps the newest {self.capacity} calls and drops older ones",
                UserWarning,
                stacklevel=2,
            )

    def events(self, call_key: str | None = None) -> list[Event]:
        """Return the events, oldest first, of one call or of all."""
        with self._lock:
            if call_key is not None:
                return [_copy(event) for event in self._by_call.get(call_key, ())]
            kept = (_copy(event) for events in self._by_call.values() for event in events)
            return sorted(kept, key=lambda event: event.seq)

    def rows(self, where: Callable[[Row], bool] | None = None) -> list[Row]:
        """Return copies of the rows in order of their first event."""
        with self._lock:
            chosen = [row for row in self._rows.values() if where is None or where(row)]
            return [{**row, "args": freeze(row["args"]), "args_run": freeze(row["args_run"])} for row in chosen]

    def _make_room(self) -> bool:
        """Drop the oldest call when full; return whether this was the first time."""
        if len(self._rows) < self.capacity:
            return False
        oldest = next(iter(self._rows))
        del self._rows[oldest]
        self._by_call.pop(oldest, None)
        self._forgotten[oldest] = None
        if len(self._forgotten) > self.capacity:
            del self._forgotten[next(iter(self._forgotten))]
        self.dropped += 1
        return self.dropped == 1


def _copy(event: Event) -> Event:
    """Return an event that can be changed without changing the log."""
    return replace(event, data=freeze(event.data))
