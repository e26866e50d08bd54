"""What an agent remembers: for which calls and whom, against which rules, who is told, and how it is taken back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from answering import ALWAYS, NEVER, Big, Telling, act, of, told
from hypothesis import given, settings
from hypothesis import strategies as st
from rules import Says
from turns import DRIVERS, Counter, Scripted, run, run_noting

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByName,
    ApprovalDecision,
    ApprovalRequest,
    DecideByHuman,
    Denied,
    DenyByName,
    DenyPermission,
    Message,
    PermissionDecision,
    PermissionPolicy,
    PermissionResult,
    PermissionRule,
    PermissionWarning,
    Scope,
    StandardPermissions,
    State,
    Tool,
    ToolCall,
    Turn,
)
from agentperm_nb.calls import format_call
from agentperm_nb.json_values import same_json
from agentperm_nb.testing import ScriptedModel, tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)


# ---------------------------------------------------------------------- which calls


@both_drivers
@pytest.mark.states("MA3.9", "MA3.10")
def test_an_answer_for_named_arguments_holds_for_calls_with_the_same_values(driver: str) -> None:
    counter = Counter()
    same_n = ApprovalDecision("remember_allow", scope=Scope("arguments", arguments=["n"]))
    handler = Telling(same_n, "deny", "deny", "deny")
    agent = Agent([counter.tool], permissions=[DecideByHuman()], approval_handler=handler)
    for args in ({"n": 1, "m": 1}, {"n": 1, "m": 2}, {"n": 2, "m": 1}, {"n": 1}, {"m": 1}):
        run(driver, agent, [ToolCall("act", args)])
    assert handler.asked == [1, 2, None]
    assert counter.ran == [{"n": 1, "m": 1}, {"n": 1, "m": 2}, {"n": 1}]


@both_drivers
@pytest.mark.states("MA3.9")
def test_an_answer_about_one_path_says_nothing_of_another_path(driver: str) -> None:
    read: list[str] = []
    tool = Tool(
        "read",
        "Read.",
        {"type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": False},
        function=lambda path="": read.append(path),
    )
    handler = Telling("remember_allow", False, False)
    agent = Agent([tool], permissions=[DecideByHuman()], approval_handler=handler)
    for path in ("harmless.txt", "harmless.txt", "/etc/passwd"):
        run(driver, agent, [tool_call("read", path=path)])
    assert read == ["harmless.txt", "harmless.txt"]


def closed_tool(ran: list[Any], *, closed: bool = True) -> Tool:
    schema = {"type": "object", "properties": {"n": {}, "force": {}}, "additionalProperties": not closed}
    return Tool("act", "Act.", schema, function=lambda **args: ran.append(args))


@both_drivers
@pytest.mark.parametrize("closed", [True, False], ids=["closed schema", "open schema"])
@pytest.mark.parametrize("allow", [True, False], ids=["allow", "deny"])
def test_a_scope_with_an_argument_that_the_tool_does_not_have_is_not_remembered(
    allow: bool, closed: bool, driver: str
) -> None:
    ran: list[Any] = []
    action: Any = "remember_allow" if allow else "remember_deny"
    slip = ApprovalDecision(action, scope=Scope("arguments", "session", ["n", "fource"]))
    handler = Telling(slip, "deny")
    agent = Agent([closed_tool(ran, closed=closed)], permissions=[DecideByHuman()], approval_handler=handler)
    outcome, warned = run_noting(driver, agent, [act(1)])
    assert isinstance(outcome, Turn)
    assert told(outcome) == [("allowed" if allow else "denied", "handler")]
    (warning,) = warned
    assert "act has no argument 'fource', so the answer counts for this call only" in warning
    assert "Its arguments: n, force" in warning
    assert (len(agent.remembered()), of(agent, "remembered")) == (0, [])
    assert told(run(driver, agent, [act(1)])) == [("denied", "handler")]
    assert ran == ([{"n": 1}] if allow else [])


@both_drivers
def test_a_declared_argument_that_the_call_does_not_have_and_an_undeclared_one_that_it_has_may_be_named(
    driver: str,
) -> None:
    ran: list[Any] = []
    scope = Scope("arguments", arguments=["n", "force", "extra"])
    handler = Telling(ApprovalDecision("remember_allow", scope=scope), *[False] * 3)
    agent = Agent([closed_tool(ran, closed=False)], permissions=[DecideByHuman()], approval_handler=handler)
    for more in ({"extra": 1}, {"extra": 1, "other": 2}, {"extra": 2}, {}, {"extra": 1, "force": True}):
        run(driver, agent, [act(1, **more)])
    assert ran == [{"n": 1, "extra": 1}, {"n": 1, "extra": 1, "other": 2}]


@both_drivers
def test_where_the_warning_is_made_an_error_nothing_runs_and_nothing_is_remembered(driver: str) -> None:
    ran: list[Any] = []
    slip = ApprovalDecision("remember_allow", scope=Scope("arguments", arguments=["fource"]))
    agent = Agent([closed_tool(ran)], permissions=[DecideByHuman()], approval_handler=lambda request: slip)
    with pytest.raises(PermissionWarning, match="has no argument"):
        run(driver, agent, [act(1)])
    assert (ran, len(agent.remembered()), agent.state.pending_calls) == ([], 0, ())


@both_drivers
@pytest.mark.states("MA3.8")
@pytest.mark.parametrize("scope", [Scope("call"), Scope("arguments", arguments=["n"])], ids=["call", "arguments"])
def test_with_an_edit_the_edited_call_is_remembered(scope: Scope, driver: str) -> None:
    counter = Counter()
    handler = Telling(ApprovalDecision("remember_allow", edited_args={"n": 7}, scope=scope), "deny")
    agent = Agent([counter.tool], permissions=[DecideByHuman()], approval_handler=handler)
    turns = [run(driver, agent, [act(n)]) for n in (0, 7, 0)]
    assert [told(turn)[0] for turn in turns] == [("allowed", "handler"), ("allowed", "memory"), ("denied", "handler")]
    assert counter.ran == [{"n": 7}, {"n": 7}]


@both_drivers
@pytest.mark.states("MA3.8")
def test_an_edit_that_may_not_run_and_one_that_is_only_an_edit_are_not_remembered(driver: str) -> None:
    counter = Counter()
    into = [ApprovalDecision("remember_allow", edited_args={"n": 7}, scope=Scope("tool", "session"))]
    handler = Telling(*into, ApprovalDecision("edit", edited_args={"n": 8}))
    nothing_7 = Says(lambda state, call, tool: Denied("not 7") if call.args["n"] == 7 else None)
    agent = Agent([counter.tool], permissions=[nothing_7, DecideByHuman()], approval_handler=handler)
    assert told(run(driver, agent, [act(1)])) == [("denied", "handler")]
    assert told(run(driver, agent, [act(2)])) == [("allowed", "handler")]
    assert (counter.ran, len(agent.remembered())) == ([{"n": 8}], 0)


# ---------------------------------------------------------------------- for whom


@both_drivers
def test_an_answer_of_one_person_never_stands_in_for_another_whom_a_rule_names(driver: str) -> None:
    counter, asked = Counter(), []

    def saying(name: str, *answers: ApprovalDecision) -> Scripted:
        left = list(answers)

        async def review(requests: Any) -> Any:
            for request in requests:
                asked.append((name, request.call.args["n"]))
                yield request.id, left.pop(0)

        return Scripted(review)

    boss, other = saying("boss", NEVER), saying("other", NEVER)
    big = Big(boss)
    agent = Agent([counter.tool], permissions=[big, DecideByHuman()], human=saying("ann", ALWAYS))
    for n in (1, 2, 10, 11, 3):
        run(driver, agent, [act(n)])
    assert asked == [("ann", 1), ("boss", 10)]
    assert counter.ran == [{"n": 1}, {"n": 2}, {"n": 3}]
    big.human = other  # whoever is named from now on has not said anything yet
    run(driver, agent, [act(11)])
    assert asked[2:] == [("other", 11)]
    assert sorted((answer.allow, answer.number) for answer in agent.remembered()) == [(False, 2), (False, 3), (True, 1)]


@both_drivers
def test_what_one_person_said_holds_wherever_that_person_would_be_asked(driver: str) -> None:
    counter, asked = Counter(), []

    async def review(requests: Any) -> Any:
        for request in requests:
            asked.append(request.call.args["n"])
            yield request.id, ALWAYS

    person = Scripted(review)
    agent = Agent([counter.tool], permissions=[Big(person), DecideByHuman()], human=person)
    for n in (10, 1, 11):
        run(driver, agent, [act(n)])
    assert (asked, len(counter.ran)) == ([10], 3)


@both_drivers
def test_where_somebody_else_is_here_meanwhile_that_one_is_asked(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = Counter()

    def somebody(answer: Any) -> Scripted:
        async def review(requests: Any) -> Any:
            for request in requests:
                yield request.id, answer

        return Scripted(review)

    agent = Agent([counter.tool], permissions=[DecideByHuman()])
    for here, verdict in ((somebody(ALWAYS), "allowed"), (somebody("deny"), "denied"), (None, "denied")):
        monkeypatch.setattr("agentperm_nb.human._make_default", lambda here=here: here)
        assert run(driver, agent, [act(1)]).results[0].verdict == verdict
    assert len(counter.ran) == 1


@both_drivers
def test_a08_an_agent_learns_nothing_from_what_another_one_was_allowed(driver: str) -> None:
    wrote = Counter("write_file")
    build = Agent([wrote.tool], name="build", permissions=[DecideByHuman()], approval_handler=lambda request: ALWAYS)
    plan = build.copy(name="plan", permissions=[DenyByName(["write_file"])])
    call = [tool_call("write_file", n=1)]
    assert told(run(driver, build, call)) == [("allowed", "handler")]
    assert told(run(driver, plan, call)) == [("denied", None)]
    asking = build.copy(name="plan", approval_handler=lambda request: "deny")
    assert told(run(driver, asking, call)) == [("denied", "handler")]
    assert told(run(driver, build, call)) == [("allowed", "memory")]
    assert len(wrote.ran) == 2


def test_a_subagent_remembers_for_its_own_path_and_not_for_the_run_above() -> None:
    counter, handler = Counter(), Telling(ALWAYS, ALWAYS, ALWAYS)
    inner = Agent(
        [counter.tool], name="helper", permissions=[DecideByHuman()], approval_handler=handler,
        model=ScriptedModel([act(1), "Done.", act(2), "Done."]),
    )  # fmt: skip
    lead = Agent([inner, counter.tool], name="lead", permissions=[AllowByName(["helper"]), DecideByHuman()],
                 approval_handler=handler)  # fmt: skip
    for _ in range(2):
        lead.use_tools([tool_call("helper", prompt="x")])
    lead.use_tools([act(3)])
    inner.use_tools([act(4)])
    assert handler.asked == [1, 3, 4]
    assert [(one.agent_path, one.lasts) for one in inner.remembered()] == [
        (("lead", "helper"), "session"), (("helper",), "session"),
    ]  # fmt: skip
    assert [one.agent_path for one in lead.remembered()] == [("lead",)]


# ---------------------------------------------------------------------- how long


@both_drivers
def test_a09_a_session_is_all_runs_of_the_kernel_and_ends_with_it(driver: str) -> None:
    counter = Counter()
    session = ApprovalDecision("remember_allow", scope=Scope("call", lasts="session"))
    handler = Telling(session, "deny", "deny", "deny")
    agent = Agent([counter.tool], permissions=[DecideByHuman()], approval_handler=handler)
    run(driver, agent, [act(1)])
    agent.new_run()
    assert told(run(driver, agent, [act(1)])) == [("allowed", "memory")]
    assert told(run(driver, agent, State(pending_calls=[act(1)]))) == [("allowed", "memory")]
    assert told(run(driver, agent, [act(1)], session="another")) == [("denied", "handler")]
    again = agent.copy()  # as after a restart: nothing is kept in a file
    assert told(run(driver, again, [act(1)])) == [("denied", "handler")]


@both_drivers
def test_a10_what_is_not_offered_says_so_and_the_call_is_asked_about_each_session(driver: str) -> None:
    with pytest.raises(ValueError, match="'run' or 'session', or 'file' for a pattern"):
        Scope("call", lasts="forever")  # type: ignore[arg-type]

    def handler(request: ApprovalRequest) -> Any:
        return ApprovalDecision("remember_allow", scope=Scope("call", "forever"))  # type: ignore[arg-type]

    counter = Counter("write_file")
    agent = Agent([counter.tool], permissions=[DecideByHuman()], approval_handler=handler)
    outcome, warned = run_noting(driver, agent, [tool_call("write_file", n=1)])
    assert isinstance(outcome, Turn)
    assert (told(outcome), counter.ran, len(warned)) == ([("denied", "handler")], [], 1)


@both_drivers
def test_what_is_remembered_for_a_run_is_gone_with_the_run(driver: str) -> None:
    counter, handler = Counter(), Telling("remember_allow", "remember_allow", ALWAYS)
    agent = Agent([counter.tool], permissions=[DecideByHuman()], approval_handler=handler)
    state, again = State(pending_calls=[act(1)]), [act(1)]
    run(driver, agent, state)
    run(driver, agent, [act(1)])
    assert handler.asked == [1, 1]
    assert [one.run for one in agent.remembered()] == [state.id, agent.run_id]
    run(driver, agent, again)
    agent.new_run()
    assert [one.run for one in agent.remembered()] == [state.id]
    run(driver, agent, again)
    assert (handler.asked, len(agent.remembered())) == ([1, 1, 1], 2)


def test_nothing_is_kept_for_runs_that_nobody_can_go_on_with() -> None:
    counter, remember = Counter(), ApprovalDecision("remember_allow", scope=Scope("tool"))
    replies = [act(1), act(2), "Done."]
    helper = Agent([counter.tool], name="helper", model=ScriptedModel(replies * 2), permissions=[DecideByHuman()],
                   approval_handler=Telling(remember, remember, remember))  # fmt: skip
    assert helper.run("Act") == "Done."
    assert len(helper.remembered()) == 0
    Agent([helper], permissions=[AllowByDefault()]).use_tools([tool_call("helper", prompt="Act")])
    assert (len(helper.remembered()), len(counter.ran)) == (0, 4)

    def stop_here(agent: Agent, state: State) -> None:
        agent.think(state)
        agent.use_tools(state)
        state.finish()

    finishing = helper.copy(loop=stop_here, model=ScriptedModel([act(3)]), approval_handler=Telling(remember))
    finishing.run(State([Message.user("Act")]))
    assert (len(finishing.remembered()), len(counter.ran)) == (0, 5)


# ---------------------------------------------------------------------- never past a denial


class Switch:
    """What denies once it is on."""

    def __init__(self) -> None:
        self.on = False

    def permission(self) -> Any:
        return Says(lambda state, call, tool: Denied("no") if self.on else None)

    def deny(self) -> Any:
        switch = self

        class Late(DenyPermission):
            def check(self, state: Any, call: ToolCall, tool: Tool) -> Denied | None:
                return Denied("no") if switch.on else None

        return Late()

    def policy(self) -> Any:
        rule = PermissionRule("off", lambda tool, args: self.on, PermissionResult.DENY, "no")
        return PermissionPolicy([rule], fallback=PermissionResult.ASK)

    def mode(self) -> Any:
        switch = self

        class Late(StandardPermissions):
            async def check(self, call: Any, *, context: Any = None, user_id: Any = None) -> PermissionDecision:
                return PermissionDecision.deny_("no") if switch.on else PermissionDecision.ask_("sure?")

        return Late()


DENIALS: dict[str, Callable[[Switch], list[Any]]] = {
    "a deny": lambda switch: [DecideByHuman(), switch.deny()],
    "a permission before": lambda switch: [switch.permission(), DecideByHuman()],
    "a policy": lambda switch: [switch.policy()],
    "a mode": lambda switch: [switch.mode()],
    "all of them": lambda switch: [switch.policy(), switch.mode(), DecideByHuman(), switch.deny()],
}


@pytest.mark.parametrize("driver", ["asyncio", "trio"])
@pytest.mark.parametrize("kind", DENIALS)
def test_a_remembered_allow_passes_no_denial_of_any_kind(kind: str, driver: str) -> None:
    counter, switch = Counter(), Switch()
    agent = Agent([counter.tool], permissions=DENIALS[kind](switch), approval_handler=lambda request: ALWAYS)
    assert told(run(driver, agent, [act(1)])) == [("allowed", "handler")]
    assert told(run(driver, agent, [act(2)])) == [("allowed", "memory")]
    switch.on = True
    assert told(run(driver, agent, [act(3)])) == [("denied", None)]
    switch.on = False
    assert told(run(driver, agent, [act(4)])) == [("allowed", "memory")]
    assert [args["n"] for args in counter.ran] == [1, 2, 4]


@pytest.mark.parametrize("driver", ["asyncio", "trio"])
@pytest.mark.parametrize("kind", DENIALS)
def test_a_denial_that_comes_while_a_remembered_allow_waits_to_start_stands(kind: str, driver: str) -> None:
    counter, here, switch = Counter(), Counter("here"), Switch()

    def handler(request: ApprovalRequest) -> Any:
        if request.call.name == "here":
            switch.on = True
            return True
        return ALWAYS

    agent = Agent([counter.tool, here.tool], permissions=DENIALS[kind](switch), approval_handler=handler)
    run(driver, agent, [act(1)])
    turn = run(driver, agent, [act(2), tool_call("here", n=1)])
    assert [result.verdict for result in turn.results] == ["denied", "denied"]
    assert [args["n"] for args in counter.ran] == [1]


def test_a_remembered_allow_of_a_subagent_passes_no_denial_of_the_run_above() -> None:
    counter = Counter()
    replies = [act(1), "Done."]
    helper = Agent([counter.tool], name="helper", model=ScriptedModel(replies * 2), permissions=[DecideByHuman()],
                   approval_handler=lambda request: ALWAYS)  # fmt: skip
    deny = DenyByName(["nothing"])
    lead = Agent([helper], permissions=[deny, AllowByDefault()])
    lead.use_tools([tool_call("helper", prompt="x")])
    deny.patterns = ("act",)
    lead.use_tools([tool_call("helper", prompt="x")])
    assert (len(counter.ran), len(helper.remembered())) == (1, 1)


# ---------------------------------------------------------------------- properties

USERS, SESSIONS, NUMBERS = map(st.sampled_from, (["ann", "ann", "bob"], ["s1", "s1", "s2"], [1, 2, 1.0, 10]))
SCOPES = st.builds(
    lambda covers, lasts: Scope(covers, lasts, ["n"] if covers == "arguments" else ()),
    st.sampled_from(["call", "arguments", "tool"]),
    st.sampled_from(["run", "session"]),
)
CALLS = st.tuples(USERS, SESSIONS, NUMBERS, st.sampled_from([None, 1]), st.tuples(st.booleans(), st.none() | SCOPES))
STEPS = st.lists(CALLS | CALLS | st.just("new run") | st.integers(0, 3), min_size=4, max_size=15)


class Model:
    """The answers that were given, in a plain list that is searched from end to end."""

    def __init__(self) -> None:
        self.answers: list[dict[str, Any]] = []
        self.run = 0

    def covers(self, answer: dict[str, Any], user: str, session: str, args: dict[str, Any]) -> bool:
        scope: Scope = answer["scope"]
        if (answer["user"], answer["asked"]) != (user, asked_about(args)):
            return False
        if answer["run"] != self.run if scope.lasts == "run" else answer["session"] != session:
            return False
        if scope.covers == "tool":
            return True
        if scope.covers == "call":
            return same_json(answer["args"], args)
        return same_json(answer["args"]["n"], args["n"])

    def says(self, user: str, session: str, args: dict[str, Any]) -> bool | None:
        found = [answer["allow"] for answer in self.answers if self.covers(answer, user, session, args)]
        return all(found) if found else None


def asked_about(args: dict[str, Any]) -> str:
    return "boss" if args["n"] >= 10 else "colleague"


@given(STEPS)
@settings(max_examples=100)
@pytest.mark.timeout(120)
def test_memory_holds_what_a_plain_list_of_answers_holds_and_crosses_no_user_session_or_person(
    steps: list[Any],
) -> None:
    counter, model, now = Counter(), Model(), dict[str, Any]()

    def somebody(name: str) -> Scripted:
        async def review(requests: Any) -> Any:
            for request in requests:
                allow, scope = now["answer"]
                now["asked"] = name
                word = "allow" if allow else "deny"
                remembered: Any = f"remember_{word}"
                yield request.id, ApprovalDecision(remembered, scope=scope) if scope is not None else word

        return Scripted(review)

    agent = Agent(
        [counter.tool], permissions=[Big(somebody("boss")), DecideByHuman()], human=somebody("colleague")
    )  # fmt: skip
    for step in steps:
        if step == "new run":
            agent.new_run()
            model.run += 1
            model.answers = [answer for answer in model.answers if answer["scope"].lasts == "session"]
        elif isinstance(step, int):
            answers = list(agent.remembered())
            if step < len(answers):
                agent.revoke(answers[step].number)
                number = answers[step].number
                model.answers = [answer for answer in model.answers if answer["number"] != number]
        else:
            user, session, n, m, (allow, scope) = step
            args = {"n": n} if m is None else {"n": n, "m": m}
            expected, before = model.says(user, session, args), len(counter.ran)
            now.clear()
            now["answer"] = (allow, scope)
            (result,) = agent.use_tools([ToolCall("act", args)], user=user, session=session).results
            if expected is None:
                assert (now.get("asked"), result.answered_by) == (asked_about(args), "human")
                if scope is not None:
                    number = max(answer.number for answer in agent.remembered())
                    model.answers.append(
                        {"user": user, "session": session, "run": model.run, "args": args, "scope": scope,
                         "allow": allow, "asked": asked_about(args), "number": number}
                    )  # fmt: skip
            else:
                assert ("asked" in now, result.answered_by) == (False, "memory")
            ran = len(counter.ran) > before
            assert ran is (allow if expected is None else expected), format_call(result.call)
    assert sorted(one.number for one in agent.remembered()) == sorted(answer["number"] for answer in model.answers)
