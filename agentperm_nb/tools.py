"""What goes into ``tools=``: functions, tools, objects with ``@tool`` methods, and specifications with their functions.

1. A function, decorated with `tool` or not, is a tool; so is a pair of a tool's specification and a function.
2. An object with a method ``as_tool()`` stands for the tool that it returns.
3. Any other object stands for its methods that are decorated with ``@tool``: those of its base classes first, each
   class in the order of its definition; a method that a subclass overrides keeps its place.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, overload

from agentperm_nb.errors import fix_message
from agentperm_nb.hints import Hints
from agentperm_nb.tool_class import Tool as Tool  # whoever has agentperm_nb.tools has all that makes tools

__all__ = ["as_tool", "as_tools", "tool"]

_EXAMPLE = "@tool(read_only=True)\ndef read_file(path: str) -> str:\n    ...\n\nagent = Agent(tools=[read_file])"
_METHODS = (
    "class Files:\n    @tool(read_only=True)\n    def read(self, path: str) -> str:\n        ...\n\n"
    "agent = Agent(tools=[Files()])"
)


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
    paths: Iterable[str] = (),
    timeout: float | None = None,
    tags: Iterable[str] = (),
    custom_tags: Iterable[str] = (),
    namespace: str | None = None,
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
        if isinstance(target, classmethod):
            raise TypeError(
                fix_message("@tool stands above @classmethod", "put it below", "@classmethod\n@tool\ndef of(cls): ...")
            )
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


def as_tool(item: object, *, owner: str = "tools=") -> Tool:
    """Return the tool that an entry of ``tools=`` stands for.

    Args:
        item: A `Tool`, a function, a pair of a tool's specification (as Anthropic or OpenAI take it) and a function, or
            an object with a method ``as_tool()`` that returns a `Tool`.
        owner: Where it was given, for the error.

    Raises:
        TypeError: It is none of these, or a method without its object.
        ValueError: See `Tool`.
    """
    if isinstance(item, Tool):
        return _with_object(item)
    if not isinstance(item, type) and callable(made := getattr(item, "as_tool", None)):
        return _given(item, made())
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], Mapping) and callable(item[1]):
        return _from_spec(item[0], item[1])
    if isinstance(item, type) or not callable(item):
        what = f"{item.__name__} (the class)" if isinstance(item, type) else repr(item)
        methods = isinstance(item, type) and bool(_tool_names(item))
        raise TypeError(
            fix_message(
                f"{what} in {owner} is not a tool",
                "give an object of it, whose methods are the tools"
                if methods
                else "give a function, a Tool, a pair (specification, function), or an object with @tool methods",
                _METHODS if methods else _EXAMPLE,
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
    for made in (made for item in items for made in _tools_of(item)):
        if made.name in tools:
            fix, example = "rename one of them", f"@tool(name='{made.name}_2')\ndef another(path: str) -> str: ..."
            example += "\n\nAgent(tools=[another])"
            if hasattr(made, "agent"):  # an agent as a tool (`running.subagents`)
                fix = "give one of the agents another name as a tool"
                example = f"Agent(tools=[first, agent.as_tool(name='{made.name}_2')])"
            raise ValueError(fix_message(f"two tools are named {made.name!r}", fix, example))
        _ = made.input_schema  # a schema that cannot be made is found here, not at the first call
        tools[made.name] = made
    return tools


def _tools_of(item: object) -> list[Tool]:
    if isinstance(item, Tool | type | tuple) or callable(getattr(item, "as_tool", None)):
        return [as_tool(item)]
    return _method_tools(item) or [as_tool(item)]


def _tool_names(owner: Any) -> dict[str, Any]:
    """Return the tools in a class body and its bases, by the name of the method, as they stand there."""
    names = dict.fromkeys(name for base in reversed(owner.__mro__) for name in vars(base))
    found: dict[str, Any] = {}
    for name in names:
        raw = next(vars(base)[name] for base in owner.__mro__ if name in vars(base))
        inner = raw.__func__ if isinstance(raw, staticmethod | classmethod) else raw
        if isinstance(inner, Tool):
            found[name] = raw
    return found


def _method_tools(item: object) -> list[Tool]:
    owner = type(item)
    found: list[Tool] = []
    for raw in _tool_names(owner).values():
        if isinstance(raw, classmethod):
            # Up to Python 3.12 its __get__ binds what it wraps; from 3.13 on that makes a method, which is no tool.
            wrapped: Any = raw.__func__
            found.append(wrapped.bound_to(owner))
        else:
            found.append(raw.__get__(item, owner))
    return found


def _with_object(made: Tool) -> Tool:
    if made.owner is not None:
        raise TypeError(
            fix_message(
                f"{made.name} in tools= is a method of {made.owner.__name__} without an object",
                "give the object, or the tool of an object",
                f"{_METHODS}  # or tools=[Files().read]",
            )
        )
    return made


def _given(item: object, made: object) -> Tool:
    if not isinstance(made, Tool):
        if inspect.iscoroutine(made):
            made.close()
        raise TypeError(
            fix_message(
                f"as_tool() of {item!r} in tools= returned {type(made).__name__}, not a Tool",
                "return a Tool",
                "def as_tool(self) -> Tool:\n    return Tool('search', 'Search.', function=self.search)",
            )
        )
    return _with_object(made)


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
