"""Remembers how busy a process was over the last half minute, ten times a second."""

from __future__ import annotations

import threading
import time
from collections import deque

from epochal.companion.idle import Sample
from epochal.guard import Guard

PERIOD_S = 0.1
_KEPT_S = 40.0


class CpuRing:
    """A thread that samples one process; percent of one core, the process's own threads together.

    One reading takes some 30 microseconds, so the whole costs less than a thousandth of a core.
    """

    def __init__(self, pid: int, *, guard: Guard | None = None) -> None:
        self._pid = pid
        self._samples: deque[Sample] = deque(maxlen=round(_KEPT_S / PERIOD_S))
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=(guard or Guard()).wrap("source cpu", self._sample),
            name="epochal-cpu",
            daemon=True,
        )

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what was sampled stays."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(timeout=1.0)

    def between(self, start: float, end: float) -> list[Sample]:
        """The samples of a time, in Unix seconds."""
        return [sample for sample in list(self._samples) if start <= sample[0] <= end]

    def _sample(self) -> None:
        import psutil

        try:
            process = psutil.Process(self._pid)
            process.cpu_percent(None)
            while not self._stop.wait(PERIOD_S):
                self._samples.append((time.time(), process.cpu_percent(None)))
        except psutil.Error:
            return  # the process has ended
