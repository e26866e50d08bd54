"""Being told how a run goes, as it goes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentperm_nb.calls import ToolCall

if TYPE_CHECKING:
    from agentperm_nb.running.messages import Message
    from agentperm_nb.running.outcomes import ToolOutcome
    from agentperm_nb.running.state import State

__all__ = ["Reporter"]


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
