from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from epochal.api import reading
from epochal.exports.archive import write
from tests.store.journals import Journal


def archived(root: Path) -> dict[str, Any]:
    """The part of an archive of all runs that is about them together."""
    out = io.StringIO()
    with reading.open(root) as runs:
        write([run.view for run in runs], out)
    match = re.search(r'id="epochal-archive">(.*?)</script>', out.getvalue(), re.DOTALL)
    assert match is not None
    found: dict[str, Any] = json.loads(match[1])["sweep"]
    return found


def write_runs(root: Path, **further: Any) -> None:
    for lr in (0.1, 0.2):
        for seed in range(5):
            config = {
                "lr": lr,
                "seed": seed,
                **{key: f"{value}{lr}" for key, value in further.items()},
            }
            journal = Journal(root, f"{lr}-{seed}", config=config)
            journal.metrics(1, loss=lr + seed / 100 * (1 + lr), speed=3.0).finish()


def test_an_archive_has_groups_and_the_ranking_as_python_has_them(tmp_path: Path) -> None:
    write_runs(tmp_path)
    found = archived(tmp_path)
    assert list(found["groups"]) == ["", "-seed", "lr", "seed"]
    with reading.open(tmp_path) as runs:
        rows = runs.groups(by=["lr"]).table("loss").rows
        sentence = runs.importance("loss").sentence
        verdict = runs.groups(by_all_but=["seed"]).table("loss").verdict
    (table,) = found["groups"]["lr"]["tables"]
    means = [row.mean for row in rows]
    assert [row["mean"] for row in table["rows"]] == pytest.approx(means, abs=1e-12)
    assert found["groups"]["-seed"]["tables"][0]["verdict"] == verdict
    assert found["importance"]["loss"]["sentence"] == sentence


def test_an_archive_of_one_run_has_none(tmp_path: Path) -> None:
    Journal(tmp_path, "x", config={"lr": 1}).metrics(1, loss=1.0).finish()
    assert archived(tmp_path) == {}


def test_what_is_redacted_in_configs_is_redacted_here(tmp_path: Path) -> None:
    write_runs(tmp_path, api_key="sk-secret-value-")
    assert "sk-secret" not in json.dumps(archived(tmp_path))
