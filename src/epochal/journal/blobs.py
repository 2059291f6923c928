"""The files of samples: types, names, encoding of pixels, and how a run stores and reads them.

A file is named after its content, so equal content is stored once. Pixels are stored as they are,
in ``NAME.raw``; the companion encodes them to ``NAME`` and removes the raw file. Whoever reads a
file that is not encoded yet encodes it in memory.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import shutil
import struct
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from epochal.base.atomic_file import replaced_file, sync_or_rewrite
from epochal.base.guard import attempt, describe
from epochal.errors import EpochalError, FormatError, MissingPackageError
from epochal.journal.layout import RunFolder, is_patch
from epochal.journal.regular_file import read_regular, regular_only
from epochal.records import Record

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


_PNG = b"\x89PNG\r\n\x1a\n"
_SIGNATURES = {
    _PNG: "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"BM": "image/bmp",
    b"OggS": "audio/ogg",
    b"fLaC": "audio/flac",
    b"ID3": "audio/mpeg",
    b"\xff\xfb": "audio/mpeg",
    b"\xff\xf3": "audio/mpeg",
    b"\x1aE\xdf\xa3": "video/webm",
}
_SUFFIXES = {
    "image/png": ".png",
    "image/jpeg": ".jpg",
    "image/gif": ".gif",
    "image/bmp": ".bmp",
    "image/webp": ".webp",
    "image/svg+xml": ".svg",
    "image/avif": ".avif",
    "audio/wav": ".wav",
    "audio/ogg": ".ogg",
    "audio/flac": ".flac",
    "audio/mpeg": ".mp3",
    "video/mp4": ".mp4",
    "application/json": ".json",
    "application/vnd.epochal.table+json": ".table.json",
    "application/vnd.plotly.v1+json": ".plotly.json",
    "text/html": ".html",
    "video/webm": ".webm",
    "video/ogg": ".ogv",
    "application/x-protobuf": ".pb",
    "application/onnx": ".onnx",
    "application/x-npy": ".npy",
    "application/x-npz": ".npz",
    "text/tab-separated-values": ".tsv",
}
UNKNOWN = "application/octet-stream"
PLOTLY = "application/vnd.plotly.v1+json"
RAW = ".raw"
_PIECE_BYTES = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,149}")
_DIGEST = re.compile(r"([0-9a-f]{32})(?:\..*)?")
# Columns and rows, which the page shows as a table.
TABLE = "application/vnd.epochal.table+json"
# The columns of a table that is a precision-recall curve, as ``add_pr_curve`` records it.
PR_CURVE_COLUMNS = ("threshold", "tp", "fp", "tn", "fn", "precision", "recall")


def media_type_of(data: bytes, *, otherwise: str = UNKNOWN) -> str:
    """The media type that the first bytes show."""
    if data.startswith(b"RIFF"):
        return {b"WEBP": "image/webp", b"WAVE": "audio/wav"}.get(data[8:12], otherwise)
    if data[4:8] == b"ftyp":
        return "image/avif" if data[8:12] == b"avif" else "video/mp4"
    return next((kind for sign, kind in _SIGNATURES.items() if data.startswith(sign)), otherwise)


def media_type_of_name(name: str) -> str:
    """The media type of a file name's suffix."""
    import mimetypes  # which takes longer to import than all of this module

    if name.endswith(".table.json"):
        return TABLE
    kind = mimetypes.guess_type(name)[0] or UNKNOWN
    return {"audio/x-wav": "audio/wav"}.get(kind, kind)


def blob_name(media_type: str, *data: bytes | memoryview) -> str:
    """The name of a file with this content."""
    digest = new_digest()
    for piece in data:
        digest.update(piece)
    return digest.hexdigest()[:32] + _SUFFIXES.get(media_type, ".bin")


def new_digest() -> hashlib._Hash:
    """What names a file after its content.

    On machines with and without instructions for it, SHA-1 is the quickest of the standard library;
    nothing is protected by it.
    """
    return hashlib.sha1(usedforsecurity=False)


def blob_record(name: str, data: bytes, *, t: float, step: int, media_type: str) -> Record:
    """The record of a file that holds these bytes."""
    file = blob_name(media_type, data)
    about = {"file": file, "media_type": media_type, "bytes": len(data)}
    return {"log": "blob", "t": t, "step": step, "name": name, **about}


def files_of(record: Mapping[str, Any]) -> dict[str, str]:
    """Every file that a record names, masks and pictures in cells included, by media type.

    A name that no run of Epochal writes is left out: it could lead anywhere.
    """
    masks, others = record.get("masks"), record.get("files")
    named: list[tuple[Any, Any]] = [(record.get("file"), record.get("media_type"))]
    if isinstance(masks, list):
        named += [(mask.get("file"), "image/png") for mask in masks if isinstance(mask, dict)]
    if isinstance(others, list):
        named += [(one, media_type_of_name(one)) for one in others if isinstance(one, str)]
    return {name: str(kind) for name, kind in named if is_blob_name(name)}


def is_blob_name(name: object) -> bool:
    """Whether a file of a sample can have this name."""
    is_plain = isinstance(name, str) and _NAME.fullmatch(name) is not None
    return is_plain and not str(name).endswith(RAW) and not is_patch(str(name))


