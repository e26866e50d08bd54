"""A conversation in no provider's form, as each provider's request takes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from openai.types.chat import ChatCompletion
from openai.types.responses import Response
from wire import Decided, check, completion, function, function_call, message, response, said, text, use

from agentperm_nb.calls import ToolCall
from agentperm_nb.results import Image
from agentperm_nb.running.formats import PROVIDERS, read_reply, write_conversation
from agentperm_nb.running.messages import Message, TextBlock, ToolResultBlock

ADD, SUB = ToolCall("add", {"a": 1}, "call_1"), ToolCall("sub", {"b": [2]}, "call_2")
THINKING = {"type": "thinking", "thinking": "…", "signature": "c2ln"}


def result(call: ToolCall, content: str = "done", *, is_error: bool = False, images: Any = ()) -> ToolResultBlock:
    return ToolResultBlock(call.id, content, call.name, is_error, images)


def results(*blocks: Any) -> Message:
    return Message("user", blocks)


def said_by(provider: str, reply: Any) -> Message:
    """Return the message that is made of a provider's reply."""
    read = read_reply(reply)
    assert read.format == provider
    return Message("assistant", read.calls, read)


def written(provider: str, messages: Any) -> tuple[str | None, list[dict[str, Any]]]:
    """Return the instructions and the messages, as the API has taken them."""
    made = write_conversation(provider, messages)
    system, items = (None, made) if provider == "openai-chat" else made
    check(provider, items)
    json.dumps(items, ensure_ascii=False, allow_nan=False).encode()
    if provider == "openai-chat" and items and items[0]["role"] == "system":
        system, items = items[0]["content"], items[1:]
    return system, items


