"""Epochs as rows of figures, the same for the table and the log, from a store or from memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from epochal.records import finite
from epochal.store.store import RunView


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRow:
    """One epoch; ``epoch`` counts completed ones, ``duration_s`` in seconds, None where unknown."""

    epoch: int
    total: int | None = None
    duration_s: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    resources: Mapping[str, float] = field(default_factory=dict)


def epochs_of(run: RunView) -> Iterator[EpochRow]:
    """The epochs of a run, in order, later attempts over earlier ones."""
    return epoch_rows(entry.record for entry in run.entries("epoch"))


def epoch_rows(records: Iterable[Mapping[str, Any]]) -> Iterator[EpochRow]:
    """The rows of ``epoch`` records as a run writes them."""
    for record in records:
        words = record.get("nonfinite") or {}
        metrics = {
            name: float(words[name]) if value is None and name in words else value
            for name, value in (record.get("m") or {}).items()
        }
        yield EpochRow(
            epoch=record["epoch"],
            total=record.get("total"),
            duration_s=finite(record.get("duration_s")),
            metrics={name: value for name, value in metrics.items() if value is not None},
            resources={k: v for k, v in (record.get("resources") or {}).items() if v is not None},
        )
