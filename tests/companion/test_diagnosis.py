import math
from pathlib import Path
from typing import Any

import pytest

import epochal
from epochal.companion.diagnosis import Diagnosis
from epochal.companion.own_journal import OwnJournal
from epochal.health.finding import Finding
from epochal.journal.layout import FINDINGS, RunFolder
from epochal.journal.reader import read_journal
from epochal.run.run import Run
from tests.doubles.companions import companion_config


def started(folder: Path) -> Run:
    return epochal.init("p", "a", dir=folder, console=False, companion=False)


def findings_of(run: Run) -> list[dict[str, Any]]:
    return [
        record
        for position, record in read_journal(RunFolder(run.dir))
        if position.writer == FINDINGS and record["log"] == "finding"
    ]


def test_a_loss_that_is_no_number_is_found_with_the_record_that_says_so(tmp_path: Path) -> None:
    run = started(tmp_path)
    diagnosis = Diagnosis(companion_config(run.dir))
    run.log({"loss": 2.0}, step=1)
    diagnosis.look()
    assert findings_of(run) == []
    run.log({"loss": math.nan}, step=2)
    diagnosis.look()
    run.finish()
    (found,) = findings_of(run)
    assert (found["rule"], found["severity"], found["steps"]) == ("nonfinite", "error", [2, 2])


def test_a_companion_that_was_started_again_writes_nothing_twice(tmp_path: Path) -> None:
    run = started(tmp_path)
    run.log({"loss": math.nan}, step=1)
    Diagnosis(companion_config(run.dir)).look()
    told: list[Finding] = []
    again = Diagnosis(companion_config(run.dir), on_finding=told.append)
    again.look()
    run.finish()
    assert again.go_on() is False
    assert len(findings_of(run)) == 1
    assert told == []


def test_at_the_end_what_is_open_is_said_as_far_as_it_came(tmp_path: Path) -> None:
    run = started(tmp_path)
    diagnosis = Diagnosis(companion_config(run.dir))
    for step in range(6):
        run.log({"loss": math.nan if step > 1 else 1.0}, step=step)
    diagnosis.look()
    run.finish()
    diagnosis.go_on()
    assert [(found["state"], found["steps"]) for found in findings_of(run)] == [
        ("open", [2, 2]),
        ("open", [2, 5]),
    ]


def test_the_end_of_a_run_is_told(tmp_path: Path) -> None:
    run = started(tmp_path)
    ends: list[dict[str, Any]] = []
    diagnosis = Diagnosis(companion_config(run.dir), on_finish=ends.append)
    run.log({"loss": 1.0})
    run.finish("failed", reason="no more data")
    diagnosis.go_on()
    assert [(end["status"], end["reason"]) for end in ends] == [("failed", "no more data")]
    assert diagnosis.left() is None


def phases_of(run: Run) -> list[tuple[Any, ...]]:
    return [
        (record["phase"], record.get("step"), record.get("epoch"))
        for position, record in read_journal(RunFolder(run.dir))
        if position.writer == FINDINGS and record.get("name") == "phase"
    ]


def test_changes_of_phase_are_events(tmp_path: Path) -> None:
    run = started(tmp_path)
    for step in range(300):
        run.log({"loss": 10.0 * 0.99**step}, step=step)
    run.finish()
    Diagnosis(companion_config(run.dir)).go_on()
    assert phases_of(run) == [("warm-up", 0, None), ("converging", 99, None)]


def test_the_family_is_an_event_once(tmp_path: Path) -> None:
    run = started(tmp_path)
    for step in range(20):
        run.log({"loss": 1.0, "reward": 0.1 * step}, step=step)
    run.finish()
    for _ in range(2):  # a companion may restart
        Diagnosis(companion_config(run.dir)).go_on()
    own = [r for p, r in read_journal(RunFolder(run.dir)) if p.writer == FINDINGS]
    events = [record for record in own if record.get("name") == "family"]
    assert [(one["family"], one["why"]) for one in events] == [("rl", "reward is logged")]


def test_epochs_have_phases_too(tmp_path: Path) -> None:
    run = started(tmp_path)
    for epoch in range(1, 151):
        run.log_epoch(epoch, duration_s=1.0, metrics={"loss": 10.0 * 0.99**epoch}, total=150)
    run.finish()
    Diagnosis(companion_config(run.dir)).go_on()
    assert phases_of(run) == [("warm-up", None, 1), ("converging", None, 100)]


@pytest.mark.parametrize("count", [30, 60])
def test_a_short_run_has_no_phase(tmp_path: Path, count: int) -> None:
    run = started(tmp_path)
    for epoch in range(1, count + 1):
        run.log_epoch(epoch, duration_s=1.0, metrics={"loss": 1.0 / epoch}, total=40)
    run.finish()
    Diagnosis(companion_config(run.dir)).go_on()
    assert phases_of(run) == []


def test_telemetry_of_another_node_belongs_to_the_rank_it_sits_beside(tmp_path: Path) -> None:
    run = started(tmp_path)
    beside = OwnJournal(companion_config(run.dir, node="there", rank=8))
    beside.event("hardware", text="x")
    diagnosis = Diagnosis(companion_config(run.dir))
    diagnosis.look()
    run.finish()
    assert diagnosis.ranks == {0, 8}


def test_a_number_that_is_none_is_found_in_a_flood(tmp_path: Path) -> None:
    run = started(tmp_path)
    for step in range(20_000):
        run.log({"loss": math.inf if step == 17_321 else 1.0}, step=step)
    run.finish()
    diagnosis = Diagnosis(companion_config(run.dir))
    while diagnosis.go_on():
        pass
    opened = next(found for found in findings_of(run) if found["rule"] == "nonfinite")
    assert opened["steps"] == [17_321, 17_321]


def test_records_of_several_writers_are_judged_in_the_order_of_their_times(tmp_path: Path) -> None:
    run = started(tmp_path)
    beside = OwnJournal(companion_config(run.dir, node="there", rank=8))
    for step in range(3):
        run.log({"loss": 1.0}, step=step)
        beside.event("hardware", text=str(step))
    seen: list[tuple[str, float]] = []
    diagnosis = Diagnosis(
        companion_config(run.dir),
        on_records=lambda writer, records: seen.extend((writer, one["t"]) for one in records),
    )
    diagnosis.look()
    run.finish()
    assert {writer for writer, _ in seen} == {"loop", "telemetry-there"}
    assert [t for _, t in seen] == sorted(t for _, t in seen)


def test_a_journal_that_became_shorter_is_followed_on(tmp_path: Path) -> None:
    run = started(tmp_path)
    for step in range(100):
        run.log({"loss": 1.0}, step=step)
    diagnosis = Diagnosis(companion_config(run.dir))
    diagnosis.look()
    path = run.dir / "journal" / "loop.0001.0000.jsonl"
    text = path.read_bytes()
    with path.open("r+b") as file:
        file.truncate(text.index(b"\n", len(text) // 2) + 1)
    diagnosis.look()
    run.log({"loss": 2.0}, step=200)
    run.finish()
    diagnosis.go_on()
    assert epochal.load(run.dir).info.step == 200
