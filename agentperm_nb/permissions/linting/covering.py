"""Whether one rule matches whatever another one does: what can be proven from the rules alone.

1. ``True`` is a proof, ``False`` is none: where it is not certain, nothing is claimed.
2. A rule that reads narrow is not taken to cover one that reads wide, even with the same pattern: there are readings
   that only the wide one takes.
3. Globs are compared token by token. What stands for any characters is covered only by what does so too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from agentperm_nb.permissions.matching.conditions import Condition
from agentperm_nb.permissions.matching.declared import Slot
from agentperm_nb.permissions.matching.mails import Mail
from agentperm_nb.permissions.matching.numbers import Numbers
from agentperm_nb.permissions.matching.path_globs import Form, forms_of
from agentperm_nb.permissions.matching.paths import PathPattern
from agentperm_nb.permissions.matching.reading import Matcher
from agentperm_nb.permissions.matching.texts import Text
from agentperm_nb.permissions.matching.values import OneOf, kinds_of

__all__ = [
    "Key",
    "coverable_keys",
    "covering_key",
    "covers_conditions",
    "covers_glob",
    "covers_matcher",
    "has_wildcard",
]

_STAR, _ONE = "*", "?"


class _Token(NamedTuple):
    kind: str
    """``*``, ``?``, ``[`` for a set, or an empty text for a character."""
    text: str


@lru_cache(maxsize=4096)
def _tokens(pattern: str, lenient: bool) -> tuple[_Token, ...]:
    found: list[_Token] = []
    place = 0
    while place < len(pattern):
        char = pattern[place]
        end = place + 1
        if char == _STAR:
            if not found or found[-1].kind != _STAR:
                found.append(_Token(_STAR, ""))
        elif char == _ONE:
            found.append(_Token(_ONE, ""))
        elif char == "\\" and not lenient and end < len(pattern):
            found.append(_Token("", pattern[end]))
            end += 1
        elif char == "[" and (close := pattern.find("]", place + 2)) > 0:
            end = close + 1
            found.append(_Token("[", pattern[place:end]))
        else:
            found.append(_Token("", char))
        place = end
    return tuple(found)


def has_wildcard(pattern: str, *, lenient: bool = False) -> bool:
    """Return whether a glob may match more than one text.

    Args:
        pattern: The glob.
        lenient: Whether it is one of `fnmatch`, without escapes.
    """
    return any(token.kind for token in _tokens(pattern, lenient))


def covers_glob(
    outer: str, inner: str, *, wide: bool, outer_lenient: bool = False, inner_lenient: bool = False
) -> bool:
    """Return whether a glob matches every text that another one does.

    Args:
        outer: The glob that may match more.
        inner: The other one.
        wide: Whether both are read wide.
        outer_lenient: Whether the first is one of `fnmatch`.
        inner_lenient: Whether the second is.
    """
    if outer == inner and outer_lenient == inner_lenient:
        return True
    if outer.strip(_STAR) == "" and outer:
        return True
    if wide:
        if not (outer.isascii() and inner.isascii()):
            return False
        outer, inner = outer.lower(), inner.lower()
    one, other = _tokens(outer, outer_lenient), _tokens(inner, inner_lenient)
    if one == other:
        return True
    # A set is what it is in one reading, and in the wide one a character may be several.
    unsure = {"[", _ONE} if wide else {"["}
    return all(token.kind not in unsure for token in (*one, *other)) and _absorbs(one, other)


def _absorbs(outer: Sequence[_Token], inner: Sequence[_Token]) -> bool:
    """Match one sequence of tokens against another; a star goes back to where it may take one token more."""
    place = at = 0
    star, after = -1, 0
    while at < len(inner):
        if place < len(outer) and outer[place].kind == _STAR:
            star, after = place, at
            place += 1
        elif place < len(outer) and _fits(outer[place], inner[at]):
            place, at = place + 1, at + 1
        elif star >= 0:
            after += 1
            place, at = star + 1, after
        else:
            return False
    return all(token.kind == _STAR for token in outer[place:])


def _fits(outer: _Token, inner: _Token) -> bool:
    if inner.kind == _STAR:
        return False
    return outer == inner or outer.kind == _ONE


# --- conditions -------------------------------------------------------------------------------------------------------


def covers_conditions(
    outer: Iterable[Condition], inner: Sequence[Condition], slots: Iterable[Slot], *, outer_wide: bool, inner_wide: bool
) -> bool:
    """Return whether conditions hold whenever others do.

    Args:
        outer: The conditions that may hold for more.
        inner: The others, all of which hold.
        slots: What the tool says of the place that each of `outer` is about, in order.
        outer_wide: Whether the first are read wide.
        inner_wide: Whether the others are.
    """
    if inner_wide and not outer_wide:
        return not list(outer)
    return all(
        any(_covers_condition(one, other, slot, wide=outer_wide, inner_wide=inner_wide) for other in inner)
        for one, slot in zip(outer, slots, strict=True)
    )


def _covers_condition(outer: Condition, inner: Condition, slot: Slot, *, wide: bool, inner_wide: bool) -> bool:
    if outer.field != inner.field:
        return False
    if outer.matcher == inner.matcher:
        return True
    try:
        return covers_matcher(outer.matcher_for(slot), inner.matcher_for(slot), wide=wide, inner_wide=inner_wide)
    except ValueError:  # one is no pattern of a path, and the argument is one
        return False


def covers_matcher(outer: Matcher, inner: Matcher, *, wide: bool, inner_wide: bool) -> bool:
    """Return whether a matcher matches whatever another one does, as their rules read them.

    Args:
        outer: The matcher that may match more.
        inner: The other one.
        wide: Whether the first is read wide.
        inner_wide: Whether the second is; then so is the first.
    """
    if outer == inner:
        return True
    if outer.kind in ("not", "list", "presence") or inner.kind in ("not", "list", "presence"):
        return False
    # What one cannot read, and so matches in the wide reading, the other may read, and not match. A list is read as a
    # whole by what asks for one, else element by element.
    if (inner_wide and kinds_of(outer) != kinds_of(inner)) or _as_a_whole(outer) != _as_a_whole(inner):
        return False
    if isinstance(inner, OneOf):
        return all(covers_matcher(outer, one, wide=wide, inner_wide=False) for one in inner.members)
    if isinstance(outer, OneOf):
        return any(covers_matcher(one, inner, wide=wide, inner_wide=False) for one in outer.members)
    if isinstance(outer, Numbers) and isinstance(inner, Numbers):
        return _covers_numbers(outer, inner)
    if isinstance(outer, Text) and isinstance(inner, Text):
        return covers_glob(outer.pattern, inner.pattern, wide=wide)
    if isinstance(outer, PathPattern) and isinstance(inner, PathPattern):
        return _covers_paths(outer.pattern, inner.pattern, wide=wide)
    if isinstance(outer, Mail) and isinstance(inner, Mail):
        return str(outer).startswith("@") and str(inner).rstrip(")").partition("@")[2] == str(outer)[1:]
    return False


def _as_a_whole(matcher: Matcher) -> bool:
    kinds = kinds_of(matcher)
    return "a list" in kinds or kinds == {"null"}


def _covers_numbers(outer: Numbers, inner: Numbers) -> bool:
    if outer.low is not None and (
        inner.low is None or inner.low < outer.low or (inner.low == outer.low and outer.low_open and not inner.low_open)
    ):
        return False
    return outer.high is None or not (
        inner.high is None
        or inner.high > outer.high
        or (inner.high == outer.high and outer.high_open and not inner.high_open)
    )


def _covers_paths(outer: str, inner: str, *, wide: bool) -> bool:
    if any(sign in pattern for pattern in (outer, inner) for sign in "\\[?") or outer.endswith("/"):
        return False
    if inner.endswith("/"):  # a deny takes what is in the folder, too
        return False
    if wide:
        if not (outer.isascii() and inner.isascii()):
            return False
        outer, inner = outer.lower(), inner.lower()
    one, other = _form_of(outer), _form_of(inner)
    # Where the fixed part leads is known when a call comes; the same one leads to the same place.
    return (one.anchor, one.fixed) == (other.anchor, other.fixed) and _covers_names(one.rest, other.rest)


@lru_cache(maxsize=4096)
def _form_of(pattern: str) -> Form:
    return forms_of(pattern, False)[0]


@lru_cache(maxsize=4096)
def _covers_names(outer: tuple[str, ...], inner: tuple[str, ...]) -> bool:
    if not outer:
        return not inner
    if outer[0] == "**":
        return _covers_names(outer[1:], inner) or (bool(inner) and _covers_names(outer, inner[1:]))
    if not inner or inner[0] == "**":
        return False
    return covers_glob(outer[0], inner[0], wide=False, outer_lenient=True, inner_lenient=True) and _covers_names(
        outer[1:], inner[1:]
    )


# --- looking up -------------------------------------------------------------------------------------------------------


Key = tuple[str, ...]
"""What tells matchers apart that cannot cover each other."""


def covering_key(matcher: Matcher) -> Key:
    """Return under which key a matcher is kept that may cover others; see `coverable_keys`."""
    if isinstance(matcher, Text):
        return "text", _head(matcher.pattern)
    if isinstance(matcher, PathPattern):
        form = _form_of(matcher.pattern.lower())
        return "path", form.anchor, *form.fixed
    return (matcher.kind,) if matcher.kind in ("set", "number", "mail") else ("same", str(matcher))


def coverable_keys(matcher: Matcher) -> list[Key]:
    """Return the keys of all matchers that may cover one."""
    if isinstance(matcher, OneOf):
        return [*coverable_keys(matcher.members[0]), covering_key(matcher)]
    own = covering_key(matcher)
    if own[0] == "text":
        return [("set",), *(("text", own[1][:length]) for length in range(len(own[1]) + 1))]
    return [("set",), own]


def _head(pattern: str) -> str:
    """Return what a text that a glob matches begins with, in lower case."""
    found = []
    for token in _tokens(pattern, False):
        if token.kind:
            break
        found.append(token.text)
    return "".join(found).lower()
