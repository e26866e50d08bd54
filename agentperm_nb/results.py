"""What the model is told of a tool's return value.

1. A text as it is, None as ``(done)``. The tool's author decides how long a text is: it is not cut.
2. Numbers, dicts, lists and what has fields (dataclasses, models, named tuples) as JSON, not cut either. What becomes a
   single text (a date, an enum of texts, a path) is that text, without quotes.
3. JSON has no NaN: it becomes the text ``NaN``, infinities ``Infinity`` and ``-Infinity``. What pandas calls missing is
   null.
4. Images, figures and files of images become images, with a line where they stand that says what they are.
5. Tables and arrays have a form of their own, with limits and a count of what is left out: `agentperm_nb.tables`.
6. A list or tuple that holds an image or a table: the forms of its items, one below the other; a figure once.
7. Anything else in words: what it draws or says of itself for a notebook, its ``str``, or its type.
8. What cannot be sent, half of a surrogate pair, is written as an escape.
9. Nothing is masked here, and an exception on the way is the caller's.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import json
import math
import re
import sys
from collections import UserString, deque
from collections.abc import Callable, Iterable, Mapping, MappingView, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum
from typing import Any

from agentperm_nb.figures import chart_text, drawn_figure, drawn_picture, figure_of, is_picture
from agentperm_nb.images import Image as Image  # a result's images are of this type
from agentperm_nb.images import image_type, size_text
from agentperm_nb.tables import CHARACTERS, counted, cut, small_array, table_text

__all__ = ["ResultForm", "result_form"]


@dataclass(frozen=True, slots=True)
class ResultForm:
    """What the model is told of a return value."""

    text: str
    images: tuple[Image, ...] = ()
    """In the order in which the text mentions them."""


def result_form(value: Any) -> ResultForm:
    """Return what the model is told of a tool's return value.

    Raises:
        ValueError: The value contains itself, or is nested too deeply.
        Exception: Whatever the value's own methods raise.
    """
    if type(value) is str:
        return ResultForm(_sendable(value))
    form = _Form()
    try:
        text = form.text(value)
    except RecursionError:
        raise ValueError("the result is nested too deeply, or contains itself") from None
    return ResultForm(_sendable(text), tuple(form.images))


def _sendable(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


_SIMPLE = frozenset({str, int, float, bool, type(None), dict, list, tuple, set})


class _Form:
    """One conversion, and the images that it came across."""

    def __init__(self) -> None:
        self.images: list[Image] = []
        self._figures: dict[int, int] = {}

    def text(self, value: Any) -> str:
        """Return the form of a value that stands for itself."""
        if value is None:
            return "(done)"
        items = _items(value)
        if items is not None and any(self._special(item) for item in items):
            return "\n".join("null" if item is None else self.text(item) for item in items if not self._is_drawn(item))
        if type(value) not in _SIMPLE:
            make = self._special(value) or table_text(value)
            if make is not None:
                return make(self.plain)
        plain = self.plain(value)
        return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)

    def plain(self, value: Any) -> Any:
        """Return the form of a value inside of others: a JSON value."""
        kind = type(value)
        if kind is str or kind is int or kind is bool or value is None:
            return value
        if kind is list:
            return [self.plain(item) for item in value]
        if kind is dict and all(type(key) is str for key in value):
            return {key: self.plain(item) for key, item in value.items()}
        if isinstance(value, Enum):
            return self.plain(value.value)
        if isinstance(value, str):
            return str.__str__(value)
        if isinstance(value, float):
            return _number(float(value))
        if isinstance(value, int):
            return int(value)
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return self._object(zip(kind._fields, value, strict=False))
        if isinstance(value, dict):
            return self._object(value.items())
        if isinstance(value, list | tuple):
            return [self.plain(item) for item in value]
        return self._of_class(value)

    def _of_class(self, value: Any) -> Any:
        """Return the JSON value of an object that is of none of Python's plain types."""
        array = small_array(value, self.plain)
        if array is not None:
            return array
        make = self._special(value) or table_text(value)
        if make is not None:
            return make(self.plain)
        scalar = _scalar(value)
        if scalar is not value:
            return self.plain(scalar)
        kind = type(value)
        if isinstance(value, datetime.date | datetime.time):
            return value.isoformat()
        if hasattr(kind, "__pydantic_serializer__"):
            return self.plain(_of_model(value))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            return self._object((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        if hasattr(kind, "__attrs_attrs__"):
            return self._object((field.name, getattr(value, field.name)) for field in kind.__attrs_attrs__)
        if isinstance(value, Mapping):
            return self._object(value.items())
        sqlite3 = sys.modules.get("sqlite3")
        if sqlite3 is not None and isinstance(value, sqlite3.Row):
            return self._object(zip(value.keys(), value, strict=True))
        if isinstance(value, AbstractSet) and not isinstance(value, MappingView):
            return self._sorted(value)
        if isinstance(value, Sequence | MappingView | deque) and not isinstance(value, range | UserString):
            items: Any = value
            return [self.plain(item) for item in items]
        return self._in_words(value)

    def _object(self, pairs: Iterable[tuple[Any, Any]]) -> Any:
        """Return a JSON object; where two keys become one text, a list of pairs, so that none is lost."""
        keyed = [(self.plain(key), self.plain(item)) for key, item in pairs]
        names = [key if isinstance(key, str) else json.dumps(key, ensure_ascii=False) for key, _ in keyed]
        if len(set(names)) < len(names):
            return [[key, item] for key, item in keyed]
        return dict(zip(names, (item for _, item in keyed), strict=True))

    def _sorted(self, items: Iterable[Any]) -> list[Any]:
        """Return the items of a set in an order that is the same in every process."""
        made = [self.plain(item) for item in items]
        try:
            return sorted(made)
        except TypeError:
            return sorted(made, key=lambda item: json.dumps(item, ensure_ascii=False))

    # --- images -------------------------------------------------------------------------------------------------------

    def _special(self, value: Any) -> Callable[[Callable[[Any], Any]], str] | None:
        """Return what makes the text of an image, a figure, bytes or a table; None for anything else."""
        if type(value) in _SIMPLE:
            return None
        if isinstance(value, Image):
            return lambda plain: self._image(value, value.media_type.removeprefix("image/").upper())
        if isinstance(value, bytes | bytearray | memoryview):
            return lambda plain: self._bytes(bytes(value))
        if is_picture(value):
            return lambda plain: self._image(*drawn_picture(value))
        figure = figure_of(value)
        if figure is not None:
            return lambda plain: self._figure(figure)
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.ndarray):
            return None  # in a list of arrays, a small one is a list
        return chart_text(value) or table_text(value)

    def _image(self, image: Image, what: str) -> str:
        self.images.append(image)
        return f"(image {len(self.images)}: {what}; {size_text(image.data)})"

    def _bytes(self, data: bytes) -> str:
        kind = image_type(data)
        if kind is None:
            return f"({counted(len(data), 'byte')})"
        return self._image(Image(data, kind), kind.removeprefix("image/").upper())

    def _is_drawn(self, value: Any) -> bool:
        """Return whether a value is nothing but figures that the text has mentioned."""
        if not self._figures:
            return False
        items = _items(value)
        if items is not None and figure_of(value) is None:
            return bool(items) and all(self._is_drawn(item) for item in items)
        return id(figure_of(value)) in self._figures

    def _figure(self, figure: Any) -> str:
        number = self._figures.get(id(figure))
        if number is not None:
            return f"(see image {number})"
        text = self._image(*drawn_figure(figure))
        self._figures[id(figure)] = len(self.images)
        return text

    # --- the last resort ----------------------------------------------------------------------------------------------

    def _in_words(self, value: Any) -> str:
        kind = type(value)
        for name in ("_repr_png_", "_repr_jpeg_"):
            # Looked up on the type: objects that answer to every name would give nonsense.
            data = _file(getattr(value, name)()) if callable(getattr(kind, name, None)) else None
            if data is not None:
                return self._bytes(data)
        if callable(getattr(kind, "_repr_markdown_", None)):
            told = value._repr_markdown_()
            told = told[0] if isinstance(told, tuple) else told
            if isinstance(told, str):
                return cut(told, CHARACTERS)
        if isinstance(value, BaseException):
            return f"{kind.__name__}: {value}"
        if vars(object)["__str__"] is kind.__str__ and vars(object)["__repr__"] is kind.__repr__:
            return _nameless(kind)
        text = str(value)
        # An address says nothing to a model, and differs every time.
        return _nameless(kind) if re.fullmatch(r"<[^\n]* at 0x[0-9A-Fa-f]+>", text) else cut(text, CHARACTERS)


def _nameless(kind: type) -> str:
    return f"({'an' if kind.__name__[:1] in 'AEIOUaeiou' else 'a'} {kind.__name__} object)"


def _file(data: Any) -> bytes | None:
    """Return the image file that an object gave of itself: bytes or base64, with or without metadata."""
    if isinstance(data, tuple):
        data = data[0] if data else None
    if isinstance(data, str):
        data = base64.b64decode(data)
    return data if isinstance(data, bytes) and image_type(data) is not None else None


def _items(value: Any) -> list[Any] | None:
    """Return the items of a list, a plain tuple, or an array of objects."""
    if isinstance(value, list) or (isinstance(value, tuple) and not hasattr(type(value), "_fields")):
        return list(value)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype == object:
        return list(value.flat)
    return None


def _number(value: float) -> Any:
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _scalar(value: Any) -> Any:
    """Return the Python value of a single value of pandas, numpy or pyarrow; anything else as it is."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and (value is pandas.NA or value is pandas.NaT):
        return None
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.generic):
        if isinstance(value, numpy.datetime64 | numpy.timedelta64):
            return None if numpy.isnat(value) else str(value)
        # By its text, a number of single precision has no digits that it does not have.
        return float(str(value)) if isinstance(value, numpy.floating) else value.item()
    pyarrow = sys.modules.get("pyarrow")
    if pyarrow is not None and isinstance(value, pyarrow.Scalar):
        return value.as_py()
    return value


def _of_model(value: Any) -> Any:
    """Return the fields of a pydantic model or dataclass, as its ``model_dump(mode="json")`` does."""
    serializer = type(value).__pydantic_serializer__
    try:
        return serializer.to_python(value, mode="json")
    except Exception:  # noqa: BLE001 - it has a field without a JSON form: that field gets ours
        return serializer.to_python(value)
