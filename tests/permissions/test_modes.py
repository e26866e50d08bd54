"""Modes and the objects that decide by user, by hand and from a configuration: no agent, and no event loop."""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Coroutine, Mapping
from typing import Any

import loomflow
import loomflow.security as there
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loomflow.core.types import ToolCall as CallThere

from agentperm_nb import (
    AllowAll,
    AllowByDefault,
    DecideByHuman,
    Denied,
    DenyByName,
    DenyPermission,
    Mode,
    PermissionDecision,
    Permissions,
    PerUserPermissions,
    StandardPermissions,
    Tool,
    ToolCall,
)
from agentperm_nb.permissions.policy import PermissionPolicy

TOOL = Tool("write", "", {"type": "object"}, function=print)
ALLOW, DENY, ASK = "allow", "deny", "ask"


def at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return what a coroutine returns that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    coroutine.close()
    raise AssertionError("it waits for something")


def call(name: str, destructive: bool | None = None) -> ToolCall:
    made = ToolCall(name, {"path": "notes.txt"})
    return made if destructive is None else made.marked(destructive)


def said(decision: Any) -> tuple[str, str | None]:
    return decision.decision, decision.reason


def asked(permissions: Any, name: str, destructive: bool | None = None, user: str | None = None) -> Any:
    return at_once(permissions.check(call(name, destructive), context={}, user_id=user))


class Office:
    """A mode object of a user's own."""

    def __init__(self, answer: PermissionDecision | None = None) -> None:
        self.answer = answer or PermissionDecision.ask_("the office is closed")
        self.users: list[str | None] = []

    def __repr__(self) -> str:
        return "Office()"

    async def check(
        self, call: ToolCall, *, context: Mapping[str, Any], user_id: str | None = None
    ) -> PermissionDecision:
        self.users.append(user_id)
        return self.answer


class BeforeUsers:
    """A mode object that was written before there were users."""

    async def check(self, call: ToolCall, *, context: Mapping[str, Any]) -> PermissionDecision:
        return PermissionDecision.deny_(f"{call.tool}: not today")


# --- Mode and PermissionDecision --------------------------------------------------------------------------------------


@pytest.mark.states("MA1.1")
def test_a_mode_is_the_text_that_is_published() -> None:
    assert [(mode.name, mode.value, str(mode), mode == mode.value) for mode in Mode] == [
        ("DEFAULT", "default", "default", True),
        ("ACCEPT_EDITS", "acceptEdits", "acceptEdits", True),
        ("BYPASS", "bypassPermissions", "bypassPermissions", True),
    ]
    assert [(mode.name, str(mode)) for mode in Mode] == [(mode.name, str(mode)) for mode in there.Mode]


@pytest.mark.states("MA1.2")
def test_a_decision_says_one_of_three_things_and_perhaps_why() -> None:
    made = [
        PermissionDecision.allow_(),
        PermissionDecision.allow_("it is harmless"),
        PermissionDecision.deny_("not today"),
        PermissionDecision.ask_(),
        PermissionDecision.ask_("it is late"),
    ]
    assert [(one.decision, one.allow, one.deny, one.ask, one.reason) for one in made] == [
        ("allow", True, False, False, None),
        ("allow", True, False, False, "it is harmless"),
        ("deny", False, True, False, "not today"),
        ("ask", False, False, True, None),
        ("ask", False, False, True, "it is late"),
    ]
    published = [
        loomflow.PermissionDecision.allow_(),
        loomflow.PermissionDecision.allow_("it is harmless"),
        loomflow.PermissionDecision.deny_("not today"),
        loomflow.PermissionDecision.ask_(),
        loomflow.PermissionDecision.ask_("it is late"),
    ]
    assert [said(one) for one in made] == [said(one) for one in published]


