"""How a run looks from a list: what still holds of its findings, and whether its loss is a number.

Only what stands in the run's files counts: no rule is run for a list.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from epochal.errors import FormatError
from epochal.health.finding import Finding
from epochal.journal.layout import FINDINGS
from epochal.store.columns import SeriesKey
from epochal.store.state import RunState


class OpenFindings(NamedTuple):
    """How many findings of the newest attempt are not over."""

    errors: int
    warnings: int


def open_findings(state: RunState) -> OpenFindings | None:
    """Counted by severity, each finding as it was told last; None where nobody looked for any."""
    by_id: dict[str, Finding] = {}
    was_watched = False
    for part in state.parts:
        if part.name.attempt != state.attempts:
            continue
        places = list(part.places("finding"))
        was_watched |= bool(places) or part.name.writer == FINDINGS
        told = map(Finding.from_record, part.read("finding", places))
        by_id |= {finding.id: finding for finding in told if finding is not None}
    if not was_watched:
        return None
    severities = [finding.severity for finding in by_id.values() if finding.state == "open"]
    return OpenFindings(severities.count("error"), severities.count("warning"))


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