def store_blob(folder: RunFolder, file: str, data: bytes | memoryview) -> None:
    """Write a file once, under a name that says what it holds; raises OSError when it cannot."""
    _write_once(folder.blobs / file, data, mode=0o600 if is_patch(file) else 0o644)


def store_pixels(folder: RunFolder, pixels: Pixels) -> str:
    """Write pixels as they are, and return the name of the file that they become."""
    raw = write_raw(pixels)
    file = blob_name(pixels.media_type, *raw)
    if not (folder.blobs / file).exists():
        _write_once(folder.blobs / f"{file}{RAW}", *raw)
    return file


def copy_blob(name: str, folder: RunFolder, copy: RunFolder) -> None:
    """Link or copy a file into another run, or the pixels that are encoded to it; durably."""
    for file in (f"{name}{RAW}", name) if Path(name).name == name else ():
        source, target = folder.blobs / file, copy.blobs / file
        if source.is_file() and not source.is_symlink() and not target.exists():
            copy.blobs.mkdir(exist_ok=True)
            with contextlib.suppress(FileNotFoundError):  # encoded meanwhile
                try:
                    os.link(source, target)  # neither is ever changed
                except OSError:
                    shutil.copyfile(source, target)
                sync_or_rewrite(target)


def blob_bytes(folder: RunFolder, file: str) -> bytes:
    """The content of a file, encoded now if it is still raw; raises OSError for one that is not."""
    path = folder.blobs / file
    with contextlib.suppress(FileNotFoundError):
        return read_regular(path)
    with contextlib.suppress(FileNotFoundError):
        return encode(read_raw(_raw_content(folder.blobs / f"{file}{RAW}")))
    return read_regular(path)  # it was encoded meanwhile


def open_blob(folder: RunFolder, file: str) -> BinaryIO:
    """The same as an open file, for content that may be large."""
    try:
        return open(folder.blobs / file, "rb", opener=regular_only)
    except FileNotFoundError:
        return io.BytesIO(blob_bytes(folder, file))


def blob_is_whole(path: Path, *, is_encoded: bool = True, sha256: str | None = None) -> bool | None:
    """Whether a file still has the content that its name states; None where that cannot be known.

    Encoded pixels are named after the pixels: a picture then has checksums of its own, a video has
    none. ``is_encoded`` is False for a file that cannot be of pixels, and ``sha256`` is the digest
    of a file whose name states none. Raises OSError.
    """
    named = _DIGEST.fullmatch(path.name.removesuffix(RAW))
    stated = sha256 or (named[1] if named else None)
    digest = hashlib.sha256() if sha256 else new_digest()
    with open(path, "rb", opener=regular_only) as file:
        while piece := file.read(_PIECE_BYTES):
            digest.update(piece)
    if stated is None or digest.hexdigest().startswith(stated):
        return None if stated is None else True
    data = read_regular(path) if is_encoded else b""
    if path.suffix == ".webp":
        is_cut = len(data) != int.from_bytes(data[4:8], "little") + 8
        return None if data.startswith(b"RIFF") and not is_cut else False
    return path.suffix == ".png" and _is_whole_png(data)


def _is_whole_png(data: bytes) -> bool:
    """Whether every chunk of a PNG has its checksum, the last one included."""
    place, kind = len(_PNG), b""
    while place < len(data) and kind != b"IEND":
        end = place + 8 + int.from_bytes(data[place : place + 4], "big")
        kind = data[place + 4 : place + 8]
        if zlib.crc32(data[place + 4 : end]).to_bytes(4, "big") != data[end : end + 4]:
            return False
        place = end + 4
    return data.startswith(_PNG) and kind == b"IEND" and place == len(data)


def encode_pending(folder: RunFolder, *, budget_s: float | None = None) -> bool:
    """Encode the files that are still raw, for so many seconds; True if none is left."""
    until = None if budget_s is None else time.monotonic() + budget_s
    for raw in sorted(folder.blobs.glob(f"*{RAW}")):
        if until is not None and time.monotonic() > until:
            return False
        # Another process was quicker, or these pixels cannot be encoded: the others can.
        with contextlib.suppress(FileNotFoundError, EpochalError):
            data = encode(read_raw(_raw_content(raw)))
            file = raw.name.removesuffix(RAW)
            # As durable as what is deleted now.
            _write_once(folder.blobs / file, data, durable=True)
            raw.unlink()
    return True


def can_be_encoded(raw: Path) -> bool:
    """Whether a raw file has the pixels that it states; False for one that cannot be read."""
    try:
        read_raw(_raw_content(raw))
    except (OSError, EpochalError):
        return False
    return True


def _raw_content(path: Path) -> bytes:
    """The content of a raw file; raises ``FormatError`` for more than can be encoded."""
    return read_regular(path, max_bytes=MAX_VALUES + 1024)


def _write_once(
    path: Path, *data: bytes | memoryview, mode: int = 0o644, durable: bool = False
) -> None:
    """Write a file that nobody changes; `durable` returns when the disk has all of it.

    `durable` also replaces one that is there: a power cut may have left half of it.
    """
    if path.exists() and not durable:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        replaced_file(path, durable=durable) as temporary,
        open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file,
    ):
        file.writelines(data)
