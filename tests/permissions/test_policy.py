"""Rules and policies by themselves: what they are made of, what they come to, and their denials as permissions."""

from __future__ import annotations

import copy
import functools
import gc
import json
import operator
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import numpy
import pandas
import pytest
import toolregistry.permissions as there
from hypothesis import given
from hypothesis import strategies as st

from agentperm_nb import (
    Agent,
    AllowByDefault,
    Allowed,
    ApprovalRequest,
    AsyncPermissionHandler,
    DecideByHuman,
    Denied,
    DenyPermission,
    PermissionHandler,
    PermissionPolicy,
    PermissionRequest,
    PermissionResult,
    PermissionRule,
    PermissionWarning,
    Tool,
    ToolCall,
    ToolError,
    ToolInputError,
    ToolMetadata,
    tool,
)
from agentperm_nb.permissions.policy import DenyByPolicy
from agentperm_nb.permissions.said import Said
from agentperm_nb.testing import tool_call

ALLOW, DENY, ASK = PermissionResult.ALLOW, PermissionResult.DENY, PermissionResult.ASK
TOOL = Tool("act", input_schema={"type": "object"}, function=lambda **args: "acted")


def always(tool: Tool, parameters: dict[str, Any]) -> bool:
    return True


def _load(path: str = "") -> str:
    """Load a file."""
    return path


def never(tool: Tool, parameters: dict[str, Any]) -> bool:
    return False


def large(tool: Tool, parameters: dict[str, Any]) -> bool:
    return bool(parameters["n"] > 2)


def returning(value: Any) -> PermissionRule:
    return PermissionRule("r", lambda tool, parameters: value, "deny")


def raising(error: BaseException, name: str = "r", result: str = "deny") -> PermissionRule:
    def match(tool: Tool, parameters: dict[str, Any]) -> bool:
        raise error

    return PermissionRule(name, match, result)


def three_parts(error: BaseException) -> bool:
    return "\nFix: " in str(error) and "\nExample:\n" in str(error)


