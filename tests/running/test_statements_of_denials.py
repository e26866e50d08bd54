"""The published statements on denied calls and on stops."""

from __future__ import annotations

import pickle
import threading
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from rules import Says, Telling, arun, kinds, pending
from turns import DRIVERS, Counter, run

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByName,
    Allowed,
    DecideByHuman,
    DecidePermission,
    Denied,
    DenyByName,
    DenyPermission,
    Message,
    Permission,
    Reporter,
    State,
    StoppedByFinish,
    StoppedByPermission,
    StoppedByUntil,
    Tool,
    ToolCall,
    Turn,
    Verdict,
    loop,
)
from agentperm_nb.testing import FakeHuman, ScriptedModel, tool_call

every_driver = pytest.mark.parametrize("driver", DRIVERS)


class Stops(DenyPermission):
    """Denies and stops at the tool ``stop``."""

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Denied | None:
        return Denied("That is enough.", stop=True) if call.name == "stop" else None


class Decides(DecidePermission):
    """Does the same, as a permission that may allow, too."""

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        return Denied("That is enough.", stop=True) if call.name == "stop" else None


def agent_with(*names: str, **options: Any) -> tuple[Agent, dict[str, Counter]]:
    """An agent with tools that count."""
    counters = {name: Counter(name) for name in names}
    options.setdefault("permissions", [Stops(), AllowByDefault()])
    return Agent([counter.tool for counter in counters.values()], **options), counters


# ---------------------------------------------------------------------- L: denied


@pytest.mark.states("L1", "L2")
@every_driver
def test_a_denied_call_has_one_entry_with_its_reason_and_the_others_go_on(driver: str) -> None:
    telling, state = Telling(), pending("act", "never", "act")
    agent, counters = agent_with("act", "never", permissions=[DenyByName(["never"], "Never."), AllowByDefault()])
    run(driver, agent.copy(reporter=telling), state)
    (entry,) = [entry for entry in state.history if entry.kind == "tool_result" and entry.call.name == "never"]
    assert (entry.outcome.kind, entry.content, entry.is_error) == ("denied", "Never.", True)
    assert (entry.error, entry.outcome.error, entry.late) == (None, None, False)
    assert entry.decided_by == "DenyByName(['never'], reason='Never.')"
    assert (len(counters["act"].ran), counters["never"].ran) == (2, [])
    assert ("end", "never", "denied", "Never.") in telling.told
    assert ("start", "never") not in telling.told
    assert [(block.content, block.is_error) for block in state.messages[-1].results] == [
        ("ran {'n': 0}", False),
        ("Never.", True),
        ("ran {'n': 2}", False),
    ]


@pytest.mark.states("L3")
@every_driver
def test_the_results_of_a_turn_become_one_message_when_the_last_one_is_there(driver: str) -> None:
    second_is_over, lengths = threading.Event(), list[int]()

    class Watching(Reporter):
        def on_tool_end(self, state: State, call: ToolCall, result: str, outcome: Any) -> None:
            lengths.append(len(state.messages))
            if call.name == "second":
                second_is_over.set()

    def first(n: int) -> str:
        assert second_is_over.wait(10)
        return "one"

    def second(n: int) -> str:
        return "two"

    state = pending("first", "second", "nope")
    run(driver, Agent([first, second], permissions=[AllowByDefault()], reporter=Watching()), state)
    assert lengths == [2, 2, 3]  # what the user said, the calls, and at the end the results
    assert [result.call.name for result in state.results] == ["nope", "second", "first"]
    (message,) = [message for message in state.messages if message.results]
    assert message is state.messages[-1]
    assert (message.role, len(message.content)) == ("user", 3)
    assert [(block.call_id, block.name, block.content, block.is_error) for block in message.results] == [
        ("id0", "first", "one", False),
        ("id1", "second", "two", False),
        ("id2", "nope", "(input error: unknown tool 'nope'. Available tools: first, second)", True),
    ]


@pytest.mark.states("L3")
@every_driver
def test_two_turns_of_one_state_at_the_same_time_have_a_message_each(driver: str) -> None:
    running, go_on = threading.Event(), threading.Event()

    def slow(n: int) -> str:
        running.set()
        assert go_on.wait(10)
        return f"slow {n}"

    def quick(n: int) -> str:
        return f"quick {n}"

    agent, turns = Agent([slow, quick], permissions=[AllowByDefault()]), list[Turn]()
    one = threading.Thread(target=lambda: turns.append(run(driver, agent, [tool_call("slow", n=n) for n in (1, 2)])))
    one.start()
    assert running.wait(10)
    turns.append(run(driver, agent, [tool_call("quick", n=3), tool_call("quick", n=4)]))
    agent.state.add_message(Message.user("And then?"))  # a turn is still at it
    assert [call.args["n"] for call in agent.state.pending_calls] == [1, 2]
    go_on.set()
    one.join(10)
    told = [
        [block.content for block in message.results] or message.text or [call.args["n"] for call in message.tool_calls]
        for message in agent.state.messages
    ]
    assert told == [[3, 4], ["quick 3", "quick 4"], [1, 2], ["slow 1", "slow 2"], "And then?"]
    assert sorted(turn.number for turn in turns) == [1, 2]


