"""What facts without being asked cost a compiled GPT-2 124M on a GPU, in interleaved blocks.

    python -m benchmarks.facts_gpt2 [--blocks 24] [--steps 60] [--batch 16] [--small]

Blocks with and without facts take turns, in an order that changes each round. Both read batches
from a data loader and log the loss as a tensor. A block with facts is a run of its own, so that
each has the first steps, in which most is read; the scan for the model is outside of the blocks.
The figure is the mean over rounds of (with - without) / without, with its 95 % interval, besides
how often the model was compiled during the blocks. ``--small`` trains a small model on the CPU,
and counts CPU seconds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.utils.data import DataLoader, TensorDataset

import epochal
from benchmarks.gpt2_model import CONTEXT, GPT2, VOCABULARY
from benchmarks.gpt2_overhead import interval

BOUND_PERCENT = 0.3
_WARM_STEPS = 5


class SmallModel(nn.Module):
    """A model that a CPU trains in about 10 ms a step."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(512, 64), nn.Linear(64, 512)
        self.body = nn.Sequential(*(nn.Linear(64, 64) for _ in range(8)))

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        logits = self.head(self.body(self.tokens(tokens % 512)))
        return nn.functional.cross_entropy(logits.flatten(0, 1), (targets % 512).flatten())


class Training:
    """A model that is trained on random tokens from a data loader."""

    def __init__(self, batch: int, *, is_small: bool) -> None:
        torch.manual_seed(0)
        torch.set_float32_matmul_precision("high")
        self.device = "cpu" if is_small else "cuda"
        self.model = (SmallModel() if is_small else GPT2()).to(self.device)
        self.model.compile(backend="eager" if is_small else "inductor")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        length = 128 if is_small else CONTEXT
        tokens = torch.randint(VOCABULARY, (batch * 64, length + 1))
        self.data, self.batch = TensorDataset(tokens), batch

    def batches(self) -> Iterator[Any]:
        is_pinned = self.device == "cuda"
        while True:
            yield from DataLoader(self.data, self.batch, shuffle=True, pin_memory=is_pinned)

    def steps(self, run: epochal.Run, batches: Iterator[Any], steps: range) -> float:
        """Milliseconds of one step."""
        self._wait()
        # Other programs share the processor of a machine without a GPU.
        clock = time.process_time if self.device == "cpu" else time.perf_counter
        begun = clock()
        for step in steps:
            (tokens,) = next(batches)
            tokens = tokens.to(self.device, non_blocking=True)
            with torch.autocast(self.device, dtype=torch.bfloat16, enabled=self.device == "cuda"):
                inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
                loss = self.model(inputs, targets)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            run.log({"loss": loss}, step=step)
        self._wait()
        return (clock() - begun) * 1000 / len(steps)

    def _wait(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def block(training: Training, folder: str, steps: int, *, facts: bool) -> float:
    """Milliseconds of a step in a run of its own."""
    options: dict[str, Any] = {"dir": folder, "console": False, "companion": False, "facts": facts}
    run = epochal.init("bench", "facts" if facts else "plain", **options)
    batches = training.batches()
    training.steps(run, batches, range(_WARM_STEPS))
    milliseconds = training.steps(run, batches, range(_WARM_STEPS, _WARM_STEPS + steps))
    run.finish()
    return milliseconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--blocks", type=int, default=24)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--small", action="store_true")
    args = parser.parse_args()
    training = Training(args.batch, is_small=args.small)
    each: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        for facts in (False, True):
            block(training, folder, args.steps, facts=facts)
        compiled = counters["stats"]["unique_graphs"]
        for _ in range(args.blocks):
            for facts in random.sample((False, True), 2):
                each[facts].append(block(training, folder, args.steps, facts=facts))
        compiled = counters["stats"]["unique_graphs"] - compiled
    mean, half = interval([a / b - 1 for a, b in zip(each[True], each[False], strict=True)])
    plain_ms, facts_ms = (statistics.median(each[facts]) for facts in (False, True))
    breaks = sum(counters["graph_break"].values())
    print(f"torch {torch.__version__}, {training.device}, {args.blocks} blocks of {args.steps}")
    print(f"without {plain_ms:.2f} ms, with {facts_ms:.2f} ms")
    print(f"facts: {mean:+.3f} % [{mean - half:+.3f}, {mean + half:+.3f}], bound {BOUND_PERCENT} %")
    print(f"graphs compiled during the blocks: {compiled}, breaks: {breaks}")


if __name__ == "__main__":
    main()
