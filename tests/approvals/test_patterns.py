"""Remembered rules: what a scope takes for one, which calls it holds for, and that nothing gets round a denial."""

from __future__ import annotations

import pickle
import re
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentperm_nb import AllowByArguments, Allowed, AskByArguments, Denied, DenyByArguments, rule
from agentperm_nb.approvals.decisions import ApprovalDecision, Scope, as_decision
from agentperm_nb.approvals.memory import Memory, Remembered, covers_text
from agentperm_nb.calls import ToolCall
from agentperm_nb.context import RunContext, running_in
from agentperm_nb.tools import Tool

HERE = RunContext("run_1", "session_1", "ann", ("main",), folder="/base")
ANN, BOSS = object(), object()
WRITE = Tool(
    "write",
    "",
    {"type": "object", "properties": {"path": {"type": "string"}, "n": {"type": "integer"}, "to": {"type": "string"}}},
    function=lambda **args: None,
)


def call(name: str = "write", **args: Any) -> ToolCall:
    return ToolCall(name, args)


def pattern(text: str, lasts: Any = "run") -> Scope:
    return Scope("pattern", lasts, rule=text)


def keep(memory: Memory, text: str, *, allow: bool = True, lasts: Any = "run", **more: Any) -> Remembered:
    given = {"context": HERE, "asked": ANN, **more}
    return memory.remember(given.pop("context"), call(), pattern(text, lasts), allow=allow, **given)


def holds(memory: Memory, made: ToolCall, context: RunContext = HERE, asked: object = ANN) -> bool | None:
    found = memory.look_up(replace(context, links={}), made, asked, tool=WRITE)
    return None if found is None else found.allow


# ---------------------------------------------------------------------- the scope


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("write(path=project/**)", "write(path=project/**)"),
        ("  write( path = project/** )  ", "write(path=project/**)"),
        ("write", "write"),
        ("fs__*(path=a)", "fs__*(path=a)"),
        ('write(path="a, b") because "so"', 'write(path="a, b") because "so"'),
        ("allow", "allow"),
        ("deny(n=1)", "deny(n=1)"),
    ],
)
def test_a_pattern_is_a_rule_without_its_verb_which_the_answer_says(given: str, kept: str) -> None:
    scope = pattern(given)
    assert scope.rule == kept
    assert str(scope.permission(allow=True)) == f"allow {kept}"
    assert str(scope.permission(allow=False)) == f"deny {kept}"
    assert (type(scope.permission(allow=True)), type(scope.permission(allow=False))) == (
        AllowByArguments,
        DenyByArguments,
    )
    assert pickle.loads(pickle.dumps(scope)) == scope == Scope("pattern", rule=kept)
    assert hash(scope) == hash(Scope("pattern", rule=kept))
    decision = ApprovalDecision("remember_deny", scope=scope)
    assert as_decision(decision) == decision


@pytest.mark.parametrize(
    ("text", "problem", "mark"),
    [
        ("write(path=)", "a value is missing", 11),
        ("write(path=a", "the closing bracket is missing", 12),
        ("", "the name of a tool is missing", 0),
        ("allow write(path=a)", "it begins with allow, and here a rule has no verb", 0),
        ("deny write", "it begins with deny, and here a rule has no verb", 0),
        ("write(path=a) and more", "the rule has ended before this", 14),
        ("write(n in {})", "there is nothing in the set", 12),
    ],
)
def test_a_text_that_is_no_rule_is_refused_when_the_scope_is_made_and_the_place_is_marked(
    text: str, problem: str, mark: int
) -> None:
    with pytest.raises(ValueError, match=rf"{re.escape(problem)}[\s\S]*\nFix: [\s\S]*Example:[\s\S]*Scope\(") as caught:
        pattern(text)
    assert str(caught.value).split("\n")[2] == f"    {' ' * mark}^"


class Everything(AllowByArguments):
    """A rule with a check of its own."""

    blocking = False

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Allowed:
        return Allowed()


@pytest.mark.parametrize(
    ("fields", "error", "problem"),
    [
        ({"covers": "pattern"}, ValueError, "covers a pattern has none"),
        ({"covers": "tool", "rule": "write"}, ValueError, "rule= with covers='tool'"),
        ({"rule": "write"}, ValueError, "rule= with covers='call'"),
        ({"covers": "pattern", "rule": "write", "arguments": ["n"]}, ValueError, "arguments= with covers='pattern'"),
        ({"covers": "tool", "lasts": "file"}, ValueError, "a file holds rules"),
        ({"covers": "arguments", "arguments": ["n"], "lasts": "file"}, ValueError, "a file holds rules"),
        ({"covers": "pattern", "rule": 5}, TypeError, "takes a rule on arguments"),
        ({"covers": "pattern", "rule": b"write"}, TypeError, "takes a rule on arguments"),
        ({"covers": "pattern", "rule": Everything("write", n=1)}, TypeError, "takes a rule on arguments"),
        ({"covers": "pattern", "rule": AskByArguments("write")}, ValueError, "a rule that allows or denies"),
    ],
    ids=str,
)
def test_what_is_no_pattern_is_refused_in_three_parts(
    fields: dict[str, Any], error: type[Exception], problem: str
) -> None:
    with pytest.raises(error, match=rf"{re.escape(problem)}[\s\S]*\nFix: [\s\S]*\nExample:"):
        Scope(**fields)


