"""A run that is worse than runs with other seeds."""

from __future__ import annotations

from typing import Any

import numpy as np

from epochal.journal.row import FindingCounts, RunRow, SeriesSummary
from epochal.journal.siblings import unexplained


def row(name: str, last: float, **fields: Any) -> RunRow:
    loss = SeriesSummary(name="eval/loss", role="eval_loss", goal="min", last=last)
    config = fields.pop("config", {"lr": 0.1, "seed": name})
    given = {"step": 99, "is_ended": True, "headline": (loss,), **fields}
    return RunRow(id=name, name=name, project="p", config=config, **given)


SIBLINGS = [row(f"s{n}", value) for n, value in enumerate((1.0, 1.02, 0.98, 1.01, 0.99))]


def test_a_run_far_worse_than_other_seeds_is_unexplained() -> None:
    found = unexplained(row("own", 1.5), SIBLINGS)
    assert found is not None
    assert (found.metric, found.value, found.siblings) == ("eval/loss", 1.5, 5)
    assert "5 runs that differ in the seed alone ended at 1.0" in found.sentence
    assert unexplained(row("own", 1.03), SIBLINGS) is None
    assert unexplained(row("own", 0.5), SIBLINGS) is None


def test_a_run_with_a_cause_or_without_siblings_is_not_unexplained() -> None:
    assert unexplained(row("own", 1.5, counts=FindingCounts(0, 1, 0, 1)), SIBLINGS) is None
    assert unexplained(row("own", 1.5), SIBLINGS[:2]) is None
    assert unexplained(row("own", 1.5, config={"lr": 0.2, "seed": 9}), SIBLINGS) is None
    assert unexplained(row("own", 1.5, config={}), SIBLINGS) is None
    assert unexplained(row("own", 1.5, step=30), SIBLINGS) is None


def test_seeds_alone_rarely_make_a_run_unexplained() -> None:
    noise = np.random.default_rng(0)
    for count in (3, 5, 10):
        draws = (1 + 0.1 * noise.normal(size=(400, count + 1))).tolist()
        found = [
            unexplained(row("own", own), [row(f"s{n}", one) for n, one in enumerate(others)])
            for own, *others in draws
        ]
        assert sum(one is not None for one in found) <= 12
