"""A monitor beside a torch model: its picture, its heat map, and the archive."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from epochal import FlowBuilder, Monitor, profile_module
from epochal.journal.reader import read_journal


@pytest.fixture
def monitor(tmp_path: Path) -> Monitor:
    return Monitor(1, name="model", dir=tmp_path, console=False)


def written(path: Path) -> str:
    """What a process of its own writes there; it may take longer than finish() waits for it."""
    for _ in range(600):
        if path.is_file():
            break
        time.sleep(0.1)
    return path.read_text(encoding="utf-8")


def graphs(monitor: Monitor) -> list[dict[str, Any]]:
    return [record for _, record in read_journal(monitor.run.folder) if record["log"] == "graph"]


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
    assert monitor.run.finished


def test_a_profiled_module_ends_with_its_heat_map(monitor: Monitor) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    with profile_module(model) as profile:
        model(torch.ones(2, 4)).sum().backward()
    monitor.watch_profiled(profile)
    assert graphs(monitor)[0]["name"] == "Sequential"


def test_the_archive_asked_for_is_there_after_finish(monitor: Monitor, tmp_path: Path) -> None:
    monitor.save_html(tmp_path / "report.html")
    monitor.log(0, 0.5, {"loss": 0.25})
    monitor.finish()
    page = written(tmp_path / "report.html")
    assert page.lstrip().lower().startswith("<!doctype html>")


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
    assert monitor.run.finished
