"""Results: what the model is told of what a tool returns, and which images go with it."""

from __future__ import annotations

import base64
import collections
import dataclasses
import datetime
import decimal
import enum
import io
import json
import math
import pathlib
import socket
import sqlite3
import subprocess
import sys
import types
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import altair
import attrs
import matplotlib
import numpy as np
import pandas as pd
import PIL.Image
import plotly.graph_objects
import polars
import pyarrow
import pydantic
import pytest
from matplotlib.figure import Figure

from agentperm_nb.errors import fix_message
from agentperm_nb.figures import LONGEST_SIDE
from agentperm_nb.images import Image
from agentperm_nb.results import ResultForm, result_form
from agentperm_nb.tables import CELL, CHARACTERS, COLUMNS, ROWS, VALUES, cut

matplotlib.use("agg")


def text_of(value: Any) -> str:
    form = result_form(value)
    assert form.images == ()
    return form.text


def png(width: int = 2, height: int = 3) -> bytes:
    file = io.BytesIO()
    PIL.Image.new("RGB", (width, height)).save(file, "PNG")
    return file.getvalue()


def picture_file(kind: str) -> bytes:
    file = io.BytesIO()
    PIL.Image.new("RGB", (2, 2)).save(file, kind)
    return file.getvalue()


def figure(title: str = "") -> Figure:
    made = Figure()
    made.subplots().set_title(title)
    return made


class Colour(enum.Enum):
    RED = "red"
    ONE = 1


class Level(enum.StrEnum):
    HIGH = "high"


class Old(str, enum.Enum):  # noqa: UP042 - the older spelling, whose str() is "Old.A"
    A = "a"


class Point(NamedTuple):
    x: int
    y: datetime.date


@dataclasses.dataclass
class Passenger:
    name: str
    born: datetime.date


class Seat(pydantic.BaseModel):
    row: int
    taken: datetime.date | None = None


