"""Memory by segment, recorded while a model trains, and explained when it runs out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from epochal.errors import ValueTypeError
from epochal.torch.memory import (
    MemorySegments,
    find_fault,
    memory_guard,
    memory_segments,
    storages_of,
    watch_memory,
)
from tests.conftest import StartRun
from tests.doubles.journals import of_kind, records
from tests.doubles.scripts import run_folder, run_script


def trained(model: nn.Module, width: int = 64) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(4, width)).square().sum().backward()
    optimizer.step()
    return optimizer


def host_bytes(memory: MemorySegments, name: str) -> int:
    return sum(segment.pageable for segment in memory if segment.name == name)


def test_weights_gradients_and_optimizer_are_counted() -> None:
    model = nn.Linear(64, 64, bias=False)
    memory = memory_segments(model, trained(model))
    size = 64 * 64 * 4
    assert host_bytes(memory, "weights") == host_bytes(memory, "gradients") == size
    assert host_bytes(memory, "optimizer") == 2 * size + 4  # two moments, and a step
    assert (memory.gpu, memory.device) == (None, "cpu")


def test_the_segments_of_a_process_are_its_resident_memory() -> None:
    import psutil

    model = nn.Linear(8, 8)
    memory = memory_segments(model)
    resident = sum(s.pageable for s in memory if s.name not in ("system", "free"))
    assert sum(segment.pageable for segment in memory) == memory.capacity
    assert resident == pytest.approx(psutil.Process().memory_info().rss, rel=0.05)


def test_tied_weights_and_views_count_once() -> None:
    model = nn.ModuleList([nn.Linear(64, 64, bias=False) for _ in range(2)])
    model[1].weight = model[0].weight
    whole = torch.zeros(4, 256)
    model.register_buffer("first", whole[:2])
    model.register_buffer("second", whole[2:])
    assert host_bytes(memory_segments(model), "weights") == 64 * 64 * 4 + 4 * 256 * 4


def test_adapters_and_quantised_weights_are_segments_of_their_own() -> None:
    model = nn.Module()
    model.base = nn.Parameter(torch.zeros(1000, dtype=torch.uint8), requires_grad=False)
    model.lora_A = nn.Linear(8, 4, bias=False)
    model.head = nn.Linear(8, 8, bias=False)
    memory = memory_segments(model)
    sizes = {s.name: s.pageable for s in memory}
    assert (sizes["qlora"], sizes["lora"], sizes["weights"]) == (1000, 8 * 4 * 4, 8 * 8 * 4)


def test_what_has_no_values_takes_no_memory() -> None:
    with torch.device("meta"):
        model = nn.Linear(8, 8)
    names = [s.name for s in memory_segments(model)]
    assert names == ["other", "system", "free"]


def test_sparse_tensors_count_all_their_parts() -> None:
    sparse = torch.eye(3).to_sparse()
    assert [one.bytes for one in storages_of(sparse)] == [2 * 3 * 8, 3 * 4]


def test_of_a_sharded_tensor_this_process_has_its_part(tmp_path: Path) -> None:
    dist.init_process_group("gloo", f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        part = distribute_tensor(torch.ones(10, 10), mesh, [Shard(0)])
        (storage,) = storages_of(part)
        assert storage.bytes == 400
    finally:
        dist.destroy_process_group()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 10)), max_size=6))
def test_however_a_storage_is_cut_it_counts_once(cuts: list[tuple[int, int]]) -> None:
    whole = torch.zeros(20)
    views = [whole[start : start + length] for start, length in cuts]
    keys = {one.key: one.bytes for view in [whole, *views] for one in storages_of(view)}
    assert list(keys.values()) == [80]


def test_a_model_must_be_a_module() -> None:
    wrong: Any = {"weight": torch.zeros(1)}
    with pytest.raises(ValueTypeError, match="model must be a torch module, got dict"):
        memory_segments(wrong)


def test_memory_is_recorded_at_its_cadence(start_run: StartRun) -> None:
    run, model = start_run(), nn.Linear(8, 8)
    watch_memory(model, run, every=2)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.ones(1, 8)).sum().backward()
        optimizer.step()
    run.finish()
    records = of_kind(run.dir, "allocator")
    assert [one["step"] for one in records] == [0, 2, 4]
    names = {segment["name"] for segment in records[0]["stats"]}
    assert names == {"weights", "gradients", "optimizer", "other", "system", "free"}
    assert "id" not in records[0]


@pytest.mark.parametrize("num_steps", [1, 5])
def test_a_resumed_loop_says_where_it_goes_on(start_run: StartRun, num_steps: int) -> None:
    killed, model = start_run(), nn.Linear(8, 8)
    killed.log({"loss": 1.0}, step=23)
    killed.finish("crashed")
    run = start_run(resume="must")
    watch_memory(model, run, every=4)
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(12, 12 + num_steps):
        optimizer.step()
        run.log({"loss": 1.0}, step=step)
    run.finish()
    steps = [one["step"] for one in of_kind(run.dir, "allocator")]
    assert steps == list(range(12, 12 + num_steps, 4))


def test_the_state_of_every_optimizer_counts(start_run: StartRun) -> None:
    run, model = start_run(), nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
    watch_memory(model, run, every=1)
    optimizers = [torch.optim.AdamW(part.parameters()) for part in model]
    for _ in range(2):
        model(torch.ones(1, 8)).sum().backward()
        for optimizer in optimizers:
            optimizer.step()
    run.finish()
    sizes = [
        next(s["pageable"] for s in one["stats"] if s["name"] == "optimizer")
        for one in of_kind(run.dir, "allocator")
    ]
    assert sizes[1] == 2 * sizes[0]


def test_the_block_is_printed_once(start_run: StartRun, capsys: pytest.CaptureFixture[str]) -> None:
    run, model = start_run(console=True), nn.Linear(8, 8)
    for step in range(3):
        run.log_allocator(memory_segments(model), step=step)
    run.finish()
    assert capsys.readouterr().err.count("[Allocator]") == 1


def test_what_stands_for_a_tensor_while_a_model_is_compiled_has_no_memory() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        stands_for = torch.empty(4, 4)
    assert list(storages_of(stands_for)) == []


def test_without_cuda_started_nothing_is_held_and_nothing_is_started() -> None:
    script = (
        "import torch; from epochal.torch import *\n"
        "print(cuda_active_bytes(), cuda_allocated_bytes(), cuda_peak_active_bytes(),\n"
        "      cuda_peak_reserved_bytes(), cuda_reset_peak_stats(),\n"
        "      cuda_empty_cache(), torch.cuda.is_initialized())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["0"] * 4 + ["None", "None", "False"]


# -- out of memory --------------------------------------------------------------------------------

_SCRIPT = """
import torch
from torch import nn
torch.set_num_threads(1)

