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
6. Whatever ends the wait, the output is replaced by a static record and the widget is closed. A page that was reloaded
   meanwhile cannot replace its output, so it is given the record to draw it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentperm_nb.approvals.decisions import ApprovalDecision
from agentperm_nb.approvals.desk import Answer, the_desk
from agentperm_nb.approvals.prompt import TextApprover
from agentperm_nb.approvals.requests import ApprovalRequest
from agentperm_nb.context import new_id, who
from agentperm_nb.errors import DeliveryError, NoHumanError, fix_message
from agentperm_nb.human import Human, check_returns
from agentperm_nb.notebook.record import Entry, Record, note_bundle, question_record, requests_record, waiting_bundle
from agentperm_nb.running.serving import Served, Serving, serving_elsewhere

if TYPE_CHECKING:
    from agentperm_nb.notebook.kernel import Delivery
    from agentperm_nb.notebook.panel import ApprovalPanel

__all__ = ["NotebookHuman"]

_log = logging.getLogger("agentperm_nb")
_TICK = 0.1  # an interrupt gets through to an idle event loop only when something wakes it
_MISSING_AFTER = 3.0
_GONE_AFTER = 1.0  # s in which a page may draw a view anew, or say that it has one
_SHOW_AGAIN = 5  # times: whoever clears the output more often does not want the panel
_PATIENCE = 2.0  # s for a page to take a text prompt back
_REMEDY = "Give rules that decide without a person, such as AllowByName(['read_*']), or human=TextApprover()."


class NotebookHuman(Human):
    """Whoever sits in front of the notebook.

    Args:
        prompt_after: Seconds without a sign of the panel after which the questions are put as text.

    Raises:
        TypeError: `prompt_after` is not a number.
        ValueError: It is negative, or not finite.
    """

    batch = True
    answered_by = "human"

    def __init__(self, *, prompt_after: float = 8.0) -> None:
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

    def __repr__(self) -> str:
        return "NotebookHuman()" if self.prompt_after == 8.0 else f"NotebookHuman(prompt_after={self.prompt_after:g})"

    def describe(self) -> str:
        """Return who is asked, in the cell that calls this: ``you, in the panel under the cell``, or why nobody is."""
        try:
            reason = _nobody()
        except Exception as error:  # noqa: BLE001 - it is for a card, which must not fail on a kernel it does not know
            return f"nobody: the kernel cannot be asked ({type(error).__name__}: {error})"
        if reason is None:
            return "you, in the panel under the cell"
        return f"nobody: {reason.removeprefix('Nobody can answer').lstrip(':. ')}"

    async def areview(self, requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, ApprovalDecision]]:
        """Show the requests and wait until all have left the desk; see `Approver`. Yields nothing: clicks go there."""
        if not _denied_for_nobody(requests):
            await _await_answers(_RequestsWait(requests, self.prompt_after))
        nothing: tuple[tuple[str, ApprovalDecision], ...] = ()
        for answer in nothing:
            yield answer

    def attend(self, requests: Sequence[ApprovalRequest]) -> AbstractContextManager[Callable[[float], None]]:
        """Show the requests while inside the ``with`` block; see `BlockingApprover`."""
        if _denied_for_nobody(requests):
            return _serving_nothing()
        return _serving(_RequestsWait(requests, self.prompt_after))

    def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        """Put a plain question in a panel and wait for its answer, in a blocking cell; see `Human`.

        Raises:
            NoHumanError: Nobody can answer in this run.
        """
        serving = serving_elsewhere()
        if serving is not None:
            return self._ask_from_worker(serving, prompt, returns)
        wait = _QuestionWait(prompt, returns, self.prompt_after)
        with _serving(wait) as serve:
            while not wait.done:
                serve(_TICK)
        return wait.answer

    def _ask_from_worker(self, serving: Serving, prompt: str, returns: Any) -> Any:
        """Have the blocked main thread show the question: it is the only one that gets what the page sends."""
        waits: list[_QuestionWait] = []

        def attend() -> AbstractContextManager[Callable[[float], None]]:
            waits.append(_QuestionWait(prompt, returns, self.prompt_after))
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
        wait = _QuestionWait(prompt, returns, self.prompt_after)
        await _await_answers(wait)
        return wait.answer


