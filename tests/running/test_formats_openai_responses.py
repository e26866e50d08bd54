"""OpenAI's Responses API: what is read from a reply, and what goes back."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from openai.types.responses import ParsedResponse, Response
from wire import Result, check, function_call, response, results, said, text

from agentperm_nb.calls import ToolCall
from agentperm_nb.running.formats import read_reply, tool_specs, write_results
from agentperm_nb.tools import Tool, tool

NAME = "openai-responses"

REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Add, then say so."}],
    "content": [{"type": "reasoning_text", "text": "Two and two…"}],
    "encrypted_content": "c2lnbmVk",
}
CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_c", "name": "sql", "input": "select 1"}
SHELL = {
    "type": "shell_call",
    "id": "sh_1",
    "call_id": "call_s",
    "status": "completed",
    "action": {"commands": ["rm -r ."], "timeout_ms": 9},
    "environment": {"type": "local"},
}
LOCAL_SHELL = {
    "type": "local_shell_call",
    "id": "lsh_1",
    "call_id": "call_l",
    "status": "completed",
    "action": {"type": "exec", "command": ["ls"], "env": {}},
}
PATCH = {
    "type": "apply_patch_call",
    "id": "ap_1",
    "call_id": "call_p",
    "status": "completed",
    "operation": {"type": "delete_file", "path": "notes.txt"},
}
TOOL_SEARCH = {
    "type": "tool_search_call",
    "id": "ts_1",
    "call_id": "call_t",
    "execution": "client",
    "status": "completed",
    "arguments": {"goal": "files"},
}
APPROVAL = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "server_label": "db",
    "name": "drop_table",
    "arguments": '{"table": "notes"}',
}

HOSTED: dict[str, list[dict[str, Any]]] = {
    "a web search": [
        {
            "type": "web_search_call",
            "id": "ws_1",
            "status": "completed",
            "action": {"type": "search", "query": "q", "sources": [{"type": "url", "url": "u"}]},
        }
    ],
    "a file search": [
        {
            "type": "file_search_call",
            "id": "fs_1",
            "status": "completed",
            "queries": ["q"],
            "results": [{"file_id": "f", "filename": "n.txt", "score": 0.5, "text": "t", "attributes": {"a": "b"}}],
        }
    ],
    "a code interpreter": [
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "status": "completed",
            "code": "1 + 1",
            "container_id": "cntr_1",
            "outputs": None,
        }
    ],
    "an image": [{"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "iVBORw0="}],
    "a call that the provider made": [
        {
            "type": "mcp_call",
            "id": "mcp_1",
            "server_label": "db",
            "name": "select",
            "arguments": '{"table": "notes"}',
            "output": "3 rows",
            "status": "completed",
        }
    ],
    "a list of tools": [
        {
            "type": "mcp_list_tools",
            "id": "mcpl_1",
            "server_label": "db",
            "tools": [{"name": "select", "input_schema": {"default": None}}],
        }
    ],
    "a shell in a container": [
        {**SHELL, "environment": {"type": "container_reference", "container_id": "cntr_1"}},
        {
            "type": "shell_call_output",
            "id": "sho_1",
            "call_id": "call_s",
            "status": "completed",
            "max_output_length": 100,
            "output": [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
        },
    ],
    "a search for tools": [
        {
            "type": "tool_search_call",
            "id": "ts_1",
            "execution": "server",
            "status": "completed",
            "arguments": {"paths": ["crm"]},
        },
        {
            "type": "tool_search_output",
            "id": "tso_1",
            "execution": "server",
            "status": "completed",
            "tools": [{"type": "function", "name": "get", "parameters": {"default": None}, "strict": False}],
        },
    ],
    "a program": [
        {"type": "program", "id": "pr_1", "call_id": "call_g", "code": "1", "fingerprint": "f"},
        {"type": "program_output", "id": "po_1", "call_id": "call_g", "result": "1", "status": "completed"},
    ],
    "a compaction": [{"type": "compaction", "id": "cmp_1", "encrypted_content": "c2ln"}],
}


def as_validated(reply: dict[str, Any]) -> Any:
    return Response.model_validate(reply)


def as_the_client_builds_it(reply: dict[str, Any]) -> Any:
    return Response.construct(**reply)


def as_parsed(reply: dict[str, Any]) -> Any:
    return ParsedResponse[object].construct(**reply)


def as_dict(reply: dict[str, Any]) -> Any:
    return reply


def as_dumped(reply: dict[str, Any]) -> Any:
    return as_validated(reply).model_dump()  # with every default, as null


def as_items(reply: dict[str, Any]) -> Any:
    return as_validated(reply).output


def as_item_dicts(reply: dict[str, Any]) -> Any:
    return reply["output"]


FORMS = [as_validated, as_the_client_builds_it, as_parsed, as_dict, as_dumped, as_items, as_item_dicts]


def given_back(reply: Any) -> list[dict[str, Any]]:
    """Return the reply's items as the next request has them, checked together with the answers."""
    read = read_reply(reply)
    written = write_results(read.format, reply, results(read.calls), with_reply=True)
    check(NAME, written)
    assert read.format == NAME
    return written[: len(written) - len(read.calls)]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_reply_is_read_alike(form: Any) -> None:
    items = [
        function_call("add", '{"a": 1, "b": [2, {"c": null}]}'),
        said("And:"),
        function_call("sub", "{}", "call_2"),
    ]
    reply = form(response(REASONING, *items))
    read = read_reply(reply)
    assert read.format == NAME
    assert read.original == reply
    assert read.calls == (ToolCall("add", {"a": 1, "b": [2, {"c": None}]}, "call_1"), ToolCall("sub", {}, "call_2"))


