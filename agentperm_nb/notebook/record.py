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
from typing import Any

from agentperm_nb.approvals.desk import Answer
from agentperm_nb.approvals.editing import changes
from agentperm_nb.approvals.facts import clock
from agentperm_nb.approvals.requests import ApprovalRequest
from agentperm_nb.masking import mask_text
from agentperm_nb.notebook.cards import answer_word, call_text
from agentperm_nb.render import escape, shorten, visible

__all__ = ["Entry", "Record", "note_bundle", "question_record", "requests_record", "waiting_bundle"]

_LONGEST = 400  # characters of one text; what is left out is counted
_WRAP = "white-space:pre-wrap;overflow-wrap:anywhere"
_TABLE = (
    "border-collapse:collapse;margin:4px 0;font-size:var(--jp-ui-font-size1,13px);line-height:1.45;"
    "color:var(--jp-ui-font-color1,inherit);background:transparent"
)
_CAPTION = "caption-side:top;text-align:left;font-weight:600;padding:2px 0 4px;color:inherit"
_CELL = (
    "text-align:left;vertical-align:top;padding:5px 16px 5px 0;border:none;"
    "border-top:1px solid var(--jp-border-color2,#8886)"
)
_CODE = f"{_WRAP};padding:0;color:inherit;background:none"
_FAINT = "color:var(--jp-ui-font-color2,inherit)"


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


@dataclass(frozen=True, slots=True)
class Record:
    """What is left of a panel, in the two forms in which a page takes it."""

    bundle: dict[str, str]
    """MIME type to text, for ``display(..., raw=True)``: what the notebook keeps."""
    node: dict[str, Any]
    """Plain texts, for a page that cannot take the bundle because it was reloaded meanwhile."""


def requests_record(entries: Sequence[Entry]) -> Record:
    """Return the record of requests."""
    count = len(entries)
    allowed = sum(entry.answer is not None and entry.answer.decision.allows for entry in entries)
    caption = f"Approvals: {allowed} of {count} call{'s' if count != 1 else ''} approved"
    lines = [_Line.of(entry) for entry in entries]
    bundle = {
        "text/plain": "\n".join([caption, *(line.text() for line in lines)]),
        "text/html": _table(caption, [line.html() for line in lines]),
    }
    return Record(bundle, _node(caption, lines))


def question_record(prompt: str, answer: object, asked_at: datetime, at: datetime, by: str) -> Record:
    """Return the record of a plain question; `answer` is None when there was none."""
    said = "– no answer" if answer is None else f"✓ {mask_text(str(answer))}"
    who = f"by {by} " if by else ""
    when = f"{who}at {clock(at, seconds=True)}, after {_after(asked_at, at)}"
    line = _Line(shorten(said, _LONGEST), shorten(mask_text(prompt), _LONGEST), when, ())
    bundle = {"text/plain": line.text(), "text/html": _table("Question", [line.html()])}
    return Record(bundle, _node("Question", [line]))


def waiting_bundle(names: Sequence[str], asked_at: datetime) -> dict[str, str]:
    """Return what stands in the output beside the widget while it waits, for pages that cannot show the widget."""
    what = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return note_bundle(f"Asked at {clock(asked_at, seconds=True)} about {what}; the answers are in agent.turns.")


def note_bundle(text: str) -> dict[str, str]:
    """Return one plain line as a bundle."""
    style = f"font-size:var(--jp-ui-font-size1,13px);{_FAINT}"
    return {"text/plain": visible(text), "text/html": f'<div style="{style}">{escape(text)}</div>'}


@dataclass(frozen=True, slots=True)
class _Line:
    answer: str
    call: str
    when: str
    notes: tuple[str, ...]

    @classmethod
    def of(cls, entry: Entry) -> _Line:
        request, answer = entry.request, entry.answer
        when = f"at {clock(entry.at, seconds=True)}, after {_after(request.asked_at, entry.at)}"
        call = call_text(request, _LONGEST)
        if answer is None:
            return cls(f"– {entry.why or 'not answered'}", call, when, ())
        decision = answer.decision
        notes = [f"Reason: {shorten(mask_text(decision.reason), _LONGEST)}"] if decision.reason else []
        if decision.edited_args is not None:
            notes += [
                f"{field}: {shorten(before, _LONGEST)} → {shorten(now, _LONGEST)}"
                for field, before, now in changes(request, decision.edited_args)
            ]
        by = f"by {answer.approver or answer.answered_by}"
        via = f" ({answer.via})" if answer.via not in ("", "panel") else ""
        mark = "✓" if decision.allows else "✕"
        return cls(f"{mark} {answer_word(answer)}", call, f"{by}{via} {when}", tuple(notes))

    def text(self) -> str:
        first = f"{self.answer[:1]} {self.call}: {self.answer[2:]} {self.when}"
        return "\n".join([_one_line(first), *(f"    {_one_line(note)}" for note in self.notes)])

    def node(self) -> dict[str, Any]:
        notes = [visible(note) for note in self.notes]
        return {"answer": visible(self.answer), "call": visible(self.call), "notes": notes, "when": self.when}

    def html(self) -> str:
        notes = "".join(f'<div style="{_WRAP}">{escape(note)}</div>' for note in self.notes)
        return (
            f'<tr style="background:transparent"><td style="{_CELL};white-space:nowrap">{escape(self.answer)}</td>'
            f'<td style="{_CELL}"><code style="{_CODE}">{escape(self.call)}</code>{notes}'
            f'<div style="{_FAINT}">{escape(self.when)}</div></td></tr>'
        )


def _table(caption: str, rows: Sequence[str]) -> str:
    # Looks come with each element, since nothing else goes where a notebook is shown without its front end.
    return (
        f'<table style="{_TABLE}"><caption style="{_CAPTION}">{escape(caption)}</caption>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )


def _node(caption: str, lines: Sequence[_Line]) -> dict[str, Any]:
    return {"caption": caption, "lines": [line.node() for line in lines]}


def _one_line(text: str) -> str:
    return visible(text).replace("\n", "⏎")


def _after(start: datetime, end: datetime) -> str:
    seconds = max(0.0, (end - start).total_seconds())
    if seconds < 60:
        return f"{seconds:.1f} s"
    return f"{int(seconds // 60)} min {int(seconds % 60):02d} s"
