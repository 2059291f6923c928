"""Checkpoint files whatever their layout: opened by their first bytes, written by their suffix.

A file appears under its name only when it is whole: it is written beside it, read back and
compared, and then put in its place.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from torch import Tensor

from epochal.atomic_file import replaced_file, sync_folder
from epochal.errors import EpochalError, FormatError, UsageError, ValueTypeError
from epochal.torch.checkpoint import fdl
from epochal.torch.checkpoint.byte_stream import (
    ByteReader,
    HashingWriter,
    Writable,
    compressed,
    compression_of,
    decompressed,
)
from epochal.torch.checkpoint.safetensors_layout import SafetensorsReader, write_safetensors
from epochal.torch.checkpoint.tensor_bytes import Entry

Layout = Literal["safetensors", "fdl"]
Source: TypeAlias = str | os.PathLike[str] | Any

VERSION = 1
_VERSION_KEY = "epochal_version"
_HASH_KEY = "structural_hash"
_SHARED_KEY = "shared"
_TREE_KEY = "state"
_SUFFIXES = (".gz", ".zst", ".safetensors", ".fdl")
_CHUNK_BYTES = 1 << 20
# A zip file, which torch.save writes, and the pickles that older versions of it wrote.
_PICKLE_STARTS = (b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


@dataclass(frozen=True, slots=True)
class Content:
    """What goes into a checkpoint file; `tree` is a JSON text beside the tensors."""

    tensors: Mapping[str, Tensor]
    shared: Mapping[str, str]
    hash: str | None = None
    tree: str | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """A file as it was written: its size, and the SHA-256 of its plain contents."""

    size_bytes: int
    sha256: str


class _Entries(Protocol):
    def read(self, choose: Callable[[Entry], bool]) -> Iterator[tuple[Entry, Tensor | None]]: ...


class CheckpointReader:
    """An open checkpoint: what its header says, and its tensors once, in order."""

    def __init__(self, source: ByteReader, *, verify: bool, to_the_end: bool) -> None:
        self._source = source
        self._to_the_end = to_the_end
        self.layout: Layout
        self.version: int
        self.hash: str | None
        self.shared: dict[str, str] = {}
        self.tree: str | None = None
        self._entries: _Entries
        if source.peek(len(fdl.MAGIC)) == fdl.MAGIC:
            self._entries = reader = fdl.FdlReader(source)
            self.layout, self.version, self.hash = "fdl", reader.version, reader.hash
        else:
            _refuse_pickle(source)
            self._entries = plain = SafetensorsReader(source, verify=verify)
            if _VERSION_KEY in plain.metadata and not plain.has_checksum:
                raise FormatError(f"{source.label} has lost its checksum: the file was damaged.")
            self.layout, self.hash = "safetensors", plain.metadata.get(_HASH_KEY)
            self.version = self._read_version(plain.metadata.get(_VERSION_KEY))
            self.shared = self._read_shared(plain.metadata.get(_SHARED_KEY, "{}"))
            self.tree = plain.metadata.get(_TREE_KEY)

    @property
    def label(self) -> str:
        """The file's name, for sentences."""
        return self._source.label

    def read(self, choose: Callable[[Entry], bool]) -> Iterator[tuple[Entry, Tensor | None]]:
        """Yield every entry, with its values where `choose` asks for them."""
        yield from self._entries.read(choose)
        if self._to_the_end and not self._source.at_end():
            raise FormatError(f"{self.label} goes on after its last tensor: the file was damaged.")

    def _read_version(self, text: str | None) -> int:
        if text is None:
            return 0
        if not (text.isascii() and text.isdecimal() and len(text) < 10):
            raise FormatError(f"{self.label} has the impossible version {text!r}.")
        if int(text) > VERSION:
            raise FormatError(
                f"{self.label} is a checkpoint of version {int(text)}; this Epochal reads up to "
                f"{VERSION}."
            )
        return int(text)

    def _read_shared(self, text: str) -> dict[str, str]:
        try:
            shared = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise FormatError(f"{self.label} has a damaged list of shared tensors.") from error
        if not isinstance(shared, dict) or not all(isinstance(v, str) for v in shared.values()):
            raise FormatError(f"{self.label} has a damaged list of shared tensors.")
        return shared


@contextlib.contextmanager
def open_checkpoint(source: Source, *, verify: bool = True) -> Iterator[CheckpointReader]:
    """Open a path or anything that can be read, compressed or not, of any layout."""
    with contextlib.ExitStack() as stack:
        if isinstance(source, (str, os.PathLike)):
            label = str(Path(source))
            stream: Any = stack.enter_context(open(source, "rb"))
        elif callable(getattr(source, "read", None)):
            label, stream = "the stream", source
        else:
            raise ValueTypeError(
                f"source must be a path or a file open for reading, got {type(source).__name__}."
            )
        opened, is_compressed = decompressed(stream, label=label)
        plain = ByteReader(opened, label=label, hashed=verify)
        # After a checkpoint in a plain stream other things may follow. A file holds nothing else,
        # and at the end of what is compressed lies its own checksum.
        to_the_end = is_compressed or stream is not source
        yield CheckpointReader(plain, verify=verify, to_the_end=to_the_end)


