"""What happens in a turn, a sentence a test."""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import gc
import itertools
import threading
import time
import types
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from turns import DRIVERS, Counter, Scripted, run, run_noting

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByName,
    AllowByReadOnly,
    Allowed,
    ApprovalDecision,
    Ask,
    DecideByHuman,
    DecidePermission,
    Denied,
    DenyByName,
    Log,
    MemoryStore,
    NoHumanError,
    NotFinishedError,
    PermissionWarning,
    Scope,
    State,
    Tool,
    ToolCall,
    ToolError,
    ToolInputError,
    Turn,
    Verdict,
    get_run_context,
    tool,
)
from agentperm_nb.approvals.desk import Answer, Desk, DeskChange, the_desk
from agentperm_nb.audit.events import Event
from agentperm_nb.testing import FakeHuman, Recording

both_drivers = pytest.mark.parametrize("driver", DRIVERS)


class Says(DecidePermission):
    """Says what a function of the call returns."""

    blocking = False

    def __init__(self, say: Callable[[ToolCall], Verdict | None], human: Any = None) -> None:
        self.say, self.human = say, human

    def check(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
        return self.say(call)


def calls(*names: str) -> list[ToolCall]:
    return [ToolCall(name, {"n": position}, f"id{position}") for position, name in enumerate(names)]


def listeners() -> set[int]:
    """Return who listens to the desk, without agents that are gone."""
    gc.collect()
    return set(the_desk._listeners)


def verdicts(turn: Turn) -> list[str]:
    return [result.verdict for result in turn.results]


def answering(*words: Any) -> Scripted:
    """Answer the requests of a turn with these, in request order; keep them in `.requests`."""
    left = list(words)
    requests_seen: list[Any] = []

    async def review(requests: Any) -> Any:
        requests_seen.extend(requests)
        for request in requests:
            word = left.pop(0)
            yield request.id, ApprovalDecision(word) if isinstance(word, str) else word

    approver = Scripted(review)
    approver.requests = requests_seen  # type: ignore[attr-defined]
    return approver


# ---------------------------------------------------------------------- the order of asking


@pytest.mark.states("I1", "I7")
@both_drivers
def test_all_rules_are_asked_first_then_people_and_nothing_runs_before_the_last_answer(driver: str) -> None:
    happened: list[str] = []

    def say(call: ToolCall) -> Verdict | None:
        happened.append(f"rule {call.args['n']}")
        return None if call.name == "act" else Allowed()

    async def review(requests: Any) -> Any:
        for request in requests:
            happened.append(f"asked {request.call.args['n']}")
            yield request.id, ApprovalDecision("allow")

    def act(n: int) -> None:
        happened.append("ran")

    agent = Agent(
        [act, tool(name="free")(act)], permissions=[Recording(Says(say)), DecideByHuman()], human=Scripted(review)
    )
    run(driver, agent, calls("free", "act", "free", "act"))
    first_ran = happened.index("ran")
    # The order once more before each start: an answer was awaited.
    assert [word for word in happened[:first_ran] if word.startswith("rule")][:4] == [f"rule {n}" for n in range(4)]
    assert happened[4:6] == ["asked 1", "asked 3"]
    assert first_ran > 5
    assert happened.count("ran") == 4


@pytest.mark.states("I2")
@both_drivers
def test_denies_are_asked_first_wherever_they_stand(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[AllowByDefault(), DenyByName(["ACT"])])
    turn = run(driver, agent, calls("act"))
    assert verdicts(turn) == ["denied"]
    assert turn.results[0].decided_by == "DenyByName(['ACT'])"
    assert counter.ran == []


@pytest.mark.states("J5")
@both_drivers
def test_an_empty_list_denies_with_a_warning_each_time(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[])
    for _ in range(2):
        outcome, noted = run_noting(driver, agent, calls("act", "act"))
        assert isinstance(outcome, Turn)
        assert [result.content for result in outcome.results] == ["No permission allowed this call."] * 2
        assert len(noted) == 2
        assert "AllowByDefault() at the end" in noted[0]
    assert counter.ran == []


@both_drivers
def test_a_warning_that_is_an_error_goes_to_the_caller_and_nothing_runs(driver: str) -> None:
    counter, other = Counter(), Counter("other")
    agent = Agent([counter.tool, other.tool], permissions=[AllowByName(["other"])])
    with pytest.raises(PermissionWarning):
        run(driver, agent, calls("other", "act"))
    assert (counter.ran, other.ran) == ([], [])
    assert list(agent.audit.calls()["verdict"]) == ["cancelled", "denied"]


# ---------------------------------------------------------------------- input errors


@pytest.mark.states("H7")
@both_drivers
def test_input_errors_come_before_anybody_is_asked_but_after_denies(driver: str) -> None:
    counter = Counter()
    rule = Recording(Says(lambda call: Ask("may it?")))
    agent = Agent([counter.tool], permissions=[DenyByName(["ac*"]), rule], human=answering())
    unknown = ToolCall("nope", {}, "1")
    unreadable = ToolCall("act", {}, "2", invalid="arguments are not valid JSON: {")
    turn = run(driver, agent, [unknown, unreadable, ToolCall("act", {"n": "two"}, "3")])
    assert verdicts(turn) == ["input_error", "input_error", "denied"]
    assert turn.results[0].content == "(input error: unknown tool 'nope'. Available tools: act)"
    assert turn.results[1].content == "(input error: arguments are not valid JSON: {)"
    assert rule.calls == []
    assert counter.ran == []


@pytest.mark.states("H7")
@both_drivers
def test_a_person_is_never_shown_a_call_that_does_not_fit_its_schema(driver: str) -> None:
    counter, human = Counter(), answering()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=human)
    turn = run(driver, agent, [ToolCall("act", {"n": "two"})])
    assert verdicts(turn) == ["input_error"]
    assert 'n: "two" is not of type "integer"' in turn.results[0].content
    assert human.requests == []  # type: ignore[attr-defined]
    assert list(agent.audit.calls()["decided_kind"]) == ["schema"]


# ---------------------------------------------------------------------- stop


@pytest.mark.states("M1", "M2")
@both_drivers
def test_a_stop_of_a_rule_cancels_all_others_and_nobody_is_asked(driver: str) -> None:
    counter, human = Counter(), answering()
    says = {0: Allowed(), 1: Ask("may it?"), 2: Denied("plain"), 3: Denied("enough", stop=True), 4: Allowed()}
    rule = Recording(Says(lambda call: says[call.args["n"]]))
    agent = Agent([counter.tool], permissions=[rule], human=human)
    turn = run(driver, agent, calls("act", "act", "act", "act", "act"))
    assert verdicts(turn) == ["cancelled", "cancelled", "denied", "denied", "cancelled"]
    stopped = "(not run: the user stopped this turn)"
    assert [result.content for result in turn.results] == [stopped, stopped, "plain", "enough", stopped]
    assert [call.args["n"] for call in rule.calls] == [0, 1, 2, 3]
    assert str(turn.stopped) == f"stopped by permission {rule!r}"
    assert agent.state.stopped is turn.stopped
    assert {result.decided_by for result in turn.results} == {repr(rule)}
    assert counter.ran == []
    assert human.requests == []  # type: ignore[attr-defined]
    agent.use_tools([])
    assert agent.state.stopped is None


