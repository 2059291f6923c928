"""Summaries of all series at once: the same as one at a time, and work that grows with the run."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path

import pytest

from epochal.cli.main import main
from epochal.journal.state import AXES, all_summaries
from epochal.series.series import Series
from epochal.series.summary import Summary
from epochal.store.local.catalog import folder_store
from epochal.store.run import RunView
from tests.doubles.lines_run import lines_run
from tests.store.journals import Journal
from tests.store.sealing import seal_all


def written(root: Path) -> Journal:
    journal = Journal(root)
    for step in range(6):
        journal.metrics(step, loss=1.0 / (step + 1), acc=step * 0.1, odd=math.nan)
        if step % 2:
            journal.metrics(step, late=float(step))
    journal.add({"log": "system", "cpu_percent": 3.5, "host_ram_used": 7.0})
    journal.metrics(3, back=1.0).metrics(2, back=2.0)  # steps that go back
    journal.metrics(7, loss=0.5, other=1.0)  # a second table with the loss
    journal.epoch(1, val=0.5).epoch(2, val=0.25)
    return journal


def one_at_a_time(run: RunView) -> dict[tuple[str, str], Summary]:
    return {(m.name, m.axis): run.series(m.name, axis=m.axis).summary for m in run.metrics()}


@pytest.mark.parametrize("is_sealed", [False, True])
def test_all_at_once_are_the_same_as_one_at_a_time(tmp_path: Path, is_sealed: bool) -> None:
    written(tmp_path)
    if is_sealed:
        seal_all(tmp_path)
    run = folder_store(tmp_path).run("x")
    expected = one_at_a_time(run)
    found = {(m.name, m.axis): run.summary(m.name, axis=m.axis) for m in run.metrics()}
    assert str(found) == str(expected)  # nan is not equal to itself


@pytest.mark.parametrize("is_sealed", [False, True])
def test_all_series_together_are_the_same_as_one_at_a_time(tmp_path: Path, is_sealed: bool) -> None:
    journal = written(tmp_path).metrics(9, large=2**53 + 1)
    journal.add({"log": "resume", "step": 5}, attempt=2).metrics(6, acc=2.0, attempt=2)
    journal.metrics(1, acc=3.0, alone=1.0, writer="rank-0001")
    journal.add({"log": "define", "name": "acc", "unit": "%", "goal": "max"})
    if is_sealed:
        seal_all(tmp_path)
    run = folder_store(tmp_path).run("x")
    for axis in AXES:
        for rank in (0, 1):
            one_by_one = [
                run.series(metric.name, rank=rank, axis=axis)
                for metric in run.metrics()
                if metric.axis == axis and rank in metric.ranks
            ]
            together = run.all_series(axis, rank=rank)
            assert list(map(content, together)) == list(map(content, one_by_one))


def content(series: Series) -> tuple[object, ...]:
    columns = (series.steps, series.times, series.values)
    texts = [(str(column.dtype), repr(column.tolist())) for column in columns]
    return (series.name, series.axis, series.rank, *texts, series.goal, series.unit)


def test_a_newer_attempt_hides_points_of_an_older_one(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, loss=4.0).metrics(9, loss=0.1)
    journal.add({"log": "resume", "step": 5}, attempt=2).metrics(6, loss=2.0, attempt=2)
    run = folder_store(tmp_path).run("x")
    assert (run.summary("loss").count, run.summary("loss").min) == (2, 2.0)


def test_series_in_one_table_are_worked_out_together(tmp_path: Path) -> None:
    written(tmp_path)
    run = folder_store(tmp_path).run("x")
    together = {key.name for key, _ in run._ask(all_summaries)}
    assert together == {metric.name for metric in run.metrics()}


def summarise_all(root: Path) -> None:
    run = folder_store(root).run("x")
    for metric in run.metrics():
        run.summary(metric.name, axis=metric.axis)
        run.series(metric.name, axis=metric.axis)


@pytest.mark.parametrize("is_sealed", [False, True])
@pytest.mark.slow
def test_the_work_for_all_metrics_grows_with_their_number(tmp_path: Path, is_sealed: bool) -> None:
    lines = {}
    for count in (600, 2400):
        root = tmp_path / str(count)
        journal = Journal(root)
        for step in range(2):
            values = {f"layer.{n}/norm": float(n) for n in range(count)}
            journal.add({"log": "metrics", "step": step, "m": values})
        if is_sealed:
            seal_all(root)
        summarise_all(root)  # imports and caches of the first time
        lines[count] = lines_run(partial(summarise_all, root))
    assert lines[2400] < 5 * lines[600]


def wide_run(root: Path, num_metrics: int) -> None:
    journal = Journal(root)
    for step in range(3):
        numbers = {f"m{number}": number / 7 for number in range(num_metrics)}
        journal.add({"log": "metrics", "step": step, "m": numbers})
    journal.finish()


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["show x", "show x --json", "export x --format csv", "ls", "pack"]
)
@pytest.mark.parametrize("is_sealed", [False, True])
def test_the_work_of_a_wide_run_grows_with_its_metrics(
    tmp_path: Path, command: str, is_sealed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = {}
    for count in (20, 1500, 6000):  # the first one imports modules
        root = tmp_path / str(count)
        wide_run(root, count)
        if is_sealed:
            seal_all(root)
        lines[count] = lines_run(partial(main, ["--dir", str(root), *command.split()]))
    capsys.readouterr()
    assert lines[6000] < 4.2 * lines[1500]


def test_summaries_of_a_wide_run_with_much_telemetry_are_made_together(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    for step in range(2):
        numbers = {f"m{number}": number / 7 for number in range(1500)}
        journal.add({"log": "metrics", "step": step, "m": numbers})
    journal.add(*({"log": "system", "cpu_pct": float(tick)} for tick in range(1500)))
    with folder_store(tmp_path) as store:
        (run,) = store.runs()
        assert len(run.known.metrics) == len(run.metrics()) == 1501
