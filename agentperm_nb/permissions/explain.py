"""Why a call would be decided as it would: read from the trace of the decision, nobody is asked and nothing runs.

1. The rows are the permissions in the order of asking. Those above the one that decided had no opinion, and the row
   says why; those below were not asked.
2. At most one permission is decisive: none when nobody decided, or nothing is checked.
3. How a rule on arguments read them is told by the rule, in the same turn; who decides is never computed here.
4. Secrets are masked in everything that is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentperm_nb.calls import ToolCall
from agentperm_nb.permissions.deciding import Decision, PermissionList
from agentperm_nb.permissions.silence import ReadArgument, Reader
from agentperm_nb.permissions.verdicts import Allowed, Ask, Denied
from agentperm_nb.redaction import Redactor
from agentperm_nb.render import shorten, table_html, table_text, visible
from agentperm_nb.tools import Tool

if TYPE_CHECKING:
    import pandas

__all__ = ["Explanation", "explanation_of"]

_COLUMNS = ("", "permission", "kind", "says")
_READINGS = ("rule", "asks for", "read as", "matches")
_DECISIVE = "→"


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
    readings: tuple[ReadArgument, ...] = ()
    """How the rules on arguments that were asked read them, one row a condition."""

    @property
    def decisive(self) -> int | None:
        """Which of the rows decides; None when nobody does."""
        return next((place for place, row in enumerate(self.rows) if row[0]), None)

    def frame(self) -> pandas.DataFrame:
        """Return a DataFrame with one row a permission, in the order of asking.

        Its columns are ``permission``, ``kind``, ``decisive``, ``says`` and ``readings``: how it read the arguments, a
        list of texts.
        """
        import pandas

        names = [name for _, name, _, _ in self.rows]
        read: list[list[str]] = [
            [f"{row.asks}: {row.read_as}: {row.matches}" for row in self.readings if row.permission == name]
            for name in names
        ]
        return pandas.DataFrame(
            {
                "permission": pandas.array(names, dtype="string"),
                "kind": pandas.array([row[2] for row in self.rows], dtype="string"),
                "decisive": pandas.array([bool(row[0]) for row in self.rows], dtype="bool"),
                "says": pandas.array([row[3] for row in self.rows], dtype="string"),
                "readings": pandas.Series(read, dtype="object"),
            }
        )

    def __str__(self) -> str:
        text = table_text(_COLUMNS, self.rows, caption=self._headline(), width=240)
        return f"{text}\n\n{table_text(_READINGS, self.readings, width=160)}" if self.readings else text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        html = table_html(_COLUMNS, self.rows, caption=self._headline())
        return html + (table_html(_READINGS, self.readings) if self.readings else "")

    def _headline(self) -> str:
        who = f" by {self.decided_by}" if self.decided_by else ""
        return visible(f"{shorten(self.call, 200)}: {self.verdict}{who}" + (f": {self.reason}" if self.reason else ""))


def explanation_of(
    permissions: PermissionList,
    call: ToolCall,
    decision: Decision | None,
    *,
    tool: Tool | None = None,
    problem: str = "",
    redactor: Redactor,
    secret: frozenset[str] = frozenset(),
) -> Explanation:
    """Return the explanation of a decision.

    Args:
        permissions: The list that decided.
        call: The call.
        decision: What `deciding` came to, or None when the call never reached the permissions.
        tool: The tool that would run.
        problem: What is wrong with the call itself: an unknown tool, arguments that do not fit.
        redactor: Masks what is shown.
        secret: Names of arguments that are masked whole.
    """
    shown = redactor.call(call, secret)
    if decision is None:
        unasked = "not asked: the call is not valid"
        rows = tuple(("", name, permission.kind, unasked) for permission, name in permissions.order)
        return Explanation(shown, "input_error", None, problem, rows)
    rows, readings = _trace(permissions, decision, Reader(call, tool, redactor, secret), redactor)
    made: dict[str, Any] = {"rows": rows, "readings": readings}
    verdict, reason = decision.verdict, redactor.text(getattr(decision.verdict, "reason", ""))
    if problem and not isinstance(verdict, Denied):
        return Explanation(shown, "input_error", None, problem, **made)
    if decision.kind == "unchecked":
        reason = "UNCHECKED: permissions=None switches the checks off"
    word = "allowed" if isinstance(verdict, Allowed) else "denied" if isinstance(verdict, Denied) else "asked"
    return Explanation(shown, word, decision.decided_by, reason, **made)


def _trace(
    permissions: PermissionList, decision: Decision, reader: Reader, redactor: Redactor
) -> tuple[tuple[tuple[str, str, str, str], ...], tuple[ReadArgument, ...]]:
    asked = [permission for permission, _ in permissions.order]
    place = next((i for i, one in enumerate(asked) if one is decision.permission), len(asked))
    rows: list[tuple[str, str, str, str]] = []
    readings: list[ReadArgument] = []
    for index, (permission, name) in enumerate(permissions.order):
        if index > place:
            rows.append(("", name, permission.kind, "not asked: decided above"))
            continue
        says = reader.silence(permission) if index < place else _says(decision, redactor)
        rows.append(("" if index < place else _DECISIVE, name, permission.kind, says))
        readings.extend(reader.rows(permission, name))
    return tuple(rows), tuple(readings)


def _says(decision: Decision, redactor: Redactor) -> str:
    part = f"{redactor.text(decision.part)}: " if decision.part else ""
    match decision.verdict:
        case Denied(reason, stop):
            return f"{part}denied{' and stops the turn' if stop else ''}: {redactor.text(reason)}"
        case Ask(reason):
            return f"{part}asks a person: {redactor.text(reason)}"
        case _:
            return f"{part}allowed"
