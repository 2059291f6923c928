from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from epochal.cli.main import main
from tests.store.journals import Journal

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    run = Journal(tmp_path)
    for step in range(1000):
        loss = {700: 50.0, 801: -3.0, 900: float("nan")}.get(step, 1000.0 / (step + 100))
        run.add({"log": "metrics", "step": step, "m": {"train/loss": loss}})
    run.add({"log": "summary", "name": "score", "value": 0.5}).finish()
    return tmp_path


def test_one_argument_is_a_metric_of_the_newest_run(root: Path, capsys: Capture) -> None:
    assert main(["series", "loss", "--dir", str(root)]) == 0
    said = capsys.readouterr()
    lines = [line.split() for line in said.out.splitlines()]
    assert lines[0] == ["train/loss", "(1,000", "points", "of", "p/x)"]
    assert ["min", "-3.0000", "at", "step", "801"] in lines
    assert ["max", "50.0000", "at", "step", "700"] in lines
    assert said.err == "The newest run is p/x.\n"


def test_few_points_keep_the_exact_extremes(root: Path, capsys: Capture) -> None:
    arguments = ["series", "x", "train/loss", "--points", "12", "--dir", str(root)]
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found["steps"]) == len(found["values"]) <= 12
    points = dict(zip(found["steps"], found["values"], strict=True))
    assert (points[700], points[801]) == (50.0, -3.0)
    assert (found["count"], found["nonfinite"]) == (1000, 1)
    assert (found["first"], found["max"]) == ([0, 10.0], [700, 50.0])
    assert main([*arguments, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [int(row["step"]) for row in rows] == found["steps"]


def test_patterns_and_formulas_are_metrics(root: Path, capsys: Capture) -> None:
    texts = ["train/*", "loss - 1", "min(loss)"]
    assert main(["series", "x", *texts, "--json", "--dir", str(root)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [one["metric"] for one in found] == ["train/loss", "loss - 1", "min(loss)"]
    assert [one["last"][1] for one in found] == [1000 / 1099, 1000 / 1099 - 1, -3.0]


def test_all_points_are_there_when_they_are_few(root: Path, capsys: Capture) -> None:
    assert main(["series", "x", "loss", "--points", "1000", "--json", "--dir", str(root)]) == 0
    assert len(json.loads(capsys.readouterr().out)["steps"]) == 1000


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("train/los", "run 'x' has no metric 'train/los'. Did you mean 'train/loss'?"),
        ("score", "it is one value without points"),
        ("loss-1", "'loss-1' is read as one name: write 'loss - 1'."),
        (
            "loss - 1)",
            "this parenthesis was not opened; there is ')' here:\n    loss - 1)\n            ^",
        ),
    ],
)
def test_what_is_no_series_is_a_sentence(
    root: Path, capsys: Capture, name: str, sentence: str
) -> None:
    assert main(["series", "x", name, "--dir", str(root)]) == 2
    assert sentence in capsys.readouterr().err