class _Wait:
    """Something that waits in a panel: its output in the cell, and what is due when."""

    def __init__(self, panel: ApprovalPanel, prompt_after: float) -> None:
        self.panel = panel
        self._prompt_after = prompt_after
        self._display_id = new_id("agentperm_nb")
        self._started = time.monotonic()
        self._shown = self._missing_said = self._prompted = False
        self._gone_since: float | None = None
        self._shown_again = 0
        self._lock = threading.Lock()
        self._prompt_thread: int | None = None

    @property
    def done(self) -> bool:
        return self.panel.waiting == 0

    def waiting_bundle(self) -> dict[str, str]:
        raise NotImplementedError

    def record(self, why: str) -> Record:
        raise NotImplementedError

    def prompt(self) -> None:
        """Put everything that waits as text, on the calling thread."""
        raise NotImplementedError

    def give_up(self, why: str) -> None:
        """Wait no more, without an answer."""
        raise NotImplementedError

    def prompt_on_worker(self) -> None:
        """Do as `prompt` does; `end_prompt`, called from another thread, ends it."""
        with self._lock:
            self._prompt_thread = threading.get_ident()
        try:
            self.prompt()
        except KeyboardInterrupt:
            pass  # that is `end_prompt`: Python itself interrupts the main thread only
        except Exception:  # noqa: BLE001 - the panel may still answer; a failed prompt must not end the wait
            _log.exception("the text prompt failed")
        finally:
            with self._lock:
                self._prompt_thread = None

    async def take_prompt_back(self) -> None:
        """Take a text prompt back that is still open although all is answered: the page cannot run cells before."""
        import anyio

        if self._prompt_thread is None:
            return
        self.panel.take_prompt_back()
        with anyio.move_on_after(_PATIENCE if self.panel.on_screen else 0):
            while self._prompt_thread is not None:  # noqa: ASYNC110 - another thread, which has no event to set here
                await anyio.sleep(0.02)
        if self._prompt_thread is not None:
            text = "The text prompt is no longer needed. Press Enter in it, so that the notebook can run other cells."
            _display(note_bundle(text), f"{self._display_id}_open")

    def end_prompt(self) -> None:
        """Stop reading: a thread that went on would take the answer to somebody else's ``input()``."""
        import ctypes

        with self._lock:
            if self._prompt_thread is not None:
                raised = ctypes.py_object(KeyboardInterrupt)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._prompt_thread), raised)

    def show(self) -> None:
        view = {"version_major": 2, "version_minor": 0, "model_id": self.panel.model_id}
        bundle = {**self.waiting_bundle(), "application/vnd.jupyter.widget-view+json": view}
        self._started, self._shown = time.monotonic(), True
        _display(bundle, self._display_id)

    def look(self) -> None:
        """Bring the pages up to date, and say that the panel is missing when that is due."""
        self.panel.refresh()
        self._look_whether_it_is_gone()
        waited = time.monotonic() - self._started
        line = f"{self._display_id}_line"
        if self._is_missing:
            if waited >= _MISSING_AFTER and not self._missing_said:
                self._missing_said = True
                _display(note_bundle(self._missing(waited)), line)
        elif self._missing_said:
            self._missing_said = False
            text = f"The panel came on the screen {waited:.0f} s after it was asked for."
            _display(note_bundle(text), line, replace=True)

    @property
    def _is_missing(self) -> bool:
        return self._gone_since is not None or self.panel.greeted_at is None

    def _look_whether_it_is_gone(self) -> None:
        since, now = self.panel.gone_since, time.monotonic()
        if since is None:
            self._gone_since = None
        elif now - since >= _GONE_AFTER and since != self._gone_since and not self.done:
            self._gone_since, self._started = since, now
            self._missing_said = self._prompted = False
            if self._shown_again < _SHOW_AGAIN:
                self._shown_again += 1
                self.show()

    def _missing(self, waited: float) -> str:
        left = max(0, round(self._prompt_after - waited))
        when = f"In {left} s" if left else "Now"
        if self._gone_since is not None:
            return f"The approval panel has been taken out of this output. {when} the question is put as text."
        return (
            "The approval panel has not shown itself in this page. To get it, run 'pip install anywidget' in the "
            f"environment of the Jupyter server and reload the page. {when} the question is put as text."
        )

    def take_prompt(self) -> bool:
        """Return whether the text prompt is due; True once only."""
        if self._prompted or not self._is_missing or self._prompt_thread is not None or self.done:
            return False
        self._prompted = time.monotonic() - self._started >= self._prompt_after
        return self._prompted

    def close(self, why: str) -> None:
        """Put the record in the place of the panel, and close the widget."""
        record = self.record(why)
        try:
            self.panel.tell_record(record.node)  # first, while the panel still has the focus if it had it
            _display(record.bundle, self._display_id, replace=self._shown)
        finally:
            self.panel.finish()


