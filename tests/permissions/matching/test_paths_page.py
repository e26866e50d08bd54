"""What the tables of docs/paths.md say of paths is so."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from path_folders import Folders, make_folders

PAGE = Path(__file__).parents[3] / "docs" / "paths.md"


def rows(heading: str) -> list[list[str]]:
    """Return the cells of a table, found by its first row."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(heading)) + 2
    found = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in re.split(r"(?<=[`\w–.):]) \|(?= |\Z)|^\| ", line) if cell.strip() != ""])
    return found


def code(cell: str) -> str:
    assert cell.startswith("`"), cell
    assert cell.endswith("`"), cell
    return cell[1:-1].replace("BASE", "{base}")


PATTERNS = rows("| pattern | path | deny | allow |")
SPELLINGS = rows("| path | deny `secret/**` | allow `project/**` |")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    return make_folders(tmp_path_factory.mktemp("page"))


def test_the_tables_are_found() -> None:
    assert len(PATTERNS) >= 15
    assert len(SPELLINGS) >= 25
    assert {row[2] for row in PATTERNS} == {"denied", "–"} == {row[1] for row in SPELLINGS}
    assert {row[3] for row in PATTERNS} == {"allowed", "–"} == {row[2] for row in SPELLINGS}


@pytest.mark.parametrize("row", PATTERNS, ids=[f"{row[0]} of {row[1]}" for row in PATTERNS])
def test_a_pattern_matches_as_the_page_says(folders: Folders, row: list[str]) -> None:
    reading = folders.read(code(row[0]), code(row[1]))
    assert (reading.wide, reading.narrow) == (row[2] == "denied", row[3] == "allowed")


@pytest.mark.parametrize("row", SPELLINGS, ids=[ascii(row[0]) for row in SPELLINGS])
def test_a_path_is_read_as_the_page_says(folders: Folders, row: list[str]) -> None:
    deny, allow = folders.read("secret/**", code(row[0])), folders.read("project/**", code(row[0]))
    assert (deny.wide, allow.narrow) == (row[1] == "denied", row[2] == "allowed")
    assert bool(deny.problem) == (len(row) > 3 and row[3].startswith("cannot be read"))
