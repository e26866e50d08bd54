"""Steps: how policies and mode objects join the list of an agent.

1. A policy or mode object is no `Permission`. Each becomes one deciding step of the list; inside it the first match
   wins. The agent's ``permissions`` shows the objects that it was given.
2. A step says which part of it decided, such as the rule. The log's ``decided_by`` is ``step: part``.
3. What a rule or a mode object raises, and an answer that is none, denies that one call, with a warning; a
   ``ToolError`` denies with its message. Nothing is tried a second time.
4. Policies, `StandardPermissions`, `PerUserPermissions` and `AllowAll` decide at once, on any thread. Another object is
   awaited.
5. Whether a call may destroy something is said by the tool's hints for its arguments; a tool that says nothing counts
   as destructive, and a server's word does not lower the risk unless the mode object trusts it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar

from agentperm_nb.calls import ToolCall
from agentperm_nb.context import get_run_context
from agentperm_nb.permissions.kinds import DecidePermission
from agentperm_nb.permissions.mode_objects import PermissionDecision, keywords_of
from agentperm_nb.permissions.modes import AllowAll, PerUserPermissions, StandardPermissions
from agentperm_nb.permissions.policy import PermissionPolicy, PermissionRule, first_match
from agentperm_nb.permissions.said import Said, denial_of, undecided
from agentperm_nb.permissions.types import PermissionResult
from agentperm_nb.permissions.verdicts import Allowed, Ask, Denied, Verdict
from agentperm_nb.tools import Tool

__all__ = [
    "AsyncModeStep",
    "AsyncPerUserStep",
    "ModeStep",
    "PerUserStep",
    "PolicyStep",
    "Step",
    "UserStep",
    "marked",
    "step_of",
]


class Step(DecidePermission):
    """A policy or a mode object as one deciding step of a list."""

    words_its_question: ClassVar[bool] = False
    original: Any
    """The object that was given in ``permissions=``."""

    def __init__(self, original: Any, name: str) -> None:
        self.original = original
        self.name: str | None = getattr(original, "name", None) or name

    def __repr__(self) -> str:
        return repr(self.original)

    @property
    def handler(self) -> Any:
        """Who answers what the step asks, where it has somebody of its own."""
        return None

    @property
    def describes(self) -> list[str]:
        """What it holds, in words, for the log."""
        own: Any = type(self.original).__repr__
        plain = own is object.__repr__  # which would tell where it lies in memory
        return [str(self.name) if plain else repr(self.original)]

    def bypasses(self, user_id: str | None) -> bool:
        """Return whether it lets a user's calls pass that would be asked about."""
        return False

    @property
    def has_policy(self) -> bool:
        """Whether it is a policy, or holds one."""
        return False

    def failed(self, part: str, error: Exception) -> Said:
        """Return the denial of a call that the step could not decide."""
        return undecided(str(self.name), part, error, self)


class PolicyStep(Step):
    """A `PermissionPolicy` in a list."""

    blocking: bool = False

    original: PermissionPolicy

    def __init__(self, original: PermissionPolicy) -> None:
        super().__init__(original, "policy")

    @property
    def handler(self) -> Any:
        """The policy's own handler."""
        return self.original.handler

    @property
    def has_policy(self) -> bool:
        """Whether it is a policy: it is."""
        return True

    @property
    def describes(self) -> list[str]:
        """Its rules in order, and its fallback."""
        rules = [f"{self.name}: {rule.name} -> {rule.result.value}" for rule in self.original.rules if _is_rule(rule)]
        fallback = self.original.fallback
        return [*rules, f"{self.name}: fallback -> {'no opinion' if fallback is None else fallback.value}"]

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Any:
        """Say what the first rule that matches says, else the fallback."""
        found = first_match(self.original.rules, call, tool, self.failed)
        if isinstance(found, PermissionRule):
            return Said(_verdict_of_rule(found, call), found.name, self, found)
        if found is not None:
            return found
        fallback = self.original.fallback
        if fallback is None:
            return None
        return Said(_verdict_of_fallback(fallback, call), "fallback", self)


