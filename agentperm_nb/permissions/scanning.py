"""Reading a text from left to right, with errors that show the place."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from agentperm_nb.errors import fix_message

__all__ = ["EXAMPLE", "Scanner"]

EXAMPLE = "rule('deny read_file(path=**/.env) because \"no secrets\"')"
"""A rule, for the message of an error."""

_SPACE = re.compile(r"\s*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_Made = TypeVar("_Made")


class Scanner:
    """A text, and how far it has been read.

    Args:
        text: The text.
        where: Where it comes from, for errors, such as `` in line 3``.
    """

    def __init__(self, text: str, where: str = "") -> None:
        self.text: str = text
        self.where: str = where
        self.at: int = 0
        """Place of the next character."""

    def json(self) -> Any:
        """Read a JSON value."""
        try:
            value, self.at = _DECODER.raw_decode(self.text, self.at)
        except (ValueError, RecursionError) as error:
            self.fail("this is no JSON", "write a JSON value: json([1, 2])", getattr(error, "pos", self.at))
        return value

    def string(self) -> str:
        """Read a text in double quotes."""
        found = _STRING.match(self.text, self.at)
        if found is None:
            self.fail("the closing quote is missing", 'close the text with ", and write \\" for a quote in it')
        try:
            text: str = json.loads(found[0])
        except ValueError as error:
            at = self.at + getattr(error, "pos", 0)
            self.fail("this is no text as JSON writes it", "write \\\\ for a backslash, \\n for a new line", at)
        self.at = found.end()
        return text

    def space(self) -> None:
        """Pass over spaces."""
        found = _SPACE.match(self.text, self.at)
        assert found is not None  # it may be empty
        self.at = found.end()

    def peek(self, char: str) -> bool:
        """Return whether this comes next."""
        return self.text.startswith(char, self.at)

    def take(self, form: re.Pattern[str]) -> str:
        """Read what has a form, and return it; an empty text when there is nothing that has."""
        found = form.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found[0]

    def made(self, make: Callable[[], _Made], start: int) -> _Made:
        """Return what `make` returns; an error of its is shown at its place in the text."""
        try:
            return make()
        except (ValueError, TypeError) as error:
            problem, _, rest = str(error).partition("\n")
            fix = rest.partition("\n")[0].removeprefix("Fix: ") or "correct it"
            inside = getattr(error, "at", 0)
            if self.text[start : start + 1] == '"':  # escapes make the places in it uncertain
                inside = 0
            self.fail(problem, fix, min(start + inside, len(self.text)))

    def fail(self, problem: str, fix: str, at: int | None = None) -> NoReturn:
        """Raise the error that says what is wrong at a place.

        Args:
            problem: What is wrong.
            fix: How to mend it.
            at: The place; that of the next character when left out.

        Raises:
            ValueError: Always.
        """
        place = self.at if at is None else at
        shown, mark = _marked(self.text, place)
        raise ValueError(fix_message(f"this is no rule{self.where}: {problem}\n    {shown}\n    {mark}", fix, EXAMPLE))


def _marked(text: str, place: int) -> tuple[str, str]:
    """Return a text as it can be shown in a line, and a line with a mark below one of its characters."""
    start = max(0, place - 80)
    before = "…" if start else ""
    after = "…" if len(text) > place + 40 else ""
    shown = "".join(char if char.isprintable() else "·" for char in text[start : place + 40])
    width = sum(_width(char) for char in shown[: place - start])
    return f"{before}{shown}{after}", " " * (len(before) + width) + "^"


def _width(char: str) -> int:
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)
