"""The remarks on a request say what the tool says, and no more."""

from __future__ import annotations

import pytest
from waiting import make_request

from agentperm_nb import Hints
from agentperm_nb.approvals.facts import badges


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        (Hints(), ["effects unknown"]),
        (Hints(open_world=True), ["effects unknown", "open world"]),
        (Hints(read_only=True), ["read-only"]),
        (Hints(read_only=True, open_world=False), ["read-only"]),
        (Hints(destructive=True), ["destructive"]),
        (Hints(destructive=False), ["writes"]),
        (Hints(read_only=False), ["destructive"]),
        (Hints(read_only=True, source="server"), ["the server says: read-only"]),
        (Hints(destructive=True, open_world=True, source="server"),
         ["the server says: destructive", "the server says: open world"]),
    ],
    ids=str,
)  # fmt: skip
def test_a_badge_says_what_the_tool_said_of_itself(hints: Hints, expected: list[str]) -> None:
    assert [badge.text for badge in badges(make_request(hints=hints))] == expected


def test_what_a_tool_left_out_is_told_from_what_it_said() -> None:
    assert Hints().said == frozenset()
    assert Hints(destructive=True).said == {"destructive"}
    assert Hints(destructive=True) == Hints()
