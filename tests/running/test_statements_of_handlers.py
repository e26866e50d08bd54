"""What is published of approval handlers, statement by statement: how one is called, and what its answers do."""

from __future__ import annotations

import enum
import errno
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, Mock

import anyio
import loomflow
import numpy
import pytest
from turns import DRIVERS, Counter, run, run_noting

from agentperm_nb import (
    Agent,
    AllowAll,
    Allowed,
    ApprovalDecision,
    Ask,
    DecideByHuman,
    Denied,
    DenyByName,
    Hints,
    Mode,
    PermissionDecision,
    PermissionResult,
    PermissionWarning,
    Scope,
    StandardPermissions,
    ToolCall,
    ToolError,
    Turn,
    get_run_context,
    wait_for_signal,
)
from agentperm_nb.approvals.desk import the_desk
from agentperm_nb.testing import ScriptedModel, tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)
ASYNC = ("asyncio", "trio")
ASKS = StandardPermissions()
"""A mode that asks about the tools of these tests, which say nothing of themselves."""
NO_ANSWER = "The approver gave no valid answer, so this call was not run."
DECLINED = "The user declined this call."


def agent_with(handler: Callable[..., Any], *tools: Counter, **options: Any) -> Agent:
    return Agent([one.tool for one in tools], permissions=ASKS, approval_handler=handler, **options)


def results(turn: Any) -> list[tuple[str, str]]:
    assert isinstance(turn, Turn), turn
    return [(result.verdict, result.content) for result in turn.results]


# --- what it is called with -------------------------------------------------------------------------------------------


@both_drivers
@pytest.mark.states("MA3.1")
@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_is_called_with_the_call_and_the_user_and_knows_the_run(driver: str, is_async: bool) -> None:
    seen: list[Any] = []

    def handler(call: ToolCall, user_id: str | None) -> bool:
        seen.append((call.tool, dict(call.args), call.id, call.destructive, call.is_destructive(), user_id))
        seen.append(get_run_context())
        return True

    async def ahandler(call: ToolCall, user_id: str | None) -> bool:
        return handler(call, user_id)

    act = Counter()
    agent = agent_with(ahandler if is_async else handler, act)
    call = ToolCall("act", {"n": 1}, "toolu_1")
    run(driver, agent, [call], user="ann", session="monday", metadata={"ticket": 7})
    told, context = seen
    assert told == ("act", {"n": 1}, "toolu_1", True, True, "ann")
    assert context is not None
    assert (context.user_id, context.session_id, dict(context.metadata)) == ("ann", "monday", {"ticket": 7})
    assert context.run_id.startswith("run_")
    assert context.agent_path == ("main",)


@both_drivers
def test_a_call_that_destroys_nothing_says_so_to_a_handler_that_is_asked_all_the_same(driver: str) -> None:
    seen, act = [], Counter(hints_for=lambda args: Hints(destructive=args["n"] > 1))
    agent = Agent(
        [act.tool],
        permissions=DecideByHuman(),
        approval_handler=lambda call, user: seen.append(call.is_destructive()) or True,
    )
    run(driver, agent, [tool_call("act", n=1), tool_call("act", n=2)])
    assert sorted(seen) == [False, True]


# --- what it may return -----------------------------------------------------------------------------------------------


