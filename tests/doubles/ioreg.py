"""What ``ioreg -a`` prints of the accelerators of a machine, in the shape real ones have."""

from __future__ import annotations

import plistlib
from collections.abc import Sequence
from typing import Any

GIB = 1024**3


def accelerator(**changed: Any) -> dict[str, Any]:
    """The entry of an M2 Pro's GPU; ``changed`` replaces some of its properties."""
    return {
        "CFBundleIdentifier": "com.apple.AGXG14X",
        "IOClass": "AGXAcceleratorG14X",
        "IOMatchCategory": "IOAccelerator",
        "IOObjectClass": "AGXAcceleratorG14X",
        "IORegistryEntryID": 4294968422,
        "MetalPluginName": "AGXMetalG14X",
        "gpu-core-count": 19,
        "model": "Apple M2 Pro",
        "vendor-id": b"\x6b\x10\x00\x00",
        "GPUConfigurationVariable": {"gpu_gen": 14, "gpu_var": "X", "num_cores": 19},
        "PerformanceStatistics": statistics(),
        **changed,
    }


def statistics(**changed: Any) -> dict[str, Any]:
    """Its statistics while it trains."""
    return {
        "Alloc system memory": 11_346_542_592,
        "Allocated PB Size": 7_340_032,
        "Device Utilization %": 94,
        "In use system memory": 6_120_144_896,
        "In use system memory (driver)": 0,
        "Renderer Utilization %": 93,
        "SplitSceneCount": 0,
        "TiledSceneBytes": 262_144,
        "Tiler Utilization %": 2,
        "lastRecoveryTime": 0,
        "recoveryCount": 0,
        **changed,
    }


def intel_accelerator() -> dict[str, Any]:
    """The entry of another maker's GPU, as an Intel Mac has it."""
    return {
        "IOClass": "AMDRadeonX6000_AMDNavi14GraphicsAccelerator",
        "model": b"AMD Radeon Pro 5500M\x00",
        "PerformanceStatistics": {"Device Utilization %": 3, "vramUsedBytes": GIB},
    }


class Ioreg:
    """A command that prints ``entries``, or raises ``fault``, and takes ``cost_s`` of its clock."""

    def __init__(self, *entries: dict[str, Any], cost_s: float = 0.02) -> None:
        self.entries = list(entries) or [accelerator()]
        self.fault: Exception | None = None
        self.printed: bytes | None = None
        self.cost_s = cost_s
        self.now_s = 1000.0
        self.commands: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str]) -> bytes:
        self.commands.append(command)
        self.now_s += self.cost_s
        if self.fault is not None:
            raise self.fault
        return plistlib.dumps(self.entries) if self.printed is None else self.printed

    def clock(self) -> float:
        return self.now_s

    def use(self, percent: int) -> None:
        """Change what the GPU is said to do."""
        said = statistics(**{"Device Utilization %": percent})
        self.entries = [accelerator(PerformanceStatistics=said)]
