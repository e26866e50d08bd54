"""A tool: what an agent may want to run.

1. A tool has a name, a description, a JSON Schema of its arguments, hints, and something to run.
2. A tool that says nothing about itself is taken for the worst: it writes, destroys, and reaches the outside world.
3. A plain function becomes a tool without hints; its schema is made from its signature.
4. Arguments are checked against the schema as they are: ``"8"`` is not a number.
5. A tool gets an editable copy of the arguments, never the frozen ones that were decided about.
6. In a class body, ``@tool`` makes methods: ``obj.method`` is a tool of that object, which the model calls without
   ``self``. A method is a function whose first parameter is named ``self``.
7. Tags say what a tool does in the words of a rule table, and give the hints that belong to them (`tags`).
"""

from __future__ import annotations

import copy
import inspect
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from agentperm_nb.errors import ToolInputError, fix_message
from agentperm_nb.hints import Hints
from agentperm_nb.json_values import freeze, thaw
from agentperm_nb.schemas import (
    check_has,
    check_signature,
    checked_places,
    checked_schema,
    is_plain,
    model_of,
    outline_of,
    path_text,
    problems_of,
    schema_of,
    validator_of,
)
from agentperm_nb.tags import ToolMetadata, checked_custom_tags, checked_namespace, checked_tags, name_inside

__all__ = ["Tool", "checked_timeout"]


