"""What stands beside the package holds: the commands, the README, the notebooks, the data, the docs, the archive."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[1]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
PAGES = [REPOSITORY / "README.md", REPOSITORY / "CHANGELOG.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("[0-9][0-9]_*.ipynb"))
PROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def _name(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def _notebook(path: Path) -> dict[str, Any]:
    """Read a notebook as it is committed: whoever has tried it has its outputs in the folder."""
    committed = subprocess.run(["git", "show", f"HEAD:{_name(path)}"], cwd=REPOSITORY, capture_output=True, text=True)
    text = committed.stdout if committed.returncode == 0 else path.read_text(encoding="utf-8")
    loaded: dict[str, Any] = json.loads(text)
    return loaded


def _source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


def _compiles(source: str, name: str) -> None:
    compile(source, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | ast.PyCF_ONLY_AST)


# --- commands ---------------------------------------------------------------------------------------------------------


def test_every_make_command_of_the_readme_is_in_the_makefile() -> None:
    makefile = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):(?!=)", makefile, re.MULTILINE))
    used = set(re.findall(r"(?:^|`)make ([a-z]+)", README, re.MULTILINE))
    assert {"demo", "test", "check"} <= used
    assert used - targets == set()


def test_the_two_commands_stand_in_a_block_to_copy() -> None:
    block = re.search(r"```sh\n(.*?)```", README, re.DOTALL)
    assert block is not None
    assert re.findall(r"^make (\w+)", block[1], re.MULTILINE) == ["demo", "test"]


def test_make_alone_says_what_there_is() -> None:
    done = subprocess.run(["make"], capture_output=True, text=True, check=True, cwd=REPOSITORY, env=_own_environment())
    assert [line.split()[1] for line in done.stdout.splitlines()] == [
        "demo",
        "test",
        "check",
        "test-long",
        "bench",
        "clean",
    ]


def test_a_missing_python_is_named_with_its_fix(tmp_path: Path) -> None:
    done = _make(tmp_path, "demo", "PYTHON=/nowhere/python3")
    assert done.returncode != 0
    assert "no Python 3.11 or newer" in done.stderr
    assert "at PYTHON=/nowhere/python3" in done.stderr
    assert "Fix: install one" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_a_missing_chromium_is_named_with_its_fix(tmp_path: Path) -> None:
    done = _make(tmp_path, "chromium", "CHROMIUM=/nowhere/chromium")
    assert done.returncode != 0
    assert "none was found at CHROMIUM=/nowhere/chromium" in done.stderr
    assert "Fix: install it" in done.stderr


def _own_environment() -> dict[str, str]:
    # A make above us, the one that runs these tests, would hand its own variables and flags down.
    return {
        key: value for key, value in os.environ.items() if key not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS", "CHROMIUM"}
    }


def _make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "pyproject.toml").touch()
    command = ["make", "-f", str(REPOSITORY / "Makefile"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, env=_own_environment())


# --- texts ------------------------------------------------------------------------------------------------------------


def _blocks(path: Path) -> list[tuple[int, str]]:
    text = path.read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [(text[: match.start()].count("\n") + 2, match[1]) for match in found]


BLOCKS = [(path, line, source) for path in PAGES for line, source in _blocks(path)]


@pytest.mark.parametrize(("path", "line", "source"), BLOCKS, ids=[f"{_name(path)}:{line}" for path, line, _ in BLOCKS])
def test_a_python_block_compiles(path: Path, line: int, source: str) -> None:
    _compiles(source, f"{path.name}:{line}")


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_what_the_python_blocks_import_from_the_package_is_there(path: Path) -> None:
    import agentperm_nb

    trees = [ast.parse(source) for _, source in _blocks(path)]
    names = {
        alias.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "agentperm_nb"
        for alias in node.names
    }
    assert {name for name in names if not hasattr(agentperm_nb, name)} == set()


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_a_link_to_a_file_leads_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)|(?:src|srcset)=\"([^\"]+)\"", text)
    local = [link for pair in links for link in pair if link and "://" not in link]
    assert [link for link in local if not (path.parent / link).exists()] == []


def test_the_changelog_keeps_its_form() -> None:
    lines = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# Changelog"
    releases = [line for line in lines if line.startswith("## ")]
    assert releases[0] == "## [Unreleased]"
    assert [line for line in releases[1:] if not re.fullmatch(r"## \[\d+\.\d+\.\d+\] - \d{4}-\d\d-\d\d", line)] == []
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert {line.removeprefix("### ") for line in lines if line.startswith("### ")} <= kinds


def test_the_columns_of_the_log_that_the_docs_list_are_those_there_are() -> None:
    from agentperm_nb import Agent

    page = (REPOSITORY / "docs" / "audit-columns.md").read_text(encoding="utf-8")
    first_cells = re.findall(r"^\| (`[^|]*`) \|", page, re.MULTILINE)
    listed = [name for cell in first_cells for name in re.findall(r"`(\w+)`", cell)]
    assert listed == list(Agent(tools=[]).audit.calls().columns)


# --- notebooks and their data -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", NOTEBOOKS, ids=_name)
def test_a_notebook_is_valid_and_has_no_outputs(path: Path) -> None:
    import nbformat

    content = _notebook(path)
    nbformat.validate(content)
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    assert [cell["id"] for cell in code if cell["outputs"] or cell["execution_count"]] == []
    assert "widgets" not in content["metadata"]
    for cell in code:
        _compiles(_source(cell), f"{path.name}:{cell['id']}")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=_name)
def test_a_notebook_links_to_files_that_are_there(path: Path) -> None:
    text = "\n".join(_source(cell) for cell in _notebook(path)["cells"] if cell["cell_type"] == "markdown")
    links = [link for link in re.findall(r"\]\(([^)#\s]+)\)", text) if "://" not in link]
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_recorded_calls_carry_their_attribution() -> None:
    page = (REPOSITORY / "notebooks" / "data" / "README.md").read_text(encoding="utf-8")
    for words in ("airline_calls.jsonl", "tau-bench", "Sierra", "MIT License", "Copyright (c) 2024 Sierra"):
        assert words in page
    data = {path.name for path in (REPOSITORY / "notebooks" / "data").iterdir()} - {"README.md"}
    assert {name for name in data if name not in page} == set(), "data without a word on where it is from"


def _airline() -> Any:
    spec = importlib.util.spec_from_file_location("airline", REPOSITORY / "notebooks" / "airline.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _rows() -> list[dict[str, Any]]:
    text = (REPOSITORY / "notebooks" / "data" / "airline_calls.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_the_recorded_calls_are_of_every_kind_that_the_quickstart_shows() -> None:
    kinds = (
        "get_",
        "search_",
        "list_",
        "calculate",
        "think",
        "cancel_",
        "update_",
        "book_",
        "send_certificate",
        "transfer_",
    )
    names = {row["tool"] for row in _rows()}
    assert [kind for kind in kinds if not any(name.startswith(kind) for name in names)] == []


def test_the_airline_says_read_only_of_exactly_the_tools_that_only_look() -> None:
    kinds = ("get_", "search_", "list_", "calculate", "think")
    for tool in _airline().TOOLS:
        assert tool.hints.read_only is tool.name.startswith(kinds), tool.name


# The model's own mistakes: a card that it made up, one of another customer's kind, a certificate that is not taken.
REFUSED = {"credit_card_7334", "credit_card_5634230", "certificate_9380982"}


def test_the_airline_answers_every_recorded_call() -> None:
    from agentperm_nb import ToolError

    airline = _airline()
    tools = {tool.name: tool for tool in airline.TOOLS}
    refused = set()
    for row in _rows():
        assert tools[row["tool"]].check_args(row["args"]) == [], row
        try:
            assert tools[row["tool"]].run(row["args"]) is not None
        except ToolError:
            refused.add(row["args"]["payment_id"])
    assert refused == REFUSED
    assert airline.reservations["M20IZO"]["cabin"] == "business"
    assert airline.reservations["NQNU5R"]["status"] == "cancelled"
    airline.reset()
    assert airline.reservations["NQNU5R"]["status"] == "booked"


@pytest.mark.parametrize(
    ("expression", "value"),
    [("(430 - 136) + (412 - 109)", 597), ("105 + 102", 207), ("-3 * (2 + 0.5)", -7.5), (" 10 / 4 ", 2.5)],
)
def test_calculate_works_out(expression: str, value: float) -> None:
    assert _airline().calculate.run({"expression": expression}) == value


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').getcwd()",
        "9 ** 9",
        "(1).real",
        "True + 1",
        "'a' * 3",
        "x",
        "1 / 0",
        "1 +",
        "1e400",
        "1" * 300,
        "[1]",
    ],
)
def test_calculate_refuses(expression: str) -> None:
    from agentperm_nb import ToolError

    with pytest.raises(ToolError):
        _airline().calculate.run({"expression": expression})


# --- the archive ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The files in the source distribution."""
    place = tmp_path_factory.mktemp("sdist")
    code = f"import hatchling.build as build; build.build_sdist({str(place)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    (made,) = place.glob("*.tar.gz")
    with tarfile.open(made) as opened:
        return {name.partition("/")[2] for name in opened.getnames()}


