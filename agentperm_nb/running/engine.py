"""A turn, step by step: the law, written once.

For each call of a turn, in request order, before any tool runs:

1. An unknown tool, or arguments that are not a JSON object: an input error. Nobody is asked.
2. The permissions, in the order of `permissions.deciding`. All rules of a turn are asked before any person is.
3. Not denied: arguments that do not fit the tool's schema are an input error now, so a person is never shown a call
   that cannot run.
4. Asked about: a remembered answer, else the approver (`running.asking`). The requests of a turn are put to their
   approvers together; nothing runs until every one is answered. Only an explicit allow allows.
5. A denial with ``stop=True`` ends the turn as one step: this call denied, all others that have no result cancelled,
   approved ones too, and nothing of the turn runs.
6. If an answer was awaited in the turn, or another call has finished since, the order is asked once more just before a
   call starts, without asking anybody, and the tool must still be there. What runs is what was decided about.

`TurnSteps.steps` is a generator: it yields what its driver has to do (`running.effects`) and holds everything else. Two
drivers serve it (`running.driving`), one on a thread and one on an event loop, so both decide the same.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from agentperm_nb.approvals.approvers import NobodyApprover, as_approver
from agentperm_nb.approvals.desk import Desk, DeskChange
from agentperm_nb.approvals.memory import Memory
from agentperm_nb.approvals.requests import Approver
from agentperm_nb.audit.store import Store
from agentperm_nb.calls import ToolCall, digest
from agentperm_nb.context import RunContext
from agentperm_nb.errors import NoHumanError, ToolError, ToolInputError, fix_message, warn_user
from agentperm_nb.human import default_human
from agentperm_nb.permissions.builtin import DecideByHuman
from agentperm_nb.permissions.deciding import (
    Check,
    Decision,
    PermissionList,
    deciding,
    resume,
    resume_error,
    settle,
)
from agentperm_nb.permissions.kinds import Permission
from agentperm_nb.permissions.verdicts import Allowed, Ask, Denied, Verdict
from agentperm_nb.redaction import Redactor
from agentperm_nb.running.asking import ask_people
from agentperm_nb.running.effects import Effect, Message, Start, ToolDone, Wait
from agentperm_nb.running.items import CallItem
from agentperm_nb.running.nesting import Level, writer_of
from agentperm_nb.running.recording import Recorder, describe_error
from agentperm_nb.running.state import CallResult, State, StoppedByPermission, ToolOutcome, ToolOutcomeKind, result_text
from agentperm_nb.tools import Tool

__all__ = ["AUTO", "Engine", "TurnSteps"]

_AT_ONCE = 32  # sync tools that run at the same time, each on a thread
_KEPT = 10_000  # digests of calls that ran, and requests whose late answers are still recorded
STOPPED = "(not run: the user stopped this turn)"
INTERRUPTED = "(interrupted by user)"


class _Auto:
    def __repr__(self) -> str:
        return "AUTO"


AUTO = _Auto()
"""For ``human=``: the notebook's panel, or a prompt in a terminal, or nobody, as it is where the agent runs."""


@dataclass(eq=False)
class Engine:
    """What the turns of one agent share."""

    tools: Mapping[str, Tool]
    own: PermissionList
    """The agent's own list; a turn may be decided by another one (`running.nesting`)."""
    store: Store
    desk: Desk
    redactor: Redactor
    policy_id: str
    human: Any = AUTO
    """A Human, an approver, None for nobody on purpose, or AUTO."""
    handler: Approver | None = None
    memory: Memory = field(default_factory=Memory)
    finished: int = 0
    """How many calls have finished."""
    ran: OrderedDict[str, datetime] = field(default_factory=OrderedDict)
    """When a call of this digest last finished."""
    _approvers: dict[int, Approver] = field(default_factory=dict)
    _asked: OrderedDict[str, Callable[[DeskChange], None]] = field(default_factory=OrderedDict)

    def __post_init__(self) -> None:
        _watch_for_late_answers(self)

    def watch(self, request_id: str, record: Callable[[DeskChange], None]) -> None:
        """Call `record` when an answer to the request comes too late, even after its turn has ended."""
        self._asked[request_id] = record
        if len(self._asked) > _KEPT:
            self._asked.popitem(last=False)

    def desk_changed(self, change: DeskChange) -> None:
        """Record an answer that came too late, or that the view refused."""
        if change.kind == "late" and change.request_id in self._asked:
            self._asked[change.request_id](change)

    def whom(self) -> Any:
        """Return the Human or approver of the agent, or None where there is nobody."""
        if self.human is AUTO:
            return default_human()
        return self.human

    def approver_for(self, permission: Permission | None) -> Approver:
        """Return who answers a permission's requests: its own human, else the handler, else the agent's human."""
        own = getattr(permission, "human", None)
        if own is None and self.handler is not None:
            return self.handler
        whom = own if own is not None else self.whom()
        if whom is None:
            return self._approvers.setdefault(0, NobodyApprover(NOBODY_HERE))
        return self._approvers.setdefault(id(whom), as_approver(whom))

    def check_human(self, permissions: PermissionList, above: tuple[Level, ...]) -> None:
        """Raise NoHumanError when a list needs a person and there is nobody on purpose."""
        for permission, name in permissions.order:
            if not isinstance(permission, DecideByHuman) or permission.human is not None:
                continue
            writer = writer_of(permission, self, above)
            if writer.human is None and writer.handler is None:
                raise NoHumanError(
                    fix_message(
                        f"{name} in permissions= asks the Agent's human, and the agent was made with human=None",
                        "give a human or an approval_handler, or decide without a person",
                        "Agent(tools, permissions=[AllowByReadOnly()], human=None)",
                    )
                )


