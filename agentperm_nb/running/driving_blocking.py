"""Driving a turn on the calling thread: permissions are asked there; tools and approvers run on worker threads.

An approver that has to work on the calling thread (`BlockingApprover`) is served from there while the turn waits. An
async tool runs on the event loop that lasts (`running.tool_loop`), where it is cancelled when the turn is interrupted.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from agentperm_nb.approvals.requests import BlockingApprover
from agentperm_nb.json_values import thaw
from agentperm_nb.permissions.deciding import Check
from agentperm_nb.running.driving import (
    GRACE,
    TICK,
    Ending,
    Steps,
    StepsInHand,
    as_exception,
    deliver,
    finished_value,
    forget_loop,
    loop_thread,
    refuse_in_async_run,
    review_requests,
    run_on_new_loop,
    taken,
)
from agentperm_nb.running.effects import Effect, Message, Review, ReviewEnded, ReviewsOver, Start, ToolDone, Wait
from agentperm_nb.running.serving import Served, Serving, serving_above, serving_elsewhere
from agentperm_nb.running.tool_loop import LoopWork

if TYPE_CHECKING:
    import asyncio

__all__ = ["drive"]

T = TypeVar("T")

_AT_ONCE = 32  # async tools that run at the same time
_ROUND = 0.005  # seconds that a round of serving takes at least: one that returns at once must not burn the processor


def drive(make: Steps[T]) -> T:
    """Drive steps on the calling thread and return their result; see `adrive`.

    Raises:
        TypeError: It was called inside an async turn, on the thread of its event loop.
    """
    refuse_in_async_run("use_tools", "turn = await agent.ause_tools(reply)")
    with contextlib.ExitStack() as stack:
        work = _BlockingWork(stack)
        steps = StepsInHand(make(work.put))
        try:
            while steps.effect is not None:
                try:
                    value = work.perform(steps.effect)
                except BaseException as error:  # noqa: BLE001 - the steps close what is open and raise it again
                    steps.throw(error)
                else:
                    steps.send(value)
                    if value is not None and work.messages and value is work.messages[0]:
                        work.messages.popleft()
        finally:
            steps.close()
            work.close()
    result: T = steps.result
    return result


class _BlockingWork:
    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.messages: deque[Message] = deque()
        self._arrived: queue.SimpleQueue[None] = queue.SimpleQueue()
        elsewhere = serving_elsewhere()
        self.serving = Serving() if elsewhere is None else elsewhere
        """Serves panels: this turn's own and those of the turns inside it, on the outermost thread that is blocked."""
        if elsewhere is None:
            stack.callback(self.serving.close)
        self.attended: list[tuple[Review, Served]] = []
        self.threads: list[threading.Thread] = []
        self.running: list[_RunningCall] = []
        """Calls that are to be cancelled with the turn, or may time out."""
        self.queued: deque[_RunningCall] = deque()
        """Calls of async tools that wait until there are fewer."""
        self.done: Callable[[ToolDone], None] | None = None
        """Whom to tell how a call ended."""
        self.over = False

    def put(self, message: Message) -> None:
        """Take a message; may be called from any thread."""
        self.messages.append(message)
        self._arrived.put(None)

    def perform(self, effect: Effect) -> Any:
        if isinstance(effect, Check):
            return effect.permission.check(effect.state, effect.call, effect.tool)
        if isinstance(effect, Start):
            self._start(effect)
        elif isinstance(effect, Review):
            self._review(effect)
        elif isinstance(effect, Wait):
            return self._wait()
        elif isinstance(effect, ReviewsOver):
            self._put_away(time.monotonic() + GRACE)
        return None

    def close(self) -> None:
        """Cancel the async tools that still run and wait for them; tell of ends that the steps did not come to."""
        unfinished = [call for call in self.running if call.runs]
        with_loops = [call for call in unfinished if call.cancel()]
        until = time.monotonic() + 2 * GRACE
        for call in with_loops:
            call.wait(max(0, until - time.monotonic()))
        self.over = True
        deliver(taken(self.messages), self.done)

    def late(self, done: ToolDone) -> None:
        """Take the end of a call after its timeout; may be called from any thread, and after the turn has ended."""
        self.put(done)  # behind the message that it has timed out
        if self.over:
            deliver(taken(self.messages), self.done)

    def _start(self, start: Start) -> None:
        self.done = start.done
        call = _RunningCall(start, copy_context(), self.serving, self.late)
        if call.is_async:
            self.queued.append(call)
            self._begin_queued()
        else:
            self._begin(call)

    def _begin(self, call: _RunningCall) -> None:
        call.begin()
        if call.is_async or call.ending.timeout is not None:
            self.running.append(call)

    def _begin_queued(self) -> None:
        free = _AT_ONCE - sum(call.is_async and call.runs for call in self.running)
        for _ in range(min(free, len(self.queued))):
            self._begin(self.queued.popleft())

    def _review(self, review: Review) -> None:
        if isinstance(review.approver, BlockingApprover):
            approver = review.approver
            served = Served(lambda: approver.attend(review.requests), review.is_over)
            if not self.serving.is_here:
                self.serving.add(served)
            else:
                try:
                    self.serving.begin(served)
                except Exception as error:  # noqa: BLE001 - the steps decide what it means
                    served.end(error)
            self.attended.append((review, served))
            return

        def work() -> None:
            try:
                run_on_new_loop(review_requests, review, self.put)
            except BaseException as error:  # noqa: BLE001 - the turn waits for a message whatever happens
                self.put(ReviewEnded(review.approver, review.requests, error))

        self.threads.append(_on_thread("agentperm-review", copy_context(), work))

    def _wait(self) -> Message:
        served_at = -math.inf
        while True:
            self.running = [call for call in self.running if call.runs]
            self._begin_queued()
            wait = min([TICK, *[call.time_left() for call in self.running]])
            if self.serving.is_here and self.serving.busy:
                wait = min(wait, served_at + _ROUND - time.monotonic())
            with contextlib.suppress(queue.Empty):
                self._arrived.get(block=not self.messages and wait > 0, timeout=max(wait, 0))
            while self.messages:
                message = self.messages[0]
                if not isinstance(message, ToolDone) or not message.late:
                    return message
                if self.done is not None:
                    self.done(message)
                self.messages.popleft()
            if self.serving.is_here:
                served_at = time.monotonic()
                self.serving.step(TICK / 2)
            for review, served in list(self.attended):
                if served.ended.is_set() and served.error is not None:
                    self.attended.remove((review, served))
                    self.put(ReviewEnded(review.approver, review.requests, served.error))

    def _put_away(self, until: float) -> None:
        """Let whoever was asked end, until a moment for all of them: one that blocks is left alone."""
        for _, served in self.attended:
            if self.serving.is_here:
                self.serving.end(served)
            else:
                served.ended.wait(max(0, until - time.monotonic()))
        self.attended.clear()
        for thread in self.threads:
            thread.join(max(0, until - time.monotonic()))
        self.threads.clear()


