"""Anthropic's Messages API: what is read from a reply, and what goes back."""

from __future__ import annotations

from typing import Any

import pytest
from anthropic.types import Message, ParsedMessage
from anthropic.types.beta import BetaMessage
from wire import Result, check, message, results, text, use

from agentperm_nb.calls import ToolCall
from agentperm_nb.running.formats import read_reply, tool_specs, write_results
from agentperm_nb.tools import Tool, tool

THINKING = {"type": "thinking", "thinking": "Two and two…", "signature": "c2lnbmVk"}
REDACTED = {"type": "redacted_thinking", "data": "b3BhcXVl"}
ASSISTANT: dict[str, Any] = {"type": "message", "role": "assistant"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "sums"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {
            "type": "web_search_result",
            "encrypted_content": "eA",
            "title": "Sums",
            "url": "https://e.org",
            "page_age": None,
        }
    ],
}
CITED = text(
    "As written.",
    citations=[
        {
            "type": "char_location",
            "cited_text": "As",
            "document_index": 0,
            "document_title": None,
            "file_id": "file_1",
            "start_char_index": 0,
            "end_char_index": 2,
        },
        {"type": "web_search_result_location", "cited_text": "x", "encrypted_index": "eA", "title": None, "url": "u"},
    ],
)


def as_validated(reply: dict[str, Any]) -> Any:
    return Message.model_validate(reply)


def as_the_client_builds_it(reply: dict[str, Any]) -> Any:
    return Message.construct(**reply)


def as_beta(reply: dict[str, Any]) -> Any:
    return BetaMessage.construct(**reply)


def as_parsed(reply: dict[str, Any]) -> Any:
    return ParsedMessage[object].construct(**reply)


def as_dict(reply: dict[str, Any]) -> Any:
    return reply


def as_blocks(reply: dict[str, Any]) -> Any:
    return reply["content"]


FORMS = [as_validated, as_the_client_builds_it, as_beta, as_parsed, as_dict, as_blocks]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_reply_is_read_alike(form: Any) -> None:
    reply = form(message(text("Adding."), use("add", {"a": 1, "b": [2, {"c": None}]}), use("sub", {}, "toolu_2")))
    read = read_reply(reply)
    assert read.format == "anthropic"
    assert read.original is reply or (isinstance(reply, list) and read.original == reply)
    assert read.calls == (
        ToolCall("add", {"a": 1, "b": [2, {"c": None}]}, "toolu_1"),
        ToolCall("sub", {}, "toolu_2"),
    )


@pytest.mark.parametrize("form", FORMS)
def test_the_api_takes_the_reply_and_the_results_back(form: Any) -> None:
    blocks = [
        THINKING,
        REDACTED,
        text("Let me see."),
        SEARCH,
        FOUND,
        CITED,
        use("add", {"a": 1}),
        use("sub", {}, "toolu_2"),
    ]
    read = read_reply(form(message(*blocks)))
    outcomes = [Result(read.calls[0], "3"), Result(read.calls[1], "denied: not today", is_error=True)]
    written = write_results(read.format, read.original, outcomes, with_reply=True)
    check("anthropic", written)
    assert [item["role"] for item in written] == ["assistant", "user"]
    assert written[0]["content"][:3] == [THINKING, REDACTED, text("Let me see.")]
    assert written[0]["content"][-2:] == [use("add", {"a": 1}), use("sub", {}, "toolu_2")]
    assert written[1]["content"] == [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": "3"},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": "denied: not today", "is_error": True},
    ]
    assert write_results(read.format, read.original, outcomes) == written[1:]


def test_what_only_replies_have_is_not_given_back() -> None:
    reply = as_validated(message(CITED, use("add", {}, caller=None, toolset_name=None)))
    (assistant, _) = write_results("anthropic", reply, results(read_reply(reply).calls), with_reply=True)
    assert "file_id" not in assistant["content"][0]["citations"][0]
    assert assistant["content"][0]["citations"][0]["document_title"] is None
    assert assistant["content"][1] == use("add", {})


def test_fields_that_requests_need_or_refuse_as_null_are_mended() -> None:
    bare = {key: value for key, value in CITED["citations"][0].items() if key != "document_title"}
    reply = as_the_client_builds_it(message(text("As written.", citations=[bare]), {**SEARCH, "caller": None}, use()))
    written = write_results("anthropic", reply, results(read_reply(reply).calls), with_reply=True)
    check("anthropic", written)
    assert written[0]["content"][0]["citations"][0]["document_title"] is None
    assert written[0]["content"][1] == SEARCH


