"""What a format is: a provider's replies read into calls, results written as its messages, tools described to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message

__all__ = ["Format", "Provider", "Reply", "ResultLike", "ToolLike", "checked_tool_name", "cut_off", "named_call"]


@dataclass(frozen=True, slots=True)
class Reply:
    """A provider's reply, read.

    Args:
        format: The name of the format: ``"anthropic"``, ``"openai-chat"``, ``"openai-responses"``, or ``"calls"`` for a
            list of ToolCalls.
        calls: The calls in it, in the order in which the model made them; none for a reply of text.
        original: The reply as it was given; of a list, a copy.
    """

    format: str
    calls: tuple[ToolCall, ...]
    original: Any


class ResultLike(Protocol):
    """What is told to the model about one call."""

    @property
    def call(self) -> ToolCall:
        """The call."""

    @property
    def content(self) -> str | Sequence[Any]:
        """The result: a text, or a list of the provider's content blocks."""

    @property
    def is_error(self) -> bool:
        """Whether the call failed, was refused, or was cancelled."""


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

    def write_messages(self, original: Any, results: Sequence[ResultLike], *, with_reply: bool) -> list[dict[str, Any]]:
        """Return the results, one for each call of the original in its order, as the API's messages."""


class Provider(Format, Protocol):
    """The API of a provider, which is told of tools as well."""

    def tool_spec(self, tool: ToolLike) -> dict[str, Any]:
        """Return the tool as the API's ``tools=`` takes it."""


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


def checked_tool_name(name: str, *, provider: str, longest: int) -> str:
    """Return the name, if the provider takes it.

    Raises:
        ValueError: It does not.
    """
    if re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{longest}}}", name):
        return name
    accepted = re.sub(r"[^a-zA-Z0-9_-]+", "_", name)[:longest]
    raise ValueError(
        fix_message(
            f"{provider} does not take the tool name {name!r}",
            f"use 1 to {longest} letters, digits, '_' and '-'",
            f"tool(name={accepted!r})(function)",
        )
    )
