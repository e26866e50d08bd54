"""Replies that no API sends, and calls whose arguments cannot be read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletionChunk
from wire import (
    Result,
    completion,
    function,
    function_call,
    message,
    response,
    results,
    said,
    text,
    use,
)

from agentperm_nb.calls import ToolCall
from agentperm_nb.json_values import digest
from agentperm_nb.running.formats import FORMATS, Reply, read_reply, tool_specs, write_results
from agentperm_nb.running.formats.arguments import MAX_DEPTH

CALL = ToolCall("add", {"a": 1}, "call_1")


async def create() -> None:
    """Stand for a call of the model that was not awaited."""


async def stream() -> AsyncIterator[str]:
    yield "a"


def sync_stream() -> Iterator[str]:
    yield "a"


class Manager:
    async def __aenter__(self) -> Manager:
        return self


class RawResponse:
    def parse(self) -> None:
        pass


CHUNK = {
    "id": "c",
    "object": "chat.completion.chunk",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "delta": {}}],
}
UNREADABLE: dict[str, tuple[Any, str]] = {
    "nothing": (None, "the reply is None"),
    "a string": ("Adding.", r"a text \(str\)"),
    "bytes": (b"{}", r"a text \(bytes\)"),
    "a number": (3, "unknown type"),
    "a class": (Message, "the class Message"),
    "one call": (CALL, "a single ToolCall"),
    "a list with one thing that is no call": ([CALL, "add"], "item 1 of the list of calls is not a ToolCall"),
    "an async stream": (stream(), "a stream"),
    "a sync stream": (sync_stream(), "a stream"),
    "a manager of a stream": (Manager(), "a stream or opens one"),
    "a chunk": (ChatCompletionChunk.construct(**CHUNK), "one piece of a stream"),
    "a chunk as a dict": (CHUNK, "one piece of a stream"),
    "an event": ({"type": "message_start", "message": message()}, "one piece of a stream"),
    "a raw response": (RawResponse(), "a raw response"),
    "one message of a response": (said("Done."), r"one item of a response's output \(message\)"),
    "one call of a response": (function_call(), r"one item of a response's output \(function_call\)"),
    "an event of a response": ({"type": "response.completed", "response": response()}, "one piece of a stream"),
    "a list of input items": (
        [function_call(), {"type": "function_call_output", "call_id": "call_1", "output": "3"}],
        "a list of input items",
    ),
    "a list of a message that may be anybody's": (
        [{"type": "message", "role": "assistant", "content": []}],
        "a list of messages",
    ),
    "an input with a user's message": ([{"role": "user", "content": "Hi"}, function_call()], "a list of messages"),
    "a list of items and something else": ([function_call(), "add"], "a list of an unknown kind"),
    "a list of an item of no known type": ([function_call(), {"type": "new"}], "a list of an unknown kind"),
    "a message of another kind in a list": (
        [function_call(), {"type": "message", "role": "assistant", "content": [text("x")]}],
        "a list of messages",
    ),
    "output that is no list": (response(output={"a": 1}), "output of the response is not a list"),
    "output that is missing": ({"object": "response"}, "output of the response is not a list"),
    "an item that is no item": (response("add"), r"output\[0\] of the response is not an item"),
    "an item without a type": (response(said("x"), {"id": "a"}), r"output\[1\] of the response is not an item"),
    "an item without a name": (response(function_call(None)), r"output\[0\] has no name"),
    "an item without a call id": (response(function_call(id=None)), r"add at output\[0\] has no id"),
    "an item whose call id is a list": (response(function_call(id=["a"])), r"add at output\[0\] has no id"),
    "a shell without a call id": (response({"type": "shell_call", "action": {}}), r"shell at output\[0\] has no id"),
    "an approval without a server": (
        response({"type": "mcp_approval_request", "id": "mcpr_1", "name": "drop", "arguments": "{}"}),
        r"approval request at output\[0\] has no server_label",
    ),
    "an approval without a name": (
        response({"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "db", "arguments": "{}"}),
        r"output\[0\] has no name",
    ),
    "an approval without an id": (
        response({"type": "mcp_approval_request", "name": "drop", "server_label": "db", "arguments": "{}"}),
        r"db__drop at output\[0\] has no id",
    ),
    "an error of Anthropic": (
        {"type": "error", "error": {"message": "Overloaded"}},
        "an error of the API: .*Overloaded",
    ),
    "an error of OpenAI": ({"error": {"message": "quota"}}, "an error of the API: .*quota"),
    "an empty dict": ({}, "unknown shape"),
    "another dict": ({"name": "add", "args": {}}, r"unknown shape \(keys: name, args\)"),
    "a list of strings": (["add"], "a list of an unknown kind"),
    "a list of messages": ([{"role": "user", "content": "Hi"}], "a list of messages"),
    "the calls of a message": ([function()], "the list of tool calls in a message"),
    "a user's message": ({"role": "user", "content": "Hi"}, "role 'user'"),
    "a set of calls": ({CALL}, "unknown type"),
    "content that is no list": ({**message(), "content": 3}, "not a list of blocks"),
    "a block that is no block": (message("text"), r"content\[0\] of the reply is not a content block"),
    "a block without a type": (message({"text": "x"}), r"content\[0\]"),
    "a call without a name": (message({"type": "tool_use", "id": "a", "input": {}}), r"content\[0\] has no name"),
    "a call whose name is a number": (message(use(7)), "has no name"),
    "a call without an id": (
        message(text("x"), {"type": "tool_use", "name": "add", "input": {}}),
        r"add at content\[1\]",
    ),
    "a call whose id is a number": (message(use(id=7)), r"has no id \(got: 7\)"),
    "choices that are no list": ({"object": "chat.completion", "choices": {}}, "choices of the reply are not a list"),
    "a choice without a message": (completion(choices=[{"index": 0, "text": "x"}]), "has no message"),
    "calls that are no list": (completion(tool_calls={"a": 1}), "tool_calls of the reply are not a list"),
    "a function without a name": (completion(function(None)), r"tool_calls\[0\] has no name"),
    "a function without an id": (completion(function(), function(id=None)), r"add at tool_calls\[1\] has no id"),
    "a call of an unknown kind": (completion({"id": "a", "type": "new"}), r"tool_calls\[0\] is of an unknown kind"),
    "a call that is a string": (completion("add"), "unknown kind"),
}
FAULTY: dict[str, tuple[Any, str]] = {
    "three choices": (completion(choices=[{}, {}, {}]), "3 choices"),
    "no choice": (completion(choices=[]), "0 choices"),
    "an empty name": (completion(function(" ")), "name of the call at tool_calls.0. is empty"),
    "an empty name in a block": (message(use("")), r"content\[0\] is empty"),
    "both ways to call": (completion(function(), function_call={"name": "a", "arguments": "{}"}), "both tool_calls"),
    "a completion of the user": (completion(role="user"), "role 'user'"),
    "a message of the user": ({**message(), "role": "user"}, "role 'user'"),
    "an empty name in an item": (response(function_call("")), r"output\[0\] is empty"),
    "an empty name in a namespace": (response(function_call(" ", namespace="crm")), r"output\[0\] is empty"),
    "an empty name in an approval": (
        response({"type": "mcp_approval_request", "id": "a", "name": "", "server_label": "db", "arguments": "{}"}),
        r"output\[0\] is empty",
    ),
    "a response that failed": (
        response(status="failed", error={"code": "server_error", "message": "Try\nagain"}),
        "the response failed: server_error: Try again",
    ),
    "a response that failed without an error": (response(function_call(), status="failed"), "no error was given"),
    "a response with an error": (response(function_call(), error="quota"), "the response failed: quota"),
    "a response that was cancelled": (response(function_call(), status="cancelled"), "was cancelled"),
    "a response that is not over": (response(function_call(), status="in_progress"), "not ended yet .*in_progress"),
    "a response that waits its turn": (response(status="queued"), "not ended yet .*queued"),
    "a call that only a screenshot answers": (
        response(function_call(), {"type": "computer_call", "id": "cu_1", "call_id": "b", "status": "completed"}),
        r"a computer_call at output\[1\], which only a screenshot can answer",
    ),
    "an unknown item with an id to be answered by": (
        response({"type": "robot_call", "id": "r_1", "call_id": "b"}),
        r"output\[0\] is of type 'robot_call', which is not known here",
    ),
    "an unknown request": (response({"type": "robot_request", "id": "r_1"}), "may wait for an answer"),
}


@pytest.mark.parametrize(("reply", "words"), UNREADABLE.values(), ids=UNREADABLE)
def test_a_reply_of_an_unknown_shape_is_an_error_in_three_parts_that_names_it(reply: Any, words: str) -> None:
    with pytest.raises(TypeError, match=rf"^[^\n]*{words}[^\n]*\nFix: [^\n]+\nExample:\n    "):
        read_reply(reply)


@pytest.mark.parametrize(("reply", "words"), FAULTY.values(), ids=FAULTY)
def test_a_reply_that_could_mean_several_things_is_an_error_in_three_parts(reply: Any, words: str) -> None:
    with pytest.raises(ValueError, match=rf"^[^\n]*{words}[^\n]*\nFix: [^\n]+\nExample:\n    "):
        read_reply(reply)


def test_a_call_of_the_model_that_was_not_awaited_is_told_so() -> None:
    coroutine = create()
    with pytest.raises(TypeError, match=r"has not been awaited(.|\n)*await"):
        read_reply(coroutine)
    coroutine.close()


def nested(levels: int) -> str:
    return '{"a": ' + "[" * (levels - 1) + "]" * (levels - 1) + "}"


UNREAD_ARGUMENTS: dict[str, tuple[Any, str]] = {
    "words": ("add one", "arguments are not valid JSON: add one (Expecting value at character 0)"),
    "an end that is missing": (
        '{"a": 1',
        """arguments are not valid JSON: {"a": 1 (Expecting ',' delimiter at character 7)""",
    ),
    "two objects": ("{}{}", "arguments are not valid JSON: {}{} (Extra data at character 2)"),
    "a list": ("[1]", "arguments are not a JSON object (got: a list)"),
    "null": ("null", "arguments are not a JSON object (got: null)"),
    "true": ("true", "arguments are not a JSON object (got: a boolean)"),
    "a number": ("3", "arguments are not a JSON object (got: a number)"),
    "JSON in a string": ('"{}"', "arguments are not a JSON object (got: a string: {})"),
    "no text": (None, "arguments are not a JSON object (got: null)"),
    "a key twice": ('{"x": 1, "y": 2, "x": 3}', "the argument 'x' is given twice"),
    "a key twice, once escaped": (r'{"x": 1, "\u0078": 3}', "the argument 'x' is given twice"),
    "a key twice, equal values": ('{"x": 1, "x": 1}', "the argument 'x' is given twice"),
    "a key twice further in": ('{"a": [{"x": 1, "x": 2}]}', "the key 'x' is given twice in the argument a[0]"),
    "NaN": ('{"a": NaN}', "the argument a is nan, which is not a JSON number"),
    "infinity": ('{"a": {"b": [-Infinity]}}', "the argument a.b[0] is -inf, which is not a JSON number"),
    "a number too large": ('{"a": 1e999}', "the argument a is inf, which is not a JSON number"),
    "nested too deeply": (nested(MAX_DEPTH + 1), "arguments are nested more than 100 levels deep"),
    "objects nested too deeply": (
        '{"a": ' * MAX_DEPTH + "{}" + "}" * MAX_DEPTH,
        "arguments are nested more than 100 levels deep",
    ),
    "nested deeper than Python reads": (nested(200_000), "arguments are nested more than 100 levels deep"),
    "a byte order mark": ("\ufeff{}", "arguments are not valid JSON: \ufeff{} "),
    "a control character": ('{"a": "\n"}', "arguments are not valid JSON: "),
}


@pytest.mark.parametrize(("arguments", "words"), UNREAD_ARGUMENTS.values(), ids=UNREAD_ARGUMENTS)
def test_arguments_that_cannot_be_read_make_the_call_invalid_and_leave_the_others(arguments: Any, words: str) -> None:
    reply = completion(function("write", arguments), function("add", '{"a": 1}', "call_2"))
    invalid, valid = read_reply(reply).calls
    assert invalid.invalid is not None
    assert invalid.invalid.startswith(words)
    assert dict(invalid.args) == {}
    assert (valid.args, valid.invalid) == ({"a": 1}, None)
    written = write_results("openai-chat", reply, results([invalid, valid]), with_reply=True)
    assert [item.get("tool_call_id") for item in written] == [None, "call_1", "call_2"]
    items = response(function_call("write", arguments), function_call("add", '{"a": 1}', "call_2"))
    assert read_reply(items).calls == (invalid, valid)
    outputs = write_results("openai-responses", items, results([invalid, valid]))
    assert [item["call_id"] for item in outputs] == ["call_1", "call_2"]


def test_what_is_shown_of_arguments_is_short_and_says_how_long_they_are() -> None:
    (call,) = read_reply(completion(function(arguments="x" * 5000))).calls
    assert (
        call.invalid == f"arguments are not valid JSON: {'x' * 200}… (5000 characters) (Expecting value at character 0)"
    )
    (call,) = read_reply(completion(function(arguments='{"a": ' + "9" * 5000 + "}"))).calls
    assert call.invalid is not None
    assert call.invalid.endswith("… (5007 characters) (a number is too long)")


def test_arguments_as_deep_as_allowed_are_read_and_have_a_digest() -> None:
    (call,) = read_reply(completion(function(arguments=nested(MAX_DEPTH)))).calls
    assert call.invalid is None
    assert digest(call.name, call.args)


@pytest.mark.parametrize(
    ("input", "words"),
    [
        ({"a": {1, 2}}, "the argument a is of type set, which JSON has no form for"),
        ({"a": {1: 2}}, "a key of the arguments is not a string"),
        ({"a": [float("nan")]}, "the argument a[0] is nan"),
    ],
    ids=["a set", "a key that is a number", "NaN"],
)
def test_an_object_with_what_json_has_no_form_for_makes_the_call_invalid(input: Any, words: str) -> None:
    (call,) = read_reply(message(use("add", input))).calls
    assert call.invalid is not None
    assert call.invalid.startswith(words)


def test_an_object_that_contains_itself_makes_the_call_invalid() -> None:
    input: dict[str, Any] = {}
    input["a"] = input
    reply = message(use("add", input))
    (call,) = read_reply(reply).calls
    assert call.invalid == "arguments are nested more than 100 levels deep"
    assert write_results("anthropic", reply, [Result(call)], with_reply=True)[0]["content"][0]["input"] == {}


def test_objects_that_are_neither_dicts_nor_pydantic_are_read_by_their_attributes() -> None:
    block = SimpleNamespace(type="tool_use", id="a", name="add", input={"a": 1})
    reply = SimpleNamespace(type="message", role="assistant", content=[block], stop_reason="tool_use")
    assert read_reply(reply) == Reply("anthropic", (ToolCall("add", {"a": 1}, "a"),), reply)
    written = write_results("anthropic", reply, results(read_reply(reply).calls), with_reply=True)
    assert written[0]["content"] == [use("add", {"a": 1}, "a")]


def test_a_list_of_calls_is_read_as_it_is_and_answered_neutrally() -> None:
    broken = ToolCall("sub", {}, "call_1", invalid="no")
    for given in ([CALL, broken], (CALL, broken)):
        assert read_reply(given) == Reply("calls", (CALL, broken), given)
    assert read_reply([]) == Reply("calls", (), [])
    outcomes = [Result(CALL, "3"), Result(broken, "no", is_error=True)]
    assert write_results("calls", [CALL, broken], outcomes) == [
        {"role": "tool", "tool_call_id": "call_1", "name": "add", "content": "3", "is_error": False},
        {"role": "tool", "tool_call_id": "call_1", "name": "sub", "content": "no", "is_error": True},
    ]


def test_a_list_of_calls_may_be_emptied_before_the_results_are_written() -> None:
    given = [CALL]
    read = read_reply(given)
    given.clear()
    assert [item["tool_call_id"] for item in write_results("calls", read.original, [Result(CALL)])] == ["call_1"]


def test_a_call_in_a_list_is_invalid_when_json_has_no_form_for_its_arguments() -> None:
    known = ToolCall("sub", {"a": 1 + 2j}, "call_2", invalid="no")
    read = read_reply([ToolCall("add", {"a": float("inf")}, "call_1"), known])
    assert read.calls[0] == ToolCall("add", {}, "call_1", "the argument a is inf, which is not a JSON number")
    assert read.calls[1] is known


def test_a_list_of_calls_has_no_reply_to_give_back() -> None:
    with pytest.raises(ValueError, match=r"no reply that could be given back(.|\n)*Fix: (.|\n)*Example:"):
        write_results("calls", [CALL], [Result(CALL)], with_reply=True)


@pytest.mark.parametrize("format", ["openai", "", None, ["anthropic"], "calls"], ids=repr)
def test_an_unknown_format_of_tools_is_an_error_that_lists_the_known_ones(format: Any) -> None:
    with pytest.raises(ValueError, match=r"Fix: (.|\n)*Example:") as caught:
        tool_specs(format, [])
    assert "'anthropic'" in str(caught.value)
    assert "'openai-chat'" in str(caught.value)


def test_an_unknown_format_of_results_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(
        ValueError,
        match="'gemini' is not a format that is known here\nFix: use one of 'anthropic', 'calls', 'openai-chat'",
    ):
        write_results("gemini", [], [])


@pytest.mark.parametrize("kept", [[], [0], [1, 0], [0, 1, 1]], ids=["none", "one", "another order", "one twice"])
@pytest.mark.parametrize("format", FORMATS)
def test_results_that_are_not_one_for_each_call_in_order_are_refused(format: str, kept: list[int]) -> None:
    replies: dict[str, Any] = {
        "anthropic": message(use(id="a"), use(id="b")),
        "openai-chat": completion(function(id="a"), function(id="b")),
        "openai-responses": response(function_call(id="a"), function_call(id="b")),
        "calls": [ToolCall("add", {}, "a"), ToolCall("add", {}, "b")],
    }
    calls = read_reply(replies[format]).calls
    with pytest.raises(ValueError, match=r"not those of the reply's 2 calls(.|\n)*Fix: (.|\n)*Example:"):
        write_results(format, replies[format], [Result(calls[index]) for index in kept])


def test_a_call_that_a_person_has_edited_is_answered_all_the_same() -> None:
    reply = message(use("add", {"a": 1}))
    edited = read_reply(reply).calls[0].with_args({"a": 2})
    (assistant, answer) = write_results("anthropic", reply, [Result(edited)], with_reply=True)
    assert assistant["content"][0]["input"] == {"a": 1}
    assert answer["content"][0]["tool_use_id"] == "toolu_1"


def test_no_package_of_a_provider_is_imported() -> None:
    code = (
        "import sys; from agentperm_nb.running.formats import read_reply; "
        "read_reply({'role': 'assistant', 'content': 'Hi'}); "
        "sys.exit(sorted({'anthropic', 'openai', 'pydantic'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_way_out_of_a_stream_is_shown_for_the_package_that_it_is_of() -> None:
    theirs = type("AsyncStream", (), {"__module__": "openai", "__aiter__": lambda self: self})()
    with pytest.raises(TypeError, match=r"Example:\n.*client\.chat\.completions\.create"):
        read_reply(theirs)
    responses = type("ResponseStream", (), {"__module__": "openai.lib.streaming.responses", "__iter__": list})
    opened = type("Manager", (responses,), {"__module__": "openai.lib.streaming.responses", "__enter__": list})()
    with pytest.raises(TypeError, match=r"Example:\n.*client\.responses\.stream(.|\n)*get_final_response"):
        read_reply(opened)
    with pytest.raises(TypeError, match=r"Example:\n.*client\.messages\.stream"):
        read_reply(Manager())