class Rich(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    table: pd.DataFrame
    data: bytes


@attrs.define
class Bag:
    kilos: float


class Plain:
    pass


class Item:
    pass


class Said:
    def __str__(self) -> str:
        return "said so"


class Long:
    def __repr__(self) -> str:
        return "x" * (CHARACTERS + 1_234)


class Broken:
    def __str__(self) -> str:
        raise ZeroDivisionError("no text")


class Marked:
    def _repr_markdown_(self) -> str:
        return "**bold**"


class Drawn:
    def __init__(self, data: Any) -> None:
        self.data = data

    def _repr_png_(self) -> Any:
        return self.data

    def _repr_markdown_(self) -> str:
        return "not drawn"


def later() -> Iterator[int]:
    yield 1


class TestTexts:
    @pytest.mark.parametrize(
        "text", ["", "(done)", "naïve 😀", "a\nb", '{"a": 1}', "x" * 100_000], ids=lambda text: text[:9]
    )
    def test_a_text_is_told_as_it_is(self, text: str) -> None:
        assert result_form(text) == ResultForm(text)

    def test_none_is_told_as_done(self) -> None:
        assert result_form(None) == ResultForm("(done)")

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (True, "true"),
            (5, "5"),
            (1.5, "1.5"),
            (math.nan, "NaN"),
            (-math.inf, "-Infinity"),
            ([], "[]"),
            ({}, "{}"),
            (["é", None, 1.0], '["é", null, 1.0]'),
            ((1, (2, 3)), "[1, [2, 3]]"),
            ({"a": math.nan, "b": [math.inf]}, '{"a": "NaN", "b": ["Infinity"]}'),
            ({3, 10, 2}, "[2, 3, 10]"),
            (frozenset({"b", 1}), '["b", 1]'),
            (collections.deque([1, 2]), "[1, 2]"),
            (collections.Counter("aab"), '{"a": 2, "b": 1}'),
            ({"b": 1, "a": 2}.keys(), '["b", "a"]'),
            (types.MappingProxyType({"a": 1}), '{"a": 1}'),
            (Point(1, datetime.date(2026, 1, 2)), '{"x": 1, "y": "2026-01-02"}'),
            (Passenger("Ada", datetime.date(1815, 12, 10)), '{"name": "Ada", "born": "1815-12-10"}'),
            (Seat(row=1, taken=datetime.date(2026, 1, 2)), '{"row": 1, "taken": "2026-01-02"}'),
            ([Seat(row=1)], '[{"row": 1, "taken": null}]'),
            (Bag(7.5), '{"kilos": 7.5}'),
            (range(3), "range(0, 3)"),
        ],
        ids=str,
    )  # fmt: skip
    def test_what_has_parts_is_told_as_json(self, value: Any, text: str) -> None:
        assert text_of(value) == text

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (Colour.RED, "red"),
            (Level.HIGH, "high"),
            (Old.A, "a"),
            (datetime.date(2026, 1, 2), "2026-01-02"),
            (datetime.datetime(2026, 1, 2, 3, tzinfo=datetime.UTC), "2026-01-02T03:00:00+00:00"),
            (datetime.time(3, 4), "03:04:00"),
            (datetime.timedelta(days=1, hours=2), "1 day, 2:00:00"),
            (decimal.Decimal("1.10"), "1.10"),
            (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
            (pathlib.PurePosixPath("/data/a"), "/data/a"),
            (pydantic.SecretStr("s3cret"), "**********"),
            (1 + 2j, "(1+2j)"),
            (collections.UserString("text"), "text"),
            (ValueError("no such file"), "ValueError: no such file"),
            (Said(), "said so"),
            (Marked(), "**bold**"),
            (np.str_("text"), "text"),
        ],
        ids=repr,
    )
    def test_what_becomes_one_text_has_no_quotes_alone_and_is_a_json_text_inside(self, value: Any, text: str) -> None:
        assert text_of(value) == text
        assert json.loads(text_of({"it": value})) == {"it": text}

    def test_an_enum_of_numbers_is_its_number(self) -> None:
        assert text_of(Colour.ONE) == "1"

    def test_a_key_that_is_no_text_becomes_its_json(self) -> None:
        value = {1: "a", None: "b", False: "c", datetime.date(2026, 1, 2): "d", ("x", 1): "e", Colour.RED: "f"}
        assert json.loads(text_of(value)) == {
            "1": "a", "null": "b", "false": "c", "2026-01-02": "d", '["x", 1]': "e", "red": "f",
        }  # fmt: skip

    def test_where_two_keys_become_one_text_none_is_lost(self) -> None:
        assert text_of({1: "a", "1": "b"}) == '[[1, "a"], ["1", "b"]]'

    def test_a_row_of_a_database_has_its_columns(self) -> None:
        with sqlite3.connect(":memory:") as database:
            database.row_factory = sqlite3.Row
            rows = database.execute("select 1 as a, 'x' as b").fetchall()
        database.close()
        assert text_of(rows) == '[{"a": 1, "b": "x"}]'

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (Plain(), "(a Plain object)"),
            (Item(), "(an Item object)"),
            (lambda: None, "(a function object)"),
            (later(), "(a generator object)"),
            ([Plain()], '["(a Plain object)"]'),
        ],
        ids=["object", "vowel", "function", "generator", "inside"],
    )
    def test_an_object_that_says_nothing_of_itself_is_named_without_its_address(self, value: Any, text: str) -> None:
        assert text_of(value) == text

    def test_a_generator_is_not_used_up(self) -> None:
        waiting = later()
        text_of(waiting)
        assert list(waiting) == [1]

    def test_a_class_is_not_taken_for_one_of_its_objects(self) -> None:
        assert "Passenger" in text_of(Passenger)

    def test_what_an_object_says_of_itself_is_cut_with_a_count(self) -> None:
        assert text_of(Long()) == "x" * CHARACTERS + "… (1,234 more characters)"
        assert cut("ab", 1) == "a… (1 more character)"
        assert cut("ab", 2) == "ab"

    def test_half_of_a_surrogate_pair_is_written_as_an_escape(self) -> None:
        assert text_of("é \udcff") == "é \\udcff"
        assert text_of({"name": "\ud800"}).isascii()

    def test_what_contains_itself_is_an_error(self) -> None:
        endless: list[Any] = []
        endless.append(endless)
        with pytest.raises(ValueError, match="nested too deeply, or contains itself"):
            result_form(endless)

    def test_an_exception_on_the_way_is_the_callers(self) -> None:
        with pytest.raises(ZeroDivisionError, match="no text"):
            result_form([Broken()])

    def test_a_model_with_fields_without_a_json_form_has_our_form_of_them(self) -> None:
        told = json.loads(text_of(Rich(table=pd.DataFrame({"a": [1]}), data=b"\xff\x00")))
        assert told == {"table": "DataFrame: 1 row × 1 column\ncolumns: a int64\na\n1", "data": "(2 bytes)"}


