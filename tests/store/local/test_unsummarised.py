"""Runs that nobody has summarised: a list shows who they are, and reads them while it has time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from epochal.store.local.catalog import folder_store
from tests.store.journals import Journal


def large_run(root: Path, name: str = "x") -> Journal:
    """A run that takes too long to be read for a list."""
    large = {"log": "text", "name": "t", "text": "x" * 1_000_000}
    facts: dict[str, Any] = {"config": {"lr": 0.5}, "tags": ["a"], "totals": {"steps": 500}}
    return Journal(root, name, **facts).add(*[large] * 9).metrics(1, loss=0.5)


@pytest.mark.parametrize("end", ["finished", None])
def test_a_list_says_who_they_are_and_how_they_stand(tmp_path: Path, end: str | None) -> None:
    journal = large_run(tmp_path)
    if end is not None:
        journal.finish(end)
    with folder_store(tmp_path) as store:
        known = store.known_runs()
        outline = known.runs[0].outline()
        assert (known.unsummarised, outline.is_summarised) == (1, False)
        assert (outline.step, outline.errors, known.runs[0].latest("loss")) == (None, None, None)
        whole = known.runs[0].info
        assert (whole.is_summarised, whole.step) == (True, 1)
        same = "id name project folder status created updated attempts total_steps tags config"
        for field in same.split():
            assert getattr(outline, field) == getattr(whole, field), field


def test_lists_read_them_while_they_have_time_the_newest_first(tmp_path: Path) -> None:
    for number in range(3):
        journal = Journal(tmp_path, f"r{number}", created=1000.0 + number)
        journal.metrics(number, loss=1.0).finish()
    with folder_store(tmp_path) as store:
        first = store.known_runs(budget_s=0)
        assert [run.outline().name for run in first.runs] == ["r2", "r1", "r0"]
        assert first.unsummarised == 3
        whole = store.known_runs(budget_s=60)
        assert ([run.outline().step for run in whole.runs], whole.unsummarised) == ([2, 1, 0], 0)


def test_queries_about_what_is_not_known_leave_them_out(tmp_path: Path) -> None:
    large_run(tmp_path)
    with folder_store(tmp_path) as store:
        for query, num_found in {
            'config.lr == 0.5 and not name == "a"': 1,
            "summary.loss.min < 1": 0,
            "not summary.loss > 50": 0,
        }.items():
            known = store.known_runs(query)
            assert (len(known.runs), known.unsummarised) == (num_found, 1), query
        assert len(store.runs("summary.loss.min < 1")) == 1  # reads what it needs
        known = store.known_runs("not summary.loss > 50")
        assert (len(known.runs), known.unsummarised) == (1, 0)


def test_runs_are_grouped_by_fields(tmp_path: Path) -> None:
    for name, lr in (("a", 0.1), ("b", 0.2), ("c", 0.1), ("d", None)):
        config = {} if lr is None else {"lr": lr}
        Journal(tmp_path, name, config=config).metrics(1, loss=1.0).finish()
    known = folder_store(tmp_path).known_runs(order="name", group="config.lr,project", budget_s=60)
    found = {values: [run.info.name for run in runs] for values, runs in known.groups}
    assert found == {(0.1, "p"): ["a", "c"], (0.2, "p"): ["b"], (None, "p"): ["d"]}
