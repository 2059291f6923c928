"""Limits of a hub: how many wrong tokens an address may send, and how much is stored."""

from __future__ import annotations

import math
import shutil
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from epochal.errors import EpochalError
from epochal.hub.ledger import Ledger
from epochal.journal.layout import RunFolder, run_folders
from epochal.records.format import format_bytes
from epochal.server.access import TrustedProxy, address_of
from epochal.server.responses import error_response
from epochal.shipping.offering import json_or_empty
from epochal.store.local.trash import folder_bytes

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


# How much a hub stores: in all, of each writer, and in a folder never the last of its disk.
#
# What does not fit is refused with a sentence, and stays where it was recorded. Nothing is deleted
# here.

# Kept free for what else the machine does, and for the hub's own files.
RESERVE_BYTES = 256 << 20
_MEASURE_EVERY_S = 600.0
# Between two checks of the disk, what was charged counts as stored.
_CHECK_EVERY_S = 1.0


class FullError(EpochalError):
    """A budget of bytes is spent: the shipper keeps its records and tries later."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How many bytes a hub stores: in all, and of each writer; None for no limit."""

    most: float | None = None
    most_per_writer: float | None = None

    def __bool__(self) -> bool:
        return self.most is not None or self.most_per_writer is not None

    def charging(self, by_writer: Mapping[str, int]) -> Callable[[str, int], None]:
        """Counts bytes of a writer that are about to be stored, where so many are stored now.

        It raises ``FullError`` when they do not fit. What takes no more than before always does.
        """
        used, total = Counter(by_writer), sum(by_writer.values())

        def charge(writer: str, num_bytes: int) -> None:
            nonlocal total
            if num_bytes <= 0:
                return
            if self.most is not None and total + num_bytes > self.most:
                raise FullError(
                    f"{format_bytes(num_bytes)} more do not fit: the hub stores"
                    f" {format_bytes(total)} of at most {format_bytes(self.most)}. Delete runs"
                    " there, then empty the trash."
                )
            had, most = used[writer], self.most_per_writer
            if writer and most is not None and had + num_bytes > most:
                raise FullError(
                    f"{format_bytes(num_bytes)} more do not fit: {writer!r} has stored"
                    f" {format_bytes(had)} of its quota of {format_bytes(most)}. Delete runs on"
                    " the hub and empty its trash, or ask who runs it for more."
                )
            used[writer] += num_bytes
            total += num_bytes

        return charge


class Budget:
    """What may be stored in the folder of a hub, which also keeps the last of its disk free.

    Runs are deleted and sealed meanwhile, so what is there is measured again now and then.
    """

    def __init__(
        self,
        root: Path,
        ledger: Ledger,
        limits: Limits,
        *,
        reserve: int = RESERVE_BYTES,
        clock: Callable[[], float] = time.monotonic,
        free: Callable[[Path], int] = lambda path: shutil.disk_usage(path).free,
    ) -> None:
        self._root = root
        self._ledger = ledger
        self._limits = limits
        self._reserve = reserve
        self._clock = clock
        self._free = free
        self._lock = threading.Lock()
        self._measured_s = -math.inf
        self._checked_s, self._left = -math.inf, 0
        self._charge = limits.charging({})

    def charge(self, run_id: str, num_bytes: int) -> None:
        """Count bytes that are about to be stored; raises ``FullError`` when they do not fit."""
        with self._lock:
            self._check_disk(num_bytes)
            if not self._limits:
                return
            if self._clock() - self._measured_s >= _MEASURE_EVERY_S:
                self._charge = self._limits.charging(self._measured())
                self._measured_s = self._clock()
            self._charge(self._ledger.writer_of(run_id) or "", num_bytes)

    def measure_again(self) -> None:
        """Measure what is stored before the next charge: something was erased."""
        with self._lock:
            self._measured_s = -math.inf

    def _check_disk(self, num_bytes: int) -> None:
        now_s = self._clock()
        if now_s - self._checked_s >= _CHECK_EVERY_S or self._left - num_bytes < self._reserve:
            self._checked_s, self._left = now_s, self._free(self._root)
        self._left -= num_bytes
        if self._left < self._reserve:
            raise FullError("the disk of the hub is full: delete runs there, then empty the trash.")

    def _measured(self) -> Counter[str]:
        """What is stored of each writer, and under '' everything else."""
        found: Counter[str] = Counter()
        if self._limits.most_per_writer is not None:
            trashed = (RunFolder(path.parent) for path in self._root.glob("*/.trash/*/*/run.json"))
            for folder in (*run_folders(self._root), *trashed):
                run_id = str(json_or_empty(folder.identity).get("id"))
                found[self._ledger.writer_of(run_id) or ""] += folder_bytes(folder.path)
        found[""] += folder_bytes(self._root) - found.total()
        return found
