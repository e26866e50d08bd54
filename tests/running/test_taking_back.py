"""Remembered answers while calls wait: twins in other turns, the list, and taking answers back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from answering import ALWAYS, NEVER, Big, Telling, Waiting, act, of, say, told, until, waiting
from rules import Says
from turns import DRIVERS, Counter, Scripted, run

from agentperm_nb import Agent, ApprovalDecision, DecideByHuman, Remembered, Scope, Tool, ToolCall
from agentperm_nb.approvals.desk import Answer, DeskChange, the_desk
from agentperm_nb.testing import tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)


def remember_beside(agent: Agent, scope: Scope, *, allow: bool, reason: str | None = None) -> None:
    """Remember an answer as another turn of the agent does, at this very moment."""
    engine = agent._engine
    engine.memory.remember(
        agent._context(None, None, None), act(0), scope, allow=allow, asked=engine.approver_for(None), reason=reason
    )


# ---------------------------------------------------------------------- twins


@both_drivers
@pytest.mark.states("MA3.11")
@pytest.mark.parametrize("allow", [True, False], ids=["allow", "deny"])
def test_what_waits_in_other_turns_is_answered_when_an_answer_is_remembered(allow: bool, driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Waiting())
    same_n = Scope("arguments", arguments=["n"])
    decision = ApprovalDecision("remember_allow" if allow else "remember_deny", scope=same_n)
    with waiting(driver, (agent, [act(1), act(2)]), (agent, [act(1)]), (agent, [act(3), act(1)])) as turns:
        requests = {n: [one for one in agent.pending() if one.call.args["n"] == n] for n in (1, 2, 3)}
        assert say(requests[1][0], decision)
        until(agent, 2)
        for n in (2, 3):
            assert say(requests[n][0], "allow")
    found = [(result.call.args["n"], result.verdict) for turn in turns for result in turn.results]
    assert found == [(n, "allowed" if n != 1 or allow else "denied") for n in (1, 2, 1, 3, 1)]
    by = sorted(str(result.answered_by) for turn in turns for result in turn.results if result.call.args["n"] == 1)
    assert by == ["human", "memory", "memory"]
    assert sum(args["n"] == 1 for args in counter.ran) == (3 if allow else 0)


@both_drivers
@pytest.mark.states("MA3.11")
def test_twins_of_another_user_another_agent_or_another_person_go_on_waiting(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[Big(Waiting()), DecideByHuman()], human=Waiting(), user="ann")
    other = agent.copy(name="other")
    with (
        waiting(driver, (other, [act(1)])) as of_another_agent,
        waiting(driver, (agent, [act(1)]), user="bob") as of_another_user,
        waiting(driver, (agent, [act(10)])) as of_another_person,
        waiting(driver, (agent, [act(1)]), (agent, [act(2)])) as mine,
    ):
        assert say(next(one for one in agent.pending() if one.user == "ann" and one.call.args["n"] < 10), ALWAYS)
        until(agent, 2)
    assert sorted(told(turn)[0] for turn in mine) == [("allowed", "human"), ("allowed", "memory")]
    for turns in (of_another_agent, of_another_user, of_another_person):
        assert told(turns[0]) == [("denied", "human")]
    assert len(counter.ran) == 2


@both_drivers
@pytest.mark.states("MA3.11")
def test_a_late_denial_does_not_undo_an_early_allow_and_is_not_remembered(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Waiting())
    with waiting(driver, (agent, [act(1)])) as turns:
        (request,) = agent.pending()
        assert say(request, ALWAYS)
        assert not say(request, NEVER)
    assert told(turns[0]) == [("allowed", "human")]
    assert [one.allow for one in agent.remembered()] == [True]
    assert [event.data["action"] for event in of(agent, "late")] == ["remember_deny"]
    assert told(run(driver, agent, [act(2)])) == [("allowed", "memory")]


@both_drivers
@pytest.mark.states("MA3.11")
def test_a_denial_of_one_twin_wins_over_an_allow_of_the_other_from_then_on(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Waiting())
    with waiting(driver, (agent, [act(1), act(2)])) as turns:
        first, second = agent.pending()
        assert say(first, ApprovalDecision("remember_allow", scope=Scope("call")))
        assert say(second, NEVER)
    assert told(turns[0]) == [("allowed", "human"), ("denied", "human")]
    assert told(run(driver, agent, [act(1)])) == [("denied", "memory")]
    assert counter.ran == [{"n": 1}]


@both_drivers
def test_an_answer_that_is_kept_between_the_look_and_the_question_is_not_missed(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Waiting())

    def remember_now(change: DeskChange) -> None:
        if change.kind == "opened":  # it has been looked up, and nobody waits for it yet
            remember_beside(agent, Scope("tool"), allow=True)

    unsubscribe = the_desk.subscribe(remember_now)
    try:
        assert told(run(driver, agent, [act(1)])) == [("allowed", "memory")]
    finally:
        unsubscribe()
    assert counter.ran == [{"n": 1}]


@both_drivers
def test_a_click_that_comes_after_its_twin_was_remembered_is_late(driver: str) -> None:
    counter, second = Counter(), list[Any]()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Waiting())
    answered = []

    def click_after_memory(change: DeskChange) -> None:
        if change.kind == "answered" and change.answer is not None and change.answer.answered_by == "memory":
            answered.append(say(second[0], "deny"))

    unsubscribe = the_desk.subscribe(click_after_memory)
    with waiting(driver, (agent, [act(1), act(1)])) as turns:
        first, twin = agent.pending()
        second.append(twin)
        say(first, ALWAYS)
        until(agent, 0)
    unsubscribe()
    assert answered == [False]
    assert told(turns[0]) == [("allowed", "human"), ("allowed", "memory")]
    assert [event.data["action"] for event in of(agent, "late")] == ["deny"]


# ---------------------------------------------------------------------- listed and revoked


@both_drivers
def test_what_is_remembered_is_listed_with_secrets_masked(driver: str) -> None:
    ran: list[Any] = []
    tool = Tool(
        "send",
        "Send.",
        {"type": "object", "properties": {"to": {}, "password": {}, "body": {}}},
        function=lambda **args: ran.append(args),
        secret=["body"],
    )
    scope = Scope("arguments", "session", ["to", "password", "body"])
    handler = Telling(
        ApprovalDecision("remember_allow", scope=scope, approver="bob", reason="hunter22 is fine"),
        ApprovalDecision("remember_deny", edited_args=None),
    )
    agent = Agent([tool], name="mail", permissions=[DecideByHuman()], approval_handler=handler, user="ann")
    turn = run(driver, agent, [tool_call("send", to="hunter22", password="hunter22", body="dear you")])
    run(driver, agent, [tool_call("send", to="eve")])
    answers = agent.remembered()
    assert len(answers) == 2
    one, two = answers
    assert isinstance(one, Remembered)
    assert (one.number, one.allow, one.tool, one.lasts, one.user, one.agent_path, one.approver, one.from_call) == (
        1, True, "send", "session", "ann", ("mail",), "bob", turn.results[0].call_key,
    )  # fmt: skip
    assert one.covers == 'send with to="[masked]", password="[masked]", body="[masked]"'
    assert (two.answer, two.covers, two.lasts, two.approver) == ("deny", 'exactly send(to="eve")', "run", None)
    assert answers[2] is two
    for shown in (
        repr(answers),
        answers._repr_html_(),
        repr(one),
        repr([event.data for event in agent.audit.events()]),
    ):
        assert "hunter22" not in shown
        assert "dear you" not in shown
    assert ran == [{"to": "hunter22", "password": "hunter22", "body": "dear you"}]


@both_drivers
def test_remembering_and_revoking_are_in_the_log_with_whose_answer_it_was(driver: str) -> None:
    counter = Counter()
    scope = Scope("arguments", "session", ["n"])
    decision = ApprovalDecision("remember_allow", scope=scope, approver="bob")
    agent = Agent([counter.tool], permissions=[DecideByHuman()], approval_handler=lambda request: decision, user="ann")
    turn = run(driver, agent, [act(1)])
    agent.revoke(1)
    (kept,), (revoked,) = of(agent, "remembered"), of(agent, "revoked")
    same = {
        "number": 1, "allow": True, "about": "act with n=1", "covers": "arguments", "lasts": "session",
        "arguments": ["n"],
    }  # fmt: skip
    assert kept.data == same
    assert (kept.call_key, kept.approver, kept.approver_from) == (turn.results[0].call_key, "bob", "handler")
    assert {name: revoked.data[name] for name in same} == same
    assert (revoked.call_key, revoked.approver, revoked.data["from_call"], revoked.data["user"]) == (
        "", "bob", kept.call_key, "ann",
    )  # fmt: skip
    assert revoked.data["by"]
    assert len(agent.audit.calls()) == 1


@both_drivers
def test_a_revoked_answer_holds_for_no_later_call_and_somebody_is_asked_again(driver: str) -> None:
    counter, handler = Counter(), Telling(ALWAYS, "remember_deny", "deny")
    agent = Agent([counter.tool], permissions=[DecideByHuman()], approval_handler=handler)
    for n in (1, 2):
        run(driver, agent, [act(n)])
    assert [one.number for one in agent.revoke(1)] == []
    for n in (3, 3):
        assert run(driver, agent, [act(n)]).results[0].verdict == "denied"
    assert [one.number for one in agent.remembered()] == [2]
    agent.revoke(2)
    run(driver, agent, [act(3)])
    assert handler.asked == [1, 3, 3]
    assert counter.ran == [{"n": 1}, {"n": 2}]


def test_revoking_takes_a_number_or_all_of_them() -> None:
    agent = Agent([Counter().tool], permissions=[DecideByHuman()], approval_handler=lambda request: "remember_allow")
    agent.use_tools([act(1), act(2), act(3)])
    with pytest.raises(ValueError, match="those there are: 1, 2, 3"):
        agent.revoke(4)
    for wrong in ({}, {"number": 1, "all": True}, {"all": False}, {"all": 1}, {"number": 1, "all": None}):
        with pytest.raises(TypeError, match=r"revoke got[\s\S]*agent.revoke\(1\)"):
            agent.revoke(**wrong)  # type: ignore[arg-type]
    assert [one.number for one in agent.revoke(2)] == [1, 3]
    assert len(agent.revoke(all=True)) == 0
    assert [event.data["number"] for event in of(agent, "revoked")] == [2, 1, 3]
    with pytest.raises(ValueError, match="nothing is remembered"):
        agent.revoke(1)
    agent.use_tools([act(1)])
    assert [one.number for one in agent.remembered()] == [4]


REVOKED = "the remembered answer that allowed this call was revoked while the call waited. Call it again."
TAKEN_BACK: dict[str, tuple[Callable[[Agent], object], str]] = {
    "revoked": (lambda agent: agent.revoke(1), REVOKED),
    "all revoked": (lambda agent: agent.revoke(all=True), REVOKED),
    "a new run": (lambda agent: agent.new_run(), REVOKED),
    "a denial remembered": (
        lambda agent: remember_beside(agent, Scope("tool"), allow=False, reason="not any more"), "not any more",
    ),
}  # fmt: skip


@both_drivers
@pytest.mark.parametrize("how", TAKEN_BACK)
def test_a_call_whose_remembered_allow_is_taken_back_while_it_waits_to_start_does_not_run(
    how: str, driver: str
) -> None:
    counter, other = Counter(), Counter("other")
    agent = Agent([counter.tool, other.tool], permissions=[DecideByHuman()], human=Waiting())
    take_back, reason = TAKEN_BACK[how]
    with waiting(driver, (agent, [act(1)])):
        say(agent.pending()[0], ApprovalDecision("remember_allow", scope=Scope("tool")))
    with waiting(driver, (agent, [act(2), tool_call("other", n=1)])) as turns:
        (request,) = agent.pending()
        take_back(agent)
        say(request, "allow")
    taken, asked = turns[0].results
    assert (taken.verdict, taken.decided_kind, taken.answered_by) == ("denied", "memory", "memory")
    assert (taken.reason, taken.decided_by) == (reason, "DecideByHuman()")
    assert asked.verdict == "allowed"
    assert (counter.ran, other.ran) == ([{"n": 1}], [{"n": 1}])
    rows = agent.audit.calls().query("tool == 'act'")
    assert rows[["verdict", "outcome"]].to_numpy().tolist() == [["allowed", "ran"], ["denied", "not_run"]]


@both_drivers
def test_an_answer_that_another_one_has_replaced_is_not_taken_back_with_it(driver: str) -> None:
    counter, other = Counter(), Counter("other")
    agent = Agent([counter.tool, other.tool], permissions=[DecideByHuman()], human=Waiting())
    with waiting(driver, (agent, [act(1)])):
        say(agent.pending()[0], ApprovalDecision("remember_allow", scope=Scope("tool")))
    with waiting(driver, (agent, [act(2), tool_call("other", n=1)])) as turns:
        remember_beside(agent, Scope("tool"), allow=True)
        with pytest.raises(ValueError, match="those there are: 2"):
            agent.revoke(1)
        say(agent.pending()[0], "allow")
    assert told(turns[0]) == [("allowed", "memory"), ("allowed", "human")]


@both_drivers
def test_what_is_revoked_while_a_call_beside_it_is_looked_at_does_not_run(driver: str) -> None:
    counter, other = Counter(), Counter("other")
    looks: list[str] = []

    def look(state: Any, call: ToolCall, tool: Tool) -> Any:
        if call.name == "other" and looks.append(call.name) is None and len(looks) == 2:  # the look before the start
            agent.revoke(all=True)
        return None

    permissions = [Says(look), DecideByHuman()]
    handler = Telling(ALWAYS, "allow")
    agent = Agent([counter.tool, other.tool], permissions=permissions, approval_handler=handler)
    run(driver, agent, [act(1)])
    turn = run(driver, agent, [act(2), tool_call("other", n=1)])
    assert told(turn) == [("denied", "memory"), ("allowed", "handler")]
    assert (counter.ran, other.ran, len(looks)) == ([{"n": 1}], [{"n": 1}], 2)


@both_drivers
@pytest.mark.parametrize("parallel", [True, False], ids=["parallel", "one by one"])
def test_every_call_has_its_result_when_the_first_ones_may_not_start(parallel: bool, driver: str) -> None:
    counter, last = Counter(parallel=parallel), Counter("last", parallel=False)
    agent = Agent([counter.tool, last.tool], permissions=[DecideByHuman()], human=Waiting())
    with waiting(driver, (agent, [act(0)])):
        say(agent.pending()[0], ALWAYS)
    with waiting(driver, (agent, [act(1), act(2), tool_call("last", n=3), tool_call("last", n=4)])) as turns:
        agent.revoke(1)
        for request in agent.pending():
            say(request, "allow")
    assert [result.verdict for result in turns[0].results] == ["denied", "denied", "allowed", "allowed"]
    assert (len(counter.ran), len(last.ran), agent.state.pending_calls) == (1, 2, ())


# ---------------------------------------------------------------------- who decided


@both_drivers
def test_a_handler_that_asks_elsewhere_may_say_who_decided(driver: str) -> None:
    counter = Counter()
    handler = Telling(
        ApprovalDecision("remember_allow", approver="bob"), ApprovalDecision("deny", approver="ann"), True
    )
    agent = Agent([counter.tool], permissions=[DecideByHuman()], approval_handler=handler)
    for n in (1, 1, 2, 3):
        run(driver, agent, [act(n)])
    rows = agent.audit.calls().astype(object)
    rows = rows.where(rows.notna(), None)
    assert rows[["answered_by", "approver", "approver_from"]].to_numpy().tolist() == [
        ["handler", "bob", "handler"],
        ["memory", "bob", None],
        ["handler", "ann", "handler"],
        ["handler", None, None],
    ]


@both_drivers
def test_a_person_who_is_asked_here_is_named_by_the_kernel_and_not_by_the_answer(driver: str) -> None:
    async def review(requests: Any) -> Any:
        for request in requests:
            yield request.id, ApprovalDecision("allow", approver="the boss")

    agent = Agent([Counter().tool], permissions=[DecideByHuman()], human=Scripted(review))
    run(driver, agent, [act(1)])
    clicked = agent.copy(human=Waiting())
    with waiting(driver, (clicked, [act(2)])):
        (request,) = clicked.pending()
        said = ApprovalDecision("allow", approver="the boss")
        the_desk.answer(request.id, Answer(said, approver="ann", approver_from="JUPYTERHUB_USER"))
    first, second = agent.audit.calls()["approver"].tolist()
    assert first != "the boss"
    assert second == "ann"
