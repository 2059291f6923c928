"""Encodes pixels: a picture as PNG, the frames of a video as an animated WebP."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from epochal.base.guard import attempt, describe
from epochal.errors import EpochalError, FormatError, MissingPackageError

if TYPE_CHECKING:
    from PIL.Image import Image

_MAGIC = b"EPXL1"
_HEADER = struct.Struct("<5s4If")
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
# Encoding takes three times as many bytes of memory.
MAX_VALUES = 300_000_000


@dataclass(frozen=True, slots=True)
class Pixels:
    """Bytes of pixels, row by row, with 1 to 4 channels; ``frames`` pictures one after another.

    ``fps`` is the number of frames per second of a video and 0 for a picture.
    """

    data: bytes | memoryview
    width: int
    height: int
    channels: int
    frames: int = 1
    fps: float = 0.0

    @property
    def media_type(self) -> str:
        """What the pixels are encoded as."""
        return "image/webp" if self.fps else "image/png"


def write_raw(pixels: Pixels) -> tuple[bytes, bytes | memoryview]:
    """The content of a raw file: a header, and the pixels."""
    shape = (pixels.width, pixels.height, pixels.channels, pixels.frames)
    return _HEADER.pack(_MAGIC, *shape, pixels.fps), pixels.data


def read_raw(content: bytes) -> Pixels:
    """The pixels of a raw file; raises ``FormatError`` for one that is damaged."""
    if len(content) < _HEADER.size or not content.startswith(_MAGIC):
        raise FormatError("this is not a file of raw pixels.")
    _, width, height, channels, frames, fps = _HEADER.unpack_from(content)
    if width * height * channels * frames > MAX_VALUES:
        raise FormatError(f"a picture of {width}×{height} pixels is too large to be encoded.")
    data = memoryview(content)[_HEADER.size :]
    if channels not in _MODES or not frames or len(data) != width * height * channels * frames:
        raise FormatError("a file of raw pixels is damaged.")
    return Pixels(data, width, height, channels, frames, fps)


def encode(pixels: Pixels) -> bytes:
    """The pixels as a PNG or an animated WebP; raises ``FormatError`` where that fails."""
    data, error = attempt(_webp if pixels.fps else encode_png, pixels)
    if error is not None and not isinstance(error, EpochalError):
        raise FormatError(f"pixels cannot be encoded: {describe(error)}.") from error
    if data is None:
        raise error or FormatError("pixels cannot be encoded.")
    return data


def encode_png(pixels: Pixels) -> bytes:
    """A picture as a PNG."""
    file = io.BytesIO()
    next(_pictures(pixels)).save(file, "PNG")
    return file.getvalue()


def _webp(pixels: Pixels) -> bytes:
    first, *others = _pictures(pixels)
    file = io.BytesIO()
    pause_ms = max(round(1000 / pixels.fps), 1)
    first.save(file, "WEBP", save_all=True, append_images=others, duration=pause_ms, loop=0)
    return file.getvalue()


def _pictures(pixels: Pixels) -> Iterator[Image]:
    try:
        from PIL import Image  # which takes longer to import than all of this package
    except ModuleNotFoundError as error:
        raise MissingPackageError("a picture of an array", error) from error
    size, length = (pixels.width, pixels.height), len(pixels.data) // pixels.frames
    for start in range(0, len(pixels.data), length):
        picture = bytes(pixels.data[start : start + length])
        yield Image.frombytes(_MODES[pixels.channels], size, picture)