def test_a_rule_made_in_python_has_to_say_what_the_answer_says() -> None:
    deny = Scope("pattern", rule=DenyByArguments("write", path="**/.env"))
    assert ApprovalDecision("remember_deny", scope=deny).scope == deny
    assert deny.permission(allow=False) == rule("deny write(path=**/.env)")
    with pytest.raises(ValueError, match=r"does not allow[\s\S]*Fix: [\s\S]*Example:"):
        ApprovalDecision("remember_allow", scope=deny)
    with pytest.raises(ValueError, match="has no rule"):
        Scope("tool").permission(allow=True)
    with pytest.raises(ValueError, match="keeps nothing for a file"):
        keep(Memory(), "write", lasts="file")


def test_a_denial_that_was_forged_into_an_allow_is_no_answer() -> None:
    decision = ApprovalDecision("remember_deny", scope=Scope("pattern", rule=DenyByArguments("write", path="**/.env")))
    object.__setattr__(decision, "action", "remember_allow")
    assert as_decision(decision) is None
    other = ApprovalDecision("remember_allow", scope=pattern("write(n=1)"))
    object.__setattr__(other.scope, "rule", Everything("write"))
    assert as_decision(other) is None


# ---------------------------------------------------------------------- which calls


@pytest.mark.parametrize(
    ("text", "made", "allowed", "denied"),
    [
        ("write(path=project/**)", call(path="project/a.txt"), True, False),
        ("write(path=project/**)", call(path="project/../a.txt"), None, None),
        ("write(path=project/**)", call(path="./PROJECT/a.txt"), None, False),
        ("write(path=project/**)", call(path="$X/a.txt"), None, False),
        ("write(path=project/**)", call(path="a.txt"), None, None),
        ("write(path=project/**)", call(n=1), None, None),
        ("write(n<=5)", call(n=5), True, False),
        ("write(n<=5)", call(n=6), None, None),
        ("write(n<=5)", call(n=True), None, False),
        ("write(to=@example.com)", call(to="bob@example.com"), True, False),
        ("write(to=@example.com)", call(to="bob@example.com, eve@evil.com"), None, False),
        ("write(nothing=1)", call(n=1), None, False),
        ("write", call(), True, False),
        ("w*", call(n=1), True, False),
        ("WRITE", call(n=1), None, False),
        ("write_all", call(n=1), None, None),
    ],
    ids=str,
)
def test_an_allow_reads_narrow_and_a_denial_wide(
    text: str, made: ToolCall, allowed: bool | None, denied: bool | None
) -> None:
    for lasts in ("run", "session"):
        yes, no = Memory(), Memory()
        keep(yes, text, lasts=lasts)
        keep(no, text, allow=False, lasts=lasts)
        assert (holds(yes, made), holds(no, made)) == (allowed, denied)


def test_r27_the_name_of_a_tool_has_to_be_the_whole_name() -> None:
    memory = Memory()
    keep(memory, "bash")
    assert holds(memory, call("bash")) is True
    for name in ("bash_admin", "bas", "Bash", "bash ", "xbash"):
        assert holds(memory, call(name)) is None


EXACT = {
    "call": Scope("call"),
    "path": Scope("arguments", arguments=["path"]),
    "tool": Scope("tool"),
    "pattern": pattern("write(path=project/*)"),
    "session pattern": pattern("w*", "session"),
}


@pytest.mark.parametrize("no", EXACT)
@pytest.mark.parametrize("yes", EXACT)
@pytest.mark.parametrize("first", [True, False], ids=["allowed first", "denied first"])
def test_a_denial_wins_over_an_allow_whatever_their_kinds(yes: str, no: str, first: bool) -> None:
    memory, made = Memory(), call(path="project/a.txt")
    for scope, allow in [(EXACT[yes], True), (EXACT[no], False)][:: 1 if first else -1]:
        memory.remember(HERE, made, scope, allow=allow, asked=ANN)
    assert holds(memory, made) is False
    memory.revoke(2 if first else 1)
    assert holds(memory, made) is True


