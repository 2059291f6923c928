"""How far a run is, how long it has been going, and how long it may still take."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from epochal.series.window import Eta
from epochal.store.along import TOKENS_OF_STEP
from epochal.store.answers import RunInfo, Series
from epochal.store.store import MetricNotFoundError, RunView

# As many as the estimate's median looks back on.
_RECENT = 201
_GOING = ("running", "waiting", "silent")


@dataclass(frozen=True, slots=True)
class Progress:
    """``share`` is from 0 to 1; durations are in seconds; None is unknown."""

    text: str
    share: float | None = None
    eta_s: float | None = None
    elapsed_s: float | None = None
    is_going: bool = False


def progress_of(run: RunView, info: RunInfo, *, now: float) -> Progress:
    """The progress of a run at the Unix time ``now``, in whichever unit its length is known."""
    is_going = info.status.state in _GOING
    until = now if info.status.state in ("running", "waiting") else info.updated
    elapsed_s = None if info.created is None or until is None else max(until - info.created, 0.0)
    text, done, total = _counted(run, info)
    share = None if total is None or done is None else min(done / total, 1.0)
    eta_s = _eta_s(run, info, total) if is_going and total is not None else None
    return Progress(text, share, eta_s, elapsed_s, is_going)


def _counted(run: RunView, info: RunInfo) -> tuple[str, float | None, float | None]:
    """In words, and as what is done of what is to be done."""
    done, total = info.steps_done, info.total_steps
    if info.step is not None and done is not None and total:
        if info.step > total:
            return f"step {info.step:,} (of {total:,})", total, total
        return f"step {done:,}/{total:,}", done, total
    if info.epoch is not None and info.num_epochs:
        return f"epoch {info.epoch:,}/{info.num_epochs:,}", info.epoch, info.num_epochs
    if info.step is not None:
        goal = _total_tokens(run)
        tokens = _tokens(run) if goal else None
        return f"step {info.step:,}", tokens, goal if tokens is not None else None
    if info.epoch is not None:
        return f"epoch {info.epoch:,}", None, None
    return "no step yet", None, None


def _eta_s(run: RunView, info: RunInfo, total: float) -> float | None:
    """The median time of the recent steps, or epochs, times those that are left."""
    if info.total_steps and info.step is not None:
        series, done = _paced(run, "step"), None
    elif info.num_epochs and info.epoch is not None:
        series, done = _paced(run, "epoch"), None
    else:
        series = _found(run, TOKENS_OF_STEP)
        done = None if series is None else np.nancumsum(series.values)[-_RECENT:]
    if series is None:
        return None
    places = series.steps[-_RECENT:].astype(np.float64) if done is None else done
    if series.axis == "step" and done is None:
        places += 1  # steps are counted from 0, epochs from 1
    eta = Eta(total, size=_RECENT - 1)
    for at, t in zip(places.tolist(), series.times[-_RECENT:].tolist(), strict=True):
        if np.isfinite(t):
            eta.observe(at, t)
    return eta.remaining_s()


def _paced(run: RunView, axis: str) -> Series | None:
    """The series that has a point for most steps: the loss, else the first there is."""
    metrics = [metric for metric in run.metrics() if metric.axis == axis and 0 in metric.ranks]
    metrics.sort(key=lambda metric: metric.role != "loss")
    return run.series(metrics[0].name, axis=metrics[0].axis) if metrics else None


def _total_tokens(run: RunView) -> float | None:
    totals = run.facts.get("totals")
    tokens = totals.get("tokens") if isinstance(totals, dict) else None
    return float(tokens) if isinstance(tokens, (int, float)) and tokens > 0 else None


def _tokens(run: RunView) -> float | None:
    series = _found(run, TOKENS_OF_STEP)
    return None if series is None else float(np.nansum(series.values))


def _found(run: RunView, name: str) -> Series | None:
    try:
        return run.series(name)
    except MetricNotFoundError:
        return None
