"""The card of an agent: who is asked what its permissions leave to somebody."""

from __future__ import annotations

from typing import Any

import pytest

from agentperm_nb import (
    ALLOW_READONLY,
    Agent,
    AllowByName,
    AllowByReadOnly,
    DecideByHuman,
    DenyByName,
    PermissionPolicy,
    PermissionRequest,
    PerUserPermissions,
    PolicyHandlerApprover,
    StandardPermissions,
)
from agentperm_nb.testing import FakeHuman


def act(n: int = 0) -> str:
    """Act."""
    return f"acted {n}"


class Office:
    def handle(self, request: PermissionRequest) -> bool:
        return False


def approve(request: Any) -> bool:
    return True


ASKS = PermissionPolicy(fallback="ask", name="shop")
HANDLED = PermissionPolicy([ALLOW_READONLY], "ask", Office(), name="till")
SLOWLY = PermissionPolicy(fallback="ask", handler=PolicyHandlerApprover(Office(), timeout=60), name="bank")


@pytest.mark.parametrize(
    ("permissions", "options", "asked"),
    [
        ([DecideByHuman()], {}, "nobody here"),
        ([DecideByHuman()], {"human": None}, "nobody (human=None)"),
        ([DecideByHuman()], {"approval_handler": approve}, "HandlerApprover(approve)"),
        (ASKS, {}, "nobody here"),
        (ASKS, {"permission_handler": Office()}, "PolicyHandlerApprover(Office) for policies"),
        (HANDLED, {}, "PolicyHandlerApprover(Office) for till"),
        (HANDLED, {"permission_handler": Office()}, "PolicyHandlerApprover(Office) for till"),
        (SLOWLY, {}, "PolicyHandlerApprover(Office, timeout=60) for bank"),
        (
            [DenyByName(["rm"]), AllowByName(["ls"]), HANDLED, ASKS],
            {"permission_handler": Office(), "human": None},
            "PolicyHandlerApprover(Office) for till, PolicyHandlerApprover(Office) for other policies",
        ),
        ([HANDLED, ASKS], {}, "PolicyHandlerApprover(Office) for till, else nobody here"),
        (
            [HANDLED, AllowByReadOnly(), DecideByHuman()],
            {"approval_handler": approve},
            "PolicyHandlerApprover(Office) for till, else HandlerApprover(approve)",
        ),
        (
            [ASKS, StandardPermissions()],
            {"permission_handler": Office(), "human": None},
            "PolicyHandlerApprover(Office) for policies, else nobody (human=None)",
        ),
        (
            PerUserPermissions({"ann": HANDLED, "bob": ASKS}, StandardPermissions()),
            {"user": "ann"},
            "PolicyHandlerApprover(Office) for PerUserPermissions",
        ),
        (
            PerUserPermissions({"ann": HANDLED, "bob": ASKS}, StandardPermissions()),
            {"user": "bob", "permission_handler": Office()},
            "PolicyHandlerApprover(Office) for policies",
        ),
        (PerUserPermissions({"ann": HANDLED}, StandardPermissions()), {"user": "bob"}, "nobody here"),
        ([*ASKS.denies(), AllowByName(["act"])], {}, "nobody here"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_it_names_who_answers_what_is_asked(permissions: Any, options: dict[str, Any], asked: str) -> None:
    agent = Agent([act], permissions=permissions, **options)
    assert [line for line in str(agent).splitlines() if line.startswith("asked: ")] == [f"asked: {asked}"]
    assert asked in agent._repr_html_()


def test_a_person_is_named_as_they_describe_themselves() -> None:
    class Ann(FakeHuman):
        def describe(self) -> str:
            return "ann, at the front desk"

    assert "asked: ann, at the front desk" in str(Agent([act], human=Ann(["no"])))
