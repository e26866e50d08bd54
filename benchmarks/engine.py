"""What deciding about a call and running a turn cost, beside alpineagents and toolregistry (``pip install .[bench]``).

1. Times are medians over rounds, ours and a peer's in turns in one process.
2. A peer that is not installed leaves its column empty; ours is measured all the same.
3. Tools do nothing, so what is measured is the engine. Everything is on: validation, digests and the log in memory.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from agentperm_nb import Agent, AllowByName, DenyByName, ToolCall, tool
from agentperm_nb.permissions.deciding import PermissionList, decide
from benchmarks.report import Figure, main

ALPINE = importlib.util.find_spec("alpineagents") is not None
TOOLREGISTRY = importlib.util.find_spec("toolregistry") is not None
MICRO, MILLI = 1e6, 1e3
CALLS = 100

Clock = Callable[[], float]
"""Does the work once and returns the seconds it took."""


def _median(clock: Clock | None, rounds: int) -> float | None:
    if clock is None:
        return None
    clock()
    gc.collect()
    return statistics.median(clock() for _ in range(rounds))


def _figure(
    name: str, ours: Clock, peer: Clock | None, *, rounds: int, goal: float, unit: str, factor: float, against: str
) -> Figure:
    mine, theirs = _median(ours, rounds), _median(peer, min(rounds, 5))
    assert mine is not None
    return Figure(
        name=name,
        ours=mine * factor,
        goal=goal,
        unit=unit,
        reference=None if theirs is None else theirs * factor,
        against=against,
    )


# --- one decision -----------------------------------------------------------------------------------------------------


def _repeated(function: Callable[[], Any], times: int) -> Clock:
    """Return a clock of one call of `function`, from many."""

    def clock() -> float:
        start = time.perf_counter()
        for _ in range(times):
            function()
        return (time.perf_counter() - start) / times

    return clock


def _names(rules: int) -> list[str]:
    return [f"other_{number}" for number in range(rules - 1)] + ["noop"]


def _our_decision(rules: int) -> Callable[[], Any]:
    permissions = PermissionList([AllowByName([name]) for name in _names(rules)])
    call, noop = ToolCall("noop", {"path": "notes.txt"}), tool(name="noop")(_noop)
    return lambda: decide(permissions, None, call, noop)


def _toolregistry_decision(rules: int) -> Callable[[], Any]:
    from toolregistry import Tool
    from toolregistry.permissions import PermissionPolicy, PermissionResult, PermissionRule

    def rule(name: str) -> PermissionRule:
        return PermissionRule(name, lambda tool, parameters: tool.name == name, PermissionResult.ALLOW)

    policy = PermissionPolicy(rules=[rule(name) for name in _names(rules)])
    noop, arguments = Tool.from_function(_noop, name="noop"), {"path": "notes.txt"}
    return lambda: policy.evaluate(noop, arguments)


# --- a turn -----------------------------------------------------------------------------------------------------------


def _noop(path: str) -> str:
    """Do nothing."""
    return "done"


async def _anoop(path: str) -> str:
    """Do nothing."""
    return "done"


def _awaited(make: Callable[[], Callable[[], Awaitable[Any]]]) -> Clock:
    """Return a clock of one turn; what `make` prepares is not counted."""

    def clock() -> float:
        async def timed() -> float:
            run = make()
            start = time.perf_counter()
            await run()
            return time.perf_counter() - start

        return asyncio.run(timed())

    return clock


def _our_turn(rules: int, calls: int = CALLS) -> Clock:
    def make() -> Callable[[], Awaitable[Any]]:
        agent = Agent(
            tools=[tool(name="noop")(_anoop)], permissions=[AllowByName([name]) for name in _names(rules)], human=None
        )
        listed = [ToolCall("noop", {"path": f"{number}.txt"}, id=f"c{number}") for number in range(calls)]

        async def run() -> None:
            turn = await agent.ause_tools(listed)
            assert len(turn.calls) == calls

        return run

    return _awaited(make)


def _alpine(asynchronous: bool, permissions: list[Any], calls: int = CALLS) -> tuple[Any, Any]:
    import alpineagents
    from alpineagents.testing import FakeModel, tool_call

    noop = alpineagents.tool(name="noop")(_anoop if asynchronous else _noop)
    model = FakeModel([[tool_call("noop", path=f"{number}.txt") for number in range(calls)]])
    agent = alpineagents.Agent(model, tools=[noop], permissions=permissions, human=None, reporter=None)
    state = alpineagents.State(messages=[alpineagents.Message.user("go")])
    agent.think(state)
    return agent, state


def _alpine_turn(rules: int) -> Clock:
    from alpineagents.permissions import AllowByName as Allow

    def make() -> Callable[[], Awaitable[Any]]:
        agent, state = _alpine(True, [Allow([name]) for name in _names(rules)])
        return lambda: agent.ause_tools(state)

    return _awaited(make)


def _our_denied() -> float:
    agent = Agent(tools=[tool(name="noop")(_noop)], permissions=[DenyByName(["noop"])], human=None)
    listed = [ToolCall("noop", {"path": f"{number}.txt"}, id=f"c{number}") for number in range(CALLS)]
    start = time.perf_counter()
    turn = agent.use_tools(listed)
    seconds = time.perf_counter() - start
    assert len(turn.denied) == CALLS
    return seconds / CALLS


def _alpine_denied() -> float:
    from alpineagents.permissions import DenyByName as Deny

    agent, state = _alpine(False, [Deny(["noop"])])
    start = time.perf_counter()
    agent.use_tools(state)
    return (time.perf_counter() - start) / CALLS


def _divided(clock: Clock) -> Clock:
    return lambda: clock() / CALLS


def measure(quick: bool) -> Iterator[Figure]:
    rounds = 7 if quick else 31
    for rules in (1, 10, 100, 1000):
        times = max(20, 20_000 // rules)
        yield _figure(
            f"deciding one call, {rules:,} name rule{'s' if rules > 1 else ''}, the last one matches",
            _repeated(_our_decision(rules), times),
            _repeated(_toolregistry_decision(rules), times) if TOOLREGISTRY else None,
            rounds=rounds, goal=1, unit="µs", factor=MICRO, against="toolregistry",
        )  # fmt: skip
    yield _figure(
        f"ause_tools, {CALLS} calls under 100 rules",
        _our_turn(100),
        _alpine_turn(100) if ALPINE else None,
        rounds=3 if quick else 11, goal=10, unit="ms", factor=MILLI, against="alpineagents",
    )  # fmt: skip
    yield _figure(
        f"ause_tools, {CALLS} calls under one rule, per call",
        _divided(_our_turn(1)),
        _divided(_alpine_turn(1)) if ALPINE else None,
        rounds=rounds, goal=70, unit="µs", factor=MICRO, against="alpineagents",
    )  # fmt: skip
    yield _figure(
        f"use_tools, {CALLS} denied calls under one rule, per call",
        _our_denied,
        _alpine_denied if ALPINE else None,
        rounds=rounds, goal=15, unit="µs", factor=MICRO, against="alpineagents",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main(measure, "What deciding about calls and running a turn cost."))
