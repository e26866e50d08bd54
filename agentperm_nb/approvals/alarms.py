"""Alarms: what is to be done at a time, on one thread that is there as long as something is to come.

1. The thread is a daemon. It begins with the first alarm and ends with the last; a process that sets none has none.
2. Time is up by whichever clock says so first: the one that only counts, or the one on the wall. A machine that slept
   through a limit, or whose clock was set, does not give anybody longer than was said.
3. An alarm that raises is reported in the Python log and disturbs no other. It should not take long: the others wait.
4. A forked child has none of the alarms of its parent, and a thread of its own when it sets some.
"""

from __future__ import annotations

import heapq
import os
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field

__all__ = ["Alarms", "Due"]

_LONGEST = 10.0  # seconds until the thread looks at the clock on the wall again


@dataclass(frozen=True, slots=True)
class Due:
    """A time to come."""

    counted: float
    """By `time.monotonic`."""
    on_the_wall: float
    """By `time.time`."""

    @classmethod
    def after(cls, seconds: float) -> Due:
        """Return the time that many seconds from now."""
        return cls(time.monotonic() + seconds, time.time() + seconds)

    @property
    def left(self) -> float:
        """Seconds until then; 0 when it has come."""
        return max(0.0, min(self.counted - time.monotonic(), self.on_the_wall - time.time()))

    @property
    def passed(self) -> bool:
        """Whether it has come."""
        return self.left <= 0


@dataclass(slots=True, order=True)
class _Alarm:
    at: float
    place: int
    key: str = field(compare=False)
    due: Due = field(compare=False)
    ring: Callable[[], object] = field(compare=False)
    dropped: bool = field(default=False, compare=False)


class Alarms:
    """Functions that are called when they are due; thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._heap: list[_Alarm] = []
        self._keys: dict[str, list[_Alarm]] = {}
        self._thread: threading.Thread | None = None
        self._places = 0
        _all.add(self)

    def __repr__(self) -> str:
        return f"Alarms({len(self._keys)} set)"

    def set(self, key: str, due: Due, ring: Callable[[], object]) -> None:
        """Call `ring` when `due` has come, unless `drop` is called with this key before; a key may have several."""
        with self._changed:
            self._places += 1
            alarm = _Alarm(due.counted, self._places, key, due, ring)
            heapq.heappush(self._heap, alarm)
            self._keys.setdefault(key, []).append(alarm)
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="agentperm-alarms", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # there are no threads left
                    self._drop(key)
                    raise
                self._thread = thread
            elif self._heap[0] is alarm:
                self._changed.notify()

    def drop(self, key: str) -> None:
        """Call nothing any more that was set with this key."""
        with self._changed:
            self._drop(key)

    def begin_empty(self) -> None:
        """Set nothing any more, and begin anew: for a process that was just forked."""
        self._changed = threading.Condition(threading.Lock())
        self._heap = []
        self._keys = {}
        self._thread = None

    def _drop(self, key: str) -> None:
        for alarm in self._keys.pop(key, ()):
            alarm.dropped = True
        if not self._keys:
            self._heap.clear()
            self._changed.notify()
        elif len(self._heap) > 4 * len(self._keys) + 1_000:
            self._heap = [alarm for alarm in self._heap if not alarm.dropped]
            heapq.heapify(self._heap)

    def _run(self) -> None:
        while True:
            with self._changed:
                alarm = self._next()
                if alarm is None:
                    if not self._heap:
                        self._thread = None
                        return
                    continue
            try:
                alarm.ring()
            except BaseException:
                import logging

                logging.getLogger("agentperm_nb").exception("an alarm for %s raised", alarm.key)

    def _next(self) -> _Alarm | None:
        """Return the alarm that is due, or wait a little for it."""
        while self._heap and self._heap[0].dropped:
            heapq.heappop(self._heap)
        if not self._heap:
            return None
        left = self._heap[0].due.left
        if left > 0:
            self._changed.wait(min(left, _LONGEST))
            return None
        alarm = heapq.heappop(self._heap)
        of_key = self._keys[alarm.key]
        of_key.remove(alarm)
        if not of_key:
            del self._keys[alarm.key]
        return alarm


_all: weakref.WeakSet[Alarms] = weakref.WeakSet()


def _after_fork() -> None:
    for alarms in list(_all):
        alarms.begin_empty()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
