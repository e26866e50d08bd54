"""Paths: what a rule asks of the path in an argument.

1. The wildcards are those of `path_globs`: ``*`` within a name, ``**`` across folders; the whole path has to match. A
   pattern is relative to the agent's base folder unless it is absolute or begins with ``~`` (or ``$HOME``).
2. A value is read in each of its `places`: as typed and as resolved, in all spellings. A deny or an ask matches if one
   of these does, an allow only if all do. Each of them may match the pattern with its fixed part as typed, as resolved,
   or as passed in between: the base folder itself may be reached through a link.
3. A deny takes upper and lower case, compatibility forms and letters that look alike for the same. An allow is exact,
   but for the case where the file system ignores it.
4. A relative pattern that begins with ``**`` is for any folder when a deny reads it. One that ends with a slash is then
   for all that is in the folder, too.
5. What cannot be read (a value that is no text, or one of `spellings.problem_of`; a path that nobody can follow) is
   denied by a deny, and allowed by no allow.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, ClassVar

from agentperm_nb.permissions.matching.links import LinkError, follow_on_windows, ignores_case, same_place
from agentperm_nb.permissions.matching.lookalikes import folded, has_lookalikes, skeleton
from agentperm_nb.permissions.matching.path_globs import Form, Rest, checked_pattern, forms_of
from agentperm_nb.permissions.matching.places import (
    Fold,
    Parts,
    Place,
    base_of,
    fold_parts,
    names_of,
    normal,
    place_of,
    places_along,
)
from agentperm_nb.permissions.matching.reading import ABSENT, Matcher, Reading, Where
from agentperm_nb.permissions.matching.windows import parts_of_place
from agentperm_nb.permissions.matching.writing import word_text

__all__ = ["PathPattern", "is_path_argument"]


def _looks(text: str) -> str:
    return skeleton(folded(text))


class _Starts:
    """Where a form of a pattern begins, as things are.

    Args:
        places: Its fixed part, as typed, as passed and as resolved.
        sure: Whether an allow may rely on them.
        anywhere: Whether a deny reads the pattern for any folder.
    """

    __slots__ = ("_folds", "places", "sure", "wide")

    def __init__(self, places: Sequence[Parts], sure: bool, anywhere: bool) -> None:
        self.places: tuple[Parts, ...] = tuple(dict.fromkeys(places))
        self.sure = sure
        self.wide: tuple[Parts, ...] = ((),) if anywhere else self.places
        self._folds: dict[Fold, tuple[Parts, ...]] = {}

    def folded(self, fold: Fold) -> tuple[Parts, ...]:
        """Return where a deny lets it begin, folded."""
        made = self._folds.get(fold)
        if made is None:
            made = self._folds[fold] = tuple(fold_parts(start, fold) for start in self.wide)
        return made


class PathPattern(Matcher):
    """A pattern that a path has to match.

    Args:
        pattern: The pattern, such as ``"project/**"``, ``"**/.env"``, ``"~/.ssh/**"`` or ``"/etc/*.conf"``. A wildcard
            that is meant as it stands is put into brackets: ``[*]``.

    Raises:
        TypeError: It is not a string.
        ValueError: It can match nothing, or does not mean what it seems to.
    """

    kind: ClassVar[str] = "path"

    def __init__(self, pattern: str) -> None:
        self.pattern: str = checked_pattern(pattern)
        """The pattern, as it was given."""
        self._forms: dict[bool, list[Form]] = {}
        self._rests: dict[tuple[Parts, Fold | None, bool], Rest] = {}
        self._brackets = "[" in pattern
        self._excludes = re.search(r"\[[!^]", pattern) is not None
        self._lookalikes = has_lookalikes(folded(pattern))

    def __str__(self) -> str:
        return f"path({word_text(self.pattern)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.pattern,)

    @property
    def reads_files(self) -> bool:
        """True: where a path leads may have changed before the call starts."""
        return True

    @property
    def literal_name(self) -> str:
        """A name without wildcards behind the first wildcard, folded; every path that matches has it, if it is one."""
        rest = self._forms_of(False)[0].rest
        return next((folded(name) for name in reversed(rest) if name != "**" and not re.search(r"[*?\[]", name)), "")

    def starts(self, where: Where) -> set[Parts]:
        """Return where it begins, folded: at or above every path that matches."""
        return {start for form in self._forms_of(where.windows) for start in self._starts(form, where).folded(folded)}

    def read(self, value: Any, where: Where) -> Reading:
        """Read a value as a path; see `Matcher.read`."""
        if not isinstance(value, str):
            return Reading(False, False) if value is ABSENT else Reading(False, False, f"{_json(value)}, not a path")
        place = place_of(value, where)
        if place.problem:
            return Reading(False, False, place.problem)
        some = False
        for form in self._forms_of(where.windows):
            starts = self._starts(form, where)
            reliable = not form.wide and place.exact and starts.sure
            if reliable and not self._excludes and self._all_fit(form, starts.places, place):
                return Reading(True, True, "", place.shown)
            some = some or self._any_fits(form, starts, place)
            if reliable and some and self._all_fit_in_any_case(form, starts.places, place, where):
                return Reading(True, True, "", place.shown)
        return Reading(some, False, "", place.shown)

    # ------------------------------------------------------------------ how

    def _forms_of(self, windows: bool) -> list[Form]:
        forms = self._forms.get(windows)
        if forms is None:
            forms = self._forms[windows] = forms_of(self.pattern, windows)
        return forms

    def _rest(self, form: Form, fold: Fold | None, *, loose: bool = False) -> Rest:
        key = (form.rest, fold, loose)
        rest = self._rests.get(key)
        if rest is None:
            names: Sequence[str] = form.rest
            if fold is not None:
                names = [name for name in fold("/".join(names)).split("/") if name]
            rest = self._rests[key] = Rest(names, loose=loose)
        return rest

    def _starts(self, form: Form, where: Where) -> _Starts:
        key = f"{form.anchor}\0start{'/'.join(form.fixed)}\0{where.folder}\0{where.home}\0{where.windows}"
        starts = where.links.get(key)
        if starts is None:
            starts = where.links[key] = _windows_starts(form, where) if where.windows else _posix_starts(form, where)
        assert isinstance(starts, _Starts)
        return starts

    def _all_fit(self, form: Form, starts: Sequence[Parts], place: Place) -> bool:
        """Return whether every reading matches exactly."""
        rest = self._rest(form, None)
        return all(_fits((parts,), starts, rest) for parts in place.narrow)

    def _all_fit_in_any_case(self, form: Form, starts: Sequence[Parts], place: Place, where: Where) -> bool:
        """Return whether every reading matches, in another case where the file system ignores it.

        What the pattern excludes (``[!b]``) must not be there in another case either.
        """
        rest, small_rest = self._rest(form, None), self._rest(form, str.lower)
        for parts in place.narrow:
            exact = _fits((parts,), starts, rest)
            if exact and not self._excludes:
                continue
            small = fold_parts(parts, str.lower)
            if not any(
                small[: len(start)] == fold_parts(start, str.lower)
                and small_rest.fits(small, len(start))
                and (exact or where.windows or _case_is_ignored(parts, start, where))
                for start in starts
            ):
                return False
        return True

    def _any_fits(self, form: Form, starts: _Starts, place: Place) -> bool:
        """Return whether a reading matches as a deny reads it."""
        # What matches exactly matches folded, but for "?" and brackets where folding makes two letters of one.
        if (self._brackets or not place.ascii) and _fits(place.wide, starts.wide, self._rest(form, None)):
            return True
        for fold in self._folds(place):
            if _fits(place.folded(fold), starts.folded(fold), self._rest(form, fold)):
                return True
            if place.short and any(
                _fits(place.folded(fold), ((),), self._rest(form._replace(rest=(*start, *form.rest)), fold, loose=True))
                for start in starts.folded(fold)
            ):
                return True
        return False

    def _folds(self, place: Place) -> Sequence[Fold]:
        if place.ascii and self.pattern.isascii():
            return (folded,)
        # In lower case only, too: folding makes two letters of some, for which "?" does not stand.
        return (str.lower, folded, _looks) if self._lookalikes or place.has_lookalikes else (str.lower, folded)


def _fits(readings: Sequence[Parts], starts: Sequence[Parts], rest: Rest) -> bool:
    for parts in readings:
        for start in starts:
            count = len(start)
            if parts[:count] == start and rest.fits(parts, count):
                return True
    return False


def _case_is_ignored(parts: Parts, start: Parts, where: Where) -> bool:
    """Return whether the file system takes a path for one that begins as the pattern does, in another case."""
    typed, own = ("".join(f"/{name}" for name in names) for names in (parts[: len(start)], start))
    return (typed == own or same_place(typed, own)) and ignores_case("".join(f"/{name}" for name in parts), where.links)


def _posix_starts(form: Form, where: Where) -> _Starts:
    place = base_of(where) if form.anchor == "base" else where.home if form.anchor == "home" else form.anchor
    raw = [*names_of(place), *form.fixed]
    typed = tuple(raw) if ".." not in raw else normal((), raw)
    found, sure = [typed], place.startswith("/")
    for way in [raw] if len(typed) == len(raw) else [raw, typed]:
        try:
            found.extend(places_along(way, where))
        except LinkError:  # as typed, it can still be denied
            sure = False
    return _Starts(found, sure, form.anywhere)


def _windows_starts(form: Form, where: Where) -> _Starts:
    base = parts_of_place(where.folder)
    if form.anchor == "home":
        place = parts_of_place(where.home)
    elif form.anchor in ("base", "/"):
        place = base
    else:
        place = parts_of_place(form.anchor)
    root = 2 if place[:1] and place[0].startswith("\\\\") else 1
    start = place[:root] if form.anchor == "/" else place
    found = [(*start[:root], *normal(start[root:], form.fixed))]
    if os.name == "nt":
        try:
            found.append(parts_of_place(follow_on_windows(found[0])))
        except LinkError:
            return _Starts(found, False, form.anywhere)
    return _Starts(found, True, form.anywhere)


def _json(value: Any) -> str:
    """Return what a value is, in words."""
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    names = {type(None): "null", bytes: "bytes"}
    if type(value) in names:
        return names[type(value)]
    return "an object" if isinstance(value, dict) else "a list" if isinstance(value, list) else type(value).__name__


_USUAL = frozenset(
    (
        "path", "paths", "pathname", "file", "files", "filename", "filenames", "filepath", "filepaths",
        "folder", "folders", "dir", "dirs", "dirname", "directory", "directories", "root", "src", "dst", "dest",
        "source", "destination", "cwd", "workdir", "notebook",
    )
)  # fmt: skip
_BRACKETS = re.compile(r"\[[^]]*\]")
_ENDINGS = re.compile(
    r".*(?:(?<!pro)files?|paths?|(?<![a-z])dirs?|(?:in|out|sub|base|work|data|log|te?mp)dirs?|director(?:y|ies)|folders?"
    r"|f(?:ile)?names?)"
)
_NAMES = re.compile(r"(?:.*_)?(?:file|path|dir|directory|folder)_names?")


def is_path_argument(tool: Any, name: str) -> bool:
    """Return whether an argument of a tool is a path: the tool says so (``paths=``), or it is called like one.

    Args:
        tool: The tool, or None where it is not known.
        name: The argument, or a place in it such as ``files[*].path``.
    """
    plain = _BRACKETS.sub("", name)
    if plain in (_BRACKETS.sub("", known) for known in getattr(tool, "paths", ())):
        return True
    last = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain.rpartition(".")[2]).replace("-", "_").lower()
    return last in _USUAL or any(form.fullmatch(last) for form in (_NAMES, _ENDINGS))
