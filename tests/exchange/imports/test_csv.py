from __future__ import annotations

import os
from pathlib import Path

import pytest

from epochal.records import Record
from tests.exchange.imports.samples import opened, records_in, values_of


def table(folder: Path, text: str, *, name: str = "run7.csv", is_old: bool = True) -> Path:
    path = folder / name
    path.write_text(text)
    if is_old:
        os.utime(path, (1.6e9, 1.6e9))
    return path


def read(folder: Path, text: str) -> list[Record]:
    return records_in(table(folder, text))


def test_a_column_is_a_metric_and_an_empty_cell_is_nothing(tmp_path: Path) -> None:
    records = read(tmp_path, "epoch,step,loss,val_loss\n0,10,1.5,\n0,20,,1.25\n")
    assert values_of(records, "loss") == [(10, 1.5)]
    assert values_of(records, "val_loss") == [(20, 1.25)]
    assert {record["t"] for record in records} == {1.6e9}


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
def test_the_separator_is_found(mark: str, tmp_path: Path) -> None:
    records = read(tmp_path, f"step{mark}loss\n1{mark}0.5\n")
    assert values_of(records, "loss") == [(1, 0.5)]


def test_decimal_commas_are_understood(tmp_path: Path) -> None:
    assert values_of(read(tmp_path, "step;loss\n1;0,5\n"), "loss") == [(1, 0.5)]


def test_epochs_without_steps_are_epochs(tmp_path: Path) -> None:
    first, second = read(tmp_path, "epoch,duration_s,loss\n1,2.5,0.5\n2,2.0,0.25\n")
    assert (first["log"], first["epoch"], first["duration_s"]) == ("epoch", 1, 2.5)
    assert (second["epoch"], second["m"]) == (2, {"loss": 0.25})


def test_the_table_that_tensorboard_lets_one_download(tmp_path: Path) -> None:
    records = read(tmp_path, "Wall time,Step,Value\n1700000000.5,3,0.75\n")
    assert records == [{"log": "metrics", "t": 1700000000.5, "step": 3, "m": {"run7": 0.75}}]


def test_a_long_table_names_its_metrics_in_a_column(tmp_path: Path) -> None:
    records = read(tmp_path, "metric,step,value\nloss,1,0.5\nacc,1,0.25\n")
    assert values_of(records, "loss") == [(1, 0.5)]
    assert values_of(records, "acc") == [(1, 0.25)]


def test_a_column_of_runs_makes_several(tmp_path: Path) -> None:
    path = table(tmp_path, "run,step,loss\na,1,0.5\nb,1,0.25\na,2,0.125\n")
    runs = opened(path).runs()
    assert [run.identity.name for run in runs] == ["a", "b"]
    assert values_of(records_in(path, runs[0].key), "loss") == [(1, 0.5), (2, 0.125)]


def test_two_columns_of_one_name_are_both_kept(tmp_path: Path) -> None:
    (record,) = read(tmp_path, "step,loss,loss\n1,0.5,0.25\n")
    assert record["m"] == {"loss": 0.5, "loss_2": 0.25}


def test_a_line_being_written_waits(tmp_path: Path) -> None:
    path = table(tmp_path, "step,loss\n1,0.5\n2,0.2", is_old=False)
    (run,) = opened(path).runs()
    assert [len(batch.records) for batch in run.read_new()] == [1]
    path.write_text("step,loss\n1,0.5\n2,0.25\n")
    assert [batch.records[0]["m"] for batch in run.read_new()] == [{"loss": 0.25}]


def test_a_last_line_without_an_end_counts_when_nobody_writes(tmp_path: Path) -> None:
    assert values_of(read(tmp_path, "step,loss\n1,0.5"), "loss") == [(1, 0.5)]


def test_a_line_with_too_many_cells_is_named(tmp_path: Path) -> None:
    path = table(tmp_path, "step,loss\n1,0.5,7\n2,0.4\n")
    (run,) = opened(path).runs()
    (batch,) = run.read_new()
    assert len(batch.records) == 2
    assert f"{path} is damaged at byte 10" in run.problems[0]


def test_a_byte_order_mark_and_windows_lines_are_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"\xef\xbb\xbfstep,loss\r\n1,0.5\r\n")
    assert values_of(records_in(path), "loss") == [(1, 0.5)]