@pytest.mark.states("MA1.2")
def test_a_decision_never_changes_and_a_denial_says_why() -> None:
    decision = PermissionDecision.deny_("no")
    with pytest.raises(AttributeError):
        decision.decision = "allow"  # type: ignore[misc]
    with pytest.raises(TypeError, match="reason"):
        PermissionDecision.deny_()  # type: ignore[call-arg]
    assert decision == PermissionDecision("deny", "no") != PermissionDecision("deny", "never")
    assert len({decision, PermissionDecision("deny", "no")}) == 1


@pytest.mark.parametrize(
    ("decision", "reason", "error", "words"),
    [
        ("ALLOW", None, ValueError, "'ALLOW' is not a decision"),
        ("Allow", None, ValueError, "in lower case"),
        ("", None, ValueError, "'' is not a decision"),
        ("yes", None, ValueError, "use one of 'allow', 'deny', 'ask'"),
        (" allow", None, ValueError, "is not a decision"),
        (Mode.DEFAULT, None, ValueError, "is not a decision"),
        (True, None, TypeError, "a decision is a word"),
        (None, None, TypeError, "a decision is a word"),
        (1, None, TypeError, "a decision is a word"),
        ("deny", 5, TypeError, "reason= takes a text"),
        ("allow", ["because"], TypeError, "reason= takes a text"),
    ],
)
def test_a_decision_of_another_word_cannot_be_made(
    decision: Any, reason: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        PermissionDecision(decision, reason)
    assert "\nFix: " in str(caught.value)


def test_whatever_has_such_a_check_is_an_object_with_permissions() -> None:
    assert all(isinstance(one, Permissions) for one in [StandardPermissions(), AllowAll(), Office()])
    assert not isinstance(PermissionDecision.allow_(), Permissions)


# --- the published table ----------------------------------------------------------------------------------------------

LISTS = {"left out": None, "empty": [], "with it": ["write"], "without it": ["search"]}
MATRIX = [
    pytest.param(
        mode, allowed, denied, edits, destructive, id=f"{mode}, allowed {a}, denied {d}, edits {e}, {destructive}"
    )
    for mode in Mode
    for (a, allowed), (d, denied) in itertools.product(LISTS.items(), LISTS.items())
    for e, edits in LISTS.items()
    if e != "left out"  # what it means differs: docs/differences.md
    for destructive in (True, False)
]


@pytest.mark.states("MA1.4")
@pytest.mark.parametrize(("mode", "allowed", "denied", "edits", "destructive"), MATRIX)
def test_every_setting_decides_as_the_published_one(
    mode: Mode, allowed: list[str] | None, denied: list[str] | None, edits: list[str], destructive: bool
) -> None:
    lists: dict[str, Any] = {"allowed_tools": allowed, "denied_tools": denied, "edit_tools": edits}
    published = there.StandardPermissions(mode=there.Mode(str(mode)), **lists)
    expected = at_once(published.check(CallThere(tool="write", destructive=destructive), context={}, user_id=None))
    ours = StandardPermissions(mode=mode, **lists)
    assert said(ours.decide(call("write", destructive))) == said(expected)
    assert said(asked(ours, "write", destructive)) == said(expected)


# What its documentation says of the modes, for a tool that no list names.
DOCUMENTED = [
    (Mode.DEFAULT, False, ALLOW),
    (Mode.DEFAULT, True, ASK),
    (Mode.ACCEPT_EDITS, False, ALLOW),
    (Mode.ACCEPT_EDITS, True, ALLOW),
    (Mode.BYPASS, False, ALLOW),
    (Mode.BYPASS, True, ALLOW),
]


@pytest.mark.states("MA1.4")
@pytest.mark.parametrize(("mode", "destructive", "expected"), DOCUMENTED)
def test_the_modes_do_what_is_documented(mode: Mode, destructive: bool, expected: str) -> None:
    assert StandardPermissions(mode=mode).decide(call("write", destructive)).decision == expected


@pytest.mark.states("MA1.4")
@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("destructive", [True, False])
def test_a_denied_tool_beats_an_allowed_one_and_both_beat_the_mode(mode: Mode, destructive: bool) -> None:
    both = StandardPermissions(mode=mode, allowed_tools=["rm"], denied_tools=["rm"], edit_tools=["rm", "write"])
    assert said(both.decide(call("rm", destructive))) == (DENY, "rm: denied by policy")
    assert said(both.decide(call("write", destructive))) == (DENY, "write: not in allow-list")
    none = StandardPermissions(mode=mode, allowed_tools=[])
    assert said(none.decide(call("rm", destructive))) == (DENY, "rm: not in allow-list")


@pytest.mark.states("MA1.4")
def test_to_be_allowed_spares_no_question() -> None:
    decision = StandardPermissions(allowed_tools=["rm"]).decide(call("rm", True))
    assert said(decision) == (ASK, "rm: destructive call requires approval")


@pytest.mark.parametrize(
    ("edit_tools", "write", "bash", "read"),
    [
        pytest.param(None, ALLOW, ALLOW, ALLOW, id="documented: all that may destroy something"),
        pytest.param(["write", "edit"], ALLOW, ASK, ALLOW, id="released: those that are named"),
        pytest.param([], ASK, ASK, ALLOW, id="none"),
    ],
)
def test_accepted_edits_are_all_or_those_that_are_named(
    edit_tools: list[str] | None, write: str, bash: str, read: str
) -> None:
    modes = StandardPermissions(mode=Mode.ACCEPT_EDITS, edit_tools=edit_tools)
    calls = [call("write", True), call("bash", True), call("read", False)]
    assert [modes.decide(one).decision for one in calls] == [write, bash, read]
    for other in (Mode.DEFAULT, Mode.BYPASS):  # they are of this mode alone
        assert [StandardPermissions(mode=other, edit_tools=edit_tools).decide(one).decision for one in calls] == [
            StandardPermissions(mode=other).decide(one).decision for one in calls
        ]


@pytest.mark.parametrize(
    ("options", "name", "destructive", "decision", "part"),
    [
        ({"denied_tools": ["rm"], "mode": Mode.BYPASS}, "rm", False, DENY, "denied_tools"),
        ({"allowed_tools": ["ls"], "mode": Mode.BYPASS}, "rm", False, DENY, "allowed_tools"),
        ({"mode": Mode.BYPASS}, "rm", True, ALLOW, "bypassPermissions"),
        ({"mode": Mode.BYPASS}, "ls", False, ALLOW, "bypassPermissions"),
        ({"mode": Mode.ACCEPT_EDITS}, "rm", True, ALLOW, "acceptEdits"),
        ({"mode": Mode.ACCEPT_EDITS}, "ls", False, ALLOW, "default"),
        ({"mode": Mode.ACCEPT_EDITS, "edit_tools": ["write"]}, "write", True, ALLOW, "acceptEdits"),
        ({"mode": Mode.ACCEPT_EDITS, "edit_tools": ["write"]}, "rm", True, ASK, "destructive"),
        ({}, "rm", True, ASK, "destructive"),
        ({}, "rm", None, ASK, "destructive"),
        ({}, "ls", False, ALLOW, "default"),
        ({"allowed_tools": ["ls"]}, "ls", False, ALLOW, "default"),
    ],
)
def test_it_says_what_decided(
    options: dict[str, Any], name: str, destructive: bool | None, decision: str, part: str
) -> None:
    found, word = StandardPermissions(**options).decide_with_part(call(name, destructive), "ann")
    assert (found.decision, word) == (decision, part)


# --- a reference, from the published text -----------------------------------------------------------------------------

NAMES = ["write", "edit", "bash", "search"]
some_names = st.none() | st.lists(st.sampled_from(NAMES), max_size=3)
settings = st.fixed_dictionaries(
    {
        "mode": st.sampled_from(list(Mode)),
        "allowed_tools": some_names,
        "denied_tools": some_names,
        "edit_tools": some_names,
    }
)


def reference(settings: dict[str, Any], tool: str, destructive: bool) -> tuple[str, str | None]:
    """The published order, as a list of what applies and what follows."""
    allowed, denied, edits = settings["allowed_tools"], settings["denied_tools"] or [], settings["edit_tools"]
    accepted = destructive if edits is None else tool in edits
    order = [
        (tool in denied, (DENY, f"{tool}: denied by policy")),
        (allowed is not None and tool not in allowed, (DENY, f"{tool}: not in allow-list")),
        (settings["mode"] is Mode.BYPASS, (ALLOW, None)),
        (settings["mode"] is Mode.ACCEPT_EDITS and accepted, (ALLOW, None)),
        (destructive, (ASK, f"{tool}: destructive call requires approval")),
        (True, (ALLOW, None)),
    ]
    return next(follows for applies, follows in order if applies)


@pytest.mark.states("MA1.4", "MA1.7")
@given(
    policies=st.dictionaries(st.sampled_from(["ann", "bob", None]), settings),
    default=settings,
    user=st.sampled_from(["ann", "bob", "eve", None]),
    tool=st.sampled_from(NAMES),
    destructive=st.booleans(),
)
def test_modes_decide_as_a_reference_does_that_was_written_from_the_published_text(
    policies: dict[str | None, dict[str, Any]],
    default: dict[str, Any],
    user: str | None,
    tool: str,
    destructive: bool,
) -> None:
    ours = PerUserPermissions(
        {who: StandardPermissions(**one) for who, one in policies.items()}, StandardPermissions(**default)
    )
    expected = reference(policies.get(user, default), tool, destructive)
    assert said(asked(ours, tool, destructive, user)) == expected
    assert said(ours.for_user(user).decide(call(tool, destructive), user)) == expected


@given(settings=settings, more=st.sampled_from(NAMES), tool=st.sampled_from(NAMES), destructive=st.booleans())
def test_to_deny_a_further_tool_never_allows_one(
    settings: dict[str, Any], more: str, tool: str, destructive: bool
) -> None:
    before = StandardPermissions(**settings).decide(call(tool, destructive))
    settings = {**settings, "denied_tools": [*(settings["denied_tools"] or []), more]}
    after = StandardPermissions(**settings).decide(call(tool, destructive))
    assert after.deny if tool == more else after == before


@given(settings=settings, tool=st.sampled_from(NAMES), destructive=st.booleans())
def test_its_denies_deny_exactly_what_it_denies_whatever_the_mode(
    settings: dict[str, Any], tool: str, destructive: bool
) -> None:
    modes = StandardPermissions(**settings)
    denied = [deny.check(None, call(tool, destructive), TOOL) for deny in modes.denies()]
    decision = modes.decide(call(tool, destructive))
    first = next((verdict for verdict in denied if verdict is not None), None)
    assert first == (Denied(decision.reason or "") if decision.deny else None)


# --- whether a call may destroy something -----------------------------------------------------------------------------


class Odd:
    """A call with an odd answer."""

    tool = "write"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def is_destructive(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("answer", [None, 0, "", "no", [], 0.0, "False"])
def test_only_a_plain_no_means_that_a_call_destroys_nothing(answer: Any) -> None:
    assert StandardPermissions().decide(Odd(answer)).ask  # type: ignore[arg-type]
    assert StandardPermissions().decide(Odd(False)).allow  # type: ignore[arg-type]


def test_a_call_that_cannot_say_is_not_decided() -> None:
    with pytest.raises(OSError, match="gone"):
        StandardPermissions().decide(Odd(OSError("gone")))  # type: ignore[arg-type]


def test_a_call_that_nobody_marked_may_destroy_something() -> None:
    assert StandardPermissions().decide(ToolCall("write")).ask


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["delete_file", "DELETE_FILE", "delete_f\u200bile", "\uff44elete_file", "delete_"])
def test_denied_names_read_wide(name: str) -> None:
    assert StandardPermissions(mode=Mode.BYPASS, denied_tools=["delete_*"]).decide(call(name)).deny
    assert StandardPermissions(denied_tools=["Delete_*"]).denies()[0].check(None, call(name), TOOL) is not None


@pytest.mark.parametrize("name", ["Read_file", "read_file2", "my_read_file", "\uff52ead_file", "read_f\u200bile"])
def test_allowed_names_and_edits_read_narrow(name: str) -> None:
    assert StandardPermissions(mode=Mode.BYPASS, allowed_tools=["read_file"]).decide(call(name)).deny
    edits = StandardPermissions(mode=Mode.ACCEPT_EDITS, edit_tools=["read_file"])
    assert edits.decide(call(name, True)).ask


@pytest.mark.parametrize(("pattern", "name"), [("write_*", "write_file"), ("w?", "wc"), ("[ab]", "a"), ("[!a]", "b")])
def test_names_take_wildcards(pattern: str, name: str) -> None:
    assert StandardPermissions(denied_tools=[pattern]).decide(call(name, False)).deny
    assert StandardPermissions(allowed_tools=[pattern]).decide(call(name, False)).allow
    assert StandardPermissions(mode=Mode.ACCEPT_EDITS, edit_tools=[pattern]).decide(call(name, True)).allow


@pytest.mark.parametrize("names", [("b", "a"), {"b", "a"}, frozenset({"a", "b"}), (name for name in "ba"), ["b", "a"]])
def test_names_come_in_any_collection(names: Any) -> None:
    modes = StandardPermissions(denied_tools=names)
    assert set(modes.denied_tools) == {"a", "b"}
    assert modes.decide(call("a", False)).deny
    assert not isinstance(names, set | frozenset) or modes.denied_tools == ("a", "b")


# --- misuse -----------------------------------------------------------------------------------------------------------

LIST_ARGUMENTS = ("allowed_tools", "denied_tools", "edit_tools")


@pytest.mark.parametrize("argument", LIST_ARGUMENTS)
@pytest.mark.parametrize(
    ("names", "error", "words"),
    [
        ("rm", TypeError, "takes a list of names of tools"),
        (b"rm", TypeError, "takes a list of names of tools"),
        ({"rm": True}, TypeError, "takes a list of names of tools"),
        (5, TypeError, "takes a list of names of tools"),
        (True, TypeError, "takes a list of names of tools"),
        ([5], TypeError, "takes names of tools as texts"),
        ([None], TypeError, "takes names of tools as texts"),
        ([b"rm"], TypeError, "takes names of tools as texts"),
        ([""], ValueError, "which no tool can have"),
        (["  "], ValueError, "which no tool can have"),
        (["rm ls"], ValueError, "which no tool can have"),
        (["rm", "ls\n"], ValueError, "which no tool can have"),
    ],
)
def test_what_is_no_list_of_names_is_refused(argument: str, names: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=f"{argument}= .*{words}|{argument}= has the name .*{words}") as caught:
        StandardPermissions(**{argument: names})
    assert f"Example:\n    StandardPermissions({argument}=[" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"mode": "bypass"}, ValueError, "'bypass' is not a mode"),
        ({"mode": "BYPASS"}, ValueError, "or their values 'default', 'acceptEdits', 'bypassPermissions'"),
        ({"mode": ""}, ValueError, "'' is not a mode"),
        ({"mode": None}, TypeError, "mode= takes a Mode"),
        ({"mode": True}, TypeError, "mode= takes a Mode"),
        ({"trust_mcp": "yes"}, TypeError, "trust_mcp= takes True or False"),
        ({"trust_mcp": 1}, TypeError, "trust_mcp= takes True or False"),
        ({"trust_mcp": None}, TypeError, "trust_mcp= takes True or False"),
        ({"name": 5}, TypeError, "name= takes a text"),
        ({"name": " "}, ValueError, "name= is blank"),
    ],
)
def test_other_settings_are_checked_too(options: dict[str, Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        StandardPermissions(**options)
    assert "\nFix: " in str(caught.value)
    assert "\nExample:\n" in str(caught.value)


@pytest.mark.parametrize("mode", Mode)
def test_a_mode_may_be_given_by_its_value(mode: Mode) -> None:
    assert StandardPermissions(mode=mode.value).mode is mode
    assert StandardPermissions(mode=there.Mode(mode.value)).mode is mode


@pytest.mark.parametrize("attribute", ["mode", *LIST_ARGUMENTS, "trust_mcp", "name", "bypasses", "decide", "other"])
def test_a_mode_object_never_changes(attribute: str) -> None:
    modes, by_user = StandardPermissions(denied_tools=["rm"]), PerUserPermissions({}, StandardPermissions())
    for made in (modes, by_user, AllowAll()):
        with pytest.raises(AttributeError):
            setattr(made, attribute, Mode.BYPASS)
    with pytest.raises(TypeError):
        by_user.policies["ann"] = AllowAll()  # type: ignore[index]
    names = ["rm"]
    modes = StandardPermissions(denied_tools=names)
    names.clear()
    assert modes.decide(call("rm")).deny


# --- what it shows ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("modes", "shown"),
    [
        (StandardPermissions(), "StandardPermissions()"),
        (
            StandardPermissions(mode=Mode.BYPASS, denied_tools=["rm"]),
            "StandardPermissions(BYPASS, denied_tools=['rm'])",
        ),
        (
            StandardPermissions(mode=Mode.ACCEPT_EDITS, edit_tools=["write"], allowed_tools=[], trust_mcp=True),
            "StandardPermissions(ACCEPT_EDITS, allowed_tools=[], edit_tools=['write'], trust_mcp=True)",
        ),
        (StandardPermissions(denied_tools=[]), "StandardPermissions()"),
        (StandardPermissions(denied_tools=["r\u202em"]), "StandardPermissions(denied_tools=['r\\u202em'])"),
        (StandardPermissions(name="office"), "StandardPermissions()"),
        (AllowAll(), "AllowAll()"),
        (
            PerUserPermissions({"ann": AllowAll(), None: Office()}, StandardPermissions()),
            "PerUserPermissions({'ann': AllowAll(), None: Office()}, default=StandardPermissions())",
        ),
    ],
)
def test_it_shows_what_it_is(modes: Any, shown: str) -> None:
    assert repr(modes) == shown


def test_its_settings_can_be_read() -> None:
    modes = StandardPermissions(mode=Mode.BYPASS, allowed_tools=["ls"], edit_tools=[], trust_mcp=True, name="office")
    assert (modes.mode, modes.allowed_tools, modes.denied_tools, modes.edit_tools) == (Mode.BYPASS, ("ls",), (), ())
    assert (modes.trust_mcp, modes.name, modes.bypasses) == (True, "office", True)
    plain = StandardPermissions()
    assert (plain.mode, plain.allowed_tools, plain.denied_tools, plain.edit_tools) == (Mode.DEFAULT, None, (), None)
    assert (plain.trust_mcp, plain.name, plain.bypasses) == (False, None, False)
    assert not StandardPermissions(mode=Mode.ACCEPT_EDITS).bypasses


@pytest.mark.parametrize("again", [lambda made: pickle.loads(pickle.dumps(made)), copy.copy, copy.deepcopy])
def test_it_survives_pickling_and_copying(again: Any) -> None:
    lists = {"allowed_tools": ["rm*", "ls"], "denied_tools": ["RMDIR"], "edit_tools": ["rm"]}
    made = PerUserPermissions(
        {"ann": StandardPermissions(mode=Mode.ACCEPT_EDITS, name="office", **lists)}, AllowAll(), name="by user"
    )
    twin = again(made)
    assert (repr(twin), twin.name, twin.policies["ann"].name) == (repr(made), "by user", "office")
    for name in ("rm", "rmdir", "ls", "cat"):
        assert twin.for_user("ann").decide(call(name, True)) == made.for_user("ann").decide(call(name, True))
        assert asked(twin, name, True, "bob").allow
    denies = again(made.policies["ann"].denies())
    assert [deny.name for deny in denies] == ["office: denied_tools", "office: allowed_tools"]
    assert denies[0].check(None, call("rmdir"), TOOL) == Denied("rmdir: denied by policy")


# --- denies() ---------------------------------------------------------------------------------------------------------


def test_its_denies_are_deny_permissions_that_say_where_they_come_from() -> None:
    modes = StandardPermissions(mode=Mode.BYPASS, denied_tools=["rm"], allowed_tools=["ls", "rm"])
    denies = modes.denies()
    assert all(isinstance(deny, DenyPermission) and not deny.blocking for deny in denies)
    assert [deny.name for deny in denies] == [
        "StandardPermissions(BYPASS): denied_tools",
        "StandardPermissions(BYPASS): allowed_tools",
    ]
    assert repr(denies[0]) == f"DenyByMode({modes!r}, 'denied_tools')"
    assert [deny.check(None, call("rm", False), TOOL) for deny in denies] == [Denied("rm: denied by policy"), None]
    assert [deny.check(None, call("cat", False), TOOL) for deny in denies] == [None, Denied("cat: not in allow-list")]
    assert [deny.check(None, call("ls", True), TOOL) for deny in denies] == [None, None]


def test_where_nothing_is_denied_there_are_no_denies() -> None:
    assert StandardPermissions(denied_tools=[], edit_tools=["write"]).denies() == []


# --- strict, AllowAll -------------------------------------------------------------------------------------------------


def test_strict_is_the_default_mode_and_allow_all_allows_all() -> None:
    strict = StandardPermissions.strict()
    assert (strict.mode, repr(strict)) == (Mode.DEFAULT, "StandardPermissions()")
    for destructive in (True, False, None):
        assert said(AllowAll().decide(call("rm", destructive))) == (ALLOW, None)
        assert said(asked(AllowAll(), "rm", destructive)) == (ALLOW, None)


# --- by user ----------------------------------------------------------------------------------------------------------


@pytest.mark.states("MA1.7")
@pytest.mark.parametrize(
    ("with_none", "user", "expected"),
    [
        (True, "ann", "ann's"),
        (True, "bob", "bob's"),
        (True, None, "nobody's"),
        (True, "eve", "default"),
        (True, "Ann", "default"),
        (False, None, "default"),
        (False, "", "default"),
    ],
)
def test_each_user_has_what_is_said_for_them_and_everybody_else_the_default(
    with_none: bool, user: str | None, expected: str
) -> None:
    policies: dict[str | None, Any] = {
        "ann": Office(PermissionDecision.deny_("ann's")),
        "bob": Office(PermissionDecision.deny_("bob's")),
        **({None: Office(PermissionDecision.deny_("nobody's"))} if with_none else {}),
    }
    default = Office(PermissionDecision.deny_("default"))
    ours, published = (
        PerUserPermissions(policies, default),
        there.PerUserPermissions(policies=policies, default=default),
    )
    assert asked(ours, "rm", True, user).reason == expected
    assert at_once(published.check(CallThere(tool="rm"), context={}, user_id=user)).reason == expected
    assert ours.for_user(user).answer.reason == expected


def test_the_user_is_told_to_whatever_applies() -> None:
    office = Office()
    by_user = PerUserPermissions(policies={"ann": office}, default=office)
    assert asked(by_user, "rm", True, "ann").reason == asked(by_user, "rm").reason == "the office is closed"
    assert office.users == ["ann", None]


def test_one_by_user_may_stand_inside_another() -> None:
    inner = PerUserPermissions({"ann": StandardPermissions(mode=Mode.BYPASS)}, StandardPermissions())
    outer = PerUserPermissions({"bob": StandardPermissions(allowed_tools=[])}, inner)
    assert outer.for_user("ann") is inner.policies["ann"]
    assert [asked(outer, "rm", True, user).decision for user in ("ann", "bob", "eve")] == [ALLOW, DENY, ASK]


def test_one_inside_another_that_checks_for_itself_is_asked() -> None:
    class AtNight(PerUserPermissions):
        async def check(self, call: ToolCall, *, context: Any, user_id: str | None = None) -> PermissionDecision:
            return PermissionDecision.deny_("not at night")

    outer = PerUserPermissions({"ann": AtNight({}, AllowAll())}, AllowAll())
    assert outer.for_user("ann") is outer.policies["ann"]
    assert asked(outer, "rm", True, "ann").reason == "not at night"


def test_a_check_that_is_older_than_users_is_called_once_without_one() -> None:
    by_user = PerUserPermissions({}, BeforeUsers())
    assert asked(by_user, "rm", True, "ann").reason == "rm: not today"


def test_an_error_of_what_applies_is_passed_on_and_nothing_is_called_twice() -> None:
    class Faulty(Office):
        async def check(self, call: ToolCall, *, context: Any, user_id: str | None = None) -> PermissionDecision:
            self.users.append(user_id)
            raise TypeError("a fault of its own")

    faulty = Faulty()
    with pytest.raises(TypeError, match="a fault of its own"):
        asked(PerUserPermissions({}, faulty), "rm", True, "ann")
    assert faulty.users == ["ann"]


class Synchronous:
    def check(self, call: ToolCall, *, context: Any, user_id: str | None = None) -> PermissionDecision:
        return PermissionDecision.allow_()


class Crooked:
    async def check(self) -> PermissionDecision:
        return PermissionDecision.allow_()


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (None, "is missing, or None"),
        (AllowByDefault(), "a permission that holds for every user"),
        (DenyByName(["rm"]), r"Fix: put it into the list beside these"),
        (DecideByHuman(), "a permission that holds for every user"),
        ([AllowByDefault()], "is a list of permissions"),
        ([], "is a list of permissions"),
        (StandardPermissions, "is StandardPermissions, the class"),
        ("strict", "has no async check"),
        (True, "has no async check"),
        (Mode.BYPASS, "has no async check"),
        (lambda call: True, "has no async check"),
        (Synchronous(), "has no async check"),
        (Crooked(), "cannot be called with a call"),
    ],
)
def test_what_cannot_decide_for_a_user_is_refused(part: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words) as first:
        PerUserPermissions({"ann": part}, StandardPermissions())
    with pytest.raises(TypeError, match=words) as second:
        PerUserPermissions({}, part)
    for error in (first.value, second.value):
        assert "\nFix: " in str(error)
        assert "\nExample:\n" in str(error)


