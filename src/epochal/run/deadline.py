"""How long the end of a run may take: one moment that all of its waits share."""

from __future__ import annotations

import time
from collections.abc import Callable

FINISH_WAIT_S = 5.0
# Somebody who stops a training wants it to stop; the companion goes on by itself.
_IMPATIENT = frozenset({"interrupted", "terminated"})


class Deadline:
    """A moment of a clock, ``wait_s`` from now; at once for a run that somebody stopped."""

    def __init__(
        self,
        wait_s: float = FINISH_WAIT_S,
        *,
        status: str = "finished",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._moment_s = clock() + (0.0 if status in _IMPATIENT else wait_s)

    def left_s(self) -> float:
        """Seconds until then, 0 when it has passed."""
        return max(0.0, self._moment_s - self._clock())

    def sleep(self, pause_s: float) -> None:
        """Sleep a while, not beyond the deadline; somebody who interrupts it will not wait more."""
        try:
            time.sleep(min(pause_s, self.left_s()))
        except KeyboardInterrupt:
            self._moment_s = self._clock()
            raise
