"""What the schema of a tool says of its arguments, as far as a rule needs it.

1. An argument that a schema with ``properties`` does not have is unknown, unless it says outright that others may be
   given. A schema without ``properties`` says nothing.
2. References inside of the schema are followed, and of several alternatives each counts.
3. What was found is kept with the tool until it has another schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from agentperm_nb.json_values import freeze
from agentperm_nb.permissions.matching.fields import EACH, Field
from agentperm_nb.permissions.matching.reading import ABSENT

__all__ = ["Declared", "Slot", "declared_by"]

_MOST_SLOTS = 2_000


@dataclass(frozen=True, slots=True)
class Slot:
    """What a tool says of one part of its arguments."""

    problem: str = ""
    """Why a rule cannot be about it: the tool has no such argument."""
    types: frozenset[str] | None = None
    """Its types in the words of JSON Schema; None when the schema does not say."""
    items: frozenset[str] | None = None
    """The types of its elements, where it is a list; None when the schema does not say."""
    values: tuple[Any, ...] | None = None
    """The only values that it may have, where the schema lists them."""
    default: Any = ABSENT
    """What stands for it when it is left out."""
    top_default: Any = ABSENT
    """What stands for the whole argument that it is in."""
    required: bool = False
    """Whether the argument cannot be left out."""
    is_path: bool = False
    """Whether a pattern on it is one of paths."""

    @property
    def null(self) -> bool:
        """Whether it may be null."""
        return self.types is not None and "null" in self.types

    @property
    def lists(self) -> bool:
        """Whether it may be a list, as far as is known."""
        return self.types is None or "array" in self.types

    @property
    def only_lists(self) -> bool:
        """Whether it can be nothing but a list."""
        return self.types is not None and self.types - {"null"} == {"array"}

    @property
    def single_or_list(self) -> bool:
        """Whether the schema has a place for a list and for a single value."""
        return self.types is not None and "array" in self.types and bool(self.types - {"array", "null"})


class Declared:
    """What a tool says of its arguments.

    Args:
        name: The tool's name.
        schema: Its schema.
        paths: The arguments that it says are paths.
    """

    def __init__(self, name: str, schema: Mapping[str, Any], paths: tuple[str, ...] = ()) -> None:
        self.name = name
        self.schema = schema
        self.paths = paths
        self._slots: dict[str, Slot] = {}

    def slot(self, field: Field) -> Slot:
        """Return what it says of a part of them."""
        found = self._slots.get(field.text)
        if found is None:
            found = self._slot(field)
            if len(self._slots) < _MOST_SLOTS:
                self._slots[field.text] = found
        return found

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(self.arguments)

    def others(self, args: Mapping[str, Any]) -> list[tuple[str, Any]]:
        """Return the arguments of a call that the schema does not name."""
        known = self._known
        return [] if args.keys() <= known else [(name, args[name]) for name in args if name not in known]

    @property
    def arguments(self) -> list[str]:
        """The names of the arguments that it has."""
        return sorted({name for part in self._parts(self.schema) for name in _dict(part.get("properties"))})

    def _slot(self, field: Field) -> Slot:
        from agentperm_nb.permissions.matching.paths import is_path_argument

        is_path = is_path_argument(self, field.text)
        found: list[Any] = [self.schema]
        seen: list[Any] = []
        for place, step in enumerate(field.steps):
            parts = [part for schema in found for part in self._parts(schema)]
            inner = [child for part in parts for child in _children(part, step)]
            if not inner:
                return Slot(self._missing(field, place, parts), is_path=is_path)
            found = inner
            if place == 0:
                seen = found
        parts = [part for schema in found for part in self._parts(schema)]
        required = any(field.argument in _list(part.get("required")) for part in self._parts(self.schema))
        return Slot(
            types=_types(parts),
            items=_types([p for part in parts for child in _children(part, EACH) for p in self._parts(child)]),
            values=_values(parts),
            default=self._default(found) if len(field.steps) == 1 or field.steps[-1] is not EACH else ABSENT,
            top_default=self._default(seen),
            required=field.plain and required,
            is_path=is_path,
        )

    def _default(self, schemas: list[Any]) -> Any:
        for schema in schemas:
            if isinstance(schema, dict) and "default" in schema:
                return freeze(schema["default"])
        for schema in schemas:
            for part in self._parts(schema):
                if "default" in part:
                    return freeze(part["default"])
        return ABSENT

    def _missing(self, field: Field, place: int, parts: list[dict[str, Any]]) -> str:
        step = field.steps[place]
        before = Field(field.steps[:place]).text if place else ""
        if place and step is EACH:
            return f"{before} of {self.name} is no list"
        known = sorted({name for part in parts for name in _dict(part.get("properties"))})
        if place and not known:
            return f"{before} of {self.name} is no object with fields"
        has = f" (it has {', '.join(known)})" if known else " (it has none)"
        return f"{self.name} has no argument {Field(field.steps[: place + 1]).text}{has}"

    def _parts(self, schema: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
        """Yield the plain schemas that a schema stands for; an empty one where it says nothing that is understood."""
        if schema is True or depth > 20:
            yield {}
        elif isinstance(schema, dict):
            inner: list[Any] = []
            reference = schema.get("$ref")
            if isinstance(reference, str):
                inner.append(self._referred(reference))
            for word in ("anyOf", "oneOf", "allOf"):
                inner.extend(_list(schema.get(word)))
            outline = {word: schema[word] for word in ("type",) if word in schema}
            if outline or "properties" in schema:
                # Beside a type and properties, an alternative may say only what belongs together.
                inner = [one for one in inner if one is not True and _has_shape(one)]
            if not inner or not _SHAPE.isdisjoint(schema):
                yield schema
            for one in inner:
                for part in self._parts(one, depth + 1):
                    yield {**outline, **part}

    def _referred(self, reference: str) -> Any:
        found: Any = self.schema
        if not reference.startswith("#"):
            return True
        for step in reference[1:].split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if not isinstance(found, dict) or key not in found:
                return True
            found = found[key]
        return found


def declared_by(tool: Any) -> Declared:
    """Return what a tool says of its arguments; of no tool, nothing is said."""
    if tool is None:
        return Declared("the tool", {})
    schema = tool.input_schema
    paths: tuple[str, ...] = getattr(tool, "paths", ())
    known: Declared | None = tool.__dict__.get("_declared")
    if known is None or known.schema is not schema or known.paths is not paths:
        known = tool.__dict__["_declared"] = Declared(tool.name, schema, paths)
    return known


_SHAPE = {"properties", "additionalProperties", "patternProperties", "items", "prefixItems", "enum", "const"}


def _has_shape(schema: Any) -> bool:
    words = {*_SHAPE, "type", "$ref", "anyOf", "oneOf", "allOf"}
    return isinstance(schema, dict) and not words.isdisjoint(schema)


def _children(part: dict[str, Any], step: str) -> Iterator[Any]:
    if step is EACH:
        if "array" in _list_of(part.get("type", "array")):
            yield from _list(part.get("prefixItems"))
            yield part.get("items", True)
        return
    if "object" not in _list_of(part.get("type", "object")):
        return
    properties = _dict(part.get("properties"))
    if step in properties:
        yield properties[step]
        return
    others = part.get("additionalProperties", "properties" not in part)
    if others is True or isinstance(others, dict) or part.get("patternProperties"):
        yield others if isinstance(others, dict) else True


def _types(parts: list[dict[str, Any]]) -> frozenset[str] | None:
    types: set[str] = set()
    for part in parts:
        if "type" in part:
            types.update(_list_of(part["type"]))
        elif "const" in part or "enum" in part:
            types.update(map(_type_of, _values([part]) or ()))
        else:
            return None
    return frozenset(types) if types else None


def _values(parts: list[dict[str, Any]]) -> tuple[Any, ...] | None:
    values: list[Any] = []
    for part in parts:
        if "const" in part:
            values.append(part["const"])
        elif isinstance(part.get("enum"), list):
            values.extend(part["enum"])
        elif part.get("type") in ("null", "boolean"):
            values.extend([None] if part["type"] == "null" else [True, False])
        else:
            return None
    return tuple(values) if values else None


def _type_of(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}
    return names.get(type(value), "null")


def _list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