@pytest.mark.parametrize("form", FORMS)
def test_the_api_takes_the_reply_and_the_results_back(form: Any) -> None:
    items = [REASONING, said("Adding."), function_call("add", '{ "a":1}'), function_call("sub", "{}", "call_2")]
    reply = form(response(*items))
    calls = read_reply(reply).calls
    outcomes = [Result(calls[0], "3"), Result(calls[1], "not today", is_error=True)]
    written = write_results(NAME, reply, outcomes, with_reply=True)
    check(NAME, written)
    assert written == [
        *items,
        {"type": "function_call_output", "call_id": "call_1", "output": "3"},
        {"type": "function_call_output", "call_id": "call_2", "output": "Error: not today"},
    ]
    assert write_results(NAME, reply, outcomes) == written[4:]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "item",
    [
        said("Done."),
        said("Done.", phase="final_answer"),
        said("", content=[{"type": "refusal", "refusal": "I cannot."}]),
        REASONING,
    ],
    ids=["text", "a final answer", "a refusal", "thoughts only"],
)
def test_a_reply_without_calls_is_given_back_alone(form: Any, item: dict[str, Any]) -> None:
    reply = form(response(item))
    assert read_reply(reply).calls == ()
    assert write_results(NAME, reply, []) == []
    assert given_back(reply) == [item]


def test_a_reply_without_items_has_nothing_to_give_back() -> None:
    assert given_back(as_validated(response())) == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("items", HOSTED.values(), ids=HOSTED)
def test_what_ran_at_the_provider_is_no_call_and_goes_back_as_it_came(form: Any, items: list[dict[str, Any]]) -> None:
    reply = form(response(*items, function_call()))
    assert [call.name for call in read_reply(reply).calls] == ["add"]
    if form is as_dumped and items[0]["type"] == "tool_search_call":
        return  # nulls inside the tools that were found are kept: they are schemas
    back = given_back(reply)
    assert form is as_dumped or back == [*items, function_call()]


@pytest.mark.parametrize("form", [as_validated, as_the_client_builds_it, as_parsed, as_dict])
def test_what_only_replies_have_is_not_given_back(form: Any) -> None:
    part: dict[str, Any] = {"type": "output_text", "text": "x", "annotations": [], "logprobs": None}
    output = {"stdout": "", "stderr": "", "outcome": {"type": "timeout"}}
    hosted, container_output = HOSTED["a shell in a container"]
    reply = form(
        response(
            said("x", content=[part], phase=None),
            {**REASONING, "status": None, "encrypted_content": None},
            {"type": "code_interpreter_call", "id": "ci_1", "status": "failed", "container_id": "cntr_1"},
            {"type": "image_generation_call", "id": "ig_1", "status": "failed", "error": None},
            {**hosted, "created_by": "me"},
            {**container_output, "created_by": "me", "output": [{**output, "created_by": "me"}]},
            function_call(namespace=None, caller=None, created_by="me"),
        )
    )
    assert given_back(reply) == [
        said("x"),
        {key: value for key, value in REASONING.items() if key != "encrypted_content"},
        {
            "type": "code_interpreter_call",
            "id": "ci_1",
            "status": "failed",
            "container_id": "cntr_1",
            "code": None,
            "outputs": None,
        },
        {"type": "image_generation_call", "id": "ig_1", "status": "failed", "result": None},
        hosted,
        {**container_output, "output": [output]},
        function_call(),
    ]


