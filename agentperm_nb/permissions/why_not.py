"""Why a call does not pass that one expected to pass, and the smallest change of the rules that would let it.

1. What stands in the way is what decides the call: each permission that does so is taken out of the way in turn, as
   little as possible, until the call is allowed.
2. A deny is narrowed, so that it spares this call and few others; it is taken out only where nothing narrower will do.
   What asks, or denies as a step of the list, stays: a narrow allow is put before it.
3. Every change is tried: the call is decided under the changed list, and nothing is offered under which it does not
   pass.
4. What a run above the agent denies, or a protected path is asked about, no rule of the agent's can allow.
5. A rule of a policy file is changed there, and not by ``agent.copy``.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from agentperm_nb.calls import ToolCall
from agentperm_nb.permissions.arguments import AllowByArguments, ArgumentRule, DenyByArguments
from agentperm_nb.permissions.builtin import DenyByName, settled_by_name
from agentperm_nb.permissions.deciding import Decision
from agentperm_nb.permissions.kinds import AskFirst, DenyPermission, Permission, names_of
from agentperm_nb.permissions.linting.units import is_rule
from agentperm_nb.permissions.matching.conditions import Condition
from agentperm_nb.permissions.matching.declared import declared_by
from agentperm_nb.permissions.matching.reading import Matcher
from agentperm_nb.permissions.matching.values import Not
from agentperm_nb.permissions.modes import DenyByMode, StandardPermissions
from agentperm_nb.permissions.narrow_rules import KnownBy
from agentperm_nb.permissions.policy import DenyByPolicy, PermissionPolicy, PermissionRule
from agentperm_nb.permissions.policy_users import DenyByArgumentsForUser, of_user
from agentperm_nb.permissions.steps import Step
from agentperm_nb.permissions.verdicts import Allowed
from agentperm_nb.permissions.wrapping import wrapped
from agentperm_nb.render import NO_MATH, escape, shorten, visible
from agentperm_nb.tools import Tool

__all__ = ["Change", "Changed", "WhyNot", "changes_for"]

_MOST_EXCEPTIONS = 3


@dataclass(frozen=True)
class Change:
    """One change of the rules."""

    action: str
    """``add``, ``narrow`` or ``remove``."""
    permission: str | None
    """Name of the permission that it is about: narrowed, taken out, or the one before which a rule is put; None for a
    rule at the end of the list."""
    rules: tuple[str, ...]
    """The rules that it puts there, in their notation."""
    text: str
    """The change in words."""


@dataclass(frozen=True)
class WhyNot:
    """What stands in the way of a call, and what would let it pass."""

    call: str
    """The call as text, secrets masked."""
    verdict: str
    """``allowed``, ``denied``, ``asked`` or ``input_error``: what becomes of it now."""
    in_the_way: str | None
    """Name of the permission that decides so; None when nobody does, or it passes."""
    reason: str
    """The reason that it gives, or what is wrong with the call."""
    changes: tuple[Change, ...] = ()
    """What would let it pass, in order; all of it is needed."""
    note: str = ""
    """What else to know, such as why no change would do."""
    permissions: tuple[Any, ...] | None = None
    """The agent's list with these changes, for ``agent.copy(permissions=…)``; None when there are none, and when one is
    of a policy file or of the session."""

    def __str__(self) -> str:
        lines = [self._headline()]
        if self.changes:
            lines.append(self._before_changes())
            lines += [f"{number}. {change.text}" for number, change in enumerate(self.changes, 1)]
        return visible("\n".join([*lines, *([self.note] if self.note else [])]))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(change.text)}</li>" for change in self.changes)
        changes = f"<div>{escape(self._before_changes())}</div><ol>{items}</ol>" if items else ""
        note = f"<div>{escape(self.note)}</div>" if self.note else ""
        return (
            f'<div class="{NO_MATH}" style="font-size:var(--jp-ui-font-size1,13px);line-height:1.5">'
            f'<div style="font-weight:600">{escape(self._headline())}</div>{changes}{note}</div>'
        )

    def _headline(self) -> str:
        who = f" by {self.in_the_way}" if self.in_the_way else ""
        said = f": {self.reason}" if self.reason and self.call not in self.reason else ""
        return f"{shorten(self.call, 200)}: {self.verdict}{who}{said}"

    def _before_changes(self) -> str:
        passing = "pass unasked" if self.verdict == "asked" else "pass"
        return f"It would {passing} with {'this change' if len(self.changes) == 1 else 'these changes'}:"


class Changed(NamedTuple):
    """What came of the search for changes."""

    changes: tuple[Change, ...]
    note: str
    items: tuple[Permission, ...] | None
    """The changed list of the agent; None where no change lets the call pass, or one is of another list."""


class _Try(NamedTuple):
    """A list to try in place of the present one."""

    items: list[Permission]
    change: Change


def changes_for(
    items: Sequence[Permission],
    call: ToolCall,
    tool: Tool,
    tools: Iterable[Tool],
    decide: Callable[[Sequence[Permission]], Decision],
    *,
    known: KnownBy,
    own: Sequence[Permission] | None = None,
    above: Collection[int] = (),
) -> Changed:
    """Search the smallest change of a list under which a call is allowed.

    Args:
        items: The list: the agent's own permissions, and those of its policy files and its session.
        call: The call.
        tool: Its tool.
        tools: All tools that the list decides about.
        decide: Decides the call under another list.
        known: What holds for the call, and for few others.
        own: The agent's own permissions; all when left out.
        above: Ids of the permissions of the runs above.
    """
    if known.unreadable:
        note = (
            f"{known.unreadable}: no rule on it can let the call pass. Have it written out; a rule without it would "
            f"let every call of {call.name} pass."
        )
        return Changed((), note, None)
    search = _Search(call, tool, tuple(tools), known.conditions, items, items if own is None else own)
    current: list[Permission] = list(items)
    changes: list[Change] = []
    for _ in range(len(current) + 2):
        decision = decide(current)
        if isinstance(decision.verdict, Allowed):
            return Changed(tuple(changes), search.note, search.own_of(current))
        blocker = decision.permission
        if blocker is not None and id(blocker) in above:
            note = f"{decision.decided_by} belongs to a run above this agent: no rule of this agent can allow the call."
            return Changed((), note, None)
        if isinstance(blocker, AskFirst):
            note = f"{decision.decided_by}: no rule can let it pass, only a person's word for this very call."
            return Changed((), note, None)
        trial = next((one for one in search.trials(current, blocker) if _helps(one, blocker, current, decide)), None)
        if trial is None:
            break
        current = trial.items
        changes.append(trial.change)
    return Changed((), "No change of the rules was found that would let it pass.", None)


def _helps(
    trial: _Try, blocker: Permission | None, before: Sequence[Permission], decide: Callable[..., Decision]
) -> bool:
    """Return whether a permission that stood in the way does not decide any more, nor what has come in its place."""
    outcome = decide(trial.items)
    if not isinstance(blocker, DenyPermission):
        return isinstance(outcome.verdict, Allowed)
    kept = {id(item) for item in before}
    decider = outcome.permission
    replaced = decider is not None and id(decider) not in kept and any(item is decider for item in trial.items)
    return decider is not blocker and not (replaced and isinstance(decider, DenyPermission))


class _Search:
    """Makes the lists to try, the smallest change first."""

    def __init__(
        self,
        call: ToolCall,
        tool: Tool,
        tools: tuple[Tool, ...],
        conditions: list[Condition],
        items: Sequence[Permission],
        own: Sequence[Permission],
    ) -> None:
        self.call, self.tool, self.tools, self.conditions = call, tool, tools, conditions
        self.note = ""
        mine = set(map(id, own))
        self._foreign = [item for item in items if id(item) not in mine]
        self._foreign_ids = set(map(id, self._foreign))

    def own_of(self, items: Sequence[Permission]) -> tuple[Permission, ...] | None:
        """Return what of a changed list is the agent's own; None where a permission of another list was changed."""
        kept = set(map(id, items))
        if any(id(item) not in kept for item in self._foreign):
            return None
        return tuple(item for item in items if id(item) not in self._foreign_ids)

    def trials(self, items: list[Permission], blocker: Permission | None) -> Iterator[_Try]:
        """Yield the lists to try to get a permission out of the way."""
        if not isinstance(blocker, DenyPermission):
            yield from self._with_allow(items, blocker)
            return
        for new, text in self._narrowed(blocker):
            yield _Try(_replaced(items, blocker, new), self._change("narrow", items, blocker, new, text))
        yield from self._in_its_source(items, blocker)
        without = _replaced(items, blocker, [])
        yield _Try(without, self._change("remove", items, blocker, [], f"take out {_name(items, blocker)}"))

    # ------------------------------------------------------------------ an allow

    def _with_allow(self, items: list[Permission], blocker: Permission | None) -> Iterator[_Try]:
        place = next((i for i, item in enumerate(items) if item is blocker), len(items))
        name = None if blocker is None else _name(items, blocker)
        where = "at the end of the list" if name is None else f"before {name}"
        if self._foreign and (blocker is None or id(blocker) in self._foreign_ids):  # files come after the agent's own
            mine = [i for i, item in enumerate(items) if id(item) not in self._foreign_ids]
            denies = [i for i, item in enumerate(items) if isinstance(item, DenyPermission | AskFirst)]
            place = (mine or denies or [-1])[-1] + 1
            where = "at the end of permissions=" if mine else "into permissions="
        for conditions in [self.conditions, []] if self.conditions else [[]]:
            rule = self._rule(AllowByArguments, self.call.name, conditions)
            if rule is None:
                continue
            wide = "" if conditions or not self.call.args else ", which lets every call of it pass"
            text = f"put {rule} {where}{wide}"
            yield _Try([*items[:place], rule, *items[place:]], Change("add", name, (str(rule),), text))

    @staticmethod
    def _rule(kind: type[ArgumentRule], tool: str, conditions: Iterable[Condition], **more: Any) -> ArgumentRule | None:
        pairs: list[tuple[str, Matcher]] = [(condition.field.text, condition.matcher) for condition in conditions]
        try:
            return kind(tool, arguments=pairs, **more)
        except (TypeError, ValueError):  # the name of the tool, or the opposite of a condition, makes no rule
            return None

    # ------------------------------------------------------------------ a deny

    def _narrowed(self, deny: DenyPermission) -> Iterator[tuple[list[Permission], str]]:
        """Yield rules to put in the place of a deny, which spare the call."""
        if isinstance(deny, DenyByArguments) and is_rule(deny):
            name = None if id(deny) in self._foreign_ids else deny.name  # that of a file says what the rule was
            new = self._sparing(deny.tool, list(deny.conditions), reason=deny.reason, name=name)
            if isinstance(deny, DenyByArgumentsForUser):
                new = [of_user(rule, deny.user) for rule in new if isinstance(rule, ArgumentRule)]
            if new:
                yield new, ""
        elif settled_by_name(deny) and isinstance(deny, DenyByName):
            kept = [pattern for pattern in deny.patterns if not _denies(pattern, self.call.name)]
            rest: list[Permission] = [DenyByName(kept, deny.reason, name=deny.name)] if kept else []
            for pattern in deny.patterns:
                if _denies(pattern, self.call.name):
                    new = [] if "\\" in pattern else self._sparing(pattern, [], reason=deny.reason)
                    if not new:
                        return
                    rest += new
            yield rest, ""

    def _sparing(self, pattern: str, conditions: list[Condition], **more: Any) -> list[Permission]:
        """Return denies that hold for the same calls but those that are like the call."""
        own = {condition.field for condition in conditions}
        order = sorted(self.conditions, key=lambda one: one.field not in own)
        found: list[Permission] = []
        for condition in order[:_MOST_EXCEPTIONS]:
            try:
                excepted = Condition(condition.field, Not(condition.matcher))
            except (TypeError, ValueError):
                continue
            rule = self._rule(DenyByArguments, pattern, [*conditions, excepted], **more)
            if rule is not None and rule.check(None, self.call, self.tool) is None:
                found.append(rule)
        others = self._others(pattern) if found else []
        kept = [rule for name in others if (rule := self._rule(DenyByArguments, name, conditions, **more)) is not None]
        return [*found, *kept] if len(kept) == len(others) else []

    def _others(self, pattern: str) -> list[str]:
        """Return the other tools of a pattern that have all the arguments by which the call is known."""
        rule = self._rule(DenyByArguments, pattern, [])
        if rule is None:
            return []
        fields = [condition.field for condition in self.conditions[:_MOST_EXCEPTIONS]]
        return [
            other.name
            for other in self.tools
            if other.name != self.call.name
            and rule.is_about(other.name)
            and all(not declared_by(other).slot(field).problem for field in fields)
        ]

    def _in_its_source(self, items: list[Permission], deny: DenyPermission) -> Iterator[_Try]:
        """Yield lists in which the policy or the mode object that a deny comes from spares the call."""
        name = _name(items, deny)
        if isinstance(deny, DenyByPolicy):
            allow = self._rule(AllowByArguments, self.call.name, self.conditions)
            if allow is not None:
                policy = copy.copy(deny.policy)
                policy.rules = [PermissionRule(str(allow), _Matching(allow), "allow"), *deny.policy.rules]
                text = f"put a rule that allows {str(allow).removeprefix('allow ')} first in {policy.name}"
                change = Change("add", name, (str(allow),), text)
                yield _Try([_of_policy(item, deny.policy, policy) for item in items], change)
        elif isinstance(deny, DenyByMode) and type(deny.modes) is StandardPermissions:
            modes, what = self._sparing_modes(deny.modes)
            text = f"make it {modes!r}: {what}"
            yield _Try([_of_modes(item, deny.modes, modes) for item in items], Change("narrow", name, (), text))

    def _sparing_modes(self, modes: StandardPermissions) -> tuple[StandardPermissions, str]:
        name, said = self.call.name, []
        denied, allowed = list(modes.denied_tools), modes.allowed_tools
        hits = [pattern for pattern in denied if _denies(pattern, name)]
        if hits:
            others = [
                tool.name for tool in self.tools if tool.name != name and any(_denies(hit, tool.name) for hit in hits)
            ]
            denied = [*(pattern for pattern in denied if pattern not in hits), *others]
            said.append(f"denied_tools without {name}")
        if allowed is not None and "allowed_tools" in modes.denial(name):
            allowed = (*allowed, name)
            said.append(f"allowed_tools with {name}")
        made = StandardPermissions(
            mode=modes.mode,
            allowed_tools=allowed,
            denied_tools=denied,
            edit_tools=modes.edit_tools,
            trust_mcp=modes.trust_mcp,
            name=modes.name,
        )
        return made, ", ".join(said)

    def _change(
        self, action: str, items: list[Permission], blocker: Permission, new: list[Permission], text: str
    ) -> Change:
        name = _name(items, blocker)
        rules = tuple(str(rule) if isinstance(rule, ArgumentRule) else repr(rule) for rule in new)
        if action == "remove" and not isinstance(blocker, ArgumentRule | DenyByName):
            self.note = f"{name} is code, which no rule can narrow: without it, other calls are not denied either."
        return Change(action, name, rules, text or f"put {' and '.join(rules)} in the place of {name}")


