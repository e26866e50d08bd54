"""What a rule or a scope would have covered of a run: read from the log, and of what is masked nothing is guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from answering import Telling, Waiting, say, waiting
from hypothesis import given, settings
from hypothesis import strategies as st
from turns import DRIVERS, run

from agentperm_nb import (
    Agent,
    AllowByArguments,
    AllowByReadOnly,
    ApprovalRequest,
    AskByArguments,
    DecideByHuman,
    DenyByArguments,
    DenyByName,
    Scope,
    Tool,
    ToolCall,
    rule,
)
from agentperm_nb.testing import tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)
SCHEMA = {"type": "object", "properties": {name: {"type": "string"} for name in ("path", "content", "token")}}


def tools(**more: Any) -> list[Tool]:
    return [
        Tool("write", "", SCHEMA, function=lambda **args: "ran", **more),
        Tool("read", "", SCHEMA, function=lambda **args: "ran", read_only=True, **more),
        Tool("delete", "", SCHEMA, function=lambda **args: "ran", **more),
    ]


def made(*answers: Any, **settings: Any) -> Agent:
    given = {
        "permissions": [DenyByName(["delete"]), AllowByReadOnly(), DecideByHuman()],
        "approval_handler": Telling(*answers),
        **settings,
    }
    return Agent(tools(), **given)


def call(name: str, path: str, **more: Any) -> ToolCall:
    return tool_call(name, path=path, **more)


def covered(agent: Agent, what: Any, *more: Any, **how: Any) -> list[bool | None]:
    return [one.covered for one in agent.would_cover(what, *more, **how)]


@both_drivers
def test_the_calls_of_a_run_are_listed_with_what_became_of_them(driver: str) -> None:
    agent = made(True, False)
    run(driver, agent, [call("write", "project/a"), call("read", "project/b"), call("delete", "project/c")])
    run(driver, agent, [call("write", "project/d"), ToolCall("write", {"path": 5}), ToolCall("nothing", {})])
    found = agent.would_cover("*(path=project/**)")
    assert [(one.call, one.then, one.covered) for one in found] == [
        ('write(path="project/a")', "allowed by DecideByHuman()", True),
        ('read(path="project/b")', "allowed by AllowByReadOnly()", True),
        ('delete(path="project/c")', "denied by DenyByName(['delete'])", True),
        ('write(path="project/d")', "denied by DecideByHuman()", True),
        ("write(path=5)", "input_error", False),
        ("nothing()", "input_error", False),
    ]
    assert found.counts == "4 of 6 calls of this run (2 allowed, 2 denied)"
    assert [one.call for one in found.covered] == [one.call for one in found][:4]
    assert (len(found), found.undecidable, found.what) == (6, (), "allow *(path=project/**)")
    assert [one.call_key for one in found] == [row["call_key"] for row in agent.audit.store.rows()]


@pytest.mark.parametrize(
    ("given", "what", "expected"),
    [
        ("write(path=project/*)", "allow write(path=project/*)", [True, False, False]),
        ("allow write(path=project/*)", "allow write(path=project/*)", [True, False, False]),
        ("deny write(path=PROJECT/*)", "deny write(path=PROJECT/*)", [True, False, False]),
        ("ask write(path=PROJECT/*)", "ask write(path=PROJECT/*)", [True, False, False]),
        (AllowByArguments("write", path="PROJECT/*"), "allow write(path=PROJECT/*)", [False, False, False]),
        (DenyByArguments("write"), "deny write", [True, True, False]),
        (AskByArguments("*"), "ask *", [True, True, True]),
        (Scope("pattern", rule="read(path=project/a)"), "allow read(path=project/a)", [False, False, True]),
        (Scope("pattern", "file", rule=DenyByArguments("w*")), "deny w*", [True, True, False]),
        ("allow(path=a)", "allow allow(path=a)", [False, False, False]),
        ('deny because "x"', "allow deny", [False, False, False]),
    ],
    ids=str,
)
def test_a_text_with_or_without_a_verb_a_rule_and_a_scope_will_do(given: Any, what: str, expected: list[bool]) -> None:
    agent = made(True, True)
    agent.use_tools([call("write", "project/a"), call("write", "b"), call("read", "project/a")])
    allow = not (isinstance(given, Scope) and given.lasts == "file")
    found = agent.would_cover(given, allow=allow)
    assert (found.what, [one.covered for one in found]) == (what, expected)


def test_a_rule_without_a_verb_denies_where_that_is_said() -> None:
    agent = made(True)
    agent.use_tools([call("write", "PROJECT/a")])
    assert covered(agent, "write(path=project/*)") == [False]
    assert covered(agent, "write(path=project/*)", allow=False) == [True]


@pytest.mark.parametrize(
    ("given", "error", "problem"),
    [
        ("write(path=", ValueError, "no rule"),
        (5, TypeError, "takes a rule on arguments or a scope"),
        (DenyByName(["write"]), TypeError, "takes a rule on arguments or a scope"),
        (Scope("call"), TypeError, "is about the call whose answer it would be"),
        (Scope("arguments", arguments=["path"]), TypeError, "is about the call whose answer it would be"),
    ],
    ids=str,
)
def test_what_is_neither_is_refused_in_three_parts(given: Any, error: type[Exception], problem: str) -> None:
    with pytest.raises(error, match=rf"{problem}[\s\S]*\nFix: [\s\S]*\nExample:"):
        made().would_cover(given)


# ---------------------------------------------------------------------- pending, scopes, requests


@both_drivers
def test_what_waits_counts_with_its_real_arguments(driver: str) -> None:
    agent = made(approval_handler=None, human=Waiting())
    calls = [call("write", "a", token="tok-1234567"), call("write", "b", token="tok-7654321")]
    with waiting(driver, (agent, calls)):
        first, second = agent.pending()
        assert covered(agent, "write(token=tok-1234567)") == [True, False]
        found = agent.would_cover("write")
        assert [(one.call, one.then) for one in found] == [
            ('write(path="a", token="[masked]")', "waiting"), ('write(path="b", token="[masked]")', "waiting"),
        ]  # fmt: skip
        assert found.counts == "2 of 2 calls of this run (2 waiting)"
        assert covered(agent, Scope("arguments", arguments=["token"]), first) == [True, False]
        assert covered(agent, Scope("call"), second) == [False, True]
        assert covered(agent, Scope("tool"), second) == [True, True]
        assert first.would_cover is not None
        assert first.would_cover(Scope("pattern", rule="write(path=a)")).counts == (
            "1 of 2 calls of this run (1 waiting)"
        )
        for request in (first, second):
            say(request, "deny")
    assert "tok-1234567" not in repr(agent.would_cover("write(token=tok-1234567)"))
    assert covered(agent, "write(token=tok-1234567)") == [None, None]


@both_drivers
def test_a_scope_covers_what_the_answer_would_hold_for(driver: str) -> None:
    seen: list[ApprovalRequest] = []

    def handler(request: ApprovalRequest) -> bool:
        seen.append(request)
        return True

    agent = made(approval_handler=handler)
    first = [call("write", "a"), call("write", "a"), call("write", "a", content="x"), call("write", "b")]
    run(driver, agent, [*first, call("read", "a")])
    for scope, expected in (
        (Scope("call"), [True, True, False, False, False]),
        (Scope("arguments", arguments=["path"]), [True, True, True, False, False]),
        (Scope("arguments", arguments=["content"]), [True, True, False, True, False]),
        (Scope("tool"), [True, True, True, True, False]),
    ):
        request = next(one for one in seen if one.call.args == {"path": "a"})
        assert covered(agent, scope, request) == expected
    request = next(one for one in seen if one.call.args == {"path": "b"})
    assert agent.would_cover(Scope("call"), request).what == 'allow exactly write(path="b")'


# ---------------------------------------------------------------------- what is masked


def test_what_is_masked_is_counted_apart_and_never_guessed() -> None:
    agent = made(*[True] * 4)
    agent.use_tools([call("write", "project/a", token="hunter2222"), call("write", "b", token="hunter2222")])
    agent.use_tools([call("write", "project/c", content="my password=hunter2222"), call("write", "project/d")])
    for text, expected in {
        "write(path=project/*)": [True, False, True, True],
        "write(token=hunter2222)": [None, None, False, False],
        "write(token!=hunter2222)": [None, None, False, False],
        "write(path=project/*, token=hunter2222)": [None, False, False, False],
        "write(content=*milk*)": [False, False, None, False],
        "write(token present)": [None, None, False, False],
        "write(token absent)": [None, None, True, True],
        "deny write(token=[[]masked])": [None, None, False, False],
        "deny write(path=b, token=*)": [False, None, False, False],
        "write": [True, True, True, True],
        "read(token=hunter2222)": [False, False, False, False],
    }.items():
        assert covered(agent, text) == expected, text
    found = agent.would_cover("write(path=project/*, token=hunter2222)")
    assert found.counts == "0 of 4 calls of this run; 1 cannot be told: masked in the log"
    assert [one.call for one in found.undecidable] == ['write(path="project/a", token="[masked]")']
    assert found.what == "allow write(path=project/*, token=[masked])"


def test_where_a_function_of_the_user_masks_nothing_of_a_masked_call_is_taken_as_it_stands() -> None:
    agent = made(True, True, redact=[lambda text: text.replace("ACME-42", "a customer")])
    agent.use_tools([call("write", "ACME-42/a", content="x"), call("write", "b")])
    assert covered(agent, "write(path=a customer/*)") == [None, False]
    assert covered(agent, "write(content=x)") == [None, False]  # nobody knows which of them is masked
    assert covered(agent, "write(token absent)") == [None, True]
    assert covered(agent, "write") == [True, True]


def test_a_call_is_the_same_as_another_one_by_its_digest_though_it_is_masked() -> None:
    seen: list[ApprovalRequest] = []
    agent = made(approval_handler=lambda request: seen.append(request) or True)
    agent.use_tools([call("write", "a", token="tok-1234567"), call("write", "a", token="tok-7654321")])
    request = next(one for one in seen if one.call.args["token"] == "tok-1234567")
    assert covered(agent, Scope("call"), request) == [True, False]
    assert covered(agent, Scope("arguments", arguments=["path", "token"]), request) == [True, None]
    assert covered(agent, Scope("arguments", arguments=["path"]), request) == [True, True]


# ---------------------------------------------------------------------- whose calls, where


@both_drivers
def test_only_the_calls_of_this_run_and_this_user_are_looked_at(driver: str) -> None:
    agent = made(*[True] * 4, user="ann")
    run(driver, agent, [call("write", "a")])
    run(driver, agent, [call("write", "b")], user="bob")
    other = agent.copy(name="other", approval_handler=Telling(True))
    run(driver, other, [call("write", "c")])
    assert [one.call for one in agent.would_cover("write")] == ['write(path="a")']
    assert [one.call for one in other.would_cover("write")] == ['write(path="c")']
    agent.new_run()
    assert len(agent.would_cover("write")) == 0
    assert repr(agent.would_cover("write")) == "allow write would have covered 0 of 0 calls of this run"


def test_paths_are_read_as_they_are_now_in_the_base_folder(tmp_path: Path) -> None:
    agent = made(True, folder=tmp_path)
    (tmp_path / "project").mkdir()
    agent.use_tools([call("write", "project/a")])
    assert covered(agent, "write(path=project/**)") == [True]
    assert covered(agent, f"write(path={tmp_path}/project/**)") == [True]
    (tmp_path / "project").rmdir()
    (tmp_path / "project").symlink_to("/etc")
    (tmp_path / "p2").mkdir()
    assert covered(agent, f"write(path={tmp_path}/**)") == [False]


def test_it_is_a_table_of_text_and_of_html_that_cannot_be_broken_out_of() -> None:
    agent = made(True, True)
    agent.use_tools([call("write", "<b>\x1b[2J"), call("write", "a", token="hunter2222")])
    found = agent.would_cover("write(token=x)")
    first = repr(found).splitlines()
    assert first[0] == (
        "allow write(token=[masked]) would have covered 0 of 2 calls of this run; 1 cannot be told: masked in the log"
    )
    assert first[1].split() == ["call", "when", "then", "covered"]
    assert "\x1b" not in repr(found)
    assert first[4].endswith("cannot be told: masked")
    html = found._repr_html_()
    assert "<b>" not in html
    assert "&lt;b&gt;" in html


# ---------------------------------------------------------------------- property

PATHS = st.sampled_from(["project/a", "project/b", "secret/x", "project/../x", "PROJECT/a", "$X"])
CALLS = st.builds(
    lambda name, path, token: call(name, path, **({} if token is None else {"token": token})),
    st.sampled_from(["write", "read"]), PATHS, st.sampled_from([None, "hunter2222", "other-token-1"]),
)  # fmt: skip
RULES = st.sampled_from(
    ["write(path=project/**)", "*(path=project/*)", "write(token=hunter2222)", "write(path=project/**, token=h*)",
     "read(token!=hunter2222)", "w*(token absent)", "*", "read(path!=secret/*)"]
)  # fmt: skip


@given(st.lists(CALLS, min_size=1, max_size=5), RULES, st.sampled_from(["allow", "deny", "ask"]))
@settings(max_examples=100)
def test_what_is_told_is_what_the_rule_would_say_and_what_is_not_told_needs_what_is_masked(
    calls: list[ToolCall], text: str, verb: str
) -> None:
    agent = made(approval_handler=lambda request: True)
    agent.use_tools(calls)
    permission = rule(f"{verb} {text}", name="it")
    alone = Agent(tools(), permissions=[permission], approval_handler=lambda request: True)
    for one, made_call in zip(agent.would_cover(f"{verb} {text}"), calls, strict=True):
        said = alone.explain(made_call).decided_by == "it"
        if one.covered is None:
            assert "token" in text
            assert "token" in made_call.args
        else:
            assert one.covered is said, (made_call, text)
