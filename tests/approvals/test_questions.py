"""The text prompt's plain questions: asked until the answer fits, and one at a time."""

from __future__ import annotations

import threading
from typing import Any, Literal

import anyio
import pytest
from waiting import make_request, open_requests

from agentperm_nb import Agent, State, TextApprover
from agentperm_nb.approvals.decisions import ApprovalDecision
from agentperm_nb.approvals.desk import the_desk


class Desk:
    """Somebody at a terminal: types what a function of the question returns, and keeps what stood on the screen."""

    def __init__(self, *typed: Any) -> None:
        self.typed = list(typed)
        self.screen: list[str] = []
        self.approver = TextApprover(self._read, self.screen.append)

    def _read(self, question: str) -> str:
        self.screen.append(question)
        word = self.typed.pop(0)
        if isinstance(word, BaseException):
            raise word
        return word() if callable(word) else word  # type: ignore[no-any-return]


@pytest.mark.states("R1")
@pytest.mark.parametrize(
    ("returns", "question"),
    [(str, "Which? "), (bool, "Which? (yes/no) "), (Literal["red", "blue", 3], "Which? (red/blue/3) ")],
    ids=["text", "bool", "literal"],
)
def test_a_question_is_shown_with_its_choices(returns: Any, question: str) -> None:
    person = Desk("3" if returns not in (str, bool) else "yes")
    person.approver.ask(None, "Which?", returns)
    assert person.screen == [question]


@pytest.mark.states("R1")
@pytest.mark.parametrize(
    ("returns", "typed", "hint", "answer"),
    [
        (str, ["", "  ", " text "], "Answer with some text", "text"),
        (bool, ["maybe", "YES"], "Answer 'yes' or 'no'", True),
        (Literal["yes", "no"], ["YES", "y", " yes "], "Answer with one of: yes, no", "yes"),
        (Literal[1, 2], ["3", "2"], "Answer with one of: 1, 2", 2),
    ],
    ids=["text", "bool", "literal, case counts", "literal of numbers"],
)
def test_an_answer_that_does_not_fit_is_asked_for_again(returns: Any, typed: list[str], hint: str, answer: Any) -> None:
    person, state = Desk(*typed), State()
    assert Agent(human=person.approver).ask_human(state, "Which?", returns) == answer
    assert person.screen.count(hint) == len(typed) - 1
    assert sum(line.startswith("Which? ") for line in person.screen) == len(typed)
    assert len(state.history) == 1


@pytest.mark.states("R1")
@pytest.mark.parametrize("form", ["sync", "asyncio", "trio"])
@pytest.mark.parametrize("error", [EOFError(), KeyboardInterrupt()], ids=lambda error: type(error).__name__)
def test_the_end_of_the_input_and_an_interrupt_get_through_and_the_next_question_is_asked(
    error: BaseException, form: str
) -> None:
    person = Desk("maybe", error, "no")

    def ask() -> Any:
        if form == "sync":
            return person.approver.ask(None, "Sure?", bool)
        return anyio.run(person.approver.aask, None, "Sure?", bool, backend=form)

    with pytest.raises(type(error)):
        ask()
    assert ask() is False


@pytest.mark.states("R1")
def test_questions_of_several_threads_are_asked_one_at_a_time() -> None:
    lock, answers, most = threading.Lock(), dict[str, str](), [0, 0]
    everybody_is_here = threading.Barrier(10)

    def read(question: str) -> str:
        with lock:
            most[0] += 1
            most[1] = max(most)
        number = question.split()[1]
        with lock:
            most[0] -= 1
        return "?" if number not in answers and answers.setdefault(number, "") == "" and number == "7" else number

    approver = TextApprover(read, lambda text: None)
    given: dict[int, Any] = {}

    def ask(number: int) -> None:
        everybody_is_here.wait(10)
        given[number] = approver.ask(None, f"Number {number} please:", Literal[0, 1, 2, 3, 4, 5, 6, 7, 8, 9])

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert given == {number: number for number in range(10)}
    assert most[1] == 1


