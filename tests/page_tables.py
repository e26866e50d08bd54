"""The tables of a page and what it shows, for tests that show that it is so."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["names_of_page", "shown_texts", "table_rows", "value_of"]

DOCS = Path(__file__).parents[1] / "docs"


def table_rows(page: str, *header: str) -> list[tuple[str, ...]]:
    """Return the rows of the tables of a page with this header; code has lost its backticks.

    Args:
        page: The page, such as ``lint.md``.
        header: The texts of the first row.
    """
    found: list[tuple[str, ...]] = []
    inside = False
    for line in (DOCS / page).read_text(encoding="utf-8").splitlines():
        if not line.startswith("|"):
            inside = False
            continue
        cells = [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
        if tuple(cells) == header:
            inside = True
        elif inside and set("".join(cells)) - set("-: "):
            found.append(tuple(re.sub(r"^`([^`]*)`$", r"\1", cell) for cell in cells))
    assert found, f"{page} has no table {header}"
    return found


def names_of_page(page: str) -> dict[str, Any]:
    """Return what the first Python block of a page defines, without its last expression."""
    source = _blocks(page)[0][1]
    names: dict[str, Any] = {"__name__": "code_of_a_page"}
    exec(compile(source, page, "exec"), names)
    return names


def shown_texts(page: str) -> Iterator[tuple[str, str]]:
    """Yield (Python up to an expression that ends a block, the text that is shown below it)."""
    before = ""
    blocks = _blocks(page)
    for place, (kind, source) in enumerate(blocks):
        if kind == "python":
            before += source
        elif kind == "text" and place and blocks[place - 1][0] == "python":
            yield before, source.rstrip("\n")


def value_of(source: str, names: dict[str, Any]) -> Any:
    """Run Python and return the value of the expression that it ends with."""
    tree = ast.parse(source)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    exec(compile(tree, "page", "exec"), names)
    return eval(compile(ast.Expression(last.value), "page", "eval"), names)


def _blocks(page: str) -> list[tuple[str, str]]:
    text = (DOCS / page).read_text(encoding="utf-8")
    return [(match[1], match[2]) for match in re.finditer(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)]
