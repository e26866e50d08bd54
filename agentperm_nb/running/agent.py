"""The agent: tools, the permissions that decide about their calls, whoever is asked, the log, and perhaps a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from agentperm_nb.analysis.log import Log, as_log
from agentperm_nb.approvals.approvers import as_approver, handler_approver
from agentperm_nb.approvals.desk import the_desk
from agentperm_nb.approvals.policy_handlers import PolicyHandlerApprover, policy_approver
from agentperm_nb.approvals.requests import ApprovalRequest, Approver
from agentperm_nb.approvals.signals import the_signals
from agentperm_nb.audit.changes import ChangeEvent
from agentperm_nb.context import running_in
from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.builtin import AllowByReadOnly, DecideByHuman
from agentperm_nb.permissions.deciding import PermissionList
from agentperm_nb.redaction import Redactor
from agentperm_nb.running.conversing import Conversing
from agentperm_nb.running.engine import AUTO, Engine
from agentperm_nb.running.formats import tool_specs
from agentperm_nb.running.loops import TURN_LIMIT, Loop
from agentperm_nb.running.models import Model, is_async_model, model_name
from agentperm_nb.running.policy_keeping import Policy
from agentperm_nb.running.reporter import Reporter
from agentperm_nb.running.settings import (
    check_budget,
    check_checks,
    check_loop,
    check_model,
    check_names,
    check_reporter,
    check_rules,
    check_turn_limit,
    checked_folder,
    checked_policy,
    checked_protected,
)
from agentperm_nb.running.subagents import AgentTool
from agentperm_nb.running.turn_taking import check_texts
from agentperm_nb.tools import Tool, as_tools

if TYPE_CHECKING:
    from agentperm_nb.permissions.handler import AsyncPermissionHandler, PermissionHandler
    from agentperm_nb.permissions.policy_layers import PolicyFiles
    from agentperm_nb.permissions.wrapping import PermissionItem
    from agentperm_nb.running.budget import Budget
    from agentperm_nb.running.card import AgentCard

__all__ = ["DEFAULT", "Agent"]


class _Default:
    def __repr__(self) -> str:
        return "[AllowByReadOnly(), DecideByHuman()]"

    def __reduce__(self) -> str:
        return "DEFAULT"


DEFAULT = _Default()
"""For ``permissions=``: read-only calls pass, a person is asked about the rest."""


class Agent(Conversing):
    """Decides about tool calls and runs those that are allowed; with a model it runs a whole task.

    Args:
        first: The tools; or, when it is a text, the instructions.
        tools: Functions, `Tool` objects, other agents, objects with ``@tool`` methods, or pairs (specification,
            function).
        name: What panel and log call the agent; the name of its tool, where another agent has it.
        model: What answers: a function or an object from messages and tool specifications to a reply, such as
            `AnthropicModel`. Left out, the loop is yours: give replies to ``ause_tools``.
        instructions: What the model is told first.
        description: What the agent is good for, told to the model of an agent that has it as a tool.
        loop: What ``run`` and ``arun`` do with each turn; made with ``@loop``.
        turn_limit: How many turns a run of the default loop may take.
        permissions: The list that decides: permissions, policies and mode objects, or one of them. Left out: read-only
            calls pass, a person is asked about the rest. ``[]`` denies every call. Only an explicit None switches the
            checks off; then card, turns and log say UNCHECKED.
        human: Who is asked: a Human, an approver, or None for nobody. Left out: the panel in a notebook, a prompt in a
            terminal, and nobody in a scheduled run, where calls that need a person are denied with the remedy.
        approval_handler: A function that answers in place of a person: ``handler(request)`` or
            ``handler(call, user_id)``, sync or async; it returns True, False or an `ApprovalDecision`. Or an approver,
            such as ``HandlerApprover(handler, timeout=60)``.
        permission_handler: An object with ``handle(request)`` that answers what a policy in `permissions` asks, where
            the policy has no handler of its own; with a time limit as ``PolicyHandlerApprover(handler, timeout=60)``.
        signals: What carries the values of ``agent.signal`` to handlers that wait for them; those of this process when
            left out. Any object with ``signal`` and ``wait_for_signal`` will do.
        budget: How many calls, questions and seconds a run or a user may spend; may be shared with other agents.
        reporter: Who is told how a run goes.
        audit: The log of another agent, to share it; a new one in memory when left out.
        policy: A policy file, a list of them, or a `PolicyFiles`; the administrator's and the user's are then looked
            for, too. `permissions` left out is then an empty list: what no rule of a file decides is denied.
        folder: What relative paths in arguments are relative to; the working directory when left out.
        protected: Paths, and patterns of paths, that no call writes without a person's word, beside the policy files.
        lookalikes: ``"refuse"`` tools whose names are taken for each other or mix alphabets, or ``"allow"`` them.
        user: On whose behalf the agent works; JupyterHub's user or the login name when left out.
        session: Id of the session; one for each kernel process when left out.
        redact: Functions from text to text that mask what the built-in rules do not know for a secret.

    Raises:
        TypeError: An argument has the wrong type, or both `human` and `approval_handler` were given.
        ValueError: Two tools have one name, or names that look alike; a schema is not a JSON Schema; a rule can match
            no call of the tools that it is about; `policy` or `protected` with ``permissions=None``, which switches all
            checks off.
        PolicyFileError: A policy file is not there, cannot be read, or says what it may not.
    """

    description: str | None
    instructions: str | None
    loop: Loop | Callable[..., Any] | None
    model: Model | None

    def __init__(
        self,
        first: str | Iterable[Any] = (),
        /,
        *,
        tools: Iterable[Any] = (),
        name: str = "main",
        model: Model | None = None,
        instructions: str | None = None,
        description: str | None = None,
        loop: Loop | Callable[..., Any] | None = None,
        turn_limit: int = TURN_LIMIT,
        permissions: Iterable[PermissionItem] | PermissionItem | _Default | None = DEFAULT,
        human: Any = AUTO,
        approval_handler: Callable[..., Any] | Approver | None = None,
        permission_handler: PermissionHandler | AsyncPermissionHandler | None = None,
        signals: Any = the_signals,
        budget: Budget | None = None,
        reporter: Reporter | None = None,
        audit: Log | None = None,
        policy: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | PolicyFiles | None = None,
        folder: str | os.PathLike[str] | None = None,
        protected: Iterable[str | os.PathLike[str]] = (),
        lookalikes: Literal["refuse", "allow"] = "refuse",
        user: str | None = None,
        session: str | None = None,
        redact: Iterable[Callable[[str], str]] = (),
    ) -> None:
        super().__init__()
        instructions, listed = _first(first, tools, instructions)
        check_texts(name=name, user=user, session=session, instructions=instructions, description=description)
        if human is not AUTO and approval_handler is not None:
            raise TypeError(
                fix_message(
                    "human= and approval_handler= were both given, and one of them has to answer",
                    "leave one out",
                    "Agent(tools, approval_handler=handler)",
                )
            )
        check_model(model)
        check_loop(loop)
        check_turn_limit(turn_limit)
        check_budget(budget)
        check_reporter(reporter)
        self.name = name
        self.model, self.instructions, self.description, self.loop = model, instructions, description, loop
        self._turn_limit = turn_limit
        given = not isinstance(permissions, _Default)
        self._given = given or policy is not None
        default = [] if policy is not None else [AllowByReadOnly(), DecideByHuman()]
        own = PermissionList(permissions if given else default)
        self._folder = checked_folder(folder)
        files = checked_policy(policy)
        guarded = checked_protected(protected, self._folder)
        check_checks(own, policy=policy is not None, protected=bool(guarded))
        self.audit: Log = as_log(audit)
        if human is not AUTO and human is not None:
            as_approver(human)  # says now what is wrong with it
        redactions = tuple(redact)
        Redactor(redactions)  # says now what is wrong with them
        tools_by_name = as_tools(listed)
        check_names(tools_by_name, lookalikes)
        check_rules(own, tools_by_name)
        self._policy = Policy(
            own,
            files=files,
            given=self._given,
            protected=guarded,
            tools=tools_by_name,
            redactions=redactions,
            changed=self._session_changed,
        )
        self._engine = Engine(
            tools=tools_by_name,
            own=self._policy.permissions,
            store=self.audit.store,
            desk=the_desk,
            redactor=self._policy.redactor,
            human=human,
            handler=handler_approver(approval_handler) if approval_handler is not None else None,
            policy_handler=_policy_handler(permission_handler, own),
            reporter=reporter,
            budget=budget,
            patience=self._policy.patience,
            file_rule=self._file_rule,
            look=self._refresh,
        )
        self._user, self._session, self._signals = user, session, signals
        self._settings: dict[str, Any] = {
            "tools": listed,
            "name": name,
            "model": model,
            "instructions": instructions,
            "description": description,
            "loop": loop,
            "turn_limit": turn_limit,
            "permissions": own.given if given and not own.unchecked else permissions,
            "human": human,
            "approval_handler": approval_handler,
            "permission_handler": permission_handler,
            "signals": signals,
            "budget": budget,
            "reporter": reporter,
            "audit": self.audit,
            "policy": files,
            "folder": self._folder,
            "protected": guarded,
            "lookalikes": lookalikes,
            "user": user,
            "session": session,
            "redact": redactions,
        }
        self._note_now("agent made", {})
        self._say()
        self._look_over()

    def copy(self, **changes: Any) -> Agent:
        """Return an agent with the same settings but for some; it shares the log, unless it is given another one.

        It reads the policy files anew, and begins with the same rules of the session.

        Args:
            **changes: Settings of ``Agent(…)``, by name.

        Raises:
            TypeError: One is not a setting; or see `Agent`.
            ValueError: See `Agent`.
        """
        unknown = [name for name in changes if name not in self._settings]
        if unknown:
            problem = f"{unknown[0]!r} is not a setting of an agent"
            fix = f"use some of {', '.join(self._settings)}"
            raise TypeError(fix_message(problem, fix, "agent.copy(permissions=[AllowByReadOnly()])"))
        settings = {**self._settings, **changes}
        for one, other in (("human", "approval_handler"), ("approval_handler", "human")):
            if one in changes and other not in changes:  # it takes the place of the other
                settings[other] = AUTO if other == "human" else None
        copied = type(self)(**settings)
        if not copied.policy.own.unchecked:
            copied.session_rules.add(*self.session_rules)
        return copied

    def as_tool(self, *, name: str | None = None, description: str | None = None) -> AgentTool:
        """Return the agent as a tool of another one; ``tools=[agent]`` does so too.

        Args:
            name: The tool's name; the agent's when left out.
            description: What the model above is told; the agent's description when left out.

        Raises:
            TypeError: The agent has no model.
            ValueError: The name is none that a tool can have.
        """
        if self.model is None and self.loop is None:
            raise TypeError(
                fix_message(
                    f"the agent {self.name} has no model, so it cannot be a tool",
                    "give it one",
                    "Agent(tools=[read_file], name='reader', model=AnthropicModel(client, MODEL))",
                )
            )
        return AgentTool(self, name=name, description=description)

    # ------------------------------------------------------------------ what it is

    @property
    def permissions(self) -> tuple[Any, ...]:
        """The agent's own permissions as they were given, in list order; empty for None and for ``[]``.

        What policy files and the session add to them, `policy` shows.
        """
        return self._policy.own.given

    @property
    def human(self) -> Any:
        """Who is asked, as it was given; None for nobody on purpose."""
        return self._engine.human

    @property
    def reporter(self) -> Reporter | None:
        """Who is told how a run goes."""
        return self._engine.reporter

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools, in order."""
        return tuple(self._engine.tools.values())

    @property
    def is_async(self) -> bool:
        """Whether it can only be awaited: its loop is async, or its model says that it is."""
        return is_async_model(self.model) or bool(getattr(self.loop, "is_async", False))

    def pending(self) -> tuple[ApprovalRequest, ...]:
        """Return the requests of this agent that wait for an answer, oldest first."""
        return tuple(request for request in self._engine.desk.pending() if self._engine.asked(request.id))

    def on_change(self, callback: Callable[[ChangeEvent], object]) -> Callable[[], None]:
        """Call `callback` with each decision of this agent as it is recorded; return the function that ends it.

        It is told of questions, answers, denials and calls that may run, with masked arguments, on the thread that
        records them. One that raises is reported in the Python log and disturbs nobody.

        Args:
            callback: A function of a `ChangeEvent`.

        Raises:
            TypeError: It cannot be called.
        """
        return self._engine.changes.subscribe(callback)

    def tool_specs(self, format: str) -> list[dict[str, Any]]:
        """Return the tools as a provider's API takes them.

        Args:
            format: ``"anthropic"``, ``"openai-chat"`` or ``"openai-responses"``.

        Raises:
            ValueError: The format is unknown, or a tool has a name that the provider refuses.
        """
        return tool_specs(format, self.tools)

    def __reduce__(self) -> str | tuple[Any, ...]:
        """Refuse to be pickled or copied: its log, and whoever is asked, belong to this process.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            fix_message(
                "an Agent cannot be pickled, or copied with copy and deepcopy",
                "make a second one with agent.copy(); of its run, take the snapshot of the state to other places",
                "second = agent.copy(name='second')\nsnapshot = agent.state.snapshot()",
            )
        )

    def __repr__(self) -> str:
        return self._card().text()

    def _repr_html_(self) -> str:
        return self._card().html()

    def _card(self) -> AgentCard:
        from agentperm_nb.running.card import AgentCard, policy_facts, rows, who_is_asked

        self._refresh()
        own = self._engine.own
        context = self._context(None, None, None)
        with running_in(context):  # what is decided may depend on the user
            listed, asked = rows(own, self._engine.tools), who_is_asked(self._engine)
        waiting = len(self.pending())
        model = (("model", self._engine.redactor.text(model_name(self.model))),) if self.model is not None else ()
        facts = (
            *model,
            ("asked", asked + (f" · {waiting} waiting" if waiting else "")),
            ("user", context.user_id or "unknown"),
            *((("budget", repr(self._engine.budget)),) if self._engine.budget is not None else ()),
            *policy_facts(self._policy),
            ("log", repr(self.audit)),
        )
        return AgentCard(self.name, own.unchecked, listed, facts, bypass=own.bypasses(context.user_id))


def _first(first: Any, tools: Any, instructions: str | None) -> tuple[str | None, Any]:
    """Return instructions and tools: the first argument is either."""
    example = "Agent('You keep the notes tidy.', tools=[read_file])"
    if isinstance(first, str):
        if instructions is not None:
            raise TypeError(fix_message("instructions were given twice", "leave one out", example))
        instructions, first = first, ()
    elif not (isinstance(first, tuple) and not first) and not (isinstance(tools, tuple) and not tools):
        raise TypeError(fix_message("tools were given twice", "leave one out", example))
    listed = tools if isinstance(first, tuple) and not first else first
    # Once: a generator gives its items only once, and `copy` needs them again.
    return instructions, tuple(listed) if isinstance(listed, Iterable) and _is_listing(listed) else listed


def _is_listing(listed: object) -> bool:
    return not isinstance(listed, str | bytes | Mapping | Tool)


def _policy_handler(handler: Any, own: PermissionList) -> PolicyHandlerApprover | None:
    if handler is None:
        return None
    approver = policy_approver("permission_handler=", handler)
    if not own.has_policy:
        raise ValueError(
            fix_message(
                "permission_handler= answers what a policy asks, and there is no policy in permissions=",
                "give a policy, or leave the handler out; approval_handler= answers what any permission asks",
                "Agent(tools, permissions=PermissionPolicy([ASK_DESTRUCTIVE]), permission_handler=handler)",
            )
        )
    return approver