class Text(str):
    """A str of one's own, which is equal to anything."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True


class Answers:
    def handle(self, request: PermissionRequest) -> PermissionResult:
        return DENY


class AnswersLater:
    async def handle(self, request: PermissionRequest) -> PermissionResult:
        return DENY


class TestResults:
    @pytest.mark.states("RP1.1")
    def test_there_are_three_which_are_texts(self) -> None:
        assert [(result.name, result.value) for result in PermissionResult] == [
            ("ALLOW", "allow"),
            ("DENY", "deny"),
            ("ASK", "ask"),
        ]
        for result, other in zip(PermissionResult, there.PermissionResult, strict=True):
            assert result == other.value == result.value
            assert PermissionResult(result.value) is result
            assert json.dumps(result) == json.dumps(other) == f'"{result.value}"'
            assert str(result) == f"{result}" == f"PermissionResult.{result.name}" == str(other)


class TestRequests:
    @pytest.mark.states("RP1.2")
    def test_only_the_name_of_the_tool_is_needed(self) -> None:
        with pytest.raises(TypeError):
            PermissionRequest()  # type: ignore[call-arg]  # that is what is tried
        one, other = PermissionRequest("act"), PermissionRequest("act")
        assert (one.parameters, one.reason, one.rule_name, one.metadata) == ({}, "", "", ToolMetadata())
        assert one.parameters is not other.parameters
        assert one.metadata is not other.metadata

    @pytest.mark.states("RP1.3")
    def test_it_is_made_by_place_or_by_name_and_dumped_as_a_dict(self) -> None:
        metadata = ToolMetadata(custom_tags=frozenset(["billing"]))
        by_place = PermissionRequest("act", {"n": 1}, "why", "rule", metadata)
        by_name = PermissionRequest(
            tool_name="act", parameters={"n": 1}, reason="why", rule_name="rule", metadata=metadata
        )
        assert by_place == by_name
        dumped = by_place.model_dump()
        assert (dumped["tool_name"], dumped["parameters"], dumped["reason"]) == ("act", {"n": 1}, "why")
        assert dumped["metadata"]["custom_tags"] == {"billing"}
        published = there.PermissionRequest("act", {"n": 1}).model_dump()
        assert published.keys() <= dumped.keys()

    def test_it_says_who_asks_for_what(self) -> None:
        now = datetime.now(UTC)
        who = {"call_key": "k", "call_id": "c", "run_id": "r", "session_id": "s", "user_id": "ann"}
        dumped = PermissionRequest("act", **who, agent_path=("main",), asked_at=now).model_dump()
        assert {name: dumped[name] for name in who} == who
        assert (dumped["agent_path"], dumped["asked_at"]) == (("main",), now)

    def test_its_parameters_are_a_copy_that_may_be_changed(self) -> None:
        call = tool_call("act", paths=["a"])
        request = PermissionRequest("act", call.args)
        request.parameters["paths"].append("b")
        request.parameters["more"] = 1
        assert call.args == {"paths": ["a"]}
        assert type(request.parameters) is dict
        assert type(request.parameters["paths"]) is list

    def test_its_repr_masks_what_is_secret(self) -> None:
        args = {"password": "hunter2 and more", "body": "of nobody", "n": 1}
        shown = repr(PermissionRequest("act", args, "why", "rule", secret=frozenset(["body"])))
        assert shown == (
            "PermissionRequest('act', {'password': '[masked]', 'body': '[masked]', 'n': 1}, reason='why', "
            "rule_name='rule')"
        )

    @pytest.mark.parametrize(
        "options",
        [{"tool_name": None}, {"parameters": [1]}, {"parameters": "{}"}, {"reason": 3}, {"metadata": {}}],
        ids=str,
    )
    def test_what_is_given_wrongly_is_an_error(self, options: dict[str, Any]) -> None:
        with pytest.raises(TypeError, match="of a PermissionRequest takes") as caught:
            PermissionRequest(**{"tool_name": "act", **options})
        assert three_parts(caught.value)

    def test_it_pickles(self) -> None:
        request = PermissionRequest("act", {"n": [1]}, metadata=TOOL.metadata, user_id="ann")
        assert pickle.loads(pickle.dumps(request)) == request


class TestHandlers:
    @pytest.mark.states("RP1.8")
    def test_isinstance_says_only_that_there_is_a_handle(self) -> None:
        for handler in (Answers(), AnswersLater()):
            assert isinstance(handler, PermissionHandler)
            assert isinstance(handler, AsyncPermissionHandler)
        assert not isinstance(object(), PermissionHandler)
        assert not isinstance(object(), AsyncPermissionHandler)

    @pytest.mark.parametrize("handler", [Answers(), AnswersLater(), mock.Mock(spec=Answers)], ids=repr)
    def test_a_policy_takes_an_object_with_handle(self, handler: Any) -> None:
        assert PermissionPolicy(handler=handler).handler is handler

    @pytest.mark.parametrize(
        ("handler", "fix"),
        [
            (lambda request: True, "make the function the method handle"),
            (print, "make the function the method handle"),
            (Answers, r"give an object of it: Answers\(\.\.\.\)"),
            (object(), "give an object with a method handle"),
            (DENY, "give an object with a method handle"),
            (mock.NonCallableMock(spec=["handle"], handle=3), "give an object with a method handle"),
            (mock.Mock(spec=["handle"], handle=lambda: True), "give an object with a method handle"),
            (mock.Mock(spec=["handle"], handle=lambda one, two: True), "give an object with a method handle"),
        ],
        ids=["lambda", "function", "class", "object", "result", "no-method", "no-argument", "two-arguments"],
    )
    def test_anything_else_is_an_error_with_the_fix(self, handler: Any, fix: str) -> None:
        policy = PermissionPolicy()
        for give in (lambda: PermissionPolicy(handler=handler), lambda: setattr(policy, "handler", handler)):
            with pytest.raises(TypeError, match=r"takes an object with handle\(request\)") as caught:
                give()
            assert re.search(f"Fix: {fix}", str(caught.value))
            assert three_parts(caught.value)
        assert policy.handler is None


NO_RESULTS: list[Any] = ["block", "Deny", "DENY", "deny ", "", Text("block"), None, True, False, 1, 0, [], ["deny"]]
NO_RESULTS += [b"deny", object(), PermissionResult, ToolMetadata(), mock.Mock(spec=DENY), mock.MagicMock(), pandas.NA]


class TestRules:
    @pytest.mark.states("RP1.3")
    def test_a_rule_is_made_by_place_or_by_name(self) -> None:
        by_place = PermissionRule("r", always, DENY, "why")
        assert by_place == PermissionRule(name="r", match=always, result=DENY, reason="why")
        assert (by_place.name, by_place.match, by_place.result, by_place.reason) == ("r", always, DENY, "why")
        assert PermissionRule("r", always, DENY).reason == ""
        assert repr(by_place) == "PermissionRule('r', deny)"

    @pytest.mark.parametrize("result", list(PermissionResult))
    def test_the_text_of_a_result_is_the_result(self, result: PermissionResult) -> None:
        theirs = there.PermissionResult(result.value)
        for given_as in (result, result.value, theirs, numpy.str_(result.value), Text(result.value)):
            assert PermissionRule("r", always, given_as).result is result

    @pytest.mark.parametrize(
        "result",
        NO_RESULTS,
        ids=lambda value: f"{type(value).__name__}-{value!s:.10}",
    )
    def test_anything_else_is_an_error(self, result: Any) -> None:
        for make in (
            lambda: PermissionRule("r", always, result),
            lambda: PermissionPolicy(fallback=result) if result is not None else PermissionRule("r", always, result),
        ):
            with pytest.raises(ValueError, match="is 'allow', 'deny' or 'ask'") as caught:
                make()
            assert three_parts(caught.value)

    @pytest.mark.parametrize(
        ("options", "error", "text"),
        [
            ({"name": ""}, ValueError, "has no name"),
            ({"name": " \n"}, ValueError, "has no name"),
            ({"name": None}, TypeError, "name= of a PermissionRule takes a text"),
            ({"reason": None}, TypeError, "reason= of a PermissionRule takes a text"),
            ({"reason": 3}, TypeError, "reason= of a PermissionRule takes a text"),
        ],
        ids=lambda value: str(value) if isinstance(value, dict) else None,
    )
    def test_a_rule_has_a_name_and_its_reason_is_a_text(
        self, options: dict[str, Any], error: type[Exception], text: str
    ) -> None:
        with pytest.raises(error, match=text) as caught:
            PermissionRule(**{"name": "r", "match": always, "result": "deny", **options})
        assert three_parts(caught.value)

    def test_a_rule_does_not_change(self) -> None:
        rule = PermissionRule("r", always, DENY)
        for name, value in [("result", ALLOW), ("match", never), ("name", "other")]:
            with pytest.raises(AttributeError):
                setattr(rule, name, value)
        assert rule == PermissionRule("r", always, DENY)


def test_a_class_of_rules_or_policies_cannot_decide_in_another_way() -> None:
    with pytest.raises(TypeError, match="Lax overrides matches of PermissionRule") as caught:
        type("Lax", (PermissionRule,), {"matches": always})
    assert three_parts(caught.value)
    with pytest.raises(TypeError, match="Own overrides evaluate of PermissionPolicy") as caught:
        type("Own", (PermissionPolicy,), {"evaluate": always})
    assert three_parts(caught.value)


def test_a_class_of_rules_of_its_own_is_a_rule() -> None:
    class Deny(PermissionRule):
        def __init__(self, word: str) -> None:
            super().__init__(f"deny_{word}", lambda tool, parameters: word in parameters, DENY)

    policy = PermissionPolicy([Deny("rm")], "allow")
    assert policy.evaluate(TOOL, {"rm": 1}) is policy.rules[0]
    assert policy.evaluate(TOOL, {}) is ALLOW


class Matcher:
    """An object that matches."""

    def __init__(self, answer: Any = True, other: Any = None) -> None:
        self.answer = answer

    def __call__(self, tool: Tool, parameters: dict[str, Any]) -> Any:
        return self.answer

    def matches(self, tool: Tool, parameters: dict[str, Any]) -> Any:
        return self.answer


class AsyncMatcher:
    async def __call__(self, tool: Tool, parameters: dict[str, Any]) -> bool:
        return True


class YieldingMatcher:
    def __call__(self, tool: Tool, parameters: dict[str, Any]) -> Any:
        yield True


async def async_match(tool: Tool, parameters: dict[str, Any]) -> bool:
    return True


def yielding_match(tool: Tool, parameters: dict[str, Any]) -> Any:
    yield True


async def async_yielding_match(tool: Tool, parameters: dict[str, Any]) -> Any:
    yield True


class TestMatchFunctions:
    @pytest.mark.parametrize(
        "match",
        [
            always,
            lambda t, p: True,
            lambda *args: True,
            lambda t, p, more=None: True,
            Matcher(),
            Matcher().matches,
            functools.partial(lambda word, t, p: True, "word"),
            mock.Mock(return_value=True),
            max,
            operator.contains,
        ],
        ids=["function", "lambda", "args", "default", "object", "method", "partial", "mock", "max", "operator"],
    )
    def test_what_takes_a_tool_and_a_dict_is_taken(self, match: Any) -> None:
        assert PermissionRule("r", match, "deny").match is match

    @pytest.mark.parametrize(
        ("match", "problem"),
        [
            (None, "is not a function"),
            (True, "is not a function"),
            ("rm_*", "is not a function"),
            (Matcher, "is the class Matcher, which makes an object of every call"),
            (dict, "is the class dict"),
            (bool, "is the class bool"),
            (async_match, "is async"),
            (functools.partial(async_match), "is async"),
            (AsyncMatcher(), "is async"),
            (yielding_match, "is a generator"),
            (functools.partial(yielding_match), "is a generator"),
            (async_yielding_match, "is a generator"),
            (YieldingMatcher(), "is a generator"),
            (lambda: True, "does not take exactly two arguments"),
            (lambda tool: True, "does not take exactly two arguments"),
            (lambda tool, parameters, state: True, "does not take exactly two arguments"),
            (lambda *, tool, parameters: True, "does not take exactly two arguments"),
        ],
        ids=lambda value: value if isinstance(value, str) else None,
    )
    def test_what_could_not_match_or_would_match_every_call_is_refused(self, match: Any, problem: str) -> None:
        with pytest.raises(TypeError, match=f"match= of the rule 'r' {problem}") as caught:
            PermissionRule("r", match, "allow")
        assert three_parts(caught.value)


TRUTHY = [True, 1, -1, 0.5, "yes", "no", [0], {"a": 1}, (None,), {1}, numpy.bool_(True), numpy.array([1]), object()]
TRUTHY += [re.match("a", "a"), ALLOW, Denied("no"), mock.NonCallableMock(), float("nan"), pandas.Series([True]).array]
FALSY = [False, 0, 0.0, "", [], {}, (), set(), None, numpy.bool_(False), numpy.array([0]), re.match("a", "b"), range(0)]


class Falsy:
    def __bool__(self) -> bool:
        return False


class Refuses:
    def __bool__(self) -> bool:
        raise ValueError("it is not clear")


class Awaitable:
    def __await__(self) -> Any:
        yield


async def coroutine() -> bool:
    return True


MISTAKES: list[tuple[str, Callable[[], Any]]] = [
    ("coroutine", coroutine),
    ("awaitable", Awaitable),
    ("async-generator", lambda: async_yielding_match(TOOL, {})),
    ("generator", lambda: yielding_match(TOOL, {})),
    ("generator-expression", lambda: (n for n in [])),
    ("filter", lambda: filter(None, [])),
    ("map", lambda: map(bool, [])),
    ("zip", lambda: zip([], [], strict=True)),
    ("iterator", lambda: iter([])),
    ("function", lambda: always),
    ("lambda", lambda: lambda: False),
    ("method", lambda: "text".startswith),
    ("class", lambda: bool),
    ("matcher", Matcher),
    ("tool", lambda: TOOL),
    ("mock", mock.Mock),
    ("magic-mock", mock.MagicMock),
    ("async-mock", mock.AsyncMock),
    ("partial", lambda: functools.partial(always)),
]


class TestMatching:
    @pytest.mark.parametrize("value", TRUTHY, ids=lambda value: f"{type(value).__name__}-{value!s:.10}")
    def test_any_true_value_counts(self, value: Any) -> None:
        assert returning(value).matches(TOOL, {}) is True

    @pytest.mark.parametrize("value", [*FALSY, Falsy()], ids=lambda value: f"{type(value).__name__}-{value!s:.10}")
    def test_any_false_value_is_no_match(self, value: Any) -> None:
        assert returning(value).matches(TOOL, {}) is False

    @pytest.mark.parametrize(
        "value",
        [Refuses(), numpy.array([1, 2]), pandas.Series([1, 2]), pandas.DataFrame(), pandas.NA],
        ids=lambda v: type(v).__name__,
    )
    def test_a_value_that_is_neither_is_an_error(self, value: Any) -> None:
        with pytest.raises((ValueError, TypeError)):
            returning(value).matches(TOOL, {})

    @pytest.mark.parametrize("make", [make for _, make in MISTAKES], ids=[name for name, _ in MISTAKES])
    def test_what_is_true_by_mistake_is_an_error(self, make: Callable[[], Any]) -> None:
        rule = PermissionRule("mistaken", lambda tool, parameters: make(), "allow")
        with pytest.raises(TypeError, match=r"match of the rule 'mistaken' .*, which is true of every call") as caught:
            rule.matches(TOOL, {})
        assert three_parts(caught.value)
        gc.collect()  # a coroutine that was never awaited would warn, which is an error here

    def test_match_gets_the_tool_and_a_copy_of_the_arguments(self) -> None:
        given_to: list[Any] = []

        def match(tool: Tool, parameters: dict[str, Any]) -> bool:
            given_to.append((tool, copy.deepcopy(parameters)))
            parameters["paths"].append("/etc")
            parameters["more"] = True
            del parameters["n"]
            return False

        call = tool_call("act", paths=["a"], n=1)
        arguments = {"paths": ["a"], "n": 1}
        policy = PermissionPolicy([PermissionRule(name, match, "deny") for name in ("one", "two")], "allow")
        for parameters in (call.args, arguments):
            assert policy.evaluate(TOOL, parameters) is ALLOW
            assert parameters == {"paths": ["a"], "n": 1}
        assert given_to == [(TOOL, {"paths": ["a"], "n": 1})] * 4

    @pytest.mark.parametrize("parameters", [None, [], "{}", 3], ids=repr)
    def test_arguments_that_are_no_dict_are_an_error(self, parameters: Any) -> None:
        with pytest.raises(TypeError, match="the arguments for the rule 'r' are not a dict"):
            PermissionRule("r", never, "allow").matches(TOOL, parameters)


class TestPolicies:
    @pytest.mark.states("RP1.3", "RP1.7")
    def test_a_policy_is_made_by_place_or_by_name(self) -> None:
        rule, handler = PermissionRule("r", always, DENY), Answers()
        for policy in (
            PermissionPolicy([rule], ASK, handler),
            PermissionPolicy(rules=[rule], fallback=ASK, handler=handler),
        ):
            assert (policy.rules, policy.fallback, policy.handler) == ([rule], ASK, handler)
        empty = PermissionPolicy()
        assert (empty.rules, empty.fallback, empty.handler, empty.name) == ([], DENY, None, "policy")

    @pytest.mark.states("RP1.7")
    def test_every_policy_has_a_list_of_its_own(self) -> None:
        one, other = PermissionPolicy(), PermissionPolicy()
        one.rules.append(PermissionRule("r", always, ALLOW))
        assert (one.evaluate(TOOL, {}), other.evaluate(TOOL, {})) == (one.rules[0], DENY)

    @pytest.mark.states("RP1.7")
    def test_a_list_that_is_given_is_kept_so_that_what_is_added_to_it_counts(self) -> None:
        rules = [PermissionRule("allow", always, ALLOW)]
        policy = PermissionPolicy(rules)
        assert policy.evaluate(TOOL, {}) is rules[0]
        rules.insert(0, PermissionRule("deny", always, DENY))
        assert policy.evaluate(TOOL, {}) is rules[0]
        assert policy.rules is rules

    @pytest.mark.parametrize("rules", [(), iter(()), {}.values(), frozenset()], ids=lambda value: type(value).__name__)
    def test_any_other_listing_becomes_a_list(self, rules: Any) -> None:
        assert PermissionPolicy(rules).rules == []

    @pytest.mark.states("RP2.3")
    @pytest.mark.parametrize("fallback", [*PermissionResult, None])
    def test_an_empty_policy_says_its_fallback(self, fallback: PermissionResult | None) -> None:
        assert PermissionPolicy(fallback=fallback).evaluate(TOOL, {}) is fallback
        assert PermissionPolicy().evaluate(TOOL, {}) is DENY

    @pytest.mark.parametrize("fallback", list(PermissionResult))
    def test_a_fallback_may_be_a_text_and_may_be_assigned(self, fallback: PermissionResult) -> None:
        policy = PermissionPolicy([], fallback.value)
        assert policy.fallback is fallback
        policy.fallback = None
        assert policy.evaluate(TOOL, {}) is None
        policy.fallback = fallback.value
        assert policy.evaluate(TOOL, {}) is fallback

    @pytest.mark.states("RP2.1")
    def test_the_first_rule_that_matches_is_returned_itself(self) -> None:
        rules = [
            PermissionRule("never", never, ALLOW),
            PermissionRule("large", large, DENY),
            PermissionRule("always", always, ASK),
            PermissionRule("hidden", always, ALLOW),
        ]
        policy = PermissionPolicy(rules)
        assert policy.evaluate(TOOL, {"n": 3}) is rules[1]
        assert policy.evaluate(TOOL, {"n": 1}) is rules[2]

    @pytest.mark.states("RP2.1")
    def test_rules_after_the_one_that_matches_are_not_asked(self) -> None:
        policy = PermissionPolicy([PermissionRule("always", always, ALLOW), raising(AssertionError("asked"))])
        assert policy.evaluate(TOOL, {}) is policy.rules[0]

    @pytest.mark.parametrize("error", [KeyError("path"), ValueError(), ToolError("no"), StopIteration()], ids=repr)
    def test_what_a_rule_raises_goes_to_whoever_evaluates(self, error: Exception) -> None:
        with pytest.raises(type(error)) as caught:
            PermissionPolicy([raising(error), PermissionRule("always", always, ALLOW)]).evaluate(TOOL, {})
        assert caught.value is error

    JUNK: tuple[Any, ...] = (
        None,
        "deny_rm",
        always,
        PermissionRule,
        there.PermissionRule("r", always, there.PermissionResult.ALLOW),
        mock.Mock(spec=PermissionRule),
        PermissionPolicy(),
    )

    @pytest.mark.parametrize("junk", JUNK, ids=lambda value: type(value).__name__)
    def test_what_is_no_rule_is_found_when_it_is_given_and_when_it_is_come_to(self, junk: Any) -> None:
        with pytest.raises(TypeError, match="among the rules of a PermissionPolicy is not a PermissionRule") as caught:
            PermissionPolicy([junk])
        assert three_parts(caught.value)
        policy = PermissionPolicy([PermissionRule("large", large, DENY)], "allow")
        policy.rules.append(junk)
        assert policy.evaluate(TOOL, {"n": 3}) is policy.rules[0]
        with pytest.raises(TypeError, match="is not a PermissionRule"):
            policy.evaluate(TOOL, {"n": 1})

    @pytest.mark.parametrize(
        "given",
        [
            _load,
            tool(_load),
            tool(read_only=False)(_load),
            ({"name": "_load", "input_schema": {"type": "object"}}, _load),
            mock.Mock(as_tool=lambda: tool(_load)),
            functools.wraps(_load)(lambda **args: None),
        ],
        ids=["a function", "a tool", "a tool with hints", "a pair", "an object with as_tool", "another function"],
    )
    def test_it_evaluates_calls_of_whatever_stands_for_a_tool(self, given: Any) -> None:
        rule = PermissionRule("load", lambda tool, parameters: tool.name == "_load" and tool.hints is not None, ASK)
        assert PermissionPolicy([rule]).evaluate(given, {"path": "a.csv"}) is rule

    @pytest.mark.parametrize("given", ["_load", None, 3, dict, {"name": "_load"}], ids=repr)
    def test_what_stands_for_no_tool_is_an_error(self, given: Any) -> None:
        with pytest.raises(TypeError, match=r"in policy\.evaluate\(\) is not a tool") as caught:
            PermissionPolicy([PermissionRule("all", always, DENY)]).evaluate(given, {})
        assert three_parts(caught.value)

    @pytest.mark.parametrize("rules", [None, 3, "rules", {"r": 1}, PermissionRule("r", always, DENY)], ids=repr)
    def test_rules_are_a_list(self, rules: Any) -> None:
        policy = PermissionPolicy()
        for give in (lambda: PermissionPolicy(rules), lambda: setattr(policy, "rules", rules)):
            with pytest.raises(TypeError, match="PermissionPolicy takes a list of rules") as caught:
                give()
            assert three_parts(caught.value)
        assert policy.rules == []

    @pytest.mark.parametrize(("name", "error"), [(3, TypeError), ("", ValueError), (" ", ValueError)])
    def test_its_name_is_a_text(self, name: Any, error: type[Exception]) -> None:
        with pytest.raises(error, match="name= of a PermissionPolicy") as caught:
            PermissionPolicy(name=name)
        assert three_parts(caught.value)

    def test_its_repr_is_short(self) -> None:
        rule = PermissionRule("r", always, DENY)
        assert repr(PermissionPolicy([rule] * 3)) == "PermissionPolicy(3 rules, fallback=deny)"
        assert repr(PermissionPolicy([rule], None)) == "PermissionPolicy(1 rule, fallback=None)"
        assert repr(PermissionPolicy(name="files")) == "PermissionPolicy(0 rules, fallback=deny, name='files')"


def _names(tool: Tool, parameters: dict[str, Any]) -> bool:
    return tool.name in ("one", "two")


def _has_a(tool: Tool, parameters: dict[str, Any]) -> bool:
    return "a" in parameters


def _a_is_large(tool: Tool, parameters: dict[str, Any]) -> Any:
    return parameters.get("a", 0) > 1


def _words(tool: Tool, parameters: dict[str, Any]) -> Any:
    return [word for word in ("b", "c") if word in parameters]


PREDICATES: dict[str, tuple[Any, Callable[[str, dict[str, Any]], bool]]] = {
    "always": (always, lambda name, args: True),
    "never": (never, lambda name, args: False),
    "names": (_names, lambda name, args: name in ("one", "two")),
    "has_a": (_has_a, lambda name, args: "a" in args),
    "large": (_a_is_large, lambda name, args: args.get("a", 0) > 1),
    "words": (_words, lambda name, args: bool({"b", "c"} & args.keys())),
}
"""A rule's function, and what it says in other words."""

