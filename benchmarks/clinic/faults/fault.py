"""What a planted fault is, and by which measure its harm is proved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from benchmarks.clinic.harness import Bench

# result: the honest measure is worse than that of every healthy twin, beyond their spread.
# reported: what the training reports is away from the honest measure, beyond that spread.
# slower: a step takes longer. memory: the process grows. drift: copies differ. hang: no end.
Harm = Literal["result", "reported", "slower", "memory", "drift", "hang"]


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake, planted by changing a ``Bench`` before it trains.

    ``places`` are kinds with an optimizer of theirs: ``mlp/momentum``. ``wait_s`` is what it needs
    beyond its steps; ``telemetry_s`` is the interval of telemetry where memory matters.
    """

    name: str
    summary: str
    plant: Callable[[Bench], object]
    places: tuple[str, ...]
    harm: Harm = "result"
    wait_s: float = 0.0
    telemetry_s: float | None = None

    def kinds(self) -> tuple[tuple[str, str], ...]:
        """The kinds it is planted on, each with its optimizer."""
        return tuple((kind, optimizer) for kind, _, optimizer in map(_parted, self.places))


def _parted(place: str) -> tuple[str, str, str]:
    return place.partition("/")
