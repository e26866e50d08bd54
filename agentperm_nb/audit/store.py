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
        self.dropped: int = 0
        self._lock = threading.Lock()
        self._of_calls: dict[str, list[Event]] = {}
        self._of_no_call: list[Event] = []
        self._rows: dict[str, tuple[int, Row]] = {}
        """Row of a call, and from how many of its events it was made: rows are made when they are read."""
        self._forgotten: dict[str, None] = {}
        self._next = 1

    def __repr__(self) -> str:
        lost = f", {self.dropped} oldest dropped" if self.dropped else ""
        return f"MemoryStore({len(self._of_calls)} of at most {self.capacity} calls{lost})"

    def append(self, events: Iterable[Event]) -> None:
        """Number and keep events."""
        first_drop = False
        with self._lock:
            for event in events:
                key = event.call_key
                kept = self._of_calls.get(key) if key else self._of_no_call
                if kept is None and key in self._forgotten:
                    continue  # the end of a call whose beginning was dropped would make half a row
                event.seq = self._next
                self._next += 1
                if kept is None:
                    if event.kind != "requested":
                        continue  # its call has been dropped: half a row would tell nothing
                    first_drop = self._make_room() or first_drop
                    kept = self._of_calls[key] = []
                kept.append(event)
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
                of_one = self._of_calls.get(call_key, ()) if call_key else self._of_no_call
                return [_copy(event) for event in of_one]
            kept = (_copy(event) for events in (self._of_no_call, *self._of_calls.values()) for event in events)
            return sorted(kept, key=lambda event: event.seq)

    def rows(self, where: Callable[[Row], bool] | None = None) -> list[Row]:
        """Return copies of the rows in order of their first event."""
        with self._lock:
            chosen = [row for row in map(self._row, self._of_calls) if where is None or where(row)]
            return [{**row, "args": freeze(row["args"]), "args_run": freeze(row["args_run"])} for row in chosen]

    def _row(self, key: str) -> Row:
        """Return the row of a call, after its latest event."""
        events = self._of_calls[key]
        made_from, row = self._rows.get(key, (0, None))
        for event in events[made_from:]:
            row = project(row, event)
        assert row is not None  # every event that is kept here is about a call
        if made_from < len(events):
            self._rows[key] = (len(events), row)
        return row

    def _make_room(self) -> bool:
        """Drop the oldest call when full; return whether this was the first time."""
        if len(self._of_calls) < self.capacity:
            return False
        oldest = next(iter(self._of_calls))
        del self._of_calls[oldest]
        self._rows.pop(oldest, None)
        self._forgotten[oldest] = None
        if len(self._forgotten) > self.capacity:
            del self._forgotten[next(iter(self._forgotten))]
        self.dropped += 1
        return self.dropped == 1


def _copy(event: Event) -> Event:
    """Return an event that can be changed without changing the log."""
    return replace(event, data=freeze(event.data))
