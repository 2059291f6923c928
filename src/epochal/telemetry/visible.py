"""Which GPUs a CUDA or a ROCm program sees, by the variables that hide GPUs.

The rules of CUDA are those of its programming guide ("CUDA Environment Variables"): entries of
CUDA_VISIBLE_DEVICES are numbers in CUDA's order, UUIDs or their unambiguous beginnings, or MIG ids.
The list ends at the first entry that names nothing. The same GPU twice leaves none.

For ROCm, ROCR_VISIBLE_DEVICES picks and orders the machine's GPUs. HIP_VISIBLE_DEVICES, or where it
is not set CUDA_VISIBLE_DEVICES, picks and orders among those. Both lists end at the first entry
that names nothing. Read off ROCR's ``amd_filter_device.cpp`` and ROCclr's ``rocdevice.cpp``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

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


def rocm_visible(environ: Mapping[str, str], *, uuids: Sequence[str | None]) -> list[int]:
    """The GPUs a program with these variables sees, as indices into the machine's ``uuids``.

    The UUIDs are ``GPU-`` and sixteen hexadecimal digits, None for a GPU that has none.
    """
    seen = _rocr(environ.get("ROCR_VISIBLE_DEVICES"), uuids)
    hip = environ.get("HIP_VISIBLE_DEVICES")
    hip = environ.get("CUDA_VISIBLE_DEVICES") if hip is None else hip
    if hip is None:
        return seen
    return [seen[i] for i in _hip(hip, [uuids[i] for i in seen])]


def _rocr(visible: str | None, uuids: Sequence[str | None]) -> list[int]:
    if visible is None:
        return list(range(len(uuids)))
    chosen: list[int] = []
    for entry in visible.split(","):
        index = _rocr_index(entry.strip().lower(), uuids)
        if index is None or index in chosen:
            break
        chosen.append(index)
    return chosen


def _rocr_index(entry: str, uuids: Sequence[str | None]) -> int | None:
    if entry.startswith("gpu-"):
        matches = [i for i, one in enumerate(uuids) if one and one.lower().startswith(entry)]
        return matches[0] if len(matches) == 1 and len(entry) > len("gpu-") else None
    return int(entry) if re.fullmatch(r"[0-9]+", entry) and int(entry) < len(uuids) else None


def _hip(visible: str, uuids: Sequence[str | None]) -> list[int]:
    # An empty list hides every GPU: so PyTorch counts, though HIP itself would take it for unset.
    chosen: list[int] = []
    for entry in visible.split(","):
        index = _hip_index(entry, uuids)
        if index is None:
            break
        if index not in chosen:
            chosen.append(index)
    return chosen


def _hip_index(entry: str, uuids: Sequence[str | None]) -> int | None:
    if "GPU-" in entry:
        return next((i for i, one in enumerate(uuids) if one and entry in one), None)
    # Unlike CUDA it takes a number only as a number is written.
    is_number = re.fullmatch(r"0|[1-9][0-9]*", entry) is not None
    return int(entry) if is_number and int(entry) < len(uuids) else None