def test_a_reply_of_text_has_no_calls_and_is_given_back_alone() -> None:
    reply = as_validated(message(text("Done."), stop_reason="end_turn"))
    assert read_reply(reply).calls == ()
    assert write_results("anthropic", reply, []) == []
    assert write_results("anthropic", reply, [], with_reply=True) == [{"role": "assistant", "content": [text("Done.")]}]


def test_blank_text_and_an_empty_reply_are_left_out_since_the_api_refuses_them() -> None:
    reply = as_validated(message(text(" \n"), text(""), use()))
    written = write_results("anthropic", reply, results(read_reply(reply).calls), with_reply=True)
    assert [block["type"] for block in written[0]["content"]] == ["tool_use"]
    assert write_results("anthropic", as_validated(message(stop_reason="end_turn")), [], with_reply=True) == []


@pytest.mark.parametrize(
    "block",
    [
        SEARCH,
        FOUND,
        {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "add", "server_name": "s", "input": {}},
        {"type": "mcp_tool_result", "tool_use_id": "mcptoolu_1", "is_error": False, "content": []},
        {"type": "container_upload", "file_id": "file_1"},
        {"type": "something_new", "name": "add", "input": {}, "id": "x"},
    ],
    ids=lambda block: block["type"],
)
def test_blocks_of_the_provider_are_not_calls_and_go_back_as_they_came(block: dict[str, Any]) -> None:
    for form in (as_the_client_builds_it, as_beta, as_dict):
        reply = form(message(block, use()))
        assert [call.id for call in read_reply(reply).calls] == ["toolu_1"]
        (assistant, _) = write_results("anthropic", reply, results(read_reply(reply).calls), with_reply=True)
        assert assistant["content"][0] == block


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "refusal", "stop_sequence", "new"])
def test_the_last_call_of_a_reply_that_was_cut_off_is_invalid(reason: str) -> None:
    reply = as_the_client_builds_it(message(use(id="a"), use("write", {"path": "/tm"}, "b"), stop_reason=reason))
    first, last = read_reply(reply).calls
    assert first.invalid is None
    assert last.invalid is not None
    assert f"cut off (stop_reason: {reason})" in last.invalid
    assert last.args == {"path": "/tm"}


def test_the_last_call_of_an_unfinished_stream_is_invalid() -> None:
    (call,) = read_reply(as_the_client_builds_it(message(use(), stop_reason=None))).calls
    assert call.invalid is not None
    assert "the stream had not ended" in call.invalid


@pytest.mark.parametrize("reason", ["tool_use", "end_turn", "pause_turn"])
def test_a_reply_that_was_not_cut_off_has_valid_calls(reason: str) -> None:
    assert read_reply(as_validated(message(use(), stop_reason=reason))).calls[0].invalid is None


def test_a_message_without_a_stop_reason_was_made_by_hand_and_is_taken_as_complete() -> None:
    for reply in ({"role": "assistant", "content": [use()]}, Message.construct(**{**ASSISTANT, "content": [use()]})):
        assert read_reply(reply).calls[0].invalid is None


def test_a_block_with_a_value_that_its_class_does_not_know_goes_back_without_a_warning() -> None:
    block = {**SEARCH, "name": "a_new_search", "input": "a text"}
    reply = as_the_client_builds_it(message(block))
    assert write_results("anthropic", reply, [], with_reply=True)[0]["content"] == [block]


@pytest.mark.parametrize("input", ["{}", ["a"], 3, True], ids=repr)
def test_input_that_is_not_an_object_makes_the_call_invalid_and_goes_back_as_an_empty_one(input: Any) -> None:
    reply = as_the_client_builds_it(message(use("add", input)))
    (call,) = read_reply(reply).calls
    assert call.invalid is not None
    assert call.invalid.startswith("arguments are not a JSON object")
    written = write_results("anthropic", reply, [Result(call, call.invalid, is_error=True)], with_reply=True)
    check("anthropic", written)
    assert written[0]["content"][0]["input"] == {}


