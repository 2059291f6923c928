"""A run with more metrics than its response lists: others are found by name or section."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epochal.exports.archive import _responses
from epochal.journal.metrics import Metric
from epochal.server.rows import MOST_METRICS, chosen_metrics
from epochal.store.local.by_path import load_run
from tests.server.live import Server
from tests.store.journals import Journal

NUM_LAYERS = MOST_METRICS + 500
ADDRESS = "/api/runs/id-x/metrics"


def wide(root: Path) -> Journal:
    names = [f"layers/{number}/Norm" for number in range(NUM_LAYERS)]
    journal = Journal(root)
    for step in range(2):
        values = {**dict.fromkeys(names, 0.5 + step), "val.acc": 0.5, "loss": 2.0}
        journal.add({"log": "metrics", "step": step, "m": values})
    return journal


def test_the_response_of_a_wide_run_lists_roles_and_small_sections(
    tmp_path: Path, server: Server
) -> None:
    wide(tmp_path)
    found = server.ask("/api/runs/id-x").json
    names = [metric["name"] for metric in found["metrics"]]
    assert len(names) == MOST_METRICS
    assert names[0] == "layers/0/Norm"
    assert names[-2:] == ["val.acc", "loss"]
    assert found["num_metrics"] == NUM_LAYERS + 2
    assert found["sections"] == {"layers": NUM_LAYERS, "val": 1, "metrics": 1}


def test_a_run_with_few_metrics_lists_them_all(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).metrics(1, loss=1.0, acc=0.5)
    found = server.ask("/api/runs/id-x").json
    assert (found["num_metrics"], found["sections"]) == (2, {})
    assert len(found["metrics"]) == 2


@pytest.mark.parametrize(
    ("params", "total", "first"),
    [
        ({}, NUM_LAYERS + 2, "layers/0/Norm"),
        ({"find": "norm LAYERS/2499"}, 1, "layers/2499/Norm"),
        ({"find": "layers*99/norm"}, 25, "layers/99/Norm"),
        ({"find": "/24[0-9]{2}/norm$", "pattern": 1}, 100, "layers/2400/Norm"),
        ({"section": "metrics"}, 1, "loss"),
        ({"section": "layers", "offset": 2400, "limit": 5}, NUM_LAYERS, "layers/2400/Norm"),
        ({"name": ["val.acc", "layers/2100/Norm"]}, 2, "layers/2100/Norm"),
        ({"find": "nothing"}, 0, None),
    ],
)
def test_others_are_found(
    tmp_path: Path, server: Server, params: dict[str, Any], total: int, first: str | None
) -> None:
    wide(tmp_path)
    found = server.ask(ADDRESS, **params).json
    assert found["total"] == total
    metrics = found["metrics"]
    assert len(metrics) == min(total - found["offset"], params.get("limit", 200))
    assert (metrics[0]["name"] if metrics else None) == first
    if metrics:
        assert metrics[0]["summary"]["count"] == 2


def test_a_wrong_pattern_is_refused_with_a_sentence(tmp_path: Path, server: Server) -> None:
    wide(tmp_path)
    answer = server.ask(ADDRESS, find="(", pattern=1)
    assert answer.status == 400
    assert "the pattern '(' is not valid" in answer.json["error"]


def test_an_archive_has_the_metrics_that_the_response_leaves_out(tmp_path: Path) -> None:
    wide(tmp_path)
    Journal(tmp_path, "few").metrics(1, loss=1.0)
    responses = _responses(load_run(tmp_path / "p" / "x"))
    assert len(responses["run"].metrics) == MOST_METRICS
    assert len(responses["run_metrics"].metrics) == NUM_LAYERS + 2
    assert _responses(load_run(tmp_path / "p" / "few"))["run_metrics"].metrics == []


def test_large_sections_share_the_window() -> None:
    names = [f"{section}/{n}" for section in ("a", "b") for n in range(100)] + ["c/1", "c/2"]
    metrics = [Metric(name, "step", (0,)) for name in names]
    chosen = [metric.name for metric in chosen_metrics(metrics, 42)]
    assert chosen == [f"{s}/{n}" for s in ("a", "b") for n in range(20)] + ["c/1", "c/2"]
    assert chosen_metrics(metrics, 202) is metrics
