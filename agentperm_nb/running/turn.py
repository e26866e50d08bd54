"""A turn: the calls of one reply and what became of them; and the two forms in which one is awaited.

`Turn` is finished. `PendingTurn` is what ``ause_tools(...)`` returns: until it is awaited nothing has been decided and
nothing has run, and it says so. `TurnTask` is what ``agent.start(...)`` returns: it works in the background.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from agentperm_nb.audit.projection import Row
from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import NotFinishedError, fix_message
from agentperm_nb.redaction import Redactor
from agentperm_nb.render import shorten, table_html, table_text
from agentperm_nb.running.formats import write_results
from agentperm_nb.running.formats.reply import ProviderCall
from agentperm_nb.running.outcomes import CallResult, ToolOutcome
from agentperm_nb.running.recording import hidden_values, without

if TYPE_CHECKING:
    import asyncio

    import pandas as pd

    from agentperm_nb.running.history import StoppedByBudget, StoppedByPermission

__all__ = ["PendingTurn", "Turn", "TurnTask"]

_FIELDS = {"number", "run", "results", "stopped", "unchecked", "bypass", "format"}
_COLUMNS = ("call", "verdict", "decided by", "answered by", "reason", "result")
_IN_TEXT, _IN_HTML, _LOOKED_AT = 60, 300, 4_000  # characters
_SHOWN_AT_END = 30  # calls at either end that are shown of a long turn


class Turn:
    """The calls of one reply, each with its result, in request order. Two calls of one id are two calls."""

    def __init__(
        self,
        *,
        number: int,
        run: str,
        results: Iterable[CallResult],
        stopped: StoppedByPermission | StoppedByBudget | None,
        unchecked: bool,
        bypass: bool = False,
        format: str,
        original: Any,
        provider_calls: Iterable[ProviderCall] = (),
        redactor: Redactor,
        secrets: dict[str, frozenset[str]],
        rows: Callable[[], list[Row]],
    ) -> None:
        self.number = number
        """Number of the turn in its run, from 1."""
        self.run = run
        """Id of the run."""
        self.results: tuple[CallResult, ...] = tuple(results)
        """What became of each call."""
        self.stopped = stopped
        """Why the turn was stopped, or None. A loop ends here."""
        self.unchecked = unchecked
        """Whether the checks were switched off with ``permissions=None``."""
        self.bypass = bypass
        """Whether a mode in the list was BYPASS."""
        self.format = format
        """Form of the reply: ``anthropic``, ``openai-chat``, ``openai-responses`` or ``calls``."""
        self.provider_calls: tuple[ProviderCall, ...] = tuple(provider_calls)
        """Calls in the reply that ran at the provider; nothing was decided about them here."""
        self._original, self._redactor, self._secrets, self._rows = original, redactor, secrets, rows

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls, as the model made them."""
        return tuple(result.call for result in self.results)

    @property
    def outcomes(self) -> tuple[ToolOutcome, ...]:
        """How each call ended."""
        return tuple(result.outcome for result in self.results)

    @property
    def denied(self) -> tuple[CallResult, ...]:
        """The calls that were refused."""
        return tuple(result for result in self.results if result.verdict == "denied")

    def frame(self) -> pd.DataFrame:
        """Return one row a call, in the columns of ``agent.audit.calls()``."""
        from agentperm_nb.analysis.frames import calls_frame

        return calls_frame(self._rows())

    def to_messages(self, *, with_reply: bool = False) -> list[dict[str, Any]]:
        """Return the results as messages of the provider that the reply came from: one result for every call.

        Args:
            with_reply: Put the model's reply before them.

        Raises:
            ValueError: `with_reply` of a turn that was made from a list of calls, where there is no reply.
        """
        return write_results(self.format, self._original, self.results, with_reply=with_reply)

    def __len__(self) -> int:
        return len(self.results)

    def __bool__(self) -> bool:
        return True  # a turn without calls is a turn

    def __repr__(self) -> str:
        if not self.results and not self.provider_calls:
            return f"Turn {self.number}: no calls"
        columns, rows = self._table(_IN_TEXT)
        return table_text(columns, rows, caption=self._headline(), width=3 * _IN_TEXT)

    def _repr_html_(self) -> str:
        columns, rows = self._table(_IN_HTML)
        return table_html(columns, rows, caption=self._headline())

    def _headline(self) -> str:
        parts = [f"Turn {self.number}"]
        if self.unchecked:
            parts.append("UNCHECKED: permissions=None, every call was run")
        if self.bypass:
            parts.append("BYPASS was on: what no deny refused was run unasked")
        if self.stopped is not None:
            parts.append(self._redactor.text(str(self.stopped)))
        counts = dict.fromkeys((result.outcome.kind.value for result in self.results), 0)
        for result in self.results:
            counts[result.outcome.kind.value] += 1
        parts.append(", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in counts.items()) or "no calls")
        return " · ".join(parts)

    def _table(self, limit: int) -> tuple[list[str], list[list[str]]]:
        """Return the columns and rows; a column in which nobody was asked, or gave a reason, is left out.

        Of many calls the first and the last are shown; the others are not even masked, which takes longest.
        """
        entries: tuple[CallResult | ProviderCall, ...] = (*self.results, *self.provider_calls)
        left_out = max(len(entries) - 2 * _SHOWN_AT_END, 0)
        ends = (entries[:_SHOWN_AT_END], entries[_SHOWN_AT_END + left_out :])
        first, last = ([self._row(entry, limit) for entry in end] for end in ends)
        kept = [
            index
            for index, name in enumerate(_COLUMNS)
            if name not in ("answered by", "reason") or any(row[index] for row in (*first, *last))
        ]
        rows = [[row[index] for index in kept] for row in (*first, *last)]
        if left_out:
            more = f"… {left_out:,} more call{'s' * (left_out != 1)}, see .results and .frame()"
            rows.insert(len(first), [more, *[""] * (len(kept) - 1)])
        return [_COLUMNS[index] for index in kept], rows

    def _row(self, entry: CallResult | ProviderCall, limit: int) -> tuple[str, ...]:
        if not isinstance(entry, CallResult):
            return (
                shorten(self._redactor.call(entry), limit),
                "not decided here" if entry.approval_id is None else "approved before",
                "",
                "",
                "",
                "ran at the provider" + (", failed" if entry.failed else ""),
            )
        return (
            shorten(self._redactor.call(entry.call, self._secrets.get(entry.call.name, frozenset())), limit),
            entry.verdict + (" (edited)" if entry.args_run is not None else ""),
            entry.decided_by or ("UNCHECKED" if entry.decided_kind == "unchecked" else ""),
            entry.answered_by or "",
            self._shown(entry, entry.reason, limit),
            self._shown(entry, entry.content, limit) if entry.verdict == "allowed" else "not run",
        )

    def _shown(self, result: CallResult, text: str, limit: int) -> str:
        """Return the beginning of a text, masked, with the count of what is left out."""
        secret = self._secrets.get(result.call.name, frozenset())
        hidden = hidden_values([result.call.args, result.args_run], secret)
        # A secret that is cut in two at the end of what is looked at is far from what is shown.
        masked = str(without(self._redactor.text(text[:_LOOKED_AT]), hidden))
        left_out = max(len(text) - _LOOKED_AT, 0)
        return shorten(masked, limit, left_out=left_out)


class PendingTurn(Coroutine[Any, Any, Turn]):
    """What ``ause_tools(...)`` returns. Await it, once, to get the `Turn`; before that nothing has run.

    It is a coroutine, so ``asyncio.run``, ``create_task`` and task groups take it, and ``trio.run`` and ``start_soon``
    take the method that returns it. One that is never awaited does nothing, and Python does not warn of it.
    """

    def __init__(self, begin: Callable[[], Coroutine[Any, Any, Turn]], calls: int) -> None:
        self._begin = begin
        self._calls = calls
        self._steps: Any = None  # the coroutine that does the work
        self._state: Literal["waiting", "awaited", "closed"] = "waiting"
        self._task: object = None
        self.__name__ = self.__qualname__ = "ause_tools"  # event loops name it in their messages

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> str | tuple[Any, ...]:
        """Refuse to be copied or pickled: a turn runs once.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            fix_message(
                "a turn that has not been awaited cannot be copied", "await it", "turn = await agent.ause_tools(reply)"
            )
        )

    def __await__(self) -> Generator[Any, Any, Turn]:
        self._begin_once()
        steps: Coroutine[Any, Any, Turn] = self._coroutine()
        return (yield from steps.__await__())

    def send(self, value: Any, /) -> Any:
        """Begin, or go on; for event loops.

        Raises:
            RuntimeError: It has been awaited, or another task awaits it.
            Exception: Whatever ended the turn.
        """
        self._sent_to()
        return self._coroutine().send(value)

    def throw(self, typ: Any, val: Any = None, tb: Any = None, /) -> Any:
        """Raise an error inside; before it has begun nothing runs. For event loops.

        Raises:
            RuntimeError: It has been awaited, or another task awaits it.
            Exception: Whatever ended the turn.
        """
        self._sent_to()
        if isinstance(typ, type):  # the form of three arguments, which Python no longer likes
            typ = val if isinstance(val, BaseException) else typ() if val is None else typ(val)
        return self._coroutine().throw(typ if tb is None else typ.with_traceback(tb))

    def close(self) -> None:
        """End it; before it has begun nothing runs, and it cannot be awaited any more."""
        if self._state == "waiting":
            self._state = "closed"
        self._coroutine().close()

    def __del__(self) -> None:
        if self._steps is not None and self._state == "waiting":
            self._steps.close()  # looked at but never begun: nothing to warn of

    def _coroutine(self) -> Any:
        if self._steps is None:
            self._steps = self._begin()
        return self._steps

    def _begin_once(self) -> None:
        if self._state != "waiting":
            raise RuntimeError(
                fix_message(
                    f"this turn has been {self._state} already",
                    "keep what the first await gave, or call ause_tools again",
                    "turn = await agent.ause_tools(reply)",
                )
            )
        self._state = "awaited"

    def _sent_to(self) -> None:
        task = _current_task()
        if self._task is None:
            self._begin_once()
            self._task = task
        elif self._task != task or inspect.getcoroutinestate(self._coroutine()) == inspect.CORO_CLOSED:
            self._begin_once()  # of two tasks the second would go on where the first one waits

    def __repr__(self) -> str:
        if self._state != "waiting":
            return f"ause_tools(...): {self._state}; " + (
                "its value is the Turn" if self._state == "awaited" else "nothing was decided and nothing has run"
            )
        count = "1 call" if self._calls == 1 else f"{self._calls} calls"
        return (
            f"ause_tools(...) was not awaited: {count} waiting, nothing was decided and nothing has run. "
            "Write: turn = await agent.ause_tools(reply)"
        )

    if not TYPE_CHECKING:  # a type checker would take every attribute for one that is there

        def __getattr__(self, name: str) -> Any:
            if name.startswith("cr_"):  # anyio and trio look whether a task has begun, and at its frames
                return getattr(self._coroutine(), name)
            if (name in _FIELDS or hasattr(Turn, name)) and not name.startswith("_"):
                raise NotFinishedError(
                    fix_message(
                        f".{name} of a turn that was not awaited",
                        "await it first",
                        "turn = await agent.ause_tools(reply)",
                    )
                )
            raise AttributeError(name)


def _current_task() -> object:
    """Return the asyncio task at work; elsewhere the thread."""
    asyncio = sys.modules.get("asyncio")
    try:
        task = None if asyncio is None else asyncio.current_task()
    except RuntimeError:  # no asyncio event loop is running
        task = None
    return threading.get_ident() if task is None else task


class TurnTask:
    """A turn that works in the background; await it, or look at `turn` when it is `done`."""

    def __init__(self, begin: Callable[[], Awaitable[Turn]], waiting: Callable[[], int]) -> None:
        import asyncio

        async def run() -> Turn:
            return await begin()

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                fix_message(
                    "agent.start() was called where no asyncio event loop is running",
                    "call it in a notebook cell or an async function, or wait with use_tools",
                    "turn = agent.use_tools(reply)",
                )
            ) from None
        self._task: asyncio.Task[Turn] = loop.create_task(run())
        self._waiting = waiting

    def __await__(self) -> Generator[Any, Any, Turn]:
        import asyncio

        # Whoever awaits it may be cancelled without ending the turn; `cancel` ends it.
        return asyncio.shield(self._task).__await__()

    @property
    def done(self) -> bool:
        """Whether it has ended, one way or another."""
        return self._task.done()

    @property
    def turn(self) -> Turn:
        """The finished turn.

        Raises:
            NotFinishedError: It is still at work.
            asyncio.CancelledError: It was cancelled.
            Exception: Whatever ended it.
        """
        if not self._task.done():
            raise NotFinishedError(
                fix_message("the turn is not finished", "await it, or look again later", "turn = await task")
            )
        return self._task.result()

    def cancel(self) -> bool:
        """End it: what has not started will not run. Return False when it had ended."""
        return self._task.cancel()

    def __repr__(self) -> str:
        if self._task.cancelled():
            return "TurnTask: cancelled"
        if self._task.done():
            error = self._task.exception()
            return f"TurnTask: failed with {type(error).__name__}" if error else "TurnTask: finished, see .turn"
        count = self._waiting()
        return f"TurnTask: waiting for {count} answer{'s' * (count != 1)}" if count else "TurnTask: at work"
