"""The reporter that prints: a line for everything that happens, with secrets masked."""

from __future__ import annotations

import io
import warnings
from typing import Any

import anyio
import pytest
from test_runs import both_drivers, run
from turns import Counter
from turns import run as turn_of

from agentperm_nb import (
    Agent,
    AllowByDefault,
    AllowByReadOnly,
    DecideByHuman,
    DenyByName,
    Message,
    PrintReporter,
    Reporter,
    State,
    ToolCall,
    ToolError,
    ToolInputError,
    ToolOutcome,
    tool,
)
from agentperm_nb.testing import FakeHuman, ScriptedModel, tool_call


@tool(read_only=True)
def look(path: str = "notes.txt") -> str:
    """Look."""
    return f"first line of {path}\nsecond line"


def fail(how: str = "") -> None:
    """Fail."""
    raise ToolInputError("no such file") if how == "input" else ToolError("the disk is full")


def agent_of(*replies: Any, **options: Any) -> tuple[Agent, io.StringIO]:
    """An agent with a model that says these things, and what its reporter prints."""
    screen = io.StringIO()
    options.setdefault("permissions", [AllowByDefault()])
    options.setdefault("reporter", PrintReporter(screen))
    tools = options.pop("tools", [Counter().tool, look, fail])
    return Agent(tools=tools, model=ScriptedModel(replies), **options), screen


def printed(screen: io.StringIO) -> list[str]:
    return screen.getvalue().splitlines()


@pytest.mark.states("R3")
@both_drivers
def test_a_run_is_printed_line_by_line(driver: str) -> None:
    agent, screen = agent_of(
        ["I look.", tool_call("nope"), tool_call("act", n=1), tool_call("look", path="a")],
        [tool_call("fail")],
        [tool_call("fail", how="input")],
        "All is\nwell.",
        permissions=[DenyByName(["act"]), AllowByDefault()],
    )
    run(driver, agent, "Go")
    assert printed(screen) == [
        "turn 1: asking the model",
        "  said: I look.",
        "  run nope()",
        "  input error nope: (input error: unknown tool 'nope'. Available tools: act, look, fail)",
        "  denied act: act is not allowed.",
        '  run look(path="a")',
        "  done look: first line of a⏎second line",
        "turn 2: asking the model",
        "  run fail()",
        "  error fail: the disk is full",
        "turn 3: asking the model",
        '  run fail(how="input")',
        "  input error fail: (input error: no such file)",
        "turn 4: asking the model",
        "  said: All is⏎well.",
        "done (4 turns)",
    ]


@pytest.mark.states("R3")
@both_drivers
def test_a_stop_is_printed_with_what_it_cancels_and_ends_the_run(driver: str) -> None:
    agent, screen = agent_of(
        [tool_call("look"), tool_call("act", n=1), tool_call("act", n=2)],
        permissions=[AllowByReadOnly(), DecideByHuman()],
        human=FakeHuman(["yes", "no"]),
    )
    run(driver, agent, "Go")
    assert printed(screen)[1:] == [
        "  denied act: The user declined this call. Wait for their next message.",
        "  cancelled look: (not run: the user stopped this turn)",
        "  cancelled act: (not run: the user stopped this turn)",
        "done: stopped by permission DecideByHuman() (1 turn)",
    ]


