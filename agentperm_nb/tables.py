"""Tables and arrays as text: what they are, of which types, and their first rows as CSV.

Tables of pandas, polars and pyarrow, and arrays of numpy; only what is loaded already is looked for. Nothing is left
out without a count:

1. A table shows its first `ROWS` rows and `COLUMNS` columns, fewer rows when they come to more than `CHARACTERS`.
2. A cell shows its first `CELL` characters.
3. An array shows its first `VALUES` values.
4. An empty cell is a missing value; an empty text is ``""``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

__all__ = ["CELL", "CHARACTERS", "COLUMNS", "ROWS", "VALUES", "counted", "cut", "small_array", "table_text"]

ROWS = 50
COLUMNS = 50
CELL = 200
VALUES = 1_000
CHARACTERS = 20_000

_Plain = Callable[[Any], Any]
"""Makes a JSON value of anything; see `agentperm_nb.results`."""


def counted(count: int, noun: str) -> str:
    """Return ``1 row``, ``1,000 rows``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"


def cut(text: str, limit: int) -> str:
    """Return the first characters of a text, and how many there are more."""
    left = len(text) - limit
    return text if left <= 0 else f"{text[:limit]}… ({counted(left, 'more character')})"


def table_text(value: Any) -> Callable[[_Plain], str] | None:
    """Return what makes the text of a table or an array, or None if it is neither."""
    for module, find in _FINDERS.items():
        loaded = sys.modules.get(module)
        make = find(loaded, value) if loaded is not None else None
        if make is not None:
            return make
    return None


