"""The quickstart, run from top to bottom with nobody there to ask."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from kernels import REPOSITORY, clean_environment

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The text of the outputs by cell, after ``jupyter nbconvert --execute`` of a copy, within a minute.

    A last cell is added, which writes down what the log holds.
    """
    place = tmp_path_factory.mktemp("quickstart")
    shutil.copytree(REPOSITORY / "notebooks", place / "notebooks")
    shutil.copytree(REPOSITORY / "docs", place / "docs")
    notebook = place / "notebooks" / "01_quickstart.ipynb"
    content = json.loads(notebook.read_text(encoding="utf-8"))
    columns = ["tool", "args_json", "verdict", "asked", "decided_by", "answered_by", "reason", "outcome"]
    source = f"print(agent.audit.calls()[{columns!r}].to_json(orient='records'))"
    cell = {"cell_type": "code", "id": "rows", "metadata": {}, "execution_count": None, "outputs": [], "source": source}
    content["cells"].append(cell)
    notebook.write_text(json.dumps(content), encoding="utf-8")

    environment = clean_environment(place) | {"PYTHONPATH": str(REPOSITORY)}
    environment["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environment.get("PATH", "")])
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "--inplace", str(notebook)],
        capture_output=True, text=True, env=environment, timeout=100, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - started < 60
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return {cell["id"]: _text(cell["outputs"]) for cell in cells if cell["cell_type"] == "code"}


def _text(outputs: list[dict[str, Any]]) -> str:
    texts = [part for one in outputs for part in (one.get("text"), one.get("data", {}).get("text/plain")) if part]
    return "\n".join("".join(text) for text in texts)


@pytest.fixture(scope="module")
def rows(executed: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of the log."""
    loaded: list[dict[str, Any]] = json.loads(executed["rows"])
    return loaded


def test_every_call_that_was_handed_over_has_a_row(rows: list[dict[str, Any]]) -> None:
    assert len(rows) == 3 + 1 + 5 + 3 + 9 + 4


@pytest.mark.parametrize("kind", ["get_", "search_", "list_", "calculate", "think"])
def test_what_only_looks_ran(rows: list[dict[str, Any]], kind: str) -> None:
    found = [row for row in rows if row["tool"].startswith(kind)]
    assert found
    assert {(row["verdict"], row["outcome"], row["asked"]) for row in found} == {("allowed", "ran", False)}
    assert {row["decided_by"] for row in found} == {"AllowByReadOnly()"}


def test_a_cancellation_is_denied_by_the_rule_and_nobody_is_asked(rows: list[dict[str, Any]]) -> None:
    (row,) = [row for row in rows if row["tool"] == "cancel_reservation"]
    assert (row["verdict"], row["outcome"], row["asked"]) == ("denied", "not_run", False)
    assert row["decided_by"].startswith("DenyByName(['cancel_*']")
    assert row["reason"] == "Cancellations are made by the service desk, not by an agent."


@pytest.mark.parametrize("kind", ["update_", "book_", "send_certificate", "transfer_"])
def test_what_a_person_should_decide_is_denied_when_nobody_is_there(rows: list[dict[str, Any]], kind: str) -> None:
    found = [row for row in rows if row["tool"].startswith(kind)]
    assert found
    for row in found:
        assert (row["verdict"], row["outcome"]) == ("denied", "not_run")
        assert row["answered_by"] == "nobody"


def test_the_reason_names_the_cause_and_the_remedy(rows: list[dict[str, Any]]) -> None:
    (reason,) = {row["reason"] for row in rows if row["answered_by"] == "nobody"}
    assert re.search(r"nobody|no one|no person|cannot be asked", reason, re.IGNORECASE), reason
    assert re.search(r"permissions|AllowByName|policy|rule", reason), reason


def test_three_calls_of_one_turn_are_answered_in_one_table(executed: dict[str, str]) -> None:
    assert executed["batch"].count("update_reservation_flights") == 2
    assert executed["batch"].count("transfer_to_human_agents") == 1


def test_the_card_names_the_tools_and_the_rules(executed: dict[str, str]) -> None:
    for words in ("cancel_reservation", "get_user_details", "AllowByReadOnly", "DenyByName"):
        assert words in executed["agent"]


def test_explain_names_who_would_decide(executed: dict[str, str]) -> None:
    assert "DecideByHuman" in executed["explain"]
