"""What is wrong with an agent's settings, or a state's, is said when it is made, with the way to mend it."""

from __future__ import annotations

import copy
import functools
import pickle
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import anyio
import pytest
from turns import DRIVERS, Counter

from agentperm_nb import Agent, AllowByDefault, Allowed, DenyPermission, Message, State, ToolCall, loop, tool
from agentperm_nb.testing import FakeHuman, ScriptedModel, tool_call

both_drivers = pytest.mark.parametrize("driver", DRIVERS)


class Claiming:
    """Claims to be a permission, and is none."""

    __class__ = AllowByDefault  # type: ignore[assignment]  # that is the point

    def check(self, *args: Any) -> Allowed:
        return Allowed()


def named(name: str) -> Agent:
    return Agent([], name=name, model=ScriptedModel([]))


async def awaited(messages: Any) -> str:
    return "Hello."


class OfOne:
    def __call__(self, messages: Any) -> str:
        return "Hello."


WRONG: dict[str, tuple[Callable[[], Any], type[Exception], str, str]] = {
    "State(5)": (lambda: State(5), TypeError, "messages takes a list (got: 5)", "State([Message.user("),
    "State(None)": (lambda: State(None), TypeError, "messages takes a list (got: None)", "State([Message.user("),
    "State(text)": (lambda: State("Tidy"), TypeError, "messages takes a list (got: 'Tidy')", "State([Message.user("),
    "State(a message)": (lambda: State(Message.user("a")), TypeError, "messages takes a list", "State([Message.user("),
    "pending_calls=5": (
        lambda: State(pending_calls=5),
        TypeError,
        "pending_calls takes a list (got: 5)",
        "State(pending_calls=[",
    ),
    "ScriptedModel(None)": (
        lambda: ScriptedModel(None),
        TypeError,
        "ScriptedModel takes a list of replies (got: None)",
        "ScriptedModel([",
    ),
    "ScriptedModel(text)": (
        lambda: ScriptedModel("hello"),
        TypeError,
        "ScriptedModel takes a list of replies (got: 'hello')",
        "ScriptedModel([",
    ),
    "ScriptedModel(call)": (
        lambda: ScriptedModel(tool_call("act")),
        TypeError,
        "ScriptedModel takes a list of replies",
        "ScriptedModel([",
    ),
    "FakeHuman(text)": (
        lambda: FakeHuman("yes"),
        TypeError,
        "FakeHuman takes a list of answers (got: 'yes')",
        "FakeHuman(['yes', 'no'])",
    ),
    "FakeHuman(True)": (
        lambda: FakeHuman(True),
        TypeError,
        "FakeHuman takes a list of answers (got: True)",
        "FakeHuman([",
    ),
    "turn_limit=text": (
        lambda: Agent(turn_limit="3"),
        TypeError,
        "turn_limit= takes a number of turns (got: '3')",
        "turn_limit=30)",
    ),
    "turn_limit=True": (lambda: Agent(turn_limit=True), TypeError, "turn_limit= takes a number", "turn_limit=30)"),
    "turn_limit=0": (
        lambda: Agent(turn_limit=0),
        ValueError,
        "turn_limit= takes 1 turn or more (got: 0)",
        "turn_limit=30)",
    ),
    "name=None": (lambda: Agent(name=None), TypeError, "name= takes a text (got: None)", "name='reader'"),
    "name=empty": (lambda: Agent(name=" "), TypeError, "name= takes a text (got: ' ')", "name='reader'"),
    "instructions=5": (
        lambda: Agent(instructions=5),
        TypeError,
        "instructions= takes a text (got: 5)",
        "instructions='You keep",
    ),
    "description=5": (
        lambda: Agent(description=5),
        TypeError,
        "description= takes a text (got: 5)",
        "description='Reads files.'",
    ),
    "user=5": (lambda: Agent(user=5), TypeError, "user= takes a text (got: 5)", "user='ann'"),
    "session=5": (lambda: Agent(session=5), TypeError, "session= takes a text (got: 5)", "session='monday'"),
    "two agents of one name": (
        lambda: Agent([named("reader"), named("reader")]),
        ValueError,
        "two tools are named 'reader'",
        "agent.as_tool(name='reader_2')",
    ),
    "an agent and its tool": (
        lambda: Agent([named("reader"), named("reader").as_tool()]),
        ValueError,
        "two tools are named 'reader'",
        "agent.as_tool(name='reader_2')",
    ),
    "a claimed permission": (
        lambda: Agent(permissions=[Claiming()]),
        TypeError,
        "passed in permissions= is not a Permission object",
        "permissions=[AllowByReadOnly(), DecideByHuman()]",
    ),
    "a mocked permission": (
        lambda: Agent(permissions=[MagicMock(spec=AllowByDefault)]),
        TypeError,
        "passed in permissions= is not a Permission object",
        "permissions=[AllowByReadOnly(), DecideByHuman()]",
    ),
    "a mock in place of the list": (
        lambda: Agent(permissions=MagicMock(spec=DenyPermission)),
        TypeError,
        "permissions= takes a list",
        "permissions=[AllowByReadOnly(), DecideByHuman()]",
    ),
    "a model of one argument": (
        lambda: Agent(model=lambda messages: "Hello."),
        TypeError,
        "model= takes something to call with (messages, tools) (got: <lambda>(messages))",
        "def model(messages, tools):",
    ),
    "an async model of one argument": (
        lambda: Agent(model=awaited),
        TypeError,
        "(got: awaited(messages: 'Any') -> 'str')",
        "def model(messages, tools):",
    ),
    "a model object of one argument": (
        lambda: Agent(model=OfOne()),
        TypeError,
        "(got: OfOne(messages: 'Any')",
        "def model(messages, tools):",
    ),
    "a model of three arguments": (
        lambda: Agent(model=lambda a, b, c: "Hello."),
        TypeError,
        "(got: <lambda>(a, b, c))",
        "def model(messages, tools):",
    ),
    "a loop of one argument": (
        lambda: Agent(loop=lambda state: None),
        TypeError,
        "loop= takes a loop to call with (agent, state) (got: <lambda>(state))",
        "def coding(agent, state):",
    ),
    "a made loop of one argument": (
        lambda: Agent(loop=loop(lambda state: None)),
        TypeError,
        "(got: <lambda>(state))",
        "def coding(agent, state):",
    ),
}


