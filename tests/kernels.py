"""Kernels that tests run against: ipykernel 7 of the test environment, and ipykernel 6.31 of one of its own.

The second environment is made under ``.venvs/`` at first use, and again only when what it needs has changed.
``python tests/kernels.py`` makes it beforehand.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
KERNEL_7 = "ipykernel-7"
KERNEL_6 = "ipykernel-6.31"
KERNELS = (KERNEL_7, KERNEL_6)
_REQUIREMENT = "ipykernel==6.31.0"


def python_of(kernel: str) -> Path:
    """Return the Python executable of a kernel, making its environment when there is none yet."""
    if kernel == KERNEL_7:
        return Path(sys.executable)
    if kernel != KERNEL_6:
        raise ValueError(f"no kernel {kernel!r}: choose from {KERNELS}")
    place = REPOSITORY / ".venvs" / KERNEL_6
    place.parent.mkdir(exist_ok=True)
    dependencies = tomllib.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"]["dependencies"]
    wanted = hashlib.sha256(repr((dependencies, _REQUIREMENT, sys.version)).encode()).hexdigest()
    stamp, python = place / "made-for", place / "bin" / "python"
    with open(place.with_suffix(".lock"), "w") as lock:  # two test runs at the same time make it once
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not python.exists() or not stamp.exists() or stamp.read_text() != wanted:
            _run(sys.executable, "-m", "venv", "--clear", str(place))
            _run(str(python), "-m", "pip", "install", "--quiet", *dependencies, _REQUIREMENT)
            # the package itself by a path file: the kernel always runs what is in the checkout
            packages = next((place / "lib").glob("python*")) / "site-packages"
            (packages / "agentperm_nb_checkout.pth").write_text(f"{REPOSITORY}\n")
            stamp.write_text(wanted)
    return python


def write_kernelspecs(place: Path) -> None:
    """Write a kernelspec for each of `KERNELS` under ``place/kernels``: `place` is an entry of ``JUPYTER_PATH``."""
    for kernel in KERNELS:
        spec = {
            "argv": [str(python_of(kernel)), "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f",
                     "{connection_file}"],
            "display_name": kernel,
            "language": "python",
            "interrupt_mode": "signal",
        }  # fmt: skip
        folder = place / "kernels" / kernel
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kernel.json").write_text(json.dumps(spec))


def clean_environment(place: Path) -> dict[str, str]:
    """Return an environment in which nothing of the user's own Jupyter is read or written; all goes below `place`."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("JUPYTER", "JPY_", "PYTEST"))}
    return environment | {
        "JUPYTER_PATH": str(place / "share"),
        "JUPYTER_CONFIG_DIR": str(place / "config"),
        "JUPYTER_DATA_DIR": str(place / "data"),
        "JUPYTER_RUNTIME_DIR": str(place / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(place / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(place / "workspaces"),
        "IPYTHONDIR": str(place / "ipython"),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
    }


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")


if __name__ == "__main__":
    for name in KERNELS:
        print(name, python_of(name))
