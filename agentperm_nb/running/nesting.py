"""Runs inside runs: which permissions bind an agent that is called by another agent's tool.

1. A run that is started inside a tool call is below the run that makes the call.
2. The deny permissions of every run above come first, outermost first; their protected paths are asked about. What they
   deny by now counts, too, if that is more than when their turn began.
3. Then the agent's own list; an agent that was given none has the list of the run above it.
4. Each permission asks whoever is asked in the run that wrote it; where that run was given nobody to ask, whoever is
   asked in the run above it.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentperm_nb.errors import NoHumanError, fix_message
from agentperm_nb.human import Human, is_human
from agentperm_nb.permissions.builtin import DecideByHuman
from agentperm_nb.permissions.deciding import PermissionList
from agentperm_nb.permissions.kinds import Permission
from agentperm_nb.permissions.said import Said
from agentperm_nb.running.engine import AUTO, Engine

if TYPE_CHECKING:
    from agentperm_nb.running.metering import Meter

__all__ = [
    "MOST_LEVELS",
    "Level",
    "answers_only_async",
    "asks_for",
    "check_before_run",
    "check_depth",
    "check_human",
    "check_one_human",
    "effective",
    "is_async_only",
    "latest_lists",
    "levels_above",
]


@dataclass(slots=True, eq=False, repr=False)
class Level:
    """A run that has a tool call under way."""

    engine: Engine
    permissions: PermissionList
    agent_path: tuple[str, ...]
    run_id: str
    meter: Meter | None = None
    """What the turn that makes the call counts towards."""


levels_above: ContextVar[tuple[Level, ...]] = ContextVar("agentperm_nb_levels", default=())
"""The runs whose tool calls the calling code works for, outermost first."""


MOST_LEVELS = 100
"""How many runs may be below each other: more are agents that call themselves without an end."""


def check_depth(above: tuple[Level, ...]) -> None:
    """Raise RecursionError when runs are nested too deeply."""
    if len(above) >= MOST_LEVELS:
        path = " > ".join((*above[-1].agent_path[:2], "…", above[-1].agent_path[-1]))
        raise RecursionError(
            fix_message(
                f"{MOST_LEVELS} agents are at work below each other ({path})",
                "give the agent a tool list without itself, or end the chain",
                "Agent(tools=[read_file], name='reader', model=model)",
            )
        )


def effective(own: PermissionList, *, given: bool, above: tuple[Level, ...]) -> PermissionList:
    """Return the list that decides.

    Args:
        own: The agent's own list.
        given: Whether the agent was given one.
        above: The runs above.
    """
    if not above:
        return own
    latest = latest_lists(above)
    if not given:
        return above[-1].permissions.bound_by([*latest, own])
    items = None if own.unchecked else own.items
    return PermissionList(items, above=[*(level.permissions for level in above), *latest])


def latest_lists(above: tuple[Level, ...]) -> list[PermissionList]:
    """Return the own lists of the agents above as they are now."""
    return [level.engine.latest() for level in above]


def asks_for(
    permission: Permission | None, engine: Engine, above: tuple[Level, ...], said: Said | None = None
) -> Engine:
    """Return the engine whose human or handler a permission asks: of the run that wrote it.

    Where that run was given nobody, those of the nearest run above it that was given somebody, or None on purpose. What
    a policy asks is also answered by a run's handler for policies.
    """
    policy = said is not None and said.step is not None and said.step.has_policy
    chain = [engine, *(level.engine for level in reversed(above))]  # innermost first
    for index, writer in enumerate(chain):
        if permission is not None and writer.wrote(permission):
            chain = chain[index:]
            break
    given = (
        one
        for one in chain
        if one.handler is not None or one.human is not AUTO or (policy and one.policy_handler is not None)
    )
    return next(given, chain[0])


def check_human(permissions: PermissionList, engine: Engine, above: tuple[Level, ...]) -> None:
    """Raise NoHumanError when a list needs a person and there is nobody on purpose."""
    for permission, name in permissions.order:
        if isinstance(permission, DecideByHuman):
            check_one_human(permission, name, engine, above)


def check_one_human(permission: DecideByHuman, name: str, engine: Engine, above: tuple[Level, ...]) -> None:
    """Raise NoHumanError when a permission asks the agent's human and there is nobody on purpose."""
    if permission.human is not None:
        return
    asked = asks_for(permission, engine, above)
    if asked.human is None and asked.handler is None:
        raise NoHumanError(
            fix_message(
                f"{name} in permissions= asks the Agent's human, and the agent was made with human=None",
                "give a human or an approval_handler, or decide without a person",
                "Agent(tools, permissions=[AllowByReadOnly()], human=None)",
            )
        )


def is_async_only(permission: Permission) -> bool:
    """Return whether a permission can be asked on an event loop only."""
    kind = type(permission)
    if isinstance(permission, DecideByHuman):
        return kind.check is DecideByHuman.check and kind.acheck is not DecideByHuman.acheck
    return kind.check is Permission.check


def answers_only_async(human: object) -> bool:
    """Return whether a Human has ``aask`` only."""
    ask = getattr(type(human), "ask", None)
    return not callable(getattr(human, "ask", None)) or ask is Human.ask


def check_before_run(permissions: PermissionList, engine: Engine, above: tuple[Level, ...], *, blocking: bool) -> None:
    """Say before a run begins what would keep its permissions from deciding, in the order of asking.

    Args:
        permissions: The list that decides.
        engine: What the turns of the agent share.
        above: The runs above.
        blocking: Whether the run is a sync one, in which nothing can be awaited.

    Raises:
        NoHumanError: A permission asks the agent's human, and there is nobody on purpose.
        TypeError: In a sync run: a permission, or the human that it asks, works only asynchronously.
        RecursionError: See `check_depth`.
    """
    check_depth(above)
    for permission, name in permissions.order:
        if blocking and is_async_only(permission):
            problem = f"{name} in permissions= checks calls only asynchronously"
            raise TypeError(fix_message(problem, "await the async form, or override check as well", _AWAITED))
        if not isinstance(permission, DecideByHuman):
            continue
        check_one_human(permission, name, engine, above)
        human = permission.human if permission.human is not None else asks_for(permission, engine, above).whom()
        asks_itself = type(permission).check is not DecideByHuman.check
        if blocking and not asks_itself and is_human(human) and answers_only_async(human):
            problem = f"{name} in permissions= asks {type(human).__name__}, which answers only asynchronously"
            raise TypeError(fix_message(problem, "await the async form, or give a human with ask", _AWAITED))


_AWAITED = "answer = await agent.arun('Tidy notes.txt')"
