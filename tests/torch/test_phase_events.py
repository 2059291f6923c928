"""Phases where a GPU works: nothing waits for it, and its own time is what is told."""

from __future__ import annotations

import time

import pytest
import torch

from epochal.torch.scalars import open_clock
from tests.conftest import StartRun
from tests.doubles.journals import of_kind

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


@pytest.fixture
def busy() -> torch.Tensor:
    """A matrix whose square takes a GPU about a millisecond."""
    return torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)


def test_without_a_gpu_in_use_there_is_no_clock_of_one() -> None:
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        pytest.skip("this process has used its GPU")
    assert open_clock() is None


def test_a_compiled_step_may_have_phases(start_run: StartRun) -> None:
    run = start_run()

    @torch.compile(backend="eager")
    def step(x: torch.Tensor) -> torch.Tensor:
        with run.phase("forward"):
            y = x.square().sum()
        run.event("computed")
        return y + 1

    for _ in range(3):
        assert step(torch.ones(3)).item() == 4.0
        run.log({"loss": 1.0})
    run.finish()
    assert len(of_kind(run.dir, "event")) == 3
    assert "phase/forward" in of_kind(run.dir, "phases")[0]["m"]


@needs_gpu
@pytest.mark.cuda
def test_the_time_is_the_gpu_s_and_nothing_waits(start_run: StartRun, busy: torch.Tensor) -> None:
    run = start_run()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for step in range(30):
            with run.phase("data"):
                pass
            with run.phase("forward"):
                for _ in range(20):
                    busy @ busy
            run.log({"loss": 1.0}, step=step)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    run.finish()
    (record,) = of_kind(run.dir, "phases")
    assert record["clock"] == "gpu"
    assert record["m"]["phase/forward"] > 10 * record["m"]["phase/data"]
    assert record["m"]["phase/forward"] > record["host_ms"]["forward"]
    assert record["host_bound"] < 0.5


@needs_gpu
@pytest.mark.cuda
def test_waiting_that_the_gpu_does_not_notice_is_not_told(
    start_run: StartRun, busy: torch.Tensor
) -> None:
    run = start_run()
    for step in range(20):
        with run.phase("forward"):
            for _ in range(60):
                busy @ busy
        with run.phase("data"):
            time.sleep(0.001)
        run.log({"loss": 1.0}, step=step)
    run.finish()
    (record,) = of_kind(run.dir, "phases")
    assert record["host_ms"]["data"] >= 1.0
    assert record["m"]["phase/data"] < 0.5


@needs_gpu
@pytest.mark.cuda
def test_waiting_that_holds_the_gpu_up_is(start_run: StartRun, busy: torch.Tensor) -> None:
    run = start_run()
    for step in range(20):
        with run.phase("data"):
            time.sleep(0.03)
        with run.phase("forward"):
            busy @ busy
        run.log({"loss": 1.0}, step=step)
    run.finish()
    (record,) = of_kind(run.dir, "phases")
    assert record["m"]["phase/data"] > 20.0


@needs_gpu
@pytest.mark.cuda
def test_phases_inside_one_another_share_the_gpu_s_time(
    start_run: StartRun, busy: torch.Tensor
) -> None:
    run = start_run()
    for step in range(20):
        with run.phase("step"):
            busy @ busy
            with run.phase("inner"):
                for _ in range(40):
                    busy @ busy
        run.log({"loss": 1.0}, step=step)
    run.finish()
    means = of_kind(run.dir, "phases")[0]["m"]
    assert means["phase/inner"] > 5 * means["phase/step"]


@needs_gpu
@pytest.mark.cuda
def test_a_graph_may_be_captured_inside_a_phase(start_run: StartRun, busy: torch.Tensor) -> None:
    run = start_run()
    for step in range(3):
        with run.phase("forward"):
            busy @ busy
        run.log({"loss": 1.0}, step=step)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph), run.phase("forward"), run.phase("inner"):
        out = busy @ busy
    graph.replay()
    run.log({"loss": 1.0}, step=3)
    with run.phase("forward"):
        graph.replay()
    run.finish()
    assert out.isfinite().all()
    assert of_kind(run.dir, "phases")
