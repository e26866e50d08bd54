"""Modes at work in an agent: what they decide in a turn, whose word counts, and that nothing lifts a denial."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import anyio
import pytest
from turns import DRIVERS, Counter, run, run_noting

from agentperm_nb import (
    Agent,
    AllowAll,
    AllowByDefault,
    AllowByName,
    ApprovalDecision,
    Ask,
    DecideByHuman,
    Denied,
    DenyByName,
    DenyPermission,
    Hints,
    MCPTool,
    Mode,
    PermissionDecision,
    PermissionWarning,
    PerUserPermissions,
    StandardPermissions,
    Tool,
    ToolCall,
    ToolError,
    ToolInputError,
    Turn,
    get_run_context,
    tool,
)
from agentperm_nb.permissions.policy import PermissionPolicy, PermissionRule
from agentperm_nb.testing import ScriptedModel, tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)
ASYNC = ("asyncio", "trio")


def kinds_of_tools() -> dict[str, Counter]:
    """A tool of each kind, which counts how often it ran."""
    return {
        "reads": Counter("reads", read_only=True),
        "writes": Counter("writes", destructive=False),
        "destroys": Counter("destroys", destructive=True),
        "silent": Counter("silent"),
    }


def decided(turn: Any) -> list[tuple[str, str | None]]:
    assert isinstance(turn, Turn), turn
    return [(result.verdict, result.decided_by) for result in turn.results]


def never(call: ToolCall, user_id: str | None) -> bool:
    raise AssertionError("nobody is to be asked")


class Says:
    """A mode object of a user's own, which says what a function returns."""

    def __init__(self, say: Callable[[ToolCall, str | None], Any]) -> None:
        self.say = say
        self.asked: list[ToolCall] = []
        self.told: list[Mapping[str, Any]] = []

    def __repr__(self) -> str:
        return "Says()"

    async def check(self, call: ToolCall, *, context: Mapping[str, Any], user_id: str | None = None) -> Any:
        self.asked.append(call)
        self.told.append(context)
        return self.say(call, user_id)


def raising(error: BaseException) -> Callable[..., Any]:
    def raises(*args: Any) -> Any:
        raise error

    return raises


# --- what the modes decide --------------------------------------------------------------------------------------------

ALL = ("reads", "writes", "destroys", "silent")
TABLE = [
    # mode, edit_tools, and which of the four kinds run unasked
    (Mode.DEFAULT, None, {"reads", "writes"}),
    (Mode.DEFAULT, ["silent"], {"reads", "writes"}),
    (Mode.ACCEPT_EDITS, None, {"reads", "writes", "destroys", "silent"}),
    (Mode.ACCEPT_EDITS, ["silent"], {"reads", "writes", "silent"}),
    (Mode.ACCEPT_EDITS, [], {"reads", "writes"}),
    (Mode.BYPASS, None, {"reads", "writes", "destroys", "silent"}),
    (Mode.BYPASS, [], {"reads", "writes", "destroys", "silent"}),
]


@both_drivers
@pytest.mark.states("MA1.4", "MA3.1")
@pytest.mark.parametrize(("mode", "edit_tools", "unasked"), TABLE)
def test_a_mode_asks_about_what_its_table_says(
    driver: str, mode: Mode, edit_tools: list[str] | None, unasked: set[str]
) -> None:
    tools, asked = kinds_of_tools(), []

    def handler(call: ToolCall, user_id: str | None) -> bool:
        asked.append((call.tool, call.is_destructive(), user_id))
        return False

    modes = StandardPermissions(mode=mode, edit_tools=edit_tools)
    agent = Agent([one.tool for one in tools.values()], permissions=modes, approval_handler=handler, user="ann")
    turn = run(driver, agent, [tool_call(name) for name in ALL])
    assert {name for name, one in tools.items() if one.ran} == unasked
    assert sorted(asked) == sorted((name, True, "ann") for name in ALL if name not in unasked)
    assert [result.verdict == "allowed" for result in turn.results] == [name in unasked for name in ALL]


@both_drivers
def test_log_and_table_say_which_part_of_a_mode_decided(driver: str) -> None:
    tools = kinds_of_tools()
    modes = StandardPermissions(mode=Mode.ACCEPT_EDITS, edit_tools=["silent"], denied_tools=["WRITES"])
    agent = Agent([one.tool for one in tools.values()], permissions=modes, approval_handler=lambda call, user: False)
    turn = run(driver, agent, [tool_call(name) for name in ALL])
    parts = ["default", "denied_tools", "destructive", "acceptEdits"]
    assert [result.decided_by for result in turn.results] == [
        f"StandardPermissions(ACCEPT_EDITS): {part}" for part in parts
    ]
    assert list(agent.audit.calls()["decided_by"]) == [result.decided_by for result in turn.results]
    assert turn.results[1].content == "writes: denied by policy"


