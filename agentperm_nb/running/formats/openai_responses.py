"""OpenAI's Responses API.

1. Read are a ``Response``, its dict, or the list of its output items, which does not say how it ended. A list with what
   only an input has (a user's message, the output of a function) is none. A reply of text has no calls.
2. A ``function_call`` is a call; its ``call_id`` is the id. Arguments come as a JSON text; what is not a JSON object
   makes the call invalid. A function of a namespace is named ``crm.get``, since it need not be ours; a namespace equal
   to the name is what a function has that was loaded late, and is left out.
3. An incomplete response was cut off: its last call is invalid, and so is every call that is not complete itself. A
   response that failed, was cancelled, or has not ended yet is an error.
4. Items of tools that ran at the provider (searches, code, images, ``mcp_call``, a shell in a container, a program) are
   told and are not calls; calls whose output stands in the same response are not either.
5. What waits for the client and is no function's call is an invalid call: ``custom_tool_call`` under the tool's name,
   ``shell_call``, ``local_shell_call``, ``apply_patch_call`` and a client's ``tool_search_call`` under the name of the
   hosted tool. A ``computer_call`` is an error, since a screenshot is the only answer that the API takes; so is an item
   of an unknown type that seems to wait for an answer.
6. An ``mcp_approval_request`` is a call named ``server__tool``, with a `HostedTool` as its tool. It is approved when
   its result says that it was allowed and done as it came, and refused otherwise: with its arguments edited or
   unreadable, or under an id that another request has too.
7. Each result is one output item of the call's kind. Functions have no field for errors, so the text of an error
   begins with ``Error: ``. A shell's goes to stderr, a patch's beside a failed status, that of an approval into the
   reason; a search for tools finds none. Results are text, and a function's may have images after it; for any other
   part there is a line that says what was left out.
8. The reply is given back as its output items, without what only replies have and without nulls that no request takes.
   Reasoning is kept as it is. Where the API keeps the conversation itself (``previous_response_id``), leave it out.
9. A conversation is the text for ``instructions=`` and the input items.

Forms of items: ``ResponseInputParam`` of the API reference.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message
from agentperm_nb.running.formats.arguments import read_json, read_object
from agentperm_nb.running.formats.conversation import Said, Spoken, read_conversation
from agentperm_nb.running.formats.fields import as_plain, field, sendable
from agentperm_nb.running.formats.images import EncodedImage, images_of
from agentperm_nb.running.formats.openai_approvals import approval, stand_in
from agentperm_nb.running.formats.openai_items import item_param, provider_calls_in, ran_at_provider
from agentperm_nb.running.formats.reply import (
    MessageLike,
    ProviderCall,
    ResultLike,
    ToolLike,
    checked_tool_name,
    cut_off,
    named_call,
)
from agentperm_nb.running.formats.texts import as_error, error_text, own_text, plain_text
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

NAME = "openai-responses"

_LONGEST_NAME = _LONGEST_ID = 64
_EXAMPLE = "reply = await client.responses.create(...)\nturn = await agent.ause_tools(reply)"
_TOOLS = "reply = await client.responses.create(tools=agent.tool_specs('openai-responses'), ...)"

# What wants an answer, and the item that is one.
_ANSWERS = {
    "function_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "shell_call": "shell_call_output",
    "local_shell_call": "local_shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "tool_search_call": "tool_search_output",
    "mcp_approval_request": "mcp_approval_response",
}
# Calls of tools that OpenAI defines and the client runs: their names, and where their arguments stand.
_CLIENT_TOOLS = {
    "shell_call": ("shell", "action"),
    "local_shell_call": ("local_shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
    "tool_search_call": ("tool_search", "arguments"),
}
# What stands in an output and wants no answer.
_NO_CALLS = {
    "message",
    "reasoning",
    "compaction",
    "program",
    "program_output",
    "additional_tools",
    "web_search_call",
    "file_search_call",
    "code_interpreter_call",
    "image_generation_call",
    "mcp_call",
    "mcp_list_tools",
    "shell_call_output",
    "tool_search_output",
}
_LISTED = {*_ANSWERS, *_NO_CALLS, "computer_call"}
_PARTS = ("output_text", "refusal")

_ENDED = {
    "cancelled": ("the response was cancelled", "ask the model again", _EXAMPLE),
    **dict.fromkeys(
        ("queued", "in_progress"),
        (
            "the response has not ended yet",
            "wait for its end",
            "reply = await client.responses.retrieve(reply.id)  # until reply.status is 'completed'",
        ),
    ),
}

_CUSTOM = (
    "this is the call of a custom tool: it holds free text, not arguments by name, so nothing can be decided about it; "
    "call a function tool instead"
)
_NO_FUNCTION = (
    "this is a call of the provider's own tool {name}, not of a function tool: it is not supported and did not run; "
    "call a function tool instead"
)


def recognises(reply: object) -> bool:
    """Return whether it is a response, or a list of what only a response's output has."""
    if not isinstance(reply, list | tuple):
        return bool(field(reply, "object") == "response")
    told = False
    for item in reply:
        kind = field(item, "type")
        if not isinstance(kind, str) or kind not in _LISTED:
            return False
        if kind != "message":
            told = True
            continue
        # Other APIs have messages of this type too.
        parts = field(item, "content")
        if field(item, "role") != "assistant" or not isinstance(parts, list | tuple):
            return False
        if any(field(part, "type") not in _PARTS for part in parts):
            return False
        told = told or bool(parts)
    return told


