"""What nobody answers in time is denied: told apart from a person's no, recorded, and nothing that comes later runs."""

from __future__ import annotations

import errno
import os
import queue
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import anyio
import pandas as pd
import pytest
from turns import DRIVERS, Counter, Scripted, run

from agentperm_nb import (
    Agent,
    AllowByName,
    ApprovalDecision,
    ApprovalRequest,
    Ask,
    DecideByHuman,
    DecidePermission,
    Denied,
    DenyPermission,
    HandlerApprover,
    Human,
    HumanApprover,
    Patience,
    PermissionPolicy,
    PermissionRequest,
    PermissionWarning,
    PolicyHandlerApprover,
    TextApprover,
    Tool,
    ToolCall,
    Turn,
    Verdict,
)
from agentperm_nb.approvals.desk import Answer, the_desk
from agentperm_nb.testing import FakeHuman, tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)
on_a_loop = pytest.mark.parametrize("driver", ["asyncio", "trio"])

NOT_IN_TIME = "Nobody answered in time, so this call was not run."
FAILED = "Asking for approval failed, so this call was not run."
CALL = tool_call("act", n=1)
SOON = 0.1


class Slow:
    """Stands for whoever does not answer until the test is over, or until `come_back`."""

    def __init__(self) -> None:
        self.gone, self.called, self.cancelled = threading.Event(), threading.Event(), threading.Event()

    def come_back(self) -> None:
        self.gone.set()

    def handle(self, request: object) -> bool:
        self.called.set()
        self.gone.wait(15)
        return True

    async def ahandle(self, request: object) -> bool:
        self.called.set()
        try:
            await anyio.sleep(15)
        except anyio.get_cancelled_exc_class():
            self.cancelled.set()
            raise
        return True

    def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        self.handle(state)
        return "yes"

    async def aask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        await self.ahandle(state)
        return "yes"

    def read(self, question: str) -> str:
        self.handle(question)
        return "a"

    async def review(self, requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, Any]]:
        for request in requests:
            yield request.id, await self.ahandle(request)


class Awaiting(Human):
    def __init__(self, slow: Slow) -> None:
        self._slow = slow

    async def aask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        return await self._slow.aask(state, prompt, returns)


def own_approver(slow: Slow) -> Any:
    approver = Scripted(slow.review)
    approver.patience = Patience(SOON)  # type: ignore[attr-defined]
    return approver


class Plain(Human):
    def __init__(self, slow: Slow) -> None:
        self._slow = slow

    def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        return self._slow.ask(state, prompt, returns)


class Handler:
    def __init__(self, slow: Slow) -> None:
        self._slow = slow

    def handle(self, request: PermissionRequest) -> bool:
        return self._slow.handle(request)


class AsyncHandler:
    def __init__(self, slow: Slow) -> None:
        self._slow = slow

    async def handle(self, request: PermissionRequest) -> bool:
        return await self._slow.ahandle(request)


def policy_asks(handler: Any = None) -> list[Any]:
    return [AllowByName(["other"]), PermissionPolicy(fallback="ask", handler=handler)]


WHO: dict[str, Callable[[Slow], dict[str, Any]]] = {
    "an async handler": lambda slow: {"approval_handler": HandlerApprover(slow.ahandle, timeout=SOON)},
    "a sync handler": lambda slow: {"approval_handler": HandlerApprover(slow.handle, timeout=SOON)},
    "a Human that blocks": lambda slow: {"human": HumanApprover(Plain(slow), timeout=SOON)},
    "a Human that is awaited": lambda slow: {"human": HumanApprover(Awaiting(slow), timeout=SOON)},
    "a policy's handler": lambda slow: {
        "permissions": policy_asks(PolicyHandlerApprover(Handler(slow), timeout=SOON)),
    },
    "a policy's async handler": lambda slow: {
        "permissions": policy_asks(PolicyHandlerApprover(AsyncHandler(slow), timeout=SOON)),
    },
    "a handler for policies": lambda slow: {
        "permissions": policy_asks(), "permission_handler": PolicyHandlerApprover(Handler(slow), timeout=SOON),
    },
    "an async handler for policies": lambda slow: {
        "permissions": policy_asks(), "permission_handler": PolicyHandlerApprover(AsyncHandler(slow), timeout=SOON),
    },
    "a text prompt": lambda slow: {"human": TextApprover(slow.read, lambda text: None, timeout=SOON)},
    "an approver of one's own": lambda slow: {"human": own_approver(slow)},
    "a rule with a limit, and a handler": lambda slow: {
        "permissions": [AllowByName(["other"]), DecideByHuman(timeout=SOON)], "approval_handler": slow.ahandle,
    },
    "a rule with a limit, and a human of its own": lambda slow: {
        "permissions": [AllowByName(["other"]), DecideByHuman(Plain(slow), timeout=SOON)],
    },
}  # fmt: skip
every_one = pytest.mark.parametrize("who", WHO)


