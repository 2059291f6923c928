"""Checkpoint files: safetensors or flodl's layout, plain or compressed, on disk or in a stream.

The suffix of a path selects the layout for writing, the contents select it for reading. None of
them has a pickle in it, so loading a file runs nothing.

flodl's layout is little-endian: ``FDLC``, version u32, a hash of 32 bytes (zeros for none), number
of entries u32; per entry the length of its name u32, the name in UTF-8, rank u32, each dimension
i64, a byte for the dtype, number of bytes u64, the bytes. Versions 1 and 2 differ in naming only.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import os
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load, save, save_file
from torch import Tensor

from epochal.base.atomic_file import make_folder, replaced_file
from epochal.errors import FormatError, UsageError

Layout = Literal["safetensors", "fdl"]
Source: TypeAlias = str | os.PathLike[str] | Any

_HASH, _SHARED, _TREE = "structural_hash", "shared", "state"
_GZIP_MAGIC = b"\x1f\x8b"
# Weights are close to noise: higher levels cost much time and save next to nothing.
_GZIP_LEVEL = 1

_FDL_MAGIC = b"FDLC"
_FDL_VERSION = 2
_FDL_HASH_BYTES = 32
_FDL_CODES: Mapping[torch.dtype, int] = {
    torch.float16: 1,
    torch.bfloat16: 2,
    torch.float32: 3,
    torch.float64: 4,
    torch.int32: 5,
    torch.int64: 6,
}


@dataclass(frozen=True, slots=True)
class Content:
    """The contents of a checkpoint file.

    `shared` maps further names of a tensor to the one it is stored under, `tree` is a JSON text
    beside the tensors.
    """

    tensors: Mapping[str, Tensor]
    shared: Mapping[str, str] = field(default_factory=dict)
    hash: str | None = None
    tree: str | None = None

    def stored(self) -> dict[str, Tensor]:
        """Return every tensor once, under the name that it is stored under."""
        return {name: t for name, t in self.tensors.items() if name not in self.shared}


def write_checkpoint(
    destination: Source, content: Content, *, layout: Layout | None = None
) -> None:
    """Write to a path, completely or not at all, or to anything that takes bytes.

    A path whose name ends in ``.gz`` is compressed, one with ``.fdl`` has flodl's layout.
    """
    if not isinstance(destination, (str, os.PathLike)):
        _write_stream(destination, content, layout)
        return
    path = Path(destination)
    chosen = layout or ("fdl" if ".fdl" in path.suffixes else "safetensors")
    make_folder(path.parent)
    with replaced_file(path, durable=True) as temporary:
        if path.suffix == ".gz":
            # No name and no time inside: equal contents give equal files.
            with temporary.open("wb") as file, gzip.GzipFile("", "wb", _GZIP_LEVEL, file, 0) as out:
                _write_stream(out, content, chosen)
        elif chosen == "fdl":
            with temporary.open("wb") as file:
                _write_fdl(file, content)
        else:
            _write_safetensors_file(temporary, content)


def read_checkpoint(source: Source) -> Content:
    """Read a path or anything that can be read, compressed or not, of either layout.

    The tensors of a plain safetensors file are mapped from the disk, not read.
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        with path.open("rb") as file:
            if not file.read(4).startswith((_GZIP_MAGIC, _FDL_MAGIC)):
                return _read_safetensors_file(path)
        return _parsed(path.read_bytes(), label=str(path))
    return _parsed(source.read(), label="the stream")


def _write_stream(stream: Any, content: Content, layout: Layout | None) -> None:
    if layout == "fdl":
        _write_fdl(stream, content)
    else:
        stream.write(save(_on_host(content), _metadata(content)))


def _write_safetensors_file(path: Path, content: Content) -> None:
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file(_on_host(content), path, _metadata(content))
    except SafetensorError as error:
        raise OSError(f"{path} could not be written: {error}.") from error
    # The library replaces the file by one that only its owner can read.
    path.chmod(mode)


def _metadata(content: Content) -> dict[str, str]:
    given = {
        "format": "pt",
        _HASH: content.hash,
        _SHARED: json.dumps(content.shared) if content.shared else None,
        _TREE: content.tree,
    }
    return {name: text for name, text in given.items() if text is not None}


def _on_host(content: Content) -> dict[str, Tensor]:
    """The tensors as the safetensors library takes them; nothing is copied that need not be."""
    storages: set[int] = set()
    host = {}
    for name, tensor in content.stored().items():
        contiguous = tensor.detach().cpu().contiguous()
        storage = contiguous.untyped_storage().data_ptr()
        host[name] = contiguous.clone() if storage in storages and storage else contiguous
        storages.add(storage)
    return host


