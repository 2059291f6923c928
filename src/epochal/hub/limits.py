"""Limits of a hub: how many wrong tokens an address may send, and how much is stored."""

from __future__ import annotations

import math
import os
import shutil
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epochal.errors import EpochalError
from epochal.format import format_bytes
from epochal.hub.ledger import Ledger
from epochal.server.access import TrustedProxy, address_of
from epochal.server.responses import error_response

FAILURES_PER_S = 0.2
FAILURES_BURST = 20
_MOST_KEPT = 10_000


class TokenBuckets:
    """Counts events by key; a key may spend ``burst`` at once and regains ``per_s`` each second."""

    def __init__(
        self, per_s: float, burst: float, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s = per_s
        self._burst = burst
        self._clock = clock
        self._lock = threading.Lock()
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def wait_s(self, key: Hashable) -> float:
        """How long a key must wait before its next event; 0 when it may go on."""
        with self._lock:
            return max(0.0, (1.0 - self._now(key)) / self._per_s)

    def spend(self, key: Hashable) -> None:
        """Count an event."""
        with self._lock:
            left = self._now(key)
            self._left[key] = (left - 1.0, self._clock())
            self._left.move_to_end(key)
            while len(self._left) > _MOST_KEPT:
                self._left.popitem(last=False)

    def _now(self, key: Hashable) -> float:
        left, at_s = self._left.get(key, (self._burst, self._clock()))
        return min(self._burst, left + (self._clock() - at_s) * self._per_s)


class GuessLimitMiddleware:
    """Answers 429 instead of 401 to an address that has sent too many wrong tokens.

    It runs in front of the access control and changes refusals only: a valid token is accepted,
    whoever else sends wrong ones from the same address.
    """

    def __init__(self, app: ASGIApp, *, proxy: TrustedProxy | None = None) -> None:
        self._app = app
        self._proxy = proxy
        self._failures = TokenBuckets(FAILURES_PER_S, FAILURES_BURST)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request, and replace the refusal where there were too many."""
        wait_s = 0.0

        async def send_unless_limited(message: Message) -> None:
            nonlocal wait_s
            if message["type"] == "http.response.start" and message["status"] == 401:
                address = address_of(scope, self._proxy)
                wait_s = self._failures.wait_s(address)
                if wait_s == 0:
                    self._failures.spend(address)
            if wait_s == 0:
                await send(message)

        await self._app(scope, receive, send_unless_limited)
        if wait_s > 0:
            seconds = math.ceil(wait_s)
            sentence = f"too many requests: try again in {seconds} s."
            refused = error_response(429, sentence, headers={"retry-after": str(seconds)})
            await refused(scope, receive, send)


# How much a hub stores: in all, of each writer, and never the last of its disk.
#
# What does not fit is refused with a sentence, and stays where it was recorded. Nothing is deleted
# here.

# Kept free for what else the machine does, and for the hub's own files.
RESERVE_BYTES = 256 << 20
_MEASURE_EVERY_S = 600.0
# Between two checks of the disk, what was charged counts as stored.
_CHECK_EVERY_S = 1.0
_STORE_EVERY_S = 5.0
_READ_EVERY_S = 60.0


class FullError(EpochalError):
    """A budget of bytes is spent: the shipper keeps its records and tries later."""


class Budget:
    """The limits of one hub in bytes; None for no limit, and for no folder whose disk may fill."""

    def __init__(
        self,
        root: Path | None,
        ledger: Ledger,
        *,
        most: float | None = None,
        most_per_writer: float | None = None,
        reserve: int = RESERVE_BYTES,
        clock: Callable[[], float] = time.monotonic,
        free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
    ) -> None:
        self._root = root
        self._ledger = ledger
        self._most = most
        self._most_per_writer = most_per_writer
        self._reserve = reserve
        self._clock = clock
        self._free = free
        self._lock = threading.Lock()
        self._storing = threading.Lock()
        self._measured_s = -math.inf
        self._checked_s, self._left = -math.inf, 0
        self._stored_s = self._read_s = clock()
        self._used = 0
        self._by_writer = Counter(ledger.bytes_by_writer())
        self._unstored: Counter[str] = Counter()
        self._writers: dict[str, str] = {}

    def charge(self, run_id: str, project: str, num_bytes: int) -> None:
        """Count bytes that are about to be stored; raises ``FullError`` when they do not fit."""
        with self._lock:
            if self._root is not None:
                self._check_disk(self._root, num_bytes)
            writer = self._writer_of(run_id)
            had = self._by_writer[writer]
            if self._most_per_writer is not None and had + num_bytes > self._most_per_writer:
                raise FullError(
                    f"{format_bytes(num_bytes)} more do not fit: {writer!r} has sent"
                    f" {format_bytes(had)} of its quota of {format_bytes(self._most_per_writer)}."
                    " Delete runs on the hub and empty its trash, or ask who runs it for more."
                )
            self._writers[run_id] = writer
            self._by_writer[writer] += num_bytes
            self._used += num_bytes
            self._unstored[run_id] += num_bytes
            is_due = self._clock() - self._stored_s >= _STORE_EVERY_S
            if is_due:
                self._stored_s = self._clock()
        if is_due:  # it waits for the disk: nobody else does
            self._store()

    def release(self, run_ids: Iterable[str]) -> None:
        """Give the bytes of runs that are no longer stored back to their writers."""
        self._store()
        self._ledger.clear_bytes(run_ids)
        with self._lock:
            self._writers.clear()  # others may send these runs from now on
            self._measured_s = self._read_s = -math.inf
        self._store()

    def close(self) -> None:
        """Store what was counted."""
        self._store()

    def _check_disk(self, root: Path, num_bytes: int) -> None:
        now_s = self._clock()
        if now_s - self._checked_s >= _CHECK_EVERY_S or self._left - num_bytes < self._reserve:
            self._checked_s, self._left = now_s, self._free(root)
        self._left -= num_bytes
        if self._left < self._reserve:
            raise FullError("the disk of the hub is full: delete runs there, then empty the trash.")
        if self._most is None:
            return
        if self._clock() - self._measured_s >= _MEASURE_EVERY_S:
            # Runs are deleted and sealed meanwhile: what is there is measured again now and then.
            self._used, self._measured_s = size_of(root), self._clock()
        if self._used + num_bytes > self._most:
            raise FullError(
                f"{format_bytes(num_bytes)} more do not fit: the hub stores"
                f" {format_bytes(self._used)} of at most {format_bytes(self._most)}. Delete runs"
                " there, then empty the trash."
            )

    def _writer_of(self, run_id: str) -> str:
        return self._writers.get(run_id) or self._ledger.writer_of(run_id) or "unknown"

    def _store(self) -> None:
        """Store what was counted, and now and then read what other hubs have counted."""
        with self._storing:
            with self._lock:
                counted = self._unstored.copy()
            if counted:
                self._ledger.add_bytes(counted)  # what it cannot store stays counted here
                with self._lock:
                    self._unstored -= counted
            if self._clock() - self._read_s >= _READ_EVERY_S:
                stored = Counter(self._ledger.bytes_by_writer())
                with self._lock:
                    self._read_s, self._by_writer = self._clock(), stored
                    for run_id, num_bytes in self._unstored.items():
                        self._by_writer[self._writer_of(run_id)] += num_bytes


def size_of(root: Path) -> int:
    """The sizes of all files below a folder; links are not followed."""
    total = 0
    for folder, _, names in os.walk(root):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_size
            except OSError:
                continue  # sealed or removed meanwhile
    return total