@pytest.mark.states("R1")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_question_and_the_calls_of_a_turn_wait_for_each_other(backend: str) -> None:
    """The question comes in while the first of two calls is being answered: it stands below both."""
    asked = threading.Event()
    first, second = make_request("one"), make_request("two")

    async def main() -> tuple[list[Any], Any]:
        answers: list[Any] = []
        async with anyio.create_task_group() as group:

            async def question() -> None:
                await anyio.to_thread.run_sync(asked.wait, 10)
                answers.append(await person.approver.aask(None, "Sure?", bool))

            group.start_soon(question)
            decisions = [item async for item in person.approver.areview([first, second])]
        return decisions, answers[0]

    def approve() -> str:
        asked.set()
        return "a"

    person = Desk(approve, "a", "yes")
    decisions, answer = anyio.run(main, backend=backend)
    assert decisions == [(first.id, ApprovalDecision("allow")), (second.id, ApprovalDecision("allow"))]
    assert answer is True
    assert person.screen[-1] == "Sure? (yes/no) "


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("what", ["a question", "a call"])
def test_what_nobody_waits_for_any_more_holds_up_no_question(backend: str, what: str) -> None:
    reading, let_go, gone = threading.Event(), threading.Event(), threading.Event()

    def nobody_types() -> str:
        reading.set()
        assert let_go.wait(10)
        gone.set()
        return "a"

    person, request = Desk(nobody_types, "no"), make_request()
    open_requests(request)

    async def main() -> Any:
        async def ask() -> None:
            if what == "a question":
                await person.approver.aask(None, "First?", Literal["a"])
            else:
                async for _ in person.approver.areview([request]):
                    raise AssertionError("nobody is to answer")

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await anyio.to_thread.run_sync(reading.wait, 10)
            group.cancel_scope.cancel()
        the_desk.withdraw(request.id, "interrupted")
        answer = await person.approver.aask(None, "Second?", bool)
        let_go.set()
        await anyio.to_thread.run_sync(gone.wait, 10)
        return answer

    assert anyio.run(main, backend=backend) is False


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_calls_that_left_while_they_waited_for_their_turn_are_never_shown(backend: str) -> None:
    gone, stays = make_request("gone"), make_request("stays")
    open_requests(gone, stays)
    reading, go_on = threading.Event(), threading.Event()

    def answer() -> str:
        reading.set()
        assert go_on.wait(10)
        return "yes"

    async def main() -> Any:
        decisions: list[Any] = []
        async with anyio.create_task_group() as group:

            async def review() -> None:
                decisions.extend([item async for item in person.approver.areview([gone, stays])])

            group.start_soon(person.approver.aask, None, "First?", bool)
            await anyio.to_thread.run_sync(reading.wait, 10)
            group.start_soon(review)
            await anyio.wait_all_tasks_blocked()
            the_desk.withdraw(gone.id, "the turn was stopped")
            go_on.set()
        return decisions

    person = Desk(answer, "d", "")
    assert anyio.run(main, backend=backend) == [(stays.id, ApprovalDecision("deny"))]
    assert not [line for line in person.screen if "gone" in line]


@pytest.mark.states("R2")
def test_reading_and_writing_may_be_given_and_are_those_of_python_otherwise(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    questions: list[str] = []

    def typed(question: str) -> str:
        questions.append(question)
        return "" if len(questions) == 1 else "blue"

    monkeypatch.setattr("builtins.input", typed)
    assert TextApprover().ask(None, "Colour?", Literal["red", "blue"]) == "blue"
    assert questions == ["Colour? (red/blue) "] * 2
    assert capsys.readouterr().out == "Answer with one of: red, blue\n"
    person = Desk("green", "red")
    assert person.approver.ask(None, "Colour?", Literal["red", "blue"]) == "red"
    assert person.screen == ["Colour? (red/blue) ", "Answer with one of: red, blue", "Colour? (red/blue) "]
    assert (len(questions), capsys.readouterr().out) == (2, "")


@pytest.mark.states("R1")
def test_what_is_asked_is_made_visible() -> None:
    person = Desk("yes")
    person.approver.ask(None, "Sure?\x1b[2K\r", bool)
    assert person.screen == ["Sure?\\u{001B}[2K\\u{000D} (yes/no) "]
