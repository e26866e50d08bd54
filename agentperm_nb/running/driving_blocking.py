"""Driving a turn on the calling thread: permissions are asked there; tools and approvers run on worker threads.

An approver that has to work on the calling thread (`BlockingApprover`) is served from there while the turn waits.
"""

from __future__ import annotations

import contextlib
import inspect
import queue
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any, TypeVar

from agentperm_nb.approvals.requests import BlockingApprover
from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import thaw
from agentperm_nb.permissions.deciding import Check
from agentperm_nb.running.driving import TICK, Steps, StepsInHand, as_exception, loop_thread, review_requests
from agentperm_nb.running.effects import Effect, Message, Review, ReviewEnded, ReviewsOver, Start, ToolDone, Wait
from agentperm_nb.running.serving import Served, Serving, serving_above, serving_elsewhere

__all__ = ["drive"]

T = TypeVar("T")


def drive(make: Steps[T]) -> T:
    """Drive steps on the calling thread and return their result; see `adrive`.

    Raises:
        TypeError: It was called inside an async turn, on the thread of its event loop.
    """
    if loop_thread.get() == threading.get_ident():
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
        steps = StepsInHand(make(messages.put))
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
        self.messages = messages
        elsewhere = serving_elsewhere()
        self.serving = Serving() if elsewhere is None else elsewhere
        """Serves panels: this turn's own and those of the turns inside it, on the outermost thread that is blocked."""
        if elsewhere is None:
            stack.callback(self.serving.close)
        self.attended: list[tuple[Review, Served]] = []
        self.threads: list[threading.Thread] = []

    def perform(self, effect: Effect) -> Any:
        if isinstance(effect, Check):
            return effect.permission.check(effect.state, effect.call, effect.tool)
        if isinstance(effect, Start):
            self._on_thread("agentperm-tool", _run_tool_blocking, effect, self.serving)
        elif isinstance(effect, Review):
            self._review(effect)
        elif isinstance(effect, Wait):
            return self._wait()
        elif isinstance(effect, ReviewsOver):
            self._put_away()
            for thread in self.threads:
                thread.join(2)
        return None

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
            import anyio

            try:
                anyio.run(review_requests, review, self.messages.put)
            except BaseException as error:  # noqa: BLE001 - the turn waits for a message whatever happens
                self.messages.put(ReviewEnded(review.approver, review.requests, error))

        self.threads.append(self._on_thread("agentperm-review", work))

    def _wait(self) -> Message:
        while True:
            serving = self.serving.is_here and self.serving.busy
            try:
                return self.messages.get(block=not serving, timeout=TICK)
            except queue.Empty:
                pass
            if self.serving.is_here:
                self.serving.step(TICK / 2)
            for review, served in list(self.attended):
                if served.ended.is_set() and served.error is not None:
                    self.attended.remove((review, served))
                    self.messages.put(ReviewEnded(review.approver, review.requests, served.error))

    def _put_away(self) -> None:
        for _, served in self.attended:
            if self.serving.is_here:
                self.serving.end(served)
            else:
                served.ended.wait(2)
        self.attended.clear()

    @staticmethod
    def _on_thread(name: str, function: Callable[..., Any], *args: Any) -> threading.Thread:
        # Daemons: an interrupted turn does not wait for a tool that cannot be stopped.
        context = copy_context()
        thread = threading.Thread(target=context.run, args=(function, *args), name=name, daemon=True)
        thread.start()
        return thread


def _run_tool_blocking(start: Start, serving: Serving) -> None:
    item, tool = start.item, start.item.tool
    assert tool is not None
    loop_thread.set(None)
    serving_above.set(serving)
    start.prepare()
    try:
        value = tool.run(thaw(item.final.args))
        if inspect.isawaitable(value):
            import anyio

            async def finished() -> Any:
                return await value

            value = anyio.run(finished)
    except BaseException as error:  # noqa: BLE001 - the turn waits for a message whatever happens
        start.done(ToolDone(item, error=as_exception(error)))
    else:
        start.done(ToolDone(item, value))
