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
6. If an answer was awaited in the turn, another call has finished since, or a rule reads files, the order is asked once
   more just before a call starts, without asking anybody, and the tool must still be there. What runs is what was
   decided about.

`TurnSteps.steps` is a generator: it yields what its driver has to do (`running.effects`) and holds everything else. Two
drivers serve it (`running.driving_async`, `running.driving_blocking`), so both decide the same.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Generator
from datetime import UTC, datetime
from typing import Any

from agentperm_nb.errors import ToolError, ToolInputError
from agentperm_nb.json_values import digest
from agentperm_nb.permissions.deciding import Check, Decision, deciding, settle
from agentperm_nb.permissions.kinds import AskFirst
from agentperm_nb.permissions.verdicts import Allowed, Ask, Denied, Verdict
from agentperm_nb.results import ResultForm, result_form
from agentperm_nb.running.accounts import Refusal
from agentperm_nb.running.asking import ask_people
from agentperm_nb.running.driving import loop_thread
from agentperm_nb.running.effects import Effect, Start, ToolDone, Wait
from agentperm_nb.running.in_hand import TurnInHand
from agentperm_nb.running.items import CallItem
from agentperm_nb.running.ledger import INTERRUPTED, Ledger
from agentperm_nb.running.nesting import asks_for
from agentperm_nb.running.outcomes import CallResult, ToolOutcomeKind
from agentperm_nb.running.recalling import answer_of, recall, whom_to_ask
from agentperm_nb.running.recording import describe_error

__all__ = ["TurnSteps"]

_REVOKED = "the remembered answer that allowed this call was revoked while the call waited. Call it again."
_AT_ONCE = 32  # sync tools that run at the same time, each on a thread; in a blocking turn also async ones
_A_WHILE = 0.1  # seconds of deciding after which the rules may have changed meanwhile


