"""Remembered rules: which of those that hold at one place fit a call.

1. A rule that allows reads narrow, one that denies reads wide, as `permissions.arguments` says: a remembered one fits
   what the same permission in a list would decide, and nothing else.
2. Of many rules only those are asked that may have something to say of a tool and a call (`permissions.rule_index`).
3. Paths are followed when a call is looked at, in the folder of its run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from agentperm_nb.calls import ToolCall
from agentperm_nb.permissions.deciding import FEWEST_INDEXED
from agentperm_nb.tools import Tool

if TYPE_CHECKING:
    from agentperm_nb.permissions.arguments import ArgumentRule
    from agentperm_nb.permissions.rule_index import RuleIndex

__all__ = ["Patterns"]

_MOST_TOOLS = 1_000


class _OfTool:
    """The rules about one tool that say the same, oldest first."""

    def __init__(self, rules: list[tuple[int, ArgumentRule]]) -> None:
        self._rules = rules
        self._index: RuleIndex | None = None
        if len(rules) >= FEWEST_INDEXED:
            from agentperm_nb.permissions.rule_index import RuleIndex

            self._index = RuleIndex(tuple((rule, str(number), None) for number, rule in rules))

    def fitting(self, call: ToolCall, tool: Tool | None) -> Iterator[int]:
        """Yield the numbers of those that fit a call."""
        if self._index is None or tool is None:
            for number, rule in self._rules:
                if _fits(rule, call, tool):
                    yield number
            return
        for permission, called, _ in self._index.candidates(call, tool):
            if _fits(permission, call, tool):
                yield int(called)


class Patterns:
    """The remembered rules of one place."""

    def __init__(self) -> None:
        self._rules: dict[int, ArgumentRule] = {}
        self._of_tools: dict[tuple[str, bool], _OfTool] = {}

    def __bool__(self) -> bool:
        return bool(self._rules)

    def add(self, number: int, rule: ArgumentRule) -> None:
        """Add the rule of an answer of this number."""
        self._rules[number] = rule
        self._of_tools.clear()

    def drop(self, number: int) -> None:
        """Drop the rule of this number."""
        del self._rules[number]
        self._of_tools.clear()

    def fitting(self, call: ToolCall, tool: Tool | None, *, allow: bool) -> Iterator[int]:
        """Yield the numbers of the rules that allow, or deny, a call, oldest first.

        Args:
            call: The call.
            tool: Its tool.
            allow: Whether those that allow are looked for.
        """
        key = (call.name, allow)
        known = self._of_tools.get(key)
        if known is None:
            verb = "allow" if allow else "deny"
            about = [entry for entry in self._rules.items() if entry[1].verb == verb and entry[1].is_about(call.name)]
            if len(self._of_tools) >= _MOST_TOOLS:
                self._of_tools.clear()
            known = self._of_tools[key] = _OfTool(about)
        yield from known.fitting(call, tool)


def _fits(rule: object, call: ToolCall, tool: Tool | None) -> bool:
    return rule.check(None, call, tool) is not None  # type: ignore[attr-defined]  # of an index it is a Permission