@pytest.mark.states("M1", "M2")
@both_drivers
def test_a_stop_of_a_person_cancels_approved_calls_too(driver: str) -> None:
    counter = Counter()
    human = answering("allow", ApprovalDecision("deny", reason="enough", stop=True), "allow")
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=human)
    turn = run(driver, agent, calls("act", "act", "act"))
    assert verdicts(turn) == ["cancelled", "denied", "cancelled"]
    assert turn.results[1].content == "enough"
    assert counter.ran == []
    assert turn.stopped is not None


@both_drivers
def test_a_stop_found_while_calls_run_cancels_only_what_has_not_started(driver: str) -> None:
    counter = Counter(parallel=False)
    says: dict[str, Verdict] = {}

    def first(n: int) -> str:
        says["act"] = Denied("enough", stop=True)
        return "first"

    agent = Agent(
        [tool(first), counter.tool, Tool("last", function=lambda n: None, parallel=False)],
        permissions=[Says(lambda call: says.get(call.name, Allowed()))],
    )
    turn = run(driver, agent, calls("first", "act", "last"))
    assert verdicts(turn) == ["allowed", "denied", "cancelled"]
    assert turn.results[0].content == "first"
    assert counter.ran == []
    assert len(agent.state.results) == 3


@both_drivers
def test_a_stop_found_beside_a_running_call_leaves_that_call_its_own_result(driver: str) -> None:
    go = threading.Event()

    class Stops(DecidePermission):
        blocking = False
        seen = 0

        def check(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
            if call.name != "act":
                return Allowed()
            self.seen += 1
            if self.seen == 1:
                return Ask("may it?")
            go.set()
            return Denied("enough", stop=True)

    def slow(n: int) -> str:
        assert go.wait(10)
        return "slow is done"

    counter, quick = Counter(), Counter("quick")
    agent = Agent([quick.tool, slow, counter.tool], permissions=[Stops()], human=answering("allow"))
    # No more than 32 start at once: the last is looked at once more when the first has ended.
    turn = run(driver, agent, calls("quick", *["slow"] * 31, "act"))
    assert verdicts(turn) == ["allowed"] * 32 + ["denied"]
    assert [result.content for result in turn.results[1:32]] == ["slow is done"] * 31
    assert (len(quick.ran), counter.ran) == (1, [])
    assert len(agent.state.results) == 33
    assert [event.kind for event in agent.audit.events()].count("cancelled") == 0


# ---------------------------------------------------------------------- edits


@both_drivers
def test_an_edit_runs_with_the_new_arguments_and_the_model_is_told(driver: str) -> None:
    counter = Counter()
    human = answering(ApprovalDecision("edit", edited_args={"n": 7}))
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=human)
    (result,) = run(driver, agent, calls("act")).results
    assert counter.ran == [{"n": 7}]
    assert result.content == "[A reviewer changed 'n' before this call ran. It ran as act(n=7).]\nran {'n': 7}"
    assert result.args_run == {"n": 7}
    (row,) = agent.audit.calls().to_dict("records")
    assert (row["args"], row["args_run"], row["edited"], row["answer"]) == ({"n": 0}, {"n": 7}, True, "edit")
    (edited,) = [event for event in agent.audit.events() if event.kind == "edited"]
    assert (edited.data["args"], edited.data["original_args"]) == ({"n": 7}, {"n": 0})


@both_drivers
@pytest.mark.parametrize(
    ("args", "verdict", "reason"),
    [
        ({"n": "two"}, "input_error", 'the reviewer\'s arguments do not fit: n: "two" is not of type "integer"'),
        ({"n": 13}, "denied", "thirteen"),
        ({"n": 14}, "denied", "never fourteen"),
        ({"n": 15}, "denied", "No permission allowed this call."),
    ],
    ids=["schema", "a deny rule", "a deciding rule", "nobody"],
)
def test_an_edit_is_decided_like_a_new_call(args: Any, verdict: str, reason: str, driver: str) -> None:
    def decides(call: ToolCall) -> Verdict | None:
        n = call.args["n"]
        return None if n == 15 else Denied("never fourteen") if n == 14 else Ask("may it?")

    class Thirteen(DenyByName):
        def check(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
            return Denied("thirteen") if call.args["n"] == 13 else None

    counter = Counter()
    human = answering(ApprovalDecision("edit", edited_args=args))
    agent = Agent([counter.tool], permissions=[Says(decides), Thirteen(["x"])], human=human)
    (result,) = run(driver, agent, calls("act")).results
    assert (result.verdict, result.reason) == (verdict, reason)
    assert counter.ran == []


@both_drivers
def test_an_edit_that_changes_nothing_is_an_allow(driver: str) -> None:
    counter = Counter()
    human = answering(ApprovalDecision("edit", edited_args={"n": 0}))
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=human)
    (result,) = run(driver, agent, calls("act")).results
    assert (result.content, result.args_run) == ("ran {'n': 0}", None)


# ---------------------------------------------------------------------- remembering


@both_drivers
@pytest.mark.parametrize(
    ("scope", "asked"),
    [
        (None, [0, 1, 0, 1]),
        (Scope("call", "run"), [0, 1, 0, 1]),
        (Scope("call", "session"), [0, 1]),
        (Scope("tool", "run"), [0, 0]),
        (Scope("tool", "session"), [0]),
    ],
    ids=["left out", "call and run", "call and session", "tool and run", "tool and session"],
)
def test_a_remembered_answer_holds_as_far_as_its_scope(scope: Any, asked: list[int], driver: str) -> None:
    counter = Counter()
    human = answering(*[ApprovalDecision("remember_allow", scope=scope)] * 4)
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=human)
    for _ in range(2):
        for n in (0, 1, 0, 1):
            (result,) = run(driver, agent, [ToolCall("act", {"n": n})]).results
            assert result.verdict == "allowed"
            assert result.answered_by in ("human", "memory")
        agent.new_run()
    assert [request.call.args["n"] for request in human.requests] == asked  # type: ignore[attr-defined]
    assert len(counter.ran) == 8


