"""What deciding about a call and running a turn cost, beside alpineagents and toolregistry (``pip install .[bench]``).

1. Times are medians over rounds, ours and a peer's in turns in one process. They are the processor's time: nothing here
   waits, and other work on the machine disturbs it least. What a peer waits for its threads is not counted.
2. A peer that is not installed leaves its column empty; ours is measured all the same.
3. Tools do nothing, so what is measured is the engine. Everything is on: validation, digests and the log in memory.
4. A goal for a turn is one of an idle machine, on which the peer takes what is given beside it (``where``): it is held
   to be the same part of what the peer takes here.
5. Growth is what a call costs in a turn of 10,000 calls over what it costs in one of 100: 1 is linear.
   The garbage collector, which looks at everything that is kept, takes a greater part of a long turn.
"""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import statistics
import sys
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from time import process_time
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


def medians(ours: Clock, peer: Clock | None, rounds: int) -> tuple[float, float | None]:
    """Return the median seconds of ours and of a peer's, which is measured in at most 5 of the rounds."""
    mine, theirs = [], []
    ours()
    if peer is not None:
        peer()
    for number in range(rounds):
        gc.collect()
        mine.append(ours())
        if peer is not None and number < 5:
            gc.collect()
            theirs.append(peer())
    return statistics.median(mine), statistics.median(theirs) if theirs else None


def _figure(
    name: str,
    ours: Clock,
    peer: Clock | None,
    *,
    rounds: int,
    goal: float,
    where: float | None = None,
    faster: bool = False,
    unit: str,
    factor: float,
    against: str,
) -> Figure:
    """Measure a figure.

    Args:
        name: Its name.
        ours: Does our work.
        peer: Does the peer's.
        rounds: How often.
        goal: What we may take, in `unit`.
        where: What the peer takes on the machine on which we may take that. On a slower one, where the peer takes
            longer, so may we, in proportion.
        faster: Whether we have to be faster than the peer as well.
        unit: The unit of `goal` and `where`.
        factor: Units in a second.
        against: Name of the peer.
    """
    mine, theirs = medians(ours, peer, rounds)
    if theirs is not None and where is not None:
        goal *= theirs * factor / where
    if theirs is not None and faster:
        goal = min(goal, theirs * factor)
    return Figure(
        name=name,
        ours=mine * factor,
        goal=goal,
        unit=unit,
        reference=None if theirs is None else theirs * factor,
        against=against,
    )


# --- one decision -----------------------------------------------------------------------------------------------------


def repeated(function: Callable[[], Any], times: int) -> Clock:
    """Return a clock of one call of `function`, from many."""

    def clock() -> float:
        start = process_time()
        for _ in range(times):
            function()
        return (process_time() - start) / times

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
            start = process_time()
            await run()
            return process_time() - start

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


def _our_denied(calls: int = CALLS) -> float:
    agent = Agent(tools=[tool(name="noop")(_noop)], permissions=[DenyByName(["noop"])], human=None)
    listed = [ToolCall("noop", {"path": f"{number}.txt"}, id=f"c{number}") for number in range(calls)]
    start = process_time()
    turn = agent.use_tools(listed)
    seconds = process_time() - start
    assert len(turn.denied) == calls
    return seconds / calls


def _alpine_denied() -> float:
    from alpineagents.permissions import DenyByName as Deny

    agent, state = _alpine(False, [Deny(["noop"])])
    start = process_time()
    agent.use_tools(state)
    return (process_time() - start) / CALLS


def _divided(clock: Clock) -> Clock:
    return lambda: clock() / CALLS


# --- growth -----------------------------------------------------------------------------------------------------------

FEW, MANY = 100, 10_000


def _growth(seconds: Callable[[int], float], pairs: int) -> float:
    """Return how many times as long a call takes among many as among few: the median over pairs.

    Args:
        seconds: Takes a number of calls, does a turn of as many, and gives the seconds of one.
        pairs: How many pairs are measured.
    """
    seconds(FEW)
    ratios = []
    for _ in range(pairs):
        gc.collect()
        few = statistics.median(seconds(FEW) for _ in range(MANY // FEW // 4))
        gc.collect()
        ratios.append(seconds(MANY) / few)
    return statistics.median(ratios)


def _peak(turn: Callable[[int], Any], calls: int) -> float:
    """Return the bytes that a turn needs at most, for each of its calls; the log with them is counted."""
    gc.collect()
    tracemalloc.start()
    try:
        turn(calls)
        return tracemalloc.get_traced_memory()[1] / calls
    finally:
        tracemalloc.stop()


def _growths(pairs: int) -> Iterator[Figure]:
    ways: dict[str, Callable[[int], float]] = {
        "ause_tools": lambda calls: _our_turn(1, calls)() / calls,
        "use_tools, denied": _our_denied,
    }
    for way, turn in ways.items():
        of_time = _growth(turn, pairs)
        of_memory = _peak(turn, MANY) / _peak(turn, FEW)
        for what, ratio in (("time", of_time), ("memory", of_memory)):
            yield Figure(
                name=f"{way}, growth of the {what} of a call from {FEW} to {MANY:,} calls a turn",
                ours=ratio,
                goal=2,
                unit="times",
            )


def measure(quick: bool) -> Iterator[Figure]:
    rounds = 7 if quick else 31
    for rules in (1, 10, 100, 1000):
        times = max(20, 20_000 // rules)
        yield _figure(
            f"deciding one call, {rules:,} name rule{'s' if rules > 1 else ''}, the last one matches",
            repeated(_our_decision(rules), 2_000),  # as often whatever the rules: it takes as long
            repeated(_toolregistry_decision(rules), times) if TOOLREGISTRY else None,
            rounds=rounds, goal=1, faster=rules >= 10, unit="µs", factor=MICRO, against="toolregistry",
        )  # fmt: skip
    yield _figure(
        f"ause_tools, {CALLS} calls under 100 rules",
        _our_turn(100),
        _alpine_turn(100) if ALPINE else None,
        rounds=3 if quick else 11, goal=10, where=1_860, unit="ms", factor=MILLI, against="alpineagents",
    )  # fmt: skip
    yield _figure(
        f"ause_tools, {CALLS} calls under one rule, per call",
        _divided(_our_turn(1)),
        _divided(_alpine_turn(1)) if ALPINE else None,
        rounds=rounds, goal=70, where=258, unit="µs", factor=MICRO, against="alpineagents",
    )  # fmt: skip
    yield _figure(
        f"use_tools, {CALLS} denied calls under one rule, per call",
        _our_denied,
        _alpine_denied if ALPINE else None,
        rounds=rounds, goal=15, where=35, unit="µs", factor=MICRO, against="alpineagents",
    )  # fmt: skip
    yield from _growths(3 if quick else 11)


if __name__ == "__main__":
    sys.exit(main(measure, "What deciding about calls and running a turn cost."))
