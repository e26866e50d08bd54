"""Driving a turn on the event loop, asyncio or trio: permissions and approvers are awaited, sync tools get threads."""

from __future__ import annotations

import contextlib
import inspect
import math
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from agentperm_nb.approvals.requests import BlockingApprover
from agentperm_nb.json_values import thaw
from agentperm_nb.permissions.deciding import Check
from agentperm_nb.running.driving import (
    TICK,
    Ending,
    Steps,
    StepsInHand,
    as_exception,
    being_cancelled,
    deliver,
    finished_value,
    on_loop_thread,
    review_requests,
    taken,
)
from agentperm_nb.running.effects import Message, Review, ReviewEnded, ReviewsOver, Start, ToolDone, Wait
from agentperm_nb.running.serving import Served, Serving, serving_elsewhere

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from agentperm_nb.running.driving_asyncio import AsyncioMailbox, AsyncioTasks


__all__ = ["adrive"]

T = TypeVar("T")


async def adrive(make: Steps[T]) -> T:
    """Drive steps on the running event loop and return their result.

    Args:
        make: Makes the steps; it is given the function that puts a message into the mailbox.
    """
    import anyio

    with on_loop_thread():
        mailbox = _mailbox()
        steps = StepsInHand(make(mailbox.put))
        work: _AsyncWork | None = None
        failure: BaseException | None = None
        try:
            while isinstance(steps.effect, Check):
                await _feed(steps, _acheck(steps.effect))
            if steps.effect is not None:
                async with anyio.create_task_group() as group:
                    work = _AsyncWork(group, mailbox)
                    try:
                        await work.perform(steps)
                    except BaseException as error:
                        failure = error
                        if being_cancelled(error):
                            raise
                    finally:
                        if work.tasks is not None:
                            await work.tasks.close()
                    group.cancel_scope.cancel()
        finally:
            steps.close()
            if work is not None:
                work.close()
        if failure is not None:
            raise failure
        result: T = steps.result
        return result


async def _feed(steps: StepsInHand, awaitable: Awaitable[Any]) -> None:
    try:
        value = await awaitable
    except BaseException as error:  # noqa: BLE001 - the steps close what is open and raise it again
        steps.throw(error)
    else:
        steps.send(value)


async def _acheck(check: Check) -> Any:
    return await check.permission.acheck(check.state, check.call, check.tool)


class _AsyncWork:
    def __init__(self, group: TaskGroup, mailbox: _Mailbox | AsyncioMailbox) -> None:
        self.group, self.mailbox = group, mailbox
        self.reviews: list[Any] = []
        self.done: Callable[[ToolDone], None] | None = None
        """Whom to tell how a call ended."""
        self.tasks: AsyncioTasks | None = None
        """The async tools, where they are tasks of asyncio."""
        self.native = not isinstance(mailbox, _Mailbox)
        self.limiter: Any = None
        self.over = False

    async def perform(self, steps: StepsInHand) -> None:
        import anyio

        messages = self.mailbox.messages
        while steps.effect is not None:
            effect = steps.effect
            if isinstance(effect, Wait):
                try:
                    if not messages or _is_late(messages[0]):
                        await self._next()
                except BaseException as error:  # noqa: BLE001 - the steps close what is open and raise it again
                    steps.throw(error)
                else:
                    steps.send(messages[0])
                    messages.popleft()
            elif isinstance(effect, Start):
                self._start(effect)
                steps.send(None)
            elif isinstance(effect, Review):
                over = anyio.Event()
                self.reviews.append(over)
                self.group.start_soon(self._review, effect, over)
                steps.send(None)
            elif isinstance(effect, ReviewsOver):
                await _feed(steps, self._all_over())
            else:
                await _feed(steps, _acheck(effect))

    def late(self, done: ToolDone) -> None:
        """Take the end of a call after its timeout; may be called from any thread, and after the turn has ended."""
        self.mailbox.put(done)  # behind the message that it has timed out
        if self.over:
            self.close()

    def close(self) -> None:
        """Tell of the ends of calls that the steps did not come to."""
        self.over = True
        deliver(taken(self.mailbox.messages), self.done)

    async def _next(self) -> None:
        """Wait for a message that is for the steps."""
        messages = self.mailbox.messages
        while not messages or _is_late(messages[0]):
            if messages and isinstance(messages[0], ToolDone) and self.done is not None:
                self.done(messages[0])
                messages.popleft()
            else:
                await self.mailbox.wait()

    def _start(self, start: Start) -> None:
        self.done = start.done
        if not self.native or not _is_async(start):
            self.group.start_soon(self._run, start)
            return
        if self.tasks is None:
            from agentperm_nb.running.driving_asyncio import AsyncioTasks

            self.tasks = AsyncioTasks(self.late, self.mailbox.fail)
        self.tasks.start(start)

    async def _run(self, start: Start) -> None:
        import anyio

        ending = Ending(start, self.late)
        ending.begin()
        if ending.timeout is None:
            await self._run_to_end(start, ending)
            return
        with anyio.move_on_after(ending.timeout) as scope:
            await self._run_to_end(start, ending)
        if scope.cancelled_caught:
            ending.time_out()

    async def _run_to_end(self, start: Start, ending: Ending) -> None:
        try:
            if _is_async(start):
                ending.end(await _value(start))
            else:
                await self._on_thread(start, ending)
        except BaseException as error:
            if isinstance(error, GeneratorExit) or being_cancelled(error):
                raise
            if isinstance(error, KeyboardInterrupt):
                self.mailbox.fail(error)
            else:
                ending.end(error=as_exception(error))

    async def _on_thread(self, start: Start, ending: Ending) -> None:
        """Run a sync tool on a thread, which tells its end itself: the turn may be gone by then."""
        import anyio.to_thread

        start.prepare()
        if self.limiter is None:
            # As many as the steps start: a thread that was left alone must not keep another call waiting.
            self.limiter = anyio.CapacityLimiter(math.inf)
        handed = _Handed()

        def call() -> None:
            try:
                value = _begun(start)
                if inspect.isawaitable(value):
                    if not handed.give(value):
                        raise RuntimeError("it returned something to await when nobody waited any more")
                    return
            except BaseException as error:  # noqa: BLE001 - whatever it raises is the call's result
                ending.end(error=as_exception(error))
            else:
                ending.end(value)

        try:
            await anyio.to_thread.run_sync(call, abandon_on_cancel=True, limiter=self.limiter)
            value = handed.take()
            if value is not None:
                ending.end(await _awaited(start, value))
        finally:
            handed.leave()

    async def _review(self, review: Review, over: Any) -> None:
        try:
            serving = serving_elsewhere()
            if serving is not None and isinstance(review.approver, BlockingApprover):
                await _served_by(serving, review.approver, review, self.mailbox.put)
            else:
                await review_requests(review, self.mailbox.put)
        finally:
            over.set()

    async def _all_over(self) -> None:
        import anyio

        with anyio.move_on_after(2):
            for over in self.reviews:
                await over.wait()


