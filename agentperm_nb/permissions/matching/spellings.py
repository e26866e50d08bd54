"""The spellings of a path: how a text may be meant that is given for one, and what cannot be read at all.

1. Whoever opens a path may expand ``~``, read a ``file:`` URL, decode ``%20``, cut blanks off, or take a backslash for
   a slash. Each of these is a spelling of the text; an allow has to hold for all of them.
2. Spellings of characters (compatibility forms, letters that look alike) are for denies and asks alone. Where one of
   them would have other folders than the text, no allow may rely on it.
3. What stands for something else that nobody here knows cannot be read: variables, another user's ``~``, other
   machines, other URLs, encoded dots and slashes, wildcards, control characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from agentperm_nb.permissions.matching.lookalikes import folded, skeleton

__all__ = ["LONGEST", "LONGEST_NAME", "Counts", "Spelling", "changes_shape", "problem_of", "spellings_of"]

LONGEST = 4096
"""Bytes of a path."""
LONGEST_NAME = 255
"""Bytes of a name in it."""


class Counts(Enum):
    """For whom a spelling counts."""

    ALL = "all"
    """An allow has to hold for it, too."""
    IF_THERE = "if there"
    """An allow has to, if the first folder or file of it is there."""
    WIDE = "wide"
    """A deny or an ask only."""


class Spelling(NamedTuple):
    """A way in which a text may be meant."""

    text: str
    counts: Counts


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_HALF = re.compile(r"[\ud800-\udfff]")
# But the kinds of streams of a file on Windows are no variables: notes.txt::$DATA.
_VARIABLE = re.compile(
    r"(?:(?<!:)|(?!\$(?i:data|index_allocation|i30|bitmap)(?![A-Za-z0-9_])))\$[A-Za-z_{(]|`|%[A-Za-z_][A-Za-z0-9_()]*%"
)
_ENCODED = re.compile(r"%[0-9A-Fa-f]{2}")
# Dots, slashes, backslashes, NUL and percent signs in code; the longer codes of them that sloppy decoders take; %uXXXX.
_TRICK = re.compile(r"%(?:2e|2f|5c|[01][0-9a-f]|7f|c[01]%|e0%[89][0-9a-f]|f0%8[0-9a-f]|u[0-9a-f]{4})", re.IGNORECASE)
_FILE = re.compile(r"file:", re.IGNORECASE)
# With a slash, or a second colon as of chained URLs; but name::$DATA is a stream of a file on Windows.
_URL = re.compile(
    r"[a-z][a-z0-9+.\-]+:(?:[/\\]|:(?!\$))|(?:data|javascript|mailto|urn):|.*[a-z][a-z0-9+.\-]+://", re.IGNORECASE
)
_WILDCARD = re.compile(r"[*?]")
_HERE = {"", "localhost"}
_FALSE_DOTS = re.compile("[\u2024\u2025\uff0e\ufe52\uff61]")
_DECODED_AT_MOST = 5


def problem_of(text: str) -> str:
    """Return why a text cannot be read as a path on any system, or an empty text."""
    if not text.strip():
        return "an empty text, not a path"
    if _HALF.search(text):
        return "a text with half of a surrogate pair, which is no character"
    if _CONTROL.search(text):
        return "a text with control characters, not a path"
    if len(text.encode()) > LONGEST or _too_long(text):
        return "a text that is too long for a path"
    return _problem_of_meaning(text) or ("" if text.isascii() else _problem_of_meaning(_compatible(text)))


def _too_long(text: str) -> bool:
    return len(text) > LONGEST_NAME // 4 and any(len(part.encode()) > LONGEST_NAME for part in re.split(r"[/\\]", text))


def _problem_of_meaning(text: str) -> str:
    if _TRICK.search(text):
        return "a path with an encoded dot, slash or control character"
    if _VARIABLE.search(text):
        return "a path with a variable or a command that nobody has expanded"
    bare = _bare(text)
    if bare.startswith("~") and bare[1:2] not in ("", "/", "\\"):
        return "a path in the home folder of another user"
    file = _FILE.match(bare)
    return "a URL, not a path" if _URL.match(bare, file.end() if file is not None else 0) else ""


def _compatible(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def changes_shape(text: str) -> bool:
    """Return whether look-alike characters make other folders of a text, or dots that are none."""
    if text.isascii():
        return False
    return _FALSE_DOTS.search(text) is not None or _shape(text) != _shape(skeleton(folded(text)))


def _shape(text: str) -> list[str]:
    parts = text.replace("\\", "/").split("/")
    return [text[:1] if text[:1] == "~" else "", *(part if part in ("", ".", "..") else "…" for part in parts)]


def spellings_of(text: str) -> list[Spelling] | str:
    """Return how a text may be meant, or why nobody can say; the first spelling is the text itself."""
    problem = problem_of(text)
    if problem:
        return problem
    found: dict[str, Counts] = {}
    if _WILDCARD.search(text.partition("?")[0] if _FILE.match(_bare(text)) else text):
        return "a path with a wildcard, which may stand for any name"
    for spelling in _spellings(text):
        if isinstance(spelling, str):
            return spelling
        found.setdefault(*spelling)
    return [Spelling(*item) for item in found.items()]


def _spellings(text: str) -> Iterator[Spelling | str]:
    bare = _bare(text)
    if _FILE.match(bare):
        yield from _of_url(bare)
        yield Spelling(f"./{text}", Counts.IF_THERE)
    else:
        yield Spelling(text, Counts.ALL)
        yield from _decoded(text)
        if bare != text:
            yield Spelling(bare, Counts.ALL)
    if bare.startswith("~"):
        yield Spelling(f"./{text}", Counts.IF_THERE)
    if not text.isascii():
        looks = folded(bare)
        for other in (unicodedata.normalize("NFC", bare), _compatible(bare), looks, skeleton(looks)):
            if other.strip() and not _CONTROL.search(other):
                yield Spelling(other, Counts.WIDE)


def _bare(text: str) -> str:
    """Return the text without blanks and quotes around it."""
    bare = text.strip()
    if len(bare) > 2 and bare[0] == bare[-1] and bare[0] in "'\"":
        bare = bare[1:-1].strip() or bare
    return bare


def _decoded(text: str) -> Iterator[Spelling | str]:
    """Decode what may be encoded once or several times."""
    from urllib.parse import unquote

    for _ in range(_DECODED_AT_MOST):
        if _ENCODED.search(text) is None:
            return
        try:
            plain = unquote(text, errors="strict")
        except UnicodeDecodeError:
            return  # a name with a percent sign in it
        problem = problem_of(plain)
        if problem:
            yield f"{problem} (decoded)"
            return
        yield Spelling(plain, Counts.ALL)
        text = plain
    yield "a path that is encoded many times"


def _of_url(text: str) -> Iterator[Spelling | str]:
    rest = text[len("file:") :].replace("\\", "/")
    if rest.startswith("//"):
        host, slash, below = rest[2:].partition("/")
        if re.fullmatch(r"[A-Za-z][:|]", host):  # file://C:/x
            below, slash = f"{host[0]}:/{below}", ""
        elif host.lower() not in _HERE:
            yield "a file of another machine"
            return
        rest = slash + below
    drive = re.match(r"/*([A-Za-z])[:|](?=/|\Z)", rest)
    if drive is not None:
        rest = f"{drive[1]}:/{rest[drive.end() :]}"
    for path in dict.fromkeys((re.split("[?#]", rest, maxsplit=1)[0], rest)):
        if not path.strip("/ "):
            path = "/"
        yield Spelling(path, Counts.ALL)
        yield from _decoded(path)
