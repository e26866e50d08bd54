"""Names that are nearly right: what a pattern that matches no tool was probably meant to match.

It is called near only when it is very likely a mistake: another separator or case; one letter left out, doubled or
swapped with its neighbour inside of a word of at least five letters; one letter replaced by another inside of a word of
at least seven; a prefix or brackets from the notation of another product; alternatives in one pattern, which patterns
do not have. Two names that only begin alike are two names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from agentperm_nb.permissions.builtin import DenyByName

__all__ = ["Near", "Nearby", "may_match"]

_FEWEST_LETTERS = 5
_FEWEST_TO_REPLACE = 7
_WILD = re.compile(r"[*?\[]")


class Near(NamedTuple):
    """What was probably meant."""

    tool: str
    """A tool that would match; empty where none would, and the form alone is wrong."""
    instead: str
    """What to write."""
    why: str = ""
    """What is wrong with the form, where that is it."""


class Nearby:
    """Finds what patterns were probably meant to match.

    Args:
        tools: Names of tools.
    """

    def __init__(self, tools: Iterable[str]) -> None:
        self._tools = list(tools)
        self._by_words = {_words(tool): tool for tool in self._tools}
        self._bare = {words.replace("_", ""): tool for words, tool in self._by_words.items()}
        self._by_start: dict[str, list[str]] = {}
        for tool in self._tools:
            self._by_start.setdefault(tool[:1].lower(), []).append(tool)

    def to(self, pattern: str) -> Near | None:
        """Return what a pattern was probably meant to match, or None.

        Args:
            pattern: The pattern, which matches none of the tools.
        """
        for find in (self._of_another_product, self._alternatives, self._separators, self._typo):
            found = find(pattern)
            if found is not None:
                return found
        return None

    def _of_another_product(self, pattern: str) -> Near | None:
        name, bracket, rest = pattern.partition("(")
        if bracket and rest.endswith(")") and (tool := _matched(name, self._tools)) is not None:
            why = "conditions on arguments are not written in a pattern of names"
            return Near(tool, f'rule("deny {tool}(command=…)")', why)
        if pattern.lower().startswith("mcp__"):
            tool = _matched(pattern[len("mcp__") :], self._tools)
            if tool is not None:
                return Near(tool, pattern[len("mcp__") :])
        return None

    def _alternatives(self, pattern: str) -> Near | None:
        if pattern.startswith("!") and (tool := _matched(pattern[1:], self._tools)) is not None:
            return Near(tool, pattern[1:], "a ! in front has no meaning in a pattern")
        parts: list[str] = []
        braces = re.fullmatch(r"([^{}]*)\{([^{}]*,[^{}]*)\}([^{}]*)", pattern)
        if braces is not None:
            parts = [f"{braces[1]}{one.strip()}{braces[3]}" for one in braces[2].split(",")]
        elif "|" in pattern:
            parts = [one.strip() for one in pattern.strip("()").split("|")]
        elif "," in pattern:
            parts = [one.strip() for one in pattern.split(",")]
        found = next((tool for one in parts if (tool := _matched(one, self._tools)) is not None), None)
        if found is None:
            return None
        return Near(found, ", ".join(map(repr, parts)), "a pattern has no alternatives, so give several patterns")

    def _separators(self, pattern: str) -> Near | None:
        if sum(char.isalpha() for char in pattern) < _FEWEST_LETTERS:
            return None
        wild = _WILD.search(pattern) is not None
        if wild:
            found = _matched(_words(pattern), self._by_words)
            tool = None if found is None else self._by_words[found]
        else:
            tool = self._bare.get(_words(pattern).replace("_", ""))
        if tool is None:
            return None
        signs = sorted(set(re.findall(r"[-_.]+", tool)))
        instead = re.sub(r"[-_.]+", signs[0], pattern) if len(signs) == 1 and wild else tool
        return Near(tool, instead if _matched(instead, [tool]) else tool)

    def _typo(self, pattern: str) -> Near | None:
        first = _WILD.search(pattern)
        head = pattern if first is None else pattern[: first.start()]
        if sum(char.isalpha() for char in head) < _FEWEST_LETTERS:
            return None
        rest = pattern[len(head) :]
        for tool in self._by_start.get(head[:1].lower(), ()):  # the first letter is seldom wrong, and makes other words
            for mended in _mended(head.lower(), tool.lower(), whole=not rest):
                instead = tool[: len(mended)] + rest
                if _matched(instead, [tool]) is not None:
                    return Near(tool, instead)
        return None


def _matched(pattern: str, tools: Iterable[str]) -> str | None:
    if not pattern or any(char.isspace() for char in pattern):
        return None
    likely = may_match(pattern, tools)
    if not likely:
        return None
    matches = DenyByName([pattern]).for_name
    return next((tool for tool in likely if matches(tool) is not None), None)


def may_match(pattern: str, names: Iterable[str]) -> list[str]:
    """Return the names that a pattern may match, by how they begin: most are told apart without an expression.

    Args:
        pattern: The pattern.
        names: The names.
    """
    head = _WILD.split(pattern, maxsplit=1)[0].lower()
    if not head or not head.isascii() or "\\" in head:
        return list(names)
    return [name for name in names if not name.isascii() or name.lower().startswith(head)]


def _words(text: str) -> str:
    """Return a name, or a pattern, with one kind of separator between its words."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", text)
    return re.sub(r"[-_.]+", "_", parted).lower()


def _mended(head: str, tool: str, *, whole: bool) -> Iterator[str]:
    """Yield beginnings of a tool's name that a text is one slip away from."""
    at = next((place for place, (one, other) in enumerate(zip(head, tool, strict=False)) if one != other), 0)
    # A slip is inside of a word: another beginning or end makes another word, such as a plural.
    if at == 0 or not all(char.isalpha() for char in (head[at - 1], head[at], tool[at])):
        return
    letters = sum(char.isalpha() for char in head)
    slips: list[tuple[int, Callable[[], bool]]] = [
        (len(head) + 1, lambda: tool[at + 1 : len(head) + 1] == head[at:]),  # a letter left out
        (len(head) - 1, lambda: tool[at : len(head) - 1] == head[at + 1 :]),  # one too many
        (
            len(head),
            lambda: tool[at : at + 2] == head[at : at + 2][::-1] and tool[at + 2 : len(head)] == head[at + 2 :],
        ),
        (len(head), lambda: letters >= _FEWEST_TO_REPLACE and tool[at + 1 : len(head)] == head[at + 1 :]),
    ]
    for length, fits in slips:
        if length <= len(tool) and (length == len(tool) or not whole) and fits():
            yield tool[:length]
