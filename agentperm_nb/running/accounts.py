"""Accounts of budgets: what a run, and a user, has spent; the clocks; and what is beyond a cap.

1. Everything here is read and changed under `account_lock`, one for all budgets: a call counts towards several in one
   step.
2. The clock of a run goes while something of it is under way and nothing of it is asked. The clock of a user is the sum
   of the clocks of the user's outermost runs.
3. Of more than `KEPT` runs and users the least recent idle one is forgotten, unless it has reached a cap.
"""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeAlias

__all__ = [
    "CAPS",
    "KEPT",
    "Account",
    "Accounts",
    "Kind",
    "Refusal",
    "RunAccount",
    "Spent",
    "UserAccount",
    "account_lock",
]

KEPT = 10_000
"""How many runs, and how many users, are kept."""

Kind: TypeAlias = Literal["calls", "asks", "seconds"]
CAPS: dict[Kind, str] = {"calls": "max_calls", "asks": "max_asks", "seconds": "max_wall_clock"}
"""The cap on each kind of spending; that of a user has ``per_user_`` before it."""


class Spent(NamedTuple):
    """What a run, or a user, has spent."""

    calls: int
    """Calls that started."""
    asks: int
    """Questions that were put to somebody."""
    seconds: float
    """Time at work, without the time in which somebody was asked."""


class Refusal(NamedTuple):
    """Why something is beyond a budget."""

    cap: str
    """Name of the cap, such as ``max_calls`` or ``per_user_max_asks``."""
    reason: str
    """In words, for the model."""


class Account:
    """What has been spent from one cap or another; changed under `account_lock` only."""

    __slots__ = ("asks", "calls", "rate", "refused", "seconds", "since")

    def __init__(self) -> None:
        self.calls: int = 0
        self.asks: int = 0
        self.seconds: float = 0.0
        self.since: float = 0.0
        """Up to when `seconds` is counted."""
        self.rate: int = 0
        """How many clocks go."""
        self.refused: set[Kind] = set()
        """The caps because of which something has been refused."""

    def settle(self, now: float) -> None:
        """Count the time up to now."""
        if self.rate:
            self.seconds += self.rate * max(0.0, now - self.since)
        self.since = now

    def forget(self, now: float) -> None:
        """Count from nothing again."""
        self.calls, self.asks, self.seconds, self.since = 0, 0, 0.0, now
        self.refused.clear()

    def spent(self, now: float) -> Spent:
        """Return what has been spent up to now."""
        self.settle(now)
        return Spent(self.calls, self.asks, self.seconds)


class UserAccount(Account):
    """What a user has spent in all runs."""

    __slots__ = ("active",)

    def __init__(self) -> None:
        super().__init__()
        self.active: int = 0
        """How many runs at work count towards it."""


class RunAccount(Account):
    """What a run has spent, those below it included."""

    __slots__ = ("asking", "drives", "warned", "working")

    def __init__(self) -> None:
        super().__init__()
        self.working: int = 0
        """Pieces of work that are under way."""
        self.asking: int = 0
        """Questions that are open."""
        self.drives: dict[UserAccount, int] = {}
        """The users whose clocks go with that of this run: it is the outermost one that counts towards them."""
        self.warned: set[str] = set()
        """The caps of which it has been warned."""

    def change(self, now: float, *, working: int = 0, asking: int = 0) -> None:
        """Begin or end work, or a question."""
        self.settle(now)
        self.working, self.asking = self.working + working, self.asking + asking
        rate = int(self.working > 0 and self.asking == 0)
        if rate != self.rate:
            for user in self.drives:
                user.settle(now)
                user.rate += rate - self.rate
            self.rate = rate

    def drive(self, user: UserAccount, now: float, by: int) -> None:
        """Let the clock of a user go with this one, or not any more."""
        count = self.drives.get(user, 0) + by
        user.active += by
        if (count > 0) is not (user in self.drives):
            user.settle(now)
            user.rate += self.rate if count > 0 else -self.rate
        if count > 0:
            self.drives[user] = count
        else:
            self.drives.pop(user, None)


class _UsedUp(NamedTuple):
    """What is kept, in little room, of a run that has reached a cap and is not at work."""

    spent: Spent
    refused: tuple[Kind, ...]
    warned: tuple[str, ...]

    @classmethod
    def of(cls, run: RunAccount, now: float) -> _UsedUp:
        return cls(run.spent(now), tuple(run.refused), tuple(run.warned))

    def account(self) -> RunAccount:
        run = RunAccount()
        run.calls, run.asks, run.seconds = self.spent
        run.refused.update(self.refused)
        run.warned.update(self.warned)
        return run


