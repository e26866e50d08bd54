"""Questions by hand, and the data of a run: what is published, and where we do better."""

from __future__ import annotations

import dataclasses
import threading
from datetime import datetime
from typing import Any, Literal

import anyio
import anyio.to_thread
import pytest
from test_runs import ask
from test_runs import run as run_agent
from turns import DRIVERS, Counter, run

from agentperm_nb import (
    Agent,
    AgentPermError,
    AllowByDefault,
    AllowByName,
    CallResult,
    Human,
    Message,
    NoHumanError,
    State,
    StoppedByFinish,
    Tool,
    ToolError,
    ToolInputError,
    ToolOutcome,
    ToolOutcomeKind,
)
from agentperm_nb.testing import ScriptedModel, tool_call

all_drivers = pytest.mark.parametrize("driver", DRIVERS)
both_backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])
_WAIT = 10  # seconds; far more than anything here takes


def allowing(*tools: Any, **options: Any) -> Agent:
    return Agent(tools, permissions=[AllowByDefault()], **options)


# ---------------------------------------------------------------------- Q: asking by hand


@pytest.mark.states("Q3")
@all_drivers
def test_the_sync_form_asks_with_ask_and_the_async_form_rather_with_aask(driver: str) -> None:
    class Both(Human):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            return "ask"

        async def aask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            return "aask"

    assert ask(driver, Agent(human=Both()), State(), "Which?") == ("ask" if driver == "sync" else "aask")


@pytest.mark.states("Q1", "Q2")
@all_drivers
@pytest.mark.parametrize("returns", [str, bool, Literal["a", "b"]], ids=["text", "bool", "literal"])
def test_an_answer_is_handed_on_as_it_is_and_kept_without_a_message(returns: Any, driver: str) -> None:
    answer = ("what", "ever")

    class Own:
        def ask(self, *given: Any) -> Any:
            self.given = given
            return answer

    human, state = Own(), State([Message.user("Hi")], pending_calls=[tool_call("act", n=1)])
    before, entries = state.messages, len(state.history)
    assert ask(driver, Agent(human=human), state, "Which?", returns) is answer
    assert human.given == (state, "Which?", returns)
    assert state.messages == before
    (entry,) = state.history[entries:]
    assert (entry.kind, entry.turn) == ("human", 0)
    assert (entry.content.question, list(entry.content.answer)) == ("Which?", ["what", "ever"])
    assert isinstance(entry.at, datetime)


@pytest.mark.states("Q2")
@all_drivers
def test_of_a_question_that_the_human_did_not_answer_nothing_is_kept(driver: str) -> None:
    class Gone:
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            raise TimeoutError("nobody is there")

    state = State()
    with pytest.raises(TimeoutError, match="nobody is there"):
        ask(driver, Agent(human=Gone()), state, "Which?")
    assert len(state.history) == 0


@pytest.mark.states("X7", "Q2")
@both_backends
@pytest.mark.parametrize("base", [Human, object], ids=["a Human", "any object"])
def test_an_answer_to_a_question_that_was_cancelled_is_kept(base: type, backend: str) -> None:
    asked, go_on, kept = threading.Event(), threading.Event(), threading.Event()

    class Slow(base):  # type: ignore[misc]
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            asked.set()
            assert go_on.wait(_WAIT)
            return "/tmp"

    class Telling(State):
        def record_exchange(self, *args: Any, **options: Any) -> None:
            super().record_exchange(*args, **options)
            kept.set()

    state = Telling()

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(Agent(human=Slow()).aask_human, state, "Which folder?")
            await anyio.to_thread.run_sync(asked.wait, _WAIT)
            group.cancel_scope.cancel()
        assert len(state.history) == 0
        go_on.set()
        await anyio.to_thread.run_sync(kept.wait, _WAIT)

    anyio.run(main, backend=backend)
    (entry,) = state.history
    assert (entry.kind, entry.content.question, entry.content.answer) == ("human", "Which folder?", "/tmp")


# ---------------------------------------------------------------------- S: data


