"""How much a run, and a user, may do: calls, questions, and time.

1. Plain caps hold for one run; those that begin with ``per_user`` for a user, over all runs with the same `Budget`.
   What a run below does counts towards the budgets of the runs above, too.
2. A call counts when it starts, a question when it is put to somebody. Both are taken from the budget before, in one
   step for all caps that they count towards: calls of parallel turns cannot share the last one that is left.
3. The clock of a run goes while its loop, its model or its turns are at work, and stands still while anybody is asked.
   That of a user is the sum of those of the user's runs; what a run below does is in the time of the run above already.
4. A cap is reached when as much as it says, or more, is spent. What would go beyond it is refused; what runs is not
   interrupted.
5. Of more than ten thousand runs and users those that were least recently at work are forgotten, but for runs and users
   that have reached a cap: a user is kept until `Budget.reset`, a run for good.
6. The caps do not change.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import timedelta
from enum import Enum

from agentperm_nb.context import get_run_context
from agentperm_nb.errors import BudgetExceeded, fix_message
from agentperm_nb.running.accounts import CAPS, Account, Accounts, RunAccount, Spent, UserAccount, account_lock

__all__ = ["Budget"]

_EXAMPLE = "Agent(tools, budget=Budget(max_calls=50, max_wall_clock=600))"


class _NotGiven(Enum):
    NOT_GIVEN = "not given"


_NOT_GIVEN = _NotGiven.NOT_GIVEN  # None is a user too


class Budget:
    """Caps on what agents do; given to one or more as ``Agent(budget=…)``. They cannot be changed.

    Args:
        max_calls: How many calls may start in a run.
        max_asks: How many questions of a run may be put to somebody.
        max_wall_clock: Seconds for which a run may be at work, or a timedelta. The time in which somebody is asked is
            free.
        per_user_max_calls: The same for a user, over all runs with this budget.
        per_user_max_asks: The same for a user.
        per_user_max_wall_clock: The same for a user.
        soft_warning_at: From which part of a cap on to warn, once for each run and cap; None for never.
        clock: What tells the time, in seconds; for tests.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A cap is negative, or `soft_warning_at` not above 0 and up to 1.
    """

    max_calls: int | None
    max_asks: int | None
    max_wall_clock: float | None
    """In seconds."""
    per_user_max_calls: int | None
    per_user_max_asks: int | None
    per_user_max_wall_clock: float | None
    """In seconds."""
    soft_warning_at: float | None
    accounts: Accounts
    """What has been spent; `spent` tells of it."""

    def __init__(
        self,
        *,
        max_calls: int | None = None,
        max_asks: int | None = None,
        max_wall_clock: float | timedelta | None = None,
        per_user_max_calls: int | None = None,
        per_user_max_asks: int | None = None,
        per_user_max_wall_clock: float | timedelta | None = None,
        soft_warning_at: float | None = 0.8,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not callable(clock):
            raise TypeError(fix_message(f"clock= takes a function (got: {clock!r})", "leave it out", _EXAMPLE))
        caps = {
            "max_calls": _checked_count("max_calls", max_calls),
            "max_asks": _checked_count("max_asks", max_asks),
            "max_wall_clock": _checked_seconds("max_wall_clock", max_wall_clock),
            "per_user_max_calls": _checked_count("per_user_max_calls", per_user_max_calls),
            "per_user_max_asks": _checked_count("per_user_max_asks", per_user_max_asks),
            "per_user_max_wall_clock": _checked_seconds("per_user_max_wall_clock", per_user_max_wall_clock),
        }
        part = _checked_part(soft_warning_at)
        # Not as attributes: those cannot be set.
        vars(self).update(caps, soft_warning_at=part, accounts=Accounts(caps, part, clock))

    def __setattr__(self, name: str, value: object) -> None:
        if name in Budget.__annotations__:
            raise AttributeError(
                fix_message(f"{name} of a budget cannot be changed (got: {value!r})", "make another Budget", _EXAMPLE)
            )
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        if name in Budget.__annotations__:
            raise AttributeError(fix_message(f"{name} of a budget cannot be deleted", "make another Budget", _EXAMPLE))
        super().__delattr__(name)

    def __repr__(self) -> str:
        given = (f"{name}={cap:g}" for name, cap in self.accounts.caps.items() if cap is not None)
        return f"Budget({', '.join(given)})"

    def spent(self, *, run_id: str | None = None, user_id: str | _NotGiven | None = _NOT_GIVEN) -> Spent:
        """Return what a run has spent, those below it included, or what a user has: calls, asks, seconds.

        Args:
            run_id: Id of the run, such as ``agent.run_id`` or ``state.id``.
            user_id: The user, in place of a run.

        Raises:
            TypeError: Neither or both were given.
        """
        if (run_id is None) is (user_id is _NOT_GIVEN):
            problem = "spent takes a run or a user"
            raise TypeError(fix_message(problem, "give one of them", "budget.spent(run_id=agent.run_id)"))
        with account_lock:
            account: Account | None
            if isinstance(user_id, _NotGiven):
                account = self.accounts.look_at_run(str(run_id))
            else:
                account = self.accounts.look_at_user(user_id)
            return Spent(0, 0, 0.0) if account is None else account.spent(self.accounts.now())

    def check(self, *, run_id: str | None = None, user_id: str | _NotGiven | None = _NOT_GIVEN) -> None:
        """Raise an error when a cap is reached.

        Args:
            run_id: The run; with neither a run nor a user, those of the code that calls this.
            user_id: The user.

        Raises:
            BudgetExceeded: A cap of the run, or of the user, is reached.
            ValueError: Neither was given, outside of a run.
        """
        if run_id is None and user_id is _NOT_GIVEN:
            context = get_run_context()
            if context is None:
                problem = "check was called outside of a run, without a run and without a user"
                raise ValueError(fix_message(problem, "give one of them", "budget.check(run_id=agent.run_id)"))
            run_id, user_id = context.run_id, context.user_id
        with account_lock:
            found: list[Account] = []
            if run_id is not None:
                found.append(self.accounts.look_at_run(run_id) or RunAccount())
            if not isinstance(user_id, _NotGiven):
                found.append(self.accounts.look_at_user(user_id) or UserAccount())
            now = self.accounts.now()
            refusals = [self.accounts.reached(account, kind, now) for account in found for kind in CAPS]
        refusal = next((one for one in refusals if one is not None), None)
        if refusal is not None:
            raise BudgetExceeded(f"budget:{refusal.cap}", refusal.reason)

    def reset(self, *, user_id: str | None) -> None:
        """Forget what a user has spent: the user's caps count from nothing."""
        with account_lock:
            self.accounts.forget_user(user_id)