RULES = st.lists(st.tuples(st.sampled_from(sorted(PREDICATES)), st.sampled_from(["allow", "deny", "ask"])), max_size=6)
CALLS = st.tuples(
    st.sampled_from(["one", "two", "three"]), st.dictionaries(st.sampled_from("abc"), st.integers(0, 3), max_size=3)
)
NAMED = {name: Tool(name, input_schema={"type": "object"}, function=print) for name in ("one", "two", "three")}


def reference(rules: list[tuple[str, str]], fallback: str, name: str, args: dict[str, Any]) -> tuple[int | None, str]:
    """What the published text says: rules in order, the first that matches decides, otherwise the fallback."""
    for place, (predicate, result) in enumerate(rules):
        if PREDICATES[predicate][1](name, args):
            return place, result
    return None, fallback


@pytest.mark.law
@pytest.mark.states("RP2.1", "RP2.3")
@given(rules=RULES, fallback=st.sampled_from(["allow", "deny", "ask"]), call=CALLS)
def test_a_policy_decides_as_its_published_text_says_and_as_the_package_there(
    rules: list[tuple[str, str]], fallback: str, call: tuple[str, dict[str, int]]
) -> None:
    name, args = call
    place, result = reference(rules, fallback, name, args)
    made = [PermissionRule(f"r{n}", PREDICATES[predicate][0], said) for n, (predicate, said) in enumerate(rules)]
    policy = PermissionPolicy(made, fallback)
    outcome = policy.evaluate(NAMED[name], args)
    assert outcome is (PermissionResult(fallback) if place is None else made[place])
    published = there.PermissionPolicy(
        [
            there.PermissionRule(f"r{n}", PREDICATES[predicate][0], there.PermissionResult(said))
            for n, (predicate, said) in enumerate(rules)
        ],
        there.PermissionResult(fallback),
    ).evaluate(NAMED[name], dict(args))  # type: ignore[arg-type]  # a tool of ours has what the rules look at
    assert (published.name, published.result) == (f"r{place}", result) if place is not None else published == fallback
    said = denies_say(policy, ToolCall(name, args), NAMED[name])
    assert (said is not None) == (place is not None and result == "deny")
    assert said is None or (said.rule is outcome and said.part == f"r{place}")