@pytest.mark.states("S3")
def test_an_outcome_is_of_one_of_seven_kinds_and_frozen() -> None:
    kinds = ["done", "error", "input_error", "aborted", "interrupted", "denied", "cancelled"]
    assert [kind.value for kind in ToolOutcomeKind] == kinds
    assert [str(kind) for kind in ToolOutcomeKind] == kinds
    error = ToolError("x")
    for kind in kinds:
        outcome = ToolOutcome(kind, error, "AllowByDefault()")  # type: ignore[arg-type]
        assert outcome.kind is ToolOutcomeKind(kind)
        assert (outcome.error, outcome.decided_by) == (error, "AllowByDefault()")
    assert ToolOutcome("done") == ToolOutcome(ToolOutcomeKind.DONE)  # type: ignore[arg-type]
    assert (ToolOutcome("done").error, ToolOutcome("done").decided_by) == (None, None)  # type: ignore[arg-type]
    for wrong in ("finished", "DONE", "", None, 1):
        with pytest.raises(ValueError, match="is not a valid ToolOutcomeKind"):
            ToolOutcome(wrong)  # type: ignore[arg-type]
    with pytest.raises(dataclasses.FrozenInstanceError):
        outcome.kind = ToolOutcomeKind.DONE  # type: ignore[misc]


@pytest.mark.states("S5")
@all_drivers
def test_a_result_in_the_history_says_all_of_its_call(driver: str) -> None:
    def fails() -> None:
        raise problem

    problem = ToolError("the disk is full")
    agent = Agent([Counter().tool, fails], permissions=[AllowByName(["act", "fails"])])
    state = State(pending_calls=[tool_call("act", n=1), tool_call("fails")])
    before = datetime.now().astimezone()
    run(driver, agent, state)
    first, second = sorted((entry for entry in state.history if entry.kind == "tool_result"), key=lambda e: e.call.name)
    assert isinstance(first, CallResult)
    assert (first.kind, first.content, first.call.name, first.late) == ("tool_result", "ran {'n': 1}", "act", False)
    assert (first.outcome, first.error, first.is_error) == (ToolOutcome("done", None, first.decided_by), None, False)  # type: ignore[arg-type]
    assert (second.outcome.kind, second.error, second.is_error) == ("error", problem, True)
    for entry in (first, second):
        assert entry.turn == state.turn == 1
        assert entry.at is not None
        assert before <= entry.at <= datetime.now().astimezone()
        with pytest.raises(dataclasses.FrozenInstanceError):
            entry.content = "x"  # type: ignore[misc]