@both_drivers
def test_a_remembered_allow_never_passes_a_deny_and_holds_for_nobody_else(driver: str) -> None:
    counter, deny = Counter(), DenyByName(["nothing"])
    always = ApprovalDecision("remember_allow", scope=Scope("tool", "session"))
    human = answering(always, "deny", "deny")
    agent = Agent([counter.tool], permissions=[DecideByHuman(), deny], human=human)
    assert verdicts(run(driver, agent, calls("act"), user="ann")) == ["allowed"]
    assert verdicts(run(driver, agent, calls("act"), user="bob")) == ["denied"]
    assert verdicts(run(driver, agent, calls("act"), user="ann", session="another")) == ["denied"]
    deny.patterns = ["act"]  # type: ignore[assignment]  # the setter checks any iterable
    assert verdicts(run(driver, agent, calls("act"), user="ann")) == ["denied"]
    other = Agent([counter.tool], permissions=[DecideByHuman()], human=answering("deny"), audit=agent.audit)
    assert verdicts(run(driver, other, calls("act"), user="ann")) == ["denied"]
    assert len(counter.ran) == 1


@both_drivers
def test_a_remembered_denial_wins_over_a_remembered_allow(driver: str) -> None:
    counter = Counter()
    human = answering(
        ApprovalDecision("remember_allow", scope=Scope("call")),
        ApprovalDecision("remember_deny", scope=Scope("tool"), reason="no more"),
    )
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=human)
    for n, verdict in ((1, "allowed"), (2, "denied"), (1, "denied")):
        (result,) = run(driver, agent, [ToolCall("act", {"n": n})]).results
        assert result.verdict == verdict
    assert (result.answered_by, result.decided_kind, result.reason) == ("memory", "memory", "no more")


@both_drivers
def test_a_remembered_edit_holds_for_the_edited_call(driver: str) -> None:
    counter = Counter()
    human = answering(ApprovalDecision("remember_allow", edited_args={"n": 7}), "deny")
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=human)
    assert verdicts(run(driver, agent, [ToolCall("act", {"n": 0})])) == ["allowed"]
    assert verdicts(run(driver, agent, [ToolCall("act", {"n": 7})])) == ["allowed"]
    assert verdicts(run(driver, agent, [ToolCall("act", {"n": 0})])) == ["denied"]
    assert counter.ran == [{"n": 7}, {"n": 7}]


@both_drivers
def test_pending_twins_are_answered_from_memory(driver: str) -> None:
    async def review(requests: Any) -> Any:
        yield requests[1].id, ApprovalDecision("remember_allow", scope=Scope("tool"))
        while any(the_desk.is_open(request.id) for request in requests):
            await anyio.lowlevel.checkpoint()

    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Scripted(review))
    turn = run(driver, agent, calls("act", "act", "act"))
    assert [result.answered_by for result in turn.results] == ["memory", "human", "memory"]
    assert len(counter.ran) == 3


# ---------------------------------------------------------------------- once more before the start


@both_drivers
def test_a_rule_that_changed_while_an_answer_was_awaited_denies(driver: str) -> None:
    counter, other, deny = Counter(), Counter("other"), DenyByName(["nothing"])

    async def review(requests: Any) -> Any:
        deny.patterns = ["act", "other"]  # type: ignore[assignment]
        for request in requests:
            yield request.id, ApprovalDecision("allow")

    permissions = [AllowByName(["other"]), DecideByHuman(), deny]
    agent = Agent([counter.tool, other.tool], permissions=permissions, human=Scripted(review))
    turn = run(driver, agent, calls("other", "act"))
    assert verdicts(turn) == ["denied", "denied"]
    assert (counter.ran, other.ran) == ([], [])
    assert list(agent.audit.calls()["decided_kind"]) == ["deny", "deny"]


@both_drivers
def test_a_tool_that_was_removed_meanwhile_does_not_run(driver: str) -> None:
    counter = Counter()

    async def review(requests: Any) -> Any:
        agent._engine.tools.clear()  # type: ignore[attr-defined]  # there is no public way yet
        yield requests[0].id, ApprovalDecision("allow")

    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Scripted(review))
    turn = run(driver, agent, calls("act"))
    assert "was removed or replaced" in turn.results[0].content
    assert counter.ran == []


@both_drivers
def test_arguments_that_were_changed_by_force_do_not_run(driver: str) -> None:
    counter, call = Counter(), ToolCall("act", {"n": 100})

    async def review(requests: Any) -> Any:
        dict.__setitem__(call.args, "n", 50)  # type: ignore[arg-type]
        yield requests[0].id, ApprovalDecision("allow")

    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Scripted(review))
    (result,) = run(driver, agent, [call]).results
    assert result.content == "the arguments were changed after the call was decided"
    assert counter.ran == []


@both_drivers
def test_a_call_that_now_needs_a_person_is_denied(driver: str) -> None:
    counter, allow = Counter(), AllowByName(["act"])

    def other(n: int) -> None:
        allow.patterns = ["other"]  # type: ignore[assignment]

    agent = Agent(
        [Tool("other", function=other), Tool("act", function=counter._run, parallel=False, input_schema={})],
        permissions=[AllowByName(["other"]), allow, DecideByHuman()],
        human=FakeHuman(["yes"]),
    )
    turn = run(driver, agent, calls("other", "act"))
    assert verdicts(turn) == ["allowed", "denied"]
    assert "now a person has to be asked" in turn.results[1].content
    assert counter.ran == []


# ---------------------------------------------------------------------- running


@both_drivers
def test_serial_tools_run_one_after_another_after_the_others(driver: str) -> None:
    happened: list[str] = []

    def serial(n: int) -> None:
        happened.append(f"begin {n}")
        happened.append(f"end {n}")

    async def aserial(n: int) -> None:
        happened.append(f"begin {n}")
        await anyio.lowlevel.checkpoint()
        happened.append(f"end {n}")

    def free(n: int) -> None:
        happened.append("free")

    agent = Agent([tool(parallel=False)(serial), tool(parallel=False)(aserial), free], permissions=[AllowByDefault()])
    run(driver, agent, calls("serial", "aserial", "free", "serial"))
    assert happened == ["free", "begin 0", "end 0", "begin 1", "end 1", "begin 3", "end 3"]


@pytest.mark.states("N1")
@both_drivers
def test_of_a_hundred_sync_calls_at_most_32_run_at_once(driver: str) -> None:
    lock, full = threading.Lock(), threading.Event()
    now, most = [0], [0]

    def act(n: int) -> int:
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
            if now[0] == 32:
                full.set()
        assert full.wait(10)
        with lock:
            now[0] -= 1
        return n

    agent = Agent([act], permissions=[AllowByDefault()])
    turn = run(driver, agent, calls(*["act"] * 100))
    assert [result.content for result in turn.results] == [str(n) for n in range(100)]
    assert most[0] == 32


