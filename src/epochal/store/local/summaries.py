"""Summarises every series of a run from the summaries of its parts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from epochal.records import Axis
from epochal.segments.columns import PartSummary, SeriesKey
from epochal.series.reduce import Summary
from epochal.store.local.part import weight_of
from epochal.store.local.state import RunState


def all_summaries(state: RunState) -> dict[tuple[SeriesKey, int], Summary]:
    """The summaries of all series whose points ascend from part to part, by series and rank.

    Those of sealed parts are in their files: no column of them is read.
    """
    cuts = {axis: state.cuts(axis) for axis in ("step", "epoch")}
    pieces: dict[tuple[SeriesKey, int], list[PartSummary | None]] = {}
    for part in sorted(state.parts, key=lambda part: weight_of(part.facts.origin)):
        origin = part.facts.origin
        for key, piece in state.part_summaries[part.name].items():
            cut, last = cuts.get(key.axis, {}).get(origin.attempt), piece.summary.last_step
            is_hidden = cut is not None and (last is None or last >= cut)
            pieces.setdefault((key, origin.rank), []).append(None if is_hidden else piece)
    found = ((key, joined_summary(key[0].axis, some)) for key, some in pieces.items())
    return {key: summary for key, summary in found if summary is not None}


def joined_summary(axis: Axis, pieces: Sequence[PartSummary | None]) -> Summary | None:
    """The summary of a series in several parts; None unless its points ascend through them."""
    known = [piece for piece in pieces if piece is not None]
    if len(known) < len(pieces):
        return None
    if len(known) == 1:
        return known[0].summary
    for before, after in itertools.pairwise(known):
        end = before.last_t if axis == "time" else before.summary.last_step
        if end is None or not (end <= after.first_at if axis == "time" else end < after.first_at):
            return None
    summaries = [piece.summary for piece in known]
    finite = [one for one in summaries if one.mean is not None]
    lowest = min(finite, key=lambda one: one.min or 0.0, default=None)
    highest = max(finite, key=lambda one: one.max or 0.0, default=None)
    counts = [one.count - one.nonfinite for one in finite]
    return Summary(
        count=sum(one.count for one in summaries),
        nonfinite=sum(one.nonfinite for one in summaries),
        first=summaries[0].first,
        last=summaries[-1].last,
        last_step=summaries[-1].last_step,
        min=None if lowest is None else lowest.min,
        min_step=None if lowest is None else lowest.min_step,
        max=None if highest is None else highest.max,
        max_step=None if highest is None else highest.max_step,
        mean=float(np.average([one.mean or 0.0 for one in finite], weights=counts))
        if finite
        else None,
    )
