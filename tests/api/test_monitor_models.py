"""A monitor beside a torch model: its picture, its heat map, and the archive."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from epochal import FlowBuilder, Monitor
from epochal.journal.archive_request import request_archive, write_requested_archives
from epochal.journal.reader import read_journal
from epochal.run.run import recorder_of


@pytest.fixture
def monitor(tmp_path: Path) -> Monitor:
    return Monitor(1, name="model", dir=tmp_path, console=False)


def written(path: Path) -> str:
    """What a process of its own writes there; it may take longer than finish() waits for it."""
    for _ in range(1200):
        if path.is_file():
            break
        time.sleep(0.1)
    return path.read_text(encoding="utf-8")


def graphs(monitor: Monitor) -> list[dict[str, Any]]:
    return [
        record
        for _, record in read_journal(recorder_of(monitor.run).folder)
        if record["log"] == "graph"
    ]


def test_any_module_is_drawn_with_its_hash_and_parameters(monitor: Monitor) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    model[0].requires_grad_(False)
    monitor.watch(model)
    (graph,) = graphs(monitor)
    assert graph["svg"].startswith("<svg")
    assert len(graph["hash"]) == 64
    assert graph["parameters"] == {"total": 58, "trainable": 18, "frozen": 40}


def test_a_graph_is_drawn_under_its_label(monitor: Monitor) -> None:
    model = FlowBuilder.start(nn.Linear(4, 8)).tag("encoder").label("net").build()
    monitor.watch(model)
    assert graphs(monitor)[0]["name"] == "net"
    assert "encoder" in graphs(monitor)[0]["svg"]


def test_a_profiled_graph_ends_with_its_heat_map(monitor: Monitor) -> None:
    model = FlowBuilder.start(nn.Linear(4, 8)).through(nn.GELU()).build()
    model.enable_profiling()
    model(torch.ones(2, 4)).sum().backward()
    monitor.finish_with(model)
    assert "ms" in graphs(monitor)[0]["svg"] or "µs" in graphs(monitor)[0]["svg"]
    assert monitor.run.state == "finished"


def test_a_heat_map_outlives_the_end_of_profiling(monitor: Monitor) -> None:
    model = FlowBuilder.start(nn.Linear(4, 8)).through(nn.GELU()).build()
    model.enable_profiling()
    model(torch.ones(2, 4)).sum().backward()
    model.disable_profiling()
    monitor.finish_with(model)
    assert "timed" in graphs(monitor)[0]["svg"]


def test_a_model_that_was_never_run_is_drawn_without_times(monitor: Monitor) -> None:
    model = FlowBuilder.start(nn.Linear(4, 8)).through(nn.GELU()).build()
    model.enable_profiling()
    monitor.finish_with(model)
    assert "<svg" in graphs(monitor)[0]["svg"]
    assert monitor.run.state == "finished"


def test_a_picture_that_fails_does_not_keep_the_run_open(monitor: Monitor) -> None:
    not_a_model: Any = "model"
    with pytest.raises(ValueError, match=r"must be a torch module, got 'model'"):
        monitor.finish_with(not_a_model)
    assert monitor.run.state == "finished"


def test_a_plain_module_is_not_taken_for_a_profile(monitor: Monitor) -> None:
    with pytest.raises(TypeError, match=r"got Linear: use watch"):
        monitor.watch_profiled(nn.Linear(2, 2))


def test_the_archive_asked_for_is_there_after_finish(monitor: Monitor, tmp_path: Path) -> None:
    monitor.save_html(tmp_path / "report.html")
    monitor.log(0, 0.5, {"loss": 0.25})
    monitor.finish()
    page = written(tmp_path / "report.html")
    assert page.lstrip().lower().startswith("<!doctype html>")


def test_an_archive_goes_into_a_folder_that_was_not_there(monitor: Monitor, tmp_path: Path) -> None:
    monitor.save_html(tmp_path / "new" / "folder" / "report.html")
    monitor.finish()
    assert (tmp_path / "new" / "folder" / "report.html").stat().st_size > 10_000


def test_every_archive_asked_for_is_written(monitor: Monitor, tmp_path: Path) -> None:
    monitor.save_html(tmp_path / "first.html")
    monitor.save_html(tmp_path / "second.html")
    monitor.save_html(tmp_path / "first.html")
    monitor.finish()
    pages = sorted(path.name for path in tmp_path.glob("*.html"))
    assert pages == ["first.html", "second.html"]


def test_a_folder_that_cannot_be_made_is_said_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monitor = Monitor(1, dir=tmp_path)
    monitor.save_html(tmp_path / "file" / "report.html")
    assert "report.html cannot be written" in capsys.readouterr().err
    monitor.finish()
    assert monitor.run.state == "finished"


def test_an_archive_that_takes_too_long_says_how_to_get_it(
    monitor: Monitor, tmp_path: Path
) -> None:
    monitor.log(0, 0.5, {"loss": 0.25})
    monitor.finish()
    request_archive(recorder_of(monitor.run).folder, tmp_path / "late.html")
    (outcome,) = write_requested_archives(recorder_of(monitor.run).folder, wait_s=0.0)
    assert not outcome.is_written
    command = f"epochal export {monitor.run.dir} --format html --output {tmp_path}"
    assert command in outcome.sentence
    assert written(tmp_path / "late.html")


def test_the_archive_can_be_asked_for_afterwards(monitor: Monitor, tmp_path: Path) -> None:
    monitor.log(0, 0.5, {"loss": 0.25})
    monitor.finish()
    monitor.save_html(tmp_path / "late.html")
    assert written(tmp_path / "late.html")


def test_an_archive_that_cannot_be_written_is_said_and_nothing_more(
    monitor: Monitor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "folder.html").mkdir()
    monitor.save_html(tmp_path / "folder.html")
    monitor.finish()
    assert monitor.run.state == "finished"