@both_drivers
@pytest.mark.parametrize(
    ("error", "kind", "content"),
    [
        (ToolError("no such file"), "error", "no such file"),
        (ToolInputError("n is odd"), "input_error", "(input error: n is odd)"),
        (ValueError("boom"), "error", "ValueError: boom"),
        (StopIteration(), "error", "RuntimeError: the tool raised StopIteration"),
        (SystemExit(2), "error", "RuntimeError: the tool raised SystemExit"),
    ],
    ids=["ToolError", "ToolInputError", "ValueError", "StopIteration", "SystemExit"],
)
@pytest.mark.parametrize("form", ["sync", "async"])
def test_what_a_tool_raises_is_the_result_of_its_call(
    error: BaseException, kind: str, content: str, form: str, driver: str
) -> None:
    def failing(n: int) -> None:
        raise error

    async def afailing(n: int) -> None:
        raise error

    counter = Counter()
    function = failing if form == "sync" else afailing
    agent = Agent([Tool("failing", function=function), counter.tool], permissions=[AllowByDefault()])
    turn = run(driver, agent, calls("failing", "act"))
    first = turn.results[0]
    if form == "async" and isinstance(error, StopIteration):
        content = first.content  # Python itself has turned it into a RuntimeError
    assert (first.outcome.kind, first.content, first.verdict) == (kind, content, "allowed")
    assert len(counter.ran) == 1
    assert list(agent.audit.calls()["outcome"]) == ["failed", "ran"]


@pytest.mark.parametrize("driver", ["sync", "asyncio"])
def test_a_cancellation_inside_a_tool_is_its_result_and_not_the_end_of_the_turn(driver: str) -> None:
    async def gives_up(n: int) -> None:
        raise asyncio.CancelledError

    counter = Counter()
    agent = Agent([gives_up, counter.tool], permissions=[AllowByDefault()])
    turn = run(driver, agent, calls("gives_up", "act"))
    assert [result.outcome.kind for result in turn.results] == ["error", "done"]


@both_drivers
def test_a_result_that_cannot_be_written_is_an_error_of_the_call(driver: str) -> None:
    class Unwritable:
        def __str__(self) -> str:
            raise ValueError("no words")

    def act(n: int) -> Any:
        return Unwritable()

    agent = Agent([act], permissions=[AllowByDefault()])
    (result,) = run(driver, agent, calls("act")).results
    assert (result.outcome.kind, result.content) == ("error", "ValueError: no words")


@both_drivers
def test_a_tool_gets_a_copy_that_it_may_change(driver: str) -> None:
    call = ToolCall("act", {"n": [1]})

    def act(n: list[int]) -> int:
        n.append(2)
        return len(n)

    agent = Agent([act], permissions=[AllowByDefault()])
    assert run(driver, agent, [call]).results[0].content == "2"
    assert call.args == {"n": [1]}


@both_drivers
def test_a_sync_function_may_return_something_to_await(driver: str) -> None:
    async def later(n: int) -> str:
        return f"later {n}"

    def now(n: int) -> Any:
        return later(n)

    def check(request: Any) -> Any:
        async def answer() -> bool:
            return True

        return answer()

    agent = Agent([now], permissions=[DecideByHuman()], approval_handler=check)
    assert run(driver, agent, calls("now")).results[0].content == "later 0"


@both_drivers
def test_a_log_that_cannot_be_written_lets_nothing_run(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[AllowByDefault()])

    def full(events: Any) -> None:
        if any(event.kind == "started" for event in events):
            raise OSError("disk full")

    agent._engine.store.append = full  # type: ignore[method-assign]
    with pytest.raises(OSError, match="disk full"):
        run(driver, agent, calls("act"))
    assert counter.ran == []


# ---------------------------------------------------------------------- cancelled and interrupted


class Waiting:
    """An approver that never answers and says when it was asked."""

    batch, answered_by = True, "human"

    def __init__(self) -> None:
        self.asked = anyio.Event()
        self.requests: list[Any] = []

    async def areview(self, requests: Any) -> Any:
        self.requests = list(requests)
        self.asked.set()
        await anyio.sleep_forever()
        yield


@pytest.mark.anyio
async def test_cancelling_while_people_are_asked_withdraws_and_a_late_answer_is_recorded_as_late() -> None:
    counter, waiting, before = Counter(), Waiting(), listeners()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=waiting)
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(_await, agent, calls("act", "act"))
            await waiting.asked.wait()
            assert len(agent.pending()) == 2
            group.cancel_scope.cancel()
    assert agent.pending() == ()
    assert counter.ran == []
    assert [result.content for result in agent.state.results] == ["(interrupted by user)"] * 2
    assert not the_desk.answer(waiting.requests[0].id, Answer(ApprovalDecision("allow")))
    kinds = [event.kind for event in agent.audit.events(waiting.requests[0].call_key)]
    assert kinds == ["requested", "asked", "withdrawn", "cancelled", "late"]
    assert counter.ran == []
    assert len(listeners() - before) == 1  # the agent's own


async def _await(agent: Agent, reply: Any) -> None:
    await agent.ause_tools(reply)


@pytest.mark.anyio
@pytest.mark.parametrize("form", ["sync", "async"])
async def test_cancelling_while_tools_run_marks_them_lost_and_starts_nothing_more(form: str) -> None:
    started, release = anyio.Event(), threading.Event()

    def blocks(n: int) -> None:
        anyio.from_thread.run_sync(started.set)
        release.wait(10)

    async def sleeps(n: int) -> None:
        started.set()
        await anyio.sleep_forever()

    counter = Counter(parallel=False)
    agent = Agent(
        [Tool("slow", function=blocks if form == "sync" else sleeps), counter.tool], permissions=[AllowByDefault()]
    )
    with anyio.fail_after(10):
        async with anyio.create_task_group() as group:
            group.start_soon(_await, agent, calls("slow", "act"))
            await started.wait()
            group.cancel_scope.cancel()
    release.set()
    assert [result.outcome.kind for result in agent.state.results] == ["interrupted", "interrupted"]
    assert list(agent.audit.calls()["outcome"]) == ["lost", "not_run"]
    assert counter.ran == []


def test_an_interrupt_ends_a_blocking_turn() -> None:
    counter = Counter()

    class Interrupted:
        batch, answered_by = True, "human"

        async def areview(self, requests: Any) -> Any:
            await anyio.sleep_forever()
            yield

        def attend(self, requests: Any) -> Any:
            def serve(seconds: float) -> None:
                raise KeyboardInterrupt

            return contextlib.nullcontext(serve)

    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Interrupted())
    with pytest.raises(KeyboardInterrupt):
        agent.use_tools(calls("act", "act"))
    assert counter.ran == []
    assert agent.pending() == ()
    assert [result.outcome.kind for result in agent.state.results] == ["interrupted"] * 2
    assert verdicts(Agent([counter.tool], permissions=[AllowByDefault()]).use_tools(calls("act"))) == ["allowed"]


