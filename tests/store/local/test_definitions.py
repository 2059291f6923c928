"""``define``: what a metric means, by its name or by a pattern, wherever the metric is read."""

from __future__ import annotations

from pathlib import Path

import pytest

import epochal
from epochal.cli.tui.chart import View, curves_of
from epochal.errors import MetricNotFoundError
from epochal.exports.figure import read_panel
from epochal.server.rows import run_detail
from epochal.store.local.by_path import load_run
from tests.conftest import StartRun


@pytest.fixture
def folder(start_run: StartRun) -> Path:
    with start_run() as run:
        run.define("val/*", x="val/epoch", unit="%")
        run.define("val/loss", unit="nats", goal="min")
        for epoch in (1, 2):
            run.log({"loss": 3.0 / epoch}, step=10 * epoch)
            run.log({"val/epoch": epoch, "val/acc": 40.0 * epoch, "val/loss": 1.0 / epoch})
    return run.dir


def test_a_pattern_gives_meaning_and_a_name_wins(folder: Path) -> None:
    metrics = {metric.name: metric for metric in load_run(folder).metrics()}
    assert [(m.x, m.unit) for m in metrics.values()] == [
        (None, None),
        (None, "%"),  # no metric stands along itself
        ("val/epoch", "%"),
        ("val/epoch", "nats"),
    ]
    rows = {row.name: row.x for row in run_detail(load_run(folder)).metrics}
    assert rows["val/acc"] == "val/epoch"


def test_the_defined_axis_is_the_default_when_reading(folder: Path) -> None:
    run = epochal.load(folder)
    assert (run.series("val/acc").x, run.series("val/acc").at.tolist()) == ("val/epoch", [1, 2])
    assert run.series("val/acc", x="step").at.tolist() == [11, 21]
    assert run.series("loss", x="val/epoch").at.tolist() == [1.0]
    assert run.series("val/acc", lo=2).values.tolist() == [80.0]
    assert run.series("loss").x == "step"
    with pytest.raises(MetricNotFoundError, match="no metric 'miles'"):
        run.series("loss", x="miles")


def test_an_axis_that_was_never_logged_leaves_the_steps(start_run: StartRun) -> None:
    run = start_run()
    run.define("loss", x="images")
    run.log({"loss": 1.0}, step=3)
    series = epochal.load(run.dir).series("loss")
    assert (series.x, series.at.tolist()) == ("step", [3])


def test_the_terminal_and_figures_use_it(start_run: StartRun) -> None:
    run = start_run()
    run.define("*loss", x="images")
    run.log({"images": 64, "loss": 2.0, "eval/loss": 2.1}, step=1)
    run.log({"images": 128, "loss": 1.0, "eval/loss": 1.1}, step=2)
    view = load_run(run.dir)
    metric = view.metric("loss")
    assert metric is not None
    curves, x = curves_of(view, metric, View())
    assert (x, curves[0].x.tolist()) == ("images", [64.0, 128.0])
    panel = read_panel([view], "loss")
    assert (panel.axis, panel.lines[0].x.tolist()) == ("images", [64.0, 128.0])
