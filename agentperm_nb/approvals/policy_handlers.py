"""The handler of a policy as an approver.

1. A handler is an object with ``handle(request)``, sync or async. It is given a `PermissionRequest` with a copy of the
   arguments, once a request, all of a turn at the same time.
2. It answers as any handler may (`approvals.decisions`): only an explicit allow allows. A PermissionError that it
   raises denies with its message; with a TimeoutError the request expires; another exception denies, with a warning.
   So does one of the two with an error number: it comes from the operating system, and not from a reviewer.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from agentperm_nb.approvals.approvers import HandlerApprover, as_approver
from agentperm_nb.approvals.decisions import ApprovalDecision
from agentperm_nb.approvals.requests import ApprovalRequest
from agentperm_nb.context import get_run_context
from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import thaw
from agentperm_nb.permissions.handler import AsyncPermissionHandler, PermissionHandler, checked_handler
from agentperm_nb.permissions.types import PermissionRequest

__all__ = ["PolicyHandlerApprover", "policy_approver"]

_EXAMPLE = "Agent(tools, permissions=policy, permission_handler=PolicyHandlerApprover(handler, timeout=300))"


class PolicyHandlerApprover(HandlerApprover):
    """Puts each request to the handler of a policy, with a time limit and reminders.

    Give it in place of the handler: as ``handle`` has it, it is one, too.

    Args:
        handler: A `PermissionHandler` or `AsyncPermissionHandler`: an object with ``handle(request)``.
        timeout: Seconds after which a request is denied; see `Patience`.
        reminders: Seconds after which to remind of it.
        on_reminder: Called with the `ApprovalRequest` then.

    Raises:
        TypeError: It has no such method, or is a `PolicyHandlerApprover` already; or see `Patience`.
        ValueError: See `Patience`.
    """

    def __init__(
        self,
        handler: PermissionHandler | AsyncPermissionHandler,
        *,
        timeout: float | None = None,
        reminders: Iterable[float] | float = (),
        on_reminder: Callable[[ApprovalRequest], object] | None = None,
    ) -> None:
        if issubclass(type(handler), PolicyHandlerApprover):
            problem = f"{handler!r} in a PolicyHandlerApprover is one already, and one of them has to keep the time"
            raise TypeError(fix_message(problem, "give the limits to one of them", _EXAMPLE))
        self.policy_handler: Any = checked_handler("PolicyHandlerApprover", handler)
        """The object with ``handle``."""
        handle: Any = handler.handle
        awaited = inspect.iscoroutinefunction(handle) or inspect.iscoroutinefunction(type(handle).__call__)
        asked = self._ahandle if awaited else self._handle
        super().__init__(asked, timeout=timeout, reminders=reminders, on_reminder=on_reminder)

    def __repr__(self) -> str:
        limits = self.patience.shown()
        return f"PolicyHandlerApprover({type(self.policy_handler).__name__}{f', {limits}' if limits else ''})"

    def handle(self, request: PermissionRequest, /) -> object:
        """Pass a request on to the handler, and return what that returns. An agent keeps the time, and not this."""
        answer: object = self.policy_handler.handle(request)
        return answer

    async def _ahandle(self, request: ApprovalRequest) -> Any:
        return await _answer(self.policy_handler.handle(_permission_request(request)))

    def _handle(self, request: ApprovalRequest) -> Any:
        try:
            answer = self.policy_handler.handle(_permission_request(request))
        except PermissionError as error:
            if error.errno is not None:
                raise
            return _refusal(error)
        return _answer(answer) if inspect.isawaitable(answer) else answer


async def _answer(awaited: Awaitable[Any]) -> Any:
    try:
        return await awaited
    except PermissionError as error:
        if error.errno is not None:
            raise
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


def policy_approver(owner: str, handler: object) -> PolicyHandlerApprover:
    """Return what was given as the handler of policies as an approver, which it may be already.

    Args:
        owner: What takes it, for the error: ``permission_handler=``.
        handler: The handler.

    Raises:
        TypeError: It has no method ``handle`` that takes a request.
    """
    if issubclass(type(handler), PolicyHandlerApprover):  # its real type: a mock with a spec only claims to be one
        given: Any = as_approver(handler)
        made: PolicyHandlerApprover = given
        return made
    return PolicyHandlerApprover(checked_handler(owner, handler))
