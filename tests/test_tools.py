"""Tools: what is taken for one, the schema it gets, what fits it, and what its function is called with."""

from __future__ import annotations

import datetime
import enum
import functools
import pathlib
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Optional

import pydantic
import pytest
from turns import DRIVERS, run
from typing_extensions import TypedDict

from agentperm_nb import Agent, AllowByDefault, AllowByReadOnly, DecideByHuman, PermissionWarning, ToolCall
from agentperm_nb.errors import ToolInputError
from agentperm_nb.hints import Hints
from agentperm_nb.json_values import freeze
from agentperm_nb.testing import FakeHuman
from agentperm_nb.tools import Tool, as_tool, as_tools, tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Passenger:
    name: str
    born: datetime.date


class Seat(pydantic.BaseModel):
    row: int
    letter: Literal["A", "B"]


class Bag(TypedDict):
    kilos: float


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def book(
    passenger: Passenger,
    seats: list[Seat],
    day: datetime.date,
    colour: Colour = Colour.RED,
    bag: Bag | None = None,
    note: Optional[str] = None,  # noqa: UP045 - both spellings have to work
) -> dict[str, Any]:
    return locals()


def even(value: int) -> int:
    if value % 2:
        raise ValueError("not even")
    return value


def three_parts(text: str) -> bool:
    return "\nFix: " in text and "\nExample:\n" in text


def object_schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


