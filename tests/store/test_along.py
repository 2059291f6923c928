from __future__ import annotations

from pathlib import Path

import pytest

from epochal.errors import UsageError
from epochal.store.along import X, place
from epochal.store.local.store import load_run
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
    placed = place(run, run.series("train/loss"), x=x)
    assert (placed.x, placed.at.tolist()) == (x, at)
    cut = placed.buckets(10, lo=at[1], hi=at[2])
    assert (cut.raw, cut.first.tolist()) == (True, [1.0, 2.0])


def test_another_series_is_put_where_its_steps_are(journal: Journal) -> None:
    run = load_run(journal.folder.path)
    assert place(run, run.series("note"), x="tokens").at.tolist() == [300.0]


def test_a_series_that_cannot_be_put_there_says_where_it_is(tmp_path: Path) -> None:
    run = load_run(Journal(tmp_path).metrics(5, a=1).folder.path)
    assert place(run, run.series("a"), x="tokens").x == "step"
    with pytest.raises(UsageError, match="not an axis"):
        place(run, run.series("a"), x="miles")  # type: ignore[arg-type]


def test_clocks_that_jump_back_do_not_disorder_a_chart(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    journal.t = 500.0
    run = load_run(journal.metrics(2, a=2).folder.path)
    placed = place(run, run.series("a"), x="wall")
    assert (placed.at.tolist(), placed.values.tolist()) == ([501.0, 1001.0], [2.0, 1.0])
    assert placed.steps.tolist() == [2, 1]
