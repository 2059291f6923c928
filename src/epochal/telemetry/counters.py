"""Counters that only grow, and a source of their rates since the last sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Generic, TypeVar

from epochal.telemetry.source import Metric, closed_error


class Rates:
    """Remembers some counters and tells how fast each grew since the last look; per second.

    ``clock`` counts seconds. The first look has no rates, nor has a counter that stepped back.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._previous: tuple[float, Mapping[str, int]] | None = None

    def since_last(self, counts: Mapping[str, int]) -> dict[str, int]:
        """The rate of each counter that has one, rounded to whole units."""
        now_s = self._clock()
        previous, self._previous = self._previous, (now_s, counts)
        if previous is None or now_s <= previous[0]:
            return {}
        before_s, before = previous
        return {
            name: round((count - before[name]) / (now_s - before_s))
            for name, count in counts.items()
            if name in before and count >= before[name]
        }


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
        """End the source; nothing is open."""
        self._closed = True
