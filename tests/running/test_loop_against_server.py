"""The README's loop, with the providers' own clients, against a server that refuses what the APIs refuse."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import pytest
from model_server import serving, streamed
from wire import Result, check, function, text, use

from agentperm_nb.calls import ToolCall
from agentperm_nb.running.formats import read_reply, tool_specs, write_results
from agentperm_nb.tools import Tool, tool

pytestmark = pytest.mark.anyio


@tool(read_only=True)
def read_file(path: str) -> str:
    """Read a text file."""
    return f"caf\udce9 in {path}"


@tool
def delete_file(path: str) -> str:
    """Delete a file."""
    raise AssertionError(f"{path} was to be kept")


TOOLS: dict[str, Tool] = {"read_file": read_file, "delete_file": delete_file}


@dataclass
class Turn:
    reply: Any
    results: list[Result]
    format: str

    @property
    def calls(self) -> list[ToolCall]:
        return [result.call for result in self.results]

    def to_messages(self) -> list[dict[str, Any]]:
        return write_results(self.format, self.reply, self.results, with_reply=True)


def take_turn(reply: Any) -> Turn:
    read = read_reply(reply)
    return Turn(reply, [outcome(call) for call in read.calls], read.format)


def outcome(call: ToolCall) -> Result:
    if call.invalid is not None:
        return Result(call, call.invalid, is_error=True)
    if call.name != "read_file":
        return Result(call, "denied: nothing is deleted here", is_error=True)
    return Result(call, read_file.run(dict(call.args)))


THINKING = {"type": "thinking", "thinking": "First look.", "signature": "c2lnbmVk"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "notes"}}


async def test_the_loop_with_anthropic_ends_with_every_call_answered() -> None:
    first = [THINKING, text("Let me look."), SEARCH]
    first += [use("read_file", {"path": "notes.txt"}, "a"), use("delete_file", {"path": "notes.txt"}, "b")]
    second = [text(""), use("read_file", {"path": "\ud800"}, "c"), use("erase", {}, "d")]
    with serving(first, second, [text("Tidied.")]) as model:
        async with anthropic.AsyncAnthropic(base_url=model.url, api_key="test", max_retries=0) as client:
            messages: list[Any] = [{"role": "user", "content": "Tidy notes.txt"}]
            specs: Any = tool_specs("anthropic", TOOLS.values())
            while True:
                reply = await client.messages.create(model="claude", max_tokens=99, messages=messages, tools=specs)
                turn = take_turn(reply)
                messages += turn.to_messages()
                if not turn.calls:
                    break
    assert len(model.requests) == 3
    assert messages[1] == {"role": "assistant", "content": first}
    assert [(block["tool_use_id"], block.get("is_error", False)) for block in messages[2]["content"]] == [
        ("a", False),
        ("b", True),
    ]
    assert messages[2]["content"][0]["content"] == "caf\ufffd in notes.txt"
    assert [block["tool_use_id"] for block in messages[4]["content"]] == ["c", "d"]
    assert messages[5:] == [{"role": "assistant", "content": [text("Tidied.")]}]


async def test_the_loop_with_openai_ends_with_every_call_answered() -> None:
    cut = '{"path": "notes'
    first = [function("read_file", '{"path": "notes.txt"}', "a"), function("delete_file", '{"path": "x"}', "b")]
    second = [function("read_file", cut, "c"), function("read_file", r'{"path": "\ud800"}', "d")]
    replies = [{"tool_calls": first, "content": "Let me look."}, {"tool_calls": second}, {"content": "Tidied."}]
    with serving(*replies) as model:
        async with openai.AsyncOpenAI(base_url=f"{model.url}/v1", api_key="test", max_retries=0) as client:
            messages: list[Any] = [{"role": "user", "content": "Tidy notes.txt"}]
            specs: Any = tool_specs("openai-chat", TOOLS.values())
            while True:
                reply = await client.chat.completions.create(model="gpt", messages=messages, tools=specs)
                turn = take_turn(reply)
                messages += turn.to_messages()
                if not turn.calls:
                    break
    assert len(model.requests) == 3
    assert messages[1] == {"role": "assistant", "content": "Let me look.", "tool_calls": first}
    assert [item["tool_call_id"] for item in messages[2:4]] == ["a", "b"]
    assert messages[2]["content"] == "caf\ufffd in notes.txt"
    assert messages[3]["content"].startswith("Error: denied")
    assert messages[4] == {"role": "assistant", "tool_calls": second}
    assert "not valid JSON" in messages[5]["content"]
    assert messages[7:] == [{"role": "assistant", "content": "Tidied."}]
    json.dumps(messages, ensure_ascii=False).encode()


async def test_the_server_of_these_tests_refuses_a_call_without_a_result() -> None:
    with serving([use("read_file", {"path": "x"}, "a")], [text("never")]) as model:
        async with anthropic.AsyncAnthropic(base_url=model.url, api_key="test", max_retries=0) as client:
            messages: list[Any] = [{"role": "user", "content": "Read x"}]
            specs: Any = tool_specs("anthropic", TOOLS.values())
            reply = await client.messages.create(model="claude", max_tokens=99, messages=messages, tools=specs)
            messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": "And?"}]
            with pytest.raises(anthropic.BadRequestError, match="tool_use needs a tool_result"):
                await client.messages.create(model="claude", max_tokens=99, messages=messages, tools=specs)


@pytest.mark.parametrize(
    ("pieces", "stop_reason", "cut"),
    [
        (['{"path": "/tmp/', 'old.txt"}'], "tool_use", None),
        (['{"recursive": true, "path": "/', "tmp/ol"], "max_tokens", "cut off (stop_reason: max_tokens)"),
        (['{"recursive": true,'], "max_tokens", "cut off (stop_reason: max_tokens)"),
    ],
    ids=["complete", "cut in a value", "cut between two arguments"],
)
async def test_a_call_of_a_stream_is_valid_only_when_it_came_to_its_end(
    pieces: list[str], stop_reason: str, cut: str | None
) -> None:
    events = streamed(*pieces, stop_reason=stop_reason)
    with serving(events, events) as model:
        async with anthropic.AsyncAnthropic(base_url=model.url, api_key="test", max_retries=0) as client:
            specs: Any = tool_specs("anthropic", TOOLS.values())
            messages: Any = [{"role": "user", "content": "Delete the old file"}]
            options: Any = {"model": "claude", "max_tokens": 99, "messages": messages, "tools": specs}
            manager = client.messages.stream(**options)
            with pytest.raises(TypeError, match="a stream or opens one"):
                read_reply(manager)
            async with manager as stream:
                with pytest.raises(TypeError, match="is a stream"):
                    read_reply(stream)
                async for event in stream:
                    if event.type == "content_block_stop":
                        (unfinished,) = read_reply(stream.current_message_snapshot).calls
                        assert "the stream had not ended" in str(unfinished.invalid)
                reply = await stream.get_final_message()
            raw = await client.messages.create(**options, stream=True)
            with pytest.raises(TypeError, match="is a stream"):
                read_reply(raw)
            await raw.close()
    (call,) = read_reply(reply).calls
    assert isinstance(reply.content[0].input, dict)  # the client makes an object of whatever has come
    assert (call.invalid is None) if cut is None else (cut in str(call.invalid))
    check("anthropic", write_results("anthropic", reply, [Result(call)], with_reply=True))
