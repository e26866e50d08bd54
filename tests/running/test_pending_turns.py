"""A turn that is not awaited yet is a coroutine: every event loop takes it where it takes one."""

from __future__ import annotations

import asyncio
import collections.abc
import gc
import inspect
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import trio
from turns import Counter

from agentperm_nb import Agent, AllowByDefault, NotFinishedError, PendingTurn, ToolCall, Turn, tool

CALLS = [ToolCall("act", {"n": 1}, "id1")]


def counting() -> tuple[Agent, Counter]:
    counter = Counter()
    return Agent([counter.tool], permissions=[AllowByDefault()]), counter


async def _in_a_task(agent: Agent) -> Any:
    return await asyncio.create_task(agent.ause_tools(CALLS))


async def _in_a_task_group(agent: Agent) -> Any:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(agent.ause_tools(CALLS))
    return task.result()


async def _gathered(agent: Agent) -> Any:
    return (await asyncio.gather(agent.ause_tools(CALLS)))[0]


async def _in_time(agent: Agent) -> Any:
    return await asyncio.wait_for(agent.ause_tools(CALLS), 10)


async def _in_another_thread(agent: Agent) -> Any:
    loop = asyncio.get_running_loop()
    return await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(agent.ause_tools(CALLS), loop).result(10))


async def _in_a_nursery(agent: Agent) -> Any:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(agent.ause_tools, CALLS)
    return None


async def _in_an_anyio_group(agent: Agent) -> Any:
    async with anyio.create_task_group() as group:
        group.start_soon(agent.ause_tools, CALLS)
    return None


