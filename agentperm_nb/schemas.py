"""JSON Schemas of arguments: checked, made from a function's signature, and their errors in words.

pydantic makes a schema from a signature and turns JSON values into what the annotations ask for; jsonschema-rs checks
arguments against any schema, those that a server sends too. A pattern takes time in proportion to the text, or gives
up; nothing is fetched over the network.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, get_args, get_origin

from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import freeze, json_text, thaw
from agentperm_nb.redaction import Redactor
from agentperm_nb.render import MASK

__all__ = [
    "check_has",
    "check_signature",
    "checked_places",
    "checked_schema",
    "is_plain",
    "model_of",
    "outline_of",
    "path_text",
    "problem_text",
    "problems_of",
    "schema_of",
    "validator_of",
]

_VALUE = "\0"  # stands for the value in the validator's messages


def checked_schema(name: str, schema: object) -> dict[str, Any]:
    """Return a plain copy of the schema of a tool's arguments.

    Raises:
        TypeError: It is not a mapping.
        ValueError: It is not a JSON Schema, or not one of an object.
    """
    example = "{'type': 'object', 'properties': {'path': {'type': 'string'}}, 'required': ['path']}"
    if not isinstance(schema, Mapping):
        raise TypeError(
            fix_message(f"the schema of {name} is not a dict (got: {type(schema).__name__})", "give a dict", example)
        )
    try:
        plain: dict[str, Any] = thaw(freeze(schema))
    except RecursionError:
        raise ValueError(
            fix_message(f"the schema of {name} is nested too deeply, or contains itself", "make it flatter", example)
        ) from None
    try:
        validator_of(plain)
    except ValueError as error:
        place = path_text(getattr(error, "instance_path", ()))
        raise ValueError(
            fix_message(
                f"the schema of {name} is not a JSON Schema: {str(error).splitlines()[0]}"
                + (f" (at {place})" if place else ""),
                "correct it there",
                example,
            )
        ) from None
    if plain.get("type", "object") != "object":
        raise ValueError(
            fix_message(
                f"the schema of {name} is of type {plain['type']!r}", "describe an object: arguments by name", example
            )
        )
    return plain


def validator_of(schema: dict[str, Any]) -> Any:
    """Return what checks values against a schema.

    Raises:
        ValueError: It is not a JSON Schema, or refers to something that is not in it.
    """
    import jsonschema_rs

    # Values are left out of its messages, and put in by `problem_text`, which masks them.
    return jsonschema_rs.validator_for(schema, mask=_VALUE, offline=True)


def problems_of(validator: Any, args: Mapping[str, Any], secret: Iterable[str]) -> list[tuple[str, str]]:
    """Return what is wrong with arguments: (field, problem) pairs, by field; see `Tool.check_args`."""
    try:
        if validator.is_valid(args):
            return []
        found = sorted(validator.iter_errors(args), key=lambda error: [str(part) for part in error.instance_path])
    except UnicodeEncodeError:
        return [("", "a text holds half of a surrogate pair, which is no character")]
    except Exception as error:  # noqa: BLE001 - arguments that cannot be checked do not fit
        return [("", f"the arguments cannot be checked: {type(error).__name__}")]
    return [(path_text(error.instance_path), problem_text(error, secret)) for error in found]


_PLACE = re.compile(r"[^.\[\]\s]+(?:\[\*\])*(?:\.[^.\[\]\s]+(?:\[\*\])*)*")


def checked_places(name: str, option: str, places: object) -> tuple[str, ...]:
    """Return places in the arguments of a tool, such as ``path`` or ``files[*].path``, if they are written like that.

    Args:
        name: The tool's name.
        option: Which argument of `Tool` they were given as.
        places: What the user gave.

    Raises:
        TypeError: It is not a list of texts.
        ValueError: One of them is not written like that.
    """
    example = f"@tool({option}=['path', 'files[*].path'])"
    listed = None if isinstance(places, str | bytes) or not isinstance(places, Iterable) else list(places)
    if listed is None or not all(isinstance(place, str) for place in listed):
        problem = f"{option}= of {name} takes a list of argument names (got: {places!r})"
        raise TypeError(fix_message(problem, "give a list", example))
    for place in listed:
        if not _PLACE.fullmatch(place):
            problem = f"{option}= of {name} has {place!r}, which is no place in its arguments"
            raise ValueError(fix_message(problem, "write names, '.' and '[*]'", example))
    return tuple(dict.fromkeys(listed))


def check_has(name: str, option: str, places: Iterable[str], schema: dict[str, Any]) -> None:
    """Raise a ValueError for a place in the arguments that a schema does not have.

    Args:
        name: The tool's name.
        option: Which argument of `Tool` they were given as.
        places: The places.
        schema: The schema of the arguments. Where it does not say what there is, everything may be.
    """
    for place in places:
        found: list[Any] = [schema]
        for step in re.findall(r"\[\*\]|[^.\[\]]+", place):
            parts = [part for inner in found for part in _shapes(inner, schema)]
            found = [child for part in parts for child in _inside(part, step)]
            if not found:
                known = sorted({key for part in parts for key in part.get("properties", ())})
                has = f"it has {', '.join(known)}" if known else "it has none there"
                problem = f"{option}= of {name} names {place!r}, which is not among its arguments ({has})"
                raise ValueError(fix_message(problem, "name arguments that it has", f"@tool({option}=['path'])"))


def _shapes(schema: Any, root: dict[str, Any], depth: int = 0) -> list[dict[str, Any]]:
    """Return the plain schemas that a schema stands for: what it refers to, and its alternatives."""
    if not isinstance(schema, dict) or depth > 20:
        return [{}]
    inner = [one for word in ("anyOf", "oneOf", "allOf") for one in schema.get(word, ())]
    reference = schema.get("$ref")
    if isinstance(reference, str):
        target: Any = root
        for step in reference.removeprefix("#").split("/")[1:]:
            target = target.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(target, dict) else {}
        inner.append(target)
    own = [schema] if "properties" in schema or "type" in schema or not inner else []
    return [*own, *(shape for one in inner for shape in _shapes(one, root, depth + 1))]


def _inside(shape: dict[str, Any], step: str) -> list[Any]:
    """Return the schemas of an element, or of a field, of what has a plain schema; none where it can have none."""
    kinds = shape.get("type", "object" if step != "[*]" else "array")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if step == "[*]":
        return [shape.get("items", {}), *shape.get("prefixItems", ())] if "array" in kinds else []
    if "object" not in kinds:
        return []
    properties = shape.get("properties")
    if isinstance(properties, dict) and step in properties:
        return [properties[step]]
    others = shape.get("additionalProperties", properties is None)
    return [others] if others is not False or shape.get("patternProperties") else []


def check_signature(name: str, function: Callable[..., Any]) -> None:
    """Raise a TypeError unless the function can be called with arguments by name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        raise TypeError(
            fix_message(
                f"the function of {name} has no signature that can be read",
                "give its schema",
                f"Tool({name!r}, 'What it does.', {{'type': 'object', 'properties': {{}}}}, function=…)",
            )
        ) from None
    for parameter in parameters:
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL}:
            raise TypeError(
                fix_message(
                    f"the function of {name} takes {parameter.name!r} by position only",
                    "arguments are given by name: use ordinary parameters",
                    f"def {name}(path: str, *, limit: int = 10): ...",
                )
            )


