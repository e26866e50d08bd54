"""Who and what a call belongs to: the run, the session, the user and the path of agents.

A run is what an agent does for one task: bare ``ause_tools`` calls of an agent share one until ``agent.new_run()``.
A session is one per kernel process unless given. The user is the one given, else ``JUPYTERHUB_USER``, else the login
name.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from typing import Any

__all__ = ["RunContext", "get_run_context", "new_id", "running_in", "session_id", "who"]


@dataclass(frozen=True, slots=True)
class RunContext:
    """What a permission, a handler or a tool may ask about the run that it works for."""

    run_id: str
    """Id of the run."""
    session_id: str
    """Id of the session: by default one for each kernel process."""
    user_id: str | None
    """On whose behalf the agent works."""
    agent_path: tuple[str, ...] = ()
    """Names of the agents from the outermost to the one whose call is decided."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What the caller gave as ``metadata=``."""
    folder: str = field(default_factory=os.getcwd)
    """The agent's base folder: paths in arguments are relative to it."""
    links: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)
    """What rules on paths have found out about links in this turn; emptied before a call starts."""
    users_above: tuple[str | None, ...] = ()
    """On whose behalf the runs above work, from the outermost."""

    @property
    def users(self) -> tuple[str | None, ...]:
        """On whose behalf the runs above and this one work."""
        return (*self.users_above, self.user_id)


_current: ContextVar[RunContext | None] = ContextVar("agentperm_nb_run", default=None)


def get_run_context() -> RunContext | None:
    """Return the run that the calling code works for, or None outside of a run."""
    return _current.get()


@contextlib.contextmanager
def running_in(context: RunContext) -> Iterator[None]:
    """Make `context` the current run inside the ``with`` block."""
    token = _current.set(context)
    try:
        yield
    finally:
        _current.reset(token)


def new_id(prefix: str) -> str:
    """Return a short random id such as ``run_3fa9c1d20b7e``."""
    return f"{prefix}_{os.urandom(6).hex()}"


_sessions: dict[int, str] = {}


def session_id() -> str:
    """Return the id of this process's session; a forked child gets one of its own."""
    return _sessions.setdefault(os.getpid(), new_id("session"))


@cache
def who() -> tuple[str, str]:
    """Return (name, where it came from) of the person at this kernel, from JupyterHub or the login."""
    import getpass

    hub = os.environ.get("JUPYTERHUB_USER")
    if hub:
        return hub, "JUPYTERHUB_USER"
    try:
        return getpass.getuser(), "login"
    except (OSError, KeyError, ImportError):
        return f"uid {os.getuid()}" if hasattr(os, "getuid") else "unknown", "uid"