def _is_late(message: Message) -> bool:
    return isinstance(message, ToolDone) and message.late


def _is_async(start: Start) -> bool:
    tool = start.item.tool
    return tool is not None and tool.is_async


def _begun(start: Start) -> Any:
    """Run the tool of a call; return its result, or something to await."""
    tool = start.item.tool
    assert tool is not None
    return finished_value(tool, tool.run(thaw(start.item.final.args)))


async def _awaited(start: Start, value: Any) -> Any:
    tool = start.item.tool
    assert tool is not None
    while type(value) is not str and inspect.isawaitable(value):
        value = await value
    return finished_value(tool, value)


async def _value(start: Start) -> Any:
    """Run an async tool and await its result."""
    start.prepare()
    return await _awaited(start, _begun(start))


async def _served_by(
    serving: Serving, approver: BlockingApprover, review: Review, post: Callable[[Message], None]
) -> None:
    """Let the blocked thread above show the requests: it is the only one that gets what the page sends."""
    import anyio

    served = serving.add(Served(lambda: approver.attend(review.requests), review.is_over))
    while not served.ended.is_set():  # noqa: ASYNC110 - another thread, which has no event to set here
        await anyio.sleep(TICK / 2)
    post(ReviewEnded(review.approver, review.requests, served.error))


class _Handed:
    """Something to await, on its way from a thread to the event loop; what nobody will await is closed."""

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._left = False

    def give(self, value: Any) -> bool:
        """Hand it over; return False when nobody will take it."""
        self._values.append(value)
        if self._left:
            self._close()
        return not self._left

    def take(self) -> Any:
        """Return it, or None where there is nothing."""
        return self._values.pop() if self._values else None

    def leave(self) -> None:
        """Take nothing any more."""
        self._left = True
        self._close()

    def _close(self) -> None:
        value = self.take()
        if inspect.iscoroutine(value):
            value.close()


def _mailbox() -> _Mailbox | AsyncioMailbox:
    import anyio.lowlevel

    native: Any = anyio.lowlevel.current_token().native_token
    if hasattr(native, "call_soon_threadsafe"):  # a loop of asyncio, whoever made it
        from agentperm_nb.running.driving_asyncio import AsyncioMailbox

        return AsyncioMailbox()
    return _Mailbox()


class _Mailbox:
    """Messages for a turn on an event loop that is not asyncio's; `put` may be called from any thread."""

    def __init__(self) -> None:
        import anyio
        import anyio.lowlevel

        self.messages: deque[Message] = deque()
        self._arrived = anyio.Event()
        self._thread = threading.get_ident()
        self._failure: BaseException | None = None
        self._schedule: Any = anyio.lowlevel.current_token().native_token.run_sync_soon  # type: ignore[attr-defined]

    def put(self, message: Message) -> None:
        self.messages.append(message)
        if threading.get_ident() == self._thread:
            self._arrived.set()
        else:
            with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits any more
                self._schedule(self._wake)

    def fail(self, error: BaseException) -> None:
        self._failure = error
        self._arrived.set()

    def _wake(self) -> None:
        self._arrived.set()

    async def wait(self) -> None:
        """Wait until there are messages."""
        import anyio

        while not self.messages:
            if self._failure is not None:
                raise self._failure
            self._arrived = anyio.Event()
            if not self.messages:
                with anyio.move_on_after(TICK):
                    await self._arrived.wait()
