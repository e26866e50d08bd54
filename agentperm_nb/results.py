"""What the model is told of a tool's return value."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

__all__ = ["Image", "ResultForm", "result_form"]


@dataclass(frozen=True, slots=True)
class Image:
    """An image."""

    data: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class ResultForm:
    """What the model is told."""

    text: str
    images: tuple[Image, ...] = ()


def result_form(value: Any) -> ResultForm:
    """Return what the model is told of a value."""
    if isinstance(value, str):
        return ResultForm(value)
    if value is None:
        return ResultForm("(done)")
    try:
        return ResultForm(json.dumps(value, ensure_ascii=False))
    except (TypeError, ValueError, RecursionError):
        return ResultForm(str(value))
