"""Images of a result or a message, encoded for a request."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["EncodedImage", "encoded", "images_of", "left_out"]

_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


@dataclass(slots=True, eq=False, repr=False)
class EncodedImage:
    """An image, ready to be sent."""

    media_type: str
    data: str
    """The file in base64."""

    @property
    def url(self) -> str:
        """The image as a data URL."""
        return f"data:{self.media_type};base64,{self.data}"


def encoded(image: object) -> EncodedImage | str:
    """Return the image, or a line that says why it is left out: it has no bytes, or a type that no provider takes."""
    data, media_type = getattr(image, "data", None), getattr(image, "media_type", None)
    if not isinstance(data, bytes | bytearray | memoryview) or media_type not in _TYPES:
        return f"[image left out: {media_type if isinstance(media_type, str) else 'its type'} is not taken]"
    return EncodedImage(str(media_type), base64.b64encode(data).decode("ascii"))


def images_of(holder: object) -> tuple[list[EncodedImage], list[str]]:
    """Return the images that something has, and a line for each that no provider takes."""
    images: list[EncodedImage] = []
    lines: list[str] = []
    for image in _given(holder):
        made = encoded(image)
        if isinstance(made, str):
            lines.append(made)
        else:
            images.append(made)
    return images, lines


def left_out(holder: object) -> list[str]:
    """Return the line, if any, that says how many images are missing where only text is taken."""
    count = len(list(_given(holder)))
    return [f"[{count} image{'s' * (count != 1)} left out: text only]"] if count else []


def _given(holder: object) -> Iterable[object]:
    return getattr(holder, "images", None) or ()
