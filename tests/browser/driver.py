"""Drive a notebook page in JupyterLab 4 or Notebook 7.

Commands go through the application object (the server runs with ``--expose-app-in-browser``), and outputs are read from
the notebook's model, so neither depends on what is scrolled into view. Clicks and keys are real ones.

Every ``wait_…`` and every method with `timeout` raises `AssertionError` that shows all outputs when the time is over.
Times are in seconds. Cells are counted from 0.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from playwright.sync_api import Browser, Error, Locator, Page, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from servers import Server, Where

_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--force-prefers-reduced-motion",
]  # fmt: skip
_PANEL = """
const panel = () => window.jupyterapp && Array.from(window.jupyterapp.shell.widgets('main')).find(
    w => w.content && w.content.model && w.content.widgets && w.sessionContext);
const connection = () => panel().sessionContext.session.kernel;
const cells = () => panel().content.model.sharedModel.toJSON().cells;
const joined = x => Array.isArray(x) ? x.join('') : (x || '');
const text = cell => (cell.outputs || []).map(o =>
    o.output_type === 'stream' ? joined(o.text)
    : o.output_type === 'error' ? `<${o.ename}: ${o.evalue}>\\n`
    : 'application/vnd.jupyter.widget-view+json' in o.data ? '<widget>\\n'
    : joined(o.data['text/plain']) + '\\n').join('');
"""
_READY = """() => { const p = panel(); return p && p.context.isReady && p.sessionContext.isReady
    && p.sessionContext.session && connection().connectionStatus === 'connected' && connection().status !== 'unknown'
    && connection().status !== 'starting'; }"""
_THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
_workspaces = itertools.count()


def write_notebook(path: Path, cells: list[str], kernel: str) -> None:
    """Write a notebook of code cells with the ids ``c0``, ``c1``, …"""
    content = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {"name": kernel, "display_name": kernel, "language": "python"},
            "language_info": {"name": "python"},
        },
        "cells": [
            {
                "cell_type": "code",
                "id": f"c{index}",
                "metadata": {},
                "execution_count": None,
                "outputs": [],
                "source": s,
            }
            for index, s in enumerate(cells)
        ],
    }
    path.write_text(json.dumps(content, indent=1))


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Run a headless Chromium: Debian's, else Playwright's own.

    Raises:
        RuntimeError: There is neither.
    """
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        try:
            browser = playwright.chromium.launch(executable_path=found, args=_FLAGS)
        except Error as problem:
            raise RuntimeError(
                "browser tests need a Chromium that starts. Fix: `apt-get install chromium`, or "
                f"`python -m playwright install chromium`.\n{problem}"
            ) from problem
        try:
            yield browser
        finally:
            browser.close()


