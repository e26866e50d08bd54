"""The person at the notebook, without a browser: who is asked how, and what the cell's output holds."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from typing import Any, Literal

import anyio
import pytest
from turns import Counter, run
from waiting import lines, make_request, open_requests

from agentperm_nb import Agent
from agentperm_nb.approvals.decisions import ApprovalDecision
from agentperm_nb.approvals.desk import Answer, the_desk
from agentperm_nb.approvals.patience import Patience
from agentperm_nb.approvals.requests import Approver, BlockingApprover
from agentperm_nb.errors import DeliveryError, NoHumanError
from agentperm_nb.notebook import kernel
from agentperm_nb.notebook import waits as waits_module
from agentperm_nb.notebook.human import NotebookHuman
from agentperm_nb.notebook.kernel import FrontEnd
from agentperm_nb.testing import tool_call

WIDGET = "application/vnd.jupyter.widget-view+json"


class FakeNotebook:
    """Stands for the kernel and the page: keeps what the cell shows, and says when clicks are brought."""

    def __init__(self) -> None:
        self.outputs: dict[str, list[dict[str, Any]]] = {}
        self.front = FrontEnd(True, True, "")
        self.layout = True
        self.bringing: list[str] = []
        self.served: list[str] = []
        self.on_step: Any = lambda: None
        self.run_again: Any = None

    def display(self, bundle, display_id, *, replace=False):
        assert replace == (display_id in self.outputs) or WIDGET in bundle  # the panel may be shown again
        self.outputs.setdefault(display_id, []).append(dict(bundle))

    def for_this_kernel(self):
        if not self.layout:
            raise DeliveryError("an unknown layout")
        return self

    def serve(self, comm_id):
        self.served.append(comm_id)

    def on_run_again(self, callback):
        self.run_again = callback

    @contextlib.asynccontextmanager
    async def awaiting(self):
        assert self.served
        self.bringing.append("in")
        try:
            yield
        finally:
            self.bringing.append("out")

    @contextlib.contextmanager
    def blocking(self):
        self.bringing.append("in")
        try:
            yield lambda seconds: self.on_step()
        finally:
            self.bringing.append("out")

    @property
    def main_output(self):
        return next(iter(self.outputs.values()))

    @property
    def side_texts(self):
        return [bundle["text/plain"] for shown in list(self.outputs.values())[1:] for bundle in shown]


@pytest.fixture
def notebook(monkeypatch):
    fake = FakeNotebook()
    monkeypatch.setattr(kernel, "front_end", lambda: fake.front)
    monkeypatch.setattr(kernel.Delivery, "for_this_kernel", fake.for_this_kernel)
    monkeypatch.setattr(waits_module, "display", fake.display)
    return fake


@pytest.fixture
def typed(monkeypatch):
    """A list of lines that are typed at text prompts; the prompts are kept in ``typed.prompts``."""

    class Typed(list):
        def __init__(self):
            self.prompts: list[str] = []

    lines_typed = Typed()

    def read(prompt=""):
        lines_typed.prompts.append(prompt)
        if not lines_typed:
            raise EOFError
        return lines_typed.pop(0)

    monkeypatch.setattr("builtins.input", read)
    return lines_typed


@pytest.fixture
def waits(monkeypatch):
    """Everything that waited, as the module's own objects."""
    made: list[Any] = []
    original = waits_module.Wait.__init__

    def init(self, *args):
        original(self, *args)
        made.append(self)

    monkeypatch.setattr(waits_module.Wait, "__init__", init)
    return made


def answer(request, action="allow", **more):
    the_desk.answer(request.id, Answer(ApprovalDecision(action, **more), approver="ada", via="panel"))


async def review(*requests, **options):
    return [item async for item in NotebookHuman(**options).areview(requests)]


def test_it_is_an_approver_of_both_forms():
    assert isinstance(NotebookHuman(), Approver)
    assert isinstance(NotebookHuman(), BlockingApprover)
    assert repr(NotebookHuman()) == "NotebookHuman()"
    assert repr(NotebookHuman(prompt_after=2.5)) == "NotebookHuman(prompt_after=2.5)"


