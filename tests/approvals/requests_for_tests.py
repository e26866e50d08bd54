"""Requests as the engine makes them, for the tests of the desk and of what restores an edit."""

from __future__ import annotations

from typing import Any

from agentperm_nb.approvals.patience import Patience
from agentperm_nb.approvals.requests import ApprovalRequest
from agentperm_nb.calls import ToolCall
from agentperm_nb.redaction import Redactor
from agentperm_nb.tools import Tool


def request_of(
    args: dict[str, Any],
    *,
    id: str = "request_1",
    secret: tuple[str, ...] = (),
    patience: Patience | None = None,
    in_turn: bool = False,
    **schema: Any,
) -> ApprovalRequest:
    """Return a request whose arguments are masked as the engine masks them."""
    tool = Tool("send", "", {"type": "object", **schema}, function=lambda **given: None, secret=secret)
    call = ToolCall("send", args)
    return ApprovalRequest(
        id=id, call=call, call_key="run_1/1/0", tool=tool, shown_args=Redactor().value(call.args, secret=tool.secret),
        question="Run send()?", rule="DecideByHuman()", reason="", hints=tool.hints, agent_path=("main",), user="ada",
        patience=patience, in_turn=in_turn,
    )  # fmt: skip
