"""A series' value with its unit, where the unit is known: bytes, percent, whole counts."""

from __future__ import annotations

import math
from collections.abc import Callable

from epochal.format import UNKNOWN, format_bytes, format_number

_MACHINE = ("system/", "gpu/", "resources/")
_BYTES = frozenset(
    "ram_used ram_total rss children_rss disk_free disk_total epochal_rss dram_free dram_used"
    " dram_total vram_allocated_bytes vram_reserved_bytes vram_total vram_spill".split()
)
_RATES = frozenset("disk_read disk_write net_rx net_tx pcie_rx pcie_tx".split())
_PERCENT = frozenset(
    "cpu_pct process_cpu_pct epochal_cpu_pct gpu_pct gpu_util mem_util fan sm_active"
    " tensor_active dram_active".split()
)
_COUNTS = frozenset("children threads ecc_corrected ecc_uncorrected".split())
_COUNTED_SERIES = frozenset(
    "train/step_tokens eval/eval_tokens train/tokens_per_second eval/tokens_per_second"
    " moe/active_experts".split()
)


def format_figure(name: str, value: float | None, *, unit: str | None = None) -> str:
    """A value of the series ``name``; ``unit`` is what the run has defined for it."""
    if value is None:
        return UNKNOWN
    write = _writer(name, unit)
    return format_number(value) if write is None or not math.isfinite(value) else write(value)


def _writer(name: str, unit: str | None) -> Callable[[float], str] | None:
    field = name.rpartition("/")[2]
    is_machine = name.startswith(_MACHINE)
    if unit in ("B", "bytes") or name.startswith("memory/") or (is_machine and field in _BYTES):
        return format_bytes
    if unit in ("B/s", "bytes/s") or (is_machine and field in _RATES):
        return lambda value: f"{format_bytes(value)}/s"
    if unit == "%" or (is_machine and field in _PERCENT):
        return lambda value: f"{value:.1f} %"
    if is_machine and field in ("power", "power_limit"):
        return lambda value: f"{value / 1000:.0f} W"
    if name in _COUNTED_SERIES or (is_machine and field in _COUNTS):
        return lambda value: f"{value:.0f}"
    return None
