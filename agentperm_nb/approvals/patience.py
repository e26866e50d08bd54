"""Patience: for how long an approver has to answer, and when to remind of it.

1. `timeout` and `reminders` count from when a request was put to the approver: when it was put on the desk, or, where
   requests are asked one after the other, when its turn came.
2. What is not answered in time is denied; no answer that comes later lets anything run.
3. A reminder changes nothing. `on_reminder` is called on a thread of its own; one that raises is reported in the Python
   log.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentperm_nb.errors import fix_message
from agentperm_nb.tool_class import checked_timeout

if TYPE_CHECKING:
    from agentperm_nb.approvals.requests import ApprovalRequest

__all__ = ["Patience", "bounded", "patience_of"]

_EXAMPLE = "NotebookHuman(timeout=300, reminders=[60, 240], on_reminder=lambda request: print(request.question))"


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for an answer, and when to remind of the request.

    Args:
        timeout: Seconds after which a request is denied; None for as long as it takes.
        reminders: Seconds after which to remind of it: a number, or a list.
        on_reminder: Called with the request then, such as a function that sends a message. It is no async function.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A number is not above 0, a reminder does not come before the timeout, or there is an `on_reminder`
            without reminders.
    """

    timeout: float | None = None
    reminders: Iterable[float] | float = ()
    on_reminder: Callable[[ApprovalRequest], object] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "timeout", checked_timeout(self.timeout, "NotebookHuman(timeout=300)"))
        object.__setattr__(self, "reminders", _checked_reminders(self.reminders, self.timeout))
        _check_on_reminder(self.on_reminder, bool(self.reminders))

    @property
    def moments(self) -> tuple[float, ...]:
        """The reminders in order, as seconds after asking."""
        assert isinstance(self.reminders, tuple)
        return self.reminders

    def within(self, timeout: float | None) -> Patience:
        """Return the same with another limit as well: the shorter one holds."""
        if timeout is None or (self.timeout is not None and self.timeout <= timeout):
            return self
        moments = tuple(seconds for seconds in self.moments if seconds < timeout)
        return replace(self, timeout=timeout, reminders=moments, on_reminder=self.on_reminder if moments else None)

    def expires_at(self, asked_at: datetime) -> datetime | None:
        """Return when a request expires that was put to the approver at `asked_at`; None when it does not."""
        if self.timeout is None:
            return None
        try:
            return asked_at + timedelta(seconds=self.timeout)
        except OverflowError:  # there is no such date
            return None

    def shown(self) -> str:
        """Return the settings as the arguments of a constructor, for a repr."""
        said = [] if self.timeout is None else [f"timeout={self.timeout:g}"]
        said += [f"reminders=[{', '.join(f'{seconds:g}' for seconds in self.moments)}]"] if self.moments else []
        return ", ".join(said)


def patience_of(approver: object, permission: object = None) -> Patience | None:
    """Return how long a request waits: as the approver says, and no longer than the permission that asks says.

    Args:
        approver: Whoever answers; its ``patience`` counts.
        permission: The permission; the ``timeout`` of one that says whom it asks counts.
    """
    patience = getattr(approver, "patience", None)
    patience = patience if isinstance(patience, Patience) else Patience()
    limit = getattr(permission, "timeout", None) if hasattr(permission, "human") else None
    if isinstance(limit, int | float) and not isinstance(limit, bool) and limit > 0:
        patience = patience.within(limit)
    return patience if patience.timeout is not None or patience.moments else None


def bounded(patience: Patience | None, limits: Patience | None) -> Patience | None:
    """Return a patience with the limit of another one as well, and its reminders where there are none.

    Args:
        patience: As the approver says.
        limits: As somebody else says, such as a policy file.
    """
    if limits is None or patience is None:
        return patience or limits
    if not patience.moments and limits.moments:
        patience = replace(limits, timeout=None).within(patience.timeout)
    return patience.within(limits.timeout)


def _checked_reminders(reminders: Any, timeout: float | None) -> tuple[float, ...]:
    listed = [reminders] if isinstance(reminders, int | float) else reminders
    if isinstance(listed, str | bytes) or not isinstance(listed, Iterable):
        raise TypeError(
            fix_message(f"reminders= takes seconds, or a list of them (got: {reminders!r})", "give numbers", _EXAMPLE)
        )
    moments = list(listed)
    for seconds in moments:
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise TypeError(fix_message(f"reminders= takes seconds (got: {seconds!r})", "give numbers", _EXAMPLE))
        if not 0 < seconds < math.inf:  # not-a-number, too
            raise ValueError(
                fix_message(f"a reminder is not after a time above 0 (got: {seconds!r})", "give seconds", _EXAMPLE)
            )
        if timeout is not None and seconds >= timeout:
            raise ValueError(
                fix_message(
                    f"a reminder after {seconds:g} s would never come: the timeout is {timeout:g} s",
                    "remind before the time is over",
                    _EXAMPLE,
                )
            )
    return tuple(sorted(set(moments)))


def _check_on_reminder(on_reminder: Any, reminds: bool) -> None:
    if on_reminder is None:
        return
    problem = ""
    if isinstance(on_reminder, type) or not callable(on_reminder):
        problem = "is not a function"
    elif inspect.iscoroutinefunction(on_reminder) or inspect.iscoroutinefunction(type(on_reminder).__call__):
        problem = "is async"
    else:
        try:
            inspect.signature(on_reminder).bind(None)
        except TypeError:
            problem = "does not take exactly one argument"
        except ValueError:  # a built-in that does not tell
            pass
    if problem:
        raise TypeError(
            fix_message(
                f"on_reminder= {problem} (got: {on_reminder!r})", "give a plain function of the request", _EXAMPLE
            )
        )
    if not reminds:
        raise ValueError(fix_message("on_reminder= is never called without reminders=", "say when to remind", _EXAMPLE))