class _Lock:
    """One lock for the accounts of all budgets, and what is to be done under it later."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._later: deque[Callable[[], None]] = deque()

    def __enter__(self) -> None:
        self._lock.acquire()
        self._catch_up()

    def __exit__(self, *raised: object) -> None:
        self._lock.release()

    def do(self, change: Callable[[], None]) -> None:
        """Do something now, or before whoever comes next does anything.

        It never waits: the end of a turn may be the work of the garbage collector, in a thread that holds the lock.
        """
        self._later.append(change)
        if self._lock.acquire(blocking=False):
            try:
                self._catch_up()
            finally:
                self._lock.release()

    def _catch_up(self) -> None:
        while self._later:
            self._later.popleft()()


account_lock: _Lock = _Lock()
"""Held while an account is read or changed."""


class Accounts:
    """The accounts of one budget.

    Args:
        caps: The caps by name; None where there is none.
        soft_warning_at: From which part of a cap on to warn, or None.
        clock: What tells the time, in seconds.
    """

    def __init__(
        self, caps: Mapping[str, float | None], soft_warning_at: float | None, clock: Callable[[], float]
    ) -> None:
        self.caps: Mapping[str, float | None] = caps
        self.soft_warning_at: float | None = soft_warning_at
        self.now: Callable[[], float] = clock
        self._runs: OrderedDict[str, RunAccount] = OrderedDict()
        self._users: OrderedDict[str | None, UserAccount] = OrderedDict()
        self._used_up: dict[str, _UsedUp] = {}
        """Runs that would have been forgotten, had they not reached a cap."""
        self._full: dict[str | None, UserAccount] = {}
        """Users who would have been forgotten, had they not reached a cap."""

    def run(self, run_id: str) -> RunAccount:
        """Return the account of a run; it is the most recent one then."""
        account = self._runs.get(run_id)
        if account is None:
            if len(self._runs) >= KEPT:
                self._make_room_for_run()
            kept = self._used_up.pop(run_id, None)
            account = self._runs[run_id] = RunAccount() if kept is None else kept.account()
        self._runs.move_to_end(run_id)
        return account

    def user(self, user_id: str | None) -> UserAccount:
        """Return the account of a user; it is the most recent one then."""
        account = self._users.get(user_id)
        if account is None:
            if len(self._users) >= KEPT:
                self._make_room_for_user()
            account = self._full.pop(user_id) if user_id in self._full else UserAccount()
            self._users[user_id] = account
        self._users.move_to_end(user_id)
        return account

    def _make_room_for_run(self) -> None:
        idle = next((key for key, one in self._runs.items() if not one.working), None)
        if idle is not None:
            oldest = self._runs.pop(idle)
            if self._is_used_up(oldest):
                self._used_up[idle] = _UsedUp.of(oldest, self.now())

    def _make_room_for_user(self) -> None:
        idle = next((key for key, one in self._users.items() if not one.active), None)
        if idle is not None:
            oldest = self._users.pop(idle)
            if self._is_used_up(oldest):
                self._full[idle] = oldest

    def _is_used_up(self, account: Account) -> bool:
        """Return whether an account has reached a cap; a cap of nothing is reached without it."""
        now = self.now()
        return any(self._cap(account, kind)[1] and self.reached(account, kind, now) for kind in CAPS)

    def look_at_run(self, run_id: str) -> RunAccount | None:
        """Return the account of a run, where there is one."""
        account, kept = self._runs.get(run_id), self._used_up.get(run_id)
        return account if account is not None or kept is None else kept.account()

    def look_at_user(self, user_id: str | None) -> UserAccount | None:
        """Return the account of a user, where there is one."""
        return self._users.get(user_id) or self._full.get(user_id)

    def forget_user(self, user_id: str | None) -> None:
        """Let a user's caps count from nothing."""
        self._full.pop(user_id, None)
        account = self._users.get(user_id)
        if account is not None:  # a run at work may hold it
            account.forget(self.now())

    def reached(self, account: Account, kind: Kind, now: float) -> Refusal | None:
        """Return that a cap on an account is reached, or None."""
        name, cap = self._cap(account, kind)
        if cap is None or getattr(account.spent(now), kind) < cap:
            return None
        whose = "this user" if isinstance(account, UserAccount) else "this run"
        number, s = f"{cap:,g}", "s" * (cap != 1)
        what = {"calls": f"make {number} call{s}", "asks": f"ask {number} question{s}", "seconds": f"take {number} s"}
        return Refusal(name, f"The budget is used up: {whose} may {what[kind]} ({name}).")

    def near(self, account: Account, kind: Kind, now: float) -> tuple[str, str] | None:
        """Return which cap on an account is to be warned of, and the warning; else None."""
        name, cap = self._cap(account, kind)
        if not cap or self.soft_warning_at is None:
            return None
        spent = getattr(account.spent(now), kind)
        if spent < self.soft_warning_at * cap:
            return None
        whose = "user" if isinstance(account, UserAccount) else "run"
        what = {"calls": "calls", "asks": "questions", "seconds": "seconds"}
        return name, f"{spent:,g} of {cap:,g} {what[kind]} of the {whose} are spent ({name})"

    def _cap(self, account: Account, kind: Kind) -> tuple[str, float | None]:
        name = f"per_user_{CAPS[kind]}" if isinstance(account, UserAccount) else CAPS[kind]
        return name, self.caps[name]
