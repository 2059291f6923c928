"""Passes evidence to the rules as the companion would, the clock ticking between records."""

from __future__ import annotations

import math
from collections.abc import Iterable

from benchmarks.clinic.evidence import Evidence
from epochal.health.diagnosis import Diagnosis
from epochal.health.finding import Finding
from epochal.records import Record, moment_of

# A live run is asked about the clock once a second; in a long wait, so often at most.
_MAX_TICKS = 100


def findings_of(evidence: Evidence, *, scalars_only: bool = False) -> list[Finding]:
    """What the rules find, each finding once, in its last state."""
    diagnosis = Diagnosis(config=evidence.config)
    entries = evidence.scalars_only() if scalars_only else iter(evidence.entries)
    now = _feed(diagnosis, entries)
    if evidence.result.get("result") is None:  # it never ended: the clock goes on
        for second in range(math.floor(evidence.ended - now)):
            diagnosis.tick(now + second + 1)
    else:
        diagnosis.close()
        diagnosis.renotify_at_end()
    return diagnosis.latest()


def _feed(diagnosis: Diagnosis, entries: Iterable[tuple[int, str, Record]]) -> float:
    now = 0.0
    for rank, writer, record in entries:
        t = moment_of(record)
        if now and t - now > 1:
            for second in range(min(_MAX_TICKS, math.floor(t - now))):
                diagnosis.tick(now + second + 1)
        now = max(now, t)
        diagnosis.feed(record, rank=rank, writer=writer)
    return now
