"""Who answers, other than the panel and the prompt: a handler, a classic Human, nobody.

1. A handler is called once a request, all of a turn at the same time. What it returns that is not an answer, and what
   it raises, denies that request, with a warning. With a TimeoutError the request expires.
2. A classic Human is asked one request after the other, yes or no. "yes" allows; anything else denies and stops, and
   the rest is not asked. When one expires, the next is asked; a Human that still blocks is first left to come back, so
   that no answer is taken for one to another question.
3. Nobody denies at once, with the remedy.
4. Whoever is waited for when a request has left the desk is cancelled, or left alone on its thread; what it answers
   then is late.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal

from agentperm_nb.approvals.decisions import ApprovalDecision, as_decision
from agentperm_nb.approvals.desk import Answer, DeskChange, the_desk
from agentperm_nb.approvals.patience import Patience
from agentperm_nb.approvals.requests import ApprovalRequest, Approver
from agentperm_nb.approvals.waking import Bell, on_thread
from agentperm_nb.errors import ToolError, fix_message
from agentperm_nb.human import awaits, is_human, name_of
from agentperm_nb.permissions.builtin import DECLINED

__all__ = [
    "HandlerApprover",
    "HumanApprover",
    "NobodyApprover",
    "as_approver",
    "checked_handler",
    "handler_approver",
]

_YES_NO = Literal["yes", "no"]
_TICK = 0.05  # seconds between looks whether a Human has come back from a question that has expired
_HANDLER = """
async def handler(request):
    return request.call.name.startswith('draft_')

