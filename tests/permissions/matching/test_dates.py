"""Dates and times: days and moments between bounds, and what is none."""

from __future__ import annotations

import pickle
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentperm_nb.json_values import freeze
from agentperm_nb.permissions.matching.dates import Dates, parse_date
from agentperm_nb.permissions.matching.reading import ABSENT, Where

WHERE = Where("/", "/people/ann", False)
YEAR = Dates("2026-01-01", "2026-12-31")
CHRISTMAS = Dates("2026-12-24", "2026-12-24")
NOON_UTC = Dates(None, "2026-12-24T12:00:00Z")
NOON = Dates(None, "2026-12-24T12:00:00")


@pytest.mark.parametrize(
    ("dates", "value", "wide", "narrow"),
    [
        (YEAR, "2026-01-01", True, True),
        (YEAR, "2026-12-31", True, True),
        (YEAR, "2027-01-01", False, False),
        (YEAR, "2025-12-31", False, False),
        (YEAR, "2026-12-31T23:59:59", True, True),
        (YEAR, "2026-12-31T23:59:59Z", True, True),
        (YEAR, "2026-12-31t23:59:59z", True, True),
        (YEAR, "2026-12-31 23:59", True, True),
        (YEAR, "2027-01-01T00:30:00+02:00", True, False),  # still the old year in UTC
        (YEAR, "2026-12-31T23:30:00-02:00", True, False),
        (YEAR, "2026-06-01T12:00:00+02:00", True, True),
        (CHRISTMAS, "2026-12-24", True, True),
        (CHRISTMAS, "2026-12-24T08:00", True, True),
        (CHRISTMAS, "2026-12-25", False, False),
        (CHRISTMAS, "2026-12-25T00:30:00+01:00", True, False),
        (Dates("2026-12-24", None, low_open=True), "2026-12-24T23:00", False, False),
        (Dates("2026-12-24", None, low_open=True), "2026-12-25", True, True),
        (Dates(None, "2026-12-24", high_open=True), "2026-12-24", False, False),
        (NOON_UTC, "2026-12-24T12:00:00Z", True, True),
        (NOON_UTC, "2026-12-24T13:00:00+01:00", True, True),
        (NOON_UTC, "2026-12-24T12:00:00+01:00", True, True),
        (NOON_UTC, "2026-12-24T12:00:00-01:00", False, False),
        (NOON_UTC, "2026-12-24T12:00:00.000001Z", False, False),
        (NOON, "2026-12-24T11:59", True, True),
        (NOON, "2026-12-24T12:00:01", False, False),
        (NOON, "2026-12-24", True, False),  # a day begins before and ends after noon
        (NOON, "2026-12-23", True, True),
        (NOON, "2026-12-25", False, False),
    ],
    ids=str,
)
def test_days_are_held_against_days_and_moments_against_moments(
    dates: Dates, value: str, wide: bool, narrow: bool
) -> None:
    reading = dates.read(value, WHERE)
    assert (reading.wide, reading.narrow) == (wide, narrow)
    assert (reading.negated().wide, reading.negated().narrow) == (not narrow, not wide)
    assert reading.problem == ""


@pytest.mark.parametrize(
    "value",
    [
        None, True, 5, 20261224, 1798100000, 1798100000.5, [], ["2026-12-24"], {}, {"day": "2026-12-24"}, "",
        "tomorrow",
        "24.12.2026", "12/24/2026", "2026/12/24", "2026-12", "2026", "20261224", "2026-W52-4", "2026-358", "26-12-24",
        " 2026-12-24", "2026-12-24 ", "2026-12-24\n", "2026-13-01", "2026-02-30", "0000-01-01", "2026-12-24T25:00",
        "2026-12-24T12:60", "2026-12-24x12:00", "2026-12-24T12", "2026-12-24T12:00:60Z", "2026-12-24T12:00+25:00",
        "２０２６-12-24", "2026‑12‑24", "2026-12-24T12:00:00 UTC", "2026-12-24T12:00:00[Europe/Berlin]", "+2026-12-24",
        "2026-12-24T12:00:00.1234567Z", "2026-12-24,2026-12-25",
    ],
    ids=ascii,
)  # fmt: skip
def test_what_is_no_date_cannot_be_read(value: Any) -> None:
    for dates in (YEAR, CHRISTMAS, NOON, NOON_UTC):
        reading = dates.read(freeze(value), WHERE)
        assert "date" in reading.problem
        assert (reading.wide, reading.narrow) == (True, False)
        assert (reading.negated().wide, reading.negated().narrow) == (True, False)


