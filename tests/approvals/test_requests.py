"""Edited arguments get their hidden values back where it is certain which they are, and nowhere else."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from requests_for_tests import request_of

from agentperm_nb.approvals.requests import EditError
from agentperm_nb.json_values import same_json, thaw
from agentperm_nb.render import MASK


def restored(args: dict[str, Any], edit: Any, **more: Any) -> Any:
    """Return what an edit of the shown arguments stands for; `edit` changes them in place or returns others."""
    request = request_of(args, **more)
    shown = thaw(request.shown_args)
    edited = edit(shown)
    return request.restore(shown if edited is None else edited)


def set_in(*path: Any, to: Any) -> Any:
    def edit(shown: Any) -> None:
        for part in path[:-1]:
            shown = shown[part]
        shown[path[-1]] = to

    return edit


ARGS: dict[str, Any] = {
    "to": "ada",
    "password": "p1",
    "headers": {"Authorization": "Bearer b1", "Accept": "json"},
    "users": [{"name": "ada", "pin": 1}, {"name": "bob", "pin": 2}, {"name": "cyd", "pin": 3}],
    "keys": ["sk-live-aaa", "sk-live-bbb", "plain"],
    "note": "token=t1 and more",
    "n": 1,
}


def changed(*path: Any, to: Any) -> dict[str, Any]:
    args = copy.deepcopy(ARGS)
    set_in(*path, to=to)(args)
    return args


def test_what_was_not_edited_comes_back_as_it_was() -> None:
    assert restored(ARGS, lambda shown: None) == ARGS


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("to",), "eve"),
        (("password",), "p2"),
        (("password",), None),
        (("headers", "Accept"), "html"),
        (("headers", "Authorization"), "Bearer b2"),
        (("users", 0, "name"), "eve"),
        (("users", 1, "pin"), 7),
        (("keys", 2), "other"),
        (("keys", 0), "sk-live-ccc"),
        (("note",), "nothing hidden"),
        (("new",), {"a": [1, None]}),
        (("headers", "new"), None),
    ],
    ids=str,
)
def test_an_edit_changes_one_place_and_every_other_hidden_value_comes_back(path: tuple[Any, ...], value: Any) -> None:
    assert restored(ARGS, set_in(*path, to=value)) == changed(*path, to=value)


def test_an_argument_may_be_left_out() -> None:
    assert restored(ARGS, lambda shown: shown.pop("to") and None) == {k: v for k, v in ARGS.items() if k != "to"}


@pytest.mark.parametrize(
    ("shown", "edited"), [(1, True), (True, 1), (1, 1.0), (1.0, 1), (0, False), ("1", 1), (0.0, -0.0)]
)
def test_one_and_true_and_one_point_zero_are_different_values(shown: Any, edited: Any) -> None:
    assert same_json(restored({"n": shown, "password": "p"}, set_in("n", to=edited)), {"n": edited, "password": "p"})
    assert same_json(restored({"l": [shown, "sk-live-aaa"]}, set_in("l", 0, to=edited)), {"l": [edited, "sk-live-aaa"]})


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (1, 2, 0), (2, 0), (1,), (0, 1, 2, 0), (0, 0, 0)], ids=str)
def test_items_that_were_moved_or_taken_out_keep_their_own_hidden_values(order: tuple[int, ...]) -> None:
    def edit(shown: Any) -> None:
        shown["users"] = [shown["users"][place] for place in order]

    assert restored(ARGS, edit)["users"] == [ARGS["users"][place] for place in order]


@pytest.mark.parametrize(
    ("edit", "field"),
    [
        (set_in("to", to=MASK), "to"),
        (set_in("to", to=f"dear {MASK}"), "to"),
        (set_in("note", to=f"token={MASK} and other words"), "note"),
        (set_in("headers", "Cookie", to=MASK), "headers.Cookie"),
        (set_in("headers", to={"X": {"Authorization": MASK}}), "headers.X.Authorization"),
        (set_in("keys", to=[MASK, MASK]), "keys[0]"),
        (set_in("keys", to=["plain", MASK, MASK]), "keys[1]"),
        (set_in("keys", to=[MASK, MASK, MASK, "plain"]), "keys[0]"),
        (
            lambda shown: {"password": shown["password"], "users": [*shown["users"][::-1], {"name": "x", "pin": MASK}]},
            "users[3].pin",
        ),
        (lambda shown: shown["users"].insert(0, {"name": "eve", "pin": MASK}), "users[0].pin"),
        (lambda shown: {**shown, "users": [shown["users"][1], {"name": "eve", "pin": MASK}]}, "users[1].pin"),
        (set_in("moved", to=("tuple", MASK)), "moved[1]"),
    ],
)
def test_a_mask_that_cannot_be_told_is_an_error_at_its_field(edit: Any, field: str) -> None:
    with pytest.raises(EditError, match="stands for a hidden value that cannot be told here") as caught:
        restored(ARGS, edit)
    assert field in [where for where, _ in caught.value.problems]
    assert "sk-live" not in str(caught.value)


def test_two_hidden_values_that_look_alike_are_told_by_their_places() -> None:
    assert restored(ARGS, set_in("keys", 1, to="sk-live-new"))["keys"] == ["sk-live-aaa", "sk-live-new", "plain"]
    assert restored({"keys": ["sk-live-aaa", "sk-live-aaa"]}, set_in("keys", to=[MASK])) == {"keys": ["sk-live-aaa"]}


def test_names_that_are_masked_themselves_come_back() -> None:
    args = {"map": {"sk-live-aaa": {"n": 1}, "sk-live-bbb": {"n": 2}, "plain": {"n": 3}}}
    assert restored(args, set_in("map", "plain", to={"n": 4})) == {"map": {**args["map"], "plain": {"n": 4}}}
    assert restored(args, set_in("map", MASK, "n", to=5))["map"]["sk-live-aaa"] == {"n": 5}
    with pytest.raises(EditError, match="the name"):
        restored(args, set_in("map", f"{MASK}x", to=1))


def test_a_real_value_that_reads_like_a_mask_is_kept() -> None:
    assert restored({"a": MASK, "b": 1}, set_in("b", to=2)) == {"a": MASK, "b": 2}


def test_what_is_restored_is_checked_against_the_schema() -> None:
    properties = {"password": {"type": "string", "minLength": 2}, "n": {"type": "integer"}}
    with pytest.raises(EditError) as caught:
        restored({"password": "p1", "n": 1}, set_in("n", to="x"), properties=properties)
    assert caught.value.problems == [("n", '"x" is not of type "integer"')]
    assert str(caught.value) == 'n: "x" is not of type "integer"'
    with pytest.raises(EditError, match="password: ") as caught:
        restored({"password": "p1"}, set_in("password", to="s"), properties=properties)
    assert "'s'" not in str(caught.value)
    with pytest.raises(EditError, match='"n" is a required property'):
        restored({"n": 1}, lambda shown: {}, required=["n"])


def test_names_given_as_secret_are_restored_too() -> None:
    args = {"body": "b", "deep": [{"body": "c", "n": 1}]}
    assert restored(args, set_in("deep", 0, "n", to=2), secret=("body",)) == {
        "body": "b",
        "deep": [{"body": "c", "n": 2}],
    }


def test_an_edit_nested_without_end_is_an_error_and_no_crash() -> None:
    deep: Any = MASK
    for _ in range(3000):
        deep = [deep]
    with pytest.raises(EditError, match="nested too deeply"):
        restored(ARGS, set_in("to", to=deep))


def test_restoring_changes_neither_the_edit_nor_the_request() -> None:
    request = request_of(ARGS)
    edited = {**thaw(request.shown_args), "to": "eve"}
    before = copy.deepcopy(edited)
    request.restore(edited)["users"] = "changed"
    assert edited == before
    assert request.call.args == ARGS


def test_the_repr_of_a_request_holds_no_secret() -> None:
    assert "p1" not in repr(request_of({"password": "p1"}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["sk-live-aaa", "sk-live-bbb"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["a", "b", "password", "token", "sk-live-ccc", "sk-live-ddd"]), inner, max_size=4
        )
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "password"]), JSON))
def test_whatever_was_not_edited_always_comes_back(args: dict[str, Any]) -> None:
    assert same_json(restored(args, lambda shown: None), args)
    assert same_json(restored(args, set_in("new", to=5)), {**args, "new": 5})


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "password"]), JSON), JSON)
def test_no_mask_ever_reaches_a_tool(args: dict[str, Any], value: Any) -> None:
    request = request_of(args)
    try:
        got = request.restore({**thaw(request.shown_args), "a": request_of({"a": value}).shown_args["a"]})
    except EditError:
        return
    assert MASK not in str(got)
