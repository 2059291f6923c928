"""Folders of runs that a release has written are read as that release read them.

``release-0.2.0.tar.xz`` has what 0.2.0 and its companion wrote: a run with samples, labels and
evaluations, one that crashed and was resumed, a fork, one with a finding, and one that is sealed.
``release-0.2.0.json`` is what 0.2.0 itself answered about them. Neither is ever made again.
"""

from __future__ import annotations

import json
import math
import tarfile
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.api.reading import RunData

GOLDEN = Path(__file__).with_name("golden")
RELEASES = [path.name.removesuffix(".json") for path in sorted(GOLDEN.glob("release-*.json"))]


@pytest.mark.parametrize("release", RELEASES)
def test_the_runs_of_a_release_answer_as_they_did(release: str, tmp_path: Path) -> None:
    with tarfile.open(GOLDEN / f"{release}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    runs = epochal.open(tmp_path / "runs")
    answers = {run.name: answers_of(run) for run in runs.runs()}
    assert answers == json.loads((GOLDEN / f"{release}.json").read_text(encoding="utf-8"))


def answers_of(run: RunData) -> dict[str, Any]:
    info = run.info
    findings = {(entry.record["rule"], entry.record["severity"]) for entry in run.view.findings()}
    return {
        "id": info.id,
        "project": info.project,
        "status": info.status.text,
        "step": info.step,
        "config": info.config,
        "tags": list(info.tags),
        "notes": info.notes,
        "fork": None if info.fork is None else [info.fork.id, info.fork.step],
        "attempts": info.attempts,
        "findings": [list(finding) for finding in sorted(findings)],
        "samples": [[sample.name, sample.step] for sample in run.samples()],
        "series": {metric.name: series_of(run, metric.name) for metric in run.metrics()},
    }


def series_of(run: RunData, name: str) -> list[Any]:
    """How many points a series has, the last one and the smallest."""
    values = [float(value) for value in run.series(name).floats]
    return [len(values), plain(values[-1]), plain(min(values))]


def plain(value: float) -> float | str:
    return value if math.isfinite(value) else repr(value)
