"""Images: what a tool may return for the model to look at, and a cell to show."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from agentperm_nb.errors import fix_message

__all__ = ["Image", "image_type", "size_text"]

_EXAMPLE = "Image(open('plot.png', 'rb').read(), 'image/png')"
_SIGNATURES = (
    (rb"\x89PNG\r\n\x1a\n", "image/png"),
    (rb"\xff\xd8\xff", "image/jpeg"),
    (rb"GIF8[79]a", "image/gif"),
    (rb"(?s:RIFF....WEBP)", "image/webp"),
)


def image_type(data: bytes) -> str | None:
    """Return the media type of an image file by its first bytes: PNG, JPEG, GIF or WebP; None for anything else."""
    return next((name for signature, name in _SIGNATURES if re.match(signature, data)), None)


def size_text(data: bytes) -> str:
    """Return the size of a file in words, such as ``640 × 480 pixels, 12,345 bytes``; pixels for a PNG file only."""
    pixels = ""
    if image_type(data) == "image/png" and data[12:16] == b"IHDR" and len(data) >= 24:
        width, height = int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
        pixels = f"{width:,} × {height:,} pixels, "
    return f"{pixels}{len(data):,} byte{'s' * (len(data) != 1)}"


@dataclass(frozen=True, slots=True, repr=False)
class Image:
    """An image file in memory. As the last line of a cell it is shown.

    Args:
        data: The content of the file.
        media_type: What it is, such as ``image/png``. Providers take PNG, JPEG, GIF and WebP.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The data is empty; the media type is not one of an image, or not that of the data.
    """

    data: bytes
    media_type: str

    def __post_init__(self) -> None:
        if not isinstance(self.data, bytes):
            raise TypeError(
                fix_message(
                    f"Image takes the bytes of a file (got: {type(self.data).__name__})", "give bytes", _EXAMPLE
                )
            )
        if not isinstance(self.media_type, str):
            raise TypeError(
                fix_message(f"media_type= is not a string (got: {self.media_type!r})", "say what it is", _EXAMPLE)
            )
        if not self.data:
            raise ValueError(fix_message("Image got no bytes", "give the content of the file", _EXAMPLE))
        if not re.fullmatch(r"image/[a-z0-9][a-z0-9.+-]*", self.media_type):
            raise ValueError(
                fix_message(f"{self.media_type!r} is not the type of an image", "write it as image/…", _EXAMPLE)
            )
        found = image_type(self.data)
        if found is not None and found != self.media_type:
            # A provider refuses the whole request when the two differ.
            raise ValueError(
                fix_message(
                    f"the data of an Image is {found}, not {self.media_type}", f"say {found}", f"Image(data, {found!r})"
                )
            )

    def __repr__(self) -> str:
        return f"Image({self.media_type}, {size_text(self.data)})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        import base64

        if self.media_type == "image/svg+xml":
            return {self.media_type: self.data.decode("utf-8", "replace"), "text/plain": repr(self)}
        return {self.media_type: base64.b64encode(self.data).decode("ascii"), "text/plain": repr(self)}
