"""The fixed texts that the model is told, and the notes of exceptions."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

import pytest
from rules import Says, arun, pending
from turns import DRIVERS, run

from agentperm_nb import (
    Agent,
    AllowByDefault,
    Allowed,
    DecideByHuman,
    Denied,
    DenyByName,
    DenyPermission,
    Log,
    MemoryStore,
    Permission,
    PermissionWarning,
    Reporter,
    State,
    Tool,
    ToolCall,
    ToolInputError,
    Verdict,
)
from agentperm_nb.audit.events import Event
from agentperm_nb.testing import FakeHuman, ScriptedModel

every_driver = pytest.mark.parametrize("driver", DRIVERS)


class Stops(DenyPermission):
    """Denies and stops at the tool ``stop``."""

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Denied | None:
        return Denied("That is enough.", stop=True) if call.name == "stop" else None


def told(state: State) -> list[str]:
    """What the model is told of the calls of the turn."""
    return [block.content for message in state.messages for block in message.results]


def nothing(n: int) -> None:
    """Return nothing."""


def refusing(n: int) -> None:
    """Refuse the arguments."""
    raise ToolInputError("n is odd")


def failing(state: State, call: ToolCall, tool: Tool) -> Verdict | None:
    if call.args["n"] == 1:
        raise LookupError("no table")
    return Allowed()


def interrupting(state: State, call: ToolCall, tool: Tool) -> Verdict | None:
    if call.args["n"] == 1:
        raise KeyboardInterrupt
    return Allowed()


_STOPPED = "(not run: the user stopped this turn)"
_UNKNOWN = "(input error: unknown tool 'nope'. Available tools: nothing, refusing)"
_FAILED = "could not be decided: LookupError: no table (exception raised in permission Says() checking nothing(n=1))"
TEXTS: dict[str, tuple[list[Permission], tuple[str, ...], list[str], type[BaseException] | None]] = {
    "nobody allowed it": ([], ("nothing",), ["No permission allowed this call."], None),
    "stopped": ([Stops(), AllowByDefault()], ("nothing", "stop"), [_STOPPED, "That is enough."], None),
    "declined": (
        [DecideByHuman(FakeHuman(["no"]))],
        ("nothing", "nothing"),
        ["The user declined this call. Wait for their next message.", _STOPPED],
        None,
    ),
    "denied by name": ([DenyByName(["no*"])], ("nothing",), ["nothing is not allowed."], None),
    "input errors": ([AllowByDefault()], ("nope", "refusing"), [_UNKNOWN, "(input error: n is odd)"], None),
    "done": ([AllowByDefault()], ("nothing",), ["(done)"], None),
    "aborted": ([Says(failing)], ("nothing", "nothing"), ["(aborted: LookupError)", _FAILED], LookupError),
    "interrupted": ([Says(interrupting)], ("nothing", "nothing"), ["(interrupted by user)"] * 2, KeyboardInterrupt),
}


@pytest.mark.states("W")
@every_driver
@pytest.mark.parametrize("case", TEXTS)
def test_the_model_is_told_fixed_texts(case: str, driver: str) -> None:
    permissions, names, texts, error = TEXTS[case]
    if case == "declined":  # a human has his answers once
        permissions = [DecideByHuman(FakeHuman(["no"]))]
    tools = [Tool("nothing", function=nothing), Tool("refusing", function=refusing)]
    tools += [Tool("stop", function=nothing)] if "stop" in names else []
    agent, state = Agent(tools, permissions=permissions), pending(*names)
    if error is not None:
        with pytest.raises(error):
            run(driver, agent, state)
    elif case == "nobody allowed it":
        with pytest.warns(PermissionWarning):
            run(driver, agent, state)
    else:
        run(driver, agent, state)
    assert told(state) == texts


class Late(MemoryStore):
    """Tells when a late result has been written."""

    def __init__(self) -> None:
        super().__init__()
        self.came = threading.Event()

    def append(self, events: Iterable[Event]) -> None:
        listed = list(events)
        super().append(listed)
        if any(event.kind == "late" for event in listed):
            self.came.set()


@pytest.mark.states("W")
@every_driver
def test_a_late_result_is_a_notice_of_a_fixed_text_when_the_model_is_asked_next(driver: str) -> None:
    go_on, running, store = threading.Event(), threading.Event(), Late()

    class Impatient(Reporter):
        def on_tool_end(self, state: State, call: ToolCall, result: str, outcome: Any) -> None:
            if call.name == "quick":
                raise KeyboardInterrupt

    def slow(n: int) -> str:
        running.set()
        assert go_on.wait(10)
        return "here it is"

    def quick(n: int) -> None:
        assert running.wait(10)

    model = ScriptedModel([lambda messages, tools: messages[-1].text])
    agent = Agent([slow, quick], model=model, permissions=[AllowByDefault()], reporter=Impatient(), audit=Log(store))
    state = pending("slow", "quick")
    with pytest.raises(KeyboardInterrupt):
        run(driver, agent, state)
    assert told(state) == ["(interrupted by user)", "(done)"]
    go_on.set()
    assert store.came.wait(10)
    assert arun(driver, agent, state) == "[notice] interrupted slow(n=0) finished later: here it is"


@pytest.mark.states("W")
@every_driver
def test_an_exception_of_a_tool_has_a_note_that_names_the_call(driver: str) -> None:
    raised = OSError("disk full")

    def act(n: int) -> None:
        raise raised

    turn = run(driver, Agent([act], permissions=[AllowByDefault()]), pending("act", "act"))
    assert [result.content for result in turn.results] == ["OSError: disk full"] * 2
    assert turn.results[0].error is raised
    assert sorted(raised.__notes__) == [f"exception raised in tool act(n={n})" for n in (0, 1)]
