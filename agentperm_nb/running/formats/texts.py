"""A result as text, for APIs that take nothing else."""

from __future__ import annotations

from agentperm_nb.running.formats.fields import field
from agentperm_nb.running.formats.images import left_out
from agentperm_nb.running.formats.reply import ResultLike

__all__ = ["as_error", "error_text", "own_text", "part_text", "plain_text", "text_parts"]


def part_text(block: object) -> str:
    """Return the text of a block; for any other block a line that says what was left out."""
    kind, text = field(block, "type"), field(block, "text")
    return text if kind == "text" and isinstance(text, str) else f"[{kind or 'a part'} left out: text only]"


def text_parts(result: ResultLike) -> list[str]:
    """Return the texts of a result that is a list of blocks, and a line for its images."""
    return [*map(part_text, result.content), *left_out(result)]


def own_text(result: ResultLike) -> str:
    """Return the result as one text, without a word about its images."""
    return result.content if isinstance(result.content, str) else "\n".join(map(part_text, result.content))


def plain_text(result: ResultLike) -> str:
    """Return the result as one text; a line says how many images were left out."""
    missing = left_out(result)
    text = own_text(result)
    return "\n".join([text, *missing] if text else missing) if missing else text


def error_text(result: ResultLike) -> str:
    """Return the result as one text that begins with ``Error: `` if it is an error."""
    return as_error(plain_text(result), result)


def as_error(text: str, result: ResultLike) -> str:
    """Return the text, with ``Error: `` before it if the result is an error."""
    return f"Error: {text}" if result.is_error else text
