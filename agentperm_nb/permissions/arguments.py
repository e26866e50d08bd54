"""Rules on arguments: `DenyByArguments`, `AllowByArguments`, `AskByArguments`.

1. A rule names a tool, or several by a pattern, and has conditions on arguments. It matches when all of them do;
   without conditions it is a rule on the name.
2. Denies and asks read wide, the name of the tool too: they match when some reading of a value does. Allows read
   narrow: all readings have to.
3. What cannot be read is never allowed by a rule on it: a value of the wrong type, an argument that the tool does not
   have, a text that does not say plainly what it is. A deny on it denies, an ask asks, and the reason says "could not
   be read".
4. A rule never changes, and says what it is in one notation (`notation`): ``deny read_file(path=**/.env)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import json_text
from agentperm_nb.permissions.kinds import AllowPermission, DecidePermission, DenyPermission, Permission
from agentperm_nb.permissions.matching.conditions import Condition
from agentperm_nb.permissions.matching.dates import Dates
from agentperm_nb.permissions.matching.declared import declared_by
from agentperm_nb.permissions.matching.fields import Field
from agentperm_nb.permissions.matching.globs import Glob, GlobError
from agentperm_nb.permissions.matching.mails import Mail
from agentperm_nb.permissions.matching.numbers import Numbers
from agentperm_nb.permissions.matching.reading import ABSENT, Matcher, Reading
from agentperm_nb.permissions.matching.texts import Pattern
from agentperm_nb.permissions.matching.values import Exact, Not, OneOf
from agentperm_nb.permissions.matching.writing import bare_tool, quoted
from agentperm_nb.permissions.verdicts import Allowed, Ask, Denied, Verdict, checked_reason
from agentperm_nb.tools import Tool

__all__ = [
    "AllowByArguments",
    "ArgumentReading",
    "ArgumentRule",
    "AskByArguments",
    "DenyByArguments",
    "matcher_of",
]

_EXAMPLE = 'DenyByArguments("read_file", path="**/.env")'


class ArgumentReading(NamedTuple):
    """How a rule read a part of the arguments."""

    argument: str
    """The part, such as ``items[*].price``."""
    read_as: str
    """The value and its other readings; not yet masked."""
    matches: bool
    """Whether the condition on it holds."""
    problem: str
    """Why it could not be read, or an empty text."""


class ArgumentRule(Permission):
    """What the three rules on arguments have in common; use one of them.

    Args:
        tool: The tool's name, or a pattern of names: ``*``, ``?``, ``[ab]``, ``[!ab]``; ``server__*`` is every tool of
            a server. The whole name has to match.
        reason: Why, in words, for the model or the person.
        name: What the log calls this permission; its notation when left out.
        arguments: Conditions on arguments whose names cannot be keywords: ``{"items[*].price": arg.at_most(5)}``; or
            pairs of name and condition, for several on one argument.
        conditions: Conditions by argument. A text is a pattern of a path or a text; with ``!`` in front it is the
            opposite, with ``@`` in front a mail domain. A number, a boolean, None, a date, a list or a dict is that
            value, a set is one of its members. The module ``agentperm_nb.arg`` has the other conditions.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The name or a pattern is malformed, or can match nothing; the reason is blank.
    """

    verb: ClassVar[str]
    """``deny``, ``allow`` or ``ask``."""
    blocking = False

    def __init__(
        self,
        tool: str,
        /,
        *,
        reason: str | None = None,
        name: str | None = None,
        arguments: Mapping[str, Any] | Iterable[tuple[str, Any]] | None = None,
        **conditions: Any,
    ) -> None:
        self._tool = tool
        self._glob = _tool_glob(type(self).__name__, tool)
        self._literal = tool if self._glob.literal else None
        self._conditions: tuple[Condition, ...] = tuple(
            Condition(Field.parse(field), matcher_of(value))
            for field, value in [*conditions.items(), *_pairs(type(self).__name__, arguments)]
        )
        self._reason = None if reason is None else checked_reason(type(self).__name__, reason, _example(self))
        if name is not None and not isinstance(name, str):
            raise TypeError(fix_message(f"name= is a string (got: {name!r})", "give a text", _EXAMPLE))
        self.name: str | None = name

    @property
    def tool(self) -> str:
        """The tool's name, or the pattern of names."""
        return self._tool

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The conditions, all of which have to hold."""
        return self._conditions

    @property
    def reason(self) -> str | None:
        """Why, in words; None for a text made of the notation."""
        return self._reason

    @cached_property
    def notation(self) -> str:
        """The rule in its notation, without the reason."""
        tool = self._tool if bare_tool(self._tool) else quoted(self._tool)
        return f"{self.verb} {tool}" + (f"({', '.join(map(str, self._conditions))})" if self._conditions else "")

    def __str__(self) -> str:
        return self.notation if self._reason is None else f"{self.notation} because {quoted(self._reason)}"

    def __repr__(self) -> str:
        return f"rule({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ArgumentRule) or type(other) is not type(self):
            return NotImplemented
        return (self._tool, self._conditions, self._reason) == (other._tool, other._conditions, other._reason)

    def __hash__(self) -> int:
        return hash((type(self), self.notation))

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key not in ("_glob", "notation")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._glob = _tool_glob(type(self).__name__, self._tool)

    @property
    def reads_files(self) -> bool:  # type: ignore[override]  # its base has a plain value
        """Whether it may follow a path: where a tool says that an argument is one, an unmarked pattern does."""
        return any(condition.may_be_path for condition in self._conditions)

    @property
    def wide(self) -> bool:
        """Whether it reads wide: so do denies and asks."""
        return self.verb != "allow"

    @property
    def by_arguments(self) -> bool:
        """Whether it decides as rules on arguments do: nothing of that is overridden."""
        kind = type(self)
        return (
            kind.check in (DenyByArguments.check, AllowByArguments.check, AskByArguments.check)
            and kind.acheck is Permission.acheck
            and kind.is_about is ArgumentRule.is_about
            and kind._read is ArgumentRule._read
            and not {"check", "acheck", "is_about", "_read"} & vars(self).keys()
        )

    def may_apply(self, name: str) -> bool:
        """Return whether it may have an opinion of a call of a tool of this name."""
        return not self.by_arguments or self.is_about(name)

    @property
    def names_one_tool(self) -> bool:
        """Whether it is about a tool by its name, and not about all that a pattern of names fits."""
        return self._literal is not None

    def is_about(self, name: str) -> bool:
        """Return whether the rule names a tool of this name, read wide or narrow as the rule reads."""
        return self._glob.wide(name) if self.wide else self._glob.exact(name)

    def reading_of(self, call: ToolCall, tool: Tool | None) -> list[ArgumentReading]:
        """Return how it reads a call, one row a condition; none for a call of a tool that it is not about.

        Args:
            call: The call.
            tool: Its tool.
        """
        if not self.is_about(call.name):
            return []
        declared = declared_by(tool)
        rows = []
        for condition in self._conditions:
            reading = condition.read(call.args, declared, every=not self.wide)
            values = condition.value_of(call.args, declared)
            shown = [_shown(value) for value in values]
            shown += [text for text in reading.readings if text not in values]
            matches = reading.wide if self.wide else reading.narrow
            rows.append(ArgumentReading(condition.field.text, " | ".join(shown), matches, reading.problem))
        return rows

    def problems_with(self, tool: Tool) -> list[str]:
        """Return why the rule can match no call of a tool, by what its schema says; nothing where it does not apply.

        Args:
            tool: The tool.
        """
        if not self.is_about(tool.name):
            return []
        declared = declared_by(tool)
        return [text for one in self._conditions for text in one.problems_with(declared, every=not self.wide)]

    def check_tools(self, tools: Iterable[Tool]) -> None:
        """Make sure that the rule can match a call of one of these tools, if it is about any of them.

        Args:
            tools: The tools of an agent.

        Raises:
            ValueError: It is about some of them, and can match no call of any.
        """
        found = [self.problems_with(tool) for tool in tools if self.is_about(tool.name)]
        if found and all(found):
            raise ValueError(
                fix_message(
                    f"{self.notation} can match nothing: {found[0][0]}",
                    "correct the argument or the condition, or leave the rule out",
                    f'rule("{self.verb} read_file(path=**/.env)")',
                )
            )

    def _read(self, call: ToolCall, tool: Tool | None) -> list[Reading] | None:
        """Return the readings of a call that matches, else None."""
        if call.name != self._literal and not self.is_about(call.name):
            return None
        if not self._conditions:
            return []
        wide = self.wide
        declared = declared_by(tool)
        readings = []
        for condition in self._conditions:
            reading = condition.read(call.args, declared, every=not wide)
            if not (reading.wide if wide else reading.narrow):
                return None
            readings.append(reading)
        return readings

    def _reason_for(self, call: ToolCall, readings: list[Reading]) -> str:
        problems = [
            f"{condition.field} could not be read: {reading.problem}"
            for condition, reading in zip(self._conditions, readings, strict=True)
            if reading.problem
        ]
        text = self._reason
        if text is None:
            fields = ", ".join(f"{field}=…" for field in dict.fromkeys(one.field.text for one in self._conditions))
            what = f"{call.name}({fields})" if fields else call.name
            text = f"{what} is {'not allowed' if self.verb == 'deny' else 'asked about'} by {self.notation}"
        return f"{text} ({'; '.join(problems)})" if problems else text


class DenyByArguments(ArgumentRule, DenyPermission):
    """Deny calls by their arguments; reads wide, and denies what it cannot read.

    It takes what every `ArgumentRule` takes.
    """

    verb: ClassVar[str] = "deny"
    blocking = False

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Deny a call that matches, or that cannot be read."""
        readings = self._read(call, tool)
        return None if readings is None else Denied(self._reason_for(call, readings))


