from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from epochal.cli.main import main
from tests.store.journals import Journal

Capture = pytest.CaptureFixture[str]
LEVELS = {1e-3: [1.0, 1.2, 1.1], 3e-3: [2.0, 2.1, 2.3]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for lr, losses in LEVELS.items():
        for seed, loss in enumerate(losses):
            journal = Journal(tmp_path, f"{lr}-{seed}", config={"lr": lr, "seed": seed})
            journal.metrics(1, loss=loss + 1).metrics(2, loss=loss).finish()
    return tmp_path


def run(root: Path, capsys: Capture, *options: str) -> str:
    assert main(["compare", *options, "--dir", str(root)]) == 0
    return capsys.readouterr().out


def test_groups_are_a_table_with_a_verdict(root: Path, capsys: Capture) -> None:
    lines = run(root, capsys, "--group-by", "lr").splitlines()
    assert lines[0] == "loss (better: less)"
    assert lines[1].split() == ["lr", "N", "MEAN", "95", "%", "MEDIAN", "STD", "MIN", "MAX"]
    assert lines[2].split()[:4] == ["0.001", "3", "*", "1.1000"]
    assert lines[3].split()[:3] == ["0.003", "3", "2.1333"]
    assert lines[-1] == (
        "lr=0.001 is best: loss 1.1000 ± 0.2484 (95 %) over 3 seeds;"
        " lr=0.003 is 1.0333 worse on the same seeds (p = 0.0072)."
    )


def test_everything_but_the_seed_gives_the_same_groups(root: Path, capsys: Capture) -> None:
    by = run(root, capsys, "--group-by", "lr")
    assert run(root, capsys, "--all-but", "seed") == by


def test_csv_has_the_numbers_in_the_end_and_at_each_step(root: Path, capsys: Capture) -> None:
    rows = list(csv.DictReader(io.StringIO(run(root, capsys, "--group-by", "lr", "--csv"))))
    means = [float(row["mean"]) for row in rows]
    assert means == pytest.approx([np.mean(v) for v in LEVELS.values()], abs=1e-12)
    text = run(root, capsys, "--group-by", "lr", "--csv", "--steps")
    steps = list(csv.DictReader(io.StringIO(text)))
    assert [(row["lr"], row["step"], row["n"]) for row in steps] == [
        *(("0.001", "1", "3"), ("0.001", "2", "3")),
        *(("0.003", "1", "3"), ("0.003", "2", "3")),
    ]
    assert float(steps[1]["std"]) == pytest.approx(np.std(LEVELS[1e-3], ddof=1), abs=1e-12)


def test_json_has_groups_runs_and_differences(root: Path, capsys: Capture) -> None:
    found = json.loads(run(root, capsys, "--group-by", "lr", "--json"))
    (table,) = found["tables"]
    assert (found["keys"], table["best"], table["goal"]) == (["lr"], 0, "min")
    assert sorted(one["value"] for one in table["rows"][0]["members"]) == [1.0, 1.1, 1.2]
    (difference,) = table["differences"]
    assert (difference["winner"], difference["units"], difference["is_paired"]) == (0, 3, True)
    steps = json.loads(run(root, capsys, "--group-by", "lr", "--json", "--steps"))
    assert len(steps) == 4


def test_runs_are_chosen_by_name_project_and_query(root: Path, capsys: Capture) -> None:
    out = run(root, capsys, "--group-by", "lr", "--where", "config.seed > 0")
    assert out.splitlines()[2].split()[1] == "2"
    assert "2.1333" in run(root, capsys, "p", "--group-by", "lr")
    out = run(root, capsys, "0.001-0", "0.003-0", "--group-by", "lr")
    assert "over 1 seed, but it takes at least 3 seeds to tell" in out


def test_what_does_not_count_is_said(root: Path, capsys: Capture) -> None:
    Journal(root, "dead", config={"lr": 1e-3, "seed": 7}).metrics(1, loss=9.0).finish("failed")
    bad = Journal(root, "bad", config={"lr": 1e-3, "seed": 8})
    bad.metrics(1, loss=9.0).metrics(2, loss=float("nan")).finish()
    lines = run(root, capsys, "--group-by", "lr").splitlines()
    assert lines[2].split()[:4] == ["0.001", "3", "of", "5"]
    assert "Not counted: 1 ended as nan or infinity." in lines


def test_mistakes_are_sentences(root: Path, capsys: Capture) -> None:
    assert main(["compare", "--group-by", "wd", "--dir", str(root)]) == 2
    assert "none of the 6 runs has 'wd'" in capsys.readouterr().err
    assert main(["compare", "--group-by", "lr", "--steps", "--dir", str(root)]) == 2
    assert "add --csv or --json" in capsys.readouterr().err
    assert main(["compare", "--unfinished", "--dir", str(root)]) == 2
    assert "--group-by" in capsys.readouterr().err
    assert main(["compare", "--dir", str(root)]) == 2
    assert "name the runs to compare" in capsys.readouterr().err


def test_importance_ranks_keys(root: Path, capsys: Capture) -> None:
    for seed in range(3, 6):
        for lr in (1e-3, 3e-3):
            journal = Journal(root, f"{lr}-{seed}", config={"lr": lr, "seed": seed})
            journal.metrics(2, loss=1000 * lr + seed / 100).finish()
    lines = run(root, capsys, "--importance", "loss").splitlines()
    assert lines[0].startswith("lr matters most for loss: it explains")
    assert lines[2].split() == ["KEY", "EXPLAINS", "SPEARMAN", "P", "BEST", "AT", "VERDICT"]
    assert [line.split()[0] for line in lines[3:5]] == ["lr", "seed"]
    found = json.loads(run(root, capsys, "--importance", "loss", "--json"))
    assert [one["key"] for one in found["parameters"]] == ["lr", "seed"]
    assert found["interaction"]["n"] == [[1] * 6] * 2
