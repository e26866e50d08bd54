"""A condition: a part of the arguments, and what is asked of it.

1. A value that is left out has the default of the tool's schema. Without one it is absent: it matches nothing, and the
   opposite of a condition matches it for a deny or an ask, not for an allow.
2. ``null``, where the schema has a place for it, is the value ``null`` and nothing else. Elsewhere it cannot be read.
3. A list is read element by element unless the condition is about lists: any for a deny or an ask, every for an allow.
   A single value where the rule speaks of elements is a list of one only if the schema has a place for both.
4. An argument that the tool does not have cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agentperm_nb.context import RunContext, get_run_context
from agentperm_nb.json_values import freeze
from agentperm_nb.permissions.matching.declared import Declared, Slot
from agentperm_nb.permissions.matching.fields import EACH, Either, Field, Presence, Unreachable
from agentperm_nb.permissions.matching.lists import AnyOf, EveryOf
from agentperm_nb.permissions.matching.reading import ABSENT, Matcher, Reading, Where
from agentperm_nb.permissions.matching.texts import BOTH, NEITHER, WIDE, Pattern, json_kind
from agentperm_nb.permissions.matching.values import Exact, Not, OneOf, json_types_of, mapped

__all__ = ["Condition", "here"]

_NOWHERE = Where("/", "~", False)
"""For what is read the same everywhere."""


@dataclass(frozen=True)
class Condition:
    """What a rule asks of a part of the arguments.

    Args:
        field: The part.
        matcher: What is asked of it.

    Raises:
        ValueError: The matcher is a malformed pattern for such an argument.
    """

    field: Field
    matcher: Matcher

    def __post_init__(self) -> None:
        # What is wrong with a pattern is said when the rule is made, not when a call comes.
        from agentperm_nb.permissions.matching.paths import is_path_argument

        _ = self._as_path if is_path_argument(None, self.field.text) else self._as_text

    def __str__(self) -> str:
        name, matcher = self.field.text, self.matcher
        if isinstance(matcher, Presence):
            return f"{name} {matcher}"
        if isinstance(matcher, OneOf):
            return f"{name} in {matcher}"
        if isinstance(matcher, Not):
            inner = matcher.inner
            return f"{name} not in {inner}" if isinstance(inner, OneOf) else f"{name}!={str(matcher)[1:]}"
        text = str(matcher)
        if text[0] in "<>" and hasattr(matcher, "range_text"):
            return f"{name}{text}"
        if hasattr(matcher, "range_text") and ".." in text:
            low, high = text.split("..")
            start = low.removesuffix("<") + ("<" if low.endswith("<") else "<=")
            return f"{start}{name}{'<' if high.startswith('<') else '<='}{high.removeprefix('<')}"
        return f"{name}={text}"

    @cached_property
    def _as_text(self) -> Matcher:
        return _changed(self.matcher, lambda one: one.as_text if isinstance(one, Pattern) else one)

    @cached_property
    def _as_path(self) -> Matcher:
        return _changed(self.matcher, lambda one: one.as_path if isinstance(one, Pattern) else one)

    @cached_property
    def _for_paths(self) -> bool:
        return _holds(self._as_text, "path")

    @cached_property
    def may_be_path(self) -> bool:
        """Whether it may be asked of a path."""
        return _holds(self.matcher, "path") or _holds(self.matcher, "pattern")

    @cached_property
    def _whole(self) -> bool:
        """Whether it asks for a list, or for null, and so for the value as a whole."""
        types = json_types_of(self._inner)
        return "array" in types or types == {"null"}

    @property
    def _inner(self) -> Matcher:
        return self.matcher.inner if isinstance(self.matcher, AnyOf | EveryOf) else self.matcher

    def matcher_for(self, slot: Slot) -> Matcher:
        """Return what is asked: of a path or of a text, where the pattern does not say."""
        return self._as_path if slot.is_path else self._as_text

    def read(self, args: Mapping[str, Any], declared: Declared, *, every: bool) -> Reading:
        """Read a call's arguments; it never raises for them.

        Args:
            args: The arguments.
            declared: What the tool says of them.
            every: Whether a list counts only when every element does: so for an allow.
        """
        try:
            return self._read(args, declared, every)
        except RecursionError:
            return Reading(False, False, "a value that is nested too deeply")

    def _read(self, args: Mapping[str, Any], declared: Declared, every: bool) -> Reading:
        slot = declared.slot(self.field)
        if slot.problem:
            return Reading(False, False, slot.problem)
        try:
            matcher = self._as_path if slot.is_path else self._as_text
            where = here() if slot.is_path or self._for_paths else _NOWHERE
        except ValueError as error:  # its argument has no path's name, and the tool says that it is one
            return Reading(False, False, str(error).partition("\n")[0])
        except OSError:
            return Reading(False, False, "a path, and there is no folder that it would be relative to")
        if isinstance(matcher, Presence):
            return self._read_presence(args, declared, slot, matcher, every)
        top = args.get(self.field.argument, slot.top_default)
        others = [pair for pair in declared.others(args) if pair[0] != self.field.argument]
        if self.field.plain and not others:
            if type(top) is str and not isinstance(matcher, AnyOf | EveryOf):
                return matcher.read(top, where)
            return self._read_value(top, matcher, slot, declared, where, every)
        values = self.field.spelt(others, top, default=slot.default, wide=not every)
        if not self.field.spread:
            return self._read_value(values[0] if values else ABSENT, matcher, slot, declared, where, every)
        if isinstance(matcher, AnyOf | EveryOf):
            every, matcher = matcher.every, matcher.inner
        if values == [ABSENT]:  # it may be that there is no list
            return _nothing(matcher, slot, null=False)
        return _together([self._read_value(value, matcher, slot, declared, where, every) for value in values], every)

    def _read_value(
        self, value: Any, matcher: Matcher, slot: Slot, declared: Declared, where: Where, every: bool
    ) -> Reading:
        """Read one value, which may be a list."""
        if isinstance(value, Unreachable):
            return Reading(False, False, value.problem)
        if isinstance(value, Either):
            return _together(
                [self._read_value(one, matcher, slot, declared, where, every) for one in value.values], False
            )
        if value is ABSENT or (value is None and slot.null):
            return _nothing(matcher, slot, null=value is None)
        if isinstance(matcher, AnyOf | EveryOf):
            every, matcher = matcher.every, matcher.inner
            if not isinstance(value, list):
                if slot.single_or_list:
                    return matcher.read(value, where)
                return Reading(False, False, f"{json_kind(value)}, not a list")
        elif self._whole or not isinstance(value, list):
            return matcher.read(value, where)
        if not slot.lists:
            return Reading(False, False, "a list, and the tool takes none there")
        inner = declared.slot(Field((*self.field.steps, EACH)))
        return _together([self._read_value(item, matcher, inner, declared, where, every) for item in value], every)

    def _read_presence(
        self, args: Mapping[str, Any], declared: Declared, slot: Slot, matcher: Presence, every: bool
    ) -> Reading:
        def read(value: Any) -> Reading:
            if isinstance(value, Unreachable):
                return Reading(False, False, value.problem)
            if isinstance(value, Either):
                return _together([read(one) for one in value.values], False)
            return matcher.read(ABSENT if value is None and slot.null else value, _NOWHERE)

        others = [pair for pair in declared.others(args) if pair[0] != self.field.argument]
        top = args.get(self.field.argument, ABSENT)
        values = self.field.spelt(others, top, default=ABSENT, wide=not every)
        return _together([read(value) for value in values], every)

    def value_of(self, args: Mapping[str, Any], declared: Declared) -> list[Any]:
        """Return what it is about in a call: one value, or one for each element of a list."""
        slot = declared.slot(self.field)
        return list(self.field.values(args.get(self.field.steps[0], slot.top_default), default=slot.default))

    def problems_with(self, declared: Declared, *, every: bool) -> list[str]:
        """Return why it can match nothing that the tool takes, by what its schema says.

        Args:
            declared: What the tool says of its arguments.
            every: Whether it is an allow's, which reads narrow.
        """
        slot = declared.slot(self.field)
        if slot.problem:
            return [slot.problem]
        try:
            matcher = self.matcher_for(slot)
        except ValueError as error:  # its argument has no path's name, and the tool says that it is one
            return [str(error).partition("\n")[0]]
        if isinstance(matcher, Presence):
            return (
                [f"{self.field} of {declared.name} cannot be left out"] if slot.required and not matcher.present else []
            )
        quantified = isinstance(matcher, AnyOf | EveryOf)
        inner = matcher.inner if isinstance(matcher, AnyOf | EveryOf) else matcher
        if quantified and not self.field.spread and not slot.lists:
            found = _types_text(slot.types)
            return [f"{self.field} of {declared.name} is {found}, and no list that {self.matcher} could be of"]
        takes = json_types_of(inner)
        types = slot.types
        if types is not None and "array" in types and (quantified or not self._whole):
            types = None if slot.items is None else slot.items | (types - {"array"})
        if types is not None and not types & takes:
            return [f"{self.field} of {declared.name} is {_types_text(types)}, and {self._inner} can never be that"]
        if slot.values is not None and not isinstance(inner, Not) and not _holds(inner, "path"):
            read = [inner.read(freeze(value), _NOWHERE) for value in slot.values]
            if not any(reading.narrow if every else reading.any for reading in read):
                count = len(slot.values)
                return [f"{self.field} of {declared.name} has only {count} possible values, and {self._inner} is none"]
        return []


def _nothing(matcher: Matcher, slot: Slot, *, null: bool) -> Reading:
    """Return what comes of reading an argument that was left out, or is null where it may be."""
    if isinstance(matcher, AnyOf | EveryOf) or (slot.only_lists and "null" not in json_types_of(matcher)):
        return NEITHER  # there is no element
    if isinstance(matcher, Not):
        return _nothing(matcher.inner, slot, null=True).negated() if null else WIDE
    if isinstance(matcher, OneOf):
        return BOTH if any(_nothing(member, slot, null=null) is BOTH for member in matcher.members) else NEITHER
    if isinstance(matcher, Exact) and matcher.value is None and null:
        return BOTH
    return NEITHER


def _together(read: list[Reading], every: bool) -> Reading:
    """Return what comes of reading several values: every one has to match, or any."""
    if len(read) == 1:
        return read[0]
    if not read:
        return NEITHER
    problem = next((reading.problem for reading in read if reading.problem), "")
    readings = tuple(text for reading in read for text in reading.readings)
    quantified = all if every else any
    return Reading(
        quantified(one.any for one in read), quantified(one.all and one.any for one in read), problem, readings
    )


def _changed(matcher: Matcher, change: Any) -> Matcher:
    if isinstance(matcher, AnyOf | EveryOf):
        return type(matcher)(mapped(matcher.inner, change))
    return mapped(matcher, change)


def _holds(matcher: Matcher, kind: str) -> bool:
    if isinstance(matcher, AnyOf | EveryOf | Not):
        return _holds(matcher.inner, kind)
    if isinstance(matcher, OneOf):
        return any(_holds(member, kind) for member in matcher.members)
    return matcher.kind == kind


def _types_text(types: frozenset[str] | None) -> str:
    return " or ".join(sorted(types or ())) or "of no known type"


_latest: tuple[RunContext, Where] | None = None


def here() -> Where:
    """Return where the paths of the current run are read."""
    global _latest
    context = get_run_context()
    if context is None:
        return Where()
    latest = _latest
    if latest is None or latest[0] is not context:
        latest = _latest = (context, Where(context.folder, links=context.links))
    return latest[1]
