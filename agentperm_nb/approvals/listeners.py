"""Whoever is told of something: kept by the one who tells, and let go without waiting.

A listener may be let go by the garbage collector, in a thread that holds the lock already. So that never waits for the
lock: what is gone is noted, and left out from the next telling on.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

__all__ = ["Listeners"]

F = TypeVar("F", bound=Callable[..., object])


class Listeners(Generic[F]):
    """Functions to call, oldest first; thread-safe.

    Args:
        lock: The lock of whoever tells.
    """

    def __init__(self, lock: threading.Lock) -> None:
        self._lock = lock
        self._functions: dict[int, F] = {}
        self._tokens = itertools.count()
        self._gone: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._functions)

    def __iter__(self) -> Iterator[int]:
        return iter(self._functions)

    def add(self, function: F) -> Callable[[], None]:
        """Keep a function; return what lets it go."""
        with self._lock:
            token = next(self._tokens)
            self._functions[token] = function

        def let_go() -> None:
            self._gone.append(token)
            if self._lock.acquire(blocking=False):
                try:
                    self._forget_gone()
                finally:
                    self._lock.release()

        return let_go

    def now(self) -> list[F]:
        """Return the functions that there are now; whoever calls holds no lock."""
        with self._lock:
            self._forget_gone()
            return list(self._functions.values())

    def _forget_gone(self) -> None:
        while self._gone:
            self._functions.pop(self._gone.popleft(), None)