def test_a_mode_with_a_name_is_called_by_it() -> None:
    agent = Agent([Counter("rm").tool], permissions=StandardPermissions(mode=Mode.BYPASS, name="office"))
    assert decided(agent.use_tools([tool_call("rm")])) == [("allowed", "office: bypassPermissions")]
    agent = Agent([Counter("rm").tool], permissions=StandardPermissions(denied_tools=["rm"], name="office").denies())
    assert decided(agent.use_tools([tool_call("rm")])) == [("denied", "office: denied_tools")]


@both_drivers
def test_allow_all_runs_everything_unasked(driver: str) -> None:
    tools = kinds_of_tools()
    agent = Agent([one.tool for one in tools.values()], permissions=AllowAll(), approval_handler=never)
    turn = run(driver, agent, [tool_call(name) for name in ALL])
    assert decided(turn) == [("allowed", "AllowAll")] * 4


@both_drivers
@pytest.mark.states("MA1.7")
def test_who_the_agent_works_for_says_what_applies(driver: str) -> None:
    by_user = PerUserPermissions(
        {"ann": StandardPermissions(mode=Mode.BYPASS), "bob": StandardPermissions(allowed_tools=[], name="closed")},
        StandardPermissions(),
    )
    ran = Counter("rm", destructive=True)
    agent = Agent([ran.tool], permissions=by_user, approval_handler=lambda call, user: False)
    found = [decided(run(driver, agent, [tool_call("rm")], user=user)) for user in ("ann", "bob", "eve")]
    assert found == [
        [("allowed", "PerUserPermissions: StandardPermissions(BYPASS): bypassPermissions")],
        [("denied", "PerUserPermissions: closed: allowed_tools")],
        [("denied", "PerUserPermissions: StandardPermissions(DEFAULT): destructive")],
    ]
    assert len(ran.ran) == 1


def test_one_agent_may_work_for_several_users_in_turn_and_the_log_keeps_them_apart() -> None:
    by_user = PerUserPermissions({"ann": AllowAll()}, StandardPermissions(denied_tools=["*"]))
    agent = Agent([Counter("rm").tool], permissions=by_user, user="bob")
    for user in (None, "ann", "bob"):
        agent.use_tools([tool_call("rm")], user=user)
    log = agent.audit.calls()
    assert list(zip(log["user"], log["verdict"], strict=True)) == [
        ("bob", "denied"),
        ("ann", "allowed"),
        ("bob", "denied"),
    ]


def test_a_mode_stands_in_a_list_beside_permissions() -> None:
    tools = kinds_of_tools()
    agent = Agent(
        [one.tool for one in tools.values()],
        permissions=[
            AllowByName(["destroys"]),
            StandardPermissions(denied_tools=["silent", "destroys"]),
            DenyByName(["writes"]),
        ],
    )
    assert decided(agent.use_tools([tool_call(name) for name in ALL])) == [
        ("allowed", "StandardPermissions(DEFAULT): default"),
        ("denied", "DenyByName(['writes'])"),
        ("allowed", "AllowByName(['destroys'])"),
        ("denied", "StandardPermissions(DEFAULT): denied_tools"),
    ]
    assert repr(agent.permissions[1]) == "StandardPermissions(denied_tools=['silent', 'destroys'])"


def test_explain_says_the_same_as_the_turn_and_asks_nobody() -> None:
    tools = kinds_of_tools()
    modes = PerUserPermissions({"ann": StandardPermissions(denied_tools=["writes"])}, AllowAll())
    agent = Agent([one.tool for one in tools.values()], permissions=modes, approval_handler=never, user="ann")
    explained = [agent.explain(name) for name in ALL]
    assert [one.decided_by for one in explained] == [
        f"PerUserPermissions: StandardPermissions(DEFAULT): {part}"
        for part in ("default", "denied_tools", "destructive", "destructive")
    ]
    assert not any(one.ran for one in tools.values())


# --- whether a call may destroy something -----------------------------------------------------------------------------


class Server:
    """A server whose tool says of itself what a test wants."""

    def __init__(self) -> None:
        self.called: list[dict[str, Any]] = []

    def tool(self, **annotations: bool) -> MCPTool:
        remote = {"name": "act", "inputSchema": {"type": "object"}, "annotations": annotations}
        return MCPTool("github", remote, self.call)

    async def call(self, name: str, args: dict[str, Any]) -> Any:
        self.called.append(args)
        return {"content": [{"type": "text", "text": "done"}]}


