"""A turn that is being done: its calls, and the results so far."""

from __future__ import annotations

from collections.abc import Sequence

from agentperm_nb.calls import ToolCall
from agentperm_nb.running.messages import Message, ToolResultBlock
from agentperm_nb.running.outcomes import CallResult

__all__ = ["TurnInHand"]


class TurnInHand:
    """The calls of a turn that is being done, with the results so far."""

    __slots__ = ("_block", "calls", "left", "message", "number", "results")

    calls: Sequence[ToolCall]
    message: Message | None
    number: int

    def __init__(self, number: int, calls: Sequence[ToolCall], message: Message | None) -> None:
        self.number, self.calls, self.message = number, calls, message
        self.results: list[CallResult | None] = [None] * len(calls)
        self.left: int = len(calls)
        self._block: Message | None = None

    def block(self) -> Message:
        """Return the results as one message of the user; made when it is first looked at."""
        if self._block is None:
            made = [
                ToolResultBlock(ended.call.id, ended.content, ended.call.name, ended.is_error, ended.images, ended)
                for ended in self.results
                if ended is not None
            ]
            self._block = Message("user", tuple(made))
        return self._block
