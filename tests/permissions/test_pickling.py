"""What decides can be sent to another process, and decides the same there; what cannot be sent says so."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
from picklable import DenyWhen, FirmlyDenied, Holds, SaysNo, change_and_decide, echo, is_large, renewed

from agentperm_nb import (
    AllowByDefault,
    AllowByName,
    AllowByReadOnly,
    Allowed,
    ApprovalDecision,
    Ask,
    DecideByHuman,
    Denied,
    DenyByName,
    DenyPermission,
    Hints,
    Permission,
    PermissionResult,
    Scope,
    StoppedByPermission,
    ToolCall,
    ToolError,
    ToolOutcome,
    Verdict,
)
from agentperm_nb.json_values import freeze
from agentperm_nb.permissions.builtin import latest_change
from agentperm_nb.permissions.deciding import PermissionList, decide
from agentperm_nb.testing import Recording
from agentperm_nb.tools import Tool

TOOL = Tool("t", function=print, input_schema={})
PROTOCOLS = range(pickle.HIGHEST_PROTOCOL + 1)

PERMISSIONS = [
    DenyByName(["rm*"], "No", name="n"),
    DenyByName(["ＲＭ", "straße"]),
    AllowByName(["read_*", "rmdir"]),
    AllowByReadOnly(True),
    AllowByDefault(),
    DecideByHuman(SaysNo()),
    DenyWhen(is_large),
    Recording(DenyByName(["rm*"])),
]
NAMES = ["rm", "RMDIR", "rmdir", "read_file", "STRASSE"]

VALUES = [
    Allowed(),
    Denied("no", stop=True),
    Ask("sure?"),
    FirmlyDenied("no"),
    freeze({"a": [1, {"b": None}], "c": "d"}),
    freeze([1, [2]]),
    ToolCall("rm", {"path": ["a", {"deep": True}]}, id="call_1"),
    ToolCall("rm", invalid="not JSON"),
    Hints(read_only=True),
    Hints(destructive=False, source="server"),
    Scope("tool", "session"),
    ApprovalDecision("edit", edited_args={"n": [1]}, reason="smaller"),
    ApprovalDecision("remember_deny", scope=Scope("tool"), stop=True),
    PermissionResult.ASK,
    ToolOutcome("denied", decided_by="DenyByName(['rm'])"),  # type: ignore[arg-type]  # a text is converted
    StoppedByPermission(ToolCall("rm"), "AllowByDefault()"),
]


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[ProcessPoolExecutor]:
    """Another process, with nothing of this one."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def sent_back(elsewhere: ProcessPoolExecutor, value: Any, protocol: int = pickle.HIGHEST_PROTOCOL) -> Any:
    return pickle.loads(elsewhere.submit(renewed, pickle.dumps(value, protocol), protocol).result())


@pytest.mark.timeout(120)
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_from_another_process_as_it_was(elsewhere: ProcessPoolExecutor, value: Any) -> None:
    for protocol in (2, pickle.HIGHEST_PROTOCOL):
        again = sent_back(elsewhere, value, protocol)
        assert again == value
        assert type(again) is type(value)
        assert repr(again) == repr(value)
        assert again.__reduce_ex__(2)[0] is value.__reduce_ex__(2)[0]


def test_what_was_frozen_stays_frozen() -> None:
    again = pickle.loads(pickle.dumps(ToolCall("rm", {"path": ["a", {"deep": True}]})))
    for change in (
        lambda: again.args.update(path="b"),
        lambda: again.args["path"].append("b"),
        lambda: again.args["path"][1].clear(),
    ):
        with pytest.raises(TypeError, match="cannot be changed"):
            change()
    assert pickle.loads(pickle.dumps(Hints(read_only=True))).said == {"read_only"}


@pytest.mark.parametrize("error", [ToolError("no such file"), ValueError("broken")], ids=repr)
def test_an_outcome_keeps_its_error(error: Exception) -> None:
    error.add_note("while testing")
    again = pickle.loads(pickle.dumps(ToolOutcome("error", error)))  # type: ignore[arg-type]
    assert (type(again.error), str(again.error), again.error.__notes__) == (type(error), str(error), error.__notes__)


@pytest.mark.parametrize("permission", PERMISSIONS, ids=repr)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_permission_survives_pickling(permission: Any, protocol: int) -> None:
    again = pickle.loads(pickle.dumps(permission, protocol))
    assert (type(again), repr(again), again.name) == (type(permission), repr(permission), permission.name)
    for name in NAMES:
        call = ToolCall(name, {"n": 3})
        assert again.check(None, call, TOOL) == permission.check(None, call, TOOL)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("permission", PERMISSIONS, ids=repr)
def test_a_permission_says_the_same_in_another_process(elsewhere: ProcessPoolExecutor, permission: Any) -> None:
    shown, said = elsewhere.submit(echo, pickle.dumps(permission), NAMES).result()
    assert shown == repr(permission)
    assert said == [permission.check(None, ToolCall(name, {"n": 3}), TOOL) for name in NAMES]


