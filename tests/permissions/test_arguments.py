"""Rules on arguments: what a deny, an ask and an allow make of a call, and what they say."""

from __future__ import annotations

import json
import pickle
import re
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from argument_tools import OPEN, TOOL

from agentperm_nb import (
    Agent,
    AllowByArguments,
    AllowByDefault,
    AskByArguments,
    DenyByArguments,
    Tool,
    arg,
    rule,
)
from agentperm_nb.permissions.arguments import ArgumentRule, matcher_of
from agentperm_nb.permissions.deciding import PermissionList, decide
from agentperm_nb.permissions.matching.reading import Matcher
from agentperm_nb.permissions.rule_index import RuleIndex
from agentperm_nb.permissions.verdicts import Allowed, Ask, Denied
from agentperm_nb.testing import tool_call

KINDS = [DenyByArguments, AllowByArguments, AskByArguments]
PAGE = Path(__file__).parents[2] / "docs" / "rules-on-arguments.md"


def says(text: str, args: dict[str, Any], tool: Tool = TOOL) -> tuple[bool, bool]:
    """Return whether a deny of these conditions denies, and an allow of them allows; an ask asks when a deny denies."""
    call = tool_call("send", **args)
    denied = rule(f"deny send({text})").check(None, call, tool)
    asked = rule(f"ask send({text})").check(None, call, tool)
    allowed = rule(f"allow send({text})").check(None, call, tool)
    assert (asked is not None) == (denied is not None)
    assert isinstance(denied, Denied | None)
    assert isinstance(asked, Ask | None)
    assert isinstance(allowed, Allowed | None)
    if denied is not None:
        assert isinstance(asked, Ask)
        assert ("could not be read" in denied.reason) == ("could not be read" in asked.reason)
        assert allowed is None or "could not be read" not in denied.reason
    return denied is not None, allowed is not None


YES, NO = True, False