class TestForms:
    def test_a_decorated_function_is_a_tool_with_its_name_and_docstring(self) -> None:
        made = tool(add)
        assert (made.name, made.description, made.parallel, made.server) == ("add", "Add two numbers.", True, None)
        assert made.hints == Hints()
        assert repr(made) == "Tool('add')"
        assert made.run({"a": 1}) == 3

    @pytest.mark.states("S7")
    def test_the_decorator_takes_what_a_tool_takes(self) -> None:
        made = tool(
            name="sum", description="Sums.", read_only=True, open_world=False, parallel=False, secret=["a"],
            input_schema=object_schema(a={"type": "number"}),
        )(add)  # fmt: skip
        assert made.spec == {
            "name": "sum",
            "description": "Sums.",
            "input_schema": object_schema(a={"type": "number"}),
        }
        assert made.hints == Hints(read_only=True, open_world=False)
        assert (made.parallel, made.secret) == (False, frozenset({"a"}))

    def test_functions_methods_partials_and_callable_objects_are_tools(self) -> None:
        class Greeter:
            """Greets."""

            def hello(self, name: str) -> str:
                """Say hello."""
                return f"hello {name}"

            def __call__(self, name: str) -> str:
                return f"called {name}"

            @staticmethod
            def static(name: str) -> str:
                return f"static {name}"

            @classmethod
            def of_class(cls, name: str) -> str:
                return f"{cls.__name__} {name}"

        greeter = Greeter()
        for function, said in (
            (greeter.hello, "hello ada"),
            (Greeter.static, "static ada"),
            (Greeter.of_class, "Greeter ada"),
            (lambda name: f"lambda {name}", "lambda ada"),
        ):
            made = tool(name="greet")(function)
            assert list(made.input_schema["properties"]) == ["name"]
            assert made.run({"name": "ada"}) == said
        made = tool(name="greet")(greeter)
        assert (made.description, made.run({"name": "ada"})) == ("Greets.", "called ada")

    def test_a_partial_is_named_and_described_like_its_function(self) -> None:
        made = as_tool(functools.partial(functools.partial(add, b=5)))
        assert (made.name, made.description, made.run({"a": 1})) == ("add", "Add two numbers.", 6)

    def test_a_wrapped_function_keeps_the_signature_of_what_it_wraps(self) -> None:
        @functools.wraps(add)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            return add(*args, **kwargs)

        assert as_tool(wrapper).input_schema == as_tool(add).input_schema
        assert as_tool(wrapper).run({"a": 1}) == 3

    @pytest.mark.parametrize(
        "spec",
        [
            {"name": "add", "description": "Sum.", "input_schema": object_schema(a={"type": "integer"})},
            {"name": "add", "description": "Sum.", "parameters": object_schema(a={"type": "integer"})},
            {"name": "add", "description": "Sum.", "inputSchema": object_schema(a={"type": "integer"})},
            {
                "type": "function",
                "function": {"name": "add", "description": "Sum.", "parameters": object_schema(a={"type": "integer"})},
            },
            {
                "type": "function",
                "name": "add",
                "description": "Sum.",
                "parameters": object_schema(a={"type": "integer"}),
            },
        ],
        ids=["Anthropic", "parameters", "MCP", "OpenAI Chat", "OpenAI Responses"],
    )
    def test_a_specification_with_its_function_is_a_tool(self, spec: dict[str, Any]) -> None:
        made = as_tool((spec, add))
        assert made.spec == {
            "name": "add",
            "description": "Sum.",
            "input_schema": object_schema(a={"type": "integer"}),
        }
        assert made.run({"a": 1}) == 3

    def test_a_subclass_runs_itself(self) -> None:
        class Echo(Tool):
            def run(self, args: dict[str, Any]) -> Any:
                return args

        class Later(Tool):
            async def run(self, args: dict[str, Any]) -> Any:
                return args

        assert Echo("echo").run({"a": 1}) == {"a": 1}
        assert Echo("echo").input_schema == object_schema()
        assert (Echo("echo").is_async, Later("later").is_async) == (False, True)
        assert as_tool(made := Echo("echo")) is made

    def test_what_is_awaited_says_so(self) -> None:
        async def later(a: int) -> int:
            return a

        class Call:
            async def __call__(self, a: int) -> int:
                return a

        assert as_tool(later).is_async
        assert tool(name="call")(Call()).is_async
        assert tool(name="part")(functools.partial(later, 1)).is_async
        assert not as_tool(add).is_async

    @pytest.mark.parametrize(
        ("item", "error", "text"),
        [
            (5, TypeError, "is not a tool"),
            ("add", TypeError, "is not a tool"),
            (Colour, TypeError, r"Colour \(the class\)"),
            ({"name": "add"}, TypeError, "is not a tool"),
            ((add, {"name": "add"}), TypeError, "is not a tool"),
            (({"name": "add"}, add), ValueError, "no name or no schema"),
            (({"name": 5, "input_schema": {}}, add), ValueError, "no name or no schema"),
            (({"type": "function", "function": {"parameters": {}}}, add), ValueError, "no name or no schema"),
            (lambda x: x, ValueError, "a lambda has no name"),
        ],
        ids=repr,
    )
    def test_anything_else_is_refused_in_three_parts(self, item: Any, error: type[Exception], text: str) -> None:
        with pytest.raises(error, match=text) as caught:
            as_tool(item)
        assert three_parts(str(caught.value))

    @pytest.mark.parametrize("items", ["add", b"add", None, 5, {"add": add}, tool(add)], ids=repr)
    def test_tools_are_given_as_a_list(self, items: Any) -> None:
        with pytest.raises(TypeError, match="tools= takes a list of tools"):
            as_tools(items)

    def test_two_tools_of_one_name_are_refused(self) -> None:
        with pytest.raises(ValueError, match="two tools are named 'add'"):
            as_tools([add, tool(add)])
        assert list(as_tools(iter([add, book]))) == ["add", "book"]

    @pytest.mark.parametrize(
        ("options", "error", "text"),
        [
            ({"name": ""}, ValueError, "not a tool's name"),
            ({"name": "a b"}, ValueError, "not a tool's name"),
            ({"name": "a\n"}, ValueError, "not a tool's name"),
            ({"name": "a" * 129}, ValueError, "not a tool's name"),
            ({"name": 5}, TypeError, "name is a string"),
            ({"description": 5}, TypeError, "description of add is not a string"),
            ({"function": "add"}, TypeError, "cannot be called"),
            ({"function": None}, TypeError, "nothing to run"),
            ({"secret": "a"}, TypeError, "list of argument names"),
            ({"secret": [1]}, TypeError, "list of argument names"),
            ({"secret": None}, TypeError, "list of argument names"),
            ({"timeout": True}, TypeError, "takes seconds"),
            ({"timeout": "30"}, TypeError, "takes seconds"),
            ({"timeout": 0}, ValueError, "not above 0"),
            ({"timeout": -1.5}, ValueError, "not above 0"),
            ({"timeout": float("-inf")}, ValueError, "not above 0"),
            ({"timeout": float("nan")}, ValueError, "not above 0"),
            ({"read_only": 1}, TypeError, "read_only= takes True or False"),
            ({"input_schema": "{}"}, TypeError, "is not a dict"),
        ],
        ids=repr,
    )
    def test_a_tool_of_wrong_parts_is_refused_in_three_parts(
        self, options: dict[str, Any], error: type[Exception], text: str
    ) -> None:
        with pytest.raises(error, match=text) as caught:
            Tool(**{"name": "add", "function": add, **options})
        assert three_parts(str(caught.value))

    def test_decorating_twice_or_decorating_nothing_is_refused(self) -> None:
        with pytest.raises(TypeError, match="add is a tool already"):
            tool(read_only=True)(tool(add))
        with pytest.raises(TypeError, match="@tool takes a function"):
            tool(read_only=True)(5)  # type: ignore[arg-type]


class TestTimeouts:
    def test_a_tool_has_no_limit_unless_it_says_so(self) -> None:
        assert tool(add).timeout is None
        assert Tool("add", function=add).timeout is None

    @pytest.mark.parametrize("seconds", [30, 0.5], ids=repr)
    def test_a_tool_says_in_seconds_when_its_calls_are_given_up(self, seconds: float) -> None:
        assert tool(timeout=seconds)(add).timeout == seconds
        assert Tool("add", function=add, timeout=seconds).timeout == seconds

    def test_infinity_is_no_limit(self) -> None:
        assert tool(timeout=float("inf"))(add).timeout is None


