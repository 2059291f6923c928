"""Turns counters that only grow into rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping


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
