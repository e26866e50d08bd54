"""The part of a turn in which people are asked.

1. A remembered answer is used first. The other requests are put on the desk, and to their approvers, together.
2. Nothing of the turn runs until every request is answered, withdrawn or expired.
3. What an approver gives that is not an answer denies that request, with a warning; so does one that raises, or ends
   without having answered. A TimeoutError says that nobody answered in time: the request expires. What a classic Human
   raises goes to the caller, and nothing runs.
4. An edit is a new call to decide: schema, then the whole order. A denial stands, whoever says it; an ``Ask`` is
   answered by the edit, if it is put to whoever made the edit, and else denied; nobody decides means denied.
   An approver answers the requests that it was given and no others.
5. When an answer is remembered, the requests that wait at that moment are looked up again, those of other turns of
   the agent too.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Any

from agentperm_nb.approvals.approvers import HumanApprover
from agentperm_nb.approvals.decisions import ApprovalDecision, Scope, as_decision
from agentperm_nb.approvals.desk import Answer, DeskChange
from agentperm_nb.approvals.patience import Patience, bounded, patience_of
from agentperm_nb.approvals.requests import ApprovalRequest, Approver
from agentperm_nb.calls import ToolCall
from agentperm_nb.context import RunContext, new_id, who
from agentperm_nb.errors import ToolError, warn_user
from agentperm_nb.hints import Hints
from agentperm_nb.json_values import digest, same_json
from agentperm_nb.permissions.builtin import DECLINED, DecideByHuman
from agentperm_nb.permissions.kinds import AskFirst
from agentperm_nb.permissions.second_person import second_person_problem
from agentperm_nb.permissions.steps import marked
from agentperm_nb.permissions.verdicts import Denied
from agentperm_nb.render import flags, visible
from agentperm_nb.running.effects import AnswerKept, Effect, Review, ReviewAnswer, ReviewEnded, ReviewsOver, Wait
from agentperm_nb.running.engine import Engine
from agentperm_nb.running.items import CallItem
from agentperm_nb.running.ledger import Ledger
from agentperm_nb.running.nesting import asks_for
from agentperm_nb.running.recalling import answer_of, keep, recall, whom_to_ask
from agentperm_nb.running.recording import describe_error
from agentperm_nb.tools import Tool

__all__ = ["ask_people"]

_DECLINED_ONE = "The user declined this call."
_LONGEST = 200  # characters of a foreign text in a warning
_EXPIRED = "Nobody answered in time, so this call was not run."


def ask_people(turn: Ledger) -> Generator[Effect, Any, None]:
    """Put the calls that are asked about to their approvers, and act on the answers."""
    waiting = [item for item in turn.items if item.result is None and not item.may_run]
    if waiting:
        yield from _Asking(turn, waiting).steps()


class _Asking:
    def __init__(self, turn: Ledger, waiting: list[CallItem]) -> None:
        self.turn, self.engine, self.recorder = turn, turn.engine, turn.recorder
        self.waiting = waiting
        self.open: dict[str, CallItem] = {}
        self.given: dict[str, Approver] = {}
        """Which approver each request was given to."""

    def steps(self) -> Generator[Effect, Any, None]:
        # Before anything is looked up: what is remembered from here on is told.
        unsubscribe = self.engine.memory.subscribe(partial(self.turn.post, AnswerKept()))
        try:
            yield from self._ask()
        finally:
            unsubscribe()

    def _ask(self) -> Generator[Effect, Any, None]:
        desk, meter = self.engine.desk, self.turn.meter
        groups: dict[int, tuple[Approver, list[ApprovalRequest]]] = {}
        for item in self.waiting:
            if self.turn.stopped is not None:
                return
            refusal = None if meter is None else meter.call_left()
            if refusal is not None:  # nobody is asked about a call that could not run
                self.turn.refuse_over_budget(item, refusal)
                continue
            approver = item.answered_for = whom_to_ask(self.turn, item)
            remembered = recall(self.turn, item, approver)
            if remembered is not None:
                yield from self._answered(item, answer_of(remembered))
                continue
            refusal = None if meter is None or approver.answered_by == "nobody" else meter.ask()
            if refusal is not None:
                self.turn.refuse_over_budget(item, refusal)
                continue
            request = item.request = self._request(item, approver)
            self.recorder.hold("asked", item, rule=item.rule, reason=request.reason)
            groups.setdefault(id(approver), (approver, []))[1].append(request)
            self.open[request.id] = item
            self.given[request.id] = approver
            self.engine.watch(request.id, self._late(item))
        if self.turn.stopped is not None:
            self.recorder.write()
            return
        self.recorder.write()
        mine = frozenset(self.open)
        unsubscribe = desk.subscribe(lambda change: self.turn.post(change) if change.request_id in mine else None)
        self.turn.awaited = self.turn.awaited or bool(mine)
        if meter is not None:
            meter.begin_asking()
        try:
            desk.open(item.request for item in self.open.values() if item.request is not None)
            for approver, requests in groups.values():
                for batch in [requests] if approver.batch else [[request] for request in requests]:
                    yield Review(approver, tuple(batch), _all_left(desk, batch))
            while self.open and self.turn.stopped is None:
                yield from self._take((yield Wait()))
            self._withdraw("the turn was stopped")
            yield ReviewsOver()
        except BaseException as error:
            self._withdraw("interrupted" if not isinstance(error, Exception) else self.recorder.error(error))
            raise
        finally:
            unsubscribe()
            if meter is not None:
                meter.end_asking()
        self.recorder.write()

    def _request(self, item: CallItem, approver: Approver) -> ApprovalRequest:
        assert item.tool is not None
        said, permission = self.recorder.text(item.reason, item), item.request_permission
        worded = getattr(permission, "words_its_question", True)
        plain = isinstance(permission, DecideByHuman) and type(permission).question is DecideByHuman.question
        return ApprovalRequest(
            id=new_id("ask"),
            call=self._marked(item, item.tool),
            call_key=item.call_key,
            tool=item.tool,
            shown_args=item.shown_args,
            question=f"Run {item.call.name}?" if plain or not worded else said,
            prompt=said if worded else f"Run {visible(self.turn.masked_call(item))}? {said}",
            rule=item.rule,
            reason="no rule before it decided" if isinstance(permission, DecideByHuman) else said,
            hints=item.hints if item.hints is not None else Hints(),
            agent_path=self.turn.context.agent_path,
            user=self.turn.context.user_id,
            position=item.position,
            ran_before=self.engine.ran.get(item.digest),
            flags=tuple(flags([item.call.name, item.call.args])),
            state=self.turn.state,
            policy_rule=item.said.rule if item.said is not None else None,
            bypass=self.turn.permissions.bypasses(self.turn.context.user_id),
            session=self.turn.context.session_id,
            patience=self._patience(item, approver),
            in_turn=bool(getattr(approver, "in_turn", False)),
            permission=permission,
            context=self.turn.context,
            would_cover=partial(_would_cover, self.engine, self.turn.context, item.call),
        )

    def _patience(self, item: CallItem, approver: Approver) -> Patience | None:
        """Return how long a request waits: no longer than the policy files of whoever is asked, and of this agent."""
        permission, said = item.request_permission, item.said
        patience = patience_of(approver, permission)
        its_own = said is not None and said.step is not None and said.step.handler is not None
        if its_own or getattr(permission, "human", None) is not None:
            return patience
        asked = asks_for(permission, self.engine, self.turn.above, said)
        for limits in {id(engine): engine.patience for engine in (asked, self.engine)}.values():
            patience = bounded(patience, limits)
        return patience

    @staticmethod
    def _marked(item: CallItem, tool: Tool) -> ToolCall:
        try:
            return marked(item.call, tool)
        except Exception:  # noqa: BLE001 - hints of the user's may raise anything: then it counts as destructive
            return item.call.marked(True)

    # ------------------------------------------------------------------ messages

    def _take(self, message: object) -> Generator[Effect, Any, None]:
        match message:
            case DeskChange():
                yield from self._changed(message)
            case ReviewAnswer(approver, request_id, value):
                self._yielded(approver, request_id, value)
            case ReviewEnded(approver, requests, error):
                self._ended(approver, requests, error)
            case AnswerKept():
                self._look_again()
            case _:
                pass
        self.recorder.write()

    def _changed(self, change: DeskChange) -> Generator[Effect, Any, None]:
        item = self.open.get(change.request_id)
        if item is None:
            return
        if change.kind == "shown":
            self.recorder.hold("shown", item, where=change.detail)
        elif change.kind == "answered" and change.answer is not None:
            del self.open[change.request_id]
            yield from self._answered(item, change.answer)
        elif change.kind == "expired":
            del self.open[change.request_id]
            self.recorder.hold("expired", item, reason=change.detail)
            item.answer = Answer(ApprovalDecision("deny"), answered_by="timeout", given=False)
            item.decided_by, item.decided_kind = item.rule, "timeout"
            self.turn.deny(item, Denied(_EXPIRED))
        elif change.kind == "withdrawn":
            del self.open[change.request_id]
            self.recorder.hold("withdrawn", item, reason=change.detail)
            self.turn.cancel(item, f"(not run: {change.detail})")

    def _late(self, item: CallItem) -> Callable[[DeskChange], None]:
        def record(change: DeskChange) -> None:
            if change.answer is not None:
                self.recorder.at_once("late", item, change.answer, action=change.answer.action, why=change.detail)

        return record

    def _yielded(self, approver: Approver, request_id: object, value: object) -> None:
        if not isinstance(request_id, str) or self.given.get(request_id) is not approver:
            warn_user(
                f"{approver!r} answered a request that it was not given ({self._shown(_repr(request_id))}): ignored"
            )
            return
        decision, item = as_decision(value), self.open.get(request_id)
        warning = ""
        if decision is not None and decision.allows and approver.answered_by not in ("human", "handler"):
            by = self._shown(_repr(approver.answered_by))
            warning = f"{approver!r} allowed a call, and its answered_by is {by}: only 'human' and 'handler' may"
            decision = ApprovalDecision("deny", reason="Nobody who may allow this call has answered.")
        elif decision is None:
            decision = ApprovalDecision("deny", reason="The approver gave no valid answer, so this call was not run.")
            warning = (
                f"{approver!r} returned {self._shown(_repr(value), item)}, which is not an answer, so the call was "
                "denied. Return True, False or ApprovalDecision(...)"
            )
        self.engine.desk.answer(request_id, _from(approver, decision, given=not warning))
        if warning:
            warn_user(warning)

    def _ended(self, approver: Approver, requests: tuple[ApprovalRequest, ...], error: BaseException | None) -> None:
        left = [request for request in requests if self.engine.desk.is_open(request.id)]
        if not left:
            return
        if error is not None and not isinstance(error, Exception):
            raise error  # an interrupt in whoever answers interrupts the turn
        if not all(map(self.engine.desk.is_open, self.open)):
            # An answer has reached the desk, and comes behind this message: it may be the stop that explains the end.
            self.turn.post(ReviewEnded(approver, requests, error))
            return
        if isinstance(error, TimeoutError) and error.errno is None and not isinstance(approver, HumanApprover):
            for request in left:  # such as from wait_for_signal; one with a number is of the operating system
                why = str(error).strip() or f"{approver!r} raised TimeoutError"
                self.engine.desk.expire(request.id, self._shown(why, self.open.get(request.id)))
            return
        if isinstance(error, ToolError):
            reason, warn = str(error), ""
        elif error is not None:
            if isinstance(approver, HumanApprover):
                self._failed_at(left[0], error)  # asked in request order: the first that is left
                raise error
            reason = "Asking for approval failed, so this call was not run."
            said = self._shown(describe_error(error), *(self.open.get(request.id) for request in left))
            warn = f"{approver!r} raised {said}, so {_names(left)} denied"
        else:
            reason = "Nobody answered, so this call was not run."
            warn = f"{approver!r} ended without an answer, so {_names(left)} denied"
        for request in left:
            by = "nobody" if error is None else approver.answered_by
            denied = ApprovalDecision("deny", reason=reason)
            failed = error if isinstance(error, Exception) else None
            self.engine.desk.answer(
                request.id, Answer(denied, answered_by=by, via=repr(approver), given=False, error=failed)
            )
        if warn:
            warn_user(warn)

    def _failed_at(self, request: ApprovalRequest, error: Exception) -> None:
        """Note at which call a classic Human failed, as the permission would that had asked by itself."""
        item = self.open.get(request.id)
        if item is not None and item.tool is not None:
            self.turn.deciding = item
            call = self.engine.redactor.call(item.call, item.tool.secret)
            error.add_note(f"exception raised in permission {item.rule} checking {call}")

    def _shown(self, text: str, *items: CallItem | None) -> str:
        """Return a foreign text as a warning may hold it: masked, and not long."""
        for item in items or (None,):
            text = self.recorder.text(text, item)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"

    # ------------------------------------------------------------------ answers

    def _answered(self, item: CallItem, answer: Answer) -> Generator[Effect, Any, None]:
        decision = answer.decision
        if answer.answered_by == "handler" and answer.approver is None and decision.approver is not None:
            answer = replace(answer, approver=decision.approver, approver_from="handler")
        item.answer = answer
        item.decided_by = item.rule
        item.decided_kind = answer.answered_by if answer.answered_by in {"memory", "timeout", "nobody"} else "human"
        if decision.edited_args is not None and not same_json(decision.edited_args, item.call.args):
            item.edited = item.call.with_args(decision.edited_args)
        self.recorder.answered(item, answer)
        if item.request is not None and answer.answered_by == "human" and answer.given:
            approver = self.given.get(item.request.id)
            if not isinstance(approver, HumanApprover):  # which has noted the person's own words
                self.turn.state.record_exchange(item.request.prompt, decision.action, call_key=item.call_key)
        if decision.allows and answer.answered_by in ("nobody", "timeout"):
            self.turn.deny(item, Denied("Nobody who may allow this call has answered."))
        elif decision.allows:
            if item.edited is not None and not (yield from self._edit_may_run(item)):
                return
            problem = second_person_problem(item.request_permission, answer.approver, *self.turn.context.users)
            if problem is not None:
                self.turn.deny(item, Denied(problem))
                return
            item.asked, item.reason = True, decision.reason or ""
            self.turn.allow(item)
        else:
            default = DECLINED if decision.stop else _DECLINED_ONE
            self.turn.deny(item, Denied((decision.reason or "").strip() or default, stop=decision.stop))
        if decision.remembers and item.request is not None:
            keep(self.turn, item, answer, self.given[item.request.id])

    def _edit_may_run(self, item: CallItem) -> Generator[Effect, Any, bool]:
        assert item.tool is not None
        if item.position in self.turn.stand_ins:
            self.turn.refuse_input(item, "this call runs at the provider, which takes no other arguments than its own")
            return False
        try:
            digest(item.final.name, item.final.args)
        except (TypeError, ValueError, RecursionError) as error:
            self.turn.refuse_input(item, f"the reviewer's arguments are not JSON: {error}")
            return False
        problems = item.tool.check_args(item.final.args)
        if problems:
            text = "; ".join(f"{name}: {problem}" if name else problem for name, problem in problems)
            self.turn.refuse_input(item, f"the reviewer's arguments do not fit: {text}")
            return False
        again = yield from self.turn.decide_again(item)
        if isinstance(again.verdict, Denied):
            item.take(again)
            self.turn.deny(item, again.verdict)
            self.turn.warn_of(item, again)
            return False
        item.protected = item.protected or isinstance(again.permission, AskFirst)
        problem = self.turn.somebody_else_asks(item, again) or self.turn.second_person_missing(item, again)
        if problem is not None:
            item.decided_by = item.named(again)
            self.turn.deny(item, Denied(problem))
            return False
        return True

    def _look_again(self) -> None:
        """Answer what waits for an answer that is remembered by now."""
        self.turn.context.links.clear()
        for request_id, item in list(self.open.items()):
            remembered = recall(self.turn, item, self.given[request_id])
            if remembered is not None:
                self.engine.desk.answer(request_id, answer_of(remembered))

    def _withdraw(self, why: str) -> None:
        for request_id, item in list(self.open.items()):
            if self.engine.desk.withdraw(request_id, why):
                self.recorder.hold("withdrawn", item, reason=why)
            del self.open[request_id]


def _would_cover(engine: Engine, context: RunContext, call: ToolCall, scope: Scope, *, allow: bool = True) -> Any:
    from agentperm_nb.running.would_cover import would_cover

    return would_cover(engine, context, scope, call, allow=allow)


def _all_left(desk: Any, requests: list[ApprovalRequest]) -> Any:
    return lambda: not any(desk.is_open(request.id) for request in requests)


def _from(approver: Approver, decision: ApprovalDecision, *, given: bool) -> Answer:
    if isinstance(approver, HumanApprover) and given:
        return approver.answer_of(decision)
    name, source = who() if approver.answered_by == "human" and given else (None, None)
    return Answer(
        decision,
        answered_by=approver.answered_by if approver.answered_by in ("human", "nobody") else "handler",
        approver=name,
        approver_from=source,
        via=repr(approver),
        given=given,
    )


def _repr(value: object) -> str:
    try:
        return repr(value)
    except Exception:  # noqa: BLE001 - a foreign repr may do anything
        return f"a {type(value).__name__}"


def _names(requests: list[ApprovalRequest]) -> str:
    names = ", ".join(request.call.name for request in requests)
    return f"the call to {names} was" if len(requests) == 1 else f"the calls to {names} were"