def _watch_for_late_answers(engine: Engine) -> None:
    # The desk outlives the agents of a kernel: it must not keep them alive.
    reference = weakref.ref(engine)

    def listener(change: DeskChange) -> None:
        alive = reference()
        if alive is not None:
            alive.desk_changed(change)

    weakref.finalize(engine, engine.desk.subscribe(listener))


NOBODY_HERE = (
    "Nobody can answer here: there is no notebook front end and no terminal. Give permissions that decide without a "
    "person, such as AllowByName([...]), or an approval_handler=, or run this in JupyterLab."
)


class TurnSteps:
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
    """

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
    ) -> None:
        self.engine, self.context, self.state, self.turn, self.post = engine, context, state, turn, post
        self.permissions, self.above, self.prepare = permissions, above, prepare
        self.recorder = Recorder(engine.store, engine.redactor, engine.policy_id, context, turn)
        self.items = [
            CallItem(
                call, f"{context.run_id}/{turn}/{position}", position, engine.tools.get(call.name), engine.redactor
            )
            for position, call in enumerate(calls)
        ]
        self.stopped: StoppedByPermission | None = None
        self.awaited = False
        """Whether an answer has been awaited in this turn."""
        self._deciding: CallItem | None = None

    def steps(self) -> Generator[Effect, Any, tuple[CallResult, ...]]:
        """Decide and run the calls; return a result for each, in request order.

        Raises:
            Exception: Whatever a permission or a classic Human raised. Then nothing more of the turn starts.
        """
        self.state.pending_calls.extend(item.call for item in self.items)
        try:
            yield from self._apply_rules()
            yield from self._let_ask()
            yield from ask_people(self)
            yield from self._run_calls()
            self.recorder.write()
        except BaseException as error:
            self._abandon(error)
            raise
        return tuple(item.result for item in self.items if item.result is not None)

    # ------------------------------------------------------------------ deciding

    def _apply_rules(self) -> Generator[Effect, Any, None]:
        for item in self.items:
            self.recorder.requested(item)
            problem = item.problem
            if problem is None and item.tool is None:
                available = ", ".join(self.engine.tools) or "(none)"
                problem = f"unknown tool {item.call.name!r}. Available tools: {available}"
            if problem is not None:
                self.refuse_input(item, problem)
        for item in self.items:
            if self.stopped is not None:
                break
            if item.result is None and item.tool is not None:
                self._deciding = item
                generator = deciding(self.permissions, self.state, item.call, item.tool)
                current = yield from self._until_a_person(generator, settle(generator))
                if isinstance(current, Check):
                    item.parked = (generator, current)
                else:
                    self._apply(item, current)
        self._deciding = None
        self.recorder.write()

    def _let_ask(self) -> Generator[Effect, Any, None]:
        """Let the permissions that ask a person by themselves do so, one after the other."""
        for item in self.items:
            if item.parked is None or item.result is not None:
                continue
            generator, current = item.parked
            item.parked, self._deciding = None, item
            self.awaited = item.asked = True
            result: Decision | Check = current
            while isinstance(result, Check):
                asking = result.permission
                item.rule = next(name for other, name in self.permissions.order if other is asking)
                self.recorder.note("asked", item, rule=item.rule, reason=None)
                result = yield from self._performed(generator, result)
                result = yield from self._until_a_person(generator, result)
            self._apply(item, result)
            self.recorder.write()
        self._deciding = None

    def decide_again(self, item: CallItem) -> Generator[Effect, Any, Decision]:
        """Ask the whole order about the call as it would run, without asking a person."""
        assert item.tool is not None
        self._deciding = item
        generator = deciding(self.permissions, self.state, item.final, item.tool)
        current = settle(generator)
        while True:
            current = yield from self._until_a_person(generator, current)
            if isinstance(current, Decision):
                self._deciding = None
                return current
            current = resume(generator, Ask("a person has been asked"))

    def _until_a_person(
        self, generator: Generator[Check, Verdict | None, Decision], current: Decision | Check
    ) -> Generator[Effect, Any, Decision | Check]:
        while isinstance(current, Check) and not current.asks_person:
            current = yield from self._performed(generator, current)
        return current

    @staticmethod
    def _performed(
        generator: Generator[Check, Verdict | None, Decision], check: Check
    ) -> Generator[Effect, Any, Decision | Check]:
        try:
            verdict = yield check
        except Exception as error:  # noqa: BLE001 - thrown into the generator, which knows what it means
            return resume_error(generator, error)
        return resume(generator, verdict)

    def _apply(self, item: CallItem, decision: Decision) -> None:
        """Act on what the rules came to."""
        assert item.tool is not None
        item.decided_by, item.decided_kind, item.error = decision.decided_by, decision.kind, decision.error
        verdict = decision.verdict
        if isinstance(verdict, Denied):
            self.deny(item, verdict)
            if decision.kind == "nobody":
                warn_user(
                    f"No permission allowed or denied the call to {item.call.name}, so it was denied. To allow every "
                    "call no permission denies, put AllowByDefault() at the end of permissions="
                )
            return
        problems = item.tool.check_args(item.call.args)
        if problems:
            self.refuse_input(item, "; ".join(f"{name}: {text}" if name else text for name, text in problems))
        elif isinstance(verdict, Ask):
            item.rule, item.reason = decision.decided_by or "", verdict.reason
            item.request_permission = decision.permission
        elif isinstance(verdict, Allowed):
            self.allow(item)

    def allow(self, item: CallItem) -> None:
        """Let a call run, once all of the turn are decided."""
        item.may_run = True
        item.finished_before = self.engine.finished
        item.decided_digest = digest(item.final.name, item.final.args)
        self.recorder.decided(item, "allowed", reason=item.reason if item.asked else "")

    def deny(self, item: CallItem, verdict: Denied) -> None:
        """Refuse a call; with ``stop``, end the turn."""
        item.may_run = False
        item.reason = verdict.reason
        self.recorder.decided(item, "denied", reason=verdict.reason, stop=verdict.stop)
        self.close(item, ToolOutcomeKind.DENIED, verdict.reason, "denied", error=item.error)
        if not verdict.stop:
            return
        self.stopped = StoppedByPermission(item.call, item.decided_by or "")
        self.state.stopped = self.stopped
        for other in self.items:
            if other.result is None:
                other.decided_by = item.decided_by
                self.cancel(other, STOPPED)

    def refuse_input(self, item: CallItem, problem: str) -> None:
        """Answer a call that cannot run because of its arguments."""
        item.may_run = False
        item.decided_by, item.decided_kind, item.reason = None, "schema", problem
        self.recorder.decided(item, "input_error", reason=problem)
        self.close(item, ToolOutcomeKind.INPUT_ERROR, f"(input error: {problem})", "input_error")

    def cancel(self, item: CallItem, why: str, kind: ToolOutcomeKind = ToolOutcomeKind.CANCELLED) -> None:
        """End a call that nobody denied and that will not run."""
        item.may_run, item.reason = False, why
        self.recorder.hold("cancelled", item, reason=why)
        self.close(item, kind, why, "cancelled")

    def close(
        self,
        item: CallItem,
        kind: ToolOutcomeKind,
        content: str,
        verdict: str,
        *,
        error: BaseException | None = None,
        value: Any = None,
    ) -> None:
        """Give a call its result."""
        item.result = CallResult(
            call=item.call,
            call_key=item.call_key,
            outcome=ToolOutcome(kind, error, item.decided_by),
            content=content,
            verdict=verdict,
            decided_kind=item.decided_kind,
            answered_by=item.answer.answered_by if item.answer is not None else None,
            reason=item.reason,
            args_run=item.edited.args if item.edited is not None else None,
            value=value,
        )
        self.state.history.append(item.result)
        for index, pending in enumerate(self.state.pending_calls):
            if pending is item.call:
                del self.state.pending_calls[index]
                break

    # ------------------------------------------------------------------ running

    def _run_calls(self) -> Generator[Effect, Any, None]:
        ready = [item for item in self.items if item.may_run]
        together = deque(item for item in ready if item.tool is not None and item.tool.parallel)
        alone = deque(item for item in ready if item.tool is not None and not item.tool.parallel)
        running, on_threads = 0, 0
        failure: Exception | None = None
        while True:
            while failure is None and self.stopped is None:
                queue = together or (alone if running == 0 else None)
                if not queue or (on_threads >= _AT_ONCE and not _is_async(queue[0])):
                    break
                item = queue.popleft()
                try:
                    still = yield from self._still_allowed(item)
                except Exception as error:  # noqa: BLE001 - raised again below, when what runs has finished
                    self._undecided(item, error)
                    failure = error
                    break
                if still:
                    item.started = True
                    self.recorder.note("started", item)
                    running, on_threads = running + 1, on_threads + (not _is_async(item))
                    yield Start(item, self.prepare)
            if running == 0:
                break
            message = yield Wait()
            if isinstance(message, ToolDone):
                running, on_threads = running - 1, on_threads - (not _is_async(message.item))
                self._finish(message)
        if failure is not None:
            raise failure

    def _still_allowed(self, item: CallItem) -> Generator[Effect, Any, bool]:
        """Look once more, just before a call starts."""
        if self.engine.tools.get(item.final.name) is not item.tool:
            item.decided_by, item.decided_kind = None, "nobody"
            self.deny(item, Denied(f"the tool {item.final.name} was removed or replaced while the call waited"))
            return False
        if digest(item.final.name, item.final.args) != item.decided_digest:
            item.decided_by, item.decided_kind = None, "nobody"
            self.deny(item, Denied("the arguments were changed after the call was decided"))
            return False
        if not self.awaited and self.engine.finished == item.finished_before:
            return True
        decision = yield from self.decide_again(item)
        verdict = decision.verdict
        if isinstance(verdict, Allowed) or (isinstance(verdict, Ask) and item.asked):
            return True
        item.decided_by, item.decided_kind, item.error = decision.decided_by, decision.kind, decision.error
        if isinstance(verdict, Ask):
            verdict = Denied("the rules changed while the call waited: now a person has to be asked. Call it again.")
        assert isinstance(verdict, Denied)
        self.deny(item, verdict)
        return False

    def _finish(self, done: ToolDone) -> None:
        item, error = done.item, done.error
        self.engine.finished += 1
        self.engine.ran[item.decided_digest] = datetime.now(UTC)
        self.engine.ran.move_to_end(item.decided_digest)
        if len(self.engine.ran) > _KEPT:
            self.engine.ran.popitem(last=False)
        if error is None:
            kind, content = ToolOutcomeKind.DONE, result_text(done.value)
        elif isinstance(error, ToolInputError):
            kind, content = ToolOutcomeKind.INPUT_ERROR, f"(input error: {error})"
        elif isinstance(error, ToolError):
            kind, content = ToolOutcomeKind.ERROR, str(error)
        else:
            kind, content = ToolOutcomeKind.ERROR, describe_error(error)
        self.recorder.finished(item, content, error)
        self.close(item, kind, self._notice(item) + content, "allowed", error=error, value=done.value)

    def _notice(self, item: CallItem) -> str:
        """Tell the model that a reviewer changed what it asked for."""
        if item.edited is None:
            return ""
        before, after = item.call.args, item.edited.args
        names = [
            name
            for name in {**before, **after}
            if name not in before or name not in after or before[name] != after[name]
        ]
        secret = item.tool.secret if item.tool is not None else ()
        ran = self.engine.redactor.call(item.edited, secret)
        return f"[A reviewer changed {', '.join(names) or 'nothing'} before this call ran. It ran as {ran}.]\n"

    # ------------------------------------------------------------------ ending early

    def _undecided(self, item: CallItem, error: Exception) -> None:
        """Record a call that a permission could not decide because it raised."""
        notes = "; ".join(getattr(error, "__notes__", ()))
        item.decided_by, item.decided_kind, item.error = None, "nobody", error
        self.deny(item, Denied(f"could not be decided: {describe_error(error)}" + (f" ({notes})" if notes else "")))

    def _abandon(self, error: BaseException) -> None:
        """Close what is open: an exception, an interrupt or a cancellation ends the turn."""
        if isinstance(error, Exception) and self._deciding is not None and self._deciding.result is None:
            self._undecided(self._deciding, error)
        for item in self.items:
            if item.result is not None:
                continue
            if item.started:
                self.recorder.hold("lost", item, reason=INTERRUPTED)
                self.close(item, ToolOutcomeKind.INTERRUPTED, INTERRUPTED, "allowed")
            elif isinstance(error, Exception):
                self.cancel(item, f"(aborted: {type(error).__name__})", ToolOutcomeKind.ABORTED)
            else:
                self.cancel(item, INTERRUPTED, ToolOutcomeKind.INTERRUPTED)
        self.recorder.write()


def _is_async(item: CallItem) -> bool:
    return item.tool is not None and item.tool.is_async
