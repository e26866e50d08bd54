"""Numbers: what lies between two bounds, and what is no number."""

from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentperm_nb.json_values import freeze
from agentperm_nb.permissions.matching.numbers import Numbers
from agentperm_nb.permissions.matching.reading import ABSENT, Where

WHERE = Where("/", "/people/ann", False)


@pytest.mark.parametrize(
    ("numbers", "value", "matches"),
    [
        (Numbers(0, 100), 0, True),
        (Numbers(0, 100), 100, True),
        (Numbers(0, 100), 100.0, True),
        (Numbers(0, 100), 99.999, True),
        (Numbers(0, 100), 100.00001, False),
        (Numbers(0, 100), -0.0, True),
        (Numbers(0, 100), -1, False),
        (Numbers(0, 100, low_open=True), 0, False),
        (Numbers(0, 100, low_open=True), 1e-300, True),
        (Numbers(0, 100, high_open=True), 100, False),
        (Numbers(0, 100, high_open=True), 99, True),
        (Numbers(None, 100), -(10**400), True),
        (Numbers(None, 100), 10**400, False),
        (Numbers(100, None), 10**400, True),
        (Numbers(100, None, low_open=True), 100, False),
        (Numbers(100, 100), 100, True),
        (Numbers(100, 100), 100.0, True),
        (Numbers(100, 100), 101, False),
        (Numbers(0.1, 0.1), 0.1, True),
        (Numbers(0.3, 0.3), 0.1 + 0.2, False),
        (Numbers(None, 2**53), 2**53 + 1, False),
        (Numbers(1e308, None), 1.7e308, True),
    ],
    ids=repr,
)
def test_a_number_matches_or_does_not_however_it_is_read(numbers: Numbers, value: float, matches: bool) -> None:
    reading = numbers.read(value, WHERE)
    assert (reading.wide, reading.narrow) == (matches, matches)


@pytest.mark.parametrize(
    "value",
    [
        None, True, False, "5", "5.0", " 5", "５", "five", "", "1e2", "0x5", "NaN", [], [5], {}, {"amount": 5}, b"5",
        math.nan, math.inf, -math.inf, 5j, object(),
    ],
    ids=ascii,
)  # fmt: skip
def test_what_is_no_number_cannot_be_read(value: Any) -> None:
    for numbers in (Numbers(0, 100), Numbers(5, 5), Numbers(None, 0)):
        reading = numbers.read(freeze(value), WHERE)
        assert reading.problem
        assert (reading.wide, reading.narrow) == (True, False)
        assert (reading.negated().wide, reading.negated().narrow) == (True, False)


def test_what_was_left_out_matches_nothing() -> None:
    assert not Numbers(0, 100).read(ABSENT, WHERE).wide


@pytest.mark.parametrize(
    ("low", "high", "error"),
    [
        (None, None, ValueError),
        (math.nan, 5, ValueError),
        (0, math.inf, ValueError),
        (-math.inf, 0, ValueError),
        (5, 4, ValueError),
        ("0", 5, TypeError),
        (True, 5, TypeError),
        (0, [5], TypeError),
    ],
    ids=repr,
)
def test_bounds_between_which_nothing_lies_are_refused(low: Any, high: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"[\s\S]*\nFix: [\s\S]*Example:"):
        Numbers(low, high)


def test_a_bound_that_is_left_out_needs_room_on_the_other_side() -> None:
    with pytest.raises(ValueError, match="nothing lies between 5 and 5"):
        Numbers(5, 5, low_open=True)


@pytest.mark.parametrize(
    ("numbers", "text", "ranged"),
    [
        (Numbers(0, 100), "0..100", "0..100"),
        (Numbers(0, 100, low_open=True, high_open=True), "0<..<100", "0<..<100"),
        (Numbers(None, 5), "<=5", "..5"),
        (Numbers(None, 5, high_open=True), "<5", "..<5"),
        (Numbers(-5, None), ">=-5", "-5.."),
        (Numbers(5, None, low_open=True), ">5", "5<.."),
        (Numbers(5, 5), "5", "5"),
        (Numbers(5.0, 5.0), "5", "5"),
        (Numbers(0.1, 1e300), "0.1..1e+300", "0.1..1e+300"),
    ],
)
def test_they_say_what_they_are(numbers: Numbers, text: str, ranged: str) -> None:
    assert (str(numbers), numbers.range_text) == (text, ranged)
    assert pickle.loads(pickle.dumps(numbers)) == numbers


_FINITE = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))


@given(low=_FINITE, high=_FINITE, value=_FINITE, low_open=st.booleans(), high_open=st.booleans())
def test_bounds_mean_what_python_means(low: float, high: float, value: float, low_open: bool, high_open: bool) -> None:
    try:
        numbers = Numbers(low, high, low_open=low_open, high_open=high_open)
    except ValueError:
        assert low > high or (low == high and (low_open or high_open))
        return
    expected = (low < value if low_open else low <= value) and (value < high if high_open else value <= high)
    assert numbers.read(value, WHERE).narrow is expected
