"""The log in memory: numbered events, one row a call made from them, and a ring that says when it drops something."""

from __future__ import annotations

import copy
import threading
import warnings
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentperm_nb.audit.events import KINDS, Event
from agentperm_nb.audit.projection import COLUMNS, Row, project
from agentperm_nb.audit.store import MemoryStore

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DATA: dict[str, dict[str, Any]] = {
    "requested": {
        "tool": "write", "server": None, "args": {"path": "a", "deep": {"l": [1]}}, "args_json": "{}", "masked": False,
        "read_only": False, "destructive": True, "open_world": True, "hints_from": "tool",
    },
    "decided": {
        "verdict": "allowed", "decided_by": "DecideByHuman()", "decided_kind": "human", "reason": None, "stop": False,
        "error": None,
    },
    "answered": {"action": "allow", "reason": None, "stop": False, "answered_by": "human", "via": "panel"},
    "edited": {"args": {"path": "b"}, "original_args": {"path": "a"}},
    "finished": {"outcome": "ran", "error": None, "result_digest": "abc"},
    "cancelled": {"reason": "(not run)", "decided_by": None, "decided_kind": None},
}  # fmt: skip


def event(kind: Any, key: str = "run_1/1/0", seconds: float = 0, **data: Any) -> Event:
    return Event(
        kind=kind, time=START + timedelta(seconds=seconds), run="run_1", session="session_1", host="host",
        agent_path=("main", "research"), user="ada", policy_id="policy_1", call_key=key, turn=1, position=0,
        call_id="id-1", args_digest="d1", approver="bob" if kind == "answered" else None,
        data=copy.deepcopy({**DATA.get(kind, {}), **data}),
    )  # fmt: skip


LIFE = ["requested", "asked", "shown", "answered", "edited", "decided", "started", "finished"]


def life(key: str = "run_1/1/0") -> list[Event]:
    return [event(kind, key, seconds) for seconds, kind in enumerate(LIFE)]


def rebuilt(events: list[Event]) -> Row | None:
    row: Row | None = None
    for each in events:
        row = project(row, each)
    return row


def test_a_full_life_of_a_call_is_one_row() -> None:
    store = MemoryStore()
    store.append(life())
    [row] = store.rows()
    assert {name: row[name] for name in COLUMNS} == {
        "call_key": "run_1/1/0", "seq": 1, "run": "run_1", "session": "session_1", "turn": 1, "position": 0,
        "call_id": "id-1", "host": "host", "agent": "research", "agent_path": "main/research", "user": "ada",
        "time": START, "tool": "write", "server": None, "args": {"path": "a", "deep": {"l": [1]}}, "args_json": "{}",
        "args_digest": "d1", "masked": False, "edited": True, "args_run": {"path": "b"}, "read_only": False,
        "destructive": True, "open_world": True, "hints_from": "tool", "verdict": "allowed", "asked": True,
        "decided_by": "DecideByHuman()", "decided_kind": "human", "answered_by": "human", "rule": None, "reason": None,
        "stop": False, "answer": "allow", "approver": "bob", "approver_from": None, "waited_s": 2.0, "outcome": "ran",
        "started": START + timedelta(seconds=6), "finished": START + timedelta(seconds=7), "duration_s": 1.0,
        "error": None, "result_digest": "abc", "policy_id": "policy_1",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        (["requested"], {"verdict": None, "outcome": "not_run", "asked": False, "edited": False, "stop": False}),
        (["requested", "decided", "started"], {"verdict": "allowed", "outcome": "lost", "finished": None}),
        (["requested", "asked", "expired"], {"asked": True, "answered_by": "timeout", "waited_s": 2.0}),
        (["requested", "asked", "withdrawn"], {"asked": True, "answered_by": None, "waited_s": 2.0}),
        (["requested", "decided", "cancelled"], {"verdict": "cancelled", "outcome": "not_run", "reason": "(not run)"}),
        (["requested", "decided", "started", "cancelled"], {"verdict": "cancelled", "outcome": "lost"}),
        (["requested", "decided", "started", "finished", "late"], {"outcome": "ran", "duration_s": 1.0}),
        (["requested", "decided", "started", "lost"], {"outcome": "lost"}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_the_row_says_how_far_the_call_came(kinds: list[str], expected: dict[str, Any]) -> None:
    row = rebuilt(
        [event(kind, seconds=seconds * 1.0 if kind != "expired" else 3) for seconds, kind in enumerate(kinds)]
    )
    assert row is not None
    if "waited_s" in expected:
        expected = {**expected, "waited_s": row["waited_s"]}
        assert row["waited_s"] in (1.0, 2.0)
    assert {name: row[name] for name in expected} == expected


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["run_1/1/0", "run_1/1/1", "run_2/1/0", ""]),
            st.sampled_from([k for k in KINDS if k != "finished"]),
        ),
        max_size=30,
    )
)
def test_a_row_can_be_made_again_from_its_events(history: list[tuple[str, str]]) -> None:
    history = [*((key, "requested") for key in dict.fromkeys(key for key, _ in history) if key), *history]
    store = MemoryStore()
    for seconds, (key, kind) in enumerate(history):
        store.append([event(kind, key, seconds)])
    for row in store.rows():
        assert rebuilt(store.events(row["call_key"])) == row
    assert [each.seq for each in store.events()] == list(range(1, len(history) + 1))
    assert [each.kind for each in store.events()] == [kind for _, kind in history]
    assert {row["call_key"] for row in store.rows()} == {key for key, _ in history if key}