class Files:
    """Files below a folder."""

    def __init__(self, root: str = "/data") -> None:
        self.root = root

    @tool(read_only=True, secret=["key"], timeout=5)
    def read(self, path: str, key: str = "") -> str:
        """Read a file."""
        return f"{self.root}/{path}"

    @tool
    async def write(self, path: str, day: datetime.date) -> Any:
        """Write a file."""
        return self.root, path, day

    def plain(self, path: str) -> str:
        return path


class Archive(Files):
    @classmethod
    @tool
    def kinds(cls) -> str:
        """List the kinds of archives."""
        return cls.__name__

    @staticmethod
    @tool
    def sizes(path: str) -> str:
        """Tell sizes."""
        return f"size of {path}"

    @tool(read_only=True)
    def read(self, path: str, key: str = "") -> str:
        """Read from an archive."""
        return f"archived {super().read(path)}"

    @tool
    def pack(self) -> str:
        """Pack."""
        return f"packed {self.root}"


class Closed(Files):
    def write(self, path: str) -> None:  # type: ignore[override]
        """Not a tool any more."""


class TestMethods:
    def test_a_tool_in_a_class_is_a_method_of_its_objects(self) -> None:
        read = Files("/here").read
        assert isinstance(read, Tool)
        assert (read.name, read.description, read.timeout, read.secret) == (
            "read", "Read a file.", 5, frozenset({"key"}),
        )  # fmt: skip
        assert read.hints.read_only is True
        assert list(read.input_schema["properties"]) == ["path", "key"]
        assert read.run({"path": "a"}) == "/here/a"
        assert read("b") == Files("/here").read("b") == "/here/b"
        assert [problem for _, problem in read.check_args({"self": 1, "path": "a"})] == [
            "Additional properties are not allowed ('self' was unexpected)"
        ]

    def test_the_tool_of_the_class_is_the_function_that_takes_the_object_first(self) -> None:
        assert Files.read is Files.read
        assert Files.read(Files("/x"), "a") == "/x/a"
        assert Files.read.owner is Files

    def test_tools_of_two_objects_are_two(self) -> None:
        first, second = Files("/1").read, Files("/2").read
        assert (first.run({"path": "a"}), second.run({"path": "a"})) == ("/1/a", "/2/a")
        assert first.owner is None

    def test_an_async_method_is_awaited_and_its_values_are_converted(self) -> None:
        write = Files("/w").write
        assert write.is_async
        waiting = write.run({"path": "a", "day": "2026-01-02"})
        with pytest.raises(StopIteration) as end:
            waiting.send(None)
        assert end.value.value == ("/w", "a", datetime.date(2026, 1, 2))

    def test_an_object_in_the_list_stands_for_its_tools_in_the_order_of_their_definition(self) -> None:
        assert list(as_tools([Files()])) == ["read", "write"]
        assert list(as_tools([add, Files()])) == ["add", "read", "write"]

    def test_inherited_tools_come_first_and_an_overridden_one_keeps_its_place(self) -> None:
        tools = as_tools([Archive("/a")])
        assert list(tools) == ["read", "write", "kinds", "sizes", "pack"]
        assert tools["read"].run({"path": "f"}) == "archived /a/f"
        assert tools["kinds"].run({}) == "Archive"
        assert tools["sizes"].run({"path": "f"}) == "size of f"
        assert tools["pack"].run({}) == "packed /a"
        assert [tools[name].input_schema.get("required") for name in ("kinds", "sizes", "pack")] == [
            None, ["path"], None,
        ]  # fmt: skip

    def test_a_method_that_a_subclass_makes_plain_is_no_tool_any_more(self) -> None:
        assert list(as_tools([Closed()])) == ["read"]

    def test_a_callable_object_with_tools_stands_for_them(self) -> None:
        class Box(Files):
            def __call__(self) -> None: ...

        assert list(as_tools([Box()])) == ["read", "write"]

    def test_an_object_without_tools_is_refused(self) -> None:
        class Empty:
            def __repr__(self) -> str:
                return "Empty()"

            def read(self) -> None: ...

        with pytest.raises(TypeError, match=r"Empty\(\) in tools= is not a tool") as caught:
            as_tools([Empty()])
        assert three_parts(str(caught.value))

    @pytest.mark.parametrize("make", [as_tool, lambda item: as_tools([item])], ids=["as_tool", "as_tools"])
    def test_a_method_without_its_object_is_refused_in_three_parts(self, make: Callable[[Any], Any]) -> None:
        with pytest.raises(TypeError, match="read in tools= is a method of Files without an object") as caught:
            make(Files.read)
        assert three_parts(str(caught.value))
        assert as_tool(Files().read).name == "read"

    def test_a_class_with_tools_is_refused_with_a_hint_to_its_objects(self) -> None:
        with pytest.raises(TypeError, match=r"Files \(the class\) in tools= is not a tool\nFix: give an object of it"):
            as_tools([Files])

    def test_a_tool_that_takes_no_object_stays_itself_in_a_class(self) -> None:
        shared = tool(add)

        class Settings:
            add = shared
            echo = Tool("echo", function=lambda text: text)

        assert Settings().add is shared
        assert Settings.add is shared
        assert as_tool(shared) is shared
        assert list(as_tools([Settings()])) == ["add", "echo"]

    def test_a_decorator_above_a_classmethod_is_refused_with_the_order_that_works(self) -> None:
        async def f(cls: Any) -> None: ...

        with pytest.raises(TypeError, match="@tool stands above @classmethod") as caught:
            tool(classmethod(f))  # type: ignore[call-overload]
        assert three_parts(str(caught.value))

    def test_methods_of_an_object_are_decided_about_and_run_like_any_tool(self) -> None:
        agent = Agent([Files("/here")], permissions=[AllowByReadOnly()])
        day = {"path": "b", "day": "2026-01-02"}
        with pytest.warns(PermissionWarning):
            turn = agent.use_tools([ToolCall("read", {"path": "a"}), ToolCall("write", day)])
        assert [(result.verdict, result.value) for result in turn.results] == [("allowed", "/here/a"), ("denied", None)]


