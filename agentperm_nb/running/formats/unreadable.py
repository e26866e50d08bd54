"""What came in instead of a reply, and what to do about it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message
from agentperm_nb.running.formats.fields import field

__all__ = ["unreadable"]

_READ = "give an Anthropic Message, an OpenAI ChatCompletion or Response, one of them as a dict, or a list of ToolCalls"
_USE = "turn = await agent.ause_tools(reply)"
_CREATE = f"reply = await client.messages.create(...)\n{_USE}"
_CREATE_OPENAI = f"reply = await client.chat.completions.create(...)\n{_USE}"
_CREATE_RESPONSE = f"reply = await client.responses.create(...)\n{_USE}"
_COLLECT = f"async with client.messages.stream(...) as stream:\n    reply = await stream.get_final_message()\n{_USE}"
_COLLECT_RESPONSE = (
    f"async with client.responses.stream(...) as stream:\n    reply = await stream.get_final_response()\n{_USE}"
)


def unreadable(reply: object) -> TypeError:
    """Return the error for a reply of an unknown shape."""
    problem, fix, example = _described(reply)
    return TypeError(fix_message(problem, fix, example))


def _described(reply: Any) -> tuple[str, str, str]:
    kind = type(reply).__name__
    if reply is None:
        return "the reply is None", "give what the call of the model returned", _CREATE
    if isinstance(reply, type):
        return f"the reply is the class {reply.__name__}, not an object of it", _READ, _CREATE
    if isinstance(reply, ToolCall):
        return "the reply is a single ToolCall", "put it in a list", "turn = await agent.ause_tools([call])"
    if isinstance(reply, str | bytes | bytearray):
        text = "give the whole reply, not its text: the calls stand beside the text"
        return f"the reply is a text ({kind})", text, _CREATE
    if inspect.isawaitable(reply):
        return f"the reply has not been awaited (got: {kind})", "put await before the call of the model", _CREATE
    if any(hasattr(reply, name) for name in ("__next__", "__anext__", "__aiter__", "__enter__", "__aenter__")):
        return (
            f"the reply is a stream or opens one (got: {kind})",
            "wait for the whole message, or ask without stream=True",
            _collecting(type(reply).__module__),
        )
    if field(reply, "object") == "chat.completion.chunk" or str(field(reply, "type")).startswith(
        ("message_", "content_block_")
    ):
        return f"the reply is one piece of a stream (got: {kind})", "wait for the whole message", _CREATE
    kind_of_item = field(reply, "type")
    if isinstance(kind_of_item, str) and kind_of_item.startswith("response."):
        ended = "turn = await agent.ause_tools(event.response)  # of the event response.completed"
        return f"the reply is one piece of a stream (got: {kind})", "give the response of the last event", ended
    if kind_of_item in ("function_call", "custom_tool_call", "mcp_approval_request") or _is_output_message(reply):
        return (
            f"the reply is one item of a response's output ({kind_of_item})",
            "give the whole response",
            _CREATE_RESPONSE,
        )
    if field(reply, "type") == "error" or (isinstance(reply, Mapping) and reply.get("error")):
        return f"the reply is an error of the API: {str(field(reply, 'error'))[:200]}", "ask the model again", _CREATE
    if isinstance(reply, list | tuple):
        return _list(reply)
    if not isinstance(reply, Mapping) and callable(getattr(reply, "parse", None)):
        return (
            f"the reply is a raw response (got: {kind})",
            "parse it first",
            "turn = await agent.ause_tools(raw.parse())",
        )
    if isinstance(field(reply, "role"), str) and field(reply, "role") != "assistant":
        return f"the message is of role {field(reply, 'role')!r}", "give the assistant's reply", _CREATE
    if isinstance(reply, Mapping):
        keys = ", ".join(str(key) for key in list(reply)[:8])
        return f"the reply is a dict of an unknown shape (keys: {keys or 'none'})", _READ, _USE
    return f"the reply is of an unknown type (got: {kind})", _READ, _USE


def _collecting(module: str) -> str:
    if not module.startswith("openai"):
        return _COLLECT
    return _COLLECT_RESPONSE if "responses" in module else _CREATE_OPENAI


def _is_output_message(reply: Any) -> bool:
    parts = field(reply, "content")
    return isinstance(parts, list | tuple) and any(field(part, "type") == "output_text" for part in parts)


def _list(reply: list[Any] | tuple[Any, ...]) -> tuple[str, str, str]:
    first = reply[0]
    if any(isinstance(field(item, "role"), str) for item in reply):
        return "the reply is a list of messages", "give the last reply alone", _CREATE
    if any(str(field(item, "type")).endswith(("_call_output", "_approval_response")) for item in reply):
        return "the reply is a list of input items", "give the last response alone", _CREATE_RESPONSE
    if field(first, "function") is not None or field(first, "custom") is not None:
        return (
            "the reply is the list of tool calls in a message",
            "give the whole message: the results are written beside it",
            "turn = await agent.ause_tools(reply.choices[0].message)",
        )
    return f"the reply is a list of an unknown kind (its first item: {type(first).__name__})", _READ, _USE