def _read_safetensors_file(path: Path) -> Content:
    try:
        with safe_open(path, framework="pt") as file:
            return _content(file.get_tensors(), file.metadata(), label=str(path))
    except SafetensorError as error:
        raise _not_a_checkpoint(str(path)) from error


def _parsed(data: bytes, *, label: str) -> Content:
    if data.startswith(_GZIP_MAGIC):
        try:
            data = gzip.decompress(data)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise FormatError(f"{label} cannot be decompressed: {error}.") from error
    if data.startswith(_FDL_MAGIC):
        try:
            return _read_fdl(io.BytesIO(data))
        except (struct.error, ValueError, KeyError, RuntimeError) as error:
            raise FormatError(f"{label} is not a complete .fdl file: {error}.") from error
    try:
        tensors = load(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
    except SafetensorError as error:
        raise _not_a_checkpoint(label) from error
    return _content(tensors, header.get("__metadata__"), label=label)


def _content(
    tensors: dict[str, Tensor], metadata: Mapping[str, str] | None, *, label: str
) -> Content:
    texts = metadata or {}
    try:
        shared = json.loads(texts.get(_SHARED, "{}"))
    except (ValueError, RecursionError):
        shared = None
    if not isinstance(shared, dict) or not all(isinstance(v, str) for v in shared.values()):
        raise FormatError(f"{label} has a damaged list of shared tensors.")
    return Content(tensors, shared, texts.get(_HASH), texts.get(_TREE))


def _not_a_checkpoint(label: str) -> FormatError:
    return FormatError(
        f"{label} is neither a safetensors file nor an .fdl file, or it is damaged. A file of "
        "torch.save can be converted: "
        "save_checkpoint('model.safetensors', torch.load(path, weights_only=True))."
    )


def _write_fdl(stream: Any, content: Content) -> None:
    tensors = content.stored()
    for name, tensor in tensors.items():
        if tensor.dtype not in _FDL_CODES:
            raise UsageError(f"{name!r} is {tensor.dtype}: use .safetensors for it.")
    digest = bytes.fromhex(content.hash) if content.hash else bytes(_FDL_HASH_BYTES)
    stream.write(_FDL_MAGIC + struct.pack("<I", _FDL_VERSION) + digest)
    stream.write(struct.pack("<I", len(tensors)))
    for name, tensor in tensors.items():
        host = tensor.detach().cpu().contiguous()
        text, shape, size = name.encode(), tuple(host.shape), host.numel() * host.dtype.itemsize
        stream.write(struct.pack("<I", len(text)) + text + struct.pack("<I", len(shape)))
        stream.write(struct.pack(f"<{len(shape)}qBQ", *shape, _FDL_CODES[host.dtype], size))
        if size:
            stream.write(memoryview(cast(Any, host.reshape(-1).view(torch.uint8).numpy())))


def _read_fdl(stream: io.BytesIO) -> Content:
    _, version, digest, count = _unpacked(stream, f"4sI{_FDL_HASH_BYTES}sI")
    if not 1 <= version <= _FDL_VERSION:
        raise ValueError(f"it is of version {version}, and 1 and 2 can be read")
    tensors = dict(_read_fdl_entry(stream) for _ in range(count))
    if stream.read(1):
        raise ValueError("it goes on after its last tensor")
    return Content(tensors, hash=digest.hex() if any(digest) else None)


def _read_fdl_entry(stream: io.BytesIO) -> tuple[str, Tensor]:
    name = stream.read(*_unpacked(stream, "I")).decode()
    (rank,) = _unpacked(stream, "I")
    *shape, code, size = _unpacked(stream, f"{rank}qBQ")
    dtype = {code: dtype for dtype, code in _FDL_CODES.items()}[code]
    if min(shape, default=0) < 0 or size != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name!r} of {size} bytes has the impossible shape {shape}")
    if not size:
        return name, torch.empty(shape, dtype=dtype)
    return name, torch.frombuffer(bytearray(stream.read(size)), dtype=dtype).reshape(shape)


def _unpacked(stream: io.BytesIO, layout: str) -> tuple[Any, ...]:
    """Read little-endian numbers."""
    return struct.unpack(f"<{layout}", stream.read(struct.calcsize(f"<{layout}")))
