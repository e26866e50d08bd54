"""A turn: the calls of one reply and what became of them; and the two forms in which one is awaited.

`Turn` is finished. `PendingTurn` is what ``ause_tools(...)`` returns: until it is awaited nothing has been decided and
nothing has run, and it says so. `TurnTask` is what ``agent.start(...)`` returns: it works in the background.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterable
from typing import TYPE_CHECKING, Any, NoReturn

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

    from agentperm_nb.running.history import StoppedByPermission

__all__ = ["PendingTurn", "Turn", "TurnTask"]

_FIELDS = {"number", "run", "results", "stopped", "unchecked", "format"}
_COLUMNS = ("call", "verdict", "decided by", "answered by", "reason", "result")
_IN_TEXT, _IN_HTML, _LOOKED_AT = 60, 300, 4_000  # characters


class Turn:
    """The calls of one reply, each with its result, in request order. Two calls of one id are two calls."""

    def __init__(
        self,
        *,
        number: int,
        run: str,
        results: Iterable[CallResult],
        stopped: StoppedByPermission | None,
        unchecked: bool,
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
        if self.stopped is not None:
            parts.append(self._redactor.text(str(self.stopped)))
        counts = dict.fromkeys((result.outcome.kind.value for result in self.results), 0)
        for result in self.results:
            counts[result.outcome.kind.value] += 1
        parts.append(", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in counts.items()) or "no calls")
        return " · ".join(parts)

    def _table(self, limit: int) -> tuple[list[str], list[list[str]]]:
        """Return the columns and rows; a column in which nobody was asked, or gave a reason, is left out."""
        rows = [
            (
                shorten(self._redactor.call(result.call, self._secrets.get(result.call.name, frozenset())), limit),
                result.verdict + (" (edited)" if result.args_run is not None else ""),
                result.decided_by or ("UNCHECKED" if result.decided_kind == "unchecked" else ""),
                result.answered_by or "",
                self._shown(result, result.reason, limit),
                self._shown(result, result.content, limit) if result.verdict == "allowed" else "not run",
            )
            for result in self.results
        ]
        rows += [
            (
                shorten(self._redactor.call(call), limit),
                "not decided here" if call.approval_id is None else "approved before",
                "",
                "",
                "",
                "ran at the provider" + (", failed" if call.failed else ""),
            )
            for call in self.provider_calls
        ]
        kept = [
            index
            for index, name in enumerate(_COLUMNS)
            if name not in ("answered by", "reason") or any(row[index] for row in rows)
        ]
        return [_COLUMNS[index] for index in kept], [[row[index] for index in kept] for row in rows]

    def _shown(self, result: CallResult, text: str, limit: int) -> str:
        """Return the beginning of a text, masked, with the count of what is left out."""
        secret = self._secrets.get(result.call.name, frozenset())
        hidden = hidden_values([result.call.args, result.args_run], secret)
        # A secret that is cut in two at the end of what is looked at is far from what is shown.
        masked = str(without(self._redactor.text(text[:_LOOKED_AT]), hidden))
        left_out = max(len(text) - _LOOKED_AT, 0)
        return shorten(masked, limit, left_out=left_out)


class PendingTurn:
    """What ``ause_tools(...)`` returns. Await it, once, to get the `Turn`; before that nothing has run."""

    def __init__(self, begin: Callable[[], Awaitable[Turn]], calls: int) -> None:
        self._begin: Callable[[], Awaitable[Turn]] | None = begin
        self._calls = calls

    def __await__(self) -> Generator[Any, Any, Turn]:
        begin, self._begin = self._begin, None
        if begin is None:
            raise RuntimeError(
                fix_message(
                    "this turn has been awaited already",
                    "keep what the first await gave, or call ause_tools again",
                    "turn = await agent.ause_tools(reply)",
                )
            )
        return begin().__await__()

    def __repr__(self) -> str:
        if self._begin is None:
            return "ause_tools(...): awaited; its value is the Turn"
        count = "1 call" if self._calls == 1 else f"{self._calls} calls"
        return (
            f"ause_tools(...) was not awaited: {count} waiting, nothing was decided and nothing has run. "
            "Write: turn = await agent.ause_tools(reply)"
        )

    if not TYPE_CHECKING:  # a type checker would take every attribute for one that is there

        def __getattr__(self, name: str) -> NoReturn:
            if (name in _FIELDS or hasattr(Turn, name)) and not name.startswith("_"):
                raise NotFinishedError(
                    fix_message(
                        f".{name} of a turn that was not awaited",
                        "await it first",
                        "turn = await agent.ause_tools(reply)",
                    )
                )
            raise AttributeError(name)


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
