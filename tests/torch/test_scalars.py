"""Logging CUDA values without waiting for them; everything here needs a GPU but the last tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from epochal.errors import RunFinishedError, UsageError
from epochal.journal.reader import read_journal
from epochal.run.run import Run, recorder_of
from epochal.torch import scalars
from epochal.torch.measure import HostCopy
from tests.conftest import StartRun

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


@pytest.fixture
def no_sync() -> Iterator[None]:
    """Any call that waits for the device is an error."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


def metrics_of(run: Run) -> list[dict[str, Any]]:
    return [
        record for _, record in read_journal(recorder_of(run).folder) if record["log"] == "metrics"
    ]


def values_of(run: Run, name: str) -> list[Any]:
    return [record["m"][name] for record in metrics_of(run)]


@needs_gpu
@pytest.mark.cuda
@pytest.mark.usefixtures("no_sync")
def test_a_training_loop_that_logs_every_step_never_waits(start_run: StartRun) -> None:
    run = start_run()
    model = torch.nn.Linear(256, 256, device="cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.ones(64, 256, device="cuda")
    for step in range(50):
        loss = model(inputs).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        run.log({"loss": loss, "norm": norm, "lr": 0.01}, step=step)
    torch.cuda.set_sync_debug_mode("default")
    run.finish()
    losses = values_of(run, "loss")
    assert len(losses) == 50
    assert losses[-1] < losses[0]
    assert [record["step"] for record in metrics_of(run)] == list(range(50))


@needs_gpu
@pytest.mark.cuda
def test_a_later_write_in_place_does_not_change_what_was_logged(start_run: StartRun) -> None:
    run = start_run()
    value = torch.zeros((), device="cuda")
    for number in range(100):
        value.fill_(number)
        run.log({"x": value}, step=number)
    value.fill_(-1)
    run.finish()
    assert values_of(run, "x") == list(range(100))


@needs_gpu
@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_every_float_type_comes_back(start_run: StartRun, dtype: torch.dtype) -> None:
    run = start_run()
    run.log({"x": torch.tensor(1.5, dtype=dtype, device="cuda", requires_grad=True) * 2})
    run.finish()
    assert values_of(run, "x") == [3.0]


@needs_gpu
@pytest.mark.cuda
def test_types_and_plain_numbers_mix_in_one_call(start_run: StartRun) -> None:
    run = start_run()
    run.log(
        {
            "a": torch.tensor(0.1, dtype=torch.float64, device="cuda"),
            "b": {"c": torch.tensor(7, device="cuda"), "d": 2.5},
            "e": torch.tensor(float("nan"), device="cuda"),
            "f": torch.tensor([4.0], device="cuda"),
        }
    )
    run.finish()
    (record,) = metrics_of(run)
    assert record["m"] == {"a": 0.1, "b.c": 7, "b.d": 2.5, "e": None, "f": 4.0}
    assert record["nonfinite"] == {"e": "nan"}


@needs_gpu
@pytest.mark.cuda
@pytest.mark.usefixtures("no_sync")
def test_typed_steps_wait_for_nothing_either(start_run: StartRun) -> None:
    run = start_run()
    loss = torch.full((), 2.5, device="cuda")
    run.log_step(3, 0.5, 1024, 10, loss * 2, loss, 1e-3)
    torch.cuda.set_sync_debug_mode("default")
    run.finish()
    (step,) = [
        record for _, record in read_journal(recorder_of(run).folder) if record["log"] == "step"
    ]
    assert (step["loss"], step["norm"]) == (2.5, 5.0)


@needs_gpu
@pytest.mark.cuda
def test_the_last_values_are_written_without_another_call(start_run: StartRun) -> None:
    run = start_run()
    run.log({"x": torch.ones((), device="cuda")})
    torch.cuda.synchronize()
    for _ in range(200):
        if metrics_of(run):
            break
        threading_pause()
    assert values_of(run, "x") == [1.0]


@needs_gpu
@pytest.mark.cuda
def test_several_streams_each_keep_their_own_value(start_run: StartRun) -> None:
    run = start_run()
    streams = [torch.cuda.Stream() for _ in range(4)]  # type: ignore[no-untyped-call]
    for number, stream in enumerate(streams):
        with torch.cuda.stream(stream):
            run.log({"x": torch.full((), float(number), device="cuda")}, step=number)
    run.finish()
    found = {record["step"]: record["m"]["x"] for record in metrics_of(run)}
    assert found == {0: 0.0, 1: 1.0, 2: 2.0, 3: 3.0}


@needs_gpu
@pytest.mark.cuda
def test_a_replayed_graph_is_logged_after_each_replay_and_never_inside(start_run: StartRun) -> None:
    run = start_run()
    counter = torch.zeros((), device="cuda")
    counter.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        counter.add_(1)
        with pytest.raises(UsageError, match="captured"):
            run.log({"x": counter})
    for step in range(5):
        graph.replay()
        run.log({"x": counter}, step=step)
    run.finish()
    assert values_of(run, "x") == [2.0, 3.0, 4.0, 5.0, 6.0]


@needs_gpu
@pytest.mark.cuda
def test_many_pending_values_are_bounded_and_all_arrive(start_run: StartRun) -> None:
    run = start_run()
    big = torch.ones(4096, 4096, device="cuda")
    for _ in range(20):
        big = big @ big * 0.0
    for step in range(6000):
        run.log({"x": big[0, 0]}, step=step)
    run.finish()
    assert len(metrics_of(run)) == 6000


@needs_gpu
@pytest.mark.cuda
def test_a_compiled_step_may_log(start_run: StartRun) -> None:
    run = start_run()

    @torch.compile(backend="eager")
    def step(x: torch.Tensor) -> torch.Tensor:
        y = x.square().sum()
        run.log({"y": y})
        return y + 1

    assert step(torch.ones(3, device="cuda")).item() == 4.0
    run.finish()
    assert values_of(run, "y") == [3.0]


def test_a_compiled_step_may_log_on_the_cpu_too(start_run: StartRun) -> None:
    run = start_run()

    @torch.compile(backend="eager")
    def step(x: torch.Tensor) -> torch.Tensor:
        y = x.square().sum()
        run.log({"y": y})
        return y + 1

    assert step(torch.ones(3)).item() == 4.0
    run.finish()
    assert values_of(run, "y") == [3.0]


def test_cpu_tensors_are_read_at_once(start_run: StartRun) -> None:
    run = start_run()
    run.log({"x": torch.tensor(1.5, dtype=torch.bfloat16, requires_grad=True) * 2})
    assert values_of(run, "x") == [3.0]


def threading_pause() -> None:
    import threading

    threading.Event().wait(0.05)


def histograms_of(run: Run) -> list[dict[str, Any]]:
    return [
        record
        for _, record in read_journal(recorder_of(run).folder)
        if record["log"] == "histogram"
    ]


@needs_gpu
@pytest.mark.cuda
@pytest.mark.usefixtures("no_sync")
def test_arrays_become_histograms_without_waiting(start_run: StartRun) -> None:
    run = start_run()
    weights = torch.randn(512, 512, device="cuda", requires_grad=True)
    large = torch.randn(3000, 1000, device="cuda", dtype=torch.bfloat16)
    one = torch.ones((), device="cuda")
    for step in range(5):
        metrics: dict[str, Any] = {
            "loss": one * step,
            "w": weights,
            "t": weights.T,
            "both": [one, one + 2, 7.0],
        }
        run.log({**metrics, "large": large}, step=step)
        recorder_of(run).write_histogram("h", weights * step, step, bins=10)
    torch.cuda.set_sync_debug_mode("default")
    run.finish()
    assert values_of(run, "loss") == [0.0, 1.0, 2.0, 3.0, 4.0]
    found = histograms_of(run)
    assert len(found) == 25
    by_name = {record["name"]: record for record in found}
    assert by_name["w"]["count"] == by_name["t"]["count"] == 512 * 512
    assert (by_name["both"]["count"], by_name["both"]["min"], by_name["both"]["max"]) == (3, 1, 7)
    assert by_name["large"]["count"] == 999_983
    assert by_name["large"]["sampled_from"] == 3_000_000
    assert len(by_name["h"]["counts"]) == 10
    assert recorder_of(run).values.dropped == {}


@needs_gpu
@pytest.mark.cuda
@pytest.mark.parametrize(
    "values",
    [
        [0.0, 1.0, 2.0, 3.0],
        [5.0, 5.0, 5.0],
        [float("nan"), 1.0, float("inf"), -2.0],
        [float("nan"), float("nan")],
        [1.0, 1.0 + 1e-16, 1.0 + 2e-16],
        [7.0],
    ],
)
def test_a_histogram_of_the_gpu_is_that_of_the_host(
    start_run: StartRun, values: list[float]
) -> None:
    run = start_run()
    tensor = torch.tensor(values, dtype=torch.float64)
    recorder_of(run).write_histogram("host", tensor, 0)
    recorder_of(run).write_histogram("gpu", tensor.cuda(), 0)
    run.finish()
    host, gpu = histograms_of(run)
    for name in ("counts", "count", "lo", "hi", "min", "max", "nonfinite_count"):
        assert gpu.get(name) == pytest.approx(host.get(name)), name
    for name in ("mean", "std"):
        same = None if host.get(name) is None else pytest.approx(host[name], rel=1e-12)
        assert gpu.get(name) == same, name


@needs_gpu
@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool])
def test_a_histogram_takes_every_type(start_run: StartRun, dtype: torch.dtype) -> None:
    run = start_run()
    recorder_of(run).write_histogram(
        "w", torch.tensor([0, 1, 1, 1], device="cuda").to(dtype), 0, bins=2
    )
    run.finish()
    assert histograms_of(run)[0]["counts"] == [1, 3]


