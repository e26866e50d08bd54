"""What the two drivers of a turn's steps share.

A driver does what the steps ask (`running.effects`) and knows nothing of the law. `driving_async` awaits permissions
and approvers on the event loop, `driving_blocking` asks permissions on the calling thread.

1. Waiting goes in slices of a tenth of a second, so that an interrupt gets through to a loop that has nothing to do.
2. An exception, an interrupt or a cancellation is thrown into the steps, which close what is open, and goes on. What
   was running on an event loop is cancelled and awaited; a thread cannot be stopped and is left alone.
3. No end of a call is lost. One that comes too late for the turn, or after the call timed out, is told as late. So a
   message stays in the mailbox until the steps have taken it: an interrupt may come at any place.
4. A timeout counts from when the tool begins to run. A coroutine is cancelled then; a thread is left alone, and so is a
   coroutine that does not end within a second of being cancelled.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from contextvars import ContextVar
from types import AsyncGeneratorType, GeneratorType
from typing import Any, TypeVar

from agentperm_nb.errors import ToolTimeoutError, fix_message
from agentperm_nb.running.effects import Effect, Message, Review, ReviewAnswer, ReviewEnded, Start, ToolDone
from agentperm_nb.running.outcomes import ToolOutcomeKind
from agentperm_nb.tools import Tool

__all__ = [
    "GRACE",
    "TICK",
    "Ending",
    "Steps",
    "StepsInHand",
    "as_exception",
    "being_cancelled",
    "deliver",
    "finished_value",
    "forget_loop",
    "loop_thread",
    "on_loop_thread",
    "refuse_in_async_run",
    "review_requests",
    "run_on_new_loop",
    "taken",
]

T = TypeVar("T")
Steps = Callable[[Callable[[Message], None]], Generator[Effect, Any, T]]
"""Makes the steps of a turn; it is given the function that puts a message into the driver's mailbox."""

TICK = 0.1
"""Seconds of one slice of waiting."""

GRACE = 1.0
"""Seconds that a coroutine has to end after it was cancelled."""

loop_thread: ContextVar[int | None] = ContextVar("agentperm_nb_loop_thread", default=None)
"""The thread whose event loop drives a turn, in the code that works for that turn."""


@contextlib.contextmanager
def on_loop_thread() -> Iterator[None]:
    """Mark the code inside the ``with`` block as work of an event loop, which nothing may block."""
    token = loop_thread.set(threading.get_ident())
    try:
        yield
    finally:
        loop_thread.reset(token)


def refuse_in_async_run(method: str, example: str) -> None:
    """Refuse a sync method on the thread of an event loop that drives a turn or a run.

    Raises:
        TypeError: It was called there.
    """
    if loop_thread.get() == threading.get_ident():
        problem = f"{method}() was called inside an async run, whose event loop it would block"
        raise TypeError(fix_message(problem, "await the async form", example))


