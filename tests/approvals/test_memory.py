"""Remembered answers hold for the same user, agent, person and calls, and a denial wins."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest

from agentperm_nb.approvals import memory as memory_module
from agentperm_nb.approvals.decisions import Scope
from agentperm_nb.approvals.memory import Memory, Remembered, RememberedAnswers, covers_text
from agentperm_nb.calls import ToolCall
from agentperm_nb.context import RunContext

CALL = ToolCall("write", {"path": "a.txt", "n": 1}, "id-1")
HERE = RunContext("run_1", "session_1", "ann", ("main",))
PATH = Scope("arguments", arguments=["path"])


class Somebody:
    """Whoever is asked."""

    def __eq__(self, other: object) -> bool:
        return True  # all alike, and yet another one is asked

    __hash__ = None  # type: ignore[assignment]  # it can be anything


ANN, BOSS = Somebody(), Somebody()


def keep(memory: Memory, scope: Scope | None = None, *, call: ToolCall = CALL, **more: Any) -> Remembered:
    more = {"allow": True, "asked": ANN, **more}
    return memory.remember(more.pop("context", HERE), call, scope or Scope(), **more)


def memory_of(*scopes: Scope, **more: Any) -> Memory:
    memory = Memory()
    for scope in scopes:
        keep(memory, scope, **more)
    return memory


def holds(memory: Memory, call: ToolCall = CALL, context: RunContext = HERE, asked: object = ANN) -> bool | None:
    """Return what a memory says of a call: True, False, or None for nothing."""
    found = memory.look_up(context, call, asked)
    return None if found is None else found.allow


# ---------------------------------------------------------------------- which calls


@pytest.mark.parametrize(
    ("call", "same_call", "same_path", "same_tool"),
    [
        (CALL, True, True, True),
        (ToolCall("write", {"n": 1, "path": "a.txt"}, "id-2"), True, True, True),
        (ToolCall("write", {"path": "b.txt", "n": 1}), None, None, True),
        (ToolCall("write", {"path": "a.txt", "n": True}), None, True, True),
        (ToolCall("write", {"path": "a.txt", "n": 1.0}), None, True, True),
        (ToolCall("write", {"path": "a.txt", "n": 1, "force": True}), None, True, True),
        (ToolCall("write", {"path": "a.txt"}), None, True, True),
        (ToolCall("write", {"path": None, "n": 1}), None, None, True),
        (ToolCall("write", {"n": 1}), None, None, True),
        (ToolCall("Write", {"path": "a.txt", "n": 1}), None, None, None),
        (ToolCall("write_all", {"path": "a.txt", "n": 1}), None, None, None),
    ],
    ids=str,
)
def test_an_answer_holds_for_the_same_call_for_the_same_arguments_or_for_the_tool(
    call: ToolCall, same_call: bool | None, same_path: bool | None, same_tool: bool | None
) -> None:
    assert holds(memory_of(Scope("call")), call) is same_call
    assert holds(memory_of(PATH), call) is same_path
    assert holds(memory_of(Scope("tool")), call) is same_tool


VALUES: list[Any] = [1, 1.0, True, "1", "true", None, [1], [True], {"a": 1}, {"a": 1.0}, "", []]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_the_values_of_named_arguments_are_compared_with_their_types(value: Any) -> None:
    memory = memory_of(Scope("arguments", arguments=["n"]), call=ToolCall("write", {"n": value}))
    same = [other for other in VALUES if holds(memory, ToolCall("write", {"n": other, "m": 2}))]
    assert [repr(other) for other in same] == [repr(value)]
    assert holds(memory, ToolCall("write", {"m": 2})) is None


def test_an_argument_that_is_not_there_is_the_same_only_where_it_is_not_there_either() -> None:
    memory = memory_of(Scope("arguments", arguments=["path", "force"]))
    assert holds(memory, ToolCall("write", {"path": "a.txt", "n": 7})) is True
    for force in (True, False, None, ""):
        assert holds(memory, ToolCall("write", {"path": "a.txt", "force": force})) is None


def test_the_order_of_names_makes_no_difference_and_their_number_does() -> None:
    memory = memory_of(Scope("arguments", arguments=["n", "path"]))
    assert keep(memory, Scope("arguments", arguments=["path", "n"])).number == 2
    assert [answer.number for answer in memory.answers()] == [2]
    keep(memory, PATH, allow=False)
    assert [answer.number for answer in memory.answers()] == [2, 3]


def test_several_lists_of_names_are_looked_up_side_by_side() -> None:
    memory = memory_of(PATH, Scope("arguments", arguments=["n"]), Scope("arguments", arguments=["n", "path"]))
    assert holds(memory, ToolCall("write", {"path": "a.txt", "n": 2})) is True
    assert holds(memory, ToolCall("write", {"path": "b.txt", "n": 1})) is True
    assert holds(memory, ToolCall("write", {"path": "b.txt", "n": 2})) is None


# ---------------------------------------------------------------------- for whom


@pytest.mark.parametrize(
    ("context", "in_run", "in_session"),
    [
        (HERE, True, True),
        (RunContext("run_2", "session_1", "ann", ("main",)), None, True),
        (RunContext("run_1", "session_2", "ann", ("main",)), True, None),
        (RunContext("session_1", "run_1", "ann", ("main",)), None, None),
        (RunContext("run_1", "session_1", "bob", ("main",)), None, None),
        (RunContext("run_1", "session_1", "Ann", ("main",)), None, None),
        (RunContext("run_1", "session_1", None, ("main",)), None, None),
        (RunContext("run_1", "session_1", "ann", ("main", "research")), None, None),
        (RunContext("run_1", "session_1", "ann", ("other",)), None, None),
        (RunContext("run_1", "session_1", "ann", ()), None, None),
    ],
    ids=[
        "here", "another run", "another session", "the ids swapped", "another user", "another spelling", "no user",
        "a subagent", "another agent", "no agent",
    ],
)  # fmt: skip
def test_an_answer_holds_for_one_user_one_agent_and_one_run_or_session(
    context: RunContext, in_run: bool | None, in_session: bool | None
) -> None:
    for scope in (Scope("call"), Scope("tool"), PATH):
        assert holds(memory_of(scope), context=context) is in_run
        lasting = Scope(scope.covers, "session", scope.arguments)
        assert holds(memory_of(lasting), context=context) is in_session


@pytest.mark.parametrize("lasts", ["run", "session"])
def test_an_answer_stands_in_for_nobody_else(lasts: Any) -> None:
    memory = memory_of(Scope("tool", lasts))
    assert (holds(memory), holds(memory, asked=BOSS), holds(memory, asked=Somebody())) == (True, None, None)
    keep(memory, Scope("tool", lasts), asked=BOSS, allow=False)
    assert (holds(memory), holds(memory, asked=BOSS)) == (True, False)


def test_nobody_who_comes_later_is_taken_for_one_who_has_gone() -> None:
    memory = Memory()
    for n in range(50):
        keep(memory, Scope("call"), call=ToolCall("write", {"n": n}), asked=Somebody())
    gc.collect()
    later = [Somebody() for _ in range(500)]  # one of them would have an id again that was free
    calls = [ToolCall("write", {"n": n}) for n in range(50)]
    assert [holds(memory, call, asked=one) for one in later for call in calls].count(None) == 500 * 50


# ---------------------------------------------------------------------- several


@pytest.mark.parametrize("covers_no", [Scope(), PATH, Scope("tool")], ids=["call", "path", "tool"])
@pytest.mark.parametrize("covers_yes", [Scope(), PATH, Scope("tool")], ids=["call", "path", "tool"])
@pytest.mark.parametrize("lasts_no", ["run", "session"])
@pytest.mark.parametrize("lasts_yes", ["run", "session"])
@pytest.mark.parametrize("first", [True, False], ids=["allowed first", "denied first"])
def test_where_two_answers_hold_the_denial_wins(
    covers_no: Scope, lasts_no: Any, covers_yes: Scope, lasts_yes: Any, first: bool
) -> None:
    memory, both = Memory(), [(covers_yes, lasts_yes, True), (covers_no, lasts_no, False)]
    for scope, lasts, allow in both if first else both[::-1]:
        keep(memory, Scope(scope.covers, lasts, scope.arguments), allow=allow)
    assert holds(memory) is False


def test_an_allow_that_does_not_count_leaves_room_for_another_one_and_a_denial_always_counts() -> None:
    memory = memory_of(Scope("call"), approver="ann")
    keep(memory, Scope("tool"), approver="bob")
    found = memory.look_up(HERE, CALL, ANN, counts=lambda answer: answer.approver == "bob")
    assert found is not None
    assert found.approver == "bob"
    assert memory.look_up(HERE, CALL, ANN, counts=lambda answer: False) is None
    keep(memory, PATH, approver="ann", allow=False)
    found = memory.look_up(HERE, CALL, ANN, counts=lambda answer: False)
    assert found is not None
    assert found.allow is False


def test_a_new_answer_of_the_same_kind_takes_the_place_of_the_old_one() -> None:
    memory = memory_of(Scope(), Scope(), approver="ann")
    new = keep(memory, approver="bob")
    assert list(memory.answers()) == [new]
    assert (new.number, new.approver) == (3, "bob")


# ---------------------------------------------------------------------- listed and revoked


def test_what_is_remembered_is_listed_by_numbers_that_are_never_given_again() -> None:
    memory = Memory()
    yes = keep(memory, approver="ann", covers="exactly write()", from_call="run_1/1/0", reason="why not")
    no = keep(memory, Scope("tool", "session"), allow=False)
    answers = memory.answers()
    assert (len(answers), list(answers), answers[1], answers[2]) == (2, [yes, no], yes, no)
    assert (yes.answer, yes.tool, yes.user, yes.agent_path, yes.run, yes.session) == (
        "allow", "write", "ann", ("main",), "run_1", "session_1",
    )  # fmt: skip
    assert (no.answer, no.lasts, no.approver, no.reason) == ("deny", "session", None, None)
    assert memory.revoke(1) == yes
    assert keep(memory).number == 3
    assert [answer.number for answer in memory.answers()] == [2, 3]
    assert list(answers) == [yes, no]  # what was listed before stays as it was


def test_a_revoked_answer_holds_no_more_and_the_others_do() -> None:
    memory = memory_of(Scope("call"), Scope("tool"), PATH)
    keep(memory, Scope("call"), allow=False)
    assert holds(memory) is False
    memory.revoke(4)
    for number in (1, 2, 3):
        assert holds(memory) is True
        memory.revoke(number)
    assert holds(memory) is None
    assert repr(memory) == "Memory(0 remembered)"


def test_all_answers_can_be_revoked_at_once() -> None:
    memory = memory_of(Scope("call"), Scope("tool"))
    assert [answer.number for answer in memory.revoke_all()] == [1, 2]
    assert memory.revoke_all() == ()
    assert (len(memory.answers()), holds(memory)) == (0, None)


@pytest.mark.parametrize("number", [0, 3, -1, True, 1.0, "1", None], ids=repr)
def test_a_number_that_is_not_there_is_refused_with_those_that_are(number: Any) -> None:
    memory = memory_of(Scope("call"), Scope("tool"))
    with pytest.raises(ValueError, match=r"has the number [\s\S]*those there are: 1, 2[\s\S]*Example:"):
        memory.revoke(number)
    assert len(memory.answers()) == 2
    if number not in (True, 1.0):
        with pytest.raises(LookupError, match="those there are: 1, 2"):
            memory.answers()[number]


def test_where_nothing_is_remembered_revoking_says_so() -> None:
    with pytest.raises(ValueError, match="nothing is remembered"):
        Memory().revoke(1)


def test_the_end_of_a_run_ends_what_was_remembered_for_it_and_nothing_else() -> None:
    memory = memory_of(Scope("call"), Scope("tool", "session"))
    keep(memory, Scope("tool"), context=RunContext("run_2", "session_1", "ann", ("main",)))
    memory.end_run("run_1")
    assert [answer.number for answer in memory.answers()] == [2, 3]
    memory.end_run("session_1")
    assert len(memory.answers()) == 2


def test_the_list_is_a_table_of_text_and_of_html_that_cannot_be_broken_out_of() -> None:
    memory = Memory()
    assert (repr(memory.answers()), memory.answers()._repr_html_()) == (
        "nothing remembered",
        "<div>nothing remembered</div>",
    )
    keep(memory, Scope("tool"), covers="every call of <b>write</b>\x1b[2J", approver="bob", from_call="run_1/1/0")
    keep(memory, allow=False, context=RunContext("run_1", "s", None, ("main", "helper")), covers="x" * 300)
    text, html = repr(memory.answers()), memory.answers()._repr_html_()
    first = text.splitlines()
    assert first[0] == "2 remembered answers · agent.revoke(number) takes one back"
    assert " ".join(first[1].split()) == "number answer covers lasts user agent approver from call when"
    assert first[3].startswith(r"1       allow   every call of <b>write</b>\u{001B}[2J")
    assert "bob" in first[3]
    assert "main › helper" in first[4]
    assert "… +" in first[4]
    assert "<b>" not in html
    assert "&lt;b&gt;write&lt;/b&gt;" in html
    assert len(RememberedAnswers([])) == 0


def test_one_answer_shows_itself_in_a_line_without_its_reason() -> None:
    kept = keep(Memory(), Scope("tool", "session"), covers="every call of write", reason="password=hunter22")
    assert repr(kept) == "Remembered(1: allow every call of write, for the session)"


@pytest.mark.parametrize(
    ("scope", "words"),
    [
        (Scope("call"), 'exactly write(path="a.txt", n=1)'),
        (Scope("tool"), "every call of write"),
        (PATH, 'write with path="a.txt"'),
        (Scope("arguments", arguments=["n", "path"]), 'write with n=1, path="a.txt"'),
        (Scope("arguments", arguments=["force", "path", "mode"]), 'write with path="a.txt" and without force, mode'),
        (Scope("arguments", arguments=["force"]), "write without force"),
    ],
    ids=str,
)
def test_what_an_answer_covers_is_said_in_words(scope: Scope, words: str) -> None:
    assert covers_text(scope, "write", CALL.args) == words


def test_a_long_argument_is_cut_with_the_count_of_what_is_left_out() -> None:
    words = covers_text(Scope(), "write", {"content": "x" * 10_000})
    assert keep(Memory(), covers=words).covers.endswith("… (9,525 more characters)")


# ---------------------------------------------------------------------- bounded, told, and thread-safe


def test_a_full_memory_drops_the_oldest_allow_and_no_denial_that_holds_one_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory_module, "KEPT", 3)
    memory, other = Memory(), ToolCall("write", {"n": 2})
    keep(memory, Scope("call"), allow=False)
    keep(memory, Scope("tool"))
    keep(memory, Scope("call"), call=other)
    keep(memory, Scope("call"), call=ToolCall("write", {"n": 3}), allow=False)
    assert [answer.number for answer in memory.answers()] == [1, 3, 4]
    keep(memory, Scope("call"), call=ToolCall("write", {"n": 4}), allow=False)
    assert [answer.number for answer in memory.answers()] == [1, 4, 5]
    keep(memory, Scope("call"), call=ToolCall("write", {"n": 5}), allow=False)  # only denials are left: each was asked
    assert [answer.number for answer in memory.answers()] == [4, 5, 6]
    assert holds(memory) is None


def test_listeners_are_told_of_each_answer_until_they_have_enough() -> None:
    memory, told = Memory(), []
    end = memory.subscribe(lambda: told.append(len(memory.answers())))
    keep(memory)
    keep(memory, Scope("tool"))
    memory.revoke(1)
    end()
    end()
    keep(memory)
    assert told == [1, 2]


def test_an_empty_memory_knows_nothing_of_any_call() -> None:
    assert holds(Memory(), ToolCall("write", {"a": {1, 2}})) is None


@pytest.mark.parametrize("scope", [Scope("call"), Scope("arguments", arguments=["a"])], ids=["call", "arguments"])
@pytest.mark.parametrize("value", [{1, 2}, float("nan")], ids=repr)
def test_a_call_that_is_not_json_is_never_remembered(value: Any, scope: Scope) -> None:
    memory, call = Memory(), ToolCall("write", {"a": value})
    with pytest.raises((TypeError, ValueError)):
        keep(memory, scope, call=call)
    assert len(memory.answers()) == 0
    keep(memory, scope, call=ToolCall("write", {"a": 1}))
    with pytest.raises((TypeError, ValueError)):
        memory.look_up(HERE, call, ANN)


def test_many_threads_may_remember_look_up_and_revoke_at_once() -> None:
    memory, wrong = Memory(), []

    def work(n: int) -> None:
        for i in range(50):
            call = ToolCall("write", {"n": n, "i": i})
            kept = keep(memory, call=call, allow=bool(i % 2))
            if holds(memory, call) is not bool(i % 2):
                wrong.append((n, i))
            if i % 5 == 0:
                memory.revoke(kept.number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(memory.answers()) == 320
    assert len({answer.number for answer in memory.answers()}) == 320
