"""One journal record as rules see it: decoded once for all rules."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from epochal.records import Record


class Observation(NamedTuple):
    """One record: its position and time, its numbers by series name and by role.

    ``values`` has every scalar, those that are not finite as floats; ``evaluations`` has those of
    an evaluation. ``roles`` has the values of the series that play a role, where this record
    carries them: ``loss`` (training), ``eval_loss``, ``norm`` (the gradient norm before clipping),
    ``lr`` and ``throughput`` (tokens or samples a second). ``is_extreme``: the records around it
    were skipped, and it has the smallest or the largest loss, evaluation loss or gradient norm
    among them. Only rules that want extremes get such a record.
    """

    kind: str
    step: int | None
    t: float
    rank: int
    writer: str
    values: Mapping[str, float]
    roles: Mapping[str, float]
    record: Record
    is_extreme: bool = False
    evaluations: Mapping[str, float] = MappingProxyType({})

    @property
    def rank_suffix(self) -> str:
        """What makes the subject of a finding that of its rank: " of rank 3", nothing for 0."""
        return f" of rank {self.rank}" if self.rank > 0 else ""

    def count_of(self, name: str) -> int:
        """A count among the facts of an event; 0 if it has none."""
        value = self.record.get(name)
        return value if isinstance(value, int) else 0
