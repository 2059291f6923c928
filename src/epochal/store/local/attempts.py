"""Reads the times of every attempt's steps from the parts of a run, for its goodput."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from epochal.journal.segments.columns import SeriesKey
from epochal.records import Axis
from epochal.series.series import Series
from epochal.store.answers import Status
from epochal.store.goodput import AttemptTimes, Goodput, goodput_of
from epochal.store.local.part import Part, unix_time
from epochal.store.local.state import RunState

_EVALUATION = re.compile(r"(^|[/_.])(eval|val|valid|validation|test)([/_.]|$)", re.IGNORECASE)
_MOST_EVALUATIONS = 8
_MOST_KEYS = 2000


def goodput(state: RunState, status: Status) -> Goodput | None:
    """The goodput of a run up to its newest record; None before its first step."""
    axis: Axis = "step" if any(key.axis == "step" for key in state.ranks) else "epoch"
    parts: dict[int, list[Part]] = {}
    for part in state.parts_of(0):
        if part.facts.is_loop and part.name.attempt > 0:  # attempt 0 is the history of a fork
            parts.setdefault(part.name.attempt, []).append(part)
    cuts = dict(state.cuts(axis))
    if axis == "step" and status.state in ("crashed", "failed", "terminated"):
        saved = [entry.step for entry in state.entries("event", name="checkpoint", rank=None)]
        last = max((step for step in saved if step is not None), default=None)
        if last is not None:
            cuts[state.attempts] = last + 1
    keys = [key for key in islice(state.ranks, _MOST_KEYS) if key.axis == axis]
    losses = [SeriesKey(one.name, axis) for one in state.metrics if one.role == "loss"]
    evaluations = [key for key in keys if _EVALUATION.search(key.name)][:_MOST_EVALUATIONS]
    order = [*losses, *keys]
    found = [
        attempt
        for number in sorted(parts)
        if (attempt := _attempt(parts[number], axis, order, evaluations, cuts.get(number)))
    ]
    # Beside a live run the companion writes on, also while the training stands still.
    return goodput_of(found, unit=axis, until=state.updated if status.is_live else None)


def _attempt(
    parts: Sequence[Part],
    axis: Axis,
    keys: Sequence[SeriesKey],
    evaluations: Sequence[SeriesKey],
    cut: int | None,
) -> AttemptTimes | None:
    """The steps of an attempt, by the first of ``keys`` that it has."""
    headers = [unix_time((part.facts.header or {}).get("t")) for part in parts]
    started = min((t for t in headers if t is not None), default=None)
    if started is None:
        return None
    first = [at for part in parts if (at := part.facts.takeovers.get(axis)) is not None]
    points = next((found for key in keys if (found := _pieces(parts, [key]))), [])
    steps = _joined(series.steps for series in points)
    times = np.concatenate([np.empty(0), *(series.times for series in points)])
    is_known = np.isfinite(times)
    # A program that did not say where it resumed began with its first record.
    begun = int(steps[0]) if steps.size else 0
    begun = min(begun, 1) if parts[0].name.attempt == 1 else begun
    return AttemptTimes(
        started=started,
        ended=max(part.facts.updated or started for part in parts),
        steps=steps[is_known],
        times=times[is_known],
        first=first[0] if first else begun,
        cut=cut,
        evaluated=_joined(series.steps for series in _pieces(parts, evaluations)),
    )


def _pieces(parts: Sequence[Part], keys: Sequence[SeriesKey]) -> list[Series]:
    found = (part.series(key) for part in parts for key in keys)
    return [series for series in found if series is not None]


def _joined(columns: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, dtype=np.int64), *columns])
