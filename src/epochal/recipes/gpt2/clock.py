"""How long a step takes: the device's time, without evaluations, and without stopping the device.

The host queues work ahead of a GPU, so that the time between two of its own lines says little. Here
the host waits at the end of a step for a mark that was set shortly before. So it is never further
ahead than one backward pass, and the GPU always has work.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from epochal.recipes.gpt2.place import Place
from epochal.values import single


class StepClock:
    """Laps of a training loop; time inside `paused` belongs to none of them."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._event: Any = None
        if place.device.type == "cuda":
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        self._since = time.perf_counter()

    def mark(self) -> None:
        """Set the mark that `lap_ms` waits for; call it before the step's last backward pass."""
        if self._event is not None:
            self._event.record()

    def lap_ms(self) -> float:
        """Milliseconds since the lap before; in 32 bits, since more digits would be noise."""
        if self._event is not None:
            self._event.synchronize()
        now = time.perf_counter()
        elapsed_s, self._since = now - self._since, now
        return single(elapsed_s * 1000.0)

    @contextmanager
    def paused(self, *, when: bool = True) -> Iterator[None]:
        """Leave something out; what was queued before still belongs to the step it is of."""
        if not when:
            yield
            return
        self._place.synchronize()
        begun_s = time.perf_counter() - self._since
        try:
            yield
        finally:
            self._place.synchronize()
            self._since = time.perf_counter() - begun_s
