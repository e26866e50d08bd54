"""Asking the model and the person: what an agent with a model does from a prompt to an answer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from agentperm_nb.errors import BudgetExceeded, NoHumanError, fix_message, warn_user
from agentperm_nb.human import ask_on_worker, awaits, check_returns
from agentperm_nb.running.driving import on_loop_thread, refuse_in_async_run
from agentperm_nb.running.formats import Reply
from agentperm_nb.running.formats.spoken import why_cut
from agentperm_nb.running.loops import Loop, adefault_loop, default_loop
from agentperm_nb.running.messages import Message
from agentperm_nb.running.metering import Meter, asking, meter_of, stop_over_budget, working
from agentperm_nb.running.models import Model, ToolSpec, aask_model, ask_model, check_answers_blocking
from agentperm_nb.running.nesting import asks_for, check_before_run, levels_above
from agentperm_nb.running.remembering import Remembering
from agentperm_nb.running.reporter import tell
from agentperm_nb.running.state import State
from agentperm_nb.running.turn_taking import check_context
from agentperm_nb.tools import Tool

if TYPE_CHECKING:
    pass

__all__ = ["Conversing"]


class Conversing(Remembering):
    """Asks the model, runs loops, and asks the person."""

    model: Model | None
    """What answers; None where the loop is the caller's."""
    instructions: str | None
    """What the model is told first."""
    loop: Loop | Callable[..., Any] | None
    """What ``run`` and ``arun`` do; None for the default loop."""

    # ------------------------------------------------------------------ the model

    def think(self, state: State, tools: Iterable[Tool | str] | None = None) -> None:
        """Ask the model once, and note its reply in the state; its calls are pending then.

        Args:
            state: The state to go on with.
            tools: The tools, or their names, that the model is told of; all when left out.

        Raises:
            TypeError: It is not a State; the agent has no model, or one that answers only asynchronously; or this is
                called inside an async run.
            ValueError: The state is finished, has no messages, or has calls without a result.
            BudgetExceeded: The budget of the run, of a run above, or of the user is used up.
            Exception: Whatever the model raised. Then the state is as it was before.
        """
        refuse_in_async_run("think", "await agent.athink(...)")
        with self._thinking(state, tools) as (model, messages, specs, keep):
            keep(ask_model(model, messages, specs))

    async def athink(self, state: State, tools: Iterable[Tool | str] | None = None) -> None:
        """Do the same as `think`, awaited; a sync model works on a worker thread. See there."""
        with self._thinking(state, tools) as (model, messages, specs, keep):
            keep(await aask_model(model, messages, specs))

    # ------------------------------------------------------------------ a run

    def run(
        self,
        prompt_or_state: str | State,
        /,
        *,
        user: str | None = None,
        session: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the loop on a prompt, or on a state to go on with, and return the answer.

        Args:
            prompt_or_state: What the user wants; or a State.
            user: On whose behalf, for this run.
            session: Session of this run.
            metadata: What permissions, handlers and tools of this run find in ``get_run_context().metadata``, those of
                subagents too.

        Returns:
            What the loop returns; of the default loop, ``state.answer``: None where a permission or a budget stopped
            the run.

        Raises:
            TypeError: It is neither; the loop, a permission or the human works only asynchronously; or this is called
                inside an async run.
            ValueError: The state is finished, or is being run.
            NoHumanError: A permission asks the agent's human, and there is none on purpose.
            Exception: Whatever ended the run; every call of the model has a result all the same.
        """
        refuse_in_async_run("run", "await agent.arun(...)")
        body: Any = self.loop if self.loop is not None else self._default_loop(default_loop)
        if getattr(body, "is_async", False):
            raise TypeError(
                fix_message(f"{body!r} is async", "await the async form", "answer = await agent.arun('Tidy notes.txt')")
            )
        if self.loop is None:
            check_answers_blocking(self.model)  # before anything is recorded; a loop of one's own may not ask it
        with self._running(prompt_or_state, (user, session, metadata), blocking=True) as state:
            try:
                return body(self, state)
            except BudgetExceeded as error:
                return self._stopped_by(error, state)

    async def arun(
        self,
        prompt_or_state: str | State,
        /,
        *,
        user: str | None = None,
        session: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Any:
        """Do the same as `run`, awaited; see there.

        Raises:
            TypeError: Also when the agent's own loop is not async.
        """
        body: Any = self.loop if self.loop is not None else self._default_loop(adefault_loop)
        if isinstance(body, Loop) and not body.is_async:
            raise TypeError(
                fix_message(
                    f"{body!r} is not async, and would block the event loop",
                    "make it async, or call run",
                    "@loop\nasync def coding(agent, state):\n    await agent.athink(state)\n"
                    "    if state.pending_calls:\n        await agent.ause_tools(state)",
                )
            )
        with on_loop_thread(), self._running(prompt_or_state, (user, session, metadata), blocking=False) as state:
            try:
                return await body(self, state)
            except BudgetExceeded as error:
                return self._stopped_by(error, state)

    # ------------------------------------------------------------------ the person

    def ask_human(self, state: State, prompt: str, returns: Any = str) -> Any:
        """Ask the agent's human a question, and note it in the state.

        Args:
            state: The state of the run that asks.
            prompt: The question.
            returns: What the answer must be: ``str``, ``bool`` or a ``Literal``.

        Returns:
            The answer, as the Human gave it.

        Raises:
            TypeError: It is not a State; `returns` is none of these; or the human answers only asynchronously.
            NoHumanError: There is nobody to ask.
            BudgetExceeded: No question is left in a budget.
            Exception: Whatever the Human raised.
        """
        refuse_in_async_run("ask_human", "await agent.aask_human(...)")
        human = self._whom(state, prompt, returns, "ask_human")
        if not callable(getattr(human, "ask", None)):
            problem = f"{type(human).__name__} answers only asynchronously"
            fix = "await the async form"
            raise TypeError(fix_message(problem, fix, f"answer = await agent.aask_human(state, {prompt!r})"))
        with asking(self._meter(state), state):
            answer = human.ask(state, prompt, returns)
            state.record_exchange(prompt, answer)
        return answer

    async def aask_human(self, state: State, prompt: str, returns: Any = str) -> Any:
        """Do the same as `ask_human`, awaited; a Human that only blocks is asked on a worker thread. See there."""
        human = self._whom(state, prompt, returns, "aask_human")
        with asking(self._meter(state), state):
            if awaits(human):
                answer = await human.aask(state, prompt, returns)
            else:
                # An answer that comes when nobody waits for it any more is noted all the same.
                answer = await ask_on_worker(human, state, prompt, returns, partial(state.record_exchange, prompt))
            state.record_exchange(prompt, answer)
        return answer

    # ------------------------------------------------------------------ how

    def _default_loop(self, loop: Loop) -> Loop:
        limit = self._turn_limit
        return loop if limit == loop.limit else Loop(loop.body, until=loop.until, limit=limit)

    _turn_limit: int

    def _shown_tools(self, tools: Iterable[Tool | str] | None) -> Sequence[ToolSpec]:
        mine = self._engine.tools
        if tools is None:
            return [ToolSpec.of(tool) for tool in mine.values()]
        names = [item.name if isinstance(item, Tool) else item for item in tools]
        for name in names:
            if name not in mine:
                problem = f"this agent has no tool {name!r}. Available tools: {', '.join(mine) or '(none)'}"
                raise ValueError(fix_message(problem, "give some of its tools", "agent.think(state, agent.tools[:1])"))
        return [ToolSpec.of(mine[name]) for name in names]

    @contextlib.contextmanager
    def _thinking(
        self, state: State, tools: Iterable[Tool | str] | None
    ) -> Iterator[tuple[Model, tuple[Message, ...], Sequence[ToolSpec], Callable[[Message], None]]]:
        """Give what the model is asked, and a function that keeps its reply."""
        _check_state(state, "think")
        if self.model is None:
            raise TypeError(
                fix_message(
                    f"the agent {self.name} has no model",
                    "give one; or ask the model yourself, and give its reply to ause_tools",
                    "Agent(tools=tools, model=AnthropicModel(client, MODEL))",
                )
            )
        specs = self._shown_tools(tools)
        meter = self._meter(state)
        used_up = None if meter is None or state.finished else meter.used_up()
        if used_up is not None:
            stop_over_budget(state, used_up.cap)
            raise BudgetExceeded(f"budget:{used_up.cap}", used_up.reason)
        messages = state.begin_thinking()
        state.link(self._engine.whom())
        try:
            with working(meter):
                self._tell("on_think_start", state)
                first = (Message.system(self.instructions),) if self.instructions else ()
                replies: list[Message] = []
                yield self.model, (*first, *messages), specs, replies.append
        except BaseException as error:
            state.fail_thinking(error)
            raise
        state.end_thinking(replies[0])
        self._tell("on_think_end", state, replies[0])
        _warn_if_cut(replies[0])
        if meter is not None:
            meter.warn()

    def _meter(self, state: State) -> Meter | None:
        """Return what work of a run counts towards."""
        above, budget = levels_above.get(), self._engine.budget
        meter = above[-1].meter if above else None
        if budget is None and meter is None:
            return None
        return meter_of(budget, self._context(None, None, None, state), meter)

    def over_budget(self, state: State) -> bool:
        """Return whether no model is asked any more in a run because a budget is used up; note in its state that it is.

        A loop looks before every turn.
        """
        meter = self._meter(state)
        used_up = None if meter is None else meter.used_up()
        if used_up is not None:
            stop_over_budget(state, used_up.cap)
        return used_up is not None

    def _stopped_by(self, error: BudgetExceeded, state: State) -> Any:
        """Return the answer of a run that a budget has stopped in the middle of a turn of its loop."""
        from agentperm_nb.running.history import StoppedByBudget, StoppedByPermission

        if state.stopped != StoppedByBudget(error.reason) and not isinstance(state.stopped, StoppedByPermission):
            raise error  # it says nothing of this run
        self._close_pending(state, error)
        return state.answer

    @contextlib.contextmanager
    def _running(
        self,
        prompt_or_state: str | State,
        told: tuple[str | None, str | None, Mapping[str, Any] | None],
        *,
        blocking: bool,
    ) -> Iterator[State]:
        """Do what comes before a run and after it; `told` is its user, session and metadata."""
        check_context(*told)
        state = self._run_state(prompt_or_state)
        above = levels_above.get()
        self._refresh()
        self._say()
        check_before_run(self._effective(), self._engine, above, blocking=blocking)
        if state.parent_id is None and above:
            state.parent_id = above[-1].run_id
        state.link(self._engine.whom())
        state.start_run(self.name)
        failure: BaseException | None = None
        try:
            with self._in_run(self._context(*told, state)), working(self._meter(state)):
                self._tell("on_run_start", state)
                yield state
        except BaseException as error:
            failure = error
            state.record_error(error)
            self._close_pending(state, error)
            raise
        finally:
            state.end_run(failed=failure is not None)
            if isinstance(prompt_or_state, str) or state.finished:  # nobody can go on with this run
                self._engine.memory.end_run(state.id)
            self._tell("on_run_end", state, failure)

    def _run_state(self, prompt_or_state: object) -> State:
        example = "answer = agent.run('Tidy notes.txt')"
        if isinstance(prompt_or_state, str):
            if not prompt_or_state.strip():
                raise ValueError(fix_message("run got an empty prompt", "say what you want", example))
            return State([Message.user(prompt_or_state)])
        if not isinstance(prompt_or_state, State):
            problem = f"run takes a prompt or a State (got: {type(prompt_or_state).__name__})"
            raise TypeError(fix_message(problem, "give a text", example))
        if prompt_or_state.finished:
            raise ValueError(fix_message("cannot run a finished State", "start a new one", example))
        return prompt_or_state

    def _close_pending(self, state: State, error: BaseException) -> None:
        """Give the calls that no turn had in hand a result: the run has ended without them."""
        if not state.waiting():
            return
        context = self._context(None, None, None, state)
        read = Reply("calls", tuple(state.waiting()), state)
        self._steps_of(read, state, context, lambda message: None)[1].give_up(error)

    def _whom(self, state: State, prompt: str, returns: Any, method: str) -> Any:
        _check_state(state, method)
        if not isinstance(prompt, str):
            problem = f"{method} takes the question as a text (got: {prompt!r})"
            raise TypeError(fix_message(problem, "give a text", f"agent.{method}(state, 'Which folder?')"))
        check_returns(returns)
        engine = asks_for(None, self._engine, levels_above.get())
        human = engine.whom()
        if human is None:
            why = "on an Agent with human=None" if engine.human is None else "where nobody can be asked"
            raise NoHumanError(
                fix_message(
                    f"{method}() was called {why} (question: {prompt!r})",
                    "give the agent a human",
                    "Agent(tools, human=TextApprover())",
                )
            )
        if not callable(getattr(human, "ask", None)) and not callable(getattr(human, "aask", None)):
            problem = f"{human!r} answers requests for approval, not questions"
            raise TypeError(fix_message(problem, "give the agent a Human", "Agent(tools, human=TextApprover())"))
        return human

    def _tell(self, method: str, state: State, *args: Any) -> None:
        reporter = self._reporter()
        if reporter is None:
            return
        redactor = self._engine.redactor
        tell(reporter, method, state, *args, call=redactor.call, text=redactor.text, error_text=redactor.text)


def _warn_if_cut(reply: Message) -> None:
    """Say that an answer is not whole; of a call that is not, the model is told."""
    why = why_cut(reply.reply) if reply.reply is not None and not reply.tool_calls else None
    if why is not None:
        warn_user(f"the model's reply was cut off ({why}): its text is not whole", UserWarning)


def _check_state(state: object, method: str) -> None:
    if not isinstance(state, State):
        problem = f"{method} takes a State (got: {type(state).__name__})"
        raise TypeError(fix_message(problem, "give one", f"state = State([Message.user('Hi')])\nagent.{method}(state)"))
