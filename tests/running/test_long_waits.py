"""Nobody is cut off after a time of nobody's choosing: turns on clocks that do not wait."""

from __future__ import annotations

import asyncio
import queue
import selectors
import threading
import types
from collections.abc import Callable
from typing import Any

import anyio
import pytest
import trio.testing

from agentperm_nb import Agent, DecideByHuman, DecidePermission, Human, Tool, ToolCall, Turn, Verdict, tool
from agentperm_nb.running import driving_blocking
from agentperm_nb.testing import tool_call

on_a_loop = pytest.mark.parametrize("driver", ["asyncio", "trio"])

LONG = 300.0
"""Seconds that somebody takes."""


class _Jumping(selectors.DefaultSelector):
    """Waits for nothing: the time that would have passed is counted."""

    skipped = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is not None:
            self.skipped += max(0.0, timeout)
            timeout = 0
        return super().select(timeout)


class _JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop of asyncio whose clock goes to the next timer at once."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return super().time() + self._jumping.skipped


def clock(driver: str) -> dict[str, Any]:
    if driver == "trio":
        return {"clock": trio.testing.MockClock(autojump_threshold=0)}
    return {"loop_factory": _JumpingLoop}


class Slow:
    """A permission, a human and a tool, one of which takes a long time."""

    def __init__(self, who: str, wait: Callable[[], Any]) -> None:
        self.who, self.wait, self.ran = who, wait, 0

    def agent(self, *, awaits: bool) -> Agent:
        slow = self

        async def takes(who: str) -> None:
            if slow.who == who:
                await slow.wait()

        class Check(DecidePermission):
            if awaits:

                async def acheck(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
                    await takes("a permission")
                    return None

            else:

                def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
                    return None  # it has the thread to itself: nothing could cut it off

        class Person(Human):
            if awaits:

                async def aask(self, state: Any, prompt: str, returns: Any = str) -> Any:
                    await takes("a human")
                    return "yes"

            else:

                def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
                    if slow.who == "a human":
                        slow.wait()
                    return "yes"

        async def aact() -> None:
            await takes("a tool")
            slow.ran += 1

        def act() -> None:
            if slow.who == "a tool":
                slow.wait()
            slow.ran += 1

        return Agent(
            [tool(name="act")(aact if awaits else act)], permissions=[Check(), DecideByHuman()], human=Person()
        )


@pytest.mark.states("H9")
@pytest.mark.parametrize("who", ["a permission", "a human", "a tool"])
@on_a_loop
def test_nobody_is_cut_off_after_a_long_time(who: str, driver: str) -> None:
    slow = Slow(who, lambda: anyio.sleep(LONG))

    async def main() -> tuple[Turn, float]:
        began = anyio.current_time()
        turn = await slow.agent(awaits=True).ause_tools([tool_call("act")])
        return turn, anyio.current_time() - began

    turn, took = anyio.run(main, backend=driver, backend_options=clock(driver))
    assert took >= LONG
    assert turn.results[0].outcome.kind == "done"
    assert slow.ran == 1


@pytest.mark.states("H9")
@pytest.mark.parametrize("who", ["a human", "a tool"])
def test_a_blocking_turn_cuts_nobody_off_after_a_long_time(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    enough, waited = threading.Event(), [0.0]

    class Hasty:
        """A queue that does not wait, until a long time would have passed."""

        def __init__(self) -> None:
            self._queue = queue.SimpleQueue[Any]()
            self.put = self._queue.put

        def get(self, *, block: bool, timeout: float) -> Any:
            if not block or waited[0] >= LONG:
                return self._queue.get(block, timeout)
            waited[0] += timeout
            if waited[0] >= LONG:
                enough.set()
            return self._queue.get_nowait()

    slow = Slow(who, lambda: enough.wait(15))
    monkeypatch.setattr(driving_blocking, "queue", types.SimpleNamespace(SimpleQueue=Hasty, Empty=queue.Empty))
    turn = slow.agent(awaits=False).use_tools([tool_call("act")])
    assert waited[0] >= LONG
    assert turn.results[0].outcome.kind == "done"
    assert slow.ran == 1
