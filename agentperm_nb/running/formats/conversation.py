"""A conversation in no provider's form, made ready for one: whose replies go back as they came, which result is whose.

1. All instructions are one text, whatever their place, with a blank line between them.
2. The results of a reply stand right after it, one for each of its calls and in their order, before anything that was
   said meanwhile. A result belongs to the first call that has its id and no result yet, failing that to the first that
   has no id; a result without an id, to the first that has no result. A result that no call waits for is an error.
3. A call without a result gets one that says that there is none: no API takes a call that is not answered.
4. A reply that was read from the same API goes back as its original. Any other is written from its blocks: names as the
   API takes them, and an id for each call that has none, or one that the API does not take or that was there before.
5. Blank texts are left out, and messages of nothing else.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import fix_message
from agentperm_nb.running.formats.arguments import read_object
from agentperm_nb.running.formats.hosted import is_same_call
from agentperm_nb.running.formats.images import EncodedImage, encoded
from agentperm_nb.running.formats.reply import MessageLike, Reply, ResultLike, accepted_tool_name

__all__ = ["Said", "Spoken", "read_conversation"]

_EXAMPLE = "messages = [Message.user('Tidy notes.txt')]"
_UNKNOWN_RESULT = "no result of this call is known"


@dataclass(slots=True, eq=False, repr=False)
class Said:
    """What the user said."""

    blocks: tuple[str | EncodedImage, ...]


@dataclass(slots=True, eq=False, repr=False)
class Spoken:
    """What the model said, and the results of its calls."""

    original: Any
    """Its reply, of the API that it goes back to; else None."""
    blocks: tuple[str | ToolCall, ...]
    """What is written where there is no original."""
    results: tuple[ResultLike, ...]
    """One for each call, in order."""


def read_conversation(
    messages: Iterable[MessageLike], *, format: str, longest_id: int, longest_name: int
) -> tuple[str | None, list[Said | Spoken]]:
    """Return the instructions (None without any) and what was said, in order.

    Args:
        messages: The messages, oldest first.
        format: The name of the API's format.
        longest_id: Characters of a call's id at most.
        longest_name: Characters of a tool's name at most.

    Raises:
        TypeError: A message or a block is none.
        ValueError: A result has no call before it, or a block stands in a message of a role that has none.
    """
    names = _Names(longest_id, longest_name)
    instructions: list[str] = []
    said: list[Said | _Exchange] = []
    latest: _Exchange | None = None
    for position, message in enumerate(messages):
        role, blocks = _parts_of(message, position)
        if role == "system":
            instructions += [_text_in(block, position, role) for block in blocks]
        elif role == "assistant":
            latest = _Exchange(message, [_spoken_block(block, position) for block in blocks], format, names)
            said.append(latest)
        else:
            rest: list[str | EncodedImage] = []
            for block in blocks:
                if hasattr(block, "call_id"):
                    _settle(latest, block, position)
                else:
                    rest.append(_said_block(block, position))
            kept = tuple(block for block in rest if not isinstance(block, str) or block.strip())
            said += [Said(kept)] if kept else []
    system = "\n\n".join(text for text in instructions if text.strip())
    return system or None, [part.spoken() if isinstance(part, _Exchange) else part for part in said]


@dataclass(slots=True, eq=False, repr=False)
class _Answer:
    """A result of a conversation, as the formats write it."""

    call: ToolCall
    content: str | Sequence[Any]
    is_error: bool
    images: Sequence[Any] = ()
    verdict: Any = None
    outcome: Any = None
    args_run: Any = ...
    value: Any = None


class _Names:
    """The names of tools and the ids of calls that one API takes; no two calls share an id that was made here."""

    def __init__(self, longest_id: int, longest_name: int) -> None:
        self._longest_name = longest_name
        self._accepted = re.compile(rf"[a-zA-Z0-9_-]{{1,{longest_id}}}")
        self._used: set[str] = set()
        self._messages = 0

    def adopt(self, calls: Iterable[ToolCall]) -> None:
        """Note the ids of a reply that goes back as it came."""
        self._used.update(call.id for call in calls)

    def adapted(self, calls: Sequence[ToolCall]) -> list[ToolCall]:
        """Return the calls of a message with ids and names that the API takes; the same ones in every request."""
        made = []
        for position, call in enumerate(calls):
            id = call.id
            if not self._accepted.fullmatch(id) or id in self._used:
                id = f"call_{self._messages}_{position}"
                while id in self._used:
                    id += "_"
            self._used.add(id)
            args, _ = read_object(call.args)
            made.append(ToolCall(accepted_tool_name(call.name, self._longest_name), args, id))
        self._messages += 1
        return made


class _Exchange:
    """A message of the model, with the results that have been found for its calls so far."""

    def __init__(self, message: MessageLike, blocks: list[str | ToolCall], format: str, names: _Names) -> None:
        reply = getattr(message, "reply", None)
        self._original = reply.original if isinstance(reply, Reply) and reply.format == format else None
        if isinstance(reply, Reply) and self._original is not None:
            self._own = list(reply.calls)
            self._written: Sequence[ToolCall] = self._own
            names.adopt(self._own)
        else:
            self._own = [block for block in blocks if isinstance(block, ToolCall)]
            self._written = names.adapted(self._own)
        written = iter(self._written)
        self._blocks = tuple(
            next(written) if isinstance(block, ToolCall) and self._original is None else block
            for block in blocks
            if isinstance(block, ToolCall) or block.strip()
        )
        self._results: list[_Answer | None] = [None] * len(self._own)
        self._waiting: defaultdict[str, deque[int]] = defaultdict(deque)
        for position, call in enumerate(self._own):
            self._waiting[call.id].append(position)
        self._in_order = deque(range(len(self._own)))

    def settle(self, block: Any) -> bool:
        """Keep a result; return False when no call waits for it."""
        position = self._next(block.call_id)
        if position is None:
            return False
        call, told = self._own[position], getattr(block, "result", None)
        # What a result says of an approval counts for the call that it is the result of, and for no other.
        if told is not None and not is_same_call(call, told.call):
            told = None
        self._results[position] = _Answer(
            self._written[position],
            block.content,
            block.is_error,
            getattr(block, "images", None) or (),
            getattr(told, "verdict", None),
            getattr(told, "outcome", None),
            getattr(told, "args_run", ...),
            getattr(told, "value", None),
        )
        return True

    def _next(self, id: str) -> int | None:
        """Return the position of the call that a result with this id belongs to."""
        for waiting in (self._waiting[id], self._waiting[""]) if id else (self._in_order,):
            while waiting:
                position = waiting.popleft()
                if self._results[position] is None:
                    return position
        return None

    def spoken(self) -> Spoken:
        results = [
            _Answer(call, _UNKNOWN_RESULT, is_error=True) if result is None else result
            for call, result in zip(self._written, self._results, strict=True)
        ]
        return Spoken(self._original, self._blocks, tuple(results))


def _settle(latest: _Exchange | None, block: Any, position: int) -> None:
    if latest is None or not latest.settle(block):
        raise ValueError(
            fix_message(
                f"message {position} has a result for which no call waits (call_id: {block.call_id!r})",
                "give the model's message with the calls before it, and one result a call",
                "messages = [*state.messages]",
            )
        )


def _parts_of(message: Any, position: int) -> tuple[str, Sequence[Any]]:
    role, content = getattr(message, "role", None), getattr(message, "content", None)
    if role not in ("system", "user", "assistant") or not isinstance(content, list | tuple):
        problem = f"message {position} of the conversation is no message (got: {type(message).__name__})"
        raise TypeError(fix_message(problem, "give Message objects", _EXAMPLE))
    return str(role), content


def _text_in(block: Any, position: int, role: str) -> str:
    text = getattr(block, "text", None)
    if isinstance(text, str):
        return text
    if isinstance(block, ToolCall) or hasattr(block, "call_id") or hasattr(block, "media_type"):
        problem = f"message {position}, which is of role {role!r}, has a {type(block).__name__}"
        raise ValueError(fix_message(problem, "put it into a message that may have it", _EXAMPLE))
    problem = f"message {position} has a block of an unknown kind (got: {type(block).__name__})"
    raise TypeError(fix_message(problem, "give texts, images, calls and results", _EXAMPLE))


def _spoken_block(block: Any, position: int) -> str | ToolCall:
    return block if isinstance(block, ToolCall) else _text_in(block, position, "assistant")


def _said_block(block: Any, position: int) -> str | EncodedImage:
    return encoded(block) if hasattr(block, "media_type") else _text_in(block, position, "user")