def outline_of(function: Callable[..., Any]) -> dict[str, Any]:
    """Return what a signature says of the names of the arguments, without a look at the annotations."""
    parameters = inspect.signature(function).parameters.values()
    return {
        "properties": {one.name: {} for one in parameters if one.kind is not one.VAR_KEYWORD},
        "additionalProperties": any(one.kind is one.VAR_KEYWORD for one in parameters),
    }


def model_of(name: str, function: Callable[..., Any]) -> Any:
    """Return a pydantic model with one field a parameter; it makes the schema and converts the arguments."""
    import pydantic

    # What is wrapped is what has the annotations; eval_str reads the ones of "from __future__ import annotations".
    try:
        signature = inspect.signature(function, eval_str=True)
    except Exception as error:  # an annotation is an expression, and may raise anything
        raise TypeError(
            fix_message(
                f"the annotations of {name} cannot be read: {type(error).__name__}: {error}",
                "define or import what they name outside of any function, or give input_schema=",
                f"@tool\ndef {name}(path: str, limit: int = 10) -> str: ...",
            )
        ) from error
    fields: dict[str, Any] = {}
    extra = "forbid"
    for index, parameter in enumerate(signature.parameters.values()):
        if parameter.kind is parameter.VAR_KEYWORD:
            extra = "allow"
            continue
        annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
        default = ... if parameter.default is parameter.empty else parameter.default
        # Fields get names of our own: a parameter may be called "json", "copy" or "_x".
        fields[f"arg_{index}"] = (annotation, pydantic.Field(default, alias=parameter.name, title=None))
    config = pydantic.ConfigDict(extra=extra, arbitrary_types_allowed=False, json_schema_extra=_tidy)  # type: ignore[typeddict-item]
    try:
        model = pydantic.create_model(name, __config__=config, **fields)
        model.model_json_schema(by_alias=True, schema_generator=_schema_generator())
    except (pydantic.errors.PydanticUserError, pydantic.errors.PydanticSchemaGenerationError) as error:
        raise TypeError(
            fix_message(
                f"the signature of {name} has a type that JSON has no form for: {str(error).splitlines()[0]}",
                "annotate with JSON types, dataclasses or models, or give input_schema=",
                f"@tool\ndef {name}(path: str, limit: int = 10) -> str: ...",
            )
        ) from error
    return model


