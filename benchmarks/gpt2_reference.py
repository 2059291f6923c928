"""The reference trainer on a GPU: GPT-2 124M for 300 steps with everything on, and what that costs.

    python -m benchmarks.gpt2_reference [--steps 300] [--blocks 20] > docs/gpt2_on_a_gpu.md

First the trainer itself, on a generated text of bytes with GPT-2's vocabulary: evaluations,
samples, histograms, checkpoints, event file. Then its step in blocks that take turns with the same
step of a bare loop, so that clocks and heat favour neither; the figure is the mean over rounds of
(with - without) / without. At the end the files are opened by those who read them. There is no
need of a network.
"""

from __future__ import annotations

import argparse
import html.parser
import io
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import torch

import epochal
from benchmarks.gpt2_overhead import interval
from epochal.atomic_file import new_text_file
from epochal.errors import MetricNotFoundError
from epochal.exports.archive import write
from epochal.recipes.gpt2.clock import StepClock
from epochal.recipes.gpt2.command import main as gpt2_command
from epochal.recipes.gpt2.flags import Flags
from epochal.recipes.gpt2.interruption import Interruption
from epochal.recipes.gpt2.place import Place, taken_place
from epochal.recipes.gpt2.setup import Training, set_up
from epochal.recipes.gpt2.train import accumulate_gradients, open_checkpoints, speed_of_light_of
from epochal.run.run import Run
from epochal.store.local.load import load_run
from epochal.torch.clip import ClipStats, clip_grad_norm
from epochal.torch.optimizer import set_lr
from epochal.torch.watching import watch

NAME = "reference"
Step = Callable[[int], None]


