"""What a format is: a provider's replies read into calls, results written as its messages, tools described to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message
from agentperm_nb.json_values import FrozenDict, freeze
from agentperm_nb.redaction import Redactor
from agentperm_nb.tools import Tool

__all__ = [
    "Format",
    "ImageLike",
    "MessageLike",
    "Provider",
    "ProviderCall",
    "Reply",
    "ResultLike",
    "ToolLike",
    "accepted_tool_name",
    "checked_tool_name",
    "cut_off",
    "named_call",
]


@dataclass(frozen=True, slots=True, repr=False)
class ProviderCall:
    """A call of a tool that ran at the provider. Nothing was decided about it here, unless it was asked for before.

    Args:
        name: The tool's name; of a tool of an MCP server ``server__tool``.
        args: The arguments; none when they cannot be read.
        id: The provider's id of the call.
        server: The MCP server, as the request named it; None for the provider's own tools.
        failed: Whether the provider says that it failed; None when the reply does not tell.
        approval_id: Id of the request for approval that it ran on; None when it asked for none.
    """

    name: str
    args: Mapping[str, Any] = field(default_factory=FrozenDict)
    id: str = ""
    server: str | None = None
    failed: bool | None = None
    approval_id: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "args", freeze(self.args))

    def __hash__(self) -> int:
        return hash((self.name, self.id))

    def __repr__(self) -> str:
        # What a cell shows is saved with the notebook: secrets are masked. `args` holds the real ones.
        shown = [repr(self.name), repr(Redactor().value(self.args))]
        told = {name: getattr(self, name) for name in ("id", "server", "failed", "approval_id")}
        shown += [f"{name}={value!r}" for name, value in told.items() if value not in ("", None)]
        return f"ProviderCall({', '.join(shown)})"


@dataclass(frozen=True, slots=True)
class Reply:
    """A provider's reply, read.

    Args:
        format: The name of the format: ``"anthropic"``, ``"openai-chat"``, ``"openai-responses"``, or ``"calls"`` for a
            list of ToolCalls.
        calls: The calls in it, in the order in which the model made them; none for a reply of text.
        original: The reply as it was given; of a list, a copy.
        provider_calls: The calls of tools that ran at the provider, in order.
        stand_ins: For a call that would run at the provider and waits for an approval, by its position in `calls`, the
            tool that stands in for the provider's. It is the tool of that call, whatever tool here has its name.
    """

    format: str
    calls: tuple[ToolCall, ...]
    original: Any
    provider_calls: tuple[ProviderCall, ...] = ()
    stand_ins: Mapping[int, Tool] = field(default_factory=dict)


class ImageLike(Protocol):
    """An image."""

    @property
    def data(self) -> bytes:
        """The file's bytes."""

    @property
    def media_type(self) -> str:
        """``image/png``, ``image/jpeg``, ``image/gif`` or ``image/webp``."""


class ResultLike(Protocol):
    """What is told to the model about one call.

    It may have more, which counts when it is there. ``images``, a list of `ImageLike`, are shown to the model beside
    the content. ``verdict``, ``outcome.kind``, ``args_run`` and ``value`` say whether a request for approval was
    granted, which nothing else can say.
    """

    @property
    def call(self) -> ToolCall:
        """The call."""

    @property
    def content(self) -> str | Sequence[Any]:
        """The result: a text, or a list of the provider's content blocks."""

    @property
    def is_error(self) -> bool:
        """Whether the call failed, was refused, or was cancelled."""


class MessageLike(Protocol):
    """One message of a conversation.

    An assistant's message may have ``reply``, the `Reply` that it was made from: that is what its provider gets back.
    """

    @property
    def role(self) -> str:
        """``system``, ``user`` or ``assistant``."""

    @property
    def content(self) -> Sequence[Any]:
        """Its blocks, in order.

        A block is a text (it has ``text``), an image (`ImageLike`), a `ToolCall`, or the result of a call, which has
        ``call_id``, ``content``, ``is_error`` and, if there are any, ``images``. A result may have ``result``, the
        `ResultLike` that it was made from: without it a request for approval is refused.
        """


