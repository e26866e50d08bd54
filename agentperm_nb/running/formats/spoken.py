"""What the model says in a reply, beside its calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentperm_nb.running.formats.fields import field
from agentperm_nb.running.formats.reply import Reply

__all__ = ["read_text"]


def read_text(reply: Reply) -> str:
    """Return the texts of a reply, one after the other; a refusal is a text too."""
    return "".join(text for text in _texts(reply.format, reply.original) if isinstance(text, str))


def _texts(format: str, original: Any) -> Iterator[Any]:
    if format == "anthropic":
        content = original if isinstance(original, list | tuple) else field(original, "content")
        yield from [content] if isinstance(content, str) else _parts(content)
    elif format == "openai-chat":
        choices = field(original, "choices")
        choice = choices[0] if isinstance(choices, list | tuple) and choices else original
        message = field(choice, "message") or choice
        content = field(message, "content")
        yield from [content] if isinstance(content, str) else _parts(content)
        yield field(message, "refusal")
    elif format == "openai-responses":
        items = original if isinstance(original, list | tuple) else field(original, "output")
        for item in items or ():
            if field(item, "type") == "message":
                yield from _parts(field(item, "content"))


def _parts(content: Any) -> Iterator[Any]:
    for part in content if isinstance(content, list | tuple) else ():
        kind = field(part, "type")
        if kind in ("text", "output_text"):
            yield field(part, "text")
        elif kind == "refusal":
            yield field(part, "refusal")
