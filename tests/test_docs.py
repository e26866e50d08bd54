"""The code on the pages runs, and gives what the pages say it gives.

The blocks of a page are run in order, in one module. ``# → value`` below an expression is what it gives. Functions
named ``test_…`` are called at the end.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from model_server import serving
from wire import text, use

REPOSITORY = Path(__file__).parents[1]
PAGES = [
    "README.md",
    "docs/approval-handlers.md",
    "docs/asking-people.md",
    "docs/budgets.md",
    "docs/explain.md",
    "docs/how-a-call-is-decided.md",
    "docs/lint.md",
    "docs/modes.md",
    "docs/paths.md",
    "docs/per-user.md",
    "docs/policy-file.md",
    "docs/rule-tables.md",
    "docs/rules-on-arguments.md",
    "docs/running-a-task.md",
    "docs/subagents.md",
    "docs/tools.md",
    "docs/write-a-permission.md",
]
"""The pages whose blocks stand on their own."""


REPLIES: dict[str, list[Any]] = {
    "README.md": [
        [text("I look."), use("read_file", {"path": "notes.txt"})],
        [text("They are tidy.")],
        [use("write_file", {"path": "notes.txt", "content": "milk"})],
        [text("Nobody let me write.")],
        [use("writer", {"prompt": "Tidy notes.txt"})],
        [text("I may not start it.")],
    ],
    "docs/running-a-task.md": [
        [
            text("I look."),
            use("read_file", {"path": "notes.txt"}),
            use("delete_file", {"path": "notes.txt"}, "toolu_2"),
        ],
        [text("Milk and bread.")],
        {"content": "Milk, and bread."},
        [text("Bread and milk.")],
    ],
}
"""What the providers reply to the requests of a page, in order."""


def blocks(page: str) -> list[tuple[int, str]]:
    """Return (number of its first line, source) of each Python block."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    found = re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [(text[: match.start()].count("\n") + 2, match[1]) for match in found]


@pytest.fixture
def module(request: pytest.FixtureRequest) -> Iterator[types.ModuleType]:
    """A module for the code of a page, which is found when something of it is pickled."""
    made = types.ModuleType("code_of_a_page")
    vars(made).update(MODEL="claude-sonnet-5-5", display=repr)  # what a reader's notebook has
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


@pytest.fixture
def providers(page: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server on this machine, which the providers' clients ask when nothing else is said."""
    with serving(*REPLIES.get(page, [])) as server:
        for name, url in [("ANTHROPIC", server.url), ("OPENAI", f"{server.url}/v1")]:
            monkeypatch.setenv(f"{name}_BASE_URL", url)
            monkeypatch.setenv(f"{name}_API_KEY", "of nobody")
        yield
        assert server.replies == [], "the page asks less often"


def said(lines: list[str], statement: ast.stmt) -> str | None:
    """Return what the page says that an expression gives."""
    assert statement.end_lineno is not None
    below = lines[statement.end_lineno] if statement.end_lineno < len(lines) else ""
    return below.removeprefix("# → ") if isinstance(statement, ast.Expr) and below.startswith("# → ") else None


@pytest.mark.usefixtures("providers")
@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_gives_what_the_page_says(
    page: str, module: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("milk, bread")
    shown, meant = 0, 0
    with asyncio.Runner() as runner:
        for first, source in blocks(page):
            meant += source.count("# → ")
            lines = source.splitlines()
            for statement in ast.parse(source).body:
                expected = said(lines, statement)
                where = f"{page}:{first + statement.lineno - 1}"
                tree: ast.AST
                if expected is None:
                    tree, how = ast.Module([statement], []), "exec"
                else:
                    assert isinstance(statement, ast.Expr)
                    tree, how = ast.Expression(statement.value), "eval"
                code = compile(tree, where, how, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
                value = eval(code, module.__dict__)
                if inspect.iscoroutine(value):  # there was an await in it
                    value = runner.run(value)
                if expected is not None:
                    assert repr(value) == expected, where
                    shown += 1
    assert shown == meant, "a value is shown that belongs to no expression"
    for name, function in list(vars(module).items()):
        if name.startswith("test_"):
            function()
