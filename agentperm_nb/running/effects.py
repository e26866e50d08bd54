"""What the steps of a turn ask of their driver, and what the driver tells them.

A driver performs `Check` and sends the verdict back; `Review` and `Start` begin something in the background; `Wait`
gives the next message; `ReviewsOver` waits until the approvers have put their things away.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from agentperm_nb.approvals.desk import DeskChange
from agentperm_nb.approvals.requests import ApprovalRequest, Approver
from agentperm_nb.permissions.deciding import Check
from agentperm_nb.results import ResultForm

if TYPE_CHECKING:
    from agentperm_nb.running.items import CallItem

__all__ = [
    "AnswerKept",
    "Effect",
    "Message",
    "Review",
    "ReviewAnswer",
    "ReviewEnded",
    "ReviewsOver",
    "Start",
    "ToolDone",
    "Wait",
]


@dataclass(slots=True, eq=False, repr=False)
class Review:
    """Begin to put requests to an approver; it is over when `is_over` says so."""

    approver: Approver
    requests: tuple[ApprovalRequest, ...]
    is_over: Callable[[], bool]


@dataclass(slots=True, eq=False, repr=False)
class ReviewsOver:
    """Wait until no approver is at work."""


@dataclass(slots=True, eq=False, repr=False)
class Start:
    """Begin to run a call, in a context of its own in which `prepare` is called first; `done` is told how it ended.

    `done` may be called from any thread, and after the turn has ended: then the result is late. It is called a second
    time, with ``late=True``, when a call has an end after it timed out.
    """

    item: CallItem
    prepare: Callable[[], None]
    done: Callable[[ToolDone], None]


@dataclass(slots=True, eq=False, repr=False)
class Wait:
    """Give the next message."""


@dataclass(slots=True, eq=False, repr=False)
class ReviewAnswer:
    """What an approver yielded; it may be anything."""

    approver: Approver
    request_id: object
    value: object


@dataclass(slots=True, eq=False, repr=False)
class ReviewEnded:
    """An approver has ended, or raised."""

    approver: Approver
    requests: tuple[ApprovalRequest, ...]
    error: BaseException | None
    """What it raised; anything but an Exception interrupts the turn."""


@dataclass(slots=True, eq=False, repr=False)
class ToolDone:
    """A call has run."""

    item: CallItem
    value: Any = None
    error: Exception | None = None
    late: bool = False
    """Whether the turn has gone on without it."""
    form: ResultForm | None = None
    """What the model is told of `value`."""


@dataclass(slots=True, eq=False, repr=False)
class AnswerKept:
    """An answer has been remembered, in this turn or in another one of the agent."""


Effect: TypeAlias = Check | Review | ReviewsOver | Start | Wait
Message: TypeAlias = DeskChange | AnswerKept | ReviewAnswer | ReviewEnded | ToolDone
