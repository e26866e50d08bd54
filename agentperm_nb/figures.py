"""Figures and pictures: drawn to an `Image` where that needs neither network nor browser, else told in words.

Figures of matplotlib (and whatever holds one: axes, lines, the grids of seaborn) and images of Pillow are drawn. Charts
of plotly and Altair are told: what draws them starts a browser, or may fetch what they refer to. Only what is loaded
already is looked for.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import Any

from agentperm_nb.images import Image
from agentperm_nb.tables import CELL, CHARACTERS, counted, cut

__all__ = ["LONGEST_SIDE", "chart_text", "drawn_figure", "drawn_picture", "figure_of", "is_picture"]

LONGEST_SIDE = 2_000
"""Pixels; providers make larger images smaller, or refuse them."""

_SHOWN_POINTS = 20
_POINTS = ("x", "y", "z", "values", "labels", "locations", "lat", "lon", "r", "theta")


def figure_of(value: Any) -> Any:
    """Return the matplotlib figure that a value is, or belongs to; None if there is none."""
    module = sys.modules.get("matplotlib.figure")
    if module is None:
        return None
    # Only where it means this: "figure" may be anything elsewhere, such as a column of a table.
    if not any(base.__module__.partition(".")[0] in {"matplotlib", "seaborn"} for base in type(value).__mro__):
        return None
    if isinstance(value, tuple):  # the bars of a bar chart
        value = value[0] if value else None
    for _ in range(4):  # axes of a part of a part of a figure
        if value is None or isinstance(value, module.Figure):
            return value
        value = getattr(value, "figure", None)
    return None


def drawn_figure(figure: Any) -> tuple[Image, str]:
    """Return a matplotlib figure as a PNG image, and what it is in a few words."""
    width, height = figure.get_size_inches()
    file = io.BytesIO()
    dots = min(figure.dpi, LONGEST_SIDE / (max(width, height) + 0.2))  # a tight box has a tenth of an inch around it
    figure.savefig(file, format="png", dpi=dots, bbox_inches="tight")
    titles = [figure.get_suptitle(), *(axes.get_title() for axes in figure.axes)]
    named = ", ".join(json.dumps(title, ensure_ascii=False) for title in titles if title)
    return Image(file.getvalue(), "image/png"), f"matplotlib figure{f' {cut(named, CELL)}' if named else ''}"


def is_picture(value: Any) -> bool:
    """Return whether a value is an image of Pillow."""
    module = sys.modules.get("PIL.Image")
    return module is not None and isinstance(value, module.Image)


def drawn_picture(picture: Any) -> tuple[Image, str]:
    """Return an image of Pillow as a PNG image, at most `LONGEST_SIDE` pixels wide and high, and what it is."""
    what = "picture"
    before = f"{picture.width:,} × {picture.height:,} pixels"
    if picture.mode not in {"1", "L", "LA", "P", "RGB", "RGBA"}:
        picture = picture.convert("RGB")
    if max(picture.size) > LONGEST_SIDE:
        picture = picture.convert("RGBA") if picture.mode == "P" else picture.copy()
        picture.thumbnail((LONGEST_SIDE, LONGEST_SIDE))
        what += f" of {before}, made smaller"
    file = io.BytesIO()
    picture.save(file, format="PNG")
    return Image(file.getvalue(), "image/png"), what


def chart_text(value: Any) -> Callable[[Callable[[Any], Any]], str] | None:
    """Return what makes the text of a chart of plotly or Altair, or None if it is neither."""
    plotly = sys.modules.get("plotly.basedatatypes")
    if plotly is not None and isinstance(value, plotly.BaseFigure):
        return lambda plain: _plotly_text(value, plain)
    altair = sys.modules.get("altair")
    if altair is not None and isinstance(value, altair.TopLevelMixin):
        return lambda plain: _altair_text(value, altair)
    return None


def _plotly_text(figure: Any, plain: Callable[[Any], Any]) -> str:
    lines = [f"plotly figure: {counted(len(figure.data), 'trace')}"]
    for where, words in (
        ("title", figure.layout.title.text),
        ("x axis", figure.layout.xaxis.title.text),
        ("y axis", figure.layout.yaxis.title.text),
    ):
        if words:
            lines.append(f"{where}: {cut(words, CELL)}")
    for number, trace in enumerate(figure.data, 1):
        lines.append(f"trace {number}: {trace.type}{f', {cut(trace.name, CELL)}' if trace.name else ''}")
        for name in _POINTS:
            values = trace[name] if name in trace else None  # noqa: SIM401 - it has no get
            if values is None:
                continue
            points = list(values)
            shown = json.dumps(plain(points[:_SHOWN_POINTS]), ensure_ascii=False)
            left = len(points) - _SHOWN_POINTS
            lines.append(
                f"  {name}: {cut(shown, 5 * CELL)}" + (f" ({counted(left, 'more value')})" if left > 0 else "")
            )
    return cut("\n".join(lines), CHARACTERS)


def _altair_text(chart: Any, altair: Any) -> str:
    try:
        with altair.data_transformers.enable("default", max_rows=None):
            spec = chart.to_dict()
    except Exception as error:  # noqa: BLE001 - a chart that cannot be drawn is told of, and the tool has run
        return f"Altair {type(chart).__name__} that cannot be drawn: {cut(str(error), 5 * CELL)}"
    # What stays is what the chart says; the rows are the tool's to return.
    rows = sum(len(rows) for rows in spec.pop("datasets", {}).values())
    for name in ("$schema", "config"):
        spec.pop(name, None)
    if set(spec.get("data", ())) == {"name"}:
        del spec["data"]
    told = cut(json.dumps(spec, ensure_ascii=False, default=str), CHARACTERS)
    return f"Altair {type(chart).__name__} of {counted(rows, 'row')}, as Vega-Lite:\n{told}"