# ---------------------------------------------------------------------- M: denied with stop


@pytest.mark.states("M1", "M2", "M3", "M4")
@every_driver
@pytest.mark.parametrize("kind", [Stops, Decides], ids=["a deny", "a decide"])
@pytest.mark.parametrize("order", [1, -1], ids=["rules first", "rules last"])
def test_a_stop_closes_its_turn_as_one_step(kind: type[Permission], order: int, driver: str) -> None:
    telling, asked = Telling(), list[str]()

    def say(state: State, call: ToolCall, tool: Tool) -> Verdict | None:
        asked.append(call.name)
        return Denied("Not this.") if call.name == "never" else None if call.name == "stop" else Allowed()

    stop = kind()
    agent, counters = agent_with("act", "never", "stop", permissions=[Says(say), stop][::order], reporter=telling)
    state = pending("nope", "act", "never", "stop", "act", "stop")
    call = state.pending_calls[3]
    turn = run(driver, agent, state)
    cancelled = "(not run: the user stopped this turn)"
    told = [
        ("nope", "input_error", "(input error: unknown tool 'nope'. Available tools: act, never, stop)"),
        ("never", "denied", "Not this."),
        ("stop", "denied", "That is enough."),
        ("act", "cancelled", cancelled),
        ("act", "cancelled", cancelled),
        ("stop", "cancelled", cancelled),
    ]
    assert [(result.call.name, result.outcome.kind, result.content) for result in state.results] == told
    assert [entry.kind for entry in state.history][-5:] == [*["tool_result"] * 4, "stop"]
    assert [result.call_key[-1] for result in state.results[3:]] == ["1", "4", "5"]
    assert {result.decided_by for result in state.results[2:]} == {repr(stop)}
    assert telling.told == [("start", "nope"), *(("end", *one) for one in told)]
    # Nothing after the stop is asked about, and of the call itself only what stands before the permission that stops.
    assert asked == ["act", "never", *(["stop"] if kind is Decides and order == 1 else [])]
    assert all(counter.ran == [] for counter in counters.values())
    assert turn.stopped == state.stopped == StoppedByPermission(call, repr(stop))
    assert (state.finished, state.pending_calls) == (False, ())


@pytest.mark.states("M1", "M2")
@every_driver
def test_a_no_cancels_what_was_approved_and_what_a_rule_allowed(driver: str) -> None:
    human = FakeHuman(["yes", "no", "yes"])
    agent, counters = agent_with("act", "free", permissions=[AllowByName(["free"]), DecideByHuman()], human=human)
    state = pending("free", "act", "act", "act", "nope")
    run(driver, agent, state)
    assert kinds(state) == ["input_error", "denied", "cancelled", "cancelled", "cancelled"]
    assert {result.decided_by for result in state.results[1:]} == {"DecideByHuman()"}
    assert len(human.questions) == 2
    assert all(counter.ran == [] for counter in counters.values())
    assert isinstance(state.stopped, StoppedByPermission)


@pytest.mark.states("M5")
@every_driver
def test_a_plain_loop_sees_the_stop_by_itself(driver: str) -> None:
    agent, counters = agent_with("stop", "act", model=ScriptedModel([tool_call("stop"), "Never said."]))
    state, turns = State([Message.user("Hi")]), 0
    while state.stopped is None:
        agent.think(state)
        assert run(driver, agent, state).stopped is state.stopped
        turns += 1
    assert turns == 1
    assert state.answer is None
    assert counters["stop"].ran == []


@pytest.mark.states("M5", "M7")
@every_driver
def test_a_turn_later_in_the_same_run_does_not_forget_the_stop(driver: str) -> None:
    replies = [tool_call("stop", n=1), tool_call("act", n=2), "Never said."]

    def body(agent: Agent, state: State) -> None:
        for _ in range(2):  # a loop that does not look whether it is to stop
            agent.think(state)
            agent.use_tools(state)

    async def abody(agent: Agent, state: State) -> None:
        for _ in range(2):
            await agent.athink(state)
            await agent.ause_tools(state)

    model = ScriptedModel(replies)
    agent, _ = agent_with("stop", "act", model=model, loop=loop(body if driver == "sync" else abody))
    state = State([Message.user("Hi")])
    arun(driver, agent, state)
    assert isinstance(state.stopped, StoppedByPermission)
    assert model.remaining == 1