class NotebookPage:
    """A notebook in a page of its own, with its kernel running.

    Args:
        browser: The Chromium.
        server: Where the notebook is served.
        path: The notebook, relative to the server's folder.
        where: The front end (the kernel is named in the notebook).
        theme: ``light`` or ``dark``.
    """

    def __init__(self, browser: Browser, server: Server, path: str, where: Where, *, theme: str = "light") -> None:
        self.server, self.path, self.where = server, path, where
        self.console: list[str] = []
        """What the page wrote to the console."""
        self._browser_context = browser.new_context(viewport={"width": 1300, "height": 1000})
        self.page: Page = self._browser_context.new_page()
        """Playwright's page, for whatever has no method here."""
        self.page.on("console", lambda message: self.console.append(f"{message.type}: {message.text}"[:500]))
        self.page.on("dialog", lambda dialog: dialog.accept())  # "leave without saving?" at a reload
        root = f"lab/workspaces/test-{next(_workspaces)}/tree" if where.front == "lab" else "notebooks"
        self.page.goto(f"{server.url}/{root}/{quote(path)}?token={server.token}", wait_until="domcontentloaded")
        self._wait_ready()
        self.set_theme(theme)

    @property
    def file(self) -> Path:
        """The notebook's file."""
        return self.server.folder / self.path

    def close(self) -> None:
        """Close the page. Its kernel runs on: the fixture ends it."""
        self._browser_context.close()

    # the page

    def js(self, body: str, argument: Any = None) -> Any:
        """Return what an async function body returns; it can use `arg`, `panel()`, `connection()` and `cells()`."""
        return self.page.evaluate(f"async arg => {{ {_PANEL} {body} }}", argument)

    def wait_js(self, condition: str, argument: Any = None, *, timeout: float = 30, what: str = "") -> None:
        """Wait until a JavaScript function of one argument, such as ``n => cells().length === n``, returns true."""
        try:
            self.page.wait_for_function(
                f"arg => {{ {_PANEL} return ({condition})(arg); }}", arg=argument, timeout=timeout * 1000, polling=50
            )
        except PlaywrightTimeout:
            raise AssertionError(f"waited {timeout} s in vain for {what or condition}\n{self.report()}") from None

    def command(self, name: str, arguments: dict[str, Any] | None = None) -> None:
        """Start a command of the application, such as ``notebook:run-cell``, without waiting for its end."""
        self.js(
            "window.jupyterapp.commands.execute(arg[0], arg[1]).catch(e => console.error('command', String(e)));",
            [name, arguments or {}],
        )

    def reload(self) -> None:
        """Reload the page; the kernel runs on."""
        self.page.reload(wait_until="domcontentloaded")
        self._wait_ready()

    def set_theme(self, theme: str) -> None:
        """Switch to the ``light`` or the ``dark`` theme."""
        light = "true" if theme == "light" else "false"
        if self.page.evaluate("() => document.body.dataset.jpThemeLight") != light:
            self.command("apputils:change-theme", {"theme": _THEMES[theme]})
        self.wait_js("light => document.body.dataset.jpThemeLight === light", light, what=f"the {theme} theme")

    def screenshot(self, path: Path) -> None:
        """Save what the page shows as a PNG."""
        self.page.screenshot(path=str(path))

    def report(self) -> str:
        """Return everything that helps to understand a failure, as text."""
        try:
            lines = [f"cell {i}: {text!r}" for i, text in enumerate(self.outputs())]
            lines.append(f"kernel: {self.kernel_status()}")
        except Error as problem:
            lines = [f"no outputs: {problem}"]
        return "\n".join([f"{self.where} {self.path}", *lines, "console:", *self.console[-30:]])

    # the kernel

    def kernel_status(self) -> str:
        """Return ``idle``, ``busy``, … as the front end shows it."""
        return str(self.js("return panel().sessionContext.kernelDisplayStatus;"))

    def wait_idle(self, timeout: float = 30) -> None:
        """Wait until every cell that was started has ended and the kernel shows idle."""
        self.wait_js(
            "() => panel().sessionContext.kernelDisplayStatus === 'idle'"
            " && panel().content.widgets.every(w => !w.model.executionState || w.model.executionState === 'idle')",
            timeout=timeout,
            what="an idle kernel",
        )

    def interrupt(self) -> None:
        """Interrupt the kernel."""
        self.js("await connection().interrupt();")

    def restart(self) -> None:
        """Restart the kernel and wait until it is there."""
        self.js("await connection().restart();")
        self._wait_ready()

    # cells

    def run(self, cell: int) -> None:
        """Start one cell."""
        self.js("panel().content.activeCellIndex = arg; panel().content.deselectAll();", cell)
        self.command("notebook:run-cell")

    def run_all(self) -> None:
        """Start all cells."""
        self.command("notebook:run-all-cells")

    def source(self, cell: int) -> str:
        """Return the text of a cell."""
        return str(self.js("return joined(cells()[arg].source);", cell))

    def execution_counts(self) -> list[int | None]:
        """Return the number of each cell; None while it runs or waits, and when it has not run."""
        return list(self.js("return cells().map(c => c.execution_count);"))

    def outputs(self) -> list[str]:
        """Return the outputs of every cell as text; an error is ``<Name: message>``, a widget is ``<widget>``."""
        return list(self.js("return cells().map(text);"))

    def output(self, cell: int) -> str:
        """Return the outputs of one cell as text."""
        return self.outputs()[cell]

    def raw_outputs(self, cell: int) -> list[dict[str, Any]]:
        """Return the outputs of a cell as the notebook format has them."""
        return list(self.js("return cells()[arg].outputs;", cell))

    def wait_output(self, cell: int, expected: str, timeout: float = 30) -> str:
        """Wait until the output of a cell contains a text; return the output."""
        self.wait_js(
            "([i, s]) => text(cells()[i]).includes(s)", [cell, expected], timeout=timeout,
            what=f"{expected!r} in cell {cell}",
        )  # fmt: skip
        return self.output(cell)

    def save(self) -> dict[str, Any]:
        """Save the notebook and return the file's content."""
        self.js("await panel().context.save();")
        return dict(json.loads(self.file.read_text("utf-8")))

    # our panel

    def button(self, label: str, *, within: str = ".jp-OutputArea", nth: int = 0) -> Locator:
        """Return the button of exactly this label, in an output (or in the elements that a CSS selector names)."""
        return self.page.locator(within).get_by_role("button", name=re.compile(rf"^\s*{re.escape(label)}\s*$")).nth(nth)

    def wait_button(self, label: str, timeout: float = 30, **which: Any) -> Locator:
        """Wait until the button is visible and can be clicked; return it."""
        return self.wait_visible(self.button(label, **which), timeout=timeout, what=f"the button {label!r}")

    def click(self, label: str, timeout: float = 30, **which: Any) -> None:
        """Click a button once it can be clicked."""
        self.wait_button(label, timeout, **which)
        try:
            self.button(label, **which).click(timeout=timeout * 1000)
        except PlaywrightTimeout as problem:
            raise AssertionError(f"could not click {label!r}: {problem}\n{self.report()}") from None

    def field(self, selector: str = "textarea", *, nth: int = 0) -> Locator:
        """Return a form field in an output."""
        return self.page.locator(f".jp-OutputArea {selector}").nth(nth)

    def type(self, text: str, selector: str = "textarea", *, nth: int = 0, delay: float = 0.01) -> None:
        """Put a text in place of what a form field holds, key by key."""
        field = self.wait_visible(self.field(selector, nth=nth), what=selector)
        field.click()
        field.press("Control+a")
        field.press_sequentially(text, delay=delay * 1000)

    def answer_input(self, text: str, timeout: float = 30) -> None:
        """Answer a prompt of ``input()``."""
        field = self.wait_visible(self.page.locator("input.jp-Stdin-input").last, timeout=timeout, what="a prompt")
        answered = field.element_handle()
        field.fill(text)
        field.press("Enter")
        # The next prompt has a field of its own: an answer must not go into this one.
        self.page.wait_for_function(
            "e => !e.isConnected || e.disabled || e.readOnly", arg=answered, timeout=timeout * 1000
        )

    def wait_visible(self, locator: Locator, timeout: float = 30, what: str = "") -> Locator:
        """Wait until an element is visible; return it."""
        try:
            locator.wait_for(state="visible", timeout=timeout * 1000)
        except PlaywrightTimeout:
            raise AssertionError(f"waited {timeout} s in vain for {what or locator}\n{self.report()}") from None
        return locator

    def _wait_ready(self) -> None:
        try:
            self.page.wait_for_function(f"() => {{ {_PANEL} return ({_READY})(); }}", timeout=60_000, polling=50)
        except PlaywrightTimeout:
            raise AssertionError(f"{self.where} {self.path} did not come up\nconsole: {self.console[-30:]}") from None