class _Matching:
    """Whether a rule on arguments matches, for a `PermissionRule`."""

    def __init__(self, rule: ArgumentRule) -> None:
        self.rule = rule

    def __call__(self, tool: Tool, parameters: dict[str, Any]) -> bool:
        return self.rule.check(None, ToolCall(tool.name, parameters), tool) is not None


def _denies(pattern: str, name: str) -> bool:
    return DenyByName([pattern]).for_name(name) is not None


def _name(items: Sequence[Permission], permission: Permission) -> str:
    for item, name in zip(items, names_of(items), strict=True):
        if item is permission:
            return name
    return names_of([permission])[0]


def _replaced(items: list[Permission], old: Permission, new: list[Permission]) -> list[Permission]:
    found: list[Permission] = []
    for item in items:
        found.extend(new if item is old else [item])
    return found


def _of_policy(item: Permission, old: PermissionPolicy, new: PermissionPolicy) -> Permission:
    if isinstance(item, DenyByPolicy) and item.policy is old:
        return DenyByPolicy(new)
    return wrapped(new)[0] if isinstance(item, Step) and item.original is old else item


def _of_modes(item: Permission, old: StandardPermissions, new: StandardPermissions) -> Permission:
    if isinstance(item, DenyByMode) and item.modes is old:
        return DenyByMode(new, item.part)
    return wrapped(new)[0] if isinstance(item, Step) and item.original is old else item
