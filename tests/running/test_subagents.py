"""Agents as tools: which permissions bind the run inside, who is asked, and what the run above is told."""

from __future__ import annotations

import threading
import warnings
from typing import Any

import anyio
import pytest
from test_runs import DRIVERS, AsyncHuman, both_drivers, run
from turns import Counter
from turns import run as turn_of

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByName,
    AllowByReadOnly,
    ApprovalDecision,
    DecideByHuman,
    DecidePermission,
    Denied,
    DenyByName,
    Human,
    Message,
    NoHumanError,
    PermissionWarning,
    State,
    StoppedByPermission,
    ToolCall,
    tool,
)
from agentperm_nb.testing import FakeHuman, ScriptedModel, tool_call


def helper(counter: Counter, *replies: Any, **options: Any) -> Agent:
    """An agent named `helper` that calls `act` and then says "Done."."""
    model = ScriptedModel(replies or [tool_call("act", n=1), "Done."])
    return Agent(tools=[counter.tool], name="helper", model=model, **options)


def above(sub: Any, *, times: int = 1, **options: Any) -> Agent:
    """An agent that gives `helper` a task, and then says "All done."."""
    tasks = [tool_call("helper", prompt=f"task {number}") for number in range(times)]
    options.setdefault("permissions", [AllowByDefault()])
    return Agent(tools=[sub], name="lead", model=ScriptedModel([tasks, "All done."]), **options)


def inner_result(agent: Agent) -> str:
    """What the model of the run above was told by `helper`."""
    model = agent.model
    assert isinstance(model, ScriptedModel)
    return model.requests[-1][0][-1].results[0].content


# ---------------------------------------------------------------------- the run inside


@pytest.mark.states("V1", "V10")
@both_drivers
def test_an_agent_in_the_tools_runs_below_the_run_that_calls_it(driver: str) -> None:
    seen: list[tuple[str, str | None]] = []

    class Looking(DecidePermission):
        def check(self, state: State, call: ToolCall, tool: Any) -> None:
            seen.append((state.id, state.parent_id))

    counter = Counter()
    sub = helper(counter, permissions=[Looking(), AllowByDefault()])
    agent = above(sub)
    state = State([Message.user("Go")], id="lead-run")
    assert run(driver, agent, state) == "All done."
    assert inner_result(agent) == "Done."
    assert counter.ran == [{"n": 1}]
    ((inner, parent),) = seen
    assert parent == "lead-run"
    assert inner != parent
    rows = sub.audit.calls()
    assert list(rows["agent_path"]) == ["lead/helper"]
    assert list(rows["run"]) == [inner]


@pytest.mark.states("V10")
def test_an_agent_as_a_tool_is_taken_for_the_worst_and_has_one_argument() -> None:
    counter = Counter()
    made = helper(counter, description="Tidies notes.").as_tool()
    hints = made.hints_for({"prompt": "x"})
    assert (hints.read_only, hints.destructive, hints.open_world) == (False, True, True)
    assert (made.name, made.description) == ("helper", "Tidies notes.")
    assert list(made.input_schema["properties"]) == ["prompt"]
    asked = FakeHuman(["no"])
    agent = Agent(tools=[helper(counter)], permissions=[AllowByReadOnly(), DecideByHuman()], human=asked)
    assert agent.use_tools([tool_call("helper", prompt="x")]).results[0].verdict == "denied"
    assert asked.questions == ['Run helper(prompt="x")?']


@pytest.mark.states("V10")
@pytest.mark.parametrize(
    "args", [{}, {"prompt": 7}, {"prompt": "x", "more": 1}, {"prompt": ""}], ids=["none", "a number", "more", "empty"]
)
@both_drivers
def test_a_bad_prompt_is_an_input_error_after_the_permissions(driver: str, args: dict[str, Any]) -> None:
    counter = Counter()
    agent = Agent(tools=[helper(counter)], permissions=[AllowByDefault()])
    assert turn_of(driver, agent, [ToolCall("helper", args)]).results[0].verdict == "input_error"
    denied = agent.copy(permissions=[DenyByName(["helper"])])
    assert turn_of(driver, denied, [ToolCall("helper", args)]).results[0].verdict == "denied"
    assert counter.ran == []


def test_an_agent_without_a_model_is_no_tool() -> None:
    with pytest.raises(TypeError, match="has no model, so it cannot be a tool"):
        Agent(tools=[Agent(name="helper")])


