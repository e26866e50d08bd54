"""What the providers' packages say about requests, checked twice; and replies as the APIs send them.

Pydantic ignores unknown keys of a TypedDict and reads an ``Iterable`` only when it is iterated. The APIs refuse what
they do not know, so `misfit` walks the same types and refuses it too.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import anthropic.types
import openai.types.chat
import openai.types.responses
import typing_extensions
from pydantic import BaseModel, TypeAdapter

from agentperm_nb.calls import ToolCall

ADAPTERS: dict[str, TypeAdapter[Any]] = {
    "anthropic": TypeAdapter(list[anthropic.types.MessageParam]),
    "openai-chat": TypeAdapter(list[openai.types.chat.ChatCompletionMessageParam]),
    "openai-responses": TypeAdapter(list[openai.types.responses.ResponseInputItemParam]),
    "anthropic tools": TypeAdapter(list[anthropic.types.ToolParam]),
    "openai-chat tools": TypeAdapter(list[openai.types.chat.ChatCompletionToolParam]),
    "openai-responses tools": TypeAdapter(list[openai.types.responses.FunctionToolParam]),
}
_ITEMS: dict[str, Any] = {
    "anthropic": anthropic.types.MessageParam,
    "openai-chat": openai.types.chat.ChatCompletionMessageParam,
    "openai-responses": openai.types.responses.ResponseInputItemParam,
    "anthropic tools": anthropic.types.ToolParam,
    "openai-chat tools": openai.types.chat.ChatCompletionToolParam,
    "openai-responses tools": openai.types.responses.FunctionToolParam,
}


@dataclass(frozen=True)
class Result:
    call: ToolCall
    content: Any = "done"
    is_error: bool = False


@dataclass(frozen=True)
class Picture:
    data: Any = b"\x89PNG"
    media_type: Any = "image/png"


@dataclass(frozen=True)
class Shown(Result):
    images: Any = (Picture(),)


@dataclass(frozen=True)
class Outcome:
    kind: Any = "done"


@dataclass(frozen=True)
class Decided(Result):
    """A result that says how the call was decided; left as it is, that it was allowed and done."""

    verdict: Any = "allowed"
    outcome: Any = Outcome()
    args_run: Any = None
    value: Any = "(approved: it runs at the provider)"


def check(kind: str, items: list[dict[str, Any]]) -> None:
    """Fail unless the API of this kind takes these messages or tools."""
    ADAPTERS[kind].dump_json(ADAPTERS[kind].validate_python(items), warnings=False)
    for position, item in enumerate(items):
        problem = misfit(item, _ITEMS[kind])
        assert problem is None, f"{kind}[{position}]{problem}\n{item}"


@cache
def _hints(typed_dict: Any) -> dict[str, Any]:
    return typing_extensions.get_type_hints(typed_dict, include_extras=False)


@cache
def _required(typed_dict: Any) -> list[str]:
    # Not __required_keys__: it does not see through annotations that are strings.
    hints = typing_extensions.get_type_hints(typed_dict, include_extras=True)
    return [name for name, hint in hints.items() if get_origin(hint) is typing_extensions.Required]


def misfit(value: Any, kind: Any) -> str | None:
    """Return where a JSON value does not fit a type of a request, None when it fits."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return misfit(value, args[0])
    if origin in {Union, types.UnionType}:
        problems = [misfit(value, arg) for arg in args]
        return None if None in problems else max((p for p in problems if p), key=_depth)
    if origin is Literal:
        return None if value in args else f": {value!r} is not one of {args}"
    if typing_extensions.is_typeddict(kind):
        return _misfit_dict(value, kind)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return None if isinstance(value, dict) else f": {value!r} is not an object"
    if (isinstance(origin, type) and issubclass(origin, Iterable)) or (origin is not None and args):
        if not isinstance(value, list):
            return f": {value!r} is not a list"
        found = [f"[{index}]{problem}" for index, item in enumerate(value) if (problem := misfit(item, args[0]))]
        return found[0] if found else None
    if kind in {Any, object}:
        return None
    if kind is None or kind is type(None):
        return None if value is None else f": {value!r} is not null"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return ": objects are for replies"
    if kind is float:
        return None if isinstance(value, int | float) else f": {value!r} is not a number"
    return None if type(value) is kind else f": {value!r} is not {kind}"


def _misfit_dict(value: Any, kind: Any) -> str | None:
    if not isinstance(value, dict):
        return f": {value!r} is not an object"
    hints = _hints(kind)
    for key in _required(kind):
        if key not in value:
            return f".{key}: is missing in {kind.__name__}"
    for key, item in value.items():
        if key not in hints:
            return f".{key}: is not known to {kind.__name__}"
        problem = misfit(item, hints[key])
        if problem:
            return f".{key}{problem}"
    return None


def _depth(problem: str) -> int:
    return problem.split(": ")[0].count(".")


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def use(name: Any = "add", input: Any = None, id: Any = "toolu_1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": id, "name": name, "input": {} if input is None else input, **more}


def message(*content: Any, stop_reason: Any = "tool_use", **more: Any) -> dict[str, Any]:
    """Return a reply of Anthropic's Messages API."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 3, "output_tokens": 5},
        **more,
    }


def function(name: Any = "add", arguments: Any = "{}", id: Any = "call_1", **more: Any) -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def completion(
    *calls: Any, content: Any = None, finish_reason: Any = "tool_calls", choices: Any = None, **more: Any
) -> dict[str, Any]:
    """Return a reply of OpenAI's Chat Completions API; `more` are fields of the message."""
    spoken: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None, "annotations": [], **more}
    if calls:
        spoken["tool_calls"] = list(calls)
    choice = {"index": 0, "finish_reason": finish_reason, "logprobs": None, "message": spoken}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "gpt",
        "choices": [choice] if choices is None else choices,
        "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8},
    }


def function_call(name: Any = "add", arguments: Any = "{}", id: Any = "call_1", **more: Any) -> dict[str, Any]:
    item = {"type": "function_call", "id": f"fc_{id}", "call_id": id, "name": name, "arguments": arguments}
    return {**item, "status": "completed", **more}


def said(words: str, **more: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": words, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part], **more}


def response(*output: Any, status: Any = "completed", **more: Any) -> dict[str, Any]:
    """Return a reply of OpenAI's Responses API."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1.0,
        "model": "gpt",
        "status": status,
        "error": None,
        "incomplete_details": None,
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        **more,
    }


def results(calls: Sequence[ToolCall]) -> list[Result]:
    return [Result(call) for call in calls]