@pytest.mark.parametrize(
    ("trust_mcp", "annotations", "verdict"),
    [
        (False, {"readOnlyHint": True}, "denied"),
        (False, {"destructiveHint": False}, "denied"),
        (False, {}, "denied"),
        (True, {"readOnlyHint": True}, "allowed"),
        (True, {"destructiveHint": False}, "allowed"),
        (True, {"destructiveHint": True}, "denied"),
        (True, {}, "denied"),
    ],
)
@pytest.mark.parametrize("by_user", [False, True])
def test_what_a_server_says_counts_only_where_it_is_trusted(
    trust_mcp: bool, annotations: dict[str, bool], verdict: str, by_user: bool
) -> None:
    server, modes = Server(), StandardPermissions(trust_mcp=trust_mcp)
    agent = Agent(
        [server.tool(**annotations)],
        permissions=PerUserPermissions({}, modes) if by_user else modes,
        approval_handler=lambda call, user: False,
    )
    turn = run("asyncio", agent, [tool_call("github__act")])
    assert turn.results[0].verdict == verdict
    assert len(server.called) == (verdict == "allowed")


def test_what_a_server_says_never_spares_a_call_in_bypass_from_being_denied() -> None:
    server = Server()
    modes = StandardPermissions(mode=Mode.BYPASS, denied_tools=["github__*"], trust_mcp=True)
    turn = run("asyncio", Agent([server.tool(readOnlyHint=True)], permissions=modes), [tool_call("github__act")])
    assert (turn.results[0].verdict, server.called) == ("denied", [])


@both_drivers
def test_the_arguments_may_say_whether_a_call_destroys_something(driver: str) -> None:
    def hints(args: dict[str, Any]) -> Hints | None:
        return Hints(destructive=args["n"] > 1)

    act = Counter("act", hints_for=hints)
    agent = Agent([act.tool], permissions=StandardPermissions(), approval_handler=lambda call, user: False)
    turn = run(driver, agent, [tool_call("act", n=1), tool_call("act", n=2)])
    assert [result.verdict for result in turn.results] == ["allowed", "denied"]
    assert act.ran == [{"n": 1}]


@both_drivers
@pytest.mark.parametrize("junk", [None, "harmless", False, 0, raising(OSError("gone"))], ids=repr)
def test_hints_that_are_none_leave_a_call_destructive_and_those_that_fail_deny_it(driver: str, junk: Any) -> None:
    act = Counter("act", hints_for=junk if callable(junk) else lambda args: junk)
    agent = Agent([act.tool], permissions=StandardPermissions(), approval_handler=lambda call, user: False)
    outcome, _ = run_noting(driver, agent, [tool_call("act", n=1)])
    assert act.ran == []
    assert isinstance(outcome, TypeError | OSError) or decided(outcome)[0][0] == "denied"


# --- BYPASS lifts no denial -------------------------------------------------------------------------------------------


class DenyFirst(DenyPermission):
    """Denies by argument."""

    blocking = False

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Denied | None:
        return Denied("never 1") if call.args.get("n") == 1 else None


BYPASS = {
    "the mode": lambda: StandardPermissions(mode=Mode.BYPASS),
    "the mode for this user": lambda: PerUserPermissions({"ann": StandardPermissions(mode=Mode.BYPASS)}, AllowAll()),
    "AllowAll": AllowAll,
}
POLICY = PermissionPolicy([PermissionRule("not_1", lambda tool, args: args.get("n") == 1, "deny", "never 1")], "allow")
DENY: dict[str, Callable[[], Any]] = {
    "a deny by name": lambda: DenyByName(["act"]),
    "a deny by argument": DenyFirst,
    "denies() of another mode": lambda: StandardPermissions(denied_tools=["act"]).denies()[0],
    "denies() of a policy": lambda: POLICY.denies()[0],
    "denies() of an allow-list": lambda: StandardPermissions(allowed_tools=["search"]).denies()[0],
}


@both_drivers
@pytest.mark.parametrize("bypass", BYPASS)
@pytest.mark.parametrize("deny", DENY)
@pytest.mark.parametrize("first", [True, False], ids=["deny first", "deny last"])
def test_bypass_lifts_no_denial_of_a_deny_permission(driver: str, bypass: str, deny: str, first: bool) -> None:
    act = Counter()
    listed = [DENY[deny](), BYPASS[bypass]()]
    agent = Agent([act.tool], permissions=listed if first else listed[::-1], user="ann", approval_handler=never)
    turn = run(driver, agent, [tool_call("act", n=1)])
    assert (turn.results[0].verdict, act.ran) == ("denied", [])


