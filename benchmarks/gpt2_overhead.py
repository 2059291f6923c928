"""What logging costs a compiled GPT-2 124M on a GPU, four ways, in interleaved blocks.

    python -m benchmarks.gpt2_overhead [--blocks 24] [--steps 50] [--batch 16] [--eager]

none        nothing is logged
item        loss and gradient norm are read with .item() each step, and thrown away
epochal     run.log of loss and norm, as tensors, each step
everything  run.log_step with all fields each step, and the companion with its telemetry beside it

Then the same model reads its batches from a data loader, which ``watch_data`` watches in every
second block.

Blocks of the four follow one another in a new order each round, so that clocks and heat favour
none. The figure is the mean over rounds of (way - none) / none within a round, with its 95 %
interval.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator

import torch
from torch.utils.data import DataLoader, TensorDataset

import epochal
from benchmarks.gpt2_model import CONTEXT, GPT2, VOCABULARY
from epochal.run.run import Run

Log = Callable[[int, torch.Tensor, torch.Tensor, float], None]
# Two-sided 95 % of Student's t for the degrees of freedom that the usual numbers of rounds have.
STUDENT_T = {9: 2.262, 14: 2.145, 19: 2.093, 23: 2.069, 29: 2.045, 39: 2.023}


class Training:
    def __init__(self, batch: int, *, is_compiled: bool) -> None:
        torch.manual_seed(0)
        torch.set_float32_matmul_precision("high")
        self.model = GPT2().to("cuda")
        if is_compiled:
            self.model.compile()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        shape = (batch, CONTEXT)
        self.tokens = torch.randint(VOCABULARY, shape, device="cuda")
        self.targets = torch.randint(VOCABULARY, shape, device="cuda")
        self.batch = batch

    def step(self) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = self.model(self.tokens, self.targets)
        loss.backward()
        norm = epochal.torch.clip_grad_norm(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss, norm

    def block(self, steps: int, log: Log) -> float:
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for step in range(steps):
            log(step, *self.step(), begun)
        torch.cuda.synchronize()
        return (time.perf_counter() - begun) / steps


def ways(training: Training, light: Run, full: Run) -> dict[str, Log]:
    tokens = training.batch * CONTEXT

    def nothing(step: int, loss: torch.Tensor, norm: torch.Tensor, begun: float) -> None:
        pass

    def item(step: int, loss: torch.Tensor, norm: torch.Tensor, begun: float) -> None:
        loss.item()
        norm.item()

    def plain(step: int, loss: torch.Tensor, norm: torch.Tensor, begun: float) -> None:
        light.log({"loss": loss, "norm": norm}, step=step)

    def everything(step: int, loss: torch.Tensor, norm: torch.Tensor, begun: float) -> None:
        milliseconds = (time.perf_counter() - begun) * 1000 / (step + 1)
        full.log_step(step, step / 1000, tokens, milliseconds, norm, loss, 1e-4)

    return {"none": nothing, "item": item, "epochal": plain, "everything": everything}


def watched_steps(training: Training, folder: str) -> list[float]:
    """Milliseconds of steps that record histograms of every parameter and gradient."""
    run = epochal.init("bench", "watched", dir=folder, console=False, companion=False)
    watching = epochal.watch(training.model, run, every=1)
    training.block(2, lambda *_: None)
    each = [training.block(1, lambda *_: None) * 1000 for _ in range(5)]
    watching.remove()
    run.finish()
    return each


def watched_data(training: Training, folder: str, blocks: int, steps: int) -> list[float]:
    """By how much ``watch_data`` makes steps longer, as a share of them, block by block."""
    run = epochal.init("bench", "data", dir=folder, console=False)
    tokens = torch.randint(VOCABULARY, (blocks * steps * training.batch // 4, CONTEXT + 1))
    data = TensorDataset(tokens)

    def batches(watched: bool) -> Iterator[list[torch.Tensor]]:
        loader = DataLoader(data, training.batch, shuffle=True, num_workers=2, pin_memory=True)
        if watched:
            epochal.watch_data(loader, "train", run)
        while True:
            yield from loader

    plain, watched = batches(watched=False), batches(watched=True)

    def block(given: Iterator[list[torch.Tensor]]) -> float:
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for step in range(steps):
            (both,) = next(given)
            training.tokens.copy_(both[:, :-1], non_blocking=True)
            training.targets.copy_(both[:, 1:], non_blocking=True)
            run.log({"loss": training.step()[0]}, step=step)
        torch.cuda.synchronize()
        return time.perf_counter() - begun

    block(plain), block(watched)
    shares = []
    for turn in range(blocks):
        first, second = (plain, watched) if turn % 2 else (watched, plain)
        seconds = {first: block(first), second: block(second)}
        shares.append(seconds[watched] / seconds[plain] - 1)
    run.finish()
    return shares


def saving(training: Training, folder: str) -> tuple[float, float, float]:
    """Milliseconds the loop stands still for a save, of the bare copy, and of steps meanwhile."""
    epochal.torch.snapshot_cpu(training.model)  # pinned memory is made once
    torch.cuda.synchronize()
    begun = time.perf_counter()
    copies = [p.detach().to("cpu", non_blocking=True) for p in training.model.parameters()]
    torch.cuda.synchronize()
    copy_ms = (time.perf_counter() - begun) * 1000
    del copies
    with epochal.torch.CpuWorker() as worker:
        begun = time.perf_counter()
        snapshot = epochal.torch.snapshot_cpu(training.model)
        worker.submit(lambda: snapshot.save_file(f"{folder}/model.safetensors"))
        stall_ms = (time.perf_counter() - begun) * 1000
        during_ms = training.block(10, lambda *_: None) * 1000
    return stall_ms, copy_ms, during_ms


def interval(shares: list[float]) -> tuple[float, float]:
    """Mean and half the width of its 95 % interval, both in percent."""
    freedom = len(shares) - 1
    known = min(STUDENT_T, key=lambda degrees: abs(degrees - freedom))
    spread = statistics.stdev(shares) / len(shares) ** 0.5 * STUDENT_T[known]
    return 100 * statistics.mean(shares), 100 * spread


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=24)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--eager", action="store_true", help="do not compile the model")
    args = parser.parse_args()
    training = Training(args.batch, is_compiled=not args.eager)
    with tempfile.TemporaryDirectory() as folder:
        light = epochal.init("bench", "epochal", dir=folder, console=False, companion=False)
        full = epochal.init("bench", "everything", dir=folder, console=False)
        logs = ways(training, light, full)
        for log in logs.values():
            training.block(20, log)
        seconds: dict[str, list[float]] = {name: [] for name in logs}
        order = list(logs)
        for _ in range(args.blocks):
            random.shuffle(order)
            for name in order:
                seconds[name].append(training.block(args.steps, logs[name]))
        light.finish()
        full.finish()
        histogram_ms = statistics.median(watched_steps(training, folder))
        stall_ms, copy_ms, during_ms = saving(training, folder)
        data_mean, data_half = interval(watched_data(training, folder, args.blocks, args.steps))
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    way = "not compiled" if args.eager else "compiled"
    print(f"GPT-2 124M, batch {args.batch} x {CONTEXT}, bf16 autocast, {way}")
    print(f"{args.blocks} interleaved blocks of {args.steps} steps each")
    print(f"{'way':<12}{'ms/step':>10}{'overhead %':>14}{'95 % interval':>20}")
    for name, each in seconds.items():
        mine = statistics.median(each) * 1000
        shares = [a / b - 1 for a, b in zip(each, seconds["none"], strict=True)]
        if name == "none":
            print(f"{name:<12}{mine:>10.2f}")
            continue
        mean, half = interval(shares)
        print(f"{name:<12}{mine:>10.2f}{mean:>14.3f}{mean - half:>11.3f} to {mean + half:.3f}")
    low, high = data_mean - data_half, data_mean + data_half
    print(f"watch_data, 2 workers: {data_mean:.3f} % of a step, {low:.3f} to {high:.3f}")
    print(f"a step that records every histogram: {histogram_ms:.1f} ms")
    print(
        f"a save in the background: the loop stands still {stall_ms:.1f} ms"
        f" (bare copy {copy_ms:.1f} ms); steps meanwhile {during_ms:.1f} ms"
    )


if __name__ == "__main__":
    main()
