"""Asking a person: whom, what, how often, and what the answer means; by hand, from a subclass, and in a turn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal

import anyio
import pytest
from turns import DRIVERS, Counter, run

from agentperm_nb import Agent, Human, State
from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import NoHumanError, ToolError
from agentperm_nb.permissions.builtin import AllowByDefault, DecideByHuman
from agentperm_nb.permissions.deciding import PermissionList, decide
from agentperm_nb.permissions.verdicts import Allowed, Ask, Denied, Verdict
from agentperm_nb.testing import FakeHuman, tool_call
from agentperm_nb.tools import Tool

TOOL = Tool("t", function=lambda **args: None)
CALL = ToolCall("write", {"path": "a.txt", "password": "hunter2"})
QUESTION = 'Run write(path="a.txt", password="[masked]")?'
DECLINED = Denied("The user declined this call. Wait for their next message.", stop=True)

BACKENDS = ("asyncio", "trio")


class Sees:
    """Answers on a thread, and keeps what it was asked and where."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[Any, ...]] = []
        self.threads: list[threading.Thread] = []

    def ask(self, *question: Any) -> Any:
        self.asked.append(question)
        self.threads.append(threading.current_thread())
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


class SeesAsync(Sees):
    """Answers on the event loop only."""

    ask = None  # type: ignore[assignment]

    async def aask(self, *question: Any) -> Any:
        return Sees.ask(self, *question)


class Run:
    """Stands for a state that an agent has worked with, or has not."""

    def __init__(self, human: Any = None, *, linked: bool = True) -> None:
        self.human, self.linked = human, linked
        self.exchanges: list[tuple[str, Any, ToolCall]] = []

    def record_exchange(self, question: str, answer: Any, *, call: ToolCall) -> None:
        self.exchanges.append((question, answer, call))


def by_hand(permission: DecideByHuman, state: Any, form: str) -> Verdict | None:
    if form == "check":
        return permission.check(state, CALL, TOOL)
    return anyio.run(permission.acheck, state, CALL, TOOL, backend=form)


FORMS = ("check", *BACKENDS)


class TestMaking:
    @pytest.mark.states("E1")
    @pytest.mark.parametrize("human", ["ada", 5, FakeHuman, Sees, object(), lambda: None], ids=str)
    def test_a_human_is_an_object_that_can_be_asked(self, human: Any) -> None:
        with pytest.raises(TypeError, match=r"is not a Human object[\s\S]*Fix: [\s\S]*Example:"):
            DecideByHuman(human)

    @pytest.mark.states("E1")
    @pytest.mark.parametrize(
        "human", [None, FakeHuman([]), Sees(), SeesAsync()], ids=lambda human: type(human).__name__
    )
    def test_any_object_with_ask_or_aask_will_do_and_so_will_none(self, human: Any) -> None:
        assert DecideByHuman(human).human is human
        assert DecideByHuman(human=human).human is human

    @pytest.mark.states("E2")
    def test_its_repr_never_holds_an_address(self) -> None:
        class Mine(DecideByHuman):
            pass

        assert repr(DecideByHuman()) == "DecideByHuman()"
        assert repr(DecideByHuman(FakeHuman([]))) == "DecideByHuman(human=FakeHuman(0 asked))"
        assert repr(Mine(human=Sees())) == "Mine(human=Sees())"


