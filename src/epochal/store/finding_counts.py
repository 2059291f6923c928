"""Counts findings: how many a run has, and how many of them still hold."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from epochal.health.finding import Finding, Severity
from epochal.records import Record


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
