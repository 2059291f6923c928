"""Records of made-up data loaders."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any

from epochal.records import Record
from tests.health.machine_records import START


def digest(samples: Sequence[int]) -> int:
    """A digest of an order of samples."""
    return int.from_bytes(blake2b(repr(list(samples)).encode(), digest_size=6).digest(), "little")


def epoch(
    number: int,
    samples: Sequence[int],
    *,
    name: str = "train",
    has_indices: bool = True,
    **fields: Any,
) -> Record:
    """An epoch of these samples, in four batches; each sample's content is its own."""
    hashes = [digest([sample]) for sample in samples]
    record: Record = {
        "log": "data",
        "t": START + number,
        "step": 10 * number,
        "name": name,
        "epoch": number,
        "batches": 4,
        "samples": len(samples),
        "read_batches": 4,
        "hashes": hashes,
        "hash_bits": 0,
        "orders": [[4, len(samples), digest(samples)]],
        "ended": True,
    }
    if has_indices:
        indices = list(samples)
        record |= {"indices": indices, "index_bits": 0}
        record |= {"sampler": "RandomSampler", "dataset": f"{name}-1"}
    return {**record, **fields}
