"""Budgets of calls and questions: what counts, for whom, and what happens to the one that is one too many."""

from __future__ import annotations

import threading
from collections.abc import Callable
from copy import deepcopy
from datetime import timedelta
from typing import Any

import anyio
import pytest
from answering import ALWAYS, Telling, Waiting, act, say, told, waiting
from hypothesis import given, settings
from hypothesis import strategies as st
from rules import Says, arun
from turns import DRIVERS, Counter, Scripted, run

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByName,
    Allowed,
    ApprovalDecision,
    Budget,
    BudgetExceeded,
    DecideByHuman,
    Denied,
    Message,
    State,
    StoppedByBudget,
    StoppedByPermission,
    Tool,
    ToolCall,
    Turn,
    loop,
)
from agentperm_nb.approvals.approvers import NobodyApprover
from agentperm_nb.approvals.desk import the_desk
from agentperm_nb.testing import FakeHuman, ScriptedModel, tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)
CALLS = StoppedByBudget("budget:max_calls")
ASKS = StoppedByBudget("budget:max_asks")


def budget_of(**caps: Any) -> Budget:
    """A budget that does not warn."""
    return Budget(soft_warning_at=None, **caps)


def allowing(counter: Counter, budget: Budget | None, **options: Any) -> Agent:
    return Agent([counter.tool], permissions=[AllowByDefault()], budget=budget, **options)


def asking(counter: Counter, budget: Budget, answer: Any, **options: Any) -> Agent:
    """An agent whose calls are all asked about."""
    return Agent([counter.tool], permissions=[DecideByHuman()], budget=budget, approval_handler=answer, **options)


def kinds(turn: Turn) -> list[str]:
    return [result.decided_kind for result in turn.results]


# ---------------------------------------------------------------------- calls


@both_drivers
@pytest.mark.states("MA5.1", "MA5.2")
def test_a_call_over_the_budget_is_denied_and_the_others_of_its_turn_run(driver: str) -> None:
    counter, budget = Counter(), budget_of(max_calls=2)
    agent = allowing(counter, budget)
    turn = run(driver, agent, [act(1), act(2), act(3)])
    assert [result.verdict for result in turn.results] == ["allowed", "allowed", "denied"]
    over = turn.results[2]
    assert (over.decided_kind, over.decided_by, over.answered_by) == ("budget", "budget: max_calls", None)
    assert over.reason == over.content == "The budget is used up: this run may make 2 calls (max_calls)."
    assert len(counter.ran) == 2
    assert turn.stopped == agent.state.stopped == CALLS
    assert str(CALLS) == "stopped by budget:max_calls"
    assert budget.spent(run_id=agent.run_id) == (2, 0, budget.spent(run_id=agent.run_id).seconds)
    rows = agent.audit.calls()
    assert rows["decided_kind"].tolist() == ["allow", "allow", "budget"]
    assert rows[["verdict", "decided_by", "outcome", "stop"]].iloc[2].tolist() == [
        "denied", "budget: max_calls", "not_run", False,
    ]  # fmt: skip
    assert "stopped by budget:max_calls" in repr(turn)


@both_drivers
def test_the_last_call_of_a_budget_runs_and_stops_nothing(driver: str) -> None:
    counter = Counter()
    agent = allowing(counter, budget_of(max_calls=2))
    assert [run(driver, agent, [act(n)]).stopped for n in (1, 2)] == [None, None]
    turn = run(driver, agent, [act(3)])
    assert (kinds(turn), turn.stopped) == (["budget"], CALLS)
    assert len(counter.ran) == 2


@both_drivers
def test_a_budget_of_nothing_lets_nothing_run(driver: str) -> None:
    counter = Counter()
    agent = allowing(counter, budget_of(max_calls=0))
    assert kinds(run(driver, agent, [act(1)])) == ["budget"]
    assert counter.ran == []


@both_drivers
def test_without_checks_a_budget_holds_all_the_same(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=None, budget=budget_of(max_calls=1))
    assert kinds(run(driver, agent, [act(1), act(2)])) == ["unchecked", "budget"]
    assert len(counter.ran) == 1


