"""One browser and one server for all browser tests; notebooks and kernels last one test, pages longer (see `pages`)."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from driver import NotebookPage, chromium, write_notebook
from kernels import REPOSITORY
from pages import Pages
from playwright.sync_api import Browser, Error
from servers import EVERYWHERE, Server, Where, serve

ARTIFACTS = REPOSITORY / "test-artifacts"
_failure = pytest.StashKey[str]()
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
        item.stash[_failure] = report.longreprtext if report.failed else ""
    return report


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="session")
def pages(browser: Browser) -> Iterator[Pages]:
    pages = Pages(browser)
    yield pages
    pages.close()


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
    browser: Browser, server: Server, pages: Pages, request: pytest.FixtureRequest
) -> Iterator[Callable[..., NotebookPage]]:
    """A function that opens a notebook: ``open_notebook(cells, where, theme="light", fresh=False)``.

    `cells` is a list of sources, or the path of a notebook, which is copied with its kernel replaced. A test that
    reloads its page needs a `fresh` one. Kernels end with the test. When the test fails, the failure, a screenshot, all
    outputs, the console and the end of the server's log are put into ``test-artifacts/``.
    """
    opened: list[NotebookPage] = []

    def open_it(cells: list[str] | Path, where: Where, *, theme: str = "light", fresh: bool = False) -> NotebookPage:
        name = f"n{next(_names)}.ipynb"
        if isinstance(cells, Path):
            write_copy(cells, server.folder / name, where.kernel)
        else:
            write_notebook(server.folder / name, cells, where.kernel)
        page = NotebookPage(browser, server, name, where, theme=theme, page=pages.take(where.front, fresh=fresh))
        opened.append(page)  # before it opens, so that a failure leaves evidence
        return page.open()

    yield open_it
    failure = request.node.stash.get(_failure, "the test has not ended")
    for number, page in enumerate(opened):
        if failure:
            stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", request.node.name)
            _save(page, ARTIFACTS / f"{stem}-{number}", failure)
        page.let_go()
        if failure or page.reloaded:
            pages.drop(page.page)
        else:
            pages.give_back(page.page, page.where.front)
    server.shut_down_kernels()


def write_copy(notebook: Path, target: Path, kernel: str) -> None:
    content: dict[str, Any] = json.loads(notebook.read_text("utf-8"))
    content["metadata"]["kernelspec"] = {"name": kernel, "display_name": kernel, "language": "python"}
    target.write_text(json.dumps(content))


def _save(page: NotebookPage, stem: Path, failure: str) -> None:
    """Save what helps to understand a failure. It fails never: the test's own failure is to be seen."""
    stem.parent.mkdir(exist_ok=True)
    text = [failure, page.report()]
    try:
        page.screenshot(stem.with_name(stem.name + ".png"))
    except Error as problem:
        text.append(f"no screenshot: {problem}")
    text += ["server:", page.server.log.read_text("utf-8", "replace")[-3000:]]
    stem.with_name(stem.name + ".txt").write_text("\n\n".join(text))
