"""Running tools: timeouts, interrupts and cancellations that lose no result, and every form a tool may have."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from turns import DRIVERS, run

from agentperm_nb import Agent, AllowByDefault, AllowPermission, Tool, ToolCall, ToolError, tool
from agentperm_nb.analysis.log import Log
from agentperm_nb.audit.events import Event
from agentperm_nb.audit.store import MemoryStore
from agentperm_nb.errors import ToolTimeoutError
from agentperm_nb.running import driving_asyncio, driving_blocking

both_drivers = pytest.mark.parametrize("driver", DRIVERS)
SHORT = 0.05  # seconds that a tool which never ends in time may take


class TellingStore(MemoryStore):
    """Tells when an event of a kind has been written."""

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[str, threading.Event] = {kind: threading.Event() for kind in ("finished", "late")}

    def append(self, events: Iterable[Event]) -> None:
        events = list(events)
        super().append(events)
        for event in events:
            if event.kind in self.told:
                self.told[event.kind].set()


class Released(threading.Event):
    """An event that tools on threads wait for; at the end of the test it is set, so that no thread is left."""

    def wait_for_it(self) -> None:
        assert self.wait(10)


@pytest.fixture
def release() -> Iterator[Released]:
    event = Released()
    yield event
    event.set()


def agent_of(*tools: Any, store: MemoryStore | None = None) -> Agent:
    return Agent(tools, permissions=[AllowByDefault()], audit=Log(store or MemoryStore()))


def calls(*names: str) -> list[ToolCall]:
    return [ToolCall(name, {}, f"c{place}") for place, name in enumerate(names)]


def kinds(agent: Agent) -> list[tuple[str, str, bool]]:
    return [(result.call.name, result.outcome.kind.value, result.late) for result in agent.state.results]


# ---------------------------------------------------------------------- timeouts


@both_drivers
def test_a_sync_tool_that_times_out_is_an_error_and_what_it_returns_later_is_kept(
    driver: str, release: Released
) -> None:
    store = TellingStore()

    @tool(timeout=SHORT)
    def slow() -> str:
        release.wait_for_it()
        return "too late"

    def quick() -> str:
        return "in time"

    agent = agent_of(slow, quick, store=store)
    turn = run(driver, agent, calls("slow", "quick"))
    timed_out, in_time = turn.results
    assert (timed_out.outcome.kind.value, timed_out.content) == ("error", "timed out after 0.05 s")
    assert isinstance(timed_out.outcome.error, ToolTimeoutError)
    assert isinstance(timed_out.outcome.error, ToolError)
    assert in_time.content == "in time"
    before = agent.audit.calls()
    assert list(before["outcome"]) == ["failed", "ran"]
    assert before["error"][0] == "ToolTimeoutError: timed out after 0.05 s"
    assert not store.told["late"].is_set()
    release.set()  # the loop of an async turn is gone by now; the thread is not
    assert store.told["late"].wait(10)
    assert ("slow", "done", True) in kinds(agent)
    assert [event.kind for event in agent.audit.events(timed_out.call_key)] == [
        "requested", "decided", "started", "finished", "late",
    ]  # fmt: skip
    assert agent.audit.calls().equals(before)  # the first outcome stays, with its error and its times
    (late,) = [event for event in agent.audit.events() if event.kind == "late"]
    assert (late.data["outcome"], late.data["error"]) == ("ran", None)


@both_drivers
def test_what_a_timed_out_tool_returns_while_the_turn_goes_on_comes_after_its_error(
    driver: str, release: Released
) -> None:
    store = TellingStore()

    @tool(timeout=SHORT)
    def slow() -> str:
        release.wait_for_it()
        return "too late"

    @tool(parallel=False)
    def after() -> str:
        release.set()
        assert store.told["late"].wait(10)
        return "after"

    agent = agent_of(slow, after, store=store)
    turn = run(driver, agent, calls("slow", "after"))
    assert [result.content for result in turn.results] == ["timed out after 0.05 s", "after"]
    assert kinds(agent) == [("slow", "error", False), ("slow", "done", True), ("after", "done", False)]
    assert list(agent.audit.calls()["outcome"]) == ["failed", "ran"]


@both_drivers
def test_an_async_tool_that_times_out_is_cancelled_and_cleans_up(driver: str) -> None:
    happened: list[str] = []

    @tool(timeout=SHORT)
    async def slow() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            happened.append("cleaned up")

    agent = agent_of(slow)
    (result,) = run(driver, agent, calls("slow")).results
    assert (result.content, happened) == ("timed out after 0.05 s", ["cleaned up"])
    assert isinstance(result.outcome.error, ToolTimeoutError)
    assert kinds(agent) == [("slow", "error", False)]


@pytest.mark.parametrize("driver", ["sync", "asyncio"])
def test_an_async_tool_under_asyncio_may_await_while_it_cleans_up(driver: str) -> None:
    happened: list[str] = []

    @tool(timeout=SHORT)
    async def slow() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            await asyncio.sleep(0)
            happened.append("cleaned up")

    (result,) = run(driver, agent_of(slow), calls("slow")).results
    assert (result.content, happened) == ("timed out after 0.05 s", ["cleaned up"])


@pytest.mark.parametrize("driver", ["sync", "asyncio"])
def test_what_an_async_tool_returns_when_it_is_cancelled_by_its_timeout_is_late(driver: str) -> None:
    @tool(timeout=SHORT)
    async def slow() -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "half of it"
        return "all of it"

    agent = agent_of(slow)
    (result,) = run(driver, agent, calls("slow")).results
    assert result.content == "timed out after 0.05 s"
    assert kinds(agent) == [("slow", "error", False), ("slow", "done", True)]
    assert agent.state.results[-1].content == "half of it"


@pytest.mark.parametrize("driver", ["sync", "asyncio"])
def test_an_async_tool_that_ignores_its_timeout_is_left_to_itself(
    driver: str, release: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (driving_asyncio, driving_blocking):
        monkeypatch.setattr(module, "GRACE", SHORT)

    @tool(timeout=SHORT)
    async def stubborn() -> str:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.to_thread(release.wait, 0.01)
        return "at last"

    store = TellingStore()
    agent = agent_of(stubborn, store=store)

    async def main() -> None:
        (result,) = (await agent.ause_tools(calls("stubborn"))).results
        assert result.content == "timed out after 0.05 s"
        release.set()
        await asyncio.to_thread(store.told["late"].wait, 10)

    if driver == "asyncio":
        asyncio.run(main())
    else:
        assert agent.use_tools(calls("stubborn")).results[0].content == "timed out after 0.05 s"
        release.set()
        assert store.told["late"].wait(10)
    assert kinds(agent) == [("stubborn", "error", False), ("stubborn", "done", True)]


@both_drivers
@pytest.mark.parametrize("form", ["sync", "async"])
def test_a_tool_that_blocks_past_its_timeout_has_timed_out_whatever_it_returns(driver: str, form: str) -> None:
    over = threading.Event()

    @tool(timeout=SHORT)
    async def blocks() -> str:
        over.wait(4 * SHORT)  # the loop cannot do anything meanwhile
        return "too late"

    @tool(name="blocks", timeout=SHORT)
    def blocks_on_a_thread() -> str:
        over.wait(4 * SHORT)
        return "too late"

    store = TellingStore()
    agent = agent_of(blocks if form == "async" else blocks_on_a_thread, store=store)
    (result,) = run(driver, agent, calls("blocks")).results
    assert result.content == "timed out after 0.05 s"
    assert store.told["late"].wait(10)
    assert kinds(agent) == [("blocks", "error", False), ("blocks", "done", True)]


@both_drivers
@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
def test_a_tool_that_ends_in_time_has_its_own_end(driver: str, fails: bool) -> None:
    @tool(timeout=60)
    def act() -> str:
        if fails:
            raise ToolError("no such file")
        return "done"

    @tool(timeout=60)
    async def aact() -> str:
        return act.run({})  # type: ignore[no-any-return]

    turn = run(driver, agent_of(act, aact), calls("act", "aact"))
    assert [result.content for result in turn.results] == ["no such file" if fails else "done"] * 2


@both_drivers
def test_something_to_await_that_a_sync_tool_returns_is_cancelled_by_its_timeout(driver: str) -> None:
    happened: list[str] = []

    async def later() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            happened.append("cancelled")

    @tool(timeout=SHORT)
    def now() -> Any:
        return later()

    (result,) = run(driver, agent_of(now), calls("now")).results
    assert (result.content, happened) == ("timed out after 0.05 s", ["cancelled"])


@both_drivers
def test_something_to_await_that_comes_after_the_timeout_is_closed_and_an_error(driver: str, release: Released) -> None:
    store = TellingStore()

    async def later() -> None:
        pass

    @tool(timeout=SHORT)
    def now() -> Any:
        release.wait_for_it()
        return later()

    agent = agent_of(now, store=store)
    (result,) = run(driver, agent, calls("now")).results
    assert result.content == "timed out after 0.05 s"
    release.set()
    assert store.told["late"].wait(10)
    assert [late for _, _, late in kinds(agent)] == [False, True]


@both_drivers
def test_a_timeout_does_not_count_the_time_in_which_a_call_waits_for_its_turn(driver: str) -> None:
    full, over = threading.Event(), threading.Event()
    running, lock = [0], threading.Lock()

    def held() -> str:
        with lock:
            running[0] += 1
            if running[0] == 32:
                full.set()
        assert full.wait(10)
        over.wait(4 * SHORT)
        return "held"

    @tool(timeout=2 * SHORT)
    def quick() -> str:
        return "in time"

    turn = run(driver, agent_of(held, quick), calls(*["held"] * 32, "quick"))
    assert turn.results[-1].content == "in time"


# ---------------------------------------------------------------------- ended early


class Ended:
    """One tool that has finished, two that run, one that has not started; and an interrupt in between."""

    def __init__(self, release: Released) -> None:
        self.store, self.ran, self.release = TellingStore(), [], release
        self.happened: list[str] = []
        self.begun = threading.Barrier(3)

        def quick() -> str:
            return "finished"

        def on_a_thread() -> str:
            self.begun.wait(10)
            release.wait_for_it()
            return "too late"

        async def on_the_loop() -> None:
            try:
                await anyio.to_thread.run_sync(self.begun.wait, 10)
                await anyio.sleep_forever()
            finally:
                self.happened.append("cancelled")

        @tool(parallel=False)
        def serial() -> None:
            self.happened.append("serial ran")

        self.agent = agent_of(quick, on_a_thread, on_the_loop, serial, store=self.store)
        self.calls = calls("quick", "on_a_thread", "on_the_loop", "serial")

    def wait(self) -> None:
        """Wait until it is time for the interrupt."""
        self.begun.wait(10)
        self.store.told["finished"].wait(10)

    def check(self) -> None:
        assert self.happened == ["cancelled"]
        assert sorted(kinds(self.agent)) == [
            ("on_a_thread", "interrupted", False),
            ("on_the_loop", "interrupted", False),
            ("quick", "done", False),
            ("serial", "interrupted", False),
        ]
        assert list(self.agent.audit.calls()["outcome"]) == ["ran", "lost", "lost", "not_run"]
        self.release.set()
        assert self.store.told["late"].wait(10)
        assert self.agent.state.results[-1].content == "too late"
        assert list(self.agent.audit.calls()["outcome"]) == ["ran", "ran", "lost", "not_run"]


@pytest.mark.parametrize("way", ["trio", "asyncio", "native"])
def test_a_cancelled_turn_keeps_what_finished_and_awaits_what_it_cancels(way: str, release: Released) -> None:
    ended = Ended(release)

    async def scoped() -> None:
        async with anyio.create_task_group() as group:

            async def cancel() -> None:
                await anyio.to_thread.run_sync(ended.wait)
                group.cancel_scope.cancel()

            group.start_soon(cancel)
            await ended.agent.ause_tools(ended.calls)

    async def native() -> None:
        task = ended.agent.start(ended.calls)
        await asyncio.to_thread(ended.wait)
        assert task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    anyio.run(native if way == "native" else scoped, backend="asyncio" if way == "native" else way)
    ended.check()


def test_an_interrupt_of_a_blocking_turn_keeps_what_finished_and_awaits_what_it_cancels(release: Released) -> None:
    ended = Ended(release)

    def interrupt() -> None:
        ended.wait()
        signal.raise_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        ended.agent.use_tools(ended.calls)
    thread.join(10)
    ended.check()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_result_that_comes_with_the_cancellation_is_kept(backend: str) -> None:
    async def main() -> None:
        with anyio.CancelScope() as scope:

            async def act() -> str:
                scope.cancel()
                return "just in time"

            def other() -> None:
                pass

            agent = agent_of(act, tool(parallel=False)(other))
            agents.append(agent)
            await agent.ause_tools(calls("act", "other"))
        assert scope.cancelled_caught

    agents: list[Agent] = []
    anyio.run(main, backend=backend)
    (agent,) = agents
    assert "just in time" in [result.content for result in agent.state.results]
    assert list(agent.audit.calls()["outcome"]) == ["ran", "not_run"]


def test_a_result_that_comes_with_the_interrupt_is_kept() -> None:
    store = TellingStore()

    def act() -> str:
        signal.raise_signal(signal.SIGINT)
        return "just in time"

    agent = agent_of(act, store=store)
    with pytest.raises(KeyboardInterrupt):
        agent.use_tools(calls("act"))
    assert store.told["finished"].is_set() or store.told["late"].wait(10)
    assert "just in time" in [result.content for result in agent.state.results]
    assert list(agent.audit.calls()["outcome"]) == ["ran"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_interrupt_inside_an_async_tool_goes_to_the_caller(backend: str) -> None:
    happened: list[str] = []

    async def interrupted() -> None:
        raise KeyboardInterrupt

    async def waits() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            happened.append("cancelled")

    agent = agent_of(waits, interrupted)

    async def main() -> None:
        with pytest.raises(KeyboardInterrupt):
            await agent.ause_tools(calls("waits", "interrupted"))
        happened.append("caught")

    anyio.run(main, backend=backend)
    assert happened == ["cancelled", "caught"]
    assert kinds(agent) == [("waits", "interrupted", False), ("interrupted", "interrupted", False)]


@both_drivers
def test_an_interrupt_inside_a_permission_goes_to_the_caller_and_nothing_runs(driver: str) -> None:
    class Interrupted(AllowPermission):
        def check(self, state: Any, call: Any, tool: Any) -> Any:
            raise KeyboardInterrupt

        async def acheck(self, state: Any, call: Any, tool: Any) -> Any:
            raise KeyboardInterrupt

    ran: list[str] = []
    agent = Agent([tool(name="act")(lambda: ran.append("act"))], permissions=[Interrupted()])
    with pytest.raises(KeyboardInterrupt):
        run(driver, agent, calls("act", "act"))
    assert ran == []
    assert kinds(agent) == [("act", "interrupted", False)] * 2


def test_an_async_tool_that_ignores_an_interrupt_does_not_hold_the_turn(
    release: Released, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driving_asyncio, "GRACE", SHORT)
    store, told, begun = TellingStore(), [0], asyncio.Event()

    async def stubborn() -> str:
        begun.set()
        while not release.is_set():
            try:
                await asyncio.to_thread(release.wait, 0.01)
            except asyncio.CancelledError:
                told[0] += 1
        return "at last"

    agent = agent_of(stubborn, store=store)

    async def main() -> None:
        task = agent.start(calls("stubborn"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        release.set()
        await asyncio.to_thread(store.told["late"].wait, 10)

    asyncio.run(main())
    assert told[0] == 5
    assert kinds(agent) == [("stubborn", "interrupted", False), ("stubborn", "done", True)]


def test_a_second_cancellation_while_tools_are_awaited_goes_to_the_caller() -> None:
    begun, cleaning, clean = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            cleaning.set()
            await clean.wait()

    async def main() -> None:
        agent = agent_of(slow)
        task = agent.start(calls("slow"))
        await begun.wait()
        task.cancel()
        await cleaning.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert kinds(agent) == [("slow", "interrupted", False)]

    asyncio.run(main())


# ---------------------------------------------------------------------- every form of a tool


class Object:
    async def __call__(self) -> str:
        return "ran"


class Blocking:
    """Works for a while on the calling thread, and only then gives something to await."""

    def __call__(self) -> Any:
        worker = threading.current_thread()

        async def rest() -> str:
            assert worker is not threading.main_thread()
            return "ran"

        return rest()


async def _of(word: str) -> str:
    return word


async def _forgets_to_await() -> Any:
    return _of("ran")


def _returns_a_coroutine() -> Any:
    return _of("ran")


def _returns_a_coroutine_of_a_coroutine() -> Any:
    return _forgets_to_await()


async def _yields_async() -> Any:
    yield "one"


def _yields() -> Any:
    yield "one"


async def _returns_a_generator() -> Any:
    return _yields_async()


NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


@both_drivers
@pytest.mark.parametrize(
    "function",
    [
        Object(),
        functools.partial(_of, "ran"),
        functools.partial(Object()),
        Blocking(),
        _returns_a_coroutine,
        _forgets_to_await,
        _returns_a_coroutine_of_a_coroutine,
    ],
    ids=["object", "partial", "partial of an object", "blocking object", "coroutine", "unawaited", "twice"],
)
def test_whatever_gives_something_to_await_is_awaited(function: Callable[..., Any], driver: str) -> None:
    agent = agent_of(Tool("act", "", NOTHING, function=function), Tool("other", "", NOTHING, function=function))
    turn = run(driver, agent, calls("act", "other"))
    assert [(result.outcome.kind.value, result.content) for result in turn.results] == [("done", "ran")] * 2


@both_drivers
@pytest.mark.parametrize("function", [_yields_async, _yields, _returns_a_generator])
def test_a_generator_is_an_error_that_says_so(function: Callable[..., Any], driver: str) -> None:
    (result,) = run(driver, agent_of(Tool("act", "", NOTHING, function=function)), calls("act")).results
    assert result.outcome.kind.value == "error"
    assert "the tool act gave a generator, which has not run yet" in result.content
    assert "Fix: return a value, such as a list" in result.content


@both_drivers
def test_each_async_tool_has_a_task_and_a_context_of_its_own(driver: str) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    tasks: list[Any] = []

    async def act() -> str:
        before = variable.get()
        variable.set("set")
        tasks.append(anyio.get_current_task().id)
        await anyio.lowlevel.checkpoint()
        return before

    turn = run(driver, agent_of(act), calls("act", "act", "act"))
    assert [result.content for result in turn.results] == ["unset"] * 3
    assert variable.get() == "unset"
    assert driver == "sync" or len(set(tasks)) == 3


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_hundred_async_tools_run_at_the_same_time_on_one_loop(backend: str) -> None:
    here: list[int] = []

    async def main() -> None:
        all_here = anyio.Event()

        async def act() -> str:
            here.append(threading.get_ident())
            if len(here) == 100:
                all_here.set()
            await all_here.wait()
            return "met"

        with anyio.fail_after(10):
            turn = await agent_of(act).ause_tools(calls(*["act"] * 100))
        assert {result.content for result in turn.results} == {"met"}

    anyio.run(main, backend=backend)
    assert set(here) == {threading.get_ident()}


def test_a_blocking_turn_runs_at_most_32_async_tools_at_once_and_all_of_them() -> None:
    lock, full = threading.Lock(), threading.Event()
    now, most = [0], [0]

    async def act() -> str:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
            if now[0] == 32:
                full.set()
        await asyncio.to_thread(full.wait, 10)
        with lock:
            now[0] -= 1
        return "ran"

    turn = agent_of(act).use_tools(calls(*["act"] * 100))
    assert [result.content for result in turn.results] == ["ran"] * 100
    assert most[0] == 32


def test_an_async_tool_of_a_blocking_turn_has_asyncio() -> None:
    async def act() -> str:
        return type(asyncio.get_running_loop()).__name__ + str(inspect.iscoroutinefunction(act))

    (result,) = agent_of(act).use_tools(calls("act")).results
    assert result.content.endswith("LoopTrue")
