"""The published statements on how permissions are asked, on calls that nobody decides, and on permissions that fail."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from rules import Says, Telling, arun, decide, deny, do, errors, pending
from turns import DRIVERS, Counter, run

from agentperm_nb import (
    Agent,
    AllowByName,
    Allowed,
    DecidePermission,
    Denied,
    Message,
    Permission,
    PermissionWarning,
    State,
    Tool,
    ToolCall,
    Verdict,
)
from agentperm_nb.testing import ScriptedModel, tool_call

every_driver = pytest.mark.parametrize("driver", DRIVERS)
as_state_and_reply = pytest.mark.parametrize("bare", [False, True], ids=["a state", "a bare reply"])


def turn_of(driver: str, agent: Agent, state: State, *, bare: bool = False) -> State:
    """Do a turn with the calls of a state, or with the same calls as a reply of no state; return its state."""
    if not bare:
        run(driver, agent, state)
        return state
    run(driver, agent, list(state.pending_calls))
    return agent.state


# ---------------------------------------------------------------------- I: the check phase


@pytest.mark.states("I1", "I7")
@every_driver
def test_one_permission_at_a_time_is_asked_about_one_call_at_a_time(driver: str) -> None:
    happened: list[str] = []
    threads: set[int] = set()

    class Slow(DecidePermission):
        def __init__(self, name: str, verdict: Verdict | None) -> None:
            self.name, self.verdict = name, verdict

        def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
            happened.append(f"{self.name} {call.args['n']}")
            threads.add(threading.get_ident())
            happened.append("done")
            return self.verdict

        async def acheck(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
            happened.append(f"{self.name} {call.args['n']}")
            threads.add(threading.get_ident())
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
            happened.append("done")
            return self.verdict

    agent = Agent([Counter().tool], permissions=[Slow("first", None), Slow("second", Denied("no"))])
    run(driver, agent, pending("act", "act"))
    assert happened == ["first 0", "done", "second 0", "done", "first 1", "done", "second 1", "done"]
    assert threads == {threading.get_ident()}


@pytest.mark.states("I2", "I3")
@every_driver
@pytest.mark.parametrize(
    ("second_deny", "asked_in_order", "verdict"),
    [
        (None, ["deny 1", "deny 2", "deny 3", "decide 1", "decide 2"], "allowed"),
        (Denied("two"), ["deny 1", "deny 2"], "denied"),
    ],
    ids=["nothing denies", "the second denies"],
)
def test_denies_are_asked_first_then_the_others_to_the_first_verdict(
    second_deny: Denied | None, asked_in_order: list[str], verdict: str, driver: str
) -> None:
    asked, counter = list[str](), Counter()
    permissions: list[Permission] = [
        decide("decide 1", asked),
        deny("deny 1", asked),
        decide("decide 2", asked, Allowed()),
        deny("deny 2", asked, second_deny),
        decide("decide 3", asked, Denied("three")),
        deny("deny 3", asked),
    ]
    turn = run(driver, Agent([counter.tool], permissions=permissions), [tool_call("act", n=1)])
    assert asked == asked_in_order
    assert turn.results[0].verdict == verdict
    assert turn.results[0].decided_by == asked_in_order[-1]
    assert len(counter.ran) == (verdict == "allowed")


@pytest.mark.states("I4")
@every_driver
@as_state_and_reply
def test_a_check_is_given_the_state_the_frozen_call_and_the_tool(bare: bool, driver: str) -> None:
    seen: list[tuple[State, ToolCall, Tool]] = []

    def say(state: State, call: ToolCall, tool: Tool) -> Verdict | None:
        seen.append((state, call, tool))
        args: Any = call.args
        changes: list[Callable[[], object]] = [
            lambda: args.update(n=2),
            lambda: args["deep"].update(n=2),
            lambda: args["deep"]["list"].append(2),
        ]
        for change in changes:
            with pytest.raises(TypeError):
                change()
        return Allowed()

    counter = Counter()
    agent = Agent([counter.tool], permissions=[Says(say)])
    state = State(pending_calls=[tool_call("act", n=1, deep={"list": [1]})])
    (call,) = state.pending_calls
    state = turn_of(driver, agent, state, bare=bare)
    ((seen_state, seen_call, seen_tool),) = seen
    assert seen_state is state
    assert (seen_call, seen_call.args) == (call, {"n": 1, "deep": {"list": [1]}})
    assert seen_tool is counter.tool
    assert counter.ran == [{"n": 1, "deep": {"list": [1]}}]


@pytest.mark.states("I5")
@every_driver
@as_state_and_reply
def test_allowed_calls_are_pending_in_a_check_and_closed_ones_are_not(bare: bool, driver: str) -> None:
    seen: list[list[int]] = []

    def say(state: State, call: ToolCall, tool: Tool) -> Verdict | None:
        seen.append([one.args["n"] for one in state.pending_calls])
        return Denied("no") if call.args["n"] == 2 else Allowed()

    agent = Agent([Counter().tool], permissions=[Says(say)])
    state = turn_of(driver, agent, pending("nope", "act", "act", "act", "act"), bare=bare)
    assert seen == [[1, 2, 3, 4], [1, 2, 3, 4], [1, 3, 4], [1, 3, 4]]
    assert state.pending_calls == ()


@pytest.mark.states("I6")
@every_driver
@as_state_and_reply
def test_a_message_that_a_check_adds_comes_after_the_results(bare: bool, driver: str) -> None:
    def say(state: State, call: ToolCall, tool: Tool) -> Verdict | None:
        state.add_message(Message.notice(f"seen {call.args['n']}"))
        return Denied("no") if call.args["n"] == 0 else Allowed()

    agent = Agent([Counter().tool], permissions=[Says(say)])
    state = turn_of(driver, agent, pending("act", "act"), bare=bare)
    told = [message.text or [type(block).__name__ for block in message.content] for message in state.messages]
    assert told[-4:] == [["ToolCall"] * 2, ["ToolResultBlock"] * 2, "[notice] seen 0", "[notice] seen 1"]


@pytest.mark.states("I6")
@every_driver
def test_a_check_that_finishes_the_state_ends_the_run_after_its_turn(driver: str) -> None:
    def say(state: State, call: ToolCall, tool: Tool) -> Verdict | None:
        state.finish("enough")
        return Allowed() if call.args["n"] == 1 else None

    counter, model = Counter(), ScriptedModel([[tool_call("act", n=1)], "never"])
    state = State([Message.user("Hi")])
    assert arun(driver, Agent([counter.tool], model=model, permissions=[Says(say)]), state) == "enough"
    assert (counter.ran, state.finished, model.remaining) == ([{"n": 1}], True, 1)


_task = ContextVar("task", default="nobody's")


@pytest.mark.states("I8")
@every_driver
@pytest.mark.parametrize("blocking", [True, False], ids=["on a worker thread", "in line"])
def test_a_check_sees_the_context_variables_of_the_caller(blocking: bool, driver: str) -> None:
    seen: list[tuple[str, bool]] = []

    def say(state: State, call: ToolCall, tool: Tool) -> Verdict | None:
        seen.append((_task.get(), threading.get_ident() == here))
        _task.set("the check's")  # in a copy, where the check is on a thread of its own
        return Denied("no")

    permission, here = Says(say), threading.get_ident()
    permission.blocking = blocking
    token = _task.set("mine")
    try:
        run(driver, Agent([Counter().tool], permissions=[permission]), [tool_call("act", n=1)])
        assert _task.get() == ("the check's" if driver == "sync" else "mine")
    finally:
        _task.reset(token)
    assert seen == [("mine", driver == "sync" or not blocking)]


# ---------------------------------------------------------------------- J: nobody decides


@pytest.mark.states("J1", "J2", "J3", "J5")
@every_driver
def test_a_call_that_nobody_decides_is_denied_with_a_warning_at_the_users_line(driver: str) -> None:
    telling, counter = Telling(), Counter()
    agent = Agent([counter.tool, Counter("other").tool], permissions=[AllowByName(["other"])], reporter=telling)
    for _ in range(2):  # the second time, too
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")
            turn = run(driver, agent, pending("act", "other", "act"))
        assert [result.verdict for result in turn.results] == ["denied", "allowed", "denied"]
        assert turn.stopped is None
        result = turn.results[0]
        assert (result.content, result.is_error) == ("No permission allowed this call.", True)
        assert (result.decided_by, result.error) == (None, None)
        assert [str(warning.message) for warning in caught] == [
            "No permission allowed or denied the call to act, so it was denied. To allow every call no permission "
            "denies, put AllowByDefault() at the end of permissions="
        ] * 2
        for warning in caught:
            assert warning.category is PermissionWarning
            assert issubclass(warning.category, UserWarning)
            assert warning.filename.endswith("turns.py")  # which called the agent
    assert counter.ran == []
    assert telling.told[0] == ("end", "act", "denied", "No permission allowed this call.")


@pytest.mark.states("J4", "X4")
@every_driver
@pytest.mark.parametrize("whole_run", [False, True], ids=["a turn", "a run"])
def test_a_warning_made_an_error_names_its_call_which_is_recorded_and_nothing_runs(
    whole_run: bool, driver: str
) -> None:
    counter, other = Counter(), Counter("other")
    model = ScriptedModel([[tool_call("other", n=0), tool_call("act", n=1), tool_call("other", n=2)]])
    agent = Agent([counter.tool, other.tool], model=model, permissions=[AllowByName(["other"])])
    state = State([Message.user("Hi")])
    with warnings.catch_warnings():
        warnings.simplefilter("error", PermissionWarning)
        with pytest.raises(PermissionWarning) as caught:
            do(driver, agent, state, whole_run=whole_run)
    assert caught.value.__notes__ == ["warned about act(n=1), which was denied"]
    (entry,) = errors(state)
    assert (entry.error, entry.call.args) == (caught.value, {"n": 1})
    aborted = "(aborted: PermissionWarning)"
    by_key = sorted(state.results, key=lambda result: result.call_key)
    assert [result.content for result in by_key] == [aborted, "No permission allowed this call.", aborted]
    assert (counter.ran, other.ran, state.pending_calls) == ([], [], ())
    assert list(agent.audit.calls()["verdict"]) == ["cancelled", "denied", "cancelled"]
