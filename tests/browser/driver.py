"""Drive a notebook page in JupyterLab 4 or Notebook 7.

Commands go through the application object (the server runs with ``--expose-app-in-browser``), and outputs are read from
the notebook's model, so neither depends on what is scrolled into view. Clicks and keys are real ones.

Every ``wait_…`` and every method with `timeout` raises `AssertionError` that shows all outputs when the time is over.
Times are in seconds. Cells are counted from 0. Times only bound how long a failure takes: they have room for a machine
that does much else.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pages import VIEWPORT
from playwright.sync_api import Browser, ConsoleMessage, Error, Locator, Page, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout
from servers import Server, Where

PATIENCE = """
from agentperm_nb import NotebookHuman
NotebookHuman.__init__.__kwdefaults__["prompt_after"] = 120.0
"""
"""What a notebook runs first, so that no text prompt comes where a busy machine takes long to show the panel."""

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
    && p.sessionContext.session && connection().connectionStatus === 'connected'
    && ['idle', 'busy'].includes(connection().status); }"""
_STATE = """() => { const said = e => e && e.outerHTML.slice(0, 300); const lines = [];
    if (panel()) {
        const state = i => panel().content.widgets[i].model.executionState;
        cells().forEach((c, i) => lines.push(
            `cell ${i} [${c.execution_count}] ${state(i)}: ${JSON.stringify(text(c))}`));
        lines.push(`kernel: ${panel().sessionContext.kernelDisplayStatus}`);
        lines.push(`active: cell ${panel().content.activeCellIndex}, ${panel().content.mode} mode`);
    }
    lines.push(`focus: ${said(document.activeElement)}`);
    for (const e of document.querySelectorAll('.apnb, .apnb-pointers, .apnb-record, .jp-Dialog'))
        lines.push(`${e.className}: ` + JSON.stringify(e.innerText));
    for (const e of document.querySelectorAll('.apnb [data-guarded]')) lines.push(`takes no clicks yet: ${said(e)}`);
    return lines.join('\\n'); }"""
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
        page: A blank page, or one in which the front end is loaded; None makes one.
    """

    def __init__(
        self,
        browser: Browser,
        server: Server,
        path: str,
        where: Where,
        *,
        theme: str = "light",
        page: Page | None = None,
    ) -> None:
        self.server, self.path, self.where = server, path, where
        self.console: list[str] = []
        """What the page wrote to the console, and the errors that nothing caught."""
        self.page: Page = page or browser.new_page(viewport=VIEWPORT)
        """Playwright's page, for whatever has no method here."""
        self.page.on("console", self._written)
        self.page.on("pageerror", self._uncaught)
        self.reloaded = False
        """Whether the page has been reloaded."""
        self._theme = theme

    def open(self) -> NotebookPage:
        """Open the notebook and wait for its kernel."""
        if self.page.url == "about:blank":
            root = f"lab/workspaces/test-{next(_workspaces)}/tree" if self.where.front == "lab" else "notebooks"
            address = f"{self.server.url}/{root}/{quote(self.path)}?token={self.server.token}"
            self.page.goto(address, wait_until="domcontentloaded", timeout=60_000)
            self._wait_ready()
        else:  # "_noref" keeps Notebook from opening it in a page of its own
            self.command("docmanager:open", {"path": self.path, "factory": "Notebook", "options": {"ref": "_noref"}})
            self._wait_ready()
            self.js(
                "for (const w of Array.from(window.jupyterapp.shell.widgets('main'))) if (w !== panel()) w.close();"
                "window.jupyterapp.shell.activateById(panel().id);"
            )
        self.set_theme(self._theme)
        return self

    @property
    def file(self) -> Path:
        """The notebook's file."""
        return self.server.folder / self.path

    def let_go(self) -> None:
        """Hear no more of the page, so that another notebook can use it."""
        self.page.remove_listener("console", self._written)
        self.page.remove_listener("pageerror", self._uncaught)

    def close(self) -> None:
        """Close the page. Its kernel runs on: the fixture ends it."""
        self.page.close()

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
        """Reload the page, which must be a fresh one: its address tells which notebook it shows. The kernel runs on."""
        self.reloaded = True
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
        self.page.screenshot(path=str(path), timeout=30_000)

    def report(self) -> str:
        """Return everything that helps to understand a failure, as text."""
        try:  # evaluate() has no timeout, and a page that hangs would hang what asks it
            state = self.page.wait_for_function(f"() => {{ {_PANEL} return ({_STATE})(); }}", timeout=10_000)
            said = str(state.json_value())
        except Error as problem:
            said = f"the page tells nothing: {problem}"
        return "\n".join([f"{self.where} {self.path}", said, "console:", *self.console[-30:]])

    # the kernel

    def wait_idle(self, timeout: float = 60) -> None:
        """Wait until every cell that was started has ended and the kernel takes the next one."""
        self._wait_shows_idle(timeout)
        # After an error a kernel drops what it is sent, for a moment in which it is idle already. What it answers after
        # that error comes through the same queue, so the moment is over when this is answered.
        self.js("await connection().requestKernelInfo();")
        self._wait_shows_idle(timeout)

    def _wait_shows_idle(self, timeout: float) -> None:
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
        """Restart the kernel and wait until it is there, and idle."""
        self.js("await connection().restart();")
        self._wait_ready()
        self.wait_js("() => connection().status === 'idle'", timeout=60, what="a restarted kernel")

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

    def wait_done(self, cell: int, timeout: float = 60) -> str:
        """Wait until a cell that was started has run to its end; return its output, to which nothing is added then."""
        self.wait_js(
            "i => panel().content.widgets[i].model.executionState === 'idle' && cells()[i].execution_count !== null",
            cell, timeout=timeout, what=f"the end of cell {cell}",
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
        """Click a button once it can be clicked, and its panel takes clicks."""
        self.wait_button(label, timeout, **which)
        self.wait_guard(timeout)
        try:
            self.button(label, **which).click(timeout=timeout * 1000)
        except PlaywrightTimeout as problem:
            raise AssertionError(f"could not click {label!r}: {problem}\n{self.report()}") from None

    def wait_guard(self, timeout: float = 30) -> None:
        """Wait until no panel refuses clicks any more because a card has only just appeared or changed."""
        self.wait_js("() => !document.querySelector('.apnb [data-guarded]')", timeout=timeout, what="the panel's guard")

    def field(self, selector: str = "textarea", *, nth: int = 0) -> Locator:
        """Return a form field in an output."""
        return self.page.locator(f".jp-OutputArea {selector}").nth(nth)

    def type(self, text: str, selector: str = "textarea", *, nth: int = 0, delay: float = 0.01) -> None:
        """Put a text in place of what a form field holds, key by key."""
        field = self.wait_visible(self.field(selector, nth=nth), what=selector)
        field.click()
        field.press("Control+a")
        field.press_sequentially(text, delay=delay * 1000)

    def answer_input(self, text: str, timeout: float = 30, *, cell: int | None = None) -> None:
        """Answer a prompt of ``input()``, in a cell or wherever there is one."""
        place = self.page if cell is None else self.page.locator(".jp-Notebook .jp-Cell").nth(cell)
        field = self.wait_visible(place.locator("input.jp-Stdin-input").last, timeout=timeout, what="a prompt")
        answered = field.element_handle()
        field.fill(text)
        # The next prompt has a field of its own: an answer must not go into this one. And the notebook takes the focus
        # some time after a cell was started, so that a key may miss the field.
        deadline = time.monotonic() + timeout
        while True:
            with contextlib.suppress(Error):  # it is gone
                answered.press("Enter", timeout=2000)
            try:
                self.page.wait_for_function(
                    "e => !e.isConnected || e.disabled || e.readOnly", arg=answered, timeout=3000
                )
                return
            except PlaywrightTimeout:
                if time.monotonic() > deadline:
                    raise AssertionError(f"the prompt did not take {text!r}\n{self.report()}") from None

    def wait_visible(self, locator: Locator, timeout: float = 30, what: str = "") -> Locator:
        """Wait until an element is visible; return it."""
        try:
            locator.wait_for(state="visible", timeout=timeout * 1000)
        except PlaywrightTimeout:
            raise AssertionError(f"waited {timeout} s in vain for {what or locator}\n{self.report()}") from None
        return locator

    def wait_no(self, selector: str, timeout: float = 30) -> None:
        """Wait until no element in the page matches. What may come back meanwhile is to be waited for otherwise."""
        self.wait_js("s => !document.querySelector(s)", selector, timeout=timeout, what=f"the end of {selector}")

    def _wait_ready(self) -> None:
        try:
            self.page.wait_for_function(f"() => {{ {_PANEL} return ({_READY})(); }}", timeout=60_000, polling=50)
        except PlaywrightTimeout:
            raise AssertionError(f"the notebook did not come up\n{self.report()}") from None

    def _written(self, message: ConsoleMessage) -> None:
        self.console.append(f"{message.type}: {message.text}"[:500])

    def _uncaught(self, error: Error) -> None:
        self.console.append(f"uncaught: {error}"[:500])
