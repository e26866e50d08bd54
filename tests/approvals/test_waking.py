"""Waiting on an event loop for another thread."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from agentperm_nb.approvals.waking import Bell, on_thread

on_each_loop = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def run(backend: str, main: Callable[[], Awaitable[Any]]) -> Any:
    async def in_time() -> Any:
        with anyio.fail_after(10):
            return await main()

    return anyio.run(in_time, backend=backend)


@on_each_loop
def test_a_bell_that_is_rung_on_another_thread_wakes_the_loop_and_stays_rung(backend: str) -> None:
    async def main() -> list[bool]:
        bell, rang = Bell(), list[bool]()
        thread = threading.Timer(0.05, lambda: rang.append(bell.ring()))
        thread.start()
        await bell.wait()
        await bell.wait()
        thread.join()
        return rang

    assert run(backend, main) == [True]


@on_each_loop
def test_a_bell_of_a_loop_that_has_ended_says_so(backend: str) -> None:
    bells: list[Bell] = []

    async def main() -> None:
        bells.append(Bell())

    run(backend, main)
    assert bells[0].ring() is False


@on_each_loop
def test_a_function_works_on_a_daemon_thread_in_the_context_of_whoever_waits(backend: str) -> None:
    variable: ContextVar[str] = ContextVar("variable")

    async def main() -> Any:
        variable.set("here")
        return await on_thread(lambda: (variable.get(), threading.current_thread().daemon, threading.get_ident()))

    value, daemon, thread = run(backend, main)
    assert (value, daemon) == ("here", True)
    assert thread != threading.get_ident()


@on_each_loop
@pytest.mark.parametrize("error", [ValueError("no"), KeyboardInterrupt(), SystemExit(2)], ids=repr)
def test_what_it_raises_is_raised(backend: str, error: BaseException) -> None:
    def broken() -> None:
        raise error

    async def main() -> Any:
        try:
            await on_thread(broken)
        except BaseException as raised:  # noqa: BLE001 - that is what is looked at
            return raised

    assert run(backend, main) is error


@on_each_loop
def test_a_coroutine_is_a_value_like_any_other(backend: str) -> None:
    async def later() -> int:
        return 7

    async def main() -> int:
        return await (await on_thread(later))

    assert run(backend, main) == 7


@on_each_loop
@pytest.mark.parametrize("inner", ["asyncio", "trio"])
def test_it_may_run_an_event_loop_of_its_own(backend: str, inner: str) -> None:
    async def later() -> int:
        await anyio.lowlevel.checkpoint()
        return 7

    async def main() -> int:
        value: int = await on_thread(lambda: anyio.run(later, backend=inner))
        await anyio.lowlevel.checkpoint()  # and the loop outside is still known
        return value

    assert run(backend, main) == 7


@on_each_loop
def test_when_it_is_cancelled_the_thread_is_left_alone_and_what_it_returns_is_late(backend: str) -> None:
    go_on, told, late = threading.Event(), threading.Event(), list[str]()

    def slow() -> str:
        go_on.wait(10)
        return "late"

    def tell(value: str) -> None:
        late.append(value)
        told.set()

    async def main() -> None:
        with anyio.move_on_after(0.02) as scope:
            await on_thread(slow, tell)
        assert scope.cancelled_caught
        assert late == []

    run(backend, main)
    go_on.set()
    assert told.wait(5)
    assert late == ["late"]


@on_each_loop
def test_what_a_thread_raises_when_nobody_waits_is_told_to_nobody(backend: str) -> None:
    go_on, ended, late = threading.Event(), threading.Event(), list[object]()

    def broken() -> None:
        go_on.wait(10)
        ended.set()
        raise ValueError("no")

    async def main() -> None:
        with anyio.move_on_after(0.02):
            await on_thread(broken, late.append)

    run(backend, main)
    go_on.set()
    assert ended.wait(5)
    assert late == []


def test_threads_that_are_left_alone_keep_no_others_waiting() -> None:
    go_on = threading.Event()

    async def main() -> list[int]:
        async with anyio.create_task_group() as tasks:
            for _ in range(300):
                tasks.start_soon(on_thread, lambda: go_on.wait(10))
            await anyio.sleep(0.2)
            tasks.cancel_scope.cancel()
        return [await on_thread(lambda number=number: number) for number in range(3)]

    try:
        assert run("trio", main) == [0, 1, 2]
    finally:
        go_on.set()


def test_a_task_that_is_cancelled_by_asyncio_itself_leaves_the_thread_alone() -> None:
    go_on = threading.Event()

    async def main() -> None:
        task = asyncio.create_task(on_thread(lambda: go_on.wait(10)))
        await asyncio.sleep(0.02)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert task.cancelled()

    asyncio.run(main())
    go_on.set()


@pytest.mark.parametrize("start", ["asyncio.run(main())", "trio.run(main)"])
def test_a_thread_that_is_left_alone_keeps_no_program_from_ending(start: str) -> None:
    code = (
        "import anyio, asyncio, sys, trio\nfrom agentperm_nb.approvals.waking import on_thread\n"
        "async def main():\n    with anyio.move_on_after(0.05):\n        await on_thread(sys.stdin.readline)\n"
        f"{start}\nprint('over')"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.wait(15) == 0  # nothing was ever typed
        assert program.stdout is not None
        assert program.stdout.read().strip() == b"over"
