"""What GPUs can do at most, from their makers' papers: dense matrix products, in TFLOP/s.

The rows are in ``peaks.csv``. Papers print the figure with 2:4 sparsity more prominently, often
only that one. Training uses no sparsity, so every number there is the dense one: half of the
printed one where only that is printed. Half precision is that with 32-bit accumulation, which
GeForce cards do at half the rate.

``clock_mhz`` is the clock that the figure is reached at, which some papers call boost. Where a
paper gives no clock or no number of multiprocessors, it is left out. That of B200 and GB200 follows
from the figure: a multiprocessor does 8,192 operations of half precision per clock.

AMD's architectures stand as 0.90 (CDNA 2) and 0.94 (CDNA 3), because 9.0 is Hopper's: nothing is
scaled from or to these. Each of the two dies of an MI250X is a device of its own, and so is an
MI250's, which has fewer units.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

# What one multiprocessor does per clock differs between these within one architecture.
Line = Literal["data-center", "professional", "geforce", "limited"]
DTYPES = ("fp32", "tf32", "bf16", "fp16", "fp8", "fp4")


@dataclass(frozen=True, slots=True)
class Row:
    """One GPU; ``name`` is a pattern on the driver's name, ``pci_ids`` those of the PCI ID list."""

    name: str
    line: Line
    capability: tuple[int, int]
    sm_count: int | None
    clock_mhz: int | None
    source: str
    pci_ids: tuple[str, ...] = ()
    fp32: float | None = None
    tf32: float | None = None
    bf16: float | None = None
    fp16: float | None = None
    fp8: float | None = None
    fp4: float | None = None


def _row(cells: dict[str, str]) -> Row:
    major, minor = cells["capability"].split(".")
    return Row(
        name=cells["name"],
        line=cast(Line, cells["line"]),
        capability=(int(major), int(minor)),
        sm_count=int(cells["sm_count"]) if cells["sm_count"] else None,
        clock_mhz=int(cells["clock_mhz"]) if cells["clock_mhz"] else None,
        source=cells["source"],
        pci_ids=tuple(cells["pci_ids"].split()),
        **{dtype: float(cells[dtype]) for dtype in DTYPES if cells[dtype]},
    )


with Path(__file__).with_name("peaks.csv").open(encoding="utf-8", newline="") as _file:
    ROWS = tuple(map(_row, csv.DictReader(_file)))
