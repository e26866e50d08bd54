"""Events: what the record is made of. Schema version 1; append-only.

A call's life is ``requested``, perhaps ``asked``, ``shown``, ``answered``, ``edited``, then ``decided``, ``started``
and ``finished``, or ``cancelled``. ``decided`` comes before ``started``. Everything in an event is masked already.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, get_args

__all__ = ["KINDS", "SCHEMA_VERSION", "Event", "EventKind"]

SCHEMA_VERSION = 1

EventKind = Literal[
    "policy",  # an agent was made, or its list, file, mode or remembered rules changed
    "requested",  # the model wants the call
    "decided",  # a verdict: by a rule, by an answer, or because nobody decided
    "asked",  # put to a person
    "shown",  # on a screen
    "answered",  # by a person, a handler, memory, or nobody
    "remembered",  # the answer holds for later calls
    "revoked",  # and no longer
    "edited",  # other arguments than the model's
    "expired",  # nobody answered in time
    "withdrawn",  # no longer asked: interrupted, cancelled, stopped
    "started",
    "finished",
    "cancelled",  # will not run, although nobody denied it
    "lost",  # the process ended in between
    "late",  # an answer or a result that came when it no longer counted
]
KINDS: tuple[str, ...] = get_args(EventKind)


@dataclass(slots=True)
class Event:
    """One thing that happened. A store numbers it when it is appended."""

    kind: EventKind
    time: datetime
    """UTC."""
    run: str
    session: str
    host: str
    agent_path: tuple[str, ...]
    user: str | None
    policy_id: str
    call_key: str = ""
    """Our key of the call, ``run/turn/position``; empty for an event that is about no call."""
    turn: int | None = None
    position: int | None = None
    call_id: str = ""
    """The provider's id of the call; it may repeat."""
    args_digest: str = ""
    """SHA-256 of the tool's name and the canonical arguments that the event is about."""
    approver: str | None = None
    approver_from: str | None = None
    data: dict[str, Any] = field(default_factory=dict)
    """What only events of this kind have; JSON, masked."""
    seq: int = 0
    """Place in the log, from 1."""
