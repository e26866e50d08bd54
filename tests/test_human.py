"""The Human protocol: who counts as somebody, and what counts as an answer."""

from __future__ import annotations

import threading
from typing import Any, Literal

import anyio
import pytest

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


def test_an_asynchronous_human_says_so_when_asked_on_a_thread() -> None:
    with pytest.raises(TypeError, match="_Async answers only asynchronously"):
        _Async().ask(None, "?")


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


@pytest.mark.parametrize("returns", [str, bool, Literal["a"], Literal["yes", "no"], Literal[1, True, None]])
def test_texts_truth_values_and_literals_can_be_asked_for(returns: Any) -> None:
    check_returns(returns)


@pytest.mark.parametrize("returns", [int, None, float, list, "str", str | None, Any, Literal], ids=repr)
def test_nothing_else_can_be_asked_for(returns: Any) -> None:
    with pytest.raises(TypeError, match="ask_human does not support returns="):
        check_returns(returns)
    with pytest.raises(TypeError, match="ask_human does not support returns="):
        parse_answer("x", returns)


def test_choices_are_described() -> None:
    assert describe_choices(bool) == "yes/no"
    assert describe_choices(Literal["a", "b", 3]) == "a/b/3"
    assert describe_choices(str) is None


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


def test_a_fake_human_passes_over_answers_that_do_not_fit_and_keeps_the_questions() -> None:
    fake = FakeHuman(["maybe", "no", "words"])
    assert fake.ask(None, "Run it?", Literal["yes", "no"]) == "no"
    assert fake.ask(None, "Why?") == "words"
    with pytest.raises(RuntimeError, match="no answer left for: And now"):
        fake.ask(None, "And now?")
    assert fake.questions == ["Run it?", "Why?", "And now?"]
    assert repr(fake) == "FakeHuman(3 asked)"
