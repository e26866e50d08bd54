"""Edited arguments: the text that a person edits, what it stands for, and what it changes.

1. The text is JSON. A character that would not be seen is written as a JSON escape, so nothing hides in an editor and
   the text still stands for the same value.
2. A text that cannot be sent is an `EditError` which says where and why: not JSON, a name given twice, NaN, no object,
   a masked value that cannot be told, or arguments that do not fit the tool.
3. What an edit changes is told with secrets masked, before and after.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentperm_nb.approvals.decisions import ApprovalDecision
from agentperm_nb.approvals.requests import ApprovalRequest, EditError
from agentperm_nb.json_values import same_json
from agentperm_nb.masking import is_secret_name
from agentperm_nb.redaction import Redactor
from agentperm_nb.render import MASK, visible

__all__ = ["changes", "decision_of", "edit_text", "parse_edit"]


def edit_text(request: ApprovalRequest, *, indent: int | None = 2) -> str:
    """Return the request's shown arguments as JSON to edit, on one line with ``indent=None``."""
    text = json.dumps(request.shown_args, indent=indent, ensure_ascii=False, default=repr)
    return text if text.isascii() else "".join(map(_seen, text))


def _seen(char: str) -> str:
    if char.isascii() or visible(char) == char:
        return char
    return json.dumps(char)[1:-1]


def parse_edit(request: ApprovalRequest, text: str) -> dict[str, Any]:
    """Return the arguments that an edited text stands for, with masked values put back.

    Raises:
        EditError: The text cannot be sent; see rule 2 above.
    """
    try:
        edited = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise EditError([("", f"not JSON: {error.msg} ({where})")]) from None
    except _NotUsableError as error:
        raise EditError([("", str(error))]) from None
    except (ValueError, RecursionError):  # a number of thousands of digits, or nesting without end
        raise EditError([("", "a number is too long, or the nesting too deep")]) from None
    if not isinstance(edited, dict):
        raise EditError([("", 'the arguments are a JSON object: {"name": value, …}')])
    return request.restore(edited)


class _NotUsableError(Exception):
    """JSON that Python reads and that has no single meaning."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _NotUsableError(f"the name {visible(name)!r} stands twice in one object")
        found[name] = value
    return found


def _no_constant(name: str) -> Any:
    raise _NotUsableError(f"{name} is not JSON")


def decision_of(request: ApprovalRequest, text: str, *, reason: str | None = None) -> ApprovalDecision:
    """Return the decision that an edited text stands for: an edit, or an allow when it changes nothing.

    Raises:
        EditError: The text cannot be sent; see rule 2 above.
    """
    edited = parse_edit(request, text)
    if same_json(request.call.args, edited):
        return ApprovalDecision("allow", reason=reason)
    return ApprovalDecision("edit", edited_args=edited, reason=reason)


def changes(request: ApprovalRequest, edited: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return what an edit changes as (field, before, after) texts, secrets masked, in the order of the fields.

    A field that was added has the before ``(not there)``; one that was left out has the after ``(left out)``.
    """
    found: list[tuple[str, str, str]] = []
    _compare(request.call.args, edited, request.shown_args, "", frozenset(request.tool.secret), found)
    return found


def _compare(
    real: Any, edited: Any, shown: Any, path: str, secret: frozenset[str], found: list[tuple[str, str, str]]
) -> None:
    if same_json(real, edited):
        return
    if isinstance(real, Mapping) and isinstance(edited, Mapping):
        before = shown if isinstance(shown, Mapping) else {}
        for name in [*real, *(name for name in edited if name not in real)]:
            field = f"{path}.{name}" if path else str(name)
            hide = name in secret or is_secret_name(str(name))
            if name not in edited:
                found.append((field, _text(before.get(name, MASK)), "(left out)"))
            elif name not in real:
                found.append((field, "(not there)", MASK if hide else _masked(edited[name], secret)))
            elif hide:
                if not same_json(real[name], edited[name]):
                    found.append((field, MASK, f"{MASK} (another value)"))
            else:
                _compare(real[name], edited[name], before.get(name, MASK), field, secret, found)
        return
    found.append((path, _text(shown), _masked(edited, secret)))


def _masked(value: Any, secret: frozenset[str]) -> str:
    return _text(Redactor().value(value, secret=secret))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=repr)