class TestQuestion:
    @pytest.mark.states("E3", "E4")
    def test_in_an_agent_it_says_ask_with_the_secrets_masked(self) -> None:
        assert decide(PermissionList([DecideByHuman()]), None, CALL, TOOL).verdict == Ask(QUESTION)
        secret = Tool("write", function=lambda **args: None, secret=["path"])
        assert DecideByHuman().question(CALL, secret) == 'Run write(path="[masked]", password="[masked]")?'

    @pytest.mark.states("E3")
    def test_the_question_can_be_put_in_other_words(self) -> None:
        class Polite(DecideByHuman):
            def question(self, call: ToolCall, tool: Tool) -> str:
                return f"May I {call.name}?"

        assert decide(PermissionList([Polite()]), None, CALL, TOOL).verdict == Ask("May I write?")
        assert not Polite().asks_by_itself
        human = Sees("yes")
        Polite(human).check(None, CALL, TOOL)
        assert human.asked[0][1] == "May I write?"

    @pytest.mark.states("E3")
    def test_by_hand_the_human_is_given_whatever_the_question_is(self) -> None:
        class Numbered(DecideByHuman):
            def question(self, call: ToolCall, tool: Tool) -> str:
                return 7  # type: ignore[return-value]

        human = Sees("yes")
        assert Numbered(human).check(None, CALL, TOOL) == Allowed()
        assert human.asked[0][1] == 7
        with pytest.raises(TypeError, match="Ask takes a reason string") as caught:
            decide(PermissionList([Numbered()]), None, CALL, TOOL)
        assert "exception raised in permission Numbered()" in caught.value.__notes__[0]

    @pytest.mark.states("E4")
    @pytest.mark.parametrize(
        ("human", "form"),
        [(Sees, "check"), (Sees, "asyncio"), (Sees, "trio"), (SeesAsync, "asyncio"), (SeesAsync, "trio")],
        ids=["ask", "ask, asyncio", "ask, trio", "aask, asyncio", "aask, trio"],
    )
    def test_the_person_is_asked_once_and_chooses_yes_or_no(self, human: type[Sees], form: str) -> None:
        asked, state = human("yes"), object()
        assert by_hand(DecideByHuman(asked), state, form) == Allowed()
        assert asked.asked == [(state, QUESTION, Literal["yes", "no"])]

    @pytest.mark.states("E11")
    @pytest.mark.parametrize("backend", BACKENDS)
    def test_a_human_that_blocks_is_asked_on_a_worker_thread_and_another_on_the_loop(self, backend: str) -> None:
        blocking, waiting, here = Sees("no", "no"), SeesAsync("no"), threading.current_thread()
        assert by_hand(DecideByHuman(blocking), None, backend) == DECLINED
        assert by_hand(DecideByHuman(waiting), None, backend) == DECLINED
        assert by_hand(DecideByHuman(blocking), None, "check") == DECLINED
        assert blocking.threads[0] is not here
        assert waiting.threads == blocking.threads[1:] == [here]


class TestAnswer:
    @pytest.mark.states("E5")
    @pytest.mark.parametrize(
        "answer", ["no", "YES", "Yes", "y", " yes", True, 1, None, "always", ["yes"], Allowed()], ids=repr
    )
    def test_only_the_word_yes_allows(self, answer: Any) -> None:
        assert DecideByHuman(Sees(answer)).check(None, CALL, TOOL) == DECLINED
        assert by_hand(DecideByHuman(SeesAsync(answer)), None, "asyncio") == DECLINED

    @pytest.mark.states("E5")
    def test_a_text_that_only_claims_to_be_yes_does_not_allow(self) -> None:
        class Sly(str):
            def __eq__(self, other: object) -> bool:
                return True

            __hash__ = str.__hash__

        assert DecideByHuman(Sees(Sly("no"))).check(None, CALL, TOOL) == DECLINED

    @pytest.mark.states("E6")
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("answer", ["yes", "no", None, 5], ids=repr)
    def test_the_raw_answer_is_recorded_in_the_state_that_made_the_call(self, answer: Any, form: str) -> None:
        state = Run()
        by_hand(DecideByHuman(Sees(answer)), state, form)
        assert state.exchanges == [(QUESTION, answer, CALL)]

    @pytest.mark.states("E6")
    @pytest.mark.parametrize("form", FORMS)
    def test_the_answer_is_recorded_before_it_is_used(self, form: str) -> None:
        class Full(Run):
            def record_exchange(self, question: str, answer: Any, *, call: ToolCall) -> None:
                raise OSError("the disk is full")

        with pytest.raises(OSError, match="the disk is full"):
            by_hand(DecideByHuman(Sees("yes")), Full(), form)

    @pytest.mark.states("E6")
    @pytest.mark.parametrize("form", FORMS)
    def test_of_a_human_that_raises_nothing_is_recorded(self, form: str) -> None:
        state = Run()
        with pytest.raises(EOFError):
            by_hand(DecideByHuman(Sees(EOFError())), state, form)
        assert state.exchanges == []

    @pytest.mark.states("E6")
    @pytest.mark.parametrize(("answer", "kept"), [("no", "no"), (Allowed(), "Allowed()")], ids=["text", "object"])
    def test_in_the_history_an_answer_that_is_not_json_is_its_repr(self, answer: Any, kept: str) -> None:
        state = State()
        state.link(None)
        DecideByHuman(Sees(answer)).check(state, CALL, TOOL)
        [entry] = [entry for entry in state.history if entry.kind == "human"]
        assert (entry.content.question, entry.content.answer) == (QUESTION, kept)


