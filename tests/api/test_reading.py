from __future__ import annotations

import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from epochal.api import reading
from epochal.errors import EpochalError, MetricNotFoundError, UsageError
from tests.series.points import points
from tests.store.journals import Journal


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path / "runs", config={"lr": 1e-4})
    for step in range(100):
        journal.add({"log": "step", "step": step, "epoch": step / 10, "loss": 100.0 - step})
    return journal.metrics(50, acc=0.5).add({"log": "eval", "step": 99, "loss": 3.0})


def test_runs_are_opened_selected_and_read(journal: Journal, tmp_path: Path) -> None:
    with reading.open(tmp_path / "runs") as runs:
        (run,) = runs.runs("config.lr < 3e-4", order="-summary.loss.last")
        series = run.series("loss")
    assert series.name == "train/loss"
    assert series.steps.tolist() == list(range(100))
    assert series.values.tolist() == [100.0 - step for step in range(100)]
    assert series.times[0] == 1001.0
    assert (run.name, run.config) == ("x", {"lr": 1e-4})
    assert repr(run) == "<run p/x: running, step 99, loss 1.0000>"
    assert repr(series) == "<series train/loss: 100 points, last 1.0000, min 1.0000, max 100.00>"


def test_a_notebook_shows_runs_as_a_table_a_run_as_a_card_and_a_series_as_a_sparkline(
    tmp_path: Path,
) -> None:
    hostile = "<script>alert(1)</script>"
    journal = Journal(tmp_path / "runs", name=hostile)
    for step in range(1000):
        journal.metrics(step, loss=5.0 if step == 321 else 1.0)
    runs = reading.open(tmp_path / "runs")
    (run,) = runs
    series = run.series("loss")
    shown = [runs._repr_html_(), runs.runs()._repr_html_(), run._repr_html_(), series._repr_html_()]
    for html in shown:
        assert "<script" not in html
        assert "1.0000" in html
    assert all("&lt;script" in html and "step 999" in html for html in shown[:3])
    assert all("<svg" in html and "5.0000" in html for html in shown[2:])  # the extreme is kept
    assert repr(runs) == "<1 run>"


def test_a_notebook_shows_what_has_no_points(tmp_path: Path) -> None:
    Journal(tmp_path / "runs")
    (run,) = reading.open(tmp_path / "runs")
    assert "p/x" in run._repr_html_()
    empty = points([], [])
    assert repr(empty) == "<series loss: 0 points>"
    assert "loss" in empty._repr_html_()


def test_one_run_is_loaded_by_its_folder(journal: Journal) -> None:
    run = reading.load(journal.folder.path)
    assert run.series("eval_loss").values.tolist() == [3.0]
    assert run.series("acc").steps.tolist() == [50]
    assert run.summary("loss").min == 1.0
    assert "acc" in [metric.name for metric in run.metrics()]


def test_the_default_folder_is_where_runs_are_recorded(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EPOCHAL_DIR", str(tmp_path / "runs"))
    assert [run.name for run in reading.open()] == ["x"]
    assert reading.open().run("x").name == "x"
    with pytest.raises(UsageError, match="no folder"):
        reading.open(tmp_path / "none")


def test_a_range_is_along_what_is_asked(journal: Journal) -> None:
    run = reading.load(journal.folder.path)
    chosen = run.series("loss", x="epoch", lo=2.0, hi=2.25)
    assert (chosen.x, chosen.at.tolist(), chosen.steps.tolist()) == (
        "epoch",
        [2.0, 2.1, 2.2],
        [20, 21, 22],
    )


def test_pixels_keep_extremes_and_what_is_not_finite(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step in range(1000):
        journal.metrics(step, a={333: 99.0, 500: math.nan}.get(step, 1.0))
    points = reading.load(journal.folder.path).series("a", pixels=10)
    assert len(points) < 60
    assert points.values[points.steps.tolist().index(333)] == 99.0
    assert math.isnan(points.values[points.steps.tolist().index(500)])
    assert (points.steps[0], points.steps[-1]) == (0, 999)


def test_what_is_written_meanwhile_shows_after_refresh(journal: Journal) -> None:
    run = reading.load(journal.folder.path)
    assert len(run.series("acc")) == 1
    journal.metrics(51, acc=0.6)
    assert run.refresh()
    assert len(run.series("acc")) == 2


def test_an_unknown_name_is_named(journal: Journal) -> None:
    with pytest.raises(MetricNotFoundError, match="Did you mean 'train/loss'"):
        reading.load(journal.folder.path).series("train/los")


def test_a_pattern_gives_the_series_of_each_name(journal: Journal) -> None:
    run = reading.load(journal.folder.path)
    found: Any = run.series("*/loss", x="progress")
    assert {name: one.at[-1] for name, one in found.items()} == {
        "train/loss": 100.0,
        "eval/loss": 100.0,
    }
    found = run.series("train/los?")
    assert found["train/loss"].values.tolist()[:2] == [100.0, 99.0]
    assert run.series("ema(loss, 0.9)", x="epoch", hi=0.1).at.tolist() == [0.0, 0.1]
    with pytest.raises(MetricNotFoundError, match="There are train/loss, eval/loss, acc"):
        run.series("val/*")
    with pytest.raises(MetricNotFoundError, match="write 'train/loss - eval/loss'"):
        run.series("train/loss-eval/loss")


def test_frames_are_made_by_what_is_installed(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []
    polars = ModuleType("polars")
    polars.DataFrame = made.append  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", polars)
    run = reading.load(journal.folder.path)
    run.series("acc").frame()
    run.frame("loss", "acc")
    assert list(made[0]) == ["step", "time", "acc"]
    assert list(made[1]) == ["step", "train/loss", "acc"]
    assert made[1]["acc"][50] == 0.5
    assert math.isnan(made[1]["acc"][51])


def test_without_pandas_and_polars_a_frame_says_what_to_do(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(EpochalError, match="needs pandas or polars"):
        reading.load(journal.folder.path).frame()
