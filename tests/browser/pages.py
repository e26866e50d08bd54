"""Loaded pages that serve one notebook after another.

To load JupyterLab or Notebook takes longer than most tests. A page is used again by the next test of the same front end
as long as nothing is left in it when its notebook has been closed; otherwise the next test loads a new one.
"""

from __future__ import annotations

from playwright.sync_api import Browser, Error, Page

VIEWPORT = {"width": 1300, "height": 1000}
_MOST_NOTEBOOKS = 25  # that one page serves: what a page gathers with time must not slow the tests down
_CLOSE = """() => {
    for (const widget of Array.from(window.jupyterapp.shell.widgets('main'))) {
        if (widget.context) widget.context.model.dirty = false;  // else it asks whether to save
        widget.close();
    }
    return true;
}"""
_EMPTY = """() => !document.querySelector('.jp-Notebook, .jp-Dialog, [class*=apnb]')
    && !Array.from(window.jupyterapp.shell.widgets('main')).some(widget => widget.context)"""


class Pages:
    """The pages of one browser context; use `take` and `give_back`.

    Args:
        browser: The Chromium.
    """

    def __init__(self, browser: Browser) -> None:
        self._context = browser.new_context(viewport=VIEWPORT)  # one for all: they share the cache of its scripts
        self._free: dict[str, Page] = {}
        self._served: dict[Page, int] = {}

    def take(self, front: str, *, fresh: bool = False) -> Page:
        """Return a page in which the front end is loaded and no notebook is open, or a blank one.

        Args:
            front: ``lab`` or ``notebook``.
            fresh: Return a blank one, such as for a test that reloads it: its address is then that of its notebook.
        """
        page = None if fresh else self._free.pop(front, None)
        if page is not None:
            try:
                page.bring_to_front()
                page.mouse.move(0, 0)
                page.wait_for_function(_EMPTY, timeout=10_000)
            except Error:  # it has crashed meanwhile, or is not empty any more
                self.drop(page)
                page = None
        if page is None:
            page = self._context.new_page()
            page.on("dialog", lambda dialog: dialog.accept())  # "leave without saving?" at a reload
        self._served[page] = self._served.get(page, 0) + 1
        return page

    def give_back(self, page: Page, front: str) -> None:
        """Close the notebook of a page, and keep the page for another one when that leaves nothing behind."""
        try:
            page.wait_for_function(_CLOSE, timeout=10_000)  # evaluate() would wait forever for a page that hangs
            page.wait_for_function(_EMPTY, timeout=10_000, polling=50)
        except Error:
            self.drop(page)
            return
        if self._served[page] >= _MOST_NOTEBOOKS or front in self._free:
            self.drop(page)
        else:
            self._free[front] = page

    def drop(self, page: Page) -> None:
        """Close a page."""
        self._served.pop(page, None)
        page.close()

    def close(self) -> None:
        """Close all pages."""
        self._context.close()
