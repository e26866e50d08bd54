"""The clock of a budget: what it counts, when it stands still, and what happens when the time is over; and warnings."""

from __future__ import annotations

import pickle
import threading
import warnings
from typing import Any

import anyio
import pytest
from answering import Big, Waiting, act, say, waiting
from rules import Says, arun
from turns import DRIVERS, Counter, run, run_noting

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByName,
    ApprovalDecision,
    Budget,
    BudgetExceeded,
    BudgetWarning,
    DecideByHuman,
    Human,
    Message,
    RunContext,
    State,
    StoppedByBudget,
    StoppedByPermission,
    Tool,
    Turn,
    default_loop,
    loop,
    tool,
)
from agentperm_nb.context import running_in
from agentperm_nb.running import accounts as accounts_module
from agentperm_nb.running.accounts import Spent, account_lock
from agentperm_nb.running.metering import Meter, meter_of
from agentperm_nb.testing import FakeHuman, ScriptedModel, tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)
TIME = StoppedByBudget("budget:max_wall_clock")


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.time = 1_000.0
        self._lock = threading.Lock()

    def __call__(self) -> float:
        return self.time

    def pass_by(self, seconds: float) -> None:
        with self._lock:
            self.time += seconds

    def budget(self, **caps: Any) -> Budget:
        return Budget(soft_warning_at=None, clock=self, **caps)

    def tool(self, seconds: float, name: str = "act", **options: Any) -> Tool:
        """A tool that takes its time."""

        def work(n: int = 0) -> str:
            self.pass_by(seconds)
            return "done"

        return tool(name=name, **options)(work)


def kinds(turn: Turn) -> list[str]:
    return [result.decided_kind for result in turn.results]


# ---------------------------------------------------------------------- what it counts


@both_drivers
@pytest.mark.states("MA5.2")
def test_a_call_that_would_start_after_the_time_is_over_is_not_run(driver: str) -> None:
    clock = Clock()
    budget = clock.budget(max_wall_clock=10)
    agent = Agent([clock.tool(6, parallel=False)], permissions=[AllowByDefault()], budget=budget)
    turn = run(driver, agent, [act(n) for n in range(4)])
    assert kinds(turn) == ["allow", "allow", "budget", "budget"]
    assert (turn.results[2].decided_by, turn.results[2].reason) == (
        "budget: max_wall_clock", "The budget is used up: this run may take 10 s (max_wall_clock).",
    )  # fmt: skip
    assert turn.stopped == agent.state.stopped == TIME
    assert budget.spent(run_id=agent.run_id) == (2, 0, 12.0)


@both_drivers
@pytest.mark.states("MA5.2")
def test_the_time_is_over_when_it_has_been_reached_and_what_runs_is_not_interrupted(driver: str) -> None:
    clock = Clock()
    agent = Agent([clock.tool(10)], permissions=[AllowByDefault()], budget=clock.budget(max_wall_clock=10))
    turn = run(driver, agent, [act(1)])
    assert (turn.results[0].content, turn.stopped) == ("done", TIME)
    assert kinds(run(driver, agent, [act(2)])) == ["budget"]


@both_drivers
@pytest.mark.states("MA5.1", "MA5.2")
def test_a_run_over_time_ends_before_the_model_is_asked_again(driver: str) -> None:
    clock = Clock()

    def slow(messages: Any, tools: Any) -> Any:
        clock.pass_by(4)
        return act(len(messages))

    agent = Agent([clock.tool(1)], permissions=[AllowByDefault()], model=slow, budget=clock.budget(max_wall_clock=10))
    state = State([Message.user("Act")])
    assert arun(driver, agent, state) is None
    assert state.stopped == TIME
    assert [result.verdict for result in state.results] == ["allowed", "allowed"]
    assert agent.audit.calls()["outcome"].tolist() == ["ran", "ran"]


