"""What type checkers know of the package: every public name, and code as a user writes it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[1]
EXAMPLES = REPOSITORY / "tests" / "typing_examples.py"

NOT_YET: set[str] = set()
"""Modules and packages with names whose type a checker has to guess. One that has none is to be taken off."""

FOREIGN = {
    "agentperm_nb.notebook.panel.ApprovalPanel",
    "agentperm_nb.notebook.waits.QuestionWait",
    "agentperm_nb.notebook.waits.RequestsWait",
    "agentperm_nb.notebook.waits.Wait",
    "agentperm_nb.notebook.waits.Wait.__init__",
    "agentperm_nb.notebook.waits.Wait.panel",
}
"""A class whose base class is another package's, which says nothing of its types (ipywidgets), and what holds it."""

pytestmark = pytest.mark.timeout(180)


def basedpyright(*arguments: str) -> dict[str, Any]:
    """Run it on the package as it is here, and return its report."""
    command = [str(Path(sys.executable).parent / "basedpyright"), "--pythonpath", sys.executable, "--outputjson"]
    # An editable installation is not looked into: the package has to be on the path.
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, cwd=REPOSITORY, env=environment
    )
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.fixture(scope="module")
def completeness() -> dict[str, Any]:
    """What is known of the public names."""
    report: dict[str, Any] = basedpyright("--verifytypes", "agentperm_nb", "--ignoreexternal")["typeCompleteness"]
    assert report["moduleName"] == "agentperm_nb"
    assert len(report["symbols"]) > 500
    return report


def _guessed(symbols: Iterable[dict[str, Any]]) -> dict[str, str]:
    """Return the names at fault, not those that only mention them, with what is wrong."""
    return {
        symbol["name"]: found["message"].partition("\n")[0]
        for symbol in symbols
        for found in symbol["diagnostics"]
        if not symbol["isTypeKnown"]
        and symbol["name"] not in FOREIGN
        and "partially unknown" not in found["message"].partition("\n")[0]
    }


def test_the_type_of_every_public_name_is_written_down(completeness: dict[str, Any]) -> None:
    guessed = _guessed(completeness["symbols"])
    excused = {name: place for name in guessed for place in NOT_YET if name.startswith(f"{place}.")}
    assert {name: why for name, why in guessed.items() if name not in excused} == {}
    assert NOT_YET - set(excused.values()) == set(), "take them off NOT_YET"
    if not NOT_YET:
        assert {symbol["name"] for symbol in completeness["symbols"] if not symbol["isTypeKnown"]} == FOREIGN


def test_every_public_function_says_what_it_does(completeness: dict[str, Any]) -> None:
    assert completeness["missingFunctionDocStringCount"] == 0


def test_basedpyright_agrees_with_what_a_user_is_told(tmp_path: Path) -> None:
    settings = {
        "include": [str(EXAMPLES)],
        "typeCheckingMode": "strict",
        "reportUnnecessaryTypeIgnoreComment": "error",
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    report = basedpyright("--project", str(tmp_path))
    assert report["summary"]["filesAnalyzed"] == 1
    assert [(found["range"]["start"]["line"] + 1, found["message"]) for found in report["generalDiagnostics"]] == []


def test_mypy_agrees_with_what_a_user_is_told() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(EXAMPLES)],
        capture_output=True,
        text=True,
        check=False,
        cwd=REPOSITORY,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    # What is wrong in the package itself, make lint says.
    assert [line for line in done.stdout.splitlines() if EXAMPLES.name in line] == []
