"""No interleaving of many questions, answers, edits, expiries and cancellations runs a call that was not allowed.

A machine starts turns, answers their requests in any order, twice, late and with edits, lets them expire, cancels turns
and changes the rules meanwhile. It keeps its own account of what may run, and holds the agent to it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agentperm_nb import (
    Agent,
    ApprovalDecision,
    ApprovalRequest,
    Denied,
    DenyPermission,
    PermissionPolicy,
    PermissionResult,
    PermissionRule,
    StandardPermissions,
    ToolCall,
    ToolOutcomeKind,
    Turn,
    tool,
)
from agentperm_nb.approvals.desk import Answer, the_desk

NUMBERS = range(10)
BY_POLICY, BY_MODE = 3, "forbidden"  # never run: a policy denies the number, the mode the tool
AT_ONCE = 50


class DenyNumbers(DenyPermission):
    """Denies the numbers of a set that changes."""

    blocking = False

    def __init__(self) -> None:
        self.numbers: set[int] = set()

    def check(self, state: Any, call: Any, tool: Any) -> Denied | None:
        return Denied("not this number") if call.args["n"] in self.numbers else None


class ByHand:
    """An approver whose answers come over the desk."""

    batch, answered_by = True, "human"

    async def areview(self, requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, ApprovalDecision]]:
        await asyncio.Event().wait()
        yield "", ApprovalDecision("deny")


@dataclass
class Asked:
    """What the machine knows of a call."""

    turn: int
    n: int
    fate: str = "waits"
    """``waits``, ``allow``, ``deny``, ``expired``, ``cancelled``."""
    runs_with: int | None = None


@dataclass
class InHand:
    """What the machine knows of a turn."""

    task: asyncio.Task[Turn]
    calls: list[int]
    over: bool = False
    """Whether it was stopped or cancelled."""
    requests: dict[str, int] = field(default_factory=dict)


class Approvals(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.deny = DenyNumbers()
        self.denied_before: set[int] = set()
        self.ran: list[tuple[int, int]] = []
        self.wrong: list[str] = []
        self.asked: dict[int, Asked] = {}
        self.turns: list[InHand] = []

        @tool(destructive=True)
        async def act(id: int, n: int) -> str:
            """Act."""
            return self.run_tool(id, n)

        @tool(destructive=True)
        async def forbidden(id: int, n: int) -> str:
            """Act as well, but for the mode."""
            self.wrong.append("a tool ran that the mode denies")
            return ""

        policy = PermissionPolicy(
            [PermissionRule("not three", lambda tool, args: args["n"] == BY_POLICY, PermissionResult.DENY, "no")],
            fallback=None,
        )
        self.agent = Agent(
            [act, forbidden],
            permissions=[self.deny, policy, StandardPermissions(denied_tools=[BY_MODE])],
            human=ByHand(),
        )

    def run_tool(self, id: int, n: int) -> str:
        self.ran.append((id, n))
        known = self.asked[id]
        if known.fate != "allow" or known.runs_with != n:
            self.wrong.append(f"{id} ran with {n}, and it was to be {known.fate} with {known.runs_with}")
        if self.turns[known.turn].over:
            self.wrong.append(f"{id} ran after its turn was over")
        if any(self.asked[other].fate == "waits" for other in self.turns[known.turn].calls):
            self.wrong.append(f"{id} ran before all of its turn were answered")
        if n == BY_POLICY or n in self.denied_before & self.deny.numbers:
            self.wrong.append(f"{id} ran with {n}, which was denied")
        return f"acted {n}"

    def settle(self) -> None:
        """Let the turns do what they can do at once."""

        async def rounds() -> None:
            for _ in range(25):
                await asyncio.sleep(0)

        self.loop.run_until_complete(rounds())
        self.denied_before = set(self.deny.numbers)

    def open_requests(self) -> list[tuple[str, int]]:
        return [
            (id, call) for turn in self.turns for id, call in turn.requests.items() if self.asked[call].fate == "waits"
        ]

    # ------------------------------------------------------------------ what may happen

    @rule(numbers=st.lists(st.sampled_from(NUMBERS), min_size=1, max_size=25))
    def start(self, numbers: list[int]) -> None:
        if len(self.open_requests()) + len(numbers) > AT_ONCE:
            return
        place, first = len(self.turns), len(self.asked)
        calls = list(range(first, first + len(numbers)))
        for id, n in zip(calls, numbers, strict=True):
            ruled_out = n == BY_POLICY or n in self.deny.numbers
            self.asked[id] = Asked(place, n, "deny" if ruled_out else "waits")

        async def turn() -> Turn:
            return await self.agent.ause_tools(
                [ToolCall("act", {"id": id, "n": self.asked[id].n}, str(id)) for id in calls]
                + [ToolCall(BY_MODE, {"id": -1, "n": 1}, "x")]
            )

        self.turns.append(InHand(self.loop.create_task(turn()), calls))
        self.settle()
        self.turns[place].requests = {
            request.id: request.call.args["id"] for request in self.agent.pending() if request.call.args["id"] in calls
        }
        waiting = {id for id in calls if self.asked[id].fate == "waits"}
        assert set(self.turns[place].requests.values()) == waiting

    @precondition(lambda self: self.open_requests())
    @rule(data=st.data(), action=st.sampled_from(["allow", "allow", "allow", "deny", "stop", "edit", "expire"]))
    def answer(self, data: Any, action: str) -> None:
        request_id, id = data.draw(st.sampled_from(self.open_requests()))
        known = self.asked[id]
        if action == "expire":
            assert the_desk.expire(request_id, "nobody came")
            known.fate = "expired"
        else:
            n = data.draw(st.sampled_from(NUMBERS)) if action == "edit" else known.n
            assert the_desk.answer(request_id, Answer(self.decision(action, id, n)))
            lets = action in ("allow", "edit") and not (action == "edit" and n != known.n and self.denies(n))
            known.fate, known.runs_with = ("allow", n) if lets else ("deny", None)
            if action == "stop":
                self.turns[known.turn].over = True
                for other in self.turns[known.turn].calls:
                    if self.asked[other].fate in ("waits", "allow") and other not in {ran for ran, _ in self.ran}:
                        self.asked[other].fate = "cancelled"
                known.fate = "deny"
        self.answer_again(data, request_id)
        self.settle()

    def answer_again(self, data: Any, request_id: str) -> None:
        for again in data.draw(st.lists(st.sampled_from(["allow", "deny", "expire", "withdraw"]), max_size=2)):
            if again == "expire":
                assert not the_desk.expire(request_id, "again")
            elif again == "withdraw":
                assert not the_desk.withdraw(request_id, "again")
            else:
                assert not the_desk.answer(request_id, Answer(ApprovalDecision(again)))

    def denies(self, n: int) -> bool:
        return n == BY_POLICY or n in self.deny.numbers

    @staticmethod
    def decision(action: str, id: int, n: int) -> ApprovalDecision:
        if action == "edit":
            return ApprovalDecision("edit", edited_args={"id": id, "n": n})
        return ApprovalDecision("deny", stop=True) if action == "stop" else ApprovalDecision(action)  # type: ignore[arg-type]

    @precondition(lambda self: any(not turn.task.done() for turn in self.turns))
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        turn = data.draw(st.sampled_from([turn for turn in self.turns if not turn.task.done()]))
        turn.task.cancel()
        turn.over = True
        self.settle()
        for id in turn.calls:
            if self.asked[id].fate == "waits":
                self.asked[id].fate = "cancelled"

    @rule(n=st.sampled_from(NUMBERS))
    def deny_a_number(self, n: int) -> None:
        self.deny.numbers.add(n)

    @rule(n=st.sampled_from(NUMBERS))
    def deny_it_no_more(self, n: int) -> None:
        self.deny.numbers.discard(n)

    @rule(seconds=st.sampled_from([0.0, 0.02, 0.3]))
    def wait(self, seconds: float) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))
        self.settle()

    # ------------------------------------------------------------------ what holds

    @invariant()
    def nothing_ran_that_may_not(self) -> None:
        assert getattr(self, "wrong", []) == []

    @invariant()
    def nothing_ran_twice(self) -> None:
        assert [id for id, count in Counter(id for id, _ in getattr(self, "ran", [])).items() if count > 1] == []

    async def ends(self) -> list[Turn | BaseException]:
        tasks = [turn.task for turn in self.turns]
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 20)

    def teardown(self) -> None:
        if not hasattr(self, "loop"):
            return
        try:
            for request_id, id in self.open_requests():
                the_desk.answer(request_id, Answer(ApprovalDecision("deny")))
                self.asked[id].fate = "deny"
            ends = self.loop.run_until_complete(self.ends())
            assert self.wrong == []
            for turn, end in zip(self.turns, ends, strict=True):
                if isinstance(end, BaseException):
                    assert isinstance(end, asyncio.CancelledError)
                    assert turn.over
                    continue
                for id, result in zip(turn.calls, end.results[:-1], strict=True):
                    ran = id in {one for one, _ in self.ran}
                    assert (result.outcome.kind is ToolOutcomeKind.DONE) is ran
                    if self.asked[id].fate in ("deny", "expired"):
                        assert result.verdict == "denied"
                    if self.asked[id].fate == "expired":
                        assert result.answered_by == "timeout"
                assert end.results[-1].verdict in ("denied", "cancelled")
            assert self.agent.pending() == ()
            frame = self.agent.audit.calls()
            ran_rows = frame[(frame["tool"] == "act") & frame["started"].notna()]
            assert len(ran_rows) == len(self.ran)
            assert set(ran_rows["verdict"]) <= {"allowed"}
        finally:
            self.loop.close()


Approvals.TestCase.settings = settings(
    max_examples=30, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.law
class TestApprovals(Approvals.TestCase):  # type: ignore[misc, name-defined]
    pass
