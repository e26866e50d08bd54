"""Which part of the arguments a condition is about, and whether it is there.

1. ``path`` is an argument, ``meta.owner`` a field of an argument that is an object, ``items[*].price`` that field of
   each element of a list. A name with other characters stands in double quotes: ``"a.b".c``.
2. What was left out is absent, and so is what lies in an object that was left out. A step into something that is no
   object, or no list, cannot be read.
3. A deny or an ask takes other spellings of a name for it (`lookalikes.same_name`): case, letters that look alike,
   characters that are not seen. Where there is one, an allow cannot read the field.
4. ``present`` and ``absent`` ask what the call says, whatever the tool does without it. ``null`` counts as absent where
   the tool's schema has a place for it, and cannot be read elsewhere.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.matching.lookalikes import same_name
from agentperm_nb.permissions.matching.reading import ABSENT, Matcher, Reading, Where
from agentperm_nb.permissions.matching.texts import BOTH, NEITHER, json_kind, unreadable
from agentperm_nb.permissions.matching.writing import key_text

__all__ = ["EACH", "Either", "Field", "FieldError", "Presence", "Unreachable", "scan_field"]

EACH = "[*]"
"""The step to each element of a list."""

_KEY = re.compile(r"[^\W\d][\w$-]*")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')


class FieldError(ValueError):
    """What is wrong with the name of an argument, and at which of its characters."""

    def __init__(self, problem: str, at: int) -> None:
        super().__init__(problem)
        self.at: int = at
        """Place of the character in the text."""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """In place of a value: why there is no way to it."""

    problem: str


@dataclass(frozen=True, slots=True)
class Either:
    """In place of a value: several, each under a name that may be meant."""

    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Field:
    """A part of the arguments.

    Args:
        steps: Names, and ``[*]`` (`EACH`) for the elements of a list, the argument first.
    """

    steps: tuple[str, ...]
    plain: bool = field(init=False, compare=False)
    """Whether it is a whole argument."""
    spread: bool = field(init=False, compare=False)
    """Whether it is in each element of a list."""
    text: str = field(init=False, compare=False)
    """The notation."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "plain", len(self.steps) == 1)
        object.__setattr__(self, "spread", EACH in self.steps)
        parts = [
            step if step is EACH else ("." if place else "") + key_text(step) for place, step in enumerate(self.steps)
        ]
        object.__setattr__(self, "text", "".join(parts))

    def __str__(self) -> str:
        return self.text

    @property
    def argument(self) -> str:
        """The argument that it is in."""
        return self.steps[0]

    @property
    def last(self) -> str:
        """The last name in it."""
        return next(step for step in reversed(self.steps) if step is not EACH)

    @classmethod
    def parse(cls, text: str) -> Field:
        """Return the field that a text names.

        Raises:
            TypeError: It is not a string.
            ValueError: It names none.
        """
        example = 'DenyByArguments("order", arguments={"items[*].price": 5})'
        if not isinstance(text, str):
            problem = f"the name of an argument is a string (got: {text!r})"
            raise TypeError(fix_message(problem, "give its name", example))
        try:
            found, end = scan_field(text, 0)
            if end != len(text):
                raise FieldError("there is more than a name", end)
        except FieldError as error:
            problem = f"{text!r} names no argument: {error} (at character {error.at + 1})"
            fix = "write its name, .name for a field, [*] for the elements of a list, and other names in double quotes"
            raise ValueError(fix_message(problem, fix, example)) from None
        return found

    def values(self, top: Any, *, default: Any = ABSENT, wide: bool | None = None) -> Iterator[Any]:
        """Yield what is there: one value, or one for each element. It may be `ABSENT`, `Either` or `Unreachable`.

        Args:
            top: The value of the argument.
            default: What stands for a last name that was left out.
            wide: Whether other spellings of a name are taken for it, as for a deny, or leave it `Unreachable`, as for
                an allow; None when they do not matter.
        """
        return _inside(top, self.steps, 1, default, wide)

    def spelt(self, others: Iterable[tuple[str, Any]], top: Any, *, default: Any, wide: bool) -> list[Any]:
        """Return the values, where other arguments may be meant for the one that it is in.

        Args:
            others: Names and values of the other arguments that count.
            top: The value of the argument.
            default: What stands for a last name that was left out.
            wide: As for `values`.
        """
        alike = [value for name, value in others if same_name(name, self.argument)]
        if alike and not wide:
            return [_looks_like(self.argument)]
        return list(
            _either([top, *alike], self.steps, 1, default) if alike else self.values(top, default=default, wide=wide)
        )


def _looks_like(name: str) -> Unreachable:
    return Unreachable(f"a key that looks like {name}")


def _either(tops: list[Any], steps: tuple[str, ...], place: int, default: Any) -> Iterator[Any]:
    found = [value for top in tops for value in _inside(top, steps, place, default, True)]
    if found:
        yield found[0] if len(found) == 1 else Either(tuple(found))


def _inside(value: Any, steps: tuple[str, ...], place: int, default: Any, wide: bool | None) -> Iterator[Any]:
    while place < len(steps):
        step = steps[place]
        if value is ABSENT or isinstance(value, Unreachable):
            break
        if step is EACH:
            if not isinstance(value, list):
                yield Unreachable(f"{json_kind(value)}, not a list, before {EACH}")
                return
            for item in value:
                yield from _inside(item, steps, place + 1, default, wide)
            return
        if not isinstance(value, dict):
            hint = f" (write {EACH} for its elements)" if isinstance(value, list) else ""
            value = Unreachable(f"{json_kind(value)}, not an object, before .{step}{hint}")
            break
        fields = value
        value = fields.get(step, default if place == len(steps) - 1 else ABSENT)
        place += 1
        if wide is None or len(fields) == (step in fields):
            continue
        alike = [item for name, item in fields.items() if name != step and same_name(name, step)]
        if alike and not wide:
            value = _looks_like(step)
            break
        if alike:
            yield from _either([value, *alike], steps, place, default)
            return
    yield value


def scan_field(text: str, place: int) -> tuple[Field, int]:
    """Read the name of an argument at a place of a text; return it, and the place after it.

    Raises:
        FieldError: There is none.
    """
    steps: list[str] = []
    while True:
        name, place = _scan_key(text, place)
        steps.append(name)
        while text.startswith(EACH, place):
            steps.append(EACH)
            place += len(EACH)
        if text.startswith("[", place):
            raise FieldError("only [*] can stand in brackets: a rule is about all elements of a list", place)
        if not text.startswith(".", place):
            return Field(tuple(steps)), place
        place += 1


def _scan_key(text: str, place: int) -> tuple[str, int]:
    found = _KEY.match(text, place)
    if found is not None:
        return found[0], found.end()
    found = _QUOTED.match(text, place)
    if found is None:
        problem = (
            "the closing quote is missing" if text.startswith('"', place) else "the name of an argument is missing"
        )
        raise FieldError(problem, place)
    try:
        return json.loads(found[0]), found.end()
    except ValueError:
        raise FieldError("it is not a text as JSON writes it", place) from None


class Presence(Matcher):
    """Whether the call gives an argument at all.

    Args:
        present: Whether it has to be there, or has to be left out.
    """

    kind: ClassVar[str] = "presence"

    def __init__(self, present: bool) -> None:
        self.present: bool = present

    def __str__(self) -> str:
        return "present" if self.present else "absent"

    def read(self, value: Any, where: Where) -> Reading:
        """Read what the call gives, without the default of the tool."""
        if value is None:
            return unreadable(value, "a value, and not left out")
        return BOTH if (value is not ABSENT) is self.present else NEITHER
