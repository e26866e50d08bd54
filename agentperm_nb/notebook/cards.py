"""Cards: what the panel draws, as plain data.

A card is a dict that goes to the page as JSON. Its ``body`` is a list of nodes; the page knows how to draw these kinds
and no other, always as text:

- ``badges``: short remarks, each with a tone
- ``facts``: rows of a label and a text, in small print
- ``notice``: a sentence to be noticed, with a tone
- ``table``: rows of a name and a value node
- ``value``: a short value on one line
- ``code``: a long value, which scrolls, with its size
- ``text``: a paragraph

Every text has gone through `render.visible` here, so the page draws what it is given. The edit field's text is the one
exception: it is JSON with escapes instead of what cannot be seen (`approvals.editing`).
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from agentperm_nb.approvals.desk import Answer
from agentperm_nb.approvals.editing import edit_text
from agentperm_nb.approvals.facts import agent_text, badges, clock, ordered_args, ran_before_text, rule_text
from agentperm_nb.approvals.requests import ApprovalRequest
from agentperm_nb.human import describe_choices
from agentperm_nb.render import shorten, visible

__all__ = ["Node", "answer_word", "approval_card", "call_text", "choices_of", "question_card"]

Node = dict[str, Any]
_HEADING = 300
_INLINE = 120
_IN_A_LINE = 160  # characters of one value where a call is told in a line
_MOST = 200_000  # characters of one value; what is more is counted, and such a call cannot be edited in the page

_ACTIONS: list[Node] = [
    {"action": "approve", "label": "Approve", "look": "primary"},
    {"action": "edit", "label": "Edit…", "look": "plain"},
    {"action": "deny", "label": "Deny", "look": "plain"},
    {"action": "deny_stop", "label": "Deny and stop", "look": "stop"},
]


def approval_card(request: ApprovalRequest, *, settled: Node | None = None) -> Node:
    """Return the card of a request.

    Args:
        request: The request.
        settled: What became of it, ``{"tone": …, "text": …}``, when it no longer waits.
    """
    if settled is not None:
        return {"id": request.id, "form": "settled", "name": visible(request.call.name), **settled}
    edit = edit_text(request)
    editable = len(edit) <= _MOST
    return {
        "id": request.id,
        "form": "approval",
        "name": visible(request.call.name),
        "server": visible(request.tool.server) if request.tool.server else "",
        "title": visible(shorten(request.question, _HEADING)),
        "plain": request.question in (f"Run {request.call.name}?", f"Run {request.call.name}(…)?"),
        "waited": _waited(request.asked_at),
        "badges": [
            {"text": visible(badge.text), "tone": badge.tone, "about": badge.about} for badge in badges(request)
        ],
        "body": _body(request) if editable else [*_body(request), _no_edit(len(edit))],
        "edit": edit if editable else None,
        "actions": [action for action in _ACTIONS if editable or action["action"] != "edit"],
    }


def question_card(question_id: str, prompt: str, returns: Any, asked_at: datetime) -> Node:
    """Return the card of a plain question; its buttons are the choices, or it has a field for a text."""
    choices = describe_choices(returns)
    return {
        "id": question_id,
        "form": "question",
        "name": "a question",
        "title": visible(prompt),
        "waited": _waited(asked_at),
        "body": [],
        "choices": None if choices is None else [visible(choice) for choice in choices_of(returns)],
    }


def choices_of(returns: Any) -> list[str]:
    """Return the texts of the choices of a `bool` or `Literal` question, in order."""
    from typing import get_args

    return ["yes", "no"] if returns is bool else [str(option) for option in get_args(returns)]


def answer_word(answer: Answer) -> str:
    """Return an answer in a word or three: ``approved``, ``approved with changes``, ``denied``, …"""
    decision = answer.decision
    if decision.edited_args is not None:
        word = "approved with changes"
    elif decision.allows:
        word = "approved"
    else:
        word = "denied, turn stopped" if decision.stop else "denied"
    return f"{word}, remembered" if decision.remembers else word


def call_text(request: ApprovalRequest, limit: int = 400) -> str:
    """Return the call with its shown arguments in one line; what is left out of a value or the whole is counted."""
    args = ", ".join(
        f"{name}={shorten(visible(_json(value)), _IN_A_LINE)}" for name, value in request.shown_args.items()
    )
    return shorten(f"{request.call.name}({args})", limit)


def _body(request: ApprovalRequest) -> list[Node]:
    body: list[Node] = []
    before = ran_before_text(request)
    if before:
        body.append({"kind": "notice", "tone": "caution", "text": before})
    if request.shown_args:
        rows = [
            {"name": visible(name) or "(empty name)", "value": _value(name, value)}
            for name, value in ordered_args(request)
        ]
        body.append({"kind": "table", "rows": rows})
    else:
        body.append({"kind": "text", "text": "No arguments."})
    facts = [{"label": "Rule", "text": visible(rule_text(request))}]
    if request.agent_path:
        facts.insert(0, {"label": "Agent", "text": visible(agent_text(request))})
    if request.user:
        facts.append({"label": "User", "text": visible(request.user)})
    facts.append({"label": "Asked", "text": clock(request.asked_at, seconds=True)})
    if request.expires_at is not None:
        facts.append({"label": "Expires", "text": clock(request.expires_at, seconds=True)})
    body.append({"kind": "facts", "facts": facts})
    return body


def _no_edit(size: int) -> Node:
    text = (
        f"These arguments cannot be edited here: they have {size:,} characters, and a page can take {_MOST:,} at most."
    )
    return {"kind": "notice", "tone": "plain", "text": text}


def _value(name: str, value: Any) -> Node:
    if isinstance(value, str):
        if not value:
            return {"kind": "value", "text": "", "type": "empty text"}
        return _text_value(name, value, "")
    if isinstance(value, dict | list):
        flat = _json(value)
        kind = "object" if isinstance(value, dict) else "list"
        if len(flat) <= _INLINE:
            return {"kind": "value", "text": visible(flat), "type": kind}
        return _text_value(name, json.dumps(value, indent=2, ensure_ascii=False, default=repr), kind)
    kind = "boolean" if isinstance(value, bool) else "no value" if value is None else "number"
    return _text_value(name, _json(value), kind)


def _text_value(name: str, text: str, kind: str) -> Node:
    shown = visible(shorten(text, _MOST))
    if len(shown) <= _INLINE and "\n" not in shown:
        return {"kind": "value", "text": shown, "type": kind}
    lines = text.count("\n") + 1
    size = f"{lines:,} line{'s' if lines > 1 else ''}, {len(text):,} characters"
    return {"kind": "code", "text": shown, "type": kind, "size": size, "label": f"{visible(name)}, {size}"}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)


def _waited(since: datetime) -> int:
    # How long ago by this machine's clock, in milliseconds: the page's clock may be another.
    return max(0, int((datetime.now(UTC) - since).total_seconds() * 1000))
