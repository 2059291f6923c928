"""The progress of a run: how much is done, how long it has run, when it is expected to end."""

from __future__ import annotations

import math
import time
import weakref
from collections.abc import Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from epochal.errors import MetricNotFoundError
from epochal.journal.entries import Entry
from epochal.journal.row import LIVE_STATES, RunRow
from epochal.records import finite, whole_number
from epochal.series.eta import Eta
from epochal.series.series import EPOCH_OF_STEP, TOKENS_OF_STEP, Series
from epochal.store.run import RunView
from epochal.store.status import RUNNING_FOR_S

_RUNNING = ("running", "waiting")
# More observations than this do not make the estimate better.
_MOST_POINTS = 1000
# An estimate is made again after this many times what it cost, so that it costs 2 % at most.
_REST_FACTOR = 50.0


class Progress(msgspec.Struct, frozen=True):
    """``share`` is from 0 to 1; durations are in seconds; None is unknown."""

    text: str
    share: float | None = None
    eta_s: float | None = None
    elapsed_s: float | None = None
    is_going: bool = False


# When a run is expected to end, the time of its newest record, and until when that is kept.
_Estimate = tuple[float | None, float | None, float]
_estimates: weakref.WeakKeyDictionary[RunView, _Estimate] = weakref.WeakKeyDictionary()


def progress_of(run: RunView, info: RunRow, *, now: float) -> Progress:
    """The progress of a run at the Unix time ``now``, in whichever unit its length is known."""
    is_going = info.status.state in LIVE_STATES
    if info.updated is not None and info.updated - now > RUNNING_FOR_S:
        now = info.updated  # a record from the future: that clock is ahead of ours
    until = now if info.status.state in _RUNNING else info.updated
    elapsed_s = None if info.created is None or until is None else max(until - info.created, 0.0)
    text, done, total = _counted(run, info)
    share = None if total is None or done is None else min(done / total, 1.0)
    ends_at = expected_end(run, info)
    eta_s = None if ends_at is None or ends_at < now else ends_at - now
    return Progress(text, share, eta_s, elapsed_s, is_going)


def expected_end(run: RunView, info: RunRow) -> float | None:
    """When a running run is expected to end, in Unix seconds; None while it cannot be known.

    The estimate is kept until the run has new records, and for some time where it is expensive.
    """
    if info.status.state not in _RUNNING or info.step is info.epoch is None:
        return None
    begun = time.monotonic()
    ends_at, updated, valid_until = _estimates.get(run, (None, math.nan, 0.0))
    if updated == info.updated or begun < valid_until:
        return ends_at
    ends_at = _estimate(run, info)
    ended = time.monotonic()
    _estimates[run] = (ends_at, info.updated, ended + _REST_FACTOR * (ended - begun))
    return ends_at


def _counted(run: RunView, info: RunRow) -> tuple[str, float | None, float | None]:
    """The progress as text, what is done, and the total."""
    done, total = info.steps_done, info.total_steps
    if info.step is not None and done is not None and total:
        if info.step > total:
            return f"step {info.step:,} (of {total:,})", total, total
        return f"step {done:,}/{total:,}", done, total
    if info.epoch is not None and info.num_epochs:
        return f"epoch {info.epoch:,}/{info.num_epochs:,}", info.epoch, info.num_epochs
    if info.step is not None:
        series = _found(run, TOKENS_OF_STEP) if (goal := _total_tokens(run)) else None
        tokens = None if series is None else float(np.nansum(series.floats))
        return f"step {info.step:,}", tokens, goal if tokens is not None else None
    if info.epoch is not None:
        return f"epoch {info.epoch:,}", None, None
    return "no step yet", None, None


def epochs_with_eta(run: RunView) -> Iterator[tuple[Entry, float | None]]:
    """The epoch records that count, each with the estimated seconds left after it."""
    attempt, eta = 0, Eta(None)
    for entry in run.entries("epoch"):
        epoch, total = (whole_number(entry.record.get(name)) for name in ("epoch", "total"))
        if epoch is None:
            continue
        if entry.position.attempt != attempt:
            attempt, eta = entry.position.attempt, Eta(None)
        eta.total = total if total is not None and total > 0 else None
        if entry.t is not None:
            eta.observe(epoch, entry.t, took_s=finite(entry.record.get("duration_s")))
        # The last epoch has none.
        yield entry, eta.remaining_s() or None


def _estimate(run: RunView, info: RunRow) -> float | None:
    if info.total_steps and info.step is not None:
        series = _fullest(run)
        # Steps are counted from 0.
        done = None if series is None else np.add(series.steps, 1.0, dtype=np.float64)
        return _end_of(run, info, series, info.total_steps, done)
    if (tokens := _total_tokens(run)) and (series := _found(run, TOKENS_OF_STEP)) is not None:
        return _end_of(run, info, series, tokens, np.nancumsum(series.floats))
    if info.epoch is not None:
        # An epoch of an earlier attempt says nothing about this one.
        entry, left_s = next(reversed(list(epochs_with_eta(run))), (None, None))
        if entry is None or entry.position.attempt != info.attempts or entry.t is None:
            return None
        return None if left_s is None else entry.t + left_s
    if info.num_epochs and (series := _found(run, EPOCH_OF_STEP)) is not None:
        return _end_of(run, info, series, info.num_epochs, series.floats)
    return None


def _end_of(
    run: RunView,
    info: RunRow,
    series: Series | None,
    total: float,
    done: NDArray[np.float64] | None,
) -> float | None:
    """When ``total`` will be reached; ``done`` is how much was done at each point."""
    if series is None or done is None:
        return None
    times = series.times
    chosen = np.isfinite(done) & np.isfinite(times)
    if info.attempts > 1:
        begins = [e.t for e in run.entries("run") if e.position.attempt == info.attempts]
        chosen &= times >= min((t for t in begins if t is not None), default=-math.inf)
    places = np.flatnonzero(chosen)
    if places.size > _MOST_POINTS:
        places = places[np.linspace(0, places.size - 1, _MOST_POINTS).astype(np.intp)]
    if not places.size:
        return None
    eta = Eta(total)
    for count, t in zip(done[places].tolist(), times[places].tolist(), strict=True):
        eta.observe(min(count, total), t)
    left_s = eta.remaining_s()
    return float(times[places[-1]]) + left_s if left_s else None


def _fullest(run: RunView) -> Series | None:
    """The series that has a point for most steps: the loss, else the first series."""
    metrics = [metric for metric in run.metrics() if metric.axis == "step" and 0 in metric.ranks]
    metrics.sort(key=lambda metric: metric.role != "loss")
    return run.series(metrics[0].name, axis=metrics[0].axis) if metrics else None


def _total_tokens(run: RunView) -> float | None:
    totals = run.facts.get("totals")
    total = finite(totals.get("tokens")) if isinstance(totals, dict) else None
    return total if total is not None and total > 0 else None


def _found(run: RunView, name: str) -> Series | None:
    try:
        return run.series(name)
    except MetricNotFoundError:
        return None
