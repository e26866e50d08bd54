"""The five built-in rules: as published for tags, and what hints add to them."""

from __future__ import annotations

import copy
import pickle
from itertools import chain, combinations, permutations
from typing import Any

import pytest
import toolregistry.permissions as there
from toolregistry.permissions import builtin_rules as there_rules
from toolregistry.tool import Tool as ToolThere
from toolregistry.tool import ToolMetadata as MetadataThere
from toolregistry.tool import ToolTag as TagThere

import agentperm_nb
from agentperm_nb import (
    ALLOW_READONLY,
    ASK_DESTRUCTIVE,
    ASK_FILE_SYSTEM,
    ASK_NETWORK,
    DENY_PRIVILEGED,
    Hints,
    MCPTool,
    PermissionPolicy,
    PermissionResult,
    PermissionRule,
    Tool,
    ToolTag,
)
from agentperm_nb.permissions import builtin_rules
from agentperm_nb.permissions.builtin_rules import allow_readonly
from agentperm_nb.running.formats.hosted import HostedTool

SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
NAMES = ("ALLOW_READONLY", "ASK_DESTRUCTIVE", "DENY_PRIVILEGED", "ASK_NETWORK", "ASK_FILE_SYSTEM")
TAGS = [tag.value for tag in ToolTag]
SETS = list(chain.from_iterable(combinations(TAGS, size) for size in range(len(TAGS) + 1)))
ORDERS = list(chain.from_iterable(permutations(NAMES, size) for size in range(4)))


def made(**options: Any) -> Tool:
    return Tool("act", input_schema=SCHEMA, function=lambda: None, **options)


async def no_call(name: str, args: dict[str, Any]) -> Any:
    raise AssertionError("it is not called")


def of_server(annotations: dict[str, Any] | None = None, **options: Any) -> MCPTool:
    remote = {"name": "act", "inputSchema": SCHEMA, "annotations": annotations}
    return MCPTool("github", remote, no_call, **options)


def matching(tool: Tool, **args: Any) -> set[str]:
    """Names of the rules that match a call."""
    return {name for name in NAMES if getattr(builtin_rules, name).matches(tool, args)}


def said(outcome: Any) -> tuple[str, str, str]:
    if hasattr(outcome, "reason"):
        return outcome.name, outcome.result.value, outcome.reason
    return "", outcome.value, ""


class TestAsPublished:
    @pytest.mark.states("RP3.0")
    @pytest.mark.parametrize("name", NAMES)
    def test_a_rule_has_its_published_name_result_and_reason(self, name: str) -> None:
        rule: PermissionRule = getattr(builtin_rules, name)
        published = getattr(there_rules, name)
        assert said(rule) == said(published)
        assert rule.name == name.lower()
        assert getattr(agentperm_nb, name) is rule

    @pytest.mark.states("RP3.0")
    @pytest.mark.parametrize("tags", SETS, ids="+".join)
    def test_policies_of_them_decide_about_every_set_of_tags_as_there(self, tags: tuple[str, ...]) -> None:
        if {"read_only", "destructive"} <= set(tags):  # here no tool has both; see the table of the differences
            with pytest.raises(ValueError, match="read-only and destructive at once"):
                made(tags=tags)
            return
        metadata = MetadataThere(tags={TagThere(tag) for tag in tags})
        tool_there = ToolThere(name="act", description="", parameters=SCHEMA, callable=lambda: None, metadata=metadata)
        tool_here = made(tags=tags)
        for order in ORDERS:
            rules_there = [getattr(there_rules, name) for name in order]
            rules_here = [getattr(builtin_rules, name) for name in order]
            for fallback in PermissionResult:
                outcome_there = there.PermissionPolicy(rules_there, there.PermissionResult(fallback.value)).evaluate(
                    tool_there, {}
                )
                outcome_here = PermissionPolicy(rules_here, fallback).evaluate(tool_here, {})
                assert said(outcome_here) == said(outcome_there), (order, fallback)

    @pytest.mark.parametrize("tags", [tags for tags in SETS if tags[:2] != ("read_only", "destructive")], ids="+".join)
    def test_the_rules_there_read_the_tags_of_our_tools(self, tags: tuple[str, ...]) -> None:
        tool = made(tags=tags)
        by_tag = {name for name in NAMES if getattr(there_rules, name).match(tool, {})}
        assert by_tag == matching(tool)

    def test_custom_tags_mean_nothing_to_them(self) -> None:
        assert matching(made(custom_tags=TAGS)) == set()


