"""How a run looks from a list: how much was found, what of it holds, whether its loss is a number.

What stands in the run's files counts. Of attempts that nobody watched to their end, the rules run
over those with few records; a longer one is counted once ``doctor`` or the page has looked at it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from epochal.errors import FormatError
from epochal.health.finding import Finding, Severity, dedup_key
from epochal.health.rule_settings import RuleSettings
from epochal.journal.layout import FINDINGS
from epochal.records import Record
from epochal.store.columns import SeriesKey
from epochal.store.entries import by_time, entries_of
from epochal.store.late_findings import late_findings
from epochal.store.state import RunState


class FindingCounts(NamedTuple):
    """How many findings a run has, over or not, and how many of them still hold."""

    errors: int
    warnings: int
    open_errors: int
    open_warnings: int

    def and_one(self, severity: Severity | None) -> FindingCounts:
        """With one more that holds."""
        is_error, is_warning = severity == "error", severity == "warning"
        return FindingCounts(
            self.errors + is_error,
            self.warnings + is_warning,
            self.open_errors + is_error,
            self.open_warnings + is_warning,
        )


NOTHING = FindingCounts(0, 0, 0, 0)


def latest_findings(told: Iterable[tuple[int, Record]], *, attempts: int) -> list[Finding]:
    """Each finding as it was told last; ``told`` are records in order, with their attempts.

    What an attempt before the newest had is over: the run was taken up again after it.
    """
    by_id: dict[str, Finding] = {}
    for attempt, record in told:
        finding = Finding.from_record(record)
        if finding is not None:
            is_past = attempt < attempts and finding.state == "open"
            by_id[finding.id] = replace(finding, state="closed") if is_past else finding
    return list(by_id.values())


def count(findings: Iterable[Finding]) -> FindingCounts:
    """How many errors and warnings there are, and how many of them hold: the one count for all."""
    listed = list(findings)
    every = [finding.severity for finding in listed]
    held = [finding.severity for finding in listed if finding.state == "open"]
    return FindingCounts(
        every.count("error"), every.count("warning"), held.count("error"), held.count("warning")
    )


def found_in(state: RunState, rules: RuleSettings) -> FindingCounts | None:
    """What was recorded as found in all attempts; None where nobody looked in the newest."""
    newest = [part for part in state.parts if part.name.attempt == state.attempts]
    if not any(part.name.writer == FINDINGS or any(part.places("finding")) for part in newest):
        return None
    entries = by_time(entries_of(state, ("finding",), name=None, rank=None))
    told = [(entry.position.attempt, entry.record) for entry in entries]
    told += late_findings(state, {dedup_key(record) for _, record in told}, rules)
    return count(latest_findings(told, attempts=state.attempts))


def watched_attempts(state: RunState, *, is_live: bool) -> set[int]:
    """The attempts whose findings are in the run's own files, all of them."""
    parts = [part for part in state.parts if part.name.writer == FINDINGS]
    newest = {state.attempts} if is_live else set()
    return {
        part.name.attempt
        for part in parts
        if part.facts.finish is not None or part.name.attempt in newest
    }


def num_unwatched(state: RunState) -> int:
    """How many records nobody looked at to the end, as the run stands without a companion."""
    watched = watched_attempts(state, is_live=False)
    return sum(
        part.facts.num_records
        for part in state.parts
        if part.name.attempt not in watched and part.name.writer != FINDINGS
    )


def ends_nonfinite(state: RunState) -> bool:
    """Whether the last loss is nan or infinite; False as well where there is none to be read."""
    loss = next((metric for metric in state.metrics if metric.role == "loss"), None)
    if loss is None:
        return False
    try:
        pieces = state.pieces(SeriesKey(loss.name, loss.axis), loss.ranks[0])
    except (OSError, FormatError):  # the run's problem, which its row tells
        return False
    written = [(origin.attempt, piece) for origin, piece in pieces if piece.values.size]
    if not written:
        return False
    newest = max(written, key=lambda item: (item[0], item[1].times[-1]))[1]
    return not math.isfinite(newest.values[-1])