Agent(tools, approval_handler=handler)
"""


class HandlerApprover:
    """Puts each request to a function.

    Args:
        handler: ``handler(request)`` or ``handler(call, user_id)``, sync or async.
        timeout: Seconds after which a request is denied; see `Patience`.
        reminders: Seconds after which to remind of it.
        on_reminder: Called with the request then.

    Raises:
        TypeError: It cannot be called that way; or see `Patience`.
        ValueError: See `Patience`.
    """

    handler: Callable[..., Any]
    patience: Patience

    batch = False
    answered_by = "handler"

    def __init__(
        self,
        handler: Callable[..., Any],
        *,
        timeout: float | None = None,
        reminders: Iterable[float] | float = (),
        on_reminder: Callable[[ApprovalRequest], object] | None = None,
    ) -> None:
        self.handler, self._two = checked_handler(handler)
        self.patience = Patience(timeout, reminders, on_reminder)

    def __repr__(self) -> str:
        return _repr(self, getattr(self.handler, "__qualname__", type(self.handler).__name__))

    async def areview(self, requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, ApprovalDecision]]:
        """Yield what the handler returned; the engine denies what is not an answer."""
        for request in requests:
            args = (request.call, request.user) if self._two else (request,)
            if inspect.iscoroutinefunction(self.handler) or inspect.iscoroutinefunction(type(self.handler).__call__):
                answer = await self.handler(*args)
            else:
                answer = await on_thread(partial(self.handler, *args), partial(self._hand_over, request))
                if inspect.isawaitable(answer):
                    answer = await answer
            yield request.id, answer

    def _hand_over(self, request: ApprovalRequest, answer: object) -> None:
        """Give the desk an answer for which nobody waits any more: it is late."""
        decision = as_decision(answer)
        if decision is not None:
            name = decision.approver
            source = None if name is None else "handler"
            answered = Answer(decision, self.answered_by, approver=name, approver_from=source, via=repr(self))
            the_desk.answer(request.id, answered)
        elif inspect.iscoroutine(answer):
            answer.close()


def handler_approver(handler: object) -> Approver:
    """Return what was given as ``approval_handler=`` as an approver: a function, or an approver itself.

    Raises:
        TypeError: It is neither.
    """
    if isinstance(handler, Approver) and not isinstance(handler, type):
        return as_approver(handler)
    return HandlerApprover(handler)  # type: ignore[arg-type]  # it says what is wrong with it


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
    takes_one, takes_two = (_binds(signature, count) for count in (1, 2))
    if takes_one and takes_two:  # one of them has a default: what they are called tells which form is meant
        named = [*signature.parameters]
        return handler, named[0] in ("call", "tool_call") or named[1:2] in (["user_id"], ["user"])
    if takes_one or takes_two:
        return handler, takes_two
    raise TypeError(
        fix_message(
            f"approval_handler= takes a function of (request) or (call, user_id) (got: {signature})",
            "take one of the two forms",
            _HANDLER,
        )
    )


def _binds(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*[None] * count)
    except TypeError:
        return False
    return True


class HumanApprover:
    """Asks a classic Human: any object with ``ask`` or ``aask``.

    Args:
        human: Whom to ask.
        name: Who that is, for the log and where a second person is wanted; the Human's own ``name`` when left out, or
            else the person at this kernel.
        timeout: Seconds after which a request is denied, from when its turn has come; see `Patience`.
        reminders: Seconds after which to remind of it.
        on_reminder: Called with the request then.

    Raises:
        TypeError: `name` is no text, or blank; or see `Patience`.
        ValueError: See `Patience`.
    """

    human: Any
    name: str | None
    patience: Patience

    batch = True
    in_turn = True
    answered_by = "human"

    def __init__(
        self,
        human: Any,
        *,
        name: str | None = None,
        timeout: float | None = None,
        reminders: Iterable[float] | float = (),
        on_reminder: Callable[[ApprovalRequest], object] | None = None,
    ) -> None:
        if name is not None and not (isinstance(name, str) and name.strip()):
            example = "Agent(tools, human=HumanApprover(chat, name='ann'))"
            raise TypeError(
                fix_message(
                    f"name= takes the name of a person (got: {name!r})", "give a text, or leave it out", example
                )
            )
        self.human, self.name = human, name
        self.patience = Patience(timeout, reminders, on_reminder)
        self._left_alone: list[threading.Event] = []
        """Of questions that have expired while the Human blocks: set when it comes back."""

    def __repr__(self) -> str:
        named = f", name={self.name!r}" if self.name is not None else ""
        return _repr(self, f"{type(self.human).__name__}{named}")

    def answer_of(self, decision: ApprovalDecision) -> Answer:
        """Return a decision of the Human as an answer, with the name of whoever that is."""
        name, source = name_of(self.human, self.name)
        via = f"HumanApprover({type(self.human).__name__})"
        return Answer(decision, "human", approver=name, approver_from=source, via=via)

    async def areview(self, requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, ApprovalDecision]]:
        """Ask in request order; end after a refusal. A ToolError that the Human raises denies that one call.

        Answers go to the desk, which knows whether they are late; those to a request that is not there are yielded.
        """
        at_desk = {request.id for request in requests if the_desk.is_open(request.id)}
        with the_desk.taking_turns(requests):
            for request in requests:
                if request.id in at_desk and not the_desk.is_open(request.id):
                    continue  # it has left the desk meanwhile
                prompt = request.prompt or request.question
                try:
                    answer = await self._ask(request, prompt)
                except _LeftError:
                    continue
                except ToolError as error:
                    decision = ApprovalDecision("deny", reason=str(error))
                else:
                    _note(request, prompt, answer)
                    decision = _decision(answer)
                if request.id in at_desk:
                    the_desk.answer(request.id, self.answer_of(decision))
                else:
                    yield request.id, decision
                if decision.stop:
                    return

    async def _ask(self, request: ApprovalRequest, prompt: str) -> Any:
        """Return what the Human answers.

        Raises:
            _LeftError: The request has left the desk before.
            Exception: Whatever the Human raised.
        """
        over = threading.Event()
        if request.patience is None or not the_desk.is_open(request.id):
            return await self._answer(request, prompt, over)
        import anyio

        answers: list[Any] = []
        failure: BaseException | None = None
        left = Bell()
        unsubscribe = the_desk.subscribe(lambda change: left.ring() if _has_left(request, change) else None)
        try:
            async with anyio.create_task_group() as tasks:

                async def cancel_when_left() -> None:
                    await left.wait()
                    tasks.cancel_scope.cancel()

                if the_desk.is_open(request.id):
                    tasks.start_soon(cancel_when_left)
                    try:
                        answers.append(await self._answer(request, prompt, over))
                    except anyio.get_cancelled_exc_class():
                        raise
                    except BaseException as error:  # noqa: BLE001 - raised below, where no group is put around it
                        failure = error
                tasks.cancel_scope.cancel()
        finally:
            unsubscribe()
        if answers:
            return answers[0]
        if failure is not None and (the_desk.is_open(request.id) or not isinstance(failure, Exception)):
            raise failure
        if not awaits(self.human):
            self._left_alone.append(over)
        raise _LeftError from failure

    async def _answer(self, request: ApprovalRequest, prompt: str, over: threading.Event) -> Any:
        """Ask; `over` is set when a Human that blocks has come back."""
        if awaits(self.human):
            return await self.human.aask(request.state, prompt, _YES_NO)
        import anyio

        while self._left_alone:
            if self._left_alone[0].is_set():
                del self._left_alone[0]
            else:
                await anyio.sleep(_TICK)

        def ask() -> Any:
            try:
                return self.human.ask(request.state, prompt, _YES_NO)
            except StopIteration as error:  # a coroutine cannot raise it
                raise RuntimeError(f"{type(self.human).__name__} raised StopIteration") from error
            finally:
                over.set()

        return await on_thread(ask, partial(self._hand_over, request, prompt))

    def _hand_over(self, request: ApprovalRequest, prompt: str, answer: object) -> None:
        """Note an answer for which nobody waits any more."""
        _note(request, prompt, answer)
        the_desk.answer(request.id, self.answer_of(_decision(answer)))


class _LeftError(Exception):
    """The request has left the desk while it was asked about."""


def _has_left(request: ApprovalRequest, change: DeskChange) -> bool:
    return change.request_id == request.id and change.kind in ("answered", "withdrawn", "expired")


def _repr(approver: Any, whom: str) -> str:
    patience = approver.patience.shown()
    return f"{type(approver).__name__}({whom}{f', {patience}' if patience else ''})"


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
        TypeError: It is neither an approver nor a Human object, or its ``patience`` is no `Patience`.
    """
    if not isinstance(whom, type):
        if isinstance(whom, Approver):
            patience = getattr(whom, "patience", None)
            if not isinstance(patience, Patience | None):
                problem = f"the patience of {whom!r} is not a Patience (got: {patience!r})"
                raise TypeError(fix_message(problem, "make one", "approver.patience = Patience(timeout=300)"))
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