@both_drivers
@pytest.mark.states("MA5.1")
def test_a_run_whose_budget_is_used_up_ends_before_the_model_is_asked_again(driver: str) -> None:
    counter, model = Counter(), ScriptedModel([act(1), act(2), act(3), "never"])
    state = State([Message.user("Act")])
    agent = allowing(counter, budget_of(max_calls=2), model=model)
    assert arun(driver, agent, state) is None
    assert (state.stopped, len(counter.ran), model.remaining) == (CALLS, 2, 1)
    assert state.pending_calls == ()
    again = arun(driver, agent, state)  # the same run: nothing is left of its budget
    assert (again, state.stopped, model.remaining) == (None, CALLS, 1)


@both_drivers
def test_a_run_that_needs_exactly_its_budget_gives_its_answer(driver: str) -> None:
    counter, state = Counter(), State([Message.user("Act")])
    agent = allowing(counter, budget_of(max_calls=2), model=ScriptedModel([act(1), act(2), "Done."]))
    assert arun(driver, agent, state) == "Done."
    assert not isinstance(state.stopped, StoppedByBudget)


@both_drivers
def test_what_does_not_start_does_not_count(driver: str) -> None:
    counter, budget = Counter(), budget_of(max_calls=1)
    no = Says(lambda state, call, tool: Denied("no") if call.args["n"] == 1 else None)
    stop = Says(lambda state, call, tool: Denied("stop", stop=True) if call.args["n"] == 2 else None)
    agent = Agent([counter.tool], permissions=[no, stop, AllowByDefault()], budget=budget)
    turn = run(driver, agent, [act(1), tool_call("unknown", n=1), ToolCall("act", {"n": "x"}), act(0), act(2)])
    assert [result.verdict for result in turn.results] == [
        "denied", "input_error", "input_error", "cancelled", "denied",
    ]  # fmt: skip
    assert isinstance(turn.stopped, StoppedByPermission)
    assert budget.spent(run_id=agent.run_id).calls == 0
    assert kinds(run(driver, agent, [act(3)])) == ["allow"]
    agent.explain("act", n=1)
    assert budget.spent(run_id=agent.run_id).calls == 1


@both_drivers
def test_a_call_that_fails_and_one_that_was_edited_count(driver: str) -> None:
    counter, budget = Counter(), budget_of(max_calls=2)

    def fails() -> None:
        raise OSError("broken")

    agent = Agent(
        [fails, counter.tool], permissions=[DecideByHuman()], budget=budget,
        approval_handler=lambda request: ApprovalDecision("edit", edited_args={"n": 7})
        if request.call.name == "act"
        else True,
    )  # fmt: skip
    turn = run(driver, agent, [tool_call("fails"), act(1), act(2)])
    assert [result.outcome.kind.value for result in turn.results] == ["error", "done", "denied"]
    assert counter.ran == [{"n": 7}]


@both_drivers
def test_an_edit_is_no_way_around_a_budget(driver: str) -> None:
    counter = Counter()
    edit = ApprovalDecision("edit", edited_args={"n": 7})
    agent = asking(counter, budget_of(max_calls=1), lambda request: edit)
    turn = run(driver, agent, [act(1), act(2), act(3)])
    assert kinds(turn) == ["human", "budget", "budget"]
    assert counter.ran == [{"n": 7}]


@both_drivers
def test_nobody_is_asked_about_a_call_that_could_not_run(driver: str) -> None:
    counter, handler = Counter(), Telling(True)
    agent = asking(counter, budget_of(max_calls=1), handler)
    run(driver, agent, [act(1)])
    turn = run(driver, agent, [act(2)])
    assert (kinds(turn), handler.asked) == (["budget"], [1])


@both_drivers
def test_a_remembered_allow_passes_no_budget(driver: str) -> None:
    counter = Counter()
    agent = asking(counter, budget_of(max_calls=2), lambda request: ALWAYS)
    found = [kinds(run(driver, agent, [act(n)])) for n in range(4)]
    assert found == [["human"], ["memory"], ["budget"], ["budget"]]
    assert len(counter.ran) == 2