@pytest.mark.states("V1")
@both_drivers
def test_a_tool_that_runs_an_agent_makes_it_a_subagent_and_a_thread_of_its_own_does_not(driver: str) -> None:
    counter, free = Counter(), Counter()
    sub, other = helper(counter, permissions=[AllowByDefault()]), helper(free, permissions=[AllowByDefault()])

    def delegate() -> Any:
        thread = threading.Thread(target=other.run, args=("x",))
        thread.start()
        thread.join()
        return sub.run("x")

    agent = Agent(tools=[delegate], permissions=[DenyByName(["act"]), AllowByDefault()])
    turn_of(driver, agent, [tool_call("delegate")])
    assert (counter.ran, free.ran) == ([], [{"n": 1}])


# ---------------------------------------------------------------------- which permissions bind it


@pytest.mark.states("V2", "V3")
@pytest.mark.parametrize(
    ("permissions", "own", "ran"),
    [
        ([DenyByName(["act"]), AllowByDefault()], "left out", False),
        ([AllowByDefault()], "left out", True),
        ([AllowByName(["helper"])], "left out", False),
        ([DenyByName(["act"]), AllowByDefault()], [AllowByDefault()], False),
        ([AllowByName(["helper"])], [AllowByDefault()], True),
        ([AllowByDefault()], [AllowByName(["other"])], False),
        ([AllowByDefault()], [], False),
        (None, None, True),
        ([DenyByName(["act"]), AllowByDefault()], None, False),
    ],
    ids=[
        "the list above denies",
        "the list above allows",
        "the list above allows something else",
        "a deny above binds a list of its own",
        "nothing else above does",
        "its own list decides",
        "an empty list denies",
        "no checks",
        "a deny above binds no checks",
    ],
)
@both_drivers
def test_the_denies_above_bind_and_then_its_own_list_or_the_one_above(
    driver: str, permissions: Any, own: Any, ran: bool
) -> None:
    counter = Counter()
    options = {} if own == "left out" else {"permissions": own}
    agent = above(helper(counter, **options), permissions=permissions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PermissionWarning)
        run(driver, agent, "Go")
    assert counter.ran == ([{"n": 1}] if ran else [])


@pytest.mark.states("V2", "V6")
@both_drivers
def test_denies_of_all_runs_above_come_first_outermost_first_and_are_asked_once(driver: str) -> None:
    asked: list[str] = []

    class Noting(DenyByName):
        def check(self, state: Any, call: ToolCall, tool: Any) -> Any:
            if call.name == "act":
                asked.append(self.patterns[0])
            return super().check(state, call, tool)

    counter, shared = Counter(), Noting(["top"])
    inner = helper(counter, permissions=[shared, Noting(["own"]), AllowByDefault()])
    middle = Agent(
        tools=[inner],
        name="helper",
        model=ScriptedModel([tool_call("helper", prompt="x"), "Done."]),
        permissions=[AllowByDefault(), Noting(["middle"])],
    )
    run(driver, above(middle, permissions=[AllowByDefault(), shared]), "Go")
    assert asked == ["top", "middle", "own"]
    assert counter.ran == [{"n": 1}]
    assert [repr(item) for item in inner.permissions] == ["Noting(['top'])", "Noting(['own'])", "AllowByDefault()"]


@pytest.mark.states("V4", "V6")
@both_drivers
def test_an_empty_list_below_warns_unless_a_deny_above_decides(driver: str) -> None:
    counter = Counter()
    with pytest.warns(PermissionWarning, match="the call to act"):
        run(driver, above(helper(counter, permissions=[])), "Go")
    sub = helper(counter, permissions=[])
    run(driver, above(sub, permissions=[DenyByName(["act"], name="never act"), AllowByDefault()]), "Go")
    assert list(sub.audit.calls()["decided_by"]) == ["never act"]
    assert counter.ran == []


@pytest.mark.states("V5")
@both_drivers
def test_another_agent_used_inside_is_bound_by_the_denies_above_and_its_own_list(driver: str) -> None:
    counter = Counter()
    other = Agent(tools=[counter.tool, tool(name="more")(lambda: None)], permissions=[AllowByName(["act", "more"])])

    async def delegate() -> None:
        await other.ause_tools(State(pending_calls=[tool_call("act", n=1), tool_call("more")]))

    agent = Agent(tools=[delegate], permissions=[DenyByName(["more"]), AllowByDefault()])
    turn_of(driver, agent, [tool_call("delegate")])
    assert list(other.audit.calls()["verdict"]) == ["allowed", "denied"]
    alone = other.use_tools([tool_call("more")])
    assert alone.results[0].verdict == "allowed"


# ---------------------------------------------------------------------- who is asked


