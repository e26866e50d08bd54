"""Tags, namespace and metadata: what rules read of a tool."""

from __future__ import annotations

import pickle
from itertools import chain, combinations
from types import SimpleNamespace
from typing import Any

import pytest
import toolregistry.tool as there

from agentperm_nb import Agent, Hints, MCPTool, Tool, ToolMetadata, ToolTag, tool
from agentperm_nb.mcp_tools import mcp_tools
from agentperm_nb.running.formats.hosted import HostedTool

SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
TAGS = [tag.value for tag in ToolTag]
EVERY_SET = list(chain.from_iterable(combinations(TAGS, size) for size in range(len(TAGS) + 1)))
HINT_OF = {"read_only": "read_only", "destructive": "destructive", "network": "open_world"}
HINTS = ("read_only", "destructive", "idempotent", "open_world")


def made(name: str = "t", **options: Any) -> Tool:
    return Tool(name, input_schema=SCHEMA, function=lambda: None, **options)


async def no_call(name: str, args: dict[str, Any]) -> Any:
    raise AssertionError("it is not called")


def of_server(annotations: dict[str, Any] | None = None, **options: Any) -> MCPTool:
    remote = {"name": "act", "inputSchema": SCHEMA, "annotations": annotations}
    return MCPTool("github", remote, no_call, **options)


def three_parts(error: BaseException) -> bool:
    return "\nFix: " in str(error) and "\nExample:\n" in str(error)


class TestTags:
    @pytest.mark.states("RP1.9")
    def test_there_are_six_with_the_published_texts(self) -> None:
        assert [(tag.name, tag.value) for tag in ToolTag] == [(tag.name, tag.value) for tag in there.ToolTag]
        assert ToolTag.READ_ONLY == "read_only"
        assert ToolTag("network") is ToolTag.NETWORK
        assert str(ToolTag.SLOW) == "ToolTag.SLOW"

    @pytest.mark.states("RP1.9")
    @pytest.mark.parametrize(
        "tags",
        [
            ["read_only", "slow"],
            ("slow", ToolTag.READ_ONLY),
            {"slow", "read_only"},
            iter(["read_only", "slow", "slow"]),
        ],
        ids=["list", "tuple", "set", "iterator"],
    )
    def test_a_tool_takes_them_as_texts_or_members_in_anything_that_lists_them(self, tags: Any) -> None:
        assert made(tags=tags).metadata.tags == {ToolTag.READ_ONLY, ToolTag.SLOW}
        assert all(type(tag) is ToolTag for tag in made(tags=["slow"]).metadata.tags)

    def test_the_tags_of_another_package_with_these_names_are_taken(self) -> None:
        assert made(tags=[there.ToolTag.NETWORK]).metadata.tags == {ToolTag.NETWORK}
        assert there.ToolTag.NETWORK in made(tags=["network"]).metadata.tags

    def test_a_decorated_function_takes_them_too(self) -> None:
        @tool(tags=["file_system"], custom_tags=["billing"], namespace="books")
        def invoice(order: str) -> str:
            """Write an invoice."""
            return order

        assert invoice.metadata.all_tags == {"file_system", "billing"}
        assert invoice.namespace == "books"

    @pytest.mark.states("RP1.9")
    def test_custom_tags_are_any_texts_and_give_no_hint(self) -> None:
        metadata = made(custom_tags=["destructive", "billing"]).metadata
        assert metadata.custom_tags == {"destructive", "billing"}
        assert metadata.tags == frozenset()
        assert metadata.execution_hints == {}

    def test_an_unknown_tag_is_an_error_that_points_to_custom_tags(self) -> None:
        with pytest.raises(ValueError, match="'billing' in tags= of the tool t is not one of the known tags") as caught:
            made(tags=["billing"])
        assert "custom_tags=" in str(caught.value)
        assert three_parts(caught.value)

    @pytest.mark.parametrize(
        ("options", "error", "text"),
        [
            ({"tags": "network"}, TypeError, "tags= of the tool t takes a list of tags"),
            ({"tags": 3}, TypeError, "tags= of the tool t takes a list of tags"),
            ({"tags": [3]}, TypeError, "tags= of the tool t takes a list of tags"),
            ({"tags": {"network": True}}, TypeError, "tags= of the tool t takes a list of tags"),
            ({"tags": ["Network"]}, ValueError, "'Network' in tags="),
            ({"tags": [""]}, ValueError, "'' in tags="),
            ({"custom_tags": "billing"}, TypeError, "custom_tags= of the tool t takes a list of tags"),
            ({"custom_tags": [None]}, TypeError, "custom_tags= of the tool t takes a list of tags"),
            ({"custom_tags": [" "]}, ValueError, "custom_tags= of the tool t has a blank tag"),
            ({"namespace": 3}, TypeError, "namespace= of t takes a text"),
            ({"namespace": ""}, ValueError, "'' is not a namespace"),
            ({"namespace": "a b"}, ValueError, "'a b' is not a namespace"),
        ],
        ids=lambda value: str(value) if isinstance(value, dict) else None,
    )
    def test_what_is_given_wrongly_is_found_when_the_tool_is_made(
        self, options: dict[str, Any], error: type[Exception], text: str
    ) -> None:
        with pytest.raises(error, match=text) as caught:
            made(**options)
        assert three_parts(caught.value)


