"""What was found after a companion had closed its findings: an alert of the end that failed."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from epochal.guard import Guard
from epochal.health.diagnosis import Diagnosis
from epochal.health.finding import dedup_key
from epochal.health.rule_settings import RuleSettings
from epochal.health.rules.alert_failed import AlertFailed
from epochal.records import Record
from epochal.store.entries import entries_of
from epochal.store.state import RunState


def late_findings(
    state: RunState,
    written: Collection[tuple[str, ...]],
    rules: RuleSettings,
    *,
    guard: Guard | None = None,
) -> Iterator[tuple[int, Record]]:
    """Findings of failed alerts that are not ``written``, each with its attempt."""
    by_attempt: dict[int, Diagnosis] = {}
    for entry in entries_of(state, ("event",), name=AlertFailed.name, rank=None):
        attempt = entry.position.attempt
        diagnosis = by_attempt.setdefault(
            attempt, Diagnosis(rules=[AlertFailed], silenced=rules.silenced, guard=guard)
        )
        for finding in diagnosis.feed(entry.record, writer=entry.position.writer):
            if dedup_key(finding.record()) not in written:
                yield attempt, finding.record()