class TestObjectsThatStandForATool:
    def test_what_as_tool_returns_is_the_tool(self) -> None:
        class Searcher:
            def as_tool(self) -> Tool:
                return Tool("search", function=self.search)

            def search(self, query: str) -> str:
                return f"found {query}"

            @tool
            def other(self) -> None:
                """Not asked for: the object says itself what it stands for."""

        assert as_tool(Searcher()).run({"query": "a"}) == "found a"
        assert list(as_tools([Searcher(), add])) == ["search", "add"]

    @pytest.mark.parametrize("value", [None, "search", add, Files.read], ids=["none", "text", "function", "method"])
    def test_anything_else_that_it_returns_is_refused_in_three_parts(self, value: Any) -> None:
        class Wrong:
            def as_tool(self) -> Any:
                return value

            def __repr__(self) -> str:
                return "Wrong()"

        text = "is a method of Files" if value is Files.read else r"as_tool\(\) of Wrong\(\) in tools= returned"
        with pytest.raises(TypeError, match=text) as caught:
            as_tools([Wrong()])
        assert three_parts(str(caught.value))

    def test_an_as_tool_that_is_async_is_refused(self) -> None:
        class Later:
            async def as_tool(self) -> Tool:
                return tool(add)

        with pytest.raises(TypeError, match="returned coroutine, not a Tool"):
            as_tool(Later())


class TestHints:
    @pytest.mark.states("S8")
    def test_a_tool_that_says_nothing_is_taken_for_the_worst(self) -> None:
        hints = Hints()
        assert (hints.read_only, hints.destructive, hints.idempotent, hints.open_world) == (False, True, False, True)

    def test_a_read_only_tool_is_neither_destructive_nor_changed_by_a_second_run(self) -> None:
        hints = Hints(read_only=True)
        assert (hints.read_only, hints.destructive, hints.idempotent, hints.open_world) == (True, False, True, True)
        assert Hints(read_only=True, destructive=False, idempotent=True) == hints

    @pytest.mark.states("S8")
    @pytest.mark.parametrize("more", [{"destructive": True}, {"idempotent": False}], ids=repr)
    def test_hints_that_contradict_each_other_are_refused(self, more: dict[str, bool]) -> None:
        with pytest.raises(ValueError, match="read-only tool is neither") as caught:
            Hints(read_only=True, **more)
        assert three_parts(str(caught.value))

    @pytest.mark.states("S8")
    @pytest.mark.parametrize("name", ["read_only", "destructive", "idempotent", "open_world"])
    @pytest.mark.parametrize("value", [1, 0, "yes", "true", [True]], ids=repr)
    def test_a_hint_is_true_or_false(self, name: str, value: Any) -> None:
        with pytest.raises(TypeError, match=f"{name}= takes True or False"):
            Hints(**{name: value})

    @pytest.mark.states("S8")
    def test_hints_are_given_by_name_and_never_change(self) -> None:
        with pytest.raises(TypeError):
            Hints(True)  # type: ignore[misc]
        with pytest.raises(AttributeError):
            Hints().read_only = True  # type: ignore[misc]

    @pytest.mark.states("S8")
    def test_hints_can_have_more_fields(self) -> None:
        @dataclass(frozen=True, kw_only=True)
        class Costly(Hints):
            euros: float = 0.0

        made = tool(hints_for=lambda args: Costly(read_only=True, euros=2.5))(add)
        hints = made.hints_for({"a": 1})
        assert isinstance(hints, Costly)
        assert (hints.euros, hints.destructive) == (2.5, False)

    @pytest.mark.states("S9")
    def test_hints_of_one_call_see_a_plain_copy_of_its_arguments(self) -> None:
        seen: list[Any] = []

        def hints_for(args: dict[str, Any]) -> Hints | None:
            seen.append(args)
            args["a"].append("changed")
            return Hints(read_only=True) if args["mode"] == "r" else None

        made = tool(name="open", hints_for=hints_for, destructive=False)(lambda mode, a: None)
        args = freeze({"mode": "r", "a": []})
        assert made.hints_for(args).read_only is True
        assert made.hints_for({"mode": "w", "a": []}) == Hints(destructive=False)
        assert type(seen[0]) is dict
        assert args == {"mode": "r", "a": []}

    @pytest.mark.states("S9")
    @pytest.mark.parametrize("value", [True, {"read_only": True}, "read_only", Hints], ids=repr)
    def test_hints_of_one_call_that_are_no_hints_are_refused(self, value: Any) -> None:
        with pytest.raises(TypeError, match=r"hints_for of the tool add returned .*, not Hints"):
            tool(hints_for=lambda args: value)(add).hints_for({})

    @pytest.mark.states("S9")
    @pytest.mark.parametrize(
        "wrong", [Hints, 5, lambda: None, lambda a, b: None], ids=["class", "number", "none", "two"]
    )
    def test_a_function_that_cannot_give_hints_is_refused_when_the_tool_is_made(self, wrong: Any) -> None:
        async def later(args: dict[str, Any]) -> Hints:
            return Hints()

        for function in (wrong, later):
            with pytest.raises(TypeError, match="hints_for of the tool add") as caught:
                tool(hints_for=function)(add)
            assert three_parts(str(caught.value))


