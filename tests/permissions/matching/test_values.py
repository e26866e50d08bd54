"""Exact values, sets of values, opposites, and conditions on the elements of lists."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from agentperm_nb.json_values import freeze
from agentperm_nb.permissions.matching.fields import Presence
from agentperm_nb.permissions.matching.lists import AnyOf, EveryOf
from agentperm_nb.permissions.matching.mails import Mail
from agentperm_nb.permissions.matching.numbers import Numbers
from agentperm_nb.permissions.matching.reading import ABSENT, Matcher, Where
from agentperm_nb.permissions.matching.texts import Pattern, Text
from agentperm_nb.permissions.matching.values import Exact, Not, OneOf

WHERE = Where("/", "/people/ann", False)
YES, NO = True, False


def read(matcher: Matcher, value: Any) -> tuple[bool, bool, str]:
    reading = matcher.read(freeze(value), WHERE)
    return reading.wide, reading.narrow, reading.problem


@pytest.mark.parametrize(
    ("own", "value", "wide", "narrow"),
    [
        (True, True, YES, YES),
        (True, False, NO, NO),
        (False, False, YES, YES),
        (None, None, YES, YES),
        (None, "null", NO, NO),  # that it is not null can be read of anything
        (None, 0, NO, NO),
        (None, False, NO, NO),
        (None, [], NO, NO),
        ([1, 2], [1, 2], YES, YES),
        ([1, 2], [2, 1], NO, NO),
        ([1, 2], [1.0, 2], YES, NO),
        ([1], [True], NO, NO),
        (["a"], ["A"], YES, NO),
        (["a"], ["а"], YES, NO),  # a Cyrillic letter
        (["file1"], ["filel"], NO, NO),
        ([], [], YES, YES),
        ({"a": 1}, {"a": 1}, YES, YES),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, YES, YES),
        ({"a": 1}, {"A": 1}, YES, NO),
        ({"a": 1}, {"a": 1, "b": 2}, NO, NO),
        ("a*", "a*", YES, YES),
        ("a*", "ab", NO, NO),
        ("a*", "A*", YES, NO),
    ],
    ids=repr,
)
def test_a_value_is_itself(own: Any, value: Any, wide: bool, narrow: bool) -> None:
    assert read(Exact(own), value) == (wide, narrow, "")
    assert read(Not(Exact(own)), value) == (not narrow, not wide, "")


_VALUES: list[Any] = [None, True, False, 0, 1, 100, 1.5, "", "true", "null", "100", "1", [], [True], [1], {}, {"a": 1}]
_MATCHERS: list[tuple[Matcher, tuple[type, ...]]] = [
    (Exact(True), (bool,)),
    (Exact(False), (bool,)),
    (Exact([1, 2]), (list,)),
    (Exact({"a": 1}), (dict,)),
    (Exact("x"), (str,)),
    (Numbers(1, 1), (int, float)),
    (Numbers(0, 100), (int, float)),
    (Pattern("*"), (str,)),
    (Text("true"), (str,)),
    (Mail("@example.com"), (str,)),
]
WRONG = [(matcher, value) for matcher, types in _MATCHERS for value in _VALUES if type(value) not in types]


def test_there_are_many_wrong_types() -> None:
    assert len(WRONG) >= 100


@pytest.mark.parametrize(("matcher", "value"), WRONG, ids=lambda one: ascii(str(one)))
def test_a_value_of_the_wrong_type_cannot_be_read(matcher: Matcher, value: Any) -> None:
    for one in (matcher, Not(matcher), OneOf([matcher]), Not(OneOf([matcher]))):
        wide, narrow, problem = read(one, value)
        assert ", not " in problem
        assert (wide, narrow) == (True, False)


@pytest.mark.parametrize(
    ("members", "value", "wide", "narrow"),
    [
        (["r", "rb"], "r", YES, YES),
        (["r", "rb"], "R", YES, NO),
        (["r", "rb"], "w", NO, NO),
        (["r*", "x"], "rb", YES, YES),
        ([1, 2], 2, YES, YES),
        ([1, 2], 3, NO, NO),
        ([1, "1"], "1", YES, YES),
        ([1, "1"], 1, YES, YES),
        ([None, "a"], None, YES, YES),
        ([None, "a"], "b", NO, NO),
        ([True], True, YES, YES),
        ([Numbers(5, 10), 1], 7, YES, YES),
        ([Mail("@example.com"), Mail("@example.org")], "ann@example.org", YES, YES),
    ],
    ids=str,
)
def test_a_set_matches_when_a_member_does(members: list[Any], value: Any, wide: bool, narrow: bool) -> None:
    from agentperm_nb.permissions.arguments import matcher_of

    assert read(OneOf(map(matcher_of, members)), value) == (wide, narrow, "")
    assert read(Not(OneOf(map(matcher_of, members))), value) == (not narrow, not wide, "")


@pytest.mark.parametrize(
    ("members", "value"),
    [
        ([Exact(None), Pattern("a")], 5),
        ([Exact(None), Mail("@example.com")], "not an address"),
        ([Numbers(1, 1), Mail("@example.com")], "not an address"),
        ([Mail("@example.com"), Pattern("ann")], "bob"),  # it may be meant as an address
        ([Pattern("a"), Pattern("b")], None),
        ([Pattern("a"), Numbers(1, 1)], [1]),
    ],
    ids=str,
)
def test_a_set_can_be_read_when_its_members_of_that_type_can(members: list[Matcher], value: Any) -> None:
    wide, narrow, problem = read(OneOf(members), value)
    assert problem
    assert (wide, narrow) == (True, False)
    assert read(Not(OneOf(members)), value)[1] is False


def test_a_set_and_an_opposite_hold_conditions_on_single_values() -> None:
    with pytest.raises(ValueError, match="an empty set can match nothing"):
        OneOf([])
    for wrong in (OneOf([Pattern("a")]), Not(Pattern("a")), AnyOf(Pattern("a")), Presence(True)):
        with pytest.raises(TypeError, match="a set holds values and patterns"):
            OneOf([wrong])
    for wrong in (Not(Pattern("a")), EveryOf(Pattern("a")), Presence(False)):
        with pytest.raises(TypeError, match="! stands before values"):
            Not(wrong)
    for wrong in (AnyOf(Pattern("a")), EveryOf(Pattern("a")), Presence(True)):
        with pytest.raises(TypeError, match="any stands before a value"):
            AnyOf(wrong)


@pytest.mark.parametrize("value", [object(), {1, 2}, b"x", float("nan"), {"a": float("inf")}, {1: 2}, len], ids=repr)
def test_what_is_no_json_is_no_value(value: Any) -> None:
    with pytest.raises(TypeError, match="a condition cannot be made of"):
        Exact(value)


@pytest.mark.parametrize("value", [[object()], {1: 2, "a": 3}, [float("nan")], [{"a": b"x"}], ["\ud800"]], ids=ascii)
def test_a_value_that_holds_no_json_raises_nothing(value: Any) -> None:
    for own in ([1], {"a": 1}, ["é"], {"é": "а"}):
        assert Exact(own).read(freeze(value), WHERE).narrow is False


@pytest.mark.parametrize(
    ("matcher", "text"),
    [
        (Exact(True), "true"),
        (Exact(None), "null"),
        (Exact([1, "a", {"b": None}]), 'json([1, "a", {"b": null}])'),
        (Exact("a\u202eb"), 'json("a\\u202eb")'),
        (OneOf([Pattern("b"), Pattern("a"), Pattern("b")]), "{a, b}"),
        (OneOf([Pattern("1"), Numbers(1, 1)]), '{"1", 1}'),
        (Not(Pattern("a")), "!a"),
        (Not(Numbers(None, 5)), "!..5"),
        (Not(OneOf([Pattern("a")])), "!{a}"),
        (AnyOf(Not(Mail("@example.com"))), "any !@example.com"),
        (EveryOf(Numbers(None, 5)), "every <=5"),
        (Presence(True), "present"),
        (Presence(False), "absent"),
    ],
    ids=str,
)
def test_they_say_what_they_are(matcher: Matcher, text: str) -> None:
    assert str(matcher) == text
    again = pickle.loads(pickle.dumps(matcher))
    assert again == matcher
    assert again.read("a", WHERE) == matcher.read("a", WHERE)


class TestLists:
    @pytest.mark.parametrize(
        ("matcher", "value", "wide", "narrow"),
        [
            (AnyOf(Pattern("a")), ["b", "a"], YES, YES),
            (AnyOf(Pattern("a")), ["b", "A"], YES, NO),
            (AnyOf(Pattern("a")), ["b"], NO, NO),
            (AnyOf(Pattern("a")), [], NO, NO),
            (AnyOf(Not(Pattern("a"))), ["a", "b"], YES, YES),
            (AnyOf(Not(Pattern("a"))), ["a", "A"], YES, NO),
            (AnyOf(Not(Pattern("a"))), [], NO, NO),
            (EveryOf(Pattern("a")), ["a", "a"], YES, YES),
            (EveryOf(Pattern("a")), ["a", "A"], YES, NO),
            (EveryOf(Pattern("a")), ["a", "b"], NO, NO),
            (EveryOf(Pattern("a")), [], NO, NO),
            (EveryOf(Not(Pattern("a"))), ["b", "c"], YES, YES),
            (EveryOf(Not(Pattern("a"))), ["b", "A"], YES, NO),
            (EveryOf(Not(Pattern("a"))), ["b", "a"], NO, NO),
            (EveryOf(OneOf([Pattern("a"), Numbers(1, 1)])), ["a", 1], YES, YES),
        ],
        ids=str,
    )
    def test_any_element_or_every_one(self, matcher: Matcher, value: Any, wide: bool, narrow: bool) -> None:
        assert read(matcher, value) == (wide, narrow, "")

    @pytest.mark.parametrize("value", [["a", 5], [5, "a"], ["a", None], [["a"]], ["a", {}]], ids=repr)
    @pytest.mark.parametrize("kind", [AnyOf, EveryOf])
    def test_one_element_that_cannot_be_read_makes_the_list_unreadable(self, kind: Any, value: Any) -> None:
        wide, narrow, problem = read(kind(Pattern("a")), value)
        assert problem.startswith("element ")
        assert (wide, narrow) == (True, False)

    @pytest.mark.parametrize("value", ["a", 5, None, {}, True], ids=repr)
    @pytest.mark.parametrize("kind", [AnyOf, EveryOf])
    def test_what_is_no_list_cannot_be_read(self, kind: Any, value: Any) -> None:
        wide, narrow, problem = read(kind(Pattern("a")), value)
        assert problem.endswith("not a list")
        assert (wide, narrow) == (True, False)

    def test_what_was_left_out_has_no_elements(self) -> None:
        assert read(AnyOf(Not(Pattern("a"))), ABSENT) == (False, False, "")
        assert read(Not(Pattern("a")), ABSENT) == (True, False, "")  # one value, and nobody knows which
