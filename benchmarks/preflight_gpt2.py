"""What `preflight` answers, takes and needs for GPT-2 124M on a GPU.

    python -m benchmarks.preflight_gpt2 [--batch 16] [--compiled] [--float32]
    torchrun --nproc-per-node 2 -m benchmarks.preflight_gpt2 --gloo

One step of the same training is measured first: its peak of memory is what the peak of preflight is
compared with. With `--gloo` two processes wrap the model with DDP, on one GPU as well, and the
second asks alone; both leave the group afterwards. Prints one JSON object at the end.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

import epochal
from benchmarks.gpt2_model import CONTEXT, GPT2, VOCABULARY

Batch = list[torch.Tensor]


def forward(model: Any, batch: Batch, *, is_short: bool = True) -> torch.Tensor:
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=is_short):
        loss: torch.Tensor = model(*batch)
    return loss


def batches(size: int) -> DataLoader[Any]:
    text = torch.randint(VOCABULARY, (16 * size, CONTEXT + 1))
    return DataLoader(TensorDataset(text[:, :-1].contiguous(), text[:, 1:].contiguous()), size)


def peak_of_step(model: Any, batch: Batch, optimizer: Any, *, is_short: bool) -> tuple[int, float]:
    """The peak of memory and the seconds of a second step; the first one allocates the state."""
    for _ in range(2):
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        forward(model, batch, is_short=is_short).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        seconds = time.perf_counter() - began
    return torch.cuda.max_memory_allocated(), seconds


def fresh(options: argparse.Namespace) -> tuple[Any, Any]:
    torch.manual_seed(0)
    model: Any = GPT2().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, fused=True)
    if options.compiled:
        model = torch.compile(model)
    if options.gloo:
        model = torch.nn.parallel.DistributedDataParallel(model)
    return model, optimizer


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--float32", action="store_true", help="without autocast to bfloat16")
    parser.add_argument("--gloo", action="store_true", help="the second of two processes asks")
    options = parser.parse_args()
    if options.gloo:
        dist.init_process_group("gloo")
    torch.set_float32_matmul_precision("high")
    loader = batches(options.batch)
    batch = [part.to("cuda") for part in next(iter(loader))]
    is_short = not options.float32
    model, optimizer = fresh(options)
    step_bytes, step_s = peak_of_step(model, batch, optimizer, is_short=is_short)
    del model, optimizer
    torch.cuda.empty_cache()
    model, optimizer = fresh(options)
    if not options.gloo or dist.get_rank() == 1:
        torch.cuda.reset_peak_memory_stats()
        began = time.perf_counter()
        result = epochal.preflight(
            model,
            batch,
            optimizer=optimizer,
            loader=loader,
            forward=lambda model, batch: forward(model, batch, is_short=is_short),
        )
        seconds = time.perf_counter() - began
        peak = torch.cuda.max_memory_allocated()
        report = {
            "answered": sum(one.state != "cannot tell" for one in result.answers.values()),
            "failed": sorted(result.failed),
            "changed": list(result.changed),
            "seconds": round(seconds, 2),
            "step_s": round(step_s, 3),
            "peak_gib": round(peak / 2**30, 2),
            "step_peak_gib": round(step_bytes / 2**30, 2),
            "peak_over_step": round(peak / step_bytes, 3),
        }
        print(json.dumps(report))
    if options.gloo:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
