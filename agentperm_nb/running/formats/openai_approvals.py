"""Requests for approval of OpenAI's Responses API: the tool that stands in for the one that asks, and the answer."""

from __future__ import annotations

from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.running.formats.fields import field, sendable
from agentperm_nb.running.formats.hosted import HostedTool, is_consent, refusal_reason
from agentperm_nb.running.formats.reply import ResultLike

__all__ = ["approval", "stand_in"]

_UNSENDABLE = "this request for approval holds half a surrogate pair, so it cannot be sent back as it came"


def stand_in(item: Any) -> tuple[HostedTool | None, str | None]:
    """Return the tool that stands in for the one that asks, or why nothing can be decided about it."""
    server, name = field(item, "server_label"), field(item, "name")
    told = (server, name, field(item, "id"), field(item, "arguments"))
    if any(isinstance(text, str) and sendable(text) != text for text in told):
        return None, _UNSENDABLE
    try:
        return HostedTool(server, name), None
    except ValueError as error:
        return None, f"the approval is refused: {str(error).splitlines()[0]}"


def approval(call: ToolCall, result: ResultLike, *, only: bool) -> dict[str, Any]:
    """Return the answer to a request.

    Args:
        call: The request, as it is read.
        result: What became of it.
        only: Whether no other request of the reply has its id.
    """
    answer = {"type": "mcp_approval_response", "approval_request_id": call.id}
    if only and is_consent(call, result):
        return {**answer, "approve": True}
    return {**answer, "approve": False, "reason": refusal_reason(result)}
