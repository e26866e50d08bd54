"""A list of `ToolCall`, for an API of one's own.

1. Read is a list or a tuple of ToolCalls; an empty one has no calls. Arguments that JSON has no form for make a call
   invalid here too.
2. Results are written as neutral dicts, one a call, with ``is_error`` as a field, and ``images`` where there are any.
3. There is no reply to give back: asking for it is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message
from agentperm_nb.running.formats.arguments import read_object
from agentperm_nb.running.formats.fields import as_plain
from agentperm_nb.running.formats.images import images_of
from agentperm_nb.running.formats.reply import ProviderCall, ResultLike
from agentperm_nb.tools import Tool

__all__ = ["NAME", "call_ids", "read_calls", "read_hosted", "recognises", "write_messages"]

NAME = "calls"

_EXAMPLE = "turn = await agent.ause_tools([ToolCall('read_file', {'path': 'notes.txt'}, id='call_1')])"


def recognises(reply: object) -> bool:
    """Return whether it is a list with a ToolCall in it, or an empty list."""
    return isinstance(reply, list | tuple) and (not reply or any(isinstance(item, ToolCall) for item in reply))


def read_calls(reply: Any) -> tuple[ToolCall, ...]:
    """Return the calls.

    Raises:
        TypeError: An item is not a ToolCall.
    """
    calls: list[ToolCall] = []
    for position, item in enumerate(reply):
        if not isinstance(item, ToolCall):
            raise TypeError(
                fix_message(
                    f"item {position} of the list of calls is not a ToolCall (got: {type(item).__name__})",
                    "give ToolCalls only, or the reply of one provider",
                    _EXAMPLE,
                )
            )
        _, problem = read_object(item.args)
        readable = problem is None or item.invalid is not None
        calls.append(item if readable else ToolCall(item.name, {}, item.id, problem))
    return tuple(calls)


def call_ids(reply: Any) -> list[str]:
    """Return the ids of the calls in a list that has been read."""
    return [call.id for call in reply]


def read_hosted(reply: Any) -> tuple[tuple[ProviderCall, ...], Mapping[int, Tool]]:
    """Return nothing: a list of calls tells of no provider's tools."""
    return (), {}


def write_messages(original: Any, results: Sequence[ResultLike], *, with_reply: bool) -> list[dict[str, Any]]:
    """Return one dict a result: role, tool_call_id, name, content, is_error, and images where there are any.

    Raises:
        ValueError: The reply is asked for.
    """
    if with_reply:
        raise ValueError(
            fix_message(
                "a list of ToolCalls is no reply that could be given back",
                "leave out with_reply, and put your own message first",
                "messages += [my_message, *turn.to_messages()]",
            )
        )
    return [_written(result) for result in results]


def _written(result: ResultLike) -> dict[str, Any]:
    written = {
        "role": "tool",
        "tool_call_id": result.call.id,
        "name": result.call.name,
        "content": as_plain(result.content),
        "is_error": result.is_error,
    }
    images, lines = images_of(result)
    if images:
        written["images"] = [{"media_type": image.media_type, "data": image.data} for image in images]
    if lines:
        content = written["content"]
        texts = [{"type": "text", "text": line} for line in lines]
        written["content"] = [*content, *texts] if isinstance(content, list) else "\n".join([content, *lines])
    return written
