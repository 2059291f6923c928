"""Reads or summarises every series of a run at once, table by table.

A table holds series that were logged together, so their steps are looked at once. A series that is
spread over several tables, or whose steps repeat or go back, is left to ``RunState.series``.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochal.records import Axis
from epochal.segments.columns import PartSummary
from epochal.series.reduce import Summary
from epochal.series.series import EXACT_UP_TO, Series
from epochal.store.local.columns import SeriesKey
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
    joined = ((key, _joined(key[0].axis, some)) for key, some in pieces.items())
    return {key: summary for key, summary in joined if summary is not None}


def _joined(axis: Axis, pieces: Sequence[PartSummary | None]) -> Summary | None:
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


def all_series(state: RunState, axis: Axis, rank: int) -> list[Series]:
    """Every series of a rank on an axis, as ``RunState.series`` has each."""
    keys = [key for key, ranks in state.ranks.items() if key.axis == axis and rank in ranks]
    parts = state.parts_of(rank)
    owners = Counter(key for part in parts for key in part.series_keys())
    meanings = {(metric.name, metric.axis): metric for metric in state.metrics}
    found: dict[SeriesKey, Series] = {}
    for part in parts:
        if all(owners[key] > 1 for key in part.series_keys()):
            continue
        cut = {} if axis == "time" else state.cuts(axis)
        for table in part.tables():
            if table.axis != axis:
                continue
            along = table.times if axis == "time" else table.steps
            if not _is_plain(along, is_time=axis == "time", cut=cut.get(part.name.attempt)):
                continue
            values = np.ascontiguousarray(table.values.T)
            for column in (table.steps, table.times, values):
                column.flags.writeable = False
            is_exact = ~(np.abs(values).max(axis=1) >= EXACT_UP_TO)
            for name, row, exact in zip(table.names, values, is_exact.tolist(), strict=True):
                key = SeriesKey(name, axis)
                if exact and owners[key] == 1:
                    meaning = meanings[key]
                    found[key] = Series(
                        name,
                        axis,
                        rank,
                        table.steps,
                        table.times,
                        row,
                        goal=meaning.goal,
                        unit=meaning.unit,
                    )
    return [found[key] if key in found else state.series(key, rank) for key in keys]


def _is_plain(along: NDArray[Any], *, is_time: bool, cut: int | None) -> bool:
    """Whether the points stand in order, none replaces another, and no newer attempt hides any."""
    if not along.size:
        return False
    before, after = along[:-1], along[1:]
    is_ascending = bool(np.all(before <= after if is_time else before < after))
    return is_ascending and (cut is None or bool(along[-1] < cut))