def _checked_count(name: str, cap: object) -> int | None:
    if cap is None:
        return None
    if isinstance(cap, bool) or not isinstance(cap, int):
        raise TypeError(fix_message(f"{name}= takes a whole number (got: {cap!r})", "give one, or None", _EXAMPLE))
    if cap < 0:
        raise ValueError(fix_message(f"{name}= is below 0 (got: {cap})", "give 0 or more", _EXAMPLE))
    return cap


def _checked_seconds(name: str, cap: object) -> float | None:
    if cap is None:
        return None
    seconds = cap.total_seconds() if isinstance(cap, timedelta) else cap
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        problem = f"{name}= takes seconds or a timedelta (got: {cap!r})"
        raise TypeError(fix_message(problem, "give a number, or None", _EXAMPLE))
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError(fix_message(f"{name}= is no time (got: {cap!r})", "give 0 seconds or more", _EXAMPLE))
    return float(seconds)


def _checked_part(part: object) -> float | None:
    if part is None:
        return None
    example = "Budget(max_calls=50, soft_warning_at=0.9)"
    if isinstance(part, bool) or not isinstance(part, int | float):
        raise TypeError(fix_message(f"soft_warning_at= takes a number (got: {part!r})", "give one, or None", example))
    if not 0 < part <= 1:
        problem = f"soft_warning_at= is a part of a cap (got: {part!r})"
        raise ValueError(fix_message(problem, "give more than 0, and 1 or less", example))
    return float(part)
