"""Agents with policy files, for tests: files in a folder, and what becomes of calls."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from turns import run

from agentperm_nb import Agent, PolicyFiles, Tool, ToolCall
from agentperm_nb.testing import tool_call

__all__ = ["LAYERS", "Ran", "call", "layered", "policy_events", "text_of", "verdicts", "write"]

LAYERS = ("administrator", "user", "project")


def text_of(*rules: str, more: str = "") -> str:
    """Return the text of a policy file with these rules."""
    listed = "\n".join(f"  '{rule}'," for rule in rules)
    return f"version = 1\n{more}\nrules = [\n{listed}\n]\n"


def write(folder: Path, *rules: str, layer: str = "project", more: str = "") -> Path:
    """Write the policy file of a layer."""
    path = folder / f"{layer}.toml"
    path.write_text(text_of(*rules, more=more))
    return path


def layered(folder: Path) -> PolicyFiles:
    """Return the files of all layers in a folder; that of the project is made if it is not there."""
    if not (folder / "project.toml").exists():
        write(folder)
    return PolicyFiles(folder / "project.toml", administrator=folder / "administrator.toml", user=folder / "user.toml")


class Ran:
    """Tools that note what ran, and on whose behalf; what they do on the way can be said."""

    def __init__(self, *names: str, on_run: Callable[[str, str], Any] = lambda name, path: None) -> None:
        self.ran: list[tuple[str, str]] = []
        self._on_run = on_run
        self.tools = [self._tool(name) for name in names or ("read_file", "write_file", "send_mail")]

    def _tool(self, name: str) -> Tool:
        def function(path: str = "", body: str = "") -> str:
            self.ran.append((name, path))
            self._on_run(name, path)
            return f"{name} ran"

        schema = {"type": "object", "properties": {"path": {"type": "string"}, "body": {"type": "string"}}}
        return Tool(name, f"Do {name}.", schema, function=function, read_only=name.startswith("read_") or None)


def call(name: str, path: str = "notes.txt", **more: Any) -> ToolCall:
    return tool_call(name, path=path, **more)


def verdicts(driver: str, agent: Agent, *calls: ToolCall, **options: Any) -> list[tuple[str, str | None]]:
    """Do a turn, and return (verdict, decided by) for each call."""
    return [(result.verdict, result.decided_by) for result in run(driver, agent, list(calls), **options).results]


def policy_events(agent: Agent) -> list[dict[str, Any]]:
    """Return what the events of the policy say, without the first."""
    return [{**event.data, "policy_id": event.policy_id} for event in agent.audit.events() if event.kind == "policy"][
        1:
    ]
