"""The rules of a list as lint compares them: verb, pattern of tools, conditions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, TypeGuard

from agentperm_nb.permissions.arguments import ArgumentRule
from agentperm_nb.permissions.builtin import AllowByDefault, AllowByName, DecideByHuman, DenyByName, settled_by_name
from agentperm_nb.permissions.kinds import Permission
from agentperm_nb.permissions.linting.covering import has_wildcard
from agentperm_nb.permissions.linting.nearness import may_match
from agentperm_nb.permissions.matching.conditions import Condition
from agentperm_nb.permissions.modes import AllowAll, StandardPermissions
from agentperm_nb.permissions.policy_users import (
    AllowByArgumentsForUser,
    AskByArgumentsForUser,
    DenyByArgumentsForUser,
)
from agentperm_nb.permissions.steps import AsyncModeStep, ModeStep, PolicyStep, Step, UserStep
from agentperm_nb.tools import Tool

__all__ = ["Subject", "Unit", "decides_always", "is_rule", "name_patterns", "units_of"]

_FOR_USERS = (DenyByArgumentsForUser, AllowByArgumentsForUser, AskByArgumentsForUser)


class Unit:
    """A rule, or one pattern of a rule on names.

    Args:
        permission: The permission that it is of.
        name: What the log calls that.
        verb: ``deny``, ``allow`` or ``ask``.
        pattern: The pattern of tools' names.
        conditions: What it asks of the arguments.
        lenient: Whether the pattern is one of `fnmatch`.
    """

    def __init__(
        self,
        permission: Permission,
        name: str,
        verb: str,
        pattern: str,
        conditions: tuple[Condition, ...] = (),
        *,
        lenient: bool = False,
    ) -> None:
        self.permission: Permission = permission
        self.name: str = name
        self.verb: str = verb
        self.pattern: str = pattern
        self.conditions: tuple[Condition, ...] = conditions
        self.lenient: bool = lenient

    @property
    def for_everybody(self) -> bool:
        """Whether it holds whoever the agent works for."""
        return not getattr(self.permission, "user", "")

    @property
    def wide(self) -> bool:
        """Whether it reads wide."""
        return self.verb != "allow"

    @cached_property
    def has_wildcard(self) -> bool:
        """Whether its pattern may match several names."""
        return has_wildcard(self.pattern, lenient=self.lenient)

    @cached_property
    def _named(self) -> DenyByName | AllowByName:
        return (DenyByName if self.wide else AllowByName)([self.pattern])

    def is_about(self, name: str) -> bool:
        """Return whether it is about a tool of this name."""
        if isinstance(self.permission, ArgumentRule):
            return self.permission.is_about(name)
        return self._named.for_name(name) is not None

    @property
    def reason(self) -> str | None:
        """The reason that it was given."""
        return getattr(self.permission, "reason", None)

    @property
    def text(self) -> str:
        """The rule in words; one pattern of several is named."""
        several = isinstance(self.permission, DenyByName | AllowByName) and len(self.permission.patterns) > 1
        return f"{self.pattern} in {self.name}" if several else self.name


class Subject:
    """What lint looks at.

    Args:
        order: (permission, name) in the order of asking.
        tools: The tools that the list decides about.
    """

    def __init__(self, order: Sequence[tuple[Permission, str]], tools: Iterable[Tool]) -> None:
        self.order: tuple[tuple[Permission, str], ...] = tuple(order)
        self.tools: dict[str, Tool] = {tool.name: tool for tool in tools}

    @cached_property
    def units(self) -> list[list[Unit]]:
        """The units of each permission, in order; none of one that is no rule on names or arguments."""
        return [units_of(permission, name) for permission, name in self.order]

    @cached_property
    def units_by_name(self) -> dict[str, list[Unit]]:
        """The units by the name of their permission."""
        return {name: units for (_, name), units in zip(self.order, self.units, strict=True)}

    def about(self, unit: Unit) -> list[Tool]:
        """Return the tools that a unit is about."""
        if not unit.has_wildcard and not unit.wide:
            tool = self.tools.get(unit.pattern)
            return [] if tool is None or not unit.is_about(unit.pattern) else [tool]
        known = self._about.get(unit.pattern if unit.wide else f"={unit.pattern}")
        if known is None:
            known = [self.tools[name] for name in may_match(unit.pattern, self.tools) if unit.is_about(name)]
            self._about[unit.pattern if unit.wide else f"={unit.pattern}"] = known
        return known

    @cached_property
    def _about(self) -> dict[str, list[Tool]]:
        return {}


def units_of(permission: Permission, name: str) -> list[Unit]:
    """Return the units of a permission.

    Args:
        permission: The permission.
        name: What the log calls it.
    """
    if isinstance(permission, ArgumentRule):
        if not is_rule(permission):
            return []
        return [Unit(permission, name, permission.verb, permission.tool, permission.conditions)]
    if not settled_by_name(permission):
        return []
    if isinstance(permission, AllowByDefault):
        return [Unit(permission, name, "allow", "*")]
    verb = "deny" if isinstance(permission, DenyByName) else "allow"
    return [Unit(permission, name, verb, pattern, lenient=True) for pattern in permission.patterns]


def is_rule(permission: Permission) -> TypeGuard[ArgumentRule]:
    """Return whether a permission decides as a rule on arguments does, perhaps for one user only.

    Args:
        permission: The permission.
    """
    return isinstance(permission, ArgumentRule) and (permission.by_arguments or isinstance(permission, _FOR_USERS))


def name_patterns(permission: Permission, name: str) -> Iterator[Unit]:
    """Yield every pattern of names in a permission, those in the lists of a mode too.

    Args:
        permission: The permission.
        name: What the log calls it.
    """
    if not isinstance(permission, AllowByDefault):
        yield from units_of(permission, name)
    if isinstance(permission, Step):
        for modes in _modes_of(permission.original):
            for verb, what in (("deny", "denied_tools"), ("allow", "allowed_tools"), ("allow", "edit_tools")):
                for pattern in getattr(modes, what) or ():
                    yield Unit(permission, f"{what} of {name}", verb, pattern, lenient=True)


def _modes_of(original: Any) -> Iterator[StandardPermissions]:
    if isinstance(original, StandardPermissions):
        yield original
    for part in (*getattr(original, "policies", {}).values(), getattr(original, "default", None)):
        if isinstance(part, StandardPermissions):
            yield part


def decides_always(permission: Permission) -> str:
    """Return in words what becomes of every call that reaches a permission, or an empty text where it depends.

    Args:
        permission: The permission.
    """
    if isinstance(permission, DecideByHuman):
        return "" if permission.asks_by_itself else "asks about every call that reaches it"
    if isinstance(permission, PolicyStep):
        fallback = permission.original.fallback
        return "" if fallback is None else f"decides every call that reaches it, by its fallback {fallback.value}"
    if isinstance(permission, UserStep):
        parts = (*permission.original.policies.values(), permission.original.default)
        sure = all(getattr(part, "fallback", "decides") is not None for part in parts)
        return "decides every call that reaches it" if sure else ""
    if isinstance(permission, ModeStep) and getattr(permission, "user", None) is None:
        allows = isinstance(permission.original, AllowAll) or permission.original.bypasses
        return f"{'allows' if allows else 'decides'} every call that reaches it"
    if isinstance(permission, AsyncModeStep):
        return "decides every call that reaches it"
    for unit in units_of(permission, ""):
        if unit.for_everybody and not unit.conditions and unit.pattern.strip("*") == "":
            done = {"deny": "denies every call", "ask": "asks about every call that reaches it"}
            return done.get(unit.verb, "allows every call that reaches it")
    return ""
