"""The arguments of a call: what a model wrote, read as a JSON object or refused with a text that the model can act on.

1. Arguments are a JSON object of JSON values. Whatever is not makes the call invalid; it never raises.
2. A key that is given twice makes the call invalid: parsers disagree about which of the two counts, so what a person
   is shown and what runs might differ.
3. NaN and the infinities are not JSON, a number too large for a float is not either. A whole number of so many digits
   that Python does not write it is refused.
4. Arguments nested more than `MAX_DEPTH` levels deep are refused.
5. An empty text means no arguments: several servers send it for a tool without parameters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any

from agentperm_nb.json_values import FrozenDict, FrozenList, has_text

__all__ = ["MAX_DEPTH", "read_json", "read_object"]

MAX_DEPTH = 100
"""Levels of objects and lists in the arguments: the object of the arguments itself is the first."""

_SHOWN = 200
# Types whose values are JSON, and hold no others.
_SIMPLE = frozenset({str, bool, type(None)})
_TEXT = frozenset({str})
_OBJECTS: frozenset[object] = frozenset((dict, FrozenDict))
_LISTS: frozenset[object] = frozenset((list, FrozenList, tuple))
_TOO_DEEP = f"arguments are nested more than {MAX_DEPTH} levels deep"


def read_json(text: object) -> tuple[Mapping[str, Any], str | None]:
    """Return the arguments in a JSON text, and why they cannot be read (None when they can).

    Args:
        text: The JSON text; a mapping, which some servers send instead, is taken as the arguments.
    """
    if not isinstance(text, str):
        return read_object(text)
    if not text.strip(" \t\r\n"):
        return {}, None
    try:
        value = json.loads(text, object_pairs_hook=_object)
    except RecursionError:
        return {}, _TOO_DEEP
    except json.JSONDecodeError as error:
        return {}, f"arguments are not valid JSON: {_shorten(text)} ({error.msg} at character {error.pos})"
    except ValueError:  # an integer of more digits than Python reads
        return {}, f"arguments are not valid JSON: {_shorten(text)} (a number is too long)"
    return read_object(value)


def read_object(value: object) -> tuple[Mapping[str, Any], str | None]:
    """Return the arguments given as an object, and why they are not a JSON object (None when they are)."""
    if type(value) in _OBJECTS and _is_plain(value):
        return value, None  # type: ignore[return-value]  # a dict, by its type
    if isinstance(value, _Repeated):
        return {}, f"the argument {value.key!r} is given twice"
    if not isinstance(value, Mapping):
        return {}, f"arguments are not a JSON object (got: {_kind(value)})"
    problem = _problem_in(value)
    return (value, None) if problem is None else ({}, problem)


class _Repeated:
    """Stands for an object in which a key is given twice, until its place in the arguments is known."""

    def __init__(self, key: str) -> None:
        self.key = key


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _Repeated:
    made = dict(pairs)
    if len(made) == len(pairs):
        return made
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            return _Repeated(key)
        seen.add(key)
    raise AssertionError("a shorter dict has a repeated key")


def _is_plain(args: Any) -> bool:
    """Return whether these are JSON values of the plainest types: nearly all arguments are, and are read at once.

    False says nothing: `_problem_in` then looks again, knows more types, and tells what is wrong and where.
    """
    if _TEXT.issuperset(map(type, args)):
        kinds = set(map(type, args.values()))
        if int in kinds:
            kinds.remove(int)
            if not all(has_text(item) for item in args.values() if type(item) is int):
                return False
        if kinds <= _SIMPLE:
            return True
    # A stack of our own here too, and depth first: an object that contains itself is left at the deepest level allowed.
    waiting: list[tuple[int, Any]] = [(1, args)]
    while waiting:
        level, value = waiting.pop()
        if type(value) in _OBJECTS:
            if not _TEXT.issuperset(map(type, value)):
                return False
            value = value.values()
        for item in value:
            kind = type(item)
            if kind in _SIMPLE:
                continue
            if kind is int:
                if not has_text(item):
                    return False
            elif kind is float:
                if not isfinite(item):
                    return False
            elif kind in _OBJECTS or kind in _LISTS:
                if level == MAX_DEPTH:
                    return False
                waiting.append((level + 1, item))
            else:
                return False
    return True


def _problem_in(args: Mapping[Any, Any]) -> str | None:
    # A stack of our own: arguments nested too deeply are refused here and must not exhaust Python's.
    waiting: list[tuple[tuple[str | int, ...], Any]] = [((), args)]
    while waiting:
        path, value = waiting.pop()
        if value is None or isinstance(value, str):
            continue
        if isinstance(value, int):
            if not has_text(value):
                return f"the argument {_place(path)} is a number that is too long"
        elif isinstance(value, float):
            if not isfinite(value):
                return f"the argument {_place(path)} is {value}, which is not a JSON number"
        elif isinstance(value, Mapping):
            if len(path) >= MAX_DEPTH:
                return _TOO_DEEP
            for key, item in value.items():
                if not isinstance(key, str):
                    return f"a key of the arguments is not a string (got: {_shorten(_repr(key))})"
                waiting.append(((*path, key), item))
        elif isinstance(value, list | tuple):
            if len(path) >= MAX_DEPTH:
                return _TOO_DEEP
            waiting.extend(((*path, index), item) for index, item in enumerate(value))
        elif isinstance(value, _Repeated):
            return f"the key {value.key!r} is given twice in the argument {_place(path)}"
        else:
            return f"the argument {_place(path)} is of type {type(value).__name__}, which JSON has no form for"
    return None


def _place(path: tuple[str | int, ...]) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return _shorten(text)


def _repr(key: object) -> str:
    try:
        return repr(key)
    except Exception:  # noqa: BLE001 - a foreign repr may do anything, and a long number has none
        return f"<{type(key).__name__}>"


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return f"a string: {_shorten(value)}"
    return "a list" if isinstance(value, list | tuple) else type(value).__name__


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
