"""Fields of a reply, read alike from a provider's objects and from plain dicts.

No provider's package is imported: an object is read by its attributes, and made plain by its own ``model_dump``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["as_plain", "field", "is_given", "sendable"]


def field(item: object, name: str) -> Any:
    """Return a field of a dict or of an object, None when it has none."""
    if isinstance(item, Mapping):
        return item.get(name)
    return getattr(item, name, None)


def is_given(item: object, name: str) -> bool:
    """Return whether the provider sent the field, be it as null; an object's default does not count."""
    if isinstance(item, Mapping):
        return name in item
    sent = getattr(item, "model_fields_set", None)
    return name in sent if isinstance(sent, set | frozenset) else hasattr(item, name)


def as_plain(value: Any, *, leave_out: frozenset[str] = frozenset()) -> Any:
    """Return a copy in plain dicts and lists, without the fields that the provider did not send.

    Args:
        value: A dict, a list, or an object of a provider's package.
        leave_out: Fields of the value itself that are not copied.
    """
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, Mapping):
        return {key: as_plain(item) for key, item in value.items() if key not in leave_out}
    if isinstance(value, list | tuple):
        return [as_plain(item) for item in value]
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        # Warnings off: the clients build their objects without validation, so a field may have another type.
        return dump(mode="json", by_alias=True, exclude_unset=True, exclude=set(leave_out), warnings=False)
    if hasattr(value, "__dict__") and not isinstance(value, type):
        return as_plain({key: item for key, item in vars(value).items() if key[:1] != "_"}, leave_out=leave_out)
    return value


def sendable(value: Any) -> Any:
    """Return the value with each half surrogate pair as U+FFFD: UTF-8, which is what is sent, has no form for them."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {sendable(key): sendable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [sendable(item) for item in value]
    return value
