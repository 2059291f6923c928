from __future__ import annotations

from pathlib import Path

import pytest

from epochal.series.series import X, concatenated
from epochal.store.local.by_path import load_run
from tests.store.journals import Journal


def step(number: int, *, epoch: float, loss: float) -> dict[str, object]:
    return {"log": "step", "step": number, "epoch": epoch, "step_tokens": 100, "loss": loss}


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    journal = Journal(tmp_path)
    for number in range(4):
        journal.add(step(number, epoch=number / 2, loss=float(number)))
    return journal.metrics(2, note=7.0)


@pytest.mark.parametrize(
    ("x", "at"),
    [
        ("step", [0, 1, 2, 3]),
        ("epoch", [0.0, 0.5, 1.0, 1.5]),
        ("tokens", [100.0, 200.0, 300.0, 400.0]),
        ("wall", [1001.0, 1002.0, 1003.0, 1004.0]),
        ("relative", [1.0, 2.0, 3.0, 4.0]),
    ],
)
def test_a_series_is_put_along_what_is_asked(journal: Journal, x: X, at: list[float]) -> None:
    run = load_run(journal.folder.path)
    moved = run.series("train/loss").reindex(x, run)
    assert (moved.x, moved.at.tolist()) == (x, at)
    cut = moved.buckets(10, lo=at[1], hi=at[2])
    assert (cut.raw, cut.first.tolist()) == (True, [1.0, 2.0])


def test_another_series_is_put_where_its_steps_are(journal: Journal) -> None:
    run = load_run(journal.folder.path)
    assert run.series("note").reindex("tokens", run).at.tolist() == [300.0]


def test_a_series_that_cannot_be_put_there_says_where_it_is(tmp_path: Path) -> None:
    run = load_run(Journal(tmp_path).metrics(5, a=1).folder.path)
    assert run.series("a").reindex("tokens", run).x == "step"
    assert run.series("a").reindex("miles", run).x == "step"


def test_a_series_is_put_where_another_metric_was_last(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(0, acc=0.1).metrics(1, images=64)
    journal.metrics(2, acc=0.2).metrics(3, images=32, acc=0.3).metrics(5, acc=0.5)
    run = load_run(journal.folder.path)
    moved = run.series("acc").reindex("images", run)
    assert moved.x == "images"
    assert moved.at.tolist() == [32.0, 32.0, 64.0]
    assert moved.values.tolist() == [0.3, 0.5, 0.2]  # before the first image there is no place


def test_series_of_different_axes_meet_by_their_times(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(7, images=10)
    journal.add({"log": "epoch", "epoch": 1, "m": {"acc": 0.1}}).metrics(8, images=20)
    journal.add({"log": "epoch", "epoch": 2, "m": {"acc": 0.2}})
    run = load_run(journal.folder.path)
    assert run.series("acc").reindex("images", run).at.tolist() == [10.0, 20.0]


def test_clocks_that_jump_back_do_not_disorder_a_chart(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    journal.t = 500.0
    run = load_run(journal.metrics(2, a=2).folder.path)
    moved = run.series("a").reindex("wall", run)
    assert (moved.at.tolist(), moved.values.tolist()) == ([501.0, 1001.0], [2.0, 1.0])
    assert moved.steps.tolist() == [2, 1]


def test_a_series_that_needs_no_conversion_is_the_same_object(journal: Journal) -> None:
    run = load_run(journal.folder.path)
    series = run.series("train/loss")
    assert series.reindex("step", run) is series
    assert series.between(None, 3) is series


def test_bounds_are_along_the_axis_that_a_series_was_put_on(journal: Journal) -> None:
    run = load_run(journal.folder.path)
    chosen = run.series("train/loss").reindex("tokens", run).between(150, 300)
    assert (chosen.at.tolist(), chosen.steps.tolist()) == ([200.0, 300.0], [1, 2])
    assert chosen.values.tolist() == [1.0, 2.0]
    assert len(chosen.between(301, 302)) == 0


def test_series_one_after_the_other_keep_the_name_of_the_first(journal: Journal) -> None:
    run = load_run(journal.folder.path)
    both = concatenated([run.series("train/loss"), run.series("note")])
    assert (both.name, both.values.tolist()) == ("train/loss", [0.0, 1.0, 2.0, 3.0, 7.0])


def test_a_metric_called_tokens_is_an_axis_of_a_run_that_counts_none(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(0, acc=0.1, tokens=0).metrics(1, acc=0.2, tokens=512)
    run = load_run(journal.folder.path)
    moved = run.series("acc").reindex("tokens", run)
    assert (moved.x, moved.at.tolist()) == ("tokens", [0.0, 512.0])
