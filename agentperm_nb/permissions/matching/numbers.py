"""Numbers: one of them, or all between two bounds.

1. Numbers are compared by what they count: 100 and 100.0 are one. ``true`` and the text ``"100"`` are no numbers.
2. NaN and the infinities cannot be read, and are no bounds.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.matching.reading import ABSENT, Matcher, Reading, Where
from agentperm_nb.permissions.matching.texts import BOTH, NEITHER, unreadable

__all__ = ["Numbers", "bounds_text", "check_bounds", "written_bound"]

_EXAMPLE = 'rule("allow transfer(0<amount<=100)")'


class Numbers(Matcher):
    """The numbers between two bounds; with two equal ones, a single number.

    Args:
        low: The lower bound, or None for none.
        high: The upper bound, or None for none.
        low_open: Whether the lower bound itself is left out.
        high_open: Whether the upper bound itself is left out.

    Raises:
        TypeError: A bound is no number.
        ValueError: There is no bound, or a bound is not finite, or no number lies between them.
    """

    kind: ClassVar[str] = "number"

    def __init__(
        self,
        low: float | None,
        high: float | None,
        *,
        low_open: bool = False,
        high_open: bool = False,
    ) -> None:
        self.low: float | None = None if low is None else _checked(low)
        self.high: float | None = None if high is None else _checked(high)
        self.low_open: bool = low_open and low is not None
        self.high_open: bool = high_open and high is not None
        check_bounds(self.low, self.high, self.low_open or self.high_open, _EXAMPLE)

    def __str__(self) -> str:
        return bounds_text(self, compared=True)

    @property
    def range_text(self) -> str:
        """The notation as a range, such as ``0..100``, or a single number."""
        return bounds_text(self)

    def read(self, value: Any, where: Where) -> Reading:
        """Read a number."""
        if type(value) is int or (type(value) is float and math.isfinite(value)):
            low, high = self.low, self.high
            if low is not None and (value < low or (self.low_open and value == low)):
                return NEITHER
            if high is not None and (value > high or (self.high_open and value == high)):
                return NEITHER
            return BOTH
        if value is ABSENT:
            return NEITHER
        if type(value) is float:
            return Reading(False, False, "not a finite number")
        return unreadable(value, "a number")


def check_bounds(low: Any, high: Any, opened: bool, example: str) -> None:
    """Raise a ValueError when nothing lies between two bounds, or there is none."""
    if low is None and high is None:
        raise ValueError(fix_message("a range without a bound is no condition", "give a bound", example))
    if low is not None and high is not None and (low > high or (low == high and opened)):
        raise ValueError(fix_message(f"nothing lies between {low} and {high}", "give the smaller bound first", example))


def bounds_text(bounds: Any, *, compared: bool = False) -> str:
    """Return the notation of bounds: ``100``, ``0..100``, ``0<..<100``, or ``<=100`` where there is only one.

    Args:
        bounds: An object with ``low``, ``high``, ``low_open`` and ``high_open``.
        compared: Whether to write a single bound as a comparison.
    """
    low, high = bounds.low, bounds.high
    if low is not None and high is not None and low == high:
        return written_bound(low)
    if compared and low is None:
        return f"<{'' if bounds.high_open else '='}{written_bound(high)}"
    if compared and high is None:
        return f">{'' if bounds.low_open else '='}{written_bound(low)}"
    start = "" if low is None else written_bound(low) + ("<" if bounds.low_open else "")
    end = "" if high is None else ("<" if bounds.high_open else "") + written_bound(high)
    return f"{start}..{end}"


def written_bound(bound: Any) -> str:
    """Return a bound as it is written."""
    return repr(bound) if isinstance(bound, int | float) else str(bound)


def _checked(bound: object) -> float:
    if isinstance(bound, bool) or not isinstance(bound, int | float):
        raise TypeError(fix_message(f"a bound of numbers is a number (got: {bound!r})", "give a number", _EXAMPLE))
    if not math.isfinite(bound):
        raise ValueError(fix_message(f"{bound!r} is no bound", "give a finite number, or leave it out", _EXAMPLE))
    if isinstance(bound, float) and bound.is_integer() and abs(bound) < 2**53:
        return int(bound)
    return bound
