"""Remembered answers hold for the same user, agent and calls, and a denial wins."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from agentperm_nb.approvals.decisions import Scope
from agentperm_nb.approvals.memory import Memory, Remembered
from agentperm_nb.calls import ToolCall
from agentperm_nb.context import RunContext

CALL = ToolCall("write", {"path": "a.txt", "n": 1}, "id-1")
HERE = RunContext("run_1", "session_1", "ada", ("main",))


def entry(allow: bool = True, covers: Any = "call", lasts: Any = "run") -> Remembered:
    return Remembered(allow, Scope(covers, lasts), "write", None, "ada", "run_1/1/0")


def memory_of(*entries: Remembered) -> Memory:
    memory = Memory()
    for remembered in entries:
        memory.remember(HERE, CALL, remembered)
    return memory


@pytest.mark.parametrize(
    ("call", "same_call", "same_tool"),
    [
        (CALL, True, True),
        (ToolCall("write", {"n": 1, "path": "a.txt"}, "id-2"), True, True),
        (ToolCall("write", {"path": "b.txt", "n": 1}), False, True),
        (ToolCall("write", {"path": "a.txt", "n": True}), False, True),
        (ToolCall("write", {"path": "a.txt", "n": 1.0}), False, True),
        (ToolCall("write", {"path": "a.txt", "n": 1, "force": True}), False, True),
        (ToolCall("write", {"path": "a.txt"}), False, True),
        (ToolCall("Write", {"path": "a.txt", "n": 1}), False, False),
        (ToolCall("write_all", {"path": "a.txt", "n": 1}), False, False),
    ],
    ids=str,
)
def test_an_answer_holds_for_the_same_call_or_for_the_tool(call: ToolCall, same_call: bool, same_tool: bool) -> None:
    assert (memory_of(entry(covers="call")).look_up(HERE, call) is not None) is same_call
    assert (memory_of(entry(covers="tool")).look_up(HERE, call) is not None) is same_tool


@pytest.mark.parametrize(
    ("context", "in_run", "in_session"),
    [
        (HERE, True, True),
        (RunContext("run_2", "session_1", "ada", ("main",)), False, True),
        (RunContext("run_1", "session_2", "ada", ("main",)), True, False),
        (RunContext("run_1", "session_1", "eve", ("main",)), False, False),
        (RunContext("run_1", "session_1", None, ("main",)), False, False),
        (RunContext("run_1", "session_1", "ada", ("main", "research")), False, False),
        (RunContext("run_1", "session_1", "ada", ("other",)), False, False),
    ],
    ids=["here", "another run", "another session", "another user", "no user", "a subagent", "another agent"],
)
def test_an_answer_holds_for_one_user_one_agent_and_one_run_or_session(
    context: RunContext, in_run: bool, in_session: bool
) -> None:
    for covers in ("call", "tool"):
        assert (memory_of(entry(covers=covers, lasts="run")).look_up(context, CALL) is not None) is in_run
        assert (memory_of(entry(covers=covers, lasts="session")).look_up(context, CALL) is not None) is in_session


@pytest.mark.parametrize("covers_no", ["call", "tool"])
@pytest.mark.parametrize("lasts_no", ["run", "session"])
@pytest.mark.parametrize("covers_yes", ["call", "tool"])
@pytest.mark.parametrize("lasts_yes", ["run", "session"])
@pytest.mark.parametrize("first", [True, False], ids=["allowed first", "denied first"])
def test_where_two_answers_hold_the_denial_wins(
    covers_no: str, lasts_no: str, covers_yes: str, lasts_yes: str, first: bool
) -> None:
    both = [entry(True, covers_yes, lasts_yes), entry(False, covers_no, lasts_no)]
    found = memory_of(*(both if first else both[::-1])).look_up(HERE, CALL)
    assert found is not None
    assert found.allow is False


def test_what_is_remembered_is_listed_and_can_be_forgotten() -> None:
    yes, no = entry(True), entry(False, "tool")
    memory = memory_of(yes, no)
    assert memory.entries() == (yes, no)
    assert repr(memory) == "Memory(2 remembered)"
    memory.forget()
    assert memory.entries() == ()
    assert memory.look_up(HERE, CALL) is None


def test_a_new_answer_of_the_same_kind_takes_the_place_of_the_old_one() -> None:
    old, new = entry(), Remembered(True, Scope(), "write", "sure", "bob", "run_1/2/0")
    assert memory_of(old, new).entries() == (new,)


def test_an_empty_memory_knows_nothing_of_any_call() -> None:
    assert Memory().look_up(HERE, ToolCall("write", {"a": {1, 2}})) is None


def test_a_call_that_is_not_json_is_never_remembered() -> None:
    with pytest.raises(TypeError):
        memory_of(entry()).look_up(HERE, ToolCall("write", {"a": {1, 2}}))


def test_many_threads_may_remember_and_look_up_at_once() -> None:
    memory, wrong = Memory(), []

    def work(n: int) -> None:
        for i in range(50):
            call = ToolCall("write", {"n": n, "i": i})
            memory.remember(HERE, call, entry(allow=bool(i % 2)))
            found = memory.look_up(HERE, call)
            if found is None or found.allow is not bool(i % 2):
                wrong.append((n, i))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(memory.entries()) == 400
