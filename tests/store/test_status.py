from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from epochal.journal.line import encode
from epochal.journal.process import process_identity
from epochal.journal.row import Status
from epochal.store.local.by_path import load_run
from epochal.store.status import derive_status, format_age
from tests.store.journals import Journal

ELSEWHERE = {"host": "another-machine", "pid": 1}
DEAD = {**process_identity(), "pid_start": -1.0}
NOW = 1e6


@pytest.mark.parametrize("status", ["finished", "failed", "interrupted", "terminated"])
def test_a_finish_record_decides(status: str) -> None:
    finish = {"status": status, "reason": "so"}
    derived = derive_status(finish=finish, process=DEAD, updated=1.0, now=2.0)
    assert (derived.state, derived.reason) == (status, "so")


def test_a_living_process_is_running_however_long_it_says_nothing() -> None:
    derived = derive_status(finish=None, process=process_identity(), updated=1.0, now=1e6)
    assert derived.state == "running"


def test_a_dead_process_has_crashed() -> None:
    derived = derive_status(finish=None, process=DEAD, updated=1.0, now=2.0)
    assert derived.state == "crashed"


@pytest.mark.parametrize("process", [DEAD, ELSEWHERE])
def test_what_a_companion_saw_is_the_reason(process: dict[str, object]) -> None:
    derived = derive_status(
        finish=None, process=process, updated=1.0, now=2.0, vanished="killed: out of memory"
    )
    assert (derived.state, derived.reason) == ("crashed", "killed: out of memory")


def test_a_run_says_what_its_companion_saw_of_its_newest_attempt(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    header = {"log": "run", "v": 1, "id": "id-x", **DEAD}
    for attempt in (1, 2):
        path = journal.path(attempt=attempt)
        path.write_bytes(encode({**header, "t": 1.0}))
        seen = {"log": "event", "name": "vanished", "sentence": f"killed in attempt {attempt}"}
        journal.add(seen, writer="telemetry-here", attempt=attempt)
    status = load_run(journal.folder.path).status
    assert (status.state, status.reason) == ("crashed", "killed in attempt 2")


@pytest.mark.parametrize(
    ("age", "has_companion", "state", "text"),
    [
        (89, False, "running", "running"),
        (7300, False, "silent", "silent 2 h"),
        (90, True, "silent", "silent 1 min"),
        (3600, True, "crashed", "gone"),
    ],
)
def test_a_process_out_of_sight_is_judged_by_its_newest_record(
    age: float, has_companion: bool, state: str, text: str
) -> None:
    derived = out_of_sight({"updated": NOW - age}, has_companion=has_companion)
    assert (derived.state, derived.text) == (state, text)
    assert state == "running" or "another-machine" in str(derived.reason)


@pytest.mark.parametrize(
    ("signs", "state"),
    [
        ({"updated": NOW - 7200, "written": NOW - 20}, "running"),
        ({"updated": NOW + 7200, "written": NOW - 20}, "running"),
        ({"updated": NOW + 7200, "written": NOW - 7200}, "crashed"),  # a clock that is ahead
        ({"updated": NOW - 7200, "written": NOW - 7200, "grew": NOW - 5}, "running"),
    ],
)
def test_the_newest_sign_counts_whatever_clocks_say(signs: dict[str, float], state: str) -> None:
    derived = out_of_sight(signs)
    assert derived.state == state
    is_skewed = "the clock of another-machine is 2 h" in str(derived.reason)
    assert is_skewed == (state == "running")


def out_of_sight(signs: Mapping[str, Any], *, has_companion: bool = True) -> Status:
    return derive_status(
        finish=None, process=ELSEWHERE, now=NOW, has_companion=has_companion, **signs
    )


def _on_another_machine(root: Path, t: float) -> Journal:
    """A run whose loop wrote its only record an hour before its companion wrote last."""
    journal = Journal(root)
    header = {"log": "run", "v": 1, "id": "id-x", "name": "x", **ELSEWHERE}
    journal.path().write_bytes(
        encode({**header, "t": t - 3700}) + encode({"log": "metrics", "t": t - 3600, "step": 1})
    )
    beat = {"log": "heartbeat", "t": t}
    path = journal.path("telemetry-there")
    path.write_bytes(encode({**header, "t": t - 3700, "rank": 0}) + encode(beat))
    for file in (journal.path(), path):
        os.utime(file, (t, t))
    return journal


def test_a_loop_that_says_nothing_for_an_hour_runs_while_its_companion_beats(
    tmp_path: Path,
) -> None:
    journal = _on_another_machine(tmp_path, time.time() - 20)
    assert load_run(journal.folder.path).status.text == "running"


def test_a_run_whose_companion_has_not_beaten_for_hours_is_gone(tmp_path: Path) -> None:
    journal = _on_another_machine(tmp_path, time.time() - 3 * 3600)
    run = load_run(journal.folder.path)
    assert (run.status.state, run.status.text) == ("crashed", "gone")
    assert "for 3 h" in str(run.status.reason)
    assert [entry.record["rule"] for entry in run.findings()] == ["crashed"]
    path = journal.path("telemetry-there")
    with path.open("ab") as file:
        file.write(encode({"log": "heartbeat", "t": time.time()}))
    run.refresh()
    assert run.status.state == "running"


def test_a_run_without_a_companion_is_never_called_gone(tmp_path: Path) -> None:
    journal = _on_another_machine(tmp_path, time.time() - 3 * 3600)
    journal.add({"log": "event", "name": "companion-lost", "exit_code": -9})
    os.utime(journal.path(), (1.0, 1.0))
    assert load_run(journal.folder.path).status.state == "silent"


def test_a_run_without_records_waits(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert load_run(journal.folder.path).info.status.state == "waiting"


def test_the_newest_attempt_decides(tmp_path: Path) -> None:
    journal = Journal(tmp_path).finish("failed").metrics(1, attempt=2, a=1)
    assert load_run(journal.folder.path).info.status.state == "running"


def test_another_ranks_end_is_not_the_runs_end(tmp_path: Path) -> None:
    journal = Journal(tmp_path).metrics(1, a=1)
    journal.add({"log": "finish", "status": "finished"}, writer="rank-0001")
    assert load_run(journal.folder.path).info.status.state == "running"


@pytest.mark.parametrize(("age", "text"), [(-5, "0 s"), (61, "1 min"), (86400 * 9, "9 d")])
def test_ages_are_in_their_largest_unit(age: float, text: str) -> None:
    assert format_age(age) == text