@both_drivers
@pytest.mark.parametrize("parallel", [True, False], ids=["parallel", "one by one"])
def test_every_call_of_a_turn_gets_a_result_whichever_is_one_too_many(parallel: bool, driver: str) -> None:
    counter, other = Counter(parallel=parallel), Counter("other", parallel=not parallel)
    agent = Agent([counter.tool, other.tool], permissions=[AllowByDefault()], budget=budget_of(max_calls=3))
    turn = run(driver, agent, [act(n) if n % 2 else tool_call("other", n=n) for n in range(8)])
    assert sorted(result.verdict for result in turn.results) == ["allowed"] * 3 + ["denied"] * 5
    assert len(counter.ran) + len(other.ran) == 3
    assert agent.state.pending_calls == ()


# ---------------------------------------------------------------------- whose budget


@both_drivers
def test_a_cap_holds_for_one_run_and_a_cap_per_user_for_all_of_them(driver: str) -> None:
    counter = Counter()
    budget = budget_of(max_calls=2, per_user_max_calls=3)
    agent = allowing(counter, budget)
    assert kinds(run(driver, agent, [act(n) for n in range(3)], user="ann")) == ["allow", "allow", "budget"]
    agent.new_run()
    turn = run(driver, agent, [act(n) for n in range(3)], user="ann")
    assert [result.decided_by for result in turn.results[1:]] == ["budget: per_user_max_calls"] * 2
    assert turn.results[1].reason == "The budget is used up: this user may make 3 calls (per_user_max_calls)."
    assert turn.stopped == StoppedByBudget("budget:per_user_max_calls")
    assert kinds(run(driver, agent, [act(1)], user="bob")) == ["allow"]
    assert budget.spent(user_id="ann").calls == 3
    budget.reset(user_id="ann")
    agent.new_run()
    assert kinds(run(driver, agent, [act(1)], user="ann")) == ["allow"]
    assert (budget.spent(user_id="ann").calls, budget.spent(user_id="bob").calls) == (1, 1)


@both_drivers
def test_agents_may_share_a_budget_and_a_copy_does(driver: str) -> None:
    counter, budget = Counter(), budget_of(per_user_max_calls=2)
    agent, other = allowing(counter, budget, user="ann"), allowing(counter, budget, user="ann", name="other")
    found = [kinds(run(driver, one, [act(1)])) for one in (agent, other, agent.copy(name="third"))]
    assert found == [["allow"], ["allow"], ["budget"]]
    alone = agent.copy(budget=None)
    assert kinds(run(driver, alone, [act(1)])) == ["allow"]
    assert "budget: Budget(per_user_max_calls=2)" in repr(agent)
    assert "budget:" not in repr(alone)


@both_drivers
def test_a_state_is_a_run_of_its_own(driver: str) -> None:
    counter, budget = Counter(), budget_of(max_calls=1)
    agent = allowing(counter, budget)
    state = State(pending_calls=[act(1), act(2)])
    assert kinds(run(driver, agent, state)) == ["allow", "budget"]
    assert kinds(run(driver, agent, [act(3)])) == ["allow"]
    assert [budget.spent(run_id=one).calls for one in (state.id, agent.run_id, "none")] == [1, 1, 0]


def helper_of(counter: Counter, *replies: Any, **options: Any) -> Agent:
    options.setdefault("permissions", [AllowByDefault()])
    return Agent([counter.tool], name="helper", model=ScriptedModel(replies), **options)


@both_drivers
def test_what_a_run_below_does_counts_towards_the_run_above_which_ends(driver: str) -> None:
    counter, budget = Counter(), budget_of(max_calls=2, per_user_max_calls=5)
    helper = helper_of(counter, act(1), act(2), "never")
    model = ScriptedModel([tool_call("helper", prompt="Act"), "never"])
    lead = Agent([helper], permissions=[AllowByDefault()], model=model, budget=budget, user="ann")
    state = State([Message.user("Act")])
    assert arun(driver, lead, state) is None
    assert (len(counter.ran), state.stopped, model.remaining, helper.model.remaining) == (1, CALLS, 1, 1)  # type: ignore[union-attr]
    assert state.results[0].content == "(helper stopped because a budget is used up: max_calls)"
    assert budget.spent(run_id=state.id).calls == budget.spent(user_id="ann").calls == 2
    rows = helper.audit.calls()
    assert rows["decided_by"].tolist()[1] == "budget: max_calls"


