"""Ways to do a turn, tools that count and approvers that follow a script, for tests of the engine."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import anyio
import pandas  # noqa: F401 - its first import takes seconds, which no single test should pay
import pytest

from agentperm_nb import Agent, ApprovalRequest, Tool, Turn

DRIVERS = ("sync", "asyncio", "trio")


def run(driver: str, agent: Agent, reply: Any, **options: Any) -> Turn:
    """Do a turn with ``use_tools``, or with ``ause_tools`` on an event loop of its own."""
    if driver == "sync":
        return agent.use_tools(reply, **options)

    async def main() -> Turn:
        return await agent.ause_tools(reply, **options)

    return anyio.run(main, backend=driver)


def run_noting(driver: str, agent: Agent, reply: Any) -> tuple[Turn | BaseException, list[str]]:
    """Do a turn; return it, or what it raised, and the warnings."""
    outcome: Turn | BaseException
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            outcome = run(driver, agent, reply)
        except pytest.fail.Exception:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever ends a turn is looked at
            outcome = error
    return outcome, [str(warning.message) for warning in caught]


class Counter:
    """A tool that counts how often it ran, and with what."""

    def __init__(self, name: str = "act", **options: Any) -> None:
        self.ran: list[dict[str, Any]] = []
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        self.tool = Tool(name, "Act.", schema, function=self._run, **options)

    def _run(self, **args: Any) -> str:
        self.ran.append(args)
        return f"ran {args}"


class Scripted:
    """An approver whose ``areview`` is the function given."""

    answered_by = "human"

    def __init__(self, review: Callable[[Sequence[ApprovalRequest]], Any], *, batch: bool = True) -> None:
        self._review, self.batch = review, batch

    def __repr__(self) -> str:
        return "Scripted()"

    def areview(self, requests: Sequence[ApprovalRequest]) -> AsyncIterator[Any]:
        return self._review(requests)  # type: ignore[no-any-return]  # it may be junk: that is the point
