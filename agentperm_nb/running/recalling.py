"""Remembered answers in a turn: looked up where somebody would be asked, kept when one is given.

1. An answer stands in for whoever gave it: it is looked up for the one who would be asked now.
2. Where a second person is needed, an allow counts only if another person gave it. Of a call that would write a
   protected path, only one for this very call counts.
3. A scope that names an argument which the tool does not have is not kept: it would cover calls that nobody meant.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from agentperm_nb.approvals.decisions import ApprovalDecision, Scope
from agentperm_nb.approvals.desk import Answer
from agentperm_nb.approvals.memory import Remembered, covers_text
from agentperm_nb.approvals.requests import Approver
from agentperm_nb.calls import ToolCall
from agentperm_nb.errors import warn_user
from agentperm_nb.permissions.kinds import AskFirst
from agentperm_nb.permissions.second_person import second_person_problem
from agentperm_nb.running.items import CallItem
from agentperm_nb.running.ledger import Ledger
from agentperm_nb.running.nesting import asks_for
from agentperm_nb.tools import Tool

__all__ = ["answer_of", "keep", "recall", "whom_to_ask"]


def whom_to_ask(turn: Ledger, item: CallItem) -> Approver:
    """Return who answers the request of a call that is asked about."""
    asked = asks_for(item.request_permission, turn.engine, turn.above, item.said)
    return asked.approver_for(item.request_permission, item.said)


def recall(turn: Ledger, item: CallItem, approver: Approver) -> Remembered | None:
    """Return the remembered answer that holds for a call which `approver` would be asked about, or None."""
    return turn.engine.memory.look_up(
        turn.context, item.call, approver, counts=partial(_counts, item, turn.context.user_id)
    )


def _counts(item: CallItem, user: str | None, allowing: Remembered) -> bool:
    if isinstance(item.request_permission, AskFirst) and allowing.scope.covers != "call":
        return False
    return second_person_problem(item.request_permission, allowing.approver, user) is None


def answer_of(remembered: Remembered) -> Answer:
    """Return a remembered answer as the answer to a request."""
    if remembered.allow:
        decision = ApprovalDecision("allow", reason=remembered.reason)
    else:
        decision = ApprovalDecision("deny", reason=remembered.reason or "Denied by a remembered decision.")
    return Answer(decision, answered_by="memory", approver=remembered.approver, via=remembered.from_call)


def keep(turn: Ledger, item: CallItem, answer: Answer, approver: Approver) -> None:
    """Remember the answer to a call; with an edit, for the edited call.

    Raises:
        Warning: The user's filters make an error of the warning that it cannot be remembered.
    """
    assert item.tool is not None
    scope, recorder = answer.decision.scope or Scope(), turn.recorder
    missing = _missing(item.tool, item.final, scope.arguments)
    if missing is not None:
        there = ", ".join(_properties(item.tool)) or "none"
        warn_user(
            f"{item.call.name} has no argument {recorder.text(repr(missing), item)}, so the answer counts for this "
            f"call only and was not remembered. Its arguments: {there}"
        )
        return
    shown = item.shown_args if item.edited is None else recorder.masked(item)
    kept = turn.engine.memory.remember(
        turn.context,
        item.final,
        scope,
        allow=answer.decision.allows,
        asked=approver,
        covers=recorder.text(covers_text(scope, item.call.name, shown), item),
        approver=answer.approver,
        from_call=item.call_key,
        reason=answer.decision.reason,
    )
    recorder.hold(
        "remembered",
        item,
        answer,
        number=kept.number,
        allow=kept.allow,
        about=kept.covers,
        covers=scope.covers,
        lasts=scope.lasts,
        arguments=list(scope.arguments),
    )


def _missing(tool: Tool, call: ToolCall, names: Iterable[str]) -> str | None:
    """Return the first name that is neither in the tool's schema nor in the call."""
    # A schema that is open to other arguments makes no difference: to "have" a name that nobody knows is a slip of the
    # pen, and every call without it would be covered.
    properties = _properties(tool)
    return next((name for name in names if name not in properties and name not in call.args), None)


def _properties(tool: Tool) -> Iterable[str]:
    properties = tool.input_schema.get("properties", {})
    return properties if isinstance(properties, dict) else {}
