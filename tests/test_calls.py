"""A tool call never changes, and its digest tells every call from every other."""

from __future__ import annotations

import copy
import json
import operator
import pickle
from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentperm_nb.calls import ToolCall, format_call
from agentperm_nb.json_values import FrozenDict, FrozenList, canonical_json, digest, freeze, same_json, thaw

DICT_CHANGES: dict[str, Callable[[Any], object]] = {
    "d[k] = v": lambda d: operator.setitem(d, "a", 1),
    "del d[k]": lambda d: operator.delitem(d, "a"),
    "d |= {}": lambda d: operator.ior(d, {"b": 1}),
    "clear": lambda d: d.clear(),
    "pop": lambda d: d.pop("a"),
    "pop with default": lambda d: d.pop("nothing", None),
    "popitem": lambda d: d.popitem(),
    "setdefault": lambda d: d.setdefault("b", 1),
    "update": lambda d: d.update(b=1),
}
LIST_CHANGES: dict[str, Callable[[Any], object]] = {
    "x[i] = v": lambda x: operator.setitem(x, 0, 1),
    "x[:] = v": lambda x: operator.setitem(x, slice(None), [1]),
    "del x[i]": lambda x: operator.delitem(x, 0),
    "del x[:]": lambda x: operator.delitem(x, slice(None)),
    "x += []": lambda x: operator.iadd(x, [1]),
    "x *= 2": lambda x: operator.imul(x, 2),
    "append": lambda x: x.append(1),
    "clear": lambda x: x.clear(),
    "extend": lambda x: x.extend([1]),
    "insert": lambda x: x.insert(0, 1),
    "pop": lambda x: x.pop(),
    "remove": lambda x: x.remove("a"),
    "reverse": lambda x: x.reverse(),
    "sort": lambda x: x.sort(),
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.states("S1")
@pytest.mark.parametrize("change", DICT_CHANGES.values(), ids=DICT_CHANGES.keys())
@pytest.mark.parametrize("where", ["top", "in a dict", "in a list", "in a tuple"])
def test_a_dict_in_a_call_cannot_be_changed_at_any_level(change: Callable[[Any], object], where: str) -> None:
    call = ToolCall("t", {"a": 1, "d": {"a": 1}, "l": [{"a": 1}], "t": ({"a": 1},)})
    target = {
        "top": call.args,
        "in a dict": call.args["d"],
        "in a list": call.args["l"][0],
        "in a tuple": call.args["t"][0],
    }[where]
    before = thaw(call.args)
    with pytest.raises(TypeError, match=r"cannot be changed[\s\S]*Fix: work on a copy[\s\S]*Example:"):
        change(target)
    assert call.args == before


@pytest.mark.states("S1")
@pytest.mark.parametrize("change", LIST_CHANGES.values(), ids=LIST_CHANGES.keys())
@pytest.mark.parametrize("where", ["in a dict", "in a list", "from a tuple"])
def test_a_list_in_a_call_cannot_be_changed_at_any_level(change: Callable[[Any], object], where: str) -> None:
    call = ToolCall("t", {"l": ["a"], "ll": [["a"]], "t": ("a",)})
    target = {"in a dict": call.args["l"], "in a list": call.args["ll"][0], "from a tuple": call.args["t"]}[where]
    with pytest.raises(TypeError, match="cannot be changed"):
        change(target)
    assert call.args == {"l": ["a"], "ll": [["a"]], "t": ["a"]}


def test_every_method_that_changes_a_dict_or_a_list_is_refused() -> None:
    for frozen, plain in ((FrozenDict, dict), (FrozenList, list)):
        same = {name for name in dir(plain) if getattr(frozen, name) is getattr(plain, name)}
        assert not same & {
            "__setitem__", "__delitem__", "__ior__", "__iadd__", "__imul__", "append", "clear", "extend", "insert",
            "pop", "popitem", "remove", "reverse", "setdefault", "sort", "update",
        }  # fmt: skip


def test_what_the_caller_changes_afterwards_does_not_reach_the_call() -> None:
    args: dict[str, Any] = {"amount": 100, "to": {"name": "ada"}, "tags": ["a"]}
    call = ToolCall("transfer", args)
    args["amount"] = 50
    args["to"]["name"] = "eve"
    args["tags"].append("b")
    assert call.args == {"amount": 100, "to": {"name": "ada"}, "tags": ["a"]}


def test_thawed_arguments_are_plain_and_of_their_own() -> None:
    call = ToolCall("t", {"d": {"l": [1, {"x": 2}]}})
    plain = thaw(call.args)
    assert type(plain) is dict
    assert type(plain["d"]) is dict
    assert type(plain["d"]["l"]) is list
    assert type(plain["d"]["l"][1]) is dict
    plain["d"]["l"][1]["x"] = 3
    assert call.args["d"]["l"][1]["x"] == 2


@pytest.mark.states("S1")
@pytest.mark.parametrize(
    "mapping",
    [{"a": [1]}, OrderedDict(a=[1]), MappingProxyType({"a": [1]}), FrozenDict(a=[1])],
    ids=["dict", "OrderedDict", "MappingProxyType", "FrozenDict"],
)
def test_any_mapping_becomes_a_frozen_dict(mapping: Mapping[str, Any]) -> None:
    call = ToolCall("t", mapping)
    assert type(call.args) is FrozenDict
    assert type(call.args["a"]) is FrozenList


def test_frozen_arguments_read_like_a_dict_and_a_list() -> None:
    args = ToolCall("t", {"a": 1, "l": [2, 1]}).args
    assert isinstance(args, dict)
    assert isinstance(args["l"], list)
    assert {**args} == {"a": 1, "l": [2, 1]}
    assert sorted(args["l"]) == [1, 2]
    assert args["l"] + [3] == [2, 1, 3]
    assert list(args) == ["a", "l"]
    assert repr(args) == "{'a': 1, 'l': [2, 1]}"


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_call_survives_pickling_and_stays_frozen(protocol: int) -> None:
    call = ToolCall("t", {"d": {"l": [1, {"x": None}]}, "s": "ä\ud800"}, "id-1", "not JSON")
    again = pickle.loads(pickle.dumps(call, protocol))
    assert again == call
    assert (again.id, again.invalid) == ("id-1", "not JSON")
    assert type(again.args) is FrozenDict
    assert type(again.args["d"]["l"]) is FrozenList
    assert type(again.args["d"]["l"][1]) is FrozenDict


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_a_copy_of_a_call_is_equal_and_frozen(copied: Callable[[Any], Any]) -> None:
    call = ToolCall("t", {"d": {"l": [1]}})
    again = copied(call)
    assert again == call
    with pytest.raises(TypeError, match="cannot be changed"):
        again.args["d"]["l"].append(2)
    assert copied(call.args) is call.args
    assert copied(call.args["d"]["l"]) is call.args["d"]["l"]


@pytest.mark.states("S1")
def test_calls_are_equal_by_their_fields_and_hash_by_id() -> None:
    assert ToolCall("t", {"a": 1}, "1") == ToolCall("t", {"a": 1}, "1")
    assert ToolCall("t", {"a": 1}, "1") != ToolCall("t", {"a": 1}, "2")
    assert ToolCall("t", {"a": 1}, "1") != ToolCall("u", {"a": 1}, "1")
    assert ToolCall("t", {"a": 1}) != ToolCall("t", {"a": 2})
    assert ToolCall("t", {}) != ToolCall("t", {}, invalid="not JSON")
    assert len({ToolCall("t", {"a": [1]}, "1"), ToolCall("t", {"a": [1]}, "1")}) == 1
    assert hash(ToolCall("t", {"a": 1}, "1")) == hash(ToolCall("u", {"a": 2}, "1"))


@pytest.mark.states("S1")
def test_the_fields_of_a_call_cannot_be_set() -> None:
    call = ToolCall("t", {"a": 1})
    with pytest.raises(AttributeError):
        call.name = "u"  # type: ignore[misc]
    with pytest.raises(AttributeError):
        call.args = {}  # type: ignore[misc]


def test_a_call_with_other_arguments_keeps_name_and_id() -> None:
    call = ToolCall("t", {"a": 1}, "id-1", "not JSON").with_args({"a": 2})
    assert (call.name, call.args, call.id, call.invalid) == ("t", {"a": 2}, "id-1", None)


@pytest.mark.states("S1")
@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: ToolCall(None, {}), TypeError, "name is a string"),  # type: ignore[arg-type]
        (lambda: ToolCall(b"t", {}), TypeError, "name is a string"),  # type: ignore[arg-type]
        (lambda: ToolCall(""), ValueError, "has no name"),
        (lambda: ToolCall(" \n"), ValueError, "has no name"),
        (lambda: ToolCall("t", None), TypeError, "not a mapping"),  # type: ignore[arg-type]
        (lambda: ToolCall("t", [("a", 1)]), TypeError, "not a mapping"),  # type: ignore[arg-type]
        (lambda: ToolCall("t", '{"a": 1}'), TypeError, "not a mapping"),  # type: ignore[arg-type]
        (lambda: ToolCall("t", {}, 5), TypeError, "id of a call is a string"),  # type: ignore[arg-type]
        (lambda: ToolCall("t", {}, None), TypeError, "id of a call is a string"),  # type: ignore[arg-type]
    ],
    ids=["no name", "bytes", "empty", "blank", "None args", "pairs", "JSON text", "id number", "id None"],
)
def test_a_call_of_wrong_parts_is_refused_in_three_parts(
    make: Callable[[], ToolCall], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text) as caught:
        make()
    assert "\nFix: " in str(caught.value)
    assert "\nExample:\n" in str(caught.value)


