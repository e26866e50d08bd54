"""An index of many rules on arguments of one tool: which of them may have something to say of a call.

1. A rule that is left out would have had no opinion; whatever is not certain of that is asked. The order of the list
   stays.
2. For a text it is known from one piece of it that has to be in every text that a pattern matches, for a path from a
   name in it or where it lies (`path_index`), for an address from its domain, for a number from the bounds. Any other
   value is put to every rule.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.permissions.arguments import ArgumentRule
from agentperm_nb.permissions.kinds import Permission
from agentperm_nb.permissions.matching.conditions import Condition, here
from agentperm_nb.permissions.matching.declared import Declared, declared_by
from agentperm_nb.permissions.matching.lookalikes import folded, has_lookalikes, plainer, same_name
from agentperm_nb.permissions.matching.mails import Mail, address_of
from agentperm_nb.permissions.matching.numbers import Numbers
from agentperm_nb.permissions.matching.path_index import PathIndex
from agentperm_nb.permissions.matching.paths import PathPattern
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

    def __init__(self, argument: str, lists: bool) -> None:
        self.argument = argument
        self.lists = lists  # whether the tool takes lists, whose elements are read one by one
        self.everything: list[int] = []
        self.whole: dict[str, list[int]] = {}
        self.pieces: list[tuple[str, int]] = []
        self.domains: dict[str, list[int]] = {}
        self.ranges: list[tuple[float, float, int]] = []
        self.paths: list[tuple[int, PathPattern]] = []
        self.of_texts: list[int] = []
        self.of_mails: list[int] = []
        self.of_numbers: list[int] = []

    def add(self, place: int, matcher: Matcher) -> None:
        self.everything.append(place)
        if isinstance(matcher, Numbers):
            low = -math.inf if matcher.low is None else matcher.low
            self.ranges.append((low, math.inf if matcher.high is None else matcher.high, place))
            self.of_numbers.append(place)
        elif isinstance(matcher, Mail):
            self.domains.setdefault(matcher.domain, []).append(place)
            self.of_mails.append(place)
        elif isinstance(matcher, PathPattern):
            self.paths.append((place, matcher))
        else:
            self.of_texts.append(place)
            for text in _texts(matcher):
                if text.glob.literal:
                    self.whole.setdefault(text.glob.needle, []).append(place)
                else:
                    self.pieces.append((text.glob.needle, place))

    def places(self, value: Any) -> list[int]:
        """Return the rules that may match a value, or be unable to read it."""
        kind = type(value)
        if kind is str:
            return [*self._of_path(value), *self._of_text(value), *self._of_address(value), *self.of_numbers]
        if kind is int or (kind is float and math.isfinite(value)):
            found = [place for low, high, place in self.ranges if low <= value <= high]
            return [*found, *self.of_texts, *self.of_mails, *(place for place, _ in self.paths)]
        if self.lists and isinstance(value, list) and value and all(type(item) is str for item in value):
            return [place for item in value for place in self.places(item)]
        return self.everything

    @cached_property
    def _path_index(self) -> PathIndex:
        return PathIndex(self.paths)

    def _of_path(self, text: str) -> Sequence[int]:
        if not self.paths:
            return ()
        try:
            where = here()
        except OSError:  # there is no folder that it would be relative to
            return [place for place, _ in self.paths]
        return self._path_index.candidates(text, where)

    def _of_text(self, text: str) -> list[int]:
        if not self.of_texts:
            return []
        low = folded(text)
        searched = low if text.isascii() else _searched(text, low)
        if searched is None:
            return self.of_texts
        others = plainer(text)
        if others:
            searched = f"{searched}\0{folded(others[0])}"
        found = [place for piece, place in self.pieces if piece in searched]
        return [*found, *(place for one in {low, *map(folded, others)} for place in self.whole.get(one, ()))]

    def _of_address(self, text: str) -> list[int]:
        if not self.of_mails:
            return []
        address = address_of(text)
        if address is None:
            return self.of_mails
        labels = address[1].split(".")
        domains = (".".join(labels[place:]) for place in range(len(labels)))
        return [place for domain in domains for place in self.domains.get(domain, ())]


def _searched(text: str, low: str) -> str | None:
    """Return a text in which the pieces of patterns are looked for; None where every rule has to look itself."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return None
    # A pattern may match the text as it stands, or folded.
    return None if has_lookalikes(text) else f"{low}\0{text.lower()}"


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
        others = declared.others(call.args)
        for table in tables:
            if any(name != table.argument and same_name(name, table.argument) for name, _ in others):
                places.update(table.everything)
            else:
                places.update(table.places(call.args.get(table.argument)))
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
                slot = declared.slot(known.field)
                table = tables.setdefault(known.field.argument, _Table(known.field.argument, slot.lists))
                table.add(place, known.matcher_for(slot))
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
    if isinstance(matcher, Numbers | Mail | PathPattern):
        return True
    texts = _texts(matcher)
    return bool(texts) and all(text.glob.needle for text in texts)


def _texts(matcher: Matcher) -> list[Text]:
    members = matcher.members if isinstance(matcher, OneOf) else (matcher,)
    return (
        [member for member in members if isinstance(member, Text)]
        if all(isinstance(member, Text) for member in members)
        else []
    )
