"""Words of a text that may be protected paths: a quick look before any of them is read as a path.

1. A text is cut into words in three ways: as it stands at everything that is no part of a usual name; without quotes
   and backslashes where a shell ends a word; and with blanks in quotes as part of a word. So ``agentperm''.toml`` and
   ``"my rules.toml"`` are names, and ``${X}/agentperm.toml`` is one word.
2. Each protected path or pattern has a piece that a path to it holds, in whatever spelling, unless a link or the folder
   that paths are relative to stands in for it. A text that holds none of the pieces mentions none of the paths.
3. A word that names something that is there may be a link, and is worth a reading whatever it is called.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from agentperm_nb.permissions.matching.lookalikes import folded, skeleton

__all__ = ["Mentions", "names_something", "piece_of", "plain_of", "words_in"]

_APART = re.compile(r"[\s\"'`;|&<>(){}\[\]=,]+")
_SHELL = re.compile(r"[\s;|&<>=,]+")
_QUOTED = re.compile(r"""(?:\\.|"[^"\n]*"|'[^'\n]*'|[^\s;|&<>=,'"\\])+""")
_QUOTES = re.compile(r"\\\r?\n|[\"'\\]")
_WILD = re.compile(r"\[[!^]?\]?[^]]*\]|[*?]")
_SLASHES = re.compile(r"[/\\]")
_CODE = re.compile(r"%[0-9A-Fa-f]{2}")
_EDGES = " \t\r\n`(){}[]\"':,;"


def piece_of(pattern: str) -> str:
    """Return the piece of a pattern that every path that matches holds, folded; empty where there is none.

    Args:
        pattern: The pattern, such as ``**/secrets.*``.
    """
    found = ""
    for name in reversed(pattern.split("/")):
        if name in ("", ".", "..", "~", "**") or name.startswith(("~", "$")):
            continue
        longest = max(_WILD.split(name), key=len)
        if len(longest) > 1:
            return folded(longest)
        found = found or longest
    return folded(found)


def plain_of(text: str) -> str:
    """Return a text in all the spellings in which a piece of a path may stand in it, folded."""
    found = [folded(text)]
    if _QUOTES.search(text):
        found.append(folded(_QUOTES.sub("", text)))
    if _CODE.search(text):
        from urllib.parse import unquote

        found.append(folded(unquote(text)))
    if not text.isascii():
        found.extend([skeleton(one) for one in found])
    return "\n".join(found)


def words_in(text: str) -> Iterable[str]:
    """Return the words of a text that may be paths, each once."""
    words = dict.fromkeys(_APART.split(text))
    words.update(dict.fromkeys(_SHELL.split(_QUOTES.sub("", text))))
    if _QUOTES.search(text):
        words.update(dict.fromkeys(_QUOTES.sub("", word) for word in _QUOTED.findall(text)))
    words.pop("", None)
    return words


class Mentions:
    """What a text has to hold to mention one of several paths.

    Args:
        pieces: The piece of each path, folded; an empty one means that every word may be that path.
        folder: What paths are relative to: what it holds itself, a word need not hold.
    """

    def __init__(self, pieces: Iterable[str], folder: str) -> None:
        plain = plain_of(f"{folder}\n{os.path.realpath(folder)}")
        every = False
        names: set[str] = set()
        for piece in pieces:
            every = every or not piece or piece in plain
            names.update((piece, skeleton(piece)))
        self.every: bool = every
        """Whether each word may be one of the paths."""
        self.names: tuple[str, ...] = tuple(sorted(names - {""}))
        """The pieces."""

    def anywhere(self, text: str) -> bool:
        """Return whether a text mentions one of the paths."""
        plain = plain_of(text)
        return any(name in plain for name in self.names)

    def at_an_end(self, word: str) -> bool:
        """Return whether a name in a word that cannot be read begins or ends as one of the paths does."""
        parts = [part.strip(_EDGES) for part in _SLASHES.split(plain_of(word).replace("\n", "/"))]
        return any(part.startswith(self.names) or part.endswith(self.names) for part in parts if part)


def names_something(word: str, folder: str) -> bool:
    """Return whether a path begins with a name that is there, or leads out of the folder."""
    if word[:1] in ("/", "~") or ".." in word or word[:5].lower() == "file:":
        return True
    names: Iterator[str] = (name for name in _SLASHES.split(word) if name not in ("", "."))
    first = next(names, "")
    if not first or len(first) > 255:
        return False
    try:
        return os.path.lexists(f"{folder}/{first}")
    except ValueError:  # a NUL, or half a character
        return False