def ids(provider: str, items: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Return the ids of the calls and those of the results, in order."""
    called: list[str] = []
    answered: list[str] = []
    for item in items:
        if provider == "anthropic":
            called += [block["id"] for block in item["content"] if block["type"] == "tool_use"]
            answered += [block["tool_use_id"] for block in item["content"] if block["type"] == "tool_result"]
        elif provider == "openai-chat":
            called += [call["id"] for call in item.get("tool_calls", ())]
            answered += [item["tool_call_id"]] if item["role"] == "tool" else []
        else:
            called += [item["call_id"]] if item.get("type") == "function_call" else []
            answered += [item["call_id"]] if item.get("type") == "function_call_output" else []
    return called, answered


def outputs(provider: str, items: list[dict[str, Any]]) -> list[Any]:
    """Return the contents of the results, in order."""
    if provider == "anthropic":
        return [block["content"] for item in items for block in item["content"] if block["type"] == "tool_result"]
    if provider == "openai-chat":
        return [item["content"] for item in items if item["role"] == "tool"]
    return [item["output"] for item in items if item.get("type") == "function_call_output"]


every_provider = pytest.mark.parametrize("provider", PROVIDERS)

CONVERSATION = [
    Message.system("Be brief."),
    Message.user("Add and subtract."),
    Message("assistant", (TextBlock("Adding."), ADD, SUB)),
    results(result(ADD, "3"), result(SUB, "no", is_error=True)),
    Message.user("And?"),
    Message.assistant("Three."),
]


def test_anthropic_gets_instructions_apart_and_results_as_blocks() -> None:
    assert written("anthropic", CONVERSATION) == (
        "Be brief.",
        [
            {"role": "user", "content": [text("Add and subtract.")]},
            {
                "role": "assistant",
                "content": [text("Adding."), use("add", {"a": 1}, "call_1"), use("sub", {"b": [2]}, "call_2")],
            },
            {
                "role": "user",
                "content": [
                    {"type": "tool_result", "tool_use_id": "call_1", "content": "3"},
                    {"type": "tool_result", "tool_use_id": "call_2", "content": "no", "is_error": True},
                ],
            },
            {"role": "user", "content": [text("And?")]},
            {"role": "assistant", "content": [text("Three.")]},
        ],
    )


def test_openai_chat_gets_instructions_first_and_results_as_messages() -> None:
    assert write_conversation("openai-chat", CONVERSATION) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Add and subtract."},
        {
            "role": "assistant",
            "content": "Adding.",
            "tool_calls": [function("add", '{"a": 1}'), function("sub", '{"b": [2]}', "call_2")],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "3"},
        {"role": "tool", "tool_call_id": "call_2", "content": "Error: no"},
        {"role": "user", "content": "And?"},
        {"role": "assistant", "content": "Three."},
    ]
    assert written("openai-chat", CONVERSATION)[0] == "Be brief."


def test_openai_responses_gets_instructions_apart_and_results_as_items() -> None:
    assert written("openai-responses", CONVERSATION) == (
        "Be brief.",
        [
            {"role": "user", "content": "Add and subtract."},
            {"type": "message", "role": "assistant", "content": "Adding."},
            {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a": 1}'},
            {"type": "function_call", "call_id": "call_2", "name": "sub", "arguments": '{"b": [2]}'},
            {"type": "function_call_output", "call_id": "call_1", "output": "3"},
            {"type": "function_call_output", "call_id": "call_2", "output": "Error: no"},
            {"role": "user", "content": "And?"},
            {"type": "message", "role": "assistant", "content": "Three."},
        ],
    )


REPLIES: dict[str, tuple[Any, Any]] = {
    "anthropic": (
        AnthropicMessage.construct(**message(THINKING, text("Adding."), use("add", {"a": 1}, "x"))),
        {"role": "assistant", "content": [THINKING, text("Adding."), use("add", {"a": 1}, "x")]},
    ),
    "openai-chat": (
        ChatCompletion.construct(**completion(function("add", '{ "a":1}', "x"), reasoning="…")),
        {"role": "assistant", "reasoning": "…", "tool_calls": [function("add", '{ "a":1}', "x")]},
    ),
    "openai-responses": (
        Response.construct(**response(function_call("add", '{ "a":1}', "x"))),
        function_call("add", '{ "a":1}', "x"),
    ),
}


@every_provider
def test_a_reply_goes_back_to_its_provider_as_it_came(provider: str) -> None:
    reply, back = REPLIES[provider]
    spoken = said_by(provider, reply)
    made = write_conversation(provider, [Message.user("Add."), spoken, results(result(spoken.tool_calls[0], "3"))])
    items = made if provider == "openai-chat" else made[1]
    assert items[1] == back
    assert ids(provider, items) == (["x"], ["x"])
    assert outputs(provider, items) == ["3"]


@every_provider
@pytest.mark.parametrize("origin", PROVIDERS)
def test_a_reply_of_another_provider_is_written_from_its_blocks(provider: str, origin: str) -> None:
    reply, _ = REPLIES[origin]
    spoken = said_by(origin, reply)
    conversation = [Message.user("Add."), spoken, results(result(spoken.tool_calls[0], "3"))]
    if (
        provider != "openai-chat" or origin != "openai-chat"
    ):  # the field of another server is unknown to the API's types
        _, items = written(provider, conversation)
        assert ids(provider, items) == (["x"], ["x"])
        assert provider == origin or "…" not in str(items)


@every_provider
@pytest.mark.parametrize("id", ["", "functions.add:0", "x" * 100, "é", "a b"])
def test_a_call_whose_id_is_missing_or_not_taken_gets_one_and_its_result_the_same(provider: str, id: str) -> None:
    calls = [ToolCall("add", {"n": n}, id) for n in range(3)]
    one = [Message("assistant", calls), results(*(result(call, str(call.args["n"])) for call in calls))]
    _, items = written(provider, [Message.user("Go."), *one, *one])
    called, answered = ids(provider, items)
    assert called == answered == [f"call_{turn}_{position}" for turn in range(2) for position in range(3)]
    assert outputs(provider, items) == ["0", "1", "2"] * 2


@every_provider
def test_ids_that_were_made_are_the_same_when_the_conversation_has_grown(provider: str) -> None:
    call = ToolCall("add")
    one = [Message("assistant", [call]), results(result(call))]
    _, short = written(provider, one)
    _, long = written(provider, [*one, Message.user("Again."), *one])
    assert long[: len(short)] == short
    assert len(set(ids(provider, long)[0])) == 2


@every_provider
def test_an_id_that_was_there_before_is_replaced_since_ids_are_unique(provider: str) -> None:
    taken = ToolCall("add", {}, "call_0_1")
    first = [Message("assistant", [taken, ToolCall("sub")]), results(result(taken, "1"), result(ToolCall("sub"), "2"))]
    again = [Message("assistant", [taken]), results(result(taken, "3"))]
    _, items = written(provider, [*first, *again])
    called, answered = ids(provider, items)
    assert called == answered == ["call_0_1", "call_0_1_", "call_1_0"]
    assert outputs(provider, items) == ["1", "2", "3"]


@every_provider
def test_two_calls_with_one_id_get_their_results_in_order(provider: str) -> None:
    twins = [ToolCall("add", {"n": n}, "same") for n in range(2)]
    _, items = written(provider, [Message("assistant", twins), results(*(result(c, str(c.args["n"])) for c in twins))])
    assert outputs(provider, items) == ["0", "1"]
    called, answered = ids(provider, items)
    assert called == answered == ["same", "call_0_1"]


@every_provider
def test_results_out_of_order_are_written_in_the_order_of_the_calls(provider: str) -> None:
    _, items = written(
        provider, [Message("assistant", [ADD, SUB]), results(result(SUB, "second"), result(ADD, "first"))]
    )
    assert ids(provider, items) == (["call_1", "call_2"], ["call_1", "call_2"])
    assert outputs(provider, items) == ["first", "second"]


@every_provider
def test_results_without_an_id_belong_to_the_calls_in_order(provider: str) -> None:
    blocks = [ToolResultBlock("", "first", "add", False), result(SUB, "second")]
    _, items = written(provider, [Message("assistant", [ADD, SUB]), results(*blocks)])
    assert outputs(provider, items) == ["first", "second"]
    blocks = [ToolResultBlock("run/1/0", "of our own key", "add", False)]
    _, items = written(provider, [Message("assistant", [ToolCall("add")]), results(*blocks)])
    assert outputs(provider, items) == ["of our own key"]


@every_provider
def test_results_come_right_after_their_calls_whatever_was_said_meanwhile(provider: str) -> None:
    conversation = [
        Message("assistant", [ADD, SUB]),
        Message.user("Hurry up."),
        results(TextBlock("Here is one."), result(ADD, "first")),
        Message.system("Be brief."),
        results(result(SUB, "second")),
    ]
    system, items = written(provider, conversation)
    assert system == "Be brief."
    assert outputs(provider, items) == ["first", "second"]
    texts = ["Hurry up.", "Here is one."]
    # All that was said stands behind the results.
    last = [{"role": "user", "content": [text(words)] if provider == "anthropic" else words} for words in texts]
    assert items[-2:] == last


@every_provider
def test_a_call_without_a_result_is_told_to_have_none(provider: str) -> None:
    _, items = written(
        provider,
        [Message("assistant", [ADD, SUB]), results(result(ADD, "3")), Message.assistant("Well."), Message.user("?")],
    )
    assert ids(provider, items) == (["call_1", "call_2"], ["call_1", "call_2"])
    first, missing = outputs(provider, items)
    assert first == "3"
    assert "no result of this call is known" in missing


@every_provider
@pytest.mark.parametrize(
    "conversation",
    [
        [results(result(ADD))],
        [Message("assistant", [ADD]), results(result(ADD), result(ADD))],
        [Message("assistant", [ADD]), results(result(SUB))],
        [Message("assistant", [ADD]), results(result(ADD)), Message.assistant("3"), results(result(ADD))],
    ],
    ids=["no call", "two results", "another call", "a call of long ago"],
)
def test_a_result_that_no_call_waits_for_is_an_error(provider: str, conversation: Any) -> None:
    with pytest.raises(ValueError, match=r"has a result for which no call waits(.|\n)*Fix: (.|\n)*Example:"):
        write_conversation(provider, conversation)


@every_provider
@pytest.mark.parametrize(
    ("conversation", "error", "words"),
    [
        (["Hi"], TypeError, "message 0 of the conversation is no message"),
        ([{"role": "user", "content": "Hi"}], TypeError, "is no message"),
        ([SimpleNamespace(role="tool", content=())], TypeError, "is no message"),
        ([SimpleNamespace(role="user", content="Hi")], TypeError, "is no message"),
        ([SimpleNamespace(role="user", content=["Hi"])], TypeError, "a block of an unknown kind"),
        ([SimpleNamespace(role="assistant", content=[3])], TypeError, "a block of an unknown kind"),
        ([Message("user", [ADD])], ValueError, "of role 'user', has a ToolCall"),
        ([Message("system", [ADD])], ValueError, "of role 'system', has a ToolCall"),
        ([Message("assistant", [result(ADD)])], ValueError, "of role 'assistant', has a ToolResultBlock"),
        ([Message("assistant", [Image(b"x", "image/png")])], ValueError, "of role 'assistant', has a Image"),
    ],
)
def test_what_is_no_conversation_is_an_error_in_three_parts(
    provider: str, conversation: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=rf"{words}(.|\n)*Fix: (.|\n)*Example:"):
        write_conversation(provider, conversation)


@pytest.mark.parametrize("format", ["calls", "gemini", None], ids=repr)
def test_a_conversation_for_an_unknown_provider_is_an_error(format: Any) -> None:
    with pytest.raises(ValueError, match=r"not a format that is known here(.|\n)*Fix: use one of 'anthropic'"):
        write_conversation(format, [])


@every_provider
def test_blank_texts_and_messages_of_nothing_else_are_left_out(provider: str) -> None:
    blank = [Message.system(" "), Message.user(""), Message.assistant("\n"), Message("assistant"), results()]
    assert written(provider, blank) == (None, [])
    system, items = written(
        provider, [*blank, Message.user("Hi", Image(b"x", "image/gif")), Message.system("Be kind.")]
    )
    assert system == "Be kind."
    assert len(items) == 1


@every_provider
def test_several_instructions_are_one_text(provider: str) -> None:
    assert written(provider, [Message.system("Be brief."), Message.user("Hi"), Message.system("Be kind.")])[0] == (
        "Be brief.\n\nBe kind."
    )


def test_images_of_the_user_and_of_results_are_shown() -> None:
    png = Image(b"x", "image/png")
    conversation = [
        Message.user("Look:", png, Image(b"x", "image/bmp")),
        Message("assistant", [ADD]),
        results(result(ADD, "plot", images=(png,))),
    ]
    url, line = "data:image/png;base64,eA==", "[image left out: image/bmp is not taken]"
    shown = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "eA=="}}
    _, items = written("anthropic", conversation)
    assert items[0]["content"] == [text("Look:"), shown, text(line)]
    assert outputs("anthropic", items) == [[text("plot"), shown]]
    _, items = written("openai-chat", conversation)
    assert items[0]["content"] == [text("Look:"), {"type": "image_url", "image_url": {"url": url}}, text(line)]
    assert outputs("openai-chat", items) == ["plot\n[1 image left out: text only]"]
    _, items = written("openai-responses", conversation)
    assert [part["type"] for part in items[0]["content"]] == ["input_text", "input_image", "input_text"]
    assert outputs("openai-responses", items)[0][1]["image_url"] == url


@every_provider
def test_several_texts_of_the_model_stay_apart(provider: str) -> None:
    _, items = written(provider, [Message("assistant", (TextBlock("One."), TextBlock("Two.")))])
    if provider == "openai-responses":
        assert [item["content"] for item in items] == ["One.", "Two."]
    else:
        assert [item["content"] for item in items] == [[text("One."), text("Two.")]]


@every_provider
def test_names_and_arguments_that_the_api_does_not_take_are_mended_in_what_is_only_history(provider: str) -> None:
    odd = [
        ToolCall("crm.get", {"a": "\ud800"}, "a"),
        ToolCall("x" * 200, {"a": {1}}, "b"),
        ToolCall("add", {}, "c", invalid="arguments are not valid JSON"),
    ]
    _, items = written(provider, [Message("assistant", odd), results(*map(result, odd))])
    shown = str(items)
    assert "crm_get" in shown
    assert "x" * 64 in shown
    assert "x" * 129 not in shown
    assert ids(provider, items) == (["a", "b", "c"], ["a", "b", "c"])


APPROVAL = {"type": "mcp_approval_request", "id": "mcpr_1", "server_label": "db", "name": "drop", "arguments": "{}"}


@dataclass(frozen=True)
class WithResult:
    call_id: str
    result: Any
    content: str = "(approved: it runs at the provider)"
    is_error: bool = False
    name: str = "db__drop"


def test_a_request_for_approval_is_approved_by_what_its_result_says_and_refused_without() -> None:
    read = read_reply(response(APPROVAL))
    (call,) = read.calls
    spoken = Message("assistant", read.calls, read)

    def approved(block: Any) -> bool:
        _, items = written("openai-responses", [spoken, SimpleNamespace(role="user", content=[block])])
        assert items[0] == APPROVAL
        return bool(items[1]["approve"])

    assert approved(WithResult("mcpr_1", Decided(call)))
    assert not approved(result(call, "(approved: it runs at the provider)"))
    assert not approved(WithResult("mcpr_1", None))
    assert not approved(WithResult("mcpr_1", Decided(call, verdict="denied")))
    assert not approved(WithResult("mcpr_1", Decided(call, args_run={"all": True})))
    assert not approved(WithResult("mcpr_1", Decided(call.with_args({"all": True}))))
    assert not approved(WithResult("mcpr_1", Decided(call), is_error=True))
    assert not approved(WithResult("mcpr_1", Decided(ToolCall("db__drop", {}, "mcpr_2"))))


def test_a_request_for_approval_is_a_call_like_any_other_for_another_provider() -> None:
    read = read_reply(response(APPROVAL))
    conversation = [Message("assistant", read.calls, read), results(result(read.calls[0], "denied", is_error=True))]
    _, items = written("anthropic", conversation)
    assert items[0]["content"] == [use("db__drop", {}, "mcpr_1")]
    assert outputs("anthropic", items) == ["denied"]


def test_what_openai_says_beside_its_calls_goes_back_too() -> None:
    spoken = said_by("openai-responses", response(said("Adding."), function_call()))
    _, items = written("openai-responses", [spoken, results(result(spoken.tool_calls[0], "3"))])
    assert items[:2] == [said("Adding."), function_call()]


@every_provider
def test_a_reply_that_is_no_providers_is_written_from_its_blocks(provider: str) -> None:
    read = read_reply([ADD])
    _, items = written(provider, [Message("assistant", [TextBlock("Adding."), ADD], read), results(result(ADD, "3"))])
    assert ids(provider, items) == (["call_1"], ["call_1"])
    assert "Adding." in str(items)


@every_provider
def test_a_thousand_calls_of_one_turn_are_written_each_once(provider: str) -> None:
    calls = [ToolCall("add", {"n": n}, f"c{n % 10}") for n in range(1000)]
    _, items = written(provider, [Message("assistant", calls), results(*(result(c, str(c.args["n"])) for c in calls))])
    called, answered = ids(provider, items)
    assert called == answered
    assert len(set(called)) == 1000
    assert outputs(provider, items) == [str(n) for n in range(1000)]
