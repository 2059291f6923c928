"""Console, event stream, page and ``epochal watch`` say the same time left."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from epochal.records.format import format_duration
from epochal.run.console.printer import Console
from epochal.run.console_reporter import ConsoleReporter, Totals
from epochal.server.rows import run_row
from epochal.server.stream import epochs_of
from epochal.store.local.by_path import load_run
from epochal.store.progress import progress_of
from tests.store.journals import Journal


class Training:
    """Hands every record to a console and to a journal, at the times of one clock."""

    def __init__(self, root: Path, **totals: Any) -> None:
        self.shown = io.StringIO()
        self.journal = Journal(root, totals=totals)
        self.pace = ConsoleReporter(
            Console(self.shown), Totals(**totals), name="x", clock=lambda: self.journal.t
        )

    def epoch(self, epoch: int, total: int, *, seconds: float) -> None:
        self.journal.t += seconds - 1
        record = {"log": "epoch", "epoch": epoch, "total": total, "duration_s": seconds, "m": {}}
        self.journal.add(record)
        self.pace.epoch(record)

    def step(self, step: int, *, seconds: float) -> None:
        self.journal.t += seconds - 1
        record = {"log": "step", "step": step, "loss": 1.0, "duration_ms": 1000 * seconds}
        self.journal.add(record)
        self.pace.step(record)


def test_of_epochs_with_an_evaluation_after_each(tmp_path: Path) -> None:
    training = Training(tmp_path)
    for epoch in range(1, 6):
        training.epoch(epoch, 20, seconds=10.0)
        training.journal.t += 30.0
    training.journal.t -= 30.0
    run, now = load_run(training.journal.folder.path), training.journal.t
    streamed = epochs_of(run)[-1]["eta"]
    row, watched = run_row(run), progress_of(run, run.info, now=now)
    assert f"ETA {format_duration(streamed)}]" in training.shown.getvalue().splitlines()[-1]
    assert row.ends_at is not None
    assert row.ends_at - now == pytest.approx(streamed, abs=0.1)
    assert watched.eta_s == pytest.approx(streamed, abs=0.1)
    assert streamed == pytest.approx(15 * 40, rel=0.1)


def test_of_steps_with_an_evaluation_every_ten(tmp_path: Path) -> None:
    training = Training(tmp_path, steps=100)
    for step in range(50):
        training.step(step, seconds=2.0 if step else 60.0)
        if step % 10 == 9:
            training.journal.add({"log": "eval", "step": step, "loss": 1.0, "duration_ms": 8000.0})
            training.journal.t += 7.0
    training.journal.t -= 8.0
    run, now = load_run(training.journal.folder.path), training.journal.t
    row, watched = run_row(run), progress_of(run, run.info, now=now)
    said = training.pace.eta.remaining_s()
    assert said == pytest.approx(50 * 2.8, rel=0.1)
    assert row.ends_at is not None
    assert row.ends_at - now == pytest.approx(said, abs=0.1)
    assert watched.eta_s == pytest.approx(said, abs=0.1)
