"""The event loop of blocking turns lasts from call to call, and nobody who blocks it holds up the next ones."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import anyio.to_thread
import pytest

from agentperm_nb import (
    Agent,
    AllowByDefault,
    ApprovalDecision,
    DecideByHuman,
    Reporter,
    Tool,
    ToolCall,
    get_run_context,
)
from agentperm_nb.approvals.desk import Answer, the_desk
from agentperm_nb.running import tool_loop
from agentperm_nb.testing import ScriptedModel, tool_call

_WAIT = 10  # seconds; far more than anything here takes


def allowing(*tools: Any, **options: Any) -> Agent:
    return Agent(tools, permissions=[AllowByDefault()], **options)


def contents(agent: Agent, *names: str) -> list[str]:
    turn = agent.use_tools([ToolCall(name) for name in names])
    return [result.content for result in turn.results]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tool_loop, "PATIENCE", 0.05)


@pytest.fixture
def go_on() -> Iterator[threading.Event]:
    """What blocking tools wait for; it is set at the end of the test, so that no loop stays blocked."""
    event = threading.Event()
    yield event
    event.set()


class Client:
    """A connection that is opened by the first call, and kept for those after it."""

    def __init__(self, port: int) -> None:
        self.port, self.opened = port, 0
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._one: asyncio.Lock | None = None

    async def echo(self) -> str:
        """Send a line, and return what comes back."""
        self._one = self._one or asyncio.Lock()
        async with self._one:
            if self._streams is None:
                self.opened += 1
                self._streams = await asyncio.open_connection("127.0.0.1", self.port)
            reader, writer = self._streams
            writer.write(b"hello\n")
            await writer.drain()
            return (await reader.readline()).decode().strip()

    async def close(self) -> str:
        """Close the connection."""
        assert self._streams is not None
        self._streams[1].close()
        await self._streams[1].wait_closed()
        return "closed"


@contextlib.contextmanager
def echo_server() -> Iterator[int]:
    """A server on a thread of its own, which sends back each line; the block is given its port."""
    ready, port = threading.Event(), [0]
    stop: list[Any] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line.upper())
            await writer.drain()
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port[0] = server.sockets[0].getsockname()[1]
        ended = asyncio.Event()
        stop.extend([asyncio.get_running_loop(), ended])
        ready.set()
        async with server:
            await ended.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    assert ready.wait(_WAIT)
    try:
        yield port[0]
    finally:
        stop[0].call_soon_threadsafe(stop[1].set)
        thread.join(_WAIT)


def test_a_client_that_one_call_opened_serves_the_next_turns_and_other_agents() -> None:
    with echo_server() as port:
        client = Client(port)
        agent = allowing(Tool("echo", function=client.echo), Tool("close", function=client.close))
        assert contents(agent, "echo", "echo") == ["HELLO", "HELLO"]
        assert contents(agent, "echo") == ["HELLO"]
        sub = Agent(
            tools=[Tool("echo", function=client.echo)],
            name="helper",
            model=ScriptedModel([tool_call("echo"), lambda messages, tools: messages[-1].results[0].content]),
        )
        lead = Agent(tools=[sub], model=ScriptedModel([tool_call("helper", prompt="Go"), "Done."]),
                     permissions=[AllowByDefault()])  # fmt: skip
        assert lead.run("Go") == "Done."
        assert contents(agent, "close") == ["closed"]
    assert client.opened == 1


def test_what_a_sync_tool_gives_to_await_runs_on_the_same_loop() -> None:
    loops: list[Any] = []

    async def later() -> str:
        loops.append(asyncio.get_running_loop())
        return "later"

    def now() -> Any:
        return later()

    assert contents(allowing(now, later), "now", "later", "now") == ["later"] * 3
    assert len(set(loops)) == 1


def test_a_task_that_a_call_left_running_goes_on_after_its_turn() -> None:
    begun, ended = threading.Event(), threading.Event()
    go_on: list[asyncio.Event] = []
    kept: list[Any] = []

    async def start() -> str:
        async def work() -> None:
            begun.set()
            await go_on[0].wait()
            ended.set()

        go_on.append(asyncio.Event())
        kept.append(asyncio.create_task(work()))
        return "started"

    async def finish() -> str:
        go_on[0].set()
        return "finished"

    agent = allowing(start, finish)
    assert contents(agent, "start") == ["started"]
    assert begun.wait(_WAIT)
    assert contents(agent, "finish") == ["finished"]
    assert ended.wait(_WAIT)


@pytest.mark.parametrize("form", ["awaiting", "blocking"])
def test_calls_inside_a_call_are_asked_about_on_the_thread_that_is_blocked(form: str) -> None:
    """A person at a panel, which works on the thread of the cell only, approves what an async tool asks for."""
    attended: list[tuple[int, tuple[str, ...]]] = []

    class Panel:
        batch, answered_by = True, "human"

        async def areview(self, requests: Any) -> Any:
            raise AssertionError("it works on the thread of the cell")
            yield

        def attend(self, requests: Any) -> Any:
            def serve(seconds: float) -> None:
                for request in requests:
                    if the_desk.answer(request.id, Answer(ApprovalDecision("allow"))):
                        attended.append((threading.get_ident(), request.agent_path))

            return contextlib.nullcontext(serve)

    async def inner() -> str:
        context = get_run_context()
        assert context is not None
        return "/".join(context.agent_path)

    sub = Agent([inner], name="sub", permissions=[DecideByHuman()])

    async def outer() -> str:
        calls = [ToolCall("inner"), ToolCall("inner")]
        turn = await sub.ause_tools(calls) if form == "awaiting" else sub.use_tools(calls)
        return " ".join(result.content for result in turn.results)

    agent = Agent([outer], name="main", permissions=[AllowByDefault()], human=Panel())
    assert contents(agent, "outer") == ["main/sub main/sub"]
    assert attended == [(threading.get_ident(), ("main", "sub"))] * 2


def test_a_blocking_turn_inside_an_async_tool_does_not_wait_for_the_loop_that_it_blocks() -> None:
    async def deepest() -> str:
        await asyncio.sleep(0)
        return "there"

    def level(function: Any, name: str) -> Any:
        agent = Agent([Tool(name, function=function)], permissions=[AllowByDefault()])

        async def above() -> str:
            return contents(agent, name)[0]  # blocks the loop

        return above

    agent = allowing(Tool("top", function=level(level(deepest, "deepest"), "middle")))
    assert contents(agent, "top", "top") == ["there", "there"]
    assert contents(agent, "top") == ["there"]


@pytest.mark.usefixtures("impatient")
def test_an_async_tool_that_blocks_holds_up_no_call_that_comes_after_it(go_on: threading.Event) -> None:
    async def blocks() -> str:
        assert go_on.wait(_WAIT)
        return "blocked"

    async def lets_go() -> str:
        go_on.set()
        return "let go"

    assert contents(allowing(blocks, lets_go), "blocks", "lets_go") == ["blocked", "let go"]


@pytest.mark.usefixtures("impatient")
def test_a_loop_that_stays_blocked_is_left_to_itself(go_on: threading.Event) -> None:
    async def blocks() -> None:
        assert go_on.wait(_WAIT)

    async def quick() -> str:
        return "quick"

    agent = allowing(Tool("blocks", function=blocks, timeout=0.05), quick)
    assert contents(agent, "blocks") == ["timed out after 0.05 s"]
    assert contents(agent, "quick", "quick") == ["quick", "quick"]


@pytest.mark.usefixtures("impatient")
def test_a_loop_that_is_free_again_is_used_again(go_on: threading.Event) -> None:
    loops: list[Any] = []
    held: list[Any] = []
    freed = threading.Event()

    async def here() -> str:
        loops.append(asyncio.get_running_loop())
        return "here"

    async def blocks() -> None:
        held.append(asyncio.get_running_loop())
        held[0].call_later(0, freed.set)
        assert go_on.wait(_WAIT)

    agent = allowing(here, Tool("blocks", function=blocks, timeout=0.05))
    contents(agent, "here")
    first = tool_loop._loops[0].loop
    while loops[-1] is not first:  # what an earlier test has blocked is free by now, and noted so when it is asked
        contents(agent, "here")
    loops.clear()
    assert contents(agent, "blocks") == ["timed out after 0.05 s"]
    assert contents(agent, "here", "here") == ["here", "here"]
    assert held[0] not in loops
    go_on.set()
    assert freed.wait(_WAIT)
    while loops[-1] is not first:
        contents(agent, "here")


@pytest.mark.usefixtures("impatient")
def test_a_call_that_its_turn_gave_up_before_it_began_never_runs(go_on: threading.Event) -> None:
    begun, ran = threading.Event(), list[str]()

    async def blocks() -> None:
        begun.set()
        assert go_on.wait(_WAIT)

    async def act() -> None:
        ran.append("act")

    class Interrupting(Reporter):
        def on_tool_start(self, state: Any, call: ToolCall) -> None:
            if call.name == "act":
                assert begun.wait(_WAIT)
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        allowing(blocks, act, reporter=Interrupting()).use_tools([ToolCall("blocks"), ToolCall("act")])
    go_on.set()
    assert contents(allowing(act), "act") == ["(done)"]
    assert ran == ["act"]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=lambda error: type(error).__name__)
def test_what_would_end_a_program_ends_neither_the_loop_nor_the_turn(error: BaseException) -> None:
    async def careless() -> str:
        async def work() -> None:
            raise error

        with contextlib.suppress(BaseException):
            await asyncio.create_task(work())
        return "careless"

    async def raises() -> None:
        raise error

    async def fine() -> str:
        await asyncio.sleep(0)
        return "fine"

    agent = allowing(careless, raises, fine)
    told = f"RuntimeError: the tool raised {type(error).__name__}"
    assert contents(agent, "careless", "raises", "fine") == ["careless", told, "fine"]
    assert contents(agent, "fine") == ["fine"]


_AT_EXIT = """
import asyncio, contextlib
from agentperm_nb import Agent, AllowByDefault, ToolCall
kept = []
async def act() -> str:
    async def work():
        try:
            await asyncio.sleep(3600)
        finally:
            print("tidied up", flush=True)
    kept.append(asyncio.create_task(work()))
    await asyncio.sleep(0)
    return "acted"
