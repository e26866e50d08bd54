"""The person in front of the notebook: asked in a panel under the running cell.

1. Requests wait until they have left the desk, whoever answered them. Nothing but an answer approves anything: not an
   interrupt, not a closed page, not the end of the wait.
2. Where nobody can answer (a scheduled run), every request is denied at once, with the cause and the remedy.
3. A panel that has not shown itself after 3 s is said to be missing, with what to install; after `prompt_after` seconds
   the same questions are put as text. In an awaiting cell a late panel may still answer, and the first answer counts;
   in a blocking cell there is only the text from then on.
4. When the cell is to run again, the page drops what the waiting one shows, so its requests are withdrawn: the next
   execution asks anew.
5. A panel that is taken out of the output (*Clear Cell Output*) is shown again, a few times; else rule 3 begins anew.
6. With a `timeout`, what is not answered in time is denied: its card says so and has no buttons any more, and a text
   prompt for it is taken back.
7. Whatever ends the wait, the output is replaced by a static record and the widget is closed. A page that was reloaded
   meanwhile cannot replace its output, so it is given the record to draw it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from agentperm_nb.approvals.decisions import ApprovalDecision
from agentperm_nb.approvals.desk import Answer, the_desk
from agentperm_nb.approvals.patience import Patience
from agentperm_nb.approvals.requests import ApprovalRequest
from agentperm_nb.errors import DeliveryError, fix_message
from agentperm_nb.human import Human
from agentperm_nb.notebook.waits import QuestionWait, RequestsWait, Wait, nobody
from agentperm_nb.running.serving import Served, Serving, serving_elsewhere

if TYPE_CHECKING:
    from agentperm_nb.notebook.kernel import Delivery

__all__ = ["NotebookHuman"]

_log = logging.getLogger("agentperm_nb")
_TICK = 0.1  # an interrupt gets through to an idle event loop only when something wakes it


class NotebookHuman(Human):
    """Whoever sits in front of the notebook.

    Args:
        prompt_after: Seconds without a sign of the panel after which the questions are put as text.
        timeout: Seconds after which a request is denied; see `Patience`. A plain question has no limit.
        reminders: Seconds after which to remind of a request.
        on_reminder: Called with the request then.

    Raises:
        TypeError: `prompt_after` is not a number; or see `Patience`.
        ValueError: It is negative, or not finite; or see `Patience`.
    """

    patience: Patience

    batch = True
    answered_by = "human"

    def __init__(
        self,
        *,
        prompt_after: float = 8.0,
        timeout: float | None = None,
        reminders: Iterable[float] | float = (),
        on_reminder: Callable[[ApprovalRequest], object] | None = None,
    ) -> None:
        example = "NotebookHuman(prompt_after=20)"
        if isinstance(prompt_after, bool) or not isinstance(prompt_after, int | float):
            raise TypeError(
                fix_message(f"prompt_after= takes seconds (got: {prompt_after!r})", "give a number", example)
            )
        if not 0 <= prompt_after < float("inf"):
            raise ValueError(
                fix_message(f"prompt_after= takes seconds from 0 (got: {prompt_after!r})", "give a number", example)
            )
        self.prompt_after: float = float(prompt_after)
        self.patience = Patience(timeout, reminders, on_reminder)

    def __repr__(self) -> str:
        said = [] if self.prompt_after == 8.0 else [f"prompt_after={self.prompt_after:g}"]
        said += [shown] if (shown := self.patience.shown()) else []
        return f"NotebookHuman({', '.join(said)})"

    def describe(self) -> str:
        """Return who is asked, in the cell that calls this: ``you, in the panel under the cell``, or why nobody is."""
        try:
            reason = nobody()
        except Exception as error:  # noqa: BLE001 - it is for a card, which must not fail on a kernel it does not know
            return f"nobody: the kernel cannot be asked ({type(error).__name__}: {error})"
        if reason is None:
            limit = self.patience.timeout
            return "you, in the panel under the cell" + ("" if limit is None else f", for {limit:g} s at most")
        return f"nobody: {reason.removeprefix('Nobody can answer').lstrip(':. ')}"

    async def areview(self, requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, ApprovalDecision]]:
        """Show the requests and wait until all have left the desk; see `Approver`. Yields nothing: clicks go there."""
        if not _denied_for_nobody(requests):
            await _await_answers(RequestsWait(requests, self.prompt_after))
        nothing: tuple[tuple[str, ApprovalDecision], ...] = ()
        for answer in nothing:
            yield answer

    def attend(self, requests: Sequence[ApprovalRequest]) -> AbstractContextManager[Callable[[float], None]]:
        """Show the requests while inside the ``with`` block; see `BlockingApprover`."""
        if _denied_for_nobody(requests):
            return _serving_nothing()
        return _serving(RequestsWait(requests, self.prompt_after))

    def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        """Put a plain question in a panel and wait for its answer, in a blocking cell; see `Human`.

        Raises:
            NoHumanError: Nobody can answer in this run.
        """
        serving = serving_elsewhere()
        if serving is not None:
            return self._ask_from_worker(serving, prompt, returns)
        wait = QuestionWait(prompt, returns, self.prompt_after)
        with _serving(wait) as serve:
            while not wait.done:
                serve(_TICK)
        return wait.answer

    def _ask_from_worker(self, serving: Serving, prompt: str, returns: Any) -> Any:
        """Have the blocked main thread show the question: it is the only one that gets what the page sends."""
        waits: list[QuestionWait] = []

        def attend() -> AbstractContextManager[Callable[[float], None]]:
            waits.append(QuestionWait(prompt, returns, self.prompt_after))
            return _serving(waits[0])

        served = serving.add(Served(attend, lambda: waits[0].done))
        served.ended.wait()
        if served.error is not None:
            raise served.error
        return waits[0].answer

    async def aask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        """Put a plain question in a panel and await its answer; see `Human`.

        Raises:
            NoHumanError: Nobody can answer in this run.
        """
        if serving_elsewhere() is not None:
            import anyio.to_thread

            return await anyio.to_thread.run_sync(self.ask, state, prompt, returns, abandon_on_cancel=True)
        wait = QuestionWait(prompt, returns, self.prompt_after)
        await _await_answers(wait)
        return wait.answer


# Waiting --------------------------------------------------------------------------------------------------------------


async def _await_answers(wait: Wait) -> None:
    import anyio

    home, bell = threading.get_ident(), [anyio.Event()]

    def ring() -> None:
        if threading.get_ident() == home:  # a change on another thread is seen at the next tick
            bell[0].set()

    async def tick() -> None:  # a task of its own: a time limit around the wait could swallow an interrupt
        while True:
            await anyio.sleep(_TICK)
            bell[0].set()

    async def put_as_text() -> None:
        await anyio.to_thread.run_sync(wait.prompt_on_worker, abandon_on_cancel=True)

    async def until_done() -> None:
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tick)
                while not wait.done:
                    wait.look()
                    if wait.take_prompt():
                        tasks.start_soon(put_as_text)
                    await bell[0].wait()
                    bell[0] = anyio.Event()
                await wait.take_prompt_back()
                tasks.cancel_scope.cancel()
        finally:
            wait.end_prompt()

    wait.panel.listen(ring)
    delivery = _delivery(wait)
    if delivery is None:
        with _closing(wait):
            try:
                await anyio.to_thread.run_sync(wait.prompt_here, abandon_on_cancel=True)
            finally:
                wait.end_prompt()
        return
    async with delivery.awaiting():
        with _closing(wait):
            wait.show()
            await until_done()


@contextmanager
def _serving(wait: Wait) -> Iterator[Callable[[float], None]]:
    delivery = _delivery(wait)
    if delivery is None:
        with _closing(wait):
            yield lambda seconds: wait.prompt_here()
        return
    with delivery.blocking() as step, _closing(wait):
        wait.show()

        def serve(seconds: float) -> None:
            step(seconds)
            wait.look()
            if wait.take_prompt():
                wait.prompt_here()

        yield serve


@contextmanager
def _serving_nothing() -> Iterator[Callable[[float], None]]:
    yield time.sleep


@contextmanager
def _closing(wait: Wait) -> Iterator[None]:
    why = "the wait was cancelled"
    try:
        yield
        why = "the wait was over"
    finally:
        wait.close(why)


def _delivery(wait: Wait) -> Delivery | None:
    """Return what brings the panel's clicks to the running cell, or None in a kernel where nothing can."""
    from agentperm_nb.notebook.kernel import Delivery

    try:
        delivery = Delivery.for_this_kernel()
    except DeliveryError as error:
        _log.warning("clicks cannot reach a running cell of this kernel, the question is put as text: %s", error)
        return None
    delivery.serve(wait.panel.model_id)
    delivery.on_run_again(lambda: wait.give_up("the cell was run again"))
    return delivery


def _denied_for_nobody(requests: Sequence[ApprovalRequest]) -> bool:
    reason = nobody()
    if reason is None:
        return False
    for request in requests:
        the_desk.answer(request.id, Answer(ApprovalDecision("deny", reason=reason), "nobody", via="notebook"))
    return True