@pytest.mark.parametrize(
    ("text", "args", "denied", "allowed"),
    [
        # one condition
        ("subject=hello", {"subject": "hello"}, YES, YES),
        ("subject=hello", {"subject": "HELLO"}, YES, NO),
        ("subject=hello", {"subject": "bye"}, NO, NO),
        ("subject!=hello", {"subject": "bye"}, YES, YES),
        ("subject!=hello", {"subject": "HELLO"}, YES, NO),
        ("subject!=hello", {"subject": "hello"}, NO, NO),
        ("amount<=100", {"amount": 100}, YES, YES),
        ("amount<=100", {"amount": 100.5}, NO, NO),
        ("0<amount<=100", {"amount": 0}, NO, NO),
        ("urgent=true", {"urgent": True}, YES, YES),
        ("urgent=true", {"urgent": False}, NO, NO),
        ("mode in {r, rb}", {"mode": "rb"}, YES, YES),
        ("mode not in {r, rb}", {"mode": "w"}, YES, YES),
        # all of several have to hold
        ("subject=hello, amount>5", {"subject": "hello", "amount": 6}, YES, YES),
        ("subject=hello, amount>5", {"subject": "hello", "amount": 5}, NO, NO),
        ("subject=hello, amount>5", {"subject": "HELLO", "amount": 6}, YES, NO),
        ("subject=hello, amount>5", {"subject": "hello", "amount": "6"}, YES, NO),
        ("subject=hello, amount>5", {"subject": "bye", "amount": "6"}, NO, NO),  # however the amount is meant
        # what was left out
        ("note=secret", {}, NO, NO),
        ("note!=secret", {}, YES, YES),  # null, by the schema
        ("urgent=true", {}, NO, NO),
        ("urgent!=true", {}, YES, NO),  # nobody knows what it will be
        ("mode=r", {}, YES, YES),  # by the schema
        ("mode=w", {}, NO, NO),
        ("mode!=w", {}, YES, YES),
        ("to=@example.com", {}, NO, NO),
        ("to!=@example.com", {}, NO, NO),  # there is no element
        ("cc!=@example.com", {}, NO, NO),
        ("meta.owner=ann", {}, NO, NO),
        ("meta.owner!=ann", {}, YES, NO),
        ("meta.owner=ann", {"meta": {}}, NO, NO),
        ("items[*].price<5", {}, NO, NO),
        # null
        ("note=secret", {"note": None}, NO, NO),
        ("note!=secret", {"note": None}, YES, YES),
        ("note=null", {"note": None}, YES, YES),
        ("note=null", {"note": "x"}, NO, NO),
        ("note=null", {}, YES, YES),
        ("note!=null", {"note": None}, NO, NO),
        ("note in {null, ok}", {"note": None}, YES, YES),
        ("note in {ok, fine}", {"note": None}, NO, NO),
        ("subject=hello", {"subject": None}, YES, NO),  # the schema has no place for it there
        ("subject!=hello", {"subject": None}, YES, NO),
        ("cc=any !@example.com", {"cc": None}, NO, NO),
        ("cc=every @example.com", {"cc": None}, NO, NO),
        ("cc!=@example.com", {"cc": None}, NO, NO),
        ("cc!=null", {"cc": []}, YES, YES),
        ("cc=null", {"cc": None}, YES, YES),
        # presence
        ("note present", {"note": "x"}, YES, YES),
        ("note present", {"note": None}, NO, NO),
        ("note present", {}, NO, NO),
        ("note absent", {}, YES, YES),
        ("note absent", {"note": None}, YES, YES),
        ("note absent", {"note": ""}, NO, NO),
        ("mode absent", {}, YES, YES),  # what the call says, not what the tool does then
        ("mode present", {}, NO, NO),
        ("urgent absent", {"urgent": None}, YES, NO),  # not a value that it may have
        ("meta.owner present", {"meta": {"owner": "ann"}}, YES, YES),
        ("meta.owner absent", {"meta": {}}, YES, YES),
        ("meta.owner absent", {}, YES, YES),
        ("meta.owner absent", {"meta": "ann"}, YES, NO),
        ("items[*].price present", {"items": [{"price": 1}, {}]}, YES, NO),
        ("items[*].price absent", {"items": [{"price": 1}, {}]}, YES, NO),
        ("items[*].price present", {"items": []}, NO, NO),
        # lists: any for a deny, every for an allow, unless the rule says it
        ("to=@example.com", {"to": ["a@example.com", "b@evil.net"]}, YES, NO),
        ("to=@example.com", {"to": ["a@example.com", "b@example.com"]}, YES, YES),
        ("to=@example.com", {"to": ["a@evil.net"]}, NO, NO),
        ("to=@example.com", {"to": []}, NO, NO),
        ("to!=@example.com", {"to": ["a@example.com", "b@evil.net"]}, YES, NO),
        ("to!=@example.com", {"to": ["a@example.com"]}, NO, NO),
        ("to!=@example.com", {"to": ["a@evil.net"]}, YES, YES),
        ("to=any @example.com", {"to": ["a@example.com", "b@evil.net"]}, YES, YES),
        ("to=any !@example.com", {"to": ["a@example.com", "b@evil.net"]}, YES, YES),
        ("to=any !@example.com", {"to": ["a@example.com"]}, NO, NO),
        ("to=every @example.com", {"to": ["a@example.com", "b@evil.net"]}, NO, NO),
        ("to=every @example.com", {"to": ["a@example.com"]}, YES, YES),
        ("to=every @example.com", {"to": []}, NO, NO),
        ("to=every !@example.com", {"to": ["a@evil.net", "b@evil.net"]}, YES, YES),
        ("to=@example.com", {"to": ["a@example.com", "not an address"]}, YES, NO),
        ("to=@evil.net", {"to": ["a@example.com", 5]}, YES, NO),
        ("to[*]=@example.com", {"to": ["a@example.com", "b@evil.net"]}, YES, NO),
        ("to[*]=any @example.com", {"to": ["a@example.com", "b@evil.net"]}, YES, YES),
        ("to=json([\"a\"])", {"to": ["a"]}, YES, YES),
        ("to=json([\"a\"])", {"to": ["a", "b"]}, NO, NO),
        ("labels=x", {"labels": ["x", None]}, YES, NO),
        ("labels=x", {"labels": ["y", None]}, NO, NO),
        ("labels!=x", {"labels": ["y", None]}, YES, YES),
        # one value where a list could stand
        ("one_or_many=a", {"one_or_many": "a"}, YES, YES),
        ("one_or_many=any a", {"one_or_many": "a"}, YES, YES),
        ("one_or_many=every a", {"one_or_many": ["a", "a"]}, YES, YES),
        ("one_or_many=every a", {"one_or_many": "b"}, NO, NO),
        ("to=any @evil.net", {"to": "a@example.com"}, YES, NO),  # the tool takes lists only
        ("subject=any a", {"subject": "b"}, YES, NO),
        ("subject=hello", {"subject": ["bye"]}, YES, NO),  # and here it takes none
        ("any=any a", {"any": "b"}, YES, NO),
        ("any=a", {"any": "a"}, YES, YES),
        ("any=a", {"any": ["a", "b"]}, YES, NO),
        ("any=a", {"any": [["a"], ["a"]]}, YES, YES),
        # fields
        ("meta.owner=ann", {"meta": {"owner": "ann"}}, YES, YES),
        ("meta.owner=ann", {"meta": {"owner": "bob"}}, NO, NO),
        ("meta.owner=ann", {"meta": {"owner": 5}}, YES, NO),
        ("meta.owner=ann", {"meta": "ann"}, YES, NO),
        ("meta.owner=ann", {"meta": ["ann"]}, YES, NO),
        ("meta.owner=ann", {"meta": None}, YES, NO),
        ("items[*].price<=5", {"items": [{"price": 5}, {"price": 6}]}, YES, NO),
        ("items[*].price<=5", {"items": [{"price": 5}, {"price": 4}]}, YES, YES),
        ("items[*].price<=5", {"items": [{"price": 6}]}, NO, NO),
        ("items[*].price<=5", {"items": []}, NO, NO),
        ("items[*].price<=5", {"items": [{"price": 6}, {}]}, NO, NO),
        ("items[*].price<=5", {"items": [{"price": 5}, {}]}, YES, NO),
        ("items[*].price<=5", {"items": [{"price": "5"}]}, YES, NO),
        ("items[*].price<=5", {"items": [5]}, YES, NO),
        ("items[*].price<=5", {"items": {"price": 5}}, YES, NO),
        ("items[*].price=every <=5", {"items": [{"price": 5}, {"price": 6}]}, NO, NO),
        ("items[*].price=any >5", {"items": [{"price": 5}, {"price": 6}]}, YES, YES),
        # what the tool does not have
        ("subjct=hello", {"subject": "hello"}, YES, NO),
        ("subjct!=hello", {"subject": "hello"}, YES, NO),
        ("subjct absent", {"subject": "hello"}, YES, NO),
        ("subjct=hello", {"subject": "x", "subjct": "hello"}, YES, NO),
        ("meta.ownr=ann", {"meta": {"owner": "bob"}}, YES, NO),
        ("subjct=hello, amount>5", {"subject": "hello", "amount": 5}, NO, NO),
    ],
    ids=str,
)  # fmt: skip
def test_denies_and_asks_read_wide_and_allows_narrow(
    text: str, args: dict[str, Any], denied: bool, allowed: bool
) -> None:
    assert says(text, args) == (denied, allowed)


