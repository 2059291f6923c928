from __future__ import annotations

import json
from pathlib import Path

import pytest

from epochal.cli.main import main
from tests.store.journals import Journal

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    same = {"seed": 1, "model": {"depth": 4}}
    first = Journal(tmp_path, "base", config={"lr": 1e-3, **same})
    first.metrics(1, loss=2.0, acc=0.5).metrics(2, loss=1.0, acc=0.75)
    second = Journal(tmp_path, "other", config={"lr": 3e-3, **same, "model": {"depth": 8}})
    second.metrics(1, loss=1.5).finish()
    return tmp_path


def test_compare_shows_differences_and_deltas_to_the_first(root: Path, capsys: Capture) -> None:
    assert main(["compare", "base", "other", "--dir", str(root)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["CONFIG", "base", "other"] in lines
    assert ["lr", "0.001", "0.003"] in lines
    assert ["model.depth", "4", "8"] in lines
    assert ["loss", "best", "(min)", "1.0000", "1.5000", "(+0.5000)"] in lines
    assert ["loss", "last", "1.0000", "1.5000", "(+0.5000)"] in lines
    assert ["acc", "best", "(max)", "0.7500", "—"] in lines
    assert not any(line[:1] == ["seed"] for line in lines)


def test_compare_json_is_for_programs(root: Path, capsys: Capture) -> None:
    command = ["compare", "base", "other", "--json", "-m", "loss", "--all", "--dir", str(root)]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runs"] == ["p/base", "p/other"]
    assert found["config"]["seed"] == [1, 1]
    (metric,) = found["metrics"]
    assert (metric["name"], metric["values"], metric["deltas"]) == ("loss", [1.0, 1.5], [0.0, 0.5])


def test_compare_has_numbers_that_a_program_set(root: Path, capsys: Capture) -> None:
    for name, value in (("one", 0.95), ("two", 0.85)):
        journal = Journal(root, name).metrics(1, loss=1.0)
        journal.add({"log": "summary", "name": "best_acc", "value": value})
    Journal(root, "logged").metrics(1, best_acc=0.5)
    for more in ([], ["-m", "best_acc"]):
        assert main(["compare", "one", "two", *more, "--dir", str(root)]) == 0
        lines = [line.split() for line in capsys.readouterr().out.splitlines()]
        assert ["best_acc", "0.9500", "0.8500", "(-0.1000)"] in lines
    assert main(["compare", "one", "logged", "-m", "best_acc", "--dir", str(root)]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["best_acc", "last", "0.9500", "0.5000", "(-0.4500)"] in lines


def test_compare_takes_two_runs(root: Path, capsys: Capture) -> None:
    assert main(["compare", "base", "base", "--dir", str(root)]) == 2
    assert "two runs or more" in capsys.readouterr().err


def test_compare_marks_a_loss_that_did_not_end_as_it_should(
    tmp_path: Path, capsys: Capture
) -> None:
    for name, last in (("fine", 1.1), ("burst", 2.9), ("dead", float("nan"))):
        Journal(tmp_path, name).metrics(1, loss=3.0).metrics(2, loss=1.0).metrics(3, loss=last)
    assert main(["compare", "fine", "burst", "dead", "--dir", str(tmp_path)]) == 0
    *_, last_row, _, legend = capsys.readouterr().out.splitlines()
    assert last_row.split() == ["loss", "last", "1.1000", "!", "2.9000", "(+1.8000)", "!", "nan"]
    assert legend.startswith("! ended")


def test_a_loss_asked_for_is_that_of_evaluations_too(tmp_path: Path, capsys: Capture) -> None:
    for name in ("a", "b"):
        free = {"log": "metrics", "step": 1, "m": {"grads/w/norm": 1.0, "reward/x": 2.0}}
        run = Journal(tmp_path, name).add(free)
        run.add({"log": "eval", "step": 1, "loss": 2.0}, {"log": "step", "step": 1, "loss": 1.0})
    assert main(["compare", "a", "b", "-m", "loss", "--json", "--dir", str(tmp_path)]) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    assert [metric["name"] for metric in metrics] == ["train/loss", "eval/loss"]
    assert main(["compare", "a", "b", "--all", "--json", "--dir", str(tmp_path)]) == 0
    metrics = json.loads(capsys.readouterr().out)["metrics"]
    names = [metric["name"] for metric in metrics]
    assert names == ["train/loss", "eval/loss", "reward/x", "grads/w/norm"]


def test_metrics_of_layers_do_not_flood_a_comparison(tmp_path: Path, capsys: Capture) -> None:
    for name in ("a", "b"):
        layers = {f"params/layer{number}/norm": 1.0 for number in range(50)}
        run = Journal(tmp_path, name)
        run.add({"log": "metrics", "step": 1, "m": {"loss": 1.0, **layers}})
        run.add({"log": "system", "cpu_pct": 3.0}, writer="telemetry-0000")
    assert main(["compare", "a", "b", "--dir", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "params/" not in out
    assert "51 more metrics of layers and machines: --all." in out
    assert main(["compare", "a", "b", "-m", "params/layer7/norm", "--dir", str(tmp_path)]) == 0
    assert "params/layer7/norm" in capsys.readouterr().out


def test_a_metric_that_no_run_has_is_said(root: Path, capsys: Capture) -> None:
    assert main(["compare", "base", "other", "-m", "los", "--dir", str(root)]) == 2
    assert "has a metric 'los'. Did you mean 'loss'?" in capsys.readouterr().err