def simple(
    text: str, number: int, real: float, truth: bool, anything: Any, untyped, items: list[str], table: dict[str, int]
) -> None: ...


class TestSchema:
    def test_plain_annotations_become_plain_schemas(self) -> None:
        schema = as_tool(simple).input_schema
        assert schema == {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "number": {"type": "integer"},
                "real": {"type": "number"},
                "truth": {"type": "boolean"},
                "anything": {},
                "untyped": {},
                "items": {"type": "array", "items": {"type": "string"}},
                "table": {"type": "object", "additionalProperties": {"type": "integer"}},
            },
            "required": ["text", "number", "real", "truth", "anything", "untyped", "items", "table"],
            "additionalProperties": False,
        }

    def test_rich_annotations_become_schemas_that_fit_what_a_model_writes(self) -> None:
        made = as_tool(book)
        args = {
            "passenger": {"name": "Ada", "born": "1815-12-10"},
            "seats": [{"row": 1, "letter": "A"}],
            "day": "2026-01-02",
            "colour": "blue",
            "bag": {"kilos": 7.5},
            "note": None,
        }
        assert made.check_args(args) == []
        assert made.input_schema["required"] == ["passenger", "seats", "day"]
        assert made.input_schema["properties"]["colour"]["default"] == "red"

    def test_a_default_is_told_and_makes_an_argument_optional(self) -> None:
        schema = as_tool(add).input_schema
        assert schema["required"] == ["a"]
        assert schema["properties"]["b"] == {"type": "integer", "default": 2}

    def test_a_default_that_json_has_no_form_for_is_left_out_without_a_warning(self) -> None:
        marker: Any = object()

        def f(a: str = marker) -> bool:
            return a is marker

        made = as_tool(f)
        assert made.input_schema["properties"] == {"a": {"type": "string"}}
        assert made.run({}) is True

    def test_descriptions_and_bounds_of_annotations_reach_the_schema(self) -> None:
        def f(n: Annotated[int, pydantic.Field(ge=1, le=9, description="How many.")]) -> int:
            return n

        made = as_tool(f)
        assert made.input_schema["properties"]["n"] == {
            "type": "integer", "minimum": 1, "maximum": 9, "description": "How many.",
        }  # fmt: skip
        assert made.check_args({"n": 10}) == [("n", "10 is greater than the maximum of 9")]

    def test_keyword_arguments_let_any_argument_in(self) -> None:
        def f(a: int, **more: Any) -> Any:
            return a, more

        made = as_tool(f)
        assert made.input_schema["additionalProperties"] is True
        assert list(made.input_schema["properties"]) == ["a"]
        assert made.check_args({"a": 1, "b": 2}) == []
        assert made.run({"a": 1, "b": 2}) == (1, {"b": 2})

    @pytest.mark.parametrize(
        "name",
        ["json", "copy", "schema", "self", "cls", "model_config", "model_fields", "dict", "validate", "arg_0", "_x",
         "__y", "name", "args", "kwargs", "alias", "function", "ä", "values", "fields"],
    )  # fmt: skip
    def test_a_parameter_may_have_any_name(self, name: str) -> None:
        space: dict[str, Any] = {"date": datetime.date}
        exec(f"def f({name}: int, when: date, **more): return {name}, when, more", space)
        made = as_tool(space["f"])
        assert list(made.input_schema["properties"]) == [name, "when"]
        assert made.check_args({name: 1, "when": "2026-01-02"}) == []
        day = datetime.date(2026, 1, 2)
        assert made.run({name: 1, "when": "2026-01-02", "arg_1": 7}) == (1, day, {"arg_1": 7})

    @pytest.mark.parametrize(
        ("function", "text"),
        [
            (lambda a, /: None, "takes 'a' by position only"),
            (lambda *rest: None, "takes 'rest' by position only"),
            (dict, "no signature"),
        ],
        ids=["position only", "rest", "no signature"],
    )
    def test_a_function_that_cannot_be_called_by_name_is_refused(self, function: Any, text: str) -> None:
        with pytest.raises(TypeError, match=text) as caught:
            Tool("f", function=function)
        assert three_parts(str(caught.value))

    @pytest.mark.parametrize("annotation", ["Missing", "datetime.nothing", "1 / 0", "not python", "list[Missing]"])
    def test_an_annotation_that_cannot_be_read_is_an_error_in_three_parts(self, annotation: str) -> None:
        def f(a) -> None: ...  # type: ignore[no-untyped-def]

        f.__annotations__["a"] = annotation
        with pytest.raises(TypeError, match="the annotations of f cannot be read") as caught:
            as_tools([f])
        assert three_parts(str(caught.value))
        assert as_tools([Tool("f", "", object_schema(), function=f)])

    @pytest.mark.parametrize("annotation", [socket.socket, object, type("Own", (), {})], ids=repr)
    def test_a_type_without_a_json_form_is_an_error_in_three_parts(self, annotation: Any) -> None:
        def f(a) -> None: ...  # type: ignore[no-untyped-def]

        f.__annotations__["a"] = annotation
        if annotation is object:
            assert as_tools([f])
            return
        with pytest.raises(TypeError, match="the signature of f has a type that JSON has no form for") as caught:
            as_tools([f])
        assert three_parts(str(caught.value))

    def test_a_schema_is_copied_when_the_tool_is_made(self) -> None:
        given = object_schema(a={"type": "string"})
        made = Tool("f", "", given, function=add)
        given["properties"]["a"]["type"] = "integer"
        assert made.input_schema == object_schema(a={"type": "string"})


