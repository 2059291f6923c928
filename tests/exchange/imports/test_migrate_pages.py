"""The scripts of the pages ``from-*.md`` run as they stand, on files like the exports."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import epochal
from epochal.cli.main import main
from tests.exchange.imports.samples import TENSORBOARD

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "trackers.md"


def run_script(part: str, folder: Path) -> str:
    """Run the block of the page that has a part of text, and return what it prints."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (code,) = (block for block in blocks if part in block)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def points(folder: Path, name: str) -> dict[int, float]:
    series = epochal.load(folder).series(name)
    return dict(zip(series.steps.tolist(), series.values.tolist(), strict=True))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_of_logs_is_followed(here: Path) -> None:
    shutil.copytree(TENSORBOARD, here / "logs")
    assert "second/deep loss/train 1 5.0" in run_script('epochal.open("logs")', here)


def test_neptunes_export_becomes_runs(here: Path) -> None:
    rows = [
        {
            "project_id": "team/vision",
            "run_id": run,
            "attribute_path": name,
            "attribute_type": kind,
            "step": None if kind != "float_series" else float(step),
            "timestamp": datetime.fromtimestamp(1.7e9 + step, tz=timezone.utc),
            "float_value": math.nan if step == 2 else step / 10,
            "string_value": None,
        }
        for run in ("VIS-1", "VIS-2")
        for name, kind in (("metrics/loss", "float_series"), ("parameters/lr", "float"))
        for step in range(4)
    ]
    (here / "exports" / "data" / "vision").mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), here / "exports/data/vision/part_0.parquet")
    run_script("import pyarrow", here)
    assert main(["import", "neptune.csv", "--project", "vision"]) == 0
    folders = sorted(path.parent for path in (here / "runs" / "vision").glob("*/run.json"))
    assert len(folders) == 2
    found = points(folders[0], "metrics/loss")
    assert (found[0], found[1], found[3]) == (0.0, 0.1, 0.3)
    assert math.isnan(found[2])
    assert epochal.load(folders[0]).series("metrics/loss").times[0] == 1.7e9


def test_comets_metrics_become_runs(here: Path) -> None:
    exported = [
        {
            "metricName": "loss",
            "metricValue": value,
            "step": step,
            "timestamp": 1_700_000_000_000 + 1000 * step,
            "epoch": None,
            "runContext": context,
        }
        for context in ("train", None)
        for step, value in enumerate(("0.5", "NaN", "0.25"))
    ]
    (here / "calm_owl.metrics.json").write_text(json.dumps(exported))
    run_script("runContext", here)
    assert main(["import", "calm_owl.jsonl", "--project", "vision"]) == 0
    (folder,) = (path.parent for path in (here / "runs" / "vision").glob("*/run.json"))
    assert epochal.load(folder).name == "calm_owl"
    found = points(folder, "train/loss")
    assert (found[0], found[2]) == (0.5, 0.25)
    assert math.isnan(found[1])
    assert points(folder, "loss")[0] == 0.5
    assert epochal.load(folder).series("loss").times[-1] == 1.7e9 + 2
