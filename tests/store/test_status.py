from __future__ import annotations

from pathlib import Path

import pytest

from epochal.journal.line import encode
from epochal.journal.process import process_identity
from epochal.store.local import load_run
from epochal.store.status import derive_status, format_age
from tests.store.journals import Journal

ELSEWHERE = {"host": "another-machine", "pid": 1}
DEAD = {**process_identity(), "pid_start": -1.0}


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
    ("age", "text"), [(59, "running"), (60, "silent 1 min"), (7300, "silent 2 h")]
)
def test_a_process_out_of_sight_is_judged_by_its_newest_record(age: float, text: str) -> None:
    derived = derive_status(finish=None, process=ELSEWHERE, updated=1000.0, now=1000.0 + age)
    assert derived.text == text


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
