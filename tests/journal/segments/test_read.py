from __future__ import annotations

import math
import os
from collections import deque
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from epochal.errors import FormatError
from epochal.journal.segments import read, seal
from epochal.journal.segments.read import Segment
from epochal.journal.segments.seal import seal_part
from epochal.records import Record
from tests.journal.segments.parts import HEADER, NAME, finished_part, metrics, sealed


def test_a_series_is_read_with_steps_and_times(tmp_path: Path) -> None:
    series = sealed(tmp_path, metrics(3, loss=1.5, acc=1), metrics(4, loss=0.1)).series(
        "loss", "step"
    )
    assert series.steps.tolist() == [3, 4]
    assert series.times.tolist() == [1700000000.375, 1700000000.5]
    assert series.values.tolist() == [1.5, 0.1]


def test_a_series_that_is_not_here_has_no_points(tmp_path: Path) -> None:
    assert sealed(tmp_path, metrics(0, loss=1.5)).series("other", "step").values.size == 0


def test_nan_and_infinity_are_values_of_their_series(tmp_path: Path) -> None:
    record: Record = metrics(0, a=None, b=None)
    record["nonfinite"] = {"b": "-inf", "a": "nan"}
    segment = sealed(tmp_path, record)
    assert math.isnan(segment.series("a", "step").values[0])
    assert segment.series("b", "step").values.tolist() == [-math.inf]


def test_gpus_are_told_apart(tmp_path: Path) -> None:
    segment = sealed(
        tmp_path, *({"log": "gpu", "t": 1.5 + i, "id": i % 2, "power": 100 * i} for i in range(4))
    )
    assert segment.footer.names == [("gpu/0/power", "time"), ("gpu/1/power", "time")]
    series = segment.series("gpu/1/power", "time")
    assert series.values.tolist() == [100.0, 300.0]
    assert series.steps.tolist() == [-1, -1]


def test_epochs_are_the_steps_of_what_is_logged_by_epoch(tmp_path: Path) -> None:
    record = {"log": "epoch", "t": 5.5, "epoch": 7, "duration_s": 1.5, "m": {"loss": 0.5}}
    segment = sealed(tmp_path, {**record, "resources": {"rss": 10}}, metrics(2, loss=0.25))
    assert segment.series("loss", "epoch").steps.tolist() == [7]
    assert segment.series("loss", "step").steps.tolist() == [2]
    assert segment.series("resources/rss", "epoch").values.tolist() == [10.0]
    assert segment.series("epoch/duration_s", "epoch").steps.tolist() == [7]


def test_memory_by_segment_is_a_series(tmp_path: Path) -> None:
    stats = [{"name": "weights", "device": 5, "managed": 0, "pinned": 0, "pageable": 0}]
    record = {"log": "allocator", "t": 1.5, "step": 3, "stats": stats, "m": {"a": 1.5}}
    segment = sealed(tmp_path, record)
    assert segment.series("a", "step").values.tolist() == [1.5]
    assert segment.series("memory/weights/device", "step").values.tolist() == [5.0]


def test_histograms_and_texts_are_found_by_kind(tmp_path: Path) -> None:
    histogram = {"log": "histogram", "t": 1.5, "step": 1, "name": "w", "counts": [1, 2, 3]}
    text = {"log": "text", "t": 1.5, "step": 1, "name": "sample", "text": "héllo"}
    segment = sealed(tmp_path, histogram, {**histogram, "name": "v"}, text)
    assert [ordinal for ordinal, _ in segment.entries("histogram")] == [1, 2]
    assert list(segment.entries("text")) == [(3, text)]
    assert segment.footer.kinds == {"histogram": 2, "text": 1, "run": 1, "finish": 1}


def test_what_a_segment_says_of_itself(tmp_path: Path) -> None:
    segment = sealed(tmp_path, metrics(5, a=1), metrics(-2, a=1))
    assert next(segment.entries("run")) == (0, HEADER)
    assert segment.num_records == 4


def test_records_can_be_read_from_an_ordinal_on(tmp_path: Path) -> None:
    segment = sealed(tmp_path, *(metrics(step, a=step) for step in range(5)))
    assert [ordinal for ordinal, _ in segment.records(first=4)] == [4, 5, 6]


