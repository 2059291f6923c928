"""The time of a cluster: what hubs store is ordered and found by it, not by the clocks of hubs."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

# A server says whole seconds: a clock that differs by less is taken as it is.
_EQUAL_S = 2.0
_MEASURE_EVERY_S = 10.0


class ClusterClock:
    """``ask`` returns the Unix time of a server, in whole seconds; ``own`` that of this machine."""

    def __init__(self, ask: Callable[[], float], own: Callable[[], float] = time.time) -> None:
        self._ask = ask
        self._own = own
        self._lock = threading.Lock()
        self._measured_s = 0.0
        # What has to be added to the monotonic time, and to which this machine's clock added then.
        self._from_monotonic_s = self._own_from_monotonic_s = 0.0
        self.measure()

    def now(self) -> float:
        """The time of the cluster in Unix seconds."""
        return time.monotonic() + self._from_monotonic_s

    def measure(self) -> None:
        """Ask a server for its time; raises ``ClickHouseError``."""
        asked_s = time.monotonic()
        there_s = self._ask() + 0.5
        now_s = time.monotonic()
        if now_s - asked_s > _EQUAL_S and self._measured_s:
            return  # too slow to say anything
        here_s = self._own()
        time_s = here_s if abs(there_s - here_s) <= _EQUAL_S else there_s
        with self._lock:
            self._measured_s = now_s
            self._from_monotonic_s = time_s - now_s
            self._own_from_monotonic_s = here_s - now_s

    def follow(self) -> None:
        """Measure again when that was some time ago, or this machine's clock was set or slept."""
        now_s = time.monotonic()
        shift_s = self._own() - now_s - self._own_from_monotonic_s
        if now_s - self._measured_s > _MEASURE_EVERY_S or abs(shift_s) > 1.0:
            self.measure()
