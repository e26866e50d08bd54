"""Why a permission had no opinion of a call, and how the rules on arguments read it: words for `explain`.

1. That a permission was asked, and said nothing, is known from the trace of the decision. Here it is only put into
   words, from what the permission itself says of its readings.
2. An argument of which anything is masked is shown masked, and none of its readings.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from agentperm_nb.calls import ToolCall
from agentperm_nb.context import get_run_context
from agentperm_nb.json_values import json_text, same_json
from agentperm_nb.permissions.arguments import ArgumentRule
from agentperm_nb.permissions.builtin import AllowByReadOnly, settled_by_name
from agentperm_nb.permissions.commands import language_of, variables_in
from agentperm_nb.permissions.kinds import AskFirst, Permission
from agentperm_nb.permissions.linting.units import is_rule
from agentperm_nb.permissions.matching.conditions import Condition
from agentperm_nb.permissions.matching.declared import declared_by
from agentperm_nb.permissions.matching.fields import Unreachable
from agentperm_nb.permissions.matching.lookalikes import folded
from agentperm_nb.permissions.matching.reading import ABSENT, Reading
from agentperm_nb.permissions.policy_users import is_for_user
from agentperm_nb.permissions.steps import PolicyStep
from agentperm_nb.redaction import Redactor
from agentperm_nb.render import MASK, shorten
from agentperm_nb.tools import Tool

__all__ = ["ReadArgument", "Reader"]

_MOST_READINGS = 8
_LONGEST = 200


class ReadArgument(NamedTuple):
    """How a rule on arguments read a part of them."""

    permission: str
    """Name of the rule."""
    asks: str
    """What it asks, such as ``path=**/.env``."""
    read_as: str
    """The value, and what else it was read as, masked."""
    matches: str
    """``yes``, ``no``, ``yes, in some readings``, ``no, in some readings only``, or ``could not be read: …``; with what
    a reader should know besides."""


class Reader:
    """Puts into words how permissions read one call.

    Args:
        call: The call.
        tool: Its tool, or None where there is none.
        redactor: Masks what is shown.
        secret: Names of arguments that are masked whole.
    """

    def __init__(self, call: ToolCall, tool: Tool | None, redactor: Redactor, secret: Iterable[str]) -> None:
        self._call, self._tool, self._redactor = call, tool, redactor
        self._declared = declared_by(tool)
        masked: Mapping[str, Any] = redactor.value(call.args, secret=secret)
        self._masked = {
            name: masked.get(name, MASK)
            for name, value in call.args.items()
            if name not in masked or not same_json(masked[name], value)
        }

    # ------------------------------------------------------------------ rows

    def rows(self, permission: Permission, name: str) -> list[ReadArgument]:
        """Return how a permission read the arguments: one row a condition; none when it is not about the tool.

        Args:
            permission: The permission.
            name: What the log calls it.
        """
        if not is_rule(permission):
            return []
        if not permission.is_about(self._call.name):
            return []
        rows = []
        for condition in permission.conditions:
            reading = self._read(permission, condition)
            rows.append(
                ReadArgument(
                    name,
                    str(condition),
                    self._read_as(condition, reading),
                    self._matches(condition, reading, wide=permission.wide),
                )
            )
        return rows

    def silence(self, permission: Permission) -> str:
        """Return why a permission that was come to has said nothing.

        Args:
            permission: The permission.
        """
        name = self._call.name
        if not is_for_user(permission):
            return f"no opinion: it is for {getattr(permission, 'user', '')} only"
        if is_rule(permission):
            return self._silence_of_rule(permission)
        if settled_by_name(permission):
            return f"not asked: {name} is none of its names"
        if not permission.may_apply(name):
            return f"not asked: it is not about {name}"
        if isinstance(permission, AllowByReadOnly) and type(permission).check is AllowByReadOnly.check:
            return f"no opinion: {self._not_read_only(permission)}"
        if isinstance(permission, PolicyStep):
            return "no opinion: no rule of it matches, and it has no fallback"
        if isinstance(permission, AskFirst):
            return "no opinion: the call writes no protected path"
        return "no opinion"

    # ------------------------------------------------------------------ how

    def _silence_of_rule(self, rule: ArgumentRule) -> str:
        name = self._call.name
        if not rule.is_about(name):
            if not rule.wide and folded(rule.tool) == folded(name):
                return f"not asked: {name} is another spelling of {rule.tool}, and an allow takes names as they are"
            return f"not asked: {name} is not {rule.tool}"
        for condition in rule.conditions:
            reading = self._read(rule, condition)
            if reading.wide if rule.wide else reading.narrow:
                continue
            shown = self._read_as(condition, reading)
            if reading.problem:
                return f"no opinion: {condition.field} could not be read: {self._problem(condition, reading)}"
            if reading.any:
                return f"no opinion: {condition} does not hold for every reading of {shown}, as an allow needs"
            return f"no opinion: {condition} does not match {shown}"
        return "no opinion"

    def _not_read_only(self, permission: AllowByReadOnly) -> str:
        tool = self._tool
        if tool is not None and tool.server is not None and not permission.trust_mcp:
            return f"what the tool does is said by the server {tool.server}, which is not believed"
        return "the tool does not say that this call only reads"

    def _read(self, rule: ArgumentRule, condition: Condition) -> Reading:
        return condition.read(self._call.args, self._declared, every=not rule.wide)

    def _values(self, condition: Condition) -> list[Any]:
        return condition.value_of(self._call.args, self._declared)

    def _is_hidden(self, condition: Condition) -> bool:
        names = (step for step in condition.field.steps[1:])
        return condition.field.argument in self._masked or any(map(self._redactor.is_secret_name, names))

    def _read_as(self, condition: Condition, reading: Reading) -> str:
        if self._is_hidden(condition):
            return self._text(json_text(self._masked.get(condition.field.argument, MASK)))
        values = self._values(condition)
        shown = [self._value(value) for value in values]
        if condition.field.argument not in self._call.args and shown != ["left out"]:
            shown = [f"left out, so {', '.join(shown)}"]
        others = [text for text in dict.fromkeys(reading.readings) if text not in values]
        typed = self._typed(values)
        told = [f"{self._text(text)}{self._label(text, typed)}" for text in others[:_MOST_READINGS]]
        if len(others) > _MOST_READINGS:
            told.append(f"{len(others) - _MOST_READINGS} more")
        return ", ".join(shown) + (f" → {', '.join(told)}" if told else "")

    def _value(self, value: Any) -> str:
        if value is ABSENT:
            return "left out"
        return "not there" if isinstance(value, Unreachable) else self._text(json_text(value))

    def _text(self, text: str) -> str:
        return shorten(self._redactor.text(text), _LONGEST)

    def _typed(self, values: list[Any]) -> set[str]:
        context = get_run_context()
        try:
            folder = os.getcwd() if context is None else context.folder
        except OSError:  # it has been removed
            return set()
        texts = [value for value in values if isinstance(value, str) and "\0" not in value]
        return {os.path.normpath(os.path.join(folder, os.path.expanduser(text))) for text in texts}

    @staticmethod
    def _label(text: str, typed: set[str]) -> str:
        """Return in words how a reading of a path differs from what was typed."""
        if not os.path.isabs(text):
            return ""
        if text in typed:
            return " (typed)"
        return " (folded)" if folded(text) in set(map(folded, typed)) else " (resolved)"

    def _matches(self, condition: Condition, reading: Reading, *, wide: bool) -> str:
        if reading.problem:
            return f"could not be read: {self._problem(condition, reading)}"
        some = "yes, in some readings" if wide else "no, in some readings only"
        word = "yes" if reading.narrow else some if reading.any else "no"
        return f"{word}{self._left_to_a_shell(condition)}"

    def _problem(self, condition: Condition, reading: Reading) -> str:
        names = self._variables(condition) if "variable" in reading.problem else ""
        return self._redactor.text(reading.problem) + (f" ({names})" if names else "")

    def _left_to_a_shell(self, condition: Condition) -> str:
        """Return what a text rule on a command does not see."""
        if language_of(self._call.name, condition.field.text) != "shell":
            return ""
        names = self._variables(condition)
        return f"; {names} is a variable or a command that nobody has expanded: the shell runs another text" * bool(
            names
        )

    def _variables(self, condition: Condition) -> str:
        if self._is_hidden(condition):
            return ""
        found = [name for value in self._values(condition) if isinstance(value, str) for name in variables_in(value)]
        return ", ".join(self._text(name) for name in dict.fromkeys(found))