@pytest.mark.parametrize(
    "name",
    ["LICENSE", "CHANGELOG.md", "README.md", "Makefile", "agentperm_nb/py.typed", "docs/how-a-call-is-decided.md",
     "notebooks/01_quickstart.ipynb", "notebooks/data/README.md", "tests/test_repository.py", "benchmarks/report.py"],
)  # fmt: skip
def test_the_source_distribution_holds(archive: set[str], name: str) -> None:
    assert name in archive


def test_the_source_distribution_holds_nothing_that_was_only_built(archive: set[str]) -> None:
    assert [name for name in archive if "__pycache__" in name or name.startswith((".venv", "test-artifacts"))] == []


def test_the_licence_is_bsd_and_named_in_the_project() -> None:
    text = (REPOSITORY / "LICENSE").read_text(encoding="utf-8")
    assert text.startswith("BSD 3-Clause License")
    assert "agentperm_nb contributors" in text
    assert PROJECT["license"] == "BSD-3-Clause"
    assert PROJECT["license-files"] == ["LICENSE"]


def test_binder_pins_every_requirement() -> None:
    lines = (REPOSITORY / "binder" / "requirements.txt").read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert wanted
    assert [line for line in wanted if not re.fullmatch(r"[A-Za-z0-9_.-]+==[\w.]+", line)] == []
    assert os.access(REPOSITORY / "binder" / "postBuild", os.X_OK)
    assert "01_quickstart.ipynb" in (REPOSITORY / "binder" / "postBuild").read_text(encoding="utf-8")