class TurnSteps(Ledger):
    """One turn of an agent: decides and runs its calls."""

    in_hand: TurnInHand | None
    awaited: bool

    def steps(self) -> Generator[Effect, Any, tuple[CallResult, ...]]:
        """Decide and run the calls; return a result for each, in request order.

        Raises:
            Exception: Whatever a permission or a classic Human raised. Then nothing more of the turn starts.
        """
        self._begin()
        if self.meter is not None:
            self.meter.begin()
        try:
            yield from self._apply_rules()
            yield from self._let_ask()
            yield from ask_people(self)
            yield from self._run_calls()
            self.stop_over_budget()
            self.recorder.write()
        except BaseException as error:
            self._abandon(error)
            raise
        finally:
            if self.meter is not None:
                self.meter.end()
        return tuple(item.result for item in self.items if item.result is not None)

    def give_up(self, error: BaseException) -> None:
        """Close a turn that never began: what was asked for is recorded, and nothing runs."""
        self._begin()
        now = datetime.now(UTC)
        for item in self.items:
            self.recorder.requested(item, now)
        self._abandon(error)

    def _begin(self) -> None:
        calls = [item.call for item in self.items]
        self.in_hand = self.state.begin(self.turn, calls, self.message, self.taken)

    # ------------------------------------------------------------------ deciding

    def _apply_rules(self) -> Generator[Effect, Any, None]:
        now, begun = datetime.now(UTC), time.monotonic()
        for item in self.items:
            self.recorder.requested(item, now)
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
                settled = self.permissions.plan(item.call.name).decision
                if settled is not None:
                    self._apply(item, settled)
                    continue
                self.deciding = item
                generator = deciding(self.permissions, self.state, item.call, item.tool)
                current = yield from self.until_a_person(generator, settle(generator))
                if isinstance(current, Check):
                    item.parked = (generator, current)
                else:
                    self._apply(item, current)
        self.deciding = None
        if time.monotonic() - begun > _A_WHILE:  # a check was waited for: what was decided first is looked at again
            self.awaited = True
        self.recorder.write()

    def _let_ask(self) -> Generator[Effect, Any, None]:
        """Let the permissions that ask a person by themselves do so, one after the other."""
        for item in self.items:
            if item.parked is None or item.result is not None:
                continue
            generator, current = item.parked
            item.parked, self.deciding = None, item
            self.awaited = True
            result: Decision | Check = current
            while isinstance(result, Check):
                asking = result.permission
                self.state.link(asks_for(asking, self.engine, self.above).whom())
                item.rule = next(name for other, name in self.permissions.order if other is asking)
                refusal = self._no_question_left()
                if refusal is not None:
                    generator.close()
                    self.refuse_over_budget(item, refusal)
                    break
                self.recorder.note("asked", item, rule=item.rule, reason=None)
                result = yield from self._asked_by_itself(generator, result)
                item.asked, item.answered_for = isinstance(result, Decision) and result.permission is asking, asking
                if not item.asked:
                    item.passed = (*item.passed, asking)
                result = yield from self.until_a_person(generator, result)
            if not isinstance(result, Check):
                self._apply(item, result)
            self.state.link(self.engine.whom())  # again, after the human of whoever wrote the permission
            self.recorder.write()
        self.deciding = None

    def _no_question_left(self) -> Refusal | None:
        """Take a question from the budgets, for a call that could run at all; return why it may not be put, or None."""
        return None if self.meter is None else self.meter.call_left() or self.meter.ask()

    def _asked_by_itself(
        self, generator: Generator[Check, Verdict | None, Decision], check: Check
    ) -> Generator[Effect, Any, Decision | Check]:
        if self.meter is None:
            return (yield from self.performed(generator, check))
        self.meter.begin_asking()
        try:
            return (yield from self.performed(generator, check))
        finally:
            self.meter.end_asking()

    def _apply(self, item: CallItem, decision: Decision) -> None:
        """Act on what the rules came to."""
        assert item.tool is not None
        item.take(decision)
        verdict = decision.verdict
        if isinstance(verdict, Denied):
            self.deny(item, verdict)
            if decision.kind == "nobody":
                self._warn_that_nobody_decided(item)
            self.warn_of(item, decision)
            return
        problems = item.tool.check_args(item.call.args)
        if problems:
            self.refuse_input(item, "; ".join(f"{name}: {text}" if name else text for name, text in problems))
        elif isinstance(verdict, Ask):
            item.rule, item.reason = decision.decided_by or "", verdict.reason
            item.request_permission, item.said = decision.permission, decision.said
            item.protected = isinstance(decision.permission, AskFirst)
        elif isinstance(verdict, Allowed):
            self.allow(item)

    def _warn_that_nobody_decided(self, item: CallItem) -> None:
        self.warn(
            item,
            f"No permission allowed or denied the call to {item.call.name}, so it was denied. To allow every "
            "call no permission denies, put AllowByDefault() at the end of permissions=",
        )

    # ------------------------------------------------------------------ running

    def _run_calls(self) -> Generator[Effect, Any, None]:
        ready = [item for item in self.items if item.may_run]
        together = deque(item for item in ready if item.tool is not None and item.tool.parallel)
        alone = deque(item for item in ready if item.tool is not None and not item.tool.parallel)
        running, on_threads = 0, 0
        blocking = loop_thread.get() != threading.get_ident()
        failure: Exception | None = None
        while True:
            starting: list[CallItem] = []
            before = running, on_threads
            while failure is None and self.stopped is None:
                queue = together or (alone if running == 0 else None)
                if not queue or (on_threads >= _AT_ONCE and not _is_async(queue[0])):
                    break
                if blocking and running - on_threads >= _AT_ONCE and _is_async(queue[0]):
                    break  # it would wait in the driver, and start long after it was looked at
                item = queue.popleft()
                try:
                    still = yield from self._still_allowed(item)
                except Exception as error:  # noqa: BLE001 - raised again below, when what runs has finished
                    self.undecided(item, error)
                    self.report()
                    failure = error
                    break
                if still:
                    starting.append(item)
                    running, on_threads = running + 1, on_threads + (not _is_async(item))
            if failure is not None or self.stopped is not None:  # found beside them: then they do not start either
                starting, (running, on_threads) = [], before
            refused = [item for item in starting if not self._may_start(item)]
            for item in refused:
                starting.remove(item)
                running, on_threads = running - 1, on_threads - (not _is_async(item))
            for item in starting:
                item.started = True
                self.recorder.hold("started", item)
            self.recorder.write()  # what has been decided, and that it starts, is kept before anything of it runs
            for item in starting:
                self.report_start(item)
                yield Start(item, self.prepare, self._done)
            if running == 0:
                if refused:
                    continue  # what comes after them
                break
            message = yield Wait()
            if isinstance(message, ToolDone):
                running, on_threads = running - 1, on_threads - (not _is_async(message.item))
                self._finish(message)
        if failure is not None:
            raise failure

    def _still_allowed(self, item: CallItem) -> Generator[Effect, Any, bool]:
        """Look once more, just before a call starts."""
        if self.tool_of(item.position, item.final.name) is not item.tool:
            item.decided_by, item.decided_kind = None, "nobody"
            self.deny(item, Denied(f"the tool {item.final.name} was removed or replaced while the call waited"))
            return False
        settled = not self.awaited and self.engine.finished == item.finished_before and not self.permissions.reads_files
        if settled and not self.permissions.has_foreign:
            return True
        if digest(item.final.name, item.final.args) != item.decided_digest:
            item.decided_by, item.decided_kind = None, "nobody"
            self.deny(item, Denied("the arguments were changed after the call was decided"))
            return False
        if settled:
            return True
        decision = yield from self.decide_again(item)
        verdict = decision.verdict
        problem = self.somebody_else_asks(item, decision) if item.asked else None
        problem = problem or self.second_person_missing(item, decision)
        answered = item.asked and problem is None and (item.protected or not isinstance(decision.permission, AskFirst))
        denied = issubclass(type(verdict), Denied)  # its real type: it may claim to be of another class
        if not denied and (isinstance(verdict, Allowed) or (isinstance(verdict, Ask) and answered)):
            return True
        item.take(decision)
        if isinstance(verdict, Ask) and problem is not None:
            verdict = Denied(problem)
        elif isinstance(verdict, Ask):
            verdict = Denied("the rules changed while the call waited: now a person has to be asked. Call it again.")
        assert isinstance(verdict, Denied)
        self.deny(item, verdict)
        self.warn_of(item, decision)
        return False

    def _may_start(self, item: CallItem) -> bool:
        """Look at what may have changed while the calls that start beside it were looked at; nothing comes between."""
        if item.answer is not None and item.answer.answered_by == "memory":
            self.context.links.clear()  # a remembered rule may be one on paths, and a link may lead elsewhere by now
            remembered = recall(self, item, whom_to_ask(self, item))
            if remembered is None or not remembered.allow:
                item.decided_by, item.decided_kind = item.rule, "memory"
                reason = _REVOKED if remembered is None else answer_of(remembered).decision.reason
                self.deny(item, Denied(reason or _REVOKED))
                return False
        refusal = None if self.meter is None else self.meter.call()
        if refusal is not None:
            self.refuse_over_budget(item, refusal)
        return refusal is None

    def _done(self, done: ToolDone) -> None:
        """Take how a call ended: into the turn, or into the log alone when the turn has gone on without it."""
        if done.error is None:
            try:  # here, where the tool has run: drawing a figure takes a while, and the turn goes on meanwhile
                done.form = result_form(done.value)
            except Exception as raised:  # noqa: BLE001 - a foreign __str__ may do anything
                done.error = raised
        with self.ending:
            if not self.ended and not done.late:
                self.post(done)
                return
        item = done.item
        self.engine.note_ran(item.decided_digest)
        kind, form, error = self._outcome(done)
        result = self.result_of(
            item, kind, form.text, "allowed", error=error, value=done.value, images=form.images, late=True
        )
        self.state.add_late(result, f"interrupted {self.masked_call(item)} finished later: {form.text}")
        self.recorder.late_result(item, form.text, error)

    def _finish(self, done: ToolDone) -> None:
        item = done.item
        self.engine.note_ran(item.decided_digest)
        kind, form, error = self._outcome(done)
        self.recorder.finished(item, form.text, error)
        text = form.text if item.edited is None else self._notice(item) + form.text
        self.close(item, kind, text, "allowed", error=error, value=done.value, images=form.images)
        self.report()

    def _outcome(self, done: ToolDone) -> tuple[ToolOutcomeKind, ResultForm, BaseException | None]:
        """Return how a call ended, and what the model is told."""
        error = done.error
        if error is None:
            assert done.form is not None
            return ToolOutcomeKind.DONE, done.form, None
        if isinstance(error, ToolInputError):
            return ToolOutcomeKind.INPUT_ERROR, ResultForm(f"(input error: {error})"), error
        if isinstance(error, ToolError):
            return ToolOutcomeKind.ERROR, ResultForm(str(error)), error
        note = f"exception raised in tool {self.masked_call(done.item)}"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
        return ToolOutcomeKind.ERROR, ResultForm(describe_error(error)), error

    def _notice(self, item: CallItem) -> str:
        """Tell the model that a reviewer changed what it asked for."""
        assert item.edited is not None
        before, after = item.call.args, item.edited.args
        names = [
            name
            for name in {**before, **after}
            if name not in before or name not in after or before[name] != after[name]
        ]
        secret = item.tool.secret if item.tool is not None else ()
        ran = self.engine.redactor.call(item.edited, secret)
        changed = ", ".join(f"'{name}'" for name in names) or "nothing"
        return f"[A reviewer changed {changed} before this call ran. It ran as {ran}.]\n"

    # ------------------------------------------------------------------ ending early

    def _abandon(self, error: BaseException) -> None:
        """Close what is open: an exception, an interrupt or a cancellation ends the turn."""
        with self.ending:
            self.ended = True
        if isinstance(error, Exception) and self.deciding is not None and self.deciding.result is None:
            self.undecided(self.deciding, error)
        interrupted = _interrupts(error)
        for item in self.items:
            if item.result is not None:
                continue
            if item.started:
                self.recorder.hold("lost", item, reason=INTERRUPTED)
                self.close(item, ToolOutcomeKind.INTERRUPTED, INTERRUPTED, "allowed")
            elif interrupted:
                self._cancel(item, INTERRUPTED, ToolOutcomeKind.INTERRUPTED)
            else:
                self._cancel(item, f"(aborted: {type(error).__name__})", ToolOutcomeKind.ABORTED)
        if not interrupted:
            self.state.record_error(error)
        try:
            self.recorder.write()
        finally:
            self.report()  # last: a reporter may be interrupted, too


def _interrupts(error: BaseException) -> bool:
    """Return whether it is the user's interrupt or a cancellation, and not a failure."""
    # An event loop that was never imported has cancelled nothing.
    cancelled = [
        getattr(sys.modules.get(module), name, KeyboardInterrupt)
        for module, name in (("asyncio", "CancelledError"), ("trio", "Cancelled"))
    ]
    return isinstance(error, (KeyboardInterrupt, GeneratorExit, *cancelled))


def _is_async(item: CallItem) -> bool:
    return item.tool is not None and item.tool.is_async
