"""Runs inside runs: which permissions bind an agent that is called by another agent's tool.

1. A run that is started inside a tool call is below the run that makes the call.
2. The deny permissions of every run above come first, outermost first.
3. Then the agent's own list; an agent that was given none has the list of the run above it.
4. Each permission asks whoever is asked in the run that wrote it.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from agentperm_nb.errors import NoHumanError, fix_message
from agentperm_nb.permissions.builtin import DecideByHuman
from agentperm_nb.permissions.deciding import PermissionList
from agentperm_nb.permissions.kinds import Permission
from agentperm_nb.running.engine import Engine

__all__ = ["Level", "check_human", "effective", "levels_above", "writer_of"]


@dataclass(frozen=True, slots=True)
class Level:
    """A run that has a tool call under way."""

    engine: Engine
    permissions: PermissionList
    agent_path: tuple[str, ...]


levels_above: ContextVar[tuple[Level, ...]] = ContextVar("agentperm_nb_levels", default=())
"""The runs whose tool calls the calling code works for, outermost first."""


def effective(own: PermissionList, *, given: bool, above: tuple[Level, ...]) -> PermissionList:
    """Return the list that decides.

    Args:
        own: The agent's own list.
        given: Whether the agent was given one.
        above: The runs above.
    """
    if not above:
        return own
    if not given:
        return above[-1].permissions
    items = None if own.unchecked else own.items
    return PermissionList(items, above=[level.permissions for level in above])


def writer_of(permission: Permission | None, engine: Engine, above: tuple[Level, ...]) -> Engine:
    """Return the engine of the run that wrote a permission."""
    for level in above:
        if any(item is permission for item in level.engine.own.items):
            return level.engine
    return engine


def check_human(permissions: PermissionList, engine: Engine, above: tuple[Level, ...]) -> None:
    """Raise NoHumanError when a list needs a person and there is nobody on purpose."""
    for permission, name in permissions.order:
        if not isinstance(permission, DecideByHuman) or permission.human is not None:
            continue
        writer = writer_of(permission, engine, above)
        if writer.human is None and writer.handler is None:
            raise NoHumanError(
                fix_message(
                    f"{name} in permissions= asks the Agent's human, and the agent was made with human=None",
                    "give a human or an approval_handler, or decide without a person",
                    "Agent(tools, permissions=[AllowByReadOnly()], human=None)",
                )
            )
