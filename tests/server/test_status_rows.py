"""The rows of subscribed runs: records do not wait for them, and they take little of the time."""

from __future__ import annotations

from pathlib import Path

import pytest

from epochal.guard import Guard
from epochal.server import broadcaster
from epochal.server.broadcaster import Broadcaster
from epochal.server.reader import Reader
from epochal.server.rows import run_row
from epochal.store.local.store import LocalStore
from epochal.store.row import RunRow
from epochal.store.store import RunView
from tests.store.journals import Journal

ROW_S, POLL_S, NUM_RUNS, NUM_POLLS = 0.01, 0.25, 10, 80


class Clock:
    """A clock that only rows and polls move."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


@pytest.mark.parametrize(("num_runs", "every_poll"), [(1, True), (NUM_RUNS, False)])
def test_rows_of_many_runs_are_made_in_a_tenth_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_runs: int, every_poll: bool
) -> None:
    clock, made = Clock(), [0]

    def slow_row(run: RunView) -> RunRow:
        clock.now += ROW_S
        made[0] += 1
        return run_row(run)

    monkeypatch.setattr(broadcaster, "time", clock)
    monkeypatch.setattr(broadcaster, "run_row", slow_row)
    journals = [Journal(tmp_path, f"r{number}") for number in range(num_runs)]
    store = LocalStore(tmp_path)
    reader = Reader(store)
    sending = Broadcaster(reader, Guard())
    for step in range(NUM_POLLS):
        for journal in journals:
            journal.metrics(step, loss=0.5)
        runs = {run.id: run for run in store.runs()}
        for run in runs.values():
            run.refresh()
        sending._send_updates(runs)
        clock.now += POLL_S
    share = made[0] * ROW_S / (clock.now - 1000.0)
    assert share <= 0.11
    assert (made[0] == NUM_POLLS * num_runs) is every_poll
    assert made[0] >= num_runs * NUM_POLLS * POLL_S / 2
    sending.stop()
    reader.close()