@both_drivers
def test_a_budget_of_a_run_below_ends_that_run_only(driver: str) -> None:
    counter = Counter()
    helper = helper_of(counter, act(1), act(2), "never", budget=budget_of(max_calls=1))
    lead = Agent([helper], permissions=[AllowByDefault()], budget=budget_of(max_calls=9),
                 model=ScriptedModel([tool_call("helper", prompt="Act"), "Done."]))  # fmt: skip
    state = State([Message.user("Act")])
    assert arun(driver, lead, state) == "Done."
    assert (len(counter.ran), state.results[0].content) == (
        1,
        "(helper stopped because a budget is used up: max_calls)",
    )
    assert not isinstance(state.stopped, StoppedByBudget)


@both_drivers
def test_a_shared_budget_counts_a_call_below_once_for_the_user_and_for_each_run(driver: str) -> None:
    counter, budget = Counter(), budget_of(max_calls=9, per_user_max_calls=9)
    helper = helper_of(counter, act(1), act(2), "Done.", budget=budget)
    lead = Agent([helper], permissions=[AllowByDefault()], budget=budget, user="ann")
    run(driver, lead, [tool_call("helper", prompt="Act")])
    inner = helper.audit.calls()["run"].iloc[0]
    spent = [budget.spent(run_id=lead.run_id), budget.spent(run_id=inner), budget.spent(user_id="ann")]
    assert [one.calls for one in spent] == [3, 2, 3]


@both_drivers
def test_questions_below_count_towards_the_run_above(driver: str) -> None:
    counter, handler = Counter(), Telling(True, True, True)
    helper = helper_of(counter, [act(1), act(2)], "Done.", permissions=[DecideByHuman()], approval_handler=handler)
    lead = Agent([helper], permissions=[DecideByHuman()], budget=budget_of(max_asks=2), approval_handler=handler)
    turn = run(driver, lead, [tool_call("helper", prompt="Act")])
    assert len(handler.asked) == 2
    assert counter.ran == [{"n": 1}]
    assert turn.stopped == ASKS


# ---------------------------------------------------------------------- questions


@both_drivers
def test_a_question_over_the_budget_is_put_to_nobody_and_the_others_go_on(driver: str) -> None:
    counter, budget = Counter(), budget_of(max_asks=2)
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Waiting(), budget=budget)
    with waiting(driver, (agent, [act(1), act(2), act(3)])) as turns:
        assert [request.call.args["n"] for request in agent.pending()] == [1, 2]
        for request in agent.pending():
            say(request, "allow")
    (turn,) = turns
    assert kinds(turn) == ["human", "human", "budget"]
    over = turn.results[2]
    assert (over.decided_by, over.reason) == (
        "budget: max_asks", "The budget is used up: this run may ask 2 questions (max_asks).",
    )  # fmt: skip
    assert len(counter.ran) == 2
    assert turn.stopped == agent.state.stopped == ASKS
    assert budget.spent(run_id=agent.run_id)[:2] == (2, 2)
    assert agent.audit.calls()["asked"].tolist() == [True, True, False]


@both_drivers
def test_rules_and_remembered_answers_and_nobody_are_free(driver: str) -> None:
    counter, free, budget = Counter(), Counter("free"), budget_of(max_asks=1)
    agent = Agent([counter.tool, free.tool], budget=budget, approval_handler=lambda request: ALWAYS,
                  permissions=[Says(lambda s, c, t: None), AllowByName(["free"]), DecideByHuman()])  # fmt: skip
    for n in range(3):
        assert told(run(driver, agent, [act(n), tool_call("free", n=n)]))[1][0] == "allowed"
    assert budget.spent(run_id=agent.run_id).asks == 1
    assert len(counter.ran) == len(free.ran) == 3
    nobody = Agent([counter.tool], permissions=[DecideByHuman()], human=NobodyApprover("Not at night."), budget=budget)
    turn = run(driver, nobody, [act(1), act(2)])
    assert [result.reason for result in turn.results] == ["Not at night."] * 2
    assert budget.spent(run_id=nobody.run_id).asks == 0


class AsksItself(DecideByHuman):
    """Overrides how it asks."""

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Any:
        return super().check(state, call, tool)


