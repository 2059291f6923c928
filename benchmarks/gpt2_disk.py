"""What the record of GPT-2's published run takes on disk: 95,365 steps, with everything on.

    python -m benchmarks.gpt2_disk [--steps 95365] [--folder FOLDER]

Every record the trainer writes is written here, at its own cadence, through the run's own writer
and its sealing: steps, phases, evaluations, samples, histograms and norms of 148 tensors,
checkpoints. Only the values are drawn, with the digits and the noise that real ones have, and time
passes as it did in the published run, 34 days. The same values go into event files, by Epochal's
sink and by torch's SummaryWriter. Telemetry, which depends on the machine, is left out.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch

import epochal
from epochal.cli.main import main as epochal_command
from epochal.journal.layout import RunFolder
from epochal.recipes.demo.text import write_text
from epochal.recipes.gpt2.flags import Flags
from epochal.recipes.gpt2.model import GPT, Shape
from epochal.recipes.gpt2.setup import schedule_of
from epochal.run import typed
from epochal.run.accepted import strict_values
from epochal.run.phases import RECORD_SHARE
from epochal.segments.seal import seal_part

STARTED = 1.79e9
STEP_S = 34 * 86_400 / 95_365
BINS, SAMPLE = 64, 65_536
PHASES = ("data", "forward", "backward", "optimizer", "eval", "save", "other")
MB = 1_000_000


class Story:
    """The values of a training, with real noise in all their digits."""

    def __init__(self, flags: Flags) -> None:
        self.flags = flags
        self.rng = np.random.default_rng(1)
        self.schedule = schedule_of(flags)
        with torch.device("meta"):
            self.tensors = [name for name, _ in GPT(Shape()).named_parameters()]
        self.num_clipped = 0
        edges = np.linspace(-4.5, 4.5, BINS + 1)
        density = np.exp(-0.5 * ((edges[:-1] + edges[1:]) / 2) ** 2)
        self.density = density / density.sum()

    def single(self, value: float) -> float:
        """As a tensor of 32 bits has it."""
        return float(np.float32(value))

    def records(self) -> Iterator[dict[str, Any]]:
        flags = self.flags
        yield from self.evaluation(0, STARTED)
        t, phased = STARTED, 0
        for step in range(flags.num_steps):
            duration_ms = self.single(STEP_S * 1000 * (1 + 0.004 * self.rng.standard_normal()))
            t = round(t + duration_ms / 1000, 3)
            if step % flags.histogram_freq == 0:
                yield from self.watched(step, t)
            yield self.step(step, t, duration_ms)
            # A minute, here two steps, and later a two-thousandth of the time so far.
            if step - phased >= max(2, RECORD_SHARE * step):
                phased = step
                yield self.phases(step, t)
            if (step + 1) % flags.eval_freq == 0 or step + 1 == flags.num_steps:
                t += 60.0
                yield from self.evaluation(step, t)
            if (step + 1) % flags.checkpoint_freq == 0:
                yield self.checkpoint(step, t)

    def loss(self, step: int) -> float:
        return 2.8 + 8.1 * math.exp(-step / 1500) + 0.6 * math.exp(-step / 30_000)

    def step(self, step: int, t: float, duration_ms: float) -> dict[str, Any]:
        flags = self.flags
        norm = self.single(0.45 * math.exp(0.25 * self.rng.standard_normal()))
        self.num_clipped += norm > 1
        tps = flags.total_batch_size / duration_ms * 1000
        return typed.step_record(
            t,
            strict_values(),
            step,
            (step + 1) / flags.steps_per_epoch,
            flags.total_batch_size,
            duration_ms,
            norm,
            self.single(self.loss(step) + 0.03 * self.rng.standard_normal()),
            self.schedule.lr(step),
            norm_clipped=min(norm, 1.0),
            sol=self.single(100 * tps / 61_234.5),
            metrics={"train/mfu": self.single(100 * tps / 65_432.1)},
        )

    def phases(self, step: int, t: float) -> dict[str, Any]:
        def means(scale: float) -> dict[str, float]:
            noise = 1 + 0.01 * self.rng.standard_normal(len(PHASES))
            shares = (0.001, 0.32, 0.64, 0.01, 0.015, 0.004, 0.01)
            drawn = scale * 1000 * STEP_S * np.array(shares) * noise
            return dict(zip(PHASES, (round(float(value), 4) for value in drawn), strict=True))

        wall_ms = round(1000 * STEP_S * (1 + 0.003 * self.rng.standard_normal()), 4)
        named = {f"phase/{name}": value for name, value in means(1.0).items()}
        record = {"log": "phases", "t": t, "step": step, "steps": 2, "wall_ms": wall_ms, "m": named}
        return {**record, "clock": "gpu", "host_ms": means(0.1), "host_bound": 0.0}

    def evaluation(self, step: int, t: float) -> Iterator[dict[str, Any]]:
        loss = self.loss(step) + 0.15 + 0.005 * self.rng.standard_normal()
        accuracy = 0.25 + 0.1 * step / self.flags.num_steps
        counted = round(10_042 * accuracy) / 10_042
        metrics = {"Gradient/clip_rate": self.num_clipped / self.flags.eval_freq}
        self.num_clipped = 0
        metrics |= {"hellaswag_accuracy": counted, "hellaswag_acc": counted - 0.01}
        duration_ms = 20_000 * (1 + 0.01 * float(self.rng.standard_normal()))
        yield typed.eval_record(
            round(t, 3),
            strict_values(),
            step,
            (step + 1) / self.flags.steps_per_epoch,
            655_360,
            duration_ms,
            loss,
            metrics=metrics if step else None,
        )
        text = "\n\n".join(
            f"Hello, I am a language model, {write_text(self.rng, num_sentences=2)}"
            for _ in range(5)
        )
        yield typed.text_record(round(t, 3), name="sample", text=text, step=step)

    def watched(self, step: int, t: float) -> Iterator[dict[str, Any]]:
        metrics: dict[str, float] = {}
        for name in self.tensors:
            drawn = [self.single(10 * math.exp(self.rng.standard_normal())) for _ in range(3)]
            metrics |= {f"params/{name}/norm": drawn[0], f"grads/{name}/norm": drawn[1]}
            metrics |= {f"grads/{name}/zeros": 0.0, f"update_ratio/{name}": drawn[2] / 1e4}
        yield {"log": "metrics", "t": t, "step": step, "m": metrics}
        for prefix in ("Parameters", "Gradients"):
            for name in self.tensors:
                low, high = (self.single(4.5 + abs(v)) for v in self.rng.standard_normal(2))
                yield {
                    "log": "histogram",
                    "t": t,
                    "step": step,
                    "name": f"{prefix}/{name}",
                    "lo": -low,
                    "hi": high,
                    "counts": self.rng.multinomial(SAMPLE, self.density).tolist(),
                    "min": -low,
                    "max": high,
                    "mean": self.single(0.01 * self.rng.standard_normal()),
                    "std": self.single(1 + 0.01 * self.rng.standard_normal()),
                    "count": SAMPLE,
                }

    def checkpoint(self, step: int, t: float) -> dict[str, Any]:
        path = f"runs/gpt2/gpt2_train/checkpoints/step-{step}"
        facts = {"kind": "rolling", "path": path, "bytes": 1_493_728_256, "is_best": True}
        record = {"log": "event", "t": t, "name": "checkpoint", "step": step, **facts}
        return {**record, "metric": self.loss(step) + 0.15}


def write_torch_events(records: Iterator[dict[str, Any]], folder: Path) -> None:
    """The same scalars, histograms and texts through torch's SummaryWriter."""
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:
        for record in records:
            kind, step = record["log"], record["step"]
            if kind == "histogram":
                limits = np.linspace(record["lo"], record["hi"], BINS + 1)[1:]
                moments = {
                    "sum": record["mean"] * SAMPLE,
                    "sum_squares": record["std"] ** 2 * SAMPLE,
                }
                writer.add_histogram_raw(
                    record["name"],
                    min=record["min"],
                    max=record["max"],
                    num=SAMPLE,
                    bucket_limits=limits.tolist(),
                    bucket_counts=record["counts"],
                    global_step=step,
                    **moments,
                )
            elif kind == "text":
                writer.add_text("Generated_Samples/text", record["text"], step)
            elif kind in ("step", "eval", "metrics", "phases"):
                own = {k: v for k, v in record.items() if isinstance(v, float) and k != "t"}
                for name, value in {**own, **record.get("m", {})}.items():
                    tag = name if "/" in name else f"{kind}/{name}"
                    writer.add_scalar(tag, value, step)


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def simulate(flags: Flags, folder: Path) -> dict[str, int]:
    run = epochal.init("gpt2", "gpt2_train", dir=folder, console=False, companion=False)
    for record in Story(flags).records():
        run.write(record, silent=True)
    run.finish()
    journal = size_of(run.dir / "journal")
    if epochal_command(["sync", str(run.dir), "--to", "tensorboard", "--timeout", "3600"]):
        raise SystemExit("the event file could not be written")
    events = size_of(run.dir / "tensorboard")
    sealed = RunFolder(run.dir)
    for part in sealed.parts():
        seal_part(sealed, part)
    segments = size_of(run.dir / "segments")
    write_torch_events(Story(flags).records(), folder / "torch")
    return {
        "journal, as it is written": journal,
        "sealed": segments,
        "event file of Epochal's sink": events,
        "event file of torch's SummaryWriter": size_of(folder / "torch"),
    }


