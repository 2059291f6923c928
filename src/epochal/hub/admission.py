"""Decides which requests a hub takes on, so that none waits longer than its sender does.

A hub that takes on everything works on requests whose senders have given up, and these send them
again: it is busy, and acknowledges nothing. One that refuses what it cannot do in time goes on at
the speed of its disk.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from epochal.hub.inbox import BusyError

MOST_REQUESTS = 1024
MOST_BYTES = 128 << 20
# A sender gives up after 30 s, part of which passes before a request is read.
MOST_WAIT_S = 10.0
# A sender that comes back later than this is late for the page, and sooner is no relief.
_LEAST_RETRY_S = 2.0
_MOST_RETRY_S = 60.0
# Refusals of the last half a minute are those who come back.
_FORGET_S = 30.0
_SMOOTHING = 0.05


class Admission:
    """Counts the requests of one hub, in its event loop; ``num_threads`` are worked on at a time.

    How long a request would wait follows from how many wait, and how quickly others were done.
    """

    def __init__(
        self,
        num_threads: int,
        *,
        most_requests: int = MOST_REQUESTS,
        most_bytes: int = MOST_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.num_threads = num_threads
        self._most_requests = most_requests
        self._most_bytes = most_bytes
        self._clock = clock
        self.num_requests = self.num_bytes = 0
        self._num_working = 0
        # Between the ends of two requests, while all threads are busy.
        self._between_s = 0.0
        self._ended_s = -math.inf
        self._num_refused, self._refused_s = 0.0, -math.inf

    @contextmanager
    def admitted(self, num_bytes: int) -> Iterator[None]:
        """Count a request and the bytes of its body until it is answered.

        Raises ``BusyError`` where there are too many, or where it would wait for too long.
        """
        is_full = (
            self.num_requests >= self._most_requests
            or self.num_bytes + num_bytes > self._most_bytes
        )
        if is_full or self.wait_s > MOST_WAIT_S:
            self._count_refusal()
            raise BusyError("the hub has more to do than it can: it takes this a little later.")
        self.num_requests += 1
        self.num_bytes += num_bytes
        try:
            yield
        finally:
            self.num_requests -= 1
            self.num_bytes -= num_bytes

    @contextmanager
    def working(self) -> Iterator[None]:
        """Count a request that waits for a thread, or has one."""
        self._num_working += 1
        if self._num_working == self.num_threads:
            self._ended_s = self._clock()
        is_cancelled = False
        try:
            yield
        except asyncio.CancelledError:  # its sender has gone: that says nothing of our speed
            is_cancelled = True
            raise
        finally:
            if not is_cancelled:
                self._count_end()
            self._num_working -= 1

    @property
    def is_waiting(self) -> bool:
        """Whether all threads are busy."""
        return self._num_working >= self.num_threads

    @property
    def wait_s(self) -> float:
        """How long one more request would wait for a thread."""
        if not self.is_waiting:
            return 0.0
        num_before = 1 + self._num_working - self.num_threads
        return max(num_before * self._between_s, self._clock() - self._ended_s)

    def retry_after_s(self) -> int:
        """When whoever was refused should come back, by how many they are.

        Each gets another answer, so that they do not come back in the same second.
        """
        now_s = self._clock()
        num_refused = self._num_refused * math.exp((self._refused_s - now_s) / _FORGET_S)
        wait_s = self.wait_s + num_refused * self._between_s
        bounded_s = min(max(wait_s, _LEAST_RETRY_S), _MOST_RETRY_S / 2)
        return math.ceil(bounded_s * random.uniform(1.0, 2.0))

    def _count_refusal(self) -> None:
        now_s = self._clock()
        before = self._num_refused * math.exp((self._refused_s - now_s) / _FORGET_S)
        self._num_refused, self._refused_s = before + 1.0, now_s

    def _count_end(self) -> None:
        if self.is_waiting:
            now_s = self._clock()
            self._between_s += _SMOOTHING * (now_s - self._ended_s - self._between_s)
            self._ended_s = now_s
