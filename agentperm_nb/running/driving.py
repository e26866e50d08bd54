"""The two drivers of a turn's steps: `drive` on the calling thread, `adrive` on the event loop.

A driver does what the steps ask (`running.effects`) and knows nothing of the law.

1. `drive` asks permissions on the calling thread. Tools and approvers run on worker threads; an approver that has to
   work on the calling thread (`BlockingApprover`) is served from there while the turn waits.
2. `adrive` awaits permissions and approvers on the loop, asyncio or trio; sync tools run on worker threads.
3. Waiting goes in slices of a tenth of a second, so that an interrupt gets through to a loop that has nothing to do.
4. An exception, an interrupt or a cancellation is thrown into the steps, which close what is open, and goes on.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import queue
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from agentperm_nb.approvals.requests import BlockingApprover
from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import thaw
from agentperm_nb.permissions.deciding import Check
from agentperm_nb.running.effects import (
    Effect,
    Message,
    Review,
    ReviewAnswer,
    ReviewEnded,
    ReviewsOver,
    Start,
    ToolDone,
    Wait,
)

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from agentperm_nb.running.items import CallItem

__all__ = ["Steps", "adrive", "drive"]

T = TypeVar("T")
Steps = Callable[[Callable[[Message], None]], Generator[Effect, Any, T]]
_TICK = 0.1  # seconds

_loop_thread: ContextVar[int | None] = ContextVar("agentperm_nb_loop_thread", default=None)


class _Steps:
    """A generator with its effect in hand."""

    def __init__(self, generator: Generator[Effect, Any, Any]) -> None:
        self._generator = generator
        self.effect: Effect | None = None
        self.result: Any = None
        self.send(None)

    def send(self, value: Any) -> None:
        self._go(self._generator.send, value)

    def throw(self, error: BaseException) -> None:
        self._go(self._generator.throw, error)

    def _go(self, move: Callable[[Any], Effect], value: Any) -> None:
        try:
            self.effect = move(value)
        except StopIteration as end:
            self.effect, self.result = None, end.value


# ---------------------------------------------------------------------- on the event loop


async def adrive(make: Steps[T]) -> T:
    """Drive steps on the running event loop and return their result.

    Args:
        make: Makes the steps; it is given the function that puts a message into the mailbox.
    """
    import anyio

    token = _loop_thread.set(threading.get_ident())
    mailbox = _Mailbox()
    failure: BaseException | None = None
    try:
        steps = _Steps(make(mailbox.put))
        while isinstance(steps.effect, Check):
            await _feed(steps, _acheck(steps.effect))
        if steps.effect is not None:
            async with anyio.create_task_group() as group:
                try:
                    await _AsyncWork(group, mailbox).perform(steps)
                except BaseException as error:
                    if _being_cancelled(error):
                        raise
                    failure = error
                group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        result: T = steps.result
        return result
    finally:
        _loop_thread.reset(token)


def _being_cancelled(error: BaseException) -> bool:
    """Return whether a cancellation is one of the calling code, and not of something that it has awaited."""
    import anyio

    return isinstance(error, anyio.get_cancelled_exc_class()) and anyio.current_effective_deadline() == -math.inf


async def _feed(steps: _Steps, awaitable: Awaitable[Any]) -> None:
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

    async def perform(self, steps: _Steps) -> None:
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
            await _areview(review, self.mailbox.put)
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
                with anyio.move_on_after(_TICK):
                    await self._arrived.wait()
        return self._messages.popleft()


async def _areview(review: Review, post: Callable[[Message], None]) -> None:
    """Let an approver answer, until it ends or all its requests have left the desk."""
    import anyio

    error: BaseException | None = None
    async with anyio.create_task_group() as group:

        async def end_when_over() -> None:
            # Asked, not told: the answer may come on any thread, and the desk knows nothing of event loops.
            while not review.is_over():  # noqa: ASYNC110
                await anyio.sleep(_TICK / 2)
            await anyio.sleep(_TICK * 2)  # an approver that tidies up by itself has a moment for it
            group.cancel_scope.cancel()

        group.start_soon(end_when_over)
        try:
            async with contextlib.aclosing(_checked(review.approver.areview(review.requests))) as answers:
                async for answer in answers:
                    request_id, value = answer if isinstance(answer, tuple) and len(answer) == 2 else (None, answer)
                    post(ReviewAnswer(review.approver, request_id, value))
                    if review.is_over():
                        break
        except BaseException as raised:
            if _being_cancelled(raised):
                raise
            error = raised
        group.cancel_scope.cancel()
    post(ReviewEnded(review.approver, review.requests, error))


def _checked(answers: Any) -> Any:
    if not hasattr(answers, "__aiter__") or not hasattr(answers, "aclose"):
        if inspect.iscoroutine(answers):
            answers.close()
        raise TypeError(
            fix_message(
                f"areview returned {type(answers).__name__}, not an async generator",
                "write it with yield",
                "async def areview(self, requests):\n    for request in requests:\n"
                "        yield request.id, ApprovalDecision('deny')",
            )
        )
    return answers


async def _arun_tool(item: CallItem) -> ToolDone:
    tool, args = item.tool, thaw(item.final.args)
    assert tool is not None
    try:
        value = tool.run(args) if tool.is_async else await _on_worker(tool.run, args)
        if inspect.isawaitable(value):
            value = await value
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or _being_cancelled(error):
            raise
        return ToolDone(item, error=_as_exception(error))
    return ToolDone(item, value)


async def _on_worker(run: Callable[[dict[str, Any]], Any], args: dict[str, Any]) -> Any:
    import anyio.to_thread

    def call() -> list[Any]:
        try:
            return [run(args)]  # trio refuses a coroutine as a result
        except BaseException as error:
            shown = _as_exception(error)
            if shown is error:
                raise
            raise shown from error  # a future cannot carry everything

    return (await anyio.to_thread.run_sync(call, abandon_on_cancel=True))[0]


def _as_exception(error: BaseException) -> Exception:
    """Return what a tool raised, where it is of the kinds that end a program or a loop, as a plain error."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration):
        return error
    return RuntimeError(f"the tool raised {type(error).__name__}")


