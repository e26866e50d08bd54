"""The card of an agent: what ``agent`` shows as the last line of a cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentperm_nb.approvals.policy_handlers import policy_approver
from agentperm_nb.calls import ToolCall
from agentperm_nb.context import get_run_context
from agentperm_nb.permissions.arguments import ArgumentRule
from agentperm_nb.permissions.builtin import DecideByHuman
from agentperm_nb.permissions.deciding import PermissionList
from agentperm_nb.permissions.kinds import AllowPermission, DenyPermission, Permission
from agentperm_nb.permissions.modes import DenyByMode
from agentperm_nb.permissions.policy_users import is_for_user
from agentperm_nb.permissions.protected import ProtectedPaths
from agentperm_nb.permissions.steps import ModeStep, PolicyStep, Step, UserStep
from agentperm_nb.permissions.verdicts import Allowed, Ask, Denied
from agentperm_nb.render import NO_MATH, escape, table_html, table_text, visible
from agentperm_nb.tools import Tool

if TYPE_CHECKING:
    from agentperm_nb.running.engine import Engine
    from agentperm_nb.running.policy_keeping import Policy

__all__ = ["AgentCard", "policy_facts", "rows", "who_decides", "who_is_asked"]

_COLUMNS = ("tool", "says of itself", "decided by")


@dataclass(frozen=True)
class AgentCard:
    """The facts on the card."""

    name: str
    unchecked: bool
    tools: tuple[tuple[str, str, str], ...]
    facts: tuple[tuple[str, str], ...]
    bypass: bool = False
    """Whether a mode in its list is BYPASS."""

    def text(self) -> str:
        """Return the card as plain text."""
        lines = [visible(self._title())]
        if self.tools:
            lines.append(table_text(_COLUMNS, self.tools))
        lines += [f"{label}: {visible(value)}" for label, value in self.facts]
        return "\n".join(lines)

    def html(self) -> str:
        """Return the card as HTML."""
        table = table_html(_COLUMNS, self.tools) if self.tools else "<div>no tools</div>"
        facts = "".join(
            f'<div><span style="opacity:.75">{escape(label)}</span>&ensp;{escape(value)}</div>'
            for label, value in self.facts
        )
        loud = self.unchecked or self.bypass
        warn = "border-left:3px solid var(--jp-warn-color0,#b35900);padding-left:8px;" if loud else ""
        return (
            f'<div class="{NO_MATH}" style="font-size:var(--jp-ui-font-size1,13px);line-height:1.5;{warn}">'
            f'<div style="font-weight:600">{escape(self._title())}</div>{table}{facts}</div>'
        )

    def _title(self) -> str:
        title = f"Agent {self.name}"
        if self.unchecked:
            return f"{title} · UNCHECKED: permissions=None, every call runs"
        return f"{title} · BYPASS is on: what no deny refuses runs unasked" if self.bypass else title


def who_decides(permissions: PermissionList, tool: Tool) -> str:
    """Return who decides about a tool's calls, as far as its name and hints tell; nobody is asked."""
    if permissions.unchecked:
        return "nobody: UNCHECKED"
    perhaps: list[str] = []
    for permission, name in permissions.order:
        verdict = _opinion(permission, tool)
        if verdict == "":
            continue
        if verdict == "depends":
            perhaps.append(name)
            continue
        if verdict == "decides":
            before = f"perhaps {', '.join(perhaps)}; else " if perhaps else ""
            return f"{before}by {name}, depending on the call"
        before = f"perhaps {', '.join(perhaps)}; else " if perhaps else ""
        return f"{before}{verdict} by {name}"
    return (f"perhaps {', '.join(perhaps)}; else " if perhaps else "") + "denied: no permission allows it"


def _opinion(permission: Permission, tool: Tool) -> str:
    """Return what a permission says of every call of a tool: a verdict, nothing, that it depends, or that it decides.

    What decides always has an opinion, which depends on the call.
    """
    if isinstance(permission, Step):
        return _opinion_of_step(permission, tool)
    if isinstance(permission, ProtectedPaths):
        return ""  # the card names the paths below its table
    if not permission.may_apply(tool.name) or not is_for_user(permission):
        return ""
    if isinstance(permission, ArgumentRule) and (permission.by_arguments or hasattr(permission, "user")):
        words = {"deny": "denied", "ask": "asked", "allow": "allowed"}
        return "depends" if permission.conditions else words[permission.verb]
    known = type(permission).__module__ == "agentperm_nb.permissions.builtin" or isinstance(permission, DenyByMode)
    if known and isinstance(permission, DecideByHuman):
        return "asked"
    if not known:
        return "depends"
    try:
        verdict = permission.check(None, ToolCall(tool.name), tool)
    except Exception:  # noqa: BLE001 - a tool's hints may need arguments
        return "depends"
    return _word(verdict)


