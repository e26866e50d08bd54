"""The desk: one answer counts, whoever gives it and from whichever thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from requests_for_tests import request_of

from agentperm_nb.approvals.decisions import ApprovalDecision
from agentperm_nb.approvals.desk import Answer, Desk, DeskChange, the_desk

ALLOW = Answer(ApprovalDecision("allow"), via="panel")
DENY = Answer(ApprovalDecision("deny", reason="no"), via="prompt")


def request(id: str = "request_1") -> Any:
    return request_of({"a": 1}, id=id)


def desk_with(*ids: str) -> tuple[Desk, list[DeskChange]]:
    desk, changes = Desk(), []
    desk.subscribe(changes.append)
    desk.open([request(id) for id in ids])
    return desk, changes


def at_the_same_time(*work: Callable[[], Any]) -> list[Any]:
    barrier, results = threading.Barrier(len(work)), [None] * len(work)

    def one(place: int, function: Callable[[], Any]) -> None:
        barrier.wait()
        results[place] = function()

    threads = [threading.Thread(target=one, args=item) for item in enumerate(work)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_requests_wait_in_the_order_in_which_they_came() -> None:
    desk, changes = desk_with("a", "b")
    desk.open([request("c")])
    assert [waiting.id for waiting in desk.pending()] == ["a", "b", "c"]
    assert repr(desk) == "Desk(3 waiting)"
    assert [(change.kind, change.request_id) for change in changes] == [
        ("opened", "a"),
        ("opened", "b"),
        ("opened", "c"),
    ]
    assert desk.is_open("b")
    assert not desk.is_open("x")


def test_the_first_answer_counts_and_the_second_is_late() -> None:
    desk, changes = desk_with("a")
    assert desk.answer("a", DENY) is True
    assert desk.answer("a", ALLOW) is False
    assert desk.pending() == ()
    assert changes[1:] == [
        DeskChange("answered", "a", DENY),
        DeskChange("late", "a", ALLOW, "the request was answered before"),
    ]


@pytest.mark.parametrize("leave", ["withdraw", "expire"])
def test_an_answer_to_what_no_longer_waits_is_late(leave: str) -> None:
    desk, changes = desk_with("a", "b")
    kind = {"withdraw": "withdrawn", "expire": "expired"}[leave]
    assert getattr(desk, leave)("a", "the cell was interrupted") is True
    assert getattr(desk, leave)("a", "again") is False
    assert desk.answer("a", ALLOW) is False
    assert [(change.kind, change.detail) for change in changes[2:]] == [
        (kind, "the cell was interrupted"),
        ("late", f"the request was {kind} before"),
    ]
    assert [waiting.id for waiting in desk.pending()] == ["b"]


def test_nothing_can_be_taken_back_once_it_is_answered() -> None:
    desk, changes = desk_with("a")
    desk.answer("a", ALLOW)
    assert desk.withdraw("a", "too late") is False
    assert desk.expire("a", "too late") is False
    assert [change.kind for change in changes] == ["opened", "answered"]


def test_an_answer_to_a_request_that_never_was_changes_and_reports_nothing() -> None:
    desk, changes = desk_with("a")
    assert desk.answer("forged", ALLOW) is False
    assert len(changes) == 1
    assert desk.is_open("a")


def test_an_answer_that_did_not_count_is_reported_and_the_request_still_waits() -> None:
    desk, changes = desk_with("a")
    desk.refuse("a", ALLOW, "clicked too soon")
    assert changes[-1] == DeskChange("late", "a", ALLOW, "clicked too soon")
    assert desk.is_open("a")
    assert desk.answer("a", DENY) is True


def test_what_was_shown_is_reported_while_it_waits() -> None:
    desk, changes = desk_with("a")
    desk.shown("a", "panel")
    desk.answer("a", ALLOW)
    desk.shown("a", "prompt")
    assert [(change.kind, change.detail) for change in changes] == [
        ("opened", ""),
        ("shown", "panel"),
        ("answered", ""),
    ]


@pytest.mark.parametrize("ids", [("a",), ("b", "a"), ("x",), ("c", "c")], ids=str)
def test_an_id_is_used_once_and_a_refused_batch_leaves_nothing_behind(ids: tuple[str, ...]) -> None:
    desk, changes = desk_with("a", "x")
    desk.answer("x", ALLOW)
    before = len(changes)
    with pytest.raises(ValueError, match="has been at the desk already"):
        desk.open([request(id) for id in ids])
    assert [waiting.id for waiting in desk.pending()] == ["a"]
    assert len(changes) == before


def test_of_many_threads_that_answer_exactly_one_wins() -> None:
    for round_ in range(30):
        desk, changes = desk_with("a")
        answers = [Answer(ApprovalDecision("allow" if n % 2 else "deny"), approver=str(n)) for n in range(16)]
        won = at_the_same_time(*[lambda given=given, desk=desk: desk.answer("a", given) for given in answers])
        assert won.count(True) == 1, round_
        [counted] = [change for change in changes if change.kind == "answered"]
        assert counted.answer is answers[won.index(True)]
        late = [change.answer for change in changes if change.kind == "late"]
        assert len(late) == 15
        assert counted.answer not in [given for given in late if given is counted.answer]


def test_of_an_answer_a_withdrawal_and_a_timeout_exactly_one_wins() -> None:
    for _ in range(50):
        desk, changes = desk_with("a")
        done = at_the_same_time(
            lambda desk=desk: desk.answer("a", ALLOW),
            lambda desk=desk: desk.withdraw("a", "interrupted"),
            lambda desk=desk: desk.expire("a", "nobody came"),
        )
        assert done.count(True) == 1
        ends = [change.kind for change in changes if change.kind in ("answered", "withdrawn", "expired")]
        assert ends == [("answered", "withdrawn", "expired")[done.index(True)]]


def test_many_threads_may_open_answer_and_look_at_once() -> None:
    desk, changes = desk_with()

    def work(n: int) -> bool:
        ids = [f"{n}-{i}" for i in range(20)]
        desk.open([request(id) for id in ids])
        desk.pending()
        return all(desk.answer(id, ALLOW) for id in ids)

    assert all(at_the_same_time(*[lambda n=n: work(n) for n in range(8)]))
    assert desk.pending() == ()
    assert len([change for change in changes if change.kind == "answered"]) == 160


def test_a_listener_that_raises_is_reported_and_disturbs_nobody(caplog: pytest.LogCaptureFixture) -> None:
    desk = Desk()
    seen: list[str] = []

    def broken(change: DeskChange) -> None:
        raise RuntimeError("listener broke")

    desk.subscribe(broken)
    desk.subscribe(lambda change: seen.append(change.kind))
    with caplog.at_level(logging.ERROR, logger="agentperm_nb"):
        desk.open([request()])
        assert desk.answer("request_1", ALLOW) is True
    assert seen == ["opened", "answered"]
    assert [record.getMessage() for record in caplog.records] == [
        "a listener of the desk raised at opened",
        "a listener of the desk raised at answered",
    ]


def test_listeners_are_called_on_the_thread_of_the_change_and_may_use_the_desk() -> None:
    desk = Desk()
    seen: list[tuple[str, Any, tuple[Any, ...]]] = []

    def listen(change: DeskChange) -> None:
        seen.append((change.kind, threading.current_thread(), desk.pending()))
        if change.kind == "opened":
            desk.answer(change.request_id, DENY)

    desk.subscribe(listen)
    thread = threading.Thread(target=lambda: desk.open([request()]))
    thread.start()
    thread.join()
    assert [(kind, on, len(waiting)) for kind, on, waiting in seen] == [("opened", thread, 1), ("answered", thread, 0)]


def test_a_listener_hears_nothing_after_it_has_left() -> None:
    desk = Desk()
    seen: list[str] = []
    leave = desk.subscribe(lambda change: seen.append(change.request_id))
    also = desk.subscribe(lambda change: seen.append(f"also {change.request_id}"))
    desk.open([request("a")])
    leave()
    leave()
    desk.open([request("b")])
    also()
    desk.open([request("c")])
    assert seen == ["a", "also a", "also b"]


def test_an_answer_knows_when_it_was_given() -> None:
    assert ALLOW.time.utcoffset() == timedelta(0)
    assert (ALLOW.answered_by, ALLOW.approver, ALLOW.via) == ("human", None, "panel")


def test_there_is_one_desk_a_process() -> None:
    from agentperm_nb.approvals import desk

    assert desk.the_desk is the_desk
    assert isinstance(the_desk, Desk)
