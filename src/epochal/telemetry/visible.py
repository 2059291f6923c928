"""Which GPUs a CUDA program sees, by the rules of CUDA_VISIBLE_DEVICES.

The rules are the CUDA programming guide's ("CUDA Environment Variables"): entries are numbers in
CUDA's order, UUIDs or their unambiguous beginnings, or MIG ids; the list ends at the first entry
that names nothing; the same GPU twice leaves none.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# Every GPU of a machine: the list ends at the first number that names none.
EVERY_GPU = ",".join(str(number) for number in range(256))


def visible_entries(visible: str | None, *, uuids: Sequence[str | None]) -> list[int | str]:
    """Resolve a CUDA_VISIBLE_DEVICES text against the machine's GPUs, given in CUDA's order.

    Gives indices into ``uuids``, and MIG ids as they are written. ``None`` means every GPU, an
    empty text means none.
    """
    if visible is None:
        return list(range(len(uuids)))
    chosen: list[int | str] = []
    for entry in visible.split(","):
        device = _resolve(entry.strip(), uuids=uuids)
        if device is None:
            break
        if device in chosen:
            return []
        chosen.append(device)
    return chosen


def _resolve(entry: str, *, uuids: Sequence[str | None]) -> int | str | None:
    if entry.startswith("MIG-"):
        return entry
    if entry.startswith("GPU-"):
        matches = [i for i, uuid in enumerate(uuids) if uuid is not None and uuid.startswith(entry)]
        return matches[0] if len(matches) == 1 else None
    # CUDA reads the leading digits of an entry and ignores what follows them.
    number = re.match(r"\+?(\d+)", entry)
    if number is None or int(number.group(1)) >= len(uuids):
        return None
    return int(number.group(1))
