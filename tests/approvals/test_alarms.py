"""Alarms: each rings once, in order, on one thread that is there only as long as something is to come."""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
import time
import types
from typing import Any

import pytest

from agentperm_nb.approvals import alarms as alarms_module
from agentperm_nb.approvals.alarms import Alarms, Due

AN_HOUR = 3_600.0


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "agentperm-alarms"]


def all_over(before: list[threading.Thread]) -> None:
    """Wait until no alarm thread is left over."""
    for thread in threads():
        if thread not in before:
            thread.join(5)
            assert not thread.is_alive()


def test_alarms_ring_once_in_the_order_in_which_they_are_due() -> None:
    before, rang = threads(), queue.SimpleQueue[tuple[str, str]]()
    alarms = Alarms()
    for name, seconds in [("late", 0.09), ("early", 0.03), ("between", 0.06), ("at once", 0), ("long ago", -5)]:
        alarms.set(name, Due.after(seconds), lambda name=name: rang.put((name, threading.current_thread().name)))
    got = [rang.get(timeout=5) for _ in range(5)]
    assert [name for name, _ in got] in (
        ["long ago", "at once", "early", "between", "late"],
        ["at once", "long ago", "early", "between", "late"],  # it may have rung before the other was set
    )
    assert {thread for _, thread in got} == {"agentperm-alarms"}
    all_over(before)
    assert rang.empty()
    assert repr(alarms) == "Alarms(0 set)"


def test_an_alarm_that_is_earlier_than_all_others_does_not_wait_for_them() -> None:
    before, rang = threads(), threading.Event()
    alarms = Alarms()
    alarms.set("a", Due.after(AN_HOUR), lambda: None)
    alarms.set("b", Due.after(0.01), rang.set)
    assert rang.wait(5)
    alarms.drop("a")
    all_over(before)


def test_what_is_dropped_does_not_ring_and_the_thread_ends_with_the_last() -> None:
    before, rang = threads(), list[str]()
    alarms, last = Alarms(), threading.Event()
    for seconds in (0.02, AN_HOUR):
        alarms.set("a", Due.after(seconds), lambda: rang.append("a"))
    alarms.set("b", Due.after(0.05), last.set)
    assert repr(alarms) == "Alarms(2 set)"
    alarms.drop("a")
    alarms.drop("a")
    alarms.drop("never set")
    assert last.wait(5)
    all_over(before)
    assert rang == []


def test_where_nothing_is_set_there_is_no_thread_and_one_for_all_where_something_is() -> None:
    before = threads()
    alarms = Alarms()
    assert threads() == before
    for number in range(50):
        alarms.set(str(number), Due.after(AN_HOUR), lambda: None)
    assert len(threads()) == len(before) + 1
    for number in range(50):
        alarms.drop(str(number))
    all_over(before)
    alarms.set("again", Due.after(AN_HOUR), lambda: None)
    assert len(threads()) == len(before) + 1
    assert all(thread.daemon for thread in threads())
    alarms.drop("again")
    all_over(before)


@pytest.mark.parametrize("error", [RuntimeError("broke"), SystemExit(1), KeyboardInterrupt()], ids=repr)
def test_an_alarm_that_raises_is_reported_and_disturbs_no_other(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    before, rang = threads(), threading.Event()
    alarms = Alarms()

    def broken() -> None:
        raise error

    with caplog.at_level(logging.ERROR, logger="agentperm_nb"):
        alarms.set("a", Due.after(0), broken)
        alarms.set("b", Due.after(0.02), rang.set)
        assert rang.wait(5)
    all_over(before)
    assert [record.getMessage() for record in caplog.records] == ["an alarm for a raised"]


def test_an_alarm_may_set_and_drop_others() -> None:
    before, rang = threads(), threading.Event()
    alarms = Alarms()

    def first() -> None:
        alarms.drop("b")
        alarms.set("c", Due.after(0.01), rang.set)

    alarms.set("a", Due.after(0.01), first)
    alarms.set("b", Due.after(AN_HOUR), lambda: None)
    assert rang.wait(5)
    all_over(before)


def test_many_that_are_dropped_leave_nothing_behind() -> None:
    before = threads()
    alarms = Alarms()
    alarms.set("stays", Due.after(AN_HOUR), lambda: None)
    for number in range(20_000):
        alarms.set(str(number), Due.after(AN_HOUR - number / 100), lambda: None)
        alarms.drop(str(number))
    assert len(alarms._heap) < 2_000
    alarms.drop("stays")
    all_over(before)


def test_a_time_has_come_by_whichever_clock_says_so_first(monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"monotonic": 1_000.0, "time": 5_000.0}
    clocks = {name: (lambda name=name: now[name]) for name in now}
    monkeypatch.setattr(alarms_module, "time", types.SimpleNamespace(**clocks))
    due = Due.after(60)
    assert (due.left, due.passed) == (60, False)
    now["time"] += 3_600  # the machine has slept: only the clock on the wall went on
    assert due.passed
    now["time"] -= 7_200  # the clock on the wall was set back
    assert (due.left, due.passed) == (60, False)
    now["monotonic"] += 60
    assert (due.left, due.passed) == (0, True)


def test_a_machine_that_has_slept_is_not_given_the_time_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before, rang, slept = threads(), threading.Event(), [0.0]
    clocks: Any = types.SimpleNamespace(monotonic=time.monotonic, time=lambda: time.time() + slept[0])
    monkeypatch.setattr(alarms_module, "time", clocks)
    monkeypatch.setattr(alarms_module, "_LONGEST", 0.02)
    alarms = Alarms()
    alarms.set("a", Due.after(AN_HOUR), rang.set)
    slept[0] = AN_HOUR
    assert rang.wait(5)
    all_over(before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # that a thread is there is the point
def test_a_forked_child_has_none_of_its_parents_alarms_and_a_thread_of_its_own() -> None:
    before, rang = threads(), list[str]()
    alarms = Alarms()
    alarms.set("of the parent", Due.after(0.2), lambda: rang.append("parent"))
    child = os.fork()
    if child == 0:
        own = threading.Event()
        alarms.set("of the child", Due.after(0.01), own.set)
        is_well = own.wait(5) and repr(alarms) == "Alarms(0 set)" and rang == []
        sys.stdout.flush()
        os._exit(0 if is_well else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    all_over(before)
    assert rang == ["parent"]
