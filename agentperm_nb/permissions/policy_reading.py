"""Reading a policy file whole, once.

1. What is known of the state of a file (`Stamp`) is of the very file that was read: it is opened once, and looked at
   before and after.
2. A file that was written a moment ago may still be being written. It is looked at again after a short pause, and read
   anew until it has stood still; one that never does cannot be read.
3. Clocks of file systems are coarse: two writings may look like one. The text of a file that was written a moment ago
   is compared when it is looked at the next time, too.
4. Only a regular file is read, through links, and nothing that could keep the reader waiting.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from pathlib import Path
from typing import NamedTuple

from agentperm_nb.permissions.policy_file import MOST_BYTES

__all__ = ["Contents", "Stamp", "UnreadableError", "read_whole", "stamp_of", "who_may_write"]

_FRESH = 2.0  # seconds; the coarsest clock of a file system that is in use
_PAUSE = 0.025
_MOST_LOOKS = 8
_HOW = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))


class UnreadableError(Exception):
    """The file cannot be read; the message says why."""


class Stamp(NamedTuple):
    """The state of a file, as far as it can be seen without reading it."""

    device: int
    inode: int
    size: int
    written: int
    """In nanoseconds."""
    changed: int
    """When its name, owner or rights were changed last, too."""


class Contents(NamedTuple):
    """What was read."""

    data: bytes
    stamp: Stamp
    sure: bool
    """Whether another content would have another stamp."""


def stamp_of(path: Path) -> Stamp | None:
    """Return the state of a file, or None where there is none.

    Raises:
        UnreadableError: Nobody can say.
    """
    try:
        return _stamp(os.stat(path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise UnreadableError(_why(error)) from None


def read_whole(path: Path, known: bytes | None = None) -> Contents | None:
    """Return the contents of a file, or None where there is none.

    Args:
        path: The file.
        known: What it held before; the same need not stand still.

    Raises:
        UnreadableError: It cannot be read, is no regular file, is too big, or is being written all the time.
    """
    for _ in range(_MOST_LOOKS):
        try:
            handle = os.open(path, _HOW)
        except (FileNotFoundError, NotADirectoryError):
            if known is None:
                return None
            time.sleep(_PAUSE)  # some editors move the old file away first
            if stamp_of(path) is None:
                return None
            continue
        except (OSError, ValueError) as error:
            raise UnreadableError(_why(error)) from None
        try:
            contents = _read(handle, known)
        except OSError as error:
            raise UnreadableError(_why(error)) from None
        finally:
            os.close(handle)
        if contents is not None:
            return contents
    raise UnreadableError("it is being written all the time")


def _read(handle: int, known: bytes | None) -> Contents | None:
    """Return the contents of an open file, or None when it did not stand still."""
    before = os.fstat(handle)
    if not stat.S_ISREG(before.st_mode):
        raise UnreadableError("it is a folder" if stat.S_ISDIR(before.st_mode) else "it is no regular file")
    data = _bytes_of(handle)
    if len(data) > MOST_BYTES:
        raise UnreadableError(f"it has more than {MOST_BYTES:,} bytes")
    after = os.fstat(handle)
    fresh = not after.st_mtime + _FRESH < time.time()  # a time to come is fresh, too
    if _content(before) != _content(after):
        return None
    if fresh and data != known:
        time.sleep(_PAUSE)
        # Of this very file: one that has been put in its place meanwhile is for the next look.
        if _content(os.fstat(handle)) != _content(after):
            return None
    return Contents(data, _stamp(after), not fresh)


def _bytes_of(handle: int) -> bytes:
    pieces: list[bytes] = []
    left = MOST_BYTES + 1
    while left > 0:
        piece = os.read(handle, left)
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def _stamp(status: os.stat_result) -> Stamp:
    return Stamp(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def _content(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def _why(error: Exception) -> str:
    number = getattr(error, "errno", None)
    if number in (errno.EACCES, errno.EPERM):
        return "it may not be read"
    if number == errno.ELOOP:
        return "its links lead in a circle"
    return getattr(error, "strerror", None) or str(error)


def who_may_write(path: Path) -> str:
    """Return why others may change a file, or an empty text; on Windows nobody asks.

    Args:
        path: The file.
    """
    if os.name == "nt":
        return ""
    try:
        if os.stat(path).st_mode & stat.S_IWOTH:
            return "every user of this machine may write it"
        for folder in dict.fromkeys((os.path.dirname(os.path.abspath(path)), os.path.dirname(os.path.realpath(path)))):
            mode = os.stat(folder).st_mode
            if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
                return f"every user of this machine may put another file in its place (in {folder})"
    except (OSError, ValueError):
        pass
    return ""