def denies_say(policy: PermissionPolicy, call: ToolCall, tool: Tool = TOOL) -> Any:
    """What the denies of a policy say of a call."""
    (deny,) = policy.denies()
    return deny.check(None, call, tool)


FAILED = "The call could not be decided: files: broken failed"


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class TestDenies:
    def test_it_is_one_permission_named_like_the_policy(self) -> None:
        rules = [PermissionRule("large", large, DENY), PermissionRule("rest", always, DENY)]
        (deny,) = PermissionPolicy(rules, name="files").denies()
        assert isinstance(deny, DenyPermission)
        assert deny.name == "files denies"
        assert repr(deny) == "DenyByPolicy(PermissionPolicy(2 rules, fallback=deny, name='files'))"

    def test_it_denies_by_the_rule_that_the_policy_comes_to(self) -> None:
        rules = [
            PermissionRule("small", lambda tool, parameters: parameters["n"] == 1, ALLOW),
            PermissionRule("large", large, DENY, " too large "),
            PermissionRule("rest", always, DENY),
        ]
        policy = PermissionPolicy(rules, "allow")
        assert denies_say(policy, tool_call("act", n=1)) is None
        for n, rule, reason in ((2, rules[2], "act is denied by the rule rest."), (3, rules[1], "too large")):
            said = denies_say(policy, tool_call("act", n=n))
            assert (said.verdict, said.part, said.rule) == (Denied(reason), rule.name, rule)

    def test_a_denial_by_fallback_is_none_of_its(self) -> None:
        assert denies_say(PermissionPolicy([PermissionRule("ask", never, ASK)], "deny"), tool_call("act")) is None
        assert denies_say(PermissionPolicy(), tool_call("act")) is None

    def test_it_goes_by_the_rules_as_they_are_when_a_call_is_decided(self) -> None:
        policy = PermissionPolicy(fallback="allow")
        agent = Agent([TOOL], permissions=[AllowByDefault(), policy, *policy.denies()])

        def decided_by() -> str | None:
            return agent.use_tools([tool_call("act", n=3)]).results[0].decided_by

        assert decided_by() == "AllowByDefault()"
        policy.rules.append(PermissionRule("all", always, DENY))
        assert decided_by() == "policy denies: all"
        policy.rules[0] = PermissionRule("all", always, DENY, "No: ask the owner.")  # a better reason
        assert decided_by() == "policy denies: all"
        policy.rules.insert(0, PermissionRule("freeze", large, DENY))
        assert decided_by() == "policy denies: freeze"
        policy.rules.insert(0, PermissionRule("first", always, ASK))
        assert decided_by() == "AllowByDefault()"
        policy.rules = [PermissionRule("other", always, "deny")]
        assert decided_by() == "policy denies: other"
        policy.rules.clear()
        assert decided_by() == "AllowByDefault()"

    @pytest.mark.parametrize(
        ("error", "text"),
        [
            (KeyError("path"), f"{FAILED} (KeyError: 'path')."),
            (ValueError(), f"{FAILED} (ValueError)."),
            (ToolInputError("bad"), f"{FAILED} (ToolInputError: bad)."),
            (StopIteration("x"), f"{FAILED} (StopIteration: x)."),
            (RecursionError(), f"{FAILED} (RecursionError)."),
            (MuteError(), f"{FAILED} (MuteError)."),
        ],
        ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
    )
    @pytest.mark.parametrize("result", ["allow", "deny"])
    def test_a_rule_that_raises_before_or_in_it_denies_the_call_as_in_the_policy(
        self, error: Exception, text: str, result: str
    ) -> None:
        rules = [raising(error, "broken", result), PermissionRule("all", always, DENY)]
        policy = PermissionPolicy(rules, "allow", name="files")
        for permissions, by in (
            ([AllowByDefault(), *policy.denies()], "files denies: broken"),
            (policy, "files: broken"),
        ):
            agent = Agent([TOOL], permissions=permissions)
            with pytest.warns(PermissionWarning, match="files: broken raised "):
                (said,) = agent.use_tools([tool_call("act")]).results
            assert (said.verdict, said.content, said.decided_by) == ("denied", text, by)

    def test_a_tool_error_of_a_rule_denies_with_its_message_and_without_a_warning(self) -> None:
        policy = PermissionPolicy([raising(ToolError("ask the owner"), "broken", "deny")])
        (said,) = Agent([TOOL], permissions=[*policy.denies(), AllowByDefault()]).use_tools([tool_call("act")]).results
        assert (said.verdict, said.content, said.decided_by) == ("denied", "ask the owner", "policy denies: broken")

    def test_a_rule_that_raises_after_the_last_that_denies_is_not_asked(self) -> None:
        policy = PermissionPolicy([PermissionRule("large", large, DENY), raising(KeyError(), "later", "ask")])
        assert denies_say(policy, tool_call("act", n=1)) is None
        policy.rules.append(PermissionRule("never", never, DENY))
        assert denies_say(policy, tool_call("act", n=1)).part == "later"

    @pytest.mark.parametrize("place", [0, 1], ids=["before a rule that denies", "after it"])
    def test_junk_among_the_rules_denies_the_call_that_comes_to_it(self, place: int) -> None:
        policy = PermissionPolicy([PermissionRule("large", large, DENY)])
        agent = Agent([TOOL], permissions=[*policy.denies(), AllowByDefault()])
        policy.rules.insert(place, mock.Mock(spec=PermissionRule))
        with pytest.warns(PermissionWarning, match="policy raised TypeError"):
            (said,) = agent.use_tools([tool_call("act", n=1)]).results
        assert (said.verdict, said.decided_by) == ("denied", "policy denies")

    def test_an_interrupt_is_none_of_these(self) -> None:
        with pytest.raises(KeyboardInterrupt):
            denies_say(PermissionPolicy([raising(KeyboardInterrupt())]), tool_call("act"))

    def test_an_allow_before_the_policy_hides_its_denials_and_not_those_given_as_permissions(self) -> None:
        policy = PermissionPolicy([PermissionRule("all", always, DENY, "no")])
        hidden = Agent([TOOL], permissions=[AllowByDefault(), policy])
        assert hidden.use_tools([tool_call("act")]).results[0].content == "acted"
        agent = Agent([TOOL], permissions=[AllowByDefault(), policy, *policy.denies()])
        result = agent.use_tools([tool_call("act")]).results[0]
        assert (result.verdict, result.content, result.decided_by) == ("denied", "no", "policy denies: all")
        assert agent.explain("act").decided_by == "policy denies: all"
        assert agent.audit.calls()["decided_by"].tolist() == ["policy denies: all"]

    def test_a_rule_that_is_added_while_a_question_waits_denies_the_call(self) -> None:
        policy = PermissionPolicy()

        def answer(request: ApprovalRequest) -> bool:
            policy.rules.append(PermissionRule("all", always, DENY, "too late"))
            return True

        agent = Agent([TOOL], permissions=[*policy.denies(), DecideByHuman()], approval_handler=answer)
        (said,) = agent.use_tools([tool_call("act")]).results
        assert (said.verdict, said.content, said.decided_by) == ("denied", "too late", "policy denies: all")

    def test_the_denies_of_two_policies_are_told_apart(self) -> None:
        one, other = PermissionPolicy(), PermissionPolicy([PermissionRule("all", always, DENY)])
        agent = Agent([TOOL], permissions=[*one.denies(), *other.denies(), AllowByDefault()])
        assert agent.explain("act").decided_by == "policy denies #2: all"

    def test_the_log_holds_the_rules_that_deny(self) -> None:
        policy = PermissionPolicy(
            [PermissionRule("ask", large, ASK), PermissionRule("all", always, DENY)], name="files"
        )
        agent = Agent([TOOL], permissions=[*policy.denies(), *PermissionPolicy().denies()])
        (made,) = [event for event in agent.audit.events() if event.kind == "policy"]
        assert made.data["permissions"] == ["files denies: all -> deny", "policy denies"]

    def test_it_can_never_allow(self) -> None:
        class Generous(DenyByPolicy):
            def check(self, state: Any, call: ToolCall, tool: Tool) -> Any:
                return Said(Allowed(), "all")

        with pytest.raises(TypeError, match="may return only Denied"):
            Agent([TOOL], permissions=[Generous(PermissionPolicy())]).use_tools([tool_call("act")])