class ToolLike(Protocol):
    """What a provider is told of a tool."""

    @property
    def name(self) -> str:
        """The name that the model calls."""

    @property
    def description(self) -> str:
        """What it does."""

    @property
    def input_schema(self) -> dict[str, Any]:
        """JSON Schema of its arguments."""


class Format(Protocol):
    """One form of replies. A new one is a module with these names, and a line in the registry."""

    NAME: str

    def recognises(self, reply: object) -> bool:
        """Return whether the reply has this format; it may still be faulty."""

    def read_calls(self, reply: Any) -> tuple[ToolCall, ...]:
        """Return the calls in a reply of this format."""

    def call_ids(self, reply: Any) -> list[str]:
        """Return the ids of the calls in a reply that has been read."""

    def read_hosted(self, reply: Any) -> tuple[tuple[ProviderCall, ...], Mapping[int, Tool]]:
        """Return the calls that ran at the provider, and the stand-ins for those that wait for an approval."""

    def write_messages(self, original: Any, results: Sequence[ResultLike], *, with_reply: bool) -> list[dict[str, Any]]:
        """Return the results, one for each call of the original in its order, as the API's messages."""


class Provider(Format, Protocol):
    """The API of a provider, which is told of tools as well."""

    def tool_spec(self, tool: ToolLike) -> dict[str, Any]:
        """Return the tool as the API's ``tools=`` takes it."""

    def write_conversation(self, messages: Iterable[MessageLike]) -> Any:
        """Return a conversation as the API takes it; see the provider's module for the form."""


def named_call(name: object, args: Any, id: object, invalid: str | None, *, where: str, example: str) -> ToolCall:
    """Return the call, or raise when it has no name or no id to answer it by.

    Args:
        name: The name that the reply gives.
        args: The arguments.
        id: The provider's id; it may be empty, which some servers send.
        invalid: See `ToolCall`.
        where: Where in the reply the call stands, such as ``content[1]``.
        example: Code that reads such a reply.

    Raises:
        TypeError: The name or the id is not a string.
        ValueError: The name is blank.
    """
    fix = "give the reply as the API sent it; nothing of it has run"
    if not isinstance(name, str):
        raise TypeError(fix_message(f"the call at {where} has no name (got: {name!r})", fix, example))
    if not name.strip():
        raise ValueError(fix_message(f"the name of the call at {where} is empty", fix, example))
    if not isinstance(id, str):
        raise TypeError(fix_message(f"the call {name} at {where} has no id (got: {id!r})", fix, example))
    return ToolCall(name, args, id, invalid)


def cut_off(calls: list[ToolCall], why: str) -> None:
    """Make the last call of a reply that was cut off invalid: its arguments may be incomplete."""
    if calls:
        last = calls[-1]
        text = f"the reply was cut off ({why}): the arguments of this call, its last, may be incomplete"
        calls[-1] = ToolCall(last.name, last.args, last.id, text)


def accepted_tool_name(name: str, longest: int) -> str:
    """Return the name as providers take it: what is neither an ASCII letter, a digit, ``_`` nor ``-`` becomes ``_``."""
    return re.sub(r"[^a-zA-Z0-9_-]+", "_", name)[:longest]


def checked_tool_name(name: str, *, provider: str, longest: int) -> str:
    """Return the name, if the provider takes it.

    Raises:
        ValueError: It does not.
    """
    accepted = accepted_tool_name(name, longest)
    if name and name == accepted:
        return name
    raise ValueError(
        fix_message(
            f"{provider} does not take the tool name {name!r}",
            f"use 1 to {longest} letters, digits, '_' and '-'",
            f"tool(name={accepted!r})(function)",
        )
    )