@pytest.mark.parametrize("value", [None, True, 5, 5.5, [], [5], {}, {"a": 1}, [None], [[5]], float("nan")], ids=repr)
@pytest.mark.parametrize("text", ["subject=*", "subject!=*", "subject in {a, b}", "subject not in {a}",
"subject=@a.com",
                                  "subject>=2026-01-01", "subject=text(*)"])  # fmt: skip
def test_a_value_of_the_wrong_type_is_never_allowed_and_always_denied(text: str, value: Any) -> None:
    assert says(text, {"subject": value}) == (True, False)
    if value not in ([], [None]):
        assert says(text, {"subject": value}, OPEN) == (True, False)


@pytest.mark.parametrize("value", [None, True, False, "5", "", "NaN", [], {}, float("nan"), float("inf")], ids=repr)
@pytest.mark.parametrize("text", ["amount<=100", "amount>100", "amount=5", "amount!=5", "amount in {1, 5..10}"])
def test_what_is_no_number_is_never_allowed_by_a_rule_on_numbers(text: str, value: Any) -> None:
    assert says(text, {"amount": value}) == (True, False)


@pytest.mark.parametrize(
    "text", ["any=a", "any!=a", "any=any a", "any=json([[1]])", 'any=json({"a": {"a": 1}})', "any[*]=a"]
)
def test_what_is_nested_too_deeply_raises_nothing(text: str) -> None:
    depth = 0
    lists: Any = "a"
    objects: Any = 1
    while True:
        depth, lists, objects = depth + 1, [lists], {"a": objects}
        if depth % 20 == 0:
            try:
                made = [tool_call("send", any=lists), tool_call("send", any=objects)]
            except ValueError:  # no call is nested so deeply
                break
            for call in made:
                rule(f"deny send({text})").check(None, call, TOOL)
                rule(f"allow send({text})").check(None, call, TOOL)
    assert depth > 200


