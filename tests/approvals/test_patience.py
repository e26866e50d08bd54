"""Patience: what may be said of a time limit and of reminders, and which limit holds."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from requests_for_tests import request_of

from agentperm_nb import (
    DecideByHuman,
    HandlerApprover,
    Human,
    HumanApprover,
    NotebookHuman,
    Patience,
    PolicyHandlerApprover,
    TextApprover,
)
from agentperm_nb.approvals.approvers import as_approver
from agentperm_nb.approvals.patience import patience_of
from agentperm_nb.approvals.requests import Approver
from agentperm_nb.permissions.verdicts import Allowed, Verdict
from agentperm_nb.testing import FakeHuman, Recording


def tell(request: Any) -> None:
    pass


async def atell(request: Any) -> None:
    pass


class AsyncTell:
    async def __call__(self, request: Any) -> None:
        pass


class Careful:
    def handle(self, request: object) -> bool:
        return False


WAYS: dict[str, Callable[..., Any]] = {
    "Patience": Patience,
    "NotebookHuman": NotebookHuman,
    "TextApprover": TextApprover,
    "HandlerApprover": lambda **settings: HandlerApprover(lambda request: True, **settings),
    "PolicyHandlerApprover": lambda **settings: PolicyHandlerApprover(Careful(), **settings),
    "HumanApprover": lambda **settings: HumanApprover(FakeHuman([]), **settings),
}
every_way = pytest.mark.parametrize("make", WAYS.values(), ids=WAYS)


@every_way
def test_whoever_is_asked_takes_a_limit_and_reminders(make: Callable[..., Any]) -> None:
    made = make(timeout=300, reminders=[240, 60, 60], on_reminder=tell)
    patience = made if isinstance(made, Patience) else made.patience
    assert (patience.timeout, patience.moments, patience.on_reminder) == (300, (60, 240), tell)
    assert "timeout=300" in repr(made)


@every_way
@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"timeout": "60"}, TypeError),
        ({"timeout": True}, TypeError),
        ({"timeout": 0}, ValueError),
        ({"timeout": -1}, ValueError),
        ({"timeout": float("nan")}, ValueError),
        ({"reminders": "60"}, TypeError),
        ({"reminders": True}, TypeError),
        ({"reminders": ["60"]}, TypeError),
        ({"reminders": {"a": 1}.keys()}, TypeError),
        ({"reminders": [0]}, ValueError),
        ({"reminders": float("inf")}, ValueError),
        ({"reminders": float("nan")}, ValueError),
        ({"reminders": None}, TypeError),
        ({"timeout": 60, "reminders": 60}, ValueError),
        ({"timeout": 60, "reminders": [30, 61]}, ValueError),
        ({"reminders": 5, "on_reminder": "tell"}, TypeError),
        ({"reminders": 5, "on_reminder": print}, None),
        ({"reminders": 5, "on_reminder": lambda: None}, TypeError),
        ({"reminders": 5, "on_reminder": lambda request, more: None}, TypeError),
        ({"reminders": 5, "on_reminder": atell}, TypeError),
        ({"reminders": 5, "on_reminder": AsyncTell()}, TypeError),
        ({"reminders": 5, "on_reminder": dict}, TypeError),
        ({"on_reminder": tell}, ValueError),
        ({"timeout": float("inf")}, None),
        ({"timeout": None, "reminders": ()}, None),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_an_error_with_its_fix(
    make: Callable[..., Any], settings: dict[str, Any], error: type[Exception] | None
) -> None:
    if error is None:
        made = make(**settings)
        assert (made if isinstance(made, Patience) else made.patience).timeout is None
        return
    with pytest.raises(error, match="Fix: "):
        make(**settings)


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (HandlerApprover(tell), "HandlerApprover(tell)"),
        (HandlerApprover(tell, timeout=60), "HandlerApprover(tell, timeout=60)"),
        (PolicyHandlerApprover(Careful()), "PolicyHandlerApprover(Careful)"),
        (PolicyHandlerApprover(Careful(), timeout=60), "PolicyHandlerApprover(Careful, timeout=60)"),
        (HumanApprover(FakeHuman([]), timeout=0.5), "HumanApprover(FakeHuman, timeout=0.5)"),
        (TextApprover(), "TextApprover()"),
        (TextApprover(reminders=5), "TextApprover(reminders=[5])"),
        (NotebookHuman(prompt_after=2, timeout=60, reminders=[1, 2.5]),
         "NotebookHuman(prompt_after=2, timeout=60, reminders=[1, 2.5])"),
        (DecideByHuman(timeout=60), "DecideByHuman(timeout=60)"),
        (DecideByHuman(FakeHuman([]), timeout=1.5), "DecideByHuman(human=FakeHuman(0 asked), timeout=1.5)"),
    ],
    ids=str,
)  # fmt: skip
def test_a_limit_is_shown(made: object, shown: str) -> None:
    assert repr(made) == shown


def test_it_is_a_value() -> None:
    assert Patience(60, [30, 10]) == Patience(60, (10, 30))
    assert Patience(60, iter([30])).moments == (30,)
    assert pickle.loads(pickle.dumps(Patience(60, 10))) == Patience(60, 10)


# Which limit holds ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "rule", "holds"),
    [(60, 10, 10), (10, 60, 10), (60, 60, 60), (None, 10, 10), (10, None, 10), (None, None, None)],
    ids=str,
)
def test_of_the_limits_of_the_approver_and_of_the_rule_the_shorter_one_holds(
    own: float | None, rule: float | None, holds: float | None
) -> None:
    patience = patience_of(HandlerApprover(tell, timeout=own), DecideByHuman(timeout=rule))
    assert (None if patience is None else patience.timeout) == holds


def test_a_reminder_that_would_come_after_the_shorter_limit_does_not_come() -> None:
    approver = HandlerApprover(tell, timeout=60, reminders=[5, 30], on_reminder=tell)
    patience = patience_of(approver, DecideByHuman(timeout=10))
    assert patience == Patience(10, [5], tell)
    assert patience_of(approver, DecideByHuman(timeout=5)) == Patience(5)


def test_a_recording_of_a_rule_has_its_limit() -> None:
    assert patience_of(HandlerApprover(tell), Recording(DecideByHuman(timeout=10))) == Patience(10)


@pytest.mark.parametrize("timeout", ["soon", True, 0, -5, float("nan"), None], ids=str)
def test_what_is_no_limit_is_none_and_ends_no_turn(timeout: object) -> None:
    rule = DecideByHuman()
    rule.timeout = timeout  # type: ignore[assignment]  # that is the point
    assert patience_of(HandlerApprover(tell), rule) is None


def test_a_timeout_of_a_permission_that_asks_nobody_is_its_own_business() -> None:
    class Slow:
        timeout = 5

    assert patience_of(HandlerApprover(tell), Slow()) is None


@pytest.mark.parametrize("timeout", ["60", True, 0, -1], ids=str)
def test_a_wrong_limit_of_a_rule_is_an_error_with_its_fix(timeout: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="Fix: "):
        DecideByHuman(timeout=timeout)


def test_a_subclass_that_asks_by_itself_takes_no_limit_that_would_not_hold() -> None:
    class Careful(DecideByHuman):
        def check(self, state: Any, call: Any, tool: Any) -> Verdict | None:
            return Allowed()

    class Named(DecideByHuman):
        def question(self, call: Any, tool: Any) -> str:
            return "Really?"

    assert Named(timeout=5).timeout == 5
    with pytest.raises(TypeError, match="Careful asks by itself"):
        Careful(timeout=5)


def test_an_approver_of_ones_own_may_have_patience_and_nothing_else_in_its_place() -> None:
    class Own:
        batch = True
        answered_by = "human"
        patience: Any = Patience(5)

        def areview(self, requests: Iterable[Any]) -> Any:
            return None

    approver = as_approver(Own())
    assert isinstance(approver, Approver)
    assert patience_of(approver) == Patience(5)
    Own.patience = 5
    with pytest.raises(TypeError, match="is not a Patience"):
        as_approver(Own())


# What a request knows of it -------------------------------------------------------------------------------------------


def test_a_request_knows_when_it_expires() -> None:
    request = request_of({}, patience=Patience(60))
    assert request.expires_at == request.asked_at + timedelta(seconds=60)
    assert request_of({}).expires_at is None
    assert request_of({}, patience=Patience(reminders=5)).expires_at is None
    assert request_of({}, patience=Patience(60), in_turn=True).expires_at is None


def test_a_limit_beyond_the_calendar_has_no_date() -> None:
    assert Patience(1e15).expires_at(datetime.now(UTC)) is None


def test_a_human_of_ones_own_is_asked_without_a_limit_unless_one_is_given() -> None:
    class Slow(Human):
        timeout = 5

        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            return "yes"

    assert patience_of(as_approver(Slow())) is None
