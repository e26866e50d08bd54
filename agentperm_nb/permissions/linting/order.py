"""The order of a list: rules that are never come to, or that change nothing.

1. A rule is shadowed when rules before it decide every call that it matches, and say something else; it is redundant
   when they say the same, or when rules after it would. Both are claimed only where `covering` proves it, for every
   tool that the rule is about, and for its pattern of names.
2. What decides every call that reaches it is named once, with all that comes after it.
3. Rules are looked up by tool and argument, so that a long list takes time in proportion to its length; one that would
   take longer is not looked at any further.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from agentperm_nb.permissions.arguments import ArgumentRule
from agentperm_nb.permissions.builtin import DecideByHuman
from agentperm_nb.permissions.kinds import AllowPermission, DenyPermission, Permission
from agentperm_nb.permissions.linting.covering import Key, coverable_keys, covering_key, covers_conditions, covers_glob
from agentperm_nb.permissions.linting.examples import call_for, in_words, plain_call
from agentperm_nb.permissions.linting.findings import Finding
from agentperm_nb.permissions.linting.units import Subject, Unit, decides_always, is_rule
from agentperm_nb.permissions.matching.conditions import Condition
from agentperm_nb.permissions.matching.declared import declared_by
from agentperm_nb.permissions.matching.reading import Matcher
from agentperm_nb.permissions.steps import PolicyStep, Step
from agentperm_nb.tools import Tool

__all__ = ["never_reached", "shadowed"]

_MOST_COMPARED = 30_000
_SAYS = {"deny": "denies", "allow": "allows", "ask": "asks about"}


# --- what decides always ----------------------------------------------------------------------------------------------


def never_reached(subject: Subject) -> Iterator[Finding]:
    """Yield what decides every call that reaches it, with what comes after it."""
    for place, (permission, name) in enumerate(subject.order):
        does = decides_always(permission)
        if not does:
            continue
        after = [
            other
            for other, _ in zip(subject.order[place + 1 :], subject.units[place + 1 :], strict=True)
            if not (isinstance(permission, DenyPermission) and isinstance(other[0], DenyPermission))
        ]
        if after:
            yield _never_asked(subject, permission, name, does, after)
        return


def _never_asked(
    subject: Subject, permission: Permission, name: str, does: str, after: Sequence[tuple[Permission, str]]
) -> Finding:
    names = [other for _, other in after]
    listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    code, fix = "default-before-others", f"put {name} last"
    if isinstance(permission, DecideByHuman) or (isinstance(permission, ArgumentRule) and permission.verb == "ask"):
        code = "ask-after-human"
    elif isinstance(permission, PolicyStep):
        fix = f"put {name} last, or give it fallback=None, which leaves other calls to what follows"
    elif isinstance(permission, Step) and all(isinstance(other, Step) for other, _ in after):
        code, fix = "second-mode", "keep one of them; what applies to whom is said by PerUserPermissions"
    elif isinstance(permission, DenyPermission):
        fix = f"leave out {name}, or what it makes pointless"
    call = next((made for tool in subject.tools.values() if (made := plain_call(tool)) is not None), None)
    example = f"{in_words(call)} never comes to {names[0]}" if call is not None else ""
    are = "are" if len(names) > 1 else "is"
    return Finding(code, f"{name} {does}, so that {listed} after it {are} never asked.", fix, name, example)


# --- what is decided before -------------------------------------------------------------------------------------------


class _Index:
    """Rules that have been come to, by the tools that they are about."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._bare: dict[str, list[Unit]] = {}
        self._same: dict[tuple[str, frozenset[str]], Unit] = {}
        self._by_key: dict[tuple[str, str, Key], list[Unit]] = {}
        self.compared = 0

    def add(self, unit: Unit, about: Iterable[Tool]) -> None:
        """Note a rule."""
        for tool in about if unit.for_everybody else ():
            if not unit.conditions:
                self._bare.setdefault(tool.name, []).append(unit)
                continue
            self._same.setdefault((tool.name, _key(unit)), unit)
            first = unit.conditions[0]
            matcher = _matcher(first, tool)
            if matcher is not None:
                self._by_key.setdefault((tool.name, first.field.text, covering_key(matcher)), []).append(unit)

    def cover(self, unit: Unit, tool: Tool) -> Unit | None:
        """Return a rule that is certain to decide every call of a tool that another rule matches, or None."""
        for outer in self._bare.get(tool.name, ())[:8]:
            if _covers_name(outer, unit):
                return outer
        same = self._same.get((tool.name, _key(unit)))
        if same is not None and self._covers(same, unit, tool):
            return same
        for condition in unit.conditions:
            matcher = _matcher(condition, tool)
            for key in coverable_keys(matcher) if matcher is not None else ():
                for outer in self._by_key.get((tool.name, condition.field.text, key), ()):
                    self.compared += 1
                    if self.compared > _MOST_COMPARED:
                        return None
                    if self._covers(outer, unit, tool):
                        return outer
        return None

    def _covers(self, outer: Unit, unit: Unit, tool: Tool) -> bool:
        declared = declared_by(tool)
        return _covers_name(outer, unit) and covers_conditions(
            outer.conditions,
            unit.conditions,
            [declared.slot(condition.field) for condition in outer.conditions],
            outer_wide=outer.wide,
            inner_wide=unit.wide,
        )


