"""Checks on a machine with an NVIDIA GPU what cannot be checked without one, and prints it.

    python tools/check_cuda.py

Everything between "begin" and "end" of a part runs with torch's own alarm for calls that wait for
the device (`torch.cuda.set_sync_debug_mode("error")`) where the part promises not to wait.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

import epochal


@contextmanager
def no_waiting() -> Iterator[None]:
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def small_model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)).cuda()


def check_clip() -> str:
    model = small_model()
    stats = epochal.torch.ClipStats()
    inputs = torch.randn(32, 64, device="cuda")
    with no_waiting():
        for _ in range(3):
            model.zero_grad()
            (model(inputs).square().sum() * 100).backward()
            epochal.torch.clip_grad_norm(model.parameters(), 1.0, stats=stats)
    after = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]).norm()
    assert abs(after.item() - 1.0) < 1e-3
    rate = float(stats.metrics()["clip_rate"])
    assert rate == 1.0
    return f"norm after clipping {after.item():.4f}, clipped in {rate:.0%} of steps, no waiting"


def check_memory() -> str:
    epochal.torch.cuda_empty_cache()
    epochal.torch.cuda_reset_peak_stats()
    before = epochal.torch.cuda_active_bytes()
    block = torch.empty(64 * 2**20, dtype=torch.uint8, device="cuda")
    grown = epochal.torch.cuda_active_bytes() - before
    assert grown == block.numel()
    del block
    peak = epochal.torch.cuda_peak_active_bytes()
    assert peak >= before + 64 * 2**20
    return f"64 MiB seen as {grown / 2**20:.0f} MiB, peak {peak / 2**20:.0f} MiB"


def check_graph() -> str:
    model = small_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs = torch.randn(32, 64, device="cuda")

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=False)
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    graph = epochal.torch.cuda_graph_capture(3, None, step)
    with tempfile.TemporaryDirectory() as folder:
        run = epochal.init("check", "graph", dir=folder, console=False, companion=False)
        with no_waiting():
            for number in range(20):
                graph.replay()
                run.log({"loss": graph.output}, step=number)
        run.finish()
        losses = epochal.load(run.dir).series("loss").values
    assert len(losses) == 20
    assert losses[-1] < losses[0]
    return f"20 replays logged without waiting, loss {losses[0]:.4f} to {losses[-1]:.4f}"


def check_snapshot() -> str:
    model = small_model()
    with tempfile.TemporaryDirectory() as folder, epochal.torch.CpuWorker() as worker:
        path = Path(folder) / "model.safetensors"
        snapshot = epochal.torch.snapshot_cpu(model)
        before = [p.detach().clone() for p in model.parameters()]
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(1.0)  # the training goes on
        worker.submit(lambda: snapshot.save_file(str(path)))
        worker.finish()
        other = small_model()
        epochal.torch.load_checkpoint_file(str(path), other)
        assert all(torch.equal(a, b) for a, b in zip(before, other.parameters(), strict=True))
    return "saved in the background as it was, while the weights went on"


def check_checkpoint() -> str:
    model = small_model().to(torch.bfloat16)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.safetensors.gz")
        epochal.torch.save_checkpoint(path, model)
        other = small_model().to(torch.bfloat16)
        with torch.no_grad():
            other[0].weight.zero_()
        report = epochal.torch.load_checkpoint(path, other)
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), other.parameters(), strict=True)
    )
    return f"{len(report.loaded)} bf16 tensors back on the GPU, equal to the last bit"


def main() -> int:
    if not torch.cuda.is_available():
        print("no NVIDIA GPU here: nothing was checked")
        return 1
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for check in (check_clip, check_memory, check_graph, check_snapshot, check_checkpoint):
        print(f"ok  {check.__name__.removeprefix('check_'):<11} {check()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
