"""The law: in which order a call's permissions are asked, and what their answers mean.

For one call:

1. Every `DenyPermission`, in list order, wherever it stands. The first ``Denied`` decides.
2. Every `AskFirst`: a call that would write a protected path is asked about, whatever the rest would say.
3. Every other permission, in list order. The first verdict decides: ``Allowed()``, ``Denied(...)`` or ``Ask(...)``.
4. Nobody decided: denied.

A ``ToolError`` raised by a permission denies the call with its message. Any other exception, a ``ToolInputError`` too,
leaves the call undecided and goes to the caller, with a note that names the permission and the call. A return value
that the permission's kind does not allow is such an exception. Nothing but ``Allowed()``, or a person's answer to an
``Ask``, lets a call run.

A policy or a mode object is one deciding step of the list (`permissions.steps`), which says itself which part of it
decided, and denies a call that it could not decide.

The order is one generator, `deciding`. It asks the built-in rules itself and hands every other permission to its driver
as a `Check`; `decide` drives it on the calling thread, `adecide` on the event loop, and a turn drives many of them.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import ToolError, ToolInputError
from agentperm_nb.json_values import sha256
from agentperm_nb.permissions.builtin import DecideByHuman, latest_change, settled_by_name
from agentperm_nb.permissions.kinds import (
    AskFirst,
    DenyPermission,
    Permission,
    fits,
    names_of,
    wrong_verdict,
)
from agentperm_nb.permissions.policy import DenyByPolicy
from agentperm_nb.permissions.said import Said
from agentperm_nb.permissions.steps import AsyncModeStep, Step
from agentperm_nb.permissions.verdicts import Allowed, Denied, Verdict
from agentperm_nb.permissions.wrapping import wrapped
from agentperm_nb.redaction import Redactor
from agentperm_nb.tools import Tool

if TYPE_CHECKING:
    from agentperm_nb.permissions.rule_index import RuleIndex

__all__ = [
    "FEWEST_INDEXED",
    "NOBODY",
    "Check",
    "Decision",
    "PermissionList",
    "Plan",
    "adecide",
    "decide",
    "deciding",
    "resume",
    "resume_error",
    "settle",
]

NOBODY = "No permission allowed this call."

FEWEST_INDEXED = 16
"""Fewer rules on arguments of one tool are asked one by one."""


class PermissionList:
    """The permissions of an agent in the order of asking, with their names.

    Args:
        permissions: A list of permissions, policies and mode objects, or None: then nothing is checked, and what is not
            denied above may run.
        above: The lists of the runs above, outermost first. Their deny permissions come first, and what they ask first
            is asked first.

    Raises:
        TypeError: It is not a list of permissions.
    """

    def __init__(self, permissions: object, *, above: Iterable[PermissionList] = ()) -> None:
        self.unchecked: bool = permissions is None
        """Whether the list is None."""
        self.items: tuple[Permission, ...] = () if permissions is None else wrapped(permissions)
        """The agent's own permissions, in list order; policies and mode objects as their steps."""
        inherited: dict[int, Permission] = {}
        for higher in above:
            inherited.update((id(item), item) for item in higher.binding)
        own = [item for item in self.items if id(item) not in inherited]
        everything = [*inherited.values(), *own]
        named = list(zip(everything, names_of(everything), strict=True))
        denies = [entry for entry in named if isinstance(entry[0], DenyPermission)]
        first = [entry for entry in named if isinstance(entry[0], AskFirst)]
        others = [entry for entry in named if not isinstance(entry[0], DenyPermission | AskFirst)]
        self.binding: tuple[Permission, ...] = tuple(item for item, _ in (*denies, *first))
        """What also holds for the runs below: the denies, and what is asked first."""
        self.order: tuple[tuple[Permission, str], ...] = (*denies, *first, *others)
        """(permission, name) in the order of asking."""
        self.reads_files: bool = any(item.reads_files for item, _ in self.order)
        self.has_foreign: bool = any(_is_foreign(item) for item, _ in self.order)
        """Whether code that is not ours sees the arguments of a call, and may try to change them."""
        """Whether a permission of it reads the file system, which may change before a call starts."""
        self._plans: dict[str, Plan] = {}

    def bound_by(self, lists: Iterable[PermissionList]) -> PermissionList:
        """Return the same list with what is binding in others, too; the list itself where that is nothing new."""
        mine = {id(item) for item in self.binding}
        more = [other for other in lists if any(id(item) not in mine for item in other.binding)]
        return PermissionList(None if self.unchecked else self.items, above=[self, *more]) if more else self

    def plan(self, name: str) -> Plan:
        """Return how calls of a tool of this name are decided: the rules on names are read once, until one changes."""
        plan = self._plans.get(name)
        change = latest_change()
        if plan is None or plan.change != change:
            # The number is read before the rules: a plan from rules that change meanwhile is never taken for new.
            plan = self._plans[name] = self._plan(name, change)
        return plan

    def _plan(self, name: str, change: int) -> Plan:
        entries: list[tuple[Permission, str, Verdict | None]] = []
        for permission, called in self.order:
            if not permission.may_apply(name):
                continue
            verdict = permission.for_name(name) if settled_by_name(permission) else None
            if verdict is not None or not settled_by_name(permission):
                entries.append((permission, called, verdict))
            if verdict is not None:
                break
        decision = None
        if entries:
            permission, called, verdict = entries[0]
            decision = Decision(verdict, called, permission.kind, permission) if verdict is not None else None
        return Plan(change, tuple(entries), decision, _index_of(tuple(entries)))

    def __getstate__(self) -> dict[str, Any]:
        # The plans stay behind: their numbers mean nothing in another process.
        return {**vars(self), "_plans": {}}

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of asking."""
        return tuple(name for _, name in self.order)

    @property
    def given(self) -> tuple[Any, ...]:
        """The agent's own permissions as they were given."""
        return tuple(item.original if isinstance(item, Step) else item for item in self.items)

    def bypasses(self, user_id: str | None) -> bool:
        """Return whether a mode of the list is BYPASS for a user."""
        return any(isinstance(item, Step) and item.bypasses(user_id) for item, _ in self.order)

    @property
    def has_policy(self) -> bool:
        """Whether there is a policy in the list."""
        return any(isinstance(item, Step) and item.has_policy for item in self.items)

    def describe(self) -> list[str]:
        """Return what is in the list, in the order of asking, the rules of a policy one by one."""
        return [text for item, name in self.order for text in _described(item, name)]

    @cached_property
    def policy_id(self) -> str:
        """What the log calls the list: another one for other permissions."""
        return "unchecked" if self.unchecked else "policy_" + sha256(json.dumps(self.describe()))[:12]

    def __repr__(self) -> str:
        return "UNCHECKED" if self.unchecked else f"[{', '.join(self.names)}]"


