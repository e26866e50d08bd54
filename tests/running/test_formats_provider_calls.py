"""Calls that ran at the provider: told beside the calls that are decided here, whatever they hold."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from anthropic.types import Message
from anthropic.types.beta import BetaMessage
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from wire import completion, function, function_call, message, response, said, text, use

from agentperm_nb.calls import ToolCall
from agentperm_nb.json_values import FrozenDict
from agentperm_nb.running.formats import ProviderCall, read_reply

SEARCH = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "sums"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
NOT_FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srv_1",
    "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"},
}
MCP = {"type": "mcp_tool_use", "id": "mcp_1", "name": "select", "server_name": "db", "input": {"table": "notes"}}
CODE = {"type": "server_tool_use", "id": "srv_2", "name": "bash_code_execution", "input": {"command": "false"}}
RAN = {
    "type": "bash_code_execution_tool_result",
    "tool_use_id": "srv_2",
    "content": {"type": "bash_code_execution_result", "stdout": "", "stderr": "", "return_code": 1, "content": []},
}
SEARCHED = ProviderCall("web_search", {"query": "sums"}, "srv_1")
SELECTED = ProviderCall("db__select", {"table": "notes"}, "mcp_1", "db")


def mcp_result(is_error: bool) -> dict[str, Any]:
    return {"type": "mcp_tool_result", "tool_use_id": "mcp_1", "is_error": is_error, "content": []}


def told(call: ProviderCall, failed: bool | None) -> ProviderCall:
    return ProviderCall(call.name, call.args, call.id, call.server, failed, call.approval_id)


ANTHROPIC: dict[str, tuple[list[dict[str, Any]], list[ProviderCall]]] = {
    "a search that is not over": ([SEARCH], [SEARCHED]),
    "a search": ([SEARCH, FOUND], [told(SEARCHED, False)]),
    "a search that failed": ([SEARCH, NOT_FOUND], [told(SEARCHED, True)]),
    "a tool of an MCP server": ([MCP, mcp_result(False)], [told(SELECTED, False)]),
    "a tool of an MCP server that failed": ([MCP, mcp_result(True)], [told(SELECTED, True)]),
    "code that ended with an exit code": (
        [CODE, RAN],
        [ProviderCall("bash_code_execution", {"command": "false"}, "srv_2", failed=False)],
    ),
    "several, in order": ([MCP, SEARCH, NOT_FOUND, mcp_result(False)], [told(SELECTED, False), told(SEARCHED, True)]),
    "two of one id": ([SEARCH, SEARCH, NOT_FOUND], [SEARCHED, told(SEARCHED, True)]),
    "a result of another": ([MCP, FOUND], [SELECTED]),
}


@pytest.mark.parametrize("form", [BetaMessage.model_validate, lambda reply: BetaMessage.construct(**reply), dict])
@pytest.mark.parametrize(("blocks", "calls"), ANTHROPIC.values(), ids=ANTHROPIC)
def test_blocks_of_tools_that_anthropic_ran_are_told(
    form: Any, blocks: list[dict[str, Any]], calls: list[ProviderCall]
) -> None:
    read = read_reply(form(message(text("Let me see."), *blocks, use())))
    assert list(read.provider_calls) == calls
    assert [call.name for call in read.calls] == ["add"]
    assert read.stand_ins == {}


def item(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "id": "x_1", "status": "completed", **fields}


SHELL = item("shell_call", call_id="call_s", action={"commands": ["ls"]}, environment={"type": "container_reference"})
SHELL["environment"]["container_id"] = "cntr_1"
SHELL_RAN = ProviderCall("shell", {"commands": ["ls"]}, "x_1")
PROGRAM = {"type": "program", "id": "x_1", "call_id": "call_g", "code": "1", "fingerprint": "f"}
MCP_CALL = item("mcp_call", server_label="db", name="select", arguments='{"table": "notes"}')
MCP_RAN = ProviderCall("db__select", {"table": "notes"}, "x_1", "db", False)


def shell_output(outcome: dict[str, Any], status: str = "completed") -> dict[str, Any]:
    chunk = {"stdout": "", "stderr": "", "outcome": outcome}
    return {"type": "shell_call_output", "id": "o_1", "call_id": "call_s", "status": status, "output": [chunk]}


OPENAI: dict[str, tuple[list[dict[str, Any]], list[ProviderCall]]] = {
    "a web search": (
        [item("web_search_call", action={"type": "search", "query": "q", "sources": [{"type": "url", "url": "u"}]})],
        [ProviderCall("web_search", {"type": "search", "query": "q"}, "x_1", failed=False)],
    ),
    "a web search that is not over": (
        [item("web_search_call", status="searching", action={"type": "open_page", "url": "u"})],
        [ProviderCall("web_search", {"type": "open_page", "url": "u"}, "x_1")],
    ),
    "a file search": (
        [item("file_search_call", queries=["q"], results=[])],
        [ProviderCall("file_search", {"queries": ["q"]}, "x_1", failed=False)],
    ),
    "code that failed": (
        [item("code_interpreter_call", status="failed", code="1 + 1", container_id="c", outputs=None)],
        [ProviderCall("code_interpreter", {"code": "1 + 1"}, "x_1", failed=True)],
    ),
    "code that was cut off": (
        [item("code_interpreter_call", status="incomplete", code=None, container_id="c", outputs=None)],
        [ProviderCall("code_interpreter", {}, "x_1")],
    ),
    "an image": (
        [item("image_generation_call", result="iVBORw0=", revised_prompt="a cat", action="generate")],
        [ProviderCall("image_generation", {"action": "generate", "revised_prompt": "a cat"}, "x_1", failed=False)],
    ),
    "a tool of an MCP server": ([{**MCP_CALL, "output": "3 rows"}], [MCP_RAN]),
    "a tool of an MCP server that failed": (
        [{**MCP_CALL, "error": {"type": "http_error", "code": 500, "message": "down"}}],
        [told(MCP_RAN, True)],
    ),
    "a tool of an MCP server that was approved": (
        [{**MCP_CALL, "approval_request_id": "mcpr_1"}],
        [ProviderCall("db__select", {"table": "notes"}, "x_1", "db", False, "mcpr_1")],
    ),
    "a shell in a container": (
        [SHELL, shell_output({"type": "exit", "exit_code": 1})],
        [told(SHELL_RAN, False)],
    ),
    "a shell that took too long": ([SHELL, shell_output({"type": "timeout"})], [told(SHELL_RAN, True)]),
    "a shell whose output was cut off": (
        [SHELL, shell_output({"type": "exit", "exit_code": 0}, "incomplete")],
        [SHELL_RAN],
    ),
    "a shell without its output": ([SHELL], [SHELL_RAN]),
    "a search for tools": (
        [item("tool_search_call", execution="server", arguments={"paths": ["crm"]})],
        [ProviderCall("tool_search", {"paths": ["crm"]}, "x_1", failed=False)],
    ),
    "a program": (
        [PROGRAM, {"type": "program_output", "id": "o", "call_id": "call_g", "result": "1", "status": "completed"}],
        [ProviderCall("program", {"code": "1"}, "x_1", failed=False)],
    ),
    "what is no call": (
        [said("Hi"), {"type": "reasoning", "id": "r", "summary": []}, {"type": "mcp_list_tools", "id": "l"}],
        [],
    ),
}


@pytest.mark.parametrize("form", [lambda reply: Response.construct(**reply), dict, lambda reply: reply["output"]])
@pytest.mark.parametrize(("items", "calls"), OPENAI.values(), ids=OPENAI)
def test_items_of_tools_that_openai_ran_are_told(
    form: Any, items: list[dict[str, Any]], calls: list[ProviderCall]
) -> None:
    read = read_reply(form(response(*items, function_call())))
    assert list(read.provider_calls) == calls
    assert [call.name for call in read.calls] == ["add"]


def test_a_tool_that_the_client_is_to_run_did_not_run_at_the_provider() -> None:
    local = {**SHELL, "environment": {"type": "local"}}
    search = item("tool_search_call", call_id="t", execution="client", arguments={})
    read = read_reply(response(local, search))
    assert read.provider_calls == ()
    assert [call.name for call in read.calls] == ["shell", "tool_search"]


def test_no_reply_of_chat_completions_and_no_list_of_calls_tells_of_any() -> None:
    for reply in (ChatCompletion.construct(**completion(function())), completion(function()), [ToolCall("add")], []):
        assert read_reply(reply).provider_calls == ()
        assert read_reply(reply).stand_ins == {}


deep: dict[str, Any] = {}
deep["deeper"] = deep
JUNK: dict[str, tuple[dict[str, Any], str, Any]] = {
    "no fields": ({"type": "server_tool_use"}, "server_tool_use", None),
    "fields of wrong types": ({**SEARCH, "id": 3, "name": ["x"], "input": "a text"}, "server_tool_use", None),
    "arguments that contain themselves": ({**SEARCH, "input": deep}, "web_search", None),
    "arguments that are no JSON": ({**SEARCH, "input": {"a": {1}}}, "web_search", None),
    "a server that is a number": ({**MCP, "input": None, "server_name": 7}, "select", None),
    "an item without fields": ({"type": "mcp_call"}, "mcp_call", None),
    "an item with fields of wrong types": (
        {"type": "mcp_call", "id": 3, "name": 4, "server_label": "db", "arguments": 5, "status": ["failed"]},
        "db__mcp_call",
        None,
    ),
    "arguments that are cut off": ({**MCP_CALL, "arguments": '{"table": '}, "db__select", False),
    "a search with an action that contains itself": (
        {**item("web_search_call"), "action": SimpleNamespace(inner=deep)},
        "web_search",
        False,
    ),
    "queries that are a number": (item("file_search_call", queries={1}), "file_search", False),
}


@pytest.mark.parametrize(("junk", "name", "failed"), JUNK.values(), ids=JUNK)
def test_what_cannot_be_read_of_them_is_left_out_and_never_an_error(junk: Any, name: str, failed: bool | None) -> None:
    anthropic = junk["type"].endswith("_use")
    read = read_reply(message(use(), junk) if anthropic else response(function_call(), junk))
    (call,) = read.provider_calls
    assert (call.name, dict(call.args), call.failed) == (name, {}, failed)
    assert [ours.name for ours in read.calls] == ["add"]


def test_a_call_of_the_provider_masks_secrets_in_its_repr_and_cannot_be_changed() -> None:
    args: Any = {"api_key": "sk-secret-1", "list": [1]}
    call = ProviderCall("db__login", args, "x_1", "db", True)
    args["list"].append(2)
    assert "sk-secret-1" not in repr(call)
    assert repr(call).startswith("ProviderCall('db__login', {'api_key': ")
    assert repr(call).endswith(", id='x_1', server='db', failed=True)")
    assert repr(ProviderCall("web_search", failed=False)) == "ProviderCall('web_search', {}, failed=False)"
    assert type(call.args) is FrozenDict
    assert call.args["list"] == [1]
    assert len({call, ProviderCall("db__login", call.args, "x_1", "db", True)}) == 1


def test_the_objects_of_the_clients_are_read_like_dicts() -> None:
    read = read_reply(Message.construct(**message(SEARCH, FOUND)))
    assert read.provider_calls == (told(SEARCHED, False),)
    (call,) = read_reply(Response.model_validate(response(MCP_CALL))).provider_calls
    assert call == MCP_RAN
