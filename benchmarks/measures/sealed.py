"""Bytes per point after sealing: the GPT-2 reference run as `log_step` records it, and histograms.

`python -m benchmarks.measures.sealed` prints the figures alone.
"""

from __future__ import annotations

import math
import random
import re
import tempfile
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.outcome import Hold, Outcome, Table
from benchmarks.samples import REFERENCE_STEPS
from benchmarks.stage import Stage

if TYPE_CHECKING:
    from epochal.journal.layout import RunFolder
    from epochal.run.run import Run

NAME = "sealed"
SCALARS = 7
HISTOGRAMS, HISTOGRAM_STEPS, BINS = 95, 150, 64
STEP_TOKENS = 524_288
DATASET_TOKENS = 9.9e9
STEP_MS = 331
_TIME = re.compile(rb'"t":[0-9.]+')


@dataclass(frozen=True, slots=True)
class Sealed:
    journal_bytes: int
    segment_bytes: int
    cpu_s: float


def run(stage: Stage) -> Outcome:
    steps = REFERENCE_STEPS // 10 if stage.quick else REFERENCE_STEPS
    scalars = sealed(lambda run: log_steps(run, steps))
    histograms = sealed(log_histograms)
    points = steps * SCALARS
    table = Table(
        "bytes",
        ("sealed, kB", "journal, kB", "CPU of sealing, s"),
        {
            "scalars of the reference run": _cells(scalars),
            f"{HISTOGRAMS} x {HISTOGRAM_STEPS} histograms": _cells(histograms),
        },
        {},
        ratios=False,
    )
    holds = (
        Hold("sealed reference run", 3, scalars.segment_bytes / points, "B/point"),
        Hold("sealed histograms", 10, histograms.segment_bytes / 1e6, "MB"),
    )
    note = (
        f"{steps:,} steps of the seven scalars of log_step, float32 where a tensor gives them, "
        f"steps and times included; {HISTOGRAMS} histograms of {BINS} bins at "
        f"{HISTOGRAM_STEPS} steps."
    )
    return Outcome("Sealed", note, (table,), holds)


def log_steps(run: Run, steps: int) -> None:
    source = random.Random(11)
    for step in range(steps):
        run.log_step(
            step,
            step * STEP_TOKENS / DATASET_TOKENS,
            STEP_TOKENS,
            STEP_MS + int(source.expovariate(0.5)),
            _float32(0.3 + 2 * math.exp(-step / 900) + abs(source.gauss(0, 0.05))),
            _float32(3.1 + 7.8 * math.exp(-step / 2500) + source.gauss(0, 0.04)),
            6e-4 * (0.1 + 0.45 * (1 + math.cos(math.pi * step / steps))),
        )


def log_histograms(run: Run) -> None:
    import numpy as np

    source = np.random.default_rng(11)
    for step in range(HISTOGRAM_STEPS):
        for layer in range(HISTOGRAMS):
            values = source.normal(scale=1 + step / 50, size=4096)
            run.log({f"layer.{layer}.weight": values}, step=step * 600)


def sealed(log: Callable[[Run], None]) -> Sealed:
    """Record a run, give it the clock of a training that takes its time, and seal it."""
    import epochal
    from epochal.journal.layout import RunFolder
    from epochal.journal.segments.seal import seal_part

    with tempfile.TemporaryDirectory() as directory:
        run = epochal.init("bench", "sealed", dir=directory, console=False, companion=False)
        folder = RunFolder(run.dir)
        log(run)
        run.finish()
        _slow_down(folder)
        begun = time.process_time()
        reports: list[Any] = [
            seal_part(folder, name, into=Path(directory) / "sealed") for name in folder.parts()
        ]
        cpu_s = time.process_time() - begun
    return Sealed(
        journal_bytes=sum(report.journal_bytes for report in reports),
        segment_bytes=sum(report.segment_bytes for report in reports),
        cpu_s=cpu_s,
    )


def _slow_down(folder: RunFolder) -> None:
    """Records written in one second share their times; those of a training do not."""
    source = random.Random(12)
    milliseconds = 1_700_000_000_000
    for name in folder.parts():
        lines = folder.part_path(name).read_bytes().split(b"\n")
        for place, line in enumerate(lines):
            milliseconds += STEP_MS + int(source.expovariate(0.5))
            lines[place] = _TIME.sub(b'"t":%.3f' % (milliseconds / 1000), line, count=1)
        folder.part_path(name).write_bytes(b"\n".join(lines))


def _cells(size: Sealed) -> tuple[float, float, float]:
    return size.segment_bytes / 1000, size.journal_bytes / 1000, size.cpu_s


def _float32(value: float) -> float:
    return array("f", [value])[0]


def main() -> None:
    points = REFERENCE_STEPS * SCALARS
    size = sealed(lambda run: log_steps(run, REFERENCE_STEPS))
    print(
        f"scalars: {size.segment_bytes / points:.2f} B/point sealed,"
        f" {size.journal_bytes / points:.1f} in the journal;"
        f" {size.cpu_s / points * 1e6:.2f} s of CPU per million points"
    )
    size = sealed(log_histograms)
    print(f"histograms: {size.segment_bytes / 1e6:.2f} MB sealed, {size.cpu_s:.2f} s of CPU")


if __name__ == "__main__":
    main()
