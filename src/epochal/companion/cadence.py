"""How often telemetry is written, and by which clocks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

RECORD_EVERY_S = 10.0
LATER_RECORD_EVERY_S = 60.0
HOST_EVERY_S = 5.0
_FIRST_DAY_S = 86_400.0
# The ticks of a second come a moment early or late.
_LENIENCE_S = 0.5


class Cadence:
    """Counts from when it was made; ``clock`` counts seconds, ``wall`` gives Unix seconds.

    ``every_s`` is how much time one record stands for; left out, ten seconds, and sixty after the
    first day.
    """

    def __init__(
        self,
        *,
        every_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.clock = clock
        self._wall = wall
        self._every_s = every_s
        self._started_s = clock()

    def age_s(self) -> float:
        """How long telemetry has been running."""
        return self.clock() - self._started_s

    def record_every_s(self) -> float:
        """The time that one record covers: the setting, else less on the first day."""
        if self._every_s is not None:
            return self._every_s
        return RECORD_EVERY_S if self.age_s() < _FIRST_DAY_S else LATER_RECORD_EVERY_S

    def thorough_every_s(self) -> float:
        """How often a GPU is read thoroughly: what records are made of, and no rarer."""
        return min(RECORD_EVERY_S, self.record_every_s())

    def host_every_s(self) -> float:
        """How often the host is read."""
        return min(HOST_EVERY_S, self.record_every_s())

    def moment(self) -> float:
        """Now, in whole Unix seconds: regular times take next to nothing to store."""
        return float(math.floor(self._wall()))


def is_due(elapsed_s: float, every_s: float) -> bool:
    """Whether something is due that was done so long ago."""
    return elapsed_s >= every_s - _LENIENCE_S


def whole_seconds(elapsed_s: float) -> float:
    """A duration as records have it."""
    return float(round(elapsed_s))
