"""What may stand in ``permissions=``: permissions, rules as text, policies and mode objects.

1. A policy or mode object becomes a step of the list (`permissions.steps`); a text is read as a rule
   (`permissions.notation`).
2. Nothing is guessed: a class, a configuration, or an object that only looks like one of these is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.kinds import Permission
from agentperm_nb.permissions.mode_objects import Permissions, is_mode_object
from agentperm_nb.permissions.modes import AllowAll, Mode, PerUserPermissions, StandardPermissions
from agentperm_nb.permissions.policy import PermissionPolicy, PermissionRule
from agentperm_nb.permissions.steps import step_of

__all__ = ["PermissionItem", "wrapped"]

PermissionItem: TypeAlias = Permission | PermissionPolicy | Permissions | str
"""What may stand in ``permissions=``: a permission, a policy, a mode object, or a rule as text."""

_EXAMPLE = "Agent(tools, permissions=[AllowByReadOnly(), DecideByHuman()])"


def wrapped(permissions: object) -> tuple[Permission, ...]:
    """Return the permissions of ``permissions=`` as a tuple, policies and mode objects as their steps.

    Raises:
        TypeError: It is neither a list of permissions, policies and mode objects, nor one of these.
    """
    if issubclass(type(permissions), Permission) or _is_step(permissions):
        permissions = (permissions,)
    # Of a dict only the keys would count: one with texts is meant for a configuration.
    configuration = isinstance(permissions, Mapping) and any(isinstance(key, str) for key in permissions)
    if configuration or (isinstance(permissions, str) and _names_mode(permissions)):
        raise _no_object(permissions)
    if isinstance(permissions, type | PermissionRule):
        _wrapped_one(permissions)  # raises as inside a list, and says what it is
    if isinstance(permissions, str | bytes) or not isinstance(permissions, Iterable):
        raise TypeError(
            fix_message(
                f"permissions= takes a list of permissions (got: {permissions!r})",
                "give a list; [] denies every call, None switches the checks off",
                _EXAMPLE,
            )
        )
    return tuple(_wrapped_one(item) for item in permissions)


def _wrapped_one(item: Any) -> Permission:
    if isinstance(item, Mapping) or (isinstance(item, str) and _names_mode(item)):
        raise _no_object(item)
    if isinstance(item, str):
        from agentperm_nb.permissions import notation

        return notation.rule(item)
    if isinstance(item, type):
        problem = f"{item.__name__} passed in permissions= is not a Permission object (it is the class)"
        raise TypeError(fix_message(problem, f"make an object of it: {item.__name__}(...)", _EXAMPLE))
    if issubclass(type(item), Permission):  # its real type: a mock with a spec only claims to be one
        checked: Permission = item
        return checked
    if isinstance(item, PermissionRule):
        raise TypeError(
            fix_message(
                f"{item!r} passed in permissions= is not a Permission object: a rule belongs to a policy",
                "put it into a PermissionPolicy",
                "Agent(tools, permissions=PermissionPolicy([ASK_DESTRUCTIVE, ALLOW_READONLY]))",
            )
        )
    if not _is_step(item):
        raise TypeError(
            fix_message(
                f"{item!r} passed in permissions= is not a Permission object",
                "use the built-in permissions, a PermissionPolicy or StandardPermissions, or subclass one of the three "
                "kinds",
                _EXAMPLE,
            )
        )
    return step_of(item)


def _names_mode(text: str) -> bool:
    words = {"strict", "bypass", "accept_edits", "allow_all", *(mode.value.lower() for mode in Mode)}
    return isinstance(text, Mode) or text.strip().lower().replace("-", "_") in words


def _no_object(form: object) -> TypeError:
    return TypeError(
        fix_message(
            f"{form!r} passed in permissions= is not a Permission object",
            "make an object of it with resolve_permissions, or give StandardPermissions",
            "Agent(tools, permissions=resolve_permissions('strict'))\n"
            "Agent(tools, permissions=StandardPermissions(mode=Mode.ACCEPT_EDITS))",
        )
    )


_OURS: tuple[type, ...] = (PermissionPolicy, StandardPermissions, PerUserPermissions, AllowAll)


def _is_step(item: object) -> bool:
    return issubclass(type(item), _OURS) or (not issubclass(type(item), Permission) and is_mode_object(item))
