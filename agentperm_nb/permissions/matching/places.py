"""Where a path in an argument is: all readings of it that a rule has to look at.

1. In each of its `spellings` a path is read as it is typed, with ``.``, ``..``, ``//`` and a slash at the end resolved
   as text, and as it is resolved, with links followed. Each path that is passed on the way is a reading, too: whoever
   removes ``link/notes.txt`` removes it there. Where there is a ``..``, links may be followed before or after it.
2. A reading is the tuple of its names, from the root; on Windows the drive comes first.
3. What has been read is kept in `Where.links`, for all rules of a turn.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from agentperm_nb.permissions.matching.links import LinkError, follow, follow_on_windows, is_there
from agentperm_nb.permissions.matching.lookalikes import folded, has_lookalikes
from agentperm_nb.permissions.matching.reading import Where
from agentperm_nb.permissions.matching.spellings import Counts, Spelling, changes_shape, spellings_of
from agentperm_nb.permissions.matching.windows import is_short, parts_of_place, read_windows

__all__ = ["Fold", "Parts", "Place", "base_of", "fold_parts", "names_of", "normal", "place_of", "places_along"]

Parts = tuple[str, ...]
"""The names of an absolute path, from the root; on Windows its drive comes first."""
Fold = Callable[[str], str]
"""Makes one of texts that a deny takes for the same."""

# Nothing in it can be meant in two ways: names of ordinary characters, no dots or blanks with a meaning of their own.
_NAME = r"(?!\.\.?(?:/|\Z))[A-Za-z0-9_.@+=,-](?:[A-Za-z0-9_.@+=, -]{0,198}[A-Za-z0-9_.@+=,-])?"
_ORDINARY = re.compile(rf"/?{_NAME}(?:/{_NAME}){{0,40}}")
_ORDINARY_LENGTH = 1000


class Place:
    """What has been read of a value, for all patterns that are asked about it in a turn.

    Args:
        problem: Why it cannot be read.
        exact: Whether an allow may rely on the readings.
        narrow: The readings that all have to match for an allow.
        wide: Those that a deny takes as well.
        windows: Whether they are spelt as on Windows.
    """

    __slots__ = ("_folds", "_lookalikes", "_shown", "_windows", "ascii", "exact", "narrow", "problem", "short", "wide")

    def __init__(
        self,
        problem: str = "",
        *,
        exact: bool = True,
        narrow: Sequence[Parts] = (),
        wide: Sequence[Parts] = (),
        windows: bool = False,
    ) -> None:
        self.problem: str = problem
        self.exact: bool = exact
        self.narrow: tuple[Parts, ...] = tuple(dict.fromkeys(narrow))
        self.wide: tuple[Parts, ...] = tuple(dict.fromkeys((*narrow, *wide))) if wide else self.narrow
        """All readings."""
        self.ascii: bool = all(map(_is_ascii, self.wide))
        """Whether they hold ASCII characters only."""
        self.short: bool = windows and any(is_short(name) for parts in self.wide for name in parts)
        """Whether a name may be a short one of Windows."""
        self._folds: dict[Fold, tuple[Parts, ...]] = {}
        self._lookalikes: bool | None = None
        self._shown: tuple[str, ...] | None = None
        self._windows = windows

    def folded(self, fold: Fold) -> tuple[Parts, ...]:
        """Return all readings, folded."""
        made = self._folds.get(fold)
        if made is None:
            made = self._folds[fold] = tuple(dict.fromkeys(fold_parts(parts, fold) for parts in self.wide))
        return made

    @property
    def has_lookalikes(self) -> bool:
        """Whether a reading holds letters that look like others."""
        if self._lookalikes is None:
            self._lookalikes = not self.ascii and any(
                has_lookalikes(name) for parts in self.folded(folded) for name in parts
            )
        return self._lookalikes

    @property
    def shown(self) -> tuple[str, ...]:
        """The readings, as texts."""
        if self._shown is None:
            root = "" if self._windows else "/"
            self._shown = tuple(root + "/".join(parts) for parts in self.wide)
        return self._shown


def _is_ascii(parts: Parts) -> bool:
    return "/".join(parts).isascii()


def fold_parts(parts: Parts, fold: Fold) -> Parts:
    """Return the names of a path, folded; folding may make slashes and dots of other characters."""
    text = "/".join(parts)
    if not text:
        return ()
    return tuple(fold(text).split("/")) if text.isascii() else normal((), fold(text).split("/"))


def normal(start: Sequence[str], names: Sequence[str]) -> Parts:
    """Return a path below another one, with ``.`` and ``..`` resolved as text."""
    parts = list(start)
    for name in names:
        if name == "..":
            del parts[-1:]
        elif name and name != ".":
            parts.append(name)
    return tuple(parts)


def names_of(path: str) -> list[str]:
    """Return the names in a path; ``..`` is among them."""
    return [name for name in path.split("/") if name and name != "."]


def base_of(where: Where) -> str:
    """Return the base folder, absolute."""
    return where.folder if where.folder[:1] == "/" else os.path.abspath(where.folder)


def places_along(raw: Sequence[str], where: Where) -> list[Parts]:
    """Return where a path leads, and the paths that are passed on the way.

    Raises:
        LinkError: Nobody can say.
    """
    leads, passed = follow(raw, where.links)
    found = [tuple(leads[1:].split("/")) if leads else ()]
    found.extend(normal((), other.split("/")) for other in passed)
    return found


def place_of(text: str, where: Where) -> Place:
    """Return all readings of a path; see `Place`."""
    key = f"{text}\0place{where.folder}\0{where.home}\0{where.windows}"
    known = where.links.get(key)
    if known is None:
        known = where.links[key] = _windows_place(text, where) if where.windows else _posix_place(text, where)
    assert isinstance(known, Place)
    return known


def _posix_place(text: str, where: Where) -> Place:
    if len(text) <= _ORDINARY_LENGTH and _ORDINARY.fullmatch(text):
        raw = text[1:].split("/") if text[0] == "/" else [*names_of(base_of(where)), *text.split("/")]
        try:
            _, passed = follow(raw, where.links)
        except LinkError as error:
            return Place(str(error))
        if not passed and ".." not in raw:  # as typed is as resolved
            return Place(narrow=(tuple(raw),))
        return _resolved([Spelling(text, Counts.ALL)], where)
    spellings = spellings_of(text)
    if isinstance(spellings, str):
        return Place(spellings)
    return _resolved(spellings, where, exact=not changes_shape(text))


def _resolved(spellings: Sequence[Spelling], where: Where, *, exact: bool = True) -> Place:
    narrow: list[Parts] = []
    wide: list[Parts] = []
    folder = base_of(where)
    base = names_of(folder)
    for text, counts in spellings:
        anchor = folder
        if text[:1] == "~":
            anchor, text = where.home, text[1:]
            if anchor[:1] != "/":
                return Place("a path in a home folder that nobody knows")
        names = names_of(text)
        if text[:1] == "/" and anchor is folder:
            if names[: len(base)] == base:
                names = names[len(base) :]
            else:
                anchor = ""
        found = narrow if counts is Counts.ALL else wide
        if counts is Counts.IF_THERE and _can_be_opened(anchor, names):
            found = narrow
        try:
            start = base if anchor is folder else names_of(anchor)
            ways = _ways([*start, *names], where)
            real = start if not start or ".." in names else _real(anchor, start, where)
            if real is not start:  # an allow need not know the links that lead to the agent's own folder
                wide.extend(ways)
                ways = _ways([*real, *names], where)
            found.extend(ways)
        except LinkError as error:
            if found is narrow:
                return Place(str(error))
            found.append(normal(names_of(anchor), names))
    return Place(exact=exact, narrow=narrow, wide=wide)


def _can_be_opened(folder: str, names: Sequence[str]) -> bool:
    """Return whether a tool could open a path below a folder without making folders for it."""
    rest = normal((), names)
    return len(rest) < 2 or is_there(f"{folder}/{names[0]}") or is_there(f"{folder}/{rest[0]}")


def _ways(raw: Sequence[str], where: Where) -> list[Parts]:
    """Return a path as it is typed, where it leads, and what is passed on the way."""
    typed = normal((), raw)
    found = [typed, *places_along(raw, where)]
    if len(typed) != len(raw):
        found.extend(places_along(typed, where))
    return found


def _real(anchor: str, parts: list[str], where: Where) -> Sequence[str]:
    """Return the names of the base folder or the home folder as it is resolved: the same ones where it is no link."""
    key = f"{anchor}\0real"
    real: Sequence[str] | None = where.links.get(key)
    if real is None:
        leads, passed = follow(parts, where.links)
        real = where.links[key] = names_of(leads) if passed or ".." in parts else ()
    return real or parts


def _windows_place(text: str, where: Where) -> Place:
    read = read_windows(text, where.folder, where.home)
    if read.problem:
        return Place(read.problem)
    narrow = list(read.narrow)
    if os.name == "nt":
        try:
            narrow.extend(parts_of_place(follow_on_windows(parts)) for parts in read.narrow)
        except LinkError as error:
            return Place(str(error))
    exact = read.exact and not changes_shape(text)
    return Place(exact=exact, narrow=narrow, wide=read.wide, windows=True)
