"""The desk: one answer counts, whoever gives it and from whichever thread."""

from __future__ import annotations

import gc
import logging
import queue
import threading
import time
import types
import weakref
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from requests_for_tests import request_of

from agentperm_nb.approvals import alarms
from agentperm_nb.approvals.decisions import ApprovalDecision
from agentperm_nb.approvals.desk import Answer, Desk, DeskChange, the_desk
from agentperm_nb.approvals.patience import Patience

ALLOW = Answer(ApprovalDecision("allow"), via="panel")
DENY = Answer(ApprovalDecision("deny", reason="no"), via="prompt")


def request(id: str = "request_1", patience: Patience | None = None, *, in_turn: bool = False) -> Any:
    return request_of({"a": 1}, id=id, patience=patience, in_turn=in_turn)


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


# Time -----------------------------------------------------------------------------------------------------------------

ENDS = ("answered", "withdrawn", "expired")


class Listening:
    """Keeps the changes of a desk, and waits for them."""

    def __init__(self, desk: Desk) -> None:
        self.changes: list[DeskChange] = []
        self._changed = threading.Condition()
        desk.subscribe(self._listen)

    def _listen(self, change: DeskChange) -> None:
        with self._changed:
            self.changes.append(change)
            self._changed.notify_all()

    def told(self, kind: str) -> list[str]:
        return [change.request_id for change in self.changes if change.kind == kind]

    def wait(self, kind: str, count: int = 1) -> list[str]:
        """Return the requests of which that was told, as soon as there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.told(kind)) >= count, 10), self.changes
        return self.told(kind)


def alarm_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "agentperm-alarms"]


@pytest.fixture
def no_thread_left() -> Any:
    """Check that what was begun to keep the time has ended."""
    before = alarm_threads()
    yield
    for thread in alarm_threads():
        if thread not in before:
            thread.join(5)
            assert not thread.is_alive()


timed = pytest.mark.usefixtures("no_thread_left")


@timed
def test_a_request_that_nobody_answers_in_time_expires() -> None:
    desk = Desk()
    listening = Listening(desk)
    desk.open([request("a", Patience(0.05)), request("b")])
    listening.wait("expired")
    assert listening.changes[-1] == DeskChange("expired", "a", None, "nobody answered within 0.05 s")
    assert [waiting.id for waiting in desk.pending()] == ["b"]
    assert (desk.expired("a"), desk.expired("b"), desk.expired("x")) == (True, False, False)
    assert desk.answer("a", ALLOW) is False
    assert listening.changes[-1] == DeskChange("late", "a", ALLOW, "the request was expired before")


@timed
@pytest.mark.parametrize("leave", ["answer", "withdraw", "expire"])
def test_a_request_that_has_left_is_timed_no_more(leave: str) -> None:
    desk = Desk()
    listening = Listening(desk)
    patience = Patience(0.2, [0.1])
    desk.open([request("a", patience), request("b", Patience(0.25))])
    getattr(desk, leave)("a", ALLOW if leave == "answer" else "it was cancelled")
    listening.wait("expired", 2 if leave == "expire" else 1)
    assert [change.kind for change in listening.changes if change.request_id == "a"][:2] == [
        "opened",
        {"answer": "answered", "withdraw": "withdrawn", "expire": "expired"}[leave],
    ]
    assert len([change for change in listening.changes if change.request_id == "a"]) == 2
    assert desk._limits == {}
    assert desk._timed == set()


@timed
def test_many_requests_expire_each_in_its_own_time() -> None:
    desk = Desk()
    listening = Listening(desk)
    requests = [request(f"{number}", Patience(0.02 + (number * 37 % 100) / 400)) for number in range(100)]
    desk.open(requests)
    listening.wait("expired", 100)
    assert listening.told("expired") == [one.id for one in sorted(requests, key=lambda one: one.expires_at)]


@timed
def test_where_nothing_has_a_limit_there_is_no_thread() -> None:
    before = alarm_threads()
    desk = Desk()
    desk.open([request("a")])
    desk.answer("a", ALLOW)
    assert alarm_threads() == before


@timed
def test_of_an_answer_and_the_end_of_the_time_exactly_one_counts() -> None:
    """200 times, an answer on each of two threads at the very moment at which the time is over."""
    counted = {"answered": 0, "expired": 0}
    for number in range(200):
        desk = Desk()
        listening = Listening(desk)
        one = request("a", Patience(0.012))
        desk.open([one])
        moment = one.expires_at + timedelta(milliseconds=(number % 9 - 4) / 2)  # up to 2 ms before, or after

        def answer(given: Answer, desk: Desk = desk, moment: datetime = moment) -> bool:
            while datetime.now(UTC) < moment:
                pass
            return desk.answer("a", given)

        won = at_the_same_time(lambda: answer(ALLOW), lambda: answer(DENY))
        if not any(won):
            listening.wait("expired")
        ends = [change for change in listening.changes if change.kind in ENDS]
        assert len(ends) == 1, number
        counted[ends[0].kind] += 1
        assert won.count(True) == (ends[0].kind == "answered")
        late = [change.answer for change in listening.changes if change.kind == "late"]
        assert len(late) == 2 - won.count(True)
        assert desk.pending() == ()
    assert sum(counted.values()) == 200
    assert min(counted.values()) > 0, counted  # both happen: else this shows nothing


@timed
def test_an_answer_after_the_time_is_late_also_where_nobody_has_noticed_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    slept = [0.0]
    clocks = types.SimpleNamespace(monotonic=time.monotonic, time=lambda: time.time() + slept[0])
    monkeypatch.setattr(alarms, "time", clocks)
    desk = Desk()
    listening = Listening(desk)
    desk.open([request("a", Patience(300))])
    slept[0] = 8 * 3_600.0  # the lid was closed over night, and the thread has not looked since
    assert desk.answer("a", ALLOW) is False
    assert [change.kind for change in listening.changes] == ["opened", "expired", "late"]
    assert desk.pending() == ()


@timed
def test_a_view_that_answers_as_soon_as_it_hears_of_a_request_leaves_nothing_to_time() -> None:
    desk = Desk()
    desk.subscribe(lambda change: change.kind == "opened" and desk.answer(change.request_id, ALLOW))
    desk.open([request("a", Patience(300)), request("b", Patience(300))])
    assert desk.pending() == ()
    assert desk._limits == {}


@timed
def test_a_limit_that_was_over_before_the_request_came_holds_at_once() -> None:
    desk = Desk()
    listening = Listening(desk)
    old = request("a", Patience(5))
    object.__setattr__(old, "expires_at", datetime.now(UTC) - timedelta(seconds=1))  # it took long to get here
    desk.open([old])
    listening.wait("expired")
    assert desk.answer("a", ALLOW) is False


# Reminders ------------------------------------------------------------------------------------------------------------


@timed
def test_reminders_are_told_and_on_reminder_is_given_the_request() -> None:
    desk, got = Desk(), queue.SimpleQueue[Any]()
    listening = Listening(desk)
    patience = Patience(0.2, [0.08, 0.04], on_reminder=got.put)
    desk.open([request("a", patience)])
    listening.wait("expired")
    assert [(change.kind, change.detail) for change in listening.changes[1:]] == [
        ("reminded", "after 0.04 s"),
        ("reminded", "after 0.08 s"),
        ("expired", "nobody answered within 0.2 s"),
    ]
    for _ in range(2):
        reminded = got.get(timeout=5)
        assert (reminded.id, reminded.expires_at is not None) == ("a", True)
    assert got.empty()


@timed
def test_what_is_answered_is_reminded_of_no_more() -> None:
    desk, got = Desk(), list[Any]()
    listening = Listening(desk)
    desk.open(
        [request("a", Patience(reminders=[0.03, 0.06, 0.09], on_reminder=got.append)), request("b", Patience(0.2))]
    )
    listening.wait("reminded")
    desk.answer("a", ALLOW)
    listening.wait("expired")
    assert listening.told("reminded") == ["a"]


@timed
@pytest.mark.parametrize("error", [RuntimeError("no network"), ValueError()], ids=repr)
def test_an_on_reminder_that_raises_is_reported_and_changes_nothing(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(request: Any) -> None:
        raise error

    desk = Desk()
    listening = Listening(desk)
    with caplog.at_level(logging.ERROR, logger="agentperm_nb"):
        desk.open([request("a", Patience(0.15, [0.02, 0.04], on_reminder=broken))])
        assert listening.wait("expired") == ["a"]
    assert [record.getMessage() for record in caplog.records] == ["on_reminder raised for a"] * 2


@timed
def test_an_on_reminder_that_never_comes_back_keeps_nothing_from_expiring() -> None:
    go_on, begun = threading.Event(), threading.Event()

    def hangs(request: Any) -> None:
        begun.set()
        go_on.wait(10)

    desk = Desk()
    listening = Listening(desk)
    desk.open([request("a", Patience(0.1, 0.02, on_reminder=hangs)), request("b", Patience(0.12))])
    try:
        assert listening.wait("expired", 2) == ["a", "b"]
        assert begun.is_set()
    finally:
        go_on.set()


# One after the other --------------------------------------------------------------------------------------------------


@timed
def test_of_requests_that_are_asked_in_turn_the_time_of_each_begins_with_its_turn() -> None:
    desk = Desk()
    listening = Listening(desk)
    requests = [request(id, Patience(0.1), in_turn=True) for id in "abc"]
    desk.open(requests)
    assert [waiting.expires_at for waiting in desk.pending()] == [None, None, None]
    began = time.monotonic()
    with desk.taking_turns(requests):
        first, second, _ = desk.pending()
        assert first.expires_at is not None
        assert second.expires_at is None
        assert listening.wait("expired", 3) == ["a", "b", "c"]
    assert time.monotonic() - began >= 0.28
    assert desk.begin_time("a") is None


@timed
def test_an_answer_gives_the_next_its_turn_and_its_whole_time() -> None:
    desk = Desk()
    requests = [request(id, Patience(300), in_turn=True) for id in "abc"]
    desk.open(requests)
    with desk.taking_turns(requests):
        desk.answer("a", ALLOW)
        now = {waiting.id: waiting.expires_at for waiting in desk.pending()}
        assert now["b"] is not None
        assert now["c"] is None
        assert timedelta(seconds=299) < now["b"] - datetime.now(UTC) <= timedelta(seconds=300)
        desk.withdraw("c", "stopped")  # whose turn has not come
        desk.withdraw("b", "stopped")
    assert desk.pending() == ()


@timed
def test_the_time_of_a_turn_begins_once() -> None:
    desk = Desk()
    desk.open([request("a", Patience(300), in_turn=True)])
    first = desk.begin_time("a")
    assert first is not None
    assert first.expires_at is not None
    assert desk.begin_time("a") is first
    assert desk.pending() == (first,)
    desk.withdraw("a", "over")


@timed
def test_outside_of_its_block_no_turn_comes() -> None:
    desk = Desk()
    requests = [request(id, Patience(300), in_turn=True) for id in "ab"]
    desk.open(requests)
    with desk.taking_turns(requests):
        pass
    desk.answer("a", ALLOW)
    (left,) = desk.pending()
    assert left.expires_at is None
    desk.answer("b", ALLOW)


@timed
def test_requests_without_a_limit_take_no_turns() -> None:
    desk = Desk()
    requests = [request("a"), request("b", in_turn=True)]
    desk.open(requests)
    with desk.taking_turns(requests):
        assert list(desk.pending()) == requests
        assert desk.begin_time("a") is requests[0]
    assert list(desk._listeners) == []


@timed
def test_many_threads_that_end_requests_give_every_other_its_turn() -> None:
    for _ in range(10):
        desk = Desk()
        requests = [request(f"{number}", Patience(300), in_turn=True) for number in range(60)]
        desk.open(requests)
        with desk.taking_turns(requests):
            kept = {"7", "23", "59"}
            gone = [waiting.id for waiting in requests if waiting.id not in kept]

            def answer(part: int, desk: Desk = desk, gone: list[str] = gone) -> None:
                for id in gone[part::6]:
                    desk.answer(id, ALLOW)

            at_the_same_time(*[partial(answer, part) for part in range(6)])
            for id in ("7", "23", "59"):
                now = {waiting.id: waiting.expires_at is not None for waiting in desk.pending()}
                assert now == {waiting: waiting == id for waiting in now}
                desk.withdraw(id, "over")


def test_a_desk_that_nobody_needs_any_more_is_let_go() -> None:
    desk = Desk()
    desk.open([request("a", Patience(300))])
    desk.withdraw("a", "over")
    gone = weakref.ref(desk)
    for thread in alarm_threads():
        thread.join(1)
    del desk
    gc.collect()
    assert gone() is None
