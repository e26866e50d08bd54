"""What a list leaves to people, servers and modes: nobody to ask, hints that are believed, checks that are off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.permissions.arguments import ArgumentRule
from agentperm_nb.permissions.builtin import AllowByReadOnly, DecideByHuman
from agentperm_nb.permissions.builtin_rules import allow_readonly
from agentperm_nb.permissions.kinds import Permission
from agentperm_nb.permissions.linting.examples import call_for, in_words, plain_call
from agentperm_nb.permissions.linting.findings import Finding
from agentperm_nb.permissions.linting.units import Subject
from agentperm_nb.permissions.modes import AllowAll, Mode, StandardPermissions
from agentperm_nb.permissions.policy import PermissionPolicy
from agentperm_nb.permissions.steps import Step
from agentperm_nb.permissions.types import PermissionResult

__all__ = ["checks_off", "nobody_to_ask", "too_wide", "trusts_servers"]


def _parts_of(permission: Permission) -> Iterator[Any]:
    """Yield the policies and mode objects of a step: itself, and what it holds for users."""
    if isinstance(permission, Step):
        original = permission.original
        yield original
        policies = getattr(original, "policies", None)
        if policies is not None:
            yield from (*policies.values(), original.default)


def nobody_to_ask(subject: Subject, *, on_purpose: bool, policy_handler: bool) -> Iterator[Finding]:
    """Yield the permissions that ask, where nobody is there to answer.

    Args:
        subject: What lint looks at.
        on_purpose: Whether there is nobody on purpose, and not only here and now.
        policy_handler: Whether somebody answers what a policy asks.
    """
    asking = [
        (permission, name) for permission, name in subject.order if _asks(permission, policy_handler=policy_handler)
    ]
    if not asking:
        return
    first, name = asking[0]
    names = ", ".join(one for _, one in asking[:3]) + (f" and {len(asking) - 3} more" if len(asking) > 3 else "")
    fix = "give a human= or an approval_handler=, or rules that decide without a person"
    if any(isinstance(permission, Step) for permission, _ in asking):
        fix = f"{fix}; a policy may have a handler= of its own"
    why = "human=None" if on_purpose else "here is neither a notebook nor a terminal"
    asks = "asks" if len(asking) == 1 else "ask"
    message = f"{names} {asks} a person, and there is nobody to ask ({why})."
    call = _asked_about(subject, first)
    example = f"{in_words(call)} is denied when it comes to {name}" if call is not None else ""
    yield Finding("nobody-to-ask", message, fix, name, example, "warning" if on_purpose else "note")


def _asked_about(subject: Subject, permission: Permission) -> ToolCall | None:
    for tool in subject.tools.values():
        if not isinstance(permission, ArgumentRule):
            call = plain_call(tool)
        else:
            call = call_for(permission, tool) if permission.is_about(tool.name) else None
        if call is not None:
            return call
    return None


def _asks(permission: Permission, *, policy_handler: bool) -> bool:
    if isinstance(permission, DecideByHuman):
        return permission.human is None and not permission.asks_by_itself
    if isinstance(permission, ArgumentRule):
        return permission.verb == "ask"
    for part in _parts_of(permission):
        if isinstance(part, PermissionPolicy) and part.handler is None and not policy_handler:
            results = [getattr(rule, "result", None) for rule in part.rules]
            if PermissionResult.ASK in results or part.fallback is PermissionResult.ASK:
                return True
        if isinstance(part, StandardPermissions) and (
            part.mode is Mode.DEFAULT or (part.mode is Mode.ACCEPT_EDITS and part.edit_tools is not None)
        ):
            return True
    return False


def trusts_servers(subject: Subject) -> Iterator[Finding]:
    """Yield the permissions that believe what servers say of their tools."""
    trusting = allow_readonly(trust_mcp=True)
    for permission, name in subject.order:
        believes = isinstance(permission, AllowByReadOnly) and permission.trust_mcp
        for part in _parts_of(permission):
            believes = believes or getattr(part, "trust_mcp", False) is True
            if isinstance(part, PermissionPolicy):
                believes = believes or any(rule is trusting for rule in part.rules)
        if not believes:
            continue
        theirs = [tool for tool in subject.tools.values() if tool.server is not None]
        lets = [tool for tool in theirs if tool.hints.read_only is True or tool.hints.destructive is False]
        call = plain_call(lets[0]) if lets else None
        yield Finding(
            "trusts-servers",
            f"{name} believes what servers say of their tools. A server can say of any tool that it only reads.",
            "name the tools that you have looked at: AllowByName([…])",
            name,
            f"{in_words(call)} is let through by the word of {lets[0].server}" if call is not None else "",
            "warning" if lets else "note",
        )


def checks_off(subject: Subject, *, unchecked: bool, empty: bool) -> Iterator[Finding]:
    """Yield what switches checks off, and what decides nothing.

    Args:
        subject: What lint looks at.
        unchecked: Whether the list is None.
        empty: Whether it is ``[]``.
    """
    if unchecked:
        fix = "give a list; left out, read-only calls pass and a person is asked about the rest"
        yield Finding("unchecked", "permissions=None switches the checks off: every call runs.", fix)
    if empty:
        fix = "nothing, where that is meant; None would switch the checks off"
        yield Finding("empty-list", "The list is empty, so that every call is denied.", fix, severity="note")
    for permission, name in subject.order:
        for part in _parts_of(permission):
            if isinstance(part, AllowAll) or (isinstance(part, StandardPermissions) and part.bypasses):
                yield Finding(
                    "bypass-on",
                    f"{name} lets every call pass that nothing denies; nobody is asked.",
                    "use Mode.DEFAULT or Mode.ACCEPT_EDITS, and keep BYPASS for a sandbox",
                    name,
                )
            if isinstance(part, PermissionPolicy) and not part.rules:
                says = "has no opinion" if part.fallback is None else f"says {part.fallback.value} to every call"
                fix = "give it rules, or leave it out"
                yield Finding("empty-policy", f"{name} has no rules: it {says}.", fix, name)


def too_wide(subject: Subject) -> Iterator[Finding]:
    """Yield the allows by a pattern of names that take in a tool that says it may destroy something."""
    for units in subject.units:
        for unit in units:
            if unit.verb != "allow" or unit.conditions or not unit.has_wildcard or unit.pattern.strip("*") == "":
                continue
            found = [
                tool
                for tool in subject.about(unit)
                if "destructive" in tool.hints.said and tool.hints.destructive is True
            ]
            if found:
                call, named = plain_call(found[0]), ", ".join(tool.name for tool in found[:3])
                yield Finding(
                    "too-wide-allow",
                    f"{unit.text} also allows {named}, which may destroy something.",
                    "name the tools that are meant, or deny these",
                    unit.name,
                    f"{in_words(call)} is allowed by it" if call is not None else "",
                    "note",
                )
