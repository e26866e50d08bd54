"""Messages: the conversation of a run, in no provider's form.

1. A message is of the system, the user or the assistant, and holds blocks in order: texts, images, calls, results.
2. The results of a turn are one user message: one block a call, in request order.
3. What a loop or a tool tells the model in the user's place is a notice: its text begins with ``[notice] ``.
4. The assistant's message keeps the reply that it was made from, which goes back to its provider as it came.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message
from agentperm_nb.redaction import Redactor
from agentperm_nb.render import shorten
from agentperm_nb.results import Image
from agentperm_nb.running.outcomes import CallResult

if TYPE_CHECKING:
    from agentperm_nb.running.formats.reply import Reply

__all__ = ["NOTICE", "Block", "Message", "Role", "TextBlock", "ToolResultBlock"]

NOTICE = "[notice] "
"""What the text of a notice begins with."""

Role = Literal["system", "user", "assistant"]
_EXAMPLE = "Message.user('Tidy notes.txt')"
_SHOWN = 80  # characters of a message in its repr


@dataclass(frozen=True, slots=True)
class TextBlock:
    """A text."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolResultBlock:
    """What the model is told about one of its calls."""

    call_id: str
    """The provider's id of the call; it may repeat: the place among the results says which call is meant."""
    content: str
    name: str
    """Name of the tool."""
    is_error: bool
    """Whether the call failed, was refused, or was cancelled."""
    images: tuple[Image, ...] = ()
    result: CallResult | None = field(default=None, compare=False, repr=False)
    """What became of the call, where it was decided here."""


Block: TypeAlias = TextBlock | Image | ToolCall | ToolResultBlock
_BLOCKS = frozenset({TextBlock, Image, ToolCall, ToolResultBlock})


@dataclass(frozen=True, slots=True, repr=False)
class Message:
    """One message of a conversation.

    Args:
        role: ``"system"``, ``"user"`` or ``"assistant"``.
        content: Its blocks, in order.
        reply: For the assistant's message, the provider's reply that it was made from.

    Raises:
        TypeError: A block is not one.
        ValueError: `role` is none of the three.
    """

    role: Role
    content: tuple[Block, ...] = ()
    reply: Reply | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise ValueError(fix_message(f"a message has no role {self.role!r}", "use one of the makers", _EXAMPLE))
        blocks = (self.content,) if isinstance(self.content, str) else tuple(self.content)
        for block in blocks:
            if type(block) not in _BLOCKS and not isinstance(block, TextBlock | Image | ToolCall | ToolResultBlock):
                problem = f"a message holds blocks (got: {type(block).__name__})"
                raise TypeError(fix_message(problem, "use one of the makers", _EXAMPLE))
        object.__setattr__(self, "content", blocks)

    @classmethod
    def user(cls, text: str, *images: Image) -> Message:
        """Return a message of the user: the text, then the images."""
        return cls("user", (TextBlock(_checked(text)), *images))

    @classmethod
    def assistant(cls, text: str) -> Message:
        """Return a message of the model, of text alone: to carry on with a conversation from elsewhere."""
        return cls("assistant", (TextBlock(_checked(text)),))

    @classmethod
    def system(cls, text: str) -> Message:
        """Return instructions."""
        return cls("system", (TextBlock(_checked(text)),))

    @classmethod
    def notice(cls, text: str) -> Message:
        """Return what a loop or a tool tells the model; ``[notice] `` is put before it where it is missing."""
        text = _checked(text)
        return cls.user(text if text.startswith(NOTICE) else f"{NOTICE}{text}")

    @classmethod
    def with_calls(cls, calls: Iterable[ToolCall]) -> Message:
        """Return a message of the model that holds these calls and no text."""
        return cls("assistant", tuple(calls))

    @property
    def text(self) -> str:
        """Its texts, one after the other."""
        return "".join(block.text for block in self.content if isinstance(block, TextBlock))

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        """Its calls, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolCall))

    @property
    def results(self) -> tuple[ToolResultBlock, ...]:
        """Its results, in order."""
        return tuple(block for block in self.content if isinstance(block, ToolResultBlock))

    @property
    def is_notice(self) -> bool:
        """Whether it is a notice, and not what the user said."""
        return self.role == "user" and self.text.startswith(NOTICE)

    def __repr__(self) -> str:
        # What a cell shows is saved with the notebook: masked, and not long.
        parts = [repr(shorten(Redactor().text(self.text), _SHOWN))] if self.text else []
        parts += [
            f"{len(found)} {word}{'s' * (len(found) != 1)}"
            for found, word in ((self.tool_calls, "call"), (self.results, "result"))
            if found
        ]
        return f"Message({self.role}: {', '.join(parts) or 'nothing'})"


def _checked(text: object) -> str:
    if not isinstance(text, str):
        problem = f"the text of a message is a string (got: {type(text).__name__})"
        raise TypeError(fix_message(problem, "give a text", _EXAMPLE))
    return text