# --- what they say ----------------------------------------------------------------------------------------------------


class TestWords:
    def test_a_reason_names_the_rule_and_what_could_not_be_read(self) -> None:
        call = tool_call("send", subject="secret thing", amount="lots")
        deny = rule("deny send(subject=secret*, amount>5)")
        assert deny.check(None, call, TOOL) == Denied(
            "send(subject=…, amount=…) is not allowed by deny send(subject=secret*, amount>5) "
            "(amount could not be read: a text, not a number)"
        )
        assert rule("deny send").check(None, call, TOOL) == Denied("send is not allowed by deny send")
        assert rule("ask send(subject=secret*)").check(None, call, TOOL) == Ask(
            "send(subject=…) is asked about by ask send(subject=secret*)"
        )
        assert rule("allow send(subject=secret*)").check(None, call, TOOL) == Allowed()

    def test_a_reason_of_ones_own_stays_and_says_what_could_not_be_read(self) -> None:
        deny = rule('deny send(amount>5) because "too much"')
        assert deny.check(None, tool_call("send", amount=6), TOOL) == Denied("too much")
        assert deny.check(None, tool_call("send", amount=None), TOOL) == Denied(
            "too much (amount could not be read: null, not a number)"
        )

    def test_no_value_stands_in_a_reason(self) -> None:
        for args in ({"subject": "hunter2"}, {"subject": ["hunter2"]}, {"subject": {"hunter2": 1}}):
            for text in ("subject=*", "subject=@a.com", "subject>=2026-01-01", "subject=any x", "subject.x=1"):
                verdict = rule(f"deny send({text})").check(None, tool_call("send", **args), TOOL)
                assert verdict is not None
                assert "hunter2" not in verdict.reason

    @pytest.mark.parametrize("kind", KINDS)
    def test_the_reason_and_the_name_are_texts(self, kind: Any) -> None:
        with pytest.raises(TypeError, match=rf"{kind.__name__} takes a reason string"):
            kind("send", reason=5)
        with pytest.raises(ValueError, match=rf"{kind.__name__} got an empty reason"):
            kind("send", reason=" ")
        with pytest.raises(TypeError, match="name= is a string"):
            kind("send", name=5)
        with pytest.raises(TypeError, match="takes the name of a tool"):
            kind(["send"])

    def test_they_are_called_by_what_they_say_or_by_their_name(self) -> None:
        listed = PermissionList(
            [rule("deny send"), rule('deny send because "no"'), rule("deny send", name="no mail"), AllowByDefault()]
        )
        assert listed.names == ("deny send #1", "deny send #2", "no mail", "AllowByDefault()")
        assert repr(rule('deny send because "no"')) == "rule('deny send because \"no\"')"
        agent = Agent([Tool("send", function=lambda: None)], permissions=["deny send"])
        assert agent.use_tools([tool_call("send")]).results[0].decided_by == "deny send"
        assert agent.permissions == (rule("deny send"),)

    def test_a_rule_shows_how_it_reads_a_call(self) -> None:
        deny = rule("deny send(subject=sеcret*, amount>5, to=any @evil.net, meta.owner=ann)")
        call = tool_call("send", subject="SECRET", amount="6", to=["a@example.com"])
        assert deny.reading_of(call, TOOL) == [
            ("subject", '"SECRET"', True, ""),
            ("amount", '"6"', True, "a text, not a number"),
            ("to", '["a@example.com"]', False, ""),
            ("meta.owner", "left out", False, ""),
        ]
        assert deny.reading_of(tool_call("other", subject="SECRET"), TOOL) == []
        (row,) = rule("allow send(when<=2026-12-31)").reading_of(
            tool_call("send", when="2027-01-01T00:30:00+02:00"), OPEN
        )
        assert row.read_as == '"2027-01-01T00:30:00+02:00" | 2026-12-31 | 2027-01-01'
        assert row.matches is False


