"""Lists: a condition on any of the elements, or on every one.

1. A deny or an ask asks for any element and an allow for every one, where the rule does not say.
2. Nothing is true of an empty list: neither of any element nor of every one.
3. One element that cannot be read makes the list unreadable.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.matching.reading import ABSENT, Matcher, Reading, Where
from agentperm_nb.permissions.matching.texts import NEITHER, unreadable

__all__ = ["AnyOf", "EveryOf", "read_each"]


class _OfElements(Matcher):
    kind: ClassVar[str] = "list"
    every: ClassVar[bool]
    _word: ClassVar[str]

    def __init__(self, inner: Matcher) -> None:
        if inner.kind in {"list", "presence"}:
            raise TypeError(
                fix_message(
                    f"{self._word} stands before a value, a pattern or a set (got: {inner})",
                    "write it once",
                    f'rule("ask send_email(recipients={self._word} !@example.com)")',
                )
            )
        self.inner = inner

    def __str__(self) -> str:
        return f"{self._word} {self.inner}"

    def read(self, value: Any, where: Where) -> Reading:
        """Read a list."""
        if isinstance(value, list):
            return read_each(value, self.inner, where, every=self.every)
        return NEITHER if value is ABSENT else unreadable(value, "a list")


class AnyOf(_OfElements):
    """A condition on at least one element of a list.

    Args:
        inner: The condition on an element.

    Raises:
        TypeError: It is about lists itself.
    """

    every: ClassVar[bool] = False
    _word: ClassVar[str] = "any"


class EveryOf(_OfElements):
    """A condition on every element of a list that is not empty.

    Args:
        inner: The condition on an element.

    Raises:
        TypeError: It is about lists itself.
    """

    every: ClassVar[bool] = True
    _word: ClassVar[str] = "every"


def read_each(values: Iterable[Any], matcher: Matcher, where: Where, *, every: bool) -> Reading:
    """Read the elements of a list.

    Args:
        values: The elements.
        matcher: What is asked of each.
        where: Where they are read.
        every: Whether it is asked of every element, or of any.
    """
    read = [matcher.read(value, where) for value in values]
    if not read:
        return NEITHER
    place, problem = next(((place, reading.problem) for place, reading in enumerate(read) if reading.problem), (0, ""))
    readings = tuple(text for reading in read for text in reading.readings)
    if problem:
        return Reading(False, False, f"element {place + 1} is {problem}", readings)
    if every:
        return Reading(all(r.any for r in read), all(r.all and r.any for r in read), "", readings)
    return Reading(any(r.any for r in read), any(r.all and r.any for r in read), "", readings)
