"""Items of a response of OpenAI's as the next request takes them back, and those that tell of tools at the provider."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from agentperm_nb.running.formats.arguments import read_object
from agentperm_nb.running.formats.fields import as_plain, field
from agentperm_nb.running.formats.hosted import provider_call
from agentperm_nb.running.formats.reply import ProviderCall

__all__ = ["item_param", "provider_calls_in", "ran_at_provider"]

_REPLY_ONLY = frozenset({"created_by", "parsed_arguments", "arguments", "content"})
# Fields that a request must have, be it as null; an object leaves out what was not sent.
_REQUIRED = {"code_interpreter_call": ("code", "outputs"), "image_generation_call": ("result",)}
# Fields in which a null inside means that there is nothing, and which no request takes with it.
_SPARSE = {"file_search_call": "results", "web_search_call": "action"}

# What runs at the provider: the tool's name, and the fields of the item that say what was asked of it.
_HOSTED: dict[str, tuple[str, tuple[str, ...]]] = {
    "web_search_call": ("web_search", ("action",)),
    "file_search_call": ("file_search", ("queries",)),
    "code_interpreter_call": ("code_interpreter", ("code",)),
    "image_generation_call": ("image_generation", ("action", "revised_prompt")),
    "program": ("program", ("code",)),
    "shell_call": ("shell", ("action",)),
    "tool_search_call": ("tool_search", ("arguments",)),
    "mcp_call": ("mcp_call", ("arguments",)),
}
# Items whose one field holds the arguments by name.
_NAMED_ARGUMENTS = {"web_search_call", "shell_call", "tool_search_call", "mcp_call"}
_RESULTS = ("sources",)  # what a search found stands in its action


def ran_at_provider(item: Any) -> bool:
    """Return whether the item is the call of a tool that the provider runs itself."""
    kind = field(item, "type")
    if kind == "tool_search_call":
        return bool(field(item, "execution") == "server")
    if kind == "shell_call":
        return bool(field(field(item, "environment"), "type") == "container_reference")
    return kind in _HOSTED


def provider_calls_in(items: Sequence[Any]) -> tuple[ProviderCall, ...]:
    """Return the calls of tools that ran at the provider, in order."""
    return tuple(_provider_call(item, items) for item in items if ran_at_provider(item))


def _provider_call(item: Any, items: Sequence[Any]) -> ProviderCall:
    kind = field(item, "type")
    name, fields = _HOSTED[kind]
    if kind in _NAMED_ARGUMENTS:
        args = field(item, fields[0])
        if kind == "web_search_call":
            args = _asked(args)
    else:
        args = {key: field(item, key) for key in fields if field(item, key) is not None}
    return provider_call(
        field(item, "name") if kind == "mcp_call" else name,
        args,
        field(item, "id") or field(item, "call_id"),
        kind=name,
        server=field(item, "server_label") if kind == "mcp_call" else None,
        failed=_has_failed(item, items),
        approval_id=field(item, "approval_request_id") if kind == "mcp_call" else None,
    )


def _asked(action: Any) -> Any:
    """Return what a search was asked, without what it found."""
    try:
        plain = as_plain(action, leave_out=frozenset(_RESULTS))
    except (TypeError, ValueError, RecursionError):  # an object that its own package cannot dump
        return {}
    return {key: value for key, value in plain.items() if value is not None} if isinstance(plain, dict) else plain


def _has_failed(item: Any, items: Sequence[Any]) -> bool | None:
    kind, call_id = field(item, "type"), field(item, "call_id")
    if kind in ("shell_call", "program"):
        # The status of these says that the call was written to its end. What came of it is in another item.
        outputs = [other for other in items if field(other, "type") == f"{kind}_output"]
        answers = [other for other in outputs if call_id is not None and field(other, "call_id") == call_id]
        if len(answers) != 1:
            return None
        chunks = field(answers[0], "output")
        outcomes = [field(field(chunk, "outcome"), "type") for chunk in chunks] if isinstance(chunks, list) else []
        return True if "timeout" in outcomes else _told(field(answers[0], "status"))
    return True if field(item, "error") else _told(field(item, "status"))


def _told(status: object) -> bool | None:
    return {"failed": True, "completed": False}.get(status) if isinstance(status, str) else None


def item_param(item: Any) -> dict[str, Any]:
    """Return an item as a request takes it: without what only replies have, and without nulls."""
    kind = field(item, "type")
    plain = as_plain(item, leave_out=_REPLY_ONLY)
    param: dict[str, Any] = {key: value for key, value in plain.items() if value is not None}
    for name in _REQUIRED.get(kind, ()):
        param.setdefault(name, None)
    if kind in _SPARSE and _SPARSE[kind] in param:
        param[_SPARSE[kind]] = _without_nulls(param[_SPARSE[kind]])
    if kind == "shell_call_output":
        param["output"] = [_without(chunk, "created_by") for chunk in param.get("output", ())]
    content, arguments = field(item, "content"), field(item, "arguments")
    if content is not None:
        param["content"] = [_part_param(part) for part in content] if isinstance(content, list | tuple) else content
    if arguments is not None or kind == "function_call":
        param["arguments"] = _arguments_param(arguments, kind)
    return param


def _part_param(part: Any) -> Any:
    # A text that the client has parsed holds an object of the user's, which need not have a JSON form.
    plain = as_plain(part, leave_out=frozenset({"parsed"}))
    return _without(plain, "logprobs") if field(plain, "logprobs") is None else plain


def _arguments_param(arguments: Any, kind: str) -> Any:
    if isinstance(arguments, str):
        return arguments
    args, _ = read_object(arguments)
    return as_plain(args) if kind == "tool_search_call" else json.dumps(as_plain(args))


def _without(value: Any, name: str) -> Any:
    return {key: item for key, item in value.items() if key != name} if isinstance(value, dict) else value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
