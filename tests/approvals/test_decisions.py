"""The one answer to a request, and what else counts as one."""

from __future__ import annotations

import enum
import pickle
import re
from types import MappingProxyType
from typing import Any
from unittest.mock import MagicMock

import pytest

from agentperm_nb.approvals.decisions import ApprovalDecision, Scope, as_decision
from agentperm_nb.permissions.types import PermissionResult


class _Text(str):
    pass


@pytest.mark.parametrize(
    ("decision", "allows", "denies", "remembers"),
    [
        (ApprovalDecision("allow"), True, False, False),
        (ApprovalDecision("deny"), False, True, False),
        (ApprovalDecision("deny", reason="no", stop=True), False, True, False),
        (ApprovalDecision("edit", edited_args={}), True, False, False),
        (ApprovalDecision("remember_allow"), True, False, True),
        (ApprovalDecision("remember_allow", edited_args={"a": 1}, scope=Scope("tool")), True, False, True),
        (ApprovalDecision("remember_deny", scope=Scope(lasts="session"), stop=True), False, True, True),
        (ApprovalDecision("remember_allow", scope=Scope("arguments", arguments=["a"])), True, False, True),
        (ApprovalDecision("deny", approver="ann"), False, True, False),
    ],
    ids=repr,
)
def test_an_answer_says_what_it_does(decision: ApprovalDecision, allows: bool, denies: bool, remembers: bool) -> None:
    assert (decision.allows, decision.denies, decision.remembers) == (allows, denies, remembers)
    assert pickle.loads(pickle.dumps(decision)) == decision
    assert as_decision(decision) == decision


@pytest.mark.parametrize(
    "action", ["ALLOW", "yes", "", "allow ", None, True, 1, PermissionResult.ALLOW, ["allow"]], ids=repr
)
def test_an_unknown_action_is_refused(action: Any) -> None:
    with pytest.raises(ValueError, match=r"is not an action[\s\S]*Fix: [\s\S]*Example:"):
        ApprovalDecision(action)


@pytest.mark.parametrize(
    ("action", "fields", "error", "text"),
    [
        ("deny", {"reason": 5}, TypeError, "reason= takes a text"),
        ("deny", {"stop": 1}, TypeError, "stop= takes True or False"),
        ("deny", {"stop": None}, TypeError, "stop= takes True or False"),
        ("remember_allow", {"scope": "tool"}, TypeError, "scope= takes a Scope"),
        ("allow", {"approver": 5}, TypeError, "approver= takes the name of a person"),
        ("allow", {"approver": " "}, TypeError, "approver= takes the name of a person"),
        ("edit", {"edited_args": [("a", 1)]}, TypeError, "edited_args= takes a dict"),
        ("edit", {"edited_args": "{}"}, TypeError, "edited_args= takes a dict"),
        ("edit", {}, ValueError, "an edit without edited_args="),
        ("allow", {"edited_args": {}}, ValueError, "edited_args= with 'allow'"),
        ("deny", {"edited_args": {}}, ValueError, "edited_args= with 'deny'"),
        ("remember_deny", {"edited_args": {}}, ValueError, "edited_args= with 'remember_deny'"),
        ("allow", {"stop": True}, ValueError, "stop=True with 'allow'"),
        ("edit", {"edited_args": {}, "stop": True}, ValueError, "stop=True with 'edit'"),
        ("remember_allow", {"stop": True}, ValueError, "stop=True with 'remember_allow'"),
        ("allow", {"scope": Scope()}, ValueError, "scope= with 'allow'"),
        ("deny", {"scope": Scope()}, ValueError, "scope= with 'deny'"),
    ],
    ids=repr,
)
def test_what_does_not_go_together_is_refused_in_three_parts(
    action: Any, fields: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        ApprovalDecision(action, **fields)
    assert "\nFix: " in str(caught.value)
    assert "\nExample:\n" in str(caught.value)


def test_only_the_action_is_given_by_place() -> None:
    with pytest.raises(TypeError):
        ApprovalDecision("deny", "no")  # type: ignore[misc]


def test_an_answer_never_changes() -> None:
    edited: dict[str, Any] = {"a": [1]}
    decision = ApprovalDecision("edit", edited_args=MappingProxyType(edited))
    edited["a"].append(2)
    assert decision.edited_args == {"a": [1]}
    with pytest.raises(TypeError, match="cannot be changed"):
        decision.edited_args["a"].append(2)  # type: ignore[index]
    with pytest.raises(AttributeError):
        decision.action = "deny"  # type: ignore[misc]


@pytest.mark.parametrize(
    "fields",
    [
        {"covers": "all"},
        {"covers": None},
        {"covers": ["tool"]},
        {"covers": _Text("tool")},
        {"lasts": "always"},
        {"lasts": "forever"},
        {"lasts": ["run"]},
    ],
    ids=repr,
)
def test_a_scope_of_other_words_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"is not a scope[\s\S]*Fix: [\s\S]*Example:"):
        Scope(**fields)


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"covers": "arguments"}, ValueError, "names none of them"),
        ({"covers": "arguments", "arguments": []}, ValueError, "names none of them"),
        ({"covers": "arguments", "arguments": [""]}, ValueError, "an empty name"),
        ({"covers": "arguments", "arguments": ["a", "b", "a"]}, ValueError, "names 'a' twice"),
        ({"covers": "call", "arguments": ["a"]}, ValueError, "with covers='call'"),
        ({"covers": "tool", "arguments": ["a"]}, ValueError, "with covers='tool'"),
        ({"covers": "arguments", "arguments": "path"}, TypeError, "takes a list of names"),
        ({"covers": "arguments", "arguments": {"path": 1}}, TypeError, "takes a list of names"),
        ({"covers": "arguments", "arguments": 5}, TypeError, "takes a list of names"),
        ({"covers": "arguments", "arguments": ["a", 1]}, TypeError, "takes names"),
        ({"covers": "arguments", "arguments": [None]}, TypeError, "takes names"),
    ],
    ids=repr,
)
def test_named_arguments_that_do_not_go_together_are_refused(
    fields: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=rf"{re.escape(text)}[\s\S]*Fix: [\s\S]*Example:"):
        Scope(**fields)


