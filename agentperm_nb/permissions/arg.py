"""Conditions on arguments, for rules made in Python: ``arg.between(0, 100)``, ``arg.any_of("!@example.com")``.

Where a condition takes a value, that stands for what it stands for in a rule: a text for a pattern (with ``!`` in front
for its opposite, with ``@`` for a mail domain), a set for one of its members, anything else for itself.
"""

from __future__ import annotations

from datetime import date
from typing import Any

from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.arguments import matcher_of
from agentperm_nb.permissions.matching.dates import Dates
from agentperm_nb.permissions.matching.fields import Presence
from agentperm_nb.permissions.matching.lists import AnyOf, EveryOf
from agentperm_nb.permissions.matching.mails import Mail
from agentperm_nb.permissions.matching.numbers import Numbers
from agentperm_nb.permissions.matching.reading import Matcher
from agentperm_nb.permissions.matching.texts import Text
from agentperm_nb.permissions.matching.values import Exact, Not, OneOf

__all__ = [
    "above",
    "absent",
    "any_of",
    "at_least",
    "at_most",
    "below",
    "between",
    "every_of",
    "exactly",
    "mail",
    "not_",
    "one_of",
    "path",
    "present",
    "text",
]

_Bound = float | date | str

present: Matcher = Presence(True)
"""The call gives the argument."""
absent: Matcher = Presence(False)
"""The call leaves the argument out."""


def between(low: _Bound, high: _Bound) -> Matcher:
    """Return the condition that a number or a date lies between two bounds, or is one of them.

    Args:
        low: The smaller bound: a number, a date, a datetime, or a text in ISO 8601.
        high: The greater bound.

    Raises:
        TypeError: A bound is none of these, or they are not of one kind.
        ValueError: Nothing lies between them, or a text is no date.
    """
    return _range("between", low, high)


def at_least(low: _Bound) -> Matcher:
    """Return the condition that a number or a date is not less than a bound; see `between`."""
    return _range("at_least", low, None)


def at_most(high: _Bound) -> Matcher:
    """Return the condition that a number or a date is not more than a bound; see `between`."""
    return _range("at_most", None, high)


def above(low: _Bound) -> Matcher:
    """Return the condition that a number or a date is more than a bound; see `between`."""
    return _range("above", low, None, opened=True)


def below(high: _Bound) -> Matcher:
    """Return the condition that a number or a date is less than a bound; see `between`."""
    return _range("below", None, high, opened=True)


def one_of(*values: Any) -> Matcher:
    """Return the condition that a value is one of these: what a set says, for values that no set can hold.

    Args:
        values: Values, patterns, or ranges.

    Raises:
        ValueError: There is none.
        TypeError: There is no condition for one.
    """
    return OneOf(map(matcher_of, values))


def not_(value: Any) -> Matcher:
    """Return the opposite of a condition on one value.

    Args:
        value: A value, a pattern, a set or a range.

    Raises:
        TypeError: There is no condition for it, or it is the opposite of one already, or is about lists.
    """
    return Not(matcher_of(value))


def any_of(value: Any) -> Matcher:
    """Return the condition that it holds for at least one element of a list.

    Args:
        value: What an element has to be.

    Raises:
        TypeError: There is no condition for it, or it is about lists already.
    """
    return AnyOf(matcher_of(value))


def every_of(value: Any) -> Matcher:
    """Return the condition that it holds for every element of a list that is not empty.

    Args:
        value: What an element has to be.

    Raises:
        TypeError: There is no condition for it, or it is about lists already.
    """
    return EveryOf(matcher_of(value))


def exactly(value: Any) -> Matcher:
    """Return the condition that a value is this one, a text as it stands: wildcards have no meaning in it.

    Args:
        value: A JSON value.

    Raises:
        TypeError: It is not JSON.
    """
    return Numbers(value, value) if type(value) in (int, float) else Exact(value)


def text(pattern: str) -> Matcher:
    """Return the condition that a text matches a pattern, also where the argument is one of paths.

    Args:
        pattern: The pattern: ``*`` crosses everything.

    Raises:
        TypeError: It is not a string.
        ValueError: It can match nothing.
    """
    return Text(pattern)


def path(pattern: str) -> Matcher:
    """Return the condition that a path matches a pattern, also where nothing says that the argument is one of paths.

    Args:
        pattern: The pattern: ``*`` is within a name, ``**`` crosses folders.

    Raises:
        TypeError: It is not a string.
        ValueError: It can match nothing.
    """
    from agentperm_nb.permissions.matching.paths import PathPattern

    return PathPattern(pattern)


def mail(pattern: str) -> Matcher:
    """Return the condition that a text is a mail address.

    Args:
        pattern: ``@example.com``, ``@*.example.com`` or ``ann@example.com``.

    Raises:
        TypeError: It is not a string.
        ValueError: It names no domain and no address.
    """
    return Mail(pattern)


def _range(name: str, low: Any, high: Any, *, opened: bool = False) -> Matcher:
    given = [bound for bound in (low, high) if bound is not None]
    if given and all(isinstance(bound, date | str) for bound in given):
        return Dates(low, high, low_open=opened, high_open=opened)
    if given and all(isinstance(bound, int | float) and not isinstance(bound, bool) for bound in given):
        return Numbers(low, high, low_open=opened, high_open=opened)
    raise TypeError(
        fix_message(
            f"arg.{name} takes numbers, or dates (got: {', '.join(map(repr, given)) or 'None'})",
            "give bounds of one kind",
            'AllowByArguments("transfer", amount=arg.between(0, 100))',
        )
    )
