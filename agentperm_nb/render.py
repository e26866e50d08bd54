"""Any text made harmless and visible, for the panel, the prompt, the tables and the record.

1. What a reader cannot see or that moves other text is shown as its code point, ``\\u{202E}``: controls, bidirectional
   and zero-width characters, surrogates, private use, unassigned, line and paragraph separators. Line feed and tab
   stay.
2. A run of more than 24 spaces and tabs, and of more than three empty lines, is shown as its count, so that nothing
   hides to the right of the screen or below it; combining marks after the fourth on one letter, and those on none, are
   shown as code points.
3. What was found is named by `flags`, for the badges.
4. HTML is made by escaping, never from a model's markup.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["MASK", "NO_MATH", "escape", "flags", "shorten", "table_html", "table_text", "visible"]

MASK = "[masked]"
"""What stands where a secret was."""

NO_MATH = "tex2jax_ignore mathjax_ignore"
"""Classes of an HTML element in which no formulas are looked for."""

_HIDDEN = "hidden-characters"
_PADDING = "long-padding"
_MIXED_SCRIPT = "mixed-script"
_MOST_MARKS = 4  # on one letter

_NOT_SHOWN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
# Shown by no font although they count as letters or symbols: fillers and the blank braille pattern.
_BLANK = {
    "\u115f", "\u1160", "\u3164", "\uffa0", "\u2800", "\u034f", "\u17b4", "\u17b5", "\u180b", "\u180c", "\u180d",
    "\u180f", "\ufffc", "\U0001d159",
}  # fmt: skip
_BLANKS = r" \t\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000"
_SPACES = re.compile(f"[{_BLANKS}]{{25,}}")
_LINES = re.compile(f"\n(?:[{_BLANKS}]{{0,24}}\n){{4,}}")  # after `_SPACES`, which leaves no longer run
_PLAIN = re.compile(r"[\n\t\x20-\x7e]*")
_SCRIPTS = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC")
_WORD = re.compile(r"[^\W\d_]{2,}")


def _is_hidden(char: str) -> bool:
    if char in "\n\t":
        return False
    return (
        char in _BLANK
        or unicodedata.category(char) in _NOT_SHOWN
        or "\ufe00" <= char <= "\ufe0f"
        or "\U000e0100" <= char <= "\U000e01ef"
    )


def visible(text: str) -> str:
    """Return `text` with every character that is not seen, or that moves others, shown as ``\\u{XXXX}``."""
    if _PLAIN.fullmatch(text):
        return _LINES.sub(_line_count, _SPACES.sub(_space_count, text))
    parts: list[str] = []
    marks = _MOST_MARKS  # a mark at the start would sit on whatever stands before the text
    for char in text:
        if _is_mark(char):
            marks += 1
            parts.append(char if marks <= _MOST_MARKS and not _is_hidden(char) else f"\\u{{{ord(char):04X}}}")
            continue
        marks = _MOST_MARKS if char == "\n" else 0
        parts.append(f"\\u{{{ord(char):04X}}}" if _is_hidden(char) else char)
    return _LINES.sub(_line_count, _SPACES.sub(_space_count, "".join(parts)))


def _is_mark(char: str) -> bool:
    return unicodedata.combining(char) != 0 or unicodedata.category(char) in {"Mn", "Me"}


def _space_count(match: re.Match[str]) -> str:
    return f" ⟨{len(match[0])} spaces⟩ "


def _line_count(match: re.Match[str]) -> str:
    return f"\n⟨{match[0].count(chr(10)) - 1} empty lines⟩\n"


def flags(value: Any) -> list[str]:
    """Return what a reader should be told about the texts in a JSON value, keys included, each once, sorted.

    ``hidden-characters``, ``long-padding``, ``mixed-script`` (a word of letters from two look-alike alphabets).
    """
    found: set[str] = set()
    for text in _texts(value):
        if _SPACES.search(text) or _LINES.search(text):
            found.add(_PADDING)
        if text.isascii():
            if any((ord(char) < 32 and char not in "\n\t") or char == "\x7f" for char in text):
                found.add(_HIDDEN)
            continue
        if any(map(_is_hidden, text)) or _has_flood(text):
            found.add(_HIDDEN)
        if any(len(_scripts(word)) > 1 for word in _WORD.findall(text)):
            found.add(_MIXED_SCRIPT)
    return sorted(found)


def _has_flood(text: str) -> bool:
    marks = 0
    for char in text:
        marks = marks + 1 if not char.isascii() and _is_mark(char) else 0
        if marks > _MOST_MARKS:
            return True
    return False


def _scripts(word: str) -> set[str]:
    names = (unicodedata.name(char, "") for char in word)
    return {script for name in names for script in _SCRIPTS if name.startswith(script)}


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def escape(text: str) -> str:
    """Return `text`, made visible, as HTML."""
    import html

    return html.escape(visible(text), quote=True)


def shorten(text: str, limit: int, *, left_out: int = 0) -> str:
    """Return `text` in about `limit` characters, with the count of those left out, here and (`left_out`) before."""
    missing = max(len(text) - limit, 0) + left_out
    return f"{text[:limit]}… ({missing:,} more characters)" if missing else text


# Colours come from the notebook's theme where there is one; elsewhere the text inherits its own.
_STYLE = (
    "border-collapse:collapse;font-size:var(--jp-ui-font-size1,13px);margin:4px 0;"
    "color:var(--jp-ui-font-color1,inherit);background:transparent"
)
_CELL = "text-align:left;vertical-align:top;padding:4px 14px 4px 0;border:none;white-space:pre-wrap"
# A short column keeps its words whole; only a long one breaks anywhere, so that no argument can push the table wide.
_SHORT, _SHORT_CELL = 24, "white-space:nowrap"
_LONG_CELL = "overflow-wrap:anywhere;min-width:9em;max-width:44em"
_CAPTION = "caption-side:top;text-align:left;font-weight:600;padding:2px 0;color:inherit"
_FOOT = "font-size:var(--jp-ui-font-size1,13px);opacity:.85"
_RULE = "border-bottom:1px solid var(--jp-border-color2,#8886)"


def table_html(columns: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "", foot: str = "") -> str:
    """Return an HTML table of texts, each escaped; readable in light and dark, and where styles are stripped."""
    rows = [list(row) for row in rows]
    styles = [
        f"{_CELL};{_SHORT_CELL if all(len(row[i]) <= _SHORT for row in rows) else _LONG_CELL}"
        for i in range(len(columns))
    ]
    head = "".join(
        f'<th scope="col" style="{style};font-weight:600;{_RULE}">{escape(name)}</th>'
        for style, name in zip(styles, columns, strict=True)
    )
    body = "".join(
        '<tr style="background:transparent">'
        + "".join(f'<td style="{style}">{escape(cell)}</td>' for style, cell in zip(styles, row, strict=True))
        + "</tr>"
        for row in rows
    )
    top = f'<caption style="{_CAPTION}">{escape(caption)}</caption>' if caption else ""
    below = f'<div style="{_FOOT}">{escape(foot)}</div>' if foot else ""
    # The class keeps Jupyter's MathJax away: "$5 and $6" is money, and a model's text is never typeset.
    table = f'<table style="{_STYLE}">{top}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div class="{NO_MATH}">{table}{below}</div>'


def table_text(columns: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "", width: int = 60) -> str:
    """Return a plain-text table; a cell is one line of at most `width` characters and says how much it leaves out."""
    lines = [list(columns), *([_one_line(cell, width) for cell in row] for row in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    text = ["  ".join(cell.ljust(size) for cell, size in zip(line, widths, strict=True)).rstrip() for line in lines]
    text.insert(1, "  ".join("-" * size for size in widths))
    return "\n".join([caption, *text] if caption else text)


def _one_line(text: str, width: int) -> str:
    line = visible(text).replace("\n", "⏎").replace("\t", " ")
    return line if len(line) <= width else f"{line[: width - 8]}… +{len(line) - width + 8}"