def test_an_approver_that_serves_nothing_is_waited_for_without_burning_the_processor() -> None:
    counter, served = Counter(), list[float]()

    class Empty:
        batch, answered_by = True, "human"

        async def areview(self, requests: Any) -> Any:
            await anyio.sleep_forever()
            yield

        def attend(self, requests: Any) -> Any:
            def serve(seconds: float) -> None:
                served.append(time.monotonic())
                if len(served) == 20:
                    the_desk.answer(requests[0].id, Answer(ApprovalDecision("allow")))

            return contextlib.nullcontext(serve)

    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Empty())
    assert verdicts(agent.use_tools(calls("act"))) == ["allowed"]
    assert len(served) == 20
    # The least that the rounds may take: a busy machine only makes them longer. A mock, too, serves nothing at once.
    assert min(later - earlier for earlier, later in itertools.pairwise(served)) > 0.002


@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_native_cancellation_of_asyncio_reaches_the_caller(anyio_backend_name: str) -> None:
    waiting, counter = Waiting(), Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=waiting)

    async def turn() -> Turn:
        return await agent.ause_tools(calls("act"))

    task = asyncio.create_task(turn())
    await waiting.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert task.cancelled()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(turn(), 0.05)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await agent.ause_tools(calls("act"))
    assert counter.ran == []
    assert agent.pending() == ()


# ---------------------------------------------------------------------- the desk


@both_drivers
def test_the_first_answer_counts_and_the_second_is_recorded_as_late(driver: str) -> None:
    async def review(requests: Any) -> Any:
        (request,) = requests
        the_desk.answer(request.id, Answer(ApprovalDecision("deny", reason="first")))
        the_desk.answer(request.id, Answer(ApprovalDecision("allow")))
        yield request.id, ApprovalDecision("allow")

    counter, before = Counter(), listeners()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Scripted(review))
    (result,) = run(driver, agent, calls("act")).results
    assert (result.verdict, result.reason) == ("denied", "first")
    assert counter.ran == []
    assert [event.kind for event in agent.audit.events(result.call_key)].count("late") >= 1
    assert len(listeners() - before) == 1


@both_drivers
def test_a_request_that_expires_is_denied_by_timeout(driver: str) -> None:
    async def review(requests: Any) -> Any:
        the_desk.expire(requests[0].id, "after 5 s")
        await anyio.sleep_forever()
        yield

    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Scripted(review))
    (result,) = run(driver, agent, calls("act")).results
    assert (result.verdict, result.answered_by, result.decided_kind) == ("denied", "timeout", "timeout")
    assert counter.ran == []


@both_drivers
def test_answers_in_any_order_go_to_their_own_calls(driver: str) -> None:
    async def review(requests: Any) -> Any:
        for index, word in ((2, "allow"), (0, "deny"), (1, "allow")):
            yield requests[index].id, ApprovalDecision(word)  # type: ignore[arg-type]

    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Scripted(review))
    turn = run(driver, agent, calls("act", "act", "act"))
    assert verdicts(turn) == ["denied", "allowed", "allowed"]
    assert sorted(args["n"] for args in counter.ran) == [1, 2]


# ---------------------------------------------------------------------- people


@both_drivers
def test_nobody_on_purpose_is_an_error_before_anything_runs(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[AllowByDefault(), DecideByHuman()], human=None)
    state = State(pending_calls=calls("act"))
    with pytest.raises(NoHumanError, match="asks the Agent's human"):
        run(driver, agent, state)
    assert counter.ran == []
    assert len(agent.audit) == 0
    assert len(state.pending_calls) == 1  # nothing is lost


@both_drivers
def test_nobody_by_chance_denies_with_the_remedy(driver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentperm_nb.human._make_default", None)
    counter = Counter()
    agent = Agent([counter.tool])
    turn = run(driver, agent, calls("act"))
    assert verdicts(turn) == ["denied"]
    assert turn.results[0].answered_by == "nobody"
    assert "AllowByName" in turn.results[0].content
    assert turn.stopped is None


@both_drivers
def test_a_question_of_a_rule_where_nobody_is_on_purpose_is_denied_and_says_so(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[Says(lambda call: Ask("may it?"))], human=None)
    (result,) = run(driver, agent, calls("act")).results
    assert (result.verdict, result.answered_by) == ("denied", "nobody")
    assert "human=None" in result.content
    assert counter.ran == []


@both_drivers
def test_a_fake_human_without_answers_raises_and_nothing_runs(driver: str) -> None:
    counter, human = Counter(), FakeHuman(["yes"])
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=human)
    with pytest.raises(RuntimeError, match="no answer left"):
        run(driver, agent, calls("act", "act"))
    assert counter.ran == []
    assert len(human.questions) == 2
    assert human.questions[0] == "Run act(n=0)?"


@both_drivers
def test_a_tool_error_of_a_human_denies_one_call_and_the_next_is_asked(driver: str) -> None:
    answers = iter([ToolError("ask me later"), "yes"])

    class Moody:
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            answer = next(answers)
            if isinstance(answer, ToolError):
                raise answer
            return answer

    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Moody())
    turn = run(driver, agent, calls("act", "act"))
    assert [result.content for result in turn.results] == ["ask me later", "ran {'n': 1}"]


@both_drivers
def test_a_subclass_that_asks_its_own_question_is_put_to_the_panel(driver: str) -> None:
    class Polite(DecideByHuman):
        def question(self, call: ToolCall, tool: Tool) -> str:
            return f"Please, {call.name}?"

    human = answering("allow")
    agent = Agent([Counter().tool], permissions=[Polite()], human=human)
    run(driver, agent, calls("act"))
    assert human.requests[0].question == "Please, act?"  # type: ignore[attr-defined]