class TestProblems:
    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("subject<=5", "subject of send is string, and <=5 can never be that"),
            ("amount=abc", "amount of send is number, and abc can never be that"),
            ('amount="5"', 'amount of send is number, and "5" can never be that'),
            ("urgent=1", "urgent of send is boolean, and 1 can never be that"),
            ("subject=true", "subject of send is string, and true can never be that"),
            ("subject=null", "subject of send is string, and null can never be that"),
            ("subject=any x", "subject of send is string, and no list that any x could be of"),
            ("to=5", "to of send is string, and 5 can never be that"),
            ("to=any 5", "to of send is string, and 5 can never be that"),
            ("subject[*]=x", "subject of send is no list"),
            ("subject absent", "subject of send cannot be left out"),
            ("amount in {a, true}", "amount of send is number, and {a, true} can never be that"),
            ("items[*].price=abc", "items[*].price of send is number, and abc can never be that"),
        ],
    )
    def test_a_condition_that_the_schema_rules_out_is_told(self, text: str, problem: str) -> None:
        for verb in ("deny", "ask", "allow"):
            made = rule(f"{verb} send({text})")
            assert made.problems_with(TOOL) == [problem]
            with pytest.raises(ValueError, match=re.escape(problem)):
                made.check_tools([TOOL])
            assert made.problems_with(Tool("other", function=lambda: None)) == []

    @pytest.mark.parametrize(
        "text",
        ["subject=x", "amount>5", "to=@example.com", "to=any x", "cc=null", "cc=x", "note=null", "one_or_many=any x",
         "meta.owner=x", "items[*].price>5", "any=5", "any=any x", "labels=any null", "mode in {x, 5}", "note absent",
         'to=json(["a"])', "amount!=5", "subject>=2026-01-01"],
    )  # fmt: skip
    def test_what_can_match_is_no_problem(self, text: str) -> None:
        assert rule(f"deny send({text})").problems_with(TOOL) == []

    def test_a_value_that_the_schema_does_not_list_is_told(self) -> None:
        schema = {"type": "object", "properties": {"mode": {"enum": ["r", "w"]}, "on": {"type": "boolean"}}}
        tool = Tool("send", "", schema, function=lambda **args: None)
        assert rule("deny send(mode=x)").problems_with(tool) == [
            "mode of send has only 2 possible values, and x is none"
        ]
        assert rule("deny send(mode=R)").problems_with(tool) == []
        assert rule("allow send(mode=R)").problems_with(tool) != []
        assert rule("allow send(mode=*)").problems_with(tool) == []
        assert rule("deny send(mode!=r)").problems_with(tool) == []
        assert rule("deny send(on=true)").problems_with(tool) == []


