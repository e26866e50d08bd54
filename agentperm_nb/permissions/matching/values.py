"""Exact values, sets of values, and the opposite of a condition.

1. Values are those of JSON, with their types: ``true``, ``null``, lists and objects. Numbers, texts and dates have
   matchers of their own.
2. A set matches when one of its members does. It can be read when a member of the value's type can.
3. What cannot be read cannot be read the other way round either: the opposite of a condition has the same problems.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import canonical_json, freeze, same_json, thaw
from agentperm_nb.permissions.matching.lookalikes import folded, skeleton, without_controls
from agentperm_nb.permissions.matching.reading import ABSENT, Matcher, Reading, Where
from agentperm_nb.permissions.matching.texts import BOTH, NEITHER, WIDE, json_kind, unreadable
from agentperm_nb.permissions.matching.writing import quoted

__all__ = ["Exact", "Not", "OneOf", "json_types_of", "kinds_of", "mapped"]


class Exact(Matcher):
    """One JSON value: ``true``, ``false``, ``null``, a list, an object or a text as it stands.

    Args:
        value: The value.

    Raises:
        TypeError: It is not JSON.
    """

    kind: ClassVar[str] = "value"

    def __init__(self, value: Any) -> None:
        try:
            canonical_json(value)  # what is no JSON is an error
            self._text = _json(thaw(freeze(value)))
        except (TypeError, ValueError, RecursionError):
            raise TypeError(
                fix_message(
                    f"a condition cannot be made of {type(value).__name__}",
                    "give a JSON value, a set of them, or a condition",
                    'DenyByArguments("write_file", mode={"w", "a"})',
                )
            ) from None
        self.value: Any = freeze(json.loads(self._text))

    def __str__(self) -> str:
        return self._text if self.value is None or isinstance(self.value, bool) else f"json({self._text})"

    def read(self, value: Any, where: Where) -> Reading:
        """Read a value of the same type; ``null`` is known from all others."""
        own = self.value
        if own is None:
            return BOTH if value is None else NEITHER
        if value is ABSENT:
            return NEITHER
        if json_kind(value) != json_kind(own):
            return unreadable(value, json_kind(own))
        if isinstance(own, bool):
            return BOTH if value is own else NEITHER
        if same_json(value, own):
            return BOTH
        readings = (folded,) if _is_ascii(value) and _is_ascii(own) else (folded, skeleton)
        alike = any(_folded(value, reading) == _folded(own, reading) for reading in readings)
        return WIDE if alike else NEITHER


class OneOf(Matcher):
    """One of several values or patterns.

    Args:
        members: Matchers of single values.

    Raises:
        ValueError: There is none.
        TypeError: One is a set itself, or negated, or about lists.
    """

    kind: ClassVar[str] = "set"

    def __init__(self, members: Iterable[Matcher]) -> None:
        self.members: tuple[Matcher, ...] = tuple(sorted(dict.fromkeys(members), key=str))
        example = 'rule("deny open(mode in {w, a})")'
        if not self.members:
            raise ValueError(fix_message("an empty set can match nothing", "put values into it", example))
        for member in self.members:
            if member.kind in {"set", "not", "list", "presence"}:
                raise TypeError(
                    fix_message(f"a set holds values and patterns (got: {member})", "put the ! before it", example)
                )

    def __str__(self) -> str:
        return f"{{{', '.join(map(str, self.members))}}}"

    def read(self, value: Any, where: Where) -> Reading:
        """Read a value that a member can read."""
        if value is ABSENT:
            return NEITHER
        kind = json_kind(value)
        read = [member.read(value, where) for member in self.members if kind in kinds_of(member)]
        if not read:
            wanted = sorted({known for member in self.members for known in kinds_of(member)})
            return unreadable(value, " or ".join(wanted))
        problem = next((reading.problem for reading in read if reading.problem), "")
        readings = tuple(dict.fromkeys(text for reading in read for text in reading.readings))
        return Reading(any(r.any for r in read), any(r.all and r.any for r in read), problem, readings)


class Not(Matcher):
    """The opposite of a condition on one value.

    Args:
        inner: The condition.

    Raises:
        TypeError: It is an opposite itself, or about lists or presence.
    """

    kind: ClassVar[str] = "not"

    def __init__(self, inner: Matcher) -> None:
        if inner.kind in {"not", "list", "presence"}:
            raise TypeError(
                fix_message(
                    f"! stands before values, patterns and sets (got: {inner})",
                    "put the ! after any or every, and write one only",
                    'rule("ask send_email(recipients=any !@example.com)")',
                )
            )
        self.inner = inner

    def __str__(self) -> str:
        return f"!{getattr(self.inner, 'range_text', None) or self.inner}"

    def read(self, value: Any, where: Where) -> Reading:
        """Read a value; one that was left out is not known to be anything, so it is not known to be something else."""
        if value is ABSENT:
            return WIDE
        return self.inner.read(value, where).negated()


_TEXTS = frozenset({"a text"})
_KINDS: dict[str, frozenset[str]] = {
    "text": _TEXTS,
    "pattern": _TEXTS,
    "path": _TEXTS,
    "mail": _TEXTS,
    "date": _TEXTS,
    "number": frozenset({"a number"}),
}
_JSON_TYPES = {
    "a text": ("string",),
    "a number": ("number", "integer"),
    "a boolean": ("boolean",),
    "null": ("null",),
    "a list": ("array",),
    "an object": ("object",),
}


def kinds_of(matcher: Matcher) -> frozenset[str]:
    """Return what a matcher of single values can read, in words; see `json_kind`."""
    if isinstance(matcher, Exact):
        return frozenset({json_kind(matcher.value)})
    if isinstance(matcher, Not):
        return kinds_of(matcher.inner)
    if isinstance(matcher, OneOf):
        return frozenset().union(*map(kinds_of, matcher.members))
    return _KINDS.get(matcher.kind, _TEXTS)


def json_types_of(matcher: Matcher) -> frozenset[str]:
    """Return the types, in the words of JSON Schema, that a matcher of single values can read."""
    return frozenset(name for kind in kinds_of(matcher) for name in _JSON_TYPES.get(kind, ()))


def mapped(matcher: Matcher, change: Callable[[Matcher], Matcher]) -> Matcher:
    """Return a matcher with other ones in the place of those that it holds."""
    if isinstance(matcher, OneOf):
        return OneOf(mapped(member, change) for member in matcher.members)
    if isinstance(matcher, Not):
        return Not(mapped(matcher.inner, change))
    return change(matcher)


def _json(value: Any) -> str:
    if isinstance(value, dict):
        return f"{{{', '.join(f'{quoted(key)}: {_json(item)}' for key, item in sorted(value.items()))}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_json, value))}]"
    if isinstance(value, str):
        return quoted(value)
    return json.dumps(value, allow_nan=False)


def _is_ascii(value: Any) -> bool:
    if isinstance(value, dict):
        return all(str(key).isascii() and _is_ascii(item) for key, item in value.items())
    if isinstance(value, list):
        return all(map(_is_ascii, value))
    return not isinstance(value, str) or value.isascii()


def _folded(value: Any, reading: Callable[[str], str]) -> Any:
    """Return a value as the wide reading has it: numbers by what they count, texts as one that look the same."""
    if isinstance(value, dict):
        return {reading(without_controls(str(key))).strip(): _folded(item, reading) for key, item in value.items()}
    if isinstance(value, list):
        return [_folded(item, reading) for item in value]
    if isinstance(value, str):
        return reading(without_controls(value)).strip()
    return (json_kind(value), value)
