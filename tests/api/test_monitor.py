from __future__ import annotations

import csv
import math
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal import EpochMetrics, Monitor, RankMetrics
from epochal.journal.reader import read_journal
from epochal.run.run import recorder_of
from tests.doubles.journals import of_kind

MakeMonitor = Callable[..., Monitor]


@pytest.fixture
def make_monitor(tmp_path: Path) -> MakeMonitor:
    def make(num_epochs: int | None = 3, **options: Any) -> Monitor:
        return Monitor(num_epochs, dir=tmp_path, **{"name": "spiral", **options})

    return make


class Model:
    def latest_metrics(self) -> dict[str, float]:
        return {"loss": 0.5, "head.acc": 0.9}


def epochs_of(monitor: Monitor) -> list[dict[str, Any]]:
    return [
        record
        for _, record in read_journal(recorder_of(monitor.run).folder)
        if record["log"] == "epoch"
    ]


def test_prints_the_lines_of_the_tutorial(
    make_monitor: MakeMonitor, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_monitor(100) as monitor:
        monitor.log(0, 0.049, {"loss": 1.5264})
        monitor.log(1, 0.028, {"loss": 1.1020})
        monitor.log(99, 0.023, [("loss", 0.0012)])
    shown = capsys.readouterr().err.splitlines()
    assert shown[1] == "  epoch   1/100  loss=1.5264  [49ms  ETA 4.8s]"
    assert shown[2] == "  epoch   2/100  loss=1.1020  [28ms  ETA 3.2s]"
    assert shown[3] == "  epoch 100/100  loss=0.0012  [23ms]"
    assert shown[4].startswith("  training complete in ")
    assert shown[4].endswith("| loss: 0.0012")


def test_time_left_after_a_resume_is_not_shortened_by_the_epochs_done_before(
    make_monitor: MakeMonitor, capsys: pytest.CaptureFixture[str]
) -> None:
    make_monitor(100).finish()
    with make_monitor(100, resume="must") as monitor:
        monitor.log(50, 2.0, {"loss": 1.0})
    assert "ETA 1m 38s" in capsys.readouterr().err


def test_takes_a_model_and_a_model_with_extras_in_order(make_monitor: MakeMonitor) -> None:
    with make_monitor() as monitor:
        monitor.log(0, 1.0, Model())
        monitor.log(1, 1.0, (Model(), [("lr", 0.1)]))
    assert [list(one["m"]) for one in epochs_of(monitor)] == [
        ["loss", "head.acc"],
        ["loss", "head.acc", "lr"],
    ]


def test_weights_distributed_metrics_by_batches_with_the_loss_first(
    make_monitor: MakeMonitor,
) -> None:
    parts = EpochMetrics(
        [
            RankMetrics(0, 30, {"acc": 0.5, "loss": 1.0}, throughput=2.0),
            RankMetrics(1, 10, {"acc": 0.9, "loss": 2.0, "z": 4.0}, throughput=1.0),
        ]
    )
    with make_monitor() as monitor:
        monitor.log(0, 1.0, parts)
    record = epochs_of(monitor)[0]
    assert list(record["m"].items()) == [("loss", 1.25), ("acc", 0.6), ("z", 4.0)]
    assert [gpu["share"] for gpu in record["gpus"]] == [0.75, 0.25]
    assert record["gpus"][1]["throughput"] == 1.0


def test_history_gives_epochs_as_passed_with_resources(make_monitor: MakeMonitor) -> None:
    with make_monitor() as monitor:
        monitor.log(0, timedelta(seconds=2), {"loss": 1.0})
        (record,) = monitor.history()
    assert (record.epoch, record.duration, record.metrics["loss"]) == (0, 2.0, 1.0)
    assert record.resources.ram_total is not None
    assert record.resources.ram_total > 0
    assert record.resources.vram_allocated_bytes is None


def test_history_of_a_resumed_run_has_the_older_epochs_once(make_monitor: MakeMonitor) -> None:
    with make_monitor(5) as monitor:
        for epoch in range(3):
            monitor.log(epoch, 1.0, {"loss": float(epoch)})
    with make_monitor(5, resume="must") as monitor:
        monitor.log(2, 1.0, {"loss": 20.0})
        monitor.log(3, 1.0, {"loss": 30.0})
        history = monitor.history()
    assert [(one.epoch, one.metrics["loss"]) for one in history] == [
        (0, 0.0),
        (1, 1.0),
        (2, 20.0),
        (3, 30.0),
    ]


def test_exports_make_the_folders_on_their_way(tmp_path: Path) -> None:
    with Monitor(1, dir=tmp_path / "runs", console=False) as monitor:
        monitor.log(0, 0.5, {"loss": 1.0})
        monitor.export_csv(tmp_path / "new" / "a" / "out.csv")
        monitor.write_log(tmp_path / "new" / "b" / "out.log")
    assert (tmp_path / "new" / "a" / "out.csv").is_file()
    assert (tmp_path / "new" / "b" / "out.log").is_file()


def test_an_export_that_fails_names_the_file_itself(tmp_path: Path) -> None:
    (tmp_path / "out.csv").mkdir()
    (tmp_path / "file").write_text("")
    with Monitor(1, dir=tmp_path / "runs", console=False) as monitor:
        for path in (tmp_path / "out.csv", tmp_path / "file" / "out.csv"):
            with pytest.raises(OSError, match=r"out\.csv'$|file'$") as caught:
                monitor.export_csv(path)
            assert ".tmp" not in str(caught.value)


def test_csv_has_a_column_for_a_metric_that_appears_late(
    make_monitor: MakeMonitor, tmp_path: Path
) -> None:
    with make_monitor() as monitor:
        monitor.log(0, 0.049, {"loss": 1.5})
        monitor.log(1, 0.028, {"loss": 1.25, "acc": 0.5})
        monitor.export_csv(tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert list(rows[0]) == [
        *("epoch", "duration_s", "loss", "acc"),
        *("cpu_pct", "ram_used", "gpu_pct", "vram_alloc", "vram_spill"),
    ]
    assert [row["acc"] for row in rows] == ["", "0.5"]
    assert [row["epoch"] for row in rows] == ["1", "2"]


def test_log_file_has_header_epochs_and_total(make_monitor: MakeMonitor, tmp_path: Path) -> None:
    with make_monitor() as monitor:
        monitor.log(0, 0.049, {"loss": 1.5264})
    monitor.write_log(tmp_path / "training.log")
    assert (tmp_path / "training.log").read_text().splitlines() == [
        "# epochal training log",
        "epoch 1/3  loss=1.5264  [49ms]",
        "# total: 49ms",
    ]


def test_metadata_joins_the_configuration(make_monitor: MakeMonitor) -> None:
    with make_monitor(config={"lr": 0.1}) as monitor:
        monitor.set_metadata({"depth": 3})
    assert monitor.run.config == {"lr": 0.1, "depth": 3}


def test_a_non_finite_metric_is_recorded_and_shown(
    make_monitor: MakeMonitor, capsys: pytest.CaptureFixture[str]
) -> None:
    with make_monitor() as monitor:
        monitor.log(0, 1.0, {"loss": math.nan})
    assert "loss=nan" in capsys.readouterr().err
    assert epochs_of(monitor)[0]["nonfinite"] == {"loss": "nan"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((0, "soon", {"loss": 1.0}), "duration"),
        ((0, -1.0, {"loss": 1.0}), "duration"),
        ((0, 1.0, 0.5), "metrics must be a dict"),
        ((0, 1.0, {"loss": None}), "'loss'"),
        ((0, 1.0, [("loss", 1.0, 2.0)]), "pairs"),
    ],
)
def test_a_strict_monitor_raises_and_names_the_argument(
    make_monitor: MakeMonitor, arguments: tuple[Any, ...], says: str
) -> None:
    monitor = make_monitor(strict=True)
    with pytest.raises(epochal.UsageError, match=says):
        monitor.log(*arguments)
    monitor.finish()


@pytest.mark.parametrize("metrics", [0.5, None, "loss", [("loss", 1.0, 2.0)]])
def test_metrics_without_names_raise_at_once(make_monitor: MakeMonitor, metrics: Any) -> None:
    with make_monitor() as monitor, pytest.raises(epochal.UsageError, match="metrics must"):
        monitor.log(0, 1.0, metrics)


@pytest.mark.parametrize("epoch", ["soon", None, 1.5, math.nan])
def test_an_epoch_that_is_no_number_is_the_next_one(make_monitor: MakeMonitor, epoch: Any) -> None:
    with make_monitor() as monitor:
        monitor.log(4, 1.0, {"loss": 1.0})
        monitor.log(epoch, 1.0, {"loss": 0.5})
    assert [one["epoch"] for one in epochs_of(monitor)] == [5, 6]


@pytest.mark.parametrize("duration", [-1.0, "soon", None, math.nan, math.inf])
def test_a_duration_that_is_none_is_absent(
    make_monitor: MakeMonitor, capsys: pytest.CaptureFixture[str], tmp_path: Path, duration: Any
) -> None:
    with make_monitor() as monitor:
        monitor.log(0, duration, {"loss": 1.0})
        monitor.export_csv(tmp_path / "epochs.csv")
        monitor.write_log(tmp_path / "epochs.log")
    assert "duration_s" not in epochs_of(monitor)[0]
    assert monitor.history()[0].duration is None
    assert "loss=1.0000  [?]" in capsys.readouterr().err


def test_a_rank_s_bad_value_leaves_the_other_ranks_theirs(make_monitor: MakeMonitor) -> None:
    ranks = [
        RankMetrics(0, 10, {"loss": 1.0, "acc": 0.5}),
        RankMetrics(1, 10, {"loss": None, "acc": 0.7}),  # type: ignore[dict-item]
        RankMetrics(2, None, {"loss": 9.0}),  # type: ignore[arg-type]
    ]
    with make_monitor() as monitor:
        monitor.log(0, 1.0, EpochMetrics(ranks))
    assert epochs_of(monitor)[0]["m"] == {"loss": 1.0, "acc": pytest.approx(0.6)}


def test_a_model_that_cannot_say_its_metrics_leaves_the_extras(make_monitor: MakeMonitor) -> None:
    class Broken:
        def latest_metrics(self) -> dict[str, float]:
            raise ZeroDivisionError("no batches")

    with make_monitor() as monitor:
        monitor.log(0, 1.0, (Broken(), {"loss": 1.0}))
    assert epochs_of(monitor)[0]["m"] == {"loss": 1.0}


def test_samples_of_a_loop_without_steps_are_at_their_epoch(make_monitor: MakeMonitor) -> None:
    with make_monitor() as monitor:
        for epoch in range(2):
            rows = [{"answer": epoch}]
            monitor.log(epoch, 1.0, {"loss": 1.0, "rows": rows, "text": f"epoch {epoch}"})
    for kind in ("blob", "text"):
        assert [record["step"] for record in of_kind(monitor.run.dir, kind)] == [1, 2]
