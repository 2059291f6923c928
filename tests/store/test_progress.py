from __future__ import annotations

from pathlib import Path

import pytest

from epochal.store.local.by_path import load_run
from epochal.store.progress import Progress, progress_of
from tests.store.journals import Journal


def progress(journal: Journal) -> Progress:
    run = load_run(journal.folder.path)
    return progress_of(run, run.info, now=journal.t)


def test_the_time_left_is_wall_time_per_step_times_the_steps_left(tmp_path: Path) -> None:
    journal = Journal(tmp_path, totals={"steps": 100})
    for step in range(20):
        journal.t += 60 if step == 10 else 1  # one pause does not count
        journal.metrics(step, loss=1.0)
    found = progress(journal)
    assert (found.text, found.share) == ("step 20/100", 0.2)
    assert found.eta_s == pytest.approx(2 * 80)
    assert found.is_going


def test_evaluations_count(tmp_path: Path) -> None:
    journal = Journal(tmp_path, totals={"steps": 100})
    for step in range(50):
        journal.metrics(step, loss=1.0)
        if step % 5 == 4:
            journal.t += 4
            journal.add({"log": "eval", "step": step, "loss": 1.0, "duration_ms": 5000.0})
    assert progress(journal).eta_s == pytest.approx(2 * 50, rel=0.1)


def test_the_time_left_runs_out_between_records(tmp_path: Path) -> None:
    journal = Journal(tmp_path, totals={"steps": 100})
    for step in range(90):
        journal.metrics(step, loss=1.0)
    run = load_run(journal.folder.path)
    left = [progress_of(run, run.info, now=journal.t + after).eta_s for after in (0, 4, 11)]
    assert left == [pytest.approx(10), pytest.approx(6), None]


def test_a_clock_that_is_ahead_is_the_one_that_counts(tmp_path: Path) -> None:
    journal = Journal(tmp_path, totals={"steps": 100})
    for step in range(90):
        journal.metrics(step, loss=1.0)
    run = load_run(journal.folder.path)
    found = progress_of(run, run.info, now=journal.t - 600)
    assert found.elapsed_s == 90
    assert found.eta_s == pytest.approx(10)


def test_a_resumed_run_is_estimated_by_its_new_attempt(tmp_path: Path) -> None:
    journal = Journal(tmp_path, totals={"steps": 100})
    for step in range(20):
        journal.metrics(step, loss=1.0)
    journal.t += 10_000
    journal.add({"log": "resume", "attempt": 2, "step": 10}, attempt=2)
    for step in range(10, 20):
        journal.t += 2
        journal.metrics(step, attempt=2, loss=1.0)
    assert progress(journal).eta_s == pytest.approx(3 * 80)


def test_epochs_of_steps_are_the_goal_where_the_run_says_so(tmp_path: Path) -> None:
    journal = Journal(tmp_path, totals={"epochs": 3})
    for step in range(10):
        journal.add({"log": "step", "step": step, "loss": 1.0, "epoch": (step + 1) / 10})
    assert progress(journal).eta_s == pytest.approx(20)


def test_epochs_count_where_steps_do_not(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for epoch in (1, 2, 3):
        journal.epoch(epoch, total=10, loss=1.0)
    found = progress(journal)
    assert (found.text, found.share) == ("epoch 3/10", 0.3)
    assert found.eta_s == pytest.approx(7, rel=0.15)


def test_tokens_count_where_they_are_the_goal(tmp_path: Path) -> None:
    journal = Journal(tmp_path, totals={"tokens": 1000})
    for step in range(5):
        journal.add({"log": "step", "step": step, "loss": 1.0, "step_tokens": 100})
    found = progress(journal)
    assert found.share == 0.5
    assert found.eta_s == pytest.approx(5)


def test_what_has_ended_has_no_time_left(tmp_path: Path) -> None:
    journal = Journal(tmp_path, totals={"steps": 10}).metrics(3, loss=1.0).finish()
    found = progress(journal)
    assert found.eta_s is None
    assert not found.is_going
    assert found.elapsed_s == pytest.approx(2.0)


def test_without_a_length_nothing_is_promised(tmp_path: Path) -> None:
    found = progress(Journal(tmp_path).metrics(1234, loss=1.0))
    assert (found.text, found.share, found.eta_s) == ("step 1,234", None, None)
    assert progress(Journal(tmp_path, "empty").add()).text == "no step yet"


@pytest.mark.parametrize(
    ("last", "text"),
    [(9, "step 10/10"), (10, "step 10/10"), (12, "step 12 (of 10)")],  # from 0, from 1, beyond
)
def test_what_is_done_is_never_more_than_all(tmp_path: Path, last: int, text: str) -> None:
    journal = Journal(tmp_path, totals={"steps": 10}).metrics(last, loss=1.0).finish()
    assert (progress(journal).text, progress(journal).share) == (text, 1.0)
