"""Patterns for a path that a person may want remembered: the file, its folder, and what is below that.

1. A pattern is written as the path is: below the base folder relative to it, below ``~`` where it was typed so, else
   absolute. What has a meaning in patterns is put into brackets.
2. The folder is not offered where it is the root, the home folder or one that the home folder is in, or hidden (its
   name begins with a dot, as that of ``.ssh`` and ``.git``) or in a hidden one.
3. Of a path that leads through a link nothing is offered: where it leads may change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

from agentperm_nb.permissions.matching.places import Parts, fold_parts, names_of, place_of
from agentperm_nb.permissions.matching.reading import Where
from agentperm_nb.permissions.matching.windows import parts_of_place

__all__ = ["PathPatterns", "patterns_of"]

_SPECIAL = re.compile(r"[*?\[{|]")
_UNPLAIN = re.compile(r"[!~$@]")


class PathPatterns(NamedTuple):
    """What could be remembered of a path."""

    exact: str
    """The pattern of this very path; empty where there is none."""
    why_not_exact: str
    folder: str
    """The folder, written as in patterns, without a slash at the end; empty where there is none to offer."""
    why_not_folder: str
    is_folder: bool = False
    """Whether the path is a folder itself, and so the one that is offered."""


def patterns_of(text: str, where: Where, *, absolute: bool = False) -> PathPatterns:
    """Return what could be remembered of a path.

    Args:
        text: The path, as it was given.
        where: Where it is read.
        absolute: Whether to write the base folder itself out, since a deny reads ``**`` as any folder.
    """
    place = place_of(text, where)
    if place.problem or not place.narrow:
        why = f"it could not be read: {place.problem}"
        return PathPatterns("", why, "", why)
    if not place.exact:
        why = "its letters may be meant as other folders"
        return PathPatterns("", why, "", why)
    if len(place.narrow) > 1:
        why = "it can be read in several ways, or leads through a link, and where that leads may change"
        return PathPatterns("", why, "", why)
    (parts,) = place.narrow
    is_folder = text.endswith(("/", os.sep)) or os.path.isdir(_joined(parts, where))
    folder = parts if is_folder else parts[:-1]
    typed_home = text.startswith("~")
    why = _why_not(folder, where)
    exact = "" if not parts else _written(parts, where, typed_home=typed_home, absolute=absolute)
    return PathPatterns(
        exact,
        "" if exact else "it is the root",
        "" if why else _written(folder, where, typed_home=typed_home, absolute=absolute),
        why,
        is_folder,
    )


def _why_not(folder: Parts, where: Where) -> str:
    """Return why a folder is not offered; an empty text where it is."""
    root = 0 if not where.windows else 2 if folder[:1] and folder[0].startswith("\\\\") else 1
    if len(folder) <= root:
        return "its folder is the root, and everything is below that"
    for home in _spelt(where.home, where):
        # In any case: a file system may not tell them apart.
        if fold_parts(home[: len(folder)], str.lower) == fold_parts(folder, str.lower):
            whole = len(folder) == len(home)
            return "its folder is the home folder" if whole else "its folder is one that the home folder is in"
    hidden = next((name for name in folder if name.startswith(".")), None)
    if hidden is not None:
        return f"its folder is hidden, or in a hidden one ({hidden})"
    return ""


def _written(parts: Parts, where: Where, *, typed_home: bool, absolute: bool) -> str:
    """Return a path as a pattern that means it and nothing else."""
    for base in _spelt(where.folder, where):
        if parts[: len(base)] == base and not (typed_home or (absolute and parts == base)):
            names = [_escaped(name) for name in parts[len(base) :]]
            return "/".join(names) if names and not _UNPLAIN.match(names[0]) else "/".join([".", *names])
    if typed_home:
        for home in _spelt(where.home, where):
            if parts[: len(home)] == home:
                return "/".join(["~", *map(_escaped, parts[len(home) :])])
    return _joined([_escaped(name) for name in parts], where)


def _joined(parts: Sequence[str], where: Where) -> str:
    return ("" if where.windows else "/") + "/".join(parts)


def _spelt(folder: str, where: Where) -> list[Parts]:
    """Return a folder as it is called, and as it is resolved."""
    if where.windows:
        return [parts_of_place(folder)]
    found = [tuple(names_of(folder)), tuple(names_of(os.path.realpath(folder)))]
    return list(dict.fromkeys(found))


def _escaped(name: str) -> str:
    return _SPECIAL.sub(r"[\g<0>]", name)
