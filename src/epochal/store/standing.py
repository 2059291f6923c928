"""How a run looks from a list: how much was found, what of it holds, whether its loss is a number.

Only what stands in the run's files counts: no rule on curves is run for a list.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from epochal.errors import FormatError
from epochal.health.finding import Finding, Severity, told_as
from epochal.journal.layout import FINDINGS
from epochal.record import Record
from epochal.store.columns import SeriesKey
from epochal.store.late_findings import late_findings
from epochal.store.state import RunState


class Found(NamedTuple):
    """How many findings a run has, over or not, and how many of them still hold."""

    errors: int
    warnings: int
    open_errors: int
    open_warnings: int

    def and_one(self, severity: Severity | None) -> Found:
        """With one more that holds."""
        is_error, is_warning = severity == "error", severity == "warning"
        return Found(
            self.errors + is_error,
            self.warnings + is_warning,
            self.open_errors + is_error,
            self.open_warnings + is_warning,
        )


NOTHING = Found(0, 0, 0, 0)


def as_they_stand(told: Iterable[tuple[int, Record]], *, attempts: int) -> list[Finding]:
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


def found_in(state: RunState) -> Found | None:
    """What was found in all attempts; None where nobody looked in the newest."""
    told: list[tuple[int, Record]] = []
    was_watched = False
    for part in sorted(state.parts, key=lambda part: part.name.attempt):
        places = list(part.places("finding"))
        if part.name.attempt == state.attempts:
            was_watched |= bool(places) or part.name.writer == FINDINGS
        told += [(part.name.attempt, record) for record in part.read("finding", places)]
    if not was_watched:
        return None
    told += late_findings(state, {told_as(record) for _, record in told})
    findings = as_they_stand(told, attempts=state.attempts)
    every = [finding.severity for finding in findings]
    held = [finding.severity for finding in findings if finding.state == "open"]
    return Found(
        every.count("error"), every.count("warning"), held.count("error"), held.count("warning")
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