class TestWhom:
    @pytest.mark.states("E7")
    @pytest.mark.parametrize("form", FORMS)
    def test_its_own_human_is_asked_before_the_one_of_the_run(self, form: str) -> None:
        own, other = Sees("yes"), Sees("no")
        assert by_hand(DecideByHuman(own), Run(other), form) == Allowed()
        assert by_hand(DecideByHuman(), Run(other), form) == DECLINED
        assert (len(own.asked), len(other.asked)) == (1, 1)

    @pytest.mark.states("E7")
    @pytest.mark.parametrize("driver", DRIVERS)
    @pytest.mark.parametrize("by_itself", [False, True], ids=["through the engine", "by itself"])
    def test_about_a_subagents_call_the_human_of_the_run_that_wrote_it_is_asked(
        self, driver: str, by_itself: bool
    ) -> None:
        class ByItself(DecideByHuman):
            def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
                return super().check(state, call, tool)

        above, below = FakeHuman(["yes", "yes"]), FakeHuman([])
        counter = Counter("act")
        inner = Agent([counter.tool], name="inner", human=below)

        def delegate() -> str:
            inner.use_tools([tool_call("act", n=1)])
            return "done"

        permission = ByItself() if by_itself else DecideByHuman()
        run(driver, Agent([delegate], permissions=[permission], human=above), [tool_call("delegate")])
        assert above.questions == ["Run delegate()?", "Run act(n=1)?"]
        assert below.questions == []
        assert counter.ran == [{"n": 1}]

    @pytest.mark.states("E8")
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("human", [None, Sees("yes")], ids=["no human", "a human of its own"])
    def test_on_a_state_that_no_agent_has_had_it_asks_nobody(self, human: Any, form: str) -> None:
        for state in (Run(Sees("yes"), linked=False), State()):
            with pytest.raises(ValueError, match="this State has no Agent yet") as caught:
                by_hand(DecideByHuman(human), state, form)
            assert "\nFix: " in str(caught.value)
        assert human is None or human.asked == []

    @pytest.mark.states("E8")
    def test_once_an_agent_has_had_the_state_its_human_is_asked(self) -> None:
        human = FakeHuman(["no"])
        state = State()
        Agent([Counter().tool], permissions=[AllowByDefault()], human=human).use_tools(state)
        assert DecideByHuman().check(state, CALL, TOOL) == DECLINED
        assert human.questions == [QUESTION]

    @pytest.mark.states("E9")
    def test_without_anybody_to_ask_it_says_so(self) -> None:
        with pytest.raises(NoHumanError, match=r"^ask_human\(\) was called on an Agent with human=None"):
            DecideByHuman().check(Run(), CALL, TOOL)
        with pytest.raises(NoHumanError, match=r"^aask_human\(\) was called on an Agent with human=None"):
            anyio.run(DecideByHuman().acheck, Run(), CALL, TOOL)

    @pytest.mark.states("E9")
    @pytest.mark.parametrize("driver", DRIVERS)
    def test_an_agent_with_nobody_on_purpose_does_not_begin(self, driver: str) -> None:
        counter = Counter()
        agent = Agent([counter.tool], permissions=[DecideByHuman()], human=None)
        with pytest.raises(NoHumanError, match=r"^DecideByHuman\(\) in permissions= asks the Agent's human"):
            run(driver, agent, [tool_call("act", n=1)])
        assert counter.ran == []

    @pytest.mark.states("E10")
    def test_an_asynchronous_human_cannot_be_asked_on_a_thread(self) -> None:
        class OnLoop(Human):
            async def aask(self, state: Any, prompt: str, returns: Any = str) -> Any:
                return "yes"

        for human in (SeesAsync("yes"), OnLoop()):
            with pytest.raises(TypeError, match=f"{type(human).__name__} answers only asynchronously") as caught:
                DecideByHuman(human).check(None, CALL, TOOL)
            assert "\nFix: " in str(caught.value)

    @pytest.mark.states("E13")
    @pytest.mark.parametrize("driver", DRIVERS)
    def test_one_permission_in_two_agents_asks_the_human_of_each(self, driver: str) -> None:
        permission, first, second = DecideByHuman(), FakeHuman(["yes"]), FakeHuman(["no"])
        counter = Counter()
        agents = [Agent([counter.tool], permissions=[permission], human=human) for human in (first, second)]
        verdicts = [run(driver, agent, [tool_call("act", n=1)]).results[0].verdict for agent in agents]
        assert verdicts == ["allowed", "denied"]
        assert (len(first.questions), len(second.questions), len(counter.ran)) == (1, 1, 1)