def _on_thread(name: str, context: Context, function: Callable[[], None]) -> threading.Thread:
    # Daemons: an interrupted turn does not wait for a tool that cannot be stopped.
    thread = threading.Thread(target=context.run, args=(function,), name=name, daemon=True)
    thread.start()
    return thread


class _RunningCall:
    """A call on a thread of its own; what has to be awaited runs on the loop that lasts (`running.tool_loop`)."""

    def __init__(self, start: Start, context: Context, serving: Serving, late: Callable[[ToolDone], None]) -> None:
        assert start.item.tool is not None
        self.ending, self.tool = Ending(start, late), start.item.tool
        self.is_async = self.tool.is_async
        self._start, self._context, self._serving = start, context, serving
        self._work: LoopWork | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._over = self._left = self._cancelled = self._timed_out = False

    @property
    def runs(self) -> bool:
        """Whether it still runs, and somebody waits for it."""
        return not self._over and not self._left

    def begin(self) -> None:
        """Begin to run."""
        if self.is_async:
            self._begin_to_await(self._called)
        else:
            self.ending.begin()
            _on_thread("agentperm-tool", self._context, self._run)

    def time_left(self) -> float:
        """Return how many seconds it may be waited for, above 0; when there are none left, it goes on by itself."""
        work = self._work
        again = math.inf if work is None else work.look_after()
        left = self.ending.time_left(GRACE if work is not None else 0)
        if left <= 0 and self.runs:
            self.ending.time_out()
            self._left = True
        return math.inf if self._left or self._over else max(0.001, min(left, again))

    def cancel(self) -> bool:
        """Cancel it where it is awaited, or will be; return whether it is."""
        self._cancelled = True
        if self._work is not None:
            self._work.cancel()
        return self._work is not None

    def wait(self, seconds: float) -> None:
        """Wait for its end, where it is awaited."""
        if self._work is not None:
            self._work.wait(seconds)

    def _run(self) -> None:
        """Run a sync tool, on its thread; what it gives may have to be awaited."""
        try:
            forget_loop()
            value = self._call()
        except BaseException as error:  # noqa: BLE001 - the turn waits for a message whatever happens
            self._end(error=error)
        else:
            if inspect.isawaitable(value):
                self._begin_to_await(partial(self._awaited, value))
            else:
                self._end(value)

    def _call(self) -> Any:
        loop_thread.set(None)
        serving_above.set(self._serving)
        self._start.prepare()
        return self.tool.run(thaw(self._start.item.final.args))

    def _begin_to_await(self, main: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._work = LoopWork(main, self._context)
        self._work.begin()

    async def _called(self) -> None:
        import asyncio

        try:
            if self._cancelled:
                raise asyncio.CancelledError
            self.ending.begin()
            value = self._call()
        except BaseException as error:  # noqa: BLE001 - the turn waits for a message whatever happens
            self._end(error=error)
        else:
            await self._awaited(value)

    async def _awaited(self, value: Any) -> None:
        import asyncio

        try:
            if self._cancelled or self._left:
                if inspect.iscoroutine(value):
                    value.close()
                if self._cancelled:
                    raise asyncio.CancelledError
                raise RuntimeError("it returned something to await when nobody waited any more")
            if self.ending.timeout is not None:
                loop, task = asyncio.get_running_loop(), asyncio.current_task()
                assert task is not None
                self._timer = loop.call_later(max(0, self.ending.time_left()), self._pass, task)
            while type(value) is not str and inspect.isawaitable(value):
                value = await value
        except BaseException as error:  # noqa: BLE001 - the turn waits for a message whatever happens
            self._end(error=error)
        else:
            self._end(value)

    def _pass(self, task: asyncio.Task[Any]) -> None:
        self._timed_out = True
        task.cancel()

    def _end(self, value: Any = None, *, error: BaseException | None = None) -> None:
        import asyncio

        if self._timer is not None:
            self._timer.cancel()
        if error is None:
            try:
                value = finished_value(self.tool, value)
            except TypeError as wrong:
                error = wrong
        self._over = True
        if error is None:
            self.ending.end(value)
        elif not isinstance(error, asyncio.CancelledError) or not (self._timed_out or self._cancelled):
            self.ending.end(error=as_exception(error))
        elif self._timed_out:
            self.ending.time_out()