class TestArguments:
    @pytest.mark.states("N3")
    @pytest.mark.parametrize("driver", DRIVERS)
    @pytest.mark.parametrize("awaited", [False, True], ids=["sync tool", "async tool"])
    def test_a_tool_may_change_its_arguments_which_are_a_copy(self, driver: str, awaited: bool) -> None:
        got: list[Any] = []

        def change(items: list[Any], table: dict[str, Any]) -> None:
            got.append((type(items), type(table), type(table["inner"])))
            items.append("changed")
            table["inner"].clear()

        async def change_later(items: list[Any], table: dict[str, Any]) -> None:
            change(items, table)

        agent = Agent([tool(name="change")(change_later if awaited else change)], permissions=[AllowByDefault()])
        call = ToolCall("change", {"items": [1], "table": {"inner": [2]}})
        [result] = run(driver, agent, [call]).results
        assert (result.verdict, result.content) == ("allowed", "(done)")
        assert got == [(list, dict, list)]
        assert result.call.args == {"items": [1], "table": {"inner": [2]}}


class TestWrongSchemas:
    @pytest.mark.parametrize(
        ("schema", "text"),
        [
            ({"type": "strange"}, "is not a JSON Schema"),
            ({"type": "string"}, "is of type 'string'"),
            ({"type": ["object", "null"]}, "is of type"),
            (object_schema(a={"type": 5}), "is not a JSON Schema"),
            (object_schema(a={"minimum": "1"}), "is not a JSON Schema"),
            (object_schema(a={"pattern": "("}), "is not a JSON Schema"),
            ({"type": "object", "required": "a"}, "is not a JSON Schema"),
            ({"type": "object", "properties": []}, "is not a JSON Schema"),
            ({"type": "object", "$schema": 5}, "is not a JSON Schema"),
            ({"type": "object", "$schema": ["x"]}, "is not a JSON Schema"),
        ],
        ids=repr,
    )
    def test_what_is_no_schema_of_an_object_is_refused_in_three_parts(self, schema: Any, text: str) -> None:
        with pytest.raises(ValueError, match=text) as caught:
            Tool("f", "", schema, function=add)
        assert three_parts(str(caught.value))

    def test_a_schema_nested_without_end_is_refused_in_three_parts(self) -> None:
        endless: dict[str, Any] = {"type": "object"}
        endless["properties"] = {"a": endless}
        deep: dict[str, Any] = {}
        for _ in range(2000):
            deep = {"properties": {"a": deep}}
        for schema in (endless, {"type": "object", **deep}):
            with pytest.raises(ValueError, match="nested too deeply, or contains itself") as caught:
                Tool("f", "", schema, function=add)
            assert three_parts(str(caught.value))

    @pytest.mark.parametrize(
        "reference",
        ["http://127.0.0.1:1/x", "https://evil.test/schema.json", "file:///etc/passwd", "other.json"],
    )
    def test_a_reference_to_elsewhere_is_refused_and_never_fetched(
        self, reference: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            reference = reference.replace(":1/", f":{listening.getsockname()[1]}/")
            listening.setblocking(False)
            with pytest.raises(ValueError, match=r"is not a JSON Schema: Resource '.*' is not present") as caught:
                Tool("f", "", object_schema(a={"$ref": reference}), function=add)
            assert "\nFix: " in str(caught.value)
            with pytest.raises(BlockingIOError):  # nobody has called
                listening.accept()

    @pytest.mark.parametrize("pointer", ["#/nowhere", "#/$defs/missing", "#anchor"])
    def test_a_reference_to_nowhere_is_refused(self, pointer: str) -> None:
        with pytest.raises(ValueError, match=r"is not a JSON Schema: (Pointer|Anchor) '.*' does not exist"):
            Tool("f", "", object_schema(a={"$ref": pointer}), function=add)

    def test_a_reference_to_itself_comes_to_an_end_and_a_recursive_schema_works(self) -> None:
        loop = Tool("f", "", object_schema(a={"$ref": "#/properties/a"}), function=add)
        assert loop.check_args({"a": 1}) == []  # it says nothing of "a"
        node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "additionalProperties": False}
        tree = Tool("f", "", {**object_schema(a={"$ref": "#/$defs/node"}), "$defs": {"node": node}}, function=add)
        assert tree.check_args({"a": {"next": {"next": {}}}}) == []
        assert tree.check_args({"a": {"next": {"next": 5}}}) == [("a.next.next", '5 is not of type "object"')]

    @pytest.mark.parametrize("pattern", ["^(a+)+$", "^(?=(a|a)*$)a*$", "^(a|a?)+$", r"^(\w+\s?)*$", r"(a*)*\1b"])
    def test_a_pattern_that_would_take_for_ever_elsewhere_takes_no_time(self, pattern: str) -> None:
        made = Tool("f", "", object_schema(a={"type": "string", "pattern": pattern}), function=add)
        assert made.check_args({"a": "a" * 5000 + "!"}) != []

    def test_a_pattern_of_javascript_is_a_pattern(self) -> None:
        made = Tool("f", "", object_schema(a={"type": "string", "pattern": r"^\p{L}+$"}), function=add)
        assert made.check_args({"a": "Zoë"}) == []
        assert made.check_args({"a": "7"}) != []

    def test_half_of_a_surrogate_pair_is_no_text(self) -> None:
        made = Tool("f", "", object_schema(a={"pattern": "a"}), function=add)
        assert made.check_args({"a": "\ud800"}) == [
            ("", "a text holds half of a surrogate pair, which is no character")
        ]

    def test_a_huge_schema_is_taken(self) -> None:
        made = Tool("f", "", object_schema(**{f"p{n}": {"type": "integer"} for n in range(3000)}), function=add)
        assert made.check_args({"p2999": "x"}) == [("p2999", '"x" is not of type "integer"')]