def sizes(args: argparse.Namespace) -> dict[str, Any]:
    flags: dict[str, Any] = {
        "vocab_size": 50_304,
        "mini_batch_size": args.batch,
        "total_batch_size": args.batch * 1024 * args.passes,
        "num_epochs": 1,
        "steps_per_epoch": args.steps,
        "warmup_steps": max(1, args.steps // 10),
        "eval_freq": max(1, args.steps // 3),
        "checkpoint_freq": max(1, args.steps // 3),
        "histogram_freq": max(1, args.steps // 3),
    }
    if args.small:
        small = {"context_length": 64, "num_layers": 2, "embd_size": 32, "num_heads": 2}
        flags |= {**small, "vocab_size": 384, "total_batch_size": args.batch * 64 * args.passes}
    return flags


def train(args: argparse.Namespace, folder: Path) -> None:
    """The trainer as a user starts it."""
    words = [word for name, value in sizes(args).items() for word in (f"--{name}", str(value))]
    more = ["--use_tensorboard", "--run_name", NAME, "--dir", str(folder / "runs")]
    with redirect_stdout(io.StringIO()):
        if code := gpt2_command([*words, *more]):
            raise SystemExit(code)


def bare_step(training: Training) -> Step:
    """What a loop does that nobody watches."""
    flags, place = training.flags, training.place

    def step(number: int) -> None:
        for group in training.optimizer.param_groups:
            group["lr"] = training.schedule.lr(number)
        for _ in range(training.accumulation):
            batch = training.batches.next()
            with place.autocast():
                loss = training.trained(batch.inputs, batch.targets)
            (loss / training.accumulation).backward()
        torch.nn.utils.clip_grad_norm_(training.model.parameters(), flags.grad_clip)
        training.optimizer.step()
        training.optimizer.zero_grad(set_to_none=True)

    return step


def watched_step(training: Training, run: Run, interruption: Interruption) -> Step:
    """The step of the trainer's loop, between evaluations."""
    flags, clock, clipping = training.flags, StepClock(training.place), ClipStats()

    def step(number: int) -> None:
        lr = training.schedule.lr(number)
        set_lr(training.optimizer, lr)
        interruption.begin()
        taken = accumulate_gradients(training, run, clock, interruption)
        with run.phase("optimizer"):
            norm = clip_grad_norm(training.model, flags.grad_clip, stats=clipping)
            training.optimizer.step()
        training.optimizer.zero_grad(set_to_none=True)
        clipped = clipping.metrics()["norm_clipped"]
        core = (number, number / flags.steps_per_epoch, taken.num_tokens, clock.lap_ms())
        run.log_step(*core, norm, taken.loss, lr, norm_clipped=clipped)

    return step


def compared(args: argparse.Namespace, place: Place, folder: Path) -> dict[str, list[float]]:
    """Seconds per step of each block, by way."""
    flags = Flags(**sizes(args))
    with redirect_stdout(io.StringIO()):
        training = set_up(flags, place)
    run = epochal.init(
        "gpt2", "compared", dir=folder / "runs", console=False, report_to="tensorboard"
    )
    run.log_sol_estimate(speed_of_light_of(training))
    watch(training.model, run, every=1000, step=1)
    with open_checkpoints(training, run) as checkpoints:
        interruption = Interruption(training, checkpoints, run, first=0)
        watched = watched_step(training, run, interruption)
        seconds = in_turns(args, place, {"bare": bare_step(training), "everything": watched})
    run.finish()
    return seconds


def in_turns(
    args: argparse.Namespace, place: Place, ways: dict[str, Step]
) -> dict[str, list[float]]:
    """Blocks of each way, in a new order each round."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    number = 0
    for round_number in range(-1, args.blocks):
        order = list(ways)
        random.Random(round_number).shuffle(order)
        for name in order:
            place.synchronize()
            begun = time.perf_counter()
            for _ in range(args.block_steps):
                ways[name](number)
                number += 1
            place.synchronize()
            if round_number >= 0:  # the first round warms up
                seconds[name].append((time.perf_counter() - begun) / args.block_steps)
    return seconds


class Archive(html.parser.HTMLParser):
    """The data of an archive, as a browser finds it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.data, self._is_data = "", False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._is_data = dict(attrs).get("id") == "epochal-archive"

    def handle_endtag(self, tag: str) -> None:
        self._is_data = False

    def handle_data(self, data: str) -> None:
        self.data += data if self._is_data else ""


def opened_archive(run_folder: Path, target: Path) -> str:
    with new_text_file(target) as out:
        write([load_run(run_folder)], out)
    text = target.read_text(encoding="utf-8")
    body = json.loads(Archive(text).data)
    assert isinstance(body, dict)
    return f"{target.stat().st_size / 1e6:.2f} MB, one file, its data parses"


def opened_events(folder: Path) -> str:
    """By TensorBoard's own reader where it is installed, else by Epochal's."""
    try:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    except ImportError:
        views = epochal.open(str(folder)).runs()
        found = views[0].series("Loss/train")
        return f"{len(found.steps)} points of Loss/train by Epochal's reader"
    reader = EventAccumulator(str(folder))
    reader.Reload()
    tags = reader.Tags()
    points = len(reader.Scalars("Loss/train"))
    histograms = len(tags["histograms"])
    return f"{points} points of Loss/train and {histograms} histograms by TensorBoard's reader"


def report(args: argparse.Namespace, folder: Path, seconds: dict[str, list[float]]) -> None:
    run_folder = folder / "runs" / "gpt2" / NAME
    view = epochal.load(run_folder)
    loss, evaluation = view.series("train/loss"), view.series("eval/loss")
    rate = view.series("train/tokens_per_second")
    flags = sizes(args)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    print("# GPT-2 on a GPU\n")
    print("Printed by `python -m benchmarks.gpt2_reference`.\n")
    print("```text")
    print(f"{device}, torch {torch.__version__}")
    print(f"{args.steps} steps of {flags['total_batch_size']:,} tokens in {args.passes} passes")
    print(f"training loss    {loss.values[0]:.3f} at the start, {loss.values[-1]:.3f} at the end")
    first, last = evaluation.values[0], evaluation.values[-1]
    print(f"validation loss  {first:.3f} at the start, {last:.3f} at the end")
    print(f"tokens/s         {statistics.median(rate.values):,.0f}")
    for name, label in (("train/sol", "speed of light"), ("train/mfu", "MFU")):
        try:
            values = list(view.series(name).values)
        except MetricNotFoundError:
            values = []
        shown = f"{statistics.median(values):.1f} %" if values else "not known for this device"
        print(f"{label:<17}{shown}")
    print(f"archive          {opened_archive(run_folder, folder / 'reference.html')}")
    print(f"event file       {opened_events(run_folder / 'tensorboard')}")
    print()
    print(
        f"{args.blocks} rounds of {args.block_steps} steps with everything on and without anything"
    )
    for name, each in seconds.items():
        print(f"{name:<17}{statistics.median(each) * 1000:.2f} ms a step")
    shares = [a / b - 1 for a, b in zip(seconds["everything"], seconds["bare"], strict=True)]
    mean, half = interval(shares)
    print(f"overhead         {mean:.3f} %, 95 % interval {mean - half:.3f} to {mean + half:.3f} %")
    print("```")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--block_steps", type=int, default=50)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--passes", type=int, default=2)
    parser.add_argument("--small", action="store_true", help="a tiny model, to try the script")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        train(args, folder)
        with taken_place(None) as place:
            seconds = compared(args, place, folder)
        report(args, folder, seconds)


if __name__ == "__main__":
    main()