class TestPython:
    @pytest.mark.parametrize(
        ("made", "text"),
        [
            (DenyByArguments("send"), "deny send"),
            (DenyByArguments("send", subject="a*"), "deny send(subject=a*)"),
            (
                AllowByArguments("send", amount=5, urgent=True, note=None),
                "allow send(amount=5, urgent=true, note=null)",
            ),
            (AskByArguments("send", to=arg.any_of("!@example.com")), "ask send(to=any !@example.com)"),
            (DenyByArguments("send", mode={"w", "a"}), "deny send(mode in {a, w})"),
            (DenyByArguments("send", mode=arg.not_({"r", "rb"})), "deny send(mode not in {r, rb})"),
            (DenyByArguments("send", subject="!a*"), "deny send(subject!=a*)"),
            (DenyByArguments("send", subject="!"), 'deny send(subject="!")'),
            (DenyByArguments("send", subject="@"), 'deny send(subject="@")'),
            (DenyByArguments("send", subject="100"), 'deny send(subject="100")'),
            (DenyByArguments("send", to=["a", "b"]), 'deny send(to=json(["a", "b"]))'),
            (DenyByArguments("send", to=arg.every_of("@example.com")), "deny send(to=every @example.com)"),
            (DenyByArguments("send", amount=arg.between(0, 100)), "deny send(0<=amount<=100)"),
            (DenyByArguments("send", amount=arg.above(5)), "deny send(amount>5)"),
            (DenyByArguments("send", amount=arg.at_least(5)), "deny send(amount>=5)"),
            (DenyByArguments("send", amount=arg.below(5)), "deny send(amount<5)"),
            (DenyByArguments("send", amount=arg.at_most(5)), "deny send(amount<=5)"),
            (DenyByArguments("send", amount=arg.not_(arg.at_most(5))), "deny send(amount!=..5)"),
            (DenyByArguments("send", amount=arg.one_of(1, arg.above(5))), "deny send(amount in {1, >5})"),
            (DenyByArguments("send", day=date(2026, 1, 31)), "deny send(day=2026-01-31)"),
            (DenyByArguments("send", day=arg.at_most("2026-01-31")), "deny send(day<=2026-01-31)"),
            (DenyByArguments("send", at=arg.above(datetime(2026, 1, 31, 8))), "deny send(at>2026-01-31T08:00:00)"),
            (DenyByArguments("send", note=arg.present, cc=arg.absent), "deny send(note present, cc absent)"),
            (DenyByArguments("send", note=arg.text("a*")), "deny send(note=text(a*))"),
            (DenyByArguments("send", note=arg.path("a/**")), "deny send(note=path(a/**))"),
            (DenyByArguments("send", note=arg.mail("ann@example.com")), "deny send(note=mail(ann@example.com))"),
            (DenyByArguments("send", note=arg.exactly("a*")), 'deny send(note=json("a*"))'),
            (DenyByArguments("send", note=arg.exactly(5)), "deny send(note=5)"),
            (DenyByArguments("send", arguments={"items[*].price": arg.above(5)}), "deny send(items[*].price>5)"),
            (DenyByArguments("send", arguments={"reason": "x", "name": "y"}), "deny send(reason=x, name=y)"),
            (DenyByArguments("send", arguments=[("x", 1), ("x", 2)]), "deny send(x=1, x=2)"),
            (DenyByArguments("send", tool="x", state=1), "deny send(tool=x, state=1)"),
            (DenyByArguments("send", reason="no"), 'deny send because "no"'),
        ],
        ids=str,
    )
    def test_what_is_made_in_python_is_what_the_notation_says(self, made: ArgumentRule, text: str) -> None:
        assert str(made) == text
        assert rule(text) == made
        assert hash(rule(text)) == hash(made)
        again = pickle.loads(pickle.dumps(made))
        assert again == made
        assert again.name == made.name
        call = tool_call("send", subject="abc", amount=6, to=["x@evil.net"], mode="w", note=None)
        assert again.check(None, call, OPEN) == made.check(None, call, OPEN)

    @pytest.mark.parametrize("value", [object(), b"x", 5j, float("nan"), {5: 6}, {"a", 5j}, len], ids=repr)
    def test_what_is_no_condition_is_refused(self, value: Any) -> None:
        with pytest.raises((TypeError, ValueError), match="Fix: "):
            DenyByArguments("send", subject=value)

    @pytest.mark.parametrize("value", [set(), frozenset(), "[", "a\\", "@bücher.de", "!@"], ids=repr)
    def test_what_can_match_nothing_is_refused(self, value: Any) -> None:
        if value == "!@":
            assert str(DenyByArguments("send", subject=value)) == 'deny send(subject!="@")'
            return
        with pytest.raises(ValueError, match="Fix: "):
            DenyByArguments("send", subject=value)

    @pytest.mark.parametrize("given", ["x", 5, [("a",)], [("a", 1, 2)], ["ab"]], ids=repr)
    def test_arguments_are_a_dict(self, given: Any) -> None:
        with pytest.raises(TypeError, match="arguments= takes a dict"):
            DenyByArguments("send", arguments=given)
        with pytest.raises(ValueError, match="names no argument"):
            DenyByArguments("send", arguments={"a[0]": 5})

    @pytest.mark.parametrize(
        "make",
        [
            lambda: arg.between(None, None),
            lambda: arg.between("2026-01-01", 5),
            lambda: arg.at_most(True),
            lambda: arg.at_least(None),
            lambda: arg.above([5]),
        ],
    )
    def test_bounds_are_numbers_or_dates(self, make: Any) -> None:
        with pytest.raises(TypeError, match="takes numbers, or dates"):
            make()

    def test_a_condition_is_kept_as_it_is(self) -> None:
        given = arg.between(0, 5)
        assert matcher_of(given) is given
        assert isinstance(given, Matcher)

    def test_rules_of_other_words_are_others(self) -> None:
        different = [rule(text) for text in ("deny a", "ask a", "allow a", "deny b", "deny a(x=1)", 'deny a(x="1")')]
        assert len(set(different)) == len(different)
        assert rule("deny a") != rule('deny a because "x"')
        assert rule("deny a") == rule("deny a", name="x")
        assert rule("deny a") != "deny a"

    def test_a_rule_cannot_be_changed(self) -> None:
        made: Any = rule("deny a(x=1)")
        for attribute in ("tool", "conditions", "reason"):
            with pytest.raises(AttributeError):
                setattr(made, attribute, None)

    def test_a_subclass_with_a_check_of_its_own_is_asked_about_every_call(self) -> None:
        class Strict(DenyByArguments):
            def check(self, state: Any, call: Any, tool: Any) -> Denied | None:
                return Denied("strict")

        tool = Tool("other", function=lambda: None)
        permissions = PermissionList(
            [Strict("send"), *(Strict(f"x{number}") for number in range(20)), AllowByDefault()]
        )
        assert decide(permissions, None, tool_call("other"), tool).verdict == Denied("strict")

    def test_a_rule_is_asked_only_about_the_tools_that_it_names(self) -> None:
        permissions = PermissionList(["deny a", "deny b(x=1)", "deny [AB]", "allow b", "allow B", AllowByDefault()])
        asked = [str(permission) for permission, _, _ in permissions.plan("b").entries]
        assert asked == ["deny b(x=1)", "deny [AB]", "allow b", "AllowByDefault()"]

    def test_servers_are_named_by_a_pattern(self) -> None:
        deny = rule("deny files__*(path=text(/etc/*))")
        tool = Tool("files__read", function=lambda path: path)
        assert deny.check(None, tool_call("files__read", path="/etc/passwd"), tool) is not None
        assert deny.check(None, tool_call("files__read", path="notes"), tool) is None
        assert deny.check(None, tool_call("web__read", path="/etc/passwd"), tool) is None


