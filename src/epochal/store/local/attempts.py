"""Reads the times of every attempt's steps from the parts of a run, for its goodput."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from epochal.records import Axis
from epochal.segments.columns import SeriesKey
from epochal.series.series import Series
from epochal.store.answers import Status
from epochal.store.goodput import AttemptTimes, Goodput, goodput_of
from epochal.store.local.part import Part, unix_time
from epochal.store.local.state import RunState

_EVALUATION = re.compile(r"(^|[/_.])(eval|val|valid|validation|test)([/_.]|$)", re.IGNORECASE)
_MOST_EVALUATIONS = 8


def goodput(state: RunState, status: Status) -> Goodput | None:
    """The goodput of a run up to its newest record; None before its first step."""
    axis: Axis = "step" if any(key.axis == "step" for key in state.ranks) else "epoch"
    parts: dict[int, list[Part]] = {}
    for part in state.parts_of(0):
        if part.facts.is_loop and part.name.attempt > 0:  # attempt 0 is the history of a fork
            parts.setdefault(part.name.attempt, []).append(part)
    cuts = dict(state.cuts(axis))
    if status.state in ("crashed", "failed", "terminated"):
        saved = [entry.step for entry in state.entries("event", name="checkpoint", rank=None)]
        steps = [step for step in saved if step is not None]
        if steps and axis == "step":
            cuts[state.attempts] = max(steps) + 1
    found = [
        attempt
        for number in sorted(parts)
        if (attempt := _attempt(state, parts[number], axis, cuts.get(number))) is not None
    ]
    # Beside a live run the companion writes on, also while the training stands still.
    return goodput_of(found, unit=axis, until=state.updated if status.is_live else None)


def _attempt(
    state: RunState, parts: Sequence[Part], axis: Axis, cut: int | None
) -> AttemptTimes | None:
    headers = [unix_time((part.facts.header or {}).get("t")) for part in parts]
    started = min((t for t in headers if t is not None), default=None)
    if started is None:
        return None
    ended = max((part.facts.updated or started for part in parts), default=started)
    first = [at for part in parts if (at := part.facts.takeovers.get(axis)) is not None]
    points = [series for part in parts if (series := _densest(state, part, axis)) is not None]
    steps = _joined([series.steps for series in points])
    times = np.concatenate([np.empty(0), *(series.times for series in points)])
    known = np.isfinite(times)
    return AttemptTimes(
        started=started,
        ended=ended,
        steps=steps[known],
        times=times[known],
        first=first[0] if first else min(int(steps[0]) if steps.size else 0, 1),
        cut=cut,
        evaluated=_joined(series.steps for part in parts for series in _evaluations(part, axis)),
    )


def _densest(state: RunState, part: Part, axis: Axis) -> Series | None:
    """The series of a part with a point for most steps: the loss, else the first series."""
    losses = {metric.name for metric in state.metrics if metric.role == "loss"}
    keys = [key for key in part.series_keys() if key.axis == axis]
    keys.sort(key=lambda key: key.name not in losses)
    return part.series(keys[0]) if keys else None


def _evaluations(part: Part, axis: Axis) -> Iterable[Series]:
    keys: list[SeriesKey] = [
        key for key in part.series_keys() if key.axis == axis and _EVALUATION.search(key.name)
    ]
    found = (part.series(key) for key in keys[:_MOST_EVALUATIONS])
    return (series for series in found if series is not None)


def _joined(columns: Iterable[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.concatenate([np.empty(0, dtype=np.int64), *columns])
