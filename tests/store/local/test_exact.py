"""Whole numbers beyond 2^53 come back as they were logged."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

import epochal
from epochal.cli.main import main
from epochal.series.series import Series
from tests.store.journals import Journal
from tests.store.sealing import seal

BEYOND = 2**53 + 1
Capture = pytest.CaptureFixture[str]


def _recorded(root: Path, *values: float, every: int = 1) -> Journal:
    journal = Journal(root)
    for step, value in enumerate(values):
        journal.metrics(step * every, n=value, loss=0.5)
    return journal


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_series_of_large_whole_numbers_is_exact(tmp_path: Path, is_sealed: bool) -> None:
    numbers = [BEYOND + 2 * step for step in range(600)]
    journal = _recorded(tmp_path, *numbers)
    if is_sealed:
        seal(journal.folder)
    series = epochal.load(journal.folder.path).series("n")
    assert series.values.dtype == np.int64
    assert series.values.tolist() == numbers


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ((1, 2, 3), np.float64),
        ((1, BEYOND), np.int64),
        ((-BEYOND, 0), np.int64),
        ((2**63, 2**64 - 1), np.uint64),
        ((2**64, 1), np.float64),
        ((BEYOND, 0.5), np.float64),
        ((BEYOND, float("nan")), np.float64),
        ((1e300, 2.0), np.float64),
    ],
)
def test_only_series_that_need_it_are_whole_numbers(
    tmp_path: Path, values: tuple[float, ...], dtype: type
) -> None:
    series = epochal.load(_recorded(tmp_path, *values).folder.path).series("n")
    assert series.values.dtype == dtype
    if dtype is not np.float64:
        assert tuple(series.values.tolist()) == values


def test_what_a_newer_attempt_logged_again_is_exact_too(tmp_path: Path) -> None:
    journal = _recorded(tmp_path, BEYOND, BEYOND + 2, BEYOND + 4)
    journal.add({"log": "resume", "step": 1}, attempt=2)
    journal.metrics(1, n=7, attempt=2).metrics(2, n=BEYOND + 6, attempt=2)
    series = epochal.load(journal.folder.path).series("n")
    assert series.values.tolist() == [BEYOND, 7, BEYOND + 6]


def test_exports_write_them_exactly(tmp_path: Path, capsys: Capture) -> None:
    _recorded(tmp_path, BEYOND, 3)
    assert main(["export", "x", "--format", "csv", "--dir", str(tmp_path)]) == 0
    text = capsys.readouterr().out
    assert [row["n"] for row in csv.DictReader(text.splitlines())] == [str(BEYOND), "3"]


def test_a_chart_still_gets_floats(tmp_path: Path) -> None:
    run = epochal.load(_recorded(tmp_path, *range(BEYOND, BEYOND + 1000)).folder.path)
    assert run.view.series("n").floats.dtype == np.float64
    assert run.view.series("n").buckets(10).last.dtype == np.float64
    assert len(run.series("n", pixels=10)) < 100
    assert run.summary("n").last == float(BEYOND + 999)


def test_a_frame_has_them_exactly(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    run = epochal.load(_recorded(tmp_path, BEYOND, 3).folder.path)
    frame = run.frame("n", "loss")
    assert isinstance(frame, pandas.DataFrame)
    assert frame["n"].tolist() == [BEYOND, 3]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1.0, float(BEYOND)], True),
        ([-float(2**60)], True),
        ([1.0, 2.0], False),
        ([7.39, 5.18e21], False),  # a perplexity that exploded: its lines are not read again
        ([0.5, float("inf")], False),
        ([float("nan"), 1e300], False),
        ([], False),
    ],
)
def test_lines_are_read_again_only_where_all_values_are_whole(
    values: list[float], expected: bool
) -> None:
    steps = np.arange(len(values))
    series = Series("n", "step", 0, steps, steps.astype(float), np.array(values, dtype=float))
    assert series.may_be_rounded is expected