class AllowByArguments(ArgumentRule, AllowPermission):
    """Allow calls by their arguments; reads narrow, and never allows what it cannot read.

    It takes what every `ArgumentRule` takes.
    """

    verb: ClassVar[str] = "allow"
    blocking = False

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Allow a call that matches however it is read."""
        return None if self._read(call, tool) is None else Allowed()


class AskByArguments(ArgumentRule, DecidePermission):
    """Ask a person about calls by their arguments; reads wide, and asks about what it cannot read.

    It takes what every `ArgumentRule` takes.
    """

    verb: ClassVar[str] = "ask"
    words_its_question: ClassVar[bool] = False
    blocking = False

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        """Ask about a call that matches, or that cannot be read."""
        readings = self._read(call, tool)
        return None if readings is None else Ask(self._reason_for(call, readings))


def matcher_of(value: Any) -> Matcher:
    """Return the condition that a Python value stands for; see `ArgumentRule`.

    Args:
        value: A matcher, a text, another JSON value, a date, or a set of these.

    Raises:
        TypeError: There is no condition for it.
        ValueError: It can match nothing.
    """
    if isinstance(value, Matcher):
        return value
    if isinstance(value, str):
        if value.startswith("!") and len(value) > 1:
            return Not(matcher_of(value[1:]))
        return Mail(value) if value.startswith("@") and len(value) > 1 else Pattern(value)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Numbers(value, value)
    if isinstance(value, date):
        return Dates(value, value)
    if isinstance(value, set | frozenset):
        return OneOf(matcher_of(member) for member in value)
    return Exact(value)


def _pairs(owner: str, arguments: object) -> list[tuple[str, Any]]:
    if arguments is None:
        return []
    if isinstance(arguments, Mapping):
        return list(arguments.items())
    example = f'{owner}("order", arguments={{"items[*].price": 5}})'
    listed = None if isinstance(arguments, str) or not isinstance(arguments, Iterable) else list(arguments)
    if listed is None or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in listed):
        raise TypeError(
            fix_message(f"arguments= takes a dict of conditions (got: {arguments!r})", "give a dict", example)
        )
    return listed


def _tool_glob(owner: str, tool: object) -> Glob:
    example = _EXAMPLE.replace("DenyByArguments", owner)
    if not isinstance(tool, str):
        raise TypeError(
            fix_message(
                f"{owner} takes the name of a tool (got: {tool!r})", "give a name, or a pattern of names", example
            )
        )
    if not tool or any(char.isspace() for char in tool):
        raise ValueError(
            fix_message(f"{owner} got {tool!r}, which can match no tool", "give the name of the tool", example)
        )
    try:
        return Glob(tool)
    except GlobError as error:
        problem = f"{owner} got {tool!r}, which can match no tool: {error}"
        raise ValueError(fix_message(problem, "close the bracket and put characters into it", example)) from None


def _example(rule: ArgumentRule) -> str:
    return f'{type(rule).__name__}("read_file", path="**/.env", reason="no secrets")'


def _shown(value: Any) -> str:
    if value is ABSENT:
        return "left out"
    return json_text(value) if not hasattr(value, "problem") else "not there"