class Agreeable:
    """Equal to everything, and true."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return True


class Text(str):
    pass


class Word(str, enum.Enum):  # noqa: UP042 - as older code has them
    ALLOW = "allow"


class Stern(ApprovalDecision):
    """Calls itself an allow."""

    @property
    def allows(self) -> bool:
        return True


def forged(**fields: Any) -> ApprovalDecision:
    decision = ApprovalDecision("deny")
    for name, value in fields.items():
        object.__setattr__(decision, name, value)
    return decision


RAN, EDITED = ("allowed", "ran {'n': 1}"), ("allowed", "ran {'n': 2}")
NO, JUNK = ("denied", DECLINED), ("denied", NO_ANSWER)

RETURNS: dict[str, tuple[Callable[[], Any], tuple[str, str]]] = {
    # published as answers
    "True": (lambda: True, RAN),
    "False": (lambda: False, NO),
    "'allow'": (lambda: "allow", RAN),
    "'deny'": (lambda: "deny", NO),
    "'remember_allow'": (lambda: "remember_allow", RAN),
    "'remember_deny'": (lambda: "remember_deny", NO),
    "decision allow": (lambda: ApprovalDecision("allow"), RAN),
    "decision allow, with a reason": (lambda: ApprovalDecision("allow", reason="fine"), RAN),
    "decision deny": (lambda: ApprovalDecision("deny"), NO),
    "decision deny, with a reason": (lambda: ApprovalDecision("deny", reason="not now"), ("denied", "not now")),
    "decision deny, with a blank reason": (lambda: ApprovalDecision("deny", reason=" "), NO),
    "decision edit": (lambda: ApprovalDecision("edit", edited_args={"n": 2}), EDITED),
    "decision edit to the same": (lambda: ApprovalDecision("edit", edited_args={"n": 1}), RAN),
    "decision edit to nothing": (lambda: ApprovalDecision("edit", edited_args={}), ("allowed", "ran {}")),
    "decision remember_allow": (lambda: ApprovalDecision("remember_allow"), RAN),
    "decision remember_allow, edited": (lambda: ApprovalDecision("remember_allow", edited_args={"n": 2}), EDITED),
    "decision remember_deny": (lambda: ApprovalDecision("remember_deny", reason="never"), ("denied", "never")),
    # ours beside them
    "ALLOW of a rule table": (lambda: PermissionResult.ALLOW, RAN),
    "DENY of a rule table": (lambda: PermissionResult.DENY, NO),
    "decision deny and stop": (
        lambda: ApprovalDecision("deny", stop=True),
        ("denied", "The user declined this call. Wait for their next message."),
    ),
    # published as no answers
    "'ALLOW'": (lambda: "ALLOW", JUNK),
    "'no'": (lambda: "no", JUNK),
    "None": (lambda: None, JUNK),
    "1": (lambda: 1, JUNK),
    "0": (lambda: 0, JUNK),
    "{'action': 'allow'}": (lambda: {"action": "allow"}, JUNK),
    "{}": (dict, JUNK),
    "an unknown action": (lambda: forged(action="approve"), JUNK),
    # published as an answer, and none here: docs/differences.md
    "'edit'": (lambda: "edit", JUNK),
    # and no answers either
    "'Allow'": (lambda: "Allow", JUNK),
    "' allow'": (lambda: " allow", JUNK),
    "'allow '": (lambda: "allow ", JUNK),
    "'allow\\n'": (lambda: "allow\n", JUNK),
    "'yes'": (lambda: "yes", JUNK),
    "'y'": (lambda: "y", JUNK),
    "'true'": (lambda: "true", JUNK),
    "'True'": (lambda: "True", JUNK),
    "'ok'": (lambda: "ok", JUNK),
    "'approve'": (lambda: "approve", JUNK),
    "'allowed'": (lambda: "allowed", JUNK),
    "'remember'": (lambda: "remember", JUNK),
    "'bypassPermissions'": (lambda: "bypassPermissions", JUNK),
    "an empty text": (str, JUNK),
    "bytes": (lambda: b"allow", JUNK),
    "1.0": (lambda: 1.0, JUNK),
    "NaN": (lambda: float("nan"), JUNK),
    "-1": (lambda: -1, JUNK),
    "a list": (lambda: [True], JUNK),
    "an empty list": (list, JUNK),
    "a tuple": (lambda: (True, {"n": 1}), JUNK),
    "a set": (lambda: {"allow"}, JUNK),
    "{'approved': True}": (lambda: {"approved": True}, JUNK),
    "{'decision': 'allow'}": (lambda: {"decision": "allow"}, JUNK),
    "a frozen mapping": (lambda: MappingProxyType({"action": "allow"}), JUNK),
    "an object": (object, JUNK),
    "a namespace": (lambda: SimpleNamespace(action="allow", reason=None, edited_args=None, allows=True), JUNK),
    "a function": (lambda: lambda: True, JUNK),
    "the class": (lambda: ApprovalDecision, JUNK),
    "an error": (lambda: ValueError("allow"), JUNK),
    "Ellipsis": (lambda: ..., JUNK),
    "NotImplemented": (lambda: NotImplemented, JUNK),
    "a subclass of str": (lambda: Text("allow"), JUNK),
    "a text of an enum": (lambda: Word.ALLOW, JUNK),
    "a true number of numpy": (lambda: numpy.True_, JUNK),
    "an array": (lambda: numpy.array([True]), JUNK),
    "equal to everything": (Agreeable, JUNK),
    "a mock": (MagicMock, JUNK),
    "a mock of a decision": (lambda: Mock(spec=ApprovalDecision), JUNK),
    "ASK of a rule table": (lambda: PermissionResult.ASK, JUNK),
    "a decision of a mode, allow": (PermissionDecision.allow_, JUNK),
    "a decision of a mode, deny": (lambda: PermissionDecision.deny_("no"), JUNK),
    "a verdict, allowed": (Allowed, JUNK),
    "a verdict, denied": (lambda: Denied("no"), JUNK),
    "a verdict, ask": (lambda: Ask("?"), JUNK),
    "a mode": (lambda: Mode.BYPASS, JUNK),
    "a mode object": (AllowAll, JUNK),
    "a scope": (lambda: Scope("tool"), JUNK),
    "a decision of theirs": (lambda: loomflow.ApprovalDecision("allow"), JUNK),
    "a decision of theirs, deny": (lambda: loomflow.ApprovalDecision("deny"), JUNK),
    "half made": (lambda: object.__new__(ApprovalDecision), JUNK),
    "forged to True": (lambda: forged(action=True), JUNK),
    "forged to an edit of pairs": (lambda: forged(action="edit", edited_args=[("n", 2)]), JUNK),
    "forged to an edit of a text": (lambda: forged(action="edit", edited_args="n=2"), JUNK),
    "forged to allow and stop": (lambda: forged(action="allow", stop=True), JUNK),
    "a subclass that calls itself an allow": (lambda: Stern("deny"), NO),
}


@pytest.mark.states("MA3.3")
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("returned", RETURNS)
def test_only_an_answer_that_allows_runs_a_call(driver: str, is_async: bool, returned: str) -> None:
    make, expected = RETURNS[returned]
    act = Counter()

    async def ahandler(call: ToolCall, user_id: str | None) -> Any:
        return make()

    agent = agent_with(ahandler if is_async else lambda call, user: make(), act)
    outcome, warned = run_noting(driver, agent, [tool_call("act", n=1)])
    ((verdict, content),) = results(outcome)
    assert (verdict, content.splitlines()[-1]) == expected
    assert len(act.ran) == (verdict == "allowed")
    assert len(warned) == (expected is JUNK)
    assert all("which is not an answer, so the call was denied" in text for text in warned)
    (row,) = agent.audit.calls().to_dict("records")
    assert (row["answered_by"], row["verdict"], row["outcome"]) == (
        "handler",
        verdict,
        "ran" if verdict == "allowed" else "not_run",
    )


def test_there_are_as_many_cases_as_there_should_be() -> None:
    assert len(RETURNS) >= 26 + 30
    assert sum(expected is JUNK for _, expected in RETURNS.values()) > 50


# --- what it may raise ------------------------------------------------------------------------------------------------


class Vanished(BaseException):
    pass


@both_drivers
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        ValueError("boom"),
        TypeError("handler() takes 1 positional argument but 2 were given"),
        TimeoutError(errno.ETIMEDOUT, "Connection timed out"),
        PermissionError("no"),
        StopIteration(True),
        RuntimeError(),
        LookupError("password=hunter2"),
    ],
    ids=repr,
)
def test_a_handler_that_raises_denies_that_call_only(driver: str, is_async: bool, error: Exception) -> None:
    act, other = Counter(), Counter("other")

    def handler(call: ToolCall, user_id: str | None) -> bool:
        if call.tool == "act":
            raise error
        return True

    async def ahandler(call: ToolCall, user_id: str | None) -> bool:
        return handler(call, user_id)

    agent = agent_with(ahandler if is_async else handler, act, other)
    outcome, warned = run_noting(driver, agent, [tool_call("act", n=1), tool_call("other", n=2)])
    assert results(outcome) == [
        ("denied", "Asking for approval failed, so this call was not run."),
        ("allowed", "ran {'n': 2}"),
    ]
    assert (act.ran, other.ran, len(warned)) == ([], [{"n": 2}], 1)
    assert "raised" in warned[0]
    assert "hunter2" not in warned[0]


@both_drivers
def test_what_a_handler_says_with_a_tool_error_the_model_reads(driver: str) -> None:
    def handler(call: ToolCall, user_id: str | None) -> bool:
        raise ToolError("ask again on Monday")

    act = Counter()
    outcome, warned = run_noting(driver, agent_with(handler, act), [tool_call("act", n=1)])
    assert (results(outcome), act.ran, warned) == ([("denied", "ask again on Monday")], [], [])


@both_drivers
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), Vanished()], ids=repr)
def test_what_is_no_ordinary_error_goes_to_the_caller(driver: str, is_async: bool, error: BaseException) -> None:
    def handler(call: ToolCall, user_id: str | None) -> bool:
        raise error

    async def ahandler(call: ToolCall, user_id: str | None) -> bool:
        raise error

    act = Counter()
    agent = agent_with(ahandler if is_async else handler, act)
    outcome, _ = run_noting(driver, agent, [tool_call("act", n=1)])
    assert isinstance(outcome, type(error))
    assert act.ran == []


@pytest.mark.parametrize(
    "handler",
    [None.__class__, 5, "allow", True, lambda: True, lambda one, two, three: True, Agreeable],
    ids=repr,
)
def test_what_cannot_be_called_as_a_handler_is_refused_when_the_agent_is_made(handler: Any) -> None:
    with pytest.raises(TypeError, match=r"approval_handler= takes a function[\s\S]*Fix: "):
        agent_with(handler, Counter())


# --- waiting ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", ASYNC)
@pytest.mark.parametrize("answer", [True, False, "junk"])
def test_nothing_runs_while_a_handler_is_parked(driver: str, answer: Any) -> None:
    act = Counter()

    async def main() -> tuple[list[Any], Any]:
        parked, go_on = anyio.Event(), anyio.Event()
        found: list[Any] = []

        async def handler(call: ToolCall, user_id: str | None) -> Any:
            parked.set()
            await go_on.wait()
            return answer

        agent = agent_with(handler, act)

        async def turn() -> None:
            found.append(await agent.ause_tools([tool_call("act", n=1)]))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(turn)
            await parked.wait()
            await anyio.wait_all_tasks_blocked()
            before = list(act.ran)
            go_on.set()
        return before, found[0]

    if answer == "junk":
        with pytest.warns(PermissionWarning, match="not an answer"):
            before, turn = anyio.run(main, backend=driver)
    else:
        before, turn = anyio.run(main, backend=driver)
    assert before == []
    assert (len(act.ran), turn.results[0].verdict == "allowed") == (answer is True, answer is True)


@pytest.mark.parametrize("driver", ASYNC)
def test_a_turn_that_is_cancelled_while_a_handler_is_parked_runs_nothing_and_the_log_says_so(driver: str) -> None:
    act = Counter()
    cancelled: list[str] = []

    async def main() -> Agent:
        parked = anyio.Event()

        async def handler(call: ToolCall, user_id: str | None) -> bool:
            parked.set()
            try:
                await anyio.sleep_forever()
            finally:
                cancelled.append(call.tool)
            return True

        agent = agent_with(handler, act)
        async with anyio.create_task_group() as tasks:

            async def turn() -> None:
                await agent.ause_tools([tool_call("act", n=1)])

            tasks.start_soon(turn)
            await parked.wait()
            tasks.cancel_scope.cancel()
        return agent

    before = len(the_desk.pending())
    agent = anyio.run(main, backend=driver)
    assert (act.ran, cancelled, len(the_desk.pending())) == ([], ["act"], before)
    (row,) = agent.audit.calls().to_dict("records")
    assert (row["verdict"], row["outcome"]) == ("cancelled", "not_run")


def test_a_turn_of_a_task_is_cancelled_while_a_handler_blocks_and_its_late_yes_runs_nothing() -> None:
    act, asked, go_on, came_back = Counter(), threading.Event(), threading.Event(), threading.Event()

    def handler(call: ToolCall, user_id: str | None) -> bool:
        asked.set()
        go_on.wait(10)
        came_back.set()
        return True

    agent = agent_with(handler, act)

    async def main() -> None:
        task = agent.start([tool_call("act", n=1)])
        await anyio.to_thread.run_sync(asked.wait, 10)
        task.cancel()
        with pytest.raises(anyio.get_cancelled_exc_class()):
            await task

    anyio.run(main)
    go_on.set()
    assert came_back.wait(10)
    assert act.ran == []
    assert list(agent.audit.calls()["verdict"]) == ["cancelled"]


@pytest.mark.parametrize("driver", ASYNC)
@pytest.mark.states("MA4.4")
@pytest.mark.parametrize(
    ("payload", "verdict"),
    [
        (True, "allowed"),
        ("allow", "allowed"),
        (False, "denied"),
        ({}, "denied"),
        (None, "denied"),
        ("approve", "denied"),
        ({"action": "allow"}, "denied"),
    ],
    ids=repr,
)
def test_what_a_signal_brings_is_held_against_the_law_like_any_answer(driver: str, payload: Any, verdict: str) -> None:
    async def handler(call: ToolCall, user_id: str | None) -> Any:
        return await wait_for_signal("approval")

    act = Counter()
    agent = agent_with(handler, act, session=f"of {payload!r} on {driver}")
    agent.signal(f"of {payload!r} on {driver}", "approval", payload)
    outcome, warned = run_noting(driver, agent, [tool_call("act", n=1)])
    assert isinstance(outcome, Turn)
    assert (outcome.results[0].verdict, len(act.ran)) == (verdict, verdict == "allowed")
    assert len(warned) == (verdict == "denied" and payload is not False)


@pytest.mark.parametrize("driver", ASYNC)
@pytest.mark.states("MA4.4")
def test_a_handler_that_waits_for_a_signal_in_vain_denies(driver: str) -> None:
    async def handler(call: ToolCall, user_id: str | None) -> Any:
        return await wait_for_signal("approval", timeout_s=0)

    act = Counter()
    outcome, warned = run_noting(driver, agent_with(handler, act), [tool_call("act", n=1)])
    assert results(outcome) == [("denied", "Nobody answered in time, so this call was not run.")]
    assert (act.ran, warned) == ([], [])


# --- edits ------------------------------------------------------------------------------------------------------------


def edit_to(args: Mapping[str, Any]) -> Callable[..., ApprovalDecision]:
    return lambda call, user: ApprovalDecision("edit", edited_args=args)


@both_drivers
@pytest.mark.states("MA3.14")
def test_an_edit_replaces_all_arguments_and_leaves_what_the_model_wrote_alone(driver: str) -> None:
    act = Counter()
    agent = agent_with(edit_to({"m": 2}), act)
    turn = run(driver, agent, [tool_call("act", n=1)])
    assert act.ran == [{"m": 2}]
    assert turn.results[0].content.splitlines() == [
        "[A reviewer changed 'n', 'm' before this call ran. It ran as act(m=2).]",
        "ran {'m': 2}",
    ]
    assert dict(turn.calls[0].args) == {"n": 1}
    (row,) = agent.audit.calls().to_dict("records")
    assert (row["args"], row["args_run"], row["edited"], row["answer"]) == ({"n": 1}, {"m": 2}, True, "edit")


@pytest.mark.states("MA3.14")
def test_the_model_sees_its_own_call_and_the_result_of_the_edited_one() -> None:
    act = Counter()
    model = ScriptedModel([tool_call("act", n=1), "Done."])
    agent = agent_with(edit_to({"n": 2}), act, model=model)
    assert agent.run("Act.") == "Done."
    (_, asked, answered), _ = model.requests[-1]
    assert [dict(call.args) for call in asked.tool_calls] == [{"n": 1}]
    (block,) = answered.content
    assert str(block.content).endswith("ran {'n': 2}")


@both_drivers
@pytest.mark.parametrize(
    ("args", "content"),
    [
        ({"n": "8"}, "(input error: the reviewer's arguments do not fit: n: "),
        ({"n": "eight"}, "(input error: the reviewer's arguments do not fit: n: "),
        ({"n": float("nan")}, "(input error: the reviewer's arguments are not JSON: "),
        ({"n": {1, 2}}, "(input error: the reviewer's arguments are not JSON: "),
    ],
)
def test_an_edit_that_does_not_fit_the_tool_does_not_run(driver: str, args: dict[str, Any], content: str) -> None:
    act = Counter()
    turn = run(driver, agent_with(edit_to(args), act), [tool_call("act", n=1)])
    assert turn.results[0].verdict == "input_error"
    assert turn.results[0].content.startswith(content)
    assert act.ran == []


@both_drivers
def test_an_edit_is_never_remembered_and_a_remembered_edit_is_what_ran(driver: str) -> None:
    act, asked = Counter(), []

    def handler(call: ToolCall, user_id: str | None) -> ApprovalDecision:
        asked.append(dict(call.args))
        action = "remember_allow" if call.args["n"] == 1 else "edit"
        return ApprovalDecision(action, edited_args={"n": 7})

    agent = agent_with(handler, act)
    for n in (1, 7, 2, 2):
        run(driver, agent, [tool_call("act", n=n)])
    assert act.ran == [{"n": 7}] * 4
    assert asked == [{"n": 1}, {"n": 2}, {"n": 2}]


@both_drivers
@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_cannot_change_the_call_that_it_is_asked_about(driver: str, is_async: bool) -> None:
    def handler(call: ToolCall, user_id: str | None) -> bool:
        call.args["n"] = 99  # type: ignore[index]
        return True

    async def ahandler(call: ToolCall, user_id: str | None) -> bool:
        return handler(call, user_id)

    act = Counter()
    agent = agent_with(ahandler if is_async else handler, act)
    outcome, warned = run_noting(driver, agent, [tool_call("act", n=1)])
    assert results(outcome) == [("denied", "Asking for approval failed, so this call was not run.")]
    assert (act.ran, len(warned)) == ([], 1)


# --- remembering ------------------------------------------------------------------------------------------------------


@both_drivers
@pytest.mark.states("MA3.10")
@pytest.mark.parametrize("allow", [True, False])
def test_a_remembered_answer_holds_for_its_user_in_this_run_and_is_looked_up_before_anybody_is_asked(
    driver: str, allow: bool
) -> None:
    act, asked = Counter(), []

    def handler(call: ToolCall, user_id: str | None) -> str:
        asked.append(user_id)
        return "remember_allow" if allow else "remember_deny"

    agent = agent_with(handler, act)
    found = [
        results(run(driver, agent, [tool_call("act", n=1)], user=user)) for user in ("ann", "ann", "bob", "ann", "bob")
    ]
    assert asked == ["ann", "bob"]
    first = ("allowed", "ran {'n': 1}") if allow else ("denied", DECLINED)
    second = first if allow else ("denied", "Denied by a remembered decision.")
    assert found == [[first], [second], [first], [second], [second]]
    assert list(agent.audit.calls()["answered_by"]) == ["handler", "memory", "handler", "memory", "memory"]
    agent.new_run()
    run(driver, agent, [tool_call("act", n=1)], user="ann")
    assert asked == ["ann", "bob", "ann"]


@both_drivers
def test_a_remembered_allow_is_for_this_call_and_not_for_every_call_of_the_tool(driver: str) -> None:
    act, asked = Counter(), []

    def handler(call: ToolCall, user_id: str | None) -> str:
        asked.append(call.args["n"])
        return "remember_allow"

    agent = agent_with(handler, act)
    for n in (1, 2, 1, 2):
        run(driver, agent, [tool_call("act", n=n)])
    assert asked == [1, 2]


@both_drivers
def test_a_remembered_allow_passes_no_denial(driver: str) -> None:
    act = Counter()
    rule = DenyByName(["other"])
    agent = Agent(
        [act.tool],
        permissions=[rule, ASKS],
        approval_handler=lambda call, user: ApprovalDecision("remember_allow", scope=Scope("tool")),
    )
    run(driver, agent, [tool_call("act", n=1)])
    rule.patterns = ["act"]
    turn = run(driver, agent, [tool_call("act", n=2)])
    assert results(turn) == [("denied", "act is not allowed.")]
    assert act.ran == [{"n": 1}]


# --- several at once --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", ASYNC)
def test_the_calls_of_a_turn_are_asked_about_at_the_same_time_and_run_when_all_are_answered(driver: str) -> None:
    act, events = Counter(), []

    async def main() -> Turn:
        there = [anyio.Event() for _ in range(3)]

        async def handler(call: ToolCall, user_id: str | None) -> bool:
            n = call.args["n"]
            events.append(("asked", n))
            there[n].set()
            for event in there:
                await event.wait()
            events.append(("answered", n, list(act.ran)))
            return n != 1

        return await agent_with(handler, act).ause_tools([tool_call("act", n=n) for n in range(3)])

    turn = anyio.run(main, backend=driver)
    assert sorted(event for event in events if event[0] == "asked") == [("asked", n) for n in range(3)]
    assert all(event[2] == [] for event in events if event[0] == "answered")
    assert [event[0] for event in events] == ["asked"] * 3 + ["answered"] * 3
    assert [result.verdict for result in turn.results] == ["allowed", "denied", "allowed"]
    assert sorted(one["n"] for one in act.ran) == [0, 2]


@pytest.mark.parametrize("driver", ASYNC)
@pytest.mark.parametrize("allow", [True, False])
def test_a_remembered_answer_settles_what_it_covers_among_those_that_wait(driver: str, allow: bool) -> None:
    act = Counter()

    async def main() -> tuple[Turn, int]:
        asked, all_asked = [], anyio.Event()

        async def handler(call: ToolCall, user_id: str | None) -> ApprovalDecision:
            asked.append(call.args["n"])
            if len(asked) == 3:
                all_asked.set()
            await all_asked.wait()
            if call.args["n"] != 0:
                await anyio.sleep_forever()
            return ApprovalDecision("remember_allow" if allow else "remember_deny", scope=Scope("tool"))

        turn = await agent_with(handler, act).ause_tools([tool_call("act", n=n) for n in range(3)])
        return turn, len(asked)

    turn, asked = anyio.run(main, backend=driver)
    assert asked == 3
    assert [result.verdict for result in turn.results] == ["allowed" if allow else "denied"] * 3
    assert sorted(result.answered_by or "" for result in turn.results) == ["handler", "memory", "memory"]
    assert len(act.ran) == (3 if allow else 0)


@pytest.mark.parametrize("driver", ASYNC)
def test_where_remembered_answers_disagree_the_denial_wins_whatever_came_last(driver: str) -> None:
    act = Counter()

    async def main() -> tuple[Agent, list[str]]:
        denied = anyio.Event()

        async def handler(call: ToolCall, user_id: str | None) -> ApprovalDecision:
            if call.args["n"] == 0:
                denied.set()
                return ApprovalDecision("remember_deny", scope=Scope("tool"))
            await denied.wait()
            return ApprovalDecision("remember_allow", scope=Scope("tool"))

        agent = agent_with(handler, act)
        await agent.ause_tools([tool_call("act", n=n) for n in range(2)])
        turn = await agent.ause_tools([tool_call("act", n=5)])
        return agent, [result.verdict for result in turn.results]

    _, verdicts = anyio.run(main, backend=driver)
    assert verdicts == ["denied"]
    assert {"n": 5} not in act.ran


# --- reasons ----------------------------------------------------------------------------------------------------------


@both_drivers
@pytest.mark.parametrize("action", ["allow", "edit", "remember_allow", "deny", "remember_deny"])
def test_the_reason_of_every_answer_is_in_the_log(driver: str, action: Any) -> None:
    act = Counter()
    edited = {"edited_args": {"n": 2}} if action == "edit" else {}
    agent = agent_with(lambda call, user: ApprovalDecision(action, reason="since it is Monday", **edited), act)
    turn = run(driver, agent, [tool_call("act", n=1)])
    assert list(agent.audit.calls()["reason"]) == ["since it is Monday"]
    assert (turn.results[0].content == "since it is Monday") == action.endswith("deny")
