"""Scalars in long form: one row per point, for metrics that have no column of their own."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from epochal.records import Axis

# Stands for "none" where 64 bits have no other sign for it; journals hold no such numbers.
NO_NUMBER = -(2**63)
# A point without a place repeats what a document says, so that a series is found without parsing.
NO_PLACE = -1
# Types a long point may have: a float64 holds each of them exactly.
LONG_CODES = frozenset("fib")


class LongKey(NamedTuple):
    """A series in long form, and the object of the record its points are members of."""

    name: str
    axis: Axis
    field: str


class Along(NamedTuple):
    """Ordinals, steps and times of records as bytes: many series are of the same records."""

    ordinals: bytes
    steps: bytes
    milliseconds: bytes

    @classmethod
    def of(cls, ordinals: ArrayLike, steps: ArrayLike, milliseconds: ArrayLike) -> Along:
        """From whole numbers; ``NO_NUMBER`` where a record has none."""
        columns = (ordinals, steps, milliseconds)
        return cls(*(np.asarray(column, dtype=np.int64).tobytes() for column in columns))


@dataclass(slots=True)
class LongSeries:
    """The points of one series, in the order they were added."""

    ordinals: array[int] = field(default_factory=lambda: array("q"))
    steps: array[int] = field(default_factory=lambda: array("q"))
    milliseconds: array[int] = field(default_factory=lambda: array("q"))
    values: array[float] = field(default_factory=lambda: array("d"))
    places: array[int] = field(default_factory=lambda: array("q"))
    codes: bytearray = field(default_factory=bytearray)


class LongForm:
    """Every long point of a part, by series."""

    def __init__(self) -> None:
        self._series: dict[LongKey, LongSeries] = {}

    def __iter__(self) -> Iterator[tuple[LongKey, LongSeries]]:
        return iter(sorted(self._series.items()))

    def __len__(self) -> int:
        return sum(len(series.values) for series in self._series.values())

    def add(
        self,
        key: LongKey,
        along: Along,
        values: ArrayLike,
        *,
        place: int = NO_PLACE,
        code: str = "f",
    ) -> None:
        """Add points of one series that are of one type and in one place of their records."""
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = LongSeries()
        series.ordinals.frombytes(along.ordinals)
        series.steps.frombytes(along.steps)
        series.milliseconds.frombytes(along.milliseconds)
        series.values.frombytes(np.asarray(values, dtype=np.float64).tobytes())
        count = len(along.ordinals) // 8
        series.places.extend([place] * count)
        series.codes.extend(code.encode() * count)
