"""Tags and metadata: what a tool is, in the words of a rule table.

1. A tag says what a tool does in one word. The six of `ToolTag` are known to the built-in rules; any other word is a
   custom tag, which only rules of your own read.
2. A tag gives the hint that belongs to it where that hint was not given: ``read_only``, ``destructive``, and
   ``network`` for the open world. A hint that was given wins over the tag.
3. A tool that is read-only and destructive is an error, whichever of the two is said by a tag.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from agentperm_nb.errors import fix_message
from agentperm_nb.hints import Hints

__all__ = ["ToolMetadata", "ToolTag", "checked_custom_tags", "checked_namespace", "checked_tags", "name_inside"]


class ToolTag(str, Enum):  # noqa: UP042 - str() is published as "ToolTag.READ_ONLY", unlike StrEnum's
    """What a tool does, in a word. Each equals its text: ``ToolTag.NETWORK == "network"``."""

    READ_ONLY = "read_only"
    """It changes nothing."""
    DESTRUCTIVE = "destructive"
    """It may delete or overwrite."""
    NETWORK = "network"
    """It reaches outside of this machine."""
    FILE_SYSTEM = "file_system"
    """It reads or writes files."""
    SLOW = "slow"
    """It takes long."""
    PRIVILEGED = "privileged"
    """It does what not everybody may do."""


_HINT_OF = {
    ToolTag.READ_ONLY: "read_only",
    ToolTag.DESTRUCTIVE: "destructive",
    ToolTag.NETWORK: "open_world",
}
_HINTS = ("read_only", "destructive", "idempotent", "open_world")


@dataclass(frozen=True, repr=False)
class ToolMetadata:
    """What is known of a tool: its tags, the hints that it gives, and how it runs. Tools make it: ``tool.metadata``.

    Args:
        tags: Tags of `ToolTag`, or their texts.
        custom_tags: Words of your own, for rules of your own.
        read_only_hint: The hint as it was given; None when nobody said anything. The other three as well.
        destructive_hint: See `Hints`.
        idempotent_hint: See `Hints`.
        open_world_hint: See `Hints`.
        is_async: Whether running the tool gives something to await.
        is_concurrency_safe: Whether it may run at the same time as other calls of a turn.
        timeout: Seconds after which a call is given up, or None.
        source: Where it comes from: ``"native"``, or ``"mcp"`` for a tool of a server.
        source_detail: Name of the server, or an empty text.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A tag is unknown, or the tool is both read-only and destructive, or read-only and not idempotent.
    """

    tags: frozenset[ToolTag] = frozenset()
    custom_tags: frozenset[str] = frozenset()
    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None
    is_async: bool = False
    is_concurrency_safe: bool = True
    timeout: float | None = None
    source: str = "native"
    source_detail: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tags", checked_tags(self.tags))
        object.__setattr__(self, "custom_tags", checked_custom_tags(self.custom_tags))
        said = self._said()
        if said.get("read_only") and said.get("destructive"):
            shown = ", ".join(sorted(tag.value for tag in self.tags))
            raise ValueError(
                fix_message(
                    f"a tool cannot be read-only and destructive at once (tags: {shown or 'none'})",
                    "say one of the two; a hint that is given, such as read_only=False, wins over a tag",
                    "@tool(tags=['read_only', 'file_system'])\ndef read_file(path: str) -> str: ...",
                )
            )
        self.hints()

    def __repr__(self) -> str:
        shown = [f"{name}={_sorted(value)!r}" for name, value in self._fields() if value != _DEFAULTS[name]]
        return f"ToolMetadata({', '.join(shown)})"

    @property
    def all_tags(self) -> frozenset[str]:
        """Tags and custom tags together, as texts."""
        return frozenset(tag.value for tag in self.tags) | self.custom_tags

    @property
    def execution_hints(self) -> dict[str, bool]:
        """The hints that were given, and those that follow from tags; a hint that is not there was not said.

        A tool that is read-only is not destructive either.
        """
        said = {f"{name}_hint": value for name, value in self._said().items()}
        if said.get("read_only_hint"):
            said.setdefault("destructive_hint", False)
        return said

    def hints(self, source: str = "tool") -> Hints:
        """Return the hints of a tool with this metadata: given, from tags, or else the worst.

        Args:
            source: See `Hints`.

        Raises:
            TypeError: A hint is neither a bool nor None.
            ValueError: They contradict each other.
        """
        return Hints(**self._said(), source=source)

    def model_dump(self) -> dict[str, Any]:
        """Return all fields as a dict."""
        return dataclasses.asdict(self)

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> ToolMetadata:
        """Return the same with other values for some fields.

        Raises:
            TypeError: There is no such field.
            ValueError: See the class.
        """
        return dataclasses.replace(self, **(update or {}))

    def with_hints(self, hints: Hints) -> ToolMetadata:
        """Return the same with the hints of a tool in place of those that were given; they win over the tags."""
        tagged = {_HINT_OF[tag] for tag in self.tags if tag in _HINT_OF}
        said = {f"{name}_hint": getattr(hints, name) for name in _HINTS if name in hints.said | tagged}
        return dataclasses.replace(self, **{**dict.fromkeys([f"{name}_hint" for name in _HINTS]), **said})

    def of_tool(self, is_async: bool, parallel: bool, timeout: float | None, server: str | None) -> ToolMetadata:
        """Return the same with how a tool runs, and where it comes from."""
        return dataclasses.replace(
            self,
            is_async=is_async,
            is_concurrency_safe=parallel,
            timeout=timeout,
            source="native" if server is None else "mcp",
            source_detail=server or "",
        )

    def _fields(self) -> list[tuple[str, Any]]:
        return [(field.name, getattr(self, field.name)) for field in dataclasses.fields(self)]

    def _said(self) -> dict[str, bool]:
        said = {name: getattr(self, f"{name}_hint") for name in _HINTS}
        for tag, name in _HINT_OF.items():
            if tag in self.tags and said[name] is None:
                said[name] = True
        return {name: value for name, value in said.items() if value is not None}


_DEFAULTS = {field.name: field.default for field in dataclasses.fields(ToolMetadata)}


def _sorted(value: Any) -> Any:
    return sorted(str.__str__(tag) for tag in value) if isinstance(value, frozenset) else value


def checked_tags(tags: object, owner: str = "") -> frozenset[ToolTag]:
    """Return the tags of ``tags=``.

    Args:
        tags: Tags of `ToolTag`, or their texts.
        owner: Name of the tool, for the error.

    Raises:
        TypeError: It is not a list of tags.
        ValueError: One is unknown.
    """
    example = "@tool(tags=['destructive', 'file_system'], custom_tags=['billing'])\ndef purge(path: str) -> str: ..."
    of = f" of the tool {owner}" if owner else ""
    if type(tags) is frozenset and not tags:
        return frozenset()
    found: set[ToolTag] = set()
    for tag in _texts("tags=", of, tags, example):
        try:
            found.add(ToolTag(tag))
        except ValueError:
            known = ", ".join(each.value for each in ToolTag)
            raise ValueError(
                fix_message(
                    f"{tag!r} in tags={of} is not one of the known tags ({known})",
                    "use one of these, or put a word of your own into custom_tags=",
                    example,
                )
            ) from None
    return frozenset(found)


def checked_custom_tags(tags: object, owner: str = "") -> frozenset[str]:
    """Return the words of ``custom_tags=``.

    Args:
        tags: Any texts.
        owner: Name of the tool, for the error.

    Raises:
        TypeError: It is not a list of texts.
        ValueError: One is blank.
    """
    if type(tags) is frozenset and not tags:
        return frozenset()
    of = f" of the tool {owner}" if owner else ""
    example = "@tool(custom_tags=['billing'])\ndef invoice(order: str) -> str: ..."
    found = _texts("custom_tags=", of, tags, example)
    if not all(tag.strip() for tag in found):
        raise ValueError(fix_message(f"custom_tags={of} has a blank tag", "leave it out", example))
    return frozenset(found)


def checked_namespace(owner: str, namespace: object) -> str | None:
    """Return the name of ``namespace=``, or None.

    Args:
        owner: Name of the tool, for the error.
        namespace: A name without spaces, or None.

    Raises:
        TypeError: It is neither a text nor None.
        ValueError: It is blank, too long, or has spaces.
    """
    if namespace is None:
        return None
    example = f"Tool({owner!r}, function=read_file, namespace='files')"
    if not isinstance(namespace, str):
        raise TypeError(
            fix_message(f"namespace= of {owner} takes a text (got: {namespace!r})", "give a name, or None", example)
        )
    if not re.fullmatch(r"[^\s\x00-\x1f\x7f]{1,128}", namespace):
        raise ValueError(
            fix_message(f"{namespace!r} is not a namespace", "use 1 to 128 characters without spaces", example)
        )
    return namespace


def name_inside(namespace: str | None, name: str) -> str:
    """Return a tool's name without its namespace and ``__``, ``-`` or ``.`` in front."""
    if namespace is not None:
        for separator in ("__", "-", "."):
            inside = name.removeprefix(f"{namespace}{separator}")
            if inside and inside != name:
                return inside
    return name


def _texts(what: str, of: str, given: object, example: str) -> list[str]:
    listed = None if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable) else list(given)
    if listed is None or not all(isinstance(tag, str) for tag in listed):
        raise TypeError(fix_message(f"{what}{of} takes a list of tags (got: {given!r})", "give a list", example))
    # Of a str subclass, only its characters count.
    return [str.__str__(tag.value if isinstance(tag, ToolTag) else tag) for tag in listed]
