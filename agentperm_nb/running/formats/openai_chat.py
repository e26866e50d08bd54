"""OpenAI's Chat Completions API, and the many servers that speak it.

1. Read are a ``ChatCompletion`` with one choice, the choice, its message, or their dicts. No calls: a reply of text.
2. Arguments come as a JSON text; what is not a JSON object makes the call invalid.
3. A custom tool's call holds free text instead of arguments by name, so it is invalid.
4. A reply whose finish reason is ``length`` or ``content_filter`` was cut off: its last call is invalid.
5. Each result is one ``tool`` message. The API has no field for errors, so the text of an error begins with
   ``Error: ``. It takes text only: for any other part of a result, images too, there is a line that says what was
   left out.
6. The deprecated ``function_call`` is read too, and answered by one ``function`` message; its call has no id.
7. The reply is given back without what only replies have (annotations, a parsed form, the data of audio) and without
   null fields. Fields that OpenAI does not have are kept: servers that send them (reasoning, signatures of thoughts)
   want them back.
8. A conversation is a list of messages with all instructions first, in one system message. Nothing in this API tells of
   tools that ran at the provider: of a search there are citations only.

Limits of tool names: ``FunctionDefinition.name`` of the API reference.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message
from agentperm_nb.running.formats.arguments import read_json
from agentperm_nb.running.formats.conversation import Said, Spoken, read_conversation
from agentperm_nb.running.formats.fields import as_plain, field, sendable
from agentperm_nb.running.formats.images import EncodedImage
from agentperm_nb.running.formats.reply import (
    MessageLike,
    ProviderCall,
    ResultLike,
    ToolLike,
    checked_tool_name,
    cut_off,
    named_call,
)
from agentperm_nb.running.formats.texts import error_text, text_parts
from agentperm_nb.tools import Tool

__all__ = [
    "NAME",
    "call_ids",
    "read_calls",
    "read_hosted",
    "recognises",
    "tool_spec",
    "write_conversation",
    "write_messages",
]

NAME = "openai-chat"

_EXAMPLE = "reply = await client.chat.completions.create(...)\nturn = await agent.ause_tools(reply)"
_LONGEST_NAME, _LONGEST_ID = 64, 40
_CUT = {"length", "content_filter"}
_REPLY_ONLY = frozenset({"annotations", "parsed", "audio", "tool_calls", "function_call"})
_CUSTOM = (
    "this is the call of a custom tool: it holds free text, not arguments by name, so nothing can be decided about it; "
    "call a function tool instead"
)


def recognises(reply: object) -> bool:
    """Return whether it is a completion, a choice of one, or an assistant's message."""
    if isinstance(reply, list | tuple):
        return False
    if field(reply, "object") == "chat.completion" or isinstance(field(reply, "choices"), list | tuple):
        return bool(field(reply, "object") != "chat.completion.chunk")
    inner = field(reply, "message")
    if field(inner, "role") == "assistant" and field(inner, "type") != "message":
        return True
    if field(reply, "role") != "assistant" or field(reply, "type") == "message":
        return False
    content = field(reply, "content")
    return (
        content is None
        or isinstance(content, str)
        or any(bool(field(reply, name)) for name in ("tool_calls", "function_call", "refusal"))
    )


def read_calls(reply: Any) -> tuple[ToolCall, ...]:
    """Return the calls in a reply.

    Raises:
        TypeError: A part of the reply has a type that the API does not send.
        ValueError: There is not exactly one choice, it is not the assistant's message, or a call has no name.
    """
    message, finish_reason = _message(reply)
    calls = [_read_call(call, position) for position, call in enumerate(_tool_calls(message))]
    function_call = field(message, "function_call")
    if function_call is not None:
        if calls:
            raise ValueError(
                fix_message(
                    "the reply has both tool_calls and the deprecated function_call",
                    "ask with tools=, not with functions=",
                    "await client.chat.completions.create(tools=agent.tool_specs('openai-chat'), ...)",
                )
            )
        calls = [_read_function(function_call, "", "function_call")]
    if finish_reason in _CUT:
        cut_off(calls, f"finish_reason: {finish_reason}")
    return tuple(calls)


def call_ids(reply: Any) -> list[str]:
    """Return the ids of the calls in a reply that has been read."""
    message, _ = _message(reply)
    if field(message, "function_call") is not None:
        return [""]
    return [field(call, "id") for call in _tool_calls(message)]


def read_hosted(reply: Any) -> tuple[tuple[ProviderCall, ...], Mapping[int, Tool]]:
    """Return nothing: no message of this API tells of tools that ran at the provider."""
    return (), {}


def write_messages(original: Any, results: Sequence[ResultLike], *, with_reply: bool) -> list[dict[str, Any]]:
    """Return one message a result, after the reply if asked for."""
    message, _ = _message(original)
    messages = [_message_param(message)] if with_reply else []
    for result in results:
        if field(message, "function_call") is not None:
            messages.append({"role": "function", "name": result.call.name, "content": error_text(result)})
        else:
            messages.append({"role": "tool", "tool_call_id": result.call.id, "content": _content(result)})
    return [sendable(item) for item in messages]


def write_conversation(messages: Iterable[MessageLike]) -> list[dict[str, Any]]:
    """Return what ``messages=`` of ``chat.completions.create`` takes, the instructions first.

    Raises:
        TypeError: A message or a block is none.
        ValueError: A result has no call before it.
    """
    system, parts = read_conversation(messages, format=NAME, longest_id=_LONGEST_ID, longest_name=_LONGEST_NAME)
    written: list[dict[str, Any]] = [] if system is None else [{"role": "system", "content": system}]
    for part in parts:
        if isinstance(part, Said):
            written.append({"role": "user", "content": _parts(part.blocks)})
        elif part.original is not None:
            written += write_messages(part.original, part.results, with_reply=True)
        elif part.blocks:
            written += write_messages(_spoken(part), part.results, with_reply=True)
    return [sendable(message) for message in written]


