"""Protected paths: what an agent is not to write without a person's word, whatever its rules say.

1. A call that would write one is asked about after all denies, and before anything else has a say: no allow, mode,
   policy or remembered answer for more than this very call lets it pass. The denies and protected paths of an agent
   also bind those that work for it.
2. A call would write one when its tool may write, as its hints for this call say, and an argument reads as that path.
   A server's word that its tool only reads does not count.
3. Every text in the arguments is read, however deep it is nested, names of fields too; in all the ways that a deny
   reads a path (`matching.places`): as typed and resolved, in any case and spelling. Two names of one file are one. An
   argument for a path that cannot be read may be any path, and is asked about.
4. Each text is read word by word as well, since a command may hold a path: words that mention a protected path
   (`mentions`), and the first thousands of a call that name something that is there, since that may be a link. A text
   of more than 200,000 characters that may hold one is not read but asked about. That finds no more than what stands
   there: a shell has other ways.
5. The policy files of all layers are protected, those that are not there yet too, with the folder of agentperm_nb's own
   settings and what is in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.kinds import AskFirst
from agentperm_nb.permissions.matching.conditions import here
from agentperm_nb.permissions.matching.lookalikes import folded, has_lookalikes, skeleton
from agentperm_nb.permissions.matching.paths import PathPattern, is_path_argument
from agentperm_nb.permissions.matching.places import Fold, Parts, Place, fold_parts, names_of, normal, place_of
from agentperm_nb.permissions.matching.reading import Where
from agentperm_nb.permissions.matching.windows import fits_short
from agentperm_nb.permissions.mentions import Mentions, names_something, piece_of, words_in
from agentperm_nb.permissions.verdicts import Ask, Verdict
from agentperm_nb.render import shorten
from agentperm_nb.tools import Tool

__all__ = ["Guarded", "ProtectedPaths", "guarded", "only_reads"]

_LONGEST, _LONGEST_TEXT = 5_000, 200_000  # characters of a text that is read as a path, and word by word
_LOOKED_UP = 5_000  # words of one call of which is looked up whether they are there
_MANY = 100  # texts in one call, of which not each is read as a path without a look at it
_BACKSLASH, _AROUND, _SLASHES = "\\", " \t\r\n'\"", re.compile(r"[/\\]")
_ELSEWHERE = re.compile(r"\s*(?:\Z|(?!file:)[a-z][a-z0-9+.\-]+://)", re.IGNORECASE)
_MAGIC = re.compile(r"[*?\[]")
_EXAMPLE = 'Agent(tools, protected=["audit.db", "keys/**"])'


@dataclass(frozen=True)
class Guarded:
    """A path that is protected."""

    path: str
    """The path, absolute; or a pattern."""
    what: str = "a protected path"
    """What it is, for the person who is asked."""
    below: bool = False
    """Whether all that is in it is protected, too."""
    pattern: PathPattern | None = None
    """The pattern, where it is one."""


def guarded(protected: object, folder: str) -> tuple[Guarded, ...]:
    """Return what was given as ``protected=``.

    Args:
        protected: A list of paths and patterns.
        folder: What they are relative to.

    Raises:
        TypeError: It is no list of paths.
        ValueError: A pattern can match nothing.
    """
    if isinstance(protected, str | bytes | os.PathLike) or not isinstance(protected, Iterable):
        raise TypeError(
            fix_message(f"protected= takes a list of paths (got: {protected!r})", "put it in a list", _EXAMPLE)
        )
    return tuple(_guarded(one, folder) for one in protected)


def _guarded(given: object, folder: str) -> Guarded:
    if isinstance(given, Guarded):
        return given
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str):
        raise TypeError(fix_message(f"protected= takes paths (got: {given!r})", "give texts or Paths", _EXAMPLE))
    if not text.strip() or "\0" in text:
        raise ValueError(fix_message(f"protected= got {text!r}, which is no path", "name a file or a folder", _EXAMPLE))
    if not isinstance(given, str) or not _MAGIC.search(text):
        below = text.endswith(("/", os.sep))
        return Guarded(os.path.join(folder, os.path.expanduser(text)), below=below)
    # Where it is relative to, it stays: a run below may have another folder.
    anchored = text.startswith(("/", "~", "**")) or os.path.isabs(text)
    base = _MAGIC.sub(r"[\g<0>]", folder).rstrip("/")
    return Guarded(text, pattern=PathPattern(text if anchored else f"{base}/{text}"))


def _looks(text: str) -> str:
    return skeleton(folded(text))


_FOLDS: tuple[Fold, ...] = (str.lower, folded, _looks)


_Found = tuple[tuple[Guarded, tuple[Parts, ...], bool, tuple[int, int] | None], ...]
"""Each protected path with its places, whether all below it is protected too, and which file it is."""


class _Now:
    """Where the protected paths are, as things are in this turn."""

    def __init__(self, found: _Found) -> None:
        self.found = found
        self.exact: dict[Fold, dict[Parts, Guarded]] = {fold: {} for fold in _FOLDS}
        self.below: dict[Fold, list[tuple[Parts, Guarded]]] = {fold: [] for fold in _FOLDS}
        self.files: dict[tuple[int, int], Guarded] = {}
        self.lookalikes = False
        for one, places, below, identity in found:
            for parts in places:
                self.lookalikes = self.lookalikes or has_lookalikes(folded("/".join(parts)))
                for fold in _FOLDS:
                    self.exact[fold].setdefault(fold_parts(parts, fold), one)
                    if below:
                        self.below[fold].append((fold_parts(parts, fold), one))
            if identity is not None:
                self.files.setdefault(identity, one)

    def find(self, place: Place) -> Guarded | None:
        """Return the protected path that a reading is, or None."""
        for fold in _FOLDS if self.lookalikes or place.has_lookalikes else _FOLDS[:2]:
            for parts in place.folded(fold):
                found = self.exact[fold].get(parts)
                if found is not None:
                    return found
                for start, one in self.below[fold]:
                    if parts[: len(start)] == start:
                        return one
        if place.short:
            for parts in place.folded(folded):
                for start, one in self.exact[folded].items():
                    if len(parts) == len(start) and all(map(_perhaps, parts, start)):
                        return one
        return None


def _perhaps(short: str, name: str) -> bool:
    return short == name or fits_short(short, name)


def _places(path: str, where: Where) -> tuple[Parts, ...]:
    place = place_of(path, where)
    if not place.problem:
        return place.wide
    # A name that could be meant otherwise in an argument is meant as it stands here.
    return tuple(dict.fromkeys(normal((), names_of(text)) for text in (path, os.path.realpath(path))))


def _found(paths: Iterable[Guarded], where: Where) -> _Found:
    """Look up where the protected paths are."""
    return tuple(
        (one, _places(one.path, where), one.below or os.path.isdir(one.path), _identity(one.path))
        for one in paths
        if one.pattern is None
    )


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino) if status.st_ino else None


class ProtectedPaths(AskFirst):
    """Asks about calls that would write a protected path.

    Args:
        paths: The paths.
        second_person: Whether an approval counts only from somebody else than the user on whose behalf the agent works.
    """

    blocking = False
    reads_files: bool = True
    name: str | None

    def __init__(self, paths: Iterable[Guarded], *, second_person: bool = False) -> None:
        self.paths: tuple[Guarded, ...] = tuple(dict.fromkeys(paths))
        """What is protected."""
        self.second_person: bool = second_person
        self.name = "protected path"
        self._latest: _Now | None = None
        names = [os.path.basename(text.rstrip("/")) for one in self.paths for text in _spelt(one)]
        self._pieces = (*map(folded, names), *(piece_of(one.path) for one in self.paths if one.pattern is not None))

    def __repr__(self) -> str:
        return f"ProtectedPaths({[one.path for one in self.paths]!r})"

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Ask about a call that would write one of the paths."""
        if only_reads(call, tool):
            return None
        where, texts = _here(), list(_texts(call.args, ""))
        mentions = self._mentions(where)
        seen: set[str] = set()
        names = self._names_there(where) if len(texts) > _MANY else None
        declared: dict[str, bool] = {}
        read: set[tuple[str, bool]] = set()
        for field, text in texts:
            if field not in declared:
                declared[field] = is_path_argument(tool, field)
            one = (text, declared[field])
            if one in read:
                continue
            read.add(one)
            found = None
            if names is None or declared[field] or self._may_lead(text, names, mentions):
                found = self._read(text, where, declared=declared[field])
            found = found or self._read_words(text, where, mentions, seen)
            if found is not None:
                return Ask(f"{call.name} may write {found} ({field})")
        return None

    def _names_there(self, where: Where) -> frozenset[str] | None:
        """Return the names that a path to a protected one can begin with, folded; None where nobody can say."""
        if where.windows or any(one.pattern is not None for one in self.paths):
            return None
        try:
            with os.scandir(where.folder) as entries:
                found = {entry.name for entry in entries}
        except OSError:
            return None
        for one in self.paths:
            for text in _spelt(one):
                found.update(text.split("/"))
        return frozenset({folded(name) for name in found} | {skeleton(folded(name)) for name in found})

    def _may_lead(self, text: str, names: frozenset[str], mentions: Mentions) -> bool:
        """Return whether a text among many can be a path to a protected one: it names something that is there.

        A row of a table mostly does not. To read each as a path would take far longer.
        """
        plain = folded(text)
        if not text.isascii():
            plain = f"{plain}/{skeleton(plain)}"
        if "%" in plain:
            from urllib.parse import unquote

            plain = f"{plain}/{folded(unquote(plain))}"
        if "\\" in plain:
            plain = f"{plain}/{plain.replace(_BACKSLASH, '')}"
        bare = plain.strip(_AROUND)
        if bare[:1] in ("/", "~") or bare.startswith("file:") or mentions.anywhere(text):
            return True
        parts = (part.strip(_AROUND) for part in _SLASHES.split(plain))
        return any(part in names or part == ".." for part in parts)

    def _read(self, text: str, where: Where, *, declared: bool) -> str | None:
        """Return which protected path a text may stand for, in words; None for none."""
        if len(text) <= _LONGEST:
            place = place_of(text, where)
            if not place.problem:
                found = self._find(text, place, where)
                if found is not None:
                    return _shown(found)
            elif declared and "\n" not in text.strip() and not _ELSEWHERE.match(text):
                return f"a protected path: its argument cannot be read ({place.problem})"
        return None

    def _read_words(self, text: str, where: Where, mentions: Mentions, seen: set[str]) -> str | None:
        """Return which protected path a word of a text may stand for, in words; None for none."""
        mentioned = mentions.anywhere(text)
        if len(text) > _LONGEST_TEXT:
            unsure = mentioned or mentions.every
            return "a protected path: its text may hold one and is too long to be read" if unsure else None
        for word in words_in(text):
            if word in seen or _ELSEWHERE.match(word):
                continue
            if not (mentions.every or (mentioned and mentions.anywhere(word))):
                if len(seen) >= _LOOKED_UP:
                    continue
                seen.add(word)
                if not names_something(word, where.folder):
                    continue
            place = place_of(word, where)
            if place.problem and mentioned and mentions.at_an_end(word):
                return f"a protected path: a word of its text cannot be read ({place.problem})"
            found = None if place.problem else self._find(word, place, where)
            if found is not None:
                return _shown(found)
        return None

    def _find(self, text: str, place: Place, where: Where) -> Guarded | None:
        now = self._now(where)
        found = now.find(place)
        if found is not None:
            return found
        for one in self.paths:
            if one.pattern is not None and one.pattern.read(text, where).any:
                return one
        if now.files:
            for path in place.shown[: len(place.narrow)]:
                identity = _identity(path)
                if identity in now.files:
                    return now.files[identity]
        return None

    def _now(self, where: Where) -> _Now:
        key = f"{id(self)}\0protected{where.folder}\0{where.home}\0{where.windows}"
        known = where.links.get(key)
        if known is None:
            found, latest = _found(self.paths, where), self._latest
            if latest is None or latest.found != found:  # mostly they are where they were
                latest = self._latest = _Now(found)
            known = where.links[key] = latest
        assert isinstance(known, _Now)
        return known

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_latest": None}

    def _mentions(self, where: Where) -> Mentions:
        key = f"{id(self)}\0mentions{where.folder}"
        known = where.links.get(key)
        if known is None:
            known = where.links[key] = Mentions(self._pieces, where.folder)
        assert isinstance(known, Mentions)
        return known