@pytest.mark.parametrize(
    ("dates", "value", "problem"),
    [
        (NOON_UTC, "2026-12-24T11:00", "no time zone, and the bound has one"),
        (NOON, "2026-12-24T11:00Z", "a time zone, and the bound has none"),
        (NOON_UTC, "2026-12-24", "no time zone, and the bound has one"),
    ],
)
def test_a_moment_without_a_zone_cannot_be_held_against_one_that_has_one(
    dates: Dates, value: str, problem: str
) -> None:
    reading = dates.read(value, WHERE)
    assert problem in reading.problem
    assert (reading.wide, reading.narrow) == (True, False)


def test_what_was_left_out_matches_nothing() -> None:
    assert not YEAR.read(ABSENT, WHERE).wide


@pytest.mark.parametrize(
    ("low", "high", "error"),
    [
        (None, None, ValueError),
        ("2026-12-24", "2026-12-23", ValueError),
        ("tomorrow", None, ValueError),
        ("20261224", None, ValueError),
        ("2026-12-24", "2026-12-24T12:00", TypeError),
        ("2026-12-24T12:00", "2026-12-24T12:00Z", TypeError),
        (5, None, TypeError),
        (None, 20261224, TypeError),
    ],
    ids=repr,
)
def test_bounds_between_which_nothing_lies_are_refused(low: Any, high: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"[\s\S]*\nFix: [\s\S]*Example:"):
        Dates(low, high)


@pytest.mark.parametrize(
    ("dates", "text"),
    [
        (YEAR, "2026-01-01..2026-12-31"),
        (CHRISTMAS, "2026-12-24"),
        (NOON_UTC, "<=2026-12-24T12:00:00+00:00"),
        (Dates(date(2026, 1, 1), None, low_open=True), ">2026-01-01"),
        (Dates(datetime(2026, 1, 1, 8, 30), None), ">=2026-01-01T08:30:00"),
        (Dates(datetime(2026, 7, 1, 8, tzinfo=ZoneInfo("Europe/Berlin")), None), ">=2026-07-01T08:00:00+02:00"),
    ],
    ids=str,
)
def test_they_say_what_they_are(dates: Dates, text: str) -> None:
    assert str(dates) == text
    assert pickle.loads(pickle.dumps(dates)) == dates


def test_a_reading_says_on_which_days_a_moment_lies() -> None:
    assert YEAR.read("2027-01-01T00:30:00+02:00", WHERE).readings == ("2026-12-31", "2027-01-01")


def test_the_ends_of_the_calendar_have_moments_that_cannot_be_read() -> None:
    assert parse_date("0001-01-01T00:00:00+01:00") is None
    assert parse_date("9999-12-31T23:59:59-01:00") is None
    assert parse_date("9999-12-31") == date(9999, 12, 31)


_ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(
    low=st.datetimes(datetime(2000, 1, 1), datetime(2040, 1, 1), timezones=_ZONES),
    value=st.datetimes(datetime(2000, 1, 1), datetime(2040, 1, 1), timezones=_ZONES),
)
def test_a_moment_is_held_against_a_moment_whatever_the_zones(low: datetime, value: datetime) -> None:
    reading = Dates(low, None).read(value.isoformat(), WHERE)
    assert reading.narrow is reading.wide is (low <= value)
    days = Dates(low.date(), None).read(value.isoformat(), WHERE)
    assert days.narrow is (low.date() <= min(value.date(), value.astimezone(UTC).date()))
    assert days.wide is (low.date() <= max(value.date(), value.astimezone(UTC).date()))
