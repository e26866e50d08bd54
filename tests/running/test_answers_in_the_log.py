"""The log's `answer` is what somebody chose: where nobody did, it is missing, and the call was denied all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from turns import DRIVERS, Counter, Scripted, run_noting

from agentperm_nb import Agent, ApprovalDecision, DecideByHuman, Scope, ToolCall, ToolError, Turn
from agentperm_nb.approvals.approvers import NobodyApprover

both_drivers = pytest.mark.parametrize("driver", DRIVERS)
FAILED = "Asking for approval failed, so this call was not run."
NOT_VALID = "The approver gave no valid answer, so this call was not run."
KEY = "sk-ant-api03-" + "a1B2c3D4" * 5


class Raising(Scripted):
    """An approver that raises."""

    def __init__(self, error: Exception) -> None:
        async def review(requests: Any) -> Any:
            raise error
            yield

        super().__init__(review)


class Saying(Scripted):
    """An approver that answers every request alike, or not at all."""

    def __init__(self, *answers: Any) -> None:
        async def review(requests: Any) -> Any:
            for request in requests:
                for answer in answers:
                    yield request.id, answer

        super().__init__(review)


def raising(error: Exception) -> Callable[[Any], Any]:
    def handler(request: Any) -> Any:
        raise error

    return handler


def araising(error: Exception) -> Callable[[Any], Any]:
    async def handler(request: Any) -> Any:
        raise error

    return handler


def row_of(driver: str, **who: Any) -> pd.Series[Any]:
    """Return the row of a call that is left to somebody, and was denied."""
    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], **who)
    turn, _ = run_noting(driver, agent, [ToolCall("act", {"n": 1}, "id1")])
    assert isinstance(turn, Turn)
    assert turn.results[0].outcome.kind.value == "denied"
    assert counter.ran == []
    assert agent.state.results[0].answered_by == agent.audit.calls().iloc[0]["answered_by"]
    return agent.audit.calls().iloc[0]


NOBODY_ANSWERED: dict[str, tuple[Callable[[], dict[str, Any]], str, str | None, str]] = {
    "nobody here": (lambda: {"human": NobodyApprover("Nobody is here.")}, "nobody", None, "Nobody is here."),
    "an approver that ends": (lambda: {"human": Saying()}, "nobody", None, "Nobody answered, so this call was not run"),
    "an approver that raises": (
        lambda: {"human": Raising(ValueError("no line"))}, "human", "ValueError: no line", FAILED,
    ),
    "an approver with a wrong answer": (lambda: {"human": Saying("perhaps")}, "human", None, NOT_VALID),
    "a handler that raises": (
        lambda: {"approval_handler": raising(OSError("no line"))}, "handler", "OSError: no line", FAILED,
    ),
    "an async handler that raises": (
        lambda: {"approval_handler": araising(OSError("no line"))}, "handler", "OSError: no line", FAILED,
    ),
    "a handler with a ToolError": (
        lambda: {"approval_handler": raising(ToolError("ask tomorrow"))}, "handler", "ToolError: ask tomorrow",
        "ask tomorrow",
    ),
    "a handler with a wrong answer": (
        lambda: {"approval_handler": lambda request: "perhaps"}, "handler", None, NOT_VALID,
    ),
}  # fmt: skip


@both_drivers
@pytest.mark.parametrize(("who", "by", "error", "reason"), NOBODY_ANSWERED.values(), ids=NOBODY_ANSWERED)
def test_where_nobody_chose_the_answer_is_missing_and_the_reason_stays(
    who: Callable[[], dict[str, Any]], by: str, error: str | None, reason: str, driver: str
) -> None:
    row = row_of(driver, **who())
    assert pd.isna(row["answer"])
    assert pd.isna(row["approver"])
    assert row["answered_by"] == by
    assert row["reason"].startswith(reason)
    assert (None if pd.isna(row["error"]) else row["error"]) == error


SAID: dict[str, Any] = {
    "False": False,
    "deny": ApprovalDecision("deny", reason="not now"),
    "remember_deny": ApprovalDecision("remember_deny", scope=Scope()),
}


@both_drivers
@pytest.mark.parametrize("said", SAID)
@pytest.mark.parametrize("who", ["human", "handler"])
def test_what_somebody_chose_is_the_answer(who: str, said: str, driver: str) -> None:
    given = {"human": Saying(SAID[said])} if who == "human" else {"approval_handler": lambda request: SAID[said]}
    row = row_of(driver, **given)
    assert row["answer"] == ("deny" if said == "False" else said)
    assert row["answered_by"] == who
    assert pd.isna(row["error"])


@both_drivers
def test_the_error_of_a_handler_is_masked_in_the_log(driver: str) -> None:
    row = row_of(driver, approval_handler=raising(ValueError(f"the key {KEY} was refused")))
    assert row["error"].startswith("ValueError: the key ")
    assert KEY not in row["error"]


@both_drivers
def test_an_approver_that_failed_is_no_exchange_with_a_person(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Raising(ValueError("no line")))
    run_noting(driver, agent, [ToolCall("act", {"n": 1}, "id1")])
    assert [entry.kind for entry in agent.state.history if entry.kind == "exchange"] == []


@both_drivers
def test_a_later_good_answer_is_not_taken_for_a_failed_one(driver: str) -> None:
    failing = [ValueError("no line")]

    def handler(request: Any) -> bool:
        if failing:
            raise failing.pop()
        return True

    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], approval_handler=handler)
    for n in range(2):
        run_noting(driver, agent, [ToolCall("act", {"n": n}, "id1")])
    rows = agent.audit.calls()
    assert rows["answer"].tolist()[1] == "allow"
    assert rows["error"].isna().tolist() == [False, True]
    assert rows["outcome"].tolist() == ["not_run", "ran"]
