"""What the two drivers of a turn's steps share.

A driver does what the steps ask (`running.effects`) and knows nothing of the law. `driving_async` awaits permissions
and approvers on the event loop, `driving_blocking` asks permissions on the calling thread.

1. Waiting goes in slices of a tenth of a second, so that an interrupt gets through to a loop that has nothing to do.
2. An exception, an interrupt or a cancellation is thrown into the steps, which close what is open, and goes on.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import threading
from collections.abc import Callable, Generator, Iterator
from contextvars import ContextVar
from typing import Any, TypeVar

from agentperm_nb.errors import fix_message
from agentperm_nb.running.effects import Effect, Message, Review, ReviewAnswer, ReviewEnded

__all__ = [
    "TICK",
    "Steps",
    "StepsInHand",
    "as_exception",
    "being_cancelled",
    "loop_thread",
    "on_loop_thread",
    "review_requests",
]

T = TypeVar("T")
Steps = Callable[[Callable[[Message], None]], Generator[Effect, Any, T]]
"""Makes the steps of a turn; it is given the function that puts a message into the driver's mailbox."""

TICK = 0.1
"""Seconds of one slice of waiting."""

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

    def _go(self, move: Callable[[Any], Effect], value: Any) -> None:
        try:
            self.effect = move(value)
        except StopIteration as end:
            self.effect, self.result = None, end.value


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
