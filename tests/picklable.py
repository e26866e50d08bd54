"""What tests of pickling send to another process, and what they do there."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from agentperm_nb import (
    Allowed,
    DecidePermission,
    Denied,
    DenyByName,
    DenyPermission,
    Human,
    Tool,
    ToolCall,
    Verdict,
)
from agentperm_nb.permissions.builtin import latest_change
from agentperm_nb.permissions.deciding import PermissionList, decide

__all__ = ["DenyWhen", "FirmlyDenied", "Holds", "SaysNo", "change_and_decide", "echo", "is_large", "renewed"]


class FirmlyDenied(Denied):
    """A verdict of one's own."""


class DenyWhen(DenyPermission):
    """A rule that holds a function."""

    def __init__(self, test: Callable[[ToolCall], bool], reason: str = "not now") -> None:
        self.test, self.reason = test, reason

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        return FirmlyDenied(self.reason) if self.test(call) else None


class Holds(DecidePermission):
    """A rule that holds anything, itself too."""

    def __init__(self, held: Any = None) -> None:
        self.held = held

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        return Allowed()


class SaysNo(Human):
    """A human of one's own."""

    def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        return "no"


def is_large(call: ToolCall) -> bool:
    return bool(call.args.get("n", 0) > 2)


def renewed(pickled: bytes, protocol: int) -> bytes:
    """Unpickle and pickle again: what comes back has been in another process."""
    return pickle.dumps(pickle.loads(pickled), protocol)


def echo(pickled: bytes, names: list[str]) -> tuple[str, list[Any]]:
    """Return the repr of a permission, and what it says there about calls of these names."""
    permission = pickle.loads(pickled)
    tool = Tool("t", function=print, input_schema={})
    return repr(permission), [permission.check(None, ToolCall(name, {"n": 3}), tool) for name in names]


def change_and_decide(pickled: bytes, kept_at: int) -> tuple[int, Verdict]:
    """Let the first rule of a list no longer deny "rm", at the very count of changes at which its plans were made.

    Returns:
        The count, and what the list decides about a call of "rm".
    """
    permissions: PermissionList = pickle.loads(pickled)
    rule = permissions.items[0]
    assert isinstance(rule, DenyByName)
    while latest_change() < kept_at:
        rule.patterns = ["ls"]
    tool = Tool("rm", function=print, input_schema={})
    return latest_change(), decide(permissions, None, ToolCall("rm"), tool).verdict
