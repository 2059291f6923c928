"""How near a real training comes to the speed of light, and where the rest of its time goes.

    python -m benchmarks.speed_of_light [--steps 60] [--batch 16] [--compile] [--tiny]

GPT-2 124M in bf16 on a GPU, three times: as it is, with data that comes late, and with batches so
small that the host cannot keep ahead. Each prints its last steps, the means of its phases, and the
explanation; before them the work per token and the peak; after them what the timing itself costs.
``--tiny`` is a small model that a CPU trains in seconds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

import epochal
from benchmarks import gpt2_model
from epochal.run.console.blocks import phases_block, speed_of_light_block
from epochal.series.lost_time import explain_phases
from epochal.torch.flops import SpeedOfLight, speed_of_light

TINY = {"VOCABULARY": 256, "LAYERS": 2, "HEADS": 2, "WIDTH": 64, "CONTEXT": 32}
ROUNDS = 8
TELEMETRY_WAIT_S = 5.0


@dataclass
class Scene:
    name: str
    batch: int
    late_s: float = 0.0


class Training:
    def __init__(self, device: str, *, is_compiled: bool) -> None:
        torch.manual_seed(0)
        self.device = device
        self.model: Any = gpt2_model.GPT2().to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=device == "cuda")
        self.forward = torch.compile(self.model) if is_compiled else self.model

    def batch(self, rows: int) -> torch.Tensor:
        """Tokens and targets, made on the host."""
        pair = torch.randint(gpt2_model.VOCABULARY, (2, rows, gpt2_model.CONTEXT))
        if self.device != "cuda":
            return pair
        return pair.pin_memory().to(self.device, non_blocking=True)

    def step(self, scene: Scene, phase: Any) -> tuple[torch.Tensor, torch.Tensor]:
        with phase("data"):
            time.sleep(scene.late_s)
            tokens, targets = self.batch(scene.batch)
        with phase("forward"), torch.autocast(self.device, dtype=torch.bfloat16):
            loss = self.forward(tokens, targets)
        with phase("backward"):
            loss.backward()
        with phase("optimizer"):
            norm = epochal.torch.clip_grad_norm(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
        return loss, norm

    def settle(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def train(training: Training, scene: Scene, sol: SpeedOfLight, steps: int, folder: str) -> None:
    run = epochal.init("light", scene.name, dir=folder, console=False)
    run.log_sol_estimate(sol)
    tokens = scene.batch * gpt2_model.CONTEXT
    begun = time.perf_counter()
    for step in range(steps):
        loss, norm = training.step(scene, run.phase)
        with run.phase("log"):
            ended = time.perf_counter()
            run.log_step(step, 0.0, tokens, (ended - begun) * 1000, norm, loss, 1e-4)
            begun = ended
    training.settle()
    run.finish()
    show(run, scene, sol)


def show(run: Any, scene: Scene, sol: SpeedOfLight) -> None:
    records = read(run)
    steps = [record for record in records if record["log"] == "step"]
    gpu = next((r for r in reversed(records) if r["log"] == "gpu" and r.get("clock")), None)
    print(f"\n{scene.name}: batch {scene.batch} x {gpt2_model.CONTEXT}, {len(steps)} steps")
    print("    step        ms   tok/s      sol %    mfu %")
    for record in steps[-5:]:
        mfu = record.get("m", {}).get("train/mfu", float("nan"))
        print(
            f"{record['step']:8d}{record['duration_ms']:10.2f}{record['tokens_per_second']:10.0f}"
            f"{record.get('sol', float('nan')):9.1f}{mfu:9.1f}"
        )
    late = [record["duration_ms"] for record in steps[len(steps) // 3 :]]
    print(f"  median{statistics.median(late):10.2f} ms")
    for record in (one for one in records if one["log"] == "phases"):
        clock = None if sol.peak is None else sol.peak.clock_mhz
        lost = explain_phases(record, gpu=gpu, peak_clock_mhz=clock)
        print(phases_block(record, lost))
        if "host_ms" in record:
            host = ", ".join(f"{name} {mean:.2f}" for name, mean in record["host_ms"].items())
            print(f"  by the host's clock: {host} ms")
    if gpu is not None:
        facts = {key: gpu.get(key) for key in ("clock", "max_clock", "throttle", "gpu_util")}
        print(f"  GPU: {facts}")


def read(run: Any) -> list[dict[str, Any]]:
    """The run's records, once the companion has written its last ones."""
    until = time.monotonic() + (TELEMETRY_WAIT_S if torch.cuda.is_available() else 0.0)
    while True:
        view = epochal.load(run.dir).view
        records = [dict(record) for _, record in view.records()]
        if time.monotonic() >= until or any(record["log"] == "gpu" for record in records):
            return records
        time.sleep(0.2)


def show_cost(training: Training, scene: Scene, steps: int, folder: str) -> None:
    """What the timing costs: blocks of steps with and without phases, in turn."""
    run = epochal.init("light", "cost", dir=folder, console=False, companion=False)
    each: dict[str, list[float]] = {"without": [], "with": []}
    for number in range(2 * ROUNDS):
        name = ("without", "with")[(number + number // 2) % 2]
        phase = run.phase if name == "with" else nullcontext
        training.settle()
        begun = time.perf_counter()
        for _ in range(steps):
            training.step(scene, phase)
            run.log({"loss": 1.0})
        training.settle()
        each[name].append((time.perf_counter() - begun) * 1000 / steps)
    run.finish()
    plain, timed = (statistics.median(each[name]) for name in ("without", "with"))
    print(
        f"\nsteps without phases {plain:.3f} ms, with four {timed:.3f} ms:"
        f" {100 * (timed / plain - 1):+.2f} % ({ROUNDS} blocks of {steps} steps each, medians)"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    args = parser.parse_args()
    if args.tiny:
        torch.set_num_threads(1)
        for name, value in TINY.items():
            setattr(gpt2_model, name, value)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.set_float32_matmul_precision("high")
    title = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"{title}, torch {torch.__version__}, {'compiled' if args.compile else 'not compiled'}")
    training = Training(device, is_compiled=args.compile)
    with torch.autocast(device, dtype=torch.bfloat16):
        sol = speed_of_light(training.model, tuple(training.batch(2)))
    print(speed_of_light_block(sol.fields()))
    plain = Scene("as it is", args.batch)
    late_s = 0.01 if args.tiny else 0.06
    with tempfile.TemporaryDirectory() as folder:
        for scene in (plain, Scene("late data", args.batch, late_s), Scene("small batches", 1)):
            train(training, scene, sol, args.steps, folder)
        show_cost(training, plain, max(1, args.steps // 3), folder)


if __name__ == "__main__":
    main()
