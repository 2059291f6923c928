from __future__ import annotations

import json
from pathlib import Path

import pytest

from epochal.cli.main import main
from tests.store.journals import Journal

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, lr, last in (("good", 1e-3, 1.0), ("bad", 1e-1, 2.0), ("third", 1e-3, 1.0)):
        packages = {"torch": "2.9.0", "rich": "14" if name == "good" else "13"}
        journal = Journal(tmp_path, name, config={"lr": lr, "seed": 1}, packages=packages)
        for step in range(60):
            journal.metrics(step, loss=last + 2.0 * 0.9**step + 0.01 * (step % 3))
        journal.finish()
    return tmp_path


def test_why_prints_the_answer_and_both_values_of_each_difference(
    root: Path, capsys: Capture
) -> None:
    assert main(["why", "bad", "good", "--dir", str(root)]) == 0
    out = capsys.readouterr().out
    assert " ".join(out.split()).startswith("bad is worse than good by ")
    # The last 5 % of 60 points; the last one alone is 2.0240.
    assert "  bad   loss 2.0145 (mean of 3 points up to step 59)\n" in out
    assert "WHAT CAN EXPLAIN IT: bad | good" in out
    assert "config lr: 0.1 | 0.001" in out
    assert "factor of 100" in out
    assert "rich" not in out
    assert "1 difference with a score below 0.1: --all shows them." in out
    assert "Not compared: code" in out
    assert main(["why", "bad", "good", "--all", "--dir", str(root)]) == 0
    assert "packages rich: 13 | 14" in capsys.readouterr().out


def test_why_is_json_for_programs_and_takes_groups(root: Path, capsys: Capture) -> None:
    assert main(["why", "bad", "--json", "--dir", str(root)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["worse"], found["metric"]) == ("explained", "left", "loss")
    assert (found["left"]["points"], found["left"]["at"]) == (3, 59)
    first = found["differences"][0]
    assert (first["area"], first["key"], first["others"]) == ("config", "lr", "2 of 2")
    query = ["--against", "name == 'good'", "--metric", "loss"]
    assert main(["why", "bad", *query, "--json", "--dir", str(root)]) == 0
    assert json.loads(capsys.readouterr().out)["right"]["runs"] == ["id-good"]


def test_why_takes_one_thing_to_compare_with(root: Path, capsys: Capture) -> None:
    more = ["good", "--against", "name == 'third'"]
    assert main(["why", "bad", *more, "--dir", str(root)]) == 2
    assert "a second run or --against QUERY, not both" in capsys.readouterr().err
