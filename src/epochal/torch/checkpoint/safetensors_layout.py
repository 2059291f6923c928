"""The safetensors layout in one pass: written to and read from anything that is a stream.

Eight bytes of length, a JSON table of names, dtypes, shapes and offsets, then the values. The
safetensors package opens these files, and this module opens the package's. The package is not used
here: it needs a plain file or all of it in memory, and refuses tensors that share memory or are not
contiguous. This module reads compressed files and connections, a tensor at a time. Files of ours
carry a SHA-256 over the table and all values. ``docs/dependencies.md`` has measurements.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from torch import Tensor

from epochal.errors import FormatError, UsageError
from epochal.torch.checkpoint.byte_stream import ByteReader, Writable
from epochal.torch.checkpoint.tensor_bytes import (
    DTYPE_NAMES,
    DTYPES,
    MAX_RANK,
    Entry,
    chunks_of,
    on_host,
    read_values,
    skip_values,
)

# The limit of the safetensors package.
MAX_TABLE_BYTES = 100_000_000
_METADATA = "__metadata__"
_CHECKSUM = "sha256"


def write_safetensors(
    stream: Writable, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]
) -> None:
    """Write tensors and texts, with a checksum over all of it."""
    host = {name: on_host(tensor) for name, tensor in tensors.items()}
    # Widest first, so that every tensor begins at a multiple of its element's size.
    ordered = dict(sorted(host.items(), key=lambda item: -item[1].dtype.itemsize))
    table = _table(ordered, metadata)
    digest = hashlib.sha256(_canonical(table))
    for tensor in ordered.values():
        for chunk in chunks_of(tensor):
            digest.update(chunk)
    table[_METADATA] = {**metadata, _CHECKSUM: digest.hexdigest()}
    text = json.dumps(table, separators=(",", ":")).encode("ascii")
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_TABLE_BYTES:
        raise UsageError(f"the names and texts take {len(text)} bytes, over {MAX_TABLE_BYTES}.")
    stream.write(len(text).to_bytes(8, "little") + text)
    for tensor in ordered.values():
        for chunk in chunks_of(tensor):
            stream.write(chunk)


class SafetensorsReader:
    """Reads a stream once, from its table to its last tensor."""

    def __init__(self, source: ByteReader, *, verify: bool = True) -> None:
        self._source = source
        table = self._read_table()
        self.metadata = self._read_metadata(table.pop(_METADATA, {}))
        self.entries = self._read_entries(table)
        checksum = self.metadata.pop(_CHECKSUM, None)
        self.has_checksum = checksum is not None
        self._checksum = checksum if verify else None
        kept = {_METADATA: self.metadata} if self.metadata else {}
        source.restart_hash(_canonical({**table, **kept}))

    def read(self, choose: Callable[[Entry], bool]) -> Iterator[tuple[Entry, Tensor | None]]:
        """Yield every entry in the file's order, with its values where `choose` asks for them.

        Values are to be trusted only when the iterator has ended without an error.
        """
        for entry in self.entries:
            take = read_values if choose(entry) else skip_values
            yield entry, take(self._source, entry)
        if self._checksum is not None and self._checksum != self._source.hexdigest():
            raise self._bad("its checksum does not fit its contents: the file was damaged")

    def _read_table(self) -> dict[str, Any]:
        size = int.from_bytes(self._source.exactly(8, what="the length of its table"), "little")
        if not 2 <= size <= MAX_TABLE_BYTES:
            raise self._bad(f"it says that its table takes {size} bytes")
        text = self._source.exactly(size, what="its table")
        try:
            table = json.loads(text, object_pairs_hook=_without_repeats)
        except (ValueError, RecursionError) as error:
            raise self._bad(f"its table is not valid JSON ({error})") from error
        if not isinstance(table, dict):
            raise self._bad("its table is not a JSON object")
        return table

    def _read_metadata(self, metadata: Any) -> dict[str, str]:
        if not isinstance(metadata, dict) or not all(
            isinstance(value, str) for value in metadata.values()
        ):
            raise self._bad("its metadata are not texts")
        return metadata

    def _read_entries(self, table: Mapping[str, Any]) -> list[Entry]:
        placed = sorted(
            (self._read_entry(name, row) for name, row in table.items()), key=lambda item: item[0]
        )
        end = 0
        for (begin, finish), entry in placed:
            if begin != end:
                raise self._bad(f"the bytes of {entry.name!r} overlap others or leave a gap")
            end = finish
        return [entry for _, entry in placed]

    def _read_entry(self, name: str, row: Any) -> tuple[tuple[int, int], Entry]:
        try:
            dtype_name, shape, offsets = row["dtype"], row["shape"], row["data_offsets"]
            dtype = DTYPES.get(dtype_name)
            begin, end = offsets
            numbers = [*shape, begin, end]
        except (TypeError, KeyError, ValueError) as error:
            raise self._bad(f"the entry {name!r} is incomplete") from error
        if dtype is None:
            raise self._bad(f"{name!r} is of the unknown dtype {dtype_name!r}")
        if len(shape) > MAX_RANK or not all(type(n) is int and n >= 0 for n in numbers):
            raise self._bad(f"{name!r} has an impossible shape or place")
        entry = Entry(name, dtype, tuple(shape))
        if end - begin != entry.size_bytes:
            raise self._bad(
                f"{name!r} takes {end - begin} bytes, but its shape needs {entry.size_bytes}"
            )
        return (begin, end), entry

    def _bad(self, why: str) -> FormatError:
        return FormatError(f"{self._source.label} is not a whole safetensors file: {why}.")


def _table(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> dict[str, Any]:
    table: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    offset = 0
    for name, tensor in tensors.items():
        dtype = DTYPE_NAMES.get(tensor.dtype)
        if dtype is None:
            raise UsageError(f"{name!r} is {tensor.dtype}, which a safetensors file cannot hold.")
        if name == _METADATA:
            raise UsageError(f"no tensor can be named {_METADATA!r} in a safetensors file.")
        end = offset + tensor.numel() * tensor.dtype.itemsize
        table[name] = {"dtype": dtype, "shape": list(tensor.shape), "data_offsets": [offset, end]}
        offset = end
    return table


def _canonical(table: Mapping[str, Any]) -> bytes:
    return json.dumps(table, sort_keys=True, separators=(",", ":")).encode("ascii")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name occurs twice")
    return found
