from __future__ import annotations

from pathlib import Path

from tests.server.live import Server, until
from tests.store.journals import Journal


def test_history_has_every_epoch_in_the_first_dashboard_s_shape(
    tmp_path: Path, server: Server
) -> None:
    Journal(tmp_path).add(
        {
            "log": "epoch",
            "epoch": 1,
            "total": 2,
            "duration_s": 0.04912345,
            "m": {"loss": 1.5264000009, "acc": None},
            "nonfinite": {"acc": "nan"},
            "resources": {"cpu_pct": 45.0, "vram_allocated_bytes": 7, "vram_total": 9},
            "gpus": [{"id": 0, "name": "H200", "gpu_util": 82.0}],
        }
    ).epoch(2, total=2, loss=1.0)
    first, second = server.ask("/api/history", run="id-x").json
    assert first == {
        "epoch": 1,
        "total": 2,
        "duration": 0.0491,
        "eta": 0.0,
        "metrics": {"loss": 1.5264, "acc": None},
        "resources": {"cpu": 45.0, "vram_alloc": 7, "vram_total": 9},
        "gpus": [{"dev": 0, "name": "H200", "util": 82.0}],
    }
    assert "eta" not in second


def test_the_time_left_after_each_epoch_is_wall_time_of_its_attempt(
    tmp_path: Path, server: Server
) -> None:
    journal = Journal(tmp_path)
    for epoch in range(1, 11):
        journal.t += 9  # an evaluation after each epoch of 49 ms
        journal.epoch(epoch, loss=1.0)
    journal.t += 10_000
    for epoch in range(11, 21):
        journal.t += 4
        journal.epoch(epoch, attempt=2, loss=1.0)
    left = [epoch["eta"] for epoch in server.ask("/api/history", run="id-x").json]
    assert 0.9 * 900 < left[9] <= 900
    assert 0.9 * 400 < left[19] <= 400


def test_past_epochs_come_first_then_new_ones_then_the_end(tmp_path: Path, server: Server) -> None:
    journal = Journal(tmp_path).epoch(1, loss=3.0).epoch(2, loss=2.0)
    with server.listen("/events", run="id-x") as events:
        assert [until(events, "epoch").data["epoch"] for _ in range(2)] == [1, 2]
        journal.epoch(3, loss=1.0).finish()
        assert until(events, "epoch").data["metrics"] == {"loss": 1.0}
        assert until(events, "complete").data == {"epochs": 3, "status": "finished"}


def test_a_stream_of_epochs_resumes_after_the_last_one(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path).epoch(1, loss=3.0).epoch(2, loss=2.0).finish()
    with server.listen("/events", run="id-x", headers={"Last-Event-ID": "1"}) as events:
        assert until(events, "epoch").data["epoch"] == 2


def test_without_a_name_a_running_run_goes_before_a_newer_one_that_ended(
    tmp_path: Path, server: Server
) -> None:
    Journal(tmp_path, "older", created=1.0).epoch(1, loss=1.0)
    Journal(tmp_path, "running", created=2.0).epoch(2, loss=1.0)
    Journal(tmp_path, "ended", created=3.0).epoch(3, loss=1.0).finish()
    assert server.ask("/api/runs/id-running").json["row"]["status"]["state"] == "running"
    assert [epoch["epoch"] for epoch in server.ask("/api/history").json] == [2]
    with server.listen("/events") as events:
        assert until(events, "epoch").data["epoch"] == 2


def test_where_nothing_runs_the_newest_is_meant(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path, "new", created=2.0).epoch(5, loss=1.0).finish()
    Journal(tmp_path, "old", created=1.0).epoch(1, loss=1.0).finish()
    assert [epoch["epoch"] for epoch in server.ask("/api/history").json] == [5]


def test_without_a_name_the_newest_run_is_meant(tmp_path: Path, server: Server) -> None:
    Journal(tmp_path, "old", created=1.0).epoch(1, loss=1.0)
    Journal(tmp_path, "new", created=2.0).epoch(5, loss=1.0)
    assert [epoch["epoch"] for epoch in server.ask("/api/history").json] == [5]