def test_a_row_that_was_read_goes_on_with_the_events_that_come_later() -> None:
    store, past = MemoryStore(), life()
    for each in past:
        store.append([each])
        assert store.rows() == [rebuilt(store.events("run_1/1/0"))]
    assert store.rows()[0]["outcome"] == "ran"


def test_an_event_about_no_call_makes_no_row() -> None:
    store = MemoryStore()
    store.append([event("policy", "")])
    assert store.rows() == []
    assert [each.kind for each in store.events()] == ["policy"]


def test_events_are_numbered_and_those_of_one_call_can_be_read_alone() -> None:
    store = MemoryStore()
    store.append([event("requested", "a"), event("requested", "b")])
    store.append([event("decided", "a")])
    assert [(each.seq, each.call_key) for each in store.events()] == [(1, "a"), (2, "b"), (3, "a")]
    assert [each.seq for each in store.events("a")] == [1, 3]
    assert store.events("unknown") == []


def test_rows_come_in_the_order_of_their_first_event_and_can_be_chosen() -> None:
    store = MemoryStore()
    store.append([event("requested", "a"), event("requested", "b"), event("decided", "b", verdict="denied")])
    assert [row["call_key"] for row in store.rows()] == ["a", "b"]
    assert [row["call_key"] for row in store.rows(lambda row: row["verdict"] == "denied")] == ["b"]


def test_what_the_log_gives_out_cannot_change_what_it_keeps() -> None:
    store = MemoryStore()
    given_in = life()
    store.append(given_in)
    before = copy.deepcopy((store.rows(), store.events()))
    row, first = store.rows()[0], store.events()[0]
    row["verdict"] = "denied"
    first.kind = "lost"
    for inner in (row["args"]["deep"]["l"], first.data["args"]["deep"]["l"]):
        with pytest.raises(TypeError, match="cannot be changed"):
            inner.append(2)
    with pytest.raises(TypeError, match="cannot be changed"):
        first.data["tool"] = "other"
    assert (store.rows(), store.events()) == before


@pytest.mark.parametrize("capacity", [0, -1, 1.5, True, "10", None], ids=repr)
def test_a_capacity_that_is_no_number_of_calls_is_refused(capacity: Any) -> None:
    with pytest.raises(ValueError, match=r"capacity= takes a number of calls[\s\S]*Fix: [\s\S]*Example:"):
        MemoryStore(capacity)


def test_a_full_log_keeps_the_newest_calls_and_warns_once() -> None:
    store = MemoryStore(capacity=2)
    store.append([*life("a"), *life("b")])
    assert repr(store) == "MemoryStore(2 of at most 2 calls)"
    with pytest.warns(UserWarning, match="the log in memory is full: it keeps the newest 2 calls"):
        store.append(life("c"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.append([*life("d"), *life("e")])
    assert [row["call_key"] for row in store.rows()] == ["d", "e"]
    assert {each.call_key for each in store.events()} == {"d", "e"}
    assert store.dropped == 3
    assert repr(store) == "MemoryStore(2 of at most 2 calls, 3 oldest dropped)"


def test_a_full_log_drops_the_oldest_call_whether_its_row_was_read_or_not() -> None:
    for read in (False, True):
        store = MemoryStore(capacity=1)
        store.append([event("policy", ""), *life("a")])
        if read:
            assert [row["call_key"] for row in store.rows()] == ["a"]
        with pytest.warns(UserWarning, match="full"):
            store.append(life("b"))
        assert [row["call_key"] for row in store.rows()] == ["b"]
        assert [each.call_key for each in store.events()] == ["", *["b"] * len(LIFE)]


def test_events_about_no_call_are_never_dropped() -> None:
    store = MemoryStore(capacity=1)
    store.append([event("policy", ""), *life("a")])
    with pytest.warns(UserWarning, match="full"):
        store.append(life("b"))
    assert [each.kind for each in store.events("")] == ["policy"]


def test_the_end_of_a_call_that_was_dropped_does_not_make_half_a_row() -> None:
    store = MemoryStore(capacity=1)
    beginning, end = life("a")[:7], life("a")[7:]
    store.append(beginning)
    with pytest.warns(UserWarning, match="full"):
        store.append(life("b"))
    store.append(end)
    assert [(row["call_key"], row["tool"]) for row in store.rows()] == [("b", "write")]
    assert store.events("a") == []
    assert store.dropped == 1


def test_many_threads_may_append_at_once() -> None:
    store = MemoryStore()
    threads = [
        threading.Thread(target=lambda n=n: [store.append([each]) for i in range(20) for each in life(f"{n}/{i}")])
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [each.seq for each in store.events()] == list(range(1, 8 * 20 * len(LIFE) + 1))
    for row in store.rows():
        assert rebuilt(store.events(row["call_key"])) == row
        assert row["outcome"] == "ran"
