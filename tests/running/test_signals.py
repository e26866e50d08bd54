"""Signals in an agent's turns: handlers that wait for an answer from elsewhere, and get their own."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
import warnings
from collections.abc import Callable
from typing import Any

import anyio
import pytest
from turns import DRIVERS, Counter, run, run_noting

from agentperm_nb import (
    Agent,
    ApprovalDecision,
    ApprovalRequest,
    DecideByHuman,
    Denied,
    DenyPermission,
    HandlerApprover,
    PermissionResult,
    Signals,
    Tool,
    ToolCall,
    Turn,
    Verdict,
    get_run_context,
    tool,
    wait_for_signal,
)
from agentperm_nb.approvals.desk import the_desk
from agentperm_nb.approvals.signals import the_signals
from agentperm_nb.testing import ScriptedModel, tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)
on_a_loop = pytest.mark.parametrize("driver", ["asyncio", "trio"])
CALL = tool_call("act", n=1)
NOT_VALID = "The approver gave no valid answer, so this call was not run."


async def by_signal(request: ApprovalRequest) -> Any:
    return await wait_for_signal("approval", timeout_s=10, request_id=request.id)


async def by_turns(request: ApprovalRequest) -> Any:
    return await wait_for_signal("approval", timeout_s=10)


class Tickets:
    """A queue of tickets, each with the id of its request; whoever works on it is on another thread."""

    def __init__(self, agent: Callable[[], Agent], count: int, answer: Callable[[ApprovalRequest], Any]) -> None:
        self.queue: queue.SimpleQueue[ApprovalRequest] = queue.SimpleQueue()
        self._agent, self._count, self._answer = agent, count, answer
        self.thread = threading.Thread(target=self._work)

    async def handle(self, request: ApprovalRequest) -> Any:
        self.queue.put(request)
        return await wait_for_signal("approval", timeout_s=10, request_id=request.id)

    def _work(self) -> None:
        tickets = [self.queue.get(timeout=10) for _ in range(self._count)]
        for request in reversed(tickets):  # the last one first
            self._agent().signal(request.session, "approval", self._answer(request), request_id=request.id)

    def __enter__(self) -> Tickets:
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.thread.join(15)
        assert not self.thread.is_alive()


@pytest.fixture(autouse=True)
def _nothing_is_left_over() -> Any:
    before = repr(the_signals)
    yield
    assert repr(the_signals) == before


# Answers --------------------------------------------------------------------------------------------------------------


@both_drivers
@pytest.mark.states("MA4.3", "MA4.5")
def test_two_parked_questions_get_their_own_answers_whatever_the_order(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], approval_handler=lambda request: tickets.handle(request))
    with Tickets(lambda: agent, 8, lambda request: request.call.args["n"] % 2 == 0) as tickets:
        turn = run(driver, agent, [tool_call("act", n=n) for n in range(8)])
    assert [result.verdict for result in turn.results] == ["allowed", "denied"] * 4
    assert sorted(args["n"] for args in counter.ran) == [0, 2, 4, 6]


@both_drivers
@pytest.mark.states("MA4.3")
def test_signals_to_no_request_go_to_whoever_waits_longest(driver: str) -> None:
    counter, waiting = Counter(), threading.Semaphore(0)

    async def handler(request: ApprovalRequest) -> Any:
        if request.call.args["n"] == 2:
            while not waiting.acquire(blocking=False):  # noqa: ASYNC110 - of another loop, in the blocking form
                await anyio.sleep(0.005)
        else:
            threading.Timer(0.05, waiting.release).start()
        return await wait_for_signal("approval", timeout_s=10)

    agent = Agent([counter.tool], approval_handler=handler, session="monday", signals=Signals())

    def send() -> None:
        while not repr(agent._signals).startswith("Signals(2 waiting"):
            threading.Event().wait(0.005)
        agent.signal("monday", "approval", True)
        agent.signal("monday", "approval", False)

    thread = threading.Thread(target=send)
    thread.start()
    turn = run(driver, agent, [CALL, tool_call("act", n=2)])
    thread.join()
    assert [result.verdict for result in turn.results] == ["allowed", "denied"]
    assert counter.ran == [{"n": 1}]


ANSWERS: dict[str, tuple[Any, bool]] = {
    "True": (True, True),
    "allow": ("allow", True),
    "ALLOW of a policy": (PermissionResult.ALLOW, True),
    "remember_allow": ("remember_allow", True),
    "a decision": (ApprovalDecision("allow", reason="fine"), True),
    "False": (False, False),
    "deny": ("deny", False),
    "a decision that denies": (ApprovalDecision("deny", reason="not on a Friday"), False),
}
JUNK: dict[str, Any] = {
    "None": None, "{}": {}, "an action in a dict": {"action": "allow"}, "bogus": "bogus", "ALLOW": "ALLOW", "1": 1,
    "yes": "yes", "a list": [True], "a class": ApprovalDecision, "edit without arguments": "edit", "0": 0,
    "an exception": ValueError("allow"), "ASK": PermissionResult.ASK, "bytes": b"allow",
}  # fmt: skip


@both_drivers
@pytest.mark.states("MA4.1")
@pytest.mark.parametrize("payload", ANSWERS)
def test_what_a_handler_may_return_a_signal_may_carry(payload: str, driver: str) -> None:
    counter = Counter()
    value, allows = ANSWERS[payload]
    agent = Agent([counter.tool], approval_handler=by_turns, session="s1")
    agent.signal("s1", "approval", value)  # before the turn: it is kept
    (result,) = run(driver, agent, [CALL]).results
    assert (result.verdict, result.answered_by) == ("allowed" if allows else "denied", "handler")
    assert counter.ran == ([{"n": 1}] if allows else [])


@both_drivers
@pytest.mark.states("MA4.4")
@pytest.mark.parametrize("payload", JUNK)
def test_anything_else_denies_with_a_warning(payload: str, driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], approval_handler=by_turns, session="s1")
    agent.signal("s1", "approval", JUNK[payload])
    outcome, noted = run_noting(driver, agent, [CALL])
    assert isinstance(outcome, Turn)
    (result,) = outcome.results
    assert (result.verdict, result.content, counter.ran) == ("denied", NOT_VALID, [])
    assert len(noted) == 1
    assert "which is not an answer, so the call was denied" in noted[0]


@both_drivers
@pytest.mark.states("MA4.4")
def test_a_handler_that_waits_in_vain_denies(driver: str) -> None:
    async def handler(request: ApprovalRequest) -> Any:
        return await wait_for_signal("approval", timeout_s=0.05, request_id=request.id)

    counter = Counter()
    agent = Agent([counter.tool], approval_handler=handler)
    (result,) = run(driver, agent, [CALL]).results
    assert (result.verdict, result.answered_by, result.decided_kind, counter.ran) == (
        "denied",
        "timeout",
        "timeout",
        [],
    )
    assert result.content == "Nobody answered in time, so this call was not run."
    (expired,) = (event for event in agent.audit.events() if event.kind == "expired")
    assert str(expired.data["reason"]).startswith("no signal 'approval' for ask_")


@both_drivers
def test_a_signal_that_comes_when_the_time_is_over_runs_nothing(driver: str, caplog: pytest.LogCaptureFixture) -> None:
    counter = Counter()
    requests: list[ApprovalRequest] = []

    async def handler(request: ApprovalRequest) -> Any:
        requests.append(request)
        return await wait_for_signal("approval", request_id=request.id)

    agent = Agent([counter.tool], approval_handler=HandlerApprover(handler, timeout=0.1))
    (result,) = run(driver, agent, [CALL]).results
    with caplog.at_level(logging.WARNING, logger="agentperm_nb"):
        agent.signal(request_id=requests[0].id, payload=True)
    assert (result.answered_by, counter.ran) == ("timeout", [])
    assert f"no request {requests[0].id} waits: the signal was dropped" in caplog.text


@both_drivers
def test_an_edit_that_a_signal_carries_is_decided_again(driver: str) -> None:
    class NotNine(DenyPermission):
        blocking = False

        def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
            return Denied("not nine") if call.args.get("n") == 9 else None

    counter = Counter()
    agent = Agent([counter.tool], permissions=[NotNine(), DecideByHuman()], approval_handler=by_turns, session="s1")
    for n in (8, 9):
        agent.signal("s1", "approval", ApprovalDecision("edit", edited_args={"n": n}))
        run(driver, agent, [CALL])
    assert counter.ran == [{"n": 8}]


# Whom a signal is for -------------------------------------------------------------------------------------------------


@both_drivers
def test_the_id_of_a_request_that_waits_is_enough(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], approval_handler=by_signal)

    def send() -> None:
        while not agent.pending():
            threading.Event().wait(0.005)
        agent.signal(request_id=agent.pending()[0].id, payload=True)

    thread = threading.Thread(target=send)
    thread.start()
    assert run(driver, agent, [CALL]).results[0].verdict == "allowed"
    thread.join()


def test_a_signal_to_nobody_is_an_error_with_its_fix() -> None:
    agent = Agent([Counter().tool])
    with pytest.raises(TypeError, match=r"neither a session nor a request\nFix: say whom it is for"):
        agent.signal(payload=True)
    with pytest.raises(TypeError, match="Fix: "):
        agent.signal(5, "approval", True)  # type: ignore[arg-type]  # that is the point


@both_drivers
def test_each_session_of_an_agent_gets_its_own(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], approval_handler=by_turns, session="monday")
    agent.signal("tuesday", "approval", True)
    agent.signal("monday", "approval", False)
    assert run(driver, agent, [CALL]).results[0].verdict == "denied"
    assert run(driver, agent, [CALL], session="tuesday").results[0].verdict == "allowed"


@on_a_loop
def test_it_may_be_awaited_and_is_sent_without_that(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], approval_handler=by_turns, session="s1")

    async def main() -> list[str]:
        await agent.signal("s1", "approval", True)
        agent.signal("s1", "approval", False)
        turns = [await agent.ause_tools([CALL])]
        agent.signal("s1", "approval", True)
        turns.append(await agent.ause_tools([CALL]))
        return [turn.results[0].verdict for turn in turns]

    assert anyio.run(main, backend=driver) == ["allowed", "allowed"]  # the False was dropped with its turn
    assert repr(agent.signal("s1", "x")) == "<sent>"
    assert the_signals.poll_signal("s1", "x", default="nothing") is None


def test_a_signal_may_come_from_a_loop_on_another_thread() -> None:
    counter = Counter()
    agent = Agent([counter.tool], approval_handler=by_signal)

    def elsewhere() -> None:
        async def send() -> None:
            while not agent.pending():  # noqa: ASYNC110 - of another thread
                await asyncio.sleep(0.005)
            await agent.signal(request_id=agent.pending()[0].id, payload=True)

        asyncio.run(send())

    async def main() -> Turn:
        return await agent.ause_tools([CALL])

    thread = threading.Thread(target=elsewhere)
    thread.start()
    assert anyio.run(main).results[0].verdict == "allowed"
    thread.join()


@both_drivers
@pytest.mark.parametrize("again", [False, True], ids=["too late", "a second time"])
def test_an_answer_that_names_its_request_answers_no_other_question(driver: str, again: bool) -> None:
    counter, session = Counter(), f"s_{driver}_{again}"
    requests: list[ApprovalRequest] = []

    async def handler(request: ApprovalRequest) -> Any:
        requests.append(request)
        if again and len(requests) == 1:
            agent.signal(session, "approval", True, request_id=request.id)
        return await wait_for_signal("approval", request_id=request.id, timeout_s=0.05)

    agent = Agent([counter.tool], approval_handler=handler, session=session)
    assert run(driver, agent, [CALL]).results[0].verdict == ("allowed" if again else "denied")
    agent.signal(session, "approval", True, request_id=requests[0].id)
    assert run(driver, agent, [tool_call("act", n=2)]).results[0].answered_by == "timeout"
    assert len(counter.ran) == again


# How long one is kept -------------------------------------------------------------------------------------------------


@both_drivers
@pytest.mark.states("MA4.2")
def test_what_a_turn_left_does_not_answer_the_next_one(driver: str) -> None:
    counter = Counter()

    async def handler(request: ApprovalRequest) -> Any:
        return await wait_for_signal("approval", timeout_s=0.05)

    agent = Agent([counter.tool], approval_handler=handler, session="s1")
    for payload in (True, True):
        agent.signal("s1", "approval", payload)
    assert run(driver, agent, [CALL]).results[0].verdict == "allowed"
    assert run(driver, agent, [CALL]).results[0].answered_by == "timeout"
    assert len(counter.ran) == 1


@pytest.mark.states("MA4.2")
@pytest.mark.parametrize("driver", ["sync", "asyncio"])
def test_in_a_run_it_is_kept_from_turn_to_turn_and_dropped_at_its_end(driver: str) -> None:
    counter, signals = Counter(), Signals()
    model = ScriptedModel([tool_call("act", n=1), tool_call("act", n=2), "Done."])
    agent = Agent([counter.tool], model=model, approval_handler=by_turns, session="s1", signals=signals)
    for payload in (True, False, "left over"):
        agent.signal("s1", "approval", payload)
    answer = agent.run("Act.") if driver == "sync" else anyio.run(agent.arun, "Act.")
    assert (answer, counter.ran) == ("Done.", [{"n": 1}])
    assert repr(signals) == "Signals(0 waiting, 0 kept)"


@on_a_loop
def test_an_answer_to_a_question_of_a_turn_that_was_cancelled_answers_no_other(driver: str) -> None:
    """A cell that was run again asks anew; the ticket of the first time lets nothing run."""
    counter = Counter()
    agent = Agent([counter.tool], approval_handler=by_signal)

    async def main() -> list[tuple[str, str]]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: _awaited(agent))
            while not agent.pending():  # noqa: ASYNC110 - the desk has no event
                await anyio.sleep(0.005)
            (old,) = agent.pending()
            tasks.cancel_scope.cancel()
        said: list[tuple[str, str]] = []
        async with anyio.create_task_group() as tasks:

            async def again() -> None:
                turn = await agent.ause_tools([CALL])
                said.append((turn.results[0].verdict, turn.results[0].answered_by or ""))

            tasks.start_soon(again)
            while not agent.pending():  # noqa: ASYNC110 - as above
                await anyio.sleep(0.005)
            (new,) = agent.pending()
            assert new.id != old.id
            agent.signal(old.session, "approval", True, request_id=old.id)
            agent.signal(old.session, "approval", True)
            await anyio.sleep(0.1)  # nothing may happen, and what does not happen sets no event
            assert said == []
            assert counter.ran == []
            agent.signal(new.session, "approval", False, request_id=new.id)
        return said

    assert anyio.run(main, backend=driver) == [("denied", "handler")]
    assert counter.ran == []


async def _awaited(agent: Agent) -> None:
    await agent.ause_tools([CALL])


# Whose signals --------------------------------------------------------------------------------------------------------


class Team:
    """Signals of a team's own, as another process would carry them."""

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []
        self.asked: list[tuple[Any, ...]] = []

    async def signal(self, session_id: str, name: str, payload: Any) -> None:
        self.sent.append((session_id, name, payload))

    async def wait_for_signal(self, session_id: str, name: str, *, timeout_s: float | None = None) -> Any:
        self.asked.append((session_id, name, timeout_s))
        return self.sent.pop(0)[2] if self.sent else None