def only_reads(call: ToolCall, tool: Tool) -> bool:
    """Return whether a call changes nothing, on the word of whoever wrote the tool; a server's word does not count.

    Args:
        call: The call.
        tool: Its tool.
    """
    try:
        hints = tool.hints_for(call.args)
    except Exception:  # noqa: BLE001 - the tool's own hints may raise anything: then nobody knows
        return False
    return hints.read_only is True and hints.source == "tool" and tool.server is None


def _texts(value: Any, field: str) -> Iterator[tuple[str, str]]:
    """Yield (field, text) for each text in a JSON value, names of fields too."""
    waiting: list[tuple[str, Any]] = [(field, value)]
    while waiting:  # no deeper than it has to be: a model nests as it likes
        field, value = waiting.pop()
        if isinstance(value, str):
            yield field, value
        elif isinstance(value, Mapping):
            for key, item in value.items():
                if field or not str(key).isidentifier():  # the names of arguments are the tool's own
                    yield field, str(key)
                waiting.append((f"{field}.{key}" if field else str(key), item))
        elif isinstance(value, list | tuple):
            waiting.extend((f"{field}[*]", item) for item in value)


def _spelt(one: Guarded) -> tuple[str, ...]:
    return () if one.pattern is not None else (one.path, os.path.realpath(one.path))


def _shown(one: Guarded) -> str:
    return f"{shorten(one.path, 200)}, {one.what}"


def _here() -> Where:
    try:
        return here()
    except OSError:  # the working directory is gone
        return Where("/")
