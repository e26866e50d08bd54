"""The agent: tools, the permissions that decide about their calls, whoever is asked, and the log."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import Any

from agentperm_nb.analysis.log import Log, as_log
from agentperm_nb.approvals.approvers import HandlerApprover, as_approver
from agentperm_nb.approvals.desk import the_desk
from agentperm_nb.approvals.requests import ApprovalRequest
from agentperm_nb.context import RunContext, get_run_context, running_in, session_id, who
from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import sha256
from agentperm_nb.permissions.builtin import AllowByReadOnly, DecideByHuman
from agentperm_nb.permissions.deciding import PermissionList
from agentperm_nb.permissions.explain import Explanation
from agentperm_nb.permissions.kinds import Permission
from agentperm_nb.redaction import Redactor
from agentperm_nb.running.card import AgentCard, rows
from agentperm_nb.running.driving import Steps
from agentperm_nb.running.driving_async import adrive
from agentperm_nb.running.driving_blocking import drive
from agentperm_nb.running.effects import Effect, Message
from agentperm_nb.running.engine import AUTO, Engine
from agentperm_nb.running.explaining import call_of, explain_call
from agentperm_nb.running.formats import Reply, read_reply, tool_specs
from agentperm_nb.running.nesting import Level, check_human, effective, levels_above
from agentperm_nb.running.outcomes import CallResult
from agentperm_nb.running.recording import Recorder
from agentperm_nb.running.state import State
from agentperm_nb.running.steps import TurnSteps
from agentperm_nb.running.turn import PendingTurn, Turn, TurnTask
from agentperm_nb.tools import Tool, as_tools

__all__ = ["DEFAULT", "Agent"]

_TURNS_KEPT = 1_000


class _Default:
    def __repr__(self) -> str:
        return "[AllowByReadOnly(), DecideByHuman()]"


DEFAULT = _Default()
"""For ``permissions=``: read-only calls pass, a person is asked about the rest."""


class Agent:
    """Decides about tool calls and runs those that are allowed.

    Args:
        tools: Functions, `Tool` objects, or pairs (specification, function).
        name: What panel and log call the agent.
        permissions: The list that decides. Left out: read-only calls pass, a person is asked about the rest. ``[]``
            denies every call. Only an explicit None switches the checks off; then card, turns and log say UNCHECKED.
        human: Who is asked: a Human, an approver, or None for nobody. Left out: the panel in a notebook, a prompt in a
            terminal, and nobody in a scheduled run, where calls that need a person are denied with the remedy.
        approval_handler: A function that answers in place of a person: ``handler(request)`` or
            ``handler(call, user_id)``, sync or async; it returns True, False or an `ApprovalDecision`.
        audit: The log of another agent, to share it; a new one in memory when left out.
        user: On whose behalf the agent works; JupyterHub's user or the login name when left out.
        session: Id of the session; one for each kernel process when left out.
        redact: Functions from text to text that mask what the built-in rules do not know for a secret.

    Raises:
        TypeError: An argument has the wrong type, or both `human` and `approval_handler` were given.
        ValueError: Two tools have one name, or a schema is not a JSON Schema.
    """

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any] | tuple[Mapping[str, Any], Callable[..., Any]]] = (),
        *,
        name: str = "main",
        permissions: Iterable[Permission] | Permission | _Default | None = DEFAULT,
        human: Any = AUTO,
        approval_handler: Callable[..., Any] | None = None,
        audit: Log | None = None,
        user: str | None = None,
        session: str | None = None,
        redact: Iterable[Callable[[str], str]] = (),
    ) -> None:
        _check_texts(name="" if name is None else name, user=user, session=session)
        if human is not AUTO and approval_handler is not None:
            raise TypeError(
                fix_message(
                    "human= and approval_handler= were both given, and one of them has to answer",
                    "leave one out",
                    "Agent(tools, approval_handler=handler)",
                )
            )
        self.name = name
        self._given = not isinstance(permissions, _Default)
        own = PermissionList(permissions if self._given else [AllowByReadOnly(), DecideByHuman()])
        self.audit = as_log(audit)
        if human is not AUTO and human is not None:
            as_approver(human)  # says now what is wrong with it
        self._engine = Engine(
            tools=as_tools(tools),
            own=own,
            store=self.audit.store,
            desk=the_desk,
            redactor=Redactor(redact),
            policy_id=_policy_id(own),
            human=human,
            handler=HandlerApprover(approval_handler) if approval_handler is not None else None,
        )
        self._user, self._session = user, session
        self._state = State()
        self._lock = threading.Lock()
        self.turns: deque[Turn] = deque(maxlen=_TURNS_KEPT)
        """The finished turns, oldest first; the newest thousand."""
        self._note_policy()

    # ------------------------------------------------------------------ what it is

    @property
    def permissions(self) -> tuple[Permission, ...]:
        """The agent's own permissions, in list order; empty for None and for ``[]``."""
        return self._engine.own.items

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools, in order."""
        return tuple(self._engine.tools.values())

    @property
    def run(self) -> str:
        """Id of the run that bare ``ause_tools`` calls belong to."""
        return self._state.id

    @property
    def state(self) -> State:
        """State of that run."""
        return self._state

    def new_run(self) -> str:
        """Begin a new run for the next turns, with an empty history, and return its id."""
        self._state = State()
        return self._state.id

    def pending(self) -> tuple[ApprovalRequest, ...]:
        """Return the requests of this agent that wait for an answer, oldest first."""
        return tuple(request for request in self._engine.desk.pending() if self._engine.asked(request.id))

    def tool_specs(self, format: str) -> list[dict[str, Any]]:
        """Return the tools as a provider's API takes them.

        Args:
            format: ``"anthropic"``, ``"openai-chat"`` or ``"openai-responses"``.

        Raises:
            ValueError: The format is unknown, or a tool has a name that the provider refuses.
        """
        return tool_specs(format, self.tools)

    def __repr__(self) -> str:
        return self._card().text()

    def _repr_html_(self) -> str:
        return self._card().html()

    def _card(self) -> AgentCard:
        own = self._engine.own
        context = self._context(None, None, None)
        if self._engine.handler is not None:
            asked = repr(self._engine.handler)
        else:
            whom = self._engine.whom()
            asked = (
                "nobody (human=None)" if self._engine.human is None else "nobody here" if whom is None else _who(whom)
            )
        waiting = len(self.pending())
        facts = (
            ("asked", asked + (f" · {waiting} waiting" if waiting else "")),
            ("user", context.user_id or "unknown"),
            ("log", repr(self.audit)),
        )
        return AgentCard(self.name, own.unchecked, rows(own, self._engine.tools), facts)

    # ------------------------------------------------------------------ deciding and running

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
            metadata: What permissions, handlers and tools find in ``get_run_context().metadata``.

        Raises:
            TypeError: The reply is none of these; or a permission returned what its kind may not.
            ValueError: The reply is not what its API sends.
            NoHumanError: A permission needs a person, and the agent was made with ``human=None``.
            Exception: Whatever a permission raised. Then nothing more of the turn runs.
        """
        read, state = self._read(reply, user, session, metadata)

        async def begin() -> Turn:
            context, make, finish = self._begin(read, state, user, session, metadata)
            with running_in(context):
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
        with running_in(context):
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

        return TurnTask(begin, lambda: len(self.pending()))

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
        permissions = effective(self._engine.own, given=self._given, above=levels_above.get())
        return explain_call(self._engine, permissions, self._state, call_of(tool, args, kwargs))

    # ------------------------------------------------------------------ how

    def _read(self, reply: Any, user: Any, session: Any, metadata: Any) -> tuple[Reply, State]:
        """Read the calls, and say now what is wrong with the arguments of ``ause_tools``."""
        _check_texts(user=user, session=session)
        if metadata is not None and not isinstance(metadata, Mapping):
            problem = f"metadata= takes a dict (got: {metadata!r})"
            raise TypeError(fix_message(problem, "give a dict", "await agent.ause_tools(reply, metadata={'task': 7})"))
        if isinstance(reply, State):
            return Reply("calls", read_reply(reply.waiting()).calls, reply), reply
        return read_reply(reply), self._state

    def _context(
        self, user: str | None, session: str | None, metadata: Mapping[str, Any] | None, state: State | None = None
    ) -> RunContext:
        outer = get_run_context()
        path = levels_above.get()[-1].agent_path if levels_above.get() else ()
        name = user or self._user or (outer.user_id if outer is not None else None) or who()[0]
        return RunContext(
            run_id=(state or self._state).id,
            session_id=session or self._session or (outer.session_id if outer is not None else session_id()),
            user_id=name,
            agent_path=(*path, self.name),
            metadata=dict(metadata or {}),
        )

    def _begin(
        self,
        read: Reply,
        state: State,
        user: str | None,
        session: str | None,
        metadata: Mapping[str, Any] | None,
    ) -> tuple[RunContext, Steps[tuple[CallResult, ...]], Callable[[tuple[CallResult, ...]], Turn]]:
        """Return the context of a turn, what makes its steps, and what makes a Turn of their result."""
        engine, above = self._engine, levels_above.get()
        context = self._context(user, session, metadata, state)
        permissions = effective(engine.own, given=self._given, above=above)
        check_human(permissions, engine, above)
        with self._lock:
            if read.original is state:
                read = read_reply(state.take())
            number = self.audit.next_turn(state.id)
        state.link(engine.whom())
        level = Level(engine, permissions, context.agent_path)
        made: list[TurnSteps] = []

        def make(post: Callable[[Message], None]) -> Generator[Effect, Any, tuple[CallResult, ...]]:
            made.append(
                TurnSteps(
                    engine,
                    context,
                    state,
                    number,
                    read.calls,
                    post,
                    permissions=permissions,
                    above=above,
                    prepare=lambda: _below(level, above),
                )
            )
            return made[0].steps()

        def finish(results: tuple[CallResult, ...]) -> Turn:
            run = context.run_id
            turn = Turn(
                number=number,
                run=run,
                results=results,
                stopped=made[0].stopped,
                unchecked=permissions.unchecked,
                format=read.format,
                original=read.original,
                redactor=engine.redactor,
                secrets={tool.name: tool.secret for tool in engine.tools.values()},
                rows=lambda: engine.store.rows(lambda row: row["run"] == run and row["turn"] == number),
            )
            self.turns.append(turn)
            return turn

        return context, make, finish

    def _note_policy(self) -> None:
        own = self._engine.own
        recorder = Recorder(
            self.audit.store, self._engine.redactor, self._engine.policy_id, self._context(None, None, None), None
        )
        listed = None if own.unchecked else [self._engine.redactor.text(name) for name in own.names]
        recorder.note("policy", permissions=listed, unchecked=own.unchecked, how="agent made")


def _check_texts(**given: object) -> None:
    for argument, value in given.items():
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise TypeError(
                fix_message(f"{argument}= takes a text (got: {value!r})", "give a text", f"{argument}='ann'")
            )


def _below(level: Level, above: tuple[Level, ...]) -> None:
    levels_above.set((*above, level))


def _who(whom: Any) -> str:
    describe = getattr(whom, "describe", None)
    return str(describe()) if callable(describe) else repr(whom)


def _policy_id(permissions: PermissionList) -> str:
    if permissions.unchecked:
        return "unchecked"
    return "policy_" + sha256(json.dumps(permissions.names))[:12]
