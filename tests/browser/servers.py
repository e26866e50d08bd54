"""Jupyter servers on loopback ports, and what runs where."""

from __future__ import annotations

import contextlib
import json
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from kernels import KERNEL_6, KERNEL_7, clean_environment


class Where(NamedTuple):
    """A front end, ``lab`` or ``notebook``, and a kernel."""

    front: str
    kernel: str

    def __str__(self) -> str:
        return f"{self.front}-{self.kernel}"


LAB_7 = Where("lab", KERNEL_7)
LAB_6 = Where("lab", KERNEL_6)
NOTEBOOK_7 = Where("notebook", KERNEL_7)
_ATTEMPTS = 3  # the free port that was found may be somebody else's when the server takes it
EVERYWHERE = (LAB_7, LAB_6, NOTEBOOK_7)


@dataclass(frozen=True)
class Server:
    """A running server that has JupyterLab under ``/lab`` and Notebook 7 under ``/notebooks``."""

    url: str
    token: str = field(repr=False)
    folder: Path
    """Where its notebooks are."""
    log: Path
    pid: int

    def get(self, path: str, method: str = "GET") -> Any:
        """Return the JSON answer of the REST API at ``/api/<path>``; None when the body is empty."""
        request = urllib.request.Request(
            f"{self.url}/api/{path}", headers={"Authorization": f"token {self.token}"}, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            body = answer.read()
        return json.loads(body) if body else None

    def shut_down_kernels(self) -> None:
        """End every session and every kernel of this server."""
        for kind in ("sessions", "kernels"):
            for item in self.get(kind):
                with contextlib.suppress(OSError):  # it may be gone with its session; the rest ends with the server
                    self.get(f"{kind}/{item['id']}", "DELETE")


@contextlib.contextmanager
def serve(home: Path, folder: Path) -> Iterator[Server]:
    """Run a server until the ``with`` block ends; then it and every process below it are gone.

    Args:
        home: What Jupyter reads and writes (see `kernels.clean_environment`), with kernelspecs below ``share``.
        folder: Root of the notebooks.
    """
    _write_settings(home)
    folder.mkdir(parents=True, exist_ok=True)
    for attempt in range(_ATTEMPTS):
        server, process = _start(home, folder)
        try:
            _wait_until_it_answers(server, process)
            break
        except BaseException as problem:
            _end(process)
            if attempt == _ATTEMPTS - 1 or not isinstance(problem, RuntimeError):
                raise
    try:
        yield server
    finally:
        _end(process)


def _start(home: Path, folder: Path) -> tuple[Server, subprocess.Popen[bytes]]:
    token, port, log = secrets.token_hex(16), _free_port(), home / "server.log"
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={folder}", "--expose-app-in-browser",
        "--JupyterNotebookApp.expose_app_in_browser=True", "--ServerApp.terminals_enabled=False",
        "--LanguageServerManager.autodetect=False",
    ]  # fmt: skip
    with open(log, "w") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, env=clean_environment(home), start_new_session=True
        )
    return Server(f"http://127.0.0.1:{port}", token, folder, log, process.pid), process


def _wait_until_it_answers(server: Server, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            server.get("status")
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)  # a server that does not listen yet offers nothing to wait for
        else:
            return
    raise RuntimeError(f"the Jupyter server did not come up; its log:\n{server.log.read_text()[-4000:]}")


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        below = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        below = []
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(20)
    for kernel in below:
        with contextlib.suppress(psutil.NoSuchProcess):
            kernel.kill()  # psutil checks that the id still belongs to the same process
    psutil.wait_procs(below, timeout=10)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _write_settings(home: Path) -> None:
    """Keep the front ends from asking for news and updates, and from asking before a restart or a close."""
    settings = {
        "@jupyterlab/apputils-extension/notification": {
            "fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True,
        },
        "@jupyterlab/docmanager-extension/plugin": {"autosave": False},
    }  # fmt: skip
    for name, values in settings.items():
        package, plugin = name.rsplit("/", 1)
        file = home / "settings" / package / f"{plugin}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