def forward(model, batch):
    hidden = model(batch)
    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has ...")

def train(run):
    model = nn.Linear(64, 64)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 64)).sum().backward()
    optimizer.step()
    run.log({"loss": 1.0}, step=7)
    forward(model, torch.ones(512, 64))

"""


def test_an_error_that_ends_the_run_is_explained_in_it(tmp_path: Path) -> None:
    code, _, err = run_script(tmp_path, f"{_SCRIPT}train(start())")
    assert code == 1
    assert err.rstrip().endswith("GPU 0 has ...")
    assert "epochal: out of memory on cpu: 1.5 GiB more were requested at <string>:" in err
    folder = run_folder(tmp_path)
    event, exception = of_kind(folder, "event")
    assert (event["name"], event["asked"], event["step"]) == ("out-of-memory", 3 * 2**29, 7)
    assert event["total"] > event["free"] > 0
    assert exception["name"] == "exception"
    (text,) = of_kind(folder, "text")
    assert text["name"] == "out-of-memory"
    for words in ("  asked for    1.5 GiB", "[Memory", "optimizer"):
        assert words in text["text"]
    assert [one["log"] for one in records(folder)][-4:] == ["event", "text", "event", "finish"]


def test_an_error_that_is_caught_is_explained_by_the_guard(start_run: StartRun) -> None:
    run, model = start_run(), nn.Linear(8, 8)
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError), memory_guard(run, model):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
    run.log({"loss": 1.0})
    run.finish()
    assert [one["name"] for one in of_kind(run.dir, "event")] == ["out-of-memory"] * 2
    assert "weights" in of_kind(run.dir, "text")[0]["text"]


def test_one_error_is_explained_once_also_inside_another(start_run: StartRun) -> None:
    run = start_run()
    cause = torch.OutOfMemoryError("CUDA out of memory.")
    with pytest.raises(RuntimeError, match="wrapped"), run, memory_guard(run, nn.Linear(2, 2)):
        raise RuntimeError("wrapped") from cause
    names = [one["name"] for one in of_kind(run.dir, "event")]
    assert names == ["out-of-memory", "exception"]


def test_other_errors_are_left_alone(start_run: StartRun) -> None:
    run = start_run()
    with pytest.raises(RuntimeError), memory_guard(run, nn.Linear(2, 2)):
        raise RuntimeError("shapes do not match")
    with memory_guard(run):
        pass
    assert of_kind(run.dir, "event") == []


@pytest.mark.parametrize(
    ("error", "asked"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB."), 20 * 2**20),
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 512 bytes."), 512),
        (
            RuntimeError(
                "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."
            ),
            8,
        ),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), None),
        (MemoryError(), None),
    ],
)
def test_what_was_asked_for_is_read_from_the_error(error: Exception, asked: int | None) -> None:
    fault = find_fault(error)
    assert fault is not None
    assert (fault.asked, str(fault.device)) == (asked, "cpu")


def test_a_real_allocation_that_is_too_large_is_known(start_run: StartRun) -> None:
    run = start_run()
    with pytest.raises(RuntimeError), memory_guard(run, nn.Linear(2, 2)):
        torch.empty(2**60, dtype=torch.uint8)
    (event,) = of_kind(run.dir, "event")
    assert event["asked"] == 2**60
    assert "[Memory" in of_kind(run.dir, "text")[0]["text"]
