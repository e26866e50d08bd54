"""Anthropic's Messages API.

1. Read are a ``Message`` (the beta class too), its dict, or the list of its content blocks, which does not say how it
   ended. A reply of text has no calls.
2. A ``tool_use`` block is a call. ``server_tool_use`` and ``mcp_tool_use`` ran at the provider: they are told, and
   failed if their result block in the same reply is an error.
3. A member of one of Anthropic's own toolsets is named ``computer.left_click``: no tool of ours can have that name.
4. A reply that ended for any reason but the end of a turn, a call or a pause was cut off, and so was one whose stop
   reason is null, which is what an unfinished stream has: its last call is invalid. The arguments need not look
   incomplete, since the client completes what it has received so far to an object.
5. All results go into one user message, a ``tool_result`` for each ``tool_use`` in its order, ``is_error`` set for
   errors only. Images follow the text. The API takes neither blank text nor an error without text: the first is left
   out, the second says that there was none. An error is text only: for any other part there is a line that says what
   was left out.
6. The reply is given back without what only replies have; thinking blocks and signatures are kept as they are, blank
   text is left out, and arguments that are not JSON become ``{}``. A reply without content is left out.
7. A conversation is the text for ``system=`` and the messages. Messages of one role in a row stay as they are: the API
   reads them as one.

Limits of tool names and the form of blocks: https://docs.claude.com/en/api/messages
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message
from agentperm_nb.running.formats.arguments import read_object
from agentperm_nb.running.formats.conversation import Said, read_conversation
from agentperm_nb.running.formats.fields import as_plain, field, is_given, sendable
from agentperm_nb.running.formats.hosted import provider_call
from agentperm_nb.running.formats.images import EncodedImage, images_of, left_out
from agentperm_nb.running.formats.reply import (
    MessageLike,
    ProviderCall,
    ResultLike,
    ToolLike,
    checked_tool_name,
    cut_off,
    named_call,
)
from agentperm_nb.running.formats.texts import part_text
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

NAME = "anthropic"

_EXAMPLE = "reply = await client.messages.create(...)\nturn = await agent.ause_tools(reply)"
_COMPLETE = {"end_turn", "tool_use", "pause_turn", "compaction"}
_BLOCKS = {"text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "mcp_tool_use"}
_HOSTED = {"server_tool_use", "mcp_tool_use"}
_LONGEST_NAME, _LONGEST_ID = 128, 64
_NO_MESSAGE = "the call failed without a message"
# Blocks with fields that replies have and requests refuse; every other block goes back as it came.
_ACCEPTED = {
    "text": ("type", "text", "citations", "cache_control"),
    "thinking": ("type", "thinking", "signature"),
    "redacted_thinking": ("type", "data"),
}


def recognises(reply: object) -> bool:
    """Return whether it is a message, or a list of content blocks that no other API has."""
    if isinstance(reply, list | tuple):
        types = [field(block, "type") for block in reply]
        return all(isinstance(name, str) for name in types) and not _BLOCKS.isdisjoint(types)
    content = field(reply, "content")
    if field(reply, "type") == "message":
        # Messages in the output of OpenAI's Responses API have this type too, and blocks of other types.
        return not (isinstance(content, list) and any(field(block, "type") == "output_text" for block in content))
    if field(reply, "role") != "assistant" or not isinstance(content, list | tuple):
        return False
    return not any(field(reply, name) for name in ("tool_calls", "function_call", "refusal"))


def read_calls(reply: Any) -> tuple[ToolCall, ...]:
    """Return the calls in a reply.

    Raises:
        TypeError: A part of the reply has a type that the API does not send.
        ValueError: It is not the assistant's message, or a call has no name.
    """
    calls: list[ToolCall] = []
    for position, block in enumerate(_blocks(reply)):
        if field(block, "type") == "tool_use":
            args, invalid = read_object(field(block, "input"))
            where = f"content[{position}]"
            call = named_call(field(block, "name"), args, field(block, "id"), invalid, where=where, example=_EXAMPLE)
            calls.append(call if _toolset(block) is None else _renamed(call, f"{_toolset(block)}.{call.name}"))
    if not isinstance(reply, list | tuple) and is_given(reply, "stop_reason"):
        reason = field(reply, "stop_reason")
        if reason is None:
            cut_off(calls, "it has no stop_reason: the stream had not ended")
        elif reason not in _COMPLETE:
            cut_off(calls, f"stop_reason: {reason}")
    return tuple(calls)


def call_ids(reply: Any) -> list[str]:
    """Return the ids of the calls in a reply that has been read."""
    return [field(block, "id") for block in _blocks(reply) if field(block, "type") == "tool_use"]


def read_hosted(reply: Any) -> tuple[tuple[ProviderCall, ...], Mapping[int, Tool]]:
    """Return the calls that ran at the provider. None of them waits for an approval."""
    blocks = _blocks(reply)
    calls = []
    for position, block in enumerate(blocks):
        kind = field(block, "type")
        if kind in _HOSTED:
            server = field(block, "server_name") if kind == "mcp_tool_use" else None
            failed = _has_failed(field(block, "id"), blocks[position + 1 :])
            made = provider_call(
                field(block, "name"), field(block, "input"), field(block, "id"), kind=kind, server=server, failed=failed
            )
            calls.append(made)
    return tuple(calls), {}


def _has_failed(id: object, following: Sequence[Any]) -> bool | None:
    """Return whether the result of a block is an error, None when it does not follow."""
    for block in following:
        kind = field(block, "type")
        if field(block, "id") == id and kind in _HOSTED:
            return None  # two blocks of one id: what follows is the other's
        if field(block, "tool_use_id") == id and str(kind).endswith("_tool_result"):
            if kind == "mcp_tool_result":
                return bool(field(block, "is_error"))
            inner = field(field(block, "content"), "type")
            return isinstance(inner, str) and inner.endswith("_error")
    return None


def write_messages(original: Any, results: Sequence[ResultLike], *, with_reply: bool) -> list[dict[str, Any]]:
    """Return one user message with the results, after the reply if asked for."""
    blocks = _blocks(original)
    messages: list[dict[str, Any]] = []
    if with_reply:
        content = [param for param in map(_block_param, blocks) if param is not None]
        if content:
            messages.append({"role": "assistant", "content": content})
    if results:
        uses = [block for block in blocks if field(block, "type") == "tool_use"]
        written = [_result(use, result) for use, result in zip(uses, results, strict=True)]
        messages.append({"role": "user", "content": written})
    return messages


def write_conversation(messages: Iterable[MessageLike]) -> tuple[str | None, list[dict[str, Any]]]:
    """Return what ``system=`` (None without instructions) and ``messages=`` of ``messages.create`` take.

    Raises:
        TypeError: A message or a block is none.
        ValueError: A result has no call before it.
    """
    system, parts = read_conversation(messages, format=NAME, longest_id=_LONGEST_ID, longest_name=_LONGEST_NAME)
    written: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, Said):
            written.append({"role": "user", "content": [_user_block(block) for block in part.blocks]})
        else:
            original = part.original
            if original is None:
                original = [
                    _text(block)
                    if isinstance(block, str)
                    else {"type": "tool_use", "id": block.id, "name": block.name, "input": block.args}
                    for block in part.blocks
                ]
            written += write_messages(original, part.results, with_reply=True)
    return system, [sendable(message) for message in written]


def _user_block(block: str | EncodedImage) -> dict[str, Any]:
    return _text(block) if isinstance(block, str) else _image(block)


def _image(image: EncodedImage) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.data}}


def tool_spec(tool: ToolLike) -> dict[str, Any]:
    """Return the tool as ``tools=`` of ``messages.create`` takes it.

    Raises:
        ValueError: The API does not take its name.
    """
    spec: dict[str, Any] = {"name": checked_tool_name(tool.name, provider="Anthropic", longest=_LONGEST_NAME)}
    if tool.description:
        spec["description"] = tool.description
    spec["input_schema"] = {"type": "object", **copy.deepcopy(tool.input_schema)}
    return spec


def _blocks(reply: Any) -> Sequence[Any]:
    if isinstance(reply, list | tuple):
        return reply
    role = field(reply, "role")
    if role not in {None, "assistant"}:
        raise ValueError(fix_message(f"the message is of role {role!r}", "give the assistant's reply", _EXAMPLE))
    content = field(reply, "content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list | tuple):
        raise TypeError(
            fix_message(
                f"the content of the reply is not a list of blocks (got: {type(content).__name__})",
                "give the reply as the API sent it",
                _EXAMPLE,
            )
        )
    for position, block in enumerate(content):
        if not isinstance(field(block, "type"), str):
            raise TypeError(
                fix_message(
                    f"content[{position}] of the reply is not a content block (got: {type(block).__name__})",
                    "give the reply as the API sent it",
                    _EXAMPLE,
                )
            )
    return content


def _toolset(block: Any) -> str | None:
    name = field(block, "toolset_name")
    return None if name is None else str(name)


def _renamed(call: ToolCall, name: str) -> ToolCall:
    return ToolCall(name, call.args, call.id, call.invalid)


def _block_param(block: Any) -> dict[str, Any] | None:
    kind = field(block, "type")
    if kind == "tool_use":
        # Not dumped as a whole: the arguments may be nested deeper than a dump goes.
        args, _ = read_object(field(block, "input"))
        use = {"type": kind, "id": field(block, "id"), "name": field(block, "name"), "input": as_plain(args)}
        for name in ("caller", "toolset_name", "cache_control"):
            if field(block, name) is not None:
                use[name] = as_plain(field(block, name))
        plain: dict[str, Any] = sendable(use)
        return plain
    plain = sendable(as_plain(block))
    if kind == "text" and not str(plain.get("text") or "").strip():
        return None
    if kind in _ACCEPTED:
        plain = {name: plain[name] for name in _ACCEPTED[kind] if plain.get(name) is not None}
    if plain.get("caller", ...) is None:
        del plain["caller"]
    if plain.get("citations") and kind == "text":
        plain["citations"] = [_citation(citation) for citation in plain["citations"]]
    return plain


def _citation(citation: Any) -> Any:
    if not isinstance(citation, dict):
        return citation
    # A title is required, be it null; an object leaves out what was not sent.
    title = "document_title" if "document_index" in citation else "title"
    return {title: None, **{key: value for key, value in citation.items() if key != "file_id"}}


def _result(use: Any, result: ResultLike) -> dict[str, Any]:
    content = result.content
    if not isinstance(content, str):
        plain = [as_plain(block) for block in content]
        content = [block for block in plain if not _is_blank(block)]
    images, lines = images_of(result)
    if result.is_error:
        images, lines = [], left_out(result)
        if not isinstance(content, str):
            content = [block if field(block, "type") == "text" else _text(part_text(block)) for block in content]
    if images or lines:
        given = ([_text(content)] if content.strip() else []) if isinstance(content, str) else content
        content = [*given, *map(_image, images), *map(_text, lines)]
    if result.is_error and not (content.strip() if isinstance(content, str) else content):
        content = _NO_MESSAGE
    written: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call.id, "content": sendable(content)}
    if result.is_error:
        written["is_error"] = True
    if _toolset(use) is not None:
        written["toolset_name"] = _toolset(use)
    return written


def _text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def _is_blank(block: Any) -> bool:
    return isinstance(block, Mapping) and block.get("type") == "text" and not str(block.get("text") or "").strip()
