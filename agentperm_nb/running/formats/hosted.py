"""Tools that run at the provider: what is read of their calls, and the tool that stands in for one that asks first.

1. What has run is only told: reading it never fails, whatever a field holds.
2. A request for approval is a call of a `HostedTool`. It says nothing of itself, so it is taken for the worst.
3. Approved is only a call that a result says was allowed and done by that tool, with the arguments of the request. A
   result that says anything else, or nothing, refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import same_json
from agentperm_nb.running.formats.arguments import read_json
from agentperm_nb.running.formats.fields import as_plain
from agentperm_nb.running.formats.reply import ProviderCall, ResultLike
from agentperm_nb.running.formats.texts import plain_text
from agentperm_nb.tools import Tool

__all__ = ["RUN_TEXT", "HostedTool", "is_consent", "is_same_call", "provider_call", "refusal_reason"]

RUN_TEXT = "(approved: it runs at the provider)"
"""What a `HostedTool` returns."""

_EDITED = "a reviewer changed the arguments, which an approval cannot carry: the tool does not run"
_NOT_APPROVED = "the call was not approved: the tool does not run"
_EXAMPLE = "tools=[{'type': 'mcp', 'server_label': 'github', 'server_url': 'https://example.com/mcp'}]"


class HostedTool(Tool):
    """Stands in for a tool of an MCP server that the provider connects to. Running it is the approval, no more.

    Args:
        server: The server's label in the request: letters, digits, ``-``, and single ``_`` between them.
        remote_name: What the server calls the tool.

    Raises:
        ValueError: The label has other characters, or the name has spaces or is too long.
    """

    def __init__(self, server: str, remote_name: str) -> None:
        # As for servers that are connected here: otherwise a pattern for one server could mean another one's tools.
        if not re.fullmatch(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*", server):
            raise ValueError(
                fix_message(
                    f"{server!r} is no label by which the tools of one MCP server can be told from another's",
                    "use letters from A to Z, digits, '-', and single '_' between them",
                    _EXAMPLE,
                )
            )
        self._server = server
        self.remote_name = remote_name
        """What the server calls the tool."""
        super().__init__(
            f"{server}__{remote_name}",
            f"The tool {remote_name} of the MCP server {server}. It runs at the provider, which connects to the "
            "server, and gives the result to the model itself.",
            {"type": "object"},
        )

    @property
    def server(self) -> str:
        """The server's label."""
        return self._server

    def run(self, args: dict[str, Any]) -> str:
        """Return a note. What runs is the provider's tool, when the approval has been sent."""
        return RUN_TEXT


def is_consent(call: ToolCall, result: ResultLike) -> bool:
    """Return whether the result says that this very call was allowed and done, as the provider would run it."""
    outcome = getattr(result, "outcome", None)
    return (
        call.invalid is None
        and result.is_error is False
        and _is_word(getattr(result, "verdict", None), "allowed")
        and _is_word(getattr(outcome, "kind", None), "done")
        and getattr(result, "args_run", ...) is None
        and _is_word(getattr(result, "value", None), RUN_TEXT)  # another tool of that name is not what was asked about
        and is_same_call(call, result.call)
    )


def is_same_call(call: ToolCall, other: ToolCall) -> bool:
    """Return whether they are of one id, one name and one JSON as arguments."""
    return call.id == other.id and call.name == other.name and same_json(call.args, other.args)


def refusal_reason(result: ResultLike) -> str:
    """Return what the model is told of a request that was not approved."""
    text = plain_text(result)
    if text.strip() and RUN_TEXT not in text:
        return text
    return _NOT_APPROVED if getattr(result, "args_run", None) is None else _EDITED


def provider_call(
    name: object,
    args: Any,
    id: object,
    *,
    kind: str,
    server: object = None,
    failed: bool | None = None,
    approval_id: object = None,
) -> ProviderCall:
    """Return a call that has run at the provider.

    Args:
        name: The tool's name, as the reply gives it; `kind` stands in where there is none.
        args: A JSON text, an object, or an object of the provider's package.
        id: See `ProviderCall`; what is no string is left out. The same for `server` and `approval_id`.
        kind: Type of the block or item.
        server: See `ProviderCall`.
        failed: See `ProviderCall`.
        approval_id: See `ProviderCall`.
    """
    name, server = _text(name) or kind, _text(server)
    if not isinstance(args, str | Mapping):
        try:
            args = as_plain(args)
        except (TypeError, ValueError, RecursionError):  # an object that its own package cannot dump
            args = {}
    read, _ = read_json(args)
    full_name = name if server is None else f"{server}__{name}"
    return ProviderCall(full_name, read, _text(id) or "", server, failed, _text(approval_id))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value.strip() else None


def _is_word(value: object, word: str) -> bool:
    # Not by the value's own ==, which may say anything.
    return isinstance(value, str) and str.__eq__(value, word)
