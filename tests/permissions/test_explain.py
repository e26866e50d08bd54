"""Explaining a call: the trace of its decision in words."""

from __future__ import annotations

from typing import Any

import pytest

from agentperm_nb.calls import ToolCall
from agentperm_nb.permissions.builtin import AllowByDefault, AllowByName, AllowByReadOnly, DecideByHuman, DenyByName
from agentperm_nb.permissions.deciding import PermissionList, decide
from agentperm_nb.permissions.explain import Explanation, explanation_of
from agentperm_nb.redaction import Redactor
from agentperm_nb.tools import Tool

TOOL = Tool("write", function=lambda **args: None)
CALL = ToolCall("write", {"path": "a.txt"})


def explain(
    permissions: Any, call: ToolCall = CALL, *, problem: str = "", decided: bool = True, **more: Any
) -> Explanation:
    listed = PermissionList(permissions)
    decision = decide(listed, None, call, TOOL) if decided else None
    return explanation_of(listed, call, decision, tool=TOOL, problem=problem, redactor=Redactor(), **more)


@pytest.mark.parametrize(
    ("permissions", "verdict", "decided_by", "reason"),
    [
        ([AllowByDefault()], "allowed", "AllowByDefault()", ""),
        ([AllowByDefault(), DenyByName(["write"])], "denied", "DenyByName(['write'])", "write is not allowed."),
        ([DecideByHuman()], "asked", "DecideByHuman()", 'Run write(path="a.txt")?'),
        ([AllowByReadOnly()], "denied", None, "No permission allowed this call."),
        ([], "denied", None, "No permission allowed this call."),
        (None, "allowed", None, "UNCHECKED: permissions=None switches the checks off"),
    ],
    ids=["allowed", "denied", "asked", "nobody", "empty", "unchecked"],
)
def test_an_explanation_says_what_is_decided_by_whom_and_why(
    permissions: Any, verdict: str, decided_by: str | None, reason: str
) -> None:
    explanation = explain(permissions)
    assert (explanation.verdict, explanation.decided_by, explanation.reason) == (verdict, decided_by, reason)
    assert explanation.call == 'write(path="a.txt")'
    listed = PermissionList(permissions)
    assert decide(listed, None, CALL, TOOL).decided_by == explanation.decided_by


def test_every_permission_has_a_row_in_the_order_of_asking_and_one_is_decisive() -> None:
    permissions = [AllowByReadOnly(), AllowByName(["w*"]), DecideByHuman(), DenyByName(["rm"]), AllowByName(["w*"])]
    assert explain(permissions).rows == (
        ("", "DenyByName(['rm'])", "deny", "not asked: write is none of its names"),
        ("", "AllowByReadOnly()", "allow", "no opinion: the tool does not say that this call only reads"),
        ("→", "AllowByName(['w*']) #1", "allow", "allowed"),
        ("", "DecideByHuman()", "decide", "not asked: decided above"),
        ("", "AllowByName(['w*']) #2", "allow", "not asked: decided above"),
    )


def test_a_call_that_is_not_valid_is_explained_without_asking_anybody() -> None:
    explanation = explain([AllowByDefault()], problem="unknown tool", decided=False)
    assert (explanation.verdict, explanation.decided_by, explanation.reason) == ("input_error", None, "unknown tool")
    assert explanation.rows == (("", "AllowByDefault()", "allow", "not asked: the call is not valid"),)


def test_arguments_that_do_not_fit_are_an_input_error_unless_the_call_is_denied() -> None:
    assert explain([AllowByDefault()], problem="path: 5 is not a text").verdict == "input_error"
    assert explain([DenyByName(["*"])], problem="path: 5 is not a text").verdict == "denied"


def test_secrets_are_masked_in_call_reason_and_rows() -> None:
    call = ToolCall("write", {"password": "hunter2", "body": "hunter2"})
    denial = DenyByName(["write"], reason="it would send password=hunter2", name="rule")
    for explanation in (
        explain([denial], call, secret=frozenset({"body"})),
        explain([DecideByHuman()], ToolCall("write", {"pin": "hunter2"})),
    ):
        assert (
            "hunter2" not in str(explanation) + explanation._repr_html_() + str(explanation.rows) + explanation.reason
        )


def test_the_rules_that_were_asked_say_how_they_read_the_arguments_and_the_others_do_not() -> None:
    tool = Tool("write", "", {"type": "object", "properties": {"n": {"type": "number"}}}, function=lambda n: None)
    listed = PermissionList(["deny write(n>5)", "allow write(n<=3)", "allow write(n<=4)", "ask other(n=1)"])
    call = ToolCall("write", {"n": 3})
    explanation = explanation_of(listed, call, decide(listed, None, call, tool), tool=tool, redactor=Redactor())
    assert explanation.readings == (
        ("deny write(n>5)", "n>5", "3", "no"),
        ("allow write(n<=3)", "n<=3", "3", "yes"),
    )
    assert explanation.decisive == 1
    assert list(explanation.frame()["readings"]) == [["n>5: 3: no"], ["n<=3: 3: yes"], [], []]
    assert "n&lt;=3" in explanation._repr_html_()


def test_an_explanation_without_a_decision_has_no_decisive_row() -> None:
    assert explain([AllowByReadOnly()]).decisive is None
    assert explain([AllowByDefault()], problem="unknown", decided=False).decisive is None


def test_it_reads_as_a_table_in_text_and_html() -> None:
    explanation = explain([DenyByName(["rm"]), AllowByDefault(name="<b>all</b>")])
    assert repr(explanation) == str(explanation)
    lines = str(explanation).split("\n")
    assert lines[0] == 'write(path="a.txt"): allowed by <b>all</b>'
    assert [line.split()[0] for line in lines[3:]] == ["DenyByName(['rm'])", "→"]
    assert "<b>all</b>" not in explanation._repr_html_()
    assert "&lt;b&gt;all&lt;/b&gt;" in explanation._repr_html_()


def test_what_hides_in_a_name_or_reason_is_shown() -> None:
    call = ToolCall("write", {"path": "a\u202eb\x1b[2K"})
    explanation = explain([DenyByName(["write"], reason="no\r\u200b")], call)
    for text in (str(explanation), explanation._repr_html_()):
        assert not set("\u202e\x1b\r\u200b") & set(text)
        assert "\\u{202E}" in text