@both_drivers
@pytest.mark.parametrize(
    "before",
    [
        pytest.param(lambda: POLICY, id="a policy"),
        pytest.param(lambda: PerUserPermissions({"ann": POLICY}, AllowAll()), id="a policy for a user"),
        pytest.param(lambda: StandardPermissions(denied_tools=["act"]), id="denied_tools"),
        pytest.param(lambda: StandardPermissions(allowed_tools=["search"]), id="allowed_tools"),
        pytest.param(lambda: StandardPermissions(mode=Mode.BYPASS, denied_tools=["ACT"]), id="its own denied_tools"),
        pytest.param(lambda: PerUserPermissions({}, StandardPermissions(allowed_tools=[])), id="by user"),
    ],
)
def test_bypass_lifts_no_denial_of_a_mode_before_it(driver: str, before: Callable[[], Any]) -> None:
    act = Counter()
    listed = [before(), StandardPermissions(mode=Mode.BYPASS)]
    agent = Agent([act.tool], permissions=listed, approval_handler=never, user="ann")
    turn = run(driver, agent, [tool_call("act", n=1)])
    assert (turn.results[0].verdict, act.ran) == ("denied", [])


@both_drivers
def test_bypass_of_an_agent_below_lifts_no_denial_from_above(driver: str) -> None:
    act = Counter()
    below = Agent(
        [act.tool],
        name="below",
        model=ScriptedModel([tool_call("act", n=1), "Done."]),
        permissions=StandardPermissions(mode=Mode.BYPASS),
        description="Acts.",
    )
    modes = StandardPermissions(mode=Mode.BYPASS, denied_tools=["act"])
    above = Agent([below], permissions=[*modes.denies(), modes], approval_handler=never)
    turn = run(driver, above, [tool_call("below", prompt="Act.")])
    assert (turn.results[0].content, act.ran) == ("Done.", [])
    log = above.audit.calls()
    inner = [row for row in below.audit.calls().to_dict("records") if row["tool"] == "act"] or [
        row for row in log.to_dict("records") if row["tool"] == "act"
    ]
    assert [(row["verdict"], row["decided_by"]) for row in inner] == [
        ("denied", "StandardPermissions(BYPASS): denied_tools")
    ]


def not_one(call: ToolCall, user_id: str | None) -> PermissionDecision:
    return PermissionDecision.deny_("never 1") if call.args.get("n") == 1 else PermissionDecision.ask_()


@both_drivers
@pytest.mark.parametrize(
    "permissions",
    [
        pytest.param(lambda: [DenyFirst(), StandardPermissions()], id="a deny permission"),
        pytest.param(lambda: [StandardPermissions(), DenyFirst()], id="a deny permission that stands last"),
        pytest.param(lambda: [POLICY.denies()[0], StandardPermissions()], id="the denies of a policy"),
        pytest.param(lambda: Says(not_one), id="an object"),
        pytest.param(lambda: PerUserPermissions({"ann": Says(not_one)}, AllowAll()), id="an object for a user"),
    ],
)
def test_an_edit_into_what_is_denied_does_not_run(driver: str, permissions: Callable[[], Any]) -> None:
    act = Counter()
    agent = Agent(
        [act.tool],
        permissions=permissions(),
        approval_handler=lambda call, user: ApprovalDecision("edit", edited_args={"n": 1}),
        user="ann",
    )
    if driver == "sync" and not isinstance(permissions(), list):
        with pytest.raises(TypeError, match="only asynchronously"):
            run(driver, agent, [tool_call("act", n=2)])
    else:
        turn = run(driver, agent, [tool_call("act", n=2)])
        assert (turn.results[0].verdict, turn.results[0].content) == ("denied", "never 1")
    assert act.ran == []


@pytest.mark.parametrize("driver", ASYNC)
def test_an_object_that_denies_by_the_time_of_the_call_stands_though_a_person_agreed(driver: str) -> None:
    act, answers = Counter(), iter([PermissionDecision.ask_(), PermissionDecision.deny_("it is midnight")])
    agent = Agent([act.tool], permissions=Says(lambda call, user: next(answers)), approval_handler=lambda c, u: True)
    turn = run(driver, agent, [tool_call("act", n=1)])
    assert (turn.results[0].verdict, turn.results[0].content, act.ran) == ("denied", "it is midnight", [])


