"""Driving a turn on the event loop, asyncio or trio: permissions and approvers are awaited, sync tools run on threads."""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

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
from agentperm_nb.running.effects import Message, Review, ReviewsOver, Start, ToolDone, Wait

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from agentperm_nb.running.items import CallItem

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
        self.mailbox.put(await _arun_tool(start.item))

    async def _review(self, review: Review, over: Any) -> None:
        try:
            await review_requests(review, self.mailbox.put)
        finally:
            over.set()

    async def _all_over(self) -> None:
        import anyio

        with anyio.move_on_after(2):
            for over in self.reviews:
                await over.wait()


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


async def _arun_tool(item: CallItem) -> ToolDone:
    tool, args = item.tool, thaw(item.final.args)
    assert tool is not None
    try:
        value = tool.run(args) if tool.is_async else await _on_worker(tool.run, args)
        if inspect.isawaitable(value):
            value = await value
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or being_cancelled(error):
            raise
        return ToolDone(item, error=as_exception(error))
    return ToolDone(item, value)


async def _on_worker(run: Callable[[dict[str, Any]], Any], args: dict[str, Any]) -> Any:
    import anyio.to_thread

    def call() -> list[Any]:
        try:
            return [run(args)]  # trio refuses a coroutine as a result
        except BaseException as error:
            shown = as_exception(error)
            if shown is error:
                raise
            raise shown from error  # a future cannot carry everything

    return (await anyio.to_thread.run_sync(call, abandon_on_cancel=True))[0]
