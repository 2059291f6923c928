"""A source made of counters that only grow: each sample has their rates since the last one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Generic, TypeVar

from epochal.telemetry.rate import Rates
from epochal.telemetry.source import Metric, closed_error

SampleT = TypeVar("SampleT")


class CounterSource(Generic[SampleT]):
    """Reads counters of the machine; ``counts`` gives them, ``sample_of`` makes a sample of rates.

    Always there: what cannot be told is absent in the sample. ``clock`` counts seconds.
    """

    kind: ClassVar[str] = "system"
    why_absent: str | None = None

    def __init__(
        self,
        metrics: tuple[Metric, ...],
        *,
        counts: Callable[[], Mapping[str, int]],
        sample_of: Callable[[Mapping[str, int]], SampleT],
        clock: Callable[[], float],
    ) -> None:
        self.metrics = metrics
        self._counts = counts
        self._sample_of = sample_of
        self._rates = Rates(clock)
        self._closed = False

    def probe(self) -> bool:
        """Always true."""
        return True

    def sample(self) -> tuple[SampleT, ...]:
        """Read the counters; rates are those since the last call, at first there are none."""
        if self._closed:
            raise closed_error(self)
        return (self._sample_of(self._rates.since_last(self._counts())),)

    def close(self) -> None:
        """End the source; it holds nothing open."""
        self._closed = True