class TestHintsFromTags:
    @pytest.mark.states("RP1.9")
    @pytest.mark.parametrize("tags", EVERY_SET, ids="+".join)
    def test_every_set_of_tags_gives_the_hints_that_it_gives_there_and_the_open_world(
        self, tags: tuple[str, ...]
    ) -> None:
        if {"read_only", "destructive"} <= set(tags):
            with pytest.raises(ValueError, match="read-only and destructive at once"):
                made(tags=tags)
            return
        published = there.ToolMetadata(tags={there.ToolTag(tag) for tag in tags}).execution_hints
        ours = made(tags=tags).metadata.execution_hints
        assert ours == published | ({"open_world_hint": True} if "network" in tags else {})

    @pytest.mark.parametrize(
        ("tag", "hint"), [("read_only", "read_only"), ("destructive", "destructive"), ("network", "open_world")]
    )
    def test_a_tag_gives_the_hint_where_it_was_not_given(self, tag: str, hint: str) -> None:
        hints = made(tags=[tag]).hints
        assert getattr(hints, hint) is True
        assert hints.said == {hint}

    @pytest.mark.parametrize(
        ("tag", "hint"), [("read_only", "read_only"), ("destructive", "destructive"), ("network", "open_world")]
    )
    def test_a_hint_that_is_given_wins(self, tag: str, hint: str) -> None:
        made_with = made(tags=[tag], **{hint: False})
        assert getattr(made_with.hints, hint) is False
        assert getattr(made_with.metadata, f"{hint}_hint") is False
        assert tag in made_with.metadata.tags

    @pytest.mark.parametrize("tag", ["file_system", "slow", "privileged"])
    def test_the_other_tags_say_nothing_of_hints(self, tag: str) -> None:
        assert made(tags=[tag]).hints == Hints()
        assert made(tags=[tag]).hints.said == frozenset()

    @pytest.mark.parametrize(
        "options",
        [
            {"tags": ["read_only", "destructive"]},
            {"tags": ["read_only"], "destructive": True},
            {"tags": ["destructive"], "read_only": True},
            {"read_only": True, "destructive": True},
            {"tags": ["read_only"], "idempotent": False},
        ],
        ids=str,
    )
    def test_a_tool_that_contradicts_itself_is_an_error(self, options: dict[str, Any]) -> None:
        with pytest.raises(ValueError, match="read-only") as caught:
            made(**options)
        assert three_parts(caught.value)

    def test_one_of_two_contradicting_tags_may_be_taken_back_by_a_hint(self) -> None:
        both = ["read_only", "destructive"]
        assert made(tags=both, destructive=False).hints.read_only is True
        assert made(tags=both, read_only=False).hints.destructive is True


