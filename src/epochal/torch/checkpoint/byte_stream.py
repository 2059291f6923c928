"""Bytes in and out of files, hashed on their way; compressed and plain files look alike."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

from epochal.errors import EpochalError, FormatError

if TYPE_CHECKING:
    from collections.abc import Callable

Compression = Literal["gz", "zst"]

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_CHUNK_BYTES = 1 << 20
# Weights are close to noise: higher levels cost much time and save next to nothing.
_GZIP_LEVEL = 1


class Readable(Protocol):
    """Anything that bytes can be read from."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes, none at the end."""


class Writable(Protocol):
    """Anything that takes bytes."""

    def write(self, data: Any, /) -> Any:
        """Take all of the bytes."""


class ByteReader:
    """Reads exactly as many bytes as asked for, or raises `FormatError`; counts and hashes them."""

    def __init__(self, stream: Readable, *, label: str, hashed: bool = True) -> None:
        self.label = label
        self._stream = stream
        self._digest = hashlib.sha256() if hashed else None
        self._ahead = b""
        self.offset = 0

    def exactly(self, size: int, *, what: str) -> bytes:
        """Return `size` bytes, which `what` names should they be missing."""
        parts = []
        while size:
            part = self._some(size, what=what)
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def into(self, view: memoryview, *, what: str) -> None:
        """Fill a piece of memory."""
        done = 0
        while done < len(view):
            part = self._some(len(view) - done, what=what)
            view[done : done + len(part)] = part
            done += len(part)

    def skip(self, size: int, *, what: str) -> None:
        """Read past bytes that nobody wants, a piece at a time."""
        while size:
            size -= len(self._some(size, what=what))

    def peek(self, size: int) -> bytes:
        """The next bytes, fewer at the end, without taking them."""
        while len(self._ahead) < size:
            more = self._stream.read(size - len(self._ahead))
            if not more:
                break
            self._ahead += more
        return self._ahead[:size]

    def restart_hash(self, opening: bytes) -> None:
        """Hash from here on, as if these bytes had come first."""
        if self._digest is not None:
            self._digest = hashlib.sha256(opening)

    def hexdigest(self) -> str | None:
        """The SHA-256 of what was read so far; None where nothing is hashed."""
        return None if self._digest is None else self._digest.hexdigest()

    def at_end(self) -> bool:
        """Whether nothing follows."""
        return not self.peek(1)

    def _some(self, size: int, *, what: str) -> bytes:
        wanted = min(size, _CHUNK_BYTES)
        part, self._ahead = self._ahead[:wanted], self._ahead[wanted:]
        part = part or self._stream.read(wanted)
        if not part:
            raise FormatError(
                f"{self.label} is cut short: it ends at byte {self.offset}, inside {what}."
            )
        self.offset += len(part)
        if self._digest is not None:
            self._digest.update(part)
        return part


class HashingWriter:
    """Passes bytes on, counting and hashing them."""

    def __init__(self, stream: Writable) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.size_bytes = 0

    def write(self, data: bytes | memoryview) -> int:
        """Pass bytes on; all of them."""
        self._stream.write(data)
        self._digest.update(data)
        self.size_bytes += len(data)
        return len(data)

    def hexdigest(self) -> str:
        """The SHA-256 of everything passed on."""
        return self._digest.hexdigest()


def compression_of(name: str) -> Compression | None:
    """How a file of this name is compressed."""
    if name.endswith(".gz"):
        return "gz"
    return "zst" if name.endswith(".zst") else None


def decompressed(stream: Readable, *, label: str) -> tuple[Readable, bool]:
    """A stream of plain bytes over one that may be compressed, and whether it is.

    Its first bytes tell.
    """
    start = ByteReader(stream, label=label, hashed=False).peek(len(ZSTD_MAGIC))
    replayed = _Replayed(start, stream)
    if start.startswith(GZIP_MAGIC):
        unzipped = gzip.GzipFile(fileobj=cast(Any, replayed), mode="rb")
        errors = (EOFError, zlib.error, gzip.BadGzipFile)
        return _Translated(unzipped, errors, label=label), True
    if start == ZSTD_MAGIC:
        zstandard = _zstandard()
        plain = zstandard.ZstdDecompressor().stream_reader(replayed, closefd=False)
        return _Translated(plain, (zstandard.ZstdError,), label=label), True
    return replayed, False


def compressed(stream: Any, compression: Compression | None) -> tuple[Any, Callable[[], object]]:
    """A stream to write plain bytes to, and what ends it."""
    if compression == "gz":
        # No name and no time inside: equal contents give equal files.
        file = gzip.GzipFile(
            filename="", mode="wb", fileobj=stream, compresslevel=_GZIP_LEVEL, mtime=0
        )
        return file, file.close
    if compression == "zst":
        writer = (
            _zstandard().ZstdCompressor(write_checksum=True).stream_writer(stream, closefd=False)
        )
        return writer, writer.close
    return stream, lambda: None


class _Replayed:
    """A stream whose first bytes were already looked at."""

    def __init__(self, start: bytes, stream: Readable) -> None:
        self._start = start
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        if self._start:
            part = self._start if size < 0 else self._start[:size]
            self._start = self._start[len(part) :]
            return part
        return self._stream.read(size)


class _Translated:
    """A decompressing stream whose own errors become ours."""

    def __init__(
        self, stream: Readable, errors: tuple[type[Exception], ...], *, label: str
    ) -> None:
        self._stream = stream
        self._errors = errors
        self._label = label

    def read(self, size: int) -> bytes:
        try:
            return self._stream.read(size)
        except self._errors as error:
            raise FormatError(f"{self._label} cannot be decompressed: {error}.") from error


def _zstandard() -> Any:
    try:
        import zstandard
    except ModuleNotFoundError as error:
        raise EpochalError(
            "a .zst checkpoint needs the package 'zstandard': pip install zstandard."
        ) from error
    return zstandard