@needs_gpu
@pytest.mark.cuda
def test_what_is_no_number_on_a_gpu_is_left_out(start_run: StartRun) -> None:
    run = start_run()
    run.log({"c": torch.ones(3, device="cuda", dtype=torch.complex64), "ok": 1.0})
    run.log({"e": torch.empty(0, device="cuda"), "i": torch.tensor(1j, device="cuda"), "ok": 2.0})
    run.finish()
    assert values_of(run, "ok") == [1.0, 2.0]
    assert len(histograms_of(run)) == 0
    assert set(recorder_of(run).values.dropped) == {"c", "e", "i"}


class Event:
    """Stands for an event of the GPU: its work is done, or has failed."""

    def __init__(self, *, failed: bool = False) -> None:
        self._failed = failed

    def query(self) -> bool:
        if self._failed:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")
        return True

    def synchronize(self) -> None:
        self.query()


def pending(step: int, *, failed: bool = False) -> scalars._Pending:
    event: Any = Event(failed=failed)
    place = scalars._Place("m", "x", None)
    arriving = ((place,), HostCopy({"values": torch.full((1,), float(step))}, (event,)))
    return scalars._Pending({"log": "metrics", "step": step, "m": {"x": None}}, (arriving,))


def test_a_fault_in_writing_a_record_is_no_fault_of_the_gpu() -> None:
    written: list[Any] = []
    lost: list[tuple[int, str]] = []

    def write(record: dict[str, Any]) -> None:
        if record["step"] == 1:
            raise RunFinishedError("run 'x' is finished")
        written.append(record["m"]["x"])

    reader = scalars.CudaReader(write, lambda count, reason: lost.append((count, reason)))
    reader._pending.extend(pending(step) for step in range(4))
    reader.flush()
    assert written == [0.0, 2.0, 3.0]
    assert lost == [(1, "RunFinishedError: run 'x' is finished")]


def test_a_gpu_that_failed_loses_what_it_had_not_computed() -> None:
    written: list[Any] = []
    lost: list[tuple[int, str]] = []
    reader = scalars.CudaReader(written.append, lambda count, reason: lost.append((count, reason)))
    reader._pending.extend([pending(0), pending(1, failed=True), pending(2)])
    reader.flush()
    assert [record["step"] for record in written] == [0]
    assert [count for count, _ in lost] == [2]
    assert "illegal memory access" in lost[0][1]


def test_values_that_are_lost_after_the_end_are_said(
    start_run: StartRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = start_run()
    run.finish()
    reader = scalars.CudaReader(recorder_of(run).write_arrived, recorder_of(run).report_lost)
    reader._pending.append(pending(0))
    reader.flush()
    assert "1 records whose values never came: RunFinishedError" in capsys.readouterr().err