@pytest.fixture
def slow() -> Iterator[Slow]:
    made = Slow()
    yield made
    made.come_back()


@pytest.fixture(autouse=True)
def _no_thread_keeps_the_time_afterwards() -> Iterator[None]:
    yield
    for thread in threading.enumerate():
        if thread.name == "agentperm-alarms":
            thread.join(5)
            assert not thread.is_alive()


def agent_of(counter: Counter, settings: dict[str, Any], *tools: Tool) -> Agent:
    settings = {"permissions": [AllowByName(["other"]), DecideByHuman()], **settings}
    return Agent([counter.tool, *tools], **settings)


def kinds(agent: Agent) -> list[str]:
    return [event.kind for event in agent.audit.events() if event.call_key]


# Denied ---------------------------------------------------------------------------------------------------------------


@both_drivers
@every_one
def test_a_call_that_nobody_answers_about_in_time_is_denied_and_no_person_has_said_so(  # A18
    who: str, driver: str, slow: Slow
) -> None:
    counter, other = Counter(), Counter("other")
    agent = agent_of(counter, WHO[who](slow), other.tool)
    turn = run(driver, agent, [CALL, tool_call("other", n=2)])
    denied, went_on = turn.results
    assert (denied.verdict, denied.answered_by, denied.decided_kind) == ("denied", "timeout", "timeout")
    assert denied.content == denied.reason == NOT_IN_TIME
    assert turn.stopped is None
    assert went_on.verdict == "allowed"
    assert (counter.ran, other.ran) == ([], [{"n": 2}])
    row = agent.audit.calls().iloc[0]
    assert (row["verdict"], row["outcome"], row["answered_by"]) == ("denied", "not_run", "timeout")
    assert row["decided_kind"] == "timeout"
    assert row["decided_by"].startswith(("DecideByHuman(", "policy: fallback"))
    assert row["reason"] == NOT_IN_TIME
    assert pd.isna(row["answer"])
    assert pd.isna(row["approver"])
    assert row["waited_s"] >= SOON * 0.9
    (expired,) = [event for event in agent.audit.events() if event.kind == "expired"]
    assert expired.data["reason"] == f"nobody answered within {SOON:g} s"
    assert "answered" not in kinds(agent)
    assert agent.pending() == ()