def small_array(value: Any, plain: _Plain) -> Any:
    """Return a numpy array of at most `VALUES` values as nested lists of JSON values; None for anything else."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.ndarray) or value.size > VALUES:
        return None
    return _nested(value, plain)


# --- one function a package -------------------------------------------------------------------------------------------


def _of_pandas(pandas: Any, value: Any) -> Callable[[_Plain], str] | None:
    style = sys.modules.get("pandas.io.formats.style")
    if style is not None and isinstance(value, style.Styler):
        value = value.data
    if isinstance(value, pandas.DataFrame):
        return lambda plain: _pandas_frame(value, plain, pandas)
    if isinstance(value, pandas.Series):
        return lambda plain: _pandas_series(value, plain, pandas)
    if isinstance(value, pandas.Index):
        title = f"{type(value).__name__}: {counted(len(value), 'value')}, {value.dtype}"
        return lambda plain: _column(title, value.name, value[:ROWS], len(value), plain)
    return None


def _pandas_frame(frame: Any, plain: _Plain, pandas: Any) -> str:
    index, labels = _index_columns(frame.index, pandas)
    width = frame.shape[1]
    shown = range(min(width, COLUMNS))
    columns = [list(frame.iloc[:ROWS, position].array) for position in shown]
    names = [_name(label) for label in frame.columns[:COLUMNS]]
    types = [f"{name} {frame.dtypes.iloc[position]}" for position, name in zip(shown, names, strict=True)]
    return _table(type(frame).__name__, frame.shape, [*labels, *names], types, [*index, *columns], plain, labels)


def _pandas_series(series: Any, plain: _Plain, pandas: Any) -> str:
    name = "" if series.name is None else _name(series.name)
    title = f"{type(series).__name__}{f' {name}' if name else ''}: {counted(len(series), 'value')}, {series.dtype}"
    index, labels = _index_columns(series.index, pandas)
    values = list(series.iloc[:ROWS].array)
    return "\n".join([title, *_rows([*labels, name or "value"], [*index, values], len(series), plain)])


def _index_columns(index: Any, pandas: Any) -> tuple[list[list[Any]], list[str]]:
    """Return the columns that an index makes, and their names: none for the plain count of rows."""
    if isinstance(index, pandas.RangeIndex) and index.start == 0 and index.step == 1 and index.name is None:
        return [], []
    levels = [index[:ROWS].get_level_values(level) for level in range(index.nlevels)]
    names = [_name(name) if name is not None else f"index {n}" for n, name in enumerate(index.names, 1)]
    return [list(level) for level in levels], names if index.nlevels > 1 else [names[0].replace("index 1", "index")]


def _of_polars(polars: Any, value: Any) -> Callable[[_Plain], str] | None:
    if isinstance(value, polars.LazyFrame):
        return lambda plain: "polars LazyFrame: not collected, so there are no rows to show"
    if isinstance(value, polars.Series):
        title = f"polars Series: {counted(len(value), 'value')}, {value.dtype}"
        return lambda plain: _column(title, value.name or None, value.head(ROWS).to_list(), len(value), plain)
    if not isinstance(value, polars.DataFrame):
        return None

    def make(plain: _Plain) -> str:
        names, head = value.columns[:COLUMNS], value.head(ROWS)
        types = [f"{name} {kind}" for name, kind in zip(names, value.dtypes, strict=False)]
        columns = [head[name].to_list() for name in names]
        return _table("polars DataFrame", value.shape, names, types, columns, plain)

    return make


def _of_pyarrow(pyarrow: Any, value: Any) -> Callable[[_Plain], str] | None:
    if isinstance(value, pyarrow.Array | pyarrow.ChunkedArray):
        title = f"pyarrow {type(value).__name__}: {counted(len(value), 'value')}, {value.type}"
        return lambda plain: _column(title, None, value.slice(0, ROWS).to_pylist(), len(value), plain)
    if not isinstance(value, pyarrow.Table | pyarrow.RecordBatch):
        return None

    def make(plain: _Plain) -> str:
        fields = list(islice(value.schema, COLUMNS))
        columns = [value.column(position).slice(0, ROWS).to_pylist() for position in range(len(fields))]
        types = [f"{field.name} {field.type}" for field in fields]
        names, shape = [field.name for field in fields], (value.num_rows, value.num_columns)
        return _table(f"pyarrow {type(value).__name__}", shape, names, types, columns, plain)

    return make


def _of_numpy(numpy: Any, value: Any) -> Callable[[_Plain], str] | None:
    if not isinstance(value, numpy.ndarray) or value.ndim == 0:
        return None

    def make(plain: _Plain) -> str:
        shape = " × ".join(f"{length:,}" for length in value.shape)
        title = f"{type(value).__name__}: {shape} value{'s' * (value.size != 1)}, {value.dtype}"
        if value.size <= VALUES:
            return f"{title}\n{cut(_json(_nested(value, plain)), CHARACTERS)}"
        first = _json([plain(item) for item in islice(value.flat, VALUES)])
        left = counted(value.size - VALUES, "more value")
        return f"{title}\n{cut(first, CHARACTERS)}\n({left}; row by row)"

    return make


def _nested(array: Any, plain: _Plain) -> Any:
    if array.ndim == 0:
        return plain(array[()])
    return [plain(item) if array.ndim == 1 else _nested(item, plain) for item in array]


_FINDERS = {"pandas": _of_pandas, "polars": _of_polars, "pyarrow": _of_pyarrow, "numpy": _of_numpy}


# --- what all of them share -------------------------------------------------------------------------------------------


def _table(
    kind: str,
    shape: Sequence[int],
    names: Sequence[str],
    types: Sequence[str],
    columns: Sequence[Sequence[Any]],
    plain: _Plain,
    labels: Sequence[str] = (),
) -> str:
    lines = [f"{kind}: {counted(shape[0], 'row')} × {counted(shape[1], 'column')}"]
    if types:
        lines.append("columns: " + ", ".join(cut(text, CELL) for text in types))
    if shape[1] > COLUMNS:
        lines.append(f"({counted(shape[1] - COLUMNS, 'more column')})")
    if labels:
        lines.append("index: " + ", ".join(cut(text, CELL) for text in labels))
    return "\n".join([*lines, *_rows(names, columns, shape[0], plain)])


def _column(title: str, name: Any, values: Iterable[Any], total: int, plain: _Plain) -> str:
    head = "value" if name is None else _name(name)
    return "\n".join([title, *_rows([head], [list(values)], total, plain)])


def _rows(names: Sequence[str], columns: Sequence[Sequence[Any]], total: int, plain: _Plain) -> list[str]:
    lines = [",".join(_quoted(cut(name, CELL)) for name in names)] if names else []
    shown, characters = 0, 0
    for row in zip(*columns, strict=True):
        line = ",".join(_cell(value, plain) for value in row)
        characters += len(line) + 1
        if shown and characters > CHARACTERS:
            break
        lines.append(line)
        shown += 1
    if columns and shown < total:
        lines.append(f"({counted(total - shown, 'more row')})")
    return lines


def _cell(value: Any, plain: _Plain) -> str:
    made = plain(value)
    if made is None or (made == "NaN" and not isinstance(value, str)):
        return ""
    return _quoted(cut(made if isinstance(made, str) else _json(made), CELL))


def _quoted(text: str) -> str:
    if text == "" or any(mark in text for mark in ',"\r\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


def _name(label: Any) -> str:
    return " / ".join(str(part) for part in label) if isinstance(label, tuple) else str(label)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
