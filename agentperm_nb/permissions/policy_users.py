"""Rules and modes of a policy: which layer they are of, and those that are for one user.

1. A user is the one on whose behalf the agent works; the id has to be the same, case included.
2. An allow, an ask and a mode are for calls that are made on behalf of that user. A deny reads wide: it also holds for
   the calls of a run below one that works for that user, whoever that run says it works for, and where nobody knows.
"""

from __future__ import annotations

from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.context import get_run_context
from agentperm_nb.permissions.arguments import AllowByArguments, ArgumentRule, AskByArguments, DenyByArguments
from agentperm_nb.permissions.kinds import DenyPermission, Permission
from agentperm_nb.permissions.modes import DenyByMode, StandardPermissions
from agentperm_nb.permissions.steps import ModeStep
from agentperm_nb.permissions.verdicts import Verdict
from agentperm_nb.tools import Tool

__all__ = [
    "AllowByArgumentsForUser",
    "AskByArgumentsForUser",
    "DenyByArgumentsForUser",
    "DenyByModeForUser",
    "FileMode",
    "deny_of_mode",
    "is_for_user",
    "named",
    "of_user",
]


def _works_for(user: str, *, wide: bool) -> bool:
    """Return whether the current run works for a user; read wide, also one above it, or perhaps."""
    context = get_run_context()
    if context is None:
        return wide
    return context.user_id == user or (wide and (context.user_id is None or user in context.users_above))


def named(rule: ArgumentRule, layer: str) -> ArgumentRule:
    """Give a rule the name that says which layer of a policy it is of, and return it.

    Args:
        rule: The rule.
        layer: The layer, with the user where it is for one: ``project, ann``.
    """
    rule.name = f"{layer}: {rule.notation}"
    return rule


def is_for_user(permission: Permission) -> bool:
    """Return whether a permission may have something to say in the current run, as far as the user tells.

    Args:
        permission: Any permission.
    """
    if not isinstance(permission, _ForUser | DenyByModeForUser | FileMode) or permission.user is None:
        return True
    return _works_for(permission.user, wide=isinstance(permission, DenyPermission))


class _ForUser(ArgumentRule):
    user: str = ""

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other) is True and self.user == getattr(other, "user", None)

    def __hash__(self) -> int:
        return hash((type(self), self.notation, self.user))

    def __repr__(self) -> str:
        return f"<{self.user} only: {self}>"

    def may_apply(self, name: str) -> bool:
        """Return whether it may have an opinion of a call of a tool of this name."""
        return self.is_about(name)


class DenyByArgumentsForUser(_ForUser, DenyByArguments):
    """A `DenyByArguments` for one user; `of_user` makes it."""

    blocking = False

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Deny a call of this user that matches."""
        return super().check(state, call, tool) if _works_for(self.user, wide=True) else None


class AllowByArgumentsForUser(_ForUser, AllowByArguments):
    """An `AllowByArguments` for one user; `of_user` makes it."""

    blocking = False

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Allow a call of this user that matches."""
        return super().check(state, call, tool) if _works_for(self.user, wide=False) else None


class AskByArgumentsForUser(_ForUser, AskByArguments):
    """An `AskByArguments` for one user; `of_user` makes it."""

    blocking = False

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Ask about a call of this user that matches."""
        return super().check(state, call, tool) if _works_for(self.user, wide=False) else None


_KINDS: dict[str, type[_ForUser]] = {
    "deny": DenyByArgumentsForUser,
    "allow": AllowByArgumentsForUser,
    "ask": AskByArgumentsForUser,
}


def of_user(rule: ArgumentRule, user: str) -> ArgumentRule:
    """Return the same rule for one user.

    Args:
        rule: The rule.
        user: Id of the user.
    """
    conditions = [(condition.field.text, condition.matcher) for condition in rule.conditions]
    made = _KINDS[rule.verb](rule.tool, reason=rule.reason, arguments=conditions)
    made.user = user
    return made


class DenyByModeForUser(DenyByMode):
    """A `DenyByMode` for one user."""

    blocking = False

    user: str

    def __init__(self, modes: StandardPermissions, part: str, user: str) -> None:
        super().__init__(modes, part)
        self.user = user

    def __repr__(self) -> str:
        return f"<{self.user} only: {super().__repr__()}>"

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Deny a call of this user that the list denies."""
        return super().check(state, call, tool) if _works_for(self.user, wide=True) else None


def deny_of_mode(deny: Any, user: str | None) -> DenyByMode:
    """Return what a list of a mode denies, for everybody or for one user.

    Args:
        deny: One of ``StandardPermissions.denies()``.
        user: Id of the user; None for everybody.
    """
    made: DenyByMode = deny if user is None else DenyByModeForUser(deny.modes, deny.part, user)
    return made


class FileMode(ModeStep):
    """The mode of a policy file, or of a user in it, as a step of a list.

    Args:
        original: The mode with its lists.
        user: Id of the user; None for everybody.
    """

    blocking = False

    original: StandardPermissions
    user: str | None

    def __init__(self, original: StandardPermissions, user: str | None = None) -> None:
        super().__init__(original)
        self.user = user

    def __repr__(self) -> str:
        return repr(self.original) if self.user is None else f"<{self.user} only: {self.original!r}>"

    @property
    def describes(self) -> list[str]:
        """The mode with its lists, and of which file it is."""
        return [f"{self.name}: {self.original!r}"]

    def bypasses(self, user_id: str | None) -> bool:
        """Return whether it is BYPASS for a user."""
        return self.original.bypasses and self.user in (None, user_id)

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Any:
        """Say what the mode says, if it is for the user."""
        if self.user is not None and not _works_for(self.user, wide=False):
            return None
        return super().check(state, call, tool)
