"""The tables of docs/differences.md, executed: each row is shown on the package there and on ours.

A row of the page is a class in the test file of its table, with the row's subject, and two methods that show what
stands in the two columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

__all__ = ["Row", "subjects"]

PAGE = Path(__file__).parents[1] / "docs" / "differences.md"


class Row:
    """What one row of a table says. A file makes its own ``class Row(difference_rows.Row, table="…")``."""

    rows: ClassVar[dict[str, type[Row]]] = {}

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __init_subclass__(cls, *, subject: str = "", table: str = "") -> None:
        if table:
            cls.rows = {}
            return
        assert subject not in cls.rows, f"two classes show the row {subject!r}"
        cls.rows[subject] = cls

    def there(self) -> None:
        raise NotImplementedError

    def here(self) -> None:
        raise NotImplementedError


def subjects(heading: str) -> Iterator[str]:
    """The subjects of the rows of the table below a heading of the page."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = lines.index(f"## {heading}")
    table = lines.index("| subject | there | here |", start)
    assert not any(line.startswith("## ") for line in lines[start + 1 : table]), f"there is no table below {heading}"
    for line in lines[table + 2 :]:
        if not line.startswith("|"):
            return
        yield re.split(r"(?<!\\)\|", line)[1].strip()
