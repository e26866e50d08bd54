"""Writing a rule into a policy file: one more line in its ``rules``, and nothing else.

1. The text is changed by hand at one place, so that comments, order and spacing stay. Then both texts are read as TOML:
   what they say has to differ by that one rule, or nothing is written.
2. A file is replaced as a whole, at once, through links, with its mode and owner. Whoever reads it finds the old text
   or the new one.
3. It is read just before, and looked at again when the new text is ready: what somebody else wrote meanwhile is never
   lost. A file that cannot be read as a policy, or may not be written, is left as it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import tomllib
from collections.abc import Callable
from pathlib import Path

from agentperm_nb.permissions.policy_reading import Stamp, UnreadableError, read_whole, stamp_of
from agentperm_nb.permissions.toml_places import Array, rules_array

__all__ = ["NotWrittenError", "change_file", "with_rule"]

_BOM = "\ufeff"
_MOST_TRIES = 5


class NotWrittenError(Exception):
    """The file is as it was; the message says why."""


def with_rule(text: str, rule: str, *, before: int | None = None) -> str:
    """Return the text of a policy file with one more rule.

    Args:
        text: The text.
        rule: The rule in its notation.
        before: Place of the rule in ``rules`` that the new one comes before, from 0; at the end when left out.

    Raises:
        NotWrittenError: It cannot be put there.
    """
    try:
        old = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise NotWrittenError(f"the file is no TOML: {error}") from None
    listed = old.get("rules", [])
    if not isinstance(listed, list):
        raise NotWrittenError("its rules are no list")
    place = len(listed) if before is None else before
    new = _inserted(text, rules_array(text), _quoted(rule), place)
    expected = {**old, "rules": [*listed[:place], rule, *listed[place:]]}
    try:
        read = tomllib.loads(new)
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        read = {}
    if json.dumps(read, sort_keys=True, default=repr) != json.dumps(expected, sort_keys=True, default=repr):
        raise NotWrittenError("its rules are written in a way that a line cannot be added to; add it by hand")
    return new


def change_file(path: Path, change: Callable[[str], str | None]) -> bool:
    """Replace the text of a file by what `change` makes of it.

    Args:
        path: The file.
        change: Called with the text; returns the new one, or None to leave the file as it is. It may be called again
            when somebody else has written the file meanwhile.

    Returns:
        Whether the file was changed.

    Raises:
        NotWrittenError: It could not be; or `change` raises it.
    """
    target = Path(os.path.realpath(path))
    for _ in range(_MOST_TRIES):
        try:
            contents = read_whole(target)
        except UnreadableError as error:
            raise NotWrittenError(f"it cannot be read: {error}") from None
        if contents is None:
            raise NotWrittenError("it is gone")
        try:
            text = contents.data.decode("utf-8")
        except UnicodeDecodeError:
            raise NotWrittenError("it is not in UTF-8") from None
        start, text = (_BOM, text[1:]) if text.startswith(_BOM) else ("", text)
        new = change(text)
        if new is None:
            return False
        try:
            if _replace(target, f"{start}{new}".encode(), contents.stamp):
                return True
        except (OSError, UnreadableError) as error:
            raise NotWrittenError(f"it could not be written: {getattr(error, 'strerror', None) or error}") from None
    raise NotWrittenError("it is being written all the time")


def _replace(path: Path, data: bytes, stamp: Stamp) -> bool:
    """Put a file with this content in the place of another one, if that is as it was."""
    status = os.stat(path)
    if not status.st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(path, os.W_OK):
        raise NotWrittenError("it may not be written")
    new = path.with_name(f".{path.name}.{os.urandom(6).hex()}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if os.name != "nt":
            if (os.stat(new).st_uid, os.stat(new).st_gid) != (status.st_uid, status.st_gid):
                with contextlib.suppress(PermissionError):  # then it is ours from now on, as with most editors
                    os.chown(new, status.st_uid, status.st_gid)
            os.chmod(new, stat.S_IMODE(status.st_mode))
        # From here to the next line is the only time in which what another one writes would be lost.
        if stamp_of(path) != stamp:
            return False
        os.replace(new, path)
        return True
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)


def _quoted(rule: str) -> str:
    """Return a rule as TOML writes it: in single quotes, so that it may have double ones in it."""
    if "'" not in rule and rule.isprintable():
        return f"'{rule}'"
    return json.dumps(rule, ensure_ascii=False).replace("\x7f", "\\u007f")


def _inserted(text: str, array: Array, item: str, place: int) -> str:
    """Return a text with one more item in its array of rules; with such an array, where it has none."""
    new_line = "\r\n" if "\r\n" in text else "\n"
    if not array.found:
        before = text[: array.start]
        if before and not before.endswith("\n"):
            before += new_line
        return f"{before}rules = [{new_line}    {item},{new_line}]{new_line}{text[array.start :]}"
    if not array.items:
        at = array.start + 1
        last_line = text.rfind("\n", at, array.end) + 1
        if not last_line:
            return f"{text[:at]}{item}{text[array.end :]}"
        return f"{text[:last_line]}    {item},{new_line}{text[last_line:]}"
    if place < len(array.items):
        at = array.items[place][0]
        indent = _indent(text, at)
        return _put(text, at, f"{item}, " if indent is None else f"{item},{new_line}{indent}")
    start, end = array.items[-1]
    indent, after, close = _indent(text, start), array.comma, array.end
    if after is None:
        text, after, close = f"{text[:end]},{text[end:]}", end, close + 1
    after += 1
    if indent is None:
        return _put(text, after, f" {item}")
    # Behind what stands in the line of the last item: a comment on that is none on the new rule.
    next_line = text.find("\n", after, close) + 1
    if next_line:
        return _put(text, next_line, f"{indent}{item},{new_line}")
    return _put(text, after, f"{new_line}{indent}{item},")


def _put(text: str, at: int, more: str) -> str:
    return f"{text[:at]}{more}{text[at:]}"


def _indent(text: str, at: int) -> str | None:
    """Return what the line of a place is indented with; None where more stands before the place."""
    before = text[text.rfind("\n", 0, at) + 1 : at]
    return None if before.strip() else before
