"""Writes the made-up run into a folder of its own."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from epochal.journal.layout import LOOP, RunFolder, create_run_folder, write_json
from epochal.journal.line import now
from epochal.journal.process import process_identity
from epochal.recipes.demo.every_kind import scenario
from epochal.recipes.demo.every_kind.findings import write_findings
from epochal.recipes.demo.every_kind.loop import write_other_rank, write_rank_zero
from epochal.recipes.demo.every_kind.machine import write_telemetry
from epochal.recipes.demo.every_kind.opening import CONFIG
from epochal.recipes.demo.every_kind.record_writer import RecordWriter
from epochal.records import FORMAT_VERSION
from epochal.run.provenance import describe_process

PROJECT = "demo"
NODE = "demo-node"
NOTES = (
    "A demonstration: every figure in this run is made up. It holds every kind of record, two"
    " ranks, two GPUs, a restart, a NaN, a spike and names that are hard to show."
)


def write_every_kind(directory: str | Path, *, seed: int = 0, ended: float | None = None) -> Path:
    """Write the run below ``directory`` and give its folder.

    ``ended`` is when it is said to have ended, in Unix seconds; now when not given. The same seed
    and the same end give the same records, but for the process that wrote them.
    """
    folder, name = create_run_folder(Path(directory) / PROJECT, "every-kind")
    began = (now() if ended is None else ended) - scenario.DURATION_S
    identity = _identity(name, seed=seed, began=began)
    write_json(folder.identity, identity)
    for attempt in scenario.ATTEMPTS:
        _write_attempt(folder, attempt, identity, seed=seed)
    return folder.path


def _write_attempt(
    folder: RunFolder, attempt: scenario.Attempt, identity: dict[str, Any], *, seed: int
) -> None:
    def opened(writer: str, *, rank: int = 0) -> RecordWriter:
        return RecordWriter(folder, writer=writer, attempt=attempt, identity=identity, rank=rank)

    with opened(LOOP) as loop:
        write_rank_zero(loop, attempt, seed=seed)
    with opened("rank-0001", rank=1) as other:
        write_other_rank(other, attempt, rank=1, seed=seed)
    with opened(f"telemetry-{NODE}") as telemetry:
        write_telemetry(telemetry, attempt, seed=seed)
    with opened("findings") as findings:
        write_findings(findings, attempt)


def _identity(name: str, *, seed: int, began: float) -> dict[str, Any]:
    digest = hashlib.sha256(f"{name} {seed} {began:.3f}".encode()).hexdigest()
    return {
        "v": FORMAT_VERSION,
        "id": digest[:12],
        "name": name,
        "project": PROJECT,
        "created": round(began, 3),
        "tags": ["demo", "made up"],
        "notes": NOTES,
        "config": {**CONFIG, "seed": seed},
        "totals": {"steps": scenario.NUM_STEPS, "epochs": scenario.NUM_EPOCHS},
        "world_size": 2,
        "launch_id": None,
        **process_identity(),
        **describe_process(),
    }
