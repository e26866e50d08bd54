"""The published statements on the setting of an agent and on the order of a turn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from rules import Says, Telling, decide, deny, kinds, pending
from turns import DRIVERS, Counter, run

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByReadOnly,
    Allowed,
    DecideByHuman,
    Denied,
    DenyByName,
    Human,
    Log,
    MemoryStore,
    Message,
    Permission,
    PermissionWarning,
    Reporter,
    State,
    Tool,
    ToolCall,
    Turn,
    Verdict,
    tool,
)
from agentperm_nb.testing import FakeHuman, tool_call

every_driver = pytest.mark.parametrize("driver", DRIVERS)
on_a_loop = pytest.mark.parametrize("driver", ["asyncio", "trio"])


# ---------------------------------------------------------------------- F: the setting of an agent


@pytest.mark.states("F1")
@every_driver
def test_left_out_permissions_let_read_only_calls_run_and_ask_about_the_rest(driver: str) -> None:
    counter, looks, human = Counter(), Counter("look", read_only=True), FakeHuman(["no"])
    agent = Agent([counter.tool, looks.tool], human=human)
    run(driver, agent, [tool_call("look", n=1)])
    run(driver, agent, [tool_call("act", n=2)])
    assert human.questions == ["Run act(n=2)?"]
    assert (looks.ran, counter.ran) == ([{"n": 1}], [])


@pytest.mark.states("F1")
@every_driver
def test_permissions_none_lets_every_call_run_and_asks_nobody(driver: str) -> None:
    counter, human = Counter(), FakeHuman([])
    turn = run(driver, Agent([counter.tool], permissions=None, human=human), [tool_call("act", n=1)])
    assert counter.ran == [{"n": 1}]
    assert human.questions == []
    assert turn.unchecked


@pytest.mark.states("F1")
@pytest.mark.parametrize(
    "form", [list, tuple, lambda items: dict.fromkeys(items), iter], ids=["list", "tuple", "keys", "iterator"]
)
def test_permissions_are_kept_as_a_tuple_which_nothing_changes(form: Callable[[Any], Any]) -> None:
    items: list[Permission] = [AllowByReadOnly(), DecideByHuman()]
    agent = Agent(permissions=form(items))
    assert agent.permissions == tuple(items)
    with pytest.raises(AttributeError):
        agent.permissions = ()  # type: ignore[misc]


@pytest.mark.states("F1")
@every_driver
def test_a_list_that_changes_after_the_agent_was_made_changes_nothing(driver: str) -> None:
    counter, items = Counter(), list[Permission]()
    agent = Agent([counter.tool], permissions=items)
    items.append(AllowByDefault())
    with pytest.warns(PermissionWarning):
        turn = run(driver, agent, [tool_call("act", n=1)])
    assert turn.results[0].verdict == "denied"
    assert counter.ran == []


@pytest.mark.states("F3")
@every_driver
def test_an_empty_tuple_may_stand_for_a_list_that_denies_and_for_no_checks(driver: str) -> None:
    counter = Counter()
    empty, none = Agent([counter.tool], permissions=[]), Agent([counter.tool], permissions=None)
    assert empty.permissions == none.permissions == ()
    assert [repr(item) for item in Agent().permissions] == ["AllowByReadOnly()", "DecideByHuman()"]
    with pytest.warns(PermissionWarning):
        assert run(driver, empty, [tool_call("act", n=1)]).results[0].verdict == "denied"
    assert counter.ran == []
    assert run(driver, none, [tool_call("act", n=1)]).results[0].verdict == "allowed"


@pytest.mark.states("F5")
@pytest.mark.parametrize(
    "wrong", [FakeHuman, Human, object(), "ann", 5], ids=["a class", "Human itself", "an object", "a name", "a number"]
)
def test_what_is_no_human_is_an_error(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"is not a Human object[\s\S]*Fix:"):
        Agent(human=wrong)


@pytest.mark.states("F5")
@every_driver
def test_the_human_is_found_where_the_agent_runs_unless_one_is_given(
    driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, given = FakeHuman(["yes"]), FakeHuman(["yes"])
    monkeypatch.setattr("agentperm_nb.human._make_default", lambda: found)
    counter = Counter()
    left_out = Agent([counter.tool], permissions=[DecideByHuman()])
    assert repr(left_out.human) == "AUTO"
    run(driver, left_out, [tool_call("act", n=1)])
    run(driver, left_out.copy(human=given), [tool_call("act", n=2)])
    assert (found.questions, given.questions) == (["Run act(n=1)?"], ["Run act(n=2)?"])
    assert left_out.copy(human=None).human is None


# ---------------------------------------------------------------------- H: a turn


@pytest.mark.states("H1")
@every_driver
def test_a_state_without_pending_calls_gives_a_turn_without_calls_and_is_left_alone(driver: str) -> None:
    def say(state: State, call: ToolCall, tool: Tool) -> Verdict | None:
        return Denied("enough", stop=True)

    agent = Agent([Counter().tool], permissions=[Says(say)])
    state = pending("act")
    first = run(driver, agent, state)
    stopped, number, history = state.stopped, state.turn, len(state.history)
    assert first.stopped is stopped is not None
    again = run(driver, agent, state)
    assert isinstance(again, Turn)
    assert (len(again.calls), len(again.results), again.stopped) == (0, 0, None)
    assert (state.stopped, state.turn, len(state.history)) == (stopped, number, history)


@pytest.mark.states("H1")
@every_driver
@pytest.mark.parametrize("wrong", [None, 5, "act", object()], ids=["None", "a number", "a text", "an object"])
def test_what_is_neither_a_reply_nor_a_state_is_an_error(wrong: Any, driver: str) -> None:
    with pytest.raises(TypeError, match="Fix:"):
        run(driver, Agent(permissions=[]), wrong)


@pytest.mark.states("H1")
@on_a_loop
def test_a_state_that_is_finished_before_its_turn_is_awaited_runs_nothing(driver: str) -> None:
    counter, state = Counter(), pending("act")
    agent = Agent([counter.tool], permissions=[AllowByDefault()])

    async def main() -> None:
        turn = agent.ause_tools(state)
        state.finish()
        with pytest.raises(ValueError, match="finished State"):
            await turn

    anyio.run(main, backend=driver)
    assert counter.ran == []
    assert len(state.pending_calls) == 1


@pytest.mark.states("H2")
@on_a_loop
def test_a_turn_that_is_refused_inside_an_async_run_leaves_its_calls_pending(driver: str) -> None:
    counter, state = Counter(), pending("act", "act")
    agent = Agent([counter.tool], permissions=[AllowByDefault()])

    async def blocks() -> None:
        agent.use_tools(state)

    async def main() -> Turn:
        return await Agent([blocks], permissions=[AllowByDefault()]).ause_tools([tool_call("blocks")])

    turn = anyio.run(main, backend=driver)
    assert "was called inside an async run" in turn.results[0].content
    assert len(state.pending_calls) == 2
    assert counter.ran == []
    assert len(run(driver, agent, state)) == 2
    assert len(counter.ran) == 2


@pytest.mark.states("H3")
@every_driver
def test_a_turn_links_the_state_to_the_agent_whose_human_is_asked_by_hand(driver: str) -> None:
    human, state, call = FakeHuman(["yes"]), pending("act"), tool_call("act", n=1)
    agent = Agent([Counter().tool], permissions=[AllowByDefault()], human=human)
    by_hand = DecideByHuman()
    with pytest.raises(ValueError, match="has no Agent yet"):
        by_hand.check(state, call, agent.tools[0])
    run(driver, agent, state)
    assert by_hand.check(state, call, agent.tools[0]) == Allowed()
    assert human.questions == ["Run act(n=1)?"]


@pytest.mark.states("H4", "I1")
@every_driver
def test_a_turn_goes_from_input_errors_to_permissions_to_parallel_calls_to_the_others(driver: str) -> None:
    happened: list[str] = []

    class Watching(Reporter):
        def on_tool_end(self, state: State, call: ToolCall, result: str, outcome: Any) -> None:
            if outcome.kind != "done":
                happened.append(f"{outcome.kind} {call.name}")

    def say(state: State, call: ToolCall, tool: Tool) -> Verdict | None:
        happened.append(f"asked {call.args['n']}")
        return Denied("no") if call.name == "never" else Allowed()

    def beside(n: int) -> None:
        happened.append(f"beside {n}")

    def alone(n: int) -> None:
        happened.append(f"alone {n}")

    agent = Agent(
        [tool(parallel=False)(alone), beside, Counter("never").tool], permissions=[Says(say)], reporter=Watching()
    )
    run(driver, agent, pending("alone", "beside", "nope", "never", "alone"))
    assert happened[:6] == ["input_error nope", "asked 0", "asked 1", "asked 3", "denied never", "asked 4"]
    # Rules are asked once more before a call that starts after another one has ended.
    assert [word for word in happened[6:] if not word.startswith("asked")] == ["beside 1", "alone 0", "alone 4"]


class Watched(MemoryStore):
    """Keeps the kinds of the events of each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[list[str]] = []

    def append(self, events: Any) -> None:
        listed = list(events)
        super().append(listed)
        self.writes.append([event.kind for event in listed])