@both_drivers
@pytest.mark.parametrize("form", ["check", "acheck", "both"])
def test_a_subclass_that_asks_by_itself_is_asked_after_the_rules(form: str, driver: str) -> None:
    happened: list[str] = []

    class Own(DecideByHuman):
        if form in ("check", "both"):

            def check(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
                happened.append(f"own {call.args['n']}")
                return super().check(state, call, tool)

        if form in ("acheck", "both"):

            async def acheck(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
                happened.append(f"own {call.args['n']}")
                return await super().acheck(state, call, tool)

    def say(call: ToolCall) -> Verdict | None:
        happened.append(f"rule {call.args['n']}")
        return None

    counter = Counter()
    agent = Agent([counter.tool], permissions=[Says(say), Own()], human=FakeHuman(["yes", "no", "yes"]))
    if form == "acheck" and driver == "sync":
        with pytest.raises(TypeError, match="checks calls only asynchronously"):
            run(driver, agent, calls("act"))
        assert counter.ran == []
        return
    turn = run(driver, agent, calls("act", "act", "act"))
    assert happened == ["rule 0", "rule 1", "rule 2", "own 0", "own 1"]
    assert verdicts(turn) == ["cancelled", "denied", "cancelled"]
    assert counter.ran == []


@both_drivers
def test_a_subclass_without_opinion_leaves_the_rest_of_the_list_its_say(driver: str) -> None:
    class OnlyOther(DecideByHuman):
        def check(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
            return None

    said: list[Verdict] = [Allowed(), Denied("changed my mind")]
    counter = Counter()
    agent = Agent([counter.tool], permissions=[OnlyOther(), Says(lambda call: said.pop(0))], human=FakeHuman([]))
    turn = run(driver, agent, calls("act"))
    assert turn.results[0].reason == "changed my mind"
    assert counter.ran == []


# ---------------------------------------------------------------------- runs inside runs


def below(sub: Agent, driver: str, name: str = "delegate") -> Tool:
    """Return a tool that lets another agent do a turn with one call of ``act``."""

    def delegate(n: int) -> str:
        return repr(sub.use_tools([ToolCall("act", {"n": n})]).results[0].reason or "ran")

    async def adelegate(n: int) -> str:
        return repr((await sub.ause_tools([ToolCall("act", {"n": n})])).results[0].reason or "ran")

    return Tool(name, function=delegate if driver == "sync" else adelegate)


@both_drivers
def test_denies_of_the_run_above_bind_a_subagent_and_its_other_rules_do_not(driver: str) -> None:
    counter = Counter()
    sub = Agent([counter.tool], name="sub", permissions=[AllowByDefault()])
    bound = Agent([below(sub, driver)], permissions=[DenyByName(["act"]), AllowByName(["delegate"])])
    assert run(driver, bound, calls("delegate")).results[0].content == "'act is not allowed.'"
    assert counter.ran == []
    free = Agent([below(sub, driver)], permissions=[AllowByName(["delegate"])])
    assert run(driver, free, calls("delegate")).results[0].content == "'ran'"
    assert len(counter.ran) == 1


@both_drivers
def test_a_subagent_without_a_list_has_the_list_of_the_run_above(driver: str) -> None:
    counter = Counter()
    sub = Agent([counter.tool], name="sub")
    agent = Agent([below(sub, driver)], permissions=[AllowByName(["delegate"]), Says(lambda call: Denied("mine"))])
    assert run(driver, agent, calls("delegate")).results[0].content == "'mine'"
    assert counter.ran == []


@both_drivers
def test_each_permission_asks_the_human_of_the_run_that_wrote_it(driver: str) -> None:
    above, own = FakeHuman(["yes", "yes", "yes"]), FakeHuman(["yes", "yes"])
    counter, shared = Counter(), DecideByHuman()
    inheriting = Agent([counter.tool], name="sub", human=own)
    run(driver, Agent([below(inheriting, driver)], permissions=[shared], human=above), calls("delegate"))
    assert (len(above.questions), len(own.questions)) == (2, 0)
    with_own = Agent([counter.tool], name="sub", permissions=[shared], human=own)
    run(driver, Agent([below(with_own, driver)], permissions=[AllowByDefault()], human=above), calls("delegate"))
    assert (len(above.questions), len(own.questions)) == (2, 1)
    run(driver, Agent([below(with_own, driver)], permissions=[shared], human=above), calls("delegate"))
    assert (len(above.questions), len(own.questions)) == (3, 2)


@both_drivers
def test_a_subagent_that_was_given_nobody_asks_the_human_above(driver: str) -> None:
    above = FakeHuman(["yes"])
    counter = Counter()
    sub = Agent([counter.tool], name="sub", permissions=[DecideByHuman()])
    agent = Agent([below(sub, driver)], permissions=[AllowByDefault()], human=above)
    assert run(driver, agent, calls("delegate")).results[0].content == "'ran'"
    assert above.questions == ["Run act(n=0)?"]
    nobody = Agent([below(sub, driver)], permissions=[AllowByDefault()], human=None)
    assert "NoHumanError" in run(driver, nobody, calls("delegate")).results[0].content


@both_drivers
def test_a_subagent_is_named_below_its_parent(driver: str) -> None:
    human = answering("allow")
    sub = Agent([Counter().tool], name="writer", permissions=[DecideByHuman()], human=human)
    agent = Agent([below(sub, driver)], name="main", permissions=[AllowByDefault()])
    run(driver, agent, calls("delegate"))
    assert human.requests[0].agent_path == ("main", "writer")  # type: ignore[attr-defined]
    assert list(sub.audit.calls()["agent_path"]) == ["main/writer"]


@pytest.mark.anyio
async def test_use_tools_inside_an_async_tool_is_refused_and_works_in_a_sync_one() -> None:
    counter = Counter()
    sub = Agent([counter.tool], permissions=[AllowByDefault()])

    async def blocks_the_loop(n: int) -> Any:
        return sub.use_tools(calls("act"))

    def on_a_thread(n: int) -> Any:
        return len(sub.use_tools(calls("act")))

    agent = Agent([blocks_the_loop, on_a_thread], permissions=[AllowByDefault()])
    turn = await agent.ause_tools(calls("blocks_the_loop", "on_a_thread"))
    assert "was called inside an async run" in turn.results[0].content
    assert turn.results[1].content == "1"
    assert len(counter.ran) == 1


# ---------------------------------------------------------------------- awaited, started, not awaited


@pytest.mark.anyio
async def test_a_turn_that_was_not_awaited_says_so_and_has_run_nothing() -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[AllowByDefault()])
    state = State(pending_calls=calls("act"))
    pending = agent.ause_tools(state)
    assert "was not awaited: 1 call waiting, nothing was decided and nothing has run" in repr(pending)
    with pytest.raises(NotFinishedError, match="await it first"):
        _ = pending.results
    with pytest.raises(AttributeError):
        _ = pending.nonsense
    assert counter.ran == []
    assert len(state.pending_calls) == 1
    turn = await pending
    assert verdicts(turn) == ["allowed"]
    assert "awaited" in repr(pending)
    with pytest.raises(RuntimeError, match="awaited already"):
        await pending
    assert len(counter.ran) == 1


@pytest.mark.anyio
async def test_the_calls_of_a_state_are_run_once_by_turns_at_the_same_time() -> None:
    counter, state = Counter(), State(pending_calls=calls("act", "act"))
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=FakeHuman(["yes"] * 4))
    turns = [agent.ause_tools(state), agent.ause_tools(state)]
    async with anyio.create_task_group() as group:
        for pending in turns:
            group.start_soon(_wait_for, pending)
    assert len(counter.ran) == 2
    assert state.pending_calls == ()


async def _wait_for(pending: Any) -> None:
    await pending


def asyncio_only(test: Any) -> Any:
    return pytest.mark.parametrize("anyio_backend", ["asyncio"])(pytest.mark.anyio(test))


@asyncio_only
async def test_a_started_turn_works_in_the_background() -> None:
    counter, waiting = Counter(), Waiting()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=waiting)
    other = Agent([counter.tool], permissions=[DecideByHuman()], human=Waiting())
    task, another = agent.start(calls("act", "act")), other.start(calls("act"))
    await waiting.asked.wait()
    await other._engine.human.asked.wait()
    assert repr(task) == "TurnTask: waiting for 2 answers"
    assert repr(another) == "TurnTask: waiting for 1 answer"
    assert not task.done
    with pytest.raises(NotFinishedError):
        _ = task.turn
    for request in agent.pending():
        the_desk.answer(request.id, Answer(ApprovalDecision("allow")))
    turn = await task
    assert task.done
    assert task.turn is turn
    assert repr(task) == "TurnTask: finished, see .turn"
    assert verdicts(turn) == ["allowed", "allowed"]
    assert another.cancel()
    with pytest.raises(asyncio.CancelledError):
        await another
    assert repr(another) == "TurnTask: cancelled"
    assert other.pending() == ()
    assert len(counter.ran) == 2