class TestHintsOfOwnTools:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({}, set()),
            ({"read_only": True}, {"ALLOW_READONLY"}),
            ({"read_only": False}, set()),
            ({"destructive": True}, {"ASK_DESTRUCTIVE"}),
            ({"destructive": False}, set()),
            ({"open_world": True}, {"ASK_NETWORK"}),
            ({"open_world": False}, set()),
            ({"idempotent": True}, set()),
            ({"read_only": True, "open_world": True}, {"ALLOW_READONLY", "ASK_NETWORK"}),
            ({"tags": ["read_only"], "read_only": False}, set()),
            ({"tags": ["read_only"], "read_only": False, "destructive": False}, set()),
            ({"tags": ["destructive"], "destructive": False}, {"ASK_DESTRUCTIVE"}),
            ({"tags": ["network"], "open_world": False}, {"ASK_NETWORK"}),
            ({"tags": ["read_only", "destructive"], "destructive": False}, {"ALLOW_READONLY", "ASK_DESTRUCTIVE"}),
            ({"tags": ["read_only", "destructive"], "read_only": False}, {"ASK_DESTRUCTIVE"}),
            ({"tags": ["privileged"], "read_only": True}, {"DENY_PRIVILEGED", "ALLOW_READONLY"}),
        ],
        ids=str,
    )
    def test_what_asks_looks_at_tags_or_hints_and_what_allows_needs_the_hints_to_agree(
        self, options: dict[str, Any], expected: set[str]
    ) -> None:
        assert matching(made(**options)) == expected

    def test_the_hints_are_those_of_the_call(self) -> None:
        def hints(args: dict[str, Any]) -> Hints | None:
            return {
                "read": Hints(read_only=True),
                "drop": Hints(destructive=True),
                "send": Hints(open_world=True),
                "unknown": Hints(),
            }.get(args["action"])

        plain = made(hints_for=hints)
        assert {action: matching(plain, action=action) for action in ("read", "drop", "send", "unknown", "other")} == {
            "read": {"ALLOW_READONLY"},
            "drop": {"ASK_DESTRUCTIVE"},
            "send": {"ASK_NETWORK"},
            "unknown": set(),
            "other": set(),
        }
        tagged = made(hints_for=hints, tags=["read_only"])
        assert {action: matching(tagged, action=action) for action in ("read", "drop", "send", "unknown", "other")} == {
            "read": {"ALLOW_READONLY"},
            "drop": {"ASK_DESTRUCTIVE"},  # the tag says otherwise, and an allow needs both
            "send": {"ASK_NETWORK"},
            "unknown": set(),
            "other": {"ALLOW_READONLY"},
        }

    def test_hints_that_raise_are_an_error_of_the_rule(self) -> None:
        def hints(args: dict[str, Any]) -> Hints:
            raise KeyError("action")

        tool = made(hints_for=hints, tags=["file_system"])
        for rule in (ALLOW_READONLY, ASK_DESTRUCTIVE, ASK_NETWORK, allow_readonly(trust_mcp=True)):
            with pytest.raises(KeyError):
                rule.matches(tool, {})
        assert ASK_FILE_SYSTEM.matches(tool, {})
        assert not DENY_PRIVILEGED.matches(tool, {})

    def test_hints_that_a_tool_of_ones_own_takes_from_elsewhere_allow_nothing(self) -> None:
        tool = made()
        tool.hints = Hints(read_only=True, source="server")
        assert matching(tool) == {"ASK_NETWORK"}
        assert allow_readonly(trust_mcp=True).matches(tool, {})


