"""Runs: a model, a loop, and what a state and a reporter are told."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any, Literal

import anyio
import anyio.lowlevel
import pytest
from turns import Counter

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByName,
    AllowByReadOnly,
    DecideByHuman,
    DecidePermission,
    Denied,
    DenyByName,
    DenyPermission,
    Human,
    Image,
    Message,
    NoHumanError,
    Permission,
    Reporter,
    State,
    StoppedByFinish,
    StoppedByLimit,
    StoppedByPermission,
    StoppedByUntil,
    ToolCall,
    ToolError,
    adefault_loop,
    default_loop,
    get_run_context,
    loop,
    tool,
    waiting_for_user,
)
from agentperm_nb.testing import FakeHuman, ScriptedModel, tool_call

DRIVERS = ("sync", "asyncio", "trio")
both_drivers = pytest.mark.parametrize("driver", DRIVERS)


def run(driver: str, agent: Agent, what: str | State) -> Any:
    """Do a run with ``run``, or with ``arun`` on an event loop of its own."""
    if driver == "sync":
        return agent.run(what)

    async def main() -> Any:
        return await agent.arun(what)

    return anyio.run(main, backend=driver)


def think(driver: str, agent: Agent, state: State, **options: Any) -> None:
    if driver == "sync":
        agent.think(state, **options)
    else:
        anyio.run(lambda: agent.athink(state, **options), backend=driver)


def ask(driver: str, agent: Agent, state: State, *args: Any) -> Any:
    if driver == "sync":
        return agent.ask_human(state, *args)
    return anyio.run(agent.aask_human, state, *args, backend=driver)


def agent_of(*replies: Any, **options: Any) -> tuple[Agent, Counter, ScriptedModel]:
    """An agent with a model that says these things, and the tools `act` (counted) and `look`."""
    counter, model = Counter(), ScriptedModel(replies)

    def look() -> str:
        """Look."""
        return "nothing"

    options.setdefault("permissions", [AllowByDefault()])
    return Agent(tools=[counter.tool, tool(read_only=True)(look)], model=model, **options), counter, model


class Telling(Reporter):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.seen: list[Any] = []

    def on_run_start(self, state: State) -> None:
        self.told.append(("run start",))

    def on_run_end(self, state: State, error: BaseException | None) -> None:
        self.told.append(("run end", type(error).__name__ if error else None))

    def on_think_start(self, state: State) -> None:
        self.told.append(("think start", state.turn))

    def on_think_end(self, state: State, reply: Message) -> None:
        self.told.append(("think end", reply.text or len(reply.tool_calls)))

    def on_tool_start(self, state: State, call: ToolCall) -> None:
        self.told.append(("start", call.name))

    def on_tool_end(self, state: State, call: ToolCall, result: str, outcome: Any) -> None:
        self.told.append(("end", call.name, str(outcome.kind), outcome.decided_by))
        self.seen.append((state.stopped, state.pending_calls, result))


# ---------------------------------------------------------------------- a run


@both_drivers
def test_a_prompt_becomes_an_answer(driver: str) -> None:
    agent, counter, model = agent_of([tool_call("act", n=1), tool_call("look")], "Done.", instructions="Be brief.")
    assert run(driver, agent, "Do it") == "Done."
    assert counter.ran == [{"n": 1}]
    (first, tools), (second, _) = model.requests
    assert [(message.role, message.text) for message in first] == [("system", "Be brief."), ("user", "Do it")]
    assert [spec.name for spec in tools] == ["act", "look"]
    results = second[-1].results
    assert [(block.name, block.content, block.is_error) for block in results] == [
        ("act", "ran {'n': 1}", False),
        ("look", "nothing", False),
    ]
    assert len(agent.turns) == 1


@both_drivers
def test_a_state_is_gone_on_with(driver: str) -> None:
    agent, _, model = agent_of(tool_call("look"), "First.", "Second.")
    state = State([Message.user("One")])
    assert run(driver, agent, state) == "First."
    assert state.stopped == StoppedByUntil("waiting_for_user")
    state.add_message(Message.user("Two"))
    assert run(driver, agent, state) == "Second."
    assert [message.role for message in model.requests[-1][0]] == ["user", "assistant", "user", "assistant", "user"]
    assert state.turn == 3


@both_drivers
def test_a_run_takes_no_more_turns_than_it_may(driver: str) -> None:
    agent, counter, _ = agent_of(*[tool_call("act", n=n) for n in range(9)], turn_limit=3)
    state = State([Message.user("Go on for ever")])
    assert run(driver, agent, state) is None
    assert len(counter.ran) == 3
    assert state.stopped == StoppedByLimit(3)
    assert str(state.stopped) == "stopped at limit 3"


@both_drivers
def test_turns_of_a_run_are_numbered_and_its_calls_have_keys_of_their_own(driver: str) -> None:
    agent, _, _ = agent_of(tool_call("look"), [tool_call("look"), tool_call("look")], "Done.")
    state = State([Message.user("Look")], id="mine")
    run(driver, agent, state)
    assert sorted(result.call_key for result in state.results) == ["mine/1/0", "mine/2/0", "mine/2/1"]
    assert list(agent.audit.calls()["call_key"]) == ["mine/1/0", "mine/2/0", "mine/2/1"]
    assert [result.turn for result in state.results] == [1, 2, 2]


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        (7, TypeError, "run takes a prompt or a State (got: int)"),
        ("  ", ValueError, "run got an empty prompt"),
        (None, TypeError, "run takes a prompt or a State"),
    ],
    ids=["a number", "blank", "None"],
)
@both_drivers
def test_what_is_no_prompt_is_an_error(driver: str, given: Any, error: type[Exception], says: str) -> None:
    agent, _, model = agent_of("Hi.")
    with pytest.raises(error) as caught:
        run(driver, agent, given)
    assert says in str(caught.value)
    assert "Fix:" in str(caught.value)
    assert model.requests == []


@both_drivers
def test_an_agent_without_a_model_says_what_to_do(driver: str) -> None:
    with pytest.raises(TypeError, match=r"has no model[\s\S]*Fix: give one; or ask the model yourself"):
        run(driver, Agent(), "Hi")


@pytest.mark.parametrize("model", ["gpt-5", ScriptedModel, 5], ids=["a name", "a class", "a number"])
def test_what_is_no_model_is_an_error_when_the_agent_is_made(model: Any) -> None:
    with pytest.raises(TypeError, match="model= takes"):
        Agent(model=model)


def test_a_model_may_be_a_function_sync_or_async_and_an_object() -> None:
    def answers(messages: Any, tools: Any) -> str:
        return f"{len(messages)} messages"

    async def awaited(messages: Any, tools: Any) -> str:
        await anyio.lowlevel.checkpoint()
        return "awaited"

    assert Agent(model=answers).run("Hi") == "1 messages"
    assert run("asyncio", Agent(model=answers), "Hi") == "1 messages"
    assert run("trio", Agent(model=awaited), "Hi") == "awaited"
    assert Agent(model=awaited).is_async
    with pytest.raises(TypeError, match=r"answers only asynchronously[\s\S]*arun"):
        Agent(model=awaited).run("Hi")


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (None, TypeError),
        (7, TypeError),
        ({"text": "Hi"}, TypeError),
        (Message.user("I am the user"), ValueError),
        ([None], TypeError),
    ],
    ids=["None", "a number", "a dict of no API", "a user's message", "a list of something else"],
)
@both_drivers
def test_a_reply_that_is_none_is_an_error_and_the_state_is_as_before(
    driver: str, reply: Any, error: type[Exception]
) -> None:
    agent, _, _ = agent_of(reply)
    state = State([Message.user("Hi")])
    with pytest.raises(error):
        think(driver, agent, state)
    assert (state.turn, len(state.messages), state.pending_calls) == (0, 1, ())
    assert [entry.kind for entry in state.history] == ["message", "error"]


@both_drivers
def test_a_model_that_fails_ends_the_run_and_the_state_can_be_run_again(driver: str) -> None:
    agent, counter, _ = agent_of(tool_call("act", n=1), ConnectionError("no network"), "Back again.")
    state = State([Message.user("Hi")])
    with pytest.raises(ConnectionError, match="no network"):
        run(driver, agent, state)
    assert state.stopped is None
    assert state.turn == 1
    assert [entry.content for entry in state.history if entry.kind == "error"] == ["ConnectionError: no network"]
    assert run(driver, agent, state) == "Back again."
    assert counter.ran == [{"n": 1}]


def test_a_run_of_a_state_that_is_being_run_is_refused() -> None:
    state = State([Message.user("Hi")])

    def again(messages: Any, tools: Any) -> Any:
        with pytest.raises(ValueError, match="is being run already"):
            Agent(model=ScriptedModel(["x"])).run(state)
        return "Done."

    assert Agent(model=again).run(state) == "Done."


# ---------------------------------------------------------------------- thinking


@both_drivers
def test_thinking_twice_without_running_the_calls_is_refused(driver: str) -> None:
    agent, _, model = agent_of(tool_call("act", n=1), "never")
    state = State([Message.user("Hi")])
    think(driver, agent, state)
    assert [call.name for call in state.pending_calls] == ["act"]
    with pytest.raises(ValueError, match=r"has calls without a result[\s\S]*use_tools\(state\)"):
        think(driver, agent, state)
    assert model.remaining == 1


@both_drivers
def test_thinking_needs_messages_and_an_unfinished_state(driver: str) -> None:
    agent, _, _ = agent_of("never")
    with pytest.raises(ValueError, match="has no messages"):
        think(driver, agent, State())
    state = State([Message.user("Hi")])
    state.finish()
    with pytest.raises(ValueError, match="finished State"):
        think(driver, agent, state)
    with pytest.raises(TypeError, match="think takes a State"):
        think(driver, agent, "Hi")  # type: ignore[arg-type]


@both_drivers
def test_the_model_may_be_told_of_some_tools_only(driver: str) -> None:
    agent, _, model = agent_of("One.", "Two.")
    state = State([Message.user("Hi")])
    think(driver, agent, state, tools=["look"])
    state.add_message(Message.user("And now"))
    think(driver, agent, state, tools=[])
    assert [[spec.name for spec in tools] for _, tools in model.requests] == [["look"], []]
    with pytest.raises(ValueError, match=r"has no tool 'rm'\. Available tools: act, look"):
        think(driver, agent, state, tools=["rm"])


@pytest.mark.states("H2")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("method", ["think", "run", "ask_human", "use_tools"])
def test_the_sync_forms_are_refused_inside_an_async_run(method: str, backend: str) -> None:
    agent, _, _ = agent_of(tool_call("act", n=1), "Done.", human=FakeHuman(["yes"]))
    said: list[str] = []

    @loop
    async def body(agent: Agent, state: State) -> None:
        arguments = {"ask_human": (state, "Which?"), "run": ("Hi",)}.get(method, (state,))
        with pytest.raises(TypeError) as caught:
            getattr(agent, method)(*arguments)
        said.append(str(caught.value))
        state.finish()

    run(backend, agent.copy(loop=body), "Hi")
    assert "was called inside an async run" in said[0]


def test_a_sync_run_works_where_an_event_loop_runs() -> None:
    agent, counter, _ = agent_of(tool_call("act", n=1), "Done.")

    async def cell() -> str:
        return agent.run("Hi")  # type: ignore[no-any-return]

    assert anyio.run(cell) == "Done."
    assert counter.ran == [{"n": 1}]


# ---------------------------------------------------------------------- loops


def test_a_loop_of_ones_own_decides_what_a_turn_is() -> None:
    agent, _, _ = agent_of(tool_call("look"), "Done.")
    turns: list[int] = []

    @loop(until=waiting_for_user, limit=5)
    def mine(agent: Agent, state: State) -> None:
        turns.append(state.turn)
        agent.think(state)
        if state.pending_calls:
            agent.use_tools(state)

    assert agent.copy(loop=mine).run("Hi") == "Done."
    assert turns == [0, 1]
    assert repr(mine) == "<loop mine, at most 5 turns>"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: loop(until="done")(print), "until= takes a function"),
        (lambda: loop(until=[waiting_for_user, None])(print), "until= takes a function"),  # type: ignore[list-item]
        (lambda: loop(limit="5")(print), "limit= takes a number of turns"),
        (lambda: loop(limit=0)(print), "limit= takes 1 turn or more"),
        (lambda: loop(limit=True)(print), "limit= takes a number of turns"),
        (lambda: loop(5), "@loop takes a function"),  # type: ignore[call-overload]
        (lambda: Agent(loop=5), "loop= takes a loop"),
        (lambda: Agent(turn_limit=0), "limit= takes 1 turn or more"),
    ],
    ids=["until a text", "until None", "limit a text", "no turns", "limit True", "no function", "no loop", "no turn"],
)
def test_what_is_no_loop_is_an_error_when_it_is_made(make: Any, says: str) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        make()


def test_an_async_loop_is_refused_by_run_and_a_sync_one_by_arun() -> None:
    agent, _, model = agent_of("Done.")
    with pytest.raises(TypeError, match=r"is async[\s\S]*arun"):
        agent.copy(loop=adefault_loop).run("Hi")
    with pytest.raises(TypeError, match=r"is not async, and would block"):
        run("asyncio", agent.copy(loop=default_loop), "Hi")
    assert model.requests == []


@pytest.mark.states("M5")
@both_drivers
def test_a_stop_by_a_permission_ends_outer_loops_too_and_an_inner_limit_does_not(driver: str) -> None:
    taken: list[str] = []

    @loop(limit=2)
    async def inner(agent: Agent, state: State) -> None:
        taken.append("inner")
        await agent.athink(state)
        await agent.ause_tools(state)

    @loop(limit=3)
    async def outer(agent: Agent, state: State) -> None:
        taken.append("outer")
        await inner(agent, state)

    backend = "asyncio" if driver == "sync" else driver
    agent, _, _ = agent_of(*[tool_call("look") for _ in range(6)], loop=outer)
    run(backend, agent, "Hi")
    assert taken == ["outer", "inner", "inner"] * 3

    taken.clear()
    agent, counter, _ = agent_of(
        tool_call("act", n=1), "never", loop=outer, permissions=[Stopping()], human=FakeHuman([])
    )
    state = State([Message.user("Hi")])
    assert run(backend, agent, state) is None
    assert taken == ["outer", "inner"]
    assert isinstance(state.stopped, StoppedByPermission)
    assert counter.ran == []


class Stopping(DenyPermission):
    """Stops the turn at `act`."""

    blocking = False

    def check(self, state: Any, call: ToolCall, tool: Any) -> Denied | None:
        return Denied("That is enough.", stop=True) if call.name == "act" else None


# ---------------------------------------------------------------------- stops


@pytest.mark.states("M3", "M5", "M7", "M9")
@both_drivers
def test_a_stop_ends_the_run_and_the_next_run_starts_afresh(driver: str) -> None:
    agent, counter, model = agent_of(
        [tool_call("look"), tool_call("act", n=1)], "I see.", permissions=[Stopping(), AllowByDefault()]
    )
    state = State([Message.user("Hi")])
    assert run(driver, agent, state) is None
    assert isinstance(state.stopped, StoppedByPermission)
    assert (state.stopped.call.name, state.stopped.permission) == ("act", "Stopping()")
    assert str(state.stopped) == "stopped by permission Stopping()"
    with pytest.raises(dataclasses.FrozenInstanceError):
        state.stopped.permission = "x"  # type: ignore[misc]
    assert not state.finished
    assert state.pending_calls == ()
    assert [entry.kind for entry in state.history][-3:] == ["tool_result", "tool_result", "stop"]
    assert run(driver, agent, state) == "I see."
    assert state.stopped == StoppedByUntil("waiting_for_user")
    assert [block.content for block in model.requests[-1][0][-1].results] == [
        "(not run: the user stopped this turn)",
        "That is enough.",
    ]
    assert counter.ran == []


@pytest.mark.states("M6", "I6")
@both_drivers
def test_a_finish_before_a_stop_wins_and_one_after_it_replaces_it(driver: str) -> None:
    class Finishing(Stopping):
        def check(self, state: State, call: ToolCall, tool: Any) -> Denied | None:
            state.finish("enough")
            return super().check(state, call, tool)

    agent, counter, _ = agent_of([tool_call("act", n=1), tool_call("look")], permissions=[Finishing()])
    state = State([Message.user("Hi")])
    assert run(driver, agent, state) == "enough"
    assert state.stopped == StoppedByFinish("enough")
    assert state.finished
    assert [result.outcome.kind for result in state.results] == ["denied", "cancelled"]
    assert counter.ran == []

    agent, _, _ = agent_of(tool_call("act", n=1), permissions=[Stopping()])
    state = State([Message.user("Hi")])
    run(driver, agent, state)
    state.finish("later")
    assert (state.stopped, state.answer) == (StoppedByFinish("later"), "later")


@pytest.mark.states("H1")
@both_drivers
def test_a_finished_state_is_never_run_again(driver: str) -> None:
    agent, counter, model = agent_of("never")
    state = State(pending_calls=[tool_call("act", n=1)])
    state.finish()
    with pytest.raises(ValueError, match="finished State"):
        run(driver, agent, state)
    with pytest.raises(ValueError, match="finished State"):
        agent.use_tools(state)
    assert (counter.ran, model.requests) == ([], [])


@pytest.mark.states("M8", "K4")
@both_drivers
def test_a_run_that_ends_in_an_exception_is_not_stopped_and_every_call_has_a_result(driver: str) -> None:
    class Broken(DecidePermission):
        def check(self, state: Any, call: ToolCall, tool: Any) -> None:
            raise LookupError("no table")

    agent, counter, _ = agent_of([tool_call("look"), tool_call("act", n=1)], permissions=[AllowByReadOnly(), Broken()])
    state = State([Message.user("Hi")])
    with pytest.raises(LookupError) as caught:
        run(driver, agent, state)
    assert caught.value.__notes__ == ["exception raised in permission Broken() checking act(n=1)"]
    assert state.stopped is None
    assert state.pending_calls == ()
    assert [result.outcome.kind for result in state.results] == ["denied", "aborted"]
    (error,) = [entry for entry in state.history if entry.kind == "error"]
    assert error.call is not None
    assert error.call.name == "act"
    assert counter.ran == []


@both_drivers
def test_calls_that_a_loop_never_ran_are_closed_when_the_run_fails(driver: str) -> None:
    @loop
    async def body(agent: Agent, state: State) -> None:
        await agent.athink(state)
        raise OSError("disk full")

    agent, counter, _ = agent_of([tool_call("act", n=1), tool_call("look")], loop=body)
    state = State([Message.user("Hi")])
    with pytest.raises(OSError, match="disk full"):
        run("asyncio" if driver == "sync" else driver, agent, state)
    assert [result.content for result in state.results] == ["(aborted: OSError)"] * 2
    assert state.pending_calls == ()
    assert list(agent.audit.calls()["verdict"]) == ["cancelled"] * 2
    assert counter.ran == []


@pytest.mark.states("K5")
@both_drivers
def test_an_interrupt_in_a_check_closes_the_calls_as_interrupted(driver: str) -> None:
    class Interrupted(DecidePermission):
        blocking = False

        def check(self, state: Any, call: ToolCall, tool: Any) -> None:
            raise KeyboardInterrupt

    agent, counter, _ = agent_of([tool_call("look"), tool_call("act", n=1)], permissions=[Interrupted()])
    state = State([Message.user("Hi")])
    with pytest.raises(KeyboardInterrupt) as caught:
        run(driver, agent, state)
    assert getattr(caught.value, "__notes__", []) == []
    assert [result.content for result in state.results] == ["(interrupted by user)"] * 2
    assert counter.ran == []


# ---------------------------------------------------------------------- checks before a run


class OnlyAsync(DecidePermission):
    async def acheck(self, state: Any, call: ToolCall, tool: Any) -> None:
        return None


class AsyncHuman(Human):
    async def aask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        return "yes"


class OwnCheck(DecideByHuman):
    def check(self, state: Any, call: ToolCall, tool: Any) -> Any:
        return Denied("no")


@pytest.mark.states("G1a", "G2")
def test_a_sync_run_with_an_async_permission_fails_before_the_model_is_asked() -> None:
    agent, _, model = agent_of("Hi.", permissions=[AllowByDefault(), OnlyAsync()])
    state = State([Message.user("Hi")])
    with pytest.raises(TypeError, match=r"OnlyAsync\(\) in permissions= checks calls only asynchronously"):
        agent.run(state)
    assert model.requests == []
    assert [entry.kind for entry in state.history] == ["message"]
    assert run("asyncio", agent, state) == "Hi."


@pytest.mark.states("G1b", "G2")
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    "permissions",
    [[DecideByHuman()], [AllowByDefault(), DecideByHuman()]],
    ids=["reached", "never reached"],
)
def test_a_run_with_nobody_to_ask_fails_before_the_model_is_asked(driver: str, permissions: list[Permission]) -> None:
    agent, _, model = agent_of("Hi.", permissions=permissions, human=None)
    state = State([Message.user("Hi")])
    with pytest.raises(NoHumanError, match=r"DecideByHuman\(\) in permissions= asks the Agent's human"):
        run(driver, agent, state)
    assert model.requests == []
    assert [entry.kind for entry in state.history] == ["message"]


@pytest.mark.states("G1b")
@both_drivers
def test_a_permission_with_its_own_human_needs_no_other(driver: str) -> None:
    agent, counter, _ = agent_of(
        tool_call("act", n=1), "Hi.", permissions=[DecideByHuman(human=FakeHuman(["yes"]))], human=None
    )
    assert run(driver, agent, "Hi") == "Hi."
    assert counter.ran == [{"n": 1}]


@pytest.mark.states("G1c", "G2")
def test_a_sync_run_that_would_ask_an_async_human_fails_first() -> None:
    agent, counter, model = agent_of(tool_call("act", n=1), "Hi.", permissions=[DecideByHuman()], human=AsyncHuman())
    with pytest.raises(TypeError, match="asks AsyncHuman, which answers only asynchronously"):
        agent.run("Hi")
    assert model.requests == []
    assert run("trio", agent, "Hi") == "Hi."
    assert counter.ran == [{"n": 1}]
    agent, counter, _ = agent_of(tool_call("act", n=1), "Hi.", permissions=[OwnCheck()], human=AsyncHuman())
    assert agent.run("Hi") == "Hi."  # its own check asks nobody
    assert counter.ran == []


# ---------------------------------------------------------------------- asking by hand


@pytest.mark.states("Q1", "Q2")
@both_drivers
def test_a_question_is_answered_and_kept(driver: str) -> None:
    human = FakeHuman(["/tmp", "no", "b"])
    agent, _, _ = agent_of("Hi.", human=human)
    state = State([Message.user("Hi")], pending_calls=[tool_call("look")])
    assert ask(driver, agent, state, "Which folder?") == "/tmp"
    state.finish()
    assert ask(driver, agent, state, "Sure?", bool) is False
    assert ask(driver, agent, state, "Which?", Literal["a", "b"]) == "b"
    entries = [entry for entry in state.history if entry.kind == "human"]
    assert [(entry.content.question, entry.content.answer) for entry in entries] == [
        ("Which folder?", "/tmp"),
        ("Sure?", False),
        ("Which?", "b"),
    ]
    assert [entry.call_key for entry in entries] == ["", "", ""]
    assert [message.role for message in state.messages] == ["user", "assistant"]


@pytest.mark.states("Q1")
@both_drivers
def test_a_question_to_nobody_or_of_another_kind_is_an_error(driver: str) -> None:
    agent, _, _ = agent_of("Hi.", human=None)
    state = State()
    with pytest.raises(NoHumanError, match=r"on an Agent with human=None \(question: 'Which\?'\)"):
        ask(driver, agent, state, "Which?")
    human = FakeHuman(["x"])
    agent = agent.copy(human=human)
    with pytest.raises(TypeError, match="does not support returns="):
        ask(driver, agent, state, "Which?", int)
    with pytest.raises(TypeError, match="takes a State"):
        ask(driver, agent, None, "Which?")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="takes the question as a text"):
        ask(driver, agent, state, 7)
    assert human.questions == []
    assert len(state.history) == 0


@pytest.mark.states("Q3")
def test_a_human_that_only_awaits_is_refused_by_the_sync_form() -> None:
    agent, _, _ = agent_of("Hi.", human=AsyncHuman())
    with pytest.raises(TypeError, match="answers only asynchronously"):
        agent.ask_human(State(), "Which?")
    assert ask("asyncio", agent, State(), "Which?") == "yes"


@pytest.mark.states("Q2")
def test_an_answer_that_is_not_json_is_kept_as_its_repr() -> None:
    class Odd(Human):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            return {1, 2}

    agent, _, _ = agent_of("Hi.", human=Odd())
    state = State()
    assert agent.ask_human(state, "Which?") == {1, 2}
    assert state.history[0].content.answer == "{1, 2}"  # type: ignore[union-attr]


@pytest.mark.states("E6")
@both_drivers
def test_a_decision_of_a_person_is_in_the_history_with_the_key_of_its_call(driver: str) -> None:
    agent, counter, _ = agent_of(
        [tool_call("act", n=1), tool_call("act", n=2)],
        "Done.",
        permissions=[DecideByHuman()],
        human=FakeHuman(["yes", "no"]),
    )
    state = State([Message.user("Hi")], id="r")
    run(driver, agent, state)
    asked = [entry for entry in state.history if entry.kind == "human"]
    assert [(entry.content.question, entry.content.answer, entry.call_key) for entry in asked] == [
        ("Run act(n=1)?", "yes", "r/1/0"),
        ("Run act(n=2)?", "no", "r/1/1"),
    ]
    assert counter.ran == []  # "no" stops the turn, and what was approved too


# ---------------------------------------------------------------------- the reporter


@pytest.mark.states("H5", "H6", "L1", "N2", "R3")
@both_drivers
def test_a_reporter_is_told_of_a_run_in_order(driver: str) -> None:
    telling = Telling()
    agent, _, _ = agent_of(
        [
            tool_call("nope"),
            ToolCall("look", {}, "1", invalid="arguments are not valid JSON: {"),
            tool_call("act", n=1),
            tool_call("look"),
        ],
        "Done.",
        permissions=[DenyByName(["act"]), AllowByDefault()],
        reporter=telling,
    )
    run(driver, agent, "Hi")
    assert telling.told == [
        ("run start",),
        ("think start", 1),
        ("think end", 4),
        ("start", "nope"),
        ("end", "nope", "input_error", None),
        ("start", "look"),
        ("end", "look", "input_error", None),
        ("end", "act", "denied", "DenyByName(['act'])"),
        ("start", "look"),
        ("end", "look", "done", "AllowByDefault()"),
        ("think start", 2),
        ("think end", "Done."),
        ("run end", None),
    ]


@pytest.mark.states("M3", "M4")
@both_drivers
def test_a_reporter_hears_of_a_stop_when_all_of_it_is_recorded(driver: str) -> None:
    telling = Telling()
    agent, _, _ = agent_of(
        [tool_call("look"), tool_call("act", n=1), tool_call("look")],
        permissions=[AllowByReadOnly(), Stopping()],
        reporter=telling,
    )
    run(driver, agent, "Hi")
    ends = [told for told in telling.told if told[0] in ("start", "end")]
    assert ends == [
        ("end", "act", "denied", "Stopping()"),
        ("end", "look", "cancelled", "Stopping()"),
        ("end", "look", "cancelled", "Stopping()"),
    ]
    for stopped, pending, _ in telling.seen:
        assert isinstance(stopped, StoppedByPermission)
        assert pending == ()


@pytest.mark.states("X8")
@both_drivers
def test_a_reporter_that_raises_changes_nothing_and_is_warned_about(driver: str) -> None:
    class Broken(Reporter):
        def on_tool_end(self, state: State, call: ToolCall, result: str, outcome: Any) -> None:
            raise RuntimeError("no screen")

        def on_run_end(self, state: State, error: BaseException | None) -> None:
            raise RuntimeError("no screen")

    agent, counter, _ = agent_of(
        [tool_call("look"), tool_call("act", n=1)],
        "Done.",
        permissions=[DenyByName(["look"]), AllowByDefault()],
        reporter=Broken(),
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert run(driver, agent, "Hi") == "Done."
    assert counter.ran == [{"n": 1}]
    told = [str(warning.message) for warning in caught if "reporter" in str(warning.message)]
    assert told == ["the reporter raised in on_tool_end: RuntimeError: no screen"] * 2 + [
        "the reporter raised in on_run_end: RuntimeError: no screen"
    ]


def test_what_is_no_reporter_is_an_error() -> None:
    for wrong in (Telling, object()):
        with pytest.raises(TypeError, match="reporter= takes a Reporter"):
            Agent(reporter=wrong)  # type: ignore[arg-type]


# ---------------------------------------------------------------------- copies


@pytest.mark.states("F4")
def test_a_copy_keeps_what_it_is_not_given() -> None:
    agent, _, _ = agent_of("Hi.", permissions=None, instructions="Be brief.", name="helper")
    assert agent.copy().run("Hi") == "Hi."
    for given, verdict in [({}, "allowed"), ({"permissions": []}, "denied"), ({"permissions": None}, "allowed")]:
        copy = agent.copy(**given)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            turn = copy.use_tools([tool_call("look")])
        assert turn.results[0].verdict == verdict
    strict = agent.copy(permissions=[])
    assert strict.permissions == ()
    assert strict.copy().permissions == ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert strict.copy().use_tools([tool_call("look")]).results[0].verdict == "denied"
    replaced = agent.copy(permissions=[AllowByName(["look"])])
    assert [repr(item) for item in replaced.permissions] == ["AllowByName(['look'])"]
    assert (replaced.name, replaced.instructions, replaced.audit) == ("helper", "Be brief.", agent.audit)
    with pytest.raises(TypeError, match=r"'permission' is not a setting of an agent[\s\S]*permissions"):
        agent.copy(permission=[])


def test_a_copy_can_swap_who_answers() -> None:
    agent = Agent(human=FakeHuman([]))
    assert repr(agent.copy(approval_handler=lambda request: True).copy(human=None).human) == "None"


def test_a_text_as_the_first_argument_is_the_instructions() -> None:
    counter = Counter()
    agent = Agent("Be brief.", tools=[counter.tool])
    assert (agent.instructions, [item.name for item in agent.tools]) == ("Be brief.", ["act"])
    assert [item.name for item in Agent([counter.tool]).tools] == ["act"]
    with pytest.raises(TypeError, match="instructions were given twice"):
        Agent("a", instructions="b")
    with pytest.raises(TypeError, match="tools were given twice"):
        Agent([counter.tool], tools=[counter.tool])


@both_drivers
def test_a_result_with_an_image_is_in_the_message_of_the_results(driver: str) -> None:
    picture = Image(b"\x89PNG\r\n\x1a\n", "image/png")
    model = ScriptedModel([tool_call("draw"), "Done."])

    def draw() -> Any:
        return picture

    run(driver, Agent(tools=[draw], model=model, permissions=[AllowByDefault()]), "Draw")
    assert model.requests[-1][0][-1].results[0].images == (picture,)


@pytest.mark.states("K1", "K2")
@both_drivers
def test_a_tool_error_of_a_permission_denies_its_call_and_the_run_goes_on(driver: str) -> None:
    problem = ToolError("the rules are not loaded")

    class Unloaded(DecidePermission):
        def check(self, state: Any, call: ToolCall, tool: Any) -> None:
            raise problem

    agent, _, model = agent_of(tool_call("look"), "I see.", permissions=[Unloaded(), AllowByDefault()])
    state = State([Message.user("Hi")])
    assert run(driver, agent, state) == "I see."
    (result,) = state.results
    assert (result.content, result.error, result.decided_by) == ("the rules are not loaded", problem, "Unloaded()")
    assert model.requests[-1][0][-1].results[0].is_error


@both_drivers
def test_a_state_with_calls_to_decide_is_run_from_there(driver: str) -> None:
    agent, counter, model = agent_of("Done.")
    state = State([Message.user("Hi")], pending_calls=[tool_call("act", n=1)])
    assert run(driver, agent, state) == "Done."
    assert counter.ran == [{"n": 1}]
    assert [message.role for message in model.requests[0][0]] == ["user", "assistant", "user"]


def test_a_loop_body_that_returns_something_is_an_error() -> None:
    def returns(agent: Agent, state: State) -> Any:
        return agent.athink(state)

    def yields(agent: Agent, state: State) -> Any:
        yield agent.think(state)

    async def answers(agent: Agent, state: State) -> Any:
        return "Done."

    for body, told in ((returns, "a coroutine"), (yields, "a generator"), (answers, r"something \(str\)")):
        agent, counter, _ = agent_of("never", loop=loop(body))
        with pytest.raises(
            TypeError, match=rf"returned {told}, and a turn returns nothing[\s\S]*state.finish\(answer\)"
        ):
            run("asyncio" if body is answers else "sync", agent, "Hi")
        assert counter.ran == []


@both_drivers
def test_what_a_run_is_told_holds_for_its_turns_and_for_those_below(driver: str) -> None:
    seen: list[tuple[Any, ...]] = []

    class Looking(DecidePermission):
        def check(self, state: Any, call: ToolCall, tool: Any) -> None:
            context = get_run_context()
            assert context is not None
            seen.append((call.name, context.user_id, context.session_id, dict(context.metadata)))

    permissions = [Looking(), AllowByDefault()]
    counter = Counter()
    sub = Agent(
        tools=[counter.tool], name="sub", model=ScriptedModel([tool_call("act", n=1), "x"]), permissions=permissions
    )
    agent = Agent(
        tools=[sub], model=ScriptedModel([tool_call("sub", prompt="y"), "z"]), permissions=permissions, user="ann"
    )
    told = {"user": "bob", "session": "s", "metadata": {"task": 7}}
    if driver == "sync":
        agent.run("Hi", **told)
    else:
        anyio.run(lambda: agent.arun("Hi", **told), backend=driver)
    assert seen == [("sub", "bob", "s", {"task": 7}), ("act", "bob", "s", {"task": 7})]
    assert list(agent.audit.calls()["user"]) == ["bob"]
    assert get_run_context() is None
    with pytest.raises(TypeError, match="metadata= takes a dict"):
        agent.run("Hi", metadata=7)  # type: ignore[arg-type]
