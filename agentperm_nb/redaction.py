"""What may be shown or stored: secrets are masked before a value reaches a panel, a table, a text or the log.

1. A value below a secret-looking name (``password``, ``api_key``, ``Authorization`` and their spellings) is masked
   whole, whatever its type.
2. In every other text the parts that look like a secret are masked: private keys, tokens of known providers, JWTs,
   ``name=value`` and header lines with a secret-looking name, passwords and secret parameters in URLs.
3. A text that is JSON is looked into like the value it stands for. What is nested more than 100 levels deep is masked.
4. The arguments that run are never touched: masking makes a copy.

It errs on the side of masking. It cannot know a secret that looks like any other word: name such arguments with
``@tool(secret=["body"])`` or give the agent a function with ``redact=``.
"""

from __future__ import annotations

import itertools
import json
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import FrozenDict, FrozenList, call_text, has_text, same_json
from agentperm_nb.render import MASK

__all__ = ["Redactor"]

_MOST_LEVELS = 100  # what is nested deeper is masked whole
_NOTHING: frozenset[str] = frozenset()


class _Call(Protocol):
    """What has a name and arguments; a `ToolCall` is above this floor."""

    @property
    def name(self) -> str: ...
    @property
    def args(self) -> Mapping[str, Any]: ...


class Redactor:
    """Masks secrets in arguments, results, reasons and errors.

    Args:
        rules: Functions that are given each text and return it masked; they run after the built-in rules.
        secret: Names whose values are masked whole, beside those that look like a secret's.

    Raises:
        TypeError: It is not a list, or a rule is not callable.
    """

    secret: frozenset[str]
    """Names whose values are masked whole, beside those that look like a secret's."""

    def __init__(self, rules: Iterable[Callable[[str], str]] = (), *, secret: Iterable[str] = ()) -> None:
        from agentperm_nb.masking import is_harmless, is_plain_name, is_secret_name, mask_text

        self._is_plain_name, self._is_secret_name = is_plain_name, is_secret_name
        self._is_harmless, self._mask_text = is_harmless, mask_text
        self._rules = _checked_rules(rules)
        self.secret = frozenset(secret)

    @property
    def has_rules(self) -> bool:
        """Whether it has rules beside the built-in ones: what these put in place of a secret may look like anything."""
        return bool(self._rules)

    def is_secret_name(self, name: str) -> bool:
        """Return whether a value of this name is masked: ``api_key``, ``X-Api-Key`` and ``APIKEY`` alike."""
        return name in self.secret or self._is_secret_name(name)

    def text(self, text: str) -> str:
        """Return `text` with secrets masked, also in JSON inside it."""
        return self._text(text, self.secret, 0)

    def _text(self, text: str, secret: frozenset[str], depth: int) -> str:
        inner = _json_container(text) if "{" in text or "[" in text else None
        if inner is not None:
            masked = self._value(inner, secret, depth)
            text = text if same_json(masked, inner) else json.dumps(masked, ensure_ascii=False)
        else:
            text = self._mask_text(text, secret=secret)
        for rule in self._rules:
            text = self._apply(rule, text)
        return text

    @staticmethod
    def _apply(rule: Callable[[str], str], text: str) -> str:
        try:
            masked = rule(text)
        except Exception:  # noqa: BLE001 - a rule that fails must not let the text through
            return MASK
        return masked if isinstance(masked, str) else MASK

    def value(self, value: Any, *, secret: Iterable[str] = ()) -> Any:
        """Return a JSON value with secrets masked: a copy, or frozen arguments themselves when nothing is hidden.

        Args:
            value: Anything; what is not JSON becomes its masked ``repr``.
            secret: Names whose values are masked whole, at any depth.
        """
        if self.secret:
            secret = self.secret.union(secret)
        if type(value) is FrozenDict and not secret and self._nothing_to_hide(value):
            return value
        return self._value(value, frozenset(secret) if secret else _NOTHING, 0)

    def _nothing_to_hide(self, args: FrozenDict) -> bool:
        """Return whether it is seen at once that flat arguments hold no secret, as most do."""
        if self._rules:
            return False
        for name, value in args.items():
            if type(name) is not str or not self._is_plain_name(name):
                return False
            kind = type(value)
            if kind is int:
                if not has_text(value):
                    return False
            elif not (self._is_harmless(value) if kind is str else kind is bool or value is None):
                return False
        return True

    def call(self, call: _Call, secret: Iterable[str] = ()) -> str:
        """Return a call as text, ``name(key=value, …)``, with secrets masked."""
        return call_text(call.name, self.value(call.args, secret=secret))

    def _value(self, value: Any, secret: frozenset[str], depth: int) -> Any:
        if isinstance(value, str):
            return self._text(value, secret, depth)
        if value is None or isinstance(value, (bool, int, float)):
            return value if not isinstance(value, int) or has_text(value) else self._foreign(value)
        if depth >= _MOST_LEVELS and isinstance(value, (Mapping, list, tuple)):
            return MASK
        if isinstance(value, (dict, Mapping)):  # a dict first: it is asked far more quickly
            masked: dict[str, Any] = {}
            same = type(value) is FrozenDict  # what cannot change, and has nothing to hide, need not be copied
            for key, item in value.items():
                if type(key) is str and not self._rules and self._is_plain_name(key):
                    hide, shown = key in secret and item is not None, key
                else:
                    hide = isinstance(key, str) and item is not None and (key in secret or self._is_secret_name(key))
                    shown = self._key(key)
                if shown in masked:  # two names that look alike once masked: neither value may vanish
                    shown = next(name for n in itertools.count(2) if (name := f"{shown} #{n}") not in masked)
                if hide:
                    new: Any = MASK
                elif type(item) is str:
                    new = self._text(item, secret, depth + 1)
                else:
                    new = self._value(item, secret, depth + 1)
                masked[shown] = new
                same = same and new is item and shown is key
            return value if same else masked
        if isinstance(value, (list, tuple)):
            items = [self._value(item, secret, depth + 1) for item in value]
            same = type(value) is FrozenList and all(map(operator.is_, items, value))
            return value if same else items
        return self._foreign(value)

    def _key(self, key: Any) -> str:
        return self.text(key) if isinstance(key, str) else self._foreign(key)

    def _foreign(self, value: object) -> str:
        if isinstance(value, int) and not has_text(value):
            return f"<{type(value).__name__}>"
        try:
            return self.text(repr(value))
        except Exception:  # noqa: BLE001 - a foreign repr may do anything
            return MASK


def _checked_rules(rules: object) -> tuple[Callable[[str], str], ...]:
    example = "Agent(tools, redact=[lambda text: text.replace('ACME-42', '[masked]')])"
    if isinstance(rules, str | bytes) or not isinstance(rules, Iterable):
        raise TypeError(
            fix_message(f"redact= takes a list of functions (got: {rules!r})", "put the function in a list", example)
        )
    listed = tuple(rules)
    for rule in listed:
        if not callable(rule):
            raise TypeError(
                fix_message(
                    f"redact= takes functions from text to text (got: {rule!r})", "give a list of functions", example
                )
            )
    return listed


def _json_container(text: str) -> Any:
    """Return the list or dict that `text` is as JSON, else None."""
    stripped = text.strip()
    if not (stripped.startswith(("{", "[")) and stripped.endswith(("}", "]"))):
        return None
    try:
        value = json.loads(stripped, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):  # the value that loses would never be looked at
        raise ValueError("a name stands twice in one object")
    return found