@both_drivers
def test_a_permission_that_asks_by_itself_asks_no_more_than_the_budget(driver: str) -> None:
    counter, human, budget = Counter(), FakeHuman(["yes", "yes", "yes"]), budget_of(max_asks=2)
    agent = Agent([counter.tool], permissions=[AsksItself()], human=human, budget=budget)
    turn = run(driver, agent, [act(1), act(2), act(3)])
    assert [result.verdict for result in turn.results] == ["allowed", "allowed", "denied"]
    assert (turn.results[2].decided_by, len(human.questions), len(counter.ran)) == ("budget: max_asks", 2, 2)
    assert turn.stopped == ASKS


@both_drivers
def test_a_question_that_expires_counts(driver: str) -> None:
    counter, budget = Counter(), budget_of(max_asks=1)
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Waiting(), budget=budget)
    with waiting(driver, (agent, [act(1)])) as turns:
        the_desk.expire(agent.pending()[0].id, "nobody answered")
    assert (kinds(turns[0]), turns[0].stopped) == (["timeout"], None)
    assert kinds(run(driver, agent, [act(2)])) == ["budget"]
    assert counter.ran == []


@both_drivers
def test_ask_human_counts_and_is_refused_where_no_question_is_left(driver: str) -> None:
    human, budget = FakeHuman(["blue", "red"]), budget_of(max_asks=1)
    agent = Agent([Counter().tool], human=human, budget=budget)
    ask = _asker(driver, agent)
    assert ask("Which colour?") == "blue"
    with pytest.raises(BudgetExceeded, match=r"may ask 1 question \(max_asks\)\. \(budget:max_asks\)") as caught:
        ask("Which other?")
    assert caught.value.reason == "budget:max_asks"
    assert human.questions == ["Which colour?"]
    assert agent.state.stopped == ASKS
    agent.new_run()
    assert ask("Which other?") == "red"


def _asker(driver: str, agent: Agent) -> Callable[[str], Any]:
    if driver == "sync":
        return lambda prompt: agent.ask_human(agent.state, prompt)
    return lambda prompt: anyio.run(agent.aask_human, agent.state, prompt, backend=driver)


def test_a_question_of_a_loop_over_the_budget_is_an_outcome_of_the_run() -> None:
    human, model = FakeHuman(["go on", "go on"]), ScriptedModel([act(1), act(2), "Done."])
    counter = Counter()

    @loop
    def asks_first(agent: Agent, state: State) -> None:
        agent.think(state)
        agent.ask_human(state, "Go on?")
        if state.pending_calls:
            agent.use_tools(state)

    agent = allowing(counter, budget_of(max_asks=1), human=human, model=model, loop=asks_first)
    state = State([Message.user("Act")])
    assert agent.run(state) is None
    assert (state.stopped, counter.ran, state.pending_calls) == (ASKS, [{"n": 1}], ())
    assert state.results[-1].outcome.kind.value == "aborted"


# ---------------------------------------------------------------------- how a run ends


def test_a_budget_ends_outer_loops_too_and_what_is_under_way_goes_on() -> None:
    counter, turns = Counter(), list[str]()
    model = ScriptedModel([[act(1), act(2), act(3)], "never"])

    @loop
    def inner(agent: Agent, state: State) -> None:
        turns.append("inner")
        agent.think(state)
        agent.use_tools(state)

    @loop
    def outer(agent: Agent, state: State) -> None:
        turns.append("outer")
        inner(agent, state)

    agent = allowing(counter, budget_of(max_calls=2), model=model, loop=outer)
    state = State([Message.user("Act")])
    assert agent.run(state) is None
    assert (turns, state.stopped, len(counter.ran)) == (["outer", "inner"], CALLS, 2)


@pytest.mark.parametrize("whole", [True, False], ids=["@loop", "a function"])
def test_a_loop_that_thinks_again_in_the_same_turn_ends_there(whole: bool) -> None:
    counter, model = Counter(), ScriptedModel([[act(1), act(2)], "never"])

    def twice(agent: Agent, state: State) -> None:
        for _ in range(2):
            agent.think(state)
            agent.use_tools(state)

    agent = allowing(counter, budget_of(max_calls=1), model=model, loop=loop(twice) if whole else twice)
    state = State([Message.user("Act")])
    assert agent.run(state) is None
    assert (state.stopped, len(counter.ran), model.remaining) == (CALLS, 1, 1)
    assert [entry.kind for entry in state.history].count("stop") == 1
    assert not any(entry.kind == "error" for entry in state.history)


