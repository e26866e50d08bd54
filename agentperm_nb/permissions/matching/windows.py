"""Paths as Windows spells them.

1. A path is taken apart into its drive (``C:``), or the machine and the share of it (``\\\\server``, ``share``), and
   its names. Slashes and backslashes are alike.
2. Dots and blanks at the end of a name are cut off, and so is a stream (``notes.txt:hidden``), as the system does it.
   ``\\\\?\\`` and ``\\\\.\\`` in front of a drive make no difference to a deny.
3. No allow relies on any of these, on a short name (``PROGRA~1``), on a share of a whole drive (``//server/C$``), or on
   a path that is relative to a drive (``C:notes.txt``): what they name depends on more than the text.
4. A short name may be any name that begins like it; a deny takes it for all of these.
5. A device (``NUL``, ``COM1``, ``\\\\.\\pipe\\…``) is no file.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from agentperm_nb.permissions.matching.spellings import Counts, spellings_of

__all__ = ["WindowsReading", "fits_short", "is_short", "parts_of_place", "read_windows"]

_DEVICE_PREFIX = re.compile(r"[\\/]{2}[?.][\\/]|[\\/]\?\?[\\/]")
_UNC = re.compile(r"UNC[\\/]+", re.IGNORECASE)
_DRIVE = re.compile(r"([A-Za-z]):")
_SHORT = re.compile(r"[^.~]{1,6}~[0-9]{1,6}(?:\.[^.]{0,3})?")
_DEVICE = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³])(?=[.:\s]|\Z)", re.IGNORECASE)
_NO_NAME = re.compile(r"[<>\"|]")
_WHOLE_DRIVE = re.compile(r"([A-Za-z])\$")


class WindowsReading(NamedTuple):
    """How a text is read as a path on Windows."""

    problem: str
    exact: bool
    """Whether an allow may rely on it."""
    narrow: list[tuple[str, ...]]
    wide: list[tuple[str, ...]]
    """Readings for denies only."""


def parts_of_place(path: str) -> tuple[str, ...]:
    """Return the parts of an absolute path: its drive, or machine and share, and its names; ``..`` is resolved."""
    text = path.replace("\\", "/")
    if text.startswith("//"):
        server, *rest = [part for part in text.split("/") if part]
        return _joined((f"\\\\{server}", *rest[:1]), rest[1:])
    drive = _DRIVE.match(text)
    return _joined((f"{drive[1]}:",) if drive else (), text[drive.end() if drive else 0 :].split("/"))


def _joined(start: tuple[str, ...], names: list[str]) -> tuple[str, ...]:
    parts = list(start)
    root = 2 if parts and parts[0].startswith("\\\\") else 1
    for name in names:
        if name == "..":
            del parts[max(root, len(parts) - 1) :]
        elif name and name != ".":
            parts.append(name)
    return tuple(parts)


def read_windows(text: str, folder: str, home: str) -> WindowsReading:
    """Read a text as a path on Windows, without looking at any file system.

    Args:
        text: The path.
        folder: The base folder, absolute.
        home: What ``~`` stands for, absolute.
    """
    spellings = spellings_of(text, windows=True)
    if isinstance(spellings, str):
        return WindowsReading(spellings, False, [], [])
    exact = True
    narrow: list[tuple[str, ...]] = []
    wide: list[tuple[str, ...]] = []
    for spelling, counts in spellings:
        plain = _without_prefix(spelling)
        if plain is None:
            return WindowsReading("a device, not a file", False, [], [])
        places, sure = _places(plain, folder, home)
        sure = sure and plain == spelling
        for start, names in places:
            cleaned, clean = _cleaned(names)
            if any(_DEVICE.match(name) for name in names):
                return WindowsReading("a device, not a file", False, [], [])
            if counts is Counts.ALL and any(map(_NO_NAME.search, names)):
                return WindowsReading("a path with a character that no name on Windows has", False, [], [])
            read = _joined(start, cleaned)
            exact = exact and (counts is not Counts.ALL or (sure and clean))
            # There is no looking whether something is there: what may be meant only then is for denies.
            (narrow if counts is Counts.ALL else wide).append(read)
            wide.extend(_elsewhere(read))
            exact = exact and not (counts is Counts.ALL and _elsewhere(read))
    return WindowsReading("", exact, narrow, wide)


def _without_prefix(text: str) -> str | None:
    """Return the text without what stands in front of a drive or a machine; None for a device."""
    prefix = _DEVICE_PREFIX.match(text)
    if prefix is None:
        return text
    text = text[prefix.end() :]
    unc = _UNC.match(text)
    if unc is not None:
        return f"//{text[unc.end() :]}"
    return text if re.match(r"[A-Za-z]:[\\/]", text) else None


def _places(text: str, folder: str, home: str) -> tuple[list[tuple[tuple[str, ...], list[str]]], bool]:
    """Return (where it starts, names) of each way to read a text, and whether there is only one."""
    text = text.replace("\\", "/")
    base = parts_of_place(folder)
    if text == "~" or text.startswith("~/"):
        return [(parts_of_place(home), text[2:].split("/"))], True
    if text.startswith("//"):
        server, *rest = [part for part in text.split("/") if part] or [""]
        return [((f"\\\\{server}", *rest[:1]), rest[1:])], len(rest) > 0 and server not in ("?", ".")
    drive = _DRIVE.match(text)
    if drive is None:
        start = base[: 2 if base[:1] and base[0].startswith("\\\\") else 1] if text.startswith("/") else base
        return [(start, text.split("/"))], True
    own, names = f"{drive[1]}:", text[drive.end() :].split("/")
    if text[drive.end() :].startswith("/"):
        return [((own,), names)], True
    ways = [((own,), names), (base, [drive[1], *names[1:]])]  # the last one: a stream of a file with a short name
    if base[:1] and base[0].lower() == own.lower():
        ways.append((base, names))
    return ways, False


def _cleaned(names: list[str]) -> tuple[list[str], bool]:
    """Return the names as the system takes them, and whether it takes them as they are."""
    cleaned = []
    for name in names:
        before = name.partition(":")[0] if ":" in name else name
        kept = before.rstrip(" ")
        cleaned.append(kept if kept in (".", "..") else before.rstrip(". "))
    sure = all(one == other and not is_short(one) for one, other in zip(names, cleaned, strict=True) if one != ".")
    return cleaned, sure


def _elsewhere(parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return where a share of a whole drive lies, on a machine that shares its own."""
    whole = _WHOLE_DRIVE.fullmatch(parts[1]) if len(parts) > 1 and parts[0].startswith("\\\\") else None
    return [(f"{whole[1]}:", *parts[2:])] if whole is not None else []


def is_short(name: str) -> bool:
    """Return whether a name may be a short one, which stands for another."""
    return "~" in name and _SHORT.fullmatch(name) is not None


def fits_short(short: str, name: str) -> bool:
    """Return whether a short name may stand for a name; both in lower case."""
    if not is_short(short) or not name.isascii():
        return is_short(short)
    stem, ending = short.partition("~")[0], short.partition(".")[2]
    front, dot, last = re.sub(r"[+,;=\[\]]", "_", name.replace(" ", "").lstrip(".")).rpartition(".")
    if not dot:
        front, last = last, ""
    # Of many names that begin alike, only two letters are kept, and a number of their own follows.
    return front.replace(".", "").startswith(stem[:2]) and last[:3] == ending