@pytest.mark.parametrize("name", there.__all__)
def test_what_is_published_of_rule_tables_can_be_imported_from_permissions_too(name: str) -> None:
    code = (
        f"from agentperm_nb.permissions import {name} as one; import agentperm_nb, agentperm_nb.permissions as here\n"
        f"assert one is agentperm_nb.{name} and {name!r} in dir(here) and not hasattr(here, 'PermissionSlip')"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class OwnPolicy(PermissionPolicy):
    """A policy of one's own class."""


class TestPickling:
    def test_a_policy_of_functions_at_the_top_of_a_module_pickles(self) -> None:
        policy = PermissionPolicy([PermissionRule("large", large, DENY, "too large")], ASK, Holds(), name="files")
        again, denies = pickle.loads(pickle.dumps((policy, policy.denies())))
        assert again.rules == policy.rules
        assert (again.fallback, again.name, type(again.handler)) == (ASK, "files", Holds)
        assert again.evaluate(TOOL, {"n": 3}) is again.rules[0]
        assert denies[0].check(None, tool_call("act", n=3), TOOL).verdict == Denied("too large")
        assert isinstance(denies[0], DenyByPolicy)
        assert denies[0].policy is again

    def test_a_lambda_is_named_as_what_is_in_the_way(self) -> None:
        rule = PermissionRule("r", lambda tool, parameters: True, DENY)
        for thing in (rule, PermissionPolicy([rule]), PermissionPolicy([rule]).denies()):
            with pytest.raises(pickle.PicklingError, match="cannot be pickled because of its attribute") as caught:
                pickle.dumps(thing)
            assert three_parts(caught.value)

    @pytest.mark.parametrize("kind", [PermissionPolicy, OwnPolicy])
    @pytest.mark.parametrize(
        "again",
        [copy.copy, copy.deepcopy, lambda policy: pickle.loads(pickle.dumps(policy))],
        ids=["copy", "deepcopy", "pickle"],
    )
    def test_a_copy_has_a_list_of_rules_of_its_own(
        self, again: Callable[[Any], Any], kind: type[PermissionPolicy]
    ) -> None:
        policy = kind([PermissionRule("large", large, DENY)], ASK, Holds(), name="files")
        policy.note = "kept"  # type: ignore[attr-defined]  # whatever else somebody puts there
        other = again(policy)
        assert (type(other), repr(other), other.rules, other.note) == (kind, repr(policy), policy.rules, "kept")
        assert type(other.handler) is Holds
        other.rules.clear()
        other.fallback = "allow"
        assert (len(policy.rules), policy.fallback) == (1, ASK)
        policy.rules.append(PermissionRule("all", always, DENY))
        assert other.evaluate(TOOL, {"n": 3}) is ALLOW

    def test_denies_that_are_copied_with_their_policy_go_by_the_copy(self) -> None:
        policy = PermissionPolicy()
        other, deny = copy.deepcopy([policy, *policy.denies()])
        other.rules.append(PermissionRule("all", always, DENY))
        assert deny.check(None, tool_call("act"), TOOL).part == "all"
        assert denies_say(policy, tool_call("act")) is None


class Holds(Answers):
    """A handler that pickles."""


def test_a_decorated_function_may_be_looked_at_by_a_rule() -> None:
    @tool(custom_tags=["billing"])
    def invoice(order: str) -> str:
        """Write an invoice."""
        return order

    rule = PermissionRule("billing", lambda tool, parameters: "billing" in tool.metadata.custom_tags, "ask")
    assert PermissionPolicy([rule], "allow").evaluate(invoice, {}) is rule
