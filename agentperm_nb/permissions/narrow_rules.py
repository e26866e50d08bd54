"""Narrow rules: conditions that hold for one call, and for few others.

1. A call is known by its paths, with the numbers, booleans and choices beside them. One without paths is known by all
   that is short in it.
2. Long texts, objects, what is masked and what cannot be read make no condition.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container
from typing import Any, NamedTuple

from agentperm_nb.calls import ToolCall
from agentperm_nb.json_values import json_text
from agentperm_nb.permissions.commands import variables_in
from agentperm_nb.permissions.matching.conditions import Condition
from agentperm_nb.permissions.matching.declared import Slot, declared_by
from agentperm_nb.permissions.matching.fields import Field
from agentperm_nb.permissions.matching.numbers import Numbers
from agentperm_nb.permissions.matching.reading import Matcher
from agentperm_nb.permissions.matching.texts import Pattern
from agentperm_nb.permissions.matching.values import Exact, OneOf
from agentperm_nb.tools import Tool

__all__ = ["KnownBy", "known_by"]

_LONGEST = 100
_MOST_MEMBERS = 8
_ANY_PATH = Pattern("**")
_SPECIAL = re.compile(r"[*?\[\\]")


class KnownBy(NamedTuple):
    """What tells a call from others."""

    conditions: list[Condition]
    """What holds for it however it is read, and together for few others."""
    unreadable: str
    """Which path of it could not be read, and why; empty when all could."""


def known_by(call: ToolCall, tool: Tool, masked: Container[str] = ()) -> KnownBy:
    """Return what tells a call from others.

    Args:
        call: The call.
        tool: Its tool.
        masked: Arguments that nothing may be said about.
    """
    declared = declared_by(tool)
    paths, choices, others = [], [], []
    for argument, value in call.args.items():
        if not argument:
            continue
        slot = declared.slot(Field((argument,)))
        if slot.is_path and not slot.problem:
            problem = Condition(Field((argument,)), _ANY_PATH).read(call.args, declared, every=True).problem
            if problem:
                names = "" if argument in masked else ", ".join(variables_in(value) if isinstance(value, str) else ())
                return KnownBy([], f"{argument} could not be read ({problem}{f': {names}' * bool(names)})")
        if argument in masked:
            continue
        condition = _condition(argument, value, slot)
        if condition is None or not condition.read(call.args, declared, every=True).narrow:
            continue
        if slot.is_path:
            paths.append(condition)
        elif isinstance(value, bool | int | float) or slot.values is not None:
            choices.append(condition)
        else:
            others.append(condition)
    return KnownBy([*paths, *choices] if paths else [*others, *choices], "")


def _condition(argument: str, value: Any, slot: Slot) -> Condition | None:
    try:
        matcher = None if slot.problem else _matcher(value, slot)
        return None if matcher is None else Condition(Field((argument,)), matcher)
    except (TypeError, ValueError):  # no pattern can be made of it
        return None


def _matcher(value: Any, slot: Slot) -> Matcher | None:
    if isinstance(value, str):
        if len(value) > _LONGEST or "\n" in value or not value:
            return None
        return Pattern(value) if slot.is_path or not _SPECIAL.search(value) else Exact(value)
    if value is None or isinstance(value, bool):
        return Exact(value)
    if isinstance(value, int | float):
        return Numbers(value, value) if math.isfinite(value) else None
    if isinstance(value, list) and 0 < len(value) <= _MOST_MEMBERS:
        members = [_matcher(item, slot) for item in value if not isinstance(item, list | dict)]
        if len(members) == len(value) and None not in members:
            return OneOf(member for member in members if member is not None)
        return None
    return Exact(value) if len(json_text(value)) <= _LONGEST else None
