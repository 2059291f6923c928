"""flodl's tutorial 9, "Training Monitor", in Python: each code block in order, and its claims.

A comment with the heading of a section begins its blocks. Blocks without a meaning in Python:

- ``use flodl::*`` and ``?``: imports are those below, and errors are exceptions.
- ``Variable::new``: tensors of torch need no wrapper.
- "Complete Example" names a folder of flodl; the demo of Epochal is ``make demo``.
"""

from __future__ import annotations

import csv
import http.client
import re
import socket
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from epochal import FlowBuilder, Graph, Monitor
from epochal.run.console import format_duration
from epochal.torch import (
    CosineScheduler,
    cuda_active_bytes,
    cuda_allocated_bytes,
    cuda_empty_cache,
    set_lr,
)
from tests.doubles.journals import of_kind
from tests.server.live import events_of, until

Batches = list[tuple[Tensor, Tensor]]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def batches() -> Batches:
    return [(inputs, inputs.flip(1)) for inputs in torch.randn(4, 16, 2)]


@pytest.fixture
def model() -> Graph:
    return FlowBuilder.start(nn.Linear(2, 16)).through(nn.GELU()).through(nn.Linear(16, 2)).build()


@pytest.fixture
def port() -> int:
    with closing(socket.socket()) as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def train_epoch(model: Graph, optimizer: torch.optim.Optimizer, batches: Batches) -> None:
    for inputs, target in batches:
        pred = model(inputs)
        loss = mse_loss(pred, target)

        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()

        model.record_scalar("loss", loss.item())


def pictures_of(monitor: Monitor) -> list[str]:
    return [record["svg"] for record in of_kind(monitor.run.dir, "graph")]


def page(url: str, path: str) -> tuple[int, str]:
    address = urlsplit(url)
    with closing(http.client.HTTPConnection(address.netloc, timeout=20)) as connection:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read().decode()


# Basic Usage