class TestMetadata:
    def test_it_says_what_was_given_and_leaves_out_what_was_not(self) -> None:
        metadata = made(tags=["network"], idempotent=True, timeout=3, parallel=False).metadata
        assert [getattr(metadata, f"{name}_hint") for name in HINTS] == [None, None, True, None]
        assert (metadata.timeout, metadata.is_async, metadata.is_concurrency_safe) == (3, False, False)
        assert (metadata.source, metadata.source_detail) == ("native", "")

    @pytest.mark.states("RP1.9")
    @pytest.mark.parametrize("value", [None, True, False])
    def test_hints_are_true_false_or_not_said(self, value: bool | None) -> None:
        for name in HINTS:
            assert getattr(ToolMetadata(**{f"{name}_hint": value}), f"{name}_hint") is value

    @pytest.mark.parametrize("value", [1, "yes", 0, "", [True]], ids=repr)
    def test_a_hint_that_is_no_bool_is_an_error(self, value: Any) -> None:
        with pytest.raises(TypeError, match="read_only= takes True or False"):
            ToolMetadata(read_only_hint=value)

    def test_an_async_tool_says_so(self) -> None:
        async def act() -> None:
            """Act."""

        assert Tool("act", function=act).metadata.is_async is True

    def test_it_is_the_same_object_until_the_tool_changes(self) -> None:
        one = made(tags=["slow"])
        before = one.metadata
        assert one.metadata is before
        one.timeout = 5
        assert one.metadata.timeout == 5
        one.hints = Hints(read_only=True)
        assert one.metadata.read_only_hint is True
        assert one.metadata.tags == {ToolTag.SLOW}

    def test_hints_that_a_subclass_puts_in_place_win_over_its_tags(self) -> None:
        one = made(tags=["read_only"])
        one.hints = Hints(destructive=True)
        assert one.metadata.execution_hints == {"read_only_hint": False, "destructive_hint": True}
        other = made(tags=["destructive"])
        other.hints = Hints(read_only=True)
        assert other.metadata.execution_hints == {"read_only_hint": True, "destructive_hint": False}

    def test_it_never_changes(self) -> None:
        metadata = made(tags=["slow"]).metadata
        with pytest.raises(AttributeError):
            metadata.tags = frozenset()  # type: ignore[misc]  # that is what is tried
        assert isinstance(metadata.tags, frozenset)
        assert isinstance(metadata.custom_tags, frozenset)

    def test_a_copy_may_differ_in_some_fields_and_is_checked_again(self) -> None:
        metadata = ToolMetadata(tags=frozenset([ToolTag.READ_ONLY]))
        assert metadata.model_copy(update={"timeout": 3}) == ToolMetadata(tags=metadata.tags, timeout=3)
        assert metadata.model_copy() == metadata
        with pytest.raises(ValueError, match="read-only and destructive"):
            metadata.model_copy(update={"destructive_hint": True})

    def test_as_a_dict_it_has_all_fields(self) -> None:
        dumped = ToolMetadata(tags=frozenset([ToolTag.SLOW]), custom_tags=frozenset(["x"])).model_dump()
        assert dumped["tags"] == {"slow"}
        assert dumped["custom_tags"] == {"x"}
        assert dumped["read_only_hint"] is None
        assert len(dumped) == 11

    def test_its_repr_is_short_and_always_the_same(self) -> None:
        assert repr(ToolMetadata()) == "ToolMetadata()"
        metadata = made(tags=reversed(TAGS[1:]), custom_tags=["b", "a"], timeout=3).metadata
        expected = "['destructive', 'file_system', 'network', 'privileged', 'slow'], custom_tags=['a', 'b'], timeout=3"
        assert repr(metadata) == f"ToolMetadata(tags={expected})"

    def test_it_pickles(self) -> None:
        metadata = made(tags=["slow"], custom_tags=["x"]).metadata
        assert pickle.loads(pickle.dumps(metadata)) == metadata

    def test_a_method_of_an_object_has_its_own(self) -> None:
        class Files:
            @tool(tags=["file_system"], namespace="files")
            def read(self, path: str) -> str:
                """Read."""
                return path

        (found,) = Agent([Files()]).tools
        assert found.metadata.tags == {ToolTag.FILE_SYSTEM}
        assert (found.namespace, found.method_name) == ("files", "read")

    def test_a_tool_whose_asynchrony_depends_says_what_it_is_now(self) -> None:
        class Either(Tool):
            now = False

            @property
            def is_async(self) -> bool:
                return self.now

        one = Either("either", input_schema=SCHEMA, function=lambda: None)
        assert one.metadata.is_async is False
        one.now = True
        assert one.metadata.is_async is True


class TestNames:
    @pytest.mark.states("RP2.8")
    @pytest.mark.parametrize(
        ("name", "namespace", "inside"),
        [
            ("svc-hi", "svc", "hi"),
            ("svc__hi", "svc", "hi"),
            ("svc.hi", "svc", "hi"),
            ("svc-hi", None, "svc-hi"),
            ("hi", "svc", "hi"),
            ("svc", "svc", "svc"),
            ("svc-", "svc", "svc-"),
            ("svchi", "svc", "svchi"),
            ("svc-svc-hi", "svc", "svc-hi"),
            ("svc_hi", "svc", "svc_hi"),
        ],
    )
    def test_the_name_inside_is_the_name_without_the_namespace(
        self, name: str, namespace: str | None, inside: str
    ) -> None:
        one = made(name, namespace=namespace)
        assert (one.name, one.namespace, one.method_name) == (name, namespace, inside)

    def test_a_tool_of_a_server_is_in_the_namespace_of_its_server(self) -> None:
        remote = {"name": "issues.create", "inputSchema": SCHEMA}
        one = MCPTool("github", remote, no_call)
        assert (one.name, one.namespace, one.method_name) == ("github__issues_create", "github", "issues.create")
        other = MCPTool("github", remote, no_call, namespace="code")
        assert (other.name, other.namespace, other.method_name) == ("github__issues_create", "code", "issues.create")

    def test_a_tool_that_a_provider_connects_to_is_in_the_namespace_of_its_label(self) -> None:
        one = HostedTool("github", "create_issue")
        assert (one.namespace, one.method_name, one.metadata.source) == ("github", "create_issue", "mcp")