# ---------------------------------------------------------------------- on the calling thread


def drive(make: Steps[T]) -> T:
    """Drive steps on the calling thread and return their result; see `adrive`.

    Raises:
        TypeError: It was called inside an async turn, on the thread of its event loop.
    """
    if _loop_thread.get() == threading.get_ident():
        raise TypeError(
            fix_message(
                "use_tools() was called inside an async run, whose event loop it would block",
                "await the async form",
                "turn = await agent.ause_tools(reply)",
            )
        )
    messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
    with contextlib.ExitStack() as stack:
        work = _BlockingWork(messages, stack)
        steps = _Steps(make(messages.put))
        while steps.effect is not None:
            try:
                value = work.perform(steps.effect)
            except BaseException as error:  # noqa: BLE001 - the steps close what is open and raise it again
                steps.throw(error)
            else:
                steps.send(value)
    result: T = steps.result
    return result


class _BlockingWork:
    def __init__(self, messages: queue.SimpleQueue[Message], stack: contextlib.ExitStack) -> None:
        self.messages, self.stack = messages, stack
        self.attended: contextlib.ExitStack = stack.enter_context(contextlib.ExitStack())
        self.serving: list[tuple[Review, Callable[[float], None]]] = []
        self.threads: list[threading.Thread] = []

    def perform(self, effect: Effect) -> Any:
        if isinstance(effect, Check):
            return effect.permission.check(effect.state, effect.call, effect.tool)
        if isinstance(effect, Start):
            self._on_thread("agentperm-tool", _run_tool_blocking, effect, self.messages.put)
        elif isinstance(effect, Review):
            self._review(effect)
        elif isinstance(effect, Wait):
            return self._wait()
        elif isinstance(effect, ReviewsOver):
            self.attended.close()
            self.serving.clear()
            for thread in self.threads:
                thread.join(2)
        return None

    def _review(self, review: Review) -> None:
        if isinstance(review.approver, BlockingApprover):
            try:
                serve = self.attended.enter_context(review.approver.attend(review.requests))
            except Exception as error:  # noqa: BLE001 - the steps decide what it means
                self.messages.put(ReviewEnded(review.approver, review.requests, error))
                return
            self.serving.append((review, serve))
            return

        def work() -> None:
            import anyio

            try:
                anyio.run(_areview, review, self.messages.put)
            except BaseException as error:  # noqa: BLE001 - the turn waits for a message whatever happens
                self.messages.put(ReviewEnded(review.approver, review.requests, error))

        self.threads.append(self._on_thread("agentperm-review", work))

    def _wait(self) -> Message:
        while True:
            try:
                return self.messages.get(block=not self.serving, timeout=_TICK)
            except queue.Empty:
                pass
            for review, serve in list(self.serving):
                try:
                    serve(_TICK / 2)
                except Exception as error:  # noqa: BLE001 - the steps decide what it means
                    self.serving.remove((review, serve))
                    self.messages.put(ReviewEnded(review.approver, review.requests, error))

    @staticmethod
    def _on_thread(name: str, function: Callable[..., Any], *args: Any) -> threading.Thread:
        # Daemons: an interrupted turn does not wait for a tool that cannot be stopped.
        context = copy_context()
        thread = threading.Thread(target=context.run, args=(function, *args), name=name, daemon=True)
        thread.start()
        return thread


def _run_tool_blocking(start: Start, post: Callable[[Message], None]) -> None:
    item, tool = start.item, start.item.tool
    assert tool is not None
    _loop_thread.set(None)
    start.prepare()
    try:
        value = tool.run(thaw(item.final.args))
        if inspect.isawaitable(value):
            import anyio

            async def finished() -> Any:
                return await value

            value = anyio.run(finished)
    except BaseException as error:  # noqa: BLE001 - the turn waits for a message whatever happens
        post(ToolDone(item, error=_as_exception(error)))
    else:
        post(ToolDone(item, value))