def test_the_form_parsed_by_the_client_is_not_given_back() -> None:
    class Unsendable:
        pass

    spoken = said("{}")
    spoken["content"][0]["parsed"] = Unsendable()
    reply = as_parsed(response(spoken, function_call(arguments='{"a": 1}', parsed_arguments=Unsendable())))
    assert given_back(reply) == [said("{}"), function_call(arguments='{"a": 1}')]


def test_fields_that_openai_does_not_have_go_back_to_the_server_that_sent_them() -> None:
    signed = function_call(extra_content={"google": {"thought_signature": "c2ln"}})
    reply = as_the_client_builds_it(response(signed))
    (call,) = read_reply(reply).calls
    assert write_results(NAME, reply, [Result(call)], with_reply=True)[0] == signed


def test_an_unknown_item_that_waits_for_nothing_goes_back_as_it_came() -> None:
    noted = {"type": "note", "id": "n_1", "text": "x"}
    reply = as_the_client_builds_it(response(noted, function_call()))
    (call,) = read_reply(reply).calls
    assert write_results(NAME, reply, [Result(call)], with_reply=True)[:2] == [noted, function_call()]


@pytest.mark.parametrize("form", [as_validated, as_the_client_builds_it, as_parsed, as_dict, as_dumped])
@pytest.mark.parametrize("reason", ["max_output_tokens", "content_filter"])
def test_the_last_call_of_an_incomplete_response_is_invalid(form: Any, reason: str) -> None:
    items = [function_call(), function_call("write", '{"path": "/tm"}', "call_2"), said("I wi")]
    reply = form(response(*items, status="incomplete", incomplete_details={"reason": reason}))
    first, last = read_reply(reply).calls
    assert first.invalid is None
    assert last.invalid is not None
    assert f"cut off (status: incomplete, reason: {reason})" in last.invalid
    assert given_back(reply) == items


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"status": "incomplete"}, "(status: incomplete)"),
        ({"status": None, "incomplete_details": {"reason": "steered"}}, "(status: None, reason: steered)"),
        ({"incomplete_details": {"reason": "max_messages"}}, "(status: completed, reason: max_messages)"),
        ({"status": "paused"}, "(status: paused)"),
        ({"status": ["completed"]}, "(status: ['completed'])"),
    ],
    ids=["no reason", "no status", "complete and not", "an unknown status", "a status that is a list"],
)
def test_a_response_that_does_not_say_that_it_is_complete_has_an_invalid_last_call(fields: Any, words: str) -> None:
    first, last = read_reply(response(function_call(), function_call(), **fields)).calls
    assert first.invalid is None
    assert f"the reply was cut off {words}" in str(last.invalid)


def test_an_incomplete_response_of_text_has_no_calls() -> None:
    assert read_reply(response(said("I wi", status="incomplete"), status="incomplete")).calls == ()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("status", ["incomplete", "in_progress"])
def test_a_call_that_is_incomplete_itself_is_invalid_wherever_it_stands(form: Any, status: str) -> None:
    cut, whole = read_reply(form(response(function_call(status=status), function_call()))).calls
    assert cut.invalid == f"the call was cut off (status: {status}): its arguments may be incomplete"
    assert whole.invalid is None


@pytest.mark.parametrize("fields", [{"status": "completed"}, {"status": None}, {"incomplete_details": {}}], ids=repr)
def test_a_response_that_was_not_cut_off_has_valid_calls(fields: Any) -> None:
    assert read_reply(response(function_call(status=None), **fields)).calls[0].invalid is None


