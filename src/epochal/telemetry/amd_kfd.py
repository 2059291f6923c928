"""Reads AMD's compute driver (KFD) in sysfs: its GPUs in HIP's order, and their processes.

The GPUs of HIP and of ROCR_VISIBLE_DEVICES are KFD's nodes that have compute units, in the order
of their numbers. A node that a container may not use cannot be read, and ROCm counts none either.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from epochal.telemetry.sysfs import ABSENT, Read, SysfsFiles

_NODES = Path("class/kfd/kfd/topology/nodes")
_PROCESSES = Path("class/kfd/kfd/proc")
# The kernel's fixed number of the first process namespace (PROC_PID_INIT_INO).
_FIRST_NAMESPACE = "pid:[4026531836]"


@dataclass(frozen=True, slots=True)
class KfdNode:
    """One GPU as KFD knows it; ``address`` is its PCI address, ``target`` its ISA ("gfx942").

    ``capability`` is what PyTorch calls the device's; ``max_clock`` is in MHz.
    """

    gpu_id: int
    address: str
    codename: str | None = None
    unique_id: int | None = None
    target: str | None = None
    capability: tuple[int, int] | None = None
    num_units: int | None = None
    max_clock: int | None = None


def kfd_files(read: Read) -> SysfsFiles:
    """A reader of KFD's files: what may not be read is another's, what is gone has ended."""
    return SysfsFiles("KFD", read=read, absent=ABSENT | {errno.EPERM, errno.ENODEV})


def compute_nodes(root: Path, *, files: SysfsFiles) -> list[KfdNode] | None:
    """The GPUs that ROCm finds on this machine, in its order; None where there is no KFD."""
    folders = _numbered(root / _NODES)
    if folders is None:
        return None
    nodes = (_node(folder, files) for _, folder in folders)
    return [node for node in nodes if node is not None]


def computing(root: Path, *, proc: Path, files: SysfsFiles) -> dict[int, frozenset[int]] | None:
    """The processes on each GPU, by KFD's id of it; None where they cannot be told.

    KFD counts processes as the first namespace does: in a container its numbers are not ours.
    """
    folders = _numbered(root / _PROCESSES)
    if folders is None or not _is_first_namespace(proc):
        return None
    found: dict[int, set[int]] = {}
    for pid, folder in folders:
        for gpu_id in _used_by(folder, files):
            found.setdefault(gpu_id, set()).add(pid)
    return {gpu_id: frozenset(pids) for gpu_id, pids in found.items()}


def _used_by(process: Path, files: SysfsFiles) -> set[int]:
    """The GPUs a process has queues on; without any queue, those it holds memory of.

    ROCm opens every GPU it sees, so that memory alone says little.
    """
    queues = _numbered(process / "queues") or []
    ids = {files.number(folder / "gpuid", least=1) for _, folder in queues}
    if ids - {None}:
        return {one for one in ids if one is not None}
    held = {path.name.removeprefix("vram_"): files.number(path) for path in _vram(process)}
    return {int(gpu_id) for gpu_id, size in held.items() if gpu_id.isdigit() and size}


def _vram(process: Path) -> Iterator[Path]:
    try:
        yield from sorted(process.glob("vram_*"))
    except OSError:  # the process ended meanwhile
        return


def _node(folder: Path, files: SysfsFiles) -> KfdNode | None:
    gpu_id = files.number(folder / "gpu_id", least=0)
    facts = _properties(files.text(folder / "properties") or "")
    location = facts.get("location_id")
    if not gpu_id or not facts.get("simd_count") or location is None:
        return None
    target = facts.get("gfx_target_version")
    per_unit = facts.get("simd_per_cu")
    return KfdNode(
        gpu_id=gpu_id,
        address=_address(facts.get("domain", 0), location),
        codename=files.text(folder / "name"),
        unique_id=facts.get("unique_id"),
        target=_target(target) if target else None,
        capability=(target // 10_000, target // 100 % 100) if target else None,
        num_units=facts["simd_count"] // per_unit if per_unit else None,
        max_clock=facts.get("max_engine_clk_fcompute") or None,
    )


def _properties(text: str) -> dict[str, int]:
    pairs = (line.split() for line in text.splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def _address(domain: int, location: int) -> str:
    # The function's bits hold the number of a partition; a GPU is always function 0.
    return f"{domain:04x}:{location >> 8 & 0xFF:02x}:{location >> 3 & 0x1F:02x}.0"


def _target(version: int) -> str:
    return f"gfx{version // 10_000}{version // 100 % 100:x}{version % 100:x}"


def _numbered(folder: Path) -> list[tuple[int, Path]] | None:
    """The folders whose names are numbers, in their order; None where there is no such place."""
    try:
        return sorted((int(one.name), one) for one in folder.iterdir() if one.name.isdigit())
    except OSError:
        return None


def _is_first_namespace(proc: Path) -> bool:
    try:
        return str((proc / "self/ns/pid").readlink()) == _FIRST_NAMESPACE
    except OSError:
        return False