def _key(unit: Unit) -> frozenset[str]:
    return frozenset(map(str, unit.conditions))


def _covers_name(outer: Unit, unit: Unit) -> bool:
    """Return whether the pattern of names covers the other one, beyond the tools that there are."""
    if not unit.has_wildcard:
        return True
    return covers_glob(
        outer.pattern,
        unit.pattern,
        wide=outer.wide or unit.wide,
        outer_lenient=outer.lenient,
        inner_lenient=unit.lenient,
    )


def _matcher(condition: Condition, tool: Tool) -> Matcher | None:
    try:
        return condition.matcher_for(declared_by(tool).slot(condition.field))
    except ValueError:  # no pattern of a path, and the tool says that its argument is one
        return None


def shadowed(subject: Subject) -> Iterator[Finding]:
    """Yield the rules that are always decided before, and those that change nothing."""
    if not subject.tools:
        return
    index = _Index(subject)
    done: set[int] = set()
    for place, ((permission, _), units) in enumerate(zip(subject.order, subject.units, strict=True)):
        if decides_always(permission):
            break  # what comes after it is told by `never_reached`, and it decides what no other rule does
        for unit in units:
            about = subject.about(unit)
            covers = [index.cover(unit, tool) for tool in about]
            if about and None not in covers:
                by = list(dict.fromkeys(outer for outer in covers if outer is not None))
                done.add(place)
                finding = _finding(unit, by, about)
                if finding is not None:
                    yield finding
            else:
                index.add(unit, about)
    yield from _said_again(subject, done)


def _finding(unit: Unit, by: list[Unit], about: Sequence[Tool]) -> Finding | None:
    same = all(outer.verb == unit.verb for outer in by)
    names = " and ".join(dict.fromkeys(outer.text for outer in by))
    example = _example(unit, about, by[0])
    if same:
        if unit.reason is not None and unit.reason != by[0].reason:
            return None  # it says more to whoever reads its reason, if not now, then when the other one is gone
        return Finding(
            "redundant",
            f"{unit.text} changes nothing: {names} {_SAYS[unit.verb]} the same calls before it.",
            "leave it out",
            unit.name,
            example,
            "note",
        )
    return Finding(
        "shadowed",
        f"{unit.text} never decides: {names} {_SAYS[by[0].verb]} every call that it matches before it is asked.",
        f"put it before {names}, or leave it out" if by[0].verb != "deny" else f"narrow {names}, or leave it out",
        unit.name,
        example,
    )


def _example(unit: Unit, about: Sequence[Tool], by: Unit) -> str:
    for tool in about[:3]:
        rule = unit.permission
        call = call_for(rule, tool) if isinstance(rule, ArgumentRule) else plain_call(tool)
        if call is not None:
            return f"{in_words(call)} is decided by {by.text}"
    return ""


def _said_again(subject: Subject, done: set[int]) -> Iterator[Finding]:
    """Yield the rules that change nothing since a later one says the same, with nothing between that may differ."""

    def kind(entry: tuple[int, tuple[Permission, str]]) -> str:
        permission = entry[1][0]
        # A deny of the user's own may stop the turn, which those that would come after it do not.
        if isinstance(permission, AllowPermission) or (
            isinstance(permission, DenyPermission) and subject.units[entry[0]]
        ):
            return permission.kind
        return "ask" if is_rule(permission) else f"other {entry[0]}"

    for _, group in groupby(enumerate(subject.order), kind):
        index = _Index(subject)
        found: list[Finding] = []
        for place, _ in reversed(list(group)):
            if place in done:
                continue
            for unit in subject.units[place]:
                about = subject.about(unit)
                covers = [index.cover(unit, tool) for tool in about]
                later = list(dict.fromkeys(outer for outer in covers if outer is not None))
                index.add(unit, about)
                if not about or None in covers or unit.reason is not None:
                    continue
                names = " and ".join(dict.fromkeys(outer.text for outer in later))
                found.append(
                    Finding(
                        "redundant",
                        f"{unit.text} changes nothing: {names} {_SAYS[unit.verb]} the same calls after it.",
                        "leave it out",
                        unit.name,
                        _example(unit, about, later[0]).replace("is decided by", f"would be {_DONE[unit.verb]} by"),
                        "note",
                    )
                )
        yield from reversed(found)


_DONE = {"deny": "denied", "allow": "allowed", "ask": "asked about"}