@dataclass(frozen=True, slots=True)
class Decision:
    """What the order of asking came to for one call."""

    verdict: Verdict
    """``Allowed()``, ``Denied(...)`` or ``Ask(...)``."""
    decided_by: str | None
    """Name of the permission that decided, with the part of a policy or mode that did; None when nobody did or nothing
    is checked."""
    kind: str
    """Kind of that permission, or ``nobody``, or ``unchecked``."""
    permission: Permission | None = None
    error: Exception | None = None
    """The ToolError with which a permission denied, or what a policy or mode object raised."""
    part: str = ""
    """Which part of a policy or mode object decided, such as the name of a rule."""
    said: Said | None = None
    """What a policy or mode object said, in full."""


@dataclass(slots=True, eq=False, repr=False)
class Plan:
    """How calls of a tool of one name are decided by a list."""

    change: int
    """Which state of the rules it was made from."""
    entries: tuple[tuple[Permission, str, Verdict | None], ...]
    """(permission, name, verdict) of those that may have an opinion; the verdict where the tool's name settles it."""
    decision: Decision | None
    """The decision, where the tool's name settles it."""
    index: RuleIndex | None = None
    """Which of many rules on arguments a call is put to."""

    def entries_for(self, call: ToolCall, tool: Tool) -> Iterable[tuple[Permission, str, Verdict | None]]:
        """Return the entries that may have an opinion of a call, in the order of asking."""
        return self.entries if self.index is None else self.index.candidates(call, tool)


def _index_of(entries: tuple[tuple[Permission, str, Verdict | None], ...]) -> RuleIndex | None:
    if sum(permission.by_arguments for permission, _, _ in entries) < FEWEST_INDEXED:
        return None
    from agentperm_nb.permissions.rule_index import RuleIndex

    return RuleIndex(entries)


@dataclass(slots=True, eq=False, repr=False)
class Check:
    """A permission that the driver has to ask: ``check`` on a thread or ``acheck`` on the event loop."""

    permission: Permission
    state: Any
    call: ToolCall
    tool: Tool

    @property
    def asks_person(self) -> bool:
        """Whether asking it puts a question to a person."""
        return isinstance(self.permission, DecideByHuman)


def _described(item: Permission, name: str) -> list[str]:
    return item.describes if isinstance(item, Step | DenyByPolicy) else [name]


def _is_foreign(item: Permission) -> bool:
    return not type(item).__module__.startswith(f"{__package__}.") or isinstance(item, AsyncModeStep)


