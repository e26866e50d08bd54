"""Driving a turn on the event loop, asyncio or trio: permissions and approvers are awaited, sync tools get threads."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from agentperm_nb.approvals.requests import BlockingApprover
from agentperm_nb.json_values import thaw
from agentperm_nb.permissions.deciding import Check
from agentperm_nb.running.driving import (
    TICK,
    Steps,
    StepsInHand,
    as_exception,
    being_cancelled,
    loop_thread,
    review_requests,
)
from agentperm_nb.running.effects import Message, Review, ReviewEnded, ReviewsOver, Start, ToolDone, Wait
from agentperm_nb.running.serving import Served, Serving, serving_elsewhere

if TYPE_CHECKING:
    from anyio.abc import TaskGroup


__all__ = ["adrive"]

T = TypeVar("T")


async def adrive(make: Steps[T]) -> T:
    """Drive steps on the running event loop and return their result.

    Args:
        make: Makes the steps; it is given the function that puts a message into the mailbox.
    """
    import anyio

    token = loop_thread.set(threading.get_ident())
    mailbox = _Mailbox()
    failure: BaseException | None = None
    try:
        steps = StepsInHand(make(mailbox.put))
        while isinstance(steps.effect, Check):
            await _feed(steps, _acheck(steps.effect))
        if steps.effect is not None:
            async with anyio.create_task_group() as group:
                try:
                    await _AsyncWork(group, mailbox).perform(steps)
                except BaseException as error:
                    if being_cancelled(error):
                        raise
                    failure = error
                group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        result: T = steps.result
        return result
    finally:
        loop_thread.reset(token)


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
    def __init__(self, group: TaskGroup, mailbox: _Mailbox) -> None:
        self.group, self.mailbox = group, mailbox
        self.reviews: list[Any] = []

    async def perform(self, steps: StepsInHand) -> None:
        import anyio

        while steps.effect is not None:
            effect = steps.effect
            if isinstance(effect, Start):
                self.group.start_soon(self._run, effect)
                steps.send(None)
            elif isinstance(effect, Review):
                over = anyio.Event()
                self.reviews.append(over)
                self.group.start_soon(self._review, effect, over)
                steps.send(None)
            elif isinstance(effect, Wait):
                await _feed(steps, self.mailbox.get())
            elif isinstance(effect, ReviewsOver):
                await _feed(steps, self._all_over())
            else:
                await _feed(steps, _acheck(effect))

    async def _run(self, start: Start) -> None:
        start.prepare()
        await _arun_tool(start)

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


async def _served_by(
    serving: Serving, approver: BlockingApprover, review: Review, post: Callable[[Message], None]
) -> None:
    """Let the blocked thread above show the requests: it is the only one that gets what the page sends."""
    import anyio

    served = serving.add(Served(lambda: approver.attend(review.requests), review.is_over))
    while not served.ended.is_set():  # noqa: ASYNC110 - another thread, which has no event to set here
        await anyio.sleep(TICK / 2)
    post(ReviewEnded(review.approver, review.requests, served.error))


class _Mailbox:
    """Messages for a turn on an event loop; `put` may be called from any thread."""

    def __init__(self) -> None:
        import anyio
        import anyio.lowlevel

        self._messages: deque[Message] = deque()
        self._arrived = anyio.Event()
        self._thread = threading.get_ident()
        native: Any = anyio.lowlevel.current_token().native_token
        # asyncio's loop and trio's token each have one thread-safe way in.
        self._schedule = getattr(native, "call_soon_threadsafe", None) or native.run_sync_soon

    def put(self, message: Message) -> None:
        self._messages.append(message)
        if threading.get_ident() == self._thread:
            self._arrived.set()
        else:
            with contextlib.suppress(RuntimeError):  # the loop has ended: nobody waits any more
                self._schedule(self._wake)

    def _wake(self) -> None:
        self._arrived.set()

    async def get(self) -> Message:
        import anyio

        while not self._messages:
            self._arrived = anyio.Event()
            if not self._messages:
                with anyio.move_on_after(TICK):
                    await self._arrived.wait()
        return self._messages.popleft()


async def _arun_tool(start: Start) -> None:
    item, tool = start.item, start.item.tool
    assert tool is not None
    args = thaw(item.final.args)
    try:
        if tool.is_async:
            value = tool.run(args)
        else:
            value = await _on_worker(start, args)
            if value is None:
                return
        if inspect.isawaitable(value):
            value = await value
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or being_cancelled(error):
            raise
        start.done(ToolDone(item, error=as_exception(error)))
    else:
        start.done(ToolDone(item, value))


async def _on_worker(start: Start, args: dict[str, Any]) -> Any:
    """Run a sync tool on a thread, which reports its end itself: the turn may be gone by then.

    Returns:
        What the tool returned where that has to be awaited, else None.
    """
    import anyio.to_thread

    item = start.item
    run = item.tool.run if item.tool is not None else None

    def call() -> list[Any]:
        assert run is not None
        try:
            value = run(args)
        except BaseException as error:  # noqa: BLE001 - whatever it raises is the call's result
            start.done(ToolDone(item, error=as_exception(error)))
            return [None]
        if inspect.isawaitable(value):
            return [value]  # in a list: trio refuses a coroutine as a result
        start.done(ToolDone(item, value))
        return [None]

    return (await anyio.to_thread.run_sync(call, abandon_on_cancel=True))[0]
