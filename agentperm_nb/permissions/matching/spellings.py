"""The spellings of a path: how a text may be meant that is given for one, and what cannot be read at all.

1. Whoever opens a path may expand ``~``, read a ``file:`` URL, decode ``%20``, cut blanks off, take a backslash for a
   slash, or drop it and quotes as a shell does. Each of these is a spelling of the text; an allow has to hold for all.
2. Spellings of characters (compatibility forms, letters that look alike), and names without the blanks around them, are
   for denies and asks alone. Where one of them would have other dots or slashes than the text, no allow may rely on it.
3. What stands for something else that nobody here knows cannot be read: variables, another user's ``~``, other
   machines, other URLs, encoded dots and slashes, wildcards, control characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from agentperm_nb.permissions.matching.lookalikes import folded, skeleton, without_unseen

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
    """An allow has to, if somebody could open it: the first folder of it is there, or it is no more than a name."""
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
_URL = re.compile(r"[a-z][a-z0-9+.\-]+:(?:[/\\]|:(?!\$))|(?:data|javascript|mailto|urn):", re.IGNORECASE)
_URL_WITHIN = re.compile(r"[a-z][a-z0-9+.\-]://", re.IGNORECASE)
_DROPPED = re.compile(r"[\\'\"]")
_EDGES = re.compile(r"\s*([/\\])\s*")
_BLANK_DOTS = re.compile(r"(?:\A|[/\\])(?:\s+\.\.?\s*|\.\.?\s+)(?:[/\\]|\Z)")
_WILDCARD = re.compile(r"[*?]")
_PREFIX = re.compile(r"\A(?:[\\/]{2}[?.]|[\\/]\?\?)[\\/]")  # Windows: the path behind it is taken as it stands
_HERE = {"", "localhost"}
_FALSE_DOTS = re.compile("[\u2024\u2025\uff0e\ufe52\uff61]")
_MOST = 40
_ENCODED_PART = "a path with an encoded dot, slash or control character"
_NOT_EXPANDED = "a path with a variable or a command that nobody has expanded"
_IS_URL = "a URL, not a path"
_MEANINGS = {_ENCODED_PART, _NOT_EXPANDED, _IS_URL}
"""Why a text cannot be read that stands for another one."""
_SEPARATORS = str.maketrans(
    {
        **dict.fromkeys("\u2044\u2215\u2571\u27cb\u29f8\u1735\u2cc6\u31d3", "/"),
        **dict.fromkeys("\u2216\u27cd\u29f5\u29f9\u2572", "\\"),
        **dict.fromkeys("\u3002\ua4f8\ua60e\u06f0", "."),
    }
)
"""Slashes, backslashes and dots that no compatibility form makes plain."""


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
        return _ENCODED_PART
    if _VARIABLE.search(text):
        return _NOT_EXPANDED
    bare = _bare(text)
    if bare.startswith("~") and bare[1:2] not in ("", "/", "\\"):
        return "a path in the home folder of another user"
    file = _FILE.match(bare)
    host = re.match(r"[/\\]{2}([^/\\]*)", bare[file.end() :]) if file is not None else None
    if host is not None and host[1].lower() not in _HERE and not re.fullmatch(r"[A-Za-z][:|]", host[1]):
        return "a file of another machine"
    start = file.end() if file is not None else 0
    return _IS_URL if _URL.match(bare, start) or _URL_WITHIN.search(bare, start) else ""


def _compatible(text: str) -> str:
    return unicodedata.normalize("NFKC", text)


def _may_have_blanks(text: str) -> bool:
    """Return whether there may be blanks in a text: the only one that is printable ASCII is the space."""
    return " " in text or not text.isascii() or not text.isprintable()


def changes_shape(text: str) -> bool:
    """Return whether look-alike characters or blanks make other folders of a text, or dots that are none."""
    if ("%" in text or _may_have_blanks(text)) and _BLANK_DOTS.search(_decoded(text)):
        return True
    if text.isascii():
        return False
    return _FALSE_DOTS.search(text) is not None or _shape(text) != _shape(skeleton(folded(text)))


def _shape(text: str) -> list[str]:
    parts = text.replace("\\", "/").split("/")
    return [text[:1] if text[:1] == "~" else "", *(part if part in ("", ".", "..") else "…" for part in parts)]


def spellings_of(text: str, *, windows: bool = False) -> list[Spelling] | str:
    """Return how a text may be meant, or why nobody can say; the first spelling is the text itself.

    Args:
        text: The text.
        windows: Whether a backslash is a slash in any case.
    """
    bare = _bare(text)
    bare = bare.partition("?")[0] if _FILE.match(bare) else _PREFIX.sub("", bare) if windows else bare
    if _WILDCARD.search(bare):
        return "a path with a wildcard, which may stand for any name"
    found: dict[str, Counts] = {}
    waiting = [Spelling(text, Counts.ALL)]
    while waiting:
        each, counts = waiting.pop(0)
        if found.get(each) in (Counts.ALL, counts):
            continue
        if len(found) >= _MOST:
            return "a path that may be meant in too many ways"
        problem = problem_of(each)
        if problem and (counts is Counts.ALL or problem in _MEANINGS):
            return problem
        if not problem:
            found[each] = counts
            waiting += [one if counts is Counts.ALL else one._replace(counts=counts) for one in _meant(each, windows)]
    return list(_with_names(found))


def _with_names(found: dict[str, Counts]) -> Iterator[Spelling]:
    """Yield the spellings with those that are for comparing only, or for what is called like a URL or ``~``."""
    for text, counts in found.items():
        if _FILE.match(text):
            yield Spelling(f"./{text}", Counts.IF_THERE)
            continue
        yield Spelling(text, counts)
        if text.startswith("~"):
            yield Spelling(f"./{text}", Counts.IF_THERE)
        if not text.isascii():
            looks = folded(text)
            yield Spelling(looks, Counts.WIDE)
            yield Spelling(skeleton(looks), Counts.WIDE)


def _meant(text: str, windows: bool) -> Iterator[Spelling]:
    """Yield what a text may be taken for in one step."""
    if _FILE.match(text):
        yield from (Spelling(path, Counts.ALL) for path in _of_url(text, windows))
        return
    bare = _bare(text)
    if bare != text:
        yield Spelling(bare, Counts.ALL)
    trimmed = _EDGES.sub(r"\1", text) if _may_have_blanks(text) else text
    if trimmed != text:
        yield Spelling(trimmed, Counts.WIDE)
    plain = _decoded(text)
    if plain != text:
        yield Spelling(plain, Counts.ALL)
    if not windows:  # a backslash is a character of a name, and for some a slash; a shell drops it, and quotes
        yield Spelling(text.replace("\\", "/"), Counts.ALL)
        yield Spelling(_DROPPED.sub("", text), Counts.ALL)
    if not text.isascii():
        seen = without_unseen(text)
        for form in ("NFC", "NFD", "NFKC"):
            yield Spelling(unicodedata.normalize(form, text), Counts.WIDE)
        yield Spelling(_compatible(seen), Counts.WIDE)
        yield Spelling(_compatible(seen).translate(_SEPARATORS), Counts.WIDE)


def _bare(text: str) -> str:
    """Return the text without blanks and quotes around it."""
    bare = text.strip()
    if len(bare) > 2 and bare[0] == bare[-1] and bare[0] in "'\"":
        bare = bare[1:-1].strip() or bare
    return bare


def _decoded(text: str) -> str:
    if _ENCODED.search(text) is None:
        return text
    from urllib.parse import unquote

    return unquote(text)


def _of_url(text: str, windows: bool) -> Iterator[str]:
    """Yield the paths that a ``file:`` URL may be taken for, not decoded."""
    rest = text[len("file:") :]
    host = re.match(r"[/\\]{2}([^/\\]*)", rest)
    if host is not None and not re.fullmatch(r"[A-Za-z][:|]", host[1]):  # but file://C:/x has a drive there
        rest = rest[host.end() :]
    drive = re.match(r"[/\\]*([A-Za-z])[:|](?=[/\\]|\Z)", rest) if windows else None
    if drive is not None:
        rest = f"{drive[1]}:/{rest[drive.end() :]}"
    for path in dict.fromkeys((re.split("[?#]", rest, maxsplit=1)[0], rest)):
        yield path if path.strip("/\\ ") else "/"