class Tool:
    """A tool that an agent may call.

    Give `function`, or subclass and override `run`.

    Args:
        name: The name that the model calls: 1 to 128 characters without spaces; a provider may take fewer.
        description: What the model is told about it.
        input_schema: JSON Schema of the arguments, an object schema; made from the function's signature when left out.
        function: What runs, called with the arguments by name; sync or async.
        parallel: Whether it may run at the same time as other calls of the turn.
        read_only: See `Hints`; the other three as well.
        destructive: See `Hints`.
        idempotent: See `Hints`.
        open_world: See `Hints`.
        hints_for: A function from the arguments (a plain dict) to the `Hints` of one call, or None for the tool's own.
        secret: Names of arguments that are masked wherever they are shown or stored.
        paths: Which arguments are paths of files or folders, for rules on arguments: names, or places in them such as
            ``files[*].path``. An argument that is called like one (``path``, ``log_file``, …) need not be named.
        timeout: Seconds after which a call is given up; None, or infinity, to wait for as long as it takes.
        tags: Tags of `ToolTag`, or their texts; see `ToolMetadata`. A tag gives the hint that belongs to it.
        custom_tags: Words of your own, for rules of your own.
        namespace: What the tool belongs to, for rules; the name of the tool stays as it is.

    Raises:
        TypeError: An argument has the wrong type, or the function cannot be called by argument names.
        ValueError: The name is empty or has characters that no provider takes; the schema is not a JSON Schema of an
            object; the timeout is not above 0; a tag is unknown; tags and hints contradict each other; one of `paths`
            is no argument of the tool.
    """

    def __init__(
        self,
        name: str,
        description: str = "",
        input_schema: Mapping[str, Any] | None = None,
        *,
        function: Callable[..., Any] | None = None,
        parallel: bool = True,
        read_only: bool | None = None,
        destructive: bool | None = None,
        idempotent: bool | None = None,
        open_world: bool | None = None,
        hints_for: Callable[[dict[str, Any]], Hints | None] | None = None,
        secret: Iterable[str] = (),
        paths: Iterable[str] = (),
        timeout: float | None = None,
        tags: Iterable[str] = (),
        custom_tags: Iterable[str] = (),
        namespace: str | None = None,
    ) -> None:
        self.name: str = _checked_name(name)
        if not isinstance(description, str):
            raise TypeError(
                fix_message(
                    f"the description of {name} is not a string (got: {type(description).__name__})",
                    "say in a sentence what the tool does",
                    f"Tool({name!r}, 'Read a text file.', function=read_file)",
                )
            )
        self.description = description
        self.parallel = parallel
        self._given_metadata = ToolMetadata(
            tags=checked_tags(tags, name),
            custom_tags=checked_custom_tags(custom_tags, name),
            read_only_hint=read_only,
            destructive_hint=destructive,
            idempotent_hint=idempotent,
            open_world_hint=open_world,
        )
        self.hints: Hints = self._given_metadata.hints()
        self._given_hints = self.hints
        self._namespace = checked_namespace(name, namespace)
        self.secret: frozenset[str] = _checked_secret(name, secret)
        self.timeout: float | None = checked_timeout(timeout, "@tool(timeout=30)\ndef search(query: str) -> str: ...")
        """Seconds after which whoever runs a call gives it up, or None."""
        self.paths: tuple[str, ...] = checked_places(name, "paths", paths)
        """Which arguments it says are paths."""
        self.function = function
        self._hints_for = _checked_hints_for(name, hints_for)
        self._owner: type | None = None
        self._given_schema = None if input_schema is None else checked_schema(name, input_schema)
        if self._given_schema is not None:
            check_has(name, "paths", self.paths, self._given_schema)
        if function is not None:
            if not callable(function):
                raise TypeError(
                    fix_message(
                        f"function= of {name} cannot be called (got: {type(function).__name__})",
                        "give the function itself",
                        f"Tool({name!r}, function=read_file)",
                    )
                )
            if input_schema is None:
                check_signature(name, function)
                if self.paths:
                    check_has(name, "paths", self.paths, outline_of(function))
        elif type(self).run is Tool.run:
            raise TypeError(
                fix_message(
                    f"the tool {name} has nothing to run",
                    "give function=, or subclass Tool and override run",
                    f"Tool({name!r}, function=read_file)",
                )
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def __set_name__(self, owner: type, name: str) -> None:
        if self._takes_self:
            self._owner = owner

    def __get__(self, instance: object, owner: type | None = None) -> Tool:
        return self if instance is None or not self._takes_self else self.bound_to(instance)

    @property
    def owner(self) -> type | None:
        """The class whose method the tool is, before it is bound to one of its objects; else None."""
        return self._owner

    def bound_to(self, instance: object) -> Tool:
        """Return the tool with an object, or a class, as the first argument of its function.

        Raises:
            TypeError: The function cannot be bound: it is no plain function.
        """
        if not inspect.isfunction(self.function):
            raise TypeError(
                fix_message(
                    f"the function of {self.name} is not a method (got: {type(self.function).__name__})",
                    "decorate a function in the class body",
                    "class Files:\n    @tool\n    def read(self, path: str) -> str: ...",
                )
            )
        bound = copy.copy(self)
        for made_from_signature in ("input_schema", "_validator", "_model", "_needs_conversion", "_whole_numbers"):
            bound.__dict__.pop(made_from_signature, None)
        bound.function = self.function.__get__(instance)
        bound._owner = None
        return bound

    @property
    def _takes_self(self) -> bool:
        if not inspect.isfunction(self.function):
            return False
        code = self.function.__code__
        return code.co_argcount > 0 and next(iter(inspect.signature(self.function).parameters), "") == "self"

    @property
    def server(self) -> str | None:
        """The server that the tool comes from, or None for one of our own."""
        return None

    @property
    def namespace(self) -> str | None:
        """What the tool belongs to: the namespace it was given, else its server, else None."""
        return self._namespace if self._namespace is not None else self.server

    @property
    def method_name(self) -> str:
        """The tool's name without its namespace in front: ``read`` for ``files-read`` in the namespace ``files``."""
        return name_inside(self.namespace, self.name)

    @property
    def metadata(self) -> ToolMetadata:
        """What is known of the tool, for the rules of a policy: tags, the hints that were given, how it runs."""
        now = (self.is_async, self.parallel, self.timeout, self.server)
        made: tuple[Hints, tuple[Any, ...], ToolMetadata] | None = self.__dict__.get("_made_metadata")
        if made is None or made[0] is not self.hints or made[1] != now:
            known = self._given_metadata
            if self.hints is not self._given_hints:  # a subclass has put others in their place
                known = known.with_hints(self.hints)
            made = self.__dict__["_made_metadata"] = (self.hints, now, known.of_tool(*now))
        return made[2]

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        if self._given_schema is not None:
            return self._given_schema
        if self.function is None:
            return {"type": "object", "properties": {}}
        schema = checked_schema(self.name, schema_of(self._model))
        check_has(self.name, "paths", self.paths, schema)
        return schema

    @cached_property
    def is_async(self) -> bool:
        """Whether running the tool gives something to await."""
        target = self.function if self.function is not None else self.run
        return inspect.iscoroutinefunction(target) or inspect.iscoroutinefunction(type(target).__call__)

    @property
    def spec(self) -> dict[str, Any]:
        """The tool as a model is told of it: name, description, input_schema."""
        return {"name": self.name, "description": self.description, "input_schema": self.input_schema}

    def hints_for(self, args: Mapping[str, Any]) -> Hints:
        """Return the hints of a call with these arguments.

        Raises:
            TypeError: The tool's own ``hints_for`` function returned neither Hints nor None.
        """
        if self._hints_for is None:
            return self.hints
        hints = self._hints_for(thaw(freeze(args)))
        if hints is None:
            return self.hints
        if not isinstance(hints, Hints):
            raise TypeError(
                fix_message(
                    f"hints_for of the tool {self.name} returned {hints!r}, not Hints",
                    "return Hints(...) or None",
                    "return Hints(read_only=True)",
                )
            )
        return hints

    def check_args(self, args: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return what is wrong with the arguments: (field, problem) pairs, none when they fit the schema.

        A field is a path such as ``passengers[0].dob``; it is empty for the arguments as a whole. Secrets are masked.
        Arguments that cannot be checked, or turned into what the function's annotations ask for, do not fit.
        """
        problems = problems_of(self._validator, args, self.secret)
        if not problems and self._needs_conversion:
            try:
                self._converted(thaw(freeze(args)))
            except ToolInputError as error:
                return [("", str(error))]
        return problems

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the tool's own function, as if it were no tool: nothing is decided, and nothing logged.

        Raises:
            TypeError: The tool has no function of its own.
        """
        if self.function is None:
            raise TypeError(
                fix_message(f"{self!r} has no function to call", "give the call to an agent", "agent.use_tools([call])")
            )
        return self.function(*args, **kwargs)

    def run(self, args: dict[str, Any]) -> Any:
        """Run the tool with arguments that fit its schema; for an async tool, return something to await.

        Args:
            args: A plain, editable dict.

        Raises:
            ToolInputError: The arguments cannot be turned into what the function's annotations ask for.
        """
        assert self.function is not None  # the constructor made sure
        return self.function(**self._converted(args))

    @cached_property
    def _validator(self) -> Any:
        return validator_of(self.input_schema)

    @cached_property
    def _model(self) -> Any:
        assert self.function is not None
        return model_of(self.name, self.function)

    @cached_property
    def _needs_conversion(self) -> bool:
        if self.function is None or self._given_schema is not None:
            return False
        return any(info.metadata or not is_plain(info.annotation) for info in self._model.model_fields.values())

    @cached_property
    def _whole_numbers(self) -> frozenset[str]:
        if self._given_schema is not None:
            return frozenset()
        return frozenset(info.alias for info in self._model.model_fields.values() if info.annotation is int)

    def _converted(self, args: dict[str, Any]) -> dict[str, Any]:
        """Turn JSON values into what the annotations ask for: dates, enums, dataclasses, models."""
        # JSON Schema takes 1.0 for a whole number; a function that asks for an int gets one.
        args = {
            name: int(value) if type(value) is float and value.is_integer() and name in self._whole_numbers else value
            for name, value in args.items()
        }
        if not self._needs_conversion:
            return args
        import pydantic

        try:
            model = self._model.model_validate_json(json.dumps(args), strict=True)
        except pydantic.ValidationError as error:
            lines = [
                f"{path_text(problem['loc'])}: {problem['msg']}" if problem["loc"] else problem["msg"]
                for problem in error.errors()
            ]
            raise ToolInputError("; ".join(lines)) from error
        extra = model.__pydantic_extra__ or {}
        return {
            **{
                info.alias: getattr(model, name)
                for name, info in self._model.model_fields.items()
                if info.alias in args
            },
            **extra,
        }


def _checked_name(name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(
            fix_message(f"a tool's name is a string (got: {type(name).__name__})", "give a name", "Tool('add', …)")
        )
    if not re.fullmatch(r"[^\s\x00-\x1f\x7f]{1,128}", name):
        raise ValueError(
            fix_message(
                f"{name!r} is not a tool's name",
                "use 1 to 128 characters without spaces",
                "tool(name='read_file')(function)",
            )
        )
    return name


def _checked_secret(name: str, secret: object) -> frozenset[str]:
    names = None if isinstance(secret, str | bytes) or not isinstance(secret, Iterable) else list(secret)
    if names is None or not all(isinstance(item, str) for item in names):
        raise TypeError(
            fix_message(
                f"secret= of {name} takes a list of argument names (got: {secret!r})", "give a list", "secret=['body']"
            )
        )
    return frozenset(names)


def _checked_hints_for(name: str, function: Any) -> Any:
    if function is None:
        return None
    problem = ""
    if isinstance(function, type) or not callable(function):
        problem = "is not a function"
    elif inspect.iscoroutinefunction(function):
        problem = "is async"
    else:
        try:
            inspect.signature(function).bind({})
        except TypeError:
            problem = "does not take exactly one argument"
        except ValueError:
            pass  # a built-in without a signature: found when it is called
    if problem:
        raise TypeError(
            fix_message(
                f"hints_for of the tool {name} {problem}",
                "give a plain function from the arguments to Hints",
                "def hints(args: dict) -> Hints:\n    return Hints(read_only=args.get('mode') == 'r')",
            )
        )
    return function


def checked_timeout(timeout: object, example: str) -> float | None:
    """Return seconds above 0, or None for no limit.

    Args:
        timeout: What the user gave.
        example: For the message of the error: code that works.

    Raises:
        TypeError: It is neither a number nor None.
        ValueError: It is not above 0, or not a number.
    """
    if timeout is None or (isinstance(timeout, float) and timeout == math.inf):
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(
            fix_message(f"timeout= takes seconds (got: {timeout!r})", "give a number of seconds, or None", example)
        )
    if not timeout > 0:  # not-a-number, too
        raise ValueError(fix_message(f"timeout= is not above 0 (got: {timeout!r})", "give seconds above 0", example))
    return timeout