@both_drivers
def test_other_ends_of_a_run_are_printed(driver: str) -> None:
    agent, screen = agent_of(*[tool_call("look")] * 5, turn_limit=2)
    run(driver, agent, "Go")
    assert printed(screen)[-1] == "done: stopped at limit 2 (2 turns)"
    agent, screen = agent_of(ValueError("the key is sk-ant-api03-" + "a" * 90))
    with pytest.raises(ValueError, match="the key"):
        run(driver, agent, "Go")
    assert printed(screen) == ["turn 1: asking the model", "failed: ValueError: the key is [masked] (0 turns)"]
    agent, screen = agent_of(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        run(driver, agent, "Go")
    assert printed(screen)[-1] == "interrupted (0 turns)"


@both_drivers
def test_runs_inside_of_runs_are_indented_and_named(driver: str) -> None:
    inner = Agent(tools=[look], name="helper", model=ScriptedModel([tool_call("look"), "Looked."]))
    middle = Agent(tools=[inner], name="middle", model=ScriptedModel([tool_call("helper", prompt="look"), "Told."]))
    agent, screen = agent_of(tool_call("middle", prompt="go"), "Done.", tools=[middle], name="lead")
    run(driver, agent, "Go")
    assert printed(screen) == [
        "turn 1: asking the model",
        '  run middle(prompt="go")',
        "    middle: started",
        "    middle: turn 1: asking the model",
        '      run helper(prompt="look")',
        "        helper: started",
        "        helper: turn 1: asking the model",
        "          run look()",
        "          done look: first line of notes.txt⏎second line",
        "        helper: turn 2: asking the model",
        "          said: Looked.",
        "        helper: done (2 turns)",
        "      done helper: Looked.",
        "    middle: turn 2: asking the model",
        "      said: Told.",
        "    middle: done (2 turns)",
        "  done middle: Told.",
        "turn 2: asking the model",
        "  said: Done.",
        "done (2 turns)",
    ]


@both_drivers
def test_turns_without_a_model_are_printed_too(driver: str) -> None:
    agent, screen = agent_of()
    turn_of(driver, agent, [tool_call("look")])
    assert printed(screen) == ["  run look()", "  done look: first line of notes.txt⏎second line"]


@both_drivers
def test_no_secret_is_printed(driver: str) -> None:
    @tool(secret=["body"])
    def send(body: str, password: str, note: str) -> str:
        """Send."""
        return f"sent {body} with {password} and ACME-42"

    agent, screen = agent_of(
        ["My key is ACME-42.", tool_call("send", body="my diary", password="hunter2!", note="ACME-42")],
        "Done with ACME-42.",
        tools=[send],
        redact=[lambda text: text.replace("ACME-42", "[masked]")],
    )
    run(driver, agent, "Go")
    shown = screen.getvalue()
    for secret in ("my diary", "hunter2!", "ACME-42"):
        assert secret not in shown
    assert '  run send(body="[masked]", password="[masked]", note="[masked]")' in shown
    assert "  done send: sent [masked] with [masked] and [masked]" in shown


@both_drivers
def test_what_a_model_or_a_tool_says_cannot_move_the_cursor_or_fill_the_screen(driver: str) -> None:
    def shout(word: str) -> str:
        """Shout."""
        return "\x1b[2J\r" + word * 100_000

    agent, screen = agent_of(tool_call("shout", word="x\x07\u202e"), "\x1b]0;title\x07 " + "y" * 900, tools=[shout])
    run(driver, agent, "Go")
    shown = screen.getvalue()
    assert not [char for char in shown if (ord(char) < 32 and char != "\n") or char == "\u202e"]
    assert all(len(line) < 300 for line in printed(screen))
    assert printed(screen)[1].startswith('  run shout(word="x')
    assert "more characters)" in printed(screen)[2]
    assert "more characters)" in printed(screen)[4]


def test_it_prints_where_python_prints_at_that_time(capsys: pytest.CaptureFixture[str]) -> None:
    agent, _ = agent_of("Hi.", reporter=PrintReporter())
    agent.run("Go")
    assert capsys.readouterr().out == "turn 1: asking the model\n  said: Hi.\ndone (1 turn)\n"


@pytest.mark.parametrize("output", ["log.txt", io.StringIO, 7], ids=["a path", "a class", "a number"])
def test_what_cannot_be_written_to_is_refused(output: Any) -> None:
    with pytest.raises(TypeError, match=r"takes something to write to[\s\S]*Fix: [\s\S]*Example:"):
        PrintReporter(output)


def test_an_output_that_fails_changes_nothing() -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError("disk full")

    agent, _ = agent_of("Hi.", reporter=PrintReporter(Full()))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert agent.run("Go") == "Hi."
    assert str(caught[-1].message) == "the reporter raised in on_run_end: OSError: disk full"


def test_called_by_hand_it_masks_what_looks_like_a_secret() -> None:
    screen = io.StringIO()
    reporter: Reporter = PrintReporter(screen)
    state, call = State([Message.user("Go")]), ToolCall("act", {"password": "hunter2!"})
    reporter.on_tool_start(state, call)
    reporter.on_tool_end(state, call, '{"password": "hunter2!"}', ToolOutcome("done"))  # type: ignore[arg-type]
    assert printed(screen) == ['  run act(password="[masked]")', '  done act: {"password": "[masked]"}']
    assert repr(reporter) == "PrintReporter()"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_lines_of_subagents_that_run_at_the_same_time_stay_whole(backend: str) -> None:
    def replies(messages: Any, tools: Any) -> Any:
        return "Done." if messages[-1].results else tool_call("look")

    sub = Agent(tools=[look], name="helper", model=replies)
    agent, screen = agent_of([tool_call("helper", prompt=str(n)) for n in range(20)], "Done.", tools=[sub])
    anyio.run(agent.arun, "Go", backend=backend)
    assert printed(screen).count("    helper: done (2 turns)") == 20
    assert {line.lstrip().split(" ")[0] for line in printed(screen)} == {
        "turn", "run", "helper:", "done", "said:",
    }  # fmt: skip