@both_drivers
def test_where_bypass_is_on_card_turn_and_log_say_so(driver: str) -> None:
    act = Counter()
    agent = Agent([act.tool], permissions=StandardPermissions(mode=Mode.BYPASS), user="ann")
    turn = run(driver, agent, [tool_call("act", n=1)])
    assert all("BYPASS" in text for text in (repr(agent), repr(turn), agent._repr_html_(), turn._repr_html_()))
    assert list(agent.audit.calls()["decided_by"]) == ["StandardPermissions(BYPASS): bypassPermissions"]
    by_user = PerUserPermissions({"ann": StandardPermissions(mode=Mode.BYPASS)}, StandardPermissions())
    agent = agent.copy(permissions=by_user)
    assert "BYPASS" in repr(agent)
    assert "BYPASS" not in repr(agent.copy(user="bob"))


# --- objects of a user's own ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", ASYNC)
@pytest.mark.parametrize(
    ("decision", "verdict", "content"),
    [
        (PermissionDecision.allow_(), "allowed", "ran {'n': 1}"),
        (PermissionDecision.allow_("it is harmless"), "allowed", "ran {'n': 1}"),
        (PermissionDecision.deny_("not today"), "denied", "not today"),
        (PermissionDecision("deny"), "denied", "act: denied by policy"),
        (PermissionDecision.deny_(""), "denied", "act: denied by policy"),
        (PermissionDecision.deny_("  "), "denied", "act: denied by policy"),
        (PermissionDecision.ask_("it is late"), "denied", "The user declined this call."),
        (PermissionDecision.ask_(), "denied", "The user declined this call."),
        (PermissionDecision.ask_(" "), "denied", "The user declined this call."),
    ],
    ids=repr,
)
def test_what_an_object_says_is_done(driver: str, decision: PermissionDecision, verdict: str, content: str) -> None:
    act, asked = Counter(), []

    def handler(request: Any) -> bool:
        asked.append(request.reason)
        return False

    agent = Agent([act.tool], permissions=Says(lambda call, user: decision), approval_handler=handler)
    turn = run(driver, agent, [tool_call("act", n=1)])
    assert (turn.results[0].verdict, turn.results[0].content) == (verdict, content)
    assert (len(act.ran), len(asked)) == (verdict == "allowed", decision.ask)
    assert all(reason.strip() for reason in asked)


@pytest.mark.parametrize("driver", ASYNC)
def test_an_object_is_told_of_the_call_the_run_and_the_user(driver: str) -> None:
    users = []
    says = Says(lambda call, user: users.append((user, get_run_context())) or PermissionDecision.allow_())
    agent = Agent([Counter(destructive=False).tool], permissions=says)
    run(driver, agent, [tool_call("act", n=1)], user="ann", session="monday", metadata={"ticket": 7})
    (call,), (told,), ((user, context),) = says.asked, says.told, users
    assert (call.tool, dict(call.args), call.is_destructive()) == ("act", {"n": 1}, False)
    assert context is not None
    assert (user, context.user_id, context.session_id) == ("ann", "ann", "monday")
    assert told == {
        "run_id": context.run_id,
        "session_id": "monday",
        "agent_path": ("main",),
        "metadata": {"ticket": 7},
    }


JUNK: dict[str, Callable[[], Any]] = {
    "True": lambda: True,
    "False": lambda: False,
    "None": lambda: None,
    "1": lambda: 1,
    "allow": lambda: "allow",
    "a dict": lambda: {"decision": "allow"},
    "Allowed": lambda: __import__("agentperm_nb").Allowed(),
    "Ask": lambda: Ask("?"),
    "a decision of theirs": lambda: __import__("loomflow").PermissionDecision.allow_(),
    "the class": lambda: PermissionDecision,
    "a subclass that allows": lambda: type("Sub", (PermissionDecision,), {"allow": True})("deny", "no"),
    "forged": lambda: forged("yes"),
    "forged by case": lambda: forged("ALLOW"),
    "forged by True": lambda: forged(True),
}


def forged(word: Any) -> PermissionDecision:
    decision = PermissionDecision("deny")
    object.__setattr__(decision, "decision", word)
    return decision


@pytest.mark.parametrize("driver", ASYNC)
def test_a_decision_that_is_half_made_lets_nothing_run(driver: str) -> None:
    act = Counter()
    agent = Agent([act.tool], permissions=Says(lambda call, user: object.__new__(PermissionDecision)))
    run_noting(driver, agent, [tool_call("act", n=1)])
    assert act.ran == []


ERRORS: dict[str, Exception] = {
    "ValueError": ValueError("boom"),
    "TypeError": TypeError("check() got an unexpected keyword argument 'user_id'"),
    "ToolInputError": ToolInputError("no"),
    "PermissionError": PermissionError("no"),
    "StopAsyncIteration": StopAsyncIteration(),
    "TimeoutError": TimeoutError(),
    "an error without words": RuntimeError(),
}