@pytest.mark.states("H4")
@every_driver
@pytest.mark.parametrize("ask", [False, True], ids=["by rules", "by a person"])
def test_all_that_was_decided_is_written_before_anything_starts(ask: bool, driver: str) -> None:
    store, seen = Watched(), list[list[str]]()

    def act(n: int) -> None:
        seen.append([kind for kinds in store.writes for kind in kinds])

    permissions: list[Permission] = [DenyByName(["never"]), DecideByHuman() if ask else AllowByDefault()]
    agent = Agent(
        [act, tool(parallel=False, name="alone")(act), Counter("never").tool],
        permissions=permissions,
        human=FakeHuman(["yes"] * 3),
        audit=Log(store),
    )
    run(driver, agent, pending("act", "never", "alone", "act", "nope"))
    assert len(seen) == 3
    for written in seen:  # what a tool that runs finds in the log
        assert written.count("decided") == 5
        assert written.count("answered") == (3 if ask else 0)
        assert "started" in written
        assert written.index("started") > max(place for place, kind in enumerate(written) if kind == "decided")


@pytest.mark.states("H5")
@every_driver
@pytest.mark.parametrize("listed", [True, False], ids=["with tools", "without"])
def test_an_unknown_tool_is_an_input_error_that_no_permission_hears_of(listed: bool, driver: str) -> None:
    telling, asked = Telling(), list[str]()
    tools = [Counter("a").tool, Counter("b").tool] if listed else []
    permissions = [DenyByName(["nope"]), deny("deny", asked), decide("decide", asked)]
    for given in (permissions, []):
        agent = Agent(tools, permissions=given, reporter=telling)
        (result,) = run(driver, agent, [tool_call("nope", n=1)]).results
        available = "a, b" if listed else "(none)"
        assert result.content == f"(input error: unknown tool 'nope'. Available tools: {available})"
        assert (result.outcome.kind, result.is_error, result.decided_by) == ("input_error", True, None)
        assert telling.told[-2:] == [("start", "nope"), ("end", "nope", "input_error", result.content)]
    assert asked == []


