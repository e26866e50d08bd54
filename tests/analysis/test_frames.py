"""The tables of the log: fixed columns and dtypes, whatever is in it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pandas as pd
import pytest

from agentperm_nb.analysis.frames import CATEGORIES, calls_frame
from agentperm_nb.analysis.log import Log, as_log
from agentperm_nb.audit.events import Event
from agentperm_nb.audit.projection import COLUMNS
from agentperm_nb.audit.store import MemoryStore

START = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
TIME = pd.DatetimeTZDtype("us", "UTC")
DTYPES: dict[str, Any] = {
    **dict.fromkeys(COLUMNS, pd.StringDtype()),
    **dict.fromkeys(["seq", "turn", "position"], pd.Int64Dtype()),
    **dict.fromkeys(["waited_s", "duration_s"], pd.Float64Dtype()),
    **dict.fromkeys(["masked", "edited", "read_only", "destructive", "open_world", "asked", "stop"], pd.BooleanDtype()),
    **dict.fromkeys(["time", "started", "finished"], TIME),
    **dict.fromkeys(["args", "args_run"], object),
    **{name: pd.CategoricalDtype(list(values)) for name, values in CATEGORIES.items()},
}


def event(kind: Any, key: str, seconds: float = 0, **data: Any) -> Event:
    return Event(
        kind=kind, time=START + timedelta(seconds=seconds), run="run_1", session="session_1", host="host",
        agent_path=("main",), user=None, policy_id="policy_1", call_key=key, turn=1, position=0, data=data,
    )  # fmt: skip


def log_of(*verdicts: str | None, prefix: str = "k") -> Log:
    log = Log()
    for place, verdict in enumerate(verdicts):
        key = f"{prefix}{place}"
        log.store.append([event("requested", key, place, tool="write", args={"a": place}, read_only=True)])
        if verdict:
            log.store.append([event("decided", key, place, verdict=verdict, decided_kind="deny", decided_by="x")])
    return log


def assert_fixed(frame: pd.DataFrame) -> None:
    assert list(frame.columns) == list(COLUMNS)
    assert {name: frame[name].dtype for name in COLUMNS} == DTYPES


@pytest.mark.parametrize(
    "log",
    [Log(), log_of(None), log_of("allowed", "denied"), log_of(*["denied"] * 3)],
    ids=["empty", "one", "two", "three"],
)
def test_columns_and_dtypes_are_fixed_also_for_an_empty_log(log: Log) -> None:
    assert_fixed(log.calls())
    assert_fixed(log.denials())
    assert_fixed(calls_frame([]))
    assert isinstance(log.calls().index, pd.RangeIndex)


def test_one_row_a_call_oldest_first() -> None:
    frame = log_of("allowed", "denied", None).calls()
    assert list(frame["call_key"]) == ["k0", "k1", "k2"]
    assert frame["call_key"].is_unique
    assert list(frame["verdict"].astype("string").fillna("none")) == ["allowed", "denied", "none"]
    assert list(frame["args"]) == [{"a": 0}, {"a": 1}, {"a": 2}]
    assert frame["user"].isna().all()
    assert frame["time"][0] == START


def test_texts_that_are_no_unicode_are_written_out() -> None:
    log = Log()
    log.store.append([event("requested", "a", tool="t", args={"s": "\ud800"}, args_json='{"s": "\ud800"}')])
    assert_fixed(log.calls())
    assert log.calls()["args_json"][0] == '{"s": "\\ud800"}'


def test_denials_come_newest_first() -> None:
    frame = log_of("denied", "allowed", "denied", "cancelled", "denied").denials()
    assert list(frame["call_key"]) == ["k4", "k2", "k0"]
    assert list(frame.index) == [0, 1, 2]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Log(), Log()),
        (Log(), log_of("denied")),
        (log_of("denied"), Log()),
        (log_of("allowed"), log_of("denied", "input_error", prefix="other")),
        (log_of(None), log_of(None, prefix="other")),
    ],
    ids=["both empty", "first empty", "second empty", "different values", "nothing decided"],
)
@pytest.mark.filterwarnings("error")
def test_two_logs_one_after_the_other_keep_their_dtypes(first: Log, second: Log) -> None:
    both = pd.concat([first.calls(), second.calls()], ignore_index=True)
    assert_fixed(both)
    assert len(both) == len(first) + len(second)


def test_every_value_of_a_closed_set_is_kept_and_none_is_lost() -> None:
    for column, values in CATEGORIES.items():
        rows = [{**dict.fromkeys(COLUMNS), column: value} for value in values]
        assert list(calls_frame(rows)[column]) == list(values)


def test_frames_group_by_any_plain_column() -> None:
    frame = log_of("allowed", "denied", "denied").calls()
    for column in COLUMNS:
        if column not in ("args", "args_run"):
            frame.groupby(column, observed=True, dropna=False).size()
    assert frame.groupby("verdict", observed=False).size().to_dict() == {
        "allowed": 1, "denied": 2, "input_error": 0, "cancelled": 0,
    }  # fmt: skip


def test_changing_a_frame_does_not_change_the_log() -> None:
    log = log_of("denied")
    frame = log.calls()
    frame.loc[0, "tool"] = "other"
    with pytest.raises(TypeError, match="cannot be changed"):
        frame.loc[0, "args"]["a"] = 7  # type: ignore[index,call-overload]
    assert log.calls()["tool"][0] == "write"
    assert log.calls()["args"][0] == {"a": 0}


def test_an_empty_log_is_a_log() -> None:
    log = Log()
    assert log
    assert len(log) == 0
    assert len(log_of("denied", None)) == 2
    assert repr(log) == "Log(MemoryStore(0 of at most 100000 calls))"
    assert log.events() == []


def test_a_log_reads_the_events_of_its_store() -> None:
    store = MemoryStore()
    log = Log(store)
    store.append([event("requested", "a", tool="t"), event("requested", "b", tool="t")])
    assert log.store is store
    assert [each.call_key for each in log.events()] == ["a", "b"]
    assert [each.call_key for each in log.events("b")] == ["b"]


def test_an_agent_takes_a_log_or_makes_one() -> None:
    log = Log()
    assert as_log(log) is log
    assert isinstance(as_log(None), Log)
    for wrong in (5, MemoryStore(), [], True):
        with pytest.raises(TypeError, match=r"audit= takes a Log[\s\S]*Fix: [\s\S]*Example:"):
            as_log(wrong)