@pytest.mark.parametrize("driver", ASYNC)
@pytest.mark.parametrize("by_user", [False, True])
@pytest.mark.parametrize("junk", JUNK)
def test_what_is_no_decision_denies_that_call(driver: str, junk: str, by_user: bool) -> None:
    act, other = Counter(), Counter("other")
    says = Says(lambda call, user: JUNK[junk]() if call.tool == "act" else PermissionDecision.allow_())
    permissions = PerUserPermissions({}, says) if by_user else says
    agent = Agent(
        [act.tool, other.tool], permissions=[permissions, AllowByDefault()], approval_handler=lambda c, u: True
    )
    outcome, warned = run_noting(driver, agent, [tool_call("act", n=1), tool_call("other", n=2)])
    assert [verdict for verdict, _ in decided(outcome)] == ["denied", "allowed"]
    assert (act.ran, other.ran) == ([], [{"n": 2}])
    assert len(says.asked) in (2, 3)  # once each; what was allowed once more, where deciding took a while
    assert "forged" in junk or any("no PermissionDecision" in text for text in warned)


@pytest.mark.parametrize("driver", ASYNC)
@pytest.mark.parametrize("by_user", [False, True])
@pytest.mark.parametrize("error", ERRORS)
def test_an_object_that_raises_denies_that_call_only_and_is_not_asked_again(
    driver: str, error: str, by_user: bool
) -> None:
    act, other = Counter(), Counter("other")

    def say(call: ToolCall, user: str | None) -> PermissionDecision:
        if call.tool == "act":
            raise ERRORS[error]
        return PermissionDecision.allow_()

    says = Says(say)
    permissions = PerUserPermissions({}, says) if by_user else says
    agent = Agent(
        [act.tool, other.tool], permissions=[permissions, AllowByDefault()], approval_handler=lambda c, u: True
    )
    outcome, warned = run_noting(driver, agent, [tool_call("act", n=1), tool_call("other", n=2)])
    assert [verdict for verdict, _ in decided(outcome)] == ["denied", "allowed"]
    assert (act.ran, other.ran, [call.tool for call in says.asked]) == ([], [{"n": 2}], ["act", "other"])
    assert any(type(ERRORS[error]).__name__ in text for text in warned)
    reasons = list(agent.audit.calls()["reason"])
    assert reasons[0].startswith("The call could not be decided: ")


@pytest.mark.parametrize("driver", ASYNC)
def test_a_tool_error_of_an_object_denies_with_its_message_and_without_a_warning(driver: str) -> None:
    act = Counter()
    agent = Agent([act.tool], permissions=Says(raising(ToolError("ask the owner first"))))
    outcome, warned = run_noting(driver, agent, [tool_call("act", n=1)])
    assert isinstance(outcome, Turn)
    assert (outcome.results[0].verdict, outcome.results[0].content) == ("denied", "ask the owner first")
    assert (act.ran, warned) == ([], [])


@pytest.mark.parametrize("driver", ASYNC)
def test_an_interrupt_in_an_object_interrupts_the_turn(driver: str) -> None:
    act = Counter()
    agent = Agent([act.tool], permissions=Says(raising(KeyboardInterrupt())))
    outcome, _ = run_noting(driver, agent, [tool_call("act", n=1)])
    assert isinstance(outcome, KeyboardInterrupt)
    assert act.ran == []


class BeforeUsers:
    def __init__(self) -> None:
        self.asked = 0

    async def check(self, call: ToolCall, *, context: Mapping[str, Any]) -> PermissionDecision:
        self.asked += 1
        return PermissionDecision.deny_("not today")


class OnlyTheCall(BeforeUsers):
    async def check(self, call: ToolCall) -> PermissionDecision:  # type: ignore[override]
        self.asked += 1
        return PermissionDecision.deny_("not today")


class TakesAnything(BeforeUsers):
    async def check(self, call: ToolCall, **given: Any) -> PermissionDecision:  # type: ignore[override]
        self.asked += 1
        assert given.keys() == {"context", "user_id"}
        return PermissionDecision.deny_("not today")


@pytest.mark.parametrize("driver", ASYNC)
@pytest.mark.parametrize("kind", [BeforeUsers, OnlyTheCall, TakesAnything])
@pytest.mark.parametrize("by_user", [False, True])
def test_a_check_is_given_what_it_takes_and_called_once(driver: str, kind: type[BeforeUsers], by_user: bool) -> None:
    older = kind()
    agent = Agent([Counter().tool], permissions=PerUserPermissions({}, older) if by_user else older)
    outcome, warned = run_noting(driver, agent, [tool_call("act", n=1)])
    assert isinstance(outcome, Turn)
    assert (outcome.results[0].content, older.asked, warned) == ("not today", 1, [])


