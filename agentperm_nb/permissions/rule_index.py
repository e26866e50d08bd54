"""An index of many rules on arguments of one tool: which of them may have something to say of a call.

1. A rule that is left out would have had no opinion; whatever is not certain of that is asked. The order of the list
   stays.
2. For a text it is known from one piece of it that has to be in every text that a pattern matches, for a number from
   the number. Any other value is put to every rule.
"""

from __future__ import annotations

import math
from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.permissions.arguments import ArgumentRule
from agentperm_nb.permissions.kinds import Permission
from agentperm_nb.permissions.matching.conditions import Condition
from agentperm_nb.permissions.matching.declared import Declared, declared_by
from agentperm_nb.permissions.matching.lookalikes import folded, has_lookalikes
from agentperm_nb.permissions.matching.numbers import Numbers
from agentperm_nb.permissions.matching.reading import Matcher
from agentperm_nb.permissions.matching.texts import Text
from agentperm_nb.permissions.matching.values import OneOf
from agentperm_nb.permissions.verdicts import Verdict
from agentperm_nb.tools import Tool

__all__ = ["Entry", "RuleIndex"]

Entry = tuple[Permission, str, Verdict | None]
"""A permission, its name, and its verdict where the name of the tool settles it."""


class _Table:
    """The rules that are known by the value of one argument."""

    def __init__(self, argument: str) -> None:
        self.argument = argument
        self.everything: list[int] = []
        self.texts: list[int] = []
        self.whole: dict[str, list[int]] = {}
        self.pieces: list[tuple[str, int]] = []
        self.numbers: list[int] = []
        self.number: dict[float, list[int]] = {}

    def add(self, place: int, matcher: Matcher) -> None:
        self.everything.append(place)
        if isinstance(matcher, Numbers):
            self.numbers.append(place)
            assert matcher.low is not None
            self.number.setdefault(matcher.low, []).append(place)
            return
        self.texts.append(place)
        for text in _texts(matcher):
            if text.glob.literal:
                self.whole.setdefault(text.glob.needle, []).append(place)
            else:
                self.pieces.append((text.glob.needle, place))

    def places(self, args: Any) -> list[int]:
        value = args.get(self.argument)
        kind = type(value)
        if kind is str:
            low = value.lower()
            searched = low if value.isascii() else _searched(value)
            if searched is None:
                return self.everything
            found = [place for piece, place in self.pieces if piece in searched]
            return [*found, *self.whole.get(low if value.isascii() else folded(value), ()), *self.numbers]
        if kind is int or (kind is float and math.isfinite(value)):
            return [*self.texts, *self.number.get(value, ())]
        return self.everything


def _searched(text: str) -> str | None:
    """Return a text in which the pieces of patterns are looked for; None where every rule has to look itself."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    # A pattern may match the text as it stands, or folded.
    return None if has_lookalikes(text) else f"{folded(text)}\0{text.lower()}"


class RuleIndex:
    """Which entries of a plan a call is put to.

    Args:
        entries: The entries, in the order of asking.
    """

    def __init__(self, entries: tuple[Entry, ...]) -> None:
        self._entries = entries
        self._for: tuple[Declared, list[int], list[_Table]] | None = None

    def candidates(self, call: ToolCall, tool: Tool) -> tuple[Entry, ...] | list[Entry]:
        """Return the entries that may have something to say of a call, in their order.

        Args:
            call: The call.
            tool: Its tool.
        """
        declared = declared_by(tool)
        made = self._for
        if made is None or made[0] is not declared:
            made = self._for = (declared, *self._tables(declared))
        _, always, tables = made
        places = set(always)
        for table in tables:
            places.update(table.places(call.args))
        entries = self._entries
        return [entries[place] for place in sorted(places)]

    def _tables(self, declared: Declared) -> tuple[list[int], list[_Table]]:
        always: list[int] = []
        tables: dict[str, _Table] = {}
        for place, (permission, _, verdict) in enumerate(self._entries):
            known = None
            if verdict is None and isinstance(permission, ArgumentRule) and permission.by_arguments:
                known = next((one for one in permission.conditions if _is_known(one, declared)), None)
            if known is None:
                always.append(place)
            else:
                argument = known.field.argument
                table = tables.setdefault(argument, _Table(argument))
                table.add(place, known.matcher_for(declared.slot(known.field)))
        return always, list(tables.values())


def _is_known(condition: Condition, declared: Declared) -> bool:
    """Return whether the value tells that a condition does not hold."""
    if not condition.field.plain:
        return False
    slot = declared.slot(condition.field)
    if slot.problem:
        return False
    try:
        matcher = condition.matcher_for(slot)
    except ValueError:
        return False
    if isinstance(matcher, Numbers):
        return matcher.low is not None and matcher.low == matcher.high
    texts = _texts(matcher)
    return bool(texts) and all(text.glob.needle for text in texts)


def _texts(matcher: Matcher) -> list[Text]:
    members = matcher.members if isinstance(matcher, OneOf) else (matcher,)
    return (
        [member for member in members if isinstance(member, Text)]
        if all(isinstance(member, Text) for member in members)
        else []
    )