@both_drivers
def test_an_answer_that_comes_with_the_end_of_the_time_is_the_answer(driver: str) -> None:
    clock = Clock()

    def slow(messages: Any, tools: Any) -> Any:
        clock.pass_by(100)
        return "Done."

    state = State([Message.user("Say")])
    agent = Agent(model=slow, budget=clock.budget(max_wall_clock=10))
    assert arun(driver, agent, state) == "Done."
    assert not isinstance(state.stopped, StoppedByBudget)
    state.add_message(Message.user("Again"))
    assert arun(driver, agent, state) is None
    assert state.stopped == TIME


@both_drivers
def test_calls_that_the_model_wanted_when_the_time_ran_out_get_their_results(driver: str) -> None:
    clock, counter = Clock(), Counter()

    def slow(messages: Any, tools: Any) -> Any:
        clock.pass_by(100)
        return [act(1), act(2)]

    state = State([Message.user("Act")])
    agent = Agent([counter.tool], permissions=[AllowByDefault()], model=slow, budget=clock.budget(max_wall_clock=10))
    assert arun(driver, agent, state) is None
    assert ([result.decided_kind for result in state.results], state.pending_calls) == (["budget", "budget"], ())
    assert (counter.ran, state.stopped) == ([], TIME)


def test_the_work_of_a_loop_counts_and_what_comes_between_turns_by_hand_does_not() -> None:
    clock, counter = Clock(), Counter()
    budget = clock.budget(max_wall_clock=100)

    @loop
    def working(agent: Agent, state: State) -> None:
        clock.pass_by(7)
        agent.think(state)

    agent = Agent([counter.tool], permissions=[AllowByDefault()], model=lambda messages, tools: "Done.",
                  loop=working, budget=budget)  # fmt: skip
    state = State([Message.user("Act")])
    agent.run(state)
    assert budget.spent(run_id=state.id).seconds == 7
    agent.use_tools([act(1)])
    clock.pass_by(1_000)
    agent.use_tools([act(2)])
    assert budget.spent(run_id=agent.run_id).seconds == 0


@both_drivers
def test_checks_of_permissions_count(driver: str) -> None:
    clock, counter = Clock(), Counter()

    def slow(state: Any, call: Any, tool: Any) -> None:
        clock.pass_by(6)

    agent = Agent([counter.tool], permissions=[Says(slow), AllowByDefault()], budget=clock.budget(max_wall_clock=10))
    assert kinds(run(driver, agent, [act(1), act(2)])) == ["budget", "budget"]
    assert counter.ran == []


# ---------------------------------------------------------------------- when it stands still


@both_drivers
@pytest.mark.states("MA2.6")
@pytest.mark.parametrize("who", ["handler", "classic", "desk", "by itself"])
def test_the_time_in_which_somebody_is_asked_is_free(who: str, driver: str) -> None:
    clock, counter = Clock(), Counter()
    budget = clock.budget(max_wall_clock=10)

    def handler(request: Any) -> bool:
        clock.pass_by(1_000)
        return True

    class Slow(Human):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            clock.pass_by(1_000)
            return "yes"

    class AsksItself(DecideByHuman):
        def check(self, state: Any, call: Any, tool: Any) -> Any:
            return super().check(state, call, tool)

    options: dict[str, Any] = {
        "handler": {"approval_handler": handler},
        "classic": {"human": Slow()},
        "desk": {"human": Waiting()},
        "by itself": {"human": Slow()},
    }[who]
    permission = AsksItself() if who == "by itself" else DecideByHuman()
    agent = Agent([counter.tool], permissions=[permission], budget=budget, **options)
    if who == "desk":
        with waiting(driver, (agent, [act(1)])) as turns:
            clock.pass_by(1_000)
            say(agent.pending()[0], "allow")
        (turn,) = turns
    else:
        turn = run(driver, agent, [act(1)])
    assert (turn.results[0].verdict, turn.stopped) == ("allowed", None)
    assert budget.spent(run_id=agent.run_id) == (1, 1, 0.0)


