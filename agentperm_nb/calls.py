"""Tool calls: what an agent wants to run.

1. A `ToolCall` never changes. Its arguments are copied when it is made, and the copy is frozen at every level.
2. Two calls with equal names and arguments have equal digests, whatever the order of the keys.
3. A provider's id may repeat, within a turn too. It is carried along for the provider and is never a key of ours.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from agentperm_nb.errors import fix_message

__all__ = [
    "FrozenDict",
    "FrozenList",
    "ToolCall",
    "canonical_json",
    "digest",
    "format_call",
    "freeze",
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
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __copy__(self) -> FrozenDict:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenDict:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (freeze, (dict(self),))


class FrozenList(list[Any]):
    """A list that cannot be changed; its items are frozen too."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __copy__(self) -> FrozenList:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> FrozenList:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (freeze, (list(self),))


def freeze(value: Any) -> Any:
    """Return a frozen deep copy: mappings become `FrozenDict`, lists and tuples `FrozenList`, the rest is kept.

    Raises:
        RecursionError: The value is nested too deeply, or contains itself.
    """
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, Mapping):
        return FrozenDict({key: freeze(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return FrozenList([freeze(item) for item in value])
    return value


def thaw(value: Any) -> Any:
    """Return a deep copy in plain dicts and lists, which may be changed."""
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list):
        return [thaw(item) for item in value]
    return value


@dataclass(frozen=True, slots=True, eq=True)
class ToolCall:
    """One call that an agent wants to make.

    Args:
        name: The tool's name, as the model wrote it.
        args: The arguments, a mapping from argument name to a JSON value.
        id: The provider's id of the call; it may be empty, and it may repeat.
        invalid: Why the arguments could not be read, for a call whose arguments are not a JSON object. Such a call is
            an input error: it is answered with this text, is never put to a person and never runs.

    Raises:
        TypeError: A field has the wrong type.
        ValueError: The name is blank.
    """

    name: str
    args: Mapping[str, Any] = field(default_factory=FrozenDict)
    id: str = ""
    invalid: str | None = None

    def __post_init__(self) -> None:
        example = "ToolCall('read_file', {'path': 'notes.txt'}, id='call_1')"
        if not isinstance(self.name, str):
            raise TypeError(
                fix_message(
                    f"a tool's name is a string (got: {type(self.name).__name__})", "give the name of the tool", example
                )
            )
        if not self.name.strip():
            raise ValueError(fix_message("a tool call has no name", "give the name of the tool", example))
        if not isinstance(self.args, Mapping):
            raise TypeError(
                fix_message(
                    f"the arguments of {self.name} are not a mapping (got: {type(self.args).__name__})",
                    "give a dict from argument name to value",
                    example,
                )
            )
        if not isinstance(self.id, str):
            raise TypeError(
                fix_message(
                    f"the id of a call is a string (got: {type(self.id).__name__})",
                    "give the provider's id, or leave it out",
                    example,
                )
            )
        try:
            object.__setattr__(self, "args", freeze(self.args))
        except RecursionError:
            raise ValueError(
                fix_message(
                    f"the arguments of {self.name} are nested too deeply, or contain themselves",
                    "give arguments that can be written as JSON",
                    example,
                )
            ) from None

    def __hash__(self) -> int:
        return hash(self.id)

    def __str__(self) -> str:
        return format_call(self)

    def with_args(self, args: Mapping[str, Any]) -> ToolCall:
        """Return the same call with other arguments."""
        return ToolCall(self.name, args, self.id)


def canonical_json(value: Any) -> str:
    """Return the one JSON text of a value: keys sorted, no spaces, ASCII only.

    Raises:
        TypeError: The value holds something that JSON has no form for, or a key that is not a string.
        ValueError: The value holds NaN or an infinity, or contains itself.
        RecursionError: The value is nested too deeply.
    """
    _check_keys(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _check_keys(value: Any) -> None:
    # json.dumps would turn the keys 1, True and None into strings, so that two different dicts had one text.
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"keys must be strings, not {type(key).__name__}")
            _check_keys(item)
    elif isinstance(value, list | tuple):
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
    return sha256(canonical_json([name, args]))


def sha256(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8, in hexadecimal; a lone surrogate counts as its three bytes."""
    import hashlib  # it loads OpenSSL, which whoever only imports the package does without

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def format_call(call: ToolCall) -> str:
    """Return ``name(key=value, …)`` with each value as JSON, or its ``repr`` where JSON has no form; nothing is cut.

    A value that has no ``repr`` either is named by its type.
    """
    return f"{call.name}({', '.join(f'{key}={_json_or_repr(value)}' for key, value in call.args.items())})"


def _json_or_repr(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        try:
            return repr(value)
        except Exception:  # noqa: BLE001 - a foreign repr may do anything, and a long int has none
            return f"<{type(value).__name__}>"
