"""The public doubles: a person who answers from a list, a model that replies from one, a permission that listens."""

from __future__ import annotations

import threading
from typing import Any, Literal

import anyio
import pytest
from turns import DRIVERS, Counter, run

from agentperm_nb import (
    Agent,
    AllowByName,
    AllowByReadOnly,
    DecideByHuman,
    Denied,
    DenyByName,
    DenyPermission,
    Message,
    Tool,
    ToolCall,
)
from agentperm_nb.human import is_human
from agentperm_nb.testing import FakeHuman, Recording, ScriptedModel, tool_call


@pytest.mark.states("R5")
def test_a_fake_human_passes_over_answers_that_do_not_fit_and_keeps_the_questions() -> None:
    fake = FakeHuman(["maybe", "no", "words", 1])
    assert is_human(fake)
    assert fake.remaining == 4
    assert fake.ask(None, "Run it?", Literal["yes", "no"]) == "no"
    assert fake.remaining == 2
    assert fake.ask(None, "Why?") == "words"
    assert fake.ask(None, "Sure?", bool) is True
    with pytest.raises(RuntimeError, match="FakeHuman has no answer left for: And now"):
        fake.ask(None, "And now?")
    assert fake.questions == ["Run it?", "Why?", "Sure?", "And now?"]
    assert repr(fake) == "FakeHuman(4 asked)"


@pytest.mark.states("R5")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_fake_human_can_be_awaited(backend: str) -> None:
    fake = FakeHuman(iter(["/tmp"]))
    assert anyio.run(fake.aask, None, "Which folder?", backend=backend) == "/tmp"
    assert (fake.questions, fake.remaining) == (["Which folder?"], 0)


@pytest.mark.states("R5")
def test_a_fake_human_gives_each_answer_once_however_many_ask() -> None:
    fake, given = FakeHuman(range(200)), list[str]()

    def ask_ten() -> None:
        for _ in range(10):
            given.append(fake.ask(None, "Which?"))  # one call: no lock is needed

    threads = [threading.Thread(target=ask_ten) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(given, key=int) == [str(number) for number in range(200)]


@pytest.mark.states("R5")
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_fake_human_decides_about_calls(driver: str) -> None:
    counter, human = Counter(), FakeHuman(["yes", "no"])
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=human)
    assert run(driver, agent, [tool_call("act", n=1)]).results[0].verdict == "allowed"
    assert run(driver, agent, [tool_call("act", n=2)]).stopped is not None
    assert human.questions == ["Run act(n=1)?", "Run act(n=2)?"]
    assert counter.ran == [{"n": 1}]


@pytest.mark.states("R5")
def test_a_made_call_has_its_arguments_and_an_id_of_its_own() -> None:
    one, other = tool_call("act", name="a", n=[1]), tool_call("act")
    assert (one.name, one.args) == ("act", {"name": "a", "n": [1]})
    assert isinstance(one, ToolCall)
    assert one.id
    assert one.id != other.id


@pytest.mark.states("R5")
def test_a_scripted_model_replies_in_order_and_keeps_what_it_was_told() -> None:
    counter = Counter()

    def last(messages: Any, tools: Any) -> str:
        return f"The result was: {messages[-1].results[0].content}"

    model = ScriptedModel(["Hi.", tool_call("act", n=1), last, ValueError("no more"), Message.assistant("Bye.")])
    agent = Agent(tools=[counter.tool], model=model, permissions=[AllowByName(["act"])])
    assert agent.run("Hello") == "Hi."
    assert agent.run("Do it") == "The result was: ran {'n': 1}"
    with pytest.raises(ValueError, match="no more"):
        agent.run("Again")
    assert agent.run("Leave") == "Bye."
    assert model.remaining == 0
    messages, tools = model.requests[1]
    assert ([message.text for message in messages], [spec.name for spec in tools]) == (["Do it"], ["act"])
    with pytest.raises(RuntimeError, match="was asked 6 times and has no reply left"):
        agent.run("More")
    assert repr(ScriptedModel(["a"], name="mine")) == "ScriptedModel('mine', 1 left)"


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_recording_passes_calls_on_and_keeps_what_was_said(driver: str) -> None:
    counter, recording = Counter(read_only=True), Recording(AllowByReadOnly())
    call = tool_call("act", n=1)
    assert run(driver, Agent([counter.tool], permissions=[recording]), [call]).results[0].verdict == "allowed"
    assert recording.calls == [call]
    assert [repr(verdict) for verdict in recording.verdicts] == ["Allowed()"]
    assert repr(recording) == "Recording(AllowByReadOnly())"


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_recorded_permission_decides_as_the_permission_itself(driver: str) -> None:
    """A deny stays first, an async one is awaited, and a person is asked with the others."""

    class OnlyAsync(DenyPermission):
        async def acheck(self, state: Any, call: ToolCall, tool: Any) -> Denied | None:
            return Denied("not that") if call.name == "b" else None

    human = FakeHuman(["yes"])
    rules: list[Any] = [AllowByName(["a"]), DenyByName(["a"], reason="never"), DecideByHuman()]
    rules += [OnlyAsync()] if driver != "sync" else []
    recorded = [Recording(rule) for rule in rules]
    assert [isinstance(rule, Recording) for rule in recorded] == [True] * len(rules)
    tools = [Tool(name, function=lambda: "ran") for name in ("a", "b", "c")]
    agent = Agent(tools, permissions=recorded, human=human)
    turn = run(driver, agent, [tool_call("a"), tool_call("c")])
    assert [result.content for result in turn.results] == ["never", "ran"]
    assert human.questions == ["Run c()?"]
    assert [call.name for call in recorded[1].calls][:2] == ["a", "c"]
    if driver != "sync":
        assert run(driver, agent, [tool_call("b")]).results[0].content == "not that"


def test_recording_takes_a_permission() -> None:
    with pytest.raises(TypeError, match=r"Recording takes a permission[\s\S]*Fix: give one"):
        Recording("DenyByName")  # type: ignore[arg-type]
