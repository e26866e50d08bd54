"""A blocking turn inside an event loop: what is awaited for it runs on a loop of its own, whatever the outer one is."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from agentperm_nb import Agent, AllowByDefault, DecideByHuman, PermissionDecision, PermissionPolicy, PermissionResult
from agentperm_nb.testing import tool_call

ACT = tool_call("act", n=1)


async def act(n: int) -> str:
    """Act, awaited."""
    await anyio.lowlevel.checkpoint()
    return f"acted {n}"


def inner(n: int) -> str:
    """Run a loop of one's own."""

    async def main() -> str:
        await anyio.lowlevel.checkpoint()
        return f"inside {n}"

    return anyio.run(main)


def blocked(backend: str, agent: Agent, *calls: Any) -> list[str]:
    """A blocking turn on the thread of a running loop."""

    async def main() -> list[str]:
        return [result.content for result in agent.use_tools(list(calls)).results]

    return anyio.run(main, backend=backend)


both_loops = pytest.mark.parametrize("backend", ["asyncio", "trio"])


@both_loops
def test_an_async_handler_answers(backend: str) -> None:
    async def handler(request: Any) -> bool:
        await anyio.lowlevel.checkpoint()
        return True

    agent = Agent([act], permissions=[DecideByHuman()], approval_handler=handler)
    assert blocked(backend, agent, ACT) == ["acted 1"]


@both_loops
def test_an_async_handler_of_a_policy_answers(backend: str) -> None:
    class Careful:
        async def handle(self, request: Any) -> PermissionResult:
            await anyio.lowlevel.checkpoint()
            return PermissionResult.ALLOW

    agent = Agent([act], permissions=PermissionPolicy(fallback="ask", handler=Careful()))
    assert blocked(backend, agent, ACT) == ["acted 1"]


@both_loops
def test_async_tools_and_sync_tools_with_a_loop_of_their_own_run(backend: str) -> None:
    agent = Agent([act, inner], permissions=[AllowByDefault()])
    assert blocked(backend, agent, ACT, tool_call("inner", n=2)) == ["acted 1", "inside 2"]


@both_loops
def test_a_call_is_explained_though_a_mode_object_has_to_be_awaited(backend: str) -> None:
    class Office:
        async def check(self, call: Any, *, context: Any, user_id: str | None = None) -> PermissionDecision:
            await anyio.lowlevel.checkpoint()
            return PermissionDecision.deny_("the office is closed")

    agent = Agent([act], permissions=Office())

    async def main() -> str:
        return agent.explain("act", n=1).reason

    assert anyio.run(main, backend=backend) == "the office is closed"