@pytest.mark.parametrize("form", FORMS)
def test_a_custom_tool_call_is_invalid_and_answered(form: Any) -> None:
    reply = form(response(CUSTOM, function_call()))
    custom, ours = read_reply(reply).calls
    assert (custom.name, custom.id, dict(custom.args)) == ("sql", "call_c", {})
    assert "free text, not arguments" in str(custom.invalid)
    assert ours.invalid is None
    written = write_results(NAME, reply, [Result(custom, "no", is_error=True), Result(ours)], with_reply=True)
    check(NAME, written)
    assert written[:2] == [CUSTOM, function_call()]
    assert written[2] == {"type": "custom_tool_call_output", "call_id": "call_c", "output": "Error: no"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("item", "call", "answer"),
    [
        (
            SHELL,
            ("shell", SHELL["action"], "call_s"),
            {
                "type": "shell_call_output",
                "call_id": "call_s",
                "output": [{"stdout": "", "stderr": "no", "outcome": {"type": "exit", "exit_code": 1}}],
            },
        ),
        (
            LOCAL_SHELL,
            ("local_shell", LOCAL_SHELL["action"], "call_l"),
            {"type": "local_shell_call_output", "id": "call_l", "output": '"Error: no"'},
        ),
        (
            PATCH,
            ("apply_patch", PATCH["operation"], "call_p"),
            {"type": "apply_patch_call_output", "call_id": "call_p", "status": "failed", "output": "no"},
        ),
        (
            TOOL_SEARCH,
            ("tool_search", TOOL_SEARCH["arguments"], "call_t"),
            {"type": "tool_search_output", "call_id": "call_t", "execution": "client", "tools": []},
        ),
    ],
    ids=["shell", "local shell", "patch", "search for tools"],
)
def test_a_call_of_the_providers_tool_that_the_client_runs_is_invalid_and_answered_in_its_form(
    form: Any, item: dict[str, Any], call: tuple[str, dict[str, Any], str], answer: dict[str, Any]
) -> None:
    reply = form(response(item, function_call()))
    theirs, ours = read_reply(reply).calls
    args = {key: value for key, value in theirs.args.items() if value is not None}  # a dump has nulls
    assert (theirs.name, args, theirs.id) == call
    assert f"the provider's own tool {theirs.name}, not of a function tool" in str(theirs.invalid)
    assert ours.invalid is None
    written = write_results(NAME, reply, [Result(theirs, "no", is_error=True), Result(ours)], with_reply=True)
    check(NAME, written)
    assert written[2] == answer
    if form is not as_dumped:
        assert written[0] == item


def test_a_shell_that_does_not_say_where_it_runs_is_the_clients() -> None:
    (call,) = read_reply(response({key: value for key, value in SHELL.items() if key != "environment"})).calls
    assert call.invalid is not None


def test_the_arguments_of_a_providers_tool_that_have_no_json_form_are_left_out() -> None:
    deep: dict[str, Any] = {}
    deep["deeper"] = deep
    (call,) = read_reply(response({**TOOL_SEARCH, "arguments": deep})).calls
    assert dict(call.args) == {}
    assert call.invalid is not None


ANSWERED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (function_call(), {"type": "function_call_output", "call_id": "call_1", "output": "3"}),
    (CUSTOM, {"type": "custom_tool_call_output", "call_id": "call_c", "output": "3"}),
    (SHELL, {"type": "shell_call_output", "call_id": "call_s", "output": []}),
    (LOCAL_SHELL, {"type": "local_shell_call_output", "id": "call_l", "output": "3"}),
    (PATCH, {"type": "apply_patch_call_output", "call_id": "call_p", "status": "completed"}),
    (TOOL_SEARCH, {"type": "tool_search_output", "call_id": "call_t", "tools": []}),
    (APPROVAL, {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}),
]


@pytest.mark.parametrize(("item", "answer"), ANSWERED, ids=[item["type"] for item, _ in ANSWERED])
def test_a_call_whose_output_stands_in_the_response_is_not_made_again(item: Any, answer: Any) -> None:
    reply = response(item, answer)
    assert read_reply(reply).calls == ()
    assert given_back(reply) == [item, answer]
    for other in (
        {**answer, "call_id": "x", "id": "x", "approval_request_id": "x"},
        {**answer, "type": "program_output"},
    ):
        assert len(read_reply(response(item, other)).calls) == 1


@pytest.mark.parametrize(("namespace", "name"), [("crm", "crm.add"), ("add", "add"), ("", "add"), (None, "add")])
def test_a_function_of_a_namespace_is_named_with_it(namespace: str | None, name: str) -> None:
    reply = response(function_call(namespace=namespace))
    (call,) = read_reply(reply).calls
    assert call.name == name
    assert given_back(reply)[0]["name"] == "add"