def test_two_calls_with_one_id_are_two_calls_and_get_two_results() -> None:
    reply = as_validated(message(use("add", {"a": 1}, "same"), use("add", {"a": 2}, "same")))
    calls = read_reply(reply).calls
    assert [call.args for call in calls] == [{"a": 1}, {"a": 2}]
    (answer,) = write_results("anthropic", reply, [Result(calls[0], "one"), Result(calls[1], "two")])
    assert [(block["tool_use_id"], block["content"]) for block in answer["content"]] == [
        ("same", "one"),
        ("same", "two"),
    ]


def test_an_error_without_text_gets_one_since_the_api_refuses_it_otherwise() -> None:
    reply = as_validated(message(use(id="a"), use(id="b"), use(id="c")))
    calls = read_reply(reply).calls
    outcomes = [Result(calls[0], "", is_error=True), Result(calls[1], [text("")], is_error=True), Result(calls[2], "")]
    (answer,) = write_results("anthropic", reply, outcomes)
    assert [block["content"] for block in answer["content"]] == [
        "the call failed without a message",
        "the call failed without a message",
        "",
    ]


def test_content_blocks_of_a_result_go_through() -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0="}}
    reply = as_validated(message(use()))
    written = write_results(
        "anthropic", reply, [Result(read_reply(reply).calls[0], [text("A plot:"), text(""), image])]
    )
    check("anthropic", written)
    assert written[0]["content"][0]["content"] == [text("A plot:"), image]


def test_half_a_surrogate_pair_is_read_and_replaced_in_what_is_sent() -> None:
    reply = as_the_client_builds_it(message(use("add", {"a": "\ud800", "\udfff": 1, "b": "🙂"})))
    (call,) = read_reply(reply).calls
    assert call.invalid is None
    assert call.args["a"] == "\ud800"
    written = write_results("anthropic", reply, [Result(call, "caf\udce9 🙂")], with_reply=True)
    assert written[0]["content"][0]["input"] == {"a": "\ufffd", "\ufffd": 1, "b": "🙂"}
    assert written[1]["content"][0]["content"] == "caf\ufffd 🙂"


def test_a_member_of_a_toolset_of_anthropic_is_never_taken_for_a_tool_of_ours() -> None:
    block = use("left_click", {"coordinate": [1, 2]}, caller={"type": "direct"}, toolset_name="computer")
    reply = as_beta(message(block))
    (call,) = read_reply(reply).calls
    assert call.name == "computer.left_click"
    written = write_results("anthropic", reply, results([call]), with_reply=True)
    check("anthropic", written)
    assert written[0]["content"] == [block]
    assert written[1]["content"][0]["toolset_name"] == "computer"


def test_the_reply_is_not_changed() -> None:
    reply = message(CITED, text(""), use("add", {"a": [1]}))
    copy = Message.model_validate(reply).to_dict()
    given = as_validated(reply)
    write_results("anthropic", given, results(read_reply(given).calls), with_reply=True)
    assert given.to_dict() == copy


def test_tools_are_described_as_the_api_takes_them() -> None:
    @tool
    def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    bare = Tool("bare-1", input_schema={"properties": {}}, function=add.function)
    specs = tool_specs("anthropic", [add, bare])
    check("anthropic tools", specs)
    assert specs[0] == {"name": "add", "description": "Add two numbers.", "input_schema": add.input_schema}
    assert specs[1] == {"name": "bare-1", "input_schema": {"type": "object", "properties": {}}}
    specs[0]["input_schema"]["properties"].clear()
    assert set(add.input_schema["properties"]) == {"a", "b"}


@pytest.mark.parametrize("name", ["files/read", "a.b", "é", "x" * 129])
def test_a_tool_name_that_anthropic_refuses_is_an_error_before_the_request(name: str) -> None:
    with pytest.raises(ValueError, match=r"Anthropic does not take the tool name(.|\n)*Fix: .*128(.|\n)*Example:"):
        tool_specs("anthropic", [Tool(name, function=lambda: None)] if len(name) < 129 else [_Named(name)])


class _Named:
    description = ""
    input_schema: dict[str, Any] = {}  # noqa: RUF012 - the protocol has a plain attribute

    def __init__(self, name: str) -> None:
        self.name = name


def test_the_check_of_these_tests_refuses_what_only_replies_have() -> None:
    for block in (CITED, use(parsed=1), {"type": "text"}, {"type": "thinking", "thinking": "x"}):
        with pytest.raises((AssertionError, ValueError)):
            check("anthropic", [{"role": "assistant", "content": [block]}])