class ModeStep(Step):
    """A `StandardPermissions` or `AllowAll` in a list."""

    blocking: bool = False

    def __init__(self, original: StandardPermissions | AllowAll) -> None:
        named = "AllowAll" if isinstance(original, AllowAll) else f"StandardPermissions({original.mode.name})"
        super().__init__(original, named)

    def bypasses(self, user_id: str | None) -> bool:
        """Return whether its mode is BYPASS."""
        return isinstance(self.original, StandardPermissions) and self.original.bypasses

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Any:
        """Say what the mode says."""
        if isinstance(self.original, AllowAll):
            return Said(Allowed(), "", self)
        try:
            told = marked(call, tool, trusts_servers=self.original.trust_mcp)
            decision, part = self.original.decide_with_part(told, _user())
        except Exception as error:  # noqa: BLE001 - the tool's own hints may raise anything: that call is denied
            return self.failed("", error)
        return Said(_verdict_of_decision(decision, call), part, self)


class AsyncModeStep(Step):
    """Any other object with ``async check(call, *, context, user_id)`` in a list."""

    def __init__(self, original: Any) -> None:
        super().__init__(original, type(original).__name__)
        self._keywords = keywords_of(original)

    async def acheck(self, state: Any, call: ToolCall, tool: Tool) -> Any:
        """Say what the object says."""
        context = get_run_context()
        told: Mapping[str, Any] = {}
        if context is not None:
            told = {
                "run_id": context.run_id,
                "session_id": context.session_id,
                "agent_path": context.agent_path,
                "metadata": dict(context.metadata),
            }
        given = {"context": told, "user_id": _user()}
        try:
            seen = marked(call, tool, trusts_servers=getattr(self.original, "trust_mcp", False) is True)
            answer = await self.original.check(seen, **{name: given[name] for name in self._keywords})
        except Exception as error:  # noqa: BLE001 - an object of the user's may raise anything: that call is denied
            return self.failed("", error)
        if type(answer) is not PermissionDecision:
            text = f"{self.name} returned {_repr(answer)}, which is no PermissionDecision"
            denied = Denied(f"The call could not be decided: {self.name} gave no decision.")
            return Said(denied, "", self, warning=text)
        try:
            return Said(_verdict_of_decision(answer, call), "", self)
        except AttributeError as error:  # made without its constructor
            return self.failed("", error)


class UserStep(Step):
    """A `PerUserPermissions` in a list: `PerUserStep` or `AsyncPerUserStep`."""

    original: PerUserPermissions

    def __init__(self, original: PerUserPermissions) -> None:
        super().__init__(original, "PerUserPermissions")
        self._steps: dict[int, tuple[Any, Step]] = {}

    def bypasses(self, user_id: str | None) -> bool:
        """Return whether the mode that applies to this user is BYPASS."""
        return self.inner(user_id).bypasses(user_id)

    def inner(self, user_id: str | None) -> Step:
        """Return the step that applies to a user."""
        applies = self.original.for_user(user_id)
        kept = self._steps.get(id(applies))
        if kept is None:
            kept = self._steps[id(applies)] = (applies, step_of(applies))
        return kept[1]

    @property
    def has_policy(self) -> bool:
        """Whether a policy applies to one of its users."""
        parts = (*self.original.policies.values(), self.original.default)
        return any(step_of(part).has_policy for part in parts)

    @property
    def describes(self) -> list[str]:
        """What applies to whom."""
        return [f"{self.name}: {self.original!r}"]

    def _outer(self, said: Any) -> Any:
        if said is None:
            return None
        part = f"{said.step.name}: {said.part}" if said.part else str(said.step.name)
        return Said(said.verdict, part, said.step, said.rule, said.error, said.warning)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_steps": {}}  # they are found by where their objects lie in this process