class Raises:
    """Stands for whoever raises an error instead of answering about the first call."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, request: ApprovalRequest | PermissionRequest) -> bool:
        if (request.tool_name if isinstance(request, PermissionRequest) else request.call.name) == "act":
            raise self.error
        return True

    handle = __call__

    async def acall(self, request: ApprovalRequest) -> bool:
        return self(request)

    async def review(self, requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, Any]]:
        for request in reversed(requests):
            yield request.id, self(request)


WHO_RAISES: dict[str, Callable[[Raises], dict[str, Any]]] = {
    "a handler": lambda raises: {"approval_handler": raises},
    "an async handler": lambda raises: {"approval_handler": raises.acall},
    "a handler with a limit": lambda raises: {"approval_handler": HandlerApprover(raises, timeout=60)},
    "a policy's handler": lambda raises: {"permissions": [PermissionPolicy(fallback="ask", handler=raises)]},
    "a handler for policies": lambda raises: {
        "permissions": [PermissionPolicy(fallback="ask")], "permission_handler": raises,
    },
    "an approver of one's own": lambda raises: {"human": Scripted(raises.review)},
}  # fmt: skip


@both_drivers
@pytest.mark.parametrize("who", WHO_RAISES)
@pytest.mark.parametrize("error", [TimeoutError("no reply to password=hunter2"), TimeoutError()], ids=repr)
def test_a_timeout_error_of_whoever_is_asked_is_told_apart_in_the_same_way(
    error: Exception, who: str, driver: str
) -> None:
    counter, other = Counter(), Counter("other")
    agent = Agent([counter.tool, other.tool], **WHO_RAISES[who](Raises(error)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        turn = run(driver, agent, [CALL, tool_call("other", n=2)])
    denied, went_on = turn.results
    assert (denied.verdict, denied.answered_by, denied.decided_kind) == ("denied", "timeout", "timeout")
    assert (denied.content, went_on.verdict, turn.stopped) == (NOT_IN_TIME, "allowed", None)
    assert (counter.ran, other.ran) == ([], [{"n": 2}])
    row = agent.audit.calls().iloc[0]
    assert (row["verdict"], row["answered_by"], row["reason"]) == ("denied", "timeout", NOT_IN_TIME)
    (expired,) = [event for event in agent.audit.events() if event.kind == "expired"]
    why = str(expired.data["reason"])
    assert why.startswith("no reply to password=") if error.args else why.endswith("raised TimeoutError")
    assert "hunter2" not in why
    assert agent.pending() == ()


@both_drivers
@pytest.mark.parametrize("who", WHO_RAISES)
def test_one_of_the_operating_system_is_a_failure(who: str, driver: str) -> None:
    counter, error = Counter(), TimeoutError(errno.ETIMEDOUT, "Connection timed out")
    agent = Agent([counter.tool], **WHO_RAISES[who](Raises(error)))
    with pytest.warns(PermissionWarning, match=r"raised TimeoutError: .*Connection timed out"):
        (result,) = run(driver, agent, [CALL]).results
    assert (result.content, result.decided_kind, counter.ran) == (FAILED, "human", [])


@both_drivers
def test_one_of_a_classic_human_goes_to_the_caller(driver: str) -> None:
    class Away(Human):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            raise TimeoutError("nobody came")

    counter = Counter()
    with pytest.raises(TimeoutError, match="nobody came"):
        run(driver, Agent([counter.tool], human=Away()), [CALL])
    assert counter.ran == []


def test_async_handlers_that_block_hold_a_turn_up_for_a_moment_all_together() -> None:
    gone, left = threading.Event(), threading.Semaphore(0)

    async def handler(request: ApprovalRequest) -> bool:
        gone.wait(15)  # the mistake that this is about
        left.release()
        return True

    counter = Counter()
    agent = Agent([counter.tool], approval_handler=HandlerApprover(handler, timeout=SOON))
    began = time.monotonic()
    turn = agent.use_tools([tool_call("act", n=n) for n in range(5)])
    assert time.monotonic() - began < 4
    gone.set()
    assert all(left.acquire(timeout=5) for _ in range(5))
    assert [result.answered_by for result in turn.results] == ["timeout"] * 5
    assert counter.ran == []


@both_drivers
def test_the_model_is_told_something_else_than_after_a_no(driver: str) -> None:  # A18
    refused = Agent([Counter().tool], approval_handler=lambda request: False)
    nobody = Agent([Counter().tool], permissions=[DecideByHuman(timeout=SOON)], human=Awaiting(Slow()))
    said = run(driver, refused, [CALL]).results[0].content
    assert run(driver, nobody, [CALL]).results[0].content not in (said, "")


@both_drivers
def test_where_nobody_can_be_asked_it_is_said_at_once_whatever_the_limit(driver: str) -> None:  # A20
    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman(timeout=300)])  # the tests have no terminal
    began = time.monotonic()
    (result,) = run(driver, agent, [CALL]).results
    assert time.monotonic() - began < 1
    assert (result.verdict, result.answered_by, counter.ran) == ("denied", "nobody", [])
    assert "Nobody can answer here" in result.reason


@both_drivers
def test_an_answer_in_time_counts_and_the_time_is_stopped(driver: str) -> None:
    counter = Counter()
    handler = HandlerApprover(lambda request: True, timeout=60, reminders=[30], on_reminder=lambda request: None)
    agent = Agent([counter.tool], approval_handler=handler)
    assert run(driver, agent, [CALL]).results[0].verdict == "allowed"
    assert counter.ran == [{"n": 1}]
    assert "expired" not in kinds(agent)


@both_drivers
@pytest.mark.states("MA2.6")
def test_the_time_that_a_person_takes_is_none_of_the_tools(driver: str) -> None:
    counter = Counter(timeout=0.1)

    async def handler(request: ApprovalRequest) -> bool:
        await anyio.sleep(0.3)
        return True

    agent = Agent([counter.tool], approval_handler=HandlerApprover(handler, timeout=10))
    assert run(driver, agent, [CALL]).results[0].content == "ran {'n': 1}"


@pytest.mark.parametrize("wrong", [HandlerApprover, "yes", 5, object()], ids=repr)
def test_what_is_neither_a_function_nor_an_approver_answers_nothing(wrong: Any) -> None:
    with pytest.raises(TypeError, match="approval_handler= takes a function"):
        Agent([Counter().tool], approval_handler=wrong)


# Too late -------------------------------------------------------------------------------------------------------------

BLOCKS = {name: WHO[name] for name in ("a sync handler", "a Human that blocks", "a policy's handler")}


@both_drivers
@pytest.mark.parametrize("who", BLOCKS)
def test_what_somebody_says_when_the_time_is_over_is_late_and_lets_nothing_run(
    who: str, driver: str, slow: Slow
) -> None:
    counter = Counter()
    agent = agent_of(counter, WHO[who](slow))
    run(driver, agent, [CALL])
    late = threading.Event()
    leave = the_desk.subscribe(lambda change: late.set() if change.kind == "late" else None)
    slow.come_back()
    assert late.wait(5)
    leave()
    run(driver, agent, [tool_call("other", n=1)])  # whatever else happens
    (event,) = [event for event in agent.audit.events() if event.kind == "late"]
    assert (event.data["action"], event.data["why"]) == ("allow", "the request was expired before")
    assert counter.ran == []
    assert agent.audit.calls().iloc[0]["outcome"] == "not_run"


@both_drivers
def test_who_answered_too_late_is_in_the_log(driver: str, slow: Slow) -> None:
    def handler(request: ApprovalRequest) -> ApprovalDecision:
        slow.gone.wait(15)
        return ApprovalDecision("allow", approver="ann")

    agent = Agent([Counter().tool], approval_handler=HandlerApprover(handler, timeout=SOON))
    run(driver, agent, [CALL])
    late = threading.Event()
    leave = the_desk.subscribe(lambda change: late.set() if change.kind == "late" else None)
    slow.come_back()
    assert late.wait(5)
    leave()
    (event,) = [event for event in agent.audit.events() if event.kind == "late"]
    assert (event.approver, event.approver_from) == ("ann", "handler")
    assert pd.isna(agent.audit.calls().iloc[0]["approver"])


@both_drivers
def test_an_async_handler_that_still_waits_is_cancelled(driver: str, slow: Slow) -> None:
    run(driver, Agent([Counter().tool], approval_handler=HandlerApprover(slow.ahandle, timeout=SOON)), [CALL])
    assert slow.called.is_set()
    assert slow.cancelled.is_set()


@both_drivers
@pytest.mark.parametrize("given", ["to the policy", "to the agent"])
def test_an_async_handler_of_a_policy_that_still_waits_is_cancelled(given: str, driver: str, slow: Slow) -> None:
    handler = PolicyHandlerApprover(AsyncHandler(slow), timeout=SOON)
    to_the_policy = given == "to the policy"
    permissions = policy_asks(handler if to_the_policy else None)
    agent = Agent([Counter().tool], permissions=permissions, permission_handler=None if to_the_policy else handler)
    run(driver, agent, [CALL])
    assert slow.called.is_set()
    assert slow.cancelled.is_set()


@both_drivers
@pytest.mark.parametrize("what", [True, ApprovalDecision("edit", edited_args={"n": 9}), "junk"], ids=str)
def test_an_approver_that_answers_just_after_the_time_is_over_answers_nothing(what: object, driver: str) -> None:
    counter = Counter()

    async def review(requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, Any]]:
        the_desk.expire(requests[0].id, "nobody answered within 0 s")
        yield requests[0].id, what

    agent = Agent([counter.tool], human=Scripted(review))
    (result,) = run(driver, agent, [CALL]).results
    assert (result.verdict, result.answered_by, counter.ran) == ("denied", "timeout", [])


@both_drivers
def test_a_click_after_the_time_is_late(driver: str, slow: Slow) -> None:
    counter = Counter()
    agent = Agent([counter.tool], approval_handler=HandlerApprover(slow.ahandle, timeout=SOON))
    ids: list[str] = []
    leave = the_desk.subscribe(lambda change: ids.append(change.request_id) if change.kind == "expired" else None)
    run(driver, agent, [CALL])
    leave()
    assert the_desk.answer(ids[0], Answer(ApprovalDecision("allow"), approver="ann", via="panel")) is False
    assert kinds(agent)[-1] == "late"
    assert counter.ran == []


@both_drivers
def test_a_race_of_answers_and_expiry_runs_nothing_that_was_not_allowed(driver: str) -> None:
    """Each handler answers at the very moment at which its time is over; what ran is what was answered in time."""
    counter, limit = Counter(), 0.15

    async def handler(request: ApprovalRequest) -> bool:
        assert request.expires_at is not None
        offset = (request.call.args["n"] % 11 - 5) / 250
        await anyio.sleep(max(0.0, (request.expires_at - datetime.now(UTC)).total_seconds() + offset))
        return True

    agent = Agent([counter.tool], approval_handler=HandlerApprover(handler, timeout=limit))
    turn = run(driver, agent, [tool_call("act", n=n) for n in range(60)])
    said = {result.call.args["n"]: (result.verdict, result.answered_by) for result in turn.results}
    assert set(said.values()) <= {("allowed", "handler"), ("denied", "timeout")}
    assert sorted(args["n"] for args in counter.ran) == sorted(
        n for n, (verdict, _) in said.items() if verdict == "allowed"
    )
    for call_key in {event.call_key for event in agent.audit.events() if event.call_key}:
        ends = [event.kind for event in agent.audit.events(call_key) if event.kind in ("answered", "expired")]
        assert len(ends) == 1


# An edit --------------------------------------------------------------------------------------------------------------


class Pondering(DenyPermission):
    """Takes its time over a call with ``n == 9``, such as an edited one."""

    def __init__(self, seconds: float, verdict: Verdict | None = None) -> None:
        self.seconds, self.verdict = seconds, verdict

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        if call.args["n"] == 9:
            time.sleep(self.seconds)
            return self.verdict
        return None


@both_drivers
@pytest.mark.parametrize("verdict", [None, Denied("not nine")], ids=str)
def test_an_edit_that_came_in_time_is_decided_though_the_time_is_over_by_then(
    verdict: Verdict | None, driver: str
) -> None:
    counter = Counter()
    handler = HandlerApprover(lambda request: ApprovalDecision("edit", edited_args={"n": 9}), timeout=0.2)
    agent = Agent([counter.tool], permissions=[Pondering(0.3, verdict), DecideByHuman()], approval_handler=handler)
    (result,) = run(driver, agent, [CALL]).results
    assert (result.verdict, result.answered_by) == ("denied" if verdict else "allowed", "handler")
    assert counter.ran == ([] if verdict else [{"n": 9}])
    assert "expired" not in kinds(agent)


@both_drivers
def test_an_edit_that_came_too_late_changes_and_runs_nothing(driver: str, slow: Slow) -> None:
    counter = Counter()

    def handler(request: ApprovalRequest) -> ApprovalDecision:
        slow.gone.wait(15)
        return ApprovalDecision("edit", edited_args={"n": 9})

    agent = Agent([counter.tool], approval_handler=HandlerApprover(handler, timeout=SOON))
    (result,) = run(driver, agent, [CALL]).results
    late = threading.Event()
    leave = the_desk.subscribe(lambda change: late.set() if change.kind == "late" else None)
    slow.come_back()
    assert late.wait(5)
    leave()
    assert (result.verdict, result.args_run, counter.ran) == ("denied", None, [])
    assert "edited" not in kinds(agent)


# Several --------------------------------------------------------------------------------------------------------------


class Within(DecidePermission):
    """Asks about the calls with one number, with a limit of its own."""

    human = None
    blocking = False

    def __init__(self, n: int, timeout: float) -> None:
        self.n, self.timeout = n, timeout

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        return Ask("Really?") if call.args["n"] == self.n else None


@both_drivers
def test_one_that_expires_leaves_the_others_their_time(driver: str) -> None:
    counter = Counter()

    async def review(requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, Any]]:
        first, second = requests
        while the_desk.is_open(first.id):  # noqa: ASYNC110 - the desk has no event
            await anyio.sleep(0.02)
        yield second.id, True

    agent = Agent([counter.tool], permissions=[Within(1, SOON), DecideByHuman()], human=Scripted(review))
    turn = run(driver, agent, [CALL, tool_call("act", n=2)])
    assert [(result.verdict, result.answered_by) for result in turn.results] == [
        ("denied", "timeout"),
        ("allowed", "human"),
    ]
    assert counter.ran == [{"n": 2}]


@both_drivers
def test_many_calls_each_with_its_own_limit_expire_in_their_order(driver: str, slow: Slow) -> None:
    limits = {n: 0.05 + (n * 7 % 20) / 100 for n in range(20)}
    counter, expired = Counter(), list[str]()
    rules = [Within(n, limit) for n, limit in limits.items()]
    agent = Agent([counter.tool], permissions=rules, approval_handler=slow.ahandle)
    leave = the_desk.subscribe(lambda change: expired.append(change.request_id) if change.kind == "expired" else None)
    keys: dict[str, int] = {}
    noting = the_desk.subscribe(
        lambda change: (
            keys.update({request.id: request.call.args["n"] for request in agent.pending()})
            if change.kind == "opened"
            else None
        )
    )
    turn = run(driver, agent, [tool_call("act", n=n) for n in limits])
    leave()
    noting()
    assert {result.answered_by for result in turn.results} == {"timeout"}
    assert [limits[keys[id]] for id in expired] == sorted(limits.values())
    assert counter.ran == []


@both_drivers
def test_when_the_time_of_one_question_to_a_human_is_over_the_next_is_put(driver: str) -> None:
    counter, asked = Counter(), list[str]()

    class Second(Human):
        async def aask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            asked.append(prompt)
            if len(asked) == 1:
                await anyio.sleep(15)
            return "yes"

    agent = Agent([counter.tool], human=HumanApprover(Second(), timeout=0.2))
    turn = run(driver, agent, [CALL, tool_call("act", n=2)])
    assert [result.answered_by for result in turn.results] == ["timeout", "human"]
    assert asked == ["Run act(n=1)?", "Run act(n=2)?"]
    assert counter.ran == [{"n": 2}]


@both_drivers
def test_a_human_that_blocks_is_never_put_two_questions_at_once(driver: str) -> None:
    """The "yes" to a question whose time was over is not taken for one to the next question."""
    counter, slow, asked = Counter(), Slow(), list[str]()

    class Late(Human):
        def __init__(self) -> None:
            self.at_once = 0
            self.most = 0

        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            self.at_once += 1
            self.most = max(self.most, self.at_once)
            asked.append(prompt)
            if len(asked) == 1:
                slow.gone.wait(15)
            self.at_once -= 1
            return "yes" if len(asked) == 1 else "no"

    human = Late()
    agent = Agent([counter.tool], human=HumanApprover(human, timeout=0.3))
    leave = the_desk.subscribe(lambda change: slow.come_back() if change.kind == "expired" else None)
    turn = run(driver, agent, [CALL, tool_call("act", n=2)])
    leave()
    assert [(result.verdict, result.answered_by) for result in turn.results] == [
        ("denied", "timeout"),
        ("denied", "human"),
    ]
    assert (human.most, counter.ran) == (1, [])
    assert kinds(agent).count("late") == 1


@both_drivers
def test_a_human_that_never_comes_back_holds_up_no_turn(driver: str, slow: Slow) -> None:
    counter, asked = Counter(), list[str]()

    class Gone(Human):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            asked.append(prompt)
            slow.gone.wait(15)
            return "yes"

    agent = Agent([counter.tool], human=HumanApprover(Gone(), timeout=SOON))
    for _ in range(2):
        turn = run(driver, agent, [CALL, tool_call("act", n=2)])
        assert {result.answered_by for result in turn.results} == {"timeout"}
    assert asked == ["Run act(n=1)?"]  # the first question still stands: none is put beside it
    assert counter.ran == []


@both_drivers
def test_what_is_typed_to_a_question_that_is_over_is_no_answer_to_the_next(driver: str) -> None:
    counter, typed, shown = Counter(), queue.SimpleQueue[str](), list[str]()

    def read(question: str) -> str:
        shown.append(question)
        return typed.get(timeout=15)

    def listen(change: Any) -> None:
        if change.kind == "expired":
            typed.put("a")  # meant for the first
            typed.put("d")
            typed.put("not this")

    leave = the_desk.subscribe(listen)
    agent = Agent([counter.tool], human=TextApprover(read, shown.append, timeout=0.3))
    turn = run(driver, agent, [CALL, tool_call("act", n=2)])
    leave()
    assert [(result.verdict, result.reason) for result in turn.results] == [
        ("denied", NOT_IN_TIME),
        ("denied", "not this"),
    ]
    assert counter.ran == []
    screen = "\n".join(shown)
    assert "That came too late: act was denied, nobody answered in time." in screen
    assert "1. act: expires " in screen
    assert "2. act: expires " in screen


@both_drivers
def test_the_time_of_a_second_question_begins_when_the_first_is_answered(driver: str) -> None:
    counter, times = Counter(), list[datetime | None]()

    class Thinks(Human):
        async def aask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            times.extend(request.expires_at for request in agent.pending())
            await anyio.sleep(0.3)
            return "yes"

    agent = Agent([counter.tool], human=HumanApprover(Thinks(), timeout=0.5))
    turn = run(driver, agent, [tool_call("act", n=n) for n in (1, 2, 3)])  # 0.9 s in all
    assert [result.verdict for result in turn.results] == ["allowed"] * 3
    first, second, third = times[:3]
    assert first is not None
    assert second is third is None


@both_drivers
def test_a_human_that_fails_when_its_time_is_over_ends_no_turn(driver: str) -> None:
    class Fails(Human):
        async def aask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            try:
                await anyio.sleep(15)
            finally:
                raise OSError("the line was cut")

    counter = Counter()
    (result,) = run(driver, Agent([counter.tool], human=HumanApprover(Fails(), timeout=SOON)), [CALL]).results
    assert (result.answered_by, counter.ran) == ("timeout", [])


@both_drivers
def test_a_human_that_fails_in_time_ends_the_turn_as_ever(driver: str) -> None:
    class Fails(Human):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            raise OSError("no line")

    counter = Counter()
    with pytest.raises(OSError, match="no line"):
        run(driver, Agent([counter.tool], human=HumanApprover(Fails(), timeout=60)), [CALL])
    assert counter.ran == []


# The end of a turn stops the clock ------------------------------------------------------------------------------------


@on_a_loop
@pytest.mark.parametrize("who", [name for name in WHO if "rule" not in name])
def test_a_turn_that_is_cancelled_times_nothing_any_more(who: str, driver: str, slow: Slow) -> None:
    counter, opened = Counter(), threading.Event()
    agent = agent_of(counter, WHO[who](slow))

    async def main() -> None:
        with anyio.move_on_after(SOON / 2):
            await agent.ause_tools([CALL])

    leave = the_desk.subscribe(lambda change: opened.set())
    anyio.run(main, backend=driver)
    leave()
    assert opened.is_set()
    time.sleep(SOON)  # nothing may happen in this time, and what does not happen sets no event
    assert "expired" not in kinds(agent)
    assert "withdrawn" in kinds(agent)
    assert agent.pending() == ()


@both_drivers
def test_a_stop_ends_the_waiting_of_the_others(driver: str, slow: Slow) -> None:
    counter = Counter()

    async def handler(request: ApprovalRequest) -> ApprovalDecision | bool:
        if request.call.args["n"] == 1:
            return ApprovalDecision("deny", stop=True)
        return await slow.ahandle(request)

    agent = Agent([counter.tool], approval_handler=HandlerApprover(handler, timeout=60))
    turn = run(driver, agent, [CALL, tool_call("act", n=2)])
    assert [result.verdict for result in turn.results] == ["denied", "cancelled"]
    assert "expired" not in kinds(agent)


def test_a_turn_in_the_background_goes_on_when_the_time_is_over(slow: Slow) -> None:
    agent = Agent([Counter().tool], approval_handler=HandlerApprover(slow.ahandle, timeout=SOON))

    async def main() -> Turn:
        task = agent.start([CALL])
        return await task

    assert anyio.run(main).results[0].answered_by == "timeout"
    assert agent.pending() == ()


# Reminders, and what a handler knows ----------------------------------------------------------------------------------


@both_drivers
def test_a_reminder_is_given_the_request_and_answers_nothing(driver: str, slow: Slow) -> None:
    got: queue.SimpleQueue[ApprovalRequest] = queue.SimpleQueue()

    def remind(request: ApprovalRequest) -> bool:
        got.put(request)
        return True

    counter = Counter()
    handler = HandlerApprover(slow.ahandle, timeout=0.2, reminders=0.05, on_reminder=remind)
    (result,) = run(driver, Agent([counter.tool], approval_handler=handler), [CALL]).results
    request = got.get(timeout=5)
    assert (request.call.name, request.expires_at is not None) == ("act", True)
    assert (result.answered_by, counter.ran) == ("timeout", [])


@both_drivers
def test_a_handler_knows_the_session_and_when_its_time_is_over(driver: str) -> None:
    seen: list[ApprovalRequest] = []
    agent = Agent([Counter().tool], approval_handler=HandlerApprover(seen.append, timeout=60), session="monday")
    with pytest.warns(PermissionWarning, match="is not an answer"):
        run(driver, agent, [CALL])
    (request,) = seen
    assert request.session == "monday"
    assert request.expires_at is not None
    assert (request.expires_at - request.asked_at).total_seconds() == 60


def test_a_classic_human_as_it_was_given_has_no_limit() -> None:
    counter = Counter()
    assert Agent([counter.tool], human=FakeHuman(["yes"])).use_tools([CALL]).results[0].verdict == "allowed"


# The end of the program -----------------------------------------------------------------------------------------------

PROGRAM = """
import anyio
from agentperm_nb import Agent, TextApprover, ToolCall

def act() -> str:
    print("ran")

agent = Agent([act], human=TextApprover(timeout=0.2))
async def main():
    return await agent.ause_tools([ToolCall("act", {})])
turn = {how}
print([(result.verdict, result.answered_by) for result in turn.results])
"""


@pytest.mark.parametrize(
    "how",
    ["agent.use_tools([ToolCall('act', {})])", "anyio.run(main)", "anyio.run(main, backend='trio')"],
    ids=DRIVERS,
)
def test_a_program_ends_although_its_question_still_stands_on_the_terminal(how: str) -> None:
    pty = pytest.importorskip("pty")
    ours, its = pty.openpty()
    try:
        with subprocess.Popen(
            [sys.executable, "-c", PROGRAM.replace("{how}", how)], stdin=its, stdout=its, stderr=its
        ) as program:
            assert program.wait(15) == 0  # nothing was ever typed
        shown = os.read(ours, 10_000).decode().replace("\r", "")
    finally:
        os.close(ours)
        os.close(its)
    assert "ran" not in shown
    assert "[('denied', 'timeout')]" in shown
    assert "Nobody answered in time: this is asked no more. Press Enter to end the question." in shown
