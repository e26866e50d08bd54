"""on_change tells of questions, answers, denials and calls that may run, after they are recorded."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByName,
    ApprovalDecision,
    ChangeEvent,
    ChangeEventType,
    DecideByHuman,
    DenyByName,
    tool,
)
from agentperm_nb.testing import FakeHuman, tool_call

ASKED, ANSWERED = ChangeEventType.PERMISSION_ASKED, ChangeEventType.PERMISSION_ANSWERED
ALLOWED, DENIED = ChangeEventType.PERMISSION_ALLOWED, ChangeEventType.PERMISSION_DENIED


def act(n: int = 0, password: str = "") -> str:
    """Act."""
    return f"acted {n}"


def told(agent: Agent, *calls: Any) -> list[ChangeEvent]:
    changes: list[ChangeEvent] = []
    end = agent.on_change(changes.append)
    agent.use_tools(list(calls))
    end()
    return changes


def test_a_call_that_a_rule_allows_is_told_once() -> None:
    (change,) = told(Agent([act], permissions=[AllowByName(["act"])]), tool_call("act", n=3))
    assert (change.event_type, change.tool_name, change.reason) == (ALLOWED, "act", "")
    assert change.metadata["rule_name"] == "AllowByName(['act'])"
    assert change.metadata["parameters"] == {"n": 3}


def test_a_call_that_a_rule_denies_is_told_once_with_its_reason() -> None:
    agent = Agent([act], permissions=[DenyByName(["act"], reason="not today"), AllowByDefault()])
    (change,) = told(agent, tool_call("act"))
    assert (change.event_type, change.reason) == (DENIED, "not today")


@pytest.mark.parametrize(("answer", "end"), [("yes", ALLOWED), ("no", DENIED)])
def test_a_question_is_told_with_its_answer_and_what_came_of_it(answer: str, end: ChangeEventType) -> None:
    agent = Agent([act], permissions=[DecideByHuman()], human=FakeHuman([answer]))
    changes = told(agent, tool_call("act"))
    assert [change.event_type for change in changes] == [ASKED, ANSWERED, end]
    assert changes[1].metadata["answered_by"] == "human"
    assert {change.metadata[key] for change in changes for key in ("rule_name", "decided_by")} == {"DecideByHuman()"}


def test_an_answer_of_a_handler_says_what_was_chosen() -> None:
    agent = Agent([act], permissions=[DecideByHuman()], approval_handler=lambda request: ApprovalDecision("deny"))
    changes = told(agent, tool_call("act"))
    assert (changes[1].metadata["answered_by"], changes[1].metadata["answer"]) == ("handler", "deny")
    assert changes[-1].event_type is DENIED


def test_it_is_told_after_it_was_recorded() -> None:
    agent = Agent([act], permissions=[AllowByDefault()])
    recorded: list[list[str]] = []
    agent.on_change(lambda change: recorded.append([e.kind for e in agent.audit.events(change.metadata["call_key"])]))
    agent.use_tools([tool_call("act")])
    assert "decided" in recorded[0]


def test_secrets_are_masked_and_the_parameters_are_a_copy() -> None:
    ran: list[int] = []

    @tool
    def pay(n: int, password: str) -> str:
        """Pay."""
        ran.append(n)
        return "paid"

    agent = Agent([pay], permissions=[AllowByDefault()])

    def meddle(change: ChangeEvent) -> None:
        assert change.metadata["parameters"]["password"] == "[masked]"
        change.metadata["parameters"]["n"] = 1_000

    agent.on_change(meddle)
    agent.use_tools([tool_call("pay", n=1, password="hunter22")])
    assert ran == [1]


def test_a_callback_that_raises_is_reported_and_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    agent, seen = Agent([act], permissions=[AllowByDefault()]), []

    def fail(change: ChangeEvent) -> None:
        raise ValueError("no")

    agent.on_change(fail)
    agent.on_change(seen.append)
    with caplog.at_level(logging.ERROR, logger="agentperm_nb"):
        turn = agent.use_tools([tool_call("act")])
    assert turn.results[0].content == "acted 0"
    assert len(seen) == 1
    assert "a callback of on_change raised at permission_allowed" in caplog.text


def test_what_a_callback_returns_allows_nothing() -> None:
    agent = Agent([act], permissions=[DenyByName(["act"])])
    agent.on_change(lambda change: True)
    assert agent.use_tools([tool_call("act")]).results[0].verdict == "denied"


def test_a_call_that_does_not_fit_its_tool_is_no_denial() -> None:
    assert told(Agent([act], permissions=[AllowByDefault()]), tool_call("act", n="three"), tool_call("unknown")) == []


def test_who_has_unsubscribed_is_told_no_more() -> None:
    agent, seen = Agent([act], permissions=[AllowByDefault()]), []
    end = agent.on_change(seen.append)
    end()
    end()
    agent.use_tools([tool_call("act")])
    assert seen == []


def test_what_cannot_be_called_is_an_error() -> None:
    with pytest.raises(TypeError, match="on_change takes a function"):
        Agent([act]).on_change("print")  # type: ignore[arg-type]
