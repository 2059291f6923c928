from __future__ import annotations

import gc
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

from epochal.console.blocks import Segment
from epochal.errors import ValueTypeError
from epochal.records import scalars_of
from epochal.torch.memory.account import memory_report
from epochal.torch.memory.advice import memory_advice
from epochal.torch.memory.segments import MemorySegments, memory_segments
from epochal.torch.memory.storages import storages_of
from epochal.torch.memory.watch import watch_memory
from tests.conftest import StartRun
from tests.doubles.journals import of_kind

GIB = 2**30


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
    assert resident == pytest.approx(psutil.Process().memory_info().rss, rel=0.05)


def test_the_segments_of_a_cpu_add_up_to_the_machine() -> None:
    memory = memory_segments(nn.Linear(8, 8))
    assert sum(segment.pageable for segment in memory) == memory.capacity
    assert memory.bytes_of("system") > 0


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


def test_other_tensors_that_are_alive_are_activations() -> None:
    model = nn.Linear(2, 2)
    gc.collect()
    before = memory_segments(model).bytes_of("activations")
    kept = torch.zeros(1000)
    assert memory_segments(model).bytes_of("activations") == before + 4000
    del kept


def test_what_has_no_values_takes_no_memory() -> None:
    with torch.device("meta"):
        model = nn.Linear(8, 8)
    names = [s.name for s in memory_segments(model)]
    assert names == ["activations", "other", "system", "free"]


def test_sparse_tensors_count_all_their_parts() -> None:
    sparse = torch.eye(3).to_sparse()
    assert [one.bytes for one in storages_of(sparse)] == [2 * 3 * 8, 3 * 4]


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
def test_compressed_tensors_count_all_their_parts() -> None:
    rows, columns = torch.arange(4), torch.arange(3)
    compressed = torch.sparse_csr_tensor(
        rows, columns, torch.ones(3), size=(3, 3), check_invariants=True
    )
    assert sum(one.bytes for one in storages_of(compressed)) == 4 * 8 + 3 * 8 + 3 * 4


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


@pytest.mark.parametrize("optimizer", [3, [torch.optim.SGD([torch.ones(1)]), "adam"]])
def test_an_optimizer_must_be_one(optimizer: Any) -> None:
    with pytest.raises(ValueTypeError, match="optimizer must be a torch optimizer, or several"):
        memory_segments(nn.Linear(2, 2), optimizer)


def test_places_where_nothing_is_make_no_series(start_run: StartRun) -> None:
    run, model = start_run(), nn.Linear(8, 8)
    run.log_allocator(memory_segments(model, trained(model, width=8)))
    (record,) = of_kind(run.dir, "allocator")
    assert {name.rpartition("/")[2] for name, _ in scalars_of(record)} == {"pageable"}


def test_a_report_names_the_largest_tensors() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 2))
    report = memory_report(model, trained(model), top=1)
    lines = str(report).splitlines()
    assert lines[0].startswith("[Memory of cpu, ")
    rows = [" ".join(line.split()) for line in lines]
    assert "weights 0.weight 16.0 KiB 64×64 float32" in rows
    assert any(line.startswith("  optimizer 0.weight.exp_avg ") for line in lines)


def full_of(name: str, share: float, *, free: float = 0.1) -> MemorySegments:
    used = Segment(name, device=int(share * 80 * GIB))
    left = Segment("free", device=int(free * 80 * GIB))
    return MemorySegments("cuda:0", 0, 80 * GIB, (used, left), ())


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("activations", "activation checkpointing"),
        ("optimizer", "8 bits"),
        ("weights", "bfloat16"),
        ("gradients", "set_to_none=True"),
        ("reserved", "expandable_segments"),
        ("other", "nvidia-smi"),
    ],
)
def test_what_takes_much_of_a_device_is_advised_on(name: str, words: str) -> None:
    (sentence,) = memory_advice(full_of(name, 0.5))
    assert words in sentence
    assert "40.0 GiB (50%)" in sentence
    assert memory_advice(full_of(name, 0.08)) == []


def test_advice_looks_at_what_is_left() -> None:
    assert "may be too much" in memory_advice(full_of("weights", 0.3, free=0.01))[0]
    assert "larger batch would fit" in memory_advice(full_of("weights", 0.3, free=0.6))[0]
    assert "Nothing stands out" in memory_advice(full_of("weights", 0.3), is_full=True)[0]


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
    assert names == {"weights", "gradients", "optimizer", "activations", "other", "system", "free"}
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
