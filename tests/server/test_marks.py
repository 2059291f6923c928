"""What happened in a run, and where it stands along each axis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.server.live import Server
from tests.store.journals import Journal


def marks(server: Server, kind: str) -> list[dict[str, Any]]:
    found = server.ask("/api/runs/id-x/marks").json["marks"]
    return [mark for mark in found if mark["kind"] == kind]


def step(number: int, **fields: Any) -> dict[str, Any]:
    return {"log": "step", "step": number, "loss": 1.0, **fields}


def test_a_restart_stands_where_it_took_over(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).add(*(step(n, epoch=n / 4) for n in range(6)))
    journal.add({"log": "resume", "attempt": 2, "step": 4}, step(4, epoch=1.0), attempt=2)
    (mark,) = marks(server, "restart")
    assert mark["label"] == "attempt 2 resumes from step 4"
    place = {"step": 4, "epoch": 1.0, "wall": 1007.0, "relative": 7.0, "progress": 100.0}
    assert mark["at"] == place


def test_an_epoch_stands_at_the_last_step_before_it(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).add(step(10), step(11)).epoch(1, total=3, loss=1.0)
    journal.add(step(12))
    (mark,) = marks(server, "epoch")
    assert mark["label"] == "epoch 1 of 3"
    assert (mark["at"]["step"], mark["at"]["epoch"]) == (11, 1)


def test_epochs_of_a_run_without_steps_have_no_step(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).epoch(1, loss=1.0)
    (mark,) = marks(server, "epoch")
    assert mark["at"] == {"epoch": 1, "wall": 1001.0, "relative": 1.0}


def test_a_checkpoint_says_its_file_and_counts_once(tmp_path: Path, server: Server) -> None:
    saved = {"log": "event", "name": "checkpoint", "step": 1, "path": "/a/b/1.pt"}
    journal = Journal(tmp_path).add(step(0), step(1), saved)
    journal.add({"log": "resume", "attempt": 2, "step": 1}, step(1), attempt=2)
    journal.add({**saved, "is_best": True}, attempt=2)
    (mark,) = marks(server, "checkpoint")
    assert (mark["label"], mark["at"]["step"]) == ("saved 1.pt, the best so far", 1)


def test_the_first_phase_begins_with_the_run_however_late_it_was_written(
    tmp_path: Path, server: Server
) -> None:
    journal = Journal(tmp_path).add(*(step(n) for n in range(50)))
    said = {"log": "event", "name": "phase"}
    journal.add({**said, "phase": "warm-up"}, writer="findings")
    journal.add({**said, "phase": "converging", "step": 10, "was": "warm-up"}, writer="findings")
    found = [(mark["label"], mark["at"]) for mark in marks(server, "phase")]
    assert [(label, at["step"]) for label, at in found] == [("warm-up", 0), ("converging", 10)]
    assert [at["wall"] for _, at in found] == [1001, 1011]


def test_phases_come_from_events(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).add(*(step(n, phase="warm-up") for n in range(6)))
    said = {"log": "event", "name": "phase"}
    journal.add({**said, "phase": "warm-up", "step": 0}, writer="findings")
    journal.add({**said, "phase": "unstable", "step": 4, "was": "warm-up"}, writer="findings")
    journal.add({"log": "resume", "attempt": 2, "step": 3}, step(3), attempt=2)
    journal.add({**said, "phase": "converging", "step": 3}, writer="findings", attempt=2)
    found = [(mark["label"], mark["at"]["step"]) for mark in marks(server, "phase")]
    assert found == [("warm-up", 0), ("converging", 3)]


def throttled(word: str, t: float) -> dict[str, Any]:
    return {"log": "event", "name": "gpu-throttle", "id": 0, "t": t, "throttle": word}


def test_a_throttled_gpu_is_marked(tmp_path: Path, server: Server) -> None:
    said = [throttled("thermal cap", 1100.0), throttled("", 1120.0)]
    # A moment at full speed in between is no end of it.
    said += [throttled("thermal cap", 1130.0), throttled("idle", 1150.0)]
    Journal(tmp_path).add(*said).add(step(0))
    (mark,) = marks(server, "throttle")
    assert (mark["label"], mark["gpu"]) == ("GPU 0: thermal cap for 50s", 0)
    assert mark["at"] == {"wall": 1100.0, "relative": 100.0}