@on_a_loop
@pytest.mark.states("MA4.1")
def test_an_agent_takes_signals_of_a_teams_own(driver: str) -> None:
    counter, team = Counter(), Team()
    agent = Agent([counter.tool], approval_handler=by_turns, session="s1", signals=team)

    async def main() -> Turn:
        await agent.signal("s1", "approval", True)
        return await agent.ause_tools([CALL])

    assert anyio.run(main, backend=driver).results[0].verdict == "allowed"
    assert team.asked == [("s1", "approval", 10)]


@both_drivers
def test_what_carries_requests_is_given_them(driver: str) -> None:
    given: list[Any] = []

    class Known(Signals):
        def signal(self, session_id: str, name: str, payload: Any = None, *, request_id: str | None = None) -> None:
            given.append((session_id, name, payload, request_id))
            super().signal(session_id, name, payload, request_id=request_id)

    agent = Agent([Counter().tool], signals=Known(), session="s1")
    agent.signal("s1", "approval", True, request_id="ask_1")
    agent.copy().signal("s1", "approval", False)
    assert given == [("s1", "approval", True, "ask_1"), ("s1", "approval", False, None)]
    run(driver, agent, [])


@both_drivers
@pytest.mark.states("MA4.1")
@pytest.mark.parametrize("signals", [None, object(), "redis"], ids=["None", "an object", "a text"])
def test_where_there_are_none_it_warns_and_the_call_is_denied(signals: Any, driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], approval_handler=by_turns, session="s1", signals=signals)
    with pytest.warns(UserWarning, match="this agent has no signals"):
        agent.signal("s1", "approval", True)
    outcome, noted = run_noting(driver, agent, [CALL])
    assert isinstance(outcome, Turn)
    assert (outcome.results[0].verdict, counter.ran) == ("denied", [])
    assert any("this agent has no signals" in text for text in noted)
    assert any("returned None, which is not an answer" in text for text in noted)


