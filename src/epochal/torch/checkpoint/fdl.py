"""flodl's checkpoint layout, read in versions 1 and 2 (which differ in naming only), written in 2.

Little-endian: ``FDLC``, version u32, a hash of 32 bytes (zeros for none), number of entries u32;
per entry the length of its name u32, the name in UTF-8, rank u32, each dimension i64, a byte for
the dtype, number of bytes u64, the bytes. The layout has no room for a checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from epochal.errors import FormatError, UsageError
from epochal.torch.checkpoint.byte_stream import ByteReader, Writable
from epochal.torch.checkpoint.tensor_bytes import (
    MAX_RANK,
    Entry,
    chunks_of,
    on_host,
    read_values,
    skip_values,
)

MAGIC = b"FDLC"
VERSION = 2
_HASH_BYTES = 32
_MAX_NAME_BYTES = 1 << 16
_CODES: Mapping[torch.dtype, int] = {
    torch.float16: 1,
    torch.bfloat16: 2,
    torch.float32: 3,
    torch.float64: 4,
    torch.int32: 5,
    torch.int64: 6,
}
_DTYPES: Mapping[int, torch.dtype] = {code: dtype for dtype, code in _CODES.items()}


def write_fdl(stream: Writable, tensors: Mapping[str, Tensor], *, hash_hex: str | None) -> None:
    """Write tensors in their own order."""
    for name, tensor in tensors.items():
        if tensor.dtype not in _CODES:
            raise UsageError(
                f"{name!r} is {tensor.dtype}, which an .fdl file cannot hold: use .safetensors."
            )
    digest = bytes.fromhex(hash_hex) if hash_hex else bytes(_HASH_BYTES)
    stream.write(MAGIC + struct.pack("<I", VERSION) + digest + struct.pack("<I", len(tensors)))
    for name, tensor in tensors.items():
        host = on_host(tensor)
        text = name.encode("utf-8")
        shape = tuple(tensor.shape)
        size = host.numel() * host.dtype.itemsize
        stream.write(struct.pack("<I", len(text)) + text + struct.pack("<I", len(shape)))
        stream.write(struct.pack(f"<{len(shape)}qBQ", *shape, _CODES[host.dtype], size))
        for chunk in chunks_of(host):
            stream.write(chunk)


class FdlReader:
    """Reads a stream once, entry by entry."""

    def __init__(self, source: ByteReader) -> None:
        self._source = source
        if source.exactly(len(MAGIC), what="its first word") != MAGIC:
            raise self._bad("it does not start with FDLC")
        self.version = self._u32("its version")
        if not 1 <= self.version <= VERSION:
            raise FormatError(
                f"{source.label} is an .fdl file of version {self.version}; 1 and 2 can be read."
            )
        digest = source.exactly(_HASH_BYTES, what="its hash")
        self.hash = digest.hex() if any(digest) else None
        self._count = self._u32("its number of entries")

    def read(self, choose: Callable[[Entry], bool]) -> Iterator[tuple[Entry, Tensor | None]]:
        """Yield every entry in the file's order, with its values where `choose` asks for them."""
        seen: set[str] = set()
        for number in range(1, self._count + 1):
            entry = self._entry(f"entry {number} of {self._count}")
            if entry.name in seen:
                raise self._bad(f"it holds {entry.name!r} twice")
            seen.add(entry.name)
            take = read_values if choose(entry) else skip_values
            yield entry, take(self._source, entry)

    def _entry(self, what: str) -> Entry:
        name = self._name(what)
        rank = self._u32(what)
        if rank > MAX_RANK:
            raise self._bad(f"{name!r} has {rank} dimensions")
        shape = struct.unpack(f"<{rank}q", self._source.exactly(8 * rank, what=what))
        code, size = struct.unpack("<BQ", self._source.exactly(9, what=what))
        dtype = _DTYPES.get(code)
        if dtype is None:
            raise self._bad(f"{name!r} is of the unknown dtype {code}")
        if any(length < 0 for length in shape):
            raise self._bad(f"{name!r} has the impossible shape {list(shape)}")
        entry = Entry(name, dtype, shape)
        if size != entry.size_bytes:
            raise self._bad(f"{name!r} takes {size} bytes, but its shape needs {entry.size_bytes}")
        return entry

    def _name(self, what: str) -> str:
        size = self._u32(what)
        if size > _MAX_NAME_BYTES:
            raise self._bad(f"a name of {size} bytes")
        try:
            return self._source.exactly(size, what=what).decode("utf-8")
        except UnicodeDecodeError as error:
            raise self._bad("a name that is not UTF-8") from error

    def _u32(self, what: str) -> int:
        return int.from_bytes(self._source.exactly(4, what=what), "little")

    def _bad(self, why: str) -> FormatError:
        return FormatError(f"{self._source.label} is not a whole .fdl file: {why}.")