WAYS: dict[str, Callable[[Agent], Any]] = {
    "asyncio.run": lambda agent: asyncio.run(agent.ause_tools(CALLS)),
    "create_task": lambda agent: asyncio.run(_in_a_task(agent)),
    "TaskGroup": lambda agent: asyncio.run(_in_a_task_group(agent)),
    "gather": lambda agent: asyncio.run(_gathered(agent)),
    "wait_for": lambda agent: asyncio.run(_in_time(agent)),
    "run_coroutine_threadsafe": lambda agent: asyncio.run(_in_another_thread(agent)),
    "trio.run": lambda agent: trio.run(agent.ause_tools, CALLS),
    "nursery": lambda agent: trio.run(_in_a_nursery, agent),
    "anyio.run on asyncio": lambda agent: anyio.run(agent.ause_tools, CALLS),
    "anyio.run on trio": lambda agent: anyio.run(agent.ause_tools, CALLS, backend="trio"),
    "anyio group on asyncio": lambda agent: anyio.run(_in_an_anyio_group, agent),
    "anyio group on trio": lambda agent: anyio.run(_in_an_anyio_group, agent, backend="trio"),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_event_loop_takes_a_turn_that_is_not_awaited(way: str) -> None:
    agent, counter = counting()
    turn = WAYS[way](agent)
    assert counter.ran == [{"n": 1}]
    if turn is not None:  # a group of trio or anyio gives nothing back
        assert isinstance(turn, Turn)
        assert turn.results[0].verdict == "allowed"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_group_that_is_cancelled_cancels_a_turn_in_it(backend: str) -> None:
    happened: list[str] = []

    async def main() -> None:
        waiting = anyio.Event()

        @tool
        async def wait() -> None:
            """Wait."""
            waiting.set()
            try:
                await anyio.sleep_forever()
            finally:
                happened.append("cancelled")

        agent = Agent([wait], permissions=[AllowByDefault()])
        async with anyio.create_task_group() as group:
            group.start_soon(agent.ause_tools, [ToolCall("wait", {}, "id1")])
            await waiting.wait()
            group.cancel_scope.cancel()
        assert [result.verdict for result in agent.state.results] == ["allowed"]

    anyio.run(main, backend=backend)
    assert happened == ["cancelled"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_group_that_is_cancelled_before_a_turn_has_begun_gets_along_with_it(backend: str) -> None:
    agent, counter = counting()

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(agent.ause_tools, CALLS)
            group.cancel_scope.cancel()

    anyio.run(main, backend=backend)
    assert counter.ran == []


def test_a_task_that_is_cancelled_before_it_has_begun_runs_nothing() -> None:
    agent, counter = counting()

    async def main() -> None:
        pending = agent.ause_tools(CALLS)
        task = asyncio.create_task(pending)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(RuntimeError, match="awaited already"):
            await pending

    asyncio.run(main())
    assert counter.ran == []


def test_two_tasks_cannot_have_one_turn() -> None:
    agent, counter = counting()

    async def main() -> None:
        pending = agent.ause_tools(CALLS)
        first, second = asyncio.create_task(pending), asyncio.create_task(pending)
        with pytest.raises(RuntimeError, match="awaited already"):
            await second
        assert isinstance(await first, Turn)

    asyncio.run(main())
    assert len(counter.ran) == 1


def test_it_begins_when_it_is_sent_to_and_ends_with_the_turn() -> None:
    agent, counter = counting()
    pending = agent.ause_tools(CALLS)
    assert isinstance(pending, collections.abc.Coroutine)
    assert inspect.isawaitable(pending)
    assert counter.ran == []

    async def main() -> Turn:
        return await pending

    assert asyncio.run(main()).results[0].content == "ran {'n': 1}"
    for again in (
        lambda: pending.send(None),
        lambda: pending.throw(ValueError("x")),
        lambda: next(pending.__await__()),
    ):
        with pytest.raises(RuntimeError, match="awaited already"):
            again()
    assert len(counter.ran) == 1


@pytest.mark.parametrize(
    "given",
    [
        (ValueError("out"),),
        (ValueError,),
        (ValueError, "out"),
        (ValueError, ValueError("out"), None),
    ],
    ids=["error", "class", "class and text", "three"],
)
def test_an_error_thrown_before_it_has_begun_comes_back_and_nothing_runs(given: tuple[Any, ...]) -> None:
    agent, counter = counting()
    pending = agent.ause_tools(CALLS)
    with pytest.raises(ValueError, match=r"out|^$"):
        pending.throw(*given)
    with pytest.raises(RuntimeError, match="awaited already"):
        pending.send(None)
    assert counter.ran == []


def test_one_that_is_closed_before_it_has_begun_runs_nothing_and_says_so() -> None:
    agent, counter = counting()
    pending = agent.ause_tools(CALLS)
    pending.close()
    pending.close()
    assert repr(pending) == "ause_tools(...): closed; nothing was decided and nothing has run"
    with pytest.raises(RuntimeError, match="this turn has been closed already"):
        asyncio.run(pending)
    assert inspect.getcoroutinestate(pending) == inspect.CORO_CLOSED  # type: ignore[arg-type]
    assert counter.ran == []


@pytest.mark.parametrize(
    "look", [repr, lambda it: it.cr_frame, lambda it: it.__await__()], ids=["repr", "frame", "await"]
)
def test_one_that_is_forgotten_runs_nothing_and_python_warns_of_nothing(look: Callable[[Any], object]) -> None:
    agent, counter = counting()
    pending: PendingTurn | None = agent.ause_tools(CALLS)
    look(pending)
    pending = None
    gc.collect()  # pytest makes an error of the warning that a coroutine was never awaited
    assert counter.ran == []


@pytest.mark.parametrize("started", ["run", "start_soon"])
def test_trio_explains_what_is_wrong_with_a_turn_in_the_place_of_a_function(started: str) -> None:
    agent, counter = counting()

    async def main() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(agent.ause_tools(CALLS))  # type: ignore[arg-type]  # that is the point

    with pytest.raises((TypeError, ExceptionGroup)) as raised:
        trio.run(agent.ause_tools(CALLS) if started == "run" else main)  # type: ignore[arg-type]
    error: BaseException = raised.value
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert "ause_tools, ...)            # correct!" in str(error)
    assert counter.ran == []


def test_an_asyncio_task_names_the_turn_that_it_works_for() -> None:
    agent, _ = counting()

    async def main() -> tuple[str, str]:
        task = asyncio.create_task(agent.ause_tools(CALLS))
        before = repr(task)
        await anyio.lowlevel.checkpoint()
        during = repr(task)
        await task
        return before, during

    for shown in asyncio.run(main()):
        assert "ause_tools()" in shown


def test_what_only_a_finished_turn_has_is_refused_while_it_works_too() -> None:
    agent, _ = counting()

    async def main() -> None:
        pending = agent.ause_tools(CALLS)
        task = asyncio.create_task(pending)
        await anyio.lowlevel.checkpoint()
        with pytest.raises(NotFinishedError, match="await it first"):
            _ = pending.results  # type: ignore[attr-defined]
        await task

    asyncio.run(main())
