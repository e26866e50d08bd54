"""Why a call would be decided as it would: read from the trace of the decision, nobody is asked and nothing runs."""

from __future__ import annotations

from dataclasses import dataclass

from agentperm_nb.calls import ToolCall
from agentperm_nb.permissions.deciding import Decision, PermissionList
from agentperm_nb.permissions.verdicts import Allowed, Ask, Denied
from agentperm_nb.redaction import Redactor
from agentperm_nb.render import shorten, table_html, table_text, visible

__all__ = ["Explanation", "explanation_of"]

_COLUMNS = ("", "permission", "kind", "says")


@dataclass(frozen=True)
class Explanation:
    """Who would decide a call, and why."""

    call: str
    """The call as text, secrets masked."""
    verdict: str
    """``allowed``, ``denied``, ``asked`` or ``input_error``."""
    decided_by: str | None
    """Name of the permission that would decide."""
    reason: str
    """The reason it would give, or what is wrong with the call."""
    rows: tuple[tuple[str, str, str, str], ...]
    """One row a permission, in the order of asking: (mark, name, kind, what it said or why it was not asked)."""

    def __str__(self) -> str:
        return table_text(_COLUMNS, self.rows, caption=self._headline())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table_html(_COLUMNS, self.rows, caption=self._headline())

    def _headline(self) -> str:
        who = f" by {self.decided_by}" if self.decided_by else ""
        return visible(f"{shorten(self.call, 200)}: {self.verdict}{who}" + (f": {self.reason}" if self.reason else ""))


def explanation_of(
    permissions: PermissionList,
    call: ToolCall,
    decision: Decision | None,
    *,
    problem: str = "",
    redactor: Redactor,
    secret: frozenset[str] = frozenset(),
) -> Explanation:
    """Return the explanation of a decision.

    Args:
        permissions: The list that decided.
        call: The call.
        decision: What `deciding` came to, or None when the call never reached the permissions.
        problem: What is wrong with the call itself: an unknown tool, arguments that do not fit.
        redactor: Masks what is shown.
        secret: Names of arguments that are masked whole.
    """
    shown = redactor.call(call, secret)
    if decision is None:
        rows = tuple(
            ("", name, permission.kind, "not asked: the call is not valid") for permission, name in permissions.order
        )
        return Explanation(shown, "input_error", None, problem, rows)
    asked = [permission for permission, _ in permissions.order]
    place = next((i for i, one in enumerate(asked) if one is decision.permission), len(asked))
    rows = tuple(
        (
            "→" if index == place else "",
            name,
            permission.kind,
            "no opinion"
            if index < place
            else _says(decision, redactor)
            if index == place
            else "not asked: decided above",
        )
        for index, (permission, name) in enumerate(permissions.order)
    )
    verdict, reason = decision.verdict, redactor.text(getattr(decision.verdict, "reason", ""))
    if problem and not isinstance(verdict, Denied):
        return Explanation(shown, "input_error", decision.decided_by, problem, rows)
    if decision.kind == "unchecked":
        reason = "UNCHECKED: permissions=None switches the checks off"
    word = "allowed" if isinstance(verdict, Allowed) else "denied" if isinstance(verdict, Denied) else "asked"
    return Explanation(shown, word, decision.decided_by, reason, rows)


def _says(decision: Decision, redactor: Redactor) -> str:
    part = f"{redactor.text(decision.part)}: " if decision.part else ""
    match decision.verdict:
        case Denied(reason, stop):
            return f"{part}denied{' and stops the turn' if stop else ''}: {redactor.text(reason)}"
        case Ask(reason):
            return f"{part}asks a person: {redactor.text(reason)}"
        case _:
            return f"{part}allowed"
