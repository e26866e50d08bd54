"""Deciding about the calls of a reply and running them: what an agent does with every turn."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.context import RunContext, get_run_context, running_in, session_id, who
from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.deciding import PermissionList
from agentperm_nb.running.driving import Steps
from agentperm_nb.running.driving_async import adrive
from agentperm_nb.running.driving_blocking import drive
from agentperm_nb.running.effects import Effect
from agentperm_nb.running.effects import Message as DriverMessage
from agentperm_nb.running.engine import Engine
from agentperm_nb.running.formats import Reply, read_reply
from agentperm_nb.running.in_hand import TurnInHand
from agentperm_nb.running.messages import Message
from agentperm_nb.running.metering import meter_of
from agentperm_nb.running.models import as_message
from agentperm_nb.running.nesting import Level, check_depth, check_human, effective, levels_above
from agentperm_nb.running.outcomes import CallResult
from agentperm_nb.running.policy_keeping import PolicyKeeping
from agentperm_nb.running.reporter import Reporter
from agentperm_nb.running.state import State
from agentperm_nb.running.steps import TurnSteps
from agentperm_nb.running.turn import PendingTurn, Turn, TurnTask

if TYPE_CHECKING:
    from agentperm_nb.permissions.explain import Explanation
    from agentperm_nb.permissions.why_not import WhyNot

__all__ = ["TurnTaking", "check_context", "check_texts"]

_TURNS_KEPT = 1_000


class TurnTaking(PolicyKeeping):
    """Decides about the calls of replies, and runs those that are allowed."""

    turns: deque[Turn]
    """The finished turns, oldest first; the newest thousand."""
    _engine: Engine
    _given: bool
    _user: str | None
    _session: str | None
    _folder: str | None

    def __init__(self) -> None:
        self._state = State()
        self._lock = threading.Lock()
        self.turns = deque(maxlen=_TURNS_KEPT)

    @property
    def run_id(self) -> str:
        """Id of the run that bare ``ause_tools`` calls belong to."""
        return self._state.id

    @property
    def state(self) -> State:
        """State of that run."""
        return self._state

    def new_run(self) -> str:
        """Begin a new run for the next turns, with an empty history, and return its id.

        What was remembered for the run before is forgotten.
        """
        self._engine.memory.end_run(self._state.id)
        self._state = State()
        return self._state.id

    # ------------------------------------------------------------------ turns

    def ause_tools(
        self,
        reply: Any,
        *,
        user: str | None = None,
        session: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> PendingTurn:
        """Decide about the calls in a reply and run those that are allowed; await it to get the `Turn`.

        Args:
            reply: A reply of the Anthropic Messages API, OpenAI Chat Completions or OpenAI Responses, an object or a
                dict; a list of `ToolCall`; or a `State` with pending calls.
            user: On whose behalf, for this turn.
            session: Session of this turn.
            metadata: What permissions, handlers and tools find in ``get_run_context().metadata``, those of subagents
                too.

        Raises:
            TypeError: The reply is none of these; or a permission returned what its kind may not.
            ValueError: The reply is not what its API sends, or the state is finished.
            NoHumanError: A permission needs a person, and the agent was made with ``human=None``.
            Exception: Whatever a permission raised. Then nothing more of the turn runs.
        """
        read, state = self._read(reply, user, session, metadata)

        async def begin() -> Turn:
            context, make, finish = self._begin(read, state, user, session, metadata)
            with self._in_run(context):
                return finish(await adrive(make))

        return PendingTurn(begin, len(read.calls))

    def use_tools(
        self,
        reply: Any,
        *,
        user: str | None = None,
        session: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Turn:
        """Do the same as `ause_tools` without ``await``, in a cell too; see there.

        Raises:
            TypeError: Also when it is called inside an async turn, on the thread of its event loop.
        """
        read, state = self._read(reply, user, session, metadata)
        context, make, finish = self._begin(read, state, user, session, metadata)
        with self._in_run(context):
            return finish(drive(make))

    def start(
        self,
        reply: Any,
        *,
        user: str | None = None,
        session: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> TurnTask:
        """Do the same as `ause_tools` in the background, on the running event loop; see there.

        Raises:
            RuntimeError: No event loop is running.
        """
        pending = self.ause_tools(reply, user=user, session=session, metadata=metadata)

        async def begin() -> Turn:
            return await pending

        return TurnTask(begin, self._waiting)

    def explain(self, tool: Any, /, args: Mapping[str, Any] | None = None, **kwargs: Any) -> Explanation:
        """Say who would decide about a call and why; nobody is asked and nothing runs.

        Args:
            tool: Name of a tool, or a `ToolCall`, or a dict with ``name`` and ``args``.
            args: The arguments.
            **kwargs: The arguments, by name.

        Raises:
            TypeError: It is none of these, or the arguments were given twice.
            Exception: Whatever a permission raised.
        """
        from agentperm_nb.running.explaining import call_of, explain_call

        self._refresh()  # it says what the next turn would do
        with running_in(self._context(None, None, None)):  # what is decided may depend on the user
            return explain_call(self._engine, self._effective(), self._state, call_of(tool, args, kwargs))

    def why_not(self, tool: Any, /, args: Mapping[str, Any] | None = None, **kwargs: Any) -> WhyNot:
        """Say what stands in the way of a call that one expected to pass, and the smallest change that would let it.

        Nobody is asked and nothing runs; each change is tried out on the call.

        Args:
            tool: Name of a tool, or a `ToolCall`, or a dict with ``name`` and ``args``.
            args: The arguments.
            **kwargs: The arguments, by name.

        Raises:
            TypeError: It is none of these, or the arguments were given twice.
            Exception: Whatever a permission raised.
        """
        from agentperm_nb.running.explaining import call_of, why_not_call

        above = levels_above.get()
        with running_in(self._context(None, None, None)):
            call = call_of(tool, args, kwargs)
            own, given = self._policy.own, self._given
            return why_not_call(self._engine, self._effective(), self._state, call, above, own=own, given=given)

    # ------------------------------------------------------------------ how

    def _waiting(self) -> int:
        return sum(self._engine.asked(request.id) for request in self._engine.desk.pending())

    def _effective(self) -> PermissionList:
        """Return the list that decides here, below the runs above."""
        return effective(self._engine.own, given=self._given, above=levels_above.get())

    def _reporter(self) -> Reporter | None:
        """Return who is told: of the agent, else of the nearest run above that has somebody."""
        engines = [self._engine, *(level.engine for level in reversed(levels_above.get()))]
        return next((engine.reporter for engine in engines if engine.reporter is not None), None)

    def _read(self, reply: Any, user: Any, session: Any, metadata: Any) -> tuple[Reply, State]:
        """Read the calls, and say now what is wrong with the arguments of ``ause_tools``."""
        check_context(user, session, metadata)
        if not isinstance(reply, State):
            return read_reply(reply), self._state
        _refuse_finished(reply)
        read_reply(reply.waiting())  # says now what is wrong with them
        return Reply("calls", tuple(reply.waiting()), reply), reply

    def _context(
        self, user: str | None, session: str | None, metadata: Mapping[str, Any] | None, state: State | None = None
    ) -> RunContext:
        outer, above = get_run_context(), levels_above.get()
        path = above[-1].agent_path if above else ()
        run_id = (state or self._state).id
        users = () if outer is None else outer.users
        if outer is not None and outer.run_id == run_id:  # a turn of ``run``: what that was given holds for its turns
            user, session = user or outer.user_id, session or outer.session_id
            users = outer.users_above if user == outer.user_id else users
        return RunContext(
            run_id=run_id,
            session_id=session or self._session or (outer.session_id if outer is not None else session_id()),
            user_id=user or self._user or (outer.user_id if outer is not None else None) or who()[0],
            agent_path=(*path, self.name),
            metadata=dict(metadata if metadata is not None else outer.metadata if outer is not None else {}),
            folder=self._folder or (outer.folder if outer is not None else os.getcwd()),
            users_above=users,
        )

    def _steps(
        self,
        read: Reply,
        state: State,
        context: RunContext,
        number: int,
        post: Callable[[DriverMessage], None],
        message: Message | None = None,
        taken: TurnInHand | None = None,
    ) -> TurnSteps:
        above, own = levels_above.get(), self._engine.own  # once: other turns may look at the files meanwhile
        permissions = effective(own, given=self._given, above=above)
        meter = meter_of(self._engine.budget, context, above[-1].meter if above else None)
        level = Level(self._engine, permissions, context.agent_path, state.id, meter)
        return TurnSteps(
            self._engine,
            context,
            state,
            number,
            read.calls,
            post,
            permissions=permissions,
            above=above,
            prepare=lambda: _below(level, above),
            stand_ins=read.stand_ins,
            message=message,
            taken=taken,
            reporter=self._reporter(),
            meter=meter,
            policy_id=own.policy_id,
        )

    def _steps_of(
        self, read: Reply, state: State, context: RunContext, post: Callable[[DriverMessage], None]
    ) -> tuple[Reply, TurnSteps]:
        """Take the calls of a turn, once, number it, and make its steps."""
        above = levels_above.get()
        if state.parent_id is None and above and above[-1].run_id != state.id:
            state.parent_id = above[-1].run_id
        state.link(self._engine.whom())
        taken = state.take() if read.original is state else None
        try:
            message = None
            if taken is not None:
                read = _of_state(state, taken.calls)
            else:
                message = _said(read)
            with self._lock:
                number = self.audit.next_turn(state.id, at_least=state.turn)
            return read, self._steps(read, state, context, number, post, message, taken)
        except BaseException:
            if taken is not None:
                state.give_back(taken)
            raise

    def _begin(
        self,
        read: Reply,
        state: State,
        user: str | None,
        session: str | None,
        metadata: Mapping[str, Any] | None,
    ) -> tuple[RunContext, Steps[tuple[CallResult, ...]], Callable[[tuple[CallResult, ...]], Turn]]:
        """Return the context of a turn, what makes its steps, and what makes a Turn of their result."""
        engine = self._engine
        self._refresh()
        self._say()
        context = self._context(user, session, metadata, state)
        permissions = self._effective()
        check_depth(levels_above.get())
        check_human(permissions, engine, levels_above.get())
        made: list[tuple[Reply, TurnSteps]] = []

        def make(post: Callable[[DriverMessage], None]) -> Generator[Effect, Any, tuple[CallResult, ...]]:
            if read.original is state:
                _refuse_finished(state)  # it may have been finished since the turn was asked for
            made.append(self._steps_of(read, state, context, post))
            return made[0][1].steps()

        def finish(results: tuple[CallResult, ...]) -> Turn:
            ((taken, steps),) = made
            run, number = context.run_id, steps.turn
            turn = Turn(
                number=number,
                run=run,
                results=results,
                stopped=steps.stopped,
                unchecked=steps.permissions.unchecked,
                bypass=steps.permissions.bypasses(context.user_id),
                format=taken.format,
                original=taken.original,
                provider_calls=taken.provider_calls,
                redactor=engine.redactor,
                secrets={tool.name: tool.secret for tool in engine.tools.values()},
                rows=lambda: engine.store.rows(lambda row: row["run"] == run and row["turn"] == number),
            )
            self.turns.append(turn)
            if steps.meter is not None:
                steps.meter.warn()
            return turn

        return context, make, finish


_TEXTS = {
    "name": "Agent(tools=[read_file], name='reader')",
    "user": "user='ann'",
    "session": "session='monday'",
    "instructions": "Agent(tools=[read_file], instructions='You keep the notes tidy.')",
    "description": "Agent(tools=[read_file], description='Reads files.')",
}


def check_texts(**given: object) -> None:
    """Refuse what is neither None nor a text; a name is always one.

    Raises:
        TypeError: One of the arguments is neither.
    """
    for argument, value in given.items():
        if (value is not None or argument == "name") and not (isinstance(value, str) and value.strip()):
            raise TypeError(fix_message(f"{argument}= takes a text (got: {value!r})", "give a text", _TEXTS[argument]))


def _refuse_finished(state: State) -> None:
    if state.finished:
        problem = "cannot call use_tools() on a finished State"
        raise ValueError(fix_message(problem, "start a new one", "agent.run('Tidy notes.txt')"))


def check_context(user: object, session: object, metadata: object) -> None:
    """Say what is wrong with what a turn or a run is told of its context.

    Raises:
        TypeError: `user` or `session` is no text, or `metadata` no dict.
    """
    check_texts(user=user, session=session)
    if metadata is not None and not isinstance(metadata, Mapping):
        problem = f"metadata= takes a dict (got: {metadata!r})"
        raise TypeError(fix_message(problem, "give a dict", "await agent.ause_tools(reply, metadata={'task': 7})"))


def _of_state(state: State, calls: tuple[ToolCall, ...]) -> Reply:
    """Return pending calls of a state as a reply; those of a provider's reply keep what that says about them."""
    reply = next((message.reply for message in reversed(state.messages) if message.tool_calls), None)
    if reply is not None and reply.calls == calls:
        return reply
    read = read_reply(list(calls))
    if reply is None:
        return read
    # Some of its calls have their results: the others keep what stands in for them.
    places = [next((at for at, other in enumerate(reply.calls) if other is call), -1) for call in calls]
    stand_ins = {at: reply.stand_ins[place] for at, place in enumerate(places) if place in reply.stand_ins}
    return replace(read, stand_ins=stand_ins)


def _said(read: Reply) -> Message | None:
    """Return a reply as a message of the conversation."""
    return Message.with_calls(read.calls) if read.format == "calls" else as_message(read)


def _below(level: Level, above: tuple[Level, ...]) -> None:
    levels_above.set((*above, level))
