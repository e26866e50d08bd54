"""One row a call, made from its events: what the tables read.

1. The row can be made again from the events at any time; `project` is the only code that changes one.
2. The first outcome stays. A result that comes later changes the row only where it was not known how the call ended
   (``lost``); otherwise, as after a timeout, the late event tells of it.
3. What nobody said is missing: a decision that stands in for an answer is no answer.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from agentperm_nb.audit.events import Event

__all__ = ["COLUMNS", "Row", "project"]

Row = dict[str, Any]

COLUMNS: tuple[str, ...] = (
    "call_key", "seq", "run", "session", "turn", "position", "call_id", "host", "agent", "agent_path", "user", "time",
    "tool", "server", "args", "args_json", "args_digest", "masked", "edited", "args_run", "read_only", "destructive",
    "open_world", "hints_from", "verdict", "asked", "decided_by", "decided_kind", "answered_by", "rule", "reason",
    "stop", "answer", "approver", "approver_from", "waited_s", "outcome", "started", "finished", "duration_s", "error",
    "result_digest", "policy_id",
)  # fmt: skip

_EMPTY: Row = dict.fromkeys(COLUMNS)


def project(row: Row | None, event: Event) -> Row | None:
    """Return the row of a call after an event, or None for an event that is about no call.

    Args:
        row: The row so far, which is changed in place; None for the call's first event.
        event: An event of the call.
    """
    if not event.call_key:
        return row
    if row is None:
        row = {
            **_EMPTY,
            "call_key": event.call_key, "seq": event.seq, "run": event.run, "session": event.session,
            "turn": event.turn, "position": event.position, "call_id": event.call_id, "host": event.host,
            "agent": event.agent_path[-1] if event.agent_path else None, "agent_path": "/".join(event.agent_path),
            "user": event.user, "time": event.time, "policy_id": event.policy_id, "asked": False, "edited": False,
            "stop": False, "outcome": "not_run",
        }  # fmt: skip
    data = event.data
    match event.kind:
        case "requested":
            row.update(data, args_digest=event.args_digest)
        case "decided":
            row.update(data, error=data.get("error") or row["error"])  # an approver's error explains the denial
        case "asked":
            row.update(asked=True, rule=data.get("rule"), _asked_at=event.time)
        case "answered":
            row.update(
                answered_by=data["answered_by"],
                answer=data["action"],
                error=data.get("error"),
                approver=event.approver,
                approver_from=event.approver_from,
                waited_s=_seconds(row.get("_asked_at"), event.time),
            )
        case "edited":
            row.update(edited=True, args_run=data["args"])
        case "expired" | "withdrawn":
            row.update(waited_s=_seconds(row.get("_asked_at"), event.time))
            if event.kind == "expired":
                row.update(answered_by="timeout")
        case "started":
            row.update(started=event.time, outcome="lost")  # until it is known to have finished
        case "finished" | "late" if _counts(row, event):
            row.update(
                finished=event.time,
                duration_s=_seconds(row["started"], event.time),
                outcome=data["outcome"],
                error=data.get("error"),
                result_digest=data.get("result_digest"),
            )
        case "cancelled":
            row.update(
                verdict="cancelled",
                reason=data.get("reason"),
                decided_by=data.get("decided_by"),
                decided_kind=data.get("decided_kind"),
            )
            if row["started"] is None:
                row.update(outcome="not_run")
        case "lost":
            row.update(outcome="lost")
    return row


def _counts(row: Row, event: Event) -> bool:
    """Return whether an event says how the call ended; of a late answer, or a second end, it does not."""
    return event.kind == "finished" or ("outcome" in event.data and row["outcome"] == "lost")


def _seconds(start: datetime | None, end: datetime) -> float | None:
    return None if start is None else (end - start).total_seconds()
