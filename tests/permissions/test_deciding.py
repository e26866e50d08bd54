"""What is kept by tool name says what the rules say, also after their owner has changed them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentperm_nb import (
    AllowByDefault,
    AllowByName,
    Allowed,
    AllowPermission,
    Denied,
    DenyByName,
    DenyPermission,
    Permission,
    Tool,
    ToolCall,
    Verdict,
)
from agentperm_nb.permissions.deciding import NOBODY, Decision, PermissionList, decide

NAMES = ["read", "READ", "write", "delete_all"]
PATTERNS = ["read", "re*", "*", "delete_*", "w?ite", "[!r]*"]


def decided(permissions: PermissionList, name: str) -> Decision:
    return decide(permissions, None, ToolCall(name), Tool(name, function=print, input_schema={}))


def by_hand(permissions: PermissionList, name: str) -> Verdict:
    """Ask every permission itself, in the order of asking."""
    tool = Tool(name, function=print, input_schema={})
    said = (permission.check(None, ToolCall(name), tool) for permission, _ in permissions.order)
    return next((verdict for verdict in said if verdict is not None), Denied(NOBODY))


rules = st.one_of(
    st.builds(lambda p: DenyByName([p]), st.sampled_from(PATTERNS)),
    st.builds(lambda p: AllowByName([p]), st.sampled_from(PATTERNS)),
    st.builds(AllowByDefault),
)


@given(st.lists(rules, max_size=6), st.data())
def test_what_is_kept_by_name_is_what_the_rules_say_whenever_they_are_changed(rules: list[Any], data: Any) -> None:
    permissions = PermissionList(rules)
    for _ in range(4):
        for name in NAMES:
            assert decided(permissions, name).verdict == by_hand(permissions, name)
        changeable = [rule for rule in rules if not isinstance(rule, AllowByDefault)]
        if changeable:
            rule = data.draw(st.sampled_from(changeable))
            rule.patterns = [data.draw(st.sampled_from(PATTERNS))]
            if isinstance(rule, DenyByName):
                rule.reason = data.draw(st.sampled_from([None, "not now"]))


class Loud(AllowByName):
    """A subclass with a check of its own is asked each time."""

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        return None


class Picky(DenyByName):
    def for_name(self, name: str) -> Verdict | None:
        return Denied("picky")


def patched() -> Permission:
    permission = AllowByName(["*"])
    permission.check = lambda state, call, tool: None  # type: ignore[method-assign]
    return permission


@pytest.mark.parametrize(
    ("make", "expected"),
    [(lambda: Loud(["*"]), Denied(NOBODY)), (lambda: Picky(["x"]), Denied("picky")), (patched, Denied(NOBODY))],
    ids=["own check", "own for_name", "check of an object"],
)
def test_a_check_that_was_overridden_is_asked(make: Callable[[], Permission], expected: Verdict) -> None:
    assert decided(PermissionList([make()]), "read").verdict == expected


def test_a_deny_that_stands_after_other_rules_decides_all_the_same() -> None:
    class Allows(AllowPermission):
        def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
            return Allowed()

    class Denies(DenyPermission):
        def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
            return Denied("by a rule of one's own")

    for denying in (DenyByName(["read"]), Denies()):
        permissions = PermissionList([Allows(), AllowByName(["*"]), denying])
        assert isinstance(decided(permissions, "read").verdict, Denied)
        assert decided(permissions, "read").permission is denying