class TestImage:
    def test_it_says_what_it_is_and_not_its_bytes(self) -> None:
        data = png(2, 3)
        assert repr(Image(data, "image/png")) == f"Image(image/png, 2 × 3 pixels, {len(data)} bytes)"
        assert repr(Image(b"x" * 1_234, "image/bmp")) == "Image(image/bmp, 1,234 bytes)"

    def test_a_notebook_shows_it(self) -> None:
        image = Image(png(), "image/png")
        shown = image._repr_mimebundle_()
        assert base64.b64decode(shown["image/png"]) == image.data
        assert shown["text/plain"] == repr(image)
        assert Image(b"<svg/>", "image/svg+xml")._repr_mimebundle_()["image/svg+xml"] == "<svg/>"

    def test_it_never_changes_and_is_equal_by_content(self) -> None:
        image = Image(png(), "image/png")
        with pytest.raises(dataclasses.FrozenInstanceError):
            image.data = b""  # type: ignore[misc]
        assert image == Image(png(), "image/png")
        assert len({image, Image(png(), "image/png")}) == 1

    @pytest.mark.parametrize(
        ("data", "media_type", "error", "text"),
        [
            ("text", "image/png", TypeError, "takes the bytes of a file"),
            (bytearray(b"x"), "image/png", TypeError, "takes the bytes of a file"),
            (b"x", None, TypeError, "is not a string"),
            (b"", "image/png", ValueError, "got no bytes"),
            (b"x", "png", ValueError, "is not the type of an image"),
            (b"x", "text/plain", ValueError, "is not the type of an image"),
            (b"x", "image/png\n", ValueError, "is not the type of an image"),
            (b"\xff\xd8\xff\xe0", "image/png", ValueError, "is image/jpeg, not image/png"),
        ],
        ids=["text", "array", "no type", "empty", "no image", "text type", "line", "other"],
    )
    def test_what_is_no_image_is_refused_in_three_parts(
        self, data: Any, media_type: Any, error: type[Exception], text: str
    ) -> None:
        with pytest.raises(error, match=text) as caught:
            Image(data, media_type)
        assert str(caught.value) == fix_message(*_parts(str(caught.value)))


def _parts(text: str) -> tuple[str, str, str]:
    problem, _, rest = text.partition("\nFix: ")
    fix, _, example = rest.partition("\nExample:\n")
    return problem, fix, example