def _opinion_of_step(step: Step, tool: Tool) -> str:
    step = _applying(step)
    if isinstance(step, PolicyStep):
        return "depends" if step.original.fallback is None else "decides"
    if not isinstance(step, ModeStep):
        return "decides"
    try:
        said = step.check(None, ToolCall(tool.name), tool)
    except Exception:  # noqa: BLE001 - a tool's hints may need arguments
        return "decides"
    if said is None:
        return ""
    return "decides" if said.warning else _word(said.verdict)


def _word(verdict: object) -> str:
    if isinstance(verdict, Denied):
        return "denied"
    if isinstance(verdict, Allowed):
        return "allowed"
    return "asked" if isinstance(verdict, Ask) else ""


def who_is_asked(engine: Engine) -> str:
    """Return who answers what the permissions of an agent ask: of policies their own handler or the agent's, first."""
    listed: list[str] = []
    for_policies = others = False
    for permission, name in engine.own.order:
        if isinstance(permission, DenyPermission | AllowPermission):
            continue
        step = _applying(permission) if isinstance(permission, Step) else None
        if step is not None and step.handler is not None:
            listed.append(f"{policy_approver(name, step.handler)!r} for {name}")
        elif step is not None and step.has_policy and engine.policy_handler is not None:
            for_policies = True
        else:
            others = True
    if for_policies:
        listed.append(f"{engine.policy_handler!r} for {'other policies' if listed else 'policies'}")
    if others or not listed:
        listed.append(f"{'else ' if listed else ''}{_who_else(engine)}")
    return ", ".join(listed)


def _who_else(engine: Engine) -> str:
    if engine.handler is not None:
        return repr(engine.handler)
    whom = engine.whom()
    if whom is None:
        return "nobody (human=None)" if engine.human is None else "nobody here"
    describe = getattr(whom, "describe", None)
    return str(describe()) if callable(describe) else repr(whom)


def _applying(step: Step) -> Step:
    """Return the step that applies to the user of the run."""
    while isinstance(step, UserStep):
        context = get_run_context()
        step = step.inner(None if context is None else context.user_id)
    return step


def policy_facts(policy: Policy) -> tuple[tuple[str, str], ...]:
    """Return what the card says of an agent's policy: its files, what is wrong with them, and what is protected."""
    facts: list[tuple[str, str]] = []
    if policy.layers or len(policy.session):
        from agentperm_nb.running.policy_text import layer_text

        there = [layer for layer in policy.layers if layer.since is not None]
        said = [f"{layer.name} {layer.path} ({layer_text(layer)})" for layer in there]
        count = len(policy.session)
        said += [f"session ({count} rule{'s' * (count != 1)})"] if count else []
        facts.append(("policy", " · ".join(said) or "no file is there"))
        for layer in policy.layers:
            if layer.problem:
                problem = f"{layer.path} was not taken, the rules before it stay: {layer.problem_in_short}"
                facts.append(("policy problem", problem))
            if layer.caution:
                facts.append(("policy problem", f"{layer.path}: {layer.caution}"))
    if policy.protected is not None:
        facts.append(("protected", ", ".join(dict.fromkeys(one.path for one in policy.protected.paths))))
    return tuple(facts)


def _says_of_itself(tool: Tool) -> str:
    """Return a tool's hints in words."""
    hints = tool.hints
    if hints.read_only:
        return "read-only"
    if hints.said.isdisjoint({"read_only", "destructive"}):
        return "nothing"
    return "destructive" if hints.destructive else "writes"


def rows(permissions: PermissionList, tools: Mapping[str, Tool]) -> tuple[tuple[str, str, str], ...]:
    """Return a row a tool."""
    return tuple((tool.name, _says_of_itself(tool), who_decides(permissions, tool)) for tool in tools.values())
