"""Rows of the log as pandas tables. Columns and dtypes are fixed, also for an empty log.

Texts are ``string``, closed sets categoricals with all their values (so that two logs concatenate), times
``datetime64[us, UTC]``, numbers ``Int64`` and ``Float64``, truth values ``boolean``. ``args`` and ``args_run`` hold
dicts.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from agentperm_nb.audit.projection import COLUMNS, Row

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CATEGORIES", "calls_frame"]

CATEGORIES: dict[str, tuple[str, ...]] = {
    "verdict": ("allowed", "denied", "input_error", "cancelled"),
    "decided_kind": (
        "deny", "allow", "decide", "memory", "human", "timeout", "nobody", "schema", "budget", "unchecked",
    ),
    "answered_by": ("human", "memory", "handler", "timeout", "nobody"),
    "outcome": ("ran", "failed", "not_run", "lost"),
    "hints_from": ("tool", "server"),
    "answer": ("allow", "deny", "edit", "remember_allow", "remember_deny"),
}  # fmt: skip
"""The closed sets, with every value they can have."""

_INTEGERS = {"seq", "turn", "position"}
_FLOATS = {"waited_s", "duration_s"}
_BOOLEANS = {"masked", "edited", "read_only", "destructive", "open_world", "asked", "stop"}
_TIMES = {"time", "started", "finished"}
_OBJECTS = {"args", "args_run"}


def calls_frame(rows: Iterable[Row]) -> pd.DataFrame:
    """Return one row a call, in the fixed columns and dtypes."""
    import pandas as pd

    rows = list(rows)
    return pd.DataFrame({name: _column(name, [row[name] for row in rows]) for name in COLUMNS})


def _column(name: str, values: list[Any]) -> Any:
    import pandas as pd

    if name in _OBJECTS:
        return pd.Series(values, dtype="object")
    if name in _INTEGERS:
        return pd.array(values, dtype="Int64")
    if name in _FLOATS:
        return pd.array(values, dtype="Float64")
    if name in _BOOLEANS:
        return pd.array(values, dtype="boolean")
    if name in _TIMES:
        return pd.DatetimeIndex(values, dtype="datetime64[us, UTC]")
    if name in CATEGORIES:
        return pd.Categorical(values, categories=list(CATEGORIES[name]))
    return pd.array([_unicode(value) for value in values], dtype="string")


def _unicode(value: Any) -> Any:
    # Half of a surrogate pair is no Unicode: Arrow, and so a string column, would refuse the whole table for it.
    if isinstance(value, str) and not value.isascii():
        return value.encode(errors="backslashreplace").decode()
    return value