class TestCheck:
    @pytest.mark.parametrize(
        ("args", "problems"),
        [
            ({"text": "8", "n": 8}, []),
            ({"text": "8", "n": "8"}, [("n", '"8" is not of type "integer"')]),
            ({"text": "8", "n": True}, [("n", 'true is not of type "integer"')]),
            ({"text": "8", "n": None}, [("n", 'null is not of type "integer"')]),
            ({"text": "8", "n": 8.5}, [("n", '8.5 is not of type "integer"')]),
            ({"text": 8, "n": 8}, [("text", '8 is not of type "string"')]),
            ({"n": 8}, [("", '"text" is a required property')]),
            ({"text": "8", "n": 8, "x": 1}, [("", "Additional properties are not allowed ('x' was unexpected)")]),
            ({"text": 1, "n": "x"}, [("n", '"x" is not of type "integer"'), ("text", '1 is not of type "string"')]),
        ],
        ids=repr,
    )
    def test_arguments_are_checked_as_they_are(self, args: dict[str, Any], problems: list[tuple[str, str]]) -> None:
        def f(text: str, n: int) -> None: ...

        assert as_tool(f).check_args(args) == problems
        assert as_tool(f).check_args(freeze(args)) == problems

    def test_a_field_is_named_by_its_path(self) -> None:
        args = {
            "passenger": {"name": 5, "born": "x"},
            "seats": [{"row": 1, "letter": "A"}, {"row": "2", "letter": "C"}],
            "day": "x",
        }
        fields = [field for field, _ in as_tool(book).check_args(args)]
        assert fields == ["passenger.name", "seats[1].letter", "seats[1].row"]

    def test_a_long_value_is_not_repeated_in_full(self) -> None:
        def f(n: int) -> None: ...

        [(_, problem)] = as_tool(f).check_args({"n": "x" * 10_000})
        assert problem.endswith('… is not of type "integer"')
        assert len(problem) < 150

    def test_what_is_said_of_arguments_holds_no_secret(self) -> None:
        def f(password: int, body: int, login: int, list_of: list[int]) -> None: ...

        made = tool(secret=["body"])(f)
        problems = made.check_args(
            {
                "password": "s3cret",
                "body": "s3cret",
                "login": {"api_key": "s3cret", "body": "s3cret"},
                "list_of": ["sk-live-s3cret"],
            }
        )
        assert [field for field, _ in problems] == ["body", "list_of[0]", "login", "password"]
        assert "s3cret" not in str(problems)

    def test_a_pattern_is_searched_for_as_json_schema_says(self) -> None:
        made = Tool("f", "", object_schema(a={"type": "string", "pattern": "b+"}), function=add)
        assert made.check_args({"a": "abc"}) == []
        assert made.check_args({"a": "xyz"}) == [("a", '"xyz" does not match "b+"')]