def test_a_rule_that_was_pickled_can_still_be_changed() -> None:
    again = pickle.loads(pickle.dumps(DenyByName(["rm"])))
    again.patterns = ["LS"]
    assert again.check(None, ToolCall("rm"), TOOL) is None
    assert again.check(None, ToolCall("ls"), TOOL) == Denied("ls is not allowed.")
    with pytest.raises(TypeError, match="takes a list of name patterns"):
        again.patterns = "rm"


def test_a_state_put_into_a_rule_is_seen_by_the_lists_that_hold_it() -> None:
    rule, other = AllowByName(["rm"]), AllowByName(["ls"])
    permissions = PermissionList([rule])
    assert decide(permissions, None, ToolCall("rm"), TOOL).verdict == Allowed()
    rule.__setstate__(other.__getstate__())
    assert decide(permissions, None, ToolCall("rm"), TOOL).decided_by is None


def test_a_list_is_pickled_without_its_plans_and_with_its_rules_shared() -> None:
    rule = DenyByName(["rm"])
    permissions = PermissionList([rule, AllowByDefault()])
    assert decide(permissions, None, ToolCall("rm"), TOOL).verdict == Denied("rm is not allowed.")
    again = pickle.loads(pickle.dumps(permissions))
    assert again._plans == {}
    assert permissions._plans != {}
    assert (again.names, again.unchecked, repr(again)) == (permissions.names, False, repr(permissions))
    again.items[0].patterns = ["ls"]
    assert decide(again, None, ToolCall("rm"), TOOL).verdict == Allowed()
    assert decide(permissions, None, ToolCall("rm"), TOOL).verdict == Denied("rm is not allowed.")


@pytest.mark.timeout(120)
def test_no_plan_of_this_process_is_taken_for_one_of_another(elsewhere: ProcessPoolExecutor) -> None:
    rule = DenyByName(["rm"])
    permissions = PermissionList([rule, AllowByDefault()])
    here = elsewhere.submit(latest_change).result()
    while latest_change() < here + 8:  # more than it takes to unpickle the list there
        rule.patterns = ["rm"]
    assert decide(permissions, None, ToolCall("rm"), TOOL).verdict == Denied("rm is not allowed.")
    made_at = permissions._plans["rm"].change
    there = elsewhere.submit(change_and_decide, pickle.dumps(permissions), made_at).result()
    assert there == (made_at, Allowed())


# --- what cannot be pickled -------------------------------------------------------------------------------------------


def refused(value: Any) -> str:
    with pytest.raises(pickle.PicklingError) as caught:
        pickle.dumps(value)
    text = str(caught.value)
    assert "\nFix: " in text
    assert "\nExample:\n" in text
    assert caught.value.__cause__ is not None
    return text.splitlines()[0]


def test_a_lambda_is_named_by_the_attribute_that_holds_it() -> None:
    said = refused(DenyWhen(lambda call: True))
    assert said.startswith("DenyWhen() cannot be pickled because of its attribute 'test': ")
    assert "lambda" in said


def test_a_permission_whose_class_stands_in_a_function_is_named() -> None:
    class Local(DenyPermission):
        def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
            return None

    assert refused(Local()).startswith("Local() cannot be pickled: ")


def test_a_verdict_whose_class_stands_in_a_function_is_named() -> None:
    class Local(Denied):
        pass

    assert "Local(reason='no', stop=False) cannot be pickled: " in refused(Local("no"))


@pytest.mark.parametrize(
    "make",
    [lambda inner: Recording(inner), lambda inner: PermissionList([AllowByDefault(), inner]), lambda inner: [inner]],
    ids=["permission", "list of permissions", "list"],
)
def test_inside_of_something_the_permission_at_fault_is_named(make: Any) -> None:
    assert refused(make(DenyWhen(lambda call: True))).startswith(
        "DenyWhen() cannot be pickled because of its attribute"
    )


@pytest.mark.parametrize("held", [threading.Lock(), (number for number in ()), ToolCall("t", {"at": threading.Lock()})])
def test_anything_else_that_cannot_be_pickled_is_named_too(held: Any) -> None:
    assert refused(Holds(held)).startswith("Holds() cannot be pickled because of its attribute 'held': ")


def test_a_permission_may_hold_itself() -> None:
    permission = Holds()
    permission.held = [permission]
    again = pickle.loads(pickle.dumps(permission))
    assert again.held == [again]


def test_a_repr_that_fails_does_not_hide_the_error() -> None:
    class Broken(DenyWhen):
        def __repr__(self) -> str:
            raise OSError("no repr")

    assert refused(Broken(is_large)).startswith("Broken(?) cannot be pickled: ")


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
def test_copying_is_not_held_to_what_pickle_can_do(make: Any) -> None:
    def test(call: ToolCall) -> bool:
        return True

    again: Permission = make(DenyWhen(test))
    assert isinstance(again, DenyWhen)
    assert again.test is test
    copied = make(PermissionList([DenyByName(["rm"]), DenyWhen(test)]))
    assert decide(copied, None, ToolCall("ls"), TOOL).verdict == FirmlyDenied("not now")


def test_a_pickler_that_takes_functions_along_is_left_to_it() -> None:
    by_value: dict[str, Any] = {"__name__": "cloudpickle.cloudpickle"}
    exec("def reduced(value): return value.__reduce_ex__(4)", by_value)
    assert by_value["reduced"](DenyWhen(lambda call: True))[1] == (DenyWhen,)
