r"""Globs of texts: what the wildcards mean, in an exact reading and in a wide one.

1. ``*`` is any characters, none and newlines included; ``?`` one character; ``[ab]`` and ``[a-f]`` one of these;
   ``[!ab]`` one other. ``\`` takes the meaning from the character after it. The whole text has to match.
2. The exact reading compares code points. The wide one takes texts for one that differ in case, in compatibility
   forms or in characters that are not seen (`lookalikes.folded`); where the text or the glob holds letters that look
   like others, it takes these for one too (`lookalikes.skeleton`). What matches exactly matches in the wide reading.
   A text is also read without control characters, and without blanks around it (`lookalikes.plainer`).
3. The time is about in proportion to the text, whatever the glob: nothing is tried a second time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from agentperm_nb.permissions.matching.lookalikes import folded, has_lookalikes, plainer, skeleton, without_controls

__all__ = ["Glob", "GlobError"]

_STAR, _ONE = "*", "?"


class GlobError(ValueError):
    """What is wrong with a glob, and at which of its characters."""

    def __init__(self, problem: str, at: int) -> None:
        super().__init__(problem)
        self.at: int = at
        """Place of the character in the glob."""


class _Set(NamedTuple):
    """``[ab]`` or ``[!ab]``: first and last character of each range."""

    ranges: tuple[tuple[str, str], ...]
    negated: bool

    def source(self) -> str:
        inner = "".join(f"{re.escape(first)}-{re.escape(last)}" for first, last in self.ranges)
        return f"[{'^' if self.negated else ''}{inner}]"

    def wide_source(self, reading: Callable[[str], str]) -> str:
        """Return a pattern for the characters as the wide reading leaves them, several for one now and then."""
        parts: set[str] = set()
        for first, last in self.ranges:
            if ord(last) - ord(first) > 300:
                parts.add(f"[{re.escape(first)}-{re.escape(last)}]")
            within = range(ord(first), min(ord(last), ord(first) + 300) + 1)
            parts.update(re.escape(reading(chr(code))) for code in within)
        alternatives = "|".join(sorted(parts - {""})) or "(?!)"
        return f"(?!{alternatives})." if self.negated else f"(?:{alternatives})"


_Token = str | _Set
_Test = Callable[[str], object]


class Glob:
    """A glob, compiled for both readings.

    Args:
        pattern: The glob.

    Raises:
        GlobError: It is malformed, or can match nothing.
    """

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._tokens: tuple[tuple[_Token, bool], ...] = tuple(_tokens(pattern))
        self.literal: bool = all(literal for _, literal in self._tokens)
        """Whether it has no wildcard: it matches one text exactly."""
        self._ranged = any(isinstance(token, _Set) for token, _ in self._tokens)
        self._single = self._ranged or any(token == _ONE and not literal for token, literal in self._tokens)
        self._open = bool(self._tokens) and all(self._tokens[end] == (_STAR, False) for end in (0, -1))
        self._ascii = pattern.isascii()
        self._exact: _Test = self._test(_as_it_is)
        self._folded: _Test = self._test(folded)
        self._alike = not self._ascii and has_lookalikes(pattern)

    @property
    def text(self) -> str:
        """The one text that a glob without wildcards matches exactly; else what stands between the wildcards."""
        return "".join(str(token) for token, literal in self._tokens if literal)

    @cached_property
    def needle(self) -> str:
        """The longest piece, in lower case, that every ASCII text has which it may match; empty when there is none."""
        if not self._ascii or self._ranged:
            return ""
        return max(self._pieces(folded), key=len)

    def exact(self, text: str) -> bool:
        """Return whether it matches, code point by code point."""
        return bool(self._exact(text))

    def narrow(self, text: str) -> bool:
        """Return whether it matches for an allow: exactly, and in the wide reading too where it excludes characters."""
        if not self._exact(text):
            return False
        return not self._excludes or all(map(self._in_wide, (text, *plainer(text))))

    def wide(self, text: str) -> bool:
        """Return whether it matches in some reading."""
        if self._wide(text):
            return True
        if not self._open:
            return any(map(self._wide, plainer(text)))
        bare = without_controls(text)  # blanks around it make no difference to stars
        return len(bare) < len(text) and self._wide(bare)

    def _wide(self, text: str) -> bool:
        if self._ascii and text.isascii():
            return bool(self._folded(text.lower()) or (self._ranged and self._exact(text)))
        return bool(self._exact(text)) or self._in_wide(text)

    @cached_property
    def _excludes(self) -> bool:
        return any(isinstance(token, _Set) and token.negated for token, _ in self._tokens)

    def _in_wide(self, text: str) -> bool:
        low = folded(text)
        # One character of the text may be several when it is folded, or none: then "?" has to stand for these.
        loose = self._single and not text.isascii() and any(len(folded(char)) != 1 for char in set(text))
        if self._alike or has_lookalikes(low):
            return bool((self._skeleton_loose if loose else self._skeleton)(skeleton(low)))
        return bool((self._folded_loose if loose else self._folded)(low))

    @cached_property
    def _skeleton(self) -> _Test:
        return self._test(skeleton)

    @cached_property
    def _folded_loose(self) -> _Test:
        return self._test(folded, loose=True)

    @cached_property
    def _skeleton_loose(self) -> _Test:
        return self._test(skeleton, loose=True)

    # --- compiling ----------------------------------------------------------------------------------------------------

    def _pieces(self, reading: Callable[[str], str]) -> list[str]:
        """Return what stands between the wildcards."""
        pieces, current = [], ""
        for token, literal in self._tokens:
            if literal:
                current += str(token)
            else:
                pieces.append(reading(current))
                current = ""
        return [*pieces, reading(current)]

    def _test(self, reading: Callable[[str], str], *, loose: bool = False) -> _Test:
        if self._single:
            return self._expression(reading, loose).fullmatch
        pieces = self._pieces(reading)
        if len(pieces) == 1:
            return pieces[0].__eq__
        first, *middle, last = pieces
        return _between(first, [piece for piece in middle if piece], last)

    def _expression(self, reading: Callable[[str], str], loose: bool) -> re.Pattern[str]:
        sections: list[str] = [""]
        run = ""

        def flush() -> None:
            nonlocal run
            sections[-1] += re.escape(reading(run))
            run = ""

        for token, literal in self._tokens:
            if literal:
                run += str(token)
                continue
            flush()
            if isinstance(token, _Set):
                sections[-1] += token.source() if reading is _as_it_is else token.wide_source(reading)
            elif token == _ONE:
                # No character stands for more than 18 others.
                sections[-1] += ".{0,18}?" if loose else "."
            else:
                sections.append("")
        flush()
        first, *middle, last = sections if len(sections) > 1 else (*sections, "")
        if len(sections) == 1:
            return re.compile(first, re.DOTALL)
        # Between two stars the first place that fits is as good as any, so none is tried again.
        inner = "".join(f"(?>.*?{section})" for section in middle if section)
        return re.compile(f"{first}{inner}.*{last}", re.DOTALL)


def _as_it_is(text: str) -> str:
    return text


def _between(first: str, middle: list[str], last: str) -> _Test:
    shortest = len(first) + sum(map(len, middle)) + len(last)

    def test(text: str) -> bool:
        if len(text) < shortest or not text.startswith(first) or not text.endswith(last):
            return False
        place, end = len(first), len(text) - len(last)
        for piece in middle:
            place = text.find(piece, place, end)
            if place < 0:
                return False
            place += len(piece)
        return True

    return test


def _tokens(pattern: str) -> Iterator[tuple[_Token, bool]]:
    """Yield (token, whether it stands for itself); several stars in a row are one."""
    place, star = 0, False
    while place < len(pattern):
        char = pattern[place]
        if char == _STAR:
            if not star:
                yield _STAR, False
            star = True
            place += 1
            continue
        star = False
        if char == _ONE:
            yield _ONE, False
        elif char == "\\":
            place += 1
            if place == len(pattern):
                raise GlobError("a backslash at the end takes the meaning from nothing", place - 1)
            yield pattern[place], True
        elif char == "[":
            token, place = _set(pattern, place)
            yield token, False
            continue
        else:
            yield char, True
        place += 1


def _set(pattern: str, start: int) -> tuple[_Set, int]:
    """Return the set that begins at a bracket, and the place after it."""
    place = start + 1
    negated = pattern[place : place + 1] == "!"
    place += negated
    chars: list[tuple[str, bool]] = []  # with whether it stands for itself
    while place < len(pattern) and pattern[place] != "]":
        escaped = pattern[place] == "\\" and place + 1 < len(pattern)
        place += escaped
        chars.append((pattern[place], escaped))
        place += 1
    if place >= len(pattern):
        raise GlobError("a bracket is opened and not closed", start)
    if not chars:
        raise GlobError("there is nothing between the brackets", start)
    ranges = tuple(_ranges(chars))
    for first, last in ranges:
        if first > last:
            raise GlobError(f"the range {first}-{last} is the wrong way round", start)
    return _Set(ranges, negated), place + 1


def _ranges(chars: Iterable[tuple[str, bool]]) -> Iterator[tuple[str, str]]:
    listed = list(chars)
    place = 0
    while place < len(listed):
        if place + 2 < len(listed) and listed[place + 1] == ("-", False):
            yield listed[place][0], listed[place + 2][0]
            place += 3
        else:
            yield listed[place][0], listed[place][0]
            place += 1