def test_arguments_that_contain_themselves_are_refused_in_three_parts() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = [endless]
    with pytest.raises(ValueError, match=r"nested too deeply, or contain themselves[\s\S]*Fix: [\s\S]*Example:"):
        ToolCall("t", endless)


class Text(str):
    """Compares, hashes and reads otherwise than it is written."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __len__ = lower = __str__  # type: ignore[assignment]


class Whole(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__

    def __repr__(self) -> str:
        return '"1"'

    __int__ = __index__ = __lt__ = __repr__  # type: ignore[assignment]


class Part(float):
    def __repr__(self) -> str:
        return "NaN"

    __float__ = __repr__  # type: ignore[assignment]


class Claims:
    """Claims to be a text."""

    __class__ = str  # type: ignore[assignment]


def test_texts_and_numbers_of_subclasses_become_plain_ones() -> None:
    args = {Text("key"): Text("a"), "deep": [Text("b"), {"n": Whole(3), "x": Part(2.5), "yes": True, "no": None}]}
    call = ToolCall("t", args)
    assert repr(call) == "ToolCall('t', {'key': 'a', 'deep': ['b', {'n': 3, 'x': 2.5, 'yes': True, 'no': None}]})"
    assert call == ToolCall("t", {"key": "a", "deep": ["b", {"n": 3, "x": 2.5, "yes": True, "no": None}]})
    (key, _), ((text, inner),) = call.args, [call.args["deep"]]
    assert {type(key), type(text), type(call.args["key"])} == {str}
    assert [type(value) for value in inner.values()] == [int, float, bool, type(None)]
    assert digest("t", call.args) == digest("t", thaw(call.args))
    assert [type(freeze(value)) for value in (Text("a"), Whole(1), Part(1.0), True)] == [str, int, float, bool]


def test_what_only_claims_to_be_a_text_is_kept_as_it_is() -> None:
    claims = Claims()
    assert freeze([claims])[0] is freeze(claims) is claims


DIFFERENT: dict[str, list[Any]] = {
    "one": [1, 1.0, True, "1", [1], {"1": 1}, "1.0", "true"],
    "nothing": [None, 0, False, "", [], {}, "null", 0.0, -0.0, [None], [[]], {"": None}],
    "texts": ["é", "e\u0301", "E", "e", " e", "\ud800", "\\ud800", "\u200be"],
    "numbers": [2**60, 2**60 + 1, float(2**60), 2**64, -(2**64), 1e308, 0.1, 0.1 + 1e-17 * 8],
}


@pytest.mark.parametrize("values", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_values_that_are_not_the_same_json_have_different_digests(values: list[Any]) -> None:
    for nested in (lambda v: v, lambda v: [v], lambda v: {"x": {"y": v}}):
        texts = {canonical_json(nested(value)) for value in values}
        digests = {digest("t", {"a": nested(value)}) for value in values}
        assert len(texts) == len(digests) == len(values)
    for one in values:
        for other in values:
            assert same_json(one, other) is (one is other)


def test_the_digest_depends_on_the_name_too_and_never_on_the_id() -> None:
    assert digest("t", {"a": 1}) != digest("u", {"a": 1})
    assert digest("t", {}) != digest("t", {"a": None})
    assert digest('t",{}', {}) != digest("t", {})
    assert len(digest("t", {})) == 64


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=5), st.randoms())
def test_the_digest_does_not_depend_on_the_order_of_keys(args: dict[str, Any], random: Any) -> None:
    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            items = list(value.items())
            random.shuffle(items)
            return {key: shuffled(item) for key, item in items}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    other = shuffled(args)
    assert digest("t", args) == digest("t", other) == digest("t", freeze(other))
    assert same_json(args, other)


@given(st.dictionaries(st.text(max_size=5), JSON | st.text(), max_size=5))
def test_the_canonical_text_is_what_a_json_encoder_writes(args: dict[str, Any]) -> None:
    written = json.dumps(args, sort_keys=True, separators=(",", ":"))
    assert canonical_json(args) == written == canonical_json(freeze(args))


def test_the_order_of_a_list_counts() -> None:
    assert digest("t", {"a": [1, 2]}) != digest("t", {"a": [2, 1]})
    assert same_json([1, 2], (1, 2))


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ({1: "a"}, TypeError),
        ({True: "a"}, TypeError),
        ({None: "a"}, TypeError),
        ([{"a": {2.5: 1}}], TypeError),
        (({b"k": 1},), TypeError),
        ({1, 2}, TypeError),
        (b"bytes", TypeError),
        (object(), TypeError),
        (1j, TypeError),
        (float("nan"), ValueError),
        ([float("inf")], ValueError),
        ({"a": float("-inf")}, ValueError),
        pytest.param(10**5000, ValueError, id="too many digits"),
    ],
)
def test_what_json_has_no_form_for_has_no_canonical_text(value: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        canonical_json(value)
    with pytest.raises(error):
        digest("t", {"a": value})
    assert same_json(value, value) is False


def test_canonical_json_of_what_contains_itself_or_is_too_deep_is_an_error() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises((ValueError, RecursionError)):
        canonical_json(endless)
    assert same_json(endless, endless) is False


def test_big_whole_numbers_keep_every_digit() -> None:
    assert canonical_json(2**60) == "1152921504606846976"
    assert canonical_json({"n": 10**400})[5:-1] == str(10**400)


def test_lone_surrogates_have_a_digest_and_a_text() -> None:
    call = ToolCall("t", {"s": "\ud800", "\udfff": 1})
    assert digest(call.name, call.args) != digest("t", {"s": "\ud801", "\udfff": 1})
    canonical_json(call.args).encode("ascii")


@pytest.mark.states("S2")
@pytest.mark.parametrize(
    ("args", "text"),
    [
        ({}, "t()"),
        ({"a": 1, "b": "x"}, 't(a=1, b="x")'),
        ({"b": 1, "a": 2}, "t(b=1, a=2)"),
        ({"a": None, "b": True, "c": 1.0}, "t(a=null, b=true, c=1.0)"),
        ({"a": "line\nbreak"}, 't(a="line\\nbreak")'),
        ({"a": 'quo"te'}, 't(a="quo\\"te")'),
        ({"a": "grüße 😀"}, 't(a="grüße 😀")'),
        ({"a": [1, {"b": "ä"}]}, 't(a=[1, {"b": "ä"}])'),
        ({"a": float("nan")}, "t(a=NaN)"),
        ({"a": {1}}, "t(a={1})"),
        ({"a": b"x"}, "t(a=b'x')"),
        ({"a": (1, 2)}, "t(a=[1, 2])"),
        ({"a": [{"b": {1}}]}, "t(a=[{'b': {1}}])"),
        pytest.param({"a": 10**5000}, "t(a=<int>)", id="too many digits"),
    ],
)
def test_a_call_is_written_as_name_and_json_values(args: dict[str, Any], text: str) -> None:
    call = ToolCall("t", args)
    assert format_call(call) == str(call) == text


@pytest.mark.states("S2")
def test_a_written_call_is_never_cut() -> None:
    assert len(format_call(ToolCall("write", {"content": "x" * 5000}))) == 5000 + len('write(content="")')


def test_a_value_without_a_repr_is_named_by_its_type() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise OSError("no repr")

    assert format_call(ToolCall("t", {"a": Broken()})) == "t(a=<Broken>)"