def test_the_same_rule_takes_the_place_of_the_one_before_and_the_opposite_does_not() -> None:
    memory = Memory()
    keep(memory, "write(n=1)")
    keep(memory, "write( n = 1 )")
    keep(memory, "write(n=1)", allow=False)
    keep(memory, "write(n=1)", lasts="session")
    keep(memory, "write(n=1)", asked=BOSS)
    assert [one.number for one in memory.answers()] == [2, 3, 4, 5]


def test_an_allow_that_does_not_count_leaves_room_for_another_and_a_denial_always_counts() -> None:
    memory = Memory()
    keep(memory, "write", approver="ann")
    keep(memory, "write(n=1)", approver="bob")
    found = memory.look_up(HERE, call(n=1), ANN, tool=WRITE, counts=lambda one: one.approver == "bob")
    assert found is not None
    assert found.number == 2
    keep(memory, "w*", approver="ann", allow=False)
    found = memory.look_up(HERE, call(n=1), ANN, tool=WRITE, counts=lambda one: False)
    assert found is not None
    assert found.allow is False


# ---------------------------------------------------------------------- for whom, where, how long


@pytest.mark.parametrize(
    ("context", "asked", "in_run", "in_session"),
    [
        (HERE, ANN, True, True),
        (replace(HERE, run_id="run_2"), ANN, None, True),
        (replace(HERE, session_id="session_2"), ANN, True, None),
        (replace(HERE, user_id="bob"), ANN, None, None),
        (replace(HERE, user_id=None), ANN, None, None),
        (replace(HERE, agent_path=("main", "helper")), ANN, None, None),
        (replace(HERE, agent_path=()), ANN, None, None),
        (HERE, BOSS, None, None),
    ],
    ids=[
        "here",
        "another run",
        "another session",
        "another user",
        "no user",
        "a subagent",
        "no agent",
        "another asked",
    ],
)
@pytest.mark.parametrize("allow", [True, False], ids=["allow", "deny"])
def test_a_rule_holds_for_one_user_one_agent_and_whoever_was_asked(
    context: RunContext, asked: object, in_run: bool | None, in_session: bool | None, allow: bool
) -> None:
    for lasts, expected in (("run", in_run), ("session", in_session)):
        memory = Memory()
        keep(memory, "write(path=project/**)", lasts=lasts, allow=allow)
        assert holds(memory, call(path="project/a"), context, asked) is (None if expected is None else allow)


def test_an_allow_on_paths_holds_in_the_base_folder_in_which_it_was_given_and_a_denial_in_all() -> None:
    memory, elsewhere = Memory(), replace(HERE, folder="/etc")
    keep(memory, "write(path=project/**)", lasts="session")
    keep(memory, "write(n=1)", lasts="session")
    keep(memory, "write(path=secret/**)", lasts="session", allow=False)
    assert (holds(memory, call(path="project/a")), holds(memory, call(path="project/a"), elsewhere)) == (True, None)
    assert (holds(memory, call(n=1)), holds(memory, call(n=1), elsewhere)) == (True, True)
    assert (holds(memory, call(path="secret/a")), holds(memory, call(path="secret/a"), elsewhere)) == (False, False)


def test_links_are_followed_at_the_moment_of_deciding(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "secret").mkdir()
    here, memory = replace(HERE, folder=str(tmp_path)), Memory()
    keep(memory, "write(path=project/**)", context=here)
    (tmp_path / "project" / "data").mkdir()
    assert holds(memory, call(path="project/data/a.txt"), here) is True
    (tmp_path / "project" / "data").rmdir()
    (tmp_path / "project" / "data").symlink_to(tmp_path / "secret")
    assert holds(memory, call(path="project/data/a.txt"), here) is None


def test_rules_are_revoked_and_forgotten_like_other_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = Memory()
    keep(memory, "write(n=1)")
    keep(memory, "write(n=2)", lasts="session")
    keep(memory, "write(n=1)", allow=False)
    assert [holds(memory, call(n=n)) for n in (1, 2)] == [False, True]
    memory.revoke(3)
    assert [holds(memory, call(n=n)) for n in (1, 2)] == [True, True]
    memory.end_run("run_1")
    assert [holds(memory, call(n=n)) for n in (1, 2)] == [None, True]
    monkeypatch.setattr("agentperm_nb.approvals.memory.KEPT", 3)
    for n in (3, 4, 5):
        keep(memory, f"write(n={n})")
    assert [holds(memory, call(n=n)) for n in (2, 3, 5)] == [None, True, True]
    memory.revoke_all()
    assert [holds(memory, call(n=n)) for n in range(6)] == [None] * 6
    assert memory._patterns == {}


