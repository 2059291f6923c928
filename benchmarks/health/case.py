"""One run as records, and the truth about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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

    The fault is in time for a finding that opens within ``limit_steps`` steps or ``limit_s``
    seconds of its onset, whichever is later; 0 and 0 ask for the onset's own record. ``names`` are
    words of which one must stand in the finding's series or sentence: a layer, a rank.
    """

    rule: str
    onset_step: int
    onset_t: float
    limit_steps: int = 0
    limit_s: float = 0.0
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """A run: healthy when ``fault`` is None. ``steps`` counts rank 0's step records."""

    family: str
    seed: int
    records: list[Entry]
    fault: Fault | None
    steps: int
    config: Mapping[str, Any] = field(default_factory=dict)
    silence_s: float = 0.0  # how long nobody writes after the last record

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.records)
