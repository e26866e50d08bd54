"""The rules of the session: the last layer of a policy, which has no file.

1. A rule counts from the next turn on; a deny also for what is under way and has not started.
2. They are an agent's own, for as long as it is there. A copy of the agent begins with the same ones.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from difflib import get_close_matches

from agentperm_nb.errors import fix_message
from agentperm_nb.permissions.arguments import ArgumentRule
from agentperm_nb.permissions.notation import rule
from agentperm_nb.permissions.policy_users import named

__all__ = ["SessionRules"]

_EXAMPLE = "agent.session_rules.add('deny write_file(path=archive/**)')"


class SessionRules:
    """Rules on arguments that are added and removed while an agent is at work; thread-safe.

    Args:
        changed: Called after each change with what was done, ``"added"`` or ``"removed"``, and the rules.
        check: Called with a rule that is to be added; raises for one that cannot be.
    """

    def __init__(
        self,
        changed: Callable[[str, tuple[ArgumentRule, ...]], object] = lambda what, rules: None,
        check: Callable[[ArgumentRule], object] = lambda rule: None,
    ) -> None:
        self._changed, self._check = changed, check
        self._lock = threading.RLock()
        self._rules: tuple[ArgumentRule, ...] = ()

    def __repr__(self) -> str:
        return f"SessionRules({[str(one) for one in self._rules]!r})"

    def __len__(self) -> int:
        return len(self._rules)

    def __iter__(self) -> Iterator[ArgumentRule]:
        return iter(self._rules)

    def __contains__(self, one: object) -> bool:
        try:
            return isinstance(one, str | ArgumentRule) and _rule(one) in self._rules
        except ValueError:
            return False

    def add(self, *rules: str | ArgumentRule) -> None:
        """Add rules, behind those there are; one that is there already is left where it is.

        Args:
            *rules: Rules in the notation, or as objects.

        Raises:
            TypeError: One is neither.
            ValueError: One is no rule, or can match no call of the agent's tools. Then none is added.
        """
        made = [_rule(one) for one in rules]
        for one in made:
            self._check(one)
        with self._lock:
            new = tuple(one for place, one in enumerate(made) if one not in self._rules and one not in made[:place])
            if new:
                self._rules = (*self._rules, *new)
                self._changed("added", new)

    def remove(self, *rules: str | ArgumentRule) -> None:
        """Remove rules.

        Args:
            *rules: Rules in the notation, or as objects; the reason may be left out.

        Raises:
            TypeError: One is neither.
            ValueError: One is not there. Then none is removed.
        """
        with self._lock:
            gone = tuple(self._found(_rule(one)) for one in rules)
            left = tuple(one for one in self._rules if one not in gone)
            if len(left) < len(self._rules):
                self._rules = left
                self._changed("removed", gone)

    def clear(self) -> None:
        """Remove every rule."""
        self.remove(*self._rules)

    def _found(self, wanted: ArgumentRule) -> ArgumentRule:
        for one in self._rules:
            if one == wanted or (wanted.reason is None and (one.verb, one.notation) == (wanted.verb, wanted.notation)):
                return one
        there = [str(one) for one in self._rules]
        near = get_close_matches(str(wanted), there, 1)
        fix = f"remove one that is there: {near[0] if near else '; '.join(there)}" if there else "there is none"
        raise ValueError(
            fix_message(f"{wanted} is no rule of the session", fix, "agent.session_rules.remove('ask write_file')")
        )


def _rule(given: str | ArgumentRule) -> ArgumentRule:
    if isinstance(given, str):
        return named(rule(given), "session")
    if not isinstance(given, ArgumentRule) or not given.by_arguments:  # a check of its own would be lost
        problem = f"session_rules takes rules on arguments (got: {given!r})"
        raise TypeError(fix_message(problem, "write it in the notation", _EXAMPLE))
    return named(rule(str(given)), "session")