def test_a_rule_is_listed_with_the_calls_that_it_fits() -> None:
    scope = pattern('write(path=project/**) because "notes"', "session")
    words = covers_text(scope, "write", {})
    kept = Memory().remember(HERE, call(), scope, allow=True, asked=ANN, covers=words, rule="allow write(…)")
    assert repr(kept) == "Remembered(1: allow calls that fit write(path=project/**), for the session)"
    assert (kept.tool, kept.rule, kept.scope) == ("write", "allow write(…)", scope)
    several = covers_text(pattern("fs__*(path=a)"), "fs__read", {})
    assert several == "calls of every tool called like fs__* that fit fs__*(path=a)"
    deny = Scope("pattern", rule=DenyByArguments("write", reason="not there", n=1))
    assert covers_text(deny, "write", {}) == "calls that fit write(n=1)"


# ---------------------------------------------------------------------- many


def test_of_many_rules_all_count_and_a_thousand_take_no_time(tmp_path: Path) -> None:
    memory, here = Memory(), replace(HERE, folder=str(tmp_path))
    for n in range(1000):
        keep(memory, f"write(path=folder{n}/**)", context=here)
        if n % 100 == 0:
            keep(memory, f"write(path=folder{n}/no/**)", context=here, allow=False)
    for n in (0, 1, 500, 999):
        assert holds(memory, call(path=f"folder{n}/a"), here) is True
        assert holds(memory, call(path=f"folder{n}/no/a"), here) is (n % 100 != 0)
    assert holds(memory, call(path="folder1000/a"), here) is None
    made = call(path="elsewhere/a")
    start = time.perf_counter()
    for _ in range(100):
        assert memory.look_up(here, made, ANN, tool=WRITE) is None
    assert time.perf_counter() - start < 0.5  # 5 ms each: a hundred times what it takes


# ---------------------------------------------------------------------- properties

PATHS = st.sampled_from(
    ["project/a.txt", "project/sub/b", "./project//a.txt", "project/../secret/x", "PROJECT/a.txt", "project", "../x",
     "secret/x", "/base/project/a.txt", "~/project/a", "$HOME/project/a", "project/\u202ea", "project%2fa", "", "a\0b"]
)  # fmt: skip
VALUES = st.one_of(PATHS, st.integers(-2, 12), st.booleans(), st.none(), st.lists(PATHS, max_size=2), st.floats(0, 9))
ARGS = st.dictionaries(st.sampled_from(["path", "n", "to", "other"]), VALUES, max_size=3)
NAMES = st.sampled_from(["write", "write", "Write", "write_all", "read"])
RULES = st.sampled_from(
    ["write(path=project/**)", "write(path=project/*)", "write(path!=secret/**)", "write(path=**)", "write(n<=5)",
     "write(n=1)", "write(n!=1)", "write(n absent)", "write(path present, n in {1, 2})", "w*(path=project/**)", "*",
     "write", "write(to=@example.com)", "write(other=1)", "[wr]*(n>=0)", "write(path=any project/*)"]
)  # fmt: skip
WHO = st.tuples(st.sampled_from(["ann", "bob"]), st.sampled_from([("main",), ("main", "sub")]), st.sampled_from([0, 1]))


def fits(text: str, allow: bool, made: ToolCall, folder: str) -> bool:
    """Say what the same permission in a list says of a call."""
    permission = (AllowByArguments if allow else DenyByArguments)(  # not made by the scope
        (read := rule(f"allow {text}")).tool, arguments=[(one.field.text, one.matcher) for one in read.conditions]
    )
    with running_in(replace(HERE, folder=folder, links={})):
        return isinstance(permission.check(None, made, WRITE), Allowed if allow else Denied)


@given(
    st.lists(st.tuples(WHO, RULES, st.booleans(), st.sampled_from(["run", "session"])), max_size=25),
    st.lists(st.tuples(WHO, NAMES, ARGS), min_size=1, max_size=5),
    st.sampled_from([0, 25]),
)
@settings(max_examples=300)
@pytest.mark.timeout(120)
def test_a_remembered_rule_says_what_the_same_permission_says_and_crosses_no_user_agent_or_person(
    kept: list[Any], calls: list[Any], more: int
) -> None:
    memory, asked = Memory(), [ANN, BOSS]
    for (user, path, who), text, allow, lasts in kept:
        context = replace(HERE, user_id=user, agent_path=path)
        memory.remember(context, call(), pattern(text, lasts), allow=allow, asked=asked[who])
    for n in range(more):  # so many that they are looked up in an index
        keep(memory, f"write(path=many/{n})")
    for (user, path, who), name, args in calls:
        made, context = ToolCall(name, args), replace(HERE, user_id=user, agent_path=path, links={})
        found = memory.look_up(context, made, asked[who], tool=WRITE)
        said = {
            allow
            for (*whose, text, allow) in [(*entry[0], entry[1], entry[2]) for entry in kept]
            if whose == [user, path, who] and fits(text, allow, made, HERE.folder)
        }
        assert (None if found is None else found.allow) is (False if False in said else True if said else None)
