"""Misuse of agents, turns, permissions and tools: each error says what, how to fix it, and an example; nothing runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum, StrEnum
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from turns import DRIVERS, Counter, run

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByName,
    AllowByReadOnly,
    AllowPermission,
    ApprovalDecision,
    Ask,
    DecideByHuman,
    Denied,
    DenyByName,
    DenyPermission,
    HandlerApprover,
    Hints,
    MemoryStore,
    Permission,
    Scope,
    State,
    Tool,
    ToolCall,
    ToolError,
    tool,
)
from agentperm_nb.approvals.desk import Answer
from agentperm_nb.testing import FakeHuman


def act(n: int = 1) -> str:
    """Act."""
    raise AssertionError("a tool ran in a test of misuse")


def other(n: int = 1) -> str:
    """Act otherwise."""
    raise AssertionError("a tool ran in a test of misuse")


def by_position(n: int, /) -> str:
    return ""


def any_number(*names: str) -> str:
    return ""


async def async_hints(args: dict[str, Any]) -> Hints:
    return Hints()


def two_hints(args: dict[str, Any], more: int) -> Hints:
    return Hints()


class Direct(Permission):
    def check(self, state: Any, call: Any, tool: Any) -> None:
        return None


class Mixed(DenyPermission, AllowPermission):
    def check(self, state: Any, call: Any, tool: Any) -> None:
        return None


class Empty(DenyPermission):
    pass


class CheckIsNone(DenyPermission):
    check = None  # type: ignore[assignment]


class AsyncCheck(DenyPermission):
    async def check(self, state: Any, call: Any, tool: Any) -> None:  # type: ignore[override]
        return None


class SyncAcheck(DenyPermission):
    def acheck(self, state: Any, call: Any, tool: Any) -> None:  # type: ignore[override]
        return None


SCHEMA = {"type": "object", "properties": {}}
CALL = ToolCall("act", {})

WHEN_MADE: dict[str, Callable[[], Any]] = {
    # tools
    "tools is a text": lambda: Agent(tools="read_file"),  # type: ignore[arg-type]
    "tools is bytes": lambda: Agent(b"read_file"),  # type: ignore[arg-type]
    "tools is a number": lambda: Agent(5),  # type: ignore[arg-type]
    "tools is None": lambda: Agent(None),  # type: ignore[arg-type]
    "tools is one function": lambda: Agent(act),  # type: ignore[arg-type]
    "tools is one Tool": lambda: Agent(tool(act)),  # type: ignore[arg-type]
    "tools is a dict": lambda: Agent({"act": act}),  # type: ignore[arg-type]
    "a tool is None": lambda: Agent([None]),  # type: ignore[list-item]
    "a tool is a text": lambda: Agent(["act"]),  # type: ignore[list-item]
    "a tool is a class": lambda: Agent([Counter]),
    "a tool is a specification alone": lambda: Agent([{"name": "act", "input_schema": SCHEMA}]),  # type: ignore[list-item]
    "a pair is the wrong way round": lambda: Agent([(act, {"name": "act", "input_schema": SCHEMA})]),  # type: ignore[list-item]
    "a pair has no function": lambda: Agent([({"name": "act", "input_schema": SCHEMA}, "act")]),  # type: ignore[list-item]
    "a specification has no name": lambda: Agent([({"input_schema": SCHEMA}, act)]),
    "a specification's name is a number": lambda: Agent([({"name": 5, "input_schema": SCHEMA}, act)]),
    "a specification has no schema": lambda: Agent([({"name": "act"}, act)]),
    "two tools of one name": lambda: Agent([act, tool(name="act")(other)]),
    "a lambda has no name": lambda: Agent([lambda n: n]),
    "a callable object has no name": lambda: Agent([SimpleNamespace().__class__.__call__, object()]),  # type: ignore[list-item]
    "a tool's name is empty": lambda: Tool("", function=act),
    "a tool's name is None": lambda: Tool(None, function=act),  # type: ignore[arg-type]
    "a tool's name has a space": lambda: Tool("read file", function=act),
    "a tool's name is too long": lambda: Tool("a" * 200, function=act),
    "a tool has nothing to run": lambda: Tool("act"),
    "a tool's function is a text": lambda: Tool("act", function="act"),  # type: ignore[arg-type]
    "a description is a number": lambda: Tool("act", 5, function=act),  # type: ignore[arg-type]
    "a function takes positions": lambda: Agent([by_position]),
    "a function takes any number of positions": lambda: Agent([any_number]),
    "a schema is a text": lambda: Tool("act", "", "object", function=act),  # type: ignore[arg-type]
    "a schema is a list": lambda: Tool("act", "", [], function=act),  # type: ignore[arg-type]
    "a schema is not one": lambda: Tool("act", "", {"type": "objekt"}, function=act),
    "a schema is not one, deep inside": lambda: Tool(
        "act", "", {"type": "object", "properties": {"n": {"type": 5}}}, function=act
    ),
    "a schema is of a list": lambda: Tool("act", "", {"type": "array"}, function=act),
    "a hint is a number": lambda: Tool("act", function=act, read_only=1),  # type: ignore[arg-type]
    "a hint is a text": lambda: Hints(read_only="yes"),  # type: ignore[arg-type]
    "hints contradict": lambda: Hints(read_only=True, destructive=True),
    "hints_for is a class": lambda: Tool("act", function=act, hints_for=Hints),  # type: ignore[arg-type]
    "hints_for is async": lambda: Tool("act", function=act, hints_for=async_hints),  # type: ignore[arg-type]
    "hints_for takes two": lambda: Tool("act", function=act, hints_for=two_hints),  # type: ignore[arg-type]
    "secret is a text": lambda: Tool("act", function=act, secret="body"),
    "@tool of a tool": lambda: tool(tool(act)),
    "@tool of a text": lambda: tool("act"),  # type: ignore[call-overload]
    # permissions
    "permissions is a text": lambda: Agent([act], permissions="act"),  # type: ignore[arg-type]
    "permissions is True": lambda: Agent([act], permissions=True),  # type: ignore[arg-type]
    "permissions is a number": lambda: Agent([act], permissions=0),  # type: ignore[arg-type]
    "permissions is a class": lambda: Agent([act], permissions=AllowByDefault),  # type: ignore[arg-type]
    "a permission is a class": lambda: Agent([act], permissions=[AllowByDefault]),  # type: ignore[list-item]
    "a permission is a text": lambda: Agent([act], permissions=["act"]),  # type: ignore[list-item]
    "a permission is None": lambda: Agent([act], permissions=[None]),  # type: ignore[list-item]
    "a permission is a function": lambda: Agent([act], permissions=[act]),  # type: ignore[list-item]
    "patterns is a text, deny": lambda: DenyByName("delete_*"),
    "patterns is a text, allow": lambda: AllowByName("read_*"),
    "patterns is bytes": lambda: DenyByName(b"rm"),  # type: ignore[arg-type]
    "patterns is None": lambda: DenyByName(None),  # type: ignore[arg-type]
    "patterns is a number": lambda: AllowByName(5),  # type: ignore[arg-type]
    "no patterns": lambda: DenyByName([]),
    "no patterns, allow": lambda: AllowByName(()),
    "an empty pattern": lambda: AllowByName([""]),
    "a blank pattern": lambda: DenyByName(["rm", "  "]),
    "a pattern is bytes": lambda: DenyByName([b"rm"]),  # type: ignore[list-item]
    "a pattern is a number": lambda: AllowByName(["a", 5]),  # type: ignore[list-item]
    "a pattern is None": lambda: AllowByName([None]),  # type: ignore[list-item]
    "a deny's reason is a number": lambda: DenyByName(["rm"], 5),  # type: ignore[arg-type]
    "a deny's reason is blank": lambda: DenyByName(["rm"], " "),
    "trust_mcp is a number": lambda: AllowByReadOnly(1),  # type: ignore[arg-type]
    "trust_mcp is None": lambda: AllowByReadOnly(None),  # type: ignore[arg-type]
    "a permission's human is a text": lambda: DecideByHuman("ann"),
    "a permission's human is a class": lambda: DecideByHuman(FakeHuman),
    "a permission of no kind": Direct,
    "a permission of two kinds": Mixed,
    "a permission without check": Empty,
    "a kind itself": DenyPermission,
    "a check that is None": CheckIsNone,
    "an async check": AsyncCheck,
    "an acheck that is not async": SyncAcheck,
    "a denial's reason is None": lambda: Denied(None),  # type: ignore[arg-type]
    "a denial's reason is blank": lambda: Denied(" "),
    "a denial's stop is a number": lambda: Denied("no", stop=1),  # type: ignore[arg-type]
    "a question is blank": lambda: Ask(""),
    "a question is a number": lambda: Ask(5),  # type: ignore[arg-type]
    # who answers
    "human and approval_handler": lambda: Agent([act], human=FakeHuman([]), approval_handler=lambda request: False),
    "human=None and approval_handler": lambda: Agent([act], human=None, approval_handler=lambda request: False),
    "human is a class": lambda: Agent([act], human=FakeHuman),
    "human is a text": lambda: Agent([act], human="ann"),
    "human is True": lambda: Agent([act], human=True),
    "human is a permission": lambda: Agent([act], human=DecideByHuman()),
    "human is a function": lambda: Agent([act], human=act),
    "approval_handler is a text": lambda: Agent([act], approval_handler="allow"),  # type: ignore[arg-type]
    "approval_handler is True": lambda: Agent([act], approval_handler=True),  # type: ignore[arg-type]
    "approval_handler is a class": lambda: Agent([act], approval_handler=FakeHuman),
    "approval_handler is a Human": lambda: Agent([act], approval_handler=FakeHuman([])),  # type: ignore[arg-type]
    "approval_handler takes nothing": lambda: Agent([act], approval_handler=lambda: True),
    "approval_handler takes three": lambda: HandlerApprover(lambda a, b, c: True),
    "an unknown action": lambda: ApprovalDecision("ALLOW"),  # type: ignore[arg-type]
    "an action that is True": lambda: ApprovalDecision(True),  # type: ignore[arg-type]
    "an edit without arguments": lambda: ApprovalDecision("edit"),
    "an allow with arguments": lambda: ApprovalDecision("allow", edited_args={}),
    "an allow that stops": lambda: ApprovalDecision("allow", stop=True),
    "a scope that is a text": lambda: ApprovalDecision("remember_allow", scope="tool"),  # type: ignore[arg-type]
    "an unknown scope": lambda: Scope("everything"),  # type: ignore[arg-type]
    "an answer that is True": lambda: Answer(True),  # type: ignore[arg-type]
    # the rest of an agent
    "name is empty": lambda: Agent([act], name=""),
    "name is None": lambda: Agent([act], name=None),  # type: ignore[arg-type]
    "user is a number": lambda: Agent([act], user=5),  # type: ignore[arg-type]
    "session is blank": lambda: Agent([act], session=" "),
    "audit is a path": lambda: Agent([act], audit=5),  # type: ignore[arg-type]
    "redact is no function": lambda: Agent([act], redact=["x"]),  # type: ignore[list-item]
    "a log of no size": lambda: MemoryStore(0),
    # calls
    "a call without a name": lambda: ToolCall(""),
    "a call's name is a number": lambda: ToolCall(5),  # type: ignore[arg-type]
    "a call's arguments are a list": lambda: ToolCall("act", [1]),  # type: ignore[arg-type]
    "a call's arguments are None": lambda: ToolCall("act", None),  # type: ignore[arg-type]
    "a call's arguments are a text": lambda: ToolCall("act", '{"n": 1}'),  # type: ignore[arg-type]
    "a call's id is a number": lambda: ToolCall("act", {}, 5),  # type: ignore[arg-type]
    "a tool error without a message": lambda: ToolError(""),
    "a tool error of a number": lambda: ToolError(5),  # type: ignore[arg-type]
}


def assert_three_parts(error: BaseException) -> None:
    what, *rest = str(error).split("\n")
    assert what.strip()
    assert any(line.startswith("Fix:") and len(line) > 6 for line in rest), str(error)
    assert any(line.startswith("Example:") for line in rest), str(error)


@pytest.mark.parametrize("make", WHEN_MADE.values(), ids=WHEN_MADE)
def test_misuse_is_told_when_something_is_made(make: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        make()
    assert_three_parts(caught.value)


REPLIES: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "True": lambda: True,
    "a number": lambda: 5,
    "a text": lambda: "act()",
    "bytes": lambda: b"{}",
    "an empty dict": dict,
    "a dict of an unknown shape": lambda: {"tool": "act"},
    "an object of an unknown shape": object,
    "one ToolCall": lambda: CALL,
    "the class ToolCall": lambda: ToolCall,
    "a list of texts": lambda: ["act"],
    "a list of dicts": lambda: [{"name": "act", "args": {}}],
    "a list with one ToolCall and more": lambda: [CALL, {"name": "act"}],
    "a set of ToolCalls": lambda: {CALL},
    "a generator": lambda: (call for call in [CALL]),
    "a State with something else": lambda: State(pending_calls=["act"]),
    "a State with a ToolCall and something else": lambda: State(pending_calls=[CALL, None]),
    "the class State": lambda: State,
    "a whole conversation": lambda: [{"role": "user", "content": "hi"}],
}


@pytest.mark.parametrize("make", REPLIES.values(), ids=REPLIES)
@pytest.mark.parametrize("form", ["use_tools", "ause_tools", "start"])
def test_what_is_no_reply_is_told_at_once(make: Callable[[], Any], form: str) -> None:
    agent = Agent([act], permissions=[AllowByDefault()])
    with pytest.raises((TypeError, ValueError)) as caught:
        getattr(agent, form)(make())
    assert_three_parts(caught.value)
    assert len(agent.audit) == 0
    assert agent.state.turn == 0


OPTIONS: dict[str, dict[str, Any]] = {
    "user is a number": {"user": 5},
    "user is blank": {"user": " "},
    "session is a list": {"session": ["a"]},
    "metadata is a text": {"metadata": "task"},
    "metadata is a list": {"metadata": [("a", 1)]},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("form", ["use_tools", "ause_tools", "start"])
def test_wrong_options_of_a_turn_are_told_at_once(options: dict[str, Any], form: str) -> None:
    agent = Agent([act], permissions=[AllowByDefault()])
    with pytest.raises(TypeError) as caught:
        getattr(agent, form)([CALL], **options)
    assert_three_parts(caught.value)
    assert len(agent.audit) == 0


def test_start_without_an_event_loop_is_told() -> None:
    with pytest.raises(RuntimeError) as caught:
        Agent([act], permissions=[AllowByDefault()]).start([CALL])
    assert_three_parts(caught.value)


@pytest.mark.parametrize(
    "ask",
    [
        lambda agent: agent.explain(None),
        lambda agent: agent.explain(5),
        lambda agent: agent.explain("act", {"n": 1}, n=2),
        lambda agent: agent.explain("act", [1]),
        lambda agent: agent.explain({"tool": "act"}),
        lambda agent: agent.explain(CALL, n=1),
        lambda agent: agent.tool_specs("gemini"),
        lambda agent: agent.tool_specs(None),
        lambda agent: agent.use_tools([]).to_messages(with_reply=True),
    ],
    ids=["None", "a number", "twice", "a list", "no name", "a call and more", "format", "no format", "no reply"],
)
def test_misuse_of_the_other_methods_is_told(ask: Callable[[Agent], Any]) -> None:
    with pytest.raises((TypeError, ValueError)) as caught:
        ask(Agent([act], permissions=[AllowByDefault()]))
    assert_three_parts(caught.value)


# ---------------------------------------------------------------------- arguments that are not JSON


class NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("not to be shown")


LOOP: list[Any] = []
LOOP.append(LOOP)
DEEP: Any = 1
for _ in range(150):
    DEEP = [DEEP]

NOT_JSON: dict[str, dict[Any, Any]] = {
    "a set": {"n": {1, 2}},
    "bytes": {"n": b"x"},
    "NaN": {"n": math.nan},
    "infinity": {"n": [math.inf]},
    "an object": {"n": object()},
    "a class": {"n": int},
    "a complex number": {"n": 1j},
    "a key that is a number": {1: "n"},
    "a key that is None": {"n": {None: 1}},
    "a key that is True": {True: 1},
    "150 levels": {"n": DEEP},
    "a number that is too long": {"n": 10**5000},
    "one below 0, further down": {"n": [1, {"m": [-(10**5000)]}]},
    "a key that is one": {"n": {10**5000: 1}},
    "a key that cannot be shown": {"n": {NoRepr(): 1}},
}


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("given", ["list", "State"])
@pytest.mark.parametrize("args", NOT_JSON.values(), ids=NOT_JSON)
def test_arguments_that_are_not_json_are_an_input_error_and_nobody_is_asked(
    args: dict[Any, Any], given: str, driver: str
) -> None:
    counter, human = Counter(), FakeHuman(["yes", "yes"])
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=human)
    calls = [ToolCall("act", args, "1"), ToolCall("act", {"n": 2}, "2")]
    turn = run(driver, agent, calls if given == "list" else State(pending_calls=calls))
    assert [result.verdict for result in turn.results] == ["input_error", "allowed"]
    assert turn.results[0].content.startswith("(input error: ")
    assert counter.ran == [{"n": 2}]
    assert len(human.questions) == 1
    assert list(agent.audit.calls()["verdict"]) == ["input_error", "allowed"]


@pytest.mark.parametrize(
    ("args", "shown"),
    [({"n": 10**5000}, "{'n': '<int>'}"), ({"n": [10**5000]}, "{'n': ['<int>']}"), ({10**5000: 1}, "{'<int>': 1}")],
    ids=["flat", "further down", "a key"],
)
def test_a_number_that_is_too_long_to_be_written_is_shown_by_its_type(args: dict[Any, Any], shown: str) -> None:
    call = ToolCall("act", args)
    agent = Agent([Counter().tool], permissions=[DecideByHuman()], human=FakeHuman([]))
    assert repr(call) == f"ToolCall('act', {shown})"
    assert agent.explain(call).verdict == "input_error"
    assert "<int>" in str(agent.why_not(call))


@pytest.mark.parametrize("driver", DRIVERS)
def test_arguments_of_subclasses_of_texts_and_numbers_are_plain_ones(driver: str) -> None:
    class Text(str):
        def __str__(self) -> str:
            return "another text"

        __repr__ = __str__

    class Place(StrEnum):
        HERE = "here"

    seen = list[dict[str, Any]]()

    @tool
    def move(path: str, place: str, times: int, speed: float, more: list[str]) -> str:
        """Move."""
        seen.append({"path": path, "place": place, "times": times, "speed": speed, "more": more})
        return "moved"

    args = {
        Text("path"): Text("a"),
        "place": Place.HERE,
        "times": IntEnum("Times", "ONCE").ONCE,
        "speed": np.float64(2),
    }
    agent = Agent(
        [move], permissions=[DecideByHuman()], approval_handler=lambda request: request.call.args["path"] == "a"
    )
    (result,) = run(driver, agent, [ToolCall("move", {**args, "more": [np.str_("x")]})]).results
    assert result.content == "moved"
    assert seen == [{"path": "a", "place": "here", "times": 1, "speed": 2.0, "more": ["x"]}]
    assert [type(value) for value in seen[0].values()] == [str, str, int, float, list]
    assert agent.audit.calls()["args"].tolist() == seen


@pytest.mark.parametrize("driver", DRIVERS)
def test_edited_arguments_that_are_not_json_are_an_input_error(driver: str) -> None:
    for args in NOT_JSON.values():
        counter = Counter()

        def handler(request: Any, args: Any = args) -> ApprovalDecision:
            return ApprovalDecision("edit", edited_args=args)

        agent = Agent([counter.tool], permissions=[DecideByHuman()], approval_handler=handler)
        (result,) = run(driver, agent, [CALL]).results
        assert result.verdict == "input_error"
        assert counter.ran == []


@pytest.mark.parametrize("driver", DRIVERS)
def test_two_calls_of_one_id_are_two_calls(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[AllowByDefault()])
    turn = run(
        driver, agent, [ToolCall("act", {"n": 1}, "x"), ToolCall("nope", {}, "x"), ToolCall("act", {"n": 1}, "x")]
    )
    assert [result.verdict for result in turn.results] == ["allowed", "input_error", "allowed"]
    assert counter.ran == [{"n": 1}, {"n": 1}]
    assert agent.audit.calls()["call_key"].is_unique
