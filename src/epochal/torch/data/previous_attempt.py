"""The samples that the attempt before gave in the epoch it did not finish."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from epochal.journal.layout import RunFolder, rank_of_writer
from epochal.journal.line import decode
from epochal.records import Record
from epochal.torch.data.batch_facts import mixed
from epochal.torch.data.window import Sampled

# The last megabytes of a journal have the last minutes, whatever else is in it.
_MOST_BYTES = 8 << 20


def previous_attempt_fields(run: Any, name: str) -> Record:
    """What a record says of the epoch that the attempt before left unfinished; often nothing."""
    if run.attempt < 2:
        return {}
    records = [one for one in _records(run) if one.get("name") == name]
    last = max((one["epoch"] for one in records), default=0)
    windows = [one for one in records if one["epoch"] == last]
    if not windows or any(one.get("complete") is True for one in windows):
        return {}
    is_index = any("indices" in one for one in windows)
    field, bits = ("indices", "index_bits") if is_index else ("hashes", "hash_bits")
    kept = Sampled()
    kept.bits = max(int(one.get(bits, 0)) for one in windows)
    for one in windows:
        identities = np.asarray(one.get(field, ()), dtype=np.int64)
        hashes = mixed(identities) if is_index else identities
        for hashed, identity in zip(hashes.tolist(), identities.tolist(), strict=True):
            kept.add(hashed, identity, one.get("step", -1))
    if not kept.kept:
        return {}
    return {
        "earlier": [identity for _, identity, _ in kept.kept],
        "earlier_steps": [step for _, _, step in kept.kept],
        "earlier_bits": kept.bits,
        "earlier_by": "index" if is_index else "content",
    }


def _records(run: Any) -> Iterator[Record]:
    """The ``data`` records at the end of this rank's journal of the attempt before."""
    folder = RunFolder(run.dir)
    for name in folder.parts():
        if name.attempt != run.attempt - 1 or rank_of_writer(name.writer) != run.rank:
            continue
        with folder.part_path(name).open("rb") as file:
            file.seek(max(0, folder.part_path(name).stat().st_size - _MOST_BYTES))
            for line in file:
                if line.startswith(b'{"log":"data"'):
                    record = decode(line)
                    if record is not None and isinstance(record.get("epoch"), int):
                        yield record
