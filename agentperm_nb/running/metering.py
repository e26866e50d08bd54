"""What one piece of work counts towards: the budget of its own run, and those of the runs above.

A piece of work is a run, a turn, a question to the model, or one to a person. Its `Meter` is begun and ended; what is
spent is taken from all accounts in one step, or from none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentperm_nb.errors import BudgetExceeded, BudgetWarning, warn_user
from agentperm_nb.running.accounts import CAPS, Account, Accounts, Kind, Refusal, RunAccount, UserAccount, account_lock

if TYPE_CHECKING:
    from agentperm_nb.context import RunContext
    from agentperm_nb.running.budget import Budget
    from agentperm_nb.running.history import StoppedByBudget
    from agentperm_nb.running.state import State

__all__ = ["Meter", "asking", "meter_of", "stop_over_budget", "working"]


class Meter:
    """Counts what one piece of work spends.

    Args:
        places: The budgets that it counts towards, with the run and the user of each, outermost first.
        above: The meter of the turn that it is part of, of a run above.
    """

    def __init__(self, places: tuple[tuple[Accounts, str, str | None], ...], above: Meter | None) -> None:
        self.places: tuple[tuple[Accounts, str, str | None], ...] = places
        self.above: Meter | None = above
        self.refused: str | None = None
        """The cap because of which something of this work has been refused."""
        self._runs: list[tuple[Accounts, RunAccount]] = []
        self._users: list[tuple[Accounts, UserAccount, RunAccount]] = []
        """Users, each with the outermost run that counts towards it: its clock goes with that one."""

    # ------------------------------------------------------------------ the clock

    def begin(self) -> None:
        """Note that the work begins."""
        with account_lock:
            self._runs.clear()  # they are looked up now: from here on they are kept
            self._open()
            for accounts, run in self._runs:
                run.change(accounts.now(), working=1)
            for accounts, user, run in self._users:
                run.drive(user, accounts.now(), 1)

    def end(self) -> None:
        """Note that the work has ended; this never waits."""
        times = [accounts.now() for accounts, _ in self._runs]
        by_user = [accounts.now() for accounts, _, _ in self._users]

        def change() -> None:
            for (_, user, run), now in zip(self._users, by_user, strict=True):
                run.drive(user, now, -1)
            for (_, run), now in zip(self._runs, times, strict=True):
                run.change(now, working=-1)

        account_lock.do(change)

    def begin_asking(self) -> None:
        """Note that somebody is asked: the clocks stand still."""
        with account_lock:
            for accounts, run in self._runs:
                run.change(accounts.now(), asking=1)

    def end_asking(self) -> None:
        """Note that nobody is asked any more; this never waits."""
        times = [accounts.now() for accounts, _ in self._runs]

        def change() -> None:
            for (_, run), now in zip(self._runs, times, strict=True):
                run.change(now, asking=-1)

        account_lock.do(change)

    # ------------------------------------------------------------------ what is spent

    def call(self) -> Refusal | None:
        """Take a call that starts from the budgets; return why it may not start, else None."""
        return self._take("calls")

    def ask(self) -> Refusal | None:
        """Take a question from the budgets; return why it may not be put, else None."""
        return self._take("asks")

    def call_left(self) -> Refusal | None:
        """Return why no call could start now, or None; nothing is taken."""
        with account_lock:
            self._open()
            return self._refusal("calls")

    def over_time(self) -> Refusal | None:
        """Return that the time is over, or None."""
        with account_lock:
            self._open()
            found = (accounts.reached(account, "seconds", accounts.now()) for accounts, account in self._accounts())
            return next((refusal for refusal in found if refusal is not None), None)

    def used_up(self) -> Refusal | None:
        """Return why no model is asked any more: the time is over, or a cap has stopped something; else None."""
        over = self.over_time()
        with account_lock:
            found = (
                accounts.reached(account, kind, accounts.now())
                for accounts, account in self._accounts()
                for kind in CAPS
                if kind in account.refused
            )
            return over or next((refusal for refusal in found if refusal is not None), None)

    def warn(self) -> None:
        """Warn of the caps of which much is spent, once for each run and cap.

        Raises:
            Warning: The user's filters make an error of it.
        """
        told: list[str] = []
        with account_lock:
            self._open()
            for (accounts, account), run in zip(self._accounts(), self._of_runs(), strict=True):
                for kind in CAPS:
                    near = accounts.near(account, kind, accounts.now())
                    if near is not None and near[0] not in run.warned:
                        run.warned.add(near[0])
                        told.append(near[1])
        for text in told:
            warn_user(text, BudgetWarning)

    # ------------------------------------------------------------------ how

    def _open(self) -> None:
        """Find the accounts, once."""
        if self._runs:
            return
        runs: dict[int, tuple[Accounts, RunAccount]] = {}
        users: dict[int, tuple[Accounts, UserAccount, RunAccount]] = {}
        for accounts, run_id, user_id in self.places:
            run, user = accounts.run(run_id), accounts.user(user_id)
            runs.setdefault(id(run), (accounts, run))
            users.setdefault(id(user), (accounts, user, run))
        self._runs, self._users = list(runs.values()), list(users.values())

    def _accounts(self) -> list[tuple[Accounts, Account]]:
        return [*self._runs, *((accounts, user) for accounts, user, _ in self._users)]

    def _of_runs(self) -> list[RunAccount]:
        return [*(run for _, run in self._runs), *(run for _, _, run in self._users)]

    def _take(self, kind: Kind) -> Refusal | None:
        with account_lock:
            self._open()
            refusal = self._refusal(kind)
            if refusal is None:
                for _, account in self._accounts():
                    setattr(account, kind, getattr(account, kind) + 1)
            return refusal

    def _refusal(self, kind: Kind) -> Refusal | None:
        for accounts, account in self._accounts():
            now = accounts.now()
            for limit in (kind, "seconds") if kind == "calls" else (kind,):
                refusal = accounts.reached(account, limit, now)
                if refusal is not None:
                    account.refused.add(limit)
                    self._note(account, refusal.cap)
                    return refusal
        return None

    def _note(self, account: Account, cap: str) -> None:
        """Note a refusal here, and above as far as it is the budget of a run above."""
        self.refused = self.refused or cap
        if self.above is not None and any(account is other for _, other in self.above._accounts()):
            self.above._note(account, cap)


def meter_of(budget: Budget | None, context: RunContext, above: Meter | None) -> Meter | None:
    """Return the meter of a piece of work of a run, or None where no budget holds.

    Args:
        budget: The budget of the agent.
        context: The run.
        above: The meter of the turn that it is part of, of a run above.
    """
    places = above.places if above is not None else ()
    if budget is not None:
        mine = (budget.accounts, context.run_id, context.user_id)
        if not any(accounts is mine[0] and run_id == mine[1] for accounts, run_id, _ in places):
            places = (*places, mine)
    return Meter(places, above) if places else None


@contextmanager
def working(meter: Meter | None) -> Iterator[None]:
    """Let the clocks go inside the ``with`` block."""
    if meter is None:
        yield
        return
    meter.begin()
    try:
        yield
    finally:
        meter.end()


@contextmanager
def asking(meter: Meter | None, state: State) -> Iterator[None]:
    """Count a question, and let the clocks stand still inside the ``with`` block.

    Raises:
        BudgetExceeded: No question is left; then the run stops.
    """
    if meter is None:
        yield
        return
    with working(meter):
        refusal = meter.ask()
        if refusal is not None:
            stop_over_budget(state, refusal.cap)
            raise BudgetExceeded(f"budget:{refusal.cap}", refusal.reason)
        meter.begin_asking()
        try:
            yield
        finally:
            meter.end_asking()
    meter.warn()


def stop_over_budget(state: State, cap: str) -> StoppedByBudget:
    """Note that a run stops because of a cap, unless a permission has stopped it; return that stop."""
    from agentperm_nb.running.history import StoppedByBudget, StoppedByPermission

    stop = StoppedByBudget(f"budget:{cap}")
    with state.lock:
        if not isinstance(state.stopped, StoppedByPermission) and state.stopped != stop:
            state.stop(stop)
    return stop
