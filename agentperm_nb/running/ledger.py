"""The calls of the turn in hand: what has been decided about each, and its result.

1. A call gets one result: allowed and run, denied, cancelled, or an input error.
2. A denial with ``stop=True`` ends the turn as one step: this call denied, all others that have no result and have not
   started cancelled, approved ones too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.context import RunContext
from agentperm_nb.errors import warn_user
from agentperm_nb.json_values import call_text, digest
from agentperm_nb.permissions.deciding import Check, Decision, PermissionList, deciding, resume, resume_error, settle
from agentperm_nb.permissions.second_person import second_person_problem
from agentperm_nb.permissions.verdicts import Ask, Denied, Verdict
from agentperm_nb.redaction import Redactor
from agentperm_nb.results import Image
from agentperm_nb.running.effects import Effect, Message
from agentperm_nb.running.engine import Engine
from agentperm_nb.running.in_hand import TurnInHand
from agentperm_nb.running.items import CallItem
from agentperm_nb.running.messages import Message as ConversationMessage
from agentperm_nb.running.metering import Meter, stop_over_budget
from agentperm_nb.running.nesting import Level, asks_for, latest_lists
from agentperm_nb.running.outcomes import CallResult, ToolOutcome, ToolOutcomeKind, outcome_of
from agentperm_nb.running.recording import Recorder, describe_error
from agentperm_nb.running.reporter import Reporter, tell
from agentperm_nb.running.state import State
from agentperm_nb.tools import Tool

if TYPE_CHECKING:
    from agentperm_nb.running.accounts import Refusal
    from agentperm_nb.running.history import StoppedByBudget, StoppedByPermission

__all__ = ["INTERRUPTED", "STOPPED", "Ledger"]

STOPPED = "(not run: the user stopped this turn)"
INTERRUPTED = "(interrupted by user)"


class Ledger:
    """One turn of an agent.

    Args:
        engine: What the agent's turns share.
        context: The run that the turn belongs to.
        state: Its state.
        turn: Number of the turn in the run.
        calls: The calls, in request order.
        post: Puts a message into the driver's mailbox; may be called from any thread.
        permissions: The list that decides: the agent's own, below the denies of the runs above.
        above: The runs above.
        prepare: Called in the context in which a tool runs, before it does.
        stand_ins: The tools of calls that run at the provider, by position.
        message: The model's message that holds the calls, where the state does not have it yet.
        taken: What was taken from the state, for a turn with its pending calls.
        reporter: Who is told of starts and ends.
        meter: What the turn counts towards, where there is a budget.
        policy_id: What the log calls the agent's own list; that of `permissions` when left out.
    """

    context: RunContext
    engine: Engine
    post: Callable[[Message], None]
    state: State
    turn: int
    above: tuple[Level, ...]
    permissions: PermissionList
    prepare: Callable[[], None]
    message: ConversationMessage | None
    reporter: Reporter | None
    taken: TurnInHand | None

    def __init__(
        self,
        engine: Engine,
        context: RunContext,
        state: State,
        turn: int,
        calls: Iterable[ToolCall],
        post: Callable[[Message], None],
        *,
        permissions: PermissionList,
        above: tuple[Level, ...],
        prepare: Callable[[], None],
        stand_ins: Mapping[int, Tool] | None = None,
        message: ConversationMessage | None = None,
        taken: TurnInHand | None = None,
        reporter: Reporter | None = None,
        meter: Meter | None = None,
        policy_id: str | None = None,
    ) -> None:
        self.meter: Meter | None = meter
        self.engine, self.context, self.state, self.turn, self.post = engine, context, state, turn, post
        self.permissions, self.above, self.prepare = permissions, above, prepare
        self.recorder: Recorder = Recorder(
            engine.store, engine.redactor, policy_id or permissions.policy_id, context, turn, engine.changes
        )
        self.stand_ins: Mapping[int, Tool] = stand_ins or {}
        self.message, self.taken, self.reporter = message, taken, reporter
        self._untold: list[CallItem] = []
        stem, redactor = f"{context.run_id}/{turn}/", engine.redactor
        self.items: list[CallItem] = [
            CallItem(call, f"{stem}{position}", position, self.tool_of(position, call.name), redactor)
            for position, call in enumerate(calls)
        ]
        self.in_hand: TurnInHand | None = None
        """The turn as the state knows it, once it has begun."""
        self._bound: tuple[tuple[PermissionList, ...], PermissionList] | None = None
        self.stopped: StoppedByPermission | StoppedByBudget | None = None
        self.awaited: bool = False
        """Whether an answer has been awaited in this turn."""
        self.deciding: CallItem | None = None
        self.ended = False
        """Whether the turn has been given up while calls may still run."""
        self.ending: threading.Lock = threading.Lock()

    def tool_of(self, position: int, name: str) -> Tool | None:
        """Return the tool of a call as it is now: what stands in for one of the provider's, or one of the agent's."""
        return self.stand_ins.get(position) or self.engine.tools.get(name)

    # ------------------------------------------------------------------ asking the permissions

    def decide_again(self, item: CallItem) -> Generator[Effect, Any, Decision]:
        """Ask the whole order about the call as it would run, without asking a person."""
        assert item.tool is not None
        self.context.links.clear()  # a link may lead elsewhere by now
        self.deciding = item
        generator = deciding(self._latest(), self.state, item.final, item.tool)
        current = settle(generator)
        while True:
            current = yield from self.until_a_person(generator, current)
            if isinstance(current, Decision):
                self.deciding = None
                return current
            # Of an edited call nobody has asked it: what it had no opinion of was another call.
            no_opinion = item.edited is None and any(permission is current.permission for permission in item.passed)
            current = resume(generator, None if no_opinion else Ask("a person has been asked"))

    def _latest(self) -> PermissionList:
        """Return the list that the turn began with, and what the agents at work deny by now."""
        lists = (*latest_lists(self.above), self.engine.latest())
        if self._bound is None or any(one is not other for one, other in zip(lists, self._bound[0], strict=True)):
            self._bound = (lists, self.permissions.bound_by(lists))
        return self._bound[1]

    def second_person_missing(self, item: CallItem, decision: Decision) -> str | None:
        """Return why an answer that was given does not do for whoever asks now; None where it does."""
        asking, answer = decision.permission, item.answer
        if not isinstance(decision.verdict, Ask) or getattr(asking, "asks_by_itself", False):
            return None  # what asks by itself has looked at its answer
        return second_person_problem(asking, None if answer is None else answer.approver, *self.context.users)

    def somebody_else_asks(self, item: CallItem, decision: Decision) -> str | None:
        """Return why the answer that was given does not do: somebody else would be asked now; None where it does."""
        if not isinstance(decision.verdict, Ask) or decision.permission is item.answered_for:
            return None
        permission = decision.permission
        if not getattr(permission, "asks_by_itself", False):
            asked = asks_for(permission, self.engine, self.above, decision.said)
            if asked.approver_for(permission, decision.said) is item.answered_for:
                return None
        return (
            f"Now {decision.decided_by} has to be asked, whose questions go to somebody else. It was not run. "
            "Call it again with these arguments."
        )

    def until_a_person(
        self, generator: Generator[Check, Verdict | None, Decision], current: Decision | Check
    ) -> Generator[Effect, Any, Decision | Check]:
        """Go on until there is a decision, or a permission whose asking puts a question to a person."""
        while isinstance(current, Check) and not current.asks_person:
            current = yield from self.performed(generator, current)
        return current

    @staticmethod
    def performed(
        generator: Generator[Check, Verdict | None, Decision], check: Check
    ) -> Generator[Effect, Any, Decision | Check]:
        """Let the driver ask a permission, and go on with what it said."""
        try:
            verdict = yield check
        except Exception as error:  # noqa: BLE001 - thrown into the generator, which knows what it means
            return resume_error(generator, error)
        return resume(generator, verdict)

    # ------------------------------------------------------------------ results

    def allow(self, item: CallItem) -> None:
        """Let a call run, once all of the turn are decided."""
        item.may_run = True
        item.finished_before = self.engine.finished
        # Of the call as it came in, not as it is now: what was shown to a person is what may run.
        item.decided_digest = item.digest if item.edited is None else digest(item.final.name, item.final.args)
        self.recorder.decided(item, "allowed", reason=item.reason if item.asked else "")

    def deny(self, item: CallItem, verdict: Denied) -> None:
        """Refuse a call; with ``stop``, end the turn."""
        self._deny(item, verdict)
        self.report()

    def _deny(self, item: CallItem, verdict: Denied) -> None:
        item.may_run, item.reason = False, verdict.reason
        self.recorder.decided(item, "denied", reason=verdict.reason, stop=verdict.stop)
        if verdict.stop:
            self._deny_and_stop(item)
        else:
            self.close(item, ToolOutcomeKind.DENIED, verdict.reason, "denied", error=item.error)

    def _deny_and_stop(self, item: CallItem) -> None:
        from agentperm_nb.running.history import StoppedByPermission

        stop = self.stopped = StoppedByPermission(item.call, item.decided_by or "")
        others = [other for other in self.items if other.result is None and not other.started and other is not item]
        last = others[-1] if others else item
        with self.state.lock:  # one step: nothing gets in between a denial and the stop
            self.close(
                item,
                ToolOutcomeKind.DENIED,
                item.reason,
                "denied",
                error=item.error,
                stop=stop if last is item else None,
            )
            for other in others:
                self._cancel(other, STOPPED, by=item, stop=stop if last is other else None)

    def refuse_over_budget(self, item: CallItem, refusal: Refusal) -> None:
        """Refuse a call that is beyond a budget; the turn goes on with the others."""
        item.decided_by, item.decided_kind = f"budget: {refusal.cap}", "budget"
        self.deny(item, Denied(refusal.reason))

    def stop_over_budget(self) -> None:
        """Stop the run when something was beyond a budget, or the time is over: no model is asked any more."""
        if self.meter is None or not self.items or self.stopped is not None:
            return
        over = self.meter.over_time()
        cap = self.meter.refused or (over.cap if over is not None else None)
        if cap is not None:
            self.stopped = stop_over_budget(self.state, cap)

    def refuse_input(self, item: CallItem, problem: str) -> None:
        """Answer a call that cannot run because of its arguments."""
        item.may_run = False
        item.decided_by, item.decided_kind, item.reason = None, "schema", problem
        self.recorder.decided(item, "input_error", reason=problem)
        self.report_start(item)
        self.close(item, ToolOutcomeKind.INPUT_ERROR, f"(input error: {problem})", "input_error")
        self.report()

    def cancel(self, item: CallItem, why: str, kind: ToolOutcomeKind = ToolOutcomeKind.CANCELLED) -> None:
        """End a call that nobody denied and that will not run."""
        self._cancel(item, why, kind)
        self.report()

    def _cancel(
        self,
        item: CallItem,
        why: str,
        kind: ToolOutcomeKind = ToolOutcomeKind.CANCELLED,
        *,
        by: CallItem | None = None,
        stop: StoppedByPermission | None = None,
    ) -> None:
        """Do as `cancel` does, without a report; `by` is the call whose denial stopped the turn."""
        item.may_run, item.reason = False, why
        item.decided_by, item.decided_kind = (by.decided_by, by.decided_kind) if by is not None else (None, "")
        self.recorder.hold(
            "cancelled", item, reason=why, decided_by=item.decided_by, decided_kind=item.decided_kind or None
        )
        self.close(item, kind, why, "cancelled", stop=stop)

    def close(
        self,
        item: CallItem,
        kind: ToolOutcomeKind,
        content: str,
        verdict: str,
        *,
        error: BaseException | None = None,
        value: Any = None,
        images: tuple[Image, ...] = (),
        stop: StoppedByPermission | None = None,
    ) -> None:
        """Give a call its result; `report` tells of it. With `stop`, it is the last one that a stop closes."""
        assert self.in_hand is not None
        item.result = self.result_of(item, kind, content, verdict, error=error, value=value, images=images)
        self.state.settle(self.in_hand, item.position, item.result, stop=stop)
        if self.reporter is not None:
            self._untold.append(item)

    def report_start(self, item: CallItem) -> None:
        """Tell the reporter that a call is about to run."""
        if self.reporter is not None:
            self._tell("on_tool_start", item)

    def report(self) -> None:
        """Tell the reporter of the calls that have ended, after all that belongs together is recorded."""
        while self._untold:
            item = self._untold.pop(0)
            assert item.result is not None
            self._tell("on_tool_end", item, item.result.content, item.result.outcome)

    def _tell(self, method: str, item: CallItem, *args: Any) -> None:
        shown = partial(call_text, item.call.name, item.shown_args)
        tell(
            self.reporter,
            method,
            self.state,
            item.call,
            *args,
            call=lambda call: shown(),
            text=lambda text: self.recorder.text(text, item),
            error_text=self.recorder.text,
        )

    def result_of(
        self,
        item: CallItem,
        kind: ToolOutcomeKind,
        content: str,
        verdict: str,
        *,
        error: BaseException | None,
        value: Any,
        images: tuple[Image, ...] = (),
        late: bool = False,
    ) -> CallResult:
        """Return what became of a call."""
        decided_by = item.decided_by
        return CallResult.made(
            {
                "call": item.call,
                "call_key": item.call_key,
                "outcome": outcome_of(kind, decided_by) if error is None else ToolOutcome(kind, error, decided_by),
                "content": content,
                "verdict": verdict,
                "decided_kind": item.decided_kind,
                "answered_by": item.answer.answered_by if item.answer is not None else None,
                "reason": item.reason,
                "args_run": item.edited.args if item.edited is not None else None,
                "value": value,
                "images": images,
                "late": late,
                "turn": self.turn,
                "at": self.recorder.latest,
            }
        )

    def warn_of(self, item: CallItem, decision: Decision) -> None:
        """Warn of a policy or mode object that could not decide about a call, which was denied.

        Raises:
            Warning: The user's filters make an error of it.
        """
        if decision.said is not None and decision.said.warning:
            text = self.recorder.text(decision.said.warning, item)
            self.warn(item, f"{text}, so the call to {item.call.name} was denied")

    def warn(self, item: CallItem, text: str) -> None:
        """Warn of a call that was denied; see `warn_of`."""
        try:
            warn_user(text)
        except Warning as error:  # the user's filters make an error of it
            error.add_note(f"warned about {self.masked_call(item)}, which was denied")
            self.state.record_error(error, item.call)
            raise

    @staticmethod
    def masked_call(item: CallItem) -> str:
        """Return the call as it would run, as text, secrets masked."""
        return Redactor().call(item.final, item.tool.secret if item.tool is not None else ())

    def undecided(self, item: CallItem, error: Exception) -> None:
        """Record a call that a permission could not decide because it raised; `report` tells of it."""
        notes = "; ".join(getattr(error, "__notes__", ()))
        item.decided_by, item.decided_kind, item.error = None, "nobody", error
        self.state.record_error(error, item.call)
        self._deny(item, Denied(f"could not be decided: {describe_error(error)}" + (f" ({notes})" if notes else "")))