class Overridden(StandardPermissions):
    """Denies more than the mode it is made from."""

    async def check(self, call: ToolCall, *, context: Any, user_id: str | None = None) -> PermissionDecision:
        return PermissionDecision.deny_("not at night")


class Decides(StandardPermissions):
    def decide(self, call: ToolCall, user_id: str | None = None) -> PermissionDecision:
        return PermissionDecision.deny_("not at night")


class DecidesWithPart(StandardPermissions):
    def decide_with_part(self, call: ToolCall, user_id: str | None = None) -> tuple[PermissionDecision, str]:
        return PermissionDecision.deny_("not at night"), "night"


class AllowsLess(AllowAll):
    async def check(self, call: ToolCall, *, context: Any, user_id: str | None = None) -> PermissionDecision:
        return PermissionDecision.deny_("not at night")


class AllowsLessAtOnce(AllowAll):
    def decide(self, call: ToolCall, user_id: str | None = None) -> PermissionDecision:
        return PermissionDecision.deny_("not at night")


class Routes(PerUserPermissions):
    async def check(self, call: ToolCall, *, context: Any, user_id: str | None = None) -> PermissionDecision:
        return PermissionDecision.deny_("not at night")


class RoutesElsewhere(PerUserPermissions):
    def for_user(self, user_id: str | None) -> Any:
        return Overridden()


SUBCLASSES: list[Callable[[], Any]] = [
    lambda: Overridden(mode=Mode.BYPASS),
    lambda: Decides(mode=Mode.BYPASS),
    lambda: DecidesWithPart(mode=Mode.BYPASS),
    AllowsLess,
    AllowsLessAtOnce,
    lambda: Routes({}, AllowAll()),
    lambda: RoutesElsewhere({}, AllowAll()),
]


@pytest.mark.parametrize("driver", ASYNC)
@pytest.mark.parametrize("make", SUBCLASSES)
@pytest.mark.parametrize("inside", [False, True], ids=["itself", "for a user"])
def test_a_subclass_that_says_no_is_heard(driver: str, make: Callable[[], Any], inside: bool) -> None:
    act, permissions = Counter(), make()
    agent = Agent([act.tool], permissions=PerUserPermissions({}, permissions) if inside else permissions)
    outcome, _ = run_noting(driver, agent, [tool_call("act", n=1)])
    assert isinstance(outcome, Turn)
    assert (outcome.results[0].content, act.ran) == ("not at night", [])


@pytest.mark.parametrize(
    "permissions",
    [
        Says(lambda call, user: PermissionDecision.allow_()),
        PerUserPermissions({"eve": Says(lambda call, user: PermissionDecision.allow_())}, AllowAll()),
        [AllowByName(["search"]), Says(lambda call, user: PermissionDecision.allow_())],
        Overridden(mode=Mode.BYPASS),
    ],
    ids=["alone", "for a user", "in a list", "a subclass"],
)
def test_an_object_that_is_awaited_is_refused_in_a_sync_turn_and_nothing_runs(permissions: Any) -> None:
    act, search = Counter(), Counter("search")
    agent = Agent([search.tool, act.tool], permissions=permissions)
    with pytest.raises(TypeError, match=r"only asynchronously\nFix: (.|\n)*await"):
        agent.use_tools([tool_call("search", n=1), tool_call("act", n=1)])
    assert (act.ran, search.ran) == ([], [])


# --- what is refused in permissions= ----------------------------------------------------------------------------------


class Synchronous:
    def check(self, call: ToolCall, *, context: Any, user_id: str | None = None) -> PermissionDecision:
        return PermissionDecision.allow_()


@pytest.mark.parametrize(
    "junk",
    [StandardPermissions, AllowAll, Mode.BYPASS, "strict", "bypass", {"mode": "bypass"}, Synchronous(), object(), 5],
    ids=repr,
)
@pytest.mark.parametrize("listed", [False, True])
def test_what_is_no_mode_object_is_refused_when_the_agent_is_made(junk: Any, listed: bool) -> None:
    # A text is read as a rule on arguments, and none of these is one.
    with pytest.raises((TypeError, ValueError), match=r"permissions=(.|\n)*Fix: |this is no rule(.|\n)*Fix: "):
        Agent([Counter().tool], permissions=[junk] if listed else junk)


# --- denials, unknown tools -------------------------------------------------------------------------------------------