class TestServers:
    def test_a_tool_of_a_server_has_no_tags_and_says_where_it_comes_from(self) -> None:
        metadata = of_server({"readOnlyHint": True}).metadata
        assert (metadata.tags, metadata.source, metadata.source_detail) == (frozenset(), "mcp", "github")
        assert [getattr(metadata, f"{name}_hint") for name in HINTS] == [True, None, None, None]

    @pytest.mark.parametrize(
        ("annotations", "tags", "hints"),
        [
            (None, [], (False, True, False, True)),
            (None, ["read_only"], (True, False, True, True)),
            (None, ["destructive"], (False, True, False, True)),
            ({"readOnlyHint": True}, ["destructive"], (False, True, False, True)),
            ({"destructiveHint": False}, ["destructive"], (False, True, False, True)),
            ({"destructiveHint": True}, ["read_only"], (False, True, False, True)),
            ({"idempotentHint": False}, ["read_only"], (False, True, False, True)),
            ({"readOnlyHint": False}, ["read_only"], (False, True, False, True)),
            ({"readOnlyHint": False, "destructiveHint": False}, ["read_only"], (False, False, False, True)),
            ({"readOnlyHint": True}, ["read_only"], (True, False, True, True)),
            ({"openWorldHint": False}, ["network"], (False, True, False, True)),
            ({"openWorldHint": False}, ["slow"], (False, True, False, False)),
            ({"readOnlyHint": True, "destructiveHint": True}, ["read_only"], (False, True, False, True)),
        ],
        ids=str,
    )
    def test_where_server_and_tags_contradict_each_other_the_worst_holds(
        self, annotations: dict[str, Any] | None, tags: list[str], hints: tuple[bool, ...]
    ) -> None:
        one = of_server(annotations, tags=tags)
        assert tuple(getattr(one.hints, name) for name in HINTS) == hints
        assert one.hints.source == "server"
        assert one.metadata.tags == set(tags)
        assert not (one.metadata.read_only_hint and one.metadata.destructive_hint)

    def test_your_own_tags_contradict_each_other_for_a_tool_of_a_server_too(self) -> None:
        with pytest.raises(ValueError, match="read-only and destructive at once"):
            of_server(tags=["read_only", "destructive"])


class Listed:
    """A session that only lists its tools."""

    async def list_tools(self, cursor: str | None = None) -> Any:
        return SimpleNamespace(tools=[{"name": name, "inputSchema": SCHEMA} for name in ("read", "drop")])

    async def call_tool(self, name: str, args: dict[str, Any]) -> Any:
        raise AssertionError("it is not called")


@pytest.mark.anyio
class TestServerTags:
    async def test_a_list_is_for_all_tools_of_the_server(self) -> None:
        tools = await mcp_tools(Listed(), server="db", tags=["network"], custom_tags=iter(["billing"]))
        assert [one.metadata.all_tags for one in tools] == [{"network", "billing"}] * 2

    async def test_a_dict_is_by_the_name_that_the_server_calls_a_tool(self) -> None:
        tags = {"drop": ["destructive", "privileged"]}
        tools = await mcp_tools(Listed(), server="db", tags=tags, custom_tags={"read": ["cheap"]})
        assert [one.metadata.all_tags for one in tools] == [{"cheap"}, {"destructive", "privileged"}]

    @pytest.mark.parametrize("what", ["tags", "custom_tags"])
    async def test_a_tool_that_the_server_does_not_have_is_an_error(self, what: str) -> None:
        with pytest.raises(ValueError, match="names 'db__drop', which is no tool of the MCP server db") as caught:
            await mcp_tools(Listed(), server="db", **{what: {"db__drop": ["privileged"]}})
        assert "read, drop" in str(caught.value)
        assert three_parts(caught.value)

    @pytest.mark.parametrize("tags", ["network", 3, {"drop": "network"}, ["networks"]], ids=repr)
    async def test_what_is_no_list_of_tags_is_an_error(self, tags: Any) -> None:
        with pytest.raises((TypeError, ValueError), match="tags="):
            await mcp_tools(Listed(), server="db", tags=tags)