@pytest.mark.states("M6")
@every_driver
def test_a_stop_after_a_finish_closes_the_calls_and_leaves_no_entry(driver: str) -> None:
    def say(state: State, call: ToolCall, tool: Tool) -> Verdict | None:
        state.finish("done before")
        return None

    agent, counters = agent_with("stop", "act", permissions=[Says(say), Decides(), AllowByDefault()])
    state = pending("act", "stop", "act")
    run(driver, agent, state)
    assert kinds(state) == ["denied", "cancelled", "cancelled"]
    assert {entry.content for entry in state.history if entry.kind == "stop"} == {StoppedByFinish("done before")}
    assert (state.stopped, state.finished, state.pending_calls) == (StoppedByFinish("done before"), True, ())
    assert counters["act"].ran == []


@pytest.mark.states("M7")
@every_driver
@pytest.mark.parametrize("more", [False, True], ids=["as it is", "with a new message"])
def test_the_run_after_a_stop_sees_the_results(more: bool, driver: str) -> None:
    model = ScriptedModel([[tool_call("act", n=1), tool_call("stop", n=2)], "I see."])
    agent, _ = agent_with("stop", "act", model=model)
    state = State([Message.user("Hi")])
    assert arun(driver, agent, state) is None
    if more:
        state.add_message(Message.user("Go on"))
    assert arun(driver, agent, state) == "I see."
    assert state.stopped == StoppedByUntil("waiting_for_user")
    messages = model.requests[-1][0]
    assert [block.content for block in messages[2].results] == [
        "(not run: the user stopped this turn)",
        "That is enough.",
    ]
    assert [message.text for message in messages[3:]] == (["Go on"] if more else [])


@pytest.mark.states("M8")
@every_driver
def test_a_run_that_ends_in_an_exception_after_a_stop_is_not_stopped(driver: str) -> None:
    def body(agent: Agent, state: State) -> None:
        agent.think(state)
        agent.use_tools(state)
        seen.append(state.stopped)
        raise OSError("disk full")

    async def abody(agent: Agent, state: State) -> None:
        await agent.athink(state)
        await agent.ause_tools(state)
        seen.append(state.stopped)
        raise OSError("disk full")

    seen: list[Any] = []
    agent, _ = agent_with(
        "stop", model=ScriptedModel([tool_call("stop", n=1)]), loop=loop(body if driver == "sync" else abody)
    )
    state = State([Message.user("Hi")])
    with pytest.raises(OSError, match="disk full"):
        arun(driver, agent, state)
    assert isinstance(seen[0], StoppedByPermission)
    assert state.stopped is None
    assert state.pending_calls == ()


@every_driver
def test_a_run_that_fails_with_calls_pending_and_its_state_finished_closes_them(driver: str) -> None:
    def body(agent: Agent, state: State) -> None:
        agent.think(state)
        state.finish("enough")
        raise OSError("disk full")

    async def abody(agent: Agent, state: State) -> None:
        await agent.athink(state)
        state.finish("enough")
        raise OSError("disk full")

    calls = [tool_call("act", n=n) for n in range(6)]
    agent, counters = agent_with("act", model=ScriptedModel([calls]), loop=loop(body if driver == "sync" else abody))
    state = State([Message.user("Hi")])
    with pytest.raises(OSError, match="disk full"):
        arun(driver, agent, state)
    assert [result.content for result in state.results] == ["(aborted: OSError)"] * 6
    assert [entry.content for entry in state.history if entry.kind == "error"] == ["OSError: disk full"]
    assert (state.pending_calls, counters["act"].ran) == ((), [])


@pytest.mark.states("M9")
def test_who_stopped_is_frozen_says_so_and_can_be_kept() -> None:
    call = tool_call("act", n=1)
    stopped = StoppedByPermission(call, "DecideByHuman()")
    assert (stopped.call, stopped.permission) == (call, "DecideByHuman()")
    assert str(stopped) == "stopped by permission DecideByHuman()"
    with pytest.raises(FrozenInstanceError):
        stopped.call = call  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(stopped)) == stopped


class Noting:
    """The lock of a state, which notes how many entries there were each time that another thread could have it."""

    def __init__(self, state: State) -> None:
        self._lock, self._state, self._depth = state.lock, state, 0
        self.free_at: set[int] = set()

    def __enter__(self) -> None:
        self._lock.acquire()
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self.free_at.add(len(self._state._history))
        self._lock.release()


@pytest.mark.states("M10")
@every_driver
def test_no_other_thread_gets_an_entry_between_the_closing_ones_and_the_stop(driver: str) -> None:
    def say(state: State, call: ToolCall, tool: Tool) -> Verdict | None:
        other = threading.Thread(target=state.add_message, args=(Message.user("Me, too"),))
        other.start()
        other.join(10)  # it is held until the results are there
        return None

    agent, _ = agent_with("act", "stop", permissions=[Says(say), Decides(), AllowByDefault()])
    state = pending("act", "stop", "act")
    state.lock = lock = Noting(state)  # type: ignore[assignment]
    before = len(state.history)
    run(driver, agent, state)
    assert [entry.kind for entry in state.history][before:] == [*["tool_result"] * 3, "stop", *["message"] * 2]
    assert lock.free_at == {before, before + 6}
    assert [message.text for message in state.messages[-2:]] == ["Me, too"] * 2
