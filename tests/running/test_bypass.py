"""Wherever a BYPASS is on, the card, the turn, the panel, the prompt and the log say so; and it lifts no denial."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from turns import Counter, Scripted

from agentperm_nb import (
    Agent,
    ApprovalRequest,
    DecideByHuman,
    DenyByName,
    PermissionPolicy,
    PermissionRule,
    PerUserPermissions,
    StandardPermissions,
)
from agentperm_nb.approvals.facts import badges
from agentperm_nb.testing import tool_call

BYPASS = StandardPermissions(mode="bypassPermissions")
ON = {
    "alone": (BYPASS, None),
    "in a list": ([DenyByName(["x"]), BYPASS], None),
    "for this user": (PerUserPermissions({"ann": BYPASS}, default=StandardPermissions()), "ann"),
    "by default": (PerUserPermissions({"bob": StandardPermissions()}, default=BYPASS), "ann"),
    "in another": (PerUserPermissions({"ann": PerUserPermissions({}, default=BYPASS)}, default=BYPASS), "ann"),
}
OFF = {
    "a mode": (StandardPermissions(mode="acceptEdits"), None),
    "for another user": (PerUserPermissions({"bob": BYPASS}, default=StandardPermissions()), "ann"),
    "a policy that allows all": (PermissionPolicy(fallback="allow"), None),
}


@pytest.mark.parametrize(("permissions", "user"), ON.values(), ids=ON)
def test_card_turn_and_log_say_that_it_is_on(permissions: Any, user: str | None) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=permissions, user=user)
    assert "BYPASS is on: what no deny refuses runs unasked" in repr(agent)
    assert "BYPASS is on" in agent._repr_html_()
    turn = agent.use_tools([tool_call("act", n=1)])
    assert counter.ran == [{"n": 1}]
    assert turn.bypass
    assert "BYPASS was on" in repr(turn)
    assert "BYPASS was on" in turn._repr_html_()
    assert agent.audit.events()[0].data["bypass"] is True
    assert "bypassPermissions" in agent.audit.calls()["decided_by"].item()
    assert "bypassPermissions" in str(agent.explain("act", n=1))


@pytest.mark.parametrize(("permissions", "user"), OFF.values(), ids=OFF)
def test_where_it_is_off_nothing_says_that_it_is_on(permissions: Any, user: str | None) -> None:
    agent = Agent([Counter().tool], permissions=permissions, user=user)
    turn = agent.use_tools([])
    assert not turn.bypass
    assert "BYPASS" not in repr(agent) + agent._repr_html_() + repr(turn)
    assert agent.audit.events()[0].data["bypass"] is False


def test_the_card_is_marked_as_it_is_where_nothing_is_checked() -> None:
    assert "--jp-warn-color0" in Agent([], permissions=BYPASS)._repr_html_()
    assert "--jp-warn-color0" not in Agent([], permissions=StandardPermissions())._repr_html_()


@pytest.mark.parametrize(("permissions", "shown"), [([DecideByHuman(), BYPASS], True), ([DecideByHuman()], False)])
def test_whoever_is_asked_is_told_that_other_calls_run_unasked(permissions: Any, shown: bool) -> None:
    seen: list[list[str]] = []

    async def review(requests: Sequence[ApprovalRequest]) -> AsyncIterator[tuple[str, bool]]:
        for request in requests:
            seen.append([badge.text for badge in badges(request)])
            yield request.id, False

    Agent([Counter().tool], permissions=permissions, human=Scripted(review)).use_tools([tool_call("act", n=1)])
    assert ("BYPASS is on" in seen[0]) is shown


@pytest.mark.parametrize(
    "permissions",
    [
        [BYPASS, DenyByName(["act"])],
        StandardPermissions(mode="bypassPermissions", denied_tools=["act"]),
        StandardPermissions(mode="bypassPermissions", allowed_tools=["other"]),
        [PermissionPolicy([PermissionRule("no", lambda tool, args: True, "deny")], fallback=None), BYPASS],
        [BYPASS, *PermissionPolicy([PermissionRule("no", lambda tool, args: True, "deny")]).denies()],
        [BYPASS, *StandardPermissions(denied_tools=["ACT"]).denies()],
    ],
    ids=["a deny after it", "denied_tools", "allowed_tools", "a policy", "the denies of a policy", "of another mode"],
)
def test_it_lifts_no_denial(permissions: Any) -> None:
    counter = Counter()
    (result,) = Agent([counter.tool], permissions=permissions).use_tools([tool_call("act", n=1)]).results
    assert (result.verdict, counter.ran) == ("denied", [])