@both_drivers
def test_a_question_of_ask_human_is_free_and_so_is_one_that_nobody_answers(driver: str) -> None:
    clock = Clock()

    class Slow(Human):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            clock.pass_by(1_000)
            if prompt == "Anybody?":
                raise EOFError
            return "blue"

    budget = clock.budget(max_wall_clock=10)
    agent = Agent(human=Slow(), budget=budget)

    def ask(prompt: str) -> Any:
        if driver == "sync":
            return agent.ask_human(agent.state, prompt)
        return anyio.run(agent.aask_human, agent.state, prompt, backend=driver)

    assert ask("Which colour?") == "blue"
    with pytest.raises(EOFError):
        ask("Anybody?")
    clock.pass_by(1_000)
    assert budget.spent(run_id=agent.run_id) == (0, 2, 0.0)


@both_drivers
def test_while_a_run_below_asks_the_clock_of_the_run_above_stands_still_too(driver: str) -> None:
    clock, counter = Clock(), Counter()

    def handler(request: Any) -> bool:
        clock.pass_by(1_000)
        return True

    budget = clock.budget(max_wall_clock=50, per_user_max_wall_clock=50)
    helper = Agent([counter.tool, clock.tool(5, "slow")], name="helper", budget=budget, approval_handler=handler,
                   permissions=[AllowByName(["slow"]), DecideByHuman()],
                   model=ScriptedModel([[act(1), tool_call("slow")], "Done."]))  # fmt: skip
    lead = Agent([helper], permissions=[AllowByDefault()], budget=budget, user="ann")
    turn = run(driver, lead, [tool_call("helper", prompt="Act")])
    assert turn.results[0].content == "Done."
    inner = helper.audit.calls()["run"].iloc[0]
    seconds = [budget.spent(run_id=lead.run_id), budget.spent(run_id=inner), budget.spent(user_id="ann")]
    assert [one.seconds for one in seconds] == [5.0, 5.0, 5.0]  # what is below is in the time above already


@both_drivers
def test_a_turn_that_waits_stops_the_clock_of_its_run_and_not_that_of_another(driver: str) -> None:
    clock, counter = Clock(), Counter()
    budget = clock.budget(per_user_max_wall_clock=1_000)
    agent = Agent([counter.tool, clock.tool(5, "slow")], permissions=[AllowByName(["slow"]), DecideByHuman()],
                  human=Waiting(), budget=budget, user="ann")  # fmt: skip
    state = State(pending_calls=[tool_call("slow")])
    with waiting(driver, (agent, [act(1)])):
        run(driver, agent, [tool_call("slow")])  # beside the question, in the same run
        run(driver, agent, state)
        spent = [budget.spent(run_id=agent.run_id), budget.spent(run_id=state.id), budget.spent(user_id="ann")]
        assert [one.seconds for one in spent] == [0.0, 5.0, 5.0]
    clock.pass_by(1_000)
    assert budget.spent(user_id="ann").seconds == 5.0


@both_drivers
def test_a_turn_that_is_interrupted_by_an_exception_stops_its_clock(driver: str) -> None:
    clock, counter = Clock(), Counter()
    budget = clock.budget(max_wall_clock=10)

    class Broken(Human):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            raise OSError("no line")

    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Broken(), budget=budget)
    with pytest.raises(OSError, match="no line"):
        run(driver, agent, [act(1)])
    clock.pass_by(1_000)
    assert budget.spent(run_id=agent.run_id).seconds == 0.0
    run(driver, Agent([clock.tool(2)], permissions=[AllowByDefault()], budget=budget), State(pending_calls=[act(1)]))
    assert budget.spent(run_id=agent.run_id).seconds == 0.0


@pytest.mark.parametrize("driver", ["asyncio", "trio"])
def test_a_cancelled_turn_stops_its_clock_and_its_call_does_not_count(driver: str) -> None:
    clock, counter = Clock(), Counter()
    budget = clock.budget(max_calls=5, max_wall_clock=10)
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Waiting(), budget=budget)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(lambda: _awaited(agent))
            while not agent.pending():
                await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()

    anyio.run(main, backend=driver)
    clock.pass_by(1_000)
    assert budget.spent(run_id=agent.run_id) == (0, 1, 0.0)


