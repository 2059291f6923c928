"""What is logged: names and values like a training run's."""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Iterator

POOL = 256  # a power of two: step & (POOL - 1) picks a row
REFERENCE_STEPS = 95_365
EVAL_EVERY = 250
REFERENCE_KEYS = (
    "train/loss",
    "train/grad_norm",
    "train/lr",
    "train/tokens_per_second",
    "train/step_ms",
    "gpu/0/memory_used",
)


def metric_names(count: int) -> list[str]:
    return [f"train/metric_{number:02d}" for number in range(count)]


def rows(keys: list[str]) -> list[dict[str, float]]:
    """Rows to cycle through, every value a double with all its digits."""
    source = random.Random(7)
    return [{key: source.uniform(0, 10) for key in keys} for _ in range(POOL)]


def reference_run(steps: int) -> Iterator[dict[str, float]]:
    """A GPT-2 pretraining as it is logged: six scalars a step, a seventh at each evaluation.

    Losses and norms are float32 (they come out of tensors), step times whole milliseconds, the rest
    Python's own doubles.
    """
    source = random.Random(11)
    for step in range(steps):
        loss = 3.1 + 7.8 * math.exp(-step / 2500) + source.gauss(0, 0.04)
        step_ms = float(round(331 + source.expovariate(0.5)))
        progress = step / REFERENCE_STEPS
        values = (
            _float32(loss),
            _float32(0.3 + 2 * math.exp(-step / 900) + abs(source.gauss(0, 0.05))),
            6e-4 * (0.1 + 0.45 * (1 + math.cos(math.pi * progress))),
            524_288 / step_ms * 1000,
            step_ms,
            float(61_203_283_968 + source.randrange(4) * 2_097_152),
        )
        row = dict(zip(REFERENCE_KEYS, values, strict=True))
        if step % EVAL_EVERY == 0:
            row["val/loss"] = _float32(loss + 0.02)
        yield row


def _float32(value: float) -> float:
    return array("f", [value])[0]
