"""Deny permissions, rule policies, modes and people in one list: who decides, and what explain says of it."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from turns import DRIVERS, Counter, Scripted, run

from agentperm_nb import (
    Agent,
    AllowByName,
    ApprovalDecision,
    ApprovalRequest,
    DecideByHuman,
    DenyByName,
    Mode,
    PermissionDecision,
    PermissionPolicy,
    PermissionRule,
    PerUserPermissions,
    StandardPermissions,
    Tool,
    tool,
)
from agentperm_nb.testing import FakeHuman, tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)


@tool(read_only=True)
def read(path: str) -> str:
    """Read."""
    return f"read {path}"


@tool(destructive=False)
def append(path: str) -> str:
    """Append."""
    return f"appended {path}"


@tool
def write(path: str) -> str:
    """Write."""
    return f"wrote {path}"


@tool
def drop(path: str) -> str:
    """Drop."""
    return f"dropped {path}"


def secret(tool: Any, args: dict[str, Any]) -> bool:
    return "secret" in args["path"]


def mixed(**options: Any) -> Agent:
    return Agent(
        [read, append, write, drop],
        permissions=[
            DenyByName(["drop*"]),
            PermissionPolicy(
                [
                    PermissionRule("no_secrets", secret, "deny", "secrets stay here"),
                    PermissionRule("drafts", lambda tool, args: args["path"].startswith("draft"), "allow"),
                    PermissionRule("ask_shared", lambda tool, args: args["path"].startswith("shared"), "ask", "others"),
                ],
                fallback=None,
            ),
            StandardPermissions(denied_tools=["append_all"]),
            DecideByHuman(),
        ],
        **{"human": FakeHuman(["yes"] * 9), **options},
    )


TABLE = {
    ("drop", "draft"): ("denied", "DenyByName(['drop*'])"),
    ("read", "secret"): ("denied", "policy: no_secrets"),
    ("read", "draft secret"): ("denied", "policy: no_secrets"),
    ("write", "draft"): ("allowed", "policy: drafts"),
    ("read", "shared"): ("asked", "policy: ask_shared"),
    ("read", "a"): ("allowed", "StandardPermissions(DEFAULT): default"),
    ("append", "a"): ("allowed", "StandardPermissions(DEFAULT): default"),
    ("write", "a"): ("asked", "StandardPermissions(DEFAULT): destructive"),
}


@pytest.mark.parametrize(("name", "path"), TABLE)
def test_explain_says_who_would_decide(name: str, path: str) -> None:
    agent = mixed()
    explained = agent.explain(name, path=path)
    assert (explained.verdict, explained.decided_by) == TABLE[name, path]
    marked = [row for row in explained.rows if row[0]]
    assert len(marked) == 1
    assert explained.decided_by is not None
    assert explained.decided_by.startswith(marked[0][1])
    assert agent.human.questions == []
    assert len(agent.audit) == 0


@pytest.mark.parametrize(("name", "path"), TABLE)
@both_drivers
def test_a_turn_decides_as_explain_says(name: str, path: str, driver: str) -> None:
    agent = mixed()
    verdict, decided_by = TABLE[name, path]
    (result,) = run(driver, agent, [tool_call(name, path=path)]).results
    assert result.verdict == ("denied" if verdict == "denied" else "allowed")
    assert result.decided_by == decided_by
    assert (result.answered_by == "human") is (verdict == "asked")
    row = agent.audit.calls().iloc[0]
    assert (row["decided_by"], row["rule"] if row["asked"] else "") == (decided_by, decided_by if row["asked"] else "")


def test_explain_tells_what_each_of_the_list_says_in_the_order_of_asking() -> None:
    rows = mixed().explain("read", path="shared/a").rows
    assert [(row[1], row[3]) for row in rows] == [
        ("DenyByName(['drop*'])", "not asked: read is none of its names"),
        ("policy", "ask_shared: asks a person: others"),
        ("StandardPermissions(DEFAULT)", "not asked: decided above"),
        ("DecideByHuman()", "not asked: decided above"),
    ]


def test_the_agent_shows_what_it_was_given() -> None:
    given = [DenyByName(["drop*"]), PermissionPolicy(), StandardPermissions(), DecideByHuman()]
    agent = Agent([read], permissions=given)
    assert all(shown is one for shown, one in zip(agent.permissions, given, strict=True))
    assert all(shown is one for shown, one in zip(agent.copy(name="b").permissions, given, strict=True))
    (one,) = Agent([read], permissions=given[1]).permissions
    assert one is given[1]


def test_two_policies_in_a_list_are_told_apart() -> None:
    one, other = PermissionPolicy(fallback=None), PermissionPolicy(name="office", fallback=None)
    agent = Agent([read], permissions=[one, PermissionPolicy(fallback="deny"), other])
    assert agent.explain("read", path="a").decided_by == "policy #2: fallback"
    assert [row[1] for row in agent.explain("read", path="a").rows] == ["policy #1", "policy #2", "office"]


def test_an_allow_before_a_policy_hides_its_denial_and_its_denies_do_not_hide() -> None:
    policy = PermissionPolicy([PermissionRule("no_secrets", secret, "deny", "no")])
    hidden = Agent([read], permissions=[AllowByName(["read"]), policy])
    assert hidden.explain("read", path="secret").verdict == "allowed"
    shown = Agent([read], permissions=[AllowByName(["read"]), policy, *policy.denies()])
    assert (shown.explain("read", path="secret").verdict, shown.explain("read", path="a").verdict) == (
        "denied",
        "allowed",
    )


# ---------------------------------------------------------------------- who answers


def by_handler(name: str, heard: list[str]) -> Any:
    def handler(request: ApprovalRequest) -> bool:
        heard.append(name)
        return True

    return handler


class Handler:
    def __init__(self, name: str, heard: list[str]) -> None:
        self.name, self.heard = name, heard

    def handle(self, request: Any) -> str:
        self.heard.append(self.name)
        return "allow"


ASK = PermissionRule("asks", lambda tool, args: tool.name == "write", "ask")


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("for_policies", [True, False])
@pytest.mark.parametrize("given", ["approval_handler", "human"])
@both_drivers
def test_the_first_that_applies_answers(own: bool, for_policies: bool, given: str, driver: str) -> None:
    heard: list[str] = []
    policy = PermissionPolicy([ASK], fallback=None, handler=Handler("own", heard) if own else None)
    options: dict[str, Any] = {"permission_handler": Handler("for policies", heard)} if for_policies else {}
    if given == "approval_handler":
        options["approval_handler"] = by_handler("approval_handler", heard)
    else:

        async def review(requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, bool]]:
            for request in requests:
                heard.append("human")
                yield request.id, True

        options["human"] = Scripted(review)
    agent = Agent([write, drop], permissions=[policy, StandardPermissions()], **options)
    run(driver, agent, [tool_call("write", path="a")])
    run(driver, agent, [tool_call("drop", path="a")])  # a mode asks: never the handlers of policies
    assert heard == ["own" if own else "for policies" if for_policies else given, given]


@both_drivers
def test_a_permission_with_its_own_human_asks_that_one_before_any_handler(driver: str) -> None:
    heard: list[str] = []
    boss = FakeHuman(["yes"])
    agent = Agent(
        [write],
        permissions=[PermissionPolicy(fallback=None), DecideByHuman(human=boss)],
        permission_handler=Handler("for policies", heard),
        approval_handler=by_handler("approval_handler", heard),
    )
    run(driver, agent, [tool_call("write", path="a")])
    assert (len(boss.questions), heard) == (1, [])


def test_a_handler_for_policies_without_a_policy_is_an_error() -> None:
    with pytest.raises(ValueError, match="there is no policy in permissions="):
        Agent([write], permissions=[DecideByHuman()], permission_handler=Handler("x", []))
    users = PerUserPermissions({"ann": PermissionPolicy()}, default=StandardPermissions())
    Agent([write], permissions=users, permission_handler=Handler("x", []))


# ---------------------------------------------------------------------- by reference


class Office:
    """A mode object of a user's."""

    async def check(self, call: Any, *, context: Any, user_id: str | None = None) -> PermissionDecision:
        if call.args["n"] % 2:
            return PermissionDecision.deny_("odd")
        return PermissionDecision.ask_() if call.is_destructive() else PermissionDecision.allow_()