@pytest.mark.states("H6")
@every_driver
@pytest.mark.parametrize(
    "problem",
    ["arguments are not valid JSON: {", "the reply was cut off at its token limit, so this call is not whole"],
    ids=["not JSON", "cut off"],
)
def test_arguments_that_could_not_be_read_are_an_input_error_that_no_permission_hears_of(
    problem: str, driver: str
) -> None:
    telling, asked, counter = Telling(), list[str](), Counter()
    permissions = [DenyByName(["act"]), deny("deny", asked), decide("decide", asked, Allowed())]
    agent = Agent([counter.tool], permissions=permissions, reporter=telling)
    (result,) = run(driver, agent, [ToolCall("act", {}, "1", invalid=problem)]).results
    assert result.content == f"(input error: {problem})"
    assert telling.told == [("start", "act"), ("end", "act", "input_error", result.content)]
    assert (asked, counter.ran) == ([], [])


@pytest.mark.states("H8")
@every_driver
def test_a_call_that_has_its_result_is_not_asked_about_after_an_exception(driver: str) -> None:
    asked: list[str] = []

    def say(state: State, call: ToolCall, tool: Tool) -> Verdict | None:
        asked.append(call.name)
        if call.name == "fail":
            raise LookupError("no table")
        return Denied("no")

    agent = Agent([Counter(name).tool for name in ("first", "fail", "last")], permissions=[Says(say)])
    state = pending("nope", "first", "fail", "last")
    with pytest.raises(LookupError):
        run(driver, agent, state)
    assert asked == ["first", "fail"]
    assert len(run(driver, agent, state)) == 0
    assert asked == ["first", "fail"]
    assert kinds(state) == ["input_error", "denied", "denied", "aborted"]


