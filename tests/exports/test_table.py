from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochal.errors import MetricNotFoundError
from epochal.exports import table
from epochal.exports.table import write_epoch_table
from epochal.store.local.catalog import folder_store
from tests.store.journals import Journal

RESOURCES = ["cpu_pct", "ram_used", "gpu_pct", "vram_alloc", "vram_spill"]


def rows_of(root: Path, *keys: str, **options: Any) -> list[list[str]]:
    store, out = folder_store(root), io.StringIO()
    table.write([store.run(key) for key in keys], out, **options)
    return list(csv.reader(io.StringIO(out.getvalue())))


def test_epoch_columns_are_metrics_by_first_appearance_then_resources(tmp_path: Path) -> None:
    Journal(tmp_path).epoch(1, loss=0.5).epoch(2, loss=0.4, acc=0.9)
    assert rows_of(tmp_path, "x") == [
        ["epoch", "duration_s", "loss", "acc", *RESOURCES],
        ["1", "0.049", "0.5", "", "", "", "", "", ""],
        ["2", "0.049", "0.4", "0.9", "", "", "", "", ""],
    ]


def test_resources_fill_their_columns(tmp_path: Path) -> None:
    resources = {"cpu_pct": 45.2, "ram_used": 7, "vram_allocated_bytes": 9, "vram_spill": 0}
    record = {"epoch": 1, "duration_s": 1.5, "m": {}, "resources": resources}
    write_epoch_table(tmp_path / "t.csv", [record])
    assert (tmp_path / "t.csv").read_text().splitlines()[1] == "1,1.5,45.2,7,,9,0"


def test_step_rows_join_metrics_of_one_step(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(2, a=2.0).metrics(1, a=1.0).metrics(2, b=5.0)
    assert rows_of(tmp_path, "x", rows="step") == [
        ["step", "t", "a", "b"],
        ["1", "1002.0", "1.0", ""],
        ["2", "1003.0", "2.0", "5.0"],
    ]


def test_chosen_columns_are_names_patterns_and_formulas(tmp_path: Path) -> None:
    Journal(tmp_path, "a").metrics(1, loss=3.0, v1=1.0, v2=2.0).metrics(2, loss=2.0)
    Journal(tmp_path, "b").metrics(1, loss=5.0)
    assert rows_of(tmp_path, "a", "b", names=["v?", "loss - v1", "loss"]) == [
        ["run", "step", "t", "v1", "v2", "loss - v1", "loss"],
        ["p/a", "1", "1001.0", "1.0", "2.0", "2.0", "3.0"],
        ["p/a", "2", "1002.0", "", "", "", "2.0"],
        ["p/b", "1", "1001.0", "", "", "", "5.0"],
    ]
    with pytest.raises(MetricNotFoundError, match="needs a metric 'w'"):
        rows_of(tmp_path, "a", "b", names=["loss - w"])


def test_a_run_of_steps_alone_gives_step_rows(tmp_path: Path) -> None:
    Journal(tmp_path).metrics(1, a=1.0)
    assert rows_of(tmp_path, "x")[0][0] == "step"


def test_long_runs_are_written_whole(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add(*({"log": "metrics", "step": step, "m": {"a": step}} for step in range(9000)))
    journal.metrics(4500, b=1.0)
    rows = rows_of(tmp_path, "x", rows="step")
    assert [row[2] for row in rows[1:]] == [f"{step}.0" for step in range(9000)]
    assert [row[0] for row in rows if row[3] == "1.0"] == ["4500"]


def test_names_are_quoted(tmp_path: Path) -> None:
    name = 'a,"b"\nc'
    Journal(tmp_path).add({"log": "metrics", "step": 1, "m": {name: 1.0}})
    assert rows_of(tmp_path, "x")[0] == ["step", "t", name]


def test_several_runs_are_named_in_the_first_column(tmp_path: Path) -> None:
    Journal(tmp_path, "r1").epoch(1, loss=1.0)
    Journal(tmp_path, "r2").epoch(1, acc=1.0)
    rows = rows_of(tmp_path, "r1", "r2")
    assert [row[:5] for row in rows] == [
        ["run", "epoch", "duration_s", "loss", "acc"],
        ["p/r1", "1", "0.049", "1.0", ""],
        ["p/r2", "1", "0.049", "", "1.0"],
    ]


@given(value=st.floats())
def test_numbers_come_back_equal(value: float) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.csv"
        write_epoch_table(path, [{"epoch": 1, "m": {"a": value}}])
        cell = path.read_text().splitlines()[1].split(",")[2]
    assert repr(float(cell)) == repr(value)


def test_epochs_as_a_log_are_a_line_each_between_header_and_total(tmp_path: Path) -> None:
    path = tmp_path / "t.log"
    epochs = [
        {"epoch": 1, "total": 100, "duration_s": 0.049, "m": {"loss": 1.5264}},
        {"epoch": 2, "total": 100, "duration_s": 0.049, "m": {"loss": 1.102, "a\nb": 0.5}},
    ]
    table.write_epoch_log(path, epochs)
    assert path.read_text().splitlines() == [
        "# epochal training log",
        "epoch   1/100  loss=1.5264  [49ms]",
        "epoch   2/100  loss=1.1020  a\\nb=0.5000  [49ms]",
        "# total: 98ms",
    ]
