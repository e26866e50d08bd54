"""The event loop on which blocking turns run their async tools. It lasts: what a tool keeps from call to call, such as
an HTTP client, goes on working.

1. A process has one, on a daemon thread of its own. It is made when the first async tool runs, and ended at exit.
2. A piece of work is a task of its own, in the context that it was given.
3. Who blocks the loop holds up only what has begun: what could not begin in `PATIENCE` seconds begins on another loop,
   and so does what comes after it, until the first one is free again.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import threading
import time
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any

from agentperm_nb.running.driving import forget_loop

if TYPE_CHECKING:
    import asyncio

__all__ = ["PATIENCE", "LoopWork"]

PATIENCE = 2.0
"""Seconds after which a loop that has not begun what it was given is taken to be blocked."""

_AT_EXIT = 1.0  # seconds that tasks have to end when Python exits


class LoopWork:
    """Something that runs on the lasting loop.

    Args:
        main: Makes the coroutine; it tells of its result and of its errors itself, and looks first whether it is still
            wanted: what is cancelled before it has begun does begin.
        context: The context in which it runs.
    """

    def __init__(self, main: Callable[[], Coroutine[Any, Any, None]], context: Context) -> None:
        self._main, self._context = main, context
        self._lock = threading.Lock()
        self._given: _ToolLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._look_again = 0.0
        self._over = threading.Event()

    def begin(self) -> None:
        """Give it to the loop."""
        self._give(_the_loop())

    def look_after(self) -> float:
        """Give it to another loop where the one that has it is blocked; return the seconds to the next such look."""
        with self._lock:
            given = self._given if self._task is None else None
        if given is None:
            return math.inf
        left = self._look_again - time.monotonic()
        if left > 0:
            return left
        self._give(_the_loop(blocked=given))
        return PATIENCE

    def cancel(self) -> None:
        """Cancel the task, if it has begun."""
        with self._lock:
            task, given = self._task, self._given
        # One that is cancelled before its first step never takes it, and would tell nobody.
        if task is not None and given is not None:
            given.call(task.cancel)

    def wait(self, seconds: float) -> bool:
        """Wait for its end, and return whether it has come."""
        return self._over.wait(seconds)

    def _give(self, loop: _ToolLoop) -> None:
        with self._lock:
            if self._task is not None:
                return
            self._given = loop
        self._look_again = time.monotonic() + PATIENCE
        # Each time a context of its own: one can be entered in one place only.
        context = self._context.copy()
        context.run(forget_loop)
        loop.call(lambda: loop.create(self._run(loop), context))

    async def _run(self, loop: _ToolLoop) -> None:
        import asyncio

        with self._lock:
            if self._task is not None or self._given is not loop:
                return  # it has begun elsewhere, or will
            self._task = asyncio.current_task()
        try:
            await self._main()
        finally:
            self._over.set()


class _ToolLoop:
    """An event loop on a thread of its own."""

    def __init__(self) -> None:
        import asyncio

        self.loop = asyncio.new_event_loop()
        self.process = os.getpid()
        self.is_blocked = False
        self._ending = False
        self._tasks: set[asyncio.Task[None]] = set()  # a loop alone does not keep its tasks from being collected
        self.thread = threading.Thread(target=self._work, name="agentperm-loop", daemon=True)
        self.thread.start()

    def call(self, function: Callable[[], object]) -> None:
        """Call a function on the loop's thread; nothing happens where the loop has ended."""
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(function)

    def note_blocked(self) -> None:
        """Take it for blocked until it does what it is given now."""
        self.is_blocked = True
        self.call(self._free)

    def _free(self) -> None:
        self.is_blocked = False

    def create(self, work: Coroutine[Any, Any, None], context: Context) -> None:
        """Make a task, on the loop's thread."""
        task = self.loop.create_task(work, context=context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def end(self, seconds: float) -> None:
        """Cancel what runs, and end the loop."""
        self._ending = True
        self.call(self.loop.stop)
        self.thread.join(seconds)

    def _work(self) -> None:
        import asyncio

        asyncio.set_event_loop(self.loop)
        while not self._ending:
            # An interrupt or a SystemExit in some task of a tool ends that task, and not what the others wait for.
            with contextlib.suppress(BaseException):
                self.loop.run_forever()
        with contextlib.suppress(BaseException):
            self.loop.run_until_complete(self._tidy_up())
        self.loop.close()

    async def _tidy_up(self) -> None:
        import asyncio

        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_AT_EXIT / 2)
        await self.loop.shutdown_asyncgens()


_lock = threading.Lock()
_loops: list[_ToolLoop] = []  # those after the first are made when all before them are blocked


def _the_loop(blocked: _ToolLoop | None = None) -> _ToolLoop:
    """Return the loop of this process, or the one that stands in for it.

    Args:
        blocked: A loop that does not begin what it was given. One is blocked, too, while its own thread waits for what
            is to be run.
    """
    with _lock:
        if _loops and _loops[0].process != os.getpid():
            _loops.clear()  # a forked process has no threads of its parent
        for loop in _loops:
            if loop is blocked or loop.thread is threading.current_thread():
                loop.note_blocked()
        for loop in _loops:
            if not loop.is_blocked:
                return loop
        _loops.append(_ToolLoop())
        return _loops[-1]


@atexit.register
def _end_loops() -> None:
    with _lock:
        loops = [loop for loop in _loops if loop.process == os.getpid()]
        _loops.clear()
    for loop in loops:
        loop.end(_AT_EXIT)
