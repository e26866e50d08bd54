"""Every statement of the published behaviour is shown by a test, or is one of those in which we differ."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from statements import COLLECTED, NOT_YET, ROWS_NOT_YET
from statements import STATEMENTS as OF_THE_LIST
from statements_of_modes import STATEMENTS as OF_MODES
from statements_of_policies import STATEMENTS as OF_POLICIES

STATEMENTS = {**OF_THE_LIST, **OF_POLICIES, **OF_MODES}
REPOSITORY = Path(__file__).parents[1]
KEPT = {key for key, statement in STATEMENTS.items() if statement.status == "kept"}

# Collects every file with such a marker, whatever else is run, and prints what the markers name.
_COLLECT = """
import json, pytest, sys
class Plugin:
    def pytest_collection_modifyitems(self, items):
        named = {name for item in items for mark in item.iter_markers("states") for name in mark.args}
        print("\\n" + json.dumps(sorted(named)))
code = pytest.main(["--collect-only", "-q", "-p", "no:cacheprovider", *sys.argv[1:]], plugins=[Plugin()])
raise SystemExit(code)
"""


def named(items: Iterable[pytest.Item]) -> set[str]:
    return {name for item in items for mark in item.iter_markers("states") for name in mark.args}


@pytest.fixture(scope="module")
def shown(request: pytest.FixtureRequest) -> set[str]:
    """What the markers of all tests name."""
    config = request.config
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.keyword:
        return named(config.stash[COLLECTED])
    tests = (REPOSITORY / "tests").rglob("test_*.py")
    files = [str(path) for path in tests if "mark.states" in path.read_text(encoding="utf-8")]
    command = [sys.executable, "-c", _COLLECT, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode == 0, done.stdout + done.stderr
    return set(json.loads(next(line for line in done.stdout.splitlines() if line.startswith("["))))


@pytest.mark.timeout(120)
def test_every_statement_that_is_kept_is_shown_by_a_test(shown: set[str]) -> None:
    assert sorted(KEPT - shown - NOT_YET) == []


@pytest.mark.timeout(120)
def test_a_statement_that_is_shown_does_not_count_as_missing(shown: set[str]) -> None:
    assert sorted(NOT_YET & shown) == [], "take them off NOT_YET in tests/statements.py"
    assert sorted(NOT_YET - KEPT) == []


@pytest.mark.timeout(120)
def test_every_marker_names_a_statement(shown: set[str]) -> None:
    assert sorted(shown - STATEMENTS.keys()) == []


def test_a_statement_in_which_we_differ_has_its_row_among_the_differences() -> None:
    page = (REPOSITORY / "docs" / "differences.md").read_text(encoding="utf-8")
    rows = {match[1] for match in re.finditer(r"^\| ([^|]+?) \|", page, re.MULTILINE)}
    wanted = {statement.row for statement in STATEMENTS.values() if statement.row}
    assert sorted(wanted - rows - ROWS_NOT_YET) == []
    assert sorted(ROWS_NOT_YET & rows) == [], "take them off ROWS_NOT_YET in tests/statements.py"
    assert sorted(ROWS_NOT_YET - wanted) == []


def test_a_statement_is_a_sentence_that_is_kept_or_points_to_a_row() -> None:
    for key, statement in STATEMENTS.items():
        assert re.fullmatch(r"[A-SVWX]\d*[a-c]?|(?:RP|MA)\d+\.\d+", key)
        assert statement.text.endswith(".")
        assert (statement.status, bool(statement.row)) in {("kept", False), ("different", True)}
