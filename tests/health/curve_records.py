"""Curves of made-up runs for the rules on curves, and the records that carry them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from epochal.records import Record

START = 1_700_000_000.0


def noise(count: int, width: float, seed: int = 0) -> list[float]:
    """Normal noise of this width, always the same for a seed."""
    chance = random.Random(seed)
    return [chance.gauss(0.0, width) for _ in range(count)]


def falling(
    count: int, *, start: float = 6.0, floor: float = 2.0, width: float = 0.02
) -> list[float]:
    """A loss that falls as a power of the step, with noise in proportion."""
    return [
        (floor + (start - floor) * (1 + n / 100) ** -0.6) * (1 + around)
        for n, around in enumerate(noise(count, width))
    ]


def flat(count: int, level: float, *, width: float = 0.02, seed: int = 1) -> list[float]:
    """A level with noise in proportion."""
    return [level * (1 + around) for around in noise(count, width, seed)]


def steps(
    losses: Sequence[float], *, first: int = 0, **columns: Sequence[Any] | float
) -> list[Record]:
    """Step records of losses, one a second; a column is a field's values, or one for all."""
    records: list[Record] = []
    for n, loss in enumerate(losses):
        record: Record = {"log": "step", "t": START + first + n, "step": first + n, "loss": loss}
        for name, column in columns.items():
            record[name] = column[n] if isinstance(column, Sequence) else column
        records.append(record)
    return records


def evals(losses: Sequence[float], *, every: int, **metrics: Sequence[float]) -> list[Record]:
    """Evaluation records, one behind each ``every`` steps."""
    return [
        {
            "log": "eval",
            "t": START + (n + 1) * every - 0.5,
            "step": (n + 1) * every - 1,
            "loss": loss,
            "m": {name: values[n] for name, values in metrics.items()},
        }
        for n, loss in enumerate(losses)
    ]


def in_order(*series: Sequence[Record]) -> list[Record]:
    """Several lists of records as one, by time."""
    return sorted((record for one in series for record in one), key=lambda record: record["t"])
