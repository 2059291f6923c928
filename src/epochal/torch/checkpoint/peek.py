"""What is in a checkpoint file, without loading it."""

from __future__ import annotations

from dataclasses import dataclass

from epochal.torch.checkpoint.file import Layout, Source, open_checkpoint
from epochal.torch.checkpoint.tensor_bytes import Entry


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