async def _awaited(agent: Agent) -> None:
    await agent.ause_tools([act(1)])


def test_the_time_of_a_user_is_the_sum_of_that_of_all_runs() -> None:
    clock = Clock()
    budget = clock.budget(per_user_max_wall_clock=12)
    agent = Agent([clock.tool(5)], permissions=[AllowByDefault()], budget=budget)
    found = []
    for _ in range(4):
        found += kinds(agent.use_tools([act(1)], user="ann"))
        agent.new_run()
    assert found == ["allow", "allow", "allow", "budget"]
    assert budget.spent(user_id="ann") == (3, 0, 15.0)
    assert kinds(agent.use_tools([act(1)], user="bob")) == ["allow"]
    budget.reset(user_id="ann")
    assert kinds(agent.use_tools([act(1)], user="ann")) == ["allow"]


def test_two_runs_at_the_same_time_count_twice_for_their_user() -> None:
    clock = Clock()
    budget = clock.budget(per_user_max_wall_clock=100)
    meters = [meter_of(budget, RunContext(f"run_{n}", "s", "ann"), None) for n in range(2)]
    for meter in meters:
        assert meter is not None
        meter.begin()
    clock.pass_by(3)
    assert budget.spent(user_id="ann").seconds == 6.0
    assert meters[0] is not None
    meters[0].end()
    clock.pass_by(3)
    assert budget.spent(user_id="ann").seconds == 9.0
    assert [budget.spent(run_id=f"run_{n}").seconds for n in range(2)] == [3.0, 6.0]


# ---------------------------------------------------------------------- errors and loops by hand


@both_drivers
def test_thinking_by_hand_after_the_time_is_over_is_an_error_that_changes_nothing_else(driver: str) -> None:
    clock = Clock()
    model = ScriptedModel(["never"])
    agent = Agent([clock.tool(10)], permissions=[AllowByDefault()], model=model, budget=clock.budget(max_wall_clock=10))
    run(driver, agent, [act(1)])
    turn = agent.state.turn
    think = agent.think if driver == "sync" else lambda state: anyio.run(agent.athink, state, backend=driver)
    with pytest.raises(BudgetExceeded) as caught:
        think(agent.state)
    assert str(caught.value) == (
        "The budget is used up: this run may take 10 s (max_wall_clock). (budget:max_wall_clock)"
    )
    assert (model.remaining, agent.state.turn, agent.state.stopped) == (1, turn, TIME)
    agent.state.finish()
    with pytest.raises(ValueError, match="finished State"):
        think(agent.state)


def test_a_loop_by_hand_returns_when_the_time_is_over() -> None:
    clock = Clock()
    model = ScriptedModel([act(1), "never"])
    agent = Agent([clock.tool(10)], permissions=[AllowByDefault()], model=model, budget=clock.budget(max_wall_clock=10))
    state = State([Message.user("Act")])
    assert default_loop(agent, state) is None
    assert (state.stopped, model.remaining) == (TIME, 1)


def test_a_loop_that_asks_no_model_ends_when_the_time_is_over() -> None:
    clock, turns = Clock(), list[int]()

    @loop(until=[])
    def working(agent: Agent, state: State) -> None:
        turns.append(1)
        clock.pass_by(4)

    state = State([Message.user("Work")])
    assert Agent(loop=working, budget=clock.budget(max_wall_clock=10)).run(state) is None
    assert (len(turns), state.stopped) == (3, TIME)


def test_a_run_that_has_stopped_does_not_go_on_when_its_user_may_spend_again() -> None:
    counter, budget = Counter(), Budget(per_user_max_calls=1, soft_warning_at=None)

    @loop
    def forgiving(agent: Agent, state: State) -> None:
        agent.think(state)
        agent.use_tools(state)
        budget.reset(user_id="ann")

    agent = Agent([counter.tool], permissions=[AllowByDefault()], model=ScriptedModel([[act(1), act(2)], "never"]),
                  loop=forgiving, budget=budget, user="ann")  # fmt: skip
    state = State([Message.user("Act")])
    assert agent.run(state) is None
    assert (state.stopped, len(counter.ran)) == (StoppedByBudget("budget:per_user_max_calls"), 1)