@both_drivers
def test_thinking_by_hand_on_a_used_up_budget_is_an_error(driver: str) -> None:
    counter, model = Counter(), ScriptedModel(["never"])
    agent = allowing(counter, budget_of(max_calls=1), model=model)
    run(driver, agent, [act(1), act(2)])
    think = agent.think if driver == "sync" else lambda state: anyio.run(agent.athink, state, backend=driver)
    with pytest.raises(BudgetExceeded, match=r"may make 1 call \(max_calls\)") as caught:
        think(agent.state)
    assert caught.value.reason == "budget:max_calls"
    assert model.remaining == 1


def test_the_stop_of_a_permission_comes_before_that_of_a_budget() -> None:
    counter = Counter()
    stop = Says(lambda state, call, tool: Denied("stop", stop=True) if len(counter.ran) == 1 else None)
    agent = Agent([counter.tool], permissions=[AsksItself()], human=FakeHuman(["yes", "no"]),
                  budget=budget_of(max_calls=0))  # fmt: skip
    assert kinds(agent.use_tools([act(1)])) == ["budget"]
    both = Agent([counter.tool], permissions=[stop, DecideByHuman()], budget=budget_of(max_asks=1),
                 approval_handler=lambda request: ApprovalDecision("deny", stop=True))  # fmt: skip
    turn = both.use_tools([act(1), act(2)])
    assert kinds(turn) == ["human", "budget"]
    assert isinstance(turn.stopped, StoppedByPermission)
    assert isinstance(both.state.stopped, StoppedByPermission)


@both_drivers
def test_a_turn_that_an_exception_ends_leaves_the_budget_as_it_was_spent(driver: str) -> None:
    counter, budget = Counter(), budget_of(max_calls=1)

    def raises(state: Any, call: ToolCall, tool: Tool) -> Any:
        if call.args["n"] == 2:
            raise ValueError("broken rule")

    agent = Agent([counter.tool], permissions=[Says(raises), AllowByDefault()], budget=budget)
    with pytest.raises(ValueError, match="broken rule"):
        run(driver, agent, [act(1), act(2)])
    assert (counter.ran, budget.spent(run_id=agent.run_id).calls) == ([], 0)
    assert kinds(run(driver, agent, [act(3)])) == ["allow"]


# ---------------------------------------------------------------------- no way past it by racing


