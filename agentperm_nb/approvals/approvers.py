"""Who answers, other than the panel and the prompt: a handler, a classic Human, nobody.

1. A handler is called once a request, all of a turn at the same time. What it returns that is not an answer, and what
   it raises, denies that request, with a warning.
2. A classic Human is asked one request after the other, yes or no. "yes" allows; anything else denies and stops, and
   the rest is not asked.
3. Nobody denies at once, with the remedy.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, Literal

from agentperm_nb.approvals.decisions import ApprovalDecision
from agentperm_nb.approvals.desk import Answer, the_desk
from agentperm_nb.approvals.requests import ApprovalRequest, Approver
from agentperm_nb.context import who
from agentperm_nb.errors import ToolError, fix_message
from agentperm_nb.human import ask_on_worker, awaits, is_human
from agentperm_nb.permissions.builtin import DECLINED

__all__ = ["HandlerApprover", "HumanApprover", "NobodyApprover", "as_approver", "checked_handler"]

_YES_NO = Literal["yes", "no"]
_HANDLER = """
async def handler(request):
    return request.call.name.startswith('draft_')

Agent(tools, approval_handler=handler)
"""


class HandlerApprover:
    """Puts each request to a function.

    Args:
        handler: ``handler(request)`` or ``handler(call, user_id)``, sync or async.

    Raises:
        TypeError: It cannot be called that way.
    """

    handler: Callable[..., Any]

    batch = False
    answered_by = "handler"

    def __init__(self, handler: Callable[..., Any]) -> None:
        self.handler, self._two = checked_handler(handler)

    def __repr__(self) -> str:
        return f"HandlerApprover({getattr(self.handler, '__qualname__', type(self.handler).__name__)})"

    async def areview(self, requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, ApprovalDecision]]:
        """Yield what the handler returned; the engine denies what is not an answer."""
        import anyio.to_thread

        for request in requests:
            args = (request.call, request.user) if self._two else (request,)
            if inspect.iscoroutinefunction(self.handler) or inspect.iscoroutinefunction(type(self.handler).__call__):
                answer = await self.handler(*args)
            else:
                # In a list: trio refuses a coroutine as a result.
                (answer,) = await anyio.to_thread.run_sync(
                    lambda given: [self.handler(*given)], args, abandon_on_cancel=True
                )
                if inspect.isawaitable(answer):
                    answer = await answer
            yield request.id, answer


def checked_handler(handler: object) -> tuple[Callable[..., Any], bool]:
    """Return the handler and whether it takes (call, user_id) rather than (request).

    Raises:
        TypeError: It is not a function of one or two arguments.
    """
    if isinstance(handler, type) or not callable(handler):
        raise TypeError(
            fix_message(f"approval_handler= takes a function (got: {handler!r})", "give the function itself", _HANDLER)
        )
    try:
        signature = inspect.signature(handler)
    except ValueError:  # a built-in that does not tell
        return handler, False
    for values in ((None,), (None, None)):
        try:
            signature.bind(*values)
        except TypeError:
            continue
        return handler, len(values) == 2
    raise TypeError(
        fix_message(
            f"approval_handler= takes a function of (request) or (call, user_id) (got: {signature})",
            "take one of the two forms",
            _HANDLER,
        )
    )


class HumanApprover:
    """Asks a classic Human: any object with ``ask`` or ``aask``."""

    batch = True
    answered_by = "human"

    def __init__(self, human: Any) -> None:
        self.human = human

    def __repr__(self) -> str:
        return f"HumanApprover({type(self.human).__name__})"

    async def areview(self, requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, ApprovalDecision]]:
        """Ask in request order; end after a refusal. A ToolError that the Human raises denies that one call.

        Answers go to the desk, which knows whether they are late; those to a request that is not there are yielded.
        """
        at_desk = {request.id for request in requests if the_desk.is_open(request.id)}
        for request in requests:
            if request.id in at_desk and not the_desk.is_open(request.id):
                continue  # it has left the desk meanwhile
            prompt = request.prompt or request.question
            try:
                if awaits(self.human):
                    answer = await self.human.aask(request.state, prompt, _YES_NO)
                else:
                    late = partial(_hand_over, self.human, request, prompt)
                    answer = await ask_on_worker(self.human, request.state, prompt, _YES_NO, late)
            except ToolError as error:
                decision = ApprovalDecision("deny", reason=str(error))
            else:
                _note(request, prompt, answer)
                decision = _decision(answer)
            if request.id in at_desk:
                the_desk.answer(request.id, _answer(self.human, decision))
            else:
                yield request.id, decision
            if decision.stop:
                return


def _hand_over(human: Any, request: ApprovalRequest, prompt: str, answer: object) -> None:
    """Note an answer for which nobody waits any more."""
    _note(request, prompt, answer)
    the_desk.answer(request.id, _answer(human, _decision(answer)))


def _answer(human: Any, decision: ApprovalDecision) -> Answer:
    name, source = who()
    via = f"HumanApprover({type(human).__name__})"
    return Answer(decision, "human", approver=name, approver_from=source, via=via)


def _note(request: ApprovalRequest, prompt: str, answer: object) -> None:
    record = getattr(request.state, "record_exchange", None)
    if callable(record):
        record(prompt, answer, call_key=request.call_key)


def _decision(answer: object) -> ApprovalDecision:
    """Return what an answer means: only the text "yes" allows."""
    if type(answer) is str and answer == "yes":
        return ApprovalDecision("allow")
    return ApprovalDecision("deny", reason=DECLINED, stop=True)


class NobodyApprover:
    """Denies at once: nobody can answer here.

    Args:
        reason: Why, and what to do about it.
    """

    batch = True
    answered_by = "nobody"

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __repr__(self) -> str:
        return "NobodyApprover()"

    async def areview(self, requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, ApprovalDecision]]:
        """Deny each request."""
        for request in requests:
            yield request.id, ApprovalDecision("deny", reason=self.reason)


def as_approver(whom: object) -> Approver:
    """Return whoever is given as the approver that it is, or that asks it.

    Raises:
        TypeError: It is neither an approver nor a Human object.
    """
    if not isinstance(whom, type):
        if isinstance(whom, Approver):
            return whom
        if is_human(whom):
            return HumanApprover(whom)
    raise TypeError(
        fix_message(
            f"{whom!r} is not a Human object",
            "give an object with ask(state, prompt, returns) or aask, or None for nobody",
            "Agent(tools, human=NotebookHuman())",
        )
    )