def test_basic_usage(model: Graph, batches: Batches, capsys: pytest.CaptureFixture[str]) -> None:
    params = list(model.parameters())
    optimizer = torch.optim.Adam(params, 0.01)
    model.train()

    num_epochs = 100
    monitor = Monitor(num_epochs)

    for epoch in range(num_epochs):
        t = time.perf_counter()
        train_epoch(model, optimizer, batches)
        model.flush([])
        monitor.log(epoch, time.perf_counter() - t, model)

    monitor.finish()

    shown = [line for line in capsys.readouterr().err.splitlines() if line.startswith("  ")]
    duration = r"\d+(ms|\.\ds|s)"
    gpu = r"(  GPU: .+)?"  # on a machine that has one
    assert re.fullmatch(
        rf"  epoch   1/100  loss=\d\.\d{{4}}  \[{duration}  ETA {duration}\]{gpu}", shown[0]
    )
    assert re.match(r"  epoch  50/100  loss=\S+  \[", shown[49])
    assert re.fullmatch(rf"  epoch 100/100  loss=\S+  \[{duration}\]{gpu}", shown[99])  # no ETA
    assert re.fullmatch(r"  training complete in \S+  \| loss: \S+", shown[100])
    losses = [record.metrics["loss"] for record in monitor.history()]
    assert losses[-1] < losses[0] / 2


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3 * 3600 + 12 * 60, "3h 12m"), (272, "4m 32s"), (12, "12s"), (0.42, "420ms")],
)
def test_the_eta_adapts_its_format(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


# Multiple Metrics


def test_multiple_metrics(model: Graph, capsys: pytest.CaptureFixture[str]) -> None:
    monitor, epoch, scheduler = Monitor(100), 41, CosineScheduler(0.001, 1e-6, 100)
    for loss, norm in ((0.0020, 0.40), (0.0026, 0.50)):
        model.record_scalar("loss", loss)
        model.record_scalar("grad_norm", norm)
        model.record_scalar("lr", scheduler.lr(epoch))
    model.flush([])
    monitor.log(epoch, 1.2, model)
    assert "epoch  42/100  loss=0.0023  grad_norm=0.4500  lr=" in capsys.readouterr().err
    assert model.latest_metrics()["grad_norm"] == pytest.approx(0.45)  # each tag's own mean

    # You can also pass metrics manually without a graph:
    avg_loss, lr = 0.5, 0.01
    monitor.log(epoch + 1, 1.2, [("loss", avg_loss), ("lr", lr)])
    monitor.finish()
    assert monitor.history()[-1].metrics == {"loss": 0.5, "lr": 0.01}


# Live Dashboard. How it works. Late join


def test_live_dashboard_replays_past_epochs_and_goes_on(port: int) -> None:
    num_epochs = 3
    monitor = Monitor(num_epochs)
    url = monitor.serve(port)  # http://localhost:port
    assert url is not None
    assert urlsplit(url).port == port

    status, html = page(url, "/")
    assert (status, html.lstrip()[:15].lower()) == (200, "<!doctype html>")
    assert not re.findall(r"<script[^>]+src=|<link[^>]+href=.?http", html)  # all inline

    monitor.log(0, 0.05, {"loss": 3.0})
    monitor.log(1, 0.05, {"loss": 2.0})
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request("GET", f"/events?run={monitor.run.id}")
        response = connection.getresponse()
        assert response.getheader("content-type", "").startswith("text/event-stream")
        events = events_of(response)
        assert [until(events, "epoch").data["epoch"] for _ in range(2)] == [1, 2]  # caught up
        monitor.log(2, 0.05, {"loss": 1.0})
        assert until(events, "epoch").data["metrics"] == {"loss": 1.0}  # and live
        monitor.finish()
        assert until(events, "complete").data["epochs"] == 3


# Embedding the graph


def test_embedding_the_graph(model: Graph, batches: Batches, port: int) -> None:
    num_epochs = 2
    monitor = Monitor(num_epochs)
    url = monitor.serve(port)
    monitor.watch(model)  # generates SVG, sends to the page
    (plain,) = pictures_of(monitor)
    assert plain.lstrip().startswith("<svg")
    assert url is not None
    assert page(url, f"/graph.svg?run={monitor.run.id}")[1] == plain

    # A heat map of times: enable profiling during training and use finish_with.
    model.enable_profiling()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for epoch in range(num_epochs):
        train_epoch(model, optimizer, batches)
        model.flush([])
        monitor.log(epoch, 0.1, model)
    monitor.watch_profiled(model)  # also mid-training
    monitor.finish_with(model)  # final SVG with times

    pictures = pictures_of(monitor)
    assert len(pictures) == 3
    assert all("ms" in picture or "µs" in picture for picture in pictures[1:])


# Resource Tracking


def test_resources_are_sampled_on_every_log_call(capsys: pytest.CaptureFixture[str]) -> None:
    with Monitor(2) as monitor:
        monitor.log(0, 0.1, {"loss": 1.0})
        monitor.log(1, 0.1, {"loss": 0.5})
    for record in monitor.history():
        assert record.resources.ram_used is not None
        assert record.resources.ram_total is not None
        assert 0 < record.resources.ram_used <= record.resources.ram_total
    if not torch.cuda.is_available():
        assert "VRAM" not in capsys.readouterr().err  # what is absent is left out
        assert monitor.history()[0].resources.vram_allocated_bytes is None


# VRAM metrics


def test_two_levels_of_cuda_memory() -> None:
    assert cuda_active_bytes() <= cuda_allocated_bytes()
    cuda_empty_cache()
    if not torch.cuda.is_available():
        assert cuda_allocated_bytes() == 0


# Accessing resource data


def test_accessing_resource_data(capsys: pytest.CaptureFixture[str]) -> None:
    with Monitor(1) as monitor:
        monitor.log(0, 0.1, {"loss": 1.0})
    for record in monitor.history():
        if (alloc := record.resources.vram_allocated_bytes) is not None:
            print(f"epoch {record.epoch}: VRAM {alloc} bytes")
    is_on_gpu = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    assert ("VRAM" in capsys.readouterr().out) == is_on_gpu


# Export: Dashboard archive, Training log, CSV


@pytest.fixture
def exported() -> Iterator[Monitor]:
    monitor = Monitor(100)
    monitor.save_html("training_report.html")  # set before training
    monitor.log(0, 0.049, {"loss": 1.5264})
    monitor.log(1, 0.028, {"loss": 1.1020})
    yield monitor
    monitor.finish()


def test_dashboard_archive(exported: Monitor) -> None:
    assert not Path("training_report.html").exists()
    exported.finish()  # writes the archive
    html = Path("training_report.html").read_text(encoding="utf-8")
    assert html.lstrip()[:15].lower() == "<!doctype html>"
    assert not re.findall(r"<script[^>]+src=", html)


def test_training_log(exported: Monitor) -> None:
    exported.write_log("training.log")
    assert Path("training.log").read_text().splitlines() == [
        "# epochal training log",
        "epoch   1/100  loss=1.5264  [49ms]",
        "epoch   2/100  loss=1.1020  [28ms]",
        "# total: 77ms",
    ]


def test_csv(exported: Monitor) -> None:
    exported.export_csv("training.csv")
    header, first, second = csv.reader(Path("training.csv").read_text().splitlines())
    assert ",".join(header) == (
        "epoch,duration_s,loss,cpu_pct,ram_used,gpu_pct,vram_alloc,vram_spill"
    )
    assert first[:3] == ["1", "0.049", "1.5264"]
    assert second[:3] == ["2", "0.028", "1.102"]


# Hierarchical Models (Graph Tree)


def test_hierarchical_models(capsys: pytest.CaptureFixture[str], port: int) -> None:
    subscan = FlowBuilder.start(nn.Linear(2, 8)).label("subscan").build()
    letter = FlowBuilder.start(nn.Linear(8, 2)).label("letter").build()
    model = FlowBuilder.start(subscan).through(letter).build()

    num_epochs = 1
    monitor = Monitor(num_epochs)
    monitor.serve(port)

    for epoch in range(num_epochs):
        for ce_value, acc, total in ((0.30, 0.86, 0.40), (0.32, 0.88, 0.44)):
            # ... forward, backward, step ...
            model.record_at("subscan.ce", ce_value)
            model.record_at("letter.accuracy", acc)
            model.record_scalar("total_loss", total)

        model.flush([])  # flushes parent + subscan + letter
        monitor.log(epoch, 1.2, model)
    monitor.finish()
    line = "total_loss=0.4200  subscan.ce=0.3100  letter.accuracy=0.8700"
    assert line in capsys.readouterr().err
    assert subscan.latest_metrics() == {"ce": pytest.approx(0.31)}

    # If child subgraphs flush on a different cadence, use flush_local().
    model.record_at("subscan.ce", 0.2)
    model.record_scalar("total_loss", 0.3)
    model.flush_local([])
    assert model.latest_metrics()["total_loss"] == 0.3
    assert model.latest_metrics()["subscan.ce"] == pytest.approx(0.31)


# Monitor vs. Graph Observation. Using both together


def test_using_both_together(model: Graph, batches: Batches, port: int) -> None:
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    num_epochs = 15
    scheduler = CosineScheduler(0.01, 1e-6, num_epochs)
    monitor = Monitor(num_epochs)
    monitor.serve(port)
    monitor.watch(model)

    for epoch in range(num_epochs):
        t = time.perf_counter()
        train_epoch(model, optimizer, batches)

        # Observation: flush the batch buffer into the epoch history
        model.flush([])

        # Training decisions use trends as usual
        if model.trend("loss").stalled(10, 1e-4):
            set_lr(optimizer, scheduler.lr(epoch))

        # Monitor: graph metrics and extras in one call
        monitor.log(epoch, time.perf_counter() - t, (model, [("lr", scheduler.lr(epoch))]))

    monitor.finish_with(model)  # final SVG
    assert list(monitor.history()[-1].metrics) == ["loss", "lr"]
    assert len(model.trend("loss")) == num_epochs  # log flushed nothing of its own
    assert len(pictures_of(monitor)) == 2


def test_log_accepts_several_forms(model: Graph) -> None:
    model.record_scalar("loss", 0.5)
    model.flush([])
    val, lr = 0.25, 0.1
    with Monitor(3) as monitor:
        # Plain metrics — no graph:
        monitor.log(0, 0.1, [("loss", val), ("lr", lr)])
        # Graph only — all recorded metrics:
        monitor.log(1, 0.1, model)
        # Graph + extras — recorded metrics plus additional values:
        monitor.log(2, 0.1, (model, [("lr", lr)]))
    assert [dict(one.metrics) for one in monitor.history()] == [
        {"loss": 0.25, "lr": 0.1},
        {"loss": 0.5},
        {"loss": 0.5, "lr": 0.1},
    ]
