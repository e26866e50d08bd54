"""What every test may use."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from hypothesis import settings
from statements import COLLECTED

# How long an example takes says more about the machine than about the code.
settings.register_profile("shared machine", deadline=None)
settings.load_profile("shared machine")

_SLOW = ("browser", "law")


def pytest_configure() -> None:
    """Let an interrupt interrupt, as in a terminal: what is started in the background is often told to ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def jupyter_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with kernelspecs for all kernels (below ``share``), and room for what Jupyter writes."""
    from kernels import write_kernelspecs

    place = tmp_path_factory.mktemp("jupyter")
    write_kernelspecs(place / "share")
    return place


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give slow tests their 300 s, and run browser tests last.

    They come last because Playwright leaves an event loop running in the main thread while a browser is open, in which
    no other asynchronous test can start its own.
    """
    config.stash[COLLECTED] = list(items)
    for item in items:
        if any(item.get_closest_marker(name) for name in _SLOW) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(300))
    items.sort(key=lambda item: item.get_closest_marker("browser") is not None)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Make the environments of the kernels before the first test, whose time they would use up."""
    if not session.config.option.collectonly and any("jupyter_home" in _fixtures(item) for item in session.items):
        from kernels import KERNELS, python_of

        for kernel in KERNELS:
            python_of(kernel)


def _fixtures(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])