@pytest.mark.parametrize(
    ("policies", "error", "words"),
    [
        ([("ann", StandardPermissions())], TypeError, "takes a dict"),
        (None, TypeError, "takes a dict"),
        ({5: StandardPermissions()}, TypeError, "a user id is a text, or None"),
        ({("ann",): StandardPermissions()}, TypeError, "a user id is a text, or None"),
        ({" ": StandardPermissions()}, ValueError, "a user id is blank"),
    ],
)
def test_what_is_no_dict_by_user_is_refused(policies: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        PerUserPermissions(policies, StandardPermissions())


def test_the_default_cannot_be_left_out() -> None:
    with pytest.raises(TypeError, match="default= is missing, or None"):
        PerUserPermissions({"ann": StandardPermissions()})


def test_what_applies_later_is_what_was_given() -> None:
    policies: dict[str | None, Any] = {"ann": StandardPermissions()}
    by_user = PerUserPermissions(policies, StandardPermissions())
    policies["ann"] = AllowAll()
    assert asked(by_user, "rm", True, "ann").ask


def test_a_policy_among_the_users_has_to_be_given_the_tool() -> None:
    by_user = PerUserPermissions({"ann": PermissionPolicy([])}, StandardPermissions())
    assert asked(by_user, "rm", False, "bob").allow
    with pytest.raises(TypeError, match="decides by the tool"):
        asked(by_user, "rm", False, "ann")
