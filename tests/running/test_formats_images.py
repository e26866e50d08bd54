"""Results with images: shown where the API takes them, and told where it takes text only."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from wire import Picture, Shown, check, completion, function, function_call, message, response, text, use

from agentperm_nb.calls import ToolCall
from agentperm_nb.running.formats import read_reply, write_results

DATA = b"\x89PNG\r\n\x00\xff"
BASE64 = base64.b64encode(DATA).decode()
PNG, JPEG = Picture(DATA), Picture(DATA, "image/jpeg")
TWO = (PNG, JPEG)
CALLS = [ToolCall("plot", {}, "call_1")]
URL = f"data:image/png;base64,{BASE64}"


def source(media_type: str) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": BASE64}}


def content(format: str, *, given: Any = "A plot:", images: Any = TWO, is_error: bool = False) -> Any:
    """Return what the result of a call becomes."""
    replies: dict[str, Any] = {
        "anthropic": message(use("plot", id="call_1")),
        "openai-chat": completion(function("plot")),
        "openai-responses": response(function_call("plot")),
        "calls": CALLS,
    }
    reply = replies[format]
    (call,) = read_reply(reply).calls
    written = write_results(format, reply, [Shown(call, given, is_error, images)])
    if format != "calls":
        check(format, written)
    (answer,) = written
    if format == "anthropic":
        (answer,) = answer["content"]
    return answer["output"] if format == "openai-responses" else answer if format == "calls" else answer["content"]


def test_anthropic_is_shown_the_text_and_then_the_images() -> None:
    assert content("anthropic") == [text("A plot:"), source("image/png"), source("image/jpeg")]
    assert content("anthropic", given=[text("A plot:")]) == [text("A plot:"), source("image/png"), source("image/jpeg")]


@pytest.mark.parametrize("blank", ["", " \n", []], ids=repr)
def test_a_blank_text_is_left_out_beside_an_image(blank: Any) -> None:
    assert content("anthropic", given=blank, images=[PNG]) == [source("image/png")]
    assert content("openai-responses", given=blank, images=[PNG]) == [
        {"type": "input_image", "image_url": URL, "detail": "auto"}
    ]


@pytest.mark.parametrize("given", ["boom", [text("boom")]], ids=["a text", "blocks"])
def test_an_error_is_told_to_anthropic_in_text_alone_since_the_api_refuses_anything_else(given: Any) -> None:
    assert content("anthropic", given=given, is_error=True) == [text("boom"), text("[2 images left out: text only]")]


def test_blocks_of_an_error_that_are_no_text_are_told_too() -> None:
    blocks = [text("boom"), source("image/png")]
    assert content("anthropic", given=blocks, images=(), is_error=True) == [
        text("boom"),
        text("[image left out: text only]"),
    ]
    assert content("anthropic", given=blocks, images=()) == blocks


def test_openai_responses_is_shown_the_text_and_then_the_images() -> None:
    jpeg = f"data:image/jpeg;base64,{BASE64}"
    assert content("openai-responses") == [
        {"type": "input_text", "text": "A plot:"},
        {"type": "input_image", "image_url": URL, "detail": "auto"},
        {"type": "input_image", "image_url": jpeg, "detail": "auto"},
    ]
    assert content("openai-responses", is_error=True)[0] == {"type": "input_text", "text": "Error: A plot:"}


def test_openai_chat_takes_text_only_and_is_told_how_many_images_there_were() -> None:
    assert content("openai-chat") == "A plot:\n[2 images left out: text only]"
    assert content("openai-chat", given="", images=[PNG]) == "[1 image left out: text only]"
    assert content("openai-chat", is_error=True) == "Error: A plot:\n[2 images left out: text only]"
    assert content("openai-chat", given=[text("A plot:")]) == [text("A plot:"), text("[2 images left out: text only]")]


def test_a_list_of_calls_has_its_images_as_data() -> None:
    answer = content("calls")
    assert answer["content"] == "A plot:"
    assert answer["images"] == [
        {"media_type": "image/png", "data": BASE64},
        {"media_type": "image/jpeg", "data": BASE64},
    ]


@pytest.mark.parametrize("images", [(), [], None], ids=repr)
@pytest.mark.parametrize("format", ["anthropic", "openai-chat", "openai-responses", "calls"])
def test_without_images_a_result_is_what_it_was(format: str, images: Any) -> None:
    answer = content(format, images=images)
    assert answer == "A plot:" or (answer["content"], "images" in answer) == ("A plot:", False)


@pytest.mark.parametrize(
    ("image", "line"),
    [
        (Picture(DATA, "image/svg+xml"), "[image left out: image/svg+xml is not taken]"),
        (Picture(DATA, None), "[image left out: its type is not taken]"),
        (Picture("iVBOR"), "[image left out: image/png is not taken]"),
        (object(), "[image left out: its type is not taken]"),
    ],
    ids=["another type", "no type", "no bytes", "no image"],
)
def test_an_image_that_no_provider_takes_is_told(image: Any, line: str) -> None:
    assert content("anthropic", images=[image, PNG]) == [text("A plot:"), source("image/png"), text(line)]
    assert content("anthropic", images=[image]) == [text("A plot:"), text(line)]
    assert content("openai-responses", images=[image]) == f"A plot:\n{line}"
    assert content("calls", images=[image])["content"] == f"A plot:\n{line}"


def test_a_call_that_the_provider_defines_is_answered_in_text() -> None:
    reply = response({"type": "custom_tool_call", "id": "c", "call_id": "c", "name": "sql", "input": "select 1"})
    (call,) = read_reply(reply).calls
    written = write_results("openai-responses", reply, [Shown(call, "no", is_error=True)])
    check("openai-responses", written)
    assert written[0]["output"] == "Error: no\n[1 image left out: text only]"
