from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from epochal.exports import parquet
from epochal.store.local.catalog import folder_store
from tests.store.journals import Journal


def exported(root: Path, *keys: str, rows: Any = None) -> Any:
    store, out = folder_store(root), io.BytesIO()
    parquet.write([store.run(key) for key in keys], out, rows=rows)
    return pq.read_table(out)


def test_steps_have_types_and_what_was_not_logged_is_null(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(2, a=2.0).metrics(1, a=1.0).metrics(2, b=math.nan)
    journal.add({"log": "metrics", "step": 1, "m": {"step": 7.0}})
    table = exported(tmp_path, "x")
    assert table.column_names == ["run", "step", "t", "a", "b", "metric step"]
    types = [pa.int64(), *[pa.float64()] * 4]
    assert table.schema.types[1:] == types
    first, second = table.to_pylist()
    assert first["run"] == second["run"] == "p/x"
    assert (first["step"], first["a"], first["b"], first["metric step"]) == (1, 1.0, None, 7.0)
    assert (second["step"], second["a"], second["metric step"]) == (2, 2.0, None)
    assert math.isnan(second["b"])


def test_runs_of_different_metrics_share_one_table(tmp_path: Path) -> None:
    Journal(tmp_path, "first").metrics(1, a=1.5)
    Journal(tmp_path, "second").metrics(1, b=0.5)
    Journal(tmp_path, "third")
    table = exported(tmp_path, "first", "second", "third", rows="step")
    assert table.column("run").to_pylist() == ["p/first", "p/second"]
    assert table.column("a").to_pylist() == [1.5, None]
    assert table.column("b").to_pylist() == [None, 0.5]


def test_epochs_are_those_of_the_csv_table(tmp_path: Path) -> None:
    Journal(tmp_path).epoch(1, loss=0.5).epoch(2, loss=1, acc=0.9)
    table = exported(tmp_path, "x")
    resources = ["cpu_pct", "ram_used", "gpu_pct", "vram_alloc", "vram_spill"]
    assert table.column_names == ["run", "epoch", "duration_s", "loss", "acc", *resources]
    assert table.column("epoch").to_pylist() == [1, 2]
    assert table.column("loss").to_pylist() == [0.5, 1.0]
    assert table.column("acc").to_pylist() == [None, 0.9]