def test_a_table_is_never_mostly_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seal, "_MAX_CELLS", 3000)
    names = [f"layer.{number}" for number in range(10)]
    written = [metrics(step, **{names[step % 10]: step / 7}) for step in range(1000)]
    segment = sealed(tmp_path, *written)
    assert len(pq.read_schema(segment.path)) <= 8
    assert [record for _, record in segment.records()][1:-1] == written
    for place, name in enumerate(names):
        assert segment.series(name, "step").steps.tolist() == list(range(place, 1000, 10))


@pytest.mark.slow
def test_metrics_that_come_and_go_are_found_again(tmp_path: Path) -> None:
    generator = np.random.default_rng(3)
    names = [f"task/{number}" for number in range(300)]
    written = [
        metrics(step, **{name: float(step) for name in generator.permutation(names)[:9]})
        for step in range(3000)
    ]
    segment = sealed(tmp_path, *written)
    assert [record for _, record in segment.records()][1:-1] == written
    expected = [record["step"] for record in written if "task/7" in record["m"]]
    assert segment.series("task/7", "step").values.tolist() == expected


def test_ints_floats_and_bools_of_one_metric_keep_their_types(tmp_path: Path) -> None:
    values = [1, 1.0, True, 2**53, 2**60, -0.0]
    segment = sealed(tmp_path, *(metrics(step, a=value) for step, value in enumerate(values)))
    found = [record["m"]["a"] for _, record in segment.entries("metrics")]
    assert list(map(repr, found)) == list(map(repr, values))


def test_other_parquet_files_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(FormatError, match=r"other\.parquet"):
        Segment(tmp_path / "other.parquet")


def test_arrow_sees_sensible_columns(tmp_path: Path) -> None:
    steps = [
        {"log": "step", "t": 2.5 + step, "step": step, "loss": 0.1, "m": {"acc": 1}}
        for step in range(100)
    ]
    folder = finished_part(tmp_path, *steps)
    table = pq.read_table(seal_part(folder, NAME).path)
    assert table.column_names[:3] == ["log", "group", "json"]
    rows = table.to_pylist()
    assert (rows[0]["log"], rows[0]["t"]) == ("run", 1700000000125)
    assert (rows[1]["log"], rows[1]["step"], rows[1]["t"]) == ("step", 0, 2500)
    assert (rows[1]["loss"], rows[1]["m.acc"]) == (0.1, 1)


def test_duckdb_answers_questions_about_a_segment(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    written = [metrics(step, loss=step / 3, Loss=step) for step in range(100)]
    path = seal_part(finished_part(tmp_path, *written), NAME).path
    question = f"SELECT step, \"m.loss\" FROM '{path}' WHERE log = 'metrics' ORDER BY step"
    answer = duckdb.sql(question).fetchall()
    assert answer == [(step, step / 3) for step in range(100)]


def test_how_far_each_kind_reaches_is_known_without_reading_it(tmp_path: Path) -> None:
    many = [metrics(step, loss=1.0) for step in range(5000)]
    text: Record = {"log": "text", "t": 1700009999.5, "step": 7, "name": "s", "text": "x"}
    extents = sealed(tmp_path, *many, text).footer.extents
    assert extents["metrics"] == (4999, 1700000000 + 4999 / 8)
    assert extents["text"] == (7, 1700009999.5)
    assert extents["finish"] == (None, 1700000999.5)


def test_a_file_that_the_system_does_not_open_is_not_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "loop.0001.0000.parquet"
    path.symlink_to(path)
    with pytest.raises(FormatError, match=r"cannot be read: .*symbolic links\.$"):
        Segment(path)
    if os.geteuid() != 0:  # root may read anything
        path.unlink()
        path.write_bytes(b"PAR1")
        path.chmod(0)
        with pytest.raises(FormatError, match=r"cannot be read: Permission denied\.$"):
            Segment(path)


def test_only_so_many_segments_are_open_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read, "_MAX_OPEN", 2)
    monkeypatch.setattr(read, "_opened", deque())
    paths = [sealed(tmp_path / str(n), metrics(0, a=n)).path for n in range(5)]
    segments = [Segment(path) for path in paths]
    assert [segment._file is not None for segment in segments] == [False] * 3 + [True] * 2
    assert [segment.series("a", "step").values.tolist() for segment in segments] == [
        [0], [1], [2], [3], [4],
    ]  # fmt: skip