@pytest.mark.parametrize(("make", "kind", "problem", "example"), WRONG.values(), ids=WRONG)
def test_a_wrong_setting_is_an_error_in_three_parts(
    make: Callable[[], Any], kind: type[Exception], problem: str, example: str
) -> None:
    with pytest.raises(kind) as raised:
        make()
    said, _, rest = str(raised.value).partition("\nFix: ")
    assert problem in said
    assert example in rest.partition("\nExample:\n")[2]


@pytest.mark.parametrize(
    "make",
    [
        lambda: lambda messages, tools: "Hello.",
        lambda: lambda *both: "Hello.",
        lambda: lambda messages, tools, temperature=0: "Hello.",
        lambda: functools.partial(lambda say, messages, tools: say, "Hello."),
        lambda: MagicMock(return_value="Hello."),
        lambda: ScriptedModel(["Hello."]),
    ],
    ids=["two", "any", "an option", "a partial", "a mock", "scripted"],
)
@both_drivers
def test_what_can_be_called_with_both_is_a_model(driver: str, make: Callable[[], Any]) -> None:
    agent = Agent(model=make())
    answer = agent.run("Hi") if driver == "sync" else anyio.run(agent.arun, "Hi", backend=driver)
    assert answer == "Hello."


def test_what_does_not_tell_its_arguments_is_a_model_too() -> None:
    class Hidden:
        @property
        def __signature__(self) -> Any:
            raise RuntimeError("not told")

        def __call__(self, messages: Any, tools: Any) -> str:
            return "Hello."

    assert Agent(model=Hidden()).run("Hi") == "Hello."


# ---------------------------------------------------------------------- what stays in its process

WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {protocol}": functools.partial(pickle.dumps, protocol=protocol) for protocol in range(6)},
    "pickle in a list": lambda thing: pickle.dumps([thing]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("thing", ["State", "Agent"])
def test_a_state_and_an_agent_say_that_a_snapshot_is_what_can_be_taken_elsewhere(thing: str, way: str) -> None:
    with pytest.raises(TypeError, match=rf"an? {thing} cannot be pickled") as raised:
        WAYS[way](State() if thing == "State" else Agent())
    assert "\nFix: " in str(raised.value)
    assert "state.snapshot()" in str(raised.value).partition("\nExample:\n")[2]


def test_the_snapshot_of_a_run_can_be_taken_elsewhere_and_gone_on_with() -> None:
    counter = Counter()
    model = ScriptedModel([ToolCall("act", {"n": 1}, "id1"), "Done.", "Again."])
    agent = Agent([counter.tool], permissions=[AllowByDefault()], model=model)
    state = State([Message.user("Act")], extra_data={"tries": 1})
    agent.run(state)
    for snapshot in (copy.deepcopy(state.snapshot()), pickle.loads(pickle.dumps(state.snapshot()))):
        assert snapshot.answer == "Done."
        assert snapshot.extra_data == {"tries": 1}
    again = State([*snapshot.messages, Message.user("Again")])
    assert agent.run(again) == "Again."


def test_two_functions_of_one_name_are_still_told_to_rename_one() -> None:
    @tool
    def read() -> str:
        """Read."""
        return ""

    with pytest.raises(ValueError, match=r"rename one of them[\s\S]*@tool\(name='read_2'\)"):
        Agent([read, read])