def deciding(
    permissions: PermissionList, state: Any, call: ToolCall, tool: Tool
) -> Generator[Check, Verdict | None, Decision]:
    """Ask the permissions about a call; yield those that the driver has to ask, return the decision.

    Args:
        permissions: The list.
        state: The State of the run that makes the call.
        call: The call.
        tool: The tool that would run.

    Raises:
        TypeError: A permission returned what its kind may not.
        Exception: Whatever a permission raised, but for a ToolError that denies.
    """
    answer: Any
    for permission, name, settled in permissions.plan(call.name).entries_for(call, tool):
        if settled is not None:
            return Decision(settled, name, permission.kind, permission)
        try:
            if isinstance(permission, DecideByHuman):
                if permission.asks_by_itself:
                    answer = yield Check(permission, state, call, tool)
                else:
                    answer = permission.as_ask(call, tool)
            elif permission.blocking or type(permission).acheck is not Permission.acheck:
                answer = yield Check(permission, state, call, tool)
            else:
                answer = permission.check(state, call, tool)
            said = answer if isinstance(permission, Step | DenyByPolicy) and type(answer) is Said else None
            verdict = answer if said is None else said.verdict
            if not fits(permission, verdict):
                raise wrong_verdict(permission, verdict)
        except Exception as raised:
            if isinstance(raised, ToolError) and not isinstance(raised, ToolInputError):
                return Decision(Denied(str(raised)), name, permission.kind, permission, raised)
            note = f"exception raised in permission {name} checking {Redactor().call(call, tool.secret)}"
            if isinstance(raised, StopIteration):  # a generator may not raise it
                other = RuntimeError(f"{name} raised StopIteration")
                other.add_note(note)
                raise other from raised
            raised.add_note(note)
            raise
        if said is not None and verdict is not None:
            by = f"{name}: {said.part}" if said.part else name
            return Decision(verdict, by, permission.kind, permission, said.error, said.part, said)
        if verdict is not None:
            return Decision(verdict, name, permission.kind, permission)
    if permissions.unchecked:
        return Decision(Allowed(), None, "unchecked")
    return Decision(Denied(NOBODY), None, "nobody")


def settle(generator: Generator[Check, Verdict | None, Decision]) -> Decision | Check:
    """Start a `deciding` generator: return its decision, or the first permission that the driver has to ask."""
    return resume(generator, None)


def resume(generator: Generator[Check, Verdict | None, Decision], verdict: Verdict | None) -> Decision | Check:
    """Go on with what the permission said: return the decision, or the next permission to ask."""
    try:
        return generator.send(verdict)
    except StopIteration as end:
        decision: Decision = end.value
        return decision


def decide(
    permissions: PermissionList, state: Any, call: ToolCall, tool: Tool, *, stand_in: Verdict | None = None
) -> Decision:
    """Decide a call on this thread.

    Args:
        permissions: The list.
        state: The State of the run that makes the call.
        call: The call.
        tool: The tool that would run.
        stand_in: What a permission that asks a person by itself is taken to say; such a person is then not asked.

    Raises:
        TypeError: A permission returned what its kind may not, or checks calls only asynchronously.
        Exception: Whatever a permission raised, but for ToolError.
    """
    settled = permissions.plan(call.name).decision
    if settled is not None:
        return settled
    generator = deciding(permissions, state, call, tool)
    current = settle(generator)
    while isinstance(current, Check):
        try:
            if current.asks_person and stand_in is not None:
                verdict: Verdict | None = stand_in
            else:
                verdict = current.permission.check(state, call, tool)
        except Exception as error:  # noqa: BLE001 - thrown into the generator, which knows what it means
            current = resume_error(generator, error)
        else:
            current = resume(generator, verdict)
    return current


async def adecide(
    permissions: PermissionList, state: Any, call: ToolCall, tool: Tool, *, stand_in: Verdict | None = None
) -> Decision:
    """Decide a call on the event loop; see `decide`."""
    generator = deciding(permissions, state, call, tool)
    current = settle(generator)
    while isinstance(current, Check):
        try:
            if current.asks_person and stand_in is not None:
                verdict: Verdict | None = stand_in
            else:
                verdict = await current.permission.acheck(state, call, tool)
        except Exception as error:  # noqa: BLE001 - thrown into the generator, which knows what it means
            current = resume_error(generator, error)
        else:
            current = resume(generator, verdict)
    return current


def resume_error(generator: Generator[Check, Verdict | None, Decision], error: Exception) -> Decision | Check:
    """Go on with what the permission raised; see `resume`."""
    try:
        return generator.throw(error)
    except StopIteration as end:
        if end is error:  # not the generator's end: it handed our own exception back
            raise
        decision: Decision = end.value
        return decision