@both_drivers
@pytest.mark.states("MA2.5")
@pytest.mark.parametrize("mode", Mode)
def test_a_tool_that_is_not_there_is_an_error_about_which_nobody_is_asked(driver: str, mode: Mode) -> None:
    agent = Agent([Counter().tool], permissions=StandardPermissions(mode=mode), approval_handler=never)
    turn = run(driver, agent, [tool_call("x")])
    assert turn.results[0].verdict == "input_error"
    assert "unknown tool 'x'" in turn.results[0].content


@both_drivers
def test_what_the_model_reads_says_whether_anybody_said_no(driver: str) -> None:
    act, modes = Counter(), StandardPermissions()
    said = {
        "a person": Agent([act.tool], permissions=modes, approval_handler=lambda call, user: False),
        "nobody": Agent([act.tool], permissions=modes, human=None),
        "the mode": Agent([act.tool], permissions=StandardPermissions(denied_tools=["act"])),
    }
    texts = {who: run(driver, agent, [tool_call("act", n=1)]).results[0].content for who, agent in said.items()}
    assert texts["a person"] == "The user declined this call."
    assert texts["nobody"].startswith("Nobody is asked: ")
    assert texts["the mode"] == "act: denied by policy"
    assert act.ran == []


# --- every list at once -----------------------------------------------------------------------------------------------

ITEMS: dict[str, Callable[[], Any]] = {
    "deny": lambda: DenyByName(["destroys"]),
    "default": StandardPermissions,
    "bypass": lambda: StandardPermissions(mode=Mode.BYPASS),
    "denied": lambda: StandardPermissions(denied_tools=["writes"]),
    "by user": lambda: PerUserPermissions({"ann": AllowAll()}, StandardPermissions(allowed_tools=["reads"])),
    "human": DecideByHuman,
}


def lists() -> Iterator[tuple[str, ...]]:
    for count in (1, 2, 3):
        yield from itertools.permutations(ITEMS, count)


@pytest.mark.parametrize("driver", DRIVERS)
def test_turn_and_explain_agree_for_every_list_and_a_deny_is_never_passed(driver: str) -> None:
    for names in lists():
        tools = kinds_of_tools()
        agent = Agent(
            [one.tool for one in tools.values()],
            permissions=[*(ITEMS[name]() for name in names), AllowByDefault()],
            approval_handler=lambda call, user: True,
            user="bob",
        )
        explained = [agent.explain(name) for name in ALL]
        turn = run(driver, agent, [tool_call(name) for name in ALL])
        assert [one.decided_by for one in explained] == [result.decided_by for result in turn.results], names
        assert not ("deny" in names and tools["destroys"].ran), names


def test_a_warning_that_is_made_an_error_lets_nothing_run() -> None:
    act = Counter()
    agent = Agent([act.tool], permissions=Says(lambda call, user: True))

    async def main() -> Turn:
        return await agent.ause_tools([tool_call("act", n=1)])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(PermissionWarning):
            anyio.run(main)
    assert act.ran == []


def test_a_tool_made_with_the_decorator_says_of_itself_what_the_mode_reads() -> None:
    @tool(destructive=False)
    def touch() -> str:
        """Touch."""
        return "touched"

    @tool(read_only=True)
    def look() -> str:
        """Look."""
        return "looked"

    agent = Agent([touch, look], permissions=StandardPermissions(), approval_handler=never)
    turn = agent.use_tools([tool_call("touch"), tool_call("look")])
    assert [result.content for result in turn.results] == ["touched", "looked"]


@pytest.mark.parametrize("driver", ["asyncio", "trio"])
def test_a_decision_that_was_made_without_its_constructor_denies_its_call_only(driver: str) -> None:
    class HalfMade:
        async def check(self, call: ToolCall, *, context: Any, user_id: str | None = None) -> PermissionDecision:
            if call.args["n"] == 1:
                return object.__new__(PermissionDecision)
            return PermissionDecision.allow_()

    if driver == "sync":
        return  # it has to be awaited
    counter = Counter()
    with pytest.warns(PermissionWarning, match="HalfMade raised AttributeError"):
        turn = run(
            driver, Agent([counter.tool], permissions=HalfMade()), [tool_call("act", n=1), tool_call("act", n=2)]
        )
    assert [result.verdict for result in turn.results] == ["denied", "allowed"]
    assert counter.ran == [{"n": 2}]


def test_an_object_without_a_repr_has_the_same_policy_id_each_time() -> None:
    class Office:
        async def check(self, call: ToolCall, *, context: Any, user_id: str | None = None) -> PermissionDecision:
            return PermissionDecision.allow_()

    ids = {Agent([], permissions=Office()).audit.events()[0].policy_id for _ in range(3)}
    assert len(ids) == 1