def _spoken(part: Spoken) -> dict[str, Any]:
    texts = [block for block in part.blocks if isinstance(block, str)]
    calls = [
        {"id": block.id, "type": "function", "function": {"name": block.name, "arguments": block.args}}
        for block in part.blocks
        if isinstance(block, ToolCall)
    ]
    message: dict[str, Any] = {"role": "assistant"}
    if texts:
        message["content"] = _parts(texts)
    if calls:
        message["tool_calls"] = calls
    return message


def _parts(blocks: Sequence[str | EncodedImage]) -> str | list[dict[str, Any]]:
    first = blocks[0]
    if len(blocks) == 1 and isinstance(first, str):
        return first
    return [
        {"type": "text", "text": block}
        if isinstance(block, str)
        else {"type": "image_url", "image_url": {"url": block.url}}
        for block in blocks
    ]


def tool_spec(tool: ToolLike) -> dict[str, Any]:
    """Return the tool as ``tools=`` of ``chat.completions.create`` takes it.

    Raises:
        ValueError: The API does not take its name.
    """
    function: dict[str, Any] = {"name": checked_tool_name(tool.name, provider="OpenAI", longest=_LONGEST_NAME)}
    if tool.description:
        function["description"] = tool.description
    function["parameters"] = {"type": "object", **copy.deepcopy(tool.input_schema)}
    return {"type": "function", "function": function}


def _message(reply: Any) -> tuple[Any, Any]:
    """Return the message in a completion, a choice or a message, and why it ended (None when that is not known)."""
    choice = reply
    if field(reply, "object") == "chat.completion" or field(reply, "choices") is not None:
        choices = field(reply, "choices")
        if not isinstance(choices, list | tuple):
            raise TypeError(_not_sent("the choices of the reply are not a list", choices))
        if len(choices) != 1:
            raise ValueError(
                fix_message(
                    f"the reply has {len(choices)} choices, so it is not known which one is to be followed",
                    "ask for one with n=1, or give the message of one of them",
                    "turn = await agent.ause_tools(reply.choices[0].message)",
                )
            )
        choice = choices[0]
        if field(choice, "message") is None:
            raise TypeError(_not_sent("the choice of the reply has no message", choice))
    message = choice if field(choice, "message") is None else field(choice, "message")
    role = field(message, "role")
    if role != "assistant":
        raise ValueError(fix_message(f"the message is of role {role!r}", "give the assistant's reply", _EXAMPLE))
    return message, None if message is choice else field(choice, "finish_reason")


def _tool_calls(message: Any) -> Sequence[Any]:
    calls = field(message, "tool_calls")
    if calls is None:
        return ()
    if not isinstance(calls, list | tuple):
        raise TypeError(_not_sent("the tool_calls of the reply are not a list", calls))
    return calls


def _read_call(call: Any, position: int) -> ToolCall:
    where = f"tool_calls[{position}]"
    function, custom = field(call, "function"), field(call, "custom")
    if function is not None:
        return _read_function(function, field(call, "id"), where)
    if custom is not None:
        return named_call(field(custom, "name"), {}, field(call, "id"), _CUSTOM, where=where, example=_EXAMPLE)
    raise TypeError(_not_sent(f"the call at {where} is of an unknown kind", call))


def _read_function(function: Any, id: object, where: str) -> ToolCall:
    args, invalid = read_json(field(function, "arguments"))
    return named_call(field(function, "name"), args, id, invalid, where=where, example=_EXAMPLE)


def _message_param(message: Any) -> dict[str, Any]:
    plain = as_plain(message, leave_out=_REPLY_ONLY)
    param = {"role": "assistant", **{key: value for key, value in plain.items() if value is not None}}
    audio, calls, function = field(message, "audio"), _tool_calls(message), field(message, "function_call")
    if audio is not None:
        param["audio"] = {"id": field(audio, "id")}
    if calls:
        param["tool_calls"] = [_call_param(call) for call in calls]
    if function is not None:
        param["function_call"] = _function_param(function)
    if not calls and function is None:
        param.setdefault("content", None)
    return param


def _call_param(call: Any) -> dict[str, Any]:
    param: dict[str, Any] = as_plain(call, leave_out=frozenset({"function", "custom", "index"}))
    if field(call, "function") is not None:
        return {**param, "type": "function", "function": _function_param(field(call, "function"))}
    return {**param, "type": "custom", "custom": as_plain(field(call, "custom"))}


def _function_param(function: Any) -> dict[str, Any]:
    param: dict[str, Any] = as_plain(function, leave_out=frozenset({"parsed_arguments", "arguments"}))
    arguments = field(function, "arguments")
    if not isinstance(arguments, str):
        args, _ = read_json(arguments)
        arguments = json.dumps(as_plain(args))
    return {**param, "arguments": arguments}


def _content(result: ResultLike) -> str | list[dict[str, Any]]:
    if isinstance(result.content, str):
        return error_text(result)
    parts = [{"type": "text", "text": text} for text in text_parts(result)]
    if result.is_error:
        first = parts[0]["text"] if parts else ""
        parts[:1] = [{"type": "text", "text": f"Error: {first}"}]
    return parts or ""


def _not_sent(problem: str, value: object) -> str:
    return fix_message(f"{problem} (got: {type(value).__name__})", "give the reply as the API sent it", _EXAMPLE)