@asyncio_only
async def test_a_started_turn_that_fails_says_so() -> None:
    def raises(call: ToolCall) -> Verdict | None:
        raise LookupError("broken")

    task = Agent([Counter().tool], permissions=[Says(raises)]).start(calls("act"))
    with pytest.raises(LookupError) as caught:
        await task
    assert caught.value.__notes__ == ["exception raised in permission Says() checking act(n=0)"]
    assert repr(task) == "TurnTask: failed with LookupError"


@asyncio_only
async def test_turns_of_one_agent_at_the_same_time_keep_to_their_own_calls() -> None:
    counter = Counter()
    agent = Agent(
        [counter.tool], permissions=[DecideByHuman()], approval_handler=lambda request: request.call.args["n"] != 1
    )
    one = [ToolCall("act", {"n": n}) for n in (0, 1)]
    two = [ToolCall("act", {"n": n}) for n in (1, 2, 3)]
    first, second = await asyncio.gather(_turn(agent, one), _turn(agent, two))
    assert verdicts(first) == ["allowed", "denied"]
    assert verdicts(second) == ["denied", "allowed", "allowed"]
    assert {first.number, second.number} == {1, 2}
    assert agent.audit.calls()["call_key"].is_unique
    assert sorted(args["n"] for args in counter.ran) == [0, 2, 3]


async def _turn(agent: Agent, reply: Any) -> Turn:
    return await agent.ause_tools(reply)


# ---------------------------------------------------------------------- what a turn and an agent show


@both_drivers
def test_a_turn_shows_its_calls_as_table_frame_and_messages(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=answering("allow", "deny"))
    turn = run(driver, agent, [*calls("act", "act"), ToolCall("nope", {}, "x")])
    assert [result.call.id for result in turn.denied] == ["id1"]
    assert [outcome.kind for outcome in turn.outcomes] == ["done", "denied", "input_error"]
    assert list(turn.frame()["verdict"]) == ["allowed", "denied", "input_error"]
    assert [message["is_error"] for message in turn.to_messages()] == [False, True, True]
    assert "1 done, 1 denied, 1 input error" in repr(turn)
    assert "<table" in turn._repr_html_()
    assert agent.turns[-1] is turn
    assert bool(run(driver, agent, []))
    assert repr(agent.turns[-1]) == "Turn 2: no calls"


@both_drivers
def test_switched_off_checks_are_said_everywhere(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=None)
    turn = run(driver, agent, calls("act"))
    assert turn.unchecked
    for text in (repr(agent), agent._repr_html_(), repr(turn), turn._repr_html_(), repr(agent.explain("act"))):
        assert "UNCHECKED" in text
    assert list(agent.audit.calls()["decided_kind"]) == ["unchecked"]
    assert [event.data["unchecked"] for event in agent.audit.events() if event.kind == "policy"] == [True]
    assert counter.ran == [{"n": 0}]


def test_the_card_tells_who_decides_about_each_tool() -> None:
    @tool(read_only=True)
    def look(n: int) -> None: ...

    counter = Counter("drop")
    agent = Agent(
        [look, counter.tool, Counter("write").tool],
        permissions=[AllowByReadOnly(), DecideByHuman(), DenyByName(["drop"])],
        human=FakeHuman([]),
        user="ann",
    )
    card = repr(agent)
    assert "allowed by AllowByReadOnly()" in card
    assert "denied by DenyByName(['drop'])" in card
    assert "asked by DecideByHuman()" in card
    assert "user: ann" in card
    assert "FakeHuman" in card
    assert "<b>" not in Agent([], name="<b>x")._repr_html_()


