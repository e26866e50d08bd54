"""What the thread of a blocking turn does for others while it waits: it shows panels, and takes in their clicks.

A tool of a blocking turn runs on a worker thread. When it asks a person in its turn (a subagent's call, a question),
the panel cannot work there: in some kernels nothing is taken in as long as the main thread is blocked. So the thread
that is blocked anyway, the outermost one, serves the panel.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar

__all__ = ["Served", "Serving", "serving_above", "serving_elsewhere"]

_Serve = Callable[[float], None]


class Served:
    """Something that is shown and served as long as it is not over.

    Args:
        attend: Makes the block inside which it is shown; the block is given ``serve(seconds)``.
        is_over: Whether it need not be shown any more; asked on the serving thread.
    """

    attend: Callable[[], AbstractContextManager[_Serve]]
    is_over: Callable[[], bool]

    def __init__(self, attend: Callable[[], AbstractContextManager[_Serve]], is_over: Callable[[], bool]) -> None:
        self.attend, self.is_over = attend, is_over
        self.ended: threading.Event = threading.Event()
        self.error: BaseException | None = None
        """What ended it before it was over."""
        self._stack = contextlib.ExitStack()
        self._serve: _Serve | None = None

    def begin(self) -> None:
        """Show it."""
        self._serve = self._stack.enter_context(self.attend())

    def serve(self, seconds: float) -> None:
        """Take in what arrives, for at most that long."""
        if self._serve is not None:
            self._serve(seconds)

    def end(self, error: BaseException | None = None) -> None:
        """Put it away."""
        if self.ended.is_set():
            return
        try:
            self._stack.__exit__(type(error) if error else None, error, None)
        except BaseException as raised:  # noqa: BLE001 - whoever waits for its end is told
            error = error or raised
        finally:
            self.error = error
            self.ended.set()


class Serving:
    """What a blocked thread serves. Only `add` may be called from other threads."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._arriving: deque[Served] = deque()
        self._served: list[Served] = []
        self._closed = False

    @property
    def is_here(self) -> bool:
        """Whether the calling thread is the one that serves."""
        return self._thread == threading.get_ident()

    @property
    def busy(self) -> bool:
        """Whether there is something to serve."""
        return bool(self._served or self._arriving)

    def add(self, served: Served) -> Served:
        """Have something served by the thread, from any other one; wait for its `ended`."""
        with self._lock:
            if not self._closed:
                self._arriving.append(served)
                return served
        served.end(KeyboardInterrupt("the turn above has ended"))
        return served

    def begin(self, served: Served) -> None:
        """Serve something of the thread's own.

        Raises:
            Exception: Whatever showing it raised.
        """
        served.begin()
        self._served.append(served)

    def step(self, seconds: float) -> None:
        """Serve everything once.

        Args:
            seconds: How long each may wait for what arrives.
        """
        while self._arriving:
            arrived = self._arriving.popleft()
            try:
                self.begin(arrived)
            except Exception as error:  # noqa: BLE001 - whoever asked for it is told
                arrived.end(error)
        for served in list(self._served):
            if served.is_over():
                self.end(served)
                continue
            try:
                served.serve(seconds)
            except Exception as error:  # noqa: BLE001 - whoever asked for it is told
                self.end(served, error)

    def end(self, served: Served, error: BaseException | None = None) -> None:
        """Serve something no more."""
        if served in self._served:
            self._served.remove(served)
        served.end(error)

    def close(self) -> None:
        """Serve nothing any more: the turn has ended, and what waits inside it waits in vain."""
        with self._lock:
            self._closed = True
        for served in (*self._served, *self._arriving):
            served.end(KeyboardInterrupt("the turn above has ended"))
        self._served.clear()
        self._arriving.clear()


serving_above: ContextVar[Serving | None] = ContextVar("agentperm_nb_serving", default=None)
"""What serves for the tools of a blocking turn, in the code of such a tool."""


def serving_elsewhere() -> Serving | None:
    """Return what serves for the calling code on another thread, or None where it has to see for itself."""
    serving = serving_above.get()
    return None if serving is None or serving.is_here else serving
