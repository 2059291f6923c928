"""Marks: restarts, epochs, checkpoints, phases and GPU throttling of a run.

Each mark has its x on every axis of a chart, so that the page need not convert it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, get_args

import msgspec
import numpy as np

from epochal.errors import FormatError, MetricNotFoundError
from epochal.journal.entries import Entry
from epochal.records import whole_number
from epochal.records.format import format_duration
from epochal.series.series import Series
from epochal.server import wire
from epochal.store.run import RunView

# The newest of each kind; more lines than this would fill a chart.
MAX_MARKS = 2000
# A GPU that alternates between two clocks gives one mark, not a hundred.
_JOIN_S = 30.0
_FULL_SPEED = frozenset({"", "idle", "no cap"})


class _Found(msgspec.Struct, frozen=True):
    kind: wire.MarkKind
    label: str
    t: float | None = None
    step: int | None = None
    epoch: int | None = None
    gpu: int | None = None
    is_timed: bool = False


def run_marks(run: RunView) -> wire.MarkList:
    """Every mark of a run, the kinds one after the other, each in the order of time."""
    found = [*_restarts(run), *_epochs(run), *_checkpoints(run), *_phases(run), *_throttles(run)]
    rows: list[wire.Mark] = []
    for _, same in groupby(found, key=lambda one: one.kind):
        rows += _with_x(run, list(same)[-MAX_MARKS:])
    return wire.MarkList(rows)


def _restarts(run: RunView) -> Iterator[_Found]:
    fork = run.info.fork
    if fork is not None:
        yield _Found("restart", f"forked from {fork.name}", step=fork.step)
    for entry in run.entries("resume", rank=None):
        attempt, step = entry.record.get("attempt"), entry.step
        where = "" if step is None else f" from step {step}"
        yield _Found("restart", f"attempt {attempt} resumes{where}", t=entry.t, step=step)


def _epochs(run: RunView) -> Iterator[_Found]:
    for entry in run.entries("epoch", rank=0):
        epoch, total = whole_number(entry.record.get("epoch")), entry.record.get("total")
        if epoch is not None:
            of = f" of {total}" if isinstance(total, int) else ""
            yield _Found("epoch", f"epoch {epoch}{of}", t=entry.t, step=entry.step, epoch=epoch)


def _checkpoints(run: RunView) -> Iterator[_Found]:
    # A newer attempt may save the same step again; the newest event counts.
    by_step: dict[Any, Entry] = {}
    for entry in run.entries("event", name="checkpoint", rank=None):
        by_step[entry.t if entry.step is None else entry.step] = entry
    for entry in by_step.values():
        path = entry.record.get("path")
        name = os.path.basename(path) if isinstance(path, str) else ""
        best = ", the best so far" if entry.record.get("is_best") is True else ""
        yield _Found("checkpoint", f"saved {name}".strip() + best, t=entry.t, step=entry.step)


def _phases(run: RunView) -> Iterable[_Found]:
    """Phases of the training, from the events of the companion."""
    events = run.entries("event", name="phase", rank=None)
    resumed = [(entry.position.attempt, entry.step) for entry in run.entries("resume", rank=None)]
    reference = _reference(run)
    found: list[_Found] = []
    began: set[int] = set()
    for entry in sorted(events, key=lambda one: (one.position.attempt, one.t or 0.0)):
        attempt, step = entry.position.attempt, entry.step
        if step is None and attempt not in began:
            # An attempt begins with its first phase. The companion may write it when the run is
            # far ahead, so its time does not tell the step.
            step = next((first for number, first in resumed if number == attempt), None)
            if step is None and reference is not None:
                step = int(reference.steps[0])
        began.add(attempt)
        if not _is_superseded(entry, resumed):
            t = _time_at(reference, step, entry.t)
            found.append(
                _Found(
                    "phase",
                    str(entry.record.get("phase")),
                    t=t,
                    step=step,
                    epoch=whole_number(entry.record.get("epoch")),
                )
            )
    return found


def _is_superseded(entry: Entry, resumed: Sequence[tuple[int, int | None]]) -> bool:
    step = entry.step
    return step is not None and any(
        attempt > entry.position.attempt and first is not None and step >= first
        for attempt, first in resumed
    )


def _throttles(run: RunView) -> Iterator[_Found]:
    """Times at which a GPU was throttled, from the events of the companion."""
    changes: dict[int, list[tuple[float, str]]] = {}
    for entry in run.entries("event", name="gpu-throttle", rank=None):
        if entry.t is not None and isinstance(gpu := entry.record.get("id"), int):
            reason = str(entry.record.get("throttle") or "")
            changes.setdefault(gpu, []).append((entry.t, reason))
    for gpu, of_gpu in sorted(changes.items()):
        for start, end, reason in _throttled_periods(sorted(of_gpu), run.info.updated):
            lasted = f" for {format_duration(end - start)}" if end > start else ""
            label = f"GPU {gpu}: {reason}{lasted}"
            yield _Found("throttle", label, t=start, gpu=gpu, is_timed=True)


def _throttled_periods(
    changes: Sequence[tuple[float, str]], ended: float | None
) -> Iterable[tuple[float, float, str]]:
    found: list[tuple[float, float, str]] = []
    for index, (t, reason) in enumerate(changes):
        if reason in _FULL_SPEED:
            continue
        following = changes[index + 1][0] if index + 1 < len(changes) else (ended or t)
        end = max(t, following)
        if found and found[-1][2] == reason and t - found[-1][1] <= _JOIN_S:
            found[-1] = (found[-1][0], end, reason)
        else:
            found.append((t, end, reason))
    return found


def _with_x(run: RunView, found: Sequence[_Found]) -> list[wire.Mark]:
    """Marks with their x; a missing step is the last one logged before the mark."""
    reference = _reference(run)
    steps = [one.step if one.step is not None else _step_at(reference, one) for one in found]
    times = np.array([np.nan if one.t is None else one.t for one in found])
    places: list[dict[wire.XKind, float]] = [{} for _ in found]
    for x in get_args(wire.XKind):
        is_clock = x in ("wall", "relative")
        which = [i for i, step in enumerate(steps) if is_clock or step is not None]
        if not which or (not is_clock and reference is None and x != "step"):
            continue
        named = np.array([steps[i] if steps[i] is not None else -1 for i in which], dtype=np.int64)
        # The values are indices of marks: points without x are dropped, others are sorted.
        series = Series("", "step", 0, named, times[which], np.array(which, dtype=np.float64))
        moved = series.reindex(x, run)
        if moved.x == x:
            for at, index in zip(moved.at.tolist(), moved.values.tolist(), strict=True):
                places[int(index)][x] = float(at)
    for one, at in zip(found, places, strict=True):
        if one.epoch is not None:
            at["epoch"] = float(one.epoch)
    return [
        wire.Mark(one.kind, one.label, at, one.gpu) for one, at in zip(found, places, strict=True)
    ]


def _reference(run: RunView) -> Series | None:
    """A series with the time of each step."""
    loss = run.role("loss")
    candidates = [loss] if loss is not None else []
    candidates += [metric for metric in run.metrics() if metric.axis == "step"][:8]
    for metric in candidates:
        try:
            series = run.series(metric.name, axis="step")
        except (MetricNotFoundError, FormatError):
            continue
        if len(series):
            return series
    return None


def _time_at(reference: Series | None, step: int | None, t: float | None) -> float | None:
    """When a step was logged, which may be before a process wrote about it."""
    if reference is None or step is None:
        return t
    index = int(np.searchsorted(reference.steps, step))
    return float(reference.times[index]) if index < len(reference) else t


def _step_at(reference: Series | None, one: _Found) -> int | None:
    if reference is None or one.t is None or one.is_timed:
        return None
    index = int(np.searchsorted(reference.times, one.t, side="right")) - 1
    return int(reference.steps[max(index, 0)])