def run_on_new_loop(main: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
    """Run something on a new event loop of this thread, in a context that was copied from where one may be running."""
    import anyio

    forget_loop()
    return anyio.run(main, *args)


def forget_loop() -> None:
    """Forget, in the context at hand, in which kind of event loop it was copied: the code is in another one."""
    sniffio = sys.modules.get("sniffio")
    if sniffio is not None:  # anyio notes it there
        sniffio.current_async_library_cvar.set(None)


class StepsInHand:
    """A generator with its effect in hand."""

    def __init__(self, generator: Generator[Effect, Any, Any]) -> None:
        self._generator = generator
        self.effect: Effect | None = None
        self.result: Any = None
        self.send(None)

    def send(self, value: Any) -> None:
        """Go on with what the effect gave."""
        self._go(self._generator.send, value)

    def throw(self, error: BaseException) -> None:
        """Go on with what performing the effect raised."""
        self._go(self._generator.throw, error)

    def close(self) -> None:
        """Let the steps close what is open, if they have not ended: what drives them has been interrupted itself."""
        self._generator.close()

    def _go(self, move: Callable[[Any], Effect], value: Any) -> None:
        try:
            self.effect = move(value)
        except StopIteration as end:
            self.effect, self.result = None, end.value


class Ending:
    """The end of a call that runs, which is told once; what ends after its timeout is told as late.

    Args:
        start: The call.
        late: Is told of an end after the timeout; may be called from any thread.
    """

    __slots__ = ("_done", "_first", "_item", "_late", "_over", "timeout")

    def __init__(self, start: Start, late: Callable[[ToolDone], None]) -> None:
        self._item, self._done, self._late = start.item, start.done, late
        self.timeout: float | None = getattr(start.item.tool, "timeout", None)
        """Seconds that the tool has, or None."""
        self._first = threading.Lock() if self.timeout is not None else None
        self._over = math.inf

    def begin(self) -> None:
        """Note that the tool begins to run."""
        if self.timeout is not None:
            self._over = time.monotonic() + self.timeout

    def time_left(self, more: float = 0) -> float:
        """Return the seconds that the call has left of its timeout, and `more`; none left when it is not above 0."""
        return math.inf if self._over == math.inf else self._over + more - time.monotonic()

    def end(self, value: Any = None, error: Exception | None = None) -> None:
        """Tell how the call ended; may be called from any thread."""
        if self._first is not None:
            if self.time_left() <= 0:
                self.time_out()
            if not self._first.acquire(blocking=False):
                self._late(ToolDone(self._item, value, error, late=True))
                return
        self._done(ToolDone(self._item, value, error))

    def time_out(self) -> None:
        """Tell that the call has timed out, unless it has ended; may be called from any thread."""
        if self._first is not None and self._first.acquire(blocking=False):
            self._done(ToolDone(self._item, error=ToolTimeoutError(f"timed out after {self.timeout:g} s")))


def deliver(messages: Iterable[Message], done: Callable[[ToolDone], None] | None) -> None:
    """Tell steps that have ended of the ends of calls that they had not come to: the results are late."""
    for message in messages:
        if isinstance(message, ToolDone) and done is not None and (message.late or not _counted(message)):
            with contextlib.suppress(Exception):  # a log that cannot be written: what ended the turn has said so
                done(message)


def taken(messages: deque[Message]) -> Iterator[Message]:
    """Take all messages; whoever does the same on another thread takes the others."""
    with contextlib.suppress(IndexError):
        while True:
            yield messages.popleft()


def _counted(message: ToolDone) -> bool:
    """Return whether the steps have come to a call's end: an interrupt may have come while they were at it."""
    result = message.item.result
    return result is not None and result.outcome.kind is not ToolOutcomeKind.INTERRUPTED


def finished_value(tool: Tool, value: Any) -> Any:
    """Return what a tool returned.

    Raises:
        TypeError: It is a generator, which has run nothing yet.
    """
    if isinstance(value, GeneratorType | AsyncGeneratorType):
        loop = "async for" if isinstance(value, AsyncGeneratorType) else "for"
        raise TypeError(
            fix_message(
                f"the tool {tool.name} gave a generator, which has not run yet, instead of a result",
                "return a value, such as a list of what the generator yields",
                f"return [line {loop} line in lines]",
            )
        )
    return value


def being_cancelled(error: BaseException) -> bool:
    """Return whether a cancellation is one of the calling code, and not of something that it has awaited."""
    import anyio

    return isinstance(error, anyio.get_cancelled_exc_class()) and anyio.current_effective_deadline() == -math.inf


def as_exception(error: BaseException) -> Exception:
    """Return what a tool raised, where it is of the kinds that end a program or a loop, as a plain error."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration | StopAsyncIteration):
        return error
    return RuntimeError(f"the tool raised {type(error).__name__}")


async def review_requests(review: Review, post: Callable[[Message], None]) -> None:
    """Let an approver answer, until it ends or all its requests have left the desk."""
    import anyio

    error: BaseException | None = None
    async with anyio.create_task_group() as group:

        async def end_when_over() -> None:
            # Asked, not told: the answer may come on any thread, and the desk knows nothing of event loops.
            while not review.is_over():  # noqa: ASYNC110
                await anyio.sleep(TICK / 2)
            await anyio.sleep(TICK * 2)  # an approver that tidies up by itself has a moment for it
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
            if being_cancelled(raised):
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
