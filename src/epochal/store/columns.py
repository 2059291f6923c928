"""The numbers of a run as growing columns: 24 bytes a point, never an object per record."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochal.record import Axis, Record, scalars_of

_STEP_LIMIT = 2**63
NO_STEP = -1


class Origin(NamedTuple):
    """Who logged a point: attempts and children are told apart until they are merged."""

    rank: int
    is_child: bool
    attempt: int


@dataclass(slots=True)
class Column:
    """The points one origin logged to one series, in the order they were written."""

    steps: array[int] = field(default_factory=lambda: array("q"))
    times: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def arrays(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Copies of the three columns: a view would forbid the buffers to grow."""
        return (
            np.array(self.steps, dtype=np.int64),
            np.array(self.times, dtype=np.float64),
            np.array(self.values, dtype=np.float64),
        )


class SeriesKey(NamedTuple):
    """A name on an axis: an epoch's ``loss`` and a step's ``loss`` are two series."""

    name: str
    axis: Axis


class Columns:
    """Every series of a run, by name and axis, then by origin; in order of first appearance."""

    def __init__(self) -> None:
        self._columns: dict[SeriesKey, dict[Origin, Column]] = {}
        # The same columns again, found by one lookup of a name: this runs once per point.
        self._by_name: dict[tuple[Origin, Axis], dict[str, Column]] = {}

    def __iter__(self) -> Iterator[SeriesKey]:
        return iter(self._columns)

    def __contains__(self, key: object) -> bool:
        return key in self._columns

    def of(self, key: SeriesKey) -> Mapping[Origin, Column]:
        """The columns of one series."""
        return self._columns[key]

    def add(self, record: Record, *, axis: Axis, at: int, t: float, origin: Origin) -> None:
        """Append every scalar of a record at a step, or at a time with ``at`` as its step."""
        by_name = self._by_name.setdefault((origin, axis), {})
        for name, value in _all_scalars(record):
            column = by_name.get(name)
            if column is None:
                column = by_name[name] = Column()
                self._columns.setdefault(SeriesKey(name, axis), {})[origin] = column
            # The value first: one too large for 64 bits raises before anything is added.
            column.values.append(value)
            column.times.append(t)
            column.steps.append(at)


def whole_number(value: Any) -> int | None:
    """A step or epoch as 64 bits hold it; None for anything that is not one."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -_STEP_LIMIT <= value < _STEP_LIMIT else None


def seconds(record: Record) -> float:
    """A record's time in Unix seconds; nan when it has none."""
    t = record.get("t")
    return float(t) if isinstance(t, (int, float)) else float("nan")


def _all_scalars(record: Record) -> Iterable[tuple[str, float]]:
    if record["log"] == "metrics" and "nonfinite" not in record:
        metrics: Mapping[str, Any] = record.get("m") or {}
        # What run.log writes: all numbers, nothing to look up.
        if all(type(value) is float or type(value) is int for value in metrics.values()):
            return metrics.items()
    if record["log"] == "epoch":
        return chain(scalars_of(record), _epoch_extras(record))
    return scalars_of(record)


def _epoch_extras(record: Record) -> Iterator[tuple[str, float]]:
    """An epoch's duration and resources, under names that no user's metric has to fear."""
    duration = record.get("duration_s")
    if isinstance(duration, (int, float)):
        yield "epoch/duration_s", float(duration)
    resources = record.get("resources")
    if isinstance(resources, Mapping):
        for name, value in resources.items():
            if isinstance(value, (int, float)):
                yield f"resources/{name}", float(value)
