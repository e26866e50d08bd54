"""JSON values: frozen and thawed, written in one canonical form, compared, hashed, and shown as a call."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, ClassVar, NoReturn

from agentperm_nb.errors import fix_message

__all__ = [
    "FrozenDict",
    "FrozenList",
    "call_text",
    "canonical_json",
    "digest",
    "digest_of",
    "freeze",
    "has_text",
    "json_text",
    "same_json",
    "sha256",
    "thaw",
]


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError(
        fix_message(
            "the arguments of a call cannot be changed: what was decided about is what runs",
            "work on a copy",
            "from agentperm_nb import thaw\nargs = thaw(call.args)\nargs['path'] = 'notes.txt'",
        )
    )


class FrozenDict(dict[str, Any]):
    """A dict that cannot be changed; its values are frozen too."""

    __slots__ = ()
    __setitem__: ClassVar[Callable[..., NoReturn]] = _refuse
    __delitem__: ClassVar[Callable[..., NoReturn]] = _refuse
    __ior__: ClassVar[Callable[..., NoReturn]] = _refuse
    clear: ClassVar[Callable[..., NoReturn]] = _refuse
    pop: ClassVar[Callable[..., NoReturn]] = _refuse
    popitem: ClassVar[Callable[..., NoReturn]] = _refuse
    setdefault: ClassVar[Callable[..., NoReturn]] = _refuse
    update: ClassVar[Callable[..., NoReturn]] = _refuse

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (freeze, (dict(self),))


class FrozenList(list[Any]):
    """A list that cannot be changed; its items are frozen too."""

    __slots__ = ()
    __setitem__: ClassVar[Callable[..., NoReturn]] = _refuse
    __delitem__: ClassVar[Callable[..., NoReturn]] = _refuse
    __iadd__: ClassVar[Callable[..., NoReturn]] = _refuse
    __imul__: ClassVar[Callable[..., NoReturn]] = _refuse
    append: ClassVar[Callable[..., NoReturn]] = _refuse
    clear: ClassVar[Callable[..., NoReturn]] = _refuse
    extend: ClassVar[Callable[..., NoReturn]] = _refuse
    insert: ClassVar[Callable[..., NoReturn]] = _refuse
    pop: ClassVar[Callable[..., NoReturn]] = _refuse
    remove: ClassVar[Callable[..., NoReturn]] = _refuse
    reverse: ClassVar[Callable[..., NoReturn]] = _refuse
    sort: ClassVar[Callable[..., NoReturn]] = _refuse

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenList:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (freeze, (list(self),))


def freeze(value: Any) -> Any:
    """Return a frozen deep copy: mappings become `FrozenDict`, lists and tuples `FrozenList`.

    A text or number of a subclass becomes a plain one: it may compare otherwise than it reads. The rest is kept.

    Raises:
        RecursionError: The value is nested too deeply, or contains itself.
    """
    if type(value) in _KEPT:
        return value
    if isinstance(value, (dict, Mapping)):  # a dict first: it is asked far more quickly
        return FrozenDict(
            {
                key if type(key) is str else _plain(key): item if type(item) in _KEPT else freeze(item)
                for key, item in value.items()
            }
        )
    if isinstance(value, (list, tuple)):
        return FrozenList([item if type(item) in _KEPT else freeze(item) for item in value])
    return _plain(value)


_KEPT = frozenset((str, int, float, bool, type(None)))


def _plain(value: Any) -> Any:
    kind = type(value)  # its real type: it may claim to be of another class
    if kind in _KEPT:
        return value
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, int):
        return int.__int__(value)
    return float.__float__(value) if issubclass(kind, float) else value


def has_text(number: int) -> bool:
    """Return whether a whole number can be written: Python writes none of thousands of digits."""
    if int.bit_length(number) <= _SHORT:
        return True
    try:
        int.__repr__(number)
    except ValueError:
        return False
    return True


_SHORT = 2_000  # bits of about 600 digits: Python takes no limit as low


def thaw(value: Any) -> Any:
    """Return a deep copy in plain dicts and lists, which may be changed."""
    if isinstance(value, dict):
        return {key: item if type(item) is str else thaw(item) for key, item in value.items()}
    if isinstance(value, list):
        return [thaw(item) for item in value]
    return value


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a value: keys sorted, no spaces, ASCII only.

    Raises:
        TypeError: The value holds something that JSON has no form for, or a key that is not a string.
        ValueError: The value holds NaN or an infinity, or contains itself.
        RecursionError: The value is nested too deeply.
    """
    flat = _flat_json(value) if isinstance(value, dict) else None
    if flat is not None:
        return flat
    _check_keys(value)
    return _encode(value)


_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode
_quote = json.encoder.encode_basestring_ascii


def _flat_json(value: dict[Any, Any]) -> str | None:
    """Return the text of a dict of plain texts, whole numbers, booleans and nulls; None for any other.

    Most arguments are one, and to make an encoder takes longer than to write it.
    """
    parts = []
    for key, item in value.items():
        if type(key) is not str:
            return None
        kind = type(item)
        if kind is str:
            parts.append((key, _quote(item)))
        elif kind is int:
            parts.append((key, repr(item)))
        elif item is None or kind is bool:
            parts.append((key, _NAMED[item]))
        else:
            return None
    if len(parts) > 1:
        parts.sort()
    return f"{{{','.join([f'{_quote(key)}:{text}' for key, text in parts])}}}"


_NAMED = {None: "null", True: "true", False: "false"}


def _check_keys(value: Any) -> None:
    # json.dumps would turn the keys 1, True and None into strings, so that two different dicts had one text.
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"keys must be strings, not {type(key).__name__}")
            if type(item) is not str:
                _check_keys(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            _check_keys(item)


def same_json(first: Any, second: Any) -> bool:
    """Return whether two values are the same JSON; unlike ``==``, 1, 1.0 and True are three values."""
    try:
        return canonical_json(first) == canonical_json(second)
    except (TypeError, ValueError, RecursionError):
        return False


def digest(name: str, args: Mapping[str, Any]) -> str:
    """Return the SHA-256, in hexadecimal, of a tool's name and its canonical arguments.

    Raises:
        TypeError: The arguments are not JSON.
        ValueError: The arguments hold NaN or an infinity.
    """
    return digest_of(name, canonical_json(args))


def digest_of(name: str, args_json: str) -> str:
    """Return the digest of a call whose arguments are given as canonical JSON; see `digest`."""
    hashed: str = _sha256()(f"[{_quote(name)},{args_json}]".encode("utf-8", "surrogatepass")).hexdigest()
    return hashed


def sha256(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8, in hexadecimal; a lone surrogate counts as its three bytes."""
    hashed: str = _sha256()(text.encode("utf-8", "surrogatepass")).hexdigest()
    return hashed


@cache
def _sha256() -> Any:
    import hashlib  # it loads OpenSSL, which whoever only imports the package does without

    return hashlib.sha256


def call_text(name: str, args: Mapping[str, Any]) -> str:
    """Return ``name(key=value, …)`` with each value as JSON, or its ``repr`` where JSON has no form; nothing is cut.

    A value that has no ``repr`` either is named by its type.
    """
    return f"{name}({', '.join(f'{key}={json_text(value)}' for key, value in args.items())})"


def json_text(value: Any) -> str:
    """Return a value as JSON, or its ``repr`` where JSON has no form, or its type where there is no ``repr`` either."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        try:
            return repr(value)
        except Exception:  # noqa: BLE001 - a foreign repr may do anything, and a long int has none
            return f"<{type(value).__name__}>"
