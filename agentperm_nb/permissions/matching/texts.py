"""Texts: globs in which ``*`` crosses everything.

1. A deny or an ask reads wide: case, compatibility forms, characters that are not seen and letters that look alike make
   no difference. An allow reads narrow: code point by code point.
2. Only a text can be read, and only one that is made of characters: half of a surrogate pair is none.
3. A `Pattern` does not say whether it is of a text or of a path: its argument decides.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, ClassVar

from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.matching.globs import Glob, GlobError
from agentperm_nb.permissions.matching.reading import ABSENT, Matcher, Reading, Where
from agentperm_nb.permissions.matching.writing import quoted, word_text

__all__ = ["BOTH", "NEITHER", "WIDE", "Pattern", "PatternError", "Text", "json_kind", "unreadable"]

BOTH = Reading(True, True)
"""Matches however it is read."""
WIDE = Reading(True, False)
"""Matches in some reading only."""
NEITHER = Reading(False, False)
"""Matches in no reading."""

_HALF = re.compile("[\ud800-\udfff]")


class PatternError(ValueError):
    """A pattern that is malformed, or that can match nothing."""

    def __init__(self, problem: str, at: int, message: str) -> None:
        super().__init__(message)
        self.problem: str = problem
        """What is wrong, in a sentence."""
        self.at: int = at
        """Place of the character in the pattern."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.problem, self.at, str(self))


class Text(Matcher):
    """A glob that a text has to match as a whole.

    Args:
        pattern: The glob; see `globs`.

    Raises:
        TypeError: It is not a string.
        PatternError: It is malformed, or can match nothing.
    """

    kind: ClassVar[str] = "text"

    def __init__(self, pattern: str) -> None:
        self.pattern: str = pattern
        self._glob = _glob_of(pattern)

    def __str__(self) -> str:
        return f"text({_inside(self.pattern)})"

    @property
    def glob(self) -> Glob:
        """The pattern, compiled."""
        return self._glob

    def read(self, value: Any, where: Where) -> Reading:
        """Read a text."""
        if type(value) is str or isinstance(value, str):
            glob = self._glob
            if not glob.wide(value):
                return NEITHER if value.isascii() or not _HALF.search(value) else _not_characters()
            if value.isascii():
                return BOTH if glob.narrow(value) else WIDE
            if _HALF.search(value):
                return _not_characters()
            return BOTH if glob.narrow(value) else WIDE
        return NEITHER if value is ABSENT else unreadable(value, "a text")

    def __getstate__(self) -> dict[str, Any]:
        # Another process may have another Python, with other expressions for the patterns.
        return {"pattern": self.pattern}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.pattern = state["pattern"]
        self._glob = _glob_of(self.pattern)


class Pattern(Matcher):
    """A pattern of a text or a path, whichever its argument is.

    Args:
        pattern: The pattern.

    Raises:
        TypeError: It is not a string.
        PatternError: It is malformed, or can match nothing.
    """

    kind: ClassVar[str] = "pattern"

    def __init__(self, pattern: str) -> None:
        if not isinstance(pattern, str):
            _glob_of(pattern)
        self.pattern: str = pattern

    def __str__(self) -> str:
        return word_text(self.pattern)

    def read(self, value: Any, where: Where) -> Reading:
        """Read a value as a text."""
        return self.as_text.read(value, where)

    @cached_property
    def as_text(self) -> Text:
        """The pattern of a text."""
        return Text(self.pattern)

    @cached_property
    def as_path(self) -> Matcher:
        """The pattern of a path."""
        from agentperm_nb.permissions.matching.paths import PathPattern

        return PathPattern(self.pattern)

    def __getstate__(self) -> dict[str, Any]:
        return {"pattern": self.pattern}


def unreadable(value: Any, wanted: str) -> Reading:
    """Return the reading of a value of the wrong type.

    Args:
        value: The value; only its type is told.
        wanted: What can be read, such as ``a text``.
    """
    return Reading(False, False, f"{json_kind(value)}, not {wanted}")


def json_kind(value: Any) -> str:
    """Return what a value is, in words: ``a number``, ``an empty list``, …"""
    if value is ABSENT:
        return "nothing"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return f"a value of the type {type(value).__name__}"


def _not_characters() -> Reading:
    return Reading(False, False, "a text with half of a surrogate pair, which is no character")


def _inside(pattern: str) -> str:
    """Return a pattern as it is written between brackets."""
    return word_text(pattern)


def _glob_of(pattern: object) -> Glob:
    example = 'rule("deny run(command=*rm -rf*)")'
    if not isinstance(pattern, str):
        raise TypeError(fix_message(f"a pattern is a string (got: {pattern!r})", "give a text", example))
    try:
        return Glob(pattern)
    except GlobError as error:
        problem = str(error)
        fix = r"close the bracket and put characters into it, or write \[ for the character"
        if "backslash" in problem:
            fix = r"write \\ for the character"
        raise PatternError(
            problem, error.at, fix_message(f"the pattern {quoted(pattern)} can match nothing: {problem}", fix, example)
        ) from None