# --- the page ---------------------------------------------------------------------------------------------------------


def tables() -> list[tuple[str, str, bool, bool]]:
    """Return the rows of the tables of the page that say what becomes of a value: condition, value, denied, allowed."""
    rows = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 4 and cells[2] in ("yes", "no") and cells[3] in ("yes", "no"):
            condition, value = (cell.strip("`").replace("\\|", "|") for cell in cells[:2])
            rows.append((condition, value, cells[2] == "yes", cells[3] == "yes"))
    return rows


def test_the_page_has_tables() -> None:
    assert len(tables()) >= 60


@pytest.mark.parametrize(("condition", "value", "denied", "allowed"), tables(), ids=lambda one: ascii(one))
def test_a_row_of_the_page_holds(condition: str, value: str, denied: bool, allowed: bool) -> None:
    args = json.loads(value)
    call = tool_call("order", **args)
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "command": {"type": "string"},
            "amount": {"type": "number"},
            "day": {"type": "string"},
            "to": {"type": "array", "items": {"type": "string"}},
            "mode": {"type": "string"},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "limit": {"type": "integer", "default": 10},
            "urgent": {"type": "boolean"},
            "meta": {"type": "object", "properties": {"owner": {"type": "string"}}},
            "items": {"type": "array", "items": {"type": "object", "properties": {"price": {"type": "number"}}}},
        },
    }
    tool = Tool("order", "", schema, function=lambda **args: None)
    assert (rule(f"deny order({condition})").check(None, call, tool) is not None) is denied
    assert (rule(f"allow order({condition})").check(None, call, tool) is not None) is allowed


def rows_of(head: str) -> list[list[str]]:
    """Return the cells of the rows of a table of the page, each as the list of what stands in it as code."""
    lines = iter(PAGE.read_text(encoding="utf-8").splitlines())
    rows: list[list[str]] = []
    for line in lines:
        if line.startswith(f"| {head}"):
            next(lines)
            for row in lines:
                if not row.startswith("|"):
                    return rows
                rows.append(row.strip("| ").split(" | "))
    return rows


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def test_what_the_page_writes_is_notation() -> None:
    written = [text for row in rows_of("written") for text in code(row[0])]
    assert len(written) >= 25
    for text in written:
        made = rule(text if text.startswith("deny ") else f"deny f({text})")
        assert rule(str(made)) == made