class TestSubclasses:
    @pytest.mark.states("E12")
    def test_one_that_overrides_check_is_asked_through_it_in_both_forms(self) -> None:
        threads: list[threading.Thread] = []

        class Mine(DecideByHuman):
            def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
                threads.append(threading.current_thread())
                return Denied("not today")

        assert Mine().asks_by_itself
        for form in FORMS:
            assert by_hand(Mine(), None, form) == Denied("not today")
        assert [thread is threading.current_thread() for thread in threads] == [True, False, False]

    @pytest.mark.states("E12")
    def test_one_that_overrides_acheck_is_asynchronous_only_and_never_asks_on_a_thread(self) -> None:
        human = Sees("yes")

        class Mine(DecideByHuman):
            async def acheck(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
                return Denied("not today")

        assert Mine(human).asks_by_itself
        for backend in BACKENDS:
            assert by_hand(Mine(human), None, backend) == Denied("not today")
        with pytest.raises(TypeError, match="checks calls only asynchronously"):
            Mine(human).check(None, CALL, TOOL)
        assert human.asked == []

    @pytest.mark.states("E12")
    def test_one_may_override_both_and_use_what_it_overrides(self) -> None:
        class Mine(DecideByHuman):
            def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
                return super().check(state, call, tool)

            async def acheck(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
                return await super().acheck(state, call, tool)

        assert by_hand(Mine(Sees("yes")), None, "check") == Allowed()
        assert by_hand(Mine(SeesAsync("yes")), None, "asyncio") == Allowed()

    @pytest.mark.states("E12")
    @pytest.mark.parametrize("driver", DRIVERS)
    @pytest.mark.parametrize(("answer", "ran"), [("yes", 1), ("no", 0)])
    def test_one_that_asks_only_about_some_calls_decides_alike_in_every_driver(
        self, driver: str, answer: str, ran: int
    ) -> None:
        class OnlyTwos(DecideByHuman):
            def check(self, state: Any, call: ToolCall, tool: Tool) -> Verdict | None:
                return super().check(state, call, tool) if call.args["n"] == 2 else Allowed()

        human, counter = FakeHuman([answer]), Counter()
        agent = Agent([counter.tool], permissions=[OnlyTwos()], human=human)
        run(driver, agent, [tool_call("act", n=1)])
        run(driver, agent, [tool_call("act", n=2)])
        assert human.questions == ["Run act(n=2)?"]
        assert len(counter.ran) == 1 + ran


class TestErrors:
    @pytest.mark.states("E14")
    @pytest.mark.parametrize("error", [EOFError(), TimeoutError(), OSError("gone"), ToolError("busy")], ids=repr)
    @pytest.mark.parametrize("form", FORMS)
    def test_an_error_of_the_human_is_never_an_answer(self, error: Exception, form: str) -> None:
        with pytest.raises(type(error)):
            by_hand(DecideByHuman(Sees(error)), None, form)

    @pytest.mark.states("E14")
    def test_an_interrupt_of_the_human_interrupts(self) -> None:
        with pytest.raises(KeyboardInterrupt):
            DecideByHuman(Sees(KeyboardInterrupt())).check(None, CALL, TOOL)

    @pytest.mark.states("E14")
    @pytest.mark.parametrize("driver", DRIVERS)
    @pytest.mark.parametrize("human", [Sees, SeesAsync], ids=["ask", "aask"])
    def test_a_tool_error_of_the_human_denies_the_call_and_the_next_ones_are_asked(
        self, human: Callable[..., Sees], driver: str
    ) -> None:
        asked, counter = human(ToolError("at lunch"), "yes"), Counter()
        agent = Agent([counter.tool], permissions=[DecideByHuman()], human=asked)
        turn = run(driver, agent, [tool_call("act", n=1), tool_call("act", n=2)])
        assert [(result.verdict, result.content) for result in turn.results] == [
            ("denied", "at lunch"),
            ("allowed", "ran {'n': 2}"),
        ]
        assert len(asked.asked) == 2

    @pytest.mark.states("E14")
    @pytest.mark.parametrize("driver", DRIVERS)
    @pytest.mark.parametrize("human", [Sees, SeesAsync], ids=["ask", "aask"])
    def test_any_other_error_of_the_human_goes_to_the_caller_and_nothing_runs(
        self, human: Callable[..., Sees], driver: str
    ) -> None:
        counter = Counter()
        agent = Agent([counter.tool], permissions=[DecideByHuman()], human=human("yes", EOFError("no input")))
        with pytest.raises(EOFError, match="no input"):
            run(driver, agent, [tool_call("act", n=1), tool_call("act", n=2)])
        assert counter.ran == []


@pytest.mark.states("E3")
def test_a_human_is_told_of_characters_that_are_not_seen() -> None:
    human = FakeHuman(["no"])
    agent = Agent([Tool("t", function=lambda **args: None)], permissions=[DecideByHuman()], human=human)
    agent.use_tools([tool_call("t", path="report\u202efdp.exe", to="an\u200bn")])
    assert human.questions == ['Run t(path="report\\u{202E}fdp.exe", to="an\\u{200B}n")?']
