"""The sweep of ``benchmarks/sweep.py``: Python, commands and server answer as numpy does."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import asdict

from benchmarks.sweep import RATES, Trial, curves, last_step, write_sweep
from epochal.api import reading
from epochal.cli.main import main
from tests.server.live import Server, serving

STEPS = 120
METRIC = "eval/loss"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Trial]]:
    root = tmp_path_factory.mktemp("sweep")
    return root, write_sweep(root, steps=STEPS)


@pytest.fixture(scope="module")
def server(sweep: tuple[Path, list[Trial]]) -> Iterator[Server]:
    with serving(sweep[0]) as running:
        yield running


def is_counted(trial: Trial) -> bool:
    return trial.fate in ("finished", "diverged")


def final(trial: Trial) -> float:
    return float(curves(trial, steps=STEPS)[METRIC][-1])


def expected_means(trials: list[Trial]) -> dict[tuple[float, str], tuple[float, int]]:
    """The mean over wd and seed of the last value, and over how many runs."""
    means = {}
    for lr in RATES:
        for model in ("large", "small"):
            inside = [
                final(one)
                for one in trials
                if (one.config["lr"], one.config["model"]) == (lr, model) and is_counted(one)
            ]
            means[lr, model] = (float(np.mean(inside)), len(inside))
    return means


def command(root: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    assert main(["compare", *options, "--dir", str(root)]) == 0
    return capsys.readouterr().out


def test_the_best_run_is_the_same_everywhere(
    sweep: tuple[Path, list[Trial]], server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    root, trials = sweep
    finals = {one.name: final(one) for one in trials if is_counted(one)}
    best = min(finals, key=lambda name: finals[name])
    query, order = 'status == "finished"', "summary.eval/loss.last"
    with reading.open(root) as runs:
        assert runs.runs(query, order=order, limit=1)[0].name == best
    answer = server.ask("/api/runs", query=query, order=order, limit=1).json
    while answer["unsummarised"]:  # a page asks again until every run was read
        answer = server.ask("/api/runs", query=query, order=order, limit=1).json
    assert answer["rows"][0]["name"] == best
    assert main(["ls", query, f"--sort={order}", "-n", "1", "--json", "--dir", str(root)]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == best


def test_means_over_seeds_are_the_same_everywhere(
    sweep: tuple[Path, list[Trial]], server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    root, trials = sweep
    expected = expected_means(trials)
    with reading.open(root) as runs:
        rows = runs.groups(by=["lr", "model"]).table(METRIC).rows
    in_python = {row.values: asdict(row) for row in rows}
    text = command(root, capsys, "--group-by", "lr,model", "-m", METRIC, "--csv")
    in_csv = {(float(row["lr"]), row["model"]): row for row in csv.DictReader(io.StringIO(text))}
    asked: dict[str, Any] = {"metric": METRIC, "by": ["lr", "model"]}
    (table,) = server.ask("/api/groups", **asked).json["tables"]
    on_server = {tuple(row["values"]): row for row in table["rows"]}
    for key, (mean, n) in expected.items():
        for found in (in_python[key], in_csv[key], on_server[key]):
            assert float(found["mean"]) == pytest.approx(mean, rel=1e-12)
            assert int(found["n"]) == n
    best = min(expected, key=lambda key: expected[key])
    assert tuple(table["rows"][table["best"]]["values"]) == best == (1e-3, "large")


def test_means_at_each_step_count_who_is_there(
    sweep: tuple[Path, list[Trial]], server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    root, trials = sweep
    inside = [one for one in trials if one.config["lr"] == 1e-2]
    matrix = np.full((len(inside), STEPS), np.nan)
    for row, trial in zip(matrix, inside, strict=True):
        stop = last_step(trial, steps=STEPS) + 1
        row[:stop] = curves(trial, steps=STEPS)["train/loss"][:stop]
    n = np.isfinite(matrix).sum(axis=0)
    assert n.min() < n.max() == 12
    asked: dict[str, Any] = {"metric": "train/loss", "by": "lr", "points": 0, "unfinished": 1}
    found = server.ask("/api/group_curves", **asked).json
    curve = next(one for one in found["curves"] if one["values"] == [1e-2])
    assert (curve["members"], curve["n"]) == (12, n.tolist())
    np.testing.assert_allclose(curve["columns"]["mean"], np.nanmean(matrix, axis=0), rtol=1e-12)
    std = np.nanstd(matrix, axis=0, ddof=1)
    np.testing.assert_allclose(curve["columns"]["std"], std, rtol=1e-9)
    whys = sorted(mark["why"] for mark in curve["dropouts"])
    assert whys == ["ended", "nonfinite", "nonfinite"]
    text = command(
        root, capsys, "--group-by", "lr", "-m", "train/loss", "--csv", "--steps", "--unfinished"
    )
    rows = [row for row in csv.DictReader(io.StringIO(text)) if float(row["lr"]) == 1e-2]
    assert [int(row["n"]) for row in rows] == n.tolist()
    means = [float(row["mean"]) for row in rows]
    np.testing.assert_allclose(means, np.nanmean(matrix, axis=0), rtol=1e-12)
    assert (found["lowest"], found["highest"]) == (0.0, None)


def test_the_parameter_that_matters_is_the_same_everywhere(
    sweep: tuple[Path, list[Trial]], server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    root, trials = sweep
    with reading.open(root) as runs:
        found = runs.importance(METRIC)
    keys = [one.key for one in found.parameters]
    assert keys[:2] == ["lr", "model"]
    assert [one.verdict for one in found.parameters][:2] == ["matters", "matters"]
    placed = [one for one in trials if is_counted(one) or one.fate == "nan"]
    values = np.array([final(one) if one.fate != "nan" else np.inf for one in placed])
    order = np.argsort(np.argsort(values)).astype(float)
    infinite = ~np.isfinite(values)
    order[infinite] = order[infinite].mean()
    rates = np.array([one.config["lr"] for one in placed])
    between = sum(
        (rates == lr).sum() * (order[rates == lr].mean() - order.mean()) ** 2 for lr in RATES
    )
    share = between / ((order - order.mean()) ** 2).sum()
    score = 1 - (1 - share) * (order.size - 1) / (order.size - len(RATES))
    assert found.parameters[0].score == pytest.approx(score, rel=1e-9)
    answer = server.ask("/api/importance", metric=METRIC).json
    assert [row["key"] for row in answer["parameters"]] == keys
    assert answer["parameters"][0]["score"] == pytest.approx(score, rel=1e-9)
    assert answer["sentence"] == found.sentence
    data: dict[str, Any] = json.loads(command(root, capsys, "--importance", METRIC, "--json"))
    assert data["parameters"][0]["score"] == pytest.approx(score, rel=1e-9)
    assert command(root, capsys, "--importance", METRIC).startswith("lr matters most for eval/loss")