@both_drivers
def test_checks_handlers_and_tools_know_the_run_they_work_for(driver: str) -> None:
    seen: dict[str, Any] = {}

    class Looks(DecidePermission):
        def __init__(self, blocking: bool) -> None:
            self.blocking = blocking

        def check(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
            seen[f"check {self.blocking}"] = get_run_context()
            return None

    def handler(call: ToolCall, user: str | None) -> bool:
        seen["handler"] = get_run_context()
        assert user == "ann"
        return True

    def act(n: int) -> None:
        seen["tool"] = get_run_context()

    agent = Agent([act], permissions=[Looks(True), Looks(False), DecideByHuman()], approval_handler=handler)
    run(driver, agent, calls("act"), user="ann", session="s", metadata={"task": 7})
    assert set(seen) == {"check True", "check False", "handler", "tool"}
    for context in seen.values():
        assert (context.run_id, context.user_id, context.session_id) == (agent.run_id, "ann", "s")
        assert (context.agent_path, context.metadata) == (("main",), {"task": 7})
    assert get_run_context() is None


@both_drivers
def test_blocking_checks_leave_the_event_loop_free_and_others_stay_on_it(driver: str) -> None:
    threads: dict[bool, int] = {}

    class Where(DecidePermission):
        def __init__(self, blocking: bool) -> None:
            self.blocking = blocking

        def check(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
            threads[self.blocking] = threading.get_ident()
            return None

    run(driver, Agent([Counter().tool], permissions=[Where(True), Where(False), AllowByDefault()]), calls("act"))
    here = threading.get_ident()
    assert threads[False] == here
    assert (threads[True] == here) == (driver == "sync")


@both_drivers
def test_a_subclass_of_a_built_in_with_its_own_check_is_taken_to_block(driver: str) -> None:
    threads: list[int] = []

    class Own(DenyByName):
        def check(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
            threads.append(threading.get_ident())
            return super().check(state, call, tool)

    class Quick(Own):
        blocking = False

    run(driver, Agent([Counter().tool], permissions=[Own(["x"]), Quick(["x"]), AllowByDefault()]), calls("act"))
    assert (threads[0] == threading.get_ident()) == (driver == "sync")
    assert threads[1] == threading.get_ident()


@both_drivers
def test_the_same_call_again_is_marked_as_run_before(driver: str) -> None:
    human = answering("allow", "allow")
    agent = Agent([Counter().tool], permissions=[DecideByHuman()], human=human)
    run(driver, agent, calls("act"))
    run(driver, agent, calls("act"))
    first, second = human.requests  # type: ignore[attr-defined]
    assert first.ran_before is None
    assert isinstance(second.ran_before, datetime)


def test_an_agent_that_is_gone_leaves_no_listener_on_the_desk() -> None:
    before = listeners()
    agent = Agent([Counter().tool], permissions=[AllowByDefault()])
    agent.use_tools(calls("act"))
    assert len(listeners() - before) == 1
    del agent
    assert listeners() <= before


def test_a_full_log_in_memory_forgets_whole_calls_and_says_so() -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[AllowByDefault()], audit=Log(MemoryStore(2)))
    outcome, noted = run_noting("sync", agent, calls(*["act"] * 5))
    assert isinstance(outcome, Turn)
    assert len(counter.ran) == 5
    assert list(agent.audit.calls()["position"]) == [3, 4]
    assert list(agent.audit.calls()["outcome"]) == ["ran", "ran"]
    assert repr(agent.audit) == "Log(MemoryStore(2 of at most 2 calls, 3 oldest dropped))"
    assert len(noted) == 1


def test_an_agent_may_be_collected_while_the_desk_is_locked() -> None:
    heard: list[Any] = []
    desk = Desk()
    unsubscribe = desk.subscribe(heard.append)
    with desk._lock:  # the garbage collector may run here, and call it
        unsubscribe()
    desk._tell(DeskChange("shown", "ask_1"))
    assert heard == []


def test_explain_asks_nobody_also_where_a_permission_is_only_async() -> None:
    class Later(DecidePermission):
        async def acheck(self, state: Any, call: ToolCall, tool: Any) -> Verdict | None:
            await anyio.lowlevel.checkpoint()
            return Denied("later") if call.name == "act" else None

    human = types.SimpleNamespace(ask=None, aask=None)
    human.ask = lambda *args: pytest.fail("a person was asked")
    agent = Agent([Counter().tool, Counter("other").tool], permissions=[Later(), DecideByHuman()], human=human)
    assert agent.explain("act", n=1).verdict == "denied"
    assert agent.explain(ToolCall("other", {"n": 1})).verdict == "asked"
    assert agent.explain({"name": "other", "args": {"n": "x"}}).verdict == "input_error"
    assert agent.explain("nope").verdict == "input_error"
    assert len(agent.audit) == 0


def test_two_states_of_one_id_in_one_log_share_no_key() -> None:
    counter = Counter()
    first = Agent([counter.tool], permissions=[AllowByDefault()])
    second = Agent([counter.tool], permissions=[AllowByDefault()], audit=first.audit)
    first.use_tools(State(id="mine", pending_calls=calls("act")))
    second.use_tools(State(id="mine", pending_calls=calls("act")))
    assert first.audit.calls().call_key.tolist() == ["mine/1/0", "mine/2/0"]


def test_what_a_cell_shows_of_a_call_and_its_result_masks_secrets() -> None:
    call = ToolCall("login", {"user": "ada", "password": "hunter2"}, "call_1")
    assert repr(call) == "ToolCall('login', {'user': 'ada', 'password': '[masked]'}, id='call_1')"
    turn = Agent([Counter("login").tool], permissions=[DenyByName(["login"])]).use_tools([call])
    assert repr(turn.results[0]) == "CallResult(login: denied by DenyByName(['login']), denied)"
    assert "hunter2" not in repr(turn.calls) + repr(turn.denied) + repr(turn)


def test_the_table_leaves_out_columns_that_say_nothing_and_counts_what_it_cuts() -> None:
    def big() -> str:
        return "x" * 5_000_000

    turn = Agent([big], permissions=[AllowByDefault()]).use_tools([ToolCall("big")])
    assert "… (4,999,940 more characters)" in repr(turn)
    assert "… (4,999,700 more characters)" in turn._repr_html_()
    for shown in (repr(turn), turn._repr_html_()):
        assert "answered by" not in shown
        assert "reason" not in shown
    denied = Agent([big], permissions=[DenyByName(["big"])]).use_tools([ToolCall("big")])
    assert "big is not allowed." in repr(denied)


def test_money_is_not_taken_for_a_formula() -> None:
    turn = Agent([Counter("pay").tool], permissions=[AllowByDefault()]).use_tools(calls("pay"))
    for shown in (turn._repr_html_(), Agent(permissions=[])._repr_html_(), Agent().explain("pay")._repr_html_()):
        assert shown.startswith('<div class="tex2jax_ignore mathjax_ignore"')


class TellingStore(MemoryStore):
    """Tells when a late result has been written."""

    def __init__(self) -> None:
        super().__init__()
        self.late = threading.Event()

    def append(self, events: Iterable[Event]) -> None:
        events = list(events)
        super().append(events)
        if any(event.kind == "late" for event in events):
            self.late.set()


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("fails", [False, True], ids=["returns", "raises"])
def test_what_finishes_after_its_turn_was_interrupted_is_kept(driver: str, fails: bool) -> None:
    started, go_on, store = threading.Event(), threading.Event(), TellingStore()

    def slow() -> str:
        started.set()
        assert go_on.wait(10)
        if fails:
            raise ToolError("too late, and wrong")
        return "too late"

    agent = Agent([slow], permissions=[AllowByDefault()], audit=Log(store))
    if driver == "sync":
        interrupting = threading.Thread(target=lambda: (started.wait(10), _thread.interrupt_main()))
        interrupting.start()
        with pytest.raises(KeyboardInterrupt):
            agent.use_tools([ToolCall("slow")])
        interrupting.join(10)
    else:

        async def interrupted() -> None:
            async with anyio.create_task_group() as group:

                async def cancel() -> None:
                    await anyio.to_thread.run_sync(started.wait, 10)
                    group.cancel_scope.cancel()

                group.start_soon(cancel)
                await agent.ause_tools([ToolCall("slow")])

        anyio.run(interrupted, backend=driver)
    row = agent.audit.calls().iloc[0]
    assert (row.verdict, row.outcome) == ("allowed", "lost")
    go_on.set()
    assert store.late.wait(10)
    row = agent.audit.calls().iloc[0]
    assert (row.verdict, row.outcome) == ("allowed", "failed" if fails else "ran")
    assert [event.kind for event in agent.audit.events(row.call_key)] == [
        "requested", "decided", "started", "lost", "late",
    ]  # fmt: skip
    first, late = agent.state.results
    assert (first.outcome.kind, first.late) == ("interrupted", False)
    assert (late.outcome.kind, late.content) == (("error", "too late, and wrong") if fails else ("done", "too late"))
    assert late.late