def schema_of(model: Any) -> dict[str, Any]:
    """Return the JSON Schema of a model that `model_of` made."""
    schema: dict[str, Any] = model.model_json_schema(by_alias=True, schema_generator=_schema_generator())
    return schema


@cache
def _schema_generator() -> Any:
    from pydantic.json_schema import GenerateJsonSchema

    class Quiet(GenerateJsonSchema):
        # A default that JSON has no form for is left out of the schema; there is nothing the user could do about it.
        ignored_warning_kinds = {*GenerateJsonSchema.ignored_warning_kinds, "non-serializable-default"}  # noqa: RUF012

    return Quiet


def _tidy(schema: dict[str, Any]) -> None:
    schema.pop("title", None)
    for described in schema.get("properties", {}).values():
        described.pop("title", None)


_PLAIN_TYPES = (str, int, float, bool, dict, list, type(None), Any, inspect.Parameter.empty)


def is_plain(annotation: Any) -> bool:
    """Return whether a JSON value is already what the annotation asks for."""
    if any(annotation is plain for plain in _PLAIN_TYPES):  # not "in": an annotation need not have a hash
        return True
    return get_origin(annotation) in {dict, list} and all(is_plain(part) for part in get_args(annotation))


def path_text(path: Iterable[Any]) -> str:
    """Return a path into the arguments as text, such as ``passengers[0].dob``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def problem_text(error: Any, secret: Iterable[str] = ()) -> str:
    """Return a schema error in words, without secrets, and without repeating a long value.

    Args:
        error: What the validator found.
        secret: More names whose values are masked.
    """
    from agentperm_nb.masking import is_secret_name

    names = [part for part in error.instance_path if isinstance(part, str)]
    hidden = any(name in secret or is_secret_name(name) for name in names)
    shown = MASK if hidden else json_text(Redactor().value(error.instance, secret=secret))
    message: str = error.message
    return message.replace(_VALUE, f"{shown[:80]}…" if len(shown) > 120 else shown)
