"""The handler of a policy as an approver.

1. A handler is an object with ``handle(request)``, sync or async. It is given a `PermissionRequest` with a copy of the
   arguments, once a request, all of a turn at the same time.
2. It answers as any handler may (`approvals.decisions`): only an explicit allow allows. A PermissionError that it
   raises denies with its message; another exception denies, with a warning.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable
from typing import Any

from agentperm_nb.approvals.approvers import HandlerApprover
from agentperm_nb.approvals.decisions import ApprovalDecision
from agentperm_nb.approvals.requests import ApprovalRequest
from agentperm_nb.context import get_run_context
from agentperm_nb.json_values import thaw
from agentperm_nb.permissions.handler import checked_handler
from agentperm_nb.permissions.types import PermissionRequest

__all__ = ["PolicyHandlerApprover"]


class PolicyHandlerApprover(HandlerApprover):
    """Puts each request to the handler of a policy.

    Args:
        handler: A `PermissionHandler` or `AsyncPermissionHandler`: an object with ``handle(request)``.
        **options: The time limit and reminders of `HandlerApprover`.

    Raises:
        TypeError: It has no such method; or see `HandlerApprover`.
        ValueError: See `HandlerApprover`.
    """

    def __init__(self, handler: Any, **options: Any) -> None:
        self.policy_handler: Any = checked_handler("permission_handler=", handler)
        """The object with ``handle``."""
        handle = handler.handle
        awaited = inspect.iscoroutinefunction(handle) or inspect.iscoroutinefunction(type(handle).__call__)
        super().__init__(self._ahandle if awaited else self._handle, **options)

    def __repr__(self) -> str:
        return f"PolicyHandlerApprover({type(self.policy_handler).__name__})"

    async def _ahandle(self, request: ApprovalRequest) -> Any:
        return await _answer(self.policy_handler.handle(_permission_request(request)))

    def _handle(self, request: ApprovalRequest) -> Any:
        try:
            answer = self.policy_handler.handle(_permission_request(request))
        except PermissionError as error:
            return _refusal(error)
        return _answer(answer) if inspect.isawaitable(answer) else answer


async def _answer(awaited: Awaitable[Any]) -> Any:
    try:
        return await awaited
    except PermissionError as error:
        return _refusal(error)


def _refusal(error: PermissionError) -> ApprovalDecision:
    return ApprovalDecision("deny", reason=str(error).strip() or None)


def _permission_request(request: ApprovalRequest) -> PermissionRequest:
    rule, context = request.policy_rule, get_run_context()
    return PermissionRequest(
        request.call.name,
        thaw(request.call.args),
        rule.reason if rule is not None else "",
        rule.name if rule is not None else "",
        request.tool.metadata,
        call_key=request.call_key,
        call_id=request.call.id,
        run_id=context.run_id if context is not None else "",
        session_id=context.session_id if context is not None else "",
        user_id=request.user,
        agent_path=request.agent_path,
        asked_at=request.asked_at,
        secret=request.tool.secret,
    )
