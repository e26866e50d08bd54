"""One browser and one server for all browser tests; pages and kernels last one test."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from driver import NotebookPage, chromium, write_notebook
from kernels import REPOSITORY
from playwright.sync_api import Browser, Error
from servers import EVERYWHERE, Server, Where, serve

ARTIFACTS = REPOSITORY / "test-artifacts"
_failed = pytest.StashKey[bool]()
_names = itertools.count()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker("browser")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[_failed] = report.failed
    return report


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="session")
def server(jupyter_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serve(jupyter_home, tmp_path_factory.mktemp("notebooks")) as running:
        yield running


@pytest.fixture(params=EVERYWHERE, ids=str)
def where(request: pytest.FixtureRequest) -> Where:
    """Each front end with each kernel that we test it with."""
    return request.param


@pytest.fixture
def open_notebook(
    browser: Browser, server: Server, request: pytest.FixtureRequest
) -> Iterator[Callable[..., NotebookPage]]:
    """A function that opens a notebook: ``open_notebook(cells, where, theme="light")``.

    `cells` is a list of sources, or the path of a notebook, which is copied with its kernel replaced. Kernels end with
    the test. When the test fails, a screenshot and all outputs are put into ``test-artifacts/``.
    """
    pages: list[NotebookPage] = []

    def open_it(cells: list[str] | Path, where: Where, *, theme: str = "light") -> NotebookPage:
        name = f"n{next(_names)}.ipynb"
        if isinstance(cells, Path):
            write_copy(cells, server.folder / name, where.kernel)
        else:
            write_notebook(server.folder / name, cells, where.kernel)
        page = NotebookPage(browser, server, name, where, theme=theme)
        pages.append(page)
        return page

    yield open_it
    failed = request.node.stash.get(_failed, True)
    for number, page in enumerate(pages):
        if failed:
            _save(page, ARTIFACTS / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', request.node.name)}-{number}")
        page.close()
    server.shut_down_kernels()


def write_copy(notebook: Path, target: Path, kernel: str) -> None:
    import json

    content: dict[str, Any] = json.loads(notebook.read_text("utf-8"))
    content["metadata"]["kernelspec"] = {"name": kernel, "display_name": kernel, "language": "python"}
    target.write_text(json.dumps(content))


def _save(page: NotebookPage, stem: Path) -> None:
    stem.parent.mkdir(exist_ok=True)
    stem.with_name(stem.name + ".txt").write_text(page.report())
    try:
        page.screenshot(stem.with_name(stem.name + ".png"))
    except Error as problem:
        stem.with_name(stem.name + ".txt").write_text(f"{page.report()}\nno screenshot: {problem}")
