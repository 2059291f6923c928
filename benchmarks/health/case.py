"""One run as records, and the truth about it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

Record = dict[str, Any]


class Entry(NamedTuple):
    """A record as a reader of the run's folder meets it, in the order of writing."""

    rank: int
    writer: str
    record: Record


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, since when, and how soon its rule must have said so.

    A finding is in time when it opens at most ``limit_rows`` step records of rank 0 or ``limit_s``
    seconds after the onset, whichever is later; 0 and 0 ask for the onset's own record. ``names``
    are words of which one must stand in the finding's series or sentence: a layer, a rank.
    """

    rule: str
    onset_row: int
    onset_step: int
    onset_t: float
    limit_rows: int = 0
    limit_s: float = 0.0
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A run: healthy when ``fault`` is None.

    ``times`` are those of a clock that is right, one for each record; ``row_times`` those of rank
    0's step records, one for each ``every`` steps.
    """

    family: str
    seed: int
    records: list[Entry]
    fault: Fault | None
    times: list[float]
    row_times: list[float]
    every: int
    config: Mapping[str, Any] = field(default_factory=dict)
    silence_s: float = 0.0  # how long nobody writes after the last step

    @property
    def steps(self) -> int:
        """How many step records rank 0 wrote."""
        return len(self.row_times)

    def row_at(self, t: float) -> int:
        """The last step record of rank 0 that was written by ``t``."""
        return bisect_right(self.row_times, t + 1e-6) - 1
