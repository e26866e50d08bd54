"""What waits in a panel: its output in the cell, what is due when, and what is left when it is over."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from agentperm_nb.approvals.desk import Answer, the_desk
from agentperm_nb.approvals.prompt import TextApprover
from agentperm_nb.approvals.requests import ApprovalRequest
from agentperm_nb.context import new_id, who
from agentperm_nb.errors import NoHumanError, fix_message
from agentperm_nb.human import check_returns
from agentperm_nb.notebook.record import Entry, Record, note_bundle, question_record, requests_record, waiting_bundle

if TYPE_CHECKING:
    from agentperm_nb.notebook.panel import ApprovalPanel

__all__ = ["QuestionWait", "RequestsWait", "Wait", "display", "nobody"]

_log = logging.getLogger("agentperm_nb")
_MISSING_AFTER = 3.0
_GONE_AFTER = 1.0  # s in which a page may draw a view anew, or say that it has one
_SHOW_AGAIN = 5  # times: whoever clears the output more often does not want the panel
_PATIENCE = 2.0  # s for a page to take a text prompt back
_REMEDY = "Give rules that decide without a person, such as AllowByName(['read_*']), or human=TextApprover()."


class Wait:
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
        self._taken_back = False

    @property
    def done(self) -> bool:
        """Whether nothing waits any more."""
        return self.panel.waiting == 0

    def waiting_bundle(self) -> dict[str, str]:
        """Return what the output holds beside the panel: what a page shows that has no widgets."""
        raise NotImplementedError

    def record(self, why: str) -> Record:
        """Return what is left of it, with `why` it is over."""
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

    def prompt_here(self) -> None:
        """Do as `prompt` does; it is taken back when nothing waits any more, such as when the time is over."""

        def look() -> None:
            if self._prompt_thread != threading.get_ident() and self.done:
                self.end_prompt()

        try:
            with self._lock:
                self._prompt_thread = threading.get_ident()
            self.panel.listen(look)
            try:
                if not self.done:
                    self.prompt()
            finally:
                self.panel.listen(lambda: None)
                with self._lock:
                    self._prompt_thread = None
                time.sleep(0)  # what is on its way arrives here, and not in the code of the cell
        except KeyboardInterrupt:
            if not self._taken_back:
                raise

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
            display(note_bundle(text), f"{self._display_id}_open")

    def end_prompt(self) -> None:
        """Stop reading: a thread that went on would take the answer to somebody else's ``input()``."""
        import ctypes

        with self._lock:
            if self._prompt_thread is not None:
                self._taken_back = True
                raised = ctypes.py_object(KeyboardInterrupt)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._prompt_thread), raised)

    def show(self) -> None:
        """Put the panel into the output of the cell."""
        view = {"version_major": 2, "version_minor": 0, "model_id": self.panel.model_id}
        bundle = {**self.waiting_bundle(), "application/vnd.jupyter.widget-view+json": view}
        self._started, self._shown = time.monotonic(), True
        display(bundle, self._display_id)

    def look(self) -> None:
        """Bring the pages up to date, and say that the panel is missing when that is due."""
        self.panel.refresh()
        self._look_whether_it_is_gone()
        waited = time.monotonic() - self._started
        line = f"{self._display_id}_line"
        if self._is_missing:
            if waited >= _MISSING_AFTER and not self._missing_said:
                self._missing_said = True
                display(note_bundle(self._missing(waited)), line)
        elif self._missing_said:
            self._missing_said = False
            text = f"The panel came on the screen {waited:.0f} s after it was asked for."
            display(note_bundle(text), line, replace=True)

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
            display(record.bundle, self._display_id, replace=self._shown)
        finally:
            self.panel.finish()