@both_drivers
@pytest.mark.parametrize("cap", ["max_calls", "per_user_max_calls"])
def test_parallel_turns_with_one_call_left_run_exactly_one(cap: str, driver: str) -> None:
    counter, here = Counter(), threading.Barrier(4)

    def meet(state: Any, call: ToolCall, tool: Tool) -> Any:
        here.wait(10)  # all have been decided before any starts

    agent = Agent([counter.tool], permissions=[Says(meet), AllowByDefault()], budget=budget_of(**{cap: 1}), user="ann")
    turns: list[Turn] = []
    threads = [threading.Thread(target=lambda n=n: turns.append(run(driver, agent, [act(n)]))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(15)
    assert sorted(kinds(turn)[0] for turn in turns) == ["allow", "budget", "budget", "budget"]
    assert len(counter.ran) == 1
    assert [turn.stopped is None for turn in turns].count(True) == 1


@pytest.mark.parametrize("driver", ["asyncio", "trio"])
def test_tasks_of_one_loop_with_two_calls_left_run_exactly_two(driver: str) -> None:
    counter, decided = Counter(), list[int]()

    async def main() -> list[Turn]:
        go, turns = anyio.Event(), list[Turn]()

        class Meets(Says):
            async def acheck(self, state: Any, call: ToolCall, tool: Tool) -> Any:
                decided.append(1)
                if len(decided) == 6:
                    go.set()
                await go.wait()

        agent = Agent([counter.tool], permissions=[Meets(lambda s, c, t: None), AllowByDefault()],
                      budget=budget_of(max_calls=2))  # fmt: skip

        async def one(n: int) -> None:
            turns.append(await agent.ause_tools([act(n)]))

        async with anyio.create_task_group() as group:
            for n in range(6):
                group.start_soon(one, n)
        return turns

    turns = anyio.run(main, backend=driver)
    assert sorted(kinds(turn)[0] for turn in turns) == ["allow"] * 2 + ["budget"] * 4
    assert len(counter.ran) == 2


def test_parallel_turns_with_two_questions_left_put_exactly_two() -> None:
    counter, asked, here = Counter(), list[int](), threading.Barrier(5)

    def meet(state: Any, call: ToolCall, tool: Tool) -> Any:
        if not asked:
            here.wait(10)

    def handler(request: Any) -> bool:
        asked.append(1)
        return True

    agent = Agent([counter.tool], permissions=[Says(meet), DecideByHuman()], budget=budget_of(max_asks=2),
                  approval_handler=handler)  # fmt: skip
    threads = [threading.Thread(target=agent.use_tools, args=([act(n)],)) for n in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(15)
    assert (len(asked), len(counter.ran)) == (2, 2)


def test_parallel_subagents_share_what_is_left_of_the_run_above() -> None:
    counter = Counter()

    def model(messages: Any, tools: Any) -> Any:
        return [act(1), act(2), act(3)] if len(messages) == 1 else "Done."

    helper = Agent([counter.tool], name="helper", permissions=[AllowByDefault()], model=model)
    lead = Agent([helper], permissions=[AllowByDefault()], budget=budget_of(max_calls=5))
    turn = lead.use_tools([tool_call("helper", prompt="Act") for _ in range(3)])
    assert len(counter.ran) == 2
    assert turn.stopped == CALLS


# ---------------------------------------------------------------------- a property

TURNS = st.lists(
    st.tuples(
        st.sampled_from(["ann", "bob"]),
        st.lists(st.sampled_from(["allow", "deny", "yes", "no", "edit"]), min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=6,
)
CAPS = st.none() | st.integers(0, 5)


@given(TURNS, CAPS, CAPS, CAPS, CAPS)
@settings(max_examples=60)
@pytest.mark.timeout(120)
def test_no_cap_is_ever_passed_and_what_is_spent_is_what_was_done(
    turns: list[Any], calls: int | None, asks: int | None, user_calls: int | None, user_asks: int | None
) -> None:
    counter, asked, said = Counter(), list[str](), dict[int, str]()
    budget = budget_of(max_calls=calls, max_asks=asks, per_user_max_calls=user_calls, per_user_max_asks=user_asks)

    async def review(requests: Any) -> Any:
        for request in requests:
            asked.append(request.user)
            word = said[request.call.args["n"]]
            edit = ApprovalDecision("edit", edited_args={"n": request.call.args["n"], "m": 1})
            yield request.id, edit if word == "edit" else word == "yes"

    def decide(state: Any, call: ToolCall, tool: Tool) -> Any:
        return {"allow": Allowed(), "deny": Denied("no")}.get(said[call.args["n"]])

    agent = Agent([counter.tool], permissions=[Says(decide), DecideByHuman()], human=Scripted(review), budget=budget)
    ran: dict[str, int] = {"ann": 0, "bob": 0}
    for user, words in turns:
        place, before = len(said), len(counter.ran)
        said.update(enumerate(words, place))
        turn = agent.use_tools([act(place + n) for n in range(len(words))], user=user)
        ran[user] += len(counter.ran) - before
        assert (turn.stopped is not None) is any(kind == "budget" for kind in kinds(turn))
        assert len(turn.results) == len(words)
    whole = budget.spent(run_id=agent.run_id)
    assert whole[:2] == (len(counter.ran), len(asked))
    assert calls is None or whole.calls <= calls
    assert asks is None or whole.asks <= asks
    for user in ("ann", "bob"):
        spent = budget.spent(user_id=user)
        assert spent[:2] == (ran[user], asked.count(user))
        assert user_calls is None or spent.calls <= user_calls
        assert user_asks is None or spent.asks <= user_asks


# ---------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("caps", "error", "text"),
    [
        ({"max_calls": -1}, ValueError, "max_calls= is below 0"),
        ({"max_calls": True}, TypeError, "max_calls= takes a whole number"),
        ({"max_calls": 2.0}, TypeError, "max_calls= takes a whole number"),
        ({"max_asks": "3"}, TypeError, "max_asks= takes a whole number"),
        ({"per_user_max_calls": -1}, ValueError, "per_user_max_calls= is below 0"),
        ({"per_user_max_asks": []}, TypeError, "per_user_max_asks= takes a whole number"),
        ({"max_wall_clock": -1}, ValueError, "max_wall_clock= is no time"),
        ({"max_wall_clock": float("inf")}, ValueError, "max_wall_clock= is no time"),
        ({"max_wall_clock": float("nan")}, ValueError, "max_wall_clock= is no time"),
        ({"max_wall_clock": timedelta(seconds=-1)}, ValueError, "max_wall_clock= is no time"),
        ({"max_wall_clock": "60"}, TypeError, "max_wall_clock= takes seconds"),
        ({"per_user_max_wall_clock": True}, TypeError, "per_user_max_wall_clock= takes seconds"),
        ({"soft_warning_at": 0}, ValueError, "soft_warning_at= is a part"),
        ({"soft_warning_at": 80}, ValueError, "soft_warning_at= is a part"),
        ({"soft_warning_at": True}, TypeError, "soft_warning_at= takes a number"),
        ({"soft_warning_at": "0.8"}, TypeError, "soft_warning_at= takes a number"),
        ({"clock": 5}, TypeError, "clock= takes a function"),
    ],
    ids=repr,
)
def test_a_cap_that_is_none_is_refused_in_three_parts(caps: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=rf"{text}[\s\S]*Fix: [\s\S]*Example:"):
        Budget(**caps)


def test_caps_are_given_by_name_and_shown() -> None:
    with pytest.raises(TypeError):
        Budget(5)  # type: ignore[misc]
    budget = Budget(max_calls=50, max_wall_clock=timedelta(minutes=2), per_user_max_asks=3)
    assert repr(budget) == "Budget(max_calls=50, max_wall_clock=120, per_user_max_asks=3)"
    assert (budget.max_wall_clock, budget.max_asks, budget.soft_warning_at) == (120.0, None, 0.8)
    assert repr(Budget()) == "Budget()"


@pytest.mark.parametrize(
    "name",
    [
        *("max_calls", "max_asks", "max_wall_clock"),
        *("per_user_max_calls", "per_user_max_asks", "per_user_max_wall_clock"),
        *("soft_warning_at", "accounts"),
    ],
)
def test_a_cap_holds_as_it_was_given_and_cannot_be_set(name: str) -> None:
    counter, budget = Counter(), budget_of(max_calls=2)
    before = getattr(budget, name)
    with pytest.raises(AttributeError, match=rf"{name} of a budget cannot be changed[\s\S]*Fix: make another Budget"):
        setattr(budget, name, 1)
    with pytest.raises(AttributeError, match=rf"{name} of a budget cannot be deleted[\s\S]*Fix: make another Budget"):
        delattr(budget, name)
    assert getattr(budget, name) is before
    assert kinds(allowing(counter, budget).use_tools([act(1), act(2), act(3)]))[2] == "budget"
    assert len(counter.ran) == 2


def test_a_budget_can_be_copied_and_takes_names_of_ones_own() -> None:
    budget = Budget(max_calls=2)
    budget.owner = "ann"  # type: ignore[attr-defined]
    again = deepcopy(budget)
    assert (repr(again), again.owner) == ("Budget(max_calls=2)", "ann")  # type: ignore[attr-defined]
    assert again.accounts is not budget.accounts
    del budget.owner  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrong", [5, "max_calls=5", {"max_calls": 5}, Budget], ids=repr)
def test_what_is_no_budget_is_refused_when_the_agent_is_made(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"budget= takes a Budget[\s\S]*Example:"):
        Agent(budget=wrong)


@both_drivers
def test_a_classic_human_is_asked_no_more_than_the_budget(driver: str) -> None:
    counter, human = Counter(), FakeHuman(["yes"] * 5)
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=human, budget=budget_of(max_asks=2))
    assert kinds(run(driver, agent, [act(n) for n in range(4)])) == ["human", "human", "budget", "budget"]
    assert len(human.questions) == 2