@pytest.mark.states("V7")
@both_drivers
def test_each_permission_asks_the_human_of_the_run_that_wrote_it(driver: str) -> None:
    counter, lead, own = Counter(), FakeHuman(["yes"] * 9), FakeHuman(["yes"] * 9)
    rule = DecideByHuman()
    run(driver, above(helper(counter, human=own), permissions=[rule], human=lead), "Go")
    assert (len(lead.questions), len(own.questions)) == (2, 0)  # the helper's list is the one above
    run(driver, above(helper(counter, human=own, permissions=[DecideByHuman()]), human=lead), "Go")
    assert (len(lead.questions), len(own.questions)) == (2, 1)
    run(driver, above(helper(counter, permissions=[DecideByHuman()]), human=lead), "Go")
    assert (len(lead.questions), len(own.questions)) == (3, 1)  # it was given nobody
    assert len(counter.ran) == 3


@pytest.mark.states("V7")
@both_drivers
def test_a_permission_that_asks_by_itself_asks_the_human_of_the_run_that_wrote_it(driver: str) -> None:
    class Own(DecideByHuman):
        def check(self, state: Any, call: ToolCall, tool: Any) -> Any:
            return super().check(state, call, tool)

    counter, lead, own = Counter(), FakeHuman(["yes"] * 9), FakeHuman(["yes"] * 9)
    run(driver, above(helper(counter, human=own), permissions=[Own()], human=lead), "Go")
    assert (len(lead.questions), len(own.questions)) == (2, 0)
    assert counter.ran == [{"n": 1}]


@pytest.mark.states("V7", "V9")
@both_drivers
def test_nobody_on_purpose_below_is_nobody(driver: str) -> None:
    counter, lead = Counter(), FakeHuman(["yes"] * 9)
    agent = above(helper(counter, permissions=[DecideByHuman()], human=None), human=lead)
    run(driver, agent, "Go")
    assert "(helper failed: NoHumanError: " in inner_result(agent)
    assert (counter.ran, lead.questions) == ([], [])


@pytest.mark.states("V7", "Q1")
@both_drivers
def test_a_question_by_hand_below_goes_to_the_human_above_when_it_was_given_nobody(driver: str) -> None:
    lead = FakeHuman(["/tmp"])
    sub = Agent(name="helper", model=ScriptedModel(["x"]))
    state = State()

    async def delegate() -> Any:
        return await sub.aask_human(state, "Which folder?")

    turn = turn_of(driver, Agent(tools=[delegate], permissions=[AllowByDefault()], human=lead), [tool_call("delegate")])
    assert turn.results[0].content == "/tmp"
    assert [entry.kind for entry in state.history] == ["human"]
    if driver == "sync":
        with pytest.raises(NoHumanError):  # nothing runs above it, and there is no terminal
            sub.copy(human=None).ask_human(state, "Which folder?")


@pytest.mark.states("V8", "P6")
@both_drivers
def test_a_no_stops_the_run_inside_only_and_the_run_above_is_told(driver: str) -> None:
    states: list[State] = []

    class Noting(FakeHuman):
        def ask(self, state: State, prompt: str, returns: Any = str) -> Any:
            states.append(state)
            return super().ask(state, prompt, returns)

    counter = Counter()
    sub = helper(counter, tool_call("act", n=1), "never", permissions=[DecideByHuman()])
    agent = above(sub, human=Noting(["no"]))
    state = State([Message.user("Go")], id="lead-run")
    assert run(driver, agent, state) == "All done."
    told = "(helper was stopped by the user: The user declined this call. Wait for their next message.)"
    assert inner_result(agent) == told
    (result,) = state.results
    assert (result.outcome.kind, result.verdict) == ("done", "allowed")
    (inner,) = states
    assert inner.parent_id == "lead-run"
    assert isinstance(inner.stopped, StoppedByPermission)
    assert [entry.kind for entry in inner.history if entry.kind == "human"] == ["human"]
    assert [entry.kind for entry in state.history if entry.kind == "human"] == []
    assert counter.ran == []


@pytest.mark.states("V9")
@both_drivers
def test_what_ends_the_run_inside_is_an_error_result_above(driver: str) -> None:
    counter = Counter()
    agent = above(helper(counter, ConnectionError("no network"), permissions=[AllowByDefault()]))
    state = State([Message.user("Go")])
    assert run(driver, agent, state) == "All done."
    assert inner_result(agent) == "(helper failed: ConnectionError: no network)"
    assert state.results[0].outcome.kind == "error"


# ---------------------------------------------------------------------- many at once