class RequestsWait(Wait):
    """Requests for approval that wait in a panel."""

    def __init__(self, requests: Sequence[ApprovalRequest], prompt_after: float) -> None:
        from agentperm_nb.notebook.panel import ApprovalPanel

        self._requests = list(requests)
        super().__init__(ApprovalPanel(self._requests), prompt_after)

    def waiting_bundle(self) -> dict[str, str]:
        """See `Wait`."""
        return waiting_bundle([request.call.name for request in self._requests], datetime.now(UTC))

    def record(self, why: str) -> Record:
        """See `Wait`."""
        return requests_record([self._entry(request, why) for request in self._requests])

    def _entry(self, request: ApprovalRequest, why: str) -> Entry:
        change = self.panel.settled.get(request.id)
        if change is None:
            return Entry(request, datetime.now(UTC), why=f"not answered: {why}")
        told = f"{change.kind}: {change.detail}" if change.detail else change.kind
        return Entry(request, self.panel.settled_at[request.id], change.answer, told)

    def prompt(self) -> None:
        """Put the requests as text, on the calling thread."""
        name, name_from = who()
        for request_id, decision in TextApprover().review(self._requests):
            answer = Answer(decision, "human", approver=name, approver_from=name_from, via="prompt")
            the_desk.answer(request_id, answer)

    def give_up(self, why: str) -> None:
        """Withdraw the requests."""
        for request in self._requests:
            the_desk.withdraw(request.id, why)


class QuestionWait(Wait):
    """A plain question that waits in a panel.

    Raises:
        NoHumanError: Nobody can answer in this run.
        TypeError: `returns` is not what can be asked for.
    """

    def __init__(self, prompt: str, returns: Any, prompt_after: float) -> None:
        check_returns(returns)
        _check_can_answer(prompt)
        from agentperm_nb.notebook.panel import ApprovalPanel, Question

        self._given_up = ""
        self._question = Question(prompt, returns)
        super().__init__(ApprovalPanel(questions=[self._question]), prompt_after)

    @property
    def done(self) -> bool:
        """Whether it is answered, or given up."""
        return bool(self._given_up) or super().done

    @property
    def answer(self) -> Any:
        """The answer.

        Raises:
            NoHumanError: Nobody answered.
        """
        if not self._question.answered:
            raise NoHumanError(f"Nobody answered: {self._given_up} (question: {self._question.prompt!r})")
        return self._question.value

    def waiting_bundle(self) -> dict[str, str]:
        """See `Wait`."""
        return note_bundle(f"A question waits for its answer: {self._question.prompt}")

    def record(self, why: str) -> Record:
        """See `Wait`."""
        question = self._question
        answer = question.value if question.answered else None
        by = who()[0] if question.answered else ""
        return question_record(
            question.prompt, answer, question.asked_at, question.answered_at or datetime.now(UTC), by
        )

    def prompt(self) -> None:
        """Put the question as text, on the calling thread."""
        self._question.answer(TextApprover().ask(None, self._question.prompt, self._question.returns))

    def give_up(self, why: str) -> None:
        """Wait no more, without an answer."""
        self._given_up = why


def display(bundle: Mapping[str, Any], display_id: str, *, replace: bool = False) -> None:
    """Put a bundle into the output of the cell, or in the place of what it shows already."""
    from IPython.display import display, update_display

    show: Any = update_display if replace else display  # IPython's own are not typed
    show(bundle, raw=True, display_id=display_id)


def nobody() -> str | None:
    """Return why nobody can answer in this run, with the remedy, or None when somebody can."""
    from agentperm_nb.notebook.kernel import front_end

    front = front_end()
    if front.can_answer:
        return None
    if front.in_kernel:
        return f"{front.reason} {front.remedy}".rstrip()
    return f"Nobody can answer. {front.reason} {_REMEDY}"


def _check_can_answer(prompt: str) -> None:
    """Refuse a question that nobody can answer.

    Raises:
        NoHumanError: Nobody can answer in this run.
    """
    from agentperm_nb.notebook.kernel import front_end

    front = front_end()
    if not front.can_answer:
        said = front.reason if front.in_kernel else f"Nobody can answer. {front.reason}"
        raise NoHumanError(
            fix_message(
                f"{said} (question: {prompt!r})",
                "ask no questions in such a run, or give the agent a Human that knows the answers",
                "class Prepared(Human):\n    def ask(self, state, prompt, returns=str):\n"
                "        return parse_answer('yes', returns)\n\nAgent(tools, human=Prepared())",
            )
        )