@pytest.mark.parametrize(
    ("value", "error"), [("8", TypeError), (True, TypeError), (-1, ValueError), (float("inf"), ValueError)]
)
def test_a_wrong_prompt_after_is_an_error_with_its_fix(value, error):
    with pytest.raises(error, match="Fix: "):
        NotebookHuman(prompt_after=value)


def test_importing_it_loads_no_widgets():
    code = (
        "import agentperm_nb.notebook.human, sys; "
        "print([name for name in ('IPython', 'ipywidgets', 'anywidget') if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_it_waits_until_all_requests_have_left_the_desk_and_yields_nothing(notebook):
    first, second = make_request(), make_request()
    open_requests(first, second)

    async def main():
        async with anyio.create_task_group() as tasks:

            async def click():
                answer(second)
                await anyio.wait_all_tasks_blocked()
                assert the_desk.is_open(first.id)
                the_desk.withdraw(first.id, "the turn was stopped")

            tasks.start_soon(click)
            with anyio.fail_after(5):
                assert await review(first, second) == []

    anyio.run(main)
    waiting, record = notebook.main_output
    assert "Asked at" in waiting["text/plain"]
    assert WIDGET in waiting
    assert WIDGET not in record
    assert record["text/plain"].startswith("Approvals: 1 of 2 calls approved")
    assert "withdrawn: the turn was stopped" in record["text/plain"]
    assert notebook.bringing == ["in", "out"]


def test_a_cancelled_wait_leaves_a_record_and_approves_nothing(notebook, waits):
    request = make_request()
    changes = open_requests(request)

    async def main():
        with anyio.move_on_after(0.2):
            await review(request)

    anyio.run(main)
    assert "not answered: the wait was cancelled" in notebook.main_output[-1]["text/plain"]
    assert notebook.bringing == ["in", "out"]
    assert waits[0].panel.comm is None
    assert lines(changes) == []


@pytest.mark.states("R4")
def test_nobody_can_answer_denies_at_once_with_cause_and_remedy(notebook):
    notebook.front = FrontEnd(True, False, "Nobody can answer: allow_stdin is off.", "Name what may run.")
    requests = [make_request(), make_request()]
    changes = open_requests(*requests)
    anyio.run(review, *requests)
    reason = "Nobody can answer: allow_stdin is off. Name what may run."
    assert lines(changes) == [f"answered deny reason={reason}"] * 2
    assert {change.answer.answered_by for change in changes if change.answer} == {"nobody"}
    assert notebook.outputs == {}


def test_nobody_can_answer_denies_in_a_blocking_cell_too(notebook):
    notebook.front = FrontEnd(False, False, "This code does not run in a Jupyter kernel.")
    request = make_request()
    changes = open_requests(request)
    with NotebookHuman().attend([request]):
        assert not the_desk.is_open(request.id)
    assert "AllowByName" in changes[-1].answer.decision.reason


def test_a_blocking_cell_serves_until_the_block_ends(notebook):
    request = make_request()
    changes = open_requests(request)
    notebook.on_step = lambda: answer(request, "deny", reason="no")
    with NotebookHuman().attend([request]) as serve:
        assert the_desk.is_open(request.id)
        serve(0.1)
    assert lines(changes) == ["answered deny reason=no"]
    assert "denied by ada" in notebook.main_output[-1]["text/plain"]
    assert notebook.bringing == ["in", "out"]


def test_an_interrupt_of_a_blocking_cell_gets_through_and_cleans_up(notebook, waits):
    request = make_request()
    open_requests(request)

    def interrupt():
        raise KeyboardInterrupt

    notebook.on_step = interrupt
    with pytest.raises(KeyboardInterrupt), NotebookHuman().attend([request]) as serve:
        serve(0.1)
    assert "the wait was cancelled" in notebook.main_output[-1]["text/plain"]
    assert notebook.bringing == ["in", "out"]
    assert waits[0].panel.comm is None


@pytest.mark.states("R4")
def test_without_a_greeting_the_question_is_put_as_text_on_a_worker_thread(notebook, typed):
    typed += ["d", "by text"]
    request = make_request()
    changes = open_requests(request)
    anyio.run(lambda: review(request, prompt_after=0))
    assert lines(changes) == ["answered deny reason=by text"]
    assert changes[-1].answer.via == "prompt"
    assert "(prompt)" in notebook.main_output[-1]["text/plain"]


def test_a_late_panel_answers_while_the_prompt_still_waits(notebook, monkeypatch):
    request = make_request()
    open_requests(request)
    asked, go_on = threading.Event(), threading.Event()

    def read(prompt=""):
        asked.set()
        go_on.wait(10)
        return "a"

    monkeypatch.setattr("builtins.input", read)

    async def main():
        async with anyio.create_task_group() as tasks:

            async def click():
                await anyio.to_thread.run_sync(asked.wait)
                answer(request, "deny")

            tasks.start_soon(click)
            with anyio.fail_after(5):
                await review(request, prompt_after=0)

    try:
        anyio.run(main)
    finally:
        go_on.set()
    assert "denied by ada" in notebook.main_output[-1]["text/plain"]


@pytest.mark.states("R4")
def test_in_a_blocking_cell_the_prompt_is_on_the_calling_thread(notebook, typed):
    typed += ["a"]
    request = make_request()
    changes = open_requests(request)
    with NotebookHuman(prompt_after=0).attend([request]) as serve:
        serve(0.1)
    assert lines(changes) == ["answered allow"]


def test_a_panel_that_does_not_greet_is_said_to_be_missing_once_and_a_late_one_takes_it_back(
    notebook, monkeypatch, waits
):
    request = make_request()
    open_requests(request)
    now = [100.0]
    monkeypatch.setattr(waits_module.time, "monotonic", lambda: now[0])
    with NotebookHuman().attend([request]) as serve:
        serve(0.1)
        assert notebook.side_texts == []
        now[0] += 3.1
        serve(0.1)
        serve(0.1)
        assert len(notebook.side_texts) == 1
        assert "pip install anywidget" in notebook.side_texts[0]
        assert "In 5 s" in notebook.side_texts[0]
        waits[0].panel._handle_custom_msg({"type": "hello"}, [])
        now[0] += 60
        serve(0.1)
        assert "came on the screen" in notebook.side_texts[1]
        answer(request)


def test_a_kernel_that_cannot_bring_clicks_gets_the_prompt_at_once(notebook, typed):
    notebook.layout = False
    typed += ["a", "d", ""]
    first, second = make_request(), make_request()
    changes = open_requests(first, second)
    anyio.run(review, first)
    with NotebookHuman().attend([second]) as serve:
        serve(0.1)
    assert lines(changes) == ["answered allow", "answered deny"]


def test_the_end_of_the_input_denies(notebook, typed):
    request = make_request()
    changes = open_requests(request)
    anyio.run(lambda: review(request, prompt_after=0))
    assert changes[-1].answer.decision.action == "deny"


# A time limit ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def stands(monkeypatch):
    """A text prompt that nobody answers: set when it is on the screen; it can be interrupted, as a kernel's can."""
    on_screen, over = threading.Event(), threading.Event()

    def read(prompt=""):
        on_screen.set()
        while not over.is_set():
            time.sleep(0.005)
        raise EOFError

    monkeypatch.setattr("builtins.input", read)
    yield on_screen
    over.set()


def test_what_nobody_answers_in_time_is_said_in_the_record(notebook):
    requests = [make_request(patience=Patience(0.2)), make_request(patience=Patience(0.3))]
    changes = open_requests(*requests)

    async def main():
        with anyio.fail_after(5):
            await review(*requests)

    anyio.run(main)
    assert lines(changes) == ["expired nobody answered within 0.2 s", "expired nobody answered within 0.3 s"]
    record = notebook.main_output[-1]["text/plain"]
    assert record.startswith("Approvals: 0 of 2 calls approved")
    assert "expired: nobody answered within 0.2 s" in record
    assert notebook.bringing == ["in", "out"]


def test_what_expires_in_a_blocking_cell_is_seen_by_the_thread_that_waits(notebook):
    request = make_request(patience=Patience(0.2))
    open_requests(request)
    with NotebookHuman().attend([request]) as serve:
        while the_desk.is_open(request.id):
            serve(0.1)
    assert "expired: nobody answered within 0.2 s" in notebook.main_output[-1]["text/plain"]


@pytest.mark.parametrize("layout", [True, False], ids=["panel missing", "no panel can be"])
def test_a_text_prompt_in_a_blocking_cell_is_taken_back_when_the_time_is_over(notebook, stands, layout):
    notebook.layout = layout
    requests = [make_request(patience=Patience(0.3)), make_request(patience=Patience(0.4))]
    changes = open_requests(*requests)
    with NotebookHuman(prompt_after=0).attend(requests) as serve:
        while any(the_desk.is_open(request.id) for request in requests):
            serve(0.1)
    assert stands.is_set()
    assert [change.kind for change in changes if change.kind in ("answered", "expired")] == ["expired", "expired"]


@pytest.mark.parametrize("layout", [True, False], ids=["panel missing", "no panel can be"])
def test_a_text_prompt_in_an_awaiting_cell_is_taken_back_when_the_time_is_over(notebook, stands, layout):
    notebook.layout = layout
    request = make_request(patience=Patience(0.3))
    changes = open_requests(request)

    async def main():
        with anyio.fail_after(5):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(lambda: review(request, prompt_after=0))
                while the_desk.is_open(request.id):  # noqa: ASYNC110 - as the engine does
                    await anyio.sleep(0.02)
                await anyio.sleep(0.2)
                tasks.cancel_scope.cancel()

    anyio.run(main)
    assert stands.is_set()
    assert [change.kind for change in changes if change.kind in ("answered", "expired")] == ["expired"]


def test_an_interrupt_at_a_text_prompt_is_still_one_of_the_cell(notebook, monkeypatch):
    def read(prompt=""):
        raise KeyboardInterrupt

    monkeypatch.setattr("builtins.input", read)
    request = make_request(patience=Patience(60))
    open_requests(request)
    with pytest.raises(KeyboardInterrupt), NotebookHuman(prompt_after=0).attend([request]) as serve:
        serve(0.1)
    the_desk.withdraw(request.id, "interrupted")


def test_the_card_says_for_how_long_you_are_asked(notebook):
    assert NotebookHuman().describe() == "you, in the panel under the cell"
    assert NotebookHuman(timeout=300).describe() == "you, in the panel under the cell, for 300 s at most"
    assert "for 300 s at most" in repr(Agent([Counter().tool], human=NotebookHuman(timeout=300)))


def test_where_nobody_can_answer_it_is_said_at_once_whatever_the_limit(notebook):  # A20
    notebook.front = FrontEnd(True, False, "Nobody can answer: allow_stdin is off.")
    counter, human = Counter(), NotebookHuman(timeout=300, reminders=60, on_reminder=print)
    began = time.monotonic()
    (blocking,) = Agent([counter.tool], human=human).use_tools([tool_call("act", n=1)]).results

    async def main():
        return await Agent([counter.tool], human=human).ause_tools([tool_call("act", n=1)])

    (awaiting,) = anyio.run(main).results
    assert time.monotonic() - began < 1
    for result in (blocking, awaiting):
        assert (result.verdict, result.answered_by) == ("denied", "nobody")
    assert counter.ran == []


@pytest.mark.parametrize("driver", ["sync", "asyncio"])
def test_a_call_in_a_notebook_expires_with_the_limit_of_its_human(notebook, driver):  # A18
    counter = Counter()
    agent = Agent([counter.tool], human=NotebookHuman(timeout=0.2))
    (result,) = run(driver, agent, [tool_call("act", n=1)]).results
    assert (result.verdict, result.answered_by, counter.ran) == ("denied", "timeout", [])
    assert "expired: nobody answered within 0.2 s" in notebook.main_output[-1]["text/plain"]


# Plain questions ------------------------------------------------------------------------------------------------------


def reply(wait, **content):
    wait.panel._handle_custom_msg({"type": "hello"}, [])
    wait.panel._handle_custom_msg({"type": "reply", "id": wait._question.id, **content}, [])


def test_a_plain_question_is_answered_in_the_panel(notebook, waits):
    notebook.on_step = lambda: reply(waits[-1], choice=1)
    assert NotebookHuman().ask(None, "Colour?", Literal["red", "green"]) == "green"
    assert "Colour?: green" in notebook.main_output[-1]["text/plain"]


def test_a_plain_question_is_awaited_too(notebook, waits):
    async def main():
        async with anyio.create_task_group() as tasks:

            async def click():
                await anyio.wait_all_tasks_blocked()
                reply(waits[-1], text="because")

            tasks.start_soon(click)
            with anyio.fail_after(5):
                return await NotebookHuman().aask(None, "Why?")

    assert anyio.run(main) == "because"


@pytest.mark.states("R4")
def test_a_plain_question_that_nobody_can_answer_is_an_error(notebook):
    notebook.front = FrontEnd(True, False, "Nobody can answer: allow_stdin is off.", "Write permissions=[...].")
    said = r"allow_stdin is off\. \(question: 'Go on\?'\)\nFix: ask no questions"
    with pytest.raises(NoHumanError, match=said):
        NotebookHuman().ask(None, "Go on?", bool)
    with pytest.raises(NoHumanError, match=said) as raised:
        anyio.run(NotebookHuman().aask, None, "Go on?", bool)
    assert "permissions=" not in str(raised.value)
    assert "class Prepared(Human):" in str(raised.value)
    with pytest.raises(TypeError, match="returns="):
        NotebookHuman().ask(None, "Go on?", int)


def test_a_plain_question_is_put_as_text_without_a_panel(notebook, typed):
    typed += ["", "yes"]
    assert NotebookHuman(prompt_after=0).ask(None, "Go on?", bool) is True


# The cell is run again, the panel is taken away -----------------------------------------------------------------------


def test_a_cell_that_is_run_again_withdraws_what_waits(notebook):
    request = make_request()
    changes = open_requests(request)
    notebook.on_step = lambda: notebook.run_again()
    with NotebookHuman().attend([request]) as serve:
        serve(0.1)
        assert not the_desk.is_open(request.id)
    assert lines(changes) == ["withdrawn the cell was run again"]


def test_a_plain_question_ends_when_its_cell_is_run_again(notebook):
    notebook.on_step = lambda: notebook.run_again()
    with pytest.raises(NoHumanError, match=r"the cell was run again \(question: 'Go on\?'\)"):
        NotebookHuman().ask(None, "Go on?", bool)


def test_a_panel_that_is_taken_away_is_shown_again_and_at_last_put_as_text(notebook, typed, monkeypatch, waits):
    typed += ["a"]
    request = make_request()
    changes = open_requests(request)
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    times = waits_module._SHOW_AGAIN
    with NotebookHuman().attend([request]) as serve:
        panel = waits[0].panel
        for shown in range(1, times + 2):
            panel._handle_custom_msg({"type": "hello"}, [])
            panel._handle_custom_msg({"type": "gone"}, [])
            now[0] += 0.9
            serve(0.1)
            assert len(notebook.main_output) == shown
            now[0] += 0.2
            serve(0.1)
            serve(0.1)
        assert len(notebook.main_output) == times + 1
        now[0] += 3.1
        serve(0.1)
        assert "has been taken out of this output. In 5 s" in notebook.side_texts[0]
        assert the_desk.is_open(request.id)
        now[0] += 5
        serve(0.1)
    assert lines(changes) == ["answered allow"]


def test_a_panel_that_another_page_shows_is_not_shown_again(notebook, monkeypatch, waits):
    request = make_request()
    open_requests(request)
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    with NotebookHuman().attend([request]) as serve:
        for said in ("hello", "gone", "here"):
            waits[0].panel._handle_custom_msg({"type": said}, [])
        now[0] += 20
        serve(0.1)
        assert len(notebook.main_output) == 1
        assert notebook.side_texts == []
        answer(request)


# The agent's card -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("front", "expected"),
    [
        (FrontEnd(True, True, ""), "you, in the panel under the cell"),
        (FrontEnd(True, False, "Nobody can answer: the client says no."), "nobody: the client says no."),
        (FrontEnd(False, False, "No kernel."), f"nobody: No kernel. {waits_module._REMEDY}"),
    ],
    ids=["a page", "an unattended run", "no kernel"],
)
def test_it_says_who_is_asked(notebook, front, expected):
    notebook.front = front
    assert NotebookHuman().describe() == expected


def test_saying_who_is_asked_never_raises(monkeypatch):
    monkeypatch.setattr(kernel, "front_end", lambda: 1 / 0)
    assert NotebookHuman().describe() == "nobody: the kernel cannot be asked (ZeroDivisionError: division by zero)"