@pytest.mark.states("S6")
@all_drivers
def test_a_state_tells_what_it_is_and_a_snapshot_never_changes(driver: str) -> None:
    counter = Counter()
    agent = Agent([counter.tool], permissions=[AllowByDefault()], model=ScriptedModel([tool_call("act", n=1), "Done."]))
    state = State([Message.user("Hi")], id="mine", parent_id="above", extra_data={"tries": [1]})
    before = state.snapshot()
    view = state.history
    assert run_agent(driver, agent, state) == "Done."
    assert (before.id, before.parent_id, before.turn, before.stopped, before.finished) == (
        "mine",
        "above",
        0,
        None,
        False,
    )
    assert (before.answer, before.pending_calls, len(before.messages)) == (None, (), 1)
    assert [entry.kind for entry in before.history] == ["message"]
    assert len(view) > 1  # a view grows, a snapshot does not
    assert (state.id, state.parent_id, state.turn, state.answer) == ("mine", "above", 2, "Done.")
    assert [message.role for message in state.messages] == ["user", "assistant", "user", "assistant"]
    after = state.snapshot()
    assert (after.history, after.messages, after.turn) == (tuple(state.history), state.messages, 2)
    with state.edit_extra_data() as data:
        data["tries"].append(2)
    state.add_message(Message.user("And now?"))
    state.finish("enough")
    assert (after.extra_data, after.finished, after.answer) == ({"tries": [1]}, False, "Done.")
    assert (state.finished, state.answer, state.stopped) == (True, "enough", StoppedByFinish("enough"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        after.turn = 7  # type: ignore[misc]
    with pytest.raises(TypeError, match="cannot be changed"):
        after.extra_data["tries"].append(3)
    for name in ("history", "messages", "pending_calls", "turn", "stopped", "finished", "answer", "extra_data"):
        with pytest.raises(AttributeError):
            setattr(state, name, None)


class NotJson:
    pass


@pytest.mark.states("S6")
@pytest.mark.parametrize(
    "value",
    [NotJson(), {1, 2}, b"bytes", float("nan"), {1: "one"}, [NotJson()], 1j],
    ids=["an object", "a set", "bytes", "not a number", "a number as a key", "deep inside", "complex"],
)
def test_data_of_ones_own_is_json_or_nothing_changes(value: Any) -> None:
    with pytest.raises(TypeError, match=r"extra_data\['x'\] is not JSON[\s\S]*Fix: "):
        State(extra_data={"x": value})
    state = State(extra_data={"kept": 1})
    with pytest.raises(TypeError, match=r"extra_data\['x'\] is not JSON"), state.edit_extra_data() as data:
        data.update(kept=2, x=value)
    assert state.extra_data == {"kept": 1}
    assert len(state.history) == 0
    with pytest.raises(ZeroDivisionError), state.edit_extra_data() as data:
        data["kept"] = 1 / 0
    assert state.extra_data == {"kept": 1}
    with pytest.raises(TypeError, match="cannot be changed"):
        state.extra_data["kept"] = 3  # type: ignore[index]


@pytest.mark.states("S6")
@all_drivers
def test_no_edit_of_the_data_is_lost_when_many_tools_edit_it(driver: str) -> None:
    everybody = threading.Barrier(20)

    def count(n: int) -> None:
        everybody.wait(_WAIT)
        for _ in range(10):
            with state.edit_extra_data() as data:
                data["count"] = data.get("count", 0) + 1
                data.setdefault("who", []).append(n)

    state = State(pending_calls=[tool_call("count", n=n) for n in range(20)])
    run(driver, allowing(count), state)
    assert state.extra_data["count"] == 200
    assert sorted(state.extra_data["who"]) == sorted(list(range(20)) * 10)
    assert len([entry for entry in state.history if entry.kind == "extra_data"]) == 200


@pytest.mark.states("S7")
@all_drivers
def test_a_tool_that_overrides_run_is_given_the_arguments_and_no_state(driver: str) -> None:
    class Own(Tool):
        def run(self, args: dict[str, Any]) -> Any:
            args["n"] += 1
            return args

    own = Own("own", "Own.", {"type": "object", "properties": {"n": {"type": "integer"}}}, read_only=True)
    assert (own.name, own.parallel, own.is_async, own.hints_for({}).read_only) == ("own", True, False, True)
    assert own.spec["input_schema"] == own.input_schema
    call = tool_call("own", n=1)
    assert run(driver, allowing(own), [call]).results[0].content == '{"n": 2}'
    assert call.args == {"n": 1}


@pytest.mark.states("S11")
@pytest.mark.parametrize("kind", [ToolError, ToolInputError])
@pytest.mark.parametrize(
    ("message", "error"),
    [
        (None, TypeError),
        (7, TypeError),
        (b"x", TypeError),
        (OSError("x"), TypeError),
        ("", ValueError),
        (" \n", ValueError),
    ],
    ids=["None", "number", "bytes", "exception", "empty", "blank"],
)
def test_a_tool_error_has_a_message_that_says_something(kind: Any, message: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=rf"{kind.__name__} (takes a message string|got an empty message)[\s\S]*Fix: "):
        kind(message)
    assert str(kind("no such file")) == "no such file"


@pytest.mark.states("S11")
def test_a_tool_error_is_none_of_the_toolkits_own_errors_and_nobody_to_ask_is() -> None:
    assert not issubclass(ToolError, AgentPermError)
    assert issubclass(ToolInputError, ToolError)
    assert issubclass(NoHumanError, AgentPermError)
