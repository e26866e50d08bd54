"""A result as text, for APIs that take nothing else."""

from __future__ import annotations

from agentperm_nb.running.formats.fields import field
from agentperm_nb.running.formats.reply import ResultLike

__all__ = ["error_text", "plain_text", "text_parts"]


def text_parts(result: ResultLike) -> list[str]:
    """Return the texts of a result that is a list of blocks; for any other block a line says what was left out."""
    texts = []
    for block in result.content:
        kind, text = field(block, "type"), field(block, "text")
        texts.append(text if kind == "text" and isinstance(text, str) else f"[{kind or 'a part'} left out: text only]")
    return texts


def plain_text(result: ResultLike) -> str:
    """Return the result as one text."""
    return result.content if isinstance(result.content, str) else "\n".join(text_parts(result))


def error_text(result: ResultLike) -> str:
    """Return the result as one text that begins with ``Error: `` if it is an error."""
    text = plain_text(result)
    return f"Error: {text}" if result.is_error else text
