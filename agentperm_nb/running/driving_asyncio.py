"""What the driver on an event loop does natively under asyncio, where a task of anyio costs five times as much.

A coroutine that ignores being cancelled is cancelled again each second, and left to itself after some: then neither an
interrupt nor a timeout waits for it any longer, and what it returns is late.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections import deque
from collections.abc import Callable

from agentperm_nb.json_values import thaw
from agentperm_nb.running.driving import GRACE, TICK, Ending, as_exception, finished_value
from agentperm_nb.running.effects import Message, Start, ToolDone

__all__ = ["AsyncioMailbox", "AsyncioTasks"]

_TIMES = 5  # that a coroutine is cancelled before an interrupted turn ends without it

_left: set[asyncio.Task[None]] = set()
"""Tasks that nobody waits for: an event loop alone would let go of them."""


class AsyncioTasks:
    """The async tools of a turn, each a task of asyncio.

    Args:
        late: Is told of an end after the timeout.
        fail: Is told of an interrupt that was raised inside a tool.
    """

    def __init__(self, late: Callable[[ToolDone], None], fail: Callable[[BaseException], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._late, self._fail = late, fail
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing = False

    def start(self, start: Start) -> None:
        """Begin to run a call, in a copy of the calling context."""
        self._tasks.add(self._loop.create_task(self._run(start)))

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
                self._tasks = {task for task in self._tasks if not task.done()}
                if not self._tasks:
                    break
        for task in list(self._tasks):
            self._leave(task)
        if told is not None:
            raise told

    async def _run(self, start: Start) -> None:
        # One coroutine, without a part of its own for each step: thousands of them may wait at the same time.
        task, ending, timer = asyncio.current_task(), None, None
        try:
            tool = start.item.tool
            assert task is not None
            assert tool is not None
            if tool.timeout is not None:
                ending = Ending(start, self._late)
                timer = _Timer(ending, tool.timeout, task, self._leave)
            try:
                start.prepare()
                value = tool.run(thaw(start.item.final.args))
                while type(value) is not str and inspect.isawaitable(value):
                    value = await value
                value = finished_value(tool, value)
            except (GeneratorExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                if not isinstance(error, asyncio.CancelledError):
                    done = ToolDone(start.item, error=as_exception(error))
                elif self._closing:
                    raise
                elif timer is not None and timer.passed and ending is not None:
                    ending.time_out()
                    return
                else:  # it cancelled itself, or gave up on something that was cancelled
                    done = ToolDone(start.item, error=as_exception(error))
            else:
                done = ToolDone(start.item, value)
            if ending is None:
                start.done(done)
            else:
                ending.end(done.value, done.error)
        except (GeneratorExit, asyncio.CancelledError):
            raise
        except BaseException as error:  # noqa: BLE001 - an interrupt, or a log that cannot be written: it ends the turn
            self._fail(error)
        finally:
            if timer is not None:
                timer.stop()
            if task is not None and not self._closing:
                self._tasks.discard(task)

    def _leave(self, task: asyncio.Task[None]) -> None:
        """Let a task go on by itself."""
        self._tasks.discard(task)
        if not task.done():
            _left.add(task)
            task.add_done_callback(_left.discard)


class _Timer:
    """Cancels the running task when its call has had its time, and lets it go when it does not end then."""

    def __init__(
        self, ending: Ending, seconds: float, task: asyncio.Task[None], leave: Callable[[asyncio.Task[None]], None]
    ) -> None:
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
