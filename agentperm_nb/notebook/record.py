"""The record: what stays in the notebook when the panel is over.

1. It is plain text and plain HTML, without widgets and scripts: it reads the same in a saved notebook, on a page that
   shows notebooks, and in print.
2. It says of each request who decided what, when, after how long, what an edit changed, and the reason given.
3. Every text is made harmless by `agentperm_nb.render`, and secrets are masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from agentperm_nb.approvals.desk import Answer
from agentperm_nb.approvals.editing import changes
from agentperm_nb.approvals.facts import clock
from agentperm_nb.approvals.requests import ApprovalRequest
from agentperm_nb.notebook.cards import answer_word, call_text
from agentperm_nb.redaction import mask_text
from agentperm_nb.render import escape, shorten, table_html, visible

__all__ = ["Entry", "note_bundle", "question_bundle", "record_bundle", "waiting_bundle"]

_COLUMNS = ("Call", "Answer", "By", "At", "After", "Reason and changes")
_LONGEST = 400  # characters of one text; what is left out is counted
_MARKS = {True: "✓", False: "✕", None: "–"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A request and what became of it."""

    request: ApprovalRequest
    at: datetime
    """When it stopped waiting."""
    answer: Answer | None = None
    """The answer that counted, if there was one."""
    why: str = ""
    """Without an answer: what happened instead."""


def record_bundle(entries: Sequence[Entry]) -> dict[str, str]:
    """Return the record as MIME type to text, for ``display(..., raw=True)``."""
    rows = [_row(entry) for entry in entries]
    count = len(entries)
    allowed = sum(entry.answer is not None and entry.answer.decision.allows for entry in entries)
    caption = f"Approvals: {allowed} of {count} call{'s' if count != 1 else ''} approved"
    html = table_html(_COLUMNS, rows, caption=caption)
    return {"text/plain": "\n".join([caption, *map(_line, rows)]), "text/html": html}


def question_bundle(prompt: str, answer: object, asked_at: datetime, at: datetime, by: str) -> dict[str, str]:
    """Return the record of a plain question; `answer` is None when there was none."""
    said = "no answer" if answer is None else mask_text(str(answer))
    when = [clock(at, seconds=True), _after(asked_at, at)]
    row = [shorten(mask_text(prompt), _LONGEST), shorten(said, _LONGEST), by, *when]
    text = f"{row[0]}: {row[1]} ({f'{by}, ' if by else ''}{row[3]}, after {row[4]})"
    html = table_html(("Question", "Answer", "By", "At", "After"), [row])
    return {"text/plain": visible(text), "text/html": html}


def waiting_bundle(names: Sequence[str], asked_at: datetime) -> dict[str, str]:
    """Return what stands in the output beside the widget while it waits, for pages that cannot show the widget."""
    what = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return note_bundle(f"Asked at {clock(asked_at, seconds=True)} about {what}; the answers are in agent.turns.")


def note_bundle(text: str) -> dict[str, str]:
    """Return one plain line as a bundle."""
    style = "font-size:var(--jp-ui-font-size1,13px);color:var(--jp-ui-font-color2,inherit)"
    return {"text/plain": visible(text), "text/html": f'<div style="{style}">{escape(text)}</div>'}


def _row(entry: Entry) -> list[str]:
    request, answer = entry.request, entry.answer
    after = _after(request.asked_at, entry.at)
    at = clock(entry.at, seconds=True)
    call = call_text(request, _LONGEST)
    if answer is None:
        return [call, f"{_MARKS[None]} {entry.why or 'not answered'}", "", at, after, ""]
    decision = answer.decision
    notes = [shorten(mask_text(decision.reason), _LONGEST).replace("\n", "⏎")] if decision.reason else []
    if decision.edited_args is not None:
        notes += [
            f"{field}: {shorten(before, _LONGEST)} → {shorten(now, _LONGEST)}"
            for field, before, now in changes(request, decision.edited_args)
        ]
    word = f"{_MARKS[decision.allows]} {answer_word(answer)}"
    by = answer.approver or answer.answered_by
    via = f"{by} ({answer.via})" if answer.via and answer.via != "panel" else by
    return [call, word, via, at, after, "\n".join(notes)]


def _line(row: Sequence[str]) -> str:
    call, answer, by, at, after, notes = row
    line = f"{answer[:1]} {call}: {answer[2:]}{f' by {by}' if by else ''} at {at}, after {after}"
    shown = visible(line).replace("\n", "⏎")
    return "\n".join([shown, *(f"    {visible(note)}" for note in notes.split("\n") if note)])


def _after(start: datetime, end: datetime) -> str:
    seconds = max(0.0, (end - start).total_seconds())
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"
