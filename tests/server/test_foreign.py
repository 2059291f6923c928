"""Other trackers' runs over the wire: the same answers, and live while they are written."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tests.exchange.imports.samples import GOLDEN
from tests.server.live import Event, serving, until, until_added


def points(event: Event, name: str) -> dict[float, float]:
    return {
        x: value
        for series in event.data["points"]
        if series["name"] == name
        for x, value in zip(series["x"], series["value"], strict=True)
    }


@pytest.mark.slow  # loads torch
def test_a_writer_of_tensorboard_is_streamed_live(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(tmp_path / "runs" / "a"), flush_secs=1)
    writer.add_scalar("Loss/train", 2.0, 0)
    writer.flush()
    with serving(tmp_path / "runs") as server:
        (row,) = server.ask("/api/runs").json["rows"]
        assert (row["name"], row["status"]["state"], row["step"]) == ("a", "running", 0)
        with server.listen(run=row["id"]) as events:
            until(events, "ready")
            for step in (1, 2):
                writer.add_scalar("Loss/train", 1.0 / step, step, walltime=time.time())
                writer.flush()
                assert points(until(events, "records"), "Loss/train") == {step: 1.0 / step}
            late = SummaryWriter(str(tmp_path / "runs" / "b"))
            late.add_scalar("Loss/train", 5.0, 7)
            late.close()
            (added,) = until_added(events)
            assert server.ask(f"/api/runs/{added}").json["row"]["name"] == "b"
    writer.close()


def test_each_run_of_a_database_is_downloaded_by_its_id(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "mlflow.db", tmp_path / "mlflow.db")
    with serving(tmp_path) as server:
        for row in server.ask("/api/runs").json["rows"]:
            text = server.ask("/api/export", run=row["id"]).body.decode()
            assert f"<title>{row['name']} · Epochal</title>" in text


def test_labels_without_a_place_are_refused_in_a_sentence(tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "mlflow.db", tmp_path / "mlflow.db")
    with serving(tmp_path) as server:
        row = server.ask("/api/runs").json["rows"][0]
        answer = server.patch(f"/api/runs/{row['id']}/labels", {"name": "b"})
        assert answer.status == 400
        assert "only read" in answer.body.decode()
