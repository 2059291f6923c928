"""Encodes pixels: a picture as PNG, the frames of a video as an animated WebP."""

from __future__ import annotations

import io
import struct
import zlib
from dataclasses import dataclass

from epochal.errors import EpochalError, FormatError, MissingPackageError
from epochal.guard import attempt, describe

_MAGIC = b"EPXL1"
_HEADER = struct.Struct("<5s4If")
_PNG_COLORS = {1: 0, 2: 4, 3: 2, 4: 6}
_VIDEO_MODES = {1: "L", 3: "RGB", 4: "RGBA"}
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
    is_known = channels in (_VIDEO_MODES if fps else _PNG_COLORS) and frames > 0
    if not is_known or len(data) != width * height * channels * frames:
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
    """A PNG, in which each byte is stored as the difference to its left neighbour."""
    import numpy as np

    width, height, channels = pixels.width, pixels.height, pixels.channels
    rows = np.frombuffer(pixels.data, np.uint8).reshape(height, width * channels)
    lines = np.empty((height, 1 + width * channels), np.uint8)
    lines[:, 0] = 1  # the filter "Sub"
    lines[:, 1:] = rows
    lines[:, 1 + channels :] -= rows[:, :-channels]
    about = struct.pack(">IIBBBBB", width, height, 8, _PNG_COLORS[channels], 0, 0, 0)
    chunks = ((b"IHDR", about), (b"IDAT", zlib.compress(lines.tobytes(), 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


def _webp(pixels: Pixels) -> bytes:
    try:
        from PIL import Image
    except ModuleNotFoundError as error:
        raise MissingPackageError("a video of an array", error) from error
    mode = _VIDEO_MODES[pixels.channels]
    size, length = (pixels.width, pixels.height), len(pixels.data) // pixels.frames
    first, *others = (
        Image.frombytes(mode, size, bytes(pixels.data[start : start + length]))
        for start in range(0, len(pixels.data), length)
    )
    file = io.BytesIO()
    pause_ms = max(round(1000 / pixels.fps), 1)
    first.save(file, "WEBP", save_all=True, append_images=others, duration=pause_ms, loop=0)
    return file.getvalue()