@pytest.mark.parametrize("driver", ["sync", "asyncio"])
def test_a_subagent_waits_for_the_signals_of_the_run_above_it(driver: str) -> None:
    counter, signals = Counter(), Signals()
    inner = Agent([counter.tool], model=ScriptedModel([tool_call("act", n=1), "Done inside."]), name="inner")
    outer = Agent(
        tools=[inner], model=ScriptedModel([tool_call("inner", prompt="Act."), "Done."]), name="outer",
        approval_handler=by_signal, signals=signals,
    )  # fmt: skip

    def answer() -> None:
        for _ in range(2):
            request = asked.get(timeout=10)
            outer.signal(request_id=request, payload=True)

    asked: queue.SimpleQueue[str] = queue.SimpleQueue()
    leave = the_desk.subscribe(lambda change: asked.put(change.request_id) if change.kind == "opened" else None)
    thread = threading.Thread(target=answer)
    thread.start()
    assert (outer.run("Go.") if driver == "sync" else anyio.run(outer.arun, "Go.")) == "Done."
    thread.join()
    leave()
    assert counter.ran == [{"n": 1}]


@on_a_loop
def test_a_tool_may_wait_for_a_signal_too(driver: str) -> None:
    @tool(read_only=True)
    async def wait() -> str:
        context = get_run_context()
        assert context is not None
        return f"{await wait_for_signal('go on', timeout_s=10)} in {context.session_id}"

    agent = Agent([wait], session="s1")

    async def main() -> Turn:
        agent.signal("s1", "go on", "gone on")
        return await agent.ause_tools([tool_call("wait")])

    assert anyio.run(main, backend=driver).results[0].content == "gone on in s1"


def test_signals_are_a_setting_that_a_copy_keeps_and_may_change() -> None:
    own = Signals()
    agent = Agent([Counter().tool], signals=own)
    agent.signal("s1", "x", 1)
    agent.copy().signal("s1", "x", 2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        agent.copy(signals=None).signal("s1", "x", 3)
    assert [own.poll_signal("s1", "x") for _ in range(3)] == [1, 2, None]
    assert len(caught) == 1