class Crowd(Human):
    """Answers when all that are expected have asked; keeps how many waited at the same time."""

    def __init__(self, expected: int) -> None:
        self.expected, self.waiting, self.most = expected, 0, 0
        self.all_here = anyio.Event()

    async def aask(self, state: State, prompt: str, returns: Any = str) -> Any:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        if self.waiting == self.expected:
            self.all_here.set()
        await self.all_here.wait()
        return "yes"


@pytest.mark.states("P4")
@pytest.mark.parametrize("count", [2, 10, 100])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_questions_of_parallel_subagents_are_put_at_the_same_time(backend: str, count: int) -> None:
    counter = Counter()

    async def main() -> Crowd:
        human = Crowd(count)

        def replies(messages: Any, tools: Any) -> Any:
            return "Done." if messages[-1].results else tool_call("act", n=1)

        sub = Agent(tools=[counter.tool], name="helper", model=replies, permissions=[DecideByHuman()])
        with anyio.fail_after(15):
            assert await above(sub, times=count, human=human).arun("Go") == "All done."
        return human

    human = anyio.run(main, backend=backend)
    assert human.most == count
    assert len(counter.ran) == count


@pytest.mark.states("P4")
@pytest.mark.parametrize("count", [2, 10, 100])
@both_drivers
def test_answers_of_a_handler_reach_the_right_subagent(driver: str, count: int) -> None:
    ran: list[str] = []

    def act(task: str) -> str:
        ran.append(task)
        return f"did {task}"

    def replies(messages: Any, tools: Any) -> Any:
        if messages[-1].results:
            return messages[-1].results[0].content
        return tool_call("act", task=messages[0].text)

    def handler(request: Any) -> Any:
        number = int(request.call.args["task"].split()[1])
        return ApprovalDecision("allow") if number % 2 else ApprovalDecision("deny", reason="even")

    sub = Agent(tools=[act], name="helper", model=replies, permissions=[DecideByHuman()])
    agent = above(sub, times=count, approval_handler=handler)
    assert run(driver, agent, "Go") == "All done."
    assert sorted(ran) == sorted(f"task {number}" for number in range(count) if number % 2)
    model = agent.model
    assert isinstance(model, ScriptedModel)
    contents = [block.content for block in model.requests[-1][0][-1].results]
    assert contents == [f"did task {number}" if number % 2 else "even" for number in range(count)]


@pytest.mark.states("V9", "G1c")
def test_a_sync_run_below_that_cannot_ask_fails_that_call() -> None:
    counter = Counter()
    agent = above(helper(counter, permissions=[DecideByHuman()], human=AsyncHuman()))
    agent.run("Go")
    assert "asks AsyncHuman, which answers only asynchronously" in inner_result(agent)
    assert counter.ran == []


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_deny_with_a_stop_from_above_stops_the_run_inside(driver: str) -> None:
    class Stop(DenyByName):
        def check(self, state: Any, call: ToolCall, tool: Any) -> Any:
            return Denied("Not that.", stop=True) if call.name == "act" else None

    counter = Counter()
    agent = above(helper(counter, permissions=[AllowByDefault()]), permissions=[Stop(["x"]), AllowByDefault()])
    assert run(driver, agent, "Go") == "All done."
    assert inner_result(agent) == "(helper was stopped by the user: Not that.)"
    assert counter.ran == []


@both_drivers
def test_a_subagent_at_its_turn_limit_says_that_it_has_not_finished(driver: str) -> None:
    counter = Counter()
    sub = helper(counter, *[tool_call("act", n=n) for n in range(5)], permissions=[AllowByDefault()], turn_limit=2)
    agent = above(sub)
    run(driver, agent, "Go")
    assert inner_result(agent) == "(helper stopped after 2 turns before finishing)"
    assert len(counter.ran) == 2


@both_drivers
def test_agents_that_call_themselves_without_an_end_are_stopped(driver: str) -> None:
    depth: list[int] = []

    def again(messages: Any, tools: Any) -> Any:
        if messages[-1].results:
            return messages[-1].results[0].content
        depth.append(1)
        return tool_call("dig", prompt="deeper")

    agents: list[Agent] = []

    async def dig(prompt: str) -> Any:
        return await agents[0].arun(prompt)

    async def model(messages: Any, tools: Any) -> Any:
        return again(messages, tools)

    agents.append(Agent(tools=[dig], name="digger", model=model, permissions=[AllowByDefault()]))
    backend = "asyncio" if driver == "sync" else driver
    answer = run(backend, agents[0], "Dig")
    assert "100 agents are at work below each other (digger > digger > … > digger)" in answer
    assert len(depth) == 100
