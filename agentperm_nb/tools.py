"""Tools: what an agent may want to run.

1. A tool has a name, a description, a JSON Schema of its arguments, hints, and something to run.
2. A tool that says nothing about itself is taken for the worst: it writes, destroys, and reaches the outside world.
3. A plain function becomes a tool without hints; its schema is made from its signature.
4. Arguments are checked against the schema as they are: ``"8"`` is not a number.
5. A tool gets an editable copy of the arguments, never the frozen ones that were decided about.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial
from typing import Any, overload

from agentperm_nb.errors import ToolInputError, fix_message
from agentperm_nb.hints import Hints
from agentperm_nb.json_values import freeze, thaw
from agentperm_nb.schemas import (
    check_signature,
    checked_schema,
    is_plain,
    model_of,
    path_text,
    problems_of,
    schema_of,
    validator_of,
)

__all__ = ["Tool", "as_tool", "as_tools", "tool"]

_EXAMPLE = "@tool(read_only=True)\ndef read_file(path: str) -> str:\n    ...\n\nagent = Agent(tools=[read_file])"


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

    Raises:
        TypeError: An argument has the wrong type, or the function cannot be called by argument names.
        ValueError: The name is empty or has characters that no provider takes; the schema is not a JSON Schema of an
            object.
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
    ) -> None:
        self.name = _checked_name(name)
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
        self.hints = Hints(read_only=read_only, destructive=destructive, idempotent=idempotent, open_world=open_world)
        self.secret = _checked_secret(name, secret)
        self.function = function
        self._hints_for = _checked_hints_for(name, hints_for)
        self._given_schema = None if input_schema is None else checked_schema(name, input_schema)
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

    @property
    def server(self) -> str | None:
        """The server that the tool comes from, or None for one of our own."""
        return None

    @cached_property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        if self._given_schema is not None:
            return self._given_schema
        if self.function is None:
            return {"type": "object", "properties": {}}
        return checked_schema(self.name, schema_of(self._model))

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


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: Mapping[str, Any] | None = None,
    parallel: bool = True,
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    hints_for: Callable[[dict[str, Any]], Hints | None] | None = None,
    secret: Iterable[str] = (),
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    input_schema: Mapping[str, Any] | None = None,
    **options: Any,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function, with or without arguments: ``@tool`` or ``@tool(read_only=True)``.

    Args:
        function: The function, sync or async.
        name: The tool's name; the function's own when left out.
        description: What the model is told; the function's docstring when left out.
        input_schema: JSON Schema of the arguments; made from the signature when left out.
        **options: The other arguments of `Tool`.

    Raises:
        TypeError: See `Tool`.
        ValueError: See `Tool`.
    """

    def make(target: Callable[..., Any]) -> Tool:
        if isinstance(target, Tool):
            raise TypeError(fix_message(f"{target.name} is a tool already", "leave out the second @tool", _EXAMPLE))
        if not callable(target):
            raise TypeError(fix_message(f"@tool takes a function (got: {target!r})", "decorate a function", _EXAMPLE))
        named: Any = target
        while isinstance(named, partial):  # it has no name, and its docstring is that of functools
            named = named.func
        own_name = name if name is not None else getattr(named, "__name__", "")
        if own_name == "<lambda>":
            raise ValueError(fix_message("a lambda has no name", "give name=", "tool(name='double')(lambda x: 2 * x)"))
        text = description if description is not None else inspect.getdoc(named) or ""
        return Tool(own_name, text, input_schema, function=target, **options)

    return make if function is None else make(function)


def as_tool(item: object) -> Tool:
    """Return the tool that an entry of ``tools=`` stands for.

    Args:
        item: A `Tool`, a function, or a pair of a tool's specification (as Anthropic or OpenAI take it) and a function.

    Raises:
        TypeError: It is none of these.
        ValueError: See `Tool`.
    """
    if isinstance(item, Tool):
        return item
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], Mapping) and callable(item[1]):
        return _from_spec(item[0], item[1])
    if isinstance(item, type) or not callable(item):
        what = f"{item.__name__} (the class)" if isinstance(item, type) else repr(item)
        raise TypeError(
            fix_message(
                f"{what} in tools= is not a tool",
                "give a function, a Tool, or a pair (specification, function)",
                _EXAMPLE,
            )
        )
    return tool(item)


def as_tools(items: object) -> dict[str, Tool]:
    """Return the tools of ``tools=`` by name, in order.

    Raises:
        TypeError: It is not a list of tools.
        ValueError: Two tools have one name, or a schema is not one.
    """
    if isinstance(items, str | bytes | Mapping | Tool) or not isinstance(items, Iterable):
        raise TypeError(
            fix_message(f"tools= takes a list of tools (got: {type(items).__name__})", "give a list", _EXAMPLE)
        )
    tools: dict[str, Tool] = {}
    for item in items:
        made = as_tool(item)
        if made.name in tools:
            raise ValueError(
                fix_message(
                    f"two tools are named {made.name!r}",
                    "rename one of them",
                    f"@tool(name='{made.name}_2')\ndef another(path: str) -> str: ...\n\nAgent(tools=[another])",
                )
            )
        _ = made.input_schema  # a schema that cannot be made is found here, not at the first call
        tools[made.name] = made
    return tools


def _from_spec(spec: Mapping[str, Any], function: Callable[..., Any]) -> Tool:
    inner = (
        spec.get("function") if spec.get("type") == "function" and isinstance(spec.get("function"), Mapping) else spec
    )
    assert isinstance(inner, Mapping)
    schema = inner.get("input_schema", inner.get("parameters", inner.get("inputSchema")))
    if not isinstance(inner.get("name"), str) or not isinstance(schema, Mapping):
        raise ValueError(
            fix_message(
                "a tool's specification has no name or no schema",
                "give name, description and input_schema (or parameters)",
                "({'name': 'add', 'description': 'Add.', 'input_schema': {'type': 'object', 'properties': {}}}, add)",
            )
        )
    return Tool(inner["name"], inner.get("description") or "", schema, function=function)


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