def test_the_result_of_a_call_that_a_program_made_says_so() -> None:
    caller = {"type": "program", "caller_id": "call_g"}
    items = [function_call(caller=caller), function_call(id="call_2", caller={"type": "direct"})]
    reply = as_validated(response(*items))
    written = write_results(NAME, reply, results(read_reply(reply).calls), with_reply=True)
    check(NAME, written)
    assert written[2:] == [
        {"type": "function_call_output", "call_id": "call_1", "output": "done", "caller": caller},
        {"type": "function_call_output", "call_id": "call_2", "output": "done"},
    ]


def test_two_calls_with_one_id_are_two_calls_and_get_two_results() -> None:
    reply = response(function_call(arguments='{"a": 1}', id="same"), function_call(arguments='{"a": 2}', id="same"))
    calls = read_reply(reply).calls
    assert [call.args for call in calls] == [{"a": 1}, {"a": 2}]
    written = write_results(NAME, reply, [Result(calls[0], "one"), Result(calls[1], "two")])
    assert [(item["call_id"], item["output"]) for item in written] == [("same", "one"), ("same", "two")]


@pytest.mark.parametrize("arguments", ["", " \n"], ids=repr)
def test_an_empty_text_means_no_arguments(arguments: str) -> None:
    reply = response(function_call(arguments=arguments))
    (call,) = read_reply(reply).calls
    assert (dict(call.args), call.invalid) == ({}, None)
    assert given_back(reply)[0]["arguments"] == arguments


def test_arguments_sent_as_an_object_are_read_and_go_back_as_a_text() -> None:
    reply = response(function_call(arguments={"a": [1]}))
    (call,) = read_reply(reply).calls
    assert call.args == {"a": [1]}
    assert json.loads(given_back(reply)[0]["arguments"]) == {"a": [1]}


def test_a_result_is_text_and_says_what_was_left_out() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0="}}
    reply = response(function_call(id="a"), function_call(id="b"), function_call(id="c"))
    calls = read_reply(reply).calls
    outcomes = [
        Result(calls[0], [text("A plot:"), image]),
        Result(calls[1], [text("x")], is_error=True),
        Result(calls[2], []),
    ]
    written = write_results(NAME, reply, outcomes)
    check(NAME, written)
    assert [item["output"] for item in written] == ["A plot:\n[image left out: text only]", "Error: x", ""]


def test_half_a_surrogate_pair_is_read_and_replaced_in_what_is_sent() -> None:
    reply = as_validated(response(function_call(arguments=r'{"a": "\ud800"}'), LOCAL_SHELL))
    call, shell = read_reply(reply).calls
    assert call.args == {"a": "\ud800"}
    written = write_results(NAME, reply, [Result(call, "caf\udce9 🙂"), Result(shell, "\udce9")], with_reply=True)
    assert written[0]["arguments"] == r'{"a": "\ud800"}'
    assert written[2]["output"] == "caf\ufffd 🙂"
    assert json.loads(written[3]["output"]) == "\ufffd"


def test_objects_that_are_neither_dicts_nor_pydantic_are_read_by_their_attributes() -> None:
    item = SimpleNamespace(**function_call("add", '{"a": 1}'))
    reply = SimpleNamespace(object="response", status="completed", output=[item])
    assert read_reply(reply).calls == (ToolCall("add", {"a": 1}, "call_1"),)
    assert given_back(reply) == [function_call("add", '{"a": 1}')]


def test_a_list_of_items_may_be_emptied_before_the_results_are_written() -> None:
    given = [function_call()]
    read = read_reply(given)
    given.clear()
    assert [item["call_id"] for item in write_results(NAME, read.original, results(read.calls))] == ["call_1"]


def test_tools_are_described_as_the_api_takes_them() -> None:
    @tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    specs = tool_specs(NAME, [add, Tool("bare", input_schema={}, function=add.function)])
    check(f"{NAME} tools", specs)
    assert specs == [
        {
            "type": "function",
            "name": "add",
            "description": "Add two numbers.",
            "parameters": add.input_schema,
            "strict": False,
        },
        {"type": "function", "name": "bare", "parameters": {"type": "object"}, "strict": False},
    ]
    specs[0]["parameters"]["properties"].clear()
    assert add.input_schema["properties"]


@pytest.mark.parametrize("name", ["files/read", "a.b", "é", "x" * 65])
def test_a_tool_name_that_openai_refuses_is_an_error_before_the_request(name: str) -> None:
    with pytest.raises(ValueError, match=r"OpenAI does not take the tool name(.|\n)*Fix: .*64(.|\n)*Example:"):
        tool_specs(NAME, [Tool(name, function=lambda: None)])
