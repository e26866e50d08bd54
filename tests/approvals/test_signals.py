"""Signals: who is woken, what is kept and for how long, and that none is lost or given to another question."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentperm_nb import Signals, wait_for_signal
from agentperm_nb.approvals.signals import can_signal, signals_here, the_signals
from agentperm_nb.context import RunContext, running_in

on_each_loop = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def run(backend: str, main: Callable[[], Awaitable[Any]]) -> Any:
    async def in_time() -> Any:
        with anyio.fail_after(10):
            return await main()

    return anyio.run(in_time, backend=backend)


async def parked(signals: Signals, count: int) -> None:
    """Wait until so many wait."""
    while f"({count} waiting" not in repr(signals):  # noqa: ASYNC110 - there is no event for it
        await anyio.sleep(0.002)


def parked_here(signals: Signals, count: int) -> None:
    anyio.run(parked, signals, count)


# Who is woken ---------------------------------------------------------------------------------------------------------


@pytest.mark.states("MA4.1")
def test_signals_come_in_the_order_in_which_they_were_sent_each_name_and_session_on_its_own() -> None:
    signals = Signals()
    for payload in (1, 2):
        signals.signal("a", "approval", payload)
        signals.signal("a", "other", payload * 10)
        signals.signal("b", "approval", payload * 100)
    assert [signals.poll_signal("a", "approval") for _ in range(3)] == [1, 2, None]
    assert [signals.poll_signal("a", "other") for _ in range(2)] == [10, 20]
    assert [signals.poll_signal("b", "approval") for _ in range(2)] == [100, 200]


@pytest.mark.states("MA4.1")
def test_a_none_that_was_sent_can_be_told_from_nothing() -> None:
    signals, nothing = Signals(), object()
    signals.signal("a", "approval")
    assert signals.poll_signal("a", "approval", default=nothing) is None
    assert signals.poll_signal("a", "approval", default=nothing) is nothing


@on_each_loop
@pytest.mark.states("MA4.1", "MA4.2")
def test_what_was_sent_before_is_there_at_once_and_else_it_is_waited_for(backend: str) -> None:
    signals = Signals()
    signals.signal("a", "approval", "early")

    async def main() -> list[Any]:
        got = [await signals.wait_for_signal("a", "approval", timeout_s=0)]
        async with anyio.create_task_group() as tasks:

            async def send() -> None:
                await parked(signals, 1)
                signals.signal("a", "approval", "late")

            tasks.start_soon(send)
            got.append(await signals.wait_for_signal("a", "approval"))
        return got

    assert run(backend, main) == ["early", "late"]
    assert repr(signals) == "Signals(0 waiting, 0 kept)"


@on_each_loop
@pytest.mark.states("MA4.1")
@pytest.mark.parametrize("seconds", [0, 0.05])
def test_who_waits_in_vain_is_told_so_and_takes_nothing_afterwards(backend: str, seconds: float) -> None:
    signals = Signals()

    async def main() -> None:
        with pytest.raises(TimeoutError, match=f"no signal 'approval' for ask_1 came within {seconds:g} s"):
            await signals.wait_for_signal("a", "approval", timeout_s=seconds, request_id="ask_1")

    run(backend, main)
    signals.signal("a", "approval", True, request_id="ask_1")
    assert repr(signals) == "Signals(0 waiting, 1 kept)"
    assert signals.poll_signal("a", "approval", request_id="ask_1") is True


@on_each_loop
@pytest.mark.states("MA4.3")
def test_one_signal_wakes_one_and_that_is_who_has_waited_longest(backend: str) -> None:
    signals, got = Signals(), list[tuple[str, int]]()

    async def wait(name: str) -> None:
        got.append((name, await signals.wait_for_signal("a", "approval")))

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for place, name in enumerate(["first", "second", "third"], 1):
                tasks.start_soon(wait, name)
                await parked(signals, place)
            for payload in range(3):
                signals.signal("a", "approval", payload)
                await parked(signals, 2 - payload)
                await anyio.wait_all_tasks_blocked()

    run(backend, main)
    assert got == [("first", 0), ("second", 1), ("third", 2)]


@on_each_loop
@pytest.mark.states("MA4.3")
def test_two_that_wait_for_a_request_each_take_only_their_own_whatever_the_order(backend: str) -> None:
    signals, got = Signals(), dict[str, Any]()

    async def wait(request_id: str | None) -> None:
        got[str(request_id)] = await signals.wait_for_signal("a", "approval", request_id=request_id)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for place, request_id in enumerate(["ask_1", None, "ask_2"], 1):
                tasks.start_soon(wait, request_id)
                await parked(signals, place)
            signals.signal("a", "approval", "for 2", request_id="ask_2")
            signals.signal("a", "approval", "for 3", request_id="ask_3")
            await parked(signals, 2)
            signals.signal("a", "approval", "for 1", request_id="ask_1")
            await parked(signals, 1)
            signals.signal("a", "approval", "for any")

    run(backend, main)
    assert got == {"ask_1": "for 1", "ask_2": "for 2", "None": "for any"}
    assert signals.poll_signal("a", "approval") is None
    assert signals.poll_signal("a", "approval", request_id="ask_3") == "for 3"


# Threads and loops ----------------------------------------------------------------------------------------------------


@on_each_loop
@pytest.mark.states("MA4.5")
def test_a_signal_from_another_thread_wakes_a_loop_that_has_nothing_else_to_do(backend: str) -> None:
    signals = Signals()

    def send() -> None:
        parked_here(signals, 1)
        signals.signal("a", "approval", "from afar")

    thread = threading.Thread(target=send)
    thread.start()
    assert run(backend, lambda: signals.wait_for_signal("a", "approval", timeout_s=8)) == "from afar"
    thread.join()


@pytest.mark.states("MA4.5")
def test_loops_of_both_kinds_on_many_threads_get_each_signal_once() -> None:
    signals, got, lock = Signals(), list[int](), threading.Lock()

    async def take(count: int) -> None:
        for _ in range(count):
            payload = await signals.wait_for_signal("a", "approval", timeout_s=8)
            with lock:
                got.append(payload)

    def loop(backend: str) -> None:
        async def main() -> None:
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(take, 10)

        anyio.run(main, backend=backend)

    def send(part: int) -> None:
        for payload in range(part, 200, 4):
            signals.signal("a", "approval", payload)

    threads = [threading.Thread(target=loop, args=(backend,)) for backend in ("asyncio", "trio") * 2]
    threads += [threading.Thread(target=send, args=(part,)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(15)
        assert not thread.is_alive()
    assert sorted(got) == list(range(200))
    assert repr(signals) == "Signals(0 waiting, 0 kept)"


# None is lost ---------------------------------------------------------------------------------------------------------


@on_each_loop
def test_who_is_cancelled_loses_no_signal(backend: str) -> None:
    signals = Signals()

    async def main() -> Any:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(signals.wait_for_signal, "a", "approval")
            await parked(signals, 1)
            signals.signal("a", "approval", "first")  # it is given, and the waiter has not come to take it
            signals.signal("a", "approval", "second")
            tasks.cancel_scope.cancel()
        assert repr(signals) == "Signals(0 waiting, 2 kept)"
        return [await signals.wait_for_signal("a", "approval") for _ in range(2)]

    assert run(backend, main) == ["first", "second"]


@on_each_loop
def test_what_was_given_to_who_is_cancelled_goes_to_the_next(backend: str) -> None:
    signals, got = Signals(), list[Any]()

    async def wait() -> None:
        got.append(await signals.wait_for_signal("a", "approval"))

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as first:
                async with anyio.create_task_group() as inner:
                    inner.start_soon(signals.wait_for_signal, "a", "approval")
                    await parked(signals, 1)
                    tasks.start_soon(wait)
                    await parked(signals, 2)
                    signals.signal("a", "approval", "for whoever is there")
                    first.cancel()

    run(backend, main)
    assert got == ["for whoever is there"]


def test_who_is_cancelled_by_asyncio_itself_loses_no_signal() -> None:
    signals = Signals()

    async def main() -> None:
        task = asyncio.create_task(signals.wait_for_signal("a", "approval"))
        await parked(signals, 1)
        signals.signal("a", "approval", 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert signals.poll_signal("a", "approval") == 1


@pytest.mark.filterwarnings("ignore:.*never retrieved.*", "ignore:coroutine .* was never awaited:RuntimeWarning")
def test_a_waiter_whose_event_loop_has_ended_gets_no_signal() -> None:
    signals, loop = Signals(), asyncio.new_event_loop()
    forgotten = loop.create_task(signals.wait_for_signal("a", "approval"))
    loop.run_until_complete(parked(signals, 1))
    loop.close()
    signals.signal("a", "approval", "for the living")
    assert signals.poll_signal("a", "approval") == "for the living"
    forgotten._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio would tell of it
    del forgotten
    gc.collect()
    assert repr(signals) == "Signals(0 waiting, 0 kept)"


@on_each_loop
@settings(max_examples=30)
@given(st.lists(st.sampled_from(["send", "wait", "cancel", "poll", "wait briefly"]), max_size=25))
def test_whatever_happens_each_signal_is_taken_once_or_kept(backend: str, steps: list[str]) -> None:
    signals, taken, sent = Signals(), list[int](), 0

    async def main() -> None:
        nonlocal sent
        scopes: list[anyio.CancelScope] = []

        async def wait(scope: anyio.CancelScope) -> None:
            with scope:
                taken.append(await signals.wait_for_signal("a", "approval"))

        async with anyio.create_task_group() as tasks:
            for step in steps:
                if step == "send":
                    signals.signal("a", "approval", sent)
                    sent += 1
                elif step == "wait":
                    scopes.append(anyio.CancelScope())
                    tasks.start_soon(wait, scopes[-1])
                    await anyio.lowlevel.checkpoint()
                elif step == "cancel" and scopes:
                    scopes.pop(0).cancel()
                elif step == "poll":
                    payload = signals.poll_signal("a", "approval", default=-1)
                    taken.extend([] if payload == -1 else [payload])
                elif step == "wait briefly":
                    with anyio.move_on_after(0):
                        taken.append(await signals.wait_for_signal("a", "approval"))
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()

    run(backend, main)
    left = []
    while (payload := signals.poll_signal("a", "approval", default=-1)) != -1:
        left.append(payload)
    assert sorted([*taken, *left]) == list(range(sent))
    assert left == sorted(left)
    assert repr(signals) == "Signals(0 waiting, 0 kept)"


# For how long it is kept ----------------------------------------------------------------------------------------------


@pytest.mark.states("MA4.2")
def test_what_nobody_took_is_dropped_when_the_last_turn_of_the_session_ends() -> None:
    signals = Signals()
    signals.signal("a", "approval", "before")
    signals.signal("b", "approval", "of another session")
    with signals.opened("a"):
        with signals.opened("a"):
            signals.signal("a", "approval", "meanwhile")
        assert signals.poll_signal("a", "approval") == "before"
    assert signals.poll_signal("a", "approval") is None
    assert signals.poll_signal("b", "approval") == "of another session"


@pytest.mark.states("MA4.2")
def test_a_turn_that_raises_ends_its_session_too() -> None:
    signals = Signals()

    def turn() -> None:
        with signals.opened("a"):
            signals.signal("a", "approval", True, request_id="ask_1")
            raise KeyError

    with pytest.raises(KeyError):
        turn()
    assert repr(signals) == "Signals(0 waiting, 0 kept)"


@on_each_loop
def test_what_was_given_to_a_turn_that_has_ended_is_not_given_to_the_next(backend: str) -> None:
    """A "yes" to a question of a turn that was cancelled must not answer one of the turn after it."""
    signals = Signals()

    async def main() -> Any:
        async with anyio.create_task_group() as tasks:
            with signals.opened("a"):
                tasks.start_soon(signals.wait_for_signal, "a", "approval")
                await parked(signals, 1)
                signals.signal("a", "approval", "yes")
            tasks.cancel_scope.cancel()
        with signals.opened("a"):
            return signals.poll_signal("a", "approval", default="nothing")

    assert run(backend, main) == "nothing"


@pytest.mark.states("MA4.2")
def test_before_a_turn_a_signal_is_kept_for_an_hour_and_in_a_turn_as_long_as_that_lasts() -> None:
    now = [0.0]
    signals = Signals(clock=lambda: now[0])
    signals.signal("a", "approval", 1)
    signals.signal("b", "approval", 2)
    with signals.opened("b"):
        now[0] = 3_600.0
        assert signals.poll_signal("a", "approval") == 1
        signals.signal("a", "approval", 3)
        now[0] += 3_601
        assert signals.poll_signal("a", "approval") is None
        assert signals.poll_signal("b", "approval") == 2
        signals.signal("c", "approval", 4)  # the old ones go when something is sent
    with signals.opened("a"):
        assert signals.poll_signal("a", "approval") is None
    assert repr(signals) == "Signals(0 waiting, 1 kept)"


@pytest.mark.states("MA4.2")
def test_of_more_sessions_than_are_kept_the_oldest_goes_first_and_none_that_has_a_turn() -> None:
    signals = Signals(sessions=3)
    with signals.opened("0"):
        for number in range(6):
            signals.signal(str(number), "approval", number)
        kept = [number for number in range(6) if signals.poll_signal(str(number), "approval") is not None]
    assert kept == [0, 4, 5]


@pytest.mark.states("MA4.2")
def test_ten_thousand_sessions_are_kept() -> None:
    signals = Signals()
    for number in range(10_050):
        signals.signal(str(number), "approval", number)
    assert repr(signals) == "Signals(0 waiting, 10000 kept)"
    assert signals.poll_signal("49", "approval") is None
    assert signals.poll_signal("50", "approval") == 50


def test_a_session_in_which_nothing_is_left_is_forgotten() -> None:
    signals = Signals()
    for number in range(100):
        with signals.opened(str(number)):
            signals.signal(str(number), "approval", 1)
        signals.signal(str(number), "approval", 2)
        assert signals.poll_signal(str(number), "approval") == 2
    assert len(signals._sessions) == 0


# Misuse ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((5, "approval"), {}),
        ((None, "approval"), {}),
        (("a", 5), {}),
        (("a", None), {}),
        (("a", "approval"), {"request_id": 5}),
    ],
    ids=str,
)
def test_ids_and_names_are_texts(arguments: Any, named: dict[str, Any]) -> None:
    signals = Signals()
    for method in (signals.signal, signals.poll_signal):
        with pytest.raises(TypeError, match="Fix: "):
            method(*arguments, **named)
    with pytest.raises(TypeError, match="Fix: "):
        run("asyncio", lambda: signals.wait_for_signal(*arguments, **named))
    assert repr(signals) == "Signals(0 waiting, 0 kept)"


@pytest.mark.parametrize(
    ("seconds", "error"), [("5", TypeError), (True, TypeError), (-1, ValueError), (float("nan"), ValueError)], ids=str
)
def test_a_wrong_time_is_an_error_with_its_fix(seconds: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="Fix: "):
        run("asyncio", lambda: Signals().wait_for_signal("a", "approval", timeout_s=seconds))


def test_without_a_limit_it_waits_and_an_infinite_one_is_none() -> None:
    signals = Signals()
    signals.signal("a", "approval", 1)
    assert run("asyncio", lambda: signals.wait_for_signal("a", "approval", timeout_s=float("inf"))) == 1


# wait_for_signal, in a run --------------------------------------------------------------------------------------------

CONTEXT = RunContext("run_1", "monday", "ann")


def in_a_run(signals: Any, main: Callable[[], Awaitable[Any]], backend: str = "asyncio") -> Any:
    def work() -> Any:
        signals_here.set(signals)
        with running_in(CONTEXT):
            return run(backend, main)

    return copy_context().run(work)


@on_each_loop
def test_in_a_run_its_session_is_waited_in(backend: str) -> None:
    signals = Signals()
    signals.signal("tuesday", "approval", "of another session")
    signals.signal("monday", "approval", "to no request")
    signals.signal("monday", "approval", "to ask_1", request_id="ask_1")
    signals.signal("monday", "go on", 7)

    async def main() -> list[Any]:
        return [
            await wait_for_signal(request_id="ask_1"),
            await wait_for_signal(),
            await wait_for_signal("go on", timeout_s=1),
        ]

    assert in_a_run(signals, main, backend) == ["to ask_1", "to no request", 7]


def test_outside_of_a_run_it_says_what_to_do() -> None:
    with pytest.raises(RuntimeError, match=r"outside of a run(.|\n)*Fix: call it in a handler"):
        run("asyncio", wait_for_signal)
    assert signals_here.get() is the_signals


@pytest.mark.states("MA4.1")
@pytest.mark.parametrize("signals", [None, object(), Signals, {"signal": print}], ids=repr)
def test_where_there_are_no_signals_it_warns_and_gives_none(signals: Any) -> None:
    assert not can_signal(signals)
    with pytest.warns(UserWarning, match="this agent has no signals"):
        assert in_a_run(signals, lambda: wait_for_signal(timeout_s=60)) is None


def test_signals_of_somebody_elses_are_asked_for_no_request_that_was_not_named() -> None:
    asked: list[Any] = []

    class Theirs:
        def signal(self, session_id: str, name: str, payload: Any) -> None: ...

        async def wait_for_signal(self, session_id: str, name: str, *, timeout_s: float | None = None) -> str:
            asked.append((session_id, name, timeout_s))
            return "theirs"

    assert in_a_run(Theirs(), lambda: wait_for_signal(timeout_s=5)) == "theirs"
    assert asked == [("monday", "approval", 5)]
