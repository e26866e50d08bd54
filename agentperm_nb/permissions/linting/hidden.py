"""Denies of a policy or a mode that an allow, or a question, before it hides: found by example calls.

1. A deny is hidden from a call when the step, asked alone, denies the call by one of its rules or lists, and a
   permission before it in the list allows it or has it asked about.
2. A fallback is what is left to a policy by others, and hides nothing. A deny that is in the list as a permission of
   its own (``*policy.denies()``) is not hidden.
3. The functions of a policy's rules are called with example calls. Checks of the user's own classes are not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.permissions.arguments import ArgumentRule
from agentperm_nb.permissions.builtin import AllowByReadOnly, DecideByHuman, settled_by_name
from agentperm_nb.permissions.kinds import DenyPermission, Permission
from agentperm_nb.permissions.linting.examples import calls_of, in_words
from agentperm_nb.permissions.linting.findings import Finding
from agentperm_nb.permissions.linting.units import Subject, is_rule
from agentperm_nb.permissions.modes import DenyByMode
from agentperm_nb.permissions.policy import DenyByPolicy
from agentperm_nb.permissions.protected import ProtectedPaths
from agentperm_nb.permissions.steps import ModeStep, PolicyStep
from agentperm_nb.permissions.verdicts import Allowed, Ask, Denied
from agentperm_nb.tools import Tool

__all__ = ["hidden_denies"]

_MOST_CALLS = 2_000


def hidden_denies(subject: Subject) -> Iterator[Finding]:
    """Yield the permissions that hide a deny of a policy or a mode after them."""
    steps = [
        (place, permission)
        for place, (permission, _) in enumerate(subject.order)
        if isinstance(permission, PolicyStep | ModeStep)
    ]
    if not steps or not subject.tools:
        return
    told: set[tuple[str, str]] = set()
    for tool, call in _calls(subject):
        for place, step in steps:
            part = _denied_by(step, call, tool)
            if not part or _is_denied_anyway(subject, call, tool):
                continue
            found = _decides_before(subject, place, call, tool)
            if found is None or (found[1], str(step.name)) in told:
                continue
            told.add((found[1], str(step.name)))
            own = "*policy.denies()" if isinstance(step, PolicyStep) else "*modes.denies()"
            yield _finding(subject.order[place][1], part, *found, in_words(call), own)


def _calls(subject: Subject) -> Iterator[tuple[Tool, ToolCall]]:
    rules = [permission for permission, _ in subject.order if is_rule(permission) and permission.verb != "deny"]
    left = _MOST_CALLS
    for tool in subject.tools.values():
        for call in calls_of(tool, [rule for rule in rules if rule.is_about(tool.name)]):
            if left == 0:
                return
            left -= 1
            yield tool, call


def _denied_by(step: PolicyStep | ModeStep, call: ToolCall, tool: Tool) -> str:
    """Return which rule or list of a step denies a call by itself."""
    said: Any = step.check(None, call, tool)
    if said is None or said.error is not None or not isinstance(said.verdict, Denied):
        return ""
    return str(said.part) if said.part != "fallback" or said.rule is not None else ""


def _is_denied_anyway(subject: Subject, call: ToolCall, tool: Tool) -> bool:
    for permission, _ in subject.order:
        known = isinstance(permission, DenyByPolicy | DenyByMode) or (
            isinstance(permission, DenyPermission) and _is_ours(permission)
        )
        try:
            if known and permission.check(None, call, tool) is not None:
                return True
        except Exception:  # noqa: BLE001 - a rule of the policy that fails denies the call
            return True
    return False


def _is_ours(permission: Permission) -> bool:
    return is_rule(permission) or settled_by_name(permission)


def _decides_before(subject: Subject, place: int, call: ToolCall, tool: Tool) -> tuple[Permission, str, bool] | None:
    """Return the permission before a step that decides a call, its name, and whether it allows it; None if unknown."""
    for permission, name in subject.order[:place]:
        if isinstance(permission, DenyPermission):
            continue
        if isinstance(permission, DecideByHuman):
            return None if permission.asks_by_itself else (permission, name, False)
        plain = isinstance(permission, ProtectedPaths) or (
            isinstance(permission, AllowByReadOnly) and type(permission).check is AllowByReadOnly.check
        )
        if not plain and not _is_ours(permission) and not isinstance(permission, PolicyStep | ModeStep):
            return None  # what it says is not known
        try:
            said: Any = permission.check(None, call, tool)
        except Exception:  # noqa: BLE001 - a tool's own hints may fail: then the call is denied
            return None
        verdict = getattr(said, "verdict", said)
        if verdict is not None:
            return (permission, name, isinstance(verdict, Allowed)) if isinstance(verdict, Allowed | Ask) else None
    return None


def _finding(step: str, part: str, permission: Permission, name: str, allows: bool, call: str, own: str) -> Finding:
    narrow = isinstance(permission, ArgumentRule) and bool(permission.conditions)
    does = "allows" if allows else "asks about"
    return Finding(
        "hidden-deny",
        f"{name} {does} calls before {step} is asked, which denies them ({part}).",
        f"put {own} into the list as well: its denies as permissions of their own; or put {step} first",
        name,
        f"{call} is {'allowed' if allows else 'asked about'} by {name}, and {part} would deny it",
        "note" if narrow else "warning",
    )
