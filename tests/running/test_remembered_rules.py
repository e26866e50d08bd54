"""Remembered rules in an agent: tried on the call they came from, held by whoever was asked, never past a denial."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from answering import Telling, Waiting, act, of, say, told, until, waiting
from hypothesis import given, settings
from hypothesis import strategies as st
from rules import Says
from turns import DRIVERS, Counter, Scripted, run, run_noting

from agentperm_nb import (
    Agent,
    AllowByArguments,
    AllowByName,
    ApprovalDecision,
    ApprovalRequest,
    Ask,
    DecideByHuman,
    Denied,
    DenyByArguments,
    DenyByName,
    DenyPermission,
    PermissionPolicy,
    PermissionResult,
    PermissionRule,
    PermissionWarning,
    Scope,
    StandardPermissions,
    Tool,
    ToolCall,
    Turn,
    rule,
    tool,
)
from agentperm_nb.testing import ScriptedModel, tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)


def yes(text: str, lasts: Any = "run", **more: Any) -> ApprovalDecision:
    return ApprovalDecision("remember_allow", scope=Scope("pattern", lasts, rule=text), **more)


def no(text: str, lasts: Any = "run", **more: Any) -> ApprovalDecision:
    return ApprovalDecision("remember_deny", scope=Scope("pattern", lasts, rule=text), **more)


class Files:
    """Tools on files that note what ran, and what people were asked."""

    def __init__(self, *answers: Any, secret: tuple[str, ...] = ()) -> None:
        self.answers, self.asked, self.ran = list(answers), list[str](), list[str]()
        properties = {name: {"type": "string"} for name in ("path", "content", "command")}
        schema = {"type": "object", "properties": properties}
        self.tools = [
            Tool(name, "", schema, function=self._tool(name), secret=secret) for name in ("write", "read", "bash")
        ]

    def _tool(self, name: str) -> Callable[..., str]:
        def function(**args: str) -> str:
            self.ran.append(f"{name} {args.get('path', args.get('command'))}")
            return "ran"

        return function

    def answer(self, request: ApprovalRequest) -> Any:
        self.asked.append(f"{request.call.name} {request.call.args.get('path', request.call.args.get('command'))}")
        return self.answers.pop(0)

    def agent(self, **settings: Any) -> Agent:
        given = {"permissions": [DecideByHuman()], "approval_handler": self.answer, **settings}
        return Agent(self.tools, **given)


def write(path: str, **more: Any) -> ToolCall:
    return tool_call("write", path=path, **more)


# ---------------------------------------------------------------------- which calls


@both_drivers
def test_a_remembered_rule_answers_the_calls_that_it_fits(driver: str) -> None:
    files = Files(yes("write(path=project/**)"), "deny", "deny", no("write(path=**/.env)"), "deny")
    agent = files.agent()
    paths = ["project/a", "project/b/c", "../project/a", "project/../x", "x/.env", "y/.ENV", "project/.env", "z"]
    assert [told(run(driver, agent, [write(path)]))[0] for path in paths] == [
        ("allowed", "handler"), ("allowed", "memory"), ("denied", "handler"), ("denied", "handler"),
        ("denied", "handler"), ("denied", "memory"), ("denied", "memory"), ("denied", "handler"),
    ]  # fmt: skip
    assert files.ran == ["write project/a", "write project/b/c"]


@both_drivers
@pytest.mark.parametrize("text", ["bash(command=cd *)", "bash(command=cd /Users/y/src)", "bash", "b*(command=cd *)"])
def test_r30_the_same_call_is_not_asked_about_again_once_a_rule_is_remembered(text: str, driver: str) -> None:
    files = Files(yes(text))
    agent = files.agent()
    cd = tool_call("bash", command="cd /Users/y/src")
    assert [told(run(driver, agent, [cd])) for _ in range(3)] == [
        [("allowed", "handler")], [("allowed", "memory")], [("allowed", "memory")],
    ]  # fmt: skip
    assert len(files.asked) == 1


NOT_KEPT = {
    "another value": ("bash(command=ls *)", "command=ls * does not fit this very call"),
    "a path rule": ("bash(command=path(/Users/**))", "command=path(/Users/**) does not fit"),
    "another tool": ("sh(command=cd *)", "it is about sh, and the call is one of bash"),
    "part of the name": ("bas(command=cd *)", "it is about bas, and the call is one of bash"),
    "no such argument": ("bash(cmd=cd *)", "bash has no argument cmd (it has command, content, path)"),
    "one argument is missing": ("bash(command=cd *, path=**)", "path=** does not fit this very call"),
    "another type": ("bash(command<5)", "command of bash is string, and <5 can never be that"),
}


@both_drivers
@pytest.mark.parametrize("kind", NOT_KEPT)
@pytest.mark.parametrize("allow", [True, False], ids=["allow", "deny"])
def test_r30_a_rule_that_does_not_cover_the_call_it_came_from_counts_for_that_call_only(
    allow: bool, kind: str, driver: str
) -> None:
    text, why = NOT_KEPT[kind]
    files = Files((yes if allow else no)(text), "deny")
    agent = files.agent()
    cd = tool_call("bash", command="cd /Users/y/src")
    outcome, warned = run_noting(driver, agent, [cd])
    assert isinstance(outcome, Turn)
    assert told(outcome) == [("allowed" if allow else "denied", "handler")]
    (warning,) = warned
    verb = "allow" if allow else "deny"
    assert warning.startswith(f"{verb} {text} does not cover the very call it came from ({why}")
    assert warning.endswith("so the answer counts for this call only and was not remembered")
    assert (len(agent.remembered()), of(agent, "remembered")) == (0, [])
    assert told(run(driver, agent, [cd])) == [("denied", "handler")]
    assert len(files.ran) == (1 if allow else 0)


@both_drivers
def test_where_that_warning_is_made_an_error_nothing_runs_and_nothing_is_remembered(driver: str) -> None:
    files = Files(yes("write(path=other/**)"))
    agent = files.agent()
    with pytest.raises(PermissionWarning, match="does not cover the very call"):
        run(driver, agent, [write("project/a")])
    assert (files.ran, len(agent.remembered())) == ([], 0)


@both_drivers
def test_with_an_edit_the_rule_has_to_cover_the_edited_call(driver: str) -> None:
    edit = {"edited_args": {"path": "project/a"}}
    files = Files(yes("write(path=project/**)", **edit), "deny", yes("write(path=x)", **edit))
    agent = files.agent()
    turns = [run(driver, agent, [write(path)]) for path in ("x", "project/b", "x")]
    assert [told(turn)[0] for turn in turns] == [
        ("allowed", "handler"), ("allowed", "memory"), ("denied", "handler"),
    ]  # fmt: skip
    _, warned = run_noting(driver, agent, [write("x")])
    assert files.ran == ["write project/a", "write project/b", "write project/a"]
    assert "allow write(path=x) does not cover the very call" in warned[0]


@both_drivers
def test_a_rule_on_several_tools_is_shown_as_one(driver: str) -> None:
    files = Files(yes("*(path=project/**)"), "deny")
    agent = files.agent()
    for name in ("write", "read", "bash"):
        run(driver, agent, [tool_call(name, path="project/a")])
    run(driver, agent, [tool_call("bash", command="ls")])
    assert files.ran == ["write project/a", "read project/a", "bash project/a"]
    (one,) = agent.remembered()
    assert (one.tool, one.covers) == ("*", "calls of every tool called like * that fit *(path=project/**)")
    assert repr(one) == (
        "Remembered(1: allow calls of every tool called like * that fit *(path=project/**), for the run)"
    )


@both_drivers
def test_what_waits_is_answered_by_a_rule_that_fits_it(driver: str) -> None:
    files = Files()
    agent = files.agent(approval_handler=None, human=Waiting())
    calls = [write("project/a"), write("project/b"), write("secret/c"), write("project/.env")]
    with waiting(driver, (agent, calls)) as ended:
        say(agent.pending()[0], yes("write(path=project/*)"))
        until(agent, 1)
        assert [request.call.args["path"] for request in agent.pending()] == ["secret/c"]
        say(agent.pending()[0], "deny")
    assert told(ended[0]) == [("allowed", "human"), ("allowed", "memory"), ("denied", "human"), ("allowed", "memory")]


# ---------------------------------------------------------------------- paths and links


@both_drivers
def test_a_link_that_is_swapped_before_the_call_starts_is_seen(driver: str, tmp_path: Path) -> None:
    (tmp_path / "project" / "data").mkdir(parents=True)
    (tmp_path / "secret").mkdir()

    def handler(request: ApprovalRequest) -> Any:
        if request.call.name == "read":  # answered when the other call is allowed by memory already
            (tmp_path / "project" / "data").rmdir()
            (tmp_path / "project" / "data").symlink_to(tmp_path / "secret")
            return True
        return files.answer(request)

    files = Files(yes("write(path=project/**)"))
    agent = files.agent(approval_handler=handler, folder=tmp_path)
    run(driver, agent, [write("project/data/a")])
    turn = run(driver, agent, [write("project/data/b"), tool_call("read", path="x")])
    assert [(result.verdict, result.decided_kind) for result in turn.results] == [
        ("denied", "memory"), ("allowed", "human"),
    ]  # fmt: skip
    assert sorted(files.ran) == ["read x", "write project/data/a"]


@both_drivers
def test_a_link_that_another_call_swaps_is_seen(driver: str, tmp_path: Path) -> None:
    (tmp_path / "project" / "data").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    files = Files(yes("write(path=project/**)"))

    @tool(parallel=True)
    def swap() -> str:
        """Swap."""
        (tmp_path / "project" / "data").rmdir()
        (tmp_path / "project" / "data").symlink_to(tmp_path / "secret")
        return "swapped"

    alone = Tool("write", "", files.tools[0].input_schema, function=files.tools[0].function, parallel=False)
    agent = Agent([alone, swap], permissions=[AllowByName(["swap"]), DecideByHuman()], folder=tmp_path,
                  approval_handler=files.answer)  # fmt: skip
    run(driver, agent, [write("project/data/a")])
    turn = run(driver, agent, [write("project/data/b"), tool_call("swap")])
    assert [result.verdict for result in turn.results] == ["denied", "allowed"]
    assert files.ran == ["write project/data/a"]


@both_drivers
def test_an_allow_on_paths_holds_for_the_folder_in_which_it_was_given(
    driver: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(yes("write(path=project/**)", "session"), "deny")
    agent, here = files.agent(), Path.cwd()
    run(driver, agent, [write("project/a")])
    monkeypatch.chdir(tmp_path)
    assert told(run(driver, agent, [write("project/a")])) == [("denied", "handler")]
    monkeypatch.chdir(here)
    assert told(run(driver, agent, [write("project/a")])) == [("allowed", "memory")]


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
        off = PermissionRule("off", lambda tool, args: self.on, PermissionResult.DENY, "no")
        return PermissionPolicy([off], fallback=PermissionResult.ASK)

    def mode(self) -> Any:
        return StandardPermissions(denied_tools=["bash"])


DENIALS: dict[str, Callable[[Switch], list[Any]]] = {
    "a deny": lambda switch: [DecideByHuman(), switch.deny()],
    "a rule on arguments": lambda switch: [DecideByHuman(), DenyByArguments("write", path="**/b")],
    "a permission before": lambda switch: [switch.permission(), DecideByHuman()],
    "a policy": lambda switch: [switch.policy()],
    "a mode": lambda switch: [switch.mode(), DecideByHuman()],
}


@both_drivers
@pytest.mark.parametrize("kind", DENIALS)
@pytest.mark.parametrize("text", ["write(path=project/**)", "*", "w*(path=**)"])
def test_a_remembered_rule_passes_no_denial_of_any_kind(text: str, kind: str, driver: str) -> None:
    files, switch = Files(yes(text, "session")), Switch()
    agent = files.agent(permissions=DENIALS[kind](switch))
    assert told(run(driver, agent, [write("project/a")])) == [("allowed", "handler")]
    assert told(run(driver, agent, [write("project/a")])) == [("allowed", "memory")]
    switch.on = True
    other = tool_call("bash", path="project/b") if kind == "a mode" else write("project/b")
    assert told(run(driver, agent, [other])) == [("denied", None)]
    assert "project/b" not in " ".join(files.ran)


@both_drivers
def test_a_denial_that_is_remembered_wins_over_an_allow_of_any_kind(driver: str) -> None:
    tool_scope = ApprovalDecision("remember_allow", scope=Scope("tool"))
    files = Files(no("write(path=**/.env)", reason="keys"), tool_scope)
    agent = files.agent()
    for path in ("a/.env", "a", "b", "c/.env", "d"):
        run(driver, agent, [write(path)])
    (result,) = run(driver, agent, [write("x/.ENV")]).results
    assert (result.verdict, result.answered_by, result.content) == ("denied", "memory", "keys")
    assert files.ran == ["write a", "write b", "write d"]


@both_drivers
def test_a_rule_that_denies_gives_its_own_reason_where_the_answer_has_none(driver: str) -> None:
    files = Files(no('write(path=**/.env) because "no secrets"'))
    agent = files.agent()
    run(driver, agent, [write("a/.env")])
    (result,) = run(driver, agent, [write("b/.env")]).results
    assert result.content == "no secrets"


@both_drivers
def test_a_remembered_rule_lets_no_call_pass_that_a_protected_path_asks_about(driver: str) -> None:
    files = Files(yes("write(path=**)", "session"), yes("write(path=**)"), "deny")
    agent = files.agent(protected=["project/audit.db"])
    assert told(run(driver, agent, [write("project/a")])) == [("allowed", "handler")]
    assert told(run(driver, agent, [write("project/b")])) == [("allowed", "memory")]
    outcome, warned = run_noting(driver, agent, [write("project/audit.db")])
    assert isinstance(outcome, Turn)
    assert told(outcome) == [("allowed", "handler")]
    assert "each call that would write a protected path is asked about" in warned[0]
    assert told(run(driver, agent, [write("project/audit.db")])) == [("denied", "handler")]


@both_drivers
def test_where_a_second_person_is_wanted_a_rule_of_the_user_does_not_count(driver: str) -> None:
    files = Files(yes("write(path=a/**)", approver="bob"), "deny")
    agent = files.agent(permissions=[DecideByHuman(second_person=True)], user="ann")
    assert told(run(driver, agent, [write("a/b")])) == [("allowed", "handler")]
    assert told(run(driver, agent, [write("a/c")])) == [("allowed", "memory")]
    assert told(run(driver, agent, [write("a/c")], user="bob")) == [("denied", "handler")]
    mine = Files(yes("write(path=a/**)"), ApprovalDecision("allow", approver="bob"))
    switching: list[Any] = [DecideByHuman()]
    other = mine.agent(permissions=switching, user="ann")
    run(driver, other, [write("a/b")])
    assert len(other.remembered()) == 1


# ---------------------------------------------------------------------- for whom


@both_drivers
def test_a08_an_agent_learns_no_rule_from_what_another_one_was_allowed(driver: str) -> None:
    files = Files(yes("write(path=a)", "session"), "deny")
    build = files.agent(name="build")
    plan = build.copy(name="plan", permissions=[DenyByName(["write"])])
    assert told(run(driver, build, [write("a")])) == [("allowed", "handler")]
    assert told(run(driver, plan, [write("a")])) == [("denied", None)]
    assert told(run(driver, build.copy(name="plan"), [write("a")])) == [("denied", "handler")]
    assert told(run(driver, build, [write("a")])) == [("allowed", "memory")]


@both_drivers
def test_a_rule_of_one_user_run_or_person_holds_for_no_other(driver: str) -> None:
    files = Files(yes("write(path=a/*)"), *["deny"] * 4)
    agent = files.agent(user="ann")
    run(driver, agent, [write("a/b")])
    assert told(run(driver, agent, [write("a/c")])) == [("allowed", "memory")]
    assert told(run(driver, agent, [write("a/c")], user="bob")) == [("denied", "handler")]
    agent.new_run()
    assert told(run(driver, agent, [write("a/c")])) == [("denied", "handler")]

    async def boss(requests: Any) -> Any:
        for request in requests:
            yield request.id, "deny"

    class Bosses(Says):
        human = Scripted(boss)

    mixed = Files(yes("write(path=**)"))
    asks = Bosses(lambda state, call, tool: Ask("big") if call.args["path"] == "big" else None)
    both = mixed.agent(permissions=[asks, DecideByHuman()])
    assert told(run(driver, both, [write("a")])) == [("allowed", "handler")]
    assert told(run(driver, both, [write("big")])) == [("denied", "human")]


def test_a_subagent_remembers_rules_for_its_own_path() -> None:
    counter, handler = Counter(), Telling(yes("act(n<=5)", "session"), "deny", "deny")
    inner = Agent([counter.tool], name="helper", permissions=[DecideByHuman()], approval_handler=handler,
                  model=ScriptedModel([act(1), "Done.", act(2), "Done."]))  # fmt: skip
    lead = Agent([inner, counter.tool], name="lead", permissions=[AllowByName(["helper"]), DecideByHuman()],
                 approval_handler=handler)  # fmt: skip
    for _ in range(2):
        lead.use_tools([tool_call("helper", prompt="x")])
    lead.use_tools([act(3)])
    inner.use_tools([act(4)])
    assert handler.asked == [1, 3, 4]
    assert [args["n"] for args in counter.ran] == [1, 2]


# ---------------------------------------------------------------------- listed, revoked, in the log


@both_drivers
def test_a_rule_is_listed_revoked_and_in_the_log(driver: str) -> None:
    files = Files(yes("write(path=a/*)", "session"), "deny")
    agent = files.agent()
    run(driver, agent, [write("a/b")])
    (one,) = agent.remembered()
    assert (one.rule, one.covers, one.lasts) == ("allow write(path=a/*)", "calls that fit write(path=a/*)", "session")
    assert "calls that fit write(path=a/*)" in repr(agent.remembered())
    agent.revoke(1)
    assert told(run(driver, agent, [write("a/b")])) == [("denied", "handler")]
    (kept,), (gone,) = of(agent, "remembered"), of(agent, "revoked")
    for event in (kept, gone):
        data = event.data
        assert (data["rule"], data["covers"], data["number"]) == ("allow write(path=a/*)", "pattern", 1)


@both_drivers
def test_a_call_that_a_rule_has_allowed_does_not_start_once_it_is_revoked(driver: str) -> None:
    files = Files(yes("write(path=a/*)"))

    def handler(request: ApprovalRequest) -> Any:
        if request.call.name == "read":
            agent.revoke(all=True)
            return True
        return files.answer(request)

    agent = files.agent(approval_handler=handler)
    run(driver, agent, [write("a/b")])
    turn = run(driver, agent, [write("a/c"), tool_call("read", path="x")])
    assert [result.verdict for result in turn.results] == ["denied", "allowed"]
    assert "revoked" in turn.results[0].content


@both_drivers
def test_what_is_masked_in_the_call_is_masked_in_the_rule_that_is_listed_and_logged(driver: str) -> None:
    files = Files(yes("write(content=correct horse, path=a)"), no("write(path=b) because \"token=hunter2222\""),
                  secret=("content",))  # fmt: skip
    agent = files.agent()
    run(driver, agent, [write("a", content="correct horse")])
    run(driver, agent, [write("b")])
    assert told(run(driver, agent, [write("a", content="correct horse")])) == [("allowed", "memory")]
    agent.revoke(all=True)
    told_of = repr(agent.remembered()) + repr(agent.audit.events())
    assert "correct horse" not in told_of
    assert "hunter2222" not in told_of
    assert [event.data["rule"] for event in of(agent, "remembered")] == [
        "allow write(content=[masked], path=a)", 'deny write(path=b) because "token=[masked]"',
    ]  # fmt: skip


# ---------------------------------------------------------------------- properties

RULES = st.sampled_from(
    ["write(path=project/**)", "write(path=project/*)", "write", "*", "write(path!=secret/**)", "w*(content absent)",
     "write(content=x)", "write(path=**, content=x)", "read(path=**)", "[wr]*(path=**/a)"]
)  # fmt: skip
PATHS = st.sampled_from(
    ["project/a", "project/sub/a", "./project//a", "project/../secret/a", "PROJECT/a", "secret/a", "$X/a", "../a", "a"]
)
CALLS = st.builds(
    lambda name, path, content: tool_call(name, path=path, **({} if content is None else {"content": content})),
    st.sampled_from(["write", "read"]), PATHS, st.sampled_from([None, "x", "y"]),
)  # fmt: skip
ANSWERS = st.tuples(st.booleans(), RULES | st.none())


@given(st.lists(st.tuples(st.sampled_from(["ann", "bob"]), CALLS, ANSWERS), min_size=2, max_size=10),
       st.sampled_from([None, "write(path=**/a)", "read(path=secret/**)"]))  # fmt: skip
@settings(max_examples=60)
@pytest.mark.timeout(120)
def test_no_remembered_rule_allows_what_the_same_rule_in_the_list_would_not_or_a_deny_refuses(
    steps: list[Any], denied: str | None
) -> None:
    files, now = Files(), dict[str, Any]()
    kept: list[tuple[str, bool, str]] = []

    def handler(request: ApprovalRequest) -> Any:
        allow, text = now["answer"]
        now["asked"] = True
        if text is None:
            return allow
        return (yes if allow else no)(text)

    permissions: list[Any] = [DecideByHuman()] if denied is None else [DecideByHuman(), rule(f"deny {denied}")]
    agent = files.agent(permissions=permissions, approval_handler=handler)

    def alone(text: str, allow: bool, made: ToolCall) -> bool:
        """Whether the same permission, alone in a list, decides the call."""
        scanned = rule(f"allow {text}")
        kind = AllowByArguments if allow else DenyByArguments
        pairs = [(one.field.text, one.matcher) for one in scanned.conditions]
        other = files.agent(permissions=[kind(scanned.tool, arguments=pairs, name="it")])
        return other.explain(made).decided_by == "it"

    for user, made, answer in steps:
        now.clear()
        now["answer"] = answer
        before = len(files.ran)
        outcome, _ = _as(agent, made, user)
        (result,) = outcome.results
        fits = {allow for whose, allow, text in kept if whose == user and alone(text, allow, made)}
        refused = denied is not None and files.agent(permissions=[rule(f"deny {denied}")]).explain(made).decided_by
        if refused:
            assert (result.verdict, "asked" in now) == ("denied", False)
        elif False in fits:
            assert (result.verdict, result.answered_by) == ("denied", "memory")
        elif True in fits:
            assert (result.verdict, result.answered_by) == ("allowed", "memory")
        else:
            assert (result.answered_by, "asked" in now) == ("handler", True)
            allow, text = answer
            if text is not None and alone(text, allow, made):
                kept.append((user, allow, text))
        assert (len(files.ran) > before) is (result.verdict == "allowed")
    assert len(agent.remembered()) == len({(whose, allow, text) for whose, allow, text in kept})


def _as(agent: Agent, made: ToolCall, user: str) -> tuple[Turn, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        turn = agent.use_tools([made], user=user)
    return turn, [str(warning.message) for warning in caught]
