"""Example calls: made from the schema of a tool and from the conditions of a rule, for findings to show.

1. A call that is made for a rule is one that the rule matches, and that fits the schema of the tool; where none is
   found, there is none.
2. Nothing is asked but our own rules and the schema: no code of the user's runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from itertools import islice, product
from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.json_values import call_text, thaw
from agentperm_nb.permissions.arguments import ArgumentRule
from agentperm_nb.permissions.matching.conditions import Condition
from agentperm_nb.permissions.matching.dates import Dates
from agentperm_nb.permissions.matching.declared import Declared, Slot, declared_by
from agentperm_nb.permissions.matching.fields import EACH, Field, Presence
from agentperm_nb.permissions.matching.lists import AnyOf, EveryOf
from agentperm_nb.permissions.matching.mails import Mail
from agentperm_nb.permissions.matching.numbers import Numbers
from agentperm_nb.permissions.matching.paths import PathPattern
from agentperm_nb.permissions.matching.reading import ABSENT, Matcher
from agentperm_nb.permissions.matching.texts import Pattern, Text
from agentperm_nb.permissions.matching.values import Exact, Not, OneOf
from agentperm_nb.tools import Tool

__all__ = ["call_for", "calls_of", "in_words", "plain_call", "texts_of"]

_MOST_TRIES = 60
_LONGEST = 160


def in_words(call: ToolCall | None) -> str:
    """Return a call as text; an empty one for none."""
    if call is None:
        return ""
    text = call_text(call.name, call.args)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def plain_call(tool: Tool) -> ToolCall | None:
    """Return a call of a tool that fits its schema, or None where none was found.

    Args:
        tool: The tool.
    """
    declared = declared_by(tool)
    needed = {name: _value_of(declared, name) for name in _required(declared)}
    call = ToolCall(tool.name, needed)
    return None if tool.check_args(call.args) else call


def call_for(rule: ArgumentRule, tool: Tool) -> ToolCall | None:
    """Return a call of a tool that a rule matches, or None where none was found.

    Args:
        rule: The rule.
        tool: A tool that it is about.
    """
    declared = declared_by(tool)
    base = {name: _value_of(declared, name) for name in _required(declared)}
    slots = [declared.slot(condition.field) for condition in rule.conditions]
    tried = [list(_values_for(one, slot)) for one, slot in zip(rule.conditions, slots, strict=True)]
    for values in islice(product(*tried), _MOST_TRIES):
        args: Any = dict(base)
        for condition, value in zip(rule.conditions, values, strict=True):
            args = _put(args, condition.field, value)
        call = ToolCall(tool.name, args)
        if not tool.check_args(call.args) and rule.check(None, call, tool) is not None:
            return call
    return None


def calls_of(tool: Tool, rules: Sequence[ArgumentRule] = ()) -> list[ToolCall]:
    """Return calls of a tool: a plain one, one for each rule, and one for each choice that its schema lists.

    Args:
        tool: The tool.
        rules: Rules on arguments that are about it.
    """
    plain = plain_call(tool)
    found = [plain, *(call_for(rule, tool) for rule in rules)]
    if plain is not None:
        declared = declared_by(tool)
        for name in declared.arguments:
            for value in (declared.slot(Field((name,))).values or ())[:4]:
                call = ToolCall(tool.name, {**plain.args, name: value})
                found.append(None if tool.check_args(call.args) else call)
    return list(dict.fromkeys(call for call in found if call is not None))


# --- values -----------------------------------------------------------------------------------------------------------


def _required(declared: Declared) -> list[str]:
    return [name for name in declared.arguments if declared.slot(Field((name,))).required]


def _value_of(declared: Declared, name: str) -> Any:
    slot = declared.slot(Field((name,)))
    if slot.default is not ABSENT:
        return slot.default
    if slot.values:
        return slot.values[0]
    types = slot.types or frozenset({"string"})
    for kind, value in (
        ("string", "notes.txt" if slot.is_path else "x"),
        ("integer", 1),
        ("number", 1),
        ("boolean", True),
        ("array", [_element(slot)]),
        ("object", {}),
    ):
        if kind in types:
            return value
    return None


def _element(slot: Slot) -> Any:
    types = slot.items or frozenset({"string"})
    if "string" in types:
        return "notes.txt" if slot.is_path else "x"
    return 1 if types & {"integer", "number"} else True if "boolean" in types else {}


def _values_for(condition: Condition, slot: Slot) -> Iterator[Any]:
    """Yield values that a condition may hold for."""
    try:
        matcher = condition.matcher_for(slot)
    except ValueError:
        return
    several = slot.only_lists and condition.field.plain
    for value in texts_of(matcher):
        if isinstance(matcher, AnyOf | EveryOf):
            yield [value] if condition.field.plain else value
        elif several and not isinstance(value, list) and value is not ABSENT:
            yield [value]
        else:
            yield value


def texts_of(matcher: Matcher) -> Iterator[Any]:
    """Yield values that a matcher may match, likely ones first.

    Args:
        matcher: The matcher.
    """
    if isinstance(matcher, AnyOf | EveryOf):
        yield from texts_of(matcher.inner)
    elif isinstance(matcher, Not):
        inner = list(texts_of(matcher.inner))
        kinds = {type(value) for value in inner}
        others: list[Any] = []
        if str in kinds:
            mail = matcher.inner.kind == "mail" or any("@" in str(value) for value in inner)
            others = ["ann@example.org", "bob@example.net"] if mail else ["other", "other/notes.txt", "/other"]
        if int in kinds or float in kinds:
            others += [0, 1, 1_000_000]
        if bool in kinds:
            others += [True, False]
        yield from (value for value in others if value not in inner)
    elif isinstance(matcher, OneOf):
        for member in matcher.members:
            yield from texts_of(member)
    elif isinstance(matcher, Exact):
        yield thaw(matcher.value)
    elif isinstance(matcher, Presence):
        if matcher.present:
            yield from ("x", 1, True)
        else:
            yield ABSENT
    elif isinstance(matcher, Numbers):
        yield from _numbers(matcher)
    elif isinstance(matcher, Dates):
        yield from _days(matcher)
    elif isinstance(matcher, Mail):
        text = re.sub(r'^mail\("?|"?\)$', "", str(matcher))
        yield (
            text.replace("@*.", "@mail.").replace("*", "ann") if text[:1] != "@" else f"ann{text.replace('*', 'mail')}"
        )
    elif isinstance(matcher, Text | Pattern | PathPattern):
        yield from _texts(matcher.pattern, path=isinstance(matcher, PathPattern))


def _numbers(matcher: Numbers) -> Iterator[Any]:
    low, high = matcher.low, matcher.high
    if low is not None and high is not None:
        yield from (bound for bound, opened in ((low, matcher.low_open), (high, matcher.high_open)) if not opened)
        yield from (low + 1, (low + high) / 2)
    elif low is not None:
        yield low + 1
        yield low
    elif high is not None:
        yield high - 1
        yield high


def _days(matcher: Dates) -> Iterator[str]:
    for bound, step in ((matcher.low, 1), (matcher.high, -1)):
        if bound is None:
            continue
        yield bound
        if len(bound) == len("2026-01-31"):
            try:
                yield (date.fromisoformat(bound) + timedelta(days=step)).isoformat()
            except OverflowError:
                continue


def _texts(pattern: str, *, path: bool) -> Iterator[str]:
    plain = re.sub(r"\[!?(.)[^]]*\]|\\(.)", lambda found: found[1] or found[2], pattern)
    if path:
        yield re.sub(r"\*+|\?", "x", plain.replace("**/", ""))
        yield re.sub(r"\*+|\?", "x", plain)
        yield re.sub(r"\?", "x", plain.replace("/**", "").replace("**/", "").replace("*", ""))
    else:
        yield re.sub(r"\?", "x", plain.replace("*", ""))
        yield re.sub(r"\*+|\?", "x", plain)


def _put(args: Any, field: Field, value: Any) -> Any:
    """Return arguments with a value at a place."""
    return _with(args, field.steps, value)


def _with(container: Any, steps: tuple[str, ...], value: Any) -> Any:
    if not steps:
        return value
    step, rest = steps[0], steps[1:]
    if step is EACH:
        return [_with(container[0] if isinstance(container, list) and container else None, rest, value)]
    made = dict(container) if isinstance(container, dict) else {}
    if value is ABSENT and not rest:
        made.pop(step, None)
    else:
        made[step] = _with(made.get(step), rest, value)
    return made
