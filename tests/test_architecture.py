"""The house stands: imports go down its floors only, importing it is light, and `__all__` says what there is."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

import agentperm_nb

PACKAGE = "agentperm_nb"
REPOSITORY = Path(__file__).parents[1]
SOURCES = REPOSITORY / PACKAGE

# From the ground up. A module may import from its own floor and from those below; on the ground, from those before it.
GROUND = (
    "errors",
    "json_values",
    "render",
    "masking",
    "redaction",
    "calls",
    "context",
    "human",
    "schemas",
    "hints",
    "tags",
    "images",
    "tables",
    "figures",
    "results",
    "tool_class",
    "tools",
    "mcp_tools",
)
FLOORS = ("permissions", "approvals", "audit", "analysis", "running", "notebook", "adapters")
ROOF = ("testing", "__main__", "")

LOADED_LATER = (
    "IPython", "anywidget", "ipykernel", "ipywidgets", "jsonschema_rs",
    "numpy", "pandas", "pydantic", "sqlalchemy", "zmq",
)  # fmt: skip


def _name(path: Path) -> str:
    parts = path.relative_to(REPOSITORY).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {_name(path): path for path in sorted(SOURCES.rglob("*.py"))}


class Import(NamedTuple):
    importer: str
    imported: str
    line: int
    only_for_types: bool = False

    def __str__(self) -> str:
        return f"{self.importer} imports {self.imported} (line {self.line})"


def _imports_of(module: str, tree: ast.Module, modules: set[str]) -> Iterator[Import]:
    """Every import of our own modules: at the top, inside functions, and for type checkers."""
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
        for outer in node.body
        for inner in ast.walk(outer)
    }
    package = module if MODULES.get(module, Path()).name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == PACKAGE:
                    yield Import(module, alias.name, node.lineno, node in for_types)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = package.split(".")
                base = ".".join([*parts[: len(parts) - node.level + 1], *([node.module] if node.module else [])])
            if base.split(".")[0] == PACKAGE:
                for alias in node.names:
                    inner = f"{base}.{alias.name}"
                    yield Import(module, inner if inner in modules else base, node.lineno, node in for_types)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = ast.unparse(node.func)
            target = node.args[0].value
            if called in {"import_module", "importlib.import_module", "__import__"} and isinstance(target, str):
                name = f"{PACKAGE}{target}" if target.startswith(".") else target
                if name.split(".")[0] == PACKAGE:
                    yield Import(module, name, node.lineno)


def _floor(module: str) -> int:
    """The height of a module: 0 for the ground, then one a floor."""
    _, _, inside = module.partition(".")
    top = inside.split(".")[0]
    if top in GROUND:
        return 0
    if top in FLOORS:
        return 1 + FLOORS.index(top)
    assert top in ROOF, f"{module} has no place in the house: GROUND, FLOORS and ROOF list what there is"
    return 1 + len(FLOORS) + ROOF.index(top)


IMPORTS = [
    found
    for module, path in MODULES.items()
    for found in _imports_of(module, ast.parse(path.read_text(encoding="utf-8")), set(MODULES))
]


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_from_its_own_floor_or_below(module: str) -> None:
    upward = [str(found) for found in IMPORTS if found.importer == module and _floor(found.imported) > _floor(module)]
    assert upward == []


def test_ground_floor_modules_import_only_those_before_them() -> None:
    order = [f"{PACKAGE}.{name}" for name in GROUND]
    wrong = [
        str(found)
        for found in IMPORTS
        if found.importer in order
        and found.imported in order
        and order.index(found.imported) >= order.index(found.importer)
    ]
    assert wrong == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {module: set() for module in MODULES}
    for found in IMPORTS:
        # A package that gathers its own modules' names, and one of them that imports a neighbour, make no circle.
        inside = found.importer.startswith(f"{found.imported}.")
        if found.imported in MODULES and not inside and not found.only_for_types:
            graph[found.importer].add(found.imported)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize(
    ("source", "imported"),
    [
        ("import agentperm_nb.running.agent", "agentperm_nb.running.agent"),
        ("from agentperm_nb.running import agent", "agentperm_nb.running.agent"),
        ("from agentperm_nb.running.agent import Agent", "agentperm_nb.running.agent"),
        ("def f():\n    from agentperm_nb.running.agent import Agent", "agentperm_nb.running.agent"),
        ("from .agent import Agent", "agentperm_nb.permissions.agent"),
        ("from ..running import agent", "agentperm_nb.running.agent"),
        ("from agentperm_nb import Agent", "agentperm_nb"),
        ("import importlib\nimportlib.import_module('agentperm_nb.running.agent')", "agentperm_nb.running.agent"),
    ],
    ids=[
        "import",
        "from-package",
        "from-module",
        "inside-a-function",
        "relative",
        "two-up",
        "from-the-roof",
        "by-name",
    ],
)
def test_every_form_of_import_is_seen(source: str, imported: str) -> None:
    modules = {"agentperm_nb.running", "agentperm_nb.running.agent"}
    found = list(_imports_of("agentperm_nb.permissions.builtin", ast.parse(source), modules))
    assert [one.imported for one in found] == [imported]


def test_importing_the_package_loads_nothing_that_is_needed_later_only() -> None:
    code = "import json, sys; import agentperm_nb; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=REPOSITORY)
    loaded = {name.split(".")[0] for name in json.loads(done.stdout)}
    assert sorted(loaded & set(LOADED_LATER)) == []


def _public_names(tree: ast.Module) -> tuple[set[str], set[str]]:
    """Return the public names that a module defines, and those that it imports from our own modules."""
    defined: set[str] = set()
    imported: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            if isinstance(node.value, ast.Call) and ast.unparse(node.value.func) in {"TypeVar", "ParamSpec"}:
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined |= {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
        elif isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == PACKAGE):
            imported |= {alias.asname or alias.name for alias in node.names}
    return (
        {name for name in defined if not name.startswith("_")},
        {name for name in imported if not name.startswith("_")},
    )


@pytest.mark.parametrize("module", [name for name in MODULES if name != f"{PACKAGE}.__main__"])
def test_all_names_exactly_the_public_names(module: str) -> None:
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    loaded = importlib.import_module(module)
    listed = getattr(loaded, "__all__", None)
    defined, imported = _public_names(tree)
    if listed is None:
        assert defined == set(), "it has public names and no __all__"
        return
    assert sorted(set(listed)) == sorted(listed), "a name is listed twice"
    missing = [name for name in listed if not hasattr(loaded, name)]
    assert missing == [], "it is listed and not there"
    offered = defined | imported if module == PACKAGE else defined
    assert offered - set(listed) == set(), "it is there and not listed; a name of its own only starts with _"
    if MODULES[module].name != "__init__.py":
        assert set(listed) - defined == set(), "it is listed and comes from elsewhere"


def test_every_public_name_of_the_package_can_be_listed_and_loaded() -> None:
    assert set(agentperm_nb.__all__) <= set(dir(agentperm_nb))
    for name in agentperm_nb.__all__:  # loading some of them may import more
        assert getattr(agentperm_nb, name) is not None, name


def _text_files() -> list[Path]:
    """The files that are under version control, or all of a source distribution."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        capture_output=True, text=True, cwd=REPOSITORY, check=False,
    )  # fmt: skip
    if done.returncode == 0:
        paths = [REPOSITORY / name for name in done.stdout.split("\0") if name]
    else:
        paths = [
            path
            for folder in ("agentperm_nb", "tests", "docs", "notebooks")
            for path in (REPOSITORY / folder).rglob("*")
        ]
    return [path for path in paths if path.is_file() and path.suffix not in {".png", ".gif", ".jpg", ".svg"}]


# Pieces, so that this file does not hold the words themselves.
FORBIDDEN = {
    "a path of one machine": re.compile(r"(?<![\w./~}-])/(?:wo" + r"rk|ro" + r"ot|ho" + r"me/\w+)(?:/|\b)"),
    "a page that users do not have": re.compile("DES" + r"IGN(?:\.md|\s+(?:section\s+)?\d)"),
    "a work order": re.compile(r"\b(?:FIX" + "ME|XX" + r"X)\b"),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_file_names(what: str) -> None:
    found = [
        f"{path.relative_to(REPOSITORY)}:{number}: {line.strip()[:100]}"
        for path in _text_files()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if FORBIDDEN[what].search(line)
    ]
    assert found == []