def test_a_scope_keeps_the_names_as_they_were_when_it_was_made() -> None:
    names = ["path", "mode"]
    scope = Scope("arguments", "session", names)
    names.append("force")
    assert scope.arguments == ("path", "mode")
    assert scope == Scope("arguments", "session", iter(["path", "mode"]))  # type: ignore[arg-type]  # any iterable does
    assert hash(scope) == hash(Scope("arguments", "session", ("path", "mode")))


@pytest.mark.parametrize(
    ("value", "action"),
    [
        (True, "allow"),
        (False, "deny"),
        (PermissionResult.ALLOW, "allow"),
        (PermissionResult.DENY, "deny"),
        ("allow", "allow"),
        ("deny", "deny"),
        ("remember_allow", "remember_allow"),
        ("remember_deny", "remember_deny"),
    ],
    ids=repr,
)
def test_these_short_forms_are_answers(value: Any, action: str) -> None:
    assert as_decision(value) == ApprovalDecision(action)  # type: ignore[arg-type]


class _Enum(str, enum.Enum):  # noqa: UP042 - not a StrEnum on purpose
    ALLOW = "allow"


class _Truth(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


NO_ANSWERS: list[Any] = [
    None,
    1,
    0,
    1.0,
    "",
    "ALLOW",
    "Allow",
    "allow ",
    "yes",
    "y",
    "true",
    "True",
    "edit",
    b"allow",
    PermissionResult.ASK,
    PermissionResult,
    ApprovalDecision,
    ["allow"],
    {"action": "allow"},
    ("allow",),
    object(),
    NotImplemented,
    _Text("allow"),
    _Enum.ALLOW,
    _Truth(1),
    MagicMock(),
    MagicMock(spec=ApprovalDecision),
    MagicMock(spec=ApprovalDecision("allow")),
    lambda: True,
]


@pytest.mark.parametrize("value", NO_ANSWERS, ids=lambda value: f"{type(value).__name__}")
def test_nothing_else_is_an_answer(value: Any) -> None:
    assert as_decision(value) is None


def test_a_decision_that_was_tampered_with_says_no_more_than_its_fields() -> None:
    class Sly(ApprovalDecision):
        @property
        def allows(self) -> bool:
            return True

    sly = as_decision(Sly("deny"))
    assert sly is not None
    assert (type(sly), sly.allows) == (ApprovalDecision, False)
    half = object.__new__(ApprovalDecision)
    assert as_decision(half) is None
    for field, value in (("action", "anything"), ("scope", "tool"), ("approver", 7)):
        broken = ApprovalDecision("remember_deny")
        object.__setattr__(broken, field, value)
        assert as_decision(broken) is None
    wide = Scope("call")
    object.__setattr__(wide, "covers", "everything")
    assert as_decision(ApprovalDecision("remember_allow", scope=wide)) is None


def test_the_result_of_a_policy_is_written_as_published() -> None:
    assert str(PermissionResult.ALLOW) == "PermissionResult.ALLOW"
    assert PermissionResult("ask") is PermissionResult.ASK
