"""How the parts of a rule are written: bare where that says the same, else in double quotes as JSON does.

1. What is written here is read back as the same by `permissions.notation`.
2. A bare word is a number, a date, ``true``, ``false`` or ``null`` when it looks like one; a quoted one is always a
   text. Wildcards work in both.
3. What is not seen is written as its code, so that a rule shows all that it says.
"""

from __future__ import annotations

import json
import re

__all__ = [
    "DATE",
    "KINDS",
    "NUMBER",
    "bare_key",
    "bare_tool",
    "bare_word",
    "key_text",
    "quoted",
    "word_text",
]

NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
"""A number, as in JSON."""
DATE = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(?:[Tt ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,6})?)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})?)?"
)
"""A date, or a date and a time, in ISO 8601."""
KINDS = ("text", "path", "mail", "json")
"""Words that say, before brackets, what kind a pattern is."""

_BOUND = rf"(?:{DATE}|{NUMBER})"
# What a bare word would be taken for, were it not quoted.
_TYPED = re.compile(rf"true|false|null|{_BOUND}|(?:{_BOUND})?<?\.\.<?(?:{_BOUND})?")
_START = re.compile(r"[!=<>@\"'#]|(?:any|every)(?:\s|$)")
_SPECIAL = re.compile(r"[(){},\"]")
_KEY = re.compile(r"[^\W\d][\w$-]*")
_KEYWORDS = {"present", "absent", "in", "not", "because"}


def bare_word(text: str) -> bool:
    """Return whether a pattern can be written without quotes."""
    return (
        text != ""
        and text.isprintable()
        and text == text.strip()
        and not text.endswith("\\")
        and _START.match(text) is None
        and _SPECIAL.search(text) is None
        and _TYPED.fullmatch(text) is None
    )


def bare_key(text: str) -> bool:
    """Return whether the name of an argument can be written without quotes."""
    return _KEY.fullmatch(text) is not None and text not in _KEYWORDS


def bare_tool(text: str) -> bool:
    """Return whether the pattern of a tool's name can be written without quotes."""
    return text != "" and text.isprintable() and not re.search(r"[\s(){},\"]", text)


def quoted(text: str) -> str:
    """Return a text in double quotes, with JSON's escapes for what is not seen."""
    return "".join(
        char if char.isprintable() else json.dumps(char)[1:-1] for char in json.dumps(text, ensure_ascii=False)
    )


def word_text(text: str) -> str:
    """Return a pattern as it is written: bare, or quoted."""
    return text if bare_word(text) else quoted(text)


def key_text(text: str) -> str:
    """Return the name of an argument as it is written: bare, or quoted."""
    return text if bare_key(text) else quoted(text)
