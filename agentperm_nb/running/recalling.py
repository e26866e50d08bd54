"""Remembered answers in a turn: looked up where somebody would be asked, kept when one is given.

1. An answer stands in for whoever gave it: it is looked up for the one who would be asked now.
2. Where a second person is needed, an allow counts only if another person gave it. Of a call that would write a
   protected path, only one for this very call counts.
3. A scope that names an argument which the tool does not have is not kept: it would cover calls that nobody meant. Nor
   is a rule that does not cover the very call it came from: one would be asked about that again, for ever.
4. A rule for a file goes into the policy file of the project, as it was shown, or nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from agentperm_nb.permissions.arguments import ArgumentRule

__all__ = ["answer_of", "keep", "recall", "whom_to_ask"]


def whom_to_ask(turn: Ledger, item: CallItem) -> Approver:
    """Return who answers the request of a call that is asked about."""
    asked = asks_for(item.request_permission, turn.engine, turn.above, item.said)
    return asked.approver_for(item.request_permission, item.said)


def recall(turn: Ledger, item: CallItem, approver: Approver) -> Remembered | None:
    """Return the remembered answer that holds for a call which `approver` would be asked about, or None."""
    return turn.engine.memory.look_up(
        turn.context, item.call, approver, tool=item.tool, counts=partial(_counts, item, turn.context.users)
    )


def _counts(item: CallItem, users: tuple[str | None, ...], allowing: Remembered) -> bool:
    if isinstance(item.request_permission, AskFirst) and allowing.scope.covers != "call":
        return False
    return second_person_problem(item.request_permission, allowing.approver, *users) is None


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
    scope, recorder, allow = answer.decision.scope or Scope(), turn.recorder, answer.decision.allows
    rule = scope.permission(allow=allow) if scope.covers == "pattern" else None
    problem, more = _problem(turn, item, scope, rule)
    if not problem and rule is not None and scope.lasts == "file":
        problem = _into_file(turn, item, answer, scope, rule)
        if not problem:
            return
    if problem:
        text = f"{problem}, so the answer counts for this call only and was not remembered{more}"
        warn_user(recorder.text(text, item))
        return
    shown = item.shown_args if item.edited is None else recorder.masked(item)
    kept = turn.engine.memory.remember(
        turn.context,
        item.final,
        scope,
        allow=allow,
        asked=approver,
        covers=recorder.text(covers_text(scope, item.call.name, shown), item),
        approver=answer.approver,
        from_call=item.call_key,
        reason=answer.decision.reason or (None if rule is None else rule.reason),
        rule=None if rule is None else recorder.text(str(rule), item),
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
        **({} if kept.rule is None else {"rule": kept.rule}),
    )


def _problem(turn: Ledger, item: CallItem, scope: Scope, rule: ArgumentRule | None) -> tuple[str, str]:
    """Return why an answer is not kept, and what else to know; empty texts where it is."""
    assert item.tool is not None
    missing = _missing(item.tool, item.final, scope.arguments)
    if missing is not None:
        there = ", ".join(_properties(item.tool)) or "none"
        return f"{item.call.name} has no argument {missing!r}", f". Its arguments: {there}"
    if rule is None:
        return "", ""
    from agentperm_nb.approvals.scopes import covering_problem

    turn.context.links.clear()  # a link may lead elsewhere by now
    problem = covering_problem(rule, item.final, item.tool)
    if problem:
        return f"{rule.notation} does not cover the very call it came from ({problem})", ""
    if item.protected and rule.verb == "allow":
        return f"each call that would write a protected path is asked about, whatever {rule.notation} says", ""
    return "", ""


def _into_file(turn: Ledger, item: CallItem, answer: Answer, scope: Scope, rule: ArgumentRule) -> str:
    """Put a rule into the policy file; return why it could not be, or an empty text."""
    recorder, text = turn.recorder, str(rule)
    if recorder.text(text, item) != text:
        return "the rule holds what is masked, and a file would show it"
    filed = turn.engine.file_rule(rule, item.request_permission, answer.approver)
    if filed.problem:
        return filed.problem
    recorder.hold(
        "remembered",
        item,
        answer,
        number=None,
        allow=rule.verb == "allow",
        about=covers_text(scope, item.call.name, item.shown_args),
        covers=scope.covers,
        lasts=scope.lasts,
        arguments=[],
        rule=text,
        file=recorder.text(filed.file),
    )
    return ""


def _missing(tool: Tool, call: ToolCall, names: Iterable[str]) -> str | None:
    """Return the first name that is neither in the tool's schema nor in the call."""
    # A schema that is open to other arguments makes no difference: to "have" a name that nobody knows is a slip of the
    # pen, and every call without it would be covered.
    properties = _properties(tool)
    return next((name for name in names if name not in properties and name not in call.args), None)


def _properties(tool: Tool) -> Iterable[str]:
    properties = tool.input_schema.get("properties", {})
    return properties if isinstance(properties, dict) else {}
