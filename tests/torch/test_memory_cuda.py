"""What only a GPU can show of memory: the whole device is accounted for, and nothing waits."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn

from epochal.torch.memory import memory_guard, memory_segments, watch_memory
from tests.conftest import StartRun
from tests.doubles.journals import of_kind

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

MIB = 2**20


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    model = nn.Sequential(*(nn.Linear(1024, 1024, bias=False) for _ in range(4))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(8192, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    return model, optimizer


def test_the_segments_add_up_to_the_device() -> None:
    model, optimizer = trained()
    memory = memory_segments(model, optimizer)
    assert memory.gpu == torch.cuda.current_device()
    assert sum(segment.device for segment in memory) == memory.capacity
    sizes = {segment.name: segment.device for segment in memory}
    assert sizes["weights"] == sizes["gradients"] == 16 * MIB
    assert sizes["optimizer"] >= 32 * MIB
    assert sizes["activations"] >= 4 * 32 * MIB


def test_what_lies_in_main_memory_stands_apart() -> None:
    model, _ = trained()
    model.register_buffer("offloaded", torch.zeros(MIB, dtype=torch.uint8).pin_memory())
    model.register_buffer("paged", torch.zeros(MIB, dtype=torch.uint8))
    weights = next(segment for segment in memory_segments(model) if segment.name == "weights")
    assert (weights.device, weights.pinned, weights.pageable) == (16 * MIB, MIB, MIB)


def test_nothing_is_allocated_and_nothing_waits(start_run: StartRun) -> None:
    run = start_run()
    model, optimizer = trained()
    watch_memory(model, run, every=1)
    model(torch.ones(8, 1024, device="cuda")).square().mean().backward()
    before = torch.cuda.memory_allocated()
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        optimizer.step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.cuda.memory_allocated() == before
    run.finish()
    assert of_kind(run.dir, "allocator")[0]["id"] == torch.cuda.current_device()


def test_a_real_out_of_memory_error_is_explained_without_allocating(start_run: StartRun) -> None:
    run = start_run()
    model, optimizer = trained()
    gc.collect()  # what earlier tests left must not be freed in between
    before = torch.cuda.memory_allocated()
    with pytest.raises(torch.OutOfMemoryError), memory_guard(run, model, optimizer):
        torch.empty(2**45, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() == before
    (event,) = of_kind(run.dir, "event")
    assert (event["device"], event["asked"]) == ("cuda:0", 2**45)
    assert event.get("report") is None
    assert event["allocated"] == before <= event["reserved"]
    text = of_kind(run.dir, "text")[0]["text"]
    assert "[Out of memory on cuda:0]" in text
    assert "optimizer" in text
