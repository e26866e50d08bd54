"""Take the pictures of the docs: the real panel, under a running cell of the quickstart, in light and dark.

Run ``python docs/screenshots.py`` in the environment of the tests; it needs a Chromium.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path

DOCS = Path(__file__).parent
REPOSITORY = DOCS.parent
sys.path[:0] = [str(REPOSITORY / "tests"), str(REPOSITORY / "tests" / "browser")]

from driver import NotebookPage, chromium  # noqa: E402
from kernels import KERNEL_7, write_kernelspecs  # noqa: E402
from servers import LAB_7, serve  # noqa: E402

_CELL_THAT_WAITS = "customer[4:9]"
_WIDTH, _MARGIN = 1000, 12


def quickstart(folder: Path) -> list[str]:
    """Copy the quickstart into `folder` for the kernel of the tests; return the sources of its cells."""
    notebooks = REPOSITORY / "notebooks"
    shutil.copytree(notebooks, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    notebook = json.loads((notebooks / "01_quickstart.ipynb").read_text("utf-8"))
    notebook["metadata"]["kernelspec"] = {"name": KERNEL_7, "display_name": "Python 3", "language": "python"}
    (folder / "quickstart.ipynb").write_text(json.dumps(notebook))
    return ["".join(cell["source"]) if cell["cell_type"] == "code" else "" for cell in notebook["cells"]]


def picture(page: NotebookPage, sources: list[str], path: Path) -> None:
    """Run the quickstart up to the cell that waits, and take a picture of that cell with its panel."""
    page.page.set_viewport_size({"width": _WIDTH, "height": 1400})
    page.command("application:toggle-left-area")
    waits = next(index for index, source in enumerate(sources) if _CELL_THAT_WAITS in source)
    for index, source in enumerate(sources[:waits]):
        if source:
            page.run(index)
            page.wait_idle()
    page.run(waits)
    page.wait_button("Approve")
    cell = page.page.locator(".jp-Notebook-cell", has=page.page.locator(".apnb"))
    cell.scroll_into_view_if_needed()
    page.page.mouse.move(0, 0)
    page.page.wait_for_timeout(1200)  # past the guard, and the waiting time reads "1 s"
    box = cell.bounding_box()
    assert box is not None
    page.page.screenshot(
        path=str(path),
        clip={
            "x": max(box["x"] - _MARGIN, 0),
            "y": max(box["y"] - _MARGIN, 0),
            "width": box["width"] + 2 * _MARGIN,
            "height": box["height"] + 2 * _MARGIN,
        },
    )


def main() -> None:
    """Take ``images/panel-light.png`` and ``images/panel-dark.png``."""
    (DOCS / "images").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as folder:
        write_kernelspecs(Path(home) / "share")
        sources = quickstart(Path(folder))
        with serve(Path(home), Path(folder)) as server, chromium() as browser:
            for theme in ("light", "dark"):
                page = NotebookPage(browser, server, "quickstart.ipynb", LAB_7, theme=theme).open()
                picture(page, sources, DOCS / "images" / f"panel-{theme}.png")
                page.close()
                server.shut_down_kernels()


if __name__ == "__main__":
    main()