def sealed_shares(flags: Flags, folder: Path) -> dict[str, int]:
    """What each kind takes when it is sealed alone."""
    groups: dict[str, tuple[str, ...]]
    groups = {"step": ("step",), "phases": ("phases",), "histograms": ("histogram",)}
    groups |= {"norms of tensors": ("metrics",), "the rest": ("eval", "text", "event")}
    shares = {}
    for name, kinds in groups.items():
        run = epochal.init("alone", name, dir=folder, console=False, companion=False)
        for record in Story(flags).records():
            if record["log"] in kinds:
                run.write(record, silent=True)
        run.finish()
        alone = RunFolder(run.dir)
        for part in alone.parts():
            seal_part(alone, part)
        shares[name] = size_of(run.dir / "segments")
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=95_365)
    parser.add_argument("--folder", type=Path)
    args = parser.parse_args()
    flags = Flags(steps_per_epoch=args.steps // 5)
    with ExitStack() as stack:
        given = args.folder
        folder = given or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sizes = simulate(flags, folder)
        shares = sealed_shares(flags, folder)
    print(
        f"GPT-2 124M, {flags.num_steps:,} steps, everything on, without telemetry and checkpoints"
    )
    for name, size in sizes.items():
        print(f"{name:<40}{size / MB:>9.2f} MB")
    print("sealed, kind by kind:")
    for name, size in shares.items():
        print(f"  {name:<38}{size / MB:>9.2f} MB")


if __name__ == "__main__":
    main()
