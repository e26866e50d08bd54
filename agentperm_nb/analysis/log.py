"""The log with the views on it: what ``agent.audit`` is."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from agentperm_nb.analysis.frames import calls_frame
from agentperm_nb.audit.events import Event
from agentperm_nb.audit.store import MemoryStore, Store
from agentperm_nb.errors import fix_message

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Log", "as_log"]


class Log:
    """An audit log: events, and pandas views of the calls they are about.

    Args:
        store: Where the events are kept; in memory when left out.
    """

    def __init__(self, store: Store | None = None) -> None:
        self.store: Store = MemoryStore() if store is None else store
        self._lock = threading.Lock()
        self._turns: dict[str, int] = {}

    def __repr__(self) -> str:
        return f"Log({self.store!r})"

    def __len__(self) -> int:
        return len(self.store.rows())

    def __bool__(self) -> bool:
        return True  # an empty log is a log

    def next_turn(self, run: str, *, at_least: int = 1) -> int:
        """Return the number of the next turn of a run, from 1: no two turns in one log share run and number."""
        with self._lock:
            number = self._turns[run] = max(self._turns.get(run, 0) + 1, at_least)
            return number

    def calls(self) -> pd.DataFrame:
        """Return one row a call, oldest first. `docs/audit-columns.md` describes the columns."""
        return calls_frame(self.store.rows())

    def denials(self) -> pd.DataFrame:
        """Return the refused calls in the columns of `calls`, newest first."""
        return calls_frame(reversed(self.store.rows(lambda row: row["verdict"] == "denied")))

    def events(self, call_key: str | None = None) -> list[Event]:
        """Return the events, oldest first, of one call or of all."""
        return self.store.events(call_key)


def as_log(audit: object) -> Log:
    """Return the log that ``audit=`` stands for: a new one in memory for None, or the one given.

    Raises:
        TypeError: It is neither.
    """
    if audit is None:
        return Log()
    if isinstance(audit, Log):
        return audit
    raise TypeError(
        fix_message(
            f"audit= takes a Log (got: {audit!r})",
            "leave it out for a log in memory, or share the log of another agent",
            "agent = Agent(tools)\nhelper = Agent(tools, name='helper', audit=agent.audit)",
        )
    )
