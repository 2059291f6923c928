"""TensorBoard event files: what every writer of them has in common."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.contender import Log


def scalar_by_scalar(writer: Any) -> Log:
    """The only way a SummaryWriter has of logging a step: one add_scalar per key."""
    add_scalar = writer.add_scalar

    def log(values: dict[str, float], *, step: int) -> None:
        for key, value in values.items():
            add_scalar(key, value, step)

    return log


def complete_steps(directory: Path, keys: Sequence[str]) -> set[int]:
    """The steps at which every key has a scalar event."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    everything = 0  # the accumulator's word for "do not sample"
    events = EventAccumulator(str(directory), size_guidance={"scalars": everything})
    events.Reload()
    if not set(keys) <= set(events.Tags()["scalars"]):
        return set()
    return set.intersection(*({event.step for event in events.Scalars(key)} for key in keys))
