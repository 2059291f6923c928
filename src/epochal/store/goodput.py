"""Goodput: the share of a run's wall time that was spent on steps that are in its history.

The rest is start-up, pauses, the time between attempts, and steps that a later attempt repeated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from epochal.journal.facts import SeriesKey, unix_time
from epochal.journal.row import Status
from epochal.journal.state import Part, RunState
from epochal.records import Axis
from epochal.records.format import format_duration, plural
from epochal.series.series import Series

# A gap between two steps is a pause if it is at least this long, this many usual gaps, and no other
# gap is 0.4 times as long: evaluations and saves come several times.
_PAUSE_S = 60.0
_PAUSE_GAPS = 20.0
_PAUSE_ALONE = 0.4
# Below this share, and above this time, advice is worth a line.
_LOW = 0.9
_ADVICE_FROM_S = 600.0
_ADVICE = {
    "lost_s": "Save checkpoints more often: {time} of training had to be repeated.",
    "down_s": "{time} passed between attempts. Let the launcher restart the training.",
    "startup_s": "Starting took {time}. Cache compiled code and prepared data between attempts.",
    "paused_s": "The training paused for {time}. See the findings for the reason.",
}


class Goodput(msgspec.Struct, frozen=True, kw_only=True):
    """``share`` is ``productive_s / wall_s``; the other times are the rest of the wall time.

    ``lost_steps`` were repeated by a later attempt, or come after the last checkpoint of a run
    that crashed and was not resumed. ``unit`` is what is counted, "step" or "epoch". ``text`` is a
    line for people, ``advice`` what to do about the largest part of the rest if goodput is low.
    """

    share: float
    wall_s: float
    productive_s: float
    startup_s: float
    paused_s: float
    down_s: float
    lost_s: float
    lost_steps: int
    restarts: int
    unit: str = "step"
    text: str = ""
    advice: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptTimes:
    """The steps of rank 0 in one attempt, and when each was logged, in Unix seconds.

    ``started`` and ``ended`` are the times of its first and last record. ``first`` is the step it
    began at, ``cut`` the first step that was lost, None if all are kept. ``evaluated`` are steps
    with an evaluation: it takes the time before or after them.
    """

    started: float
    ended: float
    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    first: int = 0
    cut: int | None = None
    evaluated: NDArray[np.int64] | None = None


def goodput_of(
    attempts: Sequence[AttemptTimes], *, unit: str, until: float | None = None
) -> Goodput | None:
    """The goodput of a run that has these attempts, in order; None before its first step.

    ``until`` is the time of the newest record while the run is live.
    """
    totals = dict.fromkeys(("productive_s", "startup_s", "paused_s", "down_s", "lost_s"), 0.0)
    lost_steps = 0
    begun = at = attempts[0].started if attempts else 0.0
    for number, attempt in enumerate(attempts):
        is_last = number == len(attempts) - 1 and until is not None
        ended = max(until or 0.0, attempt.ended) if is_last else attempt.ended
        totals["down_s"] += max(attempt.started - at, 0.0)
        started = max(attempt.started, at)
        at = max(ended, started)
        if not attempt.steps.size:
            totals["startup_s"] += at - started
            continue
        _add_attempt(attempt, started, at, totals)
        if attempt.cut is not None:
            lost_steps += max(int(attempt.steps.max()) - max(attempt.cut, attempt.first) + 1, 0)
    wall_s = at - begun
    if wall_s <= 0 or not any(attempt.steps.size for attempt in attempts):
        return None
    seconds: dict[str, Any] = {name: round(max(total, 0.0), 3) for name, total in totals.items()}
    found = Goodput(
        share=round(totals["productive_s"] / wall_s, 4),
        wall_s=round(wall_s, 3),
        **seconds,
        lost_steps=lost_steps,
        restarts=len(attempts) - 1,
        unit=unit,
    )
    return msgspec.structs.replace(found, text=_text(found), advice=_advice(found))


def _text(found: Goodput) -> str:
    text = (
        f"{100 * found.share:.0f} %: {format_duration(found.productive_s)} of training in "
        f"{format_duration(found.wall_s)}"
    )
    if not found.lost_steps:
        return text
    steps, were = plural(found.lost_steps, found.unit), "was" if found.lost_steps == 1 else "were"
    restarts = plural(found.restarts, "restart")
    where = f"in {restarts}" if found.restarts else "after the last checkpoint"
    return f"{text}; {steps} ({format_duration(found.lost_s)}) {were} lost {where}"


def _advice(found: Goodput) -> str | None:
    if found.share >= _LOW or found.wall_s < _ADVICE_FROM_S:
        return None
    time_s, sentence = max((getattr(found, name), text) for name, text in _ADVICE.items())
    return sentence.format(time=format_duration(time_s))


def _add_attempt(
    attempt: AttemptTimes, started: float, ended: float, totals: dict[str, float]
) -> None:
    """Divide the time of one attempt."""
    order = np.argsort(attempt.times, kind="stable")
    times = np.clip(attempt.times[order], started, ended)
    steps = np.maximum.accumulate(attempt.steps[order])
    # Records come at the end of steps: what the steps up to the first record took is estimated.
    counts = np.diff(steps)
    per_step = np.diff(times)[counts > 0] / counts[counts > 0]
    usual = float(np.median(per_step)) if per_step.size else 0.0
    first_s = min((int(steps[0]) - attempt.first + 1) * usual, float(times[0]) - started)
    begun = float(times[0]) - max(first_s, 0.0)
    totals["startup_s"] += begun - started
    times = np.concatenate(([begun], times, [ended]))
    steps = np.concatenate(([attempt.first - 1], steps, steps[-1:]))
    kept_until = ended
    if attempt.cut is not None and steps[-1] >= attempt.cut:
        kept_until = float(np.interp(attempt.cut - 1, steps[:-1], times[:-1]))
    gaps = np.diff(times)
    for place in _pauses(gaps, steps, attempt.evaluated):
        paused_s = float(gaps[place])
        totals["paused_s"] += paused_s
        totals["lost_s" if times[place] >= kept_until else "productive_s"] -= paused_s
    totals["productive_s"] += kept_until - begun
    totals["lost_s"] += ended - kept_until


def _pauses(
    gaps: NDArray[np.float64], steps: NDArray[np.int64], evaluated: NDArray[np.int64] | None
) -> list[int]:
    """The gaps in which the training stood still."""
    bar = max(_PAUSE_S, _PAUSE_GAPS * float(np.median(gaps)))
    ordered = np.sort(gaps)
    found = []
    for place in np.flatnonzero(gaps > bar).tolist():
        num_alike = gaps.size - int(np.searchsorted(ordered, _PAUSE_ALONE * gaps[place]))
        is_evaluation = evaluated is not None and np.isin(steps[place : place + 2], evaluated).any()
        if num_alike == 1 and not is_evaluation:
            found.append(place)
    return found


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
