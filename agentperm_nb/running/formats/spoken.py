"""What the model says in a reply, beside its calls, and whether it has said all of it.

1. Pieces of one text are joined as they are. Texts with something between them, such as a search that ran at the
   provider, are paragraphs. A refusal is a text too.
2. A reply was cut off when its provider says that it ended for want of room, or by a filter.
3. A paused reply is gone on with by giving it back.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from agentperm_nb.running.formats.fields import field
from agentperm_nb.running.formats.reply import Reply

__all__ = ["is_paused", "read_text", "why_cut"]

_PAUSED = ("pause_turn", "compaction")
# A stop sequence is the caller's own wish; null is of a stream that had not ended, of which nothing is known.
_ENDED = (None, "end_turn", "tool_use", "stop_sequence", *_PAUSED)


def read_text(reply: Reply) -> str:
    """Return the texts of a reply."""
    format, original = reply.format, reply.original
    if format == "anthropic":
        listed = isinstance(original, list | tuple)
        return _text(original if listed else field(original, "content"))
    if format == "openai-chat":
        message = field(_choice(original), "message") or _choice(original)
        return _joined([_text(field(message, "content")), field(message, "refusal")])
    if format == "openai-responses":
        items = original if isinstance(original, list | tuple) else field(original, "output")
        return _joined(_text(field(item, "content")) for item in items or () if field(item, "type") == "message")
    return ""


def why_cut(reply: Reply) -> str | None:
    """Return why a reply ended too early, in the provider's words; None for a whole one, or where it does not tell."""
    format, original = reply.format, reply.original
    if isinstance(original, list | tuple):
        return None
    if format == "anthropic":
        reason = field(original, "stop_reason")
        return None if reason in _ENDED else f"stop_reason: {reason}"
    if format == "openai-chat":
        reason = field(_choice(original), "finish_reason")
        return f"finish_reason: {reason}" if reason in ("length", "content_filter") else None
    if format == "openai-responses" and field(original, "status") == "incomplete":
        return f"incomplete: {field(field(original, 'incomplete_details'), 'reason') or 'no reason given'}"
    return None


def is_paused(reply: Reply) -> bool:
    """Return whether the provider waits for its reply to be given back, to go on with it."""
    return reply.format == "anthropic" and field(reply.original, "stop_reason") in _PAUSED


def _choice(original: Any) -> Any:
    choices = field(original, "choices")
    return choices[0] if isinstance(choices, list | tuple) and choices else original


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = [_part(part) for part in content] if isinstance(content, list | tuple) else []
    together = groupby(parts, key=lambda text: text is not None)
    return _joined("".join(text for text in texts if text) for spoken, texts in together if spoken)


def _part(part: Any) -> str | None:
    """Return the text of a block; None when it is something else, which stands between two texts."""
    kind = field(part, "type")
    text = field(part, {"text": "text", "output_text": "text", "refusal": "refusal"}.get(kind, ""))
    return text if isinstance(text, str) else None


def _joined(texts: Iterable[Any]) -> str:
    """Return the texts as paragraphs."""
    return "\n\n".join(text for text in texts if isinstance(text, str) and text)
