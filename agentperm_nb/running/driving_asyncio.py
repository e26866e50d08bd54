"""What the driver on an event loop does natively under asyncio, where a task of anyio costs five times as much.

A coroutine that ignores being cancelled is cancelled again each second, and left to itself after some: then neither an
interrupt nor a timeout waits for it any longer, and what it returns is late.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from agentperm_nb.running.driving import GRACE, TICK, Ending, as_exception
from agentperm_nb.running.effects import Message, Start, ToolDone

__all__ = ["AsyncioMailbox", "AsyncioTasks"]

_TIMES = 5  # that a coroutine is cancelled before an interrupted turn ends without it

_left: set[asyncio.Task[None]] = set()
"""Tasks that nobody waits for: an event loop alone would let go of them."""


class AsyncioTasks:
    """The async tools of a turn, each a task of asyncio.

    Args:
        value: Awaits what the tool of a call returns.
        late: Is told of an end after the timeout.
        fail: Is told of an interrupt that was raised inside a tool.
    """

    def __init__(
        self,
        value: Callable[[Start], Awaitable[Any]],
        late: Callable[[ToolDone], None],
        fail: Callable[[BaseException], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._value, self._late, self._fail = value, late, fail
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    def start(self, start: Start) -> None:
        """Begin to run a call, in a copy of the calling context."""
        task = self._loop.create_task(self._run(start))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def close(self) -> None:
        """Cancel what still runs, and wait for it.

        Raises:
            asyncio.CancelledError: The calling task was cancelled meanwhile.
        """
        self._closing = True
        if not self._tasks:
            return
        import anyio

        told: asyncio.CancelledError | None = None
        with anyio.CancelScope(shield=True):
            for _ in range(_TIMES):
                for task in self._tasks:
                    task.cancel()
                try:
                    await asyncio.wait(self._tasks, timeout=GRACE)
                except asyncio.CancelledError as error:
                    told = error
                if not self._tasks:
                    break
        for task in list(self._tasks):
            self._leave(task)
        if told is not None:
            raise told

    async def _run(self, start: Start) -> None:
        ending = Ending(start, self._late)
        timer = None if ending.timeout is None else _Timer(ending, ending.timeout, self._leave)
        try:
            value = await self._value(start)
        except asyncio.CancelledError as error:
            if self._closing:
                raise
            if timer is not None and timer.passed:
                ending.time_out()
            else:  # it cancelled itself, or gave up on something that was cancelled
                ending.end(error=as_exception(error))
        except GeneratorExit:
            raise
        except KeyboardInterrupt as error:
            self._fail(error)
        except BaseException as error:  # noqa: BLE001 - whatever it raises is the call's result
            ending.end(error=as_exception(error))
        else:
            ending.end(value)
        finally:
            if timer is not None:
                timer.stop()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)  # nothing that a tool raises comes here: the turn would wait for the call for ever

    def _leave(self, task: asyncio.Task[None]) -> None:
        """Let a task go on by itself."""
        self._tasks.discard(task)
        if not task.done():
            _left.add(task)
            task.add_done_callback(_left.discard)


class _Timer:
    """Cancels the running task when its call has had its time, and lets it go when it does not end then."""

    def __init__(self, ending: Ending, seconds: float, leave: Callable[[asyncio.Task[None]], None]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.passed = False
        self._ending, self._leave, self._task = ending, leave, task
        self._loop = asyncio.get_running_loop()
        ending.begin()
        self._handle = self._loop.call_later(seconds, self._pass)

    def stop(self) -> None:
        self._handle.cancel()

    def _pass(self) -> None:
        self.passed = True
        self._task.cancel()
        self._handle = self._loop.call_later(GRACE, self._give_up)

    def _give_up(self) -> None:
        self._ending.time_out()
        self._leave(self._task)


class AsyncioMailbox:
    """Messages for a turn on the running event loop; `put` may be called from any thread."""

    def __init__(self) -> None:
        self.messages: deque[Message] = deque()
        """What has arrived and was not taken."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._waiting = False
        self._waiter: asyncio.Future[None] | None = None
        self._failure: BaseException | None = None

    def put(self, message: Message) -> None:
        """Add a message, and wake whoever waits."""
        self.messages.append(message)
        if threading.get_ident() == self._thread:
            self._wake()
        elif self._waiting:  # else it looks at the messages before it waits
            with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits any more
                self._loop.call_soon_threadsafe(self._wake)

    def fail(self, error: BaseException) -> None:
        """Raise `error` in whoever waits."""
        self._failure = error
        self._wake()

    async def wait(self) -> None:
        """Wait until there are messages."""
        self._waiting = True
        try:
            while not self.messages:
                if self._failure is not None:
                    raise self._failure
                self._waiter = self._loop.create_future()
                tick = self._loop.call_later(TICK, self._wake)
                try:
                    await self._waiter
                finally:
                    tick.cancel()
        finally:
            self._waiting, self._waiter = False, None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
