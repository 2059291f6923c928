"""AMD GPUs through Linux's sysfs: the ones a ROCm program started from here would see.

A GPU's ``id`` is its number in HIP on the whole machine, which ROCR_VISIBLE_DEVICES takes. Reading
files makes no ROCm context, takes no GPU memory and needs no package. The partitions of a card are
GPUs of their own, with the card's readings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import ClassVar

from epochal.telemetry.amd_device import NAME_LISTS, AmdDevice, hwmon_of
from epochal.telemetry.amd_kfd import KfdNode, compute_nodes, computing, kfd_files
from epochal.telemetry.gpu import GPU_METRICS, GpuModel, GpuSample
from epochal.telemetry.source import Metric, closed_error
from epochal.telemetry.sysfs import Read, SysfsFiles, read_text
from epochal.telemetry.visible import rocm_visible

_VENDOR = 0x1002
# The first byte of a PCI class: displays, and accelerators that have none.
_CLASSES = (0x03, 0x12)


class AmdSource:
    """Samples every visible AMD GPU.

    With ``every`` all of the machine's count; otherwise ``environ``, the process's own when left
    out, says which are visible. ``root`` and ``proc`` stand for /sys and /proc.
    """

    kind: ClassVar[str] = "gpu"
    metrics: ClassVar[tuple[Metric, ...]] = GPU_METRICS

    def __init__(
        self,
        *,
        every: bool = False,
        environ: Mapping[str, str] | None = None,
        root: Path = Path("/sys"),
        proc: Path = Path("/proc"),
        read: Read = read_text,
        name_lists: Iterable[Path] = NAME_LISTS,
    ) -> None:
        self._every = every
        self._environ = environ
        self._root = root
        self._proc = proc
        self._read = read
        self._name_lists = name_lists
        self._kfd = kfd_files(read)
        self._drm = SysfsFiles("DRM", read=read)
        self._devices: list[AmdDevice] | None = None
        self.why_absent: str | None = None
        self._closed = False

    @property
    def failures(self) -> int:
        """How many files could not be read, or had impossible values."""
        return sum(one.failures for one in self._readers())

    @property
    def last_failure(self) -> str | None:
        """One of those failures in words: the newest of the GPU that failed."""
        said = [one.last_failure for one in self._readers() if one.last_failure]
        return said[-1] if said else None

    def probe(self) -> bool:
        """Return whether a GPU is visible; looked up once, at the first call."""
        if self._devices is None and not self._closed:
            present = self._present()
            self._devices = self._visible(present)
            if not self._devices:
                hidden = "no AMD GPU is visible to this process"
                self.why_absent = hidden if present else "Linux knows no AMD GPU that computes"
        return bool(self._devices)

    def sample(
        self, only: Collection[int] | None = None, *, light: bool = False
    ) -> tuple[GpuSample, ...]:
        """Read every visible GPU, or those of some ids; use and power are since the last call.

        A ``light`` reading gives the moment's, and adds it to what the next one is the mean of.
        """
        if self._closed:
            raise closed_error(self)
        if not self.probe():
            return ()
        chosen = [one for one in self._devices or () if only is None or one.index in only]
        return tuple(device.sample(light=light) for device in chosen)

    def recent_use(
        self, since: float, *, only: Collection[int] | None = None
    ) -> dict[int, list[tuple[float, float]]]:
        """Always empty: the driver remembers nothing."""
        return {}

    def pids(self) -> dict[int, frozenset[int] | None]:
        """For each visible GPU by ``id``, the processes that compute on it; None if unknown."""
        if self._closed:
            raise closed_error(self)
        if not self.probe():
            return {}
        found = computing(self._root, proc=self._proc, files=self._kfd)
        return {
            one.index: None
            if found is None or one.node is None
            # A GPU that nobody computes on is in no process's folder.
            else found.get(one.node.gpu_id, frozenset())
            for one in self._devices or ()
        }

    def gpu_models(self) -> tuple[GpuModel, ...]:
        """Describe every visible GPU."""
        if self._closed:
            raise closed_error(self)
        return tuple(one.model() for one in self._devices or ()) if self.probe() else ()

    def close(self) -> None:
        """End the source; nothing is open."""
        self._closed = True

    def _readers(self) -> list[SysfsFiles]:
        return [self._drm, self._kfd, *(one.files for one in self._devices or ())]

    def _present(self) -> list[AmdDevice]:
        cards = self._cards()
        nodes = compute_nodes(self._root, files=self._kfd)
        if nodes is None:
            # Without KFD's word the ones that can be power-capped, which integrated ones cannot.
            discrete = [cards[one] for one in sorted(cards) if _has_power_cap(cards[one])]
            return [self._device(folder, index=i) for i, folder in enumerate(discrete)]
        return [
            self._device(cards[node.address], index=i, node=node)
            for i, node in enumerate(nodes)
            if node.address in cards
        ]

    def _visible(self, present: list[AmdDevice]) -> list[AmdDevice]:
        if self._every:
            return present
        environ = os.environ if self._environ is None else self._environ
        uuids: list[str | None] = [None] * (max((one.index for one in present), default=-1) + 1)
        by_index = {one.index: one for one in present}
        for index, one in by_index.items():
            uuids[index] = one.uuid
        seen = rocm_visible(environ, uuids=uuids)
        return [by_index[index] for index in seen if index in by_index]

    def _device(self, folder: Path, *, index: int, node: KfdNode | None = None) -> AmdDevice:
        return AmdDevice(
            folder, index=index, node=node, read=self._read, name_lists=self._name_lists
        )

    def _cards(self) -> dict[str, Path]:
        """Each AMD card's folder by its PCI address."""
        try:
            entries = sorted((self._root / "class/drm").iterdir())
        except OSError:
            return {}
        # Connectors are named after their card: card0-DP-1.
        folders = [one / "device" for one in entries if re.fullmatch(r"card[0-9]+", one.name)]
        return {
            folder.resolve().name: folder for folder in folders if _is_amd_gpu(folder, self._drm)
        }


def _is_amd_gpu(device: Path, files: SysfsFiles) -> bool:
    if files.hexadecimal(device / "vendor") != _VENDOR:
        return False
    pci_class = files.hexadecimal(device / "class")
    return pci_class is not None and pci_class >> 16 in _CLASSES


def _has_power_cap(device: Path) -> bool:
    hwmon = hwmon_of(device)
    return hwmon is not None and (hwmon / "power1_cap").exists()
