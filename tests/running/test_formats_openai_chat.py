"""OpenAI's Chat Completions API: what is read from a reply, and what goes back."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ParsedChatCompletion
from wire import Result, check, completion, function, results, text

from agentperm_nb.calls import ToolCall
from agentperm_nb.running.formats import read_reply, tool_specs, write_results
from agentperm_nb.tools import Tool, tool

CUSTOM = {"id": "call_c", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}


def as_validated(reply: dict[str, Any]) -> Any:
    return ChatCompletion.model_validate(reply)


def as_the_client_builds_it(reply: dict[str, Any]) -> Any:
    return ChatCompletion.construct(**reply)


def as_parsed(reply: dict[str, Any]) -> Any:
    return ParsedChatCompletion[object].construct(**reply)


def as_dict(reply: dict[str, Any]) -> Any:
    return reply


def as_choice(reply: dict[str, Any]) -> Any:
    return as_validated(reply).choices[0]


def as_message(reply: dict[str, Any]) -> Any:
    return as_validated(reply).choices[0].message


def as_message_dict(reply: dict[str, Any]) -> Any:
    return reply["choices"][0]["message"]


FORMS = [as_validated, as_the_client_builds_it, as_parsed, as_dict, as_choice, as_message, as_message_dict]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_reply_is_read_alike(form: Any) -> None:
    reply = form(completion(function("add", '{"a": 1, "b": [2, {"c": null}]}'), function("sub", "{}", "call_2")))
    read = read_reply(reply)
    assert read.format == "openai-chat"
    assert read.original is reply
    assert read.calls == (ToolCall("add", {"a": 1, "b": [2, {"c": None}]}, "call_1"), ToolCall("sub", {}, "call_2"))


@pytest.mark.parametrize("form", FORMS)
def test_the_api_takes_the_reply_and_the_results_back(form: Any) -> None:
    calls = [function("add", '{ "a":1}'), function("sub", "{}", "call_2")]
    audio = {"id": "audio_1", "data": "AAAA", "expires_at": 1, "transcript": "Adding."}
    citation = {"url": "u", "title": "t", "start_index": 0, "end_index": 1}
    annotations = [{"type": "url_citation", "url_citation": citation}]
    read = read_reply(form(completion(*calls, content="Adding.", audio=audio, annotations=annotations)))
    outcomes = [Result(read.calls[0], "3"), Result(read.calls[1], "not today", is_error=True)]
    written = write_results(read.format, read.original, outcomes, with_reply=True)
    check("openai-chat", written)
    assert written == [
        {"role": "assistant", "content": "Adding.", "audio": {"id": "audio_1"}, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "call_1", "content": "3"},
        {"role": "tool", "tool_call_id": "call_2", "content": "Error: not today"},
    ]
    assert write_results(read.format, read.original, outcomes) == written[1:]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("fields", "given_back"),
    [
        ({"content": "Done."}, {"content": "Done."}),
        ({"refusal": "I cannot."}, {"content": None, "refusal": "I cannot."}),
        ({"content": "Done.", "tool_calls": []}, {"content": "Done."}),
        ({"content": ""}, {"content": ""}),
    ],
    ids=["text", "a refusal", "an empty list of calls", "nothing at all"],
)
def test_a_reply_without_calls_is_given_back_alone(
    form: Any, fields: dict[str, Any], given_back: dict[str, Any]
) -> None:
    reply = form(completion(finish_reason="stop", **fields))
    assert read_reply(reply).calls == ()
    assert write_results("openai-chat", reply, []) == []
    written = write_results("openai-chat", reply, [], with_reply=True)
    check("openai-chat", written)
    assert written == [{"role": "assistant", **given_back}]


def test_the_form_parsed_by_the_client_is_not_given_back() -> None:
    class Unsendable:
        pass

    call = function(arguments='{"a": 1}')
    call["function"]["parsed_arguments"] = Unsendable()
    reply = as_parsed(completion(call, parsed=Unsendable()))
    written = write_results("openai-chat", reply, results(read_reply(reply).calls), with_reply=True)
    check("openai-chat", written)
    assert written[0] == {"role": "assistant", "tool_calls": [function(arguments='{"a": 1}')]}


def test_the_index_that_a_call_has_in_a_stream_is_not_given_back() -> None:
    reply = as_parsed(completion(function(index=0)))
    written = write_results("openai-chat", reply, results(read_reply(reply).calls), with_reply=True)
    check("openai-chat", written)
    assert written[0]["tool_calls"] == [function()]


def test_fields_that_openai_does_not_have_go_back_to_the_server_that_sent_them() -> None:
    signed = function(extra_content={"google": {"thought_signature": "c2ln"}})
    reply = as_the_client_builds_it(completion(signed, reasoning_content="Two and two…"))
    (assistant, _) = write_results("openai-chat", reply, results(read_reply(reply).calls), with_reply=True)
    assert assistant == {"role": "assistant", "reasoning_content": "Two and two…", "tool_calls": [signed]}


@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_the_last_call_of_a_reply_that_was_cut_off_is_invalid(reason: str) -> None:
    calls = [function(), function("write", '{"path": "/tm', "call_2")]
    first, last = read_reply(as_validated(completion(*calls, finish_reason=reason))).calls
    assert first.invalid is None
    assert last.invalid is not None
    assert f"cut off (finish_reason: {reason})" in last.invalid


@pytest.mark.parametrize("reason", ["tool_calls", "stop", None])
def test_a_reply_that_was_not_cut_off_has_valid_calls(reason: str | None) -> None:
    assert read_reply(completion(function(), finish_reason=reason)).calls[0].invalid is None


def test_a_reply_cut_off_after_its_text_has_no_calls() -> None:
    assert read_reply(completion(content="I wi", finish_reason="length")).calls == ()


def test_a_custom_tool_call_is_invalid_and_answered() -> None:
    reply = as_validated(completion(CUSTOM, function()))
    custom, ours = read_reply(reply).calls
    assert (custom.name, custom.id, dict(custom.args)) == ("sql", "call_c", {})
    assert custom.invalid is not None
    assert "free text, not arguments" in custom.invalid
    assert ours.invalid is None
    outcomes = [Result(custom, custom.invalid, is_error=True), Result(ours)]
    written = write_results("openai-chat", reply, outcomes, with_reply=True)
    check("openai-chat", written)
    assert written[0]["tool_calls"] == [CUSTOM, function()]
    assert [item.get("tool_call_id") for item in written[1:]] == ["call_c", "call_1"]


def test_the_deprecated_function_call_is_read_and_answered() -> None:
    reply = as_validated(
        completion(function_call={"name": "add", "arguments": '{"a": 1}'}, finish_reason="function_call")
    )
    (call,) = read_reply(reply).calls
    assert call == ToolCall("add", {"a": 1})
    written = write_results("openai-chat", reply, [Result(call, [text("3")], is_error=True)], with_reply=True)
    check("openai-chat", written)
    assert written == [
        {"role": "assistant", "function_call": {"name": "add", "arguments": '{"a": 1}'}},
        {"role": "function", "name": "add", "content": "Error: 3"},
    ]


def test_two_calls_with_one_id_are_two_calls_and_get_two_results() -> None:
    reply = completion(function(arguments='{"a": 1}', id="same"), function(arguments='{"a": 2}', id="same"))
    calls = read_reply(reply).calls
    assert [call.args for call in calls] == [{"a": 1}, {"a": 2}]
    written = write_results("openai-chat", reply, [Result(calls[0], "one"), Result(calls[1], "two")])
    assert [(item["tool_call_id"], item["content"]) for item in written] == [("same", "one"), ("same", "two")]


def test_an_empty_id_is_kept_since_some_servers_send_no_other() -> None:
    reply = completion(function(id=""))
    (call,) = read_reply(reply).calls
    assert call.id == ""
    assert write_results("openai-chat", reply, results([call]))[0]["tool_call_id"] == ""


@pytest.mark.parametrize("arguments", ["", " \n"], ids=repr)
def test_an_empty_text_means_no_arguments(arguments: str) -> None:
    (call,) = read_reply(completion(function(arguments=arguments))).calls
    assert (dict(call.args), call.invalid) == ({}, None)


def test_arguments_sent_as_an_object_are_read_and_go_back_as_a_text() -> None:
    reply = completion(function(arguments={"a": [1]}))
    (call,) = read_reply(reply).calls
    assert call.args == {"a": [1]}
    written = write_results("openai-chat", reply, results([call]), with_reply=True)
    check("openai-chat", written)
    assert json.loads(written[0]["tool_calls"][0]["function"]["arguments"]) == {"a": [1]}


def test_a_result_is_text_and_says_what_was_left_out() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0="}}
    reply = completion(function(id="a"), function(id="b"), function(id="c"))
    calls = read_reply(reply).calls
    outcomes = [
        Result(calls[0], [text("A plot:"), image]),
        Result(calls[1], [text("x")], is_error=True),
        Result(calls[2], []),
    ]
    written = write_results("openai-chat", reply, outcomes)
    check("openai-chat", written)
    assert [item["content"] for item in written] == [
        [text("A plot:"), text("[image left out: text only]")],
        [text("Error: x")],
        "",
    ]


def test_half_a_surrogate_pair_is_read_and_replaced_in_what_is_sent() -> None:
    reply = as_validated(completion(function(arguments=r'{"a": "\ud800"}')))
    (call,) = read_reply(reply).calls
    assert call.args == {"a": "\ud800"}
    written = write_results("openai-chat", reply, [Result(call, "caf\udce9 🙂")], with_reply=True)
    assert written[0]["tool_calls"][0]["function"]["arguments"] == r'{"a": "\ud800"}'
    assert written[1]["content"] == "caf\ufffd 🙂"


def test_tools_are_described_as_the_api_takes_them() -> None:
    @tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    specs = tool_specs("openai-chat", [add, Tool("bare", input_schema={}, function=add.function)])
    check("openai-chat tools", specs)
    described = {"name": "add", "description": "Add two numbers.", "parameters": add.input_schema}
    assert specs[0] == {"type": "function", "function": described}
    assert specs[1] == {"type": "function", "function": {"name": "bare", "parameters": {"type": "object"}}}


@pytest.mark.parametrize("name", ["files/read", "a.b", "é", "x" * 65])
def test_a_tool_name_that_openai_refuses_is_an_error_before_the_request(name: str) -> None:
    with pytest.raises(ValueError, match=r"OpenAI does not take the tool name(.|\n)*Fix: .*64(.|\n)*Example:"):
        tool_specs("openai-chat", [Tool(name, function=lambda: None)])
