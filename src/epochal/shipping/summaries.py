"""Sends what a run says of itself: ``summary.json``, and ``metrics.json`` now and then.

Each is sent after the lines that it covers were acknowledged, so that a hub never says more than a
reader of its records would find.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from epochal.errors import FormatError
from epochal.journal.layout import RunFolder
from epochal.journal.regular_file import read_regular
from epochal.journal.row import Mark, RunRow
from epochal.journal.summaries import MOST_BYTES, carried_summary, read_metrics
from epochal.shipping.client import HubClient, HubError

_EVERY_S = 15.0
# A hub takes no more.
_MOST_METRICS_BYTES = 8 << 20

# Whether the hub has acknowledged what lies before some positions.
Covers = Callable[[Mapping[str, Mark]], bool]


class SummaryShipping:
    """Sends the summaries of one run over one connection; one thread uses it.

    ``summary.json`` goes out every 15 s, or when the run has ended or has another number of open
    errors; ``metrics.json`` when a part was sealed, and at the end.
    """

    def __init__(
        self, folder: RunFolder, client: HubClient, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = folder
        self._client = client
        self._clock = clock
        self._is_known = True
        self._due_s = -math.inf
        # Of each file, the version that the hub has or has refused.
        self._summary_sent: tuple[int, ...] | None = None
        self._metrics_sent: tuple[int, ...] | None = None
        self._state_sent: tuple[bool, int] | None = None
        self._num_sealed_sent = 0
        # The last summary that was read: its version, its bytes and what it says.
        self._read: tuple[tuple[int, ...], bytes, RunRow | None] | None = None

    def forget(self) -> None:
        """Send both again: the hub may have been restored from an older copy."""
        self._due_s = -math.inf
        self._summary_sent = self._metrics_sent = None

    def ship(self, run_id: str, covers: Covers) -> None:
        """Send what is due; raises ``HubError`` where the hub cannot be reached."""
        version = _version(self._folder.summary) if self._is_known else None
        if version is None or version == self._summary_sent:
            return
        summary, row = self._summary(version)
        if row is None:
            return
        state = (row.is_ended, 0 if row.counts is None else row.counts.open_errors)
        if self._clock() < self._due_s and state == self._state_sent:
            return
        if not covers(row.positions):
            return  # its lines are on their way
        self._ship_metrics(run_id, covers, is_ended=row.is_ended)
        if self._is_taken(lambda: self._client.put_summary(run_id, summary)):
            self._summary_sent, self._state_sent = version, state
        self._due_s = self._clock() + _EVERY_S

    def _ship_metrics(self, run_id: str, covers: Covers, *, is_ended: bool) -> None:
        num_sealed = len(self._folder.sealed_parts())
        version = _version(self._folder.metrics)
        if version in (None, self._metrics_sent):
            return
        if not (is_ended or num_sealed != self._num_sealed_sent):
            return
        metrics = _bytes(self._folder.metrics, _MOST_METRICS_BYTES)
        known = read_metrics(str(self._folder.path))  # later: it covers as much, or more
        if not metrics or known is None or not covers(known.marks):
            return
        if self._is_taken(lambda: self._client.put_metrics(run_id, metrics)):
            self._metrics_sent, self._num_sealed_sent = version, num_sealed

    def _is_taken(self, put: Callable[[], bool]) -> bool:
        """Whether the hub has taken something, or will never take it."""
        if not self._is_known:
            return False
        try:
            return put()
        except HubError as error:
            if error.status in (404, 405):  # its lines were taken: it is an older hub
                self._is_known = False
                return False
            if error.status not in (400, 413):
                raise
            return True  # a reader of the hub reads the records instead

    def _summary(self, version: tuple[int, ...]) -> tuple[bytes, RunRow | None]:
        if self._read is None or self._read[0] != version:
            summary = _bytes(self._folder.summary, 4 * MOST_BYTES)
            row = carried_summary(str(self._folder.path))  # later: it covers as much, or more
            self._read = (version, summary, row if summary else None)
        return self._read[1:]


def _version(path: Path) -> tuple[int, ...] | None:
    """What changes when a file is replaced; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _bytes(path: Path, most_bytes: int) -> bytes:
    """The content of a file; empty where it cannot be read, or is too large to be sent."""
    try:
        return read_regular(path, max_bytes=most_bytes)
    except (OSError, FormatError):
        return b""
