"""The Human protocol: somebody who answers questions.

1. ``ask(state, prompt, returns)`` answers from a thread, ``aask`` from an event loop; a Human has at least one.
2. ``returns`` is ``str``, ``bool`` or ``typing.Literal[...]``: what the answer must be.
3. A Human asks again until the answer fits, and does not change the state.
4. A Human that has a ``name``, a text, is the person of that name; any other is the person at this kernel.

Who is asked when an agent is made without ``human=`` is set here by the roof of the package (`set_default`), so that
nothing below has to know about notebooks.
"""

from __future__ import annotations

import threading
from abc import ABC
from collections.abc import Callable
from typing import Any, Literal, Self, get_args, get_origin

from agentperm_nb.context import who
from agentperm_nb.errors import fix_message

__all__ = [
    "Human",
    "ask_on_worker",
    "awaits",
    "check_returns",
    "default_human",
    "describe_choices",
    "is_human",
    "name_of",
    "parse_answer",
    "set_default",
]


class Human(ABC):  # noqa: B024 - either of the two methods will do, so neither can be abstract
    """Somebody who answers questions. Override `ask`, `aask`, or both.

    Give one that is not the person at this kernel a ``name``: the log calls whoever approves by it.

    Raises:
        TypeError: On instantiation of a class that overrides neither.
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Refuse a class that cannot answer."""
        if cls.ask is Human.ask and cls.aask is Human.aask:
            raise TypeError(
                fix_message(
                    f"{cls.__name__} implements neither ask nor aask",
                    "override one of them",
                    f"class {cls.__name__}(Human):\n    def ask(self, state, prompt, returns=str):\n"
                    "        return parse_answer(input(prompt), returns)",
                )
            )
        return super().__new__(cls)

    def ask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        """Put a question and wait for its answer on the calling thread.

        Args:
            state: The State of the run that made the call.
            prompt: The question.
            returns: ``str``, ``bool`` or a ``Literal`` with at least one option.

        Raises:
            TypeError: This Human answers only asynchronously.
        """
        raise TypeError(
            fix_message(
                f"{type(self).__name__} answers only asynchronously",
                "use the async form of the call",
                "turn = await agent.ause_tools(reply)",
            )
        )

    async def aask(self, state: Any, prompt: str, returns: Any = str) -> Any:
        """Put a question and await its answer; by default `ask` on a worker thread."""
        return await ask_on_worker(self, state, prompt, returns)


def is_human(value: object) -> bool:
    """Return whether `value` is an object (not a class) with a callable ``ask`` or ``aask``."""
    return not isinstance(value, type) and (
        callable(getattr(value, "ask", None)) or callable(getattr(value, "aask", None))
    )


def name_of(human: object, given: str | None = None) -> tuple[str, str]:
    """Return (name, where it came from) of whoever answers: the name that is given, that of a Human, or `who`.

    Args:
        human: The Human; its ``name`` counts where that is a text.
        given: A name that comes before.
    """
    if given is None:
        try:
            own = getattr(human, "name", None)
        except Exception:  # noqa: BLE001 - a foreign property may do anything
            own = None
        if issubclass(type(own), str) and own is not None and own.strip():
            given = str.__str__(own)
    return (given, "given") if given is not None else who()


def awaits(human: Any) -> bool:
    """Return whether a Human has an ``aask`` of its own, and not only the default one, which calls its ``ask``."""
    aask = getattr(human, "aask", None)
    return callable(aask) and getattr(aask, "__func__", None) is not Human.aask


async def ask_on_worker(
    human: Any, state: Any, prompt: str, returns: Any, late: Callable[[Any], object] | None = None
) -> Any:
    """Return what ``human.ask`` answers on a worker thread, which nobody can stop.

    Args:
        human: Whom to ask.
        state: See `Human.ask`.
        prompt: See `Human.ask`.
        returns: See `Human.ask`.
        late: Is given the answer that comes when nobody waits for it any more.

    Raises:
        Exception: Whatever the Human raised.
    """
    import anyio.to_thread

    lock, answers, gone = threading.Lock(), list[Any](), list[bool]()

    def ask() -> None:
        try:
            answer = human.ask(state, prompt, returns)
        except StopIteration as error:  # a future cannot carry it
            raise RuntimeError(f"{type(human).__name__} raised StopIteration") from error
        with lock:
            answers.append(answer)
            is_late = bool(gone)
        if is_late and late is not None:
            late(answer)

    try:
        await anyio.to_thread.run_sync(ask, abandon_on_cancel=True)
    except anyio.get_cancelled_exc_class():
        with lock:
            gone.append(True)
            is_late = bool(answers)
        if is_late and late is not None:
            late(answers[0])
        raise
    return answers[0]


def check_returns(returns: Any) -> None:
    """Raise a TypeError unless `returns` is ``str``, ``bool`` or a ``Literal`` with options."""
    if returns is str or returns is bool or (get_origin(returns) is Literal and get_args(returns)):
        return
    raise TypeError(
        fix_message(
            f"ask_human does not support returns={returns!r}",
            "use str, bool or a Literal",
            "returns=Literal['yes', 'no']",
        )
    )


def describe_choices(returns: Any) -> str | None:
    """Return the choices as text, such as ``yes/no``, or None where any text will do."""
    if returns is bool:
        return "yes/no"
    if get_origin(returns) is Literal:
        return "/".join(str(option) for option in get_args(returns))
    return None


def parse_answer(answer: Any, returns: Any = str) -> Any:
    """Return `answer` as the type that `returns` names.

    Raises:
        TypeError: `returns` is not supported.
        ValueError: The answer does not fit; the message says what would.
    """
    check_returns(returns)
    if returns is bool:
        if isinstance(answer, bool):
            return answer
        word = str(answer).strip().lower()
        if word in {"y", "yes", "true", "1"}:
            return True
        if word in {"n", "no", "false", "0"}:
            return False
        raise ValueError("Answer 'yes' or 'no'")
    if returns is str:
        text = str(answer).strip()
        if not text:
            raise ValueError("Answer with some text")
        return text
    options = get_args(returns)
    for option in options:
        if type(option) is type(answer) and option == answer:
            return option
    text = str(answer).strip()
    for option in options:
        if str(option) == text:
            return option
    raise ValueError(f"Answer with one of: {', '.join(str(option) for option in options)}")


_make_default: Callable[[], Any] | None = None


def set_default(make: Callable[[], Any] | None) -> None:
    """Set what makes the Human of an agent that was given none."""
    global _make_default
    _make_default = make


def default_human() -> Any:
    """Return the Human of an agent that was given none, or None where nobody can be asked."""
    return _make_default() if _make_default is not None else None
