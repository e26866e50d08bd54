"""The handler of a policy as an approver.

1. A handler is an object with ``handle(request)``, sync or async. It is given a `PermissionRequest` with a copy of the
   arguments, once a request, all of a turn at the same time.
2. It answers as any handler may (`approvals.decisions`): only an explicit allow allows. A PermissionError that it
   raises denies with its message; another exception denies, with a warning.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Sequence
from typing import Any

from agentperm_nb.approvals.decisions import ApprovalDecision
from agentperm_nb.approvals.requests import ApprovalRequest
from agentperm_nb.context import get_run_context
from agentperm_nb.json_values import thaw
from agentperm_nb.permissions.handler import checked_handler
from agentperm_nb.permissions.types import PermissionRequest

__all__ = ["PolicyHandlerApprover"]


class PolicyHandlerApprover:
    """Puts each request to the handler of a policy.

    Args:
        handler: A `PermissionHandler` or `AsyncPermissionHandler`: an object with ``handle(request)``.

    Raises:
        TypeError: It has no such method.
    """

    batch: bool = False
    answered_by: str = "handler"

    def __init__(self, handler: Any) -> None:
        self.handler: Any = checked_handler("permission_handler=", handler)

    def __repr__(self) -> str:
        return f"PolicyHandlerApprover({type(self.handler).__name__})"

    async def areview(self, requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, ApprovalDecision]]:
        """Yield what the handler returned; the engine denies what is not an answer."""
        import anyio.to_thread

        for request in requests:
            handle, asked = self.handler.handle, _permission_request(request)
            try:
                if inspect.iscoroutinefunction(handle) or inspect.iscoroutinefunction(type(handle).__call__):
                    answer = await handle(asked)
                else:
                    # In a list: trio refuses a coroutine as a result.
                    (answer,) = await anyio.to_thread.run_sync(_in_a_list, handle, asked, abandon_on_cancel=True)
                    if inspect.isawaitable(answer):
                        answer = await answer
            except PermissionError as error:
                answer = ApprovalDecision("deny", reason=str(error).strip() or None)
            yield request.id, answer


def _in_a_list(handle: Any, asked: PermissionRequest) -> list[Any]:
    return [handle(asked)]


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