@pytest.mark.states("H8")
@every_driver
@pytest.mark.parametrize("agents", [1, 2], ids=["one agent", "two agents"])
def test_calls_that_two_threads_run_at_once_are_each_decided_and_run_once(agents: int, driver: str) -> None:
    for _ in range(5):
        counter, asked, lock = Counter(), list[int](), threading.Lock()

        def say(state: State, call: ToolCall, tool: Tool, asked: Any = asked, lock: Any = lock) -> Verdict | None:
            with lock:
                asked.append(call.args["n"])
            return Allowed()

        state, both = pending(*["act"] * 20), threading.Barrier(2)
        first = Agent([counter.tool], permissions=[Says(say)])
        second = first if agents == 1 else first.copy()
        turns: list[Turn] = []

        def work(agent: Agent, turns: Any = turns, state: Any = state, both: Any = both) -> None:
            both.wait(10)
            turns.append(run(driver, agent, state))

        threads = [threading.Thread(target=work, args=(agent,)) for agent in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(15)
        assert sorted(len(turn) for turn in turns) == [0, 20]
        assert set(asked) == set(range(20))
        assert sorted(args["n"] for args in counter.ran) == list(range(20))
        assert len(state.results) == 20
        assert [block.call_id for block in state.messages[-1].results] == [f"id{place}" for place in range(20)]


@pytest.mark.states("H8", "I6")
@every_driver
def test_calls_stay_pending_while_a_turn_takes_them(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counter, state = Counter(), pending("act", "act")
    agent = Agent([counter.tool], permissions=[AllowByDefault()])
    number, seen = agent.audit.next_turn, list[int]()

    def between(*args: Any, **options: Any) -> int:
        # No turn has begun, and the calls have been taken for one: another thread may look at the state now.
        seen.extend([len(state.pending_calls), len(state.waiting())])
        state.add_message(Message.user("Hurry"))
        return number(*args, **options)

    monkeypatch.setattr(agent.audit, "next_turn", between)
    run(driver, agent, state)
    assert seen == [2, 0]
    assert [message.text or len(message.content) for message in state.messages][:3] == ["Hi", 2, 2]
    assert state.messages[3].text == "Hurry"
    assert len(counter.ran) == 2


@pytest.mark.states("H8")
@every_driver
def test_a_turn_that_cannot_begin_leaves_its_calls_pending(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counter, state = Counter(), pending("act", "act")
    agent = Agent([counter.tool], permissions=[AllowByDefault()])

    def full(*args: Any, **options: Any) -> int:
        raise OSError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(agent.audit, "next_turn", full)
        with pytest.raises(OSError, match="disk full"):
            run(driver, agent, state)
    assert (len(state.pending_calls), counter.ran, len(state.results)) == (2, [], 0)
    assert len(run(driver, agent, state)) == 2
    assert [args["n"] for args in sorted(counter.ran, key=str)] == [0, 1]