def test_what_the_page_makes_in_python_is_what_it_writes() -> None:
    rows = [(code(row[0]), code(row[1])) for row in rows_of("`arg.`")]
    assert len(rows) >= 6
    for made, written in rows:
        assert len(made) == len(written)
        for call, text in zip(made, written, strict=True):
            assert DenyByArguments("f", x=eval(f"arg.{call}")) == rule(f"deny f({text})")


OWNED = Tool(
    "send",
    "",
    {"type": "object", "properties": {"owner": {"type": "string"}, "subject": {}}, "additionalProperties": True},
    function=lambda **args: None,
)


@pytest.mark.parametrize("name", ["Price", "PRICE", "\uff50rice", "\u0440rice", "pri\u200bce"], ids=ascii)
@pytest.mark.parametrize("tool", [TOOL, OPEN], ids=["declared", "open"])
def test_a_field_of_an_element_cannot_be_hidden_by_another_spelling_of_its_name(tool: Tool, name: str) -> None:
    args = {"subject": "x", "items": [{"price": 1, name: 6}]}
    assert says("items[*].price>5", args, tool) == (YES, NO)
    assert says("items[*].price=every 6", args, tool) == (YES, NO)
    assert says("items[*].price=every 7", args, tool) == (NO, NO)
    assert says("items[*].price<=9", args, tool) == (YES, NO)


@pytest.mark.parametrize("name", ["Owner", "OWNER", "\uff4fwner", "\u043ewner", "own\u200ber"], ids=ascii)
@pytest.mark.parametrize("tool", [TOOL, OPEN], ids=["declared", "open"])
class TestOtherSpellingsOfNames:
    """A call cannot hide a field from a deny, or from an ask, by spelling its name otherwise."""

    @pytest.mark.parametrize("beside", [{}, {"owner": "bob"}], ids=["alone", "beside it"])
    def test_a_value(self, tool: Tool, name: str, beside: dict[str, Any]) -> None:
        meta = {"subject": "x", "meta": {**beside, name: "ann"}}
        assert says("meta.owner=ann", meta, tool) == (YES, NO)
        assert says("meta.owner=eve", meta, tool) == (NO, NO)
        assert says("meta.owner!=eve", meta, tool) == (YES, NO)
        assert says("meta.owner present", meta, tool) == (YES, NO)
        assert says("meta.owner absent", meta, tool) == (not beside, NO)

    def test_the_argument(self, tool: Tool, name: str) -> None:
        tool = OWNED if tool is TOOL else tool
        for args in ({name: "ann"}, {name: "ann", "owner": "bob"}):
            assert says("owner=ann", args, tool) == (YES, NO)
            assert says("owner present", args, tool) == (YES, NO)
            assert says("owner!=eve", args, tool) == (YES, NO)

    def test_among_many_rules(self, tool: Tool, name: str) -> None:
        tool = OWNED if tool is TOOL else tool
        rules = [rule(f"deny send(owner=ann{number})") for number in range(100)]
        rules += [rule("deny send(owner=ann)"), rule("deny send(subject=delete)"), rule("allow send")]
        for args in ({"owner": "bob", name: "ann"}, {"subject": "del\0ete"}, {"subject": " delete\n"}):
            index = RuleIndex(tuple((permission, str(permission), None) for permission in rules))
            found = index.candidates(tool_call("send", **args), tool)
            said = [permission.check(None, tool_call("send", **args), tool) for permission, _, _ in found]
            assert any(isinstance(one, Denied) for one in said)
        assert len(index.candidates(tool_call("send", owner="bob"), tool)) < 10


def test_an_allow_says_why_it_reads_no_field_beside_another_spelling() -> None:
    call = tool_call("send", subject="x", meta={"Owner": "ann"})
    allow = rule("allow send(meta.owner absent)")
    assert isinstance(allow, ArgumentRule)
    assert [row.problem for row in allow.reading_of(call, TOOL)] == ["a key that looks like owner"]
