"""Mistakes that cost time or memory, and ranks that part ways."""

from __future__ import annotations

import time

import psutil
import torch

from benchmarks.clinic.faults.fault import Fault
from benchmarks.clinic.harness import Bench

LEAK_S = 270.0
HANG_S = 75.0
# Written beside the run when a rank has left the loop.
HANGING = "hanging"


def slow_loader(bench: Bench) -> None:
    """Every batch takes three times as long to load as to compute."""
    bench.steps = min(bench.steps, 500)
    bench.in_data.append(lambda step: time.sleep(0.03))


def memory_leak(bench: Bench) -> None:
    """Every step keeps a tensor; the steps are as slow as those of a larger model."""
    kept: list[torch.Tensor] = []
    bench.pace_ms = 250.0
    bench.steps = int(LEAK_S * 1000 / bench.pace_ms)
    process = psutil.Process()

    def keep(step: int) -> None:
        if step == bench.steps // 4:
            bench.facts["rss_early"] = float(process.memory_info().rss)
        kept.append(torch.ones(256, 1024))  # one MiB
        if step == bench.steps - 1:
            bench.facts["rss_late"] = float(process.memory_info().rss)

    bench.in_step.append(keep)


def straggler(bench: Bench) -> None:
    """Rank 1 computes three times as long; rank 0 waits for it in the exchange."""
    if bench.rank == 1:
        bench.in_step.append(lambda step: time.sleep(0.03))


def drift(bench: Bench) -> None:
    """Gradients are not exchanged: two models are trained, one is kept."""
    bench.syncs = False


def hang(bench: Bench) -> None:
    """Rank 1 leaves the loop after two thirds of its steps, and rank 0 waits for it."""
    if bench.rank == 1:
        at = bench.steps * 2 // 3

        def leave(step: int) -> None:
            if step == at:
                (bench.folder / HANGING).touch()
                time.sleep(10_000)

        bench.in_step.append(leave)


FAULTS = (
    Fault(
        "slow_loader",
        "loading takes three times as long as computing",
        slow_loader,
        (
            "mlp/momentum",
            "char_transformer/adamw",
            "resnet/momentum",
            "gpt2/adamw",
            "seq2seq/adagrad",
        ),
        harm="slower",
    ),
    Fault(
        "memory_leak",
        "every step keeps a tensor",
        memory_leak,
        ("mlp/momentum", "gpt2/adamw", "resnet/momentum"),
        harm="memory",
        wait_s=LEAK_S,
        telemetry_s=1.5,
    ),
    Fault(
        "straggler",
        "one rank is three times as slow",
        straggler,
        ("ddp_mlp/momentum", "ddp_cnn/momentum", "ddp_transformer/adamw"),
        harm="slower",
    ),
    Fault(
        "rank_drift",
        "gradients are not exchanged between ranks",
        drift,
        ("ddp_mlp/momentum", "ddp_cnn/momentum", "ddp_transformer/adamw"),
        harm="drift",
    ),
    Fault(
        "hang",
        "a rank leaves the loop and the other waits",
        hang,
        ("ddp_mlp/momentum", "ddp_cnn/momentum", "ddp_transformer/adamw"),
        harm="hang",
        wait_s=HANG_S,
    ),
)