def read_calls(reply: Any) -> tuple[ToolCall, ...]:
    """Return the calls in a reply.

    Raises:
        TypeError: A part of the reply has a type that the API does not send.
        ValueError: The response failed or has not ended, a call has no name, or an item cannot be answered.
    """
    cut = _why_cut(reply)
    calls = [_read_call(item, where) for where, item in _waiting(reply)]
    if cut is not None:
        cut_off(calls, cut)
    return tuple(calls)


def call_ids(reply: Any) -> list[str]:
    """Return the ids of the calls in a reply that has been read."""
    return [_answer_id(item) for _, item in _waiting(reply)]


def read_hosted(reply: Any) -> tuple[tuple[ProviderCall, ...], Mapping[int, Tool]]:
    """Return the calls that ran at the provider, and the tools that stand in for those that wait for an approval."""
    stand_ins: dict[int, Tool] = {}
    for position, (_, item) in enumerate(_waiting(reply)):
        if field(item, "type") == "mcp_approval_request":
            tool, _ = stand_in(item)
            if tool is not None:
                stand_ins[position] = tool
    return provider_calls_in(_items(reply)), stand_ins


def write_messages(original: Any, results: Sequence[ResultLike], *, with_reply: bool) -> list[dict[str, Any]]:
    """Return one output item a result, after the reply's own items if asked for."""
    written = [item_param(item) for item in _items(original)] if with_reply else []
    if results:
        waiting, calls = _waiting(original), read_calls(original)
        ids = [call.id for call in calls]
        for (_, item), call, result in zip(waiting, calls, results, strict=True):
            if field(item, "type") == "mcp_approval_request":
                # The API knows a request by its id alone: of two with one id, neither can be approved.
                written.append(approval(call, result, only=ids.count(call.id) == 1))
            else:
                written.append(_answer(item, result))
    return [sendable(item) for item in written]


def write_conversation(messages: Iterable[MessageLike]) -> tuple[str | None, list[dict[str, Any]]]:
    """Return what ``instructions=`` (None without any) and ``input=`` of ``responses.create`` take.

    Raises:
        TypeError: A message or a block is none.
        ValueError: A result has no call before it.
    """
    system, parts = read_conversation(messages, format=NAME, longest_id=_LONGEST_ID, longest_name=_LONGEST_NAME)
    written: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, Said):
            written.append({"role": "user", "content": _said(part)})
        else:
            original = _spoken(part) if part.original is None else part.original
            written += write_messages(original, part.results, with_reply=True)
    return system, [sendable(item) for item in written]


def _spoken(part: Spoken) -> list[dict[str, Any]]:
    return [
        {"type": "message", "role": "assistant", "content": block}
        if isinstance(block, str)
        else {"type": "function_call", "call_id": block.id, "name": block.name, "arguments": block.args}
        for block in part.blocks
    ]


def _said(part: Said) -> str | list[dict[str, Any]]:
    first = part.blocks[0]
    if len(part.blocks) == 1 and isinstance(first, str):
        return first
    return [_text_part(block) if isinstance(block, str) else _image_part(block) for block in part.blocks]


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "input_text", "text": text}


def _image_part(image: EncodedImage) -> dict[str, Any]:
    return {"type": "input_image", "image_url": image.url, "detail": "auto"}


def tool_spec(tool: ToolLike) -> dict[str, Any]:
    """Return the tool as ``tools=`` of ``responses.create`` takes it.

    Raises:
        ValueError: The API does not take its name.
    """
    spec: dict[str, Any] = {
        "type": "function",
        "name": checked_tool_name(tool.name, provider="OpenAI", longest=_LONGEST_NAME),
    }
    if tool.description:
        spec["description"] = tool.description
    # Left out, strict means true here, unlike in Chat Completions: the API refuses schemas with optional arguments.
    return {**spec, "parameters": {"type": "object", **copy.deepcopy(tool.input_schema)}, "strict": False}


def _why_cut(reply: Any) -> str | None:
    """Return why the reply is not whole, None when it is, or raise when there is nothing to go by."""
    if isinstance(reply, list | tuple):
        return None
    status, error = field(reply, "status"), field(reply, "error")
    if status == "failed" or error:
        parts = [error] if isinstance(error, str) else [field(error, name) for name in ("code", "message")]
        told = ": ".join(str(part) for part in parts if part)
        shown = " ".join(told.split())[:200] or "no error was given"
        raise ValueError(fix_message(f"the response failed: {shown}", "ask the model again", _EXAMPLE))
    if isinstance(status, str) and status in _ENDED:
        problem, fix, example = _ENDED[status]
        raise ValueError(fix_message(f"{problem} (status: {status})", f"{fix}; nothing of it has run", example))
    details = field(reply, "incomplete_details")
    if status in (None, "completed") and not details:
        return None
    reason = field(details, "reason")
    return f"status: {status}" if reason is None else f"status: {status}, reason: {reason}"


