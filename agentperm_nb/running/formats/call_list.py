"""A list of `ToolCall`, for an API of one's own.

1. Read is a list or a tuple of ToolCalls; an empty one has no calls. Arguments that JSON has no form for make a call
   invalid here too.
2. Results are written as neutral dicts, one a call, with ``is_error`` as a field.
3. There is no reply to give back: asking for it is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message
from agentperm_nb.running.formats.arguments import read_object
from agentperm_nb.running.formats.fields import as_plain
from agentperm_nb.running.formats.reply import ResultLike

__all__ = ["NAME", "read_calls", "recognises", "write_messages"]

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


def write_messages(original: Any, results: Sequence[ResultLike], *, with_reply: bool) -> list[dict[str, Any]]:
    """Return one dict a result: role, tool_call_id, name, content, is_error.

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
    return [
        {
            "role": "tool",
            "tool_call_id": result.call.id,
            "name": result.call.name,
            "content": as_plain(result.content),
            "is_error": result.is_error,
        }
        for result in results
    ]
