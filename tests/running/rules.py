"""Permissions that say what a test wants, states with pending calls, ways to run them, and a reporter that listens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
from turns import run

from agentperm_nb import (
    Agent,
    DecidePermission,
    Denied,
    DenyPermission,
    Message,
    Reporter,
    State,
    Tool,
    ToolCall,
    Verdict,
)


class Says(DecidePermission):
    """Says what a function of state, call and tool returns."""

    def __init__(self, say: Callable[[State, ToolCall, Tool], Verdict | None], name: str | None = None) -> None:
        self.say, self.name = say, name

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        return self.say(state, call, tool)


def deny(name: str, asked: list[str], verdict: Denied | None = None) -> DenyPermission:
    """A deny permission that notes that it was asked."""

    class Deny(DenyPermission):
        def check(self, state: Any, call: ToolCall, tool: Tool) -> Denied | None:
            asked.append(name)
            return verdict

    made = Deny()
    made.name = name
    return made


def decide(name: str, asked: list[str], verdict: Verdict | None = None) -> DecidePermission:
    """A permission of the other kinds that notes that it was asked."""

    def say(state: State, call: ToolCall, tool: Tool) -> Verdict | None:
        asked.append(name)
        return verdict

    return Says(say, name)


def pending(*names: str) -> State:
    """A state in which calls of these tools are pending, as a model leaves them."""
    return State(
        [Message.user("Hi")],
        pending_calls=[ToolCall(name, {"n": place}, f"id{place}") for place, name in enumerate(names)],
    )


def kinds(state: State) -> list[str]:
    return [result.outcome.kind.value for result in state.results]


class Telling(Reporter):
    """Keeps what it is told of calls."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []

    def on_tool_start(self, state: State, call: ToolCall) -> None:
        self.told.append(("start", call.name))

    def on_tool_end(self, state: State, call: ToolCall, result: str, outcome: Any) -> None:
        self.told.append(("end", call.name, outcome.kind.value, result))


def arun(driver: str, agent: Agent, state: State) -> Any:
    """Do a run on a state."""
    if driver == "sync":
        return agent.run(state)
    return anyio.run(agent.arun, state, backend=driver)


def do(driver: str, agent: Agent, state: State, *, whole_run: bool) -> None:
    """Do a run on a state, or one turn of it."""
    if whole_run:
        arun(driver, agent, state)
    else:
        agent.think(state)
        run(driver, agent, state)


def errors(state: State) -> list[Any]:
    return [entry for entry in state.history if entry.kind == "error"]
