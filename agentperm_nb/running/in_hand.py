"""A turn that is being done: its calls, and the results so far."""

from __future__ import annotations

from collections.abc import Sequence

from agentperm_nb.calls import ToolCall
from agentperm_nb.running.messages import Message, ToolResultBlock
from agentperm_nb.running.outcomes import CallResult

__all__ = ["TurnInHand"]


class TurnInHand:
    """The calls of a turn that is being done, with the results so far."""

    __slots__ = ("calls", "left", "message", "number", "results")

    def __init__(self, number: int, calls: Sequence[ToolCall], message: Message | None) -> None:
        self.number, self.calls, self.message = number, calls, message
        self.results: list[CallResult | None] = [None] * len(calls)
        self.left = len(calls)

    def block(self) -> Message:
        """Return the results as one message of the user."""
        return Message(
            "user",
            tuple(
                ToolResultBlock(
                    result.call.id, result.content, result.call.name, result.is_error, result.images, result
                )
                for result in self.results
                if result is not None
            ),
        )