class PerUserStep(UserStep):
    """A `PerUserPermissions` all of whose parts decide at once."""

    blocking: bool = False

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Any:
        """Say what the part that applies to the user says."""
        return self._outer(self.inner(_user()).check(state, call, tool))


class AsyncPerUserStep(UserStep):
    """A `PerUserPermissions` one of whose parts has to be awaited."""

    async def acheck(self, state: Any, call: ToolCall, tool: Tool) -> Any:
        """Say what the part that applies to the user says."""
        return self._outer(await self.inner(_user()).acheck(state, call, tool))


# --- making steps -----------------------------------------------------------------------------------------------------


def step_of(item: Any) -> Step:
    """Return the step that a policy or a mode object becomes.

    Raises:
        TypeError: It is neither.
    """
    kind = type(item)
    if isinstance(item, PermissionPolicy):
        return PolicyStep(item)
    if kind is AllowAll or (isinstance(item, StandardPermissions) and _is_plain(kind, StandardPermissions)):
        return ModeStep(item)
    if isinstance(item, PerUserPermissions) and _is_plain(kind, PerUserPermissions):
        parts = (*item.policies.values(), item.default)
        return AsyncPerUserStep(item) if any(_is_awaited(part) for part in parts) else PerUserStep(item)
    return AsyncModeStep(item)


def _is_plain(kind: type, ours: type) -> bool:
    """Return whether a class decides as ours does: a ``check`` of its own has to be asked."""
    named = ("check", "decide", "decide_with_part", "for_user")
    return all(getattr(kind, name, None) is getattr(ours, name, None) for name in named)


def _is_awaited(item: Any) -> bool:
    return isinstance(step_of(item), AsyncModeStep | AsyncPerUserStep)


# --- what they say ----------------------------------------------------------------------------------------------------


def _is_rule(rule: object) -> bool:
    return issubclass(type(rule), PermissionRule)


def _verdict_of_rule(rule: PermissionRule, call: ToolCall) -> Verdict:
    if rule.result is PermissionResult.ALLOW:
        return Allowed()
    if rule.result is PermissionResult.ASK:
        return Ask(rule.reason.strip() or f"The rule {rule.name} asks about this call.")
    return denial_of(rule, call)


def _verdict_of_fallback(fallback: PermissionResult, call: ToolCall) -> Verdict:
    if fallback is PermissionResult.ALLOW:
        return Allowed()
    if fallback is PermissionResult.ASK:
        return Ask("No rule of the policy matches this call.")
    return Denied(f"{call.name} is denied: no rule of the policy allows it.")


def _verdict_of_decision(decision: PermissionDecision, call: ToolCall) -> Verdict:
    reason = (decision.reason or "").strip()
    if decision.decision == "allow":
        return Allowed()
    if decision.decision == "ask":
        return Ask(reason or f"{call.name}: approval required")
    return Denied(reason or f"{call.name}: denied by policy")


def marked(call: ToolCall, tool: Tool, *, trusts_servers: bool = False) -> ToolCall:
    """Return the call with what its tool says of it.

    Args:
        call: The call.
        tool: Its tool.
        trusts_servers: Whether to believe a server that says its tool destroys nothing.

    Raises:
        Exception: Whatever the tool's own ``hints_for`` raised.
    """
    hints = tool.hints_for(call.args)
    from_server = tool.server is not None or hints.source != "tool"
    return call.marked(hints.destructive is not False or (from_server and not trusts_servers))


def _user() -> str | None:
    context = get_run_context()
    return None if context is None else context.user_id


def _repr(value: object) -> str:
    if inspect.iscoroutine(value):
        value.close()
    try:
        return repr(value)[:200]
    except Exception:  # noqa: BLE001 - a foreign repr may do anything
        return f"a {type(value).__name__}"