def _items(reply: Any) -> Sequence[Any]:
    items = reply if isinstance(reply, list | tuple) else field(reply, "output")
    if not isinstance(items, list | tuple):
        raise TypeError(_not_sent("the output of the response is not a list", items))
    for position, item in enumerate(items):
        if not isinstance(field(item, "type"), str):
            raise TypeError(_not_sent(f"output[{position}] of the response is not an item", item))
    return items


def _waiting(reply: Any) -> list[tuple[str, Any]]:
    """Return the items that want an answer from the client, each with its place."""
    items = _items(reply)
    answers = [(field(item, "type"), _answered_id(item)) for item in items if field(item, "type") in _ANSWERS.values()]
    waiting = []
    for position, item in enumerate(items):
        kind, where = field(item, "type"), f"output[{position}]"
        if kind in _ANSWERS:
            if not ran_at_provider(item) and (_ANSWERS[kind], _answer_id(item)) not in answers:
                waiting.append((where, item))
        elif kind == "computer_call":
            raise ValueError(
                fix_message(
                    f"the reply has a computer_call at {where}, which only a screenshot can answer",
                    "ask without the computer tool; nothing of the reply has run",
                    _TOOLS,
                )
            )
        elif kind not in _NO_CALLS and _seems_to_wait(item):
            raise ValueError(
                fix_message(
                    f"the item at {where} is of type {kind!r}, which is not known here and may wait for an answer",
                    "ask without the tool that it comes from; nothing of the reply has run",
                    _TOOLS,
                )
            )
    return waiting


def _seems_to_wait(item: Any) -> bool:
    # What runs at the provider has an id only: a call_id is there to be answered by.
    kind = field(item, "type")
    if kind.endswith("_output") or kind in _ANSWERS.values():
        return False
    return bool(field(item, "call_id") is not None or kind.endswith("_request"))


def _answer_id(item: Any) -> Any:
    return field(item, "id" if field(item, "type") == "mcp_approval_request" else "call_id")


def _answered_id(item: Any) -> Any:
    names = {"mcp_approval_response": "approval_request_id", "local_shell_call_output": "id"}
    return field(item, names.get(field(item, "type"), "call_id"))


def _read_call(item: Any, where: str) -> ToolCall:
    kind, name = field(item, "type"), field(item, "name")
    args: Any = {}
    invalid: str | None
    if kind == "function_call":
        args, invalid = read_json(field(item, "arguments"))
        status = field(item, "status")
        if status not in (None, "completed"):
            invalid = f"the call was cut off (status: {status}): its arguments may be incomplete"
        namespace = field(item, "namespace")
        if namespace and namespace != name and isinstance(name, str) and name.strip():
            name = f"{namespace}.{name}"
    elif kind == "custom_tool_call":
        invalid = _CUSTOM
    elif kind == "mcp_approval_request":
        args, invalid = read_json(field(item, "arguments"))
        server = field(item, "server_label")
        if not isinstance(server, str) or not server.strip():
            raise TypeError(_not_sent(f"the approval request at {where} has no server_label", server))
        if isinstance(name, str) and name.strip():
            _, problem = stand_in(item)
            name, invalid = f"{server}__{name}", problem or invalid
    else:
        name, holder = _CLIENT_TOOLS[kind]
        given = field(item, holder)
        # A dict is not copied before its depth is known.
        args, _ = read_object(given if isinstance(given, Mapping) else as_plain(given))
        invalid = _NO_FUNCTION.format(name=name)
    return named_call(name, args, _answer_id(item), invalid, where=where, example=_EXAMPLE)


def _answer(item: Any, result: ResultLike) -> dict[str, Any]:
    kind = field(item, "type")
    answer: dict[str, Any] = {"type": _ANSWERS[kind]}
    if kind == "local_shell_call":
        return {**answer, "id": result.call.id, "output": json.dumps(sendable(error_text(result)))}
    answer["call_id"] = result.call.id
    if kind == "tool_search_call":
        return {**answer, "execution": "client", "tools": []}
    if kind == "shell_call":
        outcome = {"type": "exit", "exit_code": 1}
        answer["output"] = [{"stdout": "", "stderr": plain_text(result), "outcome": outcome}]
    elif kind == "apply_patch_call":
        answer.update(status="failed", output=plain_text(result))
    elif kind == "function_call":
        answer["output"] = _output(result)
    else:
        answer["output"] = error_text(result)
    caller = field(item, "caller")
    if field(caller, "type") == "program":
        answer["caller"] = as_plain(caller)
    return answer


def _output(result: ResultLike) -> str | list[dict[str, Any]]:
    images, lines = images_of(result)
    text = as_error("\n".join([text for text in (own_text(result), *lines) if text]), result)
    if not images:
        return text
    return [*([_text_part(text)] if text.strip() else []), *map(_image_part, images)]


def _not_sent(problem: str, value: object) -> str:
    return fix_message(f"{problem} (got: {type(value).__name__})", "give the reply as the API sent it", _EXAMPLE)
