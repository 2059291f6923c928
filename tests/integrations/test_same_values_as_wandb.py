"""A script is run with W&B's own package offline, then unchanged with ours: the same values."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import epochal
from epochal.api.reading import RunData

pytest.importorskip("wandb")

SCRIPTS = Path(__file__).parent / "wandb_scripts"
# Measured by the clock, so that no two runs have the same.
_TIMED = ("runtime", "per_second", "_timestamp", "time")


def both(script: str, folder: Path) -> tuple[RunData, RunData]:
    """Run a script in both ways."""
    real, ours = folder / "real", folder / "ours"
    path = str(SCRIPTS / f"{script}.py")
    _run([path], real, WANDB_MODE="offline", WANDB_SILENT="true")
    _run(["-m", "epochal.wandb", path], ours, EPOCHAL_COMPANION="off")
    return _only_run(real / "wandb"), _only_run(ours / "runs")


def _run(arguments: list[str], folder: Path, **variables: str) -> None:
    folder.mkdir()
    env = {key: value for key, value in os.environ.items() if not key.startswith("WANDB_")}
    command = [sys.executable, "-W", "ignore", *arguments]
    done = subprocess.run(
        command, cwd=folder, env={**env, **variables}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]


def _only_run(folder: Path) -> RunData:
    with epochal.open(folder) as runs:
        (run,) = runs.runs()
        return run


def points(run: RunData) -> dict[str, dict[int, float]]:
    names = [m.name for m in run.metrics() if m.axis == "step" and m.name not in ("_runtime",)]
    named = {name: run.series(name) for name in names if not any(t in name for t in _TIMED)}
    return {
        name: dict(zip(series.steps.tolist(), series.values.tolist(), strict=True))
        for name, series in named.items()
    }


@pytest.mark.parametrize("script", ["plain", "trainer", "lightning_module", "accelerated"])
def test_a_script_records_the_same(script: str, tmp_path: Path) -> None:
    real, ours = both(script, tmp_path)
    assert_same_series(real, ours)
    assert_same_configuration(real, ours)
    if script == "plain":
        assert_same_media(real.view, ours.view)
        assert ours.info.summary["best"] == 0.25
        assert ours.info.summary["final"] == {"acc": 0.5}
        assert (ours.info.group, ours.info.job_type) == ("g", "train")
        assert ours.info.notes == real.info.notes == "both ways"


def assert_same_series(real: RunData, ours: RunData) -> None:
    expected, found = points(real), points(ours)
    assert expected
    assert set(expected) <= set(found)
    for name, values in expected.items():
        assert list(found[name]) == list(values), name
        np.testing.assert_array_equal(list(found[name].values()), list(values.values()), name)


def assert_same_configuration(real: RunData, ours: RunData) -> None:
    assert (ours.info.project, ours.info.name) == (real.info.project, real.info.name)
    assert set(ours.info.tags) == set(real.info.tags)
    assert ours.info.status.state == "finished"
    known = {key: value for key, value in real.config.items() if not key.startswith("_")}
    differing = {
        key: (value, ours.config.get(key))
        for key, value in known.items()
        if ours.config.get(key) != value and "dir" not in key and "token" not in key
    }
    assert differing == {}


def assert_same_media(real: Any, ours: Any) -> None:
    for name in ("weights", "counted"):
        theirs, own = (_histograms(view, name) for view in (real, ours))
        assert len(own) == 3
        np.testing.assert_allclose(own, theirs, rtol=1e-6)
    assert _texts(ours) == _texts(real)
    assert [_pixels(data) for data in _blobs(ours, "picture")] == [
        _pixels(data) for data in _blobs(real, "picture")
    ]
    assert _blobs(ours, "page") == _blobs(real, "page")
    tables = [[json.loads(data) for data in _blobs(view, "table")] for view in (ours, real)]
    for own_table, their_table in zip(*tables, strict=True):
        assert own_table["columns"] == their_table["columns"]
        assert own_table["data"] == their_table["data"]
    assert len(tables[0]) == 3


def _histograms(view: Any, name: str) -> list[list[float]]:
    found = [entry.record for entry in view.histograms(name)]
    return [[record["lo"], record["hi"], *record["counts"]] for record in found]


def _texts(view: Any) -> list[tuple[int, str]]:
    return [(entry.record["step"], entry.record["text"]) for entry in view.texts("note")]


def _blobs(view: Any, name: str) -> list[bytes]:
    return [view.blob(str(entry.record["file"])) for entry in view.entries("blob", name=name)]


def _pixels(data: bytes) -> list[Any]:
    pixels: list[Any] = np.asarray(Image.open(io.BytesIO(data)).convert("RGB")).tolist()
    return pixels