print(Agent([act], permissions=[AllowByDefault()]).use_tools([ToolCall("act")]).results[0].content, flush=True)
"""
_FORKED = """
import os
from agentperm_nb import Agent, AllowByDefault, ToolCall
async def act() -> str:
    return "acted"
def turn():
    return Agent([act], permissions=[AllowByDefault()]).use_tools([ToolCall("act")]).results[0].content
print(turn(), flush=True)
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    print(turn(), flush=True)
"""


@pytest.mark.parametrize(
    ("code", "printed"), [(_AT_EXIT, ["acted", "tidied up"]), (_FORKED, ["acted", "acted"])], ids=["exit", "fork"]
)
def test_the_loop_ends_with_its_process(code: str, printed: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=15, check=False)
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (printed, "", 0)


def test_turns_on_many_threads_share_the_loop() -> None:
    loops: list[Any] = []
    everybody = threading.Barrier(8)

    async def act() -> str:
        loops.append(asyncio.get_running_loop())
        await anyio.to_thread.run_sync(everybody.wait, _WAIT)
        return "met"

    told: list[list[str]] = []
    threads = [threading.Thread(target=lambda: told.append(contents(allowing(act), "act"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_WAIT)
    assert told == [["met"]] * 8
    assert len(set(loops)) == 1
