"""The published statements on permissions that fail, and on interrupts: whatever happens, nothing runs by it."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from rules import Says, Telling, decide, do, errors, kinds, pending
from turns import DRIVERS, Counter, Scripted, run

from agentperm_nb import (
    Agent,
    AllowByDefault,
    Allowed,
    ApprovalDecision,
    DecideByHuman,
    DecidePermission,
    Denied,
    DenyByName,
    DenyPermission,
    Human,
    Message,
    Permission,
    State,
    Tool,
    ToolCall,
    ToolError,
    ToolInputError,
    Verdict,
)
from agentperm_nb.testing import ScriptedModel, tool_call

every_driver = pytest.mark.parametrize("driver", DRIVERS)


# ---------------------------------------------------------------------- K: permissions that fail


class Fails(DecidePermission):
    """Raises at the calls with ``n`` of 1, from the look of that number on; allows otherwise."""

    def __init__(self, error: BaseException, *, look: int = 1) -> None:
        self.error, self.looks_left = error, look

    def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        if call.args.get("n") == 1:
            self.looks_left -= 1
            if self.looks_left <= 0:
                raise self.error
        return Allowed()


class FailsLater(Fails):
    async def acheck(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
        await anyio.lowlevel.checkpoint()
        return self.check(state, call, tool)


@pytest.mark.states("K1", "K2")
@every_driver
@pytest.mark.parametrize("kind", [DenyPermission, DecidePermission], ids=["deny", "decide"])
def test_a_tool_error_of_a_check_decides_its_call_and_no_other(kind: type[Permission], driver: str) -> None:
    class BusyError(ToolError):
        pass

    def check(self: Any, state: Any, call: ToolCall, tool: Tool) -> None:
        if call.args["n"] == 1:
            raise busy

    busy, asked, counter, telling = BusyError("the rules are not loaded"), list[str](), Counter(), Telling()
    permission = type("Rules", (kind,), {"check": check})()
    agent = Agent([counter.tool], permissions=[permission, decide("later", asked), AllowByDefault()], reporter=telling)
    state = pending("act", "act", "act")
    run(driver, agent, state)
    denied = next(result for result in state.results if result.verdict == "denied")
    assert denied.call.args == {"n": 1}
    assert denied.outcome.error is denied.error is busy
    assert (denied.content, denied.decided_by) == ("the rules are not loaded", "Rules()")
    assert telling.told[0] == ("end", "act", "denied", "the rules are not loaded")
    assert sorted(args["n"] for args in counter.ran) == [0, 2]
    assert asked == ["later"] * 2
    assert errors(state) == []


@pytest.mark.states("K3", "K4", "K6")
@every_driver
@pytest.mark.parametrize("form", [Fails, FailsLater], ids=["check", "acheck"])
@pytest.mark.parametrize(
    "error", [LookupError("no table"), ToolInputError("not such arguments")], ids=["LookupError", "ToolInputError"]
)
@pytest.mark.parametrize("whole_run", [False, True], ids=["a turn", "a run"])
def test_any_other_exception_of_a_check_goes_to_the_caller_with_the_call_and_nothing_runs(
    whole_run: bool, error: Exception, form: type[Fails], driver: str
) -> None:
    error = type(error)(*error.args)  # one of its own: a note is added to it
    counter = Counter()
    calls = [tool_call("never", n=0), *(tool_call("act", n=n) for n in (0, 1, 2, 3, 4, 5))]
    permissions = [DenyByName(["never"]), form(error), AllowByDefault()]
    agent = Agent([counter.tool, Counter("never").tool], model=ScriptedModel([calls]), permissions=permissions)
    state = State([Message.user("Hi")])
    with pytest.raises(type(error)) as caught:
        do(driver, agent, state, whole_run=whole_run)
    assert caught.value is error
    note = f"exception raised in permission {form.__name__}() checking act(n=1)"
    assert error.__notes__ == [note]
    (entry,) = errors(state)  # once, however many results come after it
    assert (entry.error, entry.call) == (error, calls[2])
    assert counter.ran == []
    by_key = sorted(state.results, key=lambda result: result.call_key)
    aborted = f"(aborted: {type(error).__name__})"
    said = f"could not be decided: {type(error).__name__}: {error} ({note})"
    assert [result.content for result in by_key] == ["never is not allowed.", aborted, said, *[aborted] * 4]
    assert (state.pending_calls, state.stopped) == ((), None)
    assert set(agent.audit.calls()["verdict"]) == {"denied", "cancelled"}


@pytest.mark.states("K4")
@every_driver
@pytest.mark.parametrize("form", ["the engine asks", "it asks by itself"])
def test_what_a_person_raises_is_told_with_the_call_that_was_asked_about(form: str, driver: str) -> None:
    class Absent(Human):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            if "n=1" in prompt:
                raise EOFError("no input")
            return "yes"

    class Itself(DecideByHuman):
        def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
            return super().check(state, call, tool)

    counter, state = Counter(), pending("act", "act", "act")
    permission = DecideByHuman() if form == "the engine asks" else Itself()
    with pytest.raises(EOFError) as caught:
        run(driver, Agent([counter.tool], permissions=[permission], human=Absent()), state)
    assert caught.value.__notes__ == [f"exception raised in permission {permission!r} checking act(n=1)"]
    (entry,) = errors(state)
    assert entry.call.args == {"n": 1}
    assert sorted(kinds(state)) == ["aborted", "aborted", "denied"]
    assert counter.ran == []
    assert state.pending_calls == ()


@pytest.mark.states("K7")
@every_driver
def test_a_permission_whose_repr_raises_has_the_name_of_its_class(driver: str) -> None:
    class Shy(DenyPermission):
        def __repr__(self) -> str:
            raise LookupError("no name")

        def check(self, state: Any, call: ToolCall, tool: Tool) -> Denied | None:
            return Denied("no", stop=True)

    counter = Counter()
    agent = Agent([counter.tool], permissions=[AllowByDefault(), Shy()])
    turn = run(driver, agent, pending("act"))
    assert [result.decided_by for result in turn.results] == ["Shy(?)"]
    assert str(turn.stopped) == "stopped by permission Shy(?)"
    assert list(agent.audit.calls()["decided_by"]) == ["Shy(?)"]
    assert counter.ran == []


@pytest.mark.states("K8")
@every_driver
@pytest.mark.parametrize("form", [Fails, FailsLater], ids=["check", "acheck"])
def test_a_check_that_raises_stop_iteration_is_a_runtime_error(form: type[Fails], driver: str) -> None:
    counter, state = Counter(), pending("act", "act", "act")
    with pytest.raises(RuntimeError) as caught:
        run(driver, Agent([counter.tool], permissions=[form(StopIteration(Allowed()))]), state)
    assert caught.value.__notes__ == [f"exception raised in permission {form.__name__}() checking act(n=1)"]
    assert (counter.ran, state.pending_calls) == ([], ())


# ---------------------------------------------------------------------- just before the start


def approving() -> Scripted:
    """An approver that allows everything."""

    async def review(requests: Any) -> Any:
        for request in requests:
            yield request.id, ApprovalDecision("allow")

    return Scripted(review)


@pytest.mark.states("K4", "K6")
@every_driver
@pytest.mark.parametrize("form", [Fails, FailsLater], ids=["check", "acheck"])
def test_nothing_starts_beside_a_check_that_fails_just_before_the_start(form: type[Fails], driver: str) -> None:
    counter, asked = Counter(), Counter("asked")
    state = pending("act", "act", "asked", "act")

    def only_asked(state: State, call: ToolCall, tool: Tool) -> Verdict | None:
        return DecideByHuman().as_ask(call, tool) if call.name == "asked" else None

    permissions = [Says(only_asked), form(LookupError("gone"), look=2)]
    with pytest.raises(LookupError) as caught:
        run(driver, Agent([counter.tool, asked.tool], permissions=permissions, human=approving()), state)
    assert caught.value.__notes__ == [f"exception raised in permission {form.__name__}() checking act(n=1)"]
    assert (counter.ran, asked.ran) == ([], [])
    by_key = sorted(state.results, key=lambda result: result.call_key)
    assert [result.outcome.kind for result in by_key] == ["aborted", "denied", "aborted", "aborted"]
    (entry,) = errors(state)
    assert entry.call.args == {"n": 1}


@pytest.mark.states("M1", "M2")
@every_driver
def test_a_stop_just_before_the_start_cancels_what_has_not_started(driver: str) -> None:
    looks: list[int] = []

    def say(state: State, call: ToolCall, tool: Tool) -> Verdict | None:
        looks.append(call.args["n"])
        if call.name == "asked":
            return DecideByHuman().as_ask(call, tool)
        return Denied("enough", stop=True) if looks.count(1) == 2 and call.args["n"] == 1 else Allowed()

    counter, asked, telling, state = Counter(), Counter("asked"), Telling(), pending("act", "act", "asked", "act")
    agent = Agent([counter.tool, asked.tool], permissions=[Says(say)], human=approving(), reporter=telling)
    turn = run(driver, agent, state)
    assert [result.verdict for result in turn.results] == ["cancelled", "denied", "cancelled", "cancelled"]
    assert turn.stopped is state.stopped is not None
    assert (counter.ran, asked.ran) == ([], [])
    assert [told[0] for told in telling.told] == ["end"] * 4  # nothing of it was told to start
    assert agent.audit.calls()["started"].isna().all()


# ---------------------------------------------------------------------- K5: interrupts


class HaltError(BaseException):
    """An exception of the kind that ends a program."""


def interrupting(phase: str, error: BaseException, happened: list[str]) -> tuple[Agent, State, Counter, Telling]:
    """An agent and a state in whose turn `error` is raised in a phase; three calls, of which the first is denied."""

    def raises(*args: Any) -> Any:
        happened.append(phase)
        raise error

    class Check(DecidePermission):
        seen = 0

        def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
            if call.args["n"] == 1:
                self.seen += 1
            if (phase, self.seen) in {("a check", 1), ("a check before the start", 2)}:
                raises()
            return None

    class Person(Human):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            return raises() if phase == "a classic human" else "yes"

    class Itself(DecideByHuman):
        def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
            return raises() if phase == "a permission that asks by itself" else super().check(state, call, tool)

    class Watching(Telling):
        def on_tool_start(self, state: State, call: ToolCall) -> None:
            super().on_tool_start(state, call)
            if phase == "a reporter at a start":
                raises()

        def on_tool_end(self, state: State, call: ToolCall, result: str, outcome: Any) -> None:
            super().on_tool_end(state, call, result, outcome)
            if f"a reporter at the end of a call that was {outcome.kind}" == phase and phase not in happened:
                raises()

    counter, telling = Counter(), Watching()
    options: dict[str, Any] = {"human": Person()}
    if phase == "a handler":
        options = {"approval_handler": raises}
    last = Itself() if phase == "a permission that asks by itself" else DecideByHuman()
    agent = Agent(
        [counter.tool, Counter("never").tool],
        permissions=[DenyByName(["never"]), Check(), last],
        reporter=telling,
        **options,
    )
    return agent, pending("never", "act", "act"), counter, telling


PHASES = {
    "a check": 0,
    "a permission that asks by itself": 0,
    "a classic human": 0,
    "a handler": 0,
    "a reporter at the end of a call that was denied": 0,
    "a check before the start": 0,
    "a reporter at a start": 2,
    "a reporter at the end of a call that was done": 2,
}
"""And how many calls were about to start then; nothing says how far they came."""


@pytest.mark.states("K5")
@every_driver
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, HaltError], ids=lambda kind: kind.__name__)
def test_an_interrupt_in_any_phase_closes_every_call_and_starts_nothing_more(
    error: type[BaseException], phase: str, driver: str
) -> None:
    happened: list[str] = []
    raised = error()
    agent, state, counter, telling = interrupting(phase, raised, happened)
    with pytest.raises(error) as caught:
        run(driver, agent, state)
    assert caught.value is raised
    assert set(happened) == {phase}
    assert getattr(raised, "__notes__", []) == []
    assert len(counter.ran) <= PHASES[phase]
    results = [result for result in state.results if not result.late]
    assert (state.pending_calls, len(results), agent.pending()) == ((), 3, ())
    told = "(interrupted by user)" if error is KeyboardInterrupt else f"(aborted: {error.__name__})"
    if "reporter at" not in phase or "denied" in phase:
        assert [result.content for result in results] == ["never is not allowed.", told, told]
    assert [entry.call for entry in errors(state)] == ([] if error is KeyboardInterrupt else [None])
    assert len(state.messages[-1].results) == 3
    ends = [(one[1], one[3]) for one in telling.told if one[0] == "end"]
    assert sorted(ends) == sorted((result.call.name, result.content) for result in results)
    rows = agent.audit.calls()
    assert len(rows) == 3
    assert rows["started"].notna().sum() == PHASES[phase]
    assert len(run(driver, agent, state)) == 0  # nothing is left of the turn
    assert set(happened) == {phase}