class TestRun:
    def test_values_become_what_the_annotations_ask_for(self) -> None:
        got = as_tool(book).run(
            {
                "passenger": {"name": "Ada", "born": "1815-12-10"},
                "seats": [{"row": 1, "letter": "A"}],
                "day": "2026-01-02",
                "colour": "blue",
            }
        )
        assert got == {
            "passenger": Passenger("Ada", datetime.date(1815, 12, 10)),
            "seats": [Seat(row=1, letter="A")],
            "day": datetime.date(2026, 1, 2),
            "colour": Colour.BLUE,
            "bag": None,
            "note": None,
        }

    def test_what_was_left_out_gets_the_default_of_the_function_itself(self) -> None:
        marker: list[int] = []

        def f(day: datetime.date, seen: list[int] = marker) -> bool:
            return seen is marker

        assert as_tool(f).run({"day": "2026-01-02"}) is True

    @pytest.mark.parametrize("with_date", [False, True], ids=["plain", "converted"])
    def test_a_whole_number_is_an_int_however_it_is_written(self, with_date: bool) -> None:
        def plain(n: int, x: float = 0) -> Any:
            return n, x

        def dated(n: int, day: datetime.date, x: float = 0) -> Any:
            return n, x

        made = as_tool(dated if with_date else plain)
        args: dict[str, Any] = {"n": 3.0, "x": 2.0, **({"day": "2026-01-02"} if with_date else {})}
        assert made.check_args(args) == []
        n, x = made.run(args)
        assert (n, type(n), x, type(x)) == (3, int, 2.0, float)

    @pytest.mark.parametrize("day", ["tomorrow", "2026-13-01", ""])
    def test_what_cannot_be_converted_is_an_input_error_that_names_the_field(self, day: str) -> None:
        with pytest.raises(ToolInputError, match=r"^day: "):
            as_tool(book).run({"passenger": {"name": "a", "born": "1815-12-10"}, "seats": [], "day": day})

    def test_a_validator_of_an_annotation_is_run(self) -> None:
        def f(n: Annotated[int, pydantic.AfterValidator(even)]) -> int:
            return n

        assert as_tool(f).run({"n": 4}) == 4
        with pytest.raises(ToolInputError, match=r"n: .*not even"):
            as_tool(f).run({"n": 3})

    def test_an_annotation_need_not_have_a_hash(self) -> None:
        def f(names: list[Annotated[str, ["no", "hash"]]]) -> list[str]:
            return names

        assert as_tool(f).run({"names": ["a"]}) == ["a"]

    def test_a_text_that_is_no_unicode_is_an_input_error_where_values_are_converted(self) -> None:
        def f(text: str, day: datetime.date) -> None: ...

        with pytest.raises(ToolInputError, match=r"^[^:]"):
            as_tool(f).run({"text": "\ud800", "day": "2026-01-02"})

    def test_values_of_a_given_schema_reach_the_function_as_they_are(self) -> None:
        def f(day: datetime.date) -> Any:
            return day

        assert Tool("f", "", object_schema(day={"type": "string"}), function=f).run({"day": "x"}) == "x"

    @pytest.mark.parametrize("function", [add, lambda a, b=2: a + b], ids=["def", "lambda"])
    def test_the_function_is_called_by_name(self, function: Callable[..., int]) -> None:
        assert Tool("f", function=function).run({"b": 10, "a": 1}) == 11


def test_a_value_that_no_annotation_takes_is_found_before_anybody_is_asked() -> None:
    def remind(when: datetime.date) -> str:
        return when.isoformat()

    made = tool(remind)
    [(_, problem)] = made.check_args({"when": "2026-13-01"})
    assert problem.startswith("when: ")
    assert made.check_args({"when": "2026-12-01"}) == []
    turn = Agent([made], permissions=[DecideByHuman()], human=FakeHuman([])).use_tools(
        [ToolCall("remind", {"when": "2026-13-01"})]
    )
    assert [result.verdict for result in turn.results] == ["input_error"]


def test_a_tool_can_still_be_called_as_the_function_that_it_is() -> None:
    @tool(read_only=True)
    def double(x: int) -> int:
        return 2 * x

    assert double(4) == double(x=4) == 8


def test_the_examples_on_the_page_on_tools_run() -> None:
    page = (pathlib.Path(__file__).parents[1] / "docs" / "tools.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    space: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        exec(block, space)
    assert len(blocks) == 4
    assert [made.name for made in space["agent"].tools] == ["read", "add"]
    assert space["notes"].read() == ["water the plants"]
    assert space["mailbox"].hints_for({"action": "list"}).read_only is True
    assert space["mailbox"].hints_for({"action": "empty"}).read_only is False
