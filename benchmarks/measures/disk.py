"""Bytes per point on disk, for the GPT-2 reference run."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contender import Contender
from benchmarks.contenders import OURS
from benchmarks.outcome import Cell, Hold, Outcome, Table, remarks
from benchmarks.samples import REFERENCE_KEYS, REFERENCE_STEPS, reference_run
from benchmarks.stage import Answer, Play, Stage

NAME = "bytes"
SHORT, LONG = 0, 1
SEALED_PATTERN = "segments/*.parquet"


@dataclass(frozen=True, slots=True)
class Footprint:
    bytes_per_point: float
    fixed_bytes: int
    points: int
    sealed: bool

    def cells(self) -> tuple[Cell, ...]:
        sealed = "yes" if self.sealed else ""
        return (self.bytes_per_point, self.fixed_bytes / 1000, self.points, sealed)


def run(stage: Stage) -> Outcome:
    cases = [
        {"steps": 1, "limit_s": 1.0},
        {"steps": REFERENCE_STEPS, "limit_s": 0.5 if stage.quick else 8.0},
    ]
    answers = stage.rounds(
        "disk",
        count=1,
        cases=cases,
        entrants=stage.present("baseline", "ours", "peer"),
        inspect=_size,
    )
    sizes = {
        entrant.name: _footprint(answers, entrant.name)
        for entrant in stage.entrants
        if entrant.contender.role != "control"
    }
    table = Table(
        "bytes per point",
        ("bytes per point", "a run of one step, kB", "points written", "sealed"),
        {name: size.cells() if size else (None,) for name, size in sizes.items()},
        remarks(stage),
    )
    ours = sizes[OURS]
    hold = Hold(
        "sealed size of the reference run",
        3,
        ours.bytes_per_point if ours and ours.sealed else None,
        "B/point",
        why_not="not sealed in this run",
    )
    note = (
        "95,365 steps of six scalars and an evaluation every 250 steps, as far as each tool came "
        "in the time given; what a run of one step takes is left out of the bytes per point."
    )
    return Outcome("Disk", note, (table,), (hold,))


def work(contender: Contender, directory: Path, *, steps: int, limit_s: float) -> Answer:
    log = contender.open(directory, [*REFERENCE_KEYS, "val/loss"])
    deadline = time.perf_counter() + limit_s
    points = 0
    for step, values in enumerate(reference_run(steps)):
        log(values, step=step)
        points += len(values)
        if time.perf_counter() > deadline:
            break
    contender.close()
    return {"points": points}


def _size(play: Play) -> Answer:
    files = [path for path in play.data.rglob("*") if path.is_file()]
    return {
        "size_bytes": sum(path.stat().st_size for path in files),
        "sealed": any(path.match(SEALED_PATTERN) for path in files),
    }


def _footprint(answers: dict[tuple[str, int], list[Answer]], name: str) -> Footprint | None:
    if not answers.get((name, LONG)):
        return None
    (short,), (long,) = answers[name, SHORT], answers[name, LONG]
    grown_bytes = long["size_bytes"] - short["size_bytes"]
    return Footprint(
        bytes_per_point=grown_bytes / (long["points"] - short["points"]),
        fixed_bytes=short["size_bytes"],
        points=long["points"],
        sealed=long["sealed"],
    )
