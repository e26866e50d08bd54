"""What ``import agentperm_nb`` costs over starting Python.

Each round starts two fresh processes, one that does nothing and one that imports the package; the figure is the median
of the differences. The files are read once before, so that no round pays for a cold disk or for missing bytecode.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.report import Figure, main

_ROOT = Path(__file__).parent.parent
# Bytecode is kept, as it is wherever a package is installed: without it each round would compile the package.
_ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _seconds(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, cwd=_ROOT, stdin=subprocess.DEVNULL, env=_ENVIRONMENT)
    return time.perf_counter() - start


def measure(quick: bool) -> Iterator[Figure]:
    for code in ("pass", "import agentperm_nb"):
        _seconds(code)
    pairs = [(_seconds("pass"), _seconds("import agentperm_nb")) for _ in range(15 if quick else 50)]
    yield Figure(
        name="import agentperm_nb, over starting Python",
        ours=1000 * statistics.median(ours - bare for bare, ours in pairs),
        goal=80,
        unit="ms",
        reference=1000 * statistics.median(bare for bare, _ in pairs),
        against="starting Python",
    )


if __name__ == "__main__":
    sys.exit(main(measure, "What importing agentperm_nb costs over starting Python."))
