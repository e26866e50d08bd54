"""Dates and times in ISO 8601: one day or moment, or all between two bounds.

1. A value is a text: ``2026-01-31``, or ``2026-01-31T12:00:00`` with or without a time zone (``Z``, ``+02:00``). Other
   forms, such as ``20260131`` or ``31.1.2026``, cannot be read.
2. Bounds that are days compare days. A moment with a time zone lies on the day that it has there, and on the day that
   it has in UTC: a deny or an ask matches when either fits, an allow when both do.
3. Bounds that are moments compare moments. A day is read as its first and as its last moment. A moment without a time
   zone cannot be compared with one that has one, nor can a day.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time
from typing import Any, ClassVar

from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.matching.numbers import bounds_text, check_bounds
from agentperm_nb.permissions.matching.reading import ABSENT, Matcher, Reading, Where
from agentperm_nb.permissions.matching.texts import NEITHER, unreadable
from agentperm_nb.permissions.matching.writing import DATE

__all__ = ["Dates", "parse_date"]

_EXAMPLE = 'rule("allow book(2026-01-01<=day<2027-01-01)")'
_FORM = re.compile(DATE)


class Dates(Matcher):
    """The days or moments between two bounds; with two equal ones, a single one.

    Args:
        low: The lower bound: a ``date``, a ``datetime``, a text in ISO 8601, or None for none.
        high: The upper bound, or None for none.
        low_open: Whether the lower bound itself is left out.
        high_open: Whether the upper bound itself is left out.

    Raises:
        TypeError: A bound is no date; or one is a day and the other a moment, or only one has a time zone.
        ValueError: There is no bound, or nothing lies between them, or a text is no date.
    """

    kind: ClassVar[str] = "date"

    def __init__(
        self,
        low: date | str | None,
        high: date | str | None,
        *,
        low_open: bool = False,
        high_open: bool = False,
    ) -> None:
        self._low = None if low is None else _checked(low)
        self._high = None if high is None else _checked(high)
        self.low_open: bool = low_open and low is not None
        self.high_open: bool = high_open and high is not None
        if self._low is not None and self._high is not None and _form(self._low) != _form(self._high):
            problem = f"{self.low} and {self.high} are not of one form"
            fix = "give two days, or two moments, both with a time zone or both without"
            raise TypeError(fix_message(problem, fix, _EXAMPLE))
        check_bounds(self._low, self._high, self.low_open or self.high_open, _EXAMPLE)

    def __str__(self) -> str:
        return bounds_text(self, compared=True)

    @property
    def low(self) -> str | None:
        """The lower bound in ISO 8601."""
        return None if self._low is None else self._low.isoformat()

    @property
    def high(self) -> str | None:
        """The upper bound in ISO 8601."""
        return None if self._high is None else self._high.isoformat()

    @property
    def range_text(self) -> str:
        """The notation as a range, or a single day or moment."""
        return bounds_text(self)

    def read(self, value: Any, where: Where) -> Reading:
        """Read a date, or a date and a time."""
        if value is ABSENT:
            return NEITHER
        if not isinstance(value, str):
            return unreadable(value, "a date")
        read = parse_date(value)
        if read is None:
            return Reading(False, False, "not a date in ISO 8601 (2026-01-31, or 2026-01-31T12:00:00Z)")
        form = _form(self._low if self._low is not None else self._high)
        if form == "day":
            moments: set[Any] = {read}
            if isinstance(read, datetime):
                moments = {read.date()}
                if read.tzinfo is not None:
                    moments.add(read.astimezone(UTC).date())
        elif isinstance(read, datetime):
            if _form(read) != form:
                has, wanted = ("a", "none") if read.tzinfo is not None else ("no", "one")
                return Reading(False, False, f"a moment with {has} time zone, and the bound has {wanted}")
            moments = {read}
        elif form == "zoned":
            return Reading(False, False, "a day with no time zone, and the bound has one")
        else:
            moments = {datetime.combine(read, time.min), datetime.combine(read, time.max)}
        fits = [self._fits(moment) for moment in moments]
        return Reading(any(fits), all(fits), readings=tuple(sorted(moment.isoformat() for moment in moments)))

    def _fits(self, moment: Any) -> bool:
        if self._low is not None and (moment < self._low or (self.low_open and moment == self._low)):
            return False
        return self._high is None or moment < self._high or (not self.high_open and moment == self._high)


def parse_date(text: str) -> date | datetime | None:
    """Return the day or the moment that a text in ISO 8601 names, or None when it is none."""
    if _FORM.fullmatch(text) is None:
        return None
    read: Callable[[str], date] = datetime.fromisoformat if len(text) > 10 else date.fromisoformat
    try:
        found = read(text.upper())
        if isinstance(found, datetime) and found.tzinfo is not None:
            found.astimezone(UTC)  # the first and the last days of the calendar have moments that UTC has no year for
    except (ValueError, OverflowError):
        return None
    return found


def _form(bound: Any) -> str:
    if not isinstance(bound, datetime):
        return "day"
    return "zoned" if bound.tzinfo is not None else "naive"


def _checked(bound: object) -> date:
    if isinstance(bound, datetime) and bound.tzinfo is not None:
        # Zones by name are written as what they are at that moment, and those of old days in UTC.
        offset = bound.utcoffset()
        odd = offset is not None and offset.total_seconds() % 60 != 0
        return datetime.fromisoformat((bound.astimezone(UTC) if odd else bound).isoformat())
    if isinstance(bound, date):
        return bound
    if not isinstance(bound, str):
        raise TypeError(
            fix_message(f"a bound of dates is a date, a datetime or a text (got: {bound!r})", "give a date", _EXAMPLE)
        )
    read = parse_date(bound)
    if read is None:
        raise ValueError(fix_message(f"{bound!r} is no date in ISO 8601", "write it as 2026-01-31", _EXAMPLE))
    return read
