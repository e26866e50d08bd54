"""Where a path leads: links are followed at the moment of reading.

1. Links are followed part by part, as an operating system does it: ``..`` after a link is the folder above its target.
2. What is not there yet keeps its name below the deepest folder that is. A broken link leads to where a file would be
   made.
3. What was found out about an entry of a folder is kept in `Where.links`, by its path, until whoever has it empties it.
4. Each path that is passed on the way is told, too: with ``a -> b -> c``, opening ``a`` is using ``b``.
5. A loop, more than 40 links, and a folder that may not be looked into make a path that cannot be followed.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, NamedTuple

__all__ = ["LinkError", "follow", "follow_on_windows", "ignores_case", "is_there", "same_place"]

_MOST_LINKS = 40

_PLAIN, _MISSING = object(), object()
_DEEP = 5  # from here on one look at a whole path takes less time than one at each of its names
_OPEN_AT: int | None = getattr(os, "O_PATH", None) if sys.platform == "linux" else None
_TOO_MANY = f"a path through more than {_MOST_LINKS} links, or in a circle"


class LinkError(Exception):
    """The path cannot be followed; the message says why."""


class _Link(NamedTuple):
    target: str
    passed: tuple[str, ...]
    links: int
    missing: bool


def follow(parts: Sequence[str], known: MutableMapping[str, Any]) -> tuple[str, list[str]]:
    """Follow a path from the root.

    Args:
        parts: Its names; ``..`` is among them where it was typed.
        known: What has been found out about entries of folders; see `Where.links`.

    Returns:
        Where it leads, and each path that is passed on the way; ``""`` is the root.

    Raises:
        LinkError: Nobody can say where it leads.
    """
    path = "/" + "/".join(parts) if parts else ""
    found = known.get(path)
    if found is _PLAIN or found is _MISSING:
        return path, []
    if found is None and len(parts) >= _DEEP and ".." not in parts:
        folder = path.rpartition("/")[0]
        if folder not in known:
            if _without_links(path, known):
                return path, []
            _without_links(folder, known)
    leads, passed, _, _ = _along("", parts, known, 0)
    return leads, passed


def follow_on_windows(parts: Sequence[str]) -> str:
    """Return where a path leads, with long names for short ones.

    Args:
        parts: Its names; the first is its drive, or its machine.

    Raises:
        LinkError: Nobody can say where it leads.
    """
    try:
        leads = os.path.realpath("/".join((*parts, ""))).replace("\\", "/")
    except (OSError, ValueError):
        raise LinkError("a path that cannot be looked up") from None
    if leads[:8].upper() == "//?/UNC/":
        return f"//{leads[8:]}"
    return leads.removeprefix("//?/")


def _without_links(path: str, known: MutableMapping[str, Any]) -> bool:
    """Return whether a file or folder is there with no link on the way to it; then that is known from now on.

    On Linux one look at the whole path tells: the system knows an open file by its path without links.
    """
    if _OPEN_AT is None or not path or path.endswith(" (deleted)"):  # the system says this of a file that is gone
        return False
    try:
        opened = os.open(path, _OPEN_AT)
    except (OSError, ValueError):
        return False
    try:
        if os.readlink(f"/proc/self/fd/{opened}") != path:
            return False
    except OSError:
        return False
    finally:
        os.close(opened)
    end = len(path)
    while end > 0:
        known[path[:end]] = _PLAIN
        end = path.rfind("/", 0, end)
    return True


def _along(
    here: str, parts: Sequence[str], known: MutableMapping[str, Any], links: int
) -> tuple[str, list[str], int, bool]:
    """Go on from a folder, after so many links; return where that leads, with links and paths that were passed."""
    passed: list[str] = []
    missing = False
    for place, part in enumerate(parts):
        if part == "..":
            here, missing = here.rpartition("/")[0], False
            continue
        entry = f"{here}/{part}"
        if missing:
            here = entry
            continue
        found = known.get(entry)
        if found is None:
            found = known[entry] = _look(here, entry, known, links)
        if found is _PLAIN:
            here = entry
        elif found is _MISSING:
            here, missing = entry, True
        else:
            rest = "".join(f"/{name}" for name in parts[place + 1 :])
            passed.append(entry + rest)
            passed.extend(other + rest for other in found.passed)
            links += found.links
            if links > _MOST_LINKS:
                raise LinkError(_TOO_MANY)
            here, missing = found.target, found.missing
    return here, passed, links, missing


def _look(here: str, entry: str, known: MutableMapping[str, Any], links: int) -> Any:
    """Find out what an entry of a folder is."""
    try:
        if os.lstat(entry).st_mode & 0o170000 != stat.S_IFLNK:
            return _PLAIN
        target = os.readlink(entry)
    except (FileNotFoundError, NotADirectoryError):
        return _MISSING
    except PermissionError:
        raise LinkError("a path through a folder that may not be looked into") from None
    except (OSError, ValueError):
        raise LinkError("a path that cannot be looked up") from None
    if links >= _MOST_LINKS:
        raise LinkError(_TOO_MANY)
    parts = [part for part in target.split("/") if part and part != "."]
    leads, passed, inner, missing = _along("" if target.startswith("/") else here, parts, known, links + 1)
    return _Link(leads, tuple(passed), inner - links, missing)


def is_there(path: str) -> bool:
    """Return whether something of this name is there, a broken link too, or nobody can say."""
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except (OSError, ValueError):
        return True
    return True


def same_place(one: str, other: str) -> bool:
    """Return whether two spellings are of one folder or file."""
    return _same(os.stat, one or "/", other or "/")


def ignores_case(path: str, known: MutableMapping[str, Any]) -> bool:
    """Return whether the deepest folder of a path that is there takes two spellings of a name for one."""
    folder = path
    while folder and not os.path.isdir(folder):
        folder = folder.rpartition("/")[0]
    key = f"{folder}\0case"
    found = known.get(key)
    if found is None:
        found = known[key] = _ignores_case(folder)
    return bool(found)


def _ignores_case(folder: str) -> bool:
    try:
        with os.scandir(folder or "/") as entries:
            names = {entry.name for entry in entries}
    except OSError:
        return False
    name = next((name for name in names if name.swapcase() != name), None)
    if name is not None:  # two hard links of one file are two names
        return name.swapcase() not in names and _same(os.lstat, f"{folder}/{name}", f"{folder}/{name.swapcase()}")
    above, _, own = folder.rpartition("/")
    return own.swapcase() != own and _same(os.lstat, folder, f"{above}/{own.swapcase()}")


def _same(look: Callable[[str], os.stat_result], one: str, other: str) -> bool:
    try:
        first, second = look(one), look(other)
    except (OSError, ValueError):
        return False
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)