def write_checkpoint(
    destination: Source, content: Content, *, layout: Layout | None = None, overwrite: bool = True
) -> Written:
    """Write to a path, whole or not at all, or to anything that takes bytes."""
    if isinstance(destination, (str, os.PathLike)):
        return _write_path(Path(destination), content, layout=layout, overwrite=overwrite)
    if not callable(getattr(destination, "write", None)):
        raise ValueTypeError(
            "destination must be a path or a file open for writing, "
            f"got {type(destination).__name__}; the model comes second."
        )
    writer = HashingWriter(destination)
    _write_layout(writer, content, layout or "safetensors")
    return Written(writer.size_bytes, writer.hexdigest())


def stem_of(path: str | os.PathLike[str]) -> str:
    """A checkpoint's file name without its suffixes: ``model.fdl.gz`` gives ``model``."""
    name = Path(path).name
    while (suffix := Path(name).suffix) in _SUFFIXES and name != suffix:
        name = name[: -len(suffix)]
    return name


def _refuse_pickle(source: ByteReader) -> None:
    """Name a file of torch.save: it is whole, but reading it would run what is in it."""
    start = source.peek(9)
    if start.startswith(_PICKLE_STARTS) and start[8:9] != b"{":
        raise FormatError(
            f"{source.label} is a file of torch.save, a pickle: loading a pickle can run code, so "
            "Epochal reads none. Convert it once: "
            "save_checkpoint('model.safetensors', torch.load(path, weights_only=True))."
        )


def _write_path(path: Path, content: Content, *, layout: Layout | None, overwrite: bool) -> Written:
    if path.exists() and not overwrite:
        raise UsageError(f"{path} exists already: pass overwrite=True to replace it.")
    path.parent.mkdir(parents=True, exist_ok=True)
    chosen = layout or ("fdl" if ".fdl" in path.suffixes else "safetensors")
    with replaced_file(path, durable=True) as temporary:
        with temporary.open("wb") as file:
            stream, end = compressed(file, compression_of(path.name))
            writer = HashingWriter(stream)
            _write_layout(writer, content, chosen)
            end()
        written = Written(writer.size_bytes, writer.hexdigest())
        _read_back(temporary, written)
    sync_folder(path.parent)
    return written


def _write_layout(stream: Writable, content: Content, layout: Layout) -> None:
    kept = {name: t for name, t in content.tensors.items() if name not in content.shared}
    if layout == "fdl":
        fdl.write_fdl(stream, kept, hash_hex=content.hash)
        return
    metadata = {"format": "pt", _VERSION_KEY: str(VERSION)}
    if content.hash is not None:
        metadata[_HASH_KEY] = content.hash
    if content.shared:
        metadata[_SHARED_KEY] = json.dumps(content.shared)
    if content.tree is not None:
        metadata[_TREE_KEY] = content.tree
    write_safetensors(stream, kept, metadata)


def _read_back(path: Path, written: Written) -> None:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        stream, _ = decompressed(file, label=str(path))
        while chunk := stream.read(_CHUNK_BYTES):
            digest.update(chunk)
    if digest.hexdigest() != written.sha256:
        raise EpochalError(f"{path} does not read back as it was written: the disk damaged it.")


@dataclass(frozen=True, slots=True)
class CheckpointInfo:
    """A checkpoint's header: its layout and version, its structural hash, its tensors.

    `shared` maps further names of a tensor to the one it is stored under. `version` is 0 for a
    safetensors file that something else wrote.
    """

    layout: Layout
    version: int
    hash: str | None
    entries: tuple[Entry, ...]
    shared: dict[str, str]


def checkpoint_info(source: Source) -> CheckpointInfo:
    """Read all of a file once, checksum included, and say what it holds."""
    with open_checkpoint(source) as reader:
        entries = tuple(entry for entry, _ in reader.read(lambda entry: False))
    return CheckpointInfo(reader.layout, reader.version, reader.hash, entries, reader.shared)


def checkpoint_keys(source: Source) -> tuple[str, ...]:
    """Return the names in a checkpoint, in the file's order."""
    return tuple(entry.name for entry in checkpoint_info(source).entries)


def checkpoint_version(source: Source) -> int:
    """Return the version of a checkpoint's layout; reads its header only."""
    with open_checkpoint(source) as reader:
        return reader.version