class _RequestsWait(_Wait):
    def __init__(self, requests: Sequence[ApprovalRequest], prompt_after: float) -> None:
        from agentperm_nb.notebook.panel import ApprovalPanel

        self._requests = list(requests)
        super().__init__(ApprovalPanel(self._requests), prompt_after)

    def waiting_bundle(self) -> dict[str, str]:
        return waiting_bundle([request.call.name for request in self._requests], datetime.now(UTC))

    def record(self, why: str) -> Record:
        return requests_record([self._entry(request, why) for request in self._requests])

    def _entry(self, request: ApprovalRequest, why: str) -> Entry:
        change = self.panel.settled.get(request.id)
        if change is None:
            return Entry(request, datetime.now(UTC), why=f"not answered: {why}")
        told = f"{change.kind}: {change.detail}" if change.detail else change.kind
        return Entry(request, self.panel.settled_at[request.id], change.answer, told)

    def prompt(self) -> None:
        name, name_from = who()
        for request_id, decision in TextApprover().review(self._requests):
            answer = Answer(decision, "human", approver=name, approver_from=name_from, via="prompt")
            the_desk.answer(request_id, answer)

    def give_up(self, why: str) -> None:
        for request in self._requests:
            the_desk.withdraw(request.id, why)


class _QuestionWait(_Wait):
    def __init__(self, prompt: str, returns: Any, prompt_after: float) -> None:
        check_returns(returns)
        reason = _nobody()
        if reason is not None:
            raise NoHumanError(f"{reason} (question: {prompt!r})")
        from agentperm_nb.notebook.panel import ApprovalPanel, Question

        self._given_up = ""
        self._question = Question(prompt, returns)
        super().__init__(ApprovalPanel(questions=[self._question]), prompt_after)

    @property
    def done(self) -> bool:
        return bool(self._given_up) or super().done

    @property
    def answer(self) -> Any:
        if not self._question.answered:
            raise NoHumanError(f"Nobody answered: {self._given_up} (question: {self._question.prompt!r})")
        return self._question.value

    def waiting_bundle(self) -> dict[str, str]:
        return note_bundle(f"A question waits for its answer: {self._question.prompt}")

    def record(self, why: str) -> Record:
        question = self._question
        answer = question.value if question.answered else None
        by = who()[0] if question.answered else ""
        return question_record(
            question.prompt, answer, question.asked_at, question.answered_at or datetime.now(UTC), by
        )

    def prompt(self) -> None:
        self._question.answer(TextApprover().ask(None, self._question.prompt, self._question.returns))

    def give_up(self, why: str) -> None:
        self._given_up = why


# Waiting --------------------------------------------------------------------------------------------------------------


async def _await_answers(wait: _Wait) -> None:
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
            await anyio.to_thread.run_sync(wait.prompt, abandon_on_cancel=True)
        return
    async with delivery.awaiting():
        with _closing(wait):
            wait.show()
            await until_done()


@contextmanager
def _serving(wait: _Wait) -> Iterator[Callable[[float], None]]:
    delivery = _delivery(wait)
    if delivery is None:
        with _closing(wait):
            yield lambda seconds: wait.prompt()
        return
    with delivery.blocking() as step, _closing(wait):
        wait.show()

        def serve(seconds: float) -> None:
            step(seconds)
            wait.look()
            if wait.take_prompt():
                wait.prompt()

        yield serve


@contextmanager
def _serving_nothing() -> Iterator[Callable[[float], None]]:
    yield time.sleep


@contextmanager
def _closing(wait: _Wait) -> Iterator[None]:
    why = "the wait was cancelled"
    try:
        yield
        why = "the wait was over"
    finally:
        wait.close(why)


def _display(bundle: Mapping[str, Any], display_id: str, *, replace: bool = False) -> None:
    from IPython.display import display, update_display

    show: Any = update_display if replace else display  # IPython's own are not typed
    show(bundle, raw=True, display_id=display_id)


def _delivery(wait: _Wait) -> Delivery | None:
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


def _nobody() -> str | None:
    """Return why nobody can answer in this run, with the remedy, or None when somebody can."""
    from agentperm_nb.notebook.kernel import front_end

    front = front_end()
    if front.can_answer:
        return None
    return front.reason if front.in_kernel else f"Nobody can answer. {front.reason} {_REMEDY}"


def _denied_for_nobody(requests: Sequence[ApprovalRequest]) -> bool:
    reason = _nobody()
    if reason is None:
        return False
    for request in requests:
        the_desk.answer(request.id, Answer(ApprovalDecision("deny", reason=reason), "nobody", via="notebook"))
    return True
