from __future__ import annotations

from pathlib import Path

import epochal
from epochal.companion.own_journal import HEARTBEAT_LOOK_S, OwnJournal
from epochal.journal.layout import RunFolder
from epochal.journal.reader import read_journal
from epochal.records import HEARTBEAT_EVERY_S
from tests.doubles.companions import companion_config


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def _beats(folder: Path) -> list[float]:
    return [r["t"] for _, r in read_journal(RunFolder(folder)) if r["log"] == "heartbeat"]


def test_a_companion_with_nothing_to_say_beats_every_half_minute(tmp_path: Path) -> None:
    run = epochal.init("p", "a", dir=tmp_path, console=False, companion=False)
    clock = Clock()
    journal = OwnJournal(companion_config(run.dir), clock=clock)
    for _ in range(120):
        clock.now_s += HEARTBEAT_LOOK_S
        journal.beat()
    run.finish()
    assert len(_beats(run.dir)) == 120 * HEARTBEAT_LOOK_S / HEARTBEAT_EVERY_S


def test_what_a_companion_writes_anyway_is_a_heartbeat(tmp_path: Path) -> None:
    run = epochal.init("p", "a", dir=tmp_path, console=False, companion=False)
    clock = Clock()
    journal = OwnJournal(companion_config(run.dir), clock=clock)
    for _ in range(60):
        clock.now_s += 10.0
        journal.write("system", {"cpu_pct": 1.0})
        journal.beat()
    run.finish()
    assert _beats(run.dir) == []


def test_a_heartbeat_is_no_series_and_no_entry(tmp_path: Path) -> None:
    run = epochal.init("p", "a", dir=tmp_path, console=False, companion=False)
    journal = OwnJournal(companion_config(run.dir))
    journal.write("heartbeat", {})
    run.finish()
    view = epochal.load(run.dir).view
    assert view.metrics() == []
    assert [entry.kind for entry in view.events()] == []
    assert any(record["log"] == "heartbeat" for _, record in view.records())