WORDS = st.sampled_from(["allow", "deny", "ask"])
STEPS = st.one_of(
    st.tuples(st.just("deny"), st.sampled_from("ab")),
    st.tuples(st.just("allow"), st.sampled_from("ab")),
    st.tuples(
        st.just("policy"),
        st.lists(st.tuples(st.integers(0, 3), WORDS), max_size=3),
        st.sampled_from([None, "allow", "deny", "ask"]),
    ),
    st.tuples(st.just("mode"), st.sampled_from(list(Mode)), st.sampled_from([None, "a", "b"])),
    st.tuples(st.just("user"), st.sampled_from(list(Mode))),
    st.tuples(st.just("office")),
    st.tuples(st.just("human")),
)
CALLS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), min_size=1, max_size=4)
DESTRUCTIVE = {"a": True, "b": False}


def made(step: Any) -> Any:
    match step:
        case ("deny", name):
            return DenyByName([name])
        case ("allow", name):
            return AllowByName([name])
        case ("policy", rules, fallback):
            listed = [
                PermissionRule(f"r{i}", lambda tool, args, n=n: args["n"] == n, word)
                for i, (n, word) in enumerate(rules)
            ]
            return PermissionPolicy(listed, fallback=fallback)
        case ("mode", mode, denied):
            return StandardPermissions(mode=mode, denied_tools=[denied] if denied else None)
        case ("user", mode):
            return PerUserPermissions({"ann": StandardPermissions(mode=mode)}, default=StandardPermissions())
        case ("office",):
            return Office()
        case _:
            return DecideByHuman()


