"""How often telemetry is written, and by which clocks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

RECORD_EVERY_S = 10.0
LATER_RECORD_EVERY_S = 60.0
_FIRST_DAY_S = 86_400.0
# The ticks of a second come a moment early or late.
_LENIENCE_S = 0.5


class Cadence:
    """Counts from when it was made; ``clock`` counts seconds, ``wall`` gives Unix seconds."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.clock = clock
        self._wall = wall
        self._started_s = clock()

    def age_s(self) -> float:
        """How long telemetry has been running."""
        return self.clock() - self._started_s

    def record_every_s(self) -> float:
        """How much time one record stands for: less on the first day."""
        return RECORD_EVERY_S if self.age_s() < _FIRST_DAY_S else LATER_RECORD_EVERY_S

    def moment(self) -> float:
        """Now, in whole Unix seconds: regular times take next to nothing to store."""
        return float(math.floor(self._wall()))


def is_due(elapsed_s: float, every_s: float) -> bool:
    """Whether something is due that was done so long ago."""
    return elapsed_s >= every_s - _LENIENCE_S


def whole_seconds(elapsed_s: float) -> float:
    """A duration as records have it."""
    return float(round(elapsed_s))