def test_what_the_stop_of_a_permission_left_is_an_outcome_too() -> None:
    clock = Clock()

    @loop
    def twice(agent: Agent, state: State) -> None:
        agent.think(state)
        agent.use_tools(state)
        clock.pass_by(100)
        agent.think(state)

    model = ScriptedModel([act(1), "never"])
    agent = Agent([clock.tool(1)], permissions=[DecideByHuman()], model=model, loop=twice,
                  budget=clock.budget(max_wall_clock=10),
                  approval_handler=lambda request: ApprovalDecision("deny", stop=True))  # fmt: skip
    state = State([Message.user("Act")])
    assert agent.run(state) is None
    assert isinstance(state.stopped, StoppedByPermission)


def test_an_exception_of_that_name_from_elsewhere_goes_to_the_caller() -> None:
    budget = Budget(max_calls=1, soft_warning_at=None)
    budget_of_another = Budget(per_user_max_calls=0, soft_warning_at=None)

    @loop
    def checks(agent: Agent, state: State) -> None:
        agent.think(state)
        budget_of_another.check(user_id="bob")

    agent = Agent(model=ScriptedModel(["Done."]), loop=checks, budget=budget)
    with pytest.raises(BudgetExceeded, match="per_user_max_calls"):
        agent.run("Act")


def test_check_raises_when_a_cap_is_reached_and_finds_the_run_by_itself() -> None:
    budget, counter = Budget(max_calls=1, per_user_max_calls=2, soft_warning_at=None), Counter()
    agent = Agent([counter.tool], permissions=[AllowByDefault()], budget=budget, user="ann")
    budget.check(run_id=agent.run_id)
    budget.check(user_id="ann")
    agent.use_tools([act(1)])
    with pytest.raises(BudgetExceeded, match="may make 1 call") as caught:
        budget.check(run_id=agent.run_id)
    assert caught.value.reason == "budget:max_calls"
    budget.check(user_id="ann")
    with running_in(RunContext(agent.run_id, "s", "ann")), pytest.raises(BudgetExceeded):
        budget.check()
    with running_in(RunContext("another", "s", "ann")):
        budget.check()
    agent.new_run()
    agent.use_tools([act(2)])
    with running_in(RunContext("another", "s", "ann")), pytest.raises(BudgetExceeded, match="this user may make 2"):
        budget.check()
    with pytest.raises(ValueError, match=r"outside of a run[\s\S]*Example:"):
        budget.check()


def test_spent_takes_a_run_or_a_user_and_knows_nothing_of_others() -> None:
    budget = Budget()
    assert budget.spent(run_id="none") == budget.spent(user_id=None) == Spent(0, 0, 0.0)
    for wrong in ({}, {"run_id": "a", "user_id": "b"}, {"run_id": "a", "user_id": None}):
        with pytest.raises(TypeError, match=r"takes a run or a user[\s\S]*Example:"):
            budget.spent(**wrong)  # type: ignore[arg-type]
    budget.reset(user_id="nobody")


def test_the_error_can_be_pickled() -> None:
    error = BudgetExceeded("budget:max_calls", "It is used up.")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.reason, str(again)) == (
        BudgetExceeded, "budget:max_calls", "It is used up. (budget:max_calls)",
    )  # fmt: skip
    assert str(BudgetExceeded("budget:max_asks")) == "budget:max_asks"
    assert pickle.loads(pickle.dumps(TIME)) == TIME


# ---------------------------------------------------------------------- warnings


