"""Where the rules stand in the text of a TOML file: the places of an array and of its items.

It reads no more of TOML than it has to: strings, comments and brackets, so that it is never misled by what stands in
one of them. The text is TOML already; whoever changes it reads the result again.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field

__all__ = ["Array", "rules_array"]

# What a bracket, a comma or a sign of a comment means nothing in.
_SKIPPED = re.compile(
    r'"""(?:[^"\\]|\\[\s\S]|"{1,2}(?!"))*"{3,5}'
    r"|'''(?:[^']|'{1,2}(?!'))*'{3,5}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|'[^'\n]*'"
    r"|#[^\n]*"
)
_KEY = re.compile(r'[ \t]*((?:"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|[A-Za-z0-9_.-]|[ \t]+(?=[^=\s]))+)[ \t]*=[ \t]*')
_TABLE = re.compile(r"[ \t]*\[")


@dataclass
class Array:
    """An array in a text."""

    start: int
    """Place of its opening bracket; where there is no array, of where a line with one could stand."""
    end: int = 0
    """Place of its closing bracket."""
    items: list[tuple[int, int]] = field(default_factory=list)
    """Start and end of each item."""
    comma: int | None = None
    """Place of the comma behind the last item, where there is one."""

    @property
    def found(self) -> bool:
        """Whether there is an array."""
        return self.end > self.start


def rules_array(text: str) -> Array:
    """Return where the array of the key ``rules`` stands, before any table; else where a line with one could.

    Args:
        text: The text, which is TOML.
    """
    at, behind = 0, 0
    while at < len(text):
        if _TABLE.match(text, at):
            break
        key = _KEY.match(text, at)
        if key is None:  # an empty line, or a comment
            at = _end_of_line(text, at)
            continue
        if text.startswith("[", key.end()) and _is_rules(key[1]):
            return _array(text, key.end())
        at = behind = _end_of_line(text, _end_of_value(text, key.end()))
    return Array(behind)


def _is_rules(key: str) -> bool:
    try:
        return list(tomllib.loads(f"{key} = 0").items()) == [("rules", 0)]
    except tomllib.TOMLDecodeError:
        return False


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _end_of_value(text: str, at: int) -> int:
    """Return where a value ends, or the comment behind it begins."""
    depth = 0
    while at < len(text):
        skipped = _SKIPPED.match(text, at)
        if skipped is not None:
            at = skipped.end()
            continue
        char = text[at]
        if char == "\n" and depth == 0:
            return at
        depth += (char in "[{") - (char in "]}")
        at += 1
    return at


def _array(text: str, start: int) -> Array:
    """Read an array from its opening bracket on."""
    found, at, depth = Array(start), start + 1, 0
    item: int | None = None
    end = at
    while at < len(text):
        skipped = _SKIPPED.match(text, at)
        char = text[at]
        if skipped is None and depth == 0 and char in ",]":
            if item is not None:
                found.items.append((item, end))
                item, found.comma = None, at if char == "," else None
            if char == "]":
                found.end = at
                return found
        elif char != "#" and not char.isspace():
            item = at if item is None else item
            if skipped is None:
                depth += (char in "[{") - (char in "]}")
            end = at + 1 if skipped is None else skipped.end()
        at = at + 1 if skipped is None else skipped.end()
    return found
