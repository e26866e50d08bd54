"""The Human protocol: who counts as somebody, and what counts as an answer."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Literal

import anyio
import pytest
from turns import DRIVERS, Counter, run

from agentperm_nb import Agent, DecideByHuman, State, ToolCall
from agentperm_nb.human import (
    Human,
    check_returns,
    default_human,
    describe_choices,
    is_human,
    parse_answer,
    set_default,
)
from agentperm_nb.testing import FakeHuman


class _Sync(Human):
    def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        return (state, prompt, returns, threading.current_thread())


class _Async(Human):
    async def aask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        return (state, prompt, returns)


@pytest.mark.states("P1")
def test_a_human_that_cannot_answer_is_refused_when_it_is_made() -> None:
    class Middle(Human):
        pass

    class Mute(Middle):
        pass

    class Answers(Middle):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            return "x"

    for cls in (Human, Middle, Mute):
        with pytest.raises(
            TypeError, match=rf"{cls.__name__} implements neither ask nor aask[\s\S]*Fix: [\s\S]*Example:"
        ):
            cls()
    assert Answers().ask(None, "?") == "x"


@pytest.mark.states("P3")
def test_an_asynchronous_human_says_so_when_asked_on_a_thread() -> None:
    with pytest.raises(TypeError, match="_Async answers only asynchronously"):
        _Async().ask(None, "?")


@pytest.mark.states("P3")
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_synchronous_human_is_awaited_on_a_worker_thread(backend: str) -> None:
    state = object()

    async def main() -> Any:
        return await _Sync().aask(state, "Run it?", bool)

    answer = anyio.run(main, backend=backend)
    assert answer[:3] == (state, "Run it?", bool)
    assert answer[3] is not threading.current_thread()


@pytest.mark.parametrize(
    ("value", "somebody"),
    [
        (_Sync(), True),
        (_Async(), True),
        (FakeHuman([]), True),
        (_Sync, False),
        (None, False),
        ("yes", False),
        (type("Duck", (), {"ask": lambda *args: "yes"})(), True),
        (type("Duck", (), {"aask": lambda *args: "yes"})(), True),
        (type("Duck", (), {"ask": "no function"})(), False),
        (lambda prompt: "yes", False),
    ],
    ids=["sync", "async", "fake", "class", "None", "text", "ask", "aask", "ask is a text", "function"],
)
def test_somebody_is_an_object_with_ask_or_aask(value: object, somebody: bool) -> None:
    assert is_human(value) is somebody


@pytest.mark.states("P2")
@pytest.mark.parametrize("returns", [str, bool, Literal["a"], Literal["yes", "no"], Literal[1, True, None]])
def test_texts_truth_values_and_literals_can_be_asked_for(returns: Any) -> None:
    check_returns(returns)


@pytest.mark.states("P2", "P5")
@pytest.mark.parametrize("returns", [int, None, float, list, "str", str | None, Any, Literal], ids=repr)
def test_nothing_else_can_be_asked_for(returns: Any) -> None:
    with pytest.raises(TypeError, match="ask_human does not support returns="):
        check_returns(returns)
    with pytest.raises(TypeError, match="ask_human does not support returns="):
        parse_answer("x", returns)


@pytest.mark.states("P5")
def test_choices_are_described() -> None:
    assert describe_choices(bool) == "yes/no"
    assert describe_choices(Literal["a", "b", 3]) == "a/b/3"
    assert describe_choices(str) is None


@pytest.mark.states("P5")
@pytest.mark.parametrize(
    ("answer", "returns", "parsed"),
    [
        (" text ", str, "text"),
        (5, str, "5"),
        ("y", bool, True),
        (" YES ", bool, True),
        ("True", bool, True),
        ("1", bool, True),
        (True, bool, True),
        (False, bool, False),
        ("n", bool, False),
        ("No", bool, False),
        ("FALSE", bool, False),
        ("0", bool, False),
        ("yes", Literal["yes", "no"], "yes"),
        (" no\n", Literal["yes", "no"], "no"),
        ("1", Literal[1, 2], 1),
        (2, Literal[1, 2], 2),
        ("1", Literal[1, "1"], "1"),
        (1, Literal["1", 1], 1),
        (True, Literal[1, True], True),
        ("None", Literal[None], None),
    ],
    ids=repr,
)
def test_an_answer_that_fits_is_taken(answer: Any, returns: Any, parsed: Any) -> None:
    assert parse_answer(answer, returns) == parsed
    assert type(parse_answer(answer, returns)) is type(parsed)


@pytest.mark.states("P5")
@pytest.mark.parametrize(
    ("answer", "returns", "hint"),
    [
        ("", str, "some text"),
        ("  ", str, "some text"),
        ("maybe", bool, "Answer 'yes' or 'no'"),
        (None, bool, "'yes' or 'no'"),
        (2, bool, "'yes' or 'no'"),
        ("YES", Literal["yes", "no"], "one of: yes, no"),
        ("y", Literal["yes", "no"], "one of"),
        (True, Literal["yes", "no"], "one of"),
        (None, Literal["yes", "no"], "one of"),
        (True, Literal[1, 2], "one of: 1, 2"),
    ],
    ids=repr,
)
def test_an_answer_that_does_not_fit_says_what_would(answer: Any, returns: Any, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        parse_answer(answer, returns)


def test_the_default_human_is_made_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from agentperm_nb import human

    monkeypatch.setattr(human, "_make_default", None)
    assert default_human() is None
    ada = FakeHuman(["yes"])
    set_default(lambda: ada)
    assert default_human() is ada
    set_default(None)
    assert default_human() is None


def _odd_humans() -> dict[str, Callable[[list[Any]], Any]]:
    """Humans whose methods are unlike those of the protocol; each keeps in a list what it was called with."""

    def any_places(got: list[Any]) -> Any:
        class AnyPlaces(Human):
            def ask(self, *args: Any) -> Any:
                got.append(args)
                return "yes"

        return AnyPlaces()

    def other_names(got: list[Any]) -> Any:
        class OtherNames(Human):
            def ask(self, run: Any, text: str, kind: Any, /) -> Any:
                got.append((run, text, kind))
                return "yes"

        return OtherNames()

    def more_options(got: list[Any]) -> Any:
        class MoreOptions(Human):
            def ask(self, state: Any, prompt: str, returns: Any = str, *rest: Any, colour: str = "red") -> Any:
                got.append((state, prompt, returns, *rest))
                return "yes"

        return MoreOptions()

    def static(got: list[Any]) -> Any:
        class Static(Human):
            @staticmethod
            def ask(state: Any, prompt: str, returns: Any = str) -> Any:  # type: ignore[override]
                got.append((state, prompt, returns))
                return "yes"

        return Static()

    def attribute(got: list[Any]) -> Any:
        class Duck:
            def __init__(self) -> None:
                self.ask = lambda *args: got.append(args) or "yes"

        return Duck()

    def awaited(got: list[Any]) -> Any:
        class Awaited(Human):
            async def aask(self, *args: Any) -> Any:
                got.append(args)
                return "yes"

        return Awaited()

    def gives_an_awaitable(got: list[Any]) -> Any:
        class GivesAnAwaitable:
            def aask(self, state: Any, prompt: str, returns: Any) -> Any:
                async def later() -> str:
                    got.append((state, prompt, returns))
                    return "yes"

                return later()

        return GivesAnAwaitable()

    return {
        function.__name__: function
        for function in (any_places, other_names, more_options, static, attribute, awaited, gives_an_awaitable)
    }


@pytest.mark.states("P1", "P2", "P6")
@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("make", _odd_humans().values(), ids=_odd_humans().keys())
def test_a_human_is_given_state_prompt_and_returns_by_place(make: Callable[[list[Any]], Any], driver: str) -> None:
    got: list[Any] = []
    counter, human = Counter(), make(got)
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=human)
    state = State(pending_calls=[ToolCall("act", {"n": 1})])
    assert run(driver, agent, state).results[0].verdict == "allowed"
    assert got == [(state, "Run act(n=1)?", Literal["yes", "no"])]
    if driver == "sync" and not hasattr(human, "ask"):
        return
    if driver == "sync" and type(human).__dict__.get("aask"):
        with pytest.raises(TypeError, match="answers only asynchronously"):
            agent.ask_human(state, "Sure?", bool)
        return
    asked = agent.ask_human(state, "Sure?", bool) if driver == "sync" else None
    if driver != "sync":
        asked = anyio.run(agent.aask_human, state, "Sure?", bool, backend=driver)
    assert asked == "yes"
    assert got[1:] == [(state, "Sure?", bool)]


@pytest.mark.states("P3")
@pytest.mark.parametrize("driver", DRIVERS)
def test_of_a_human_with_both_forms_a_turn_awaits_the_second(driver: str) -> None:
    class Both(Human):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            raise AssertionError("the other form is there")

        async def aask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            return "yes"

    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Both())
    assert run(driver, agent, [ToolCall("act", {"n": 1})]).results[0].verdict == "allowed"


@pytest.mark.states("P4")
@pytest.mark.parametrize("driver", DRIVERS)
def test_a_human_is_asked_one_request_of_a_turn_after_the_other(driver: str) -> None:
    asking: list[str] = []

    class Alone(Human):
        def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
            asking.append(prompt)
            assert len(asking) == 1
            asking.remove(prompt)
            return "yes"

    counter = Counter()
    agent = Agent([counter.tool], permissions=[DecideByHuman()], human=Alone())
    run(driver, agent, [ToolCall("act", {"n": n}) for n in range(9)])
    assert len(counter.ran) == 9