HARMLESS = {"readOnlyHint": True, "openWorldHint": False}
SERVER_TABLE: list[tuple[dict[str, Any] | None, set[str]]] = [
    (None, {"ASK_DESTRUCTIVE", "ASK_NETWORK"}),
    ({}, {"ASK_DESTRUCTIVE", "ASK_NETWORK"}),
    ({"readOnlyHint": True}, {"ASK_NETWORK"}),
    ({"readOnlyHint": True, "openWorldHint": False}, set()),
    ({"readOnlyHint": False}, {"ASK_DESTRUCTIVE", "ASK_NETWORK"}),
    ({"destructiveHint": True, "openWorldHint": False}, {"ASK_DESTRUCTIVE"}),
    ({"destructiveHint": False}, {"ASK_NETWORK"}),
    ({"destructiveHint": False, "openWorldHint": False}, set()),
    ({"readOnlyHint": True, "destructiveHint": True}, {"ASK_DESTRUCTIVE", "ASK_NETWORK"}),
    ({"readOnlyHint": "yes", "destructiveHint": 0, "openWorldHint": "no"}, {"ASK_DESTRUCTIVE", "ASK_NETWORK"}),
]


class TestHintsOfServers:
    @pytest.mark.parametrize(("annotations", "expected"), SERVER_TABLE, ids=str)
    def test_what_asks_takes_what_was_not_said_as_the_protocol_has_it_and_nothing_is_allowed(
        self, annotations: dict[str, Any] | None, expected: set[str]
    ) -> None:
        assert matching(of_server(annotations)) == expected

    @pytest.mark.parametrize(("annotations", "expected"), SERVER_TABLE, ids=str)
    def test_a_server_that_is_trusted_allows_what_it_says_only_reads(
        self, annotations: dict[str, Any] | None, expected: set[str]
    ) -> None:
        tool = of_server(annotations)
        trusted = bool(annotations) and annotations.get("readOnlyHint") is True and "ASK_DESTRUCTIVE" not in expected
        assert allow_readonly(trust_mcp=True).matches(tool, {}) is trusted

    @pytest.mark.parametrize(
        ("annotations", "tags", "expected"),
        [
            (None, ["read_only"], {"ALLOW_READONLY", "ASK_NETWORK"}),
            ({"readOnlyHint": True}, ["read_only"], {"ALLOW_READONLY", "ASK_NETWORK"}),
            ({"destructiveHint": True}, ["read_only"], {"ASK_DESTRUCTIVE", "ASK_NETWORK"}),
            ({"readOnlyHint": False, "destructiveHint": False}, ["read_only"], {"ASK_NETWORK"}),
            (HARMLESS, ["destructive", "network"], {"ASK_DESTRUCTIVE", "ASK_NETWORK"}),
            (HARMLESS, ["privileged", "file_system"], {"DENY_PRIVILEGED", "ASK_FILE_SYSTEM"}),
        ],
        ids=str,
    )
    def test_your_own_tags_count_and_allow_only_where_the_server_does_not_say_otherwise(
        self, annotations: dict[str, Any] | None, tags: list[str], expected: set[str]
    ) -> None:
        assert matching(of_server(annotations, tags=tags)) == expected

    def test_a_tool_that_a_provider_connects_to_is_asked_about(self) -> None:
        assert matching(HostedTool("github", "create_issue")) == {"ASK_DESTRUCTIVE", "ASK_NETWORK"}


class TestAllowReadonly:
    def test_without_trust_it_is_the_constant(self) -> None:
        assert allow_readonly() is allow_readonly(trust_mcp=False) is ALLOW_READONLY
        assert said(allow_readonly(trust_mcp=True)) == said(ALLOW_READONLY)

    def test_a_trusted_tool_of_ones_own_is_allowed_as_ever(self) -> None:
        for options in ({}, {"read_only": True}, {"tags": ["read_only"]}, {"destructive": True}, {"read_only": False}):
            tool = made(**options)
            assert allow_readonly(trust_mcp=True).matches(tool, {}) is ALLOW_READONLY.matches(tool, {})

    @pytest.mark.parametrize("trust", [1, "yes", None, "github"], ids=repr)
    def test_trust_is_a_bool(self, trust: Any) -> None:
        with pytest.raises(TypeError, match="trust_mcp= takes True or False") as caught:
            allow_readonly(trust_mcp=trust)
        assert "\nFix: " in str(caught.value)


@pytest.mark.parametrize(
    "rule",
    [ALLOW_READONLY, ASK_DESTRUCTIVE, DENY_PRIVILEGED, ASK_NETWORK, ASK_FILE_SYSTEM, allow_readonly(trust_mcp=True)],
    ids=repr,
)
def test_a_rule_pickles_and_is_the_same_rule_then(rule: PermissionRule) -> None:
    assert pickle.loads(pickle.dumps(rule)) == rule
    assert copy.deepcopy(rule) == rule
