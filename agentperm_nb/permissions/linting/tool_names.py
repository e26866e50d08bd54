"""Names: of tools that are taken for each other, of patterns that match no tool, of arguments that no tool has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentperm_nb.permissions.linting.examples import in_words, plain_call
from agentperm_nb.permissions.linting.findings import Finding
from agentperm_nb.permissions.linting.nearness import Near, Nearby
from agentperm_nb.permissions.linting.units import Subject, Unit, is_rule, name_patterns
from agentperm_nb.permissions.matching.lookalikes import folded, has_lookalikes, skeleton
from agentperm_nb.render import flags, visible

__all__ = ["lookalikes", "near_misses", "unknown_arguments", "unmatched"]


def lookalikes(names: Iterable[str]) -> Iterator[Finding]:
    """Yield what is wrong with the names of tools: those that are taken for others, or are not what they seem.

    Args:
        names: The names.
    """
    listed = list(names)
    by_fold: dict[str, str] = {}
    for name in listed:
        other = by_fold.setdefault(name.lower() if name.isascii() else folded(name), name)
        if other != name:
            yield _alike(other, name, "differ only in upper and lower case, or in characters that are not seen")
    strange = [name for name in listed if not name.isascii()]
    foreign = set(filter(has_lookalikes, strange))
    by_looks: dict[str, str] = {}
    for name in listed:
        other = by_looks.setdefault(skeleton(name), name)
        if other == name or folded(other) == folded(name):
            continue
        if foreign & {name, other}:
            yield _alike(other, name, "look alike: one of them has letters of another alphabet")
        else:
            yield _alike(other, name, "look alike in many fonts, where l, 1 and I, or 0 and O, are one", note=True)
    for name in strange:
        found = flags(name)
        if "mixed-script" in found:
            yield Finding(
                "mixed-script",
                f"The name of the tool {visible(name)} mixes letters of alphabets that look alike.",
                "rename the tool, or say that it is meant so: Agent(…, lookalikes='allow')",
                visible(name),
                f"{visible(name)} has {', '.join(_letters(name))}",
            )
        if "hidden-characters" in found:
            yield Finding(
                "unseen-characters",
                f"The name of the tool {visible(name)} has characters that are not seen.",
                "rename the tool, or say that it is meant so: Agent(…, lookalikes='allow')",
                visible(name),
            )


def _alike(one: str, other: str, how: str, *, note: bool = False) -> Finding:
    return Finding(
        "lookalike-tools",
        f"The tools {visible(one)} and {visible(other)} {how}.",
        "rename one of them"
        if note
        else "rename one of them, or say that it is meant so: Agent(…, lookalikes='allow')",
        visible(other),
        f"a rule, or a person, that means {visible(one)} may take {visible(other)} for it",
        "note" if note else "warning",
    )


def _letters(name: str) -> list[str]:
    import unicodedata

    found = dict.fromkeys(char for char in name if not char.isascii())
    return [f"{char} ({unicodedata.name(char, 'no name').lower()})" for char in list(found)[:3]]


# --- patterns that match nothing --------------------------------------------------------------------------------------


def unmatched(subject: Subject) -> Iterator[Finding]:
    """Yield the patterns that match none of the tools: with what was probably meant, where that is plain."""
    if not subject.tools:
        return
    nearby = Nearby(subject.tools)
    for permission, name in subject.order:
        rest: dict[str, list[str]] = {}
        for unit in name_patterns(permission, name):
            if subject.about(unit):
                continue
            near = nearby.to(unit.pattern)
            if near is None:
                rest.setdefault(f"{unit.verb}\0{unit.name}", []).append(unit.pattern)
            else:
                yield _near_miss(subject, unit, near)
        for key, patterns in rest.items():
            verb, _, label = key.partition("\0")
            listed = ", ".join(patterns[:5]) + (f" and {len(patterns) - 5} more" if len(patterns) > 5 else "")
            yield Finding(
                f"unmatched-{verb}",
                f"No tool of the agent is called like {listed}.",
                _REST[verb],
                label,
                severity="note",
            )


def near_misses(subject: Subject) -> Iterator[Finding]:
    """Yield the patterns of denies and asks that match no tool, and were very likely meant to match one."""
    if not subject.tools:
        return
    nearby = Nearby(subject.tools)
    folded_names = {name.lower() for name in subject.tools}
    for permission, name in subject.order:
        for unit in name_patterns(permission, name):
            if not unit.wide or (not unit.has_wildcard and unit.pattern.lower() in folded_names):
                continue
            if not subject.about(unit) and (near := nearby.to(unit.pattern)) is not None:
                yield _near_miss(subject, unit, near)


_REST = {
    "deny": "nothing, where it guards against tools that may come; else correct the pattern",
    "ask": "nothing, where it guards against tools that may come; else correct the pattern",
    "allow": "nothing, where such tools may come; else correct the pattern",
}
_DOES = {"deny": "denied", "ask": "asked about", "allow": "allowed"}


def _near_miss(subject: Subject, unit: Unit, near: Near) -> Finding:
    call = in_words(plain_call(subject.tools[near.tool])) or near.tool
    form = f" ({near.why})" if near.why else ""
    return Finding(
        f"unmatched-{unit.verb}",
        f"{unit.pattern} matches no tool of the agent{form}; {near.tool} is near.",
        f"write {near.instead}",
        unit.name,
        f"{call} is not {_DOES[unit.verb]} by it",
    )


# --- arguments --------------------------------------------------------------------------------------------------------


def unknown_arguments(subject: Subject) -> Iterator[Finding]:
    """Yield the rules on arguments that can match no call of a tool, or that match all for want of an argument."""
    for permission, name in subject.order:
        if not is_rule(permission) or not permission.conditions:
            continue
        units = subject.units_by_name.get(name, [])
        about = [tool for unit in units for tool in subject.about(unit)]
        problems = {tool.name: permission.problems_with(tool) for tool in about}
        bad = [tool for tool in about if problems[tool.name]]
        if about and len(bad) == len(about):
            problem = problems[about[0].name][0]
            fix = "correct the argument or the condition, or leave the rule out"
            yield Finding("unknown-argument", f"It can match nothing: {problem}.", fix, name)
            continue
        calls = {
            tool.name: call
            for tool in (bad if permission.wide else [])
            if (call := plain_call(tool)) is not None and permission.check(None, call, tool) is not None
        }
        if calls:
            does, first = _DOES[permission.verb], next(iter(calls))
            named = ", ".join(list(calls)[:3]) + (f" and {len(calls) - 3} more" if len(calls) > 3 else "")
            yield Finding(
                "unknown-argument",
                f"Every call of {named} is {does} by it: {problems[first][0]}, and what cannot be read is {does}.",
                "name the tools that have the argument, in a rule for each",
                name,
                f"{in_words(calls[first])} is {does}",
            )