def said(step: Any, name: str, n: int, user: str) -> str | None:
    """What a step says, by its published table."""
    match step:
        case ("deny", denied):
            return "deny" if name == denied else None
        case ("allow", allowed):
            return "allow" if name == allowed else None
        case ("policy", rules, fallback):
            return next((word for number, word in rules if number == n), fallback)
        case ("mode", mode, denied):
            return "deny" if name == denied else moded(mode, name)
        case ("user", mode):
            return moded(mode if user == "ann" else Mode.DEFAULT, name)
        case ("office",):
            return "deny" if n % 2 else "ask" if DESTRUCTIVE[name] else "allow"
        case _:
            return "ask"


def moded(mode: Mode, name: str) -> str:
    return "ask" if DESTRUCTIVE[name] and mode is Mode.DEFAULT else "allow"


def decided(steps: list[Any], name: str, n: int, user: str) -> str:
    denies = [step for step in steps if step[0] == "deny"]
    others = [step for step in steps if step[0] != "deny"]
    return next((word for step in (*denies, *others) if (word := said(step, name, n, user)) is not None), "nobody")


@given(
    steps=st.lists(STEPS, max_size=5),
    calls=CALLS,
    answers=st.lists(st.sampled_from(["allow", "deny", 0, 1, 2, 3]), min_size=4, max_size=4),
    user=st.sampled_from(["ann", "bob"]),
    driver=st.sampled_from(["asyncio", "trio", "sync"]),
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@pytest.mark.law
@pytest.mark.filterwarnings("ignore::agentperm_nb.PermissionWarning")
def test_a_mixed_list_decides_as_its_tables_say_and_no_edit_passes_a_denial(
    steps: list[Any], calls: list[tuple[str, int]], answers: list[Any], user: str, driver: str
) -> None:
    if ("office",) in steps and driver == "sync":
        driver = "asyncio"
    lock, ran = threading.Lock(), []

    def run_tool(name: str) -> Any:
        def function(n: int) -> str:
            with lock:
                ran.append((name, n))
            return "ran"

        return function

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    tools = [Tool(name, "Act.", schema, function=run_tool(name), destructive=DESTRUCTIVE[name]) for name in "ab"]

    async def review(requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, ApprovalDecision]]:
        for request in requests:
            answer = answers[request.position]
            edit = isinstance(answer, int)
            made = ApprovalDecision("edit", edited_args={"n": answer}) if edit else ApprovalDecision(answer)
            yield request.id, made

    agent = Agent(tools, permissions=[made(step) for step in steps], human=Scripted(review))
    turn = run(driver, agent, [tool_call(name, n=n) for name, n in calls], user=user)
    expected = []
    for place, ((name, n), result) in enumerate(zip(calls, turn.results, strict=True)):
        word = decided(steps, name, n, user)
        answer = answers[place]
        if word == "ask" and isinstance(answer, int):
            n = answer
            word = "deny" if decided(steps, name, n, user) in ("deny", "nobody") else "allow"
        elif word == "ask":
            word = answer
        assert result.verdict == ("allowed" if word == "allow" else "denied"), (steps, name, n, result.decided_by)
        if word == "allow":
            expected.append((name, n))
    assert sorted(ran) == sorted(expected)


@both_drivers
def test_rules_of_a_policy_may_change_between_turns(driver: str) -> None:
    counter, policy = Counter(), PermissionPolicy(fallback="allow")
    agent = Agent([counter.tool], permissions=policy)
    run(driver, agent, [tool_call("act", n=1)])
    policy.rules.append(PermissionRule("no", lambda tool, args: True, "deny"))
    run(driver, agent, [tool_call("act", n=2)])
    assert counter.ran == [{"n": 1}]


@both_drivers
def test_whoever_is_asked_by_a_policy_or_mode_is_shown_the_call_and_the_reason(driver: str) -> None:
    human = FakeHuman(["yes", "yes"])
    agent = mixed(human=human)
    run(driver, agent, [tool_call("read", path="shared"), tool_call("write", path="a")])
    assert human.questions == [
        'Run read(path="shared")? others',
        'Run write(path="a")? write: destructive call requires approval',
    ]

    async def review(requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, bool]]:
        assert [(request.question, request.reason) for request in requests] == [("Run read?", "others")]
        yield requests[0].id, True

    run(driver, mixed(human=Scripted(review)), [tool_call("read", path="shared")])


def test_a_policy_of_a_user_inside_another_per_user_counts_as_a_policy() -> None:
    inner = PerUserPermissions({"ann": PermissionPolicy()}, default=StandardPermissions())
    users = PerUserPermissions({"bob": inner}, default=StandardPermissions())
    Agent([write], permissions=users, permission_handler=Handler("x", []))