@both_drivers
@pytest.mark.states("MA5.2")
def test_much_of_a_cap_is_warned_of_once_for_each_run_and_cap(driver: str) -> None:
    clock, counter = Clock(), Counter()
    budget = Budget(max_calls=5, max_asks=10, per_user_max_calls=8, clock=clock)
    agent = Agent([counter.tool], permissions=[AllowByDefault()], budget=budget, user="ann")
    warned = []
    for n in range(4):
        warned.append(run_noting(driver, agent, [act(n), act(n)])[1])
        if n == 1:
            agent.new_run()
    assert warned == [
        [],
        ["4 of 5 calls of the run are spent (max_calls)"],
        [],
        [
            "4 of 5 calls of the run are spent (max_calls)",
            "8 of 8 calls of the user are spent (per_user_max_calls)",
        ],
    ]


@both_drivers
def test_a_warning_says_where_and_is_a_budget_warning(driver: str) -> None:
    agent = Agent([Counter().tool], permissions=[AllowByDefault()], budget=Budget(max_calls=1))
    with pytest.warns(BudgetWarning, match=r"1 of 1 calls of the run are spent \(max_calls\)"):
        run(driver, agent, [act(1)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(driver, agent, [act(2)])


@both_drivers
def test_a_warning_that_is_made_an_error_comes_when_the_turn_is_done(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[AllowByDefault()], budget=Budget(max_calls=2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(BudgetWarning):
            run(driver, agent, [act(1), act(2)])
    assert len(counter.ran) == 2
    assert [result.verdict for result in agent.turns[-1].results] == ["allowed", "allowed"]
    assert agent.audit.calls()["outcome"].tolist() == ["ran", "ran"]


def test_time_and_questions_are_warned_of_where_they_are_spent() -> None:
    clock = Clock()

    def slow(messages: Any, tools: Any) -> str:
        clock.pass_by(9)
        return "Done."

    agent = Agent(model=slow, human=FakeHuman(["blue"]), budget=Budget(max_wall_clock=10, max_asks=1, clock=clock))
    with pytest.warns(BudgetWarning, match=r"9 of 10 seconds of the run are spent \(max_wall_clock\)"):
        agent.run("Say")
    with pytest.warns(BudgetWarning, match=r"1 of 1 questions of the run are spent \(max_asks\)"):
        assert agent.ask_human(agent.state, "Which?") == "blue"
    assert [entry.kind for entry in agent.state.history] == ["human"]


@pytest.mark.parametrize(
    "options", [{"soft_warning_at": None, "max_calls": 2}, {"max_calls": 0}, {"max_calls": 9}, {}], ids=repr
)
def test_nothing_is_said_where_there_is_nothing_to_say(options: dict[str, Any]) -> None:
    agent = Agent([Counter().tool], permissions=[AllowByDefault()], budget=Budget(**options))
    agent.use_tools([act(1), act(2), act(3)])


# ---------------------------------------------------------------------- bounded, and never waiting


def spend(budget: Budget, run_id: str, user: str, calls: int = 1) -> list[bool]:
    meter = meter_of(budget, RunContext(run_id, "s", user), None)
    assert meter is not None
    meter.begin()
    allowed = [meter.call() is None for _ in range(calls)]
    meter.end()
    return allowed


def test_the_oldest_idle_runs_and_users_are_forgotten_and_those_who_have_reached_a_cap_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(accounts_module, "KEPT", 3)
    budget = Budget(per_user_max_calls=2, soft_warning_at=None)
    spend(budget, "first", "ann", 3)
    spend(budget, "second", "bob", 1)
    busy = meter_of(budget, RunContext("busy", "s", "busy"), None)
    assert busy is not None
    busy.begin()
    busy.call()
    for n in range(10):
        spend(budget, f"run_{n}", f"user_{n}")
    assert budget.spent(user_id="ann").calls == 2
    assert spend(budget, "later", "ann") == [False]
    assert budget.spent(user_id="bob").calls == budget.spent(run_id="second").calls == 0
    assert budget.spent(run_id="busy").calls == budget.spent(user_id="busy").calls == 1
    assert budget.spent(user_id="user_9").calls == 1
    for n in range(10):
        spend(budget, f"run_{n}", f"user_{n}")
    budget.reset(user_id="ann")
    assert spend(budget, "later", "ann") == [True]
    accounts = budget.accounts
    assert len(accounts._runs) <= 4
    assert len(accounts._users) <= 4
    assert accounts._full == {}


def test_a_run_that_is_used_up_stays_so_after_any_number_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts_module, "KEPT", 3)
    budget = Budget(max_calls=2, soft_warning_at=None)
    used_up, other = (Agent([Counter().tool], permissions=[AllowByDefault()], budget=budget) for _ in range(2))
    assert [result.verdict for result in used_up.use_tools([act(n) for n in range(3)]).results] == [
        *("allowed", "allowed", "denied")
    ]
    assert budget.spent(run_id=used_up.run_id).calls == 2
    for _ in range(2):
        for n in range(10):
            spend(budget, f"run_{n}", "bob")
        assert budget.spent(run_id=used_up.run_id).calls == 2
        with pytest.raises(BudgetExceeded):
            budget.check(run_id=used_up.run_id)
        assert used_up.over_budget(used_up.state)
        assert used_up.use_tools([act(4)]).results[0].decided_by == "budget: max_calls"
    assert other.use_tools([act(1)]).results[0].verdict == "allowed"
    for n in range(10):
        spend(budget, f"later_{n}", "bob")
    assert budget.spent(run_id=other.run_id).calls == 0
    assert list(budget.accounts._used_up) == [used_up.run_id]


def test_a_run_that_is_kept_is_not_warned_of_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts_module, "KEPT", 1)
    budget = Budget(max_calls=1)
    agent = Agent([Counter().tool], permissions=[AllowByDefault()], budget=budget)
    with pytest.warns(BudgetWarning, match="1 of 1 calls"):
        agent.use_tools([act(1)])
    spend(budget, "another", "bob")
    assert list(budget.accounts._used_up) == [agent.run_id]
    assert agent.use_tools([act(2)]).results[0].verdict == "denied"


def test_a_cap_of_nothing_keeps_nobody_in_mind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts_module, "KEPT", 2)
    budget = Budget(per_user_max_calls=0, max_asks=0, soft_warning_at=None)
    for n in range(10):
        assert spend(budget, f"run_{n}", f"user_{n}") == [False]
    assert budget.accounts._full == {}
    assert budget.accounts._used_up == {}


def test_many_threads_take_exactly_what_there_is() -> None:
    budget, taken = Budget(per_user_max_calls=100, soft_warning_at=None), list[bool]()

    def work(n: int) -> None:
        for i in range(20):
            taken.extend(spend(budget, f"run_{n}_{i}", "ann"))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (taken.count(True), len(taken)) == (100, 200)
    assert budget.spent(user_id="ann").calls == 100


def test_the_end_of_work_never_waits_and_counts_from_when_it_was() -> None:
    clock = Clock()
    budget = clock.budget(max_wall_clock=100)
    meter = meter_of(budget, RunContext("run", "s", "ann"), None)
    assert isinstance(meter, Meter)
    meter.begin()
    clock.pass_by(3)
    with account_lock:  # as when the garbage collector ends a turn in a thread that is at the accounts
        meter.end()
        clock.pass_by(1_000)
    assert budget.spent(run_id="run").seconds == 3.0
    assert budget.spent(user_id="ann").seconds == 3.0
    clock.pass_by(1_000)
    assert budget.spent(run_id="run").seconds == 3.0


@both_drivers
def test_somebody_of_a_rule_of_its_own_is_asked_in_free_time_too(driver: str) -> None:
    clock, counter = Clock(), Counter()

    class Slow(Human):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            clock.pass_by(1_000)
            return "yes"

    budget = clock.budget(max_wall_clock=10, max_asks=3)
    agent = Agent([counter.tool], permissions=[Big(Slow()), AllowByDefault()], budget=budget)
    assert kinds(run(driver, agent, [act(1), act(11)])) == ["allow", "human"]
    assert budget.spent(run_id=agent.run_id) == (2, 1, 0.0)
