"""What runs are made of: schedules, noise, the pace of a loop. All are columns over rows."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from benchmarks.health.sketch import Column, Rows


def within(rng: Generator, low: float, high: float) -> float:
    """A number between two, even on a log scale: scales matter more than differences."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def warmup_cosine(place: Rows, *, peak: float, warmup: int, total: int, floor: float) -> Column:
    """Linear to ``peak``, then a half cosine down to the share ``floor`` of it."""
    rise = np.minimum(1.0, (place + 1) / max(1, warmup))
    along = np.clip((place - warmup) / max(1, total - warmup), 0.0, 1.0)
    return peak * rise * (floor + (1 - floor) * 0.5 * (1 + np.cos(np.pi * along)))


def one_cycle(place: Rows, *, peak: float, total: int) -> Column:
    """Up for 30 % of the run from 1/25 of the peak, then down to next to nothing."""
    along = np.clip(place / max(1, total), 0.0, 1.0)
    up = 0.04 + 0.96 * 0.5 * (1 - np.cos(np.pi * np.minimum(along / 0.3, 1.0)))
    down = 0.5 * (1 + np.cos(np.pi * np.clip((along - 0.3) / 0.7, 0.0, 1.0)))
    return peak * np.where(along < 0.3, up, np.maximum(down, 1e-4))


def restarts(place: Rows, *, peak: float, first: int, growth: float) -> Column:
    """Cosine with warm restarts: each period ``growth`` times as long as the one before."""
    since, period = place.astype(np.float64), float(first)
    periods = np.full(len(place), period)
    while True:
        over = since >= periods
        if not over.any():
            break
        since = np.where(over, since - periods, since)
        periods = np.where(over, periods * growth, periods)
    rate: Column = peak * (0.01 + 0.99 * 0.5 * (1 + np.cos(np.pi * since / periods)))
    return rate


def gaussian(rng: Generator, rows: int, *, width: float, memory: float = 0.0) -> Column:
    """Noise of this standard deviation; ``memory`` makes a row like the one before (AR(1))."""
    fresh = rng.normal(0.0, width, rows)
    if memory == 0.0:
        return fresh
    return _remember(fresh * np.sqrt(1 - memory**2), memory)


def _remember(fresh: Column, memory: float) -> Column:
    """AR(1) as a sum of a kernel that has died away after some rows."""
    reach = max(2, int(np.ceil(np.log(1e-4) / np.log(memory))))
    kernel = memory ** np.arange(reach)
    return np.convolve(fresh, kernel)[: len(fresh)]


def heavy(rng: Generator, rows: int, *, width: float, freedom: float) -> Column:
    """Student's t noise: the smaller ``freedom``, the heavier the tails."""
    return width * rng.standard_t(freedom, rows)


def power_law(place: Rows, *, start: float, floor: float, scale: float, exponent: float) -> Column:
    """A loss that starts at ``start`` and nears ``floor``."""
    return floor + (start - floor) * (1 + place / scale) ** -exponent


def gradient_norms(
    rng: Generator, place: Rows, *, level: float, early: float, settle: float, width: float
) -> Column:
    """Large at first, settling, log-normal from row to row."""
    base = level * (1 + early * np.exp(-place / settle))
    return base * np.exp(gaussian(rng, len(place), width=width, memory=0.3))


def step_times(rng: Generator, rows: int, *, step_ms: float, jitter: float) -> Column:
    """Step durations: jitter to both sides, now and then one that waited for something."""
    times = step_ms * (1 + np.abs(rng.normal(0, jitter, rows)))
    hiccups = rng.random(rows) < 0.004
    times[hiccups] *= rng.uniform(1.3, 2.5, int(hiccups.sum()))
    return times


def pauses(
    rng: Generator, rows: int, *, every: int, low_s: float, high_s: float, first_s: float
) -> Column:
    """Seconds beside the steps: before the first (compiling), and for each evaluation or save."""
    waits = np.zeros(rows)
    waits[0] = first_s
    at = np.arange(every, rows, every)
    waits[at] += rng.uniform(low_s, high_s, len(at))
    return waits


def resumed_place(rows: int, *, at: int, back: int) -> Rows:
    """Rows of a run that is resumed at row ``at`` from a checkpoint ``back`` rows older."""
    return np.concatenate([np.arange(at), np.arange(at - back, rows - back)])
