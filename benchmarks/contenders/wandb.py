"""Weights & Biases, offline.

wandb ships no Python reader of its offline file, so the records are taken out of the file here: a
LevelDB log (blocks of 32 KiB, each chunk with checksum, length and type) behind a 7-byte header,
one protobuf record per entry, decoded with wandb's own message class.
"""

from __future__ import annotations

import functools
import json
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.contender import Log, Role

FILE_HEADER_BYTES = 7
BLOCK_BYTES = 32 * 1024
CHUNK_HEADER = struct.Struct("<IHB")  # checksum, length, type
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


class Wandb:
    name = "wandb offline"
    role: Role = "peer"
    requirements: tuple[str, ...] = ("wandb",)
    import_statement = "import wandb"

    def open(self, directory: Path, keys: Sequence[str]) -> Log:
        os.environ["WANDB_SILENT"] = "true"
        import wandb

        self._run = wandb.init(project="bench", dir=str(directory), mode="offline")
        # With step= alone wandb holds a step back until the next one comes.
        return functools.partial(self._run.log, commit=True)

    def close(self) -> None:
        self._run.finish()

    def read_steps(self, directory: Path, keys: Sequence[str]) -> set[int]:
        from wandb.proto.wandb_internal_pb2 import Record

        wanted = set(keys)
        steps = set()
        for path in directory.rglob("*.wandb"):
            for entry in _entries(path.read_bytes()):
                record = Record.FromString(entry)
                if record.WhichOneof("record_type") != "history":
                    continue
                items = {_key(item): item.value_json for item in record.history.item}
                if wanted <= items.keys():
                    steps.add(json.loads(items["_step"]))
        return steps


def _key(item: Any) -> str:
    return str(item.key) or ".".join(item.nested_key)


def _entries(content: bytes) -> Iterator[bytes]:
    """Whole entries of the log, up to the first one that is torn."""
    position = FILE_HEADER_BYTES
    parts: list[bytes] = []
    while True:
        left_in_block = BLOCK_BYTES - position % BLOCK_BYTES
        if left_in_block < CHUNK_HEADER.size:
            position += left_in_block
            continue
        if position + CHUNK_HEADER.size > len(content):
            return
        _, length, kind = CHUNK_HEADER.unpack_from(content, position)
        position += CHUNK_HEADER.size
        if kind not in (FULL, FIRST, MIDDLE, LAST) or position + length > len(content):
            return
        parts.append(content[position : position + length])
        position += length
        if kind in (FULL, LAST):
            yield b"".join(parts)
            parts.clear()