class TestImages:
    def test_an_image_goes_with_a_line_that_says_what_it_is(self) -> None:
        image = Image(png(), "image/png")
        assert result_form(image) == ResultForm(f"(image 1: PNG; 2 × 3 pixels, {len(image.data)} bytes)", (image,))

    @pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WebP"])
    @pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview], ids=lambda wrap: wrap.__name__)
    def test_bytes_of_an_image_file_are_an_image(self, kind: str, wrap: Callable[[bytes], Any]) -> None:
        data = picture_file(kind)
        form = result_form(wrap(data))
        assert form.images == (Image(data, f"image/{kind.lower()}"),)
        assert form.text.startswith(f"(image 1: {kind.upper()}; ")

    @pytest.mark.parametrize(
        ("data", "text"), [(b"", "(0 bytes)"), (b"a", "(1 byte)"), (b"\0" * 1024, "(1,024 bytes)")]
    )
    def test_other_bytes_are_counted(self, data: bytes, text: str) -> None:
        assert text_of(data) == text
        assert text_of({"body": data}) == json.dumps({"body": text})

    def test_texts_and_images_stand_one_below_the_other(self) -> None:
        first, second = Image(png(1, 1), "image/png"), Image(png(2, 2), "image/png")
        for value in (
            ["Before:", first, "After:", second, None, {"n": 1}],
            ("Before:", first, "After:", second, None, {"n": 1}),
        ):
            form = result_form(value)
            assert form.images == (first, second)
            lines = form.text.split("\n")
            assert [line.partition(";")[0] for line in lines] == [
                "Before:", "(image 1: PNG", "After:", "(image 2: PNG", "null", '{"n": 1}',
            ]  # fmt: skip

    def test_an_image_inside_of_json_leaves_its_line_there(self) -> None:
        image = Image(png(), "image/png")
        form = result_form({"plot": image, "mean": 3})
        assert form.images == (image,)
        assert json.loads(form.text) == {"plot": f"(image 1: PNG; 2 × 3 pixels, {len(image.data)} bytes)", "mean": 3}

    @pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "F", "I", "I;16"])
    def test_a_picture_of_any_mode_becomes_png(self, mode: str) -> None:
        form = result_form(PIL.Image.new(mode, (4, 5)))
        assert form.text.startswith("(image 1: picture; 4 × 5 pixels, ")
        assert PIL.Image.open(io.BytesIO(form.images[0].data)).size == (4, 5)

    def test_a_large_picture_is_made_smaller_and_says_so(self) -> None:
        picture = PIL.Image.new("P", (2 * LONGEST_SIDE, 20))
        form = result_form(picture)
        assert form.text.startswith("(image 1: picture of 4,000 × 20 pixels, made smaller; 2,000 × 10 pixels, ")
        assert picture.size == (4_000, 20)

    def test_a_figure_is_drawn_and_named_by_its_titles(self) -> None:
        made = figure("Sales")
        made.suptitle("Report")
        form = result_form(made)
        [image] = form.images
        assert image.media_type == "image/png"
        assert PIL.Image.open(io.BytesIO(image.data)).format == "PNG"
        assert form.text.startswith('(image 1: matplotlib figure "Report", "Sales"; ')

    def test_what_belongs_to_a_figure_is_the_figure(self) -> None:
        made = Figure()
        axes = made.subplots()
        bars = axes.bar([1, 2], [3, 4])
        parts = made.subfigures(1, 2)[0].subplots()
        for value in (axes, bars, axes.plot([1, 2]), axes.plot([1, 2])[0], parts):
            assert len(result_form(value).images) == 1

    def test_a_figure_is_drawn_once_for_all_that_belongs_to_it(self) -> None:
        made = Figure()
        axes = made.subplots(2, 2)
        for value in (axes, (made, axes), [made, axes[0][0]], list(axes.flat)):
            form = result_form(value)
            assert len(form.images) == 1
            assert form.text.count("\n") == 0
        inside = json.loads(result_form({"figure": made, "axes": axes[0][0]}).text)
        assert inside["axes"] == "(see image 1)"

    def test_a_huge_figure_is_drawn_smaller(self) -> None:
        form = result_form(Figure(figsize=(100, 1)))
        assert PIL.Image.open(io.BytesIO(form.images[0].data)).width <= LONGEST_SIDE

    @pytest.mark.parametrize(
        "give",
        [bytes, lambda data: base64.b64encode(data).decode(), lambda data: (data, {"width": 2})],
        ids=["bytes", "base64", "with metadata"],
    )
    def test_what_an_object_draws_for_a_notebook_is_its_image(self, give: Callable[[bytes], Any]) -> None:
        assert result_form(Drawn(give(png()))).images == (Image(png(), "image/png"),)

    @pytest.mark.parametrize("data", [None, b"no image"], ids=repr)
    def test_an_object_that_draws_nothing_is_told_in_words(self, data: Any) -> None:
        assert text_of(Drawn(data)) == "not drawn"


