"""Records that the training process is alive, for readers who cannot see it from where they are.

Every record of a companion says so; this one is for when it has nothing else to say. Telemetry is
written every ten seconds of the first day, so that heartbeats begin with the second.
"""

from __future__ import annotations

import math
import time

from epochal.companion.cadence import is_due
from epochal.companion.own_journal import OwnJournal
from epochal.records import HEARTBEAT_EVERY_S

LOOK_EVERY_S = 5.0


class Heartbeat:
    """Writes to the companion's journal when nothing else was written for a while."""

    def __init__(self, journal: OwnJournal) -> None:
        self._journal = journal

    def look(self) -> None:
        """Write a heartbeat if one is due; called only while the process is alive."""
        if is_due(self._journal.idle_s, HEARTBEAT_EVERY_S):
            # Whole seconds take next to nothing to store.
            self._journal.write("heartbeat", {}, at=float(math.floor(time.time())))
