"""Being told how a run goes, as it goes.

What a reporter is told is what happened: arguments and results as they are, which may hold secrets. `Masking` makes of
them what may be shown; agents set it while they tell.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TextIO
from weakref import WeakValueDictionary

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message, warn_user
from agentperm_nb.redaction import Redactor
from agentperm_nb.render import shorten, visible
from agentperm_nb.running.recording import describe_error

if TYPE_CHECKING:
    from agentperm_nb.running.messages import Message
    from agentperm_nb.running.outcomes import ToolOutcome
    from agentperm_nb.running.state import State

__all__ = ["PrintReporter", "Reporter", "masking", "tell"]

_LONGEST, _LOOKED_AT = 200, 4_000  # characters of a text that are printed, and that are masked before
_MOST_LEVELS = 20  # of subagents

_masking: ContextVar[tuple[Callable[[ToolCall], str], Callable[[str], str]] | None] = ContextVar(
    "agentperm_nb_masking", default=None
)


@contextlib.contextmanager
def masking(call: Callable[[ToolCall], str], text: Callable[[str], str]) -> Iterator[None]:
    """Say how what is told inside the ``with`` block may be shown.

    Args:
        call: Makes a text of a call, masked.
        text: Masks a text.
    """
    token = _masking.set((call, text))
    try:
        yield
    finally:
        _masking.reset(token)


class Reporter:
    """Override what you want to be told; every method does nothing here.

    The methods are called on the thread that drives the turn, after what they tell of has been recorded. What one
    raises becomes a warning: a report that fails never changes what runs.
    """

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def on_run_start(self, state: State) -> None:
        """Take note that ``run`` begins."""

    def on_run_end(self, state: State, error: BaseException | None) -> None:
        """Take note that ``run`` has ended, with an exception or without."""

    def on_think_start(self, state: State) -> None:
        """Take note that the model is about to be asked; ``state.turn`` is the new turn's number already."""

    def on_think_end(self, state: State, reply: Message) -> None:
        """Take note of the model's reply, which is recorded already."""

    def on_tool_start(self, state: State, call: ToolCall) -> None:
        """Take note that a call is about to run. Exactly one `on_tool_end` follows."""

    def on_tool_end(self, state: State, call: ToolCall, result: str, outcome: ToolOutcome) -> None:
        """Take note of a call's end. A call that was denied or cancelled did not run and had no `on_tool_start`."""


class PrintReporter(Reporter):
    """Prints a line for everything that happens, with secrets masked; runs inside of runs are indented.

    Args:
        output: Where to: anything that ``print`` takes for ``file=``; ``sys.stdout`` as it is then when left out.

    Raises:
        TypeError: Nothing can be written to `output`.
    """

    def __init__(self, output: TextIO | None = None) -> None:
        if output is not None and (isinstance(output, type) or not callable(getattr(output, "write", None))):
            raise TypeError(
                fix_message(
                    f"PrintReporter takes something to write to (got: {output!r})",
                    "give an open file, or leave it out to print",
                    "Agent(tools, model=model, reporter=PrintReporter())",
                )
            )
        self._output = output
        self._lock = threading.Lock()
        self._states: WeakValueDictionary[str, State] = WeakValueDictionary()

    def on_run_start(self, state: State) -> None:
        """Print that a subagent begins."""
        name = self._name(state)
        if name:
            self._print(state, f"{name}started")
        else:
            self._states[state.id] = state

    def on_run_end(self, state: State, error: BaseException | None) -> None:
        """Print how a run ended, and in how many turns."""
        turns = f"({state.turn} turn{'s' * (state.turn != 1)})"
        stopped = "" if state.stopped is None else str(state.stopped)
        if error is not None:
            end = f"failed: {_shown(describe_error(error))}" if isinstance(error, Exception) else "interrupted"
        else:
            end = "done" if not stopped or stopped == _WAITS else f"done: {_shown(stopped)}"
        self._print(state, f"{self._name(state)}{end} {turns}")

    def on_think_start(self, state: State) -> None:
        """Print that the model is asked."""
        self._print(state, f"{self._name(state)}turn {state.turn}: asking the model")

    def on_think_end(self, state: State, reply: Message) -> None:
        """Print what the model says, beside its calls."""
        if reply.text.strip():
            self._print(state, f"  said: {_shown(reply.text)}")

    def on_tool_start(self, state: State, call: ToolCall) -> None:
        """Print a call."""
        how = _masking.get()
        told = Redactor().call(call) if how is None else how[0](call)
        self._print(state, f"  run {_one_line(told)}")

    def on_tool_end(self, state: State, call: ToolCall, result: str, outcome: ToolOutcome) -> None:
        """Print how a call ended, with its result or the reason."""
        self._print(state, f"  {outcome.kind.replace('_', ' ')} {_one_line(call.name)}: {_shown(result)}")

    def _name(self, state: State) -> str:
        """Return what begins a line of a subagent; nothing for the outermost run."""
        if state.parent_id is None:
            return ""
        names = [entry.content for entry in state.history if entry.kind == "run_start"]
        return f"{_one_line(names[-1])}: " if names else ""

    def _print(self, state: State, line: str) -> None:
        with self._lock:  # subagents that run at the same time report from threads of their own
            self._states[state.id] = state
            depth, above = 0, state.parent_id
            while above is not None and depth < _MOST_LEVELS:
                depth += 1
                known = self._states.get(above)
                above = known.parent_id if known is not None else None
            print(f"{'    ' * depth}{line}", file=self._output or sys.stdout, flush=True)


_WAITS = "stopped by waiting_for_user"  # the end of a run that nothing stopped


def _shown(text: str) -> str:
    """Return the beginning of a text in one line, masked, with the count of what is left out."""
    how = _masking.get()
    mask = Redactor().text if how is None else how[1]
    return _one_line(mask(text[:_LOOKED_AT]), left_out=max(len(text) - _LOOKED_AT, 0))


def _one_line(text: str, *, left_out: int = 0) -> str:
    return shorten(visible(text).replace("\n", "⏎").replace("\t", " "), _LONGEST, left_out=left_out)


def tell(
    reporter: Reporter | None,
    method: str,
    *args: Any,
    call: Callable[[ToolCall], str],
    text: Callable[[str], str],
    error_text: Callable[[str], str],
) -> None:
    """Call a method of a reporter; what it raises becomes a warning.

    Args:
        reporter: The reporter.
        method: Name of the method.
        *args: What it is called with.
        call: Shows a call, masked; see `masking`.
        text: Masks a text; see `masking`.
        error_text: Masks the warning.
    """
    try:
        with masking(call, text):
            getattr(reporter, method)(*args)
    except Exception as error:  # noqa: BLE001 - a report that fails must not change what runs
        warn_user(error_text(f"the reporter raised in {method}: {describe_error(error)}"), UserWarning)