class TestCharts:
    def test_a_plotly_figure_is_told_with_its_titles_and_points(self) -> None:
        chart = plotly.graph_objects.Figure(
            [
                plotly.graph_objects.Bar(x=["a", "b"], y=[1.5, None], name="first"),
                plotly.graph_objects.Scatter(y=np.arange(30)),
            ]
        )
        chart.update_layout(title="Sales", xaxis_title="Shop")
        assert text_of(chart).splitlines() == [
            "plotly figure: 2 traces",
            "title: Sales",
            "x axis: Shop",
            "trace 1: bar, first",
            '  x: ["a", "b"]',
            "  y: [1.5, null]",
            "trace 2: scatter",
            f"  y: {list(range(20))} (10 more values)",
        ]

    def test_an_altair_chart_is_told_without_its_rows(self) -> None:
        chart = altair.Chart(pd.DataFrame({"a": range(6_000)})).mark_bar().encode(x="a:Q")
        first, second = text_of(chart).splitlines()
        assert first == "Altair Chart of 6,000 rows, as Vega-Lite:"
        assert json.loads(second) == {
            "mark": {"type": "bar"}, "encoding": {"x": {"field": "a", "type": "quantitative"}},
        }  # fmt: skip

    def test_an_altair_chart_that_cannot_be_drawn_says_why(self) -> None:
        chart = altair.Chart(pd.DataFrame({"a": [1]})).mark_bar().encode(x="missing")
        assert text_of(chart).startswith("Altair Chart that cannot be drawn: ")

    def test_nothing_is_fetched_for_a_chart(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            address = f"http://127.0.0.1:{listening.getsockname()[1]}/a.csv"
            listening.setblocking(False)
            assert address in text_of(altair.Chart(address).mark_bar())
            with pytest.raises(BlockingIOError):  # nobody has called
                listening.accept()


class TestTables:
    def test_a_small_frame_is_told_in_full(self) -> None:
        frame = pd.DataFrame(
            {
                "n": [1, 2, 3],
                "x": [0.5, math.nan, math.inf],
                "text": pd.Series(['say "a, b"', "", None], dtype="object"),
                "day": pd.to_datetime(["2026-01-02", None, "2026-01-03T04:05"], format="ISO8601"),
                "tags": [["a"], {"k": 1}, b"abc"],
                "yes": pd.array([True, None, False], dtype="boolean"),
            }
        )
        lines = text_of(frame).splitlines()
        assert lines[0] == "DataFrame: 3 rows × 6 columns"
        assert lines[1].startswith("columns: n int64, x float64, text object, day datetime64[")
        assert lines[2:] == [
            "n,x,text,day,tags,yes",
            '1,0.5,"say ""a, b""",2026-01-02T00:00:00,"[""a""]",true',
            '2,,"",,"{""k"": 1}",',
            "3,Infinity,,2026-01-03T04:05:00,(3 bytes),false",
        ]

    def test_rows_and_columns_that_are_left_out_are_counted(self) -> None:
        frame = pd.DataFrame({f"c{n}": range(1_000) for n in range(COLUMNS + 2)})
        lines = text_of(frame).splitlines()
        assert lines[0] == "DataFrame: 1,000 rows × 52 columns"
        assert lines[2] == "(2 more columns)"
        assert lines[3].split(",")[-1] == "c49"
        assert len(lines) == 4 + ROWS + 1
        assert lines[-1] == "(950 more rows)"

    def test_long_rows_are_fewer_and_a_long_cell_is_cut_with_a_count(self) -> None:
        frame = pd.DataFrame({f"c{n}": ["x" * (CELL + 7)] * 30 for n in range(10)})
        lines = text_of(frame).splitlines()
        assert len("\n".join(lines)) < CHARACTERS + 1_000
        assert lines[3].split(",")[0] == "x" * CELL + "… (7 more characters)"
        assert lines[-1] == f"({30 - (len(lines) - 4)} more rows)"
        assert len(lines) > 5

    def test_an_index_that_says_something_is_shown(self) -> None:
        frame = pd.DataFrame({"shop": ["a", "b"], "year": [1, 2], "n": [3, 4]})
        assert text_of(frame.set_index("shop")).splitlines()[2:] == ["index: shop", "shop,year,n", "a,1,3", "b,2,4"]
        assert text_of(frame.set_index(["shop", "year"])).splitlines()[2:] == [
            "index: shop, year", "shop,year,n", "a,1,3", "b,2,4",
        ]  # fmt: skip
        assert text_of(frame[["n"]].iloc[::-1]).splitlines()[2:] == ["index: index", "index,n", "1,4", "0,3"]

    def test_names_of_columns_may_be_anything_and_twice_the_same(self) -> None:
        frame = pd.DataFrame([[1, 2, 3]], columns=pd.MultiIndex.from_tuples([("a", "b"), ("a", "b"), ("c, d", 1)]))
        assert text_of(frame).splitlines()[2] == 'a / b,a / b,"c, d / 1"'

    @pytest.mark.parametrize(
        ("value", "lines"),
        [
            (pd.Series([1, 2], name="n"), ["Series n: 2 values, int64", "n", "1", "2"]),
            (pd.Series([1], index=["a"]), ["Series: 1 value, int64", "index,value", "a,1"]),
            (pd.Series([], dtype="float64"), ["Series: 0 values, float64", "value"]),
            (pd.Index([1, 2], name="id"), ["Index: 2 values, int64", "id", "1", "2"]),
            (pd.DataFrame(), ["DataFrame: 0 rows × 0 columns"]),
            (pd.DataFrame({"a": []}, dtype="int64"), ["DataFrame: 0 rows × 1 column", "columns: a int64", "a"]),
            (polars.DataFrame({"a": [1, None], "b": ["x", ""]}),
             ["polars DataFrame: 2 rows × 2 columns", "columns: a Int64, b String", "a,b", "1,x", ',""']),
            (polars.Series("s", [1]), ["polars Series: 1 value, Int64", "s", "1"]),
            (polars.LazyFrame({"a": [1]}), ["polars LazyFrame: not collected, so there are no rows to show"]),
            (pyarrow.table({"a": [None, 1]}), ["pyarrow Table: 2 rows × 1 column", "columns: a int64", "a", "", "1"]),
            (pyarrow.record_batch({"a": [1]}),
             ["pyarrow RecordBatch: 1 row × 1 column", "columns: a int64", "a", "1"]),
            (pyarrow.array([1, 2]), ["pyarrow Int64Array: 2 values, int64", "value", "1", "2"]),
            (pyarrow.chunked_array([[1], [2]]), ["pyarrow ChunkedArray: 2 values, int64", "value", "1", "2"]),
            (np.arange(4).reshape(2, 2), ["ndarray: 2 × 2 values, int64", "[[0, 1], [2, 3]]"]),
            (np.array([0.1, math.nan], dtype="float32"), ["ndarray: 2 values, float32", '[0.1, "NaN"]']),
            (np.array(["2026-01-02", "NaT"], dtype="datetime64[D]"),
             ["ndarray: 2 values, datetime64[D]", '["2026-01-02", null]']),
        ],
        ids=lambda value: type(value).__module__.partition(".")[0] + " " + type(value).__name__,
    )  # fmt: skip
    def test_tables_of_other_kinds(self, value: Any, lines: list[str]) -> None:
        assert text_of(value).splitlines() == lines

    @pytest.mark.parametrize(
        "value",
        [
            polars.DataFrame({"a": range(200)}),
            pyarrow.table({"a": range(200)}),
            polars.Series("a", range(200)),
            pyarrow.array(range(200)),
            pd.Series(range(200)),
            pd.Index(range(200)),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_every_kind_counts_the_rows_that_are_left_out(self, value: Any) -> None:
        lines = text_of(value).splitlines()
        assert lines[-1] == "(150 more rows)"
        assert lines[-2] == "49"

    def test_a_styled_frame_is_its_frame(self) -> None:
        frame = pd.DataFrame({"a": [1]})
        assert text_of(frame.style) == text_of(frame)

    def test_a_large_array_shows_its_first_values_and_counts_the_others(self) -> None:
        title, values, left = text_of(np.arange(VALUES + 1_234).reshape(2, -1)).splitlines()
        assert title == "ndarray: 2 × 1,117 values, int64"
        assert json.loads(values) == list(range(VALUES))
        assert left == "(1,234 more values; row by row)"

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (np.int64(3), "3"),
            (np.float32(0.1), "0.1"),
            (np.float64("nan"), "NaN"),
            (np.bool_(True), "true"),
            (np.datetime64("2026-01-02"), "2026-01-02"),
            (np.array(5), "5"),
            (pyarrow.scalar(3), "3"),
            (pd.NaT, "null"),
            (pd.NA, "null"),
            (pd.Timestamp("2026-01-02", tz="UTC"), "2026-01-02T00:00:00+00:00"),
            (pd.Timedelta(hours=1), "0 days 01:00:00"),
            (pd.Period("2026-01"), "2026-01"),
        ],
        ids=repr,
    )
    def test_a_single_value_of_theirs_is_told_like_one_of_ours(self, value: Any, text: str) -> None:
        assert text_of(value) == text

    def test_small_arrays_inside_of_json_are_lists_and_large_ones_and_tables_are_texts(self) -> None:
        told = json.loads(text_of({"small": np.arange(2), "large": np.zeros(2_000), "table": pd.DataFrame({"a": [1]})}))
        assert told["small"] == [0, 1]
        assert told["large"].startswith("ndarray: 2,000 values, float64\n")
        assert told["large"].endswith("(1,000 more values; row by row)")
        assert told["table"] == "DataFrame: 1 row × 1 column\ncolumns: a int64\na\n1"
        assert text_of([np.arange(2), np.arange(1)]) == "[[0, 1], [0]]"

    def test_tables_in_a_list_stand_one_below_the_other(self) -> None:
        frame = pd.DataFrame({"a": [1]})
        assert text_of(("Two tables:", frame, frame)) == f"Two tables:\n{text_of(frame)}\n{text_of(frame)}"


def test_nothing_is_loaded_to_tell_what_a_value_is() -> None:
    code = (
        "import sys\nfrom agentperm_nb.results import result_form\n"
        "class A: pass\n"
        "for value in ('a', None, {'a': [1.5, A()]}, b'x', {1}, A()): result_form(value)\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert (
        loaded & {"PIL", "altair", "matplotlib", "numpy", "pandas", "plotly", "polars", "pyarrow", "pydantic"} == set()
    )


def test_the_page_on_tools_states_the_limits_that_there_are() -> None:
    page = (pathlib.Path(__file__).parents[1] / "docs" / "tools.md").read_text(encoding="utf-8")
    for line in (
        f"| rows of a table | {ROWS}, and {CHARACTERS:,} characters in all |",
        f"| columns of a table | {COLUMNS} |",
        f"| characters of a cell | {CELL} |",
        f"| values of an array | {VALUES:,}; ",
        f"| characters of the `str` of any other object | {CHARACTERS:,} |",
        f"| sides of an image that is drawn, or of Pillow | {LONGEST_SIDE:,} pixels; ",
    ):
        assert line in page


def test_the_table_on_the_page_on_tools_is_the_one_that_is_told() -> None:
    page = (pathlib.Path(__file__).parents[1] / "docs" / "tools.md").read_text(encoding="utf-8")
    shown = page.partition("```text\n")[2].partition("```")[0].splitlines()
    frame = pd.DataFrame({"shop": "Graz", "day": pd.Timestamp("2026-01-02").as_unit("us"), "euros": [12.5] * 1_000})
    told = text_of(frame).splitlines()
    assert [*told[:4], "…", told[-1]] == shown
