"""Healthy tracks for any sketch: evaluations, watched layers, routers, machine, phases, ranks."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from benchmarks.health.parts import gaussian, heavy, within
from benchmarks.health.sketch import (
    START_T,
    Column,
    Evals,
    Experts,
    Layers,
    Machine,
    Phases,
    Replicas,
    Rows,
    Sketch,
)

GIB = 1024.0**3
_KINDS = ("attn.qkv.weight", "attn.out.weight", "mlp.up.weight", "mlp.down.weight")


def add_evals(
    sketch: Sketch,
    *,
    every: int,
    gap: float = 0.02,
    noise: float = 0.004,
    classes: int | None = None,
    name: str = "eval/accuracy",
) -> Evals:
    """Evaluations each ``every`` rows that follow the smoothed training loss at a small gap."""
    rng = sketch.rng
    at = np.arange(every - 1, sketch.rows, every, dtype=np.int64)
    smooth = smoothed(sketch.loss, max(5, every // 2))[at]
    level = np.maximum(np.abs(smooth), 1e-3 * float(np.median(np.abs(sketch.loss))))
    loss = smooth + level * (gap + rng.normal(0, noise, len(at)))
    accuracy = None
    if classes is not None:
        first, last = float(smooth.max()), float(smooth.min())
        along = (first - smooth) / max(first - last, 1e-12)
        top = rng.uniform(0.72, 0.94)
        chance = 1 / classes
        accuracy = chance + (top - chance) * (0.25 + 0.75 * along)
        accuracy = np.clip(accuracy + rng.normal(0, 0.006, len(at)), 0.0, 0.985)
        sketch.config["num_classes"] = classes
    sketch.evals = Evals(at, loss, accuracy, accuracy_name=name, duration_s=rng.uniform(1, 8))
    return sketch.evals


def add_layers(sketch: Sketch, *, every: int, blocks: int = 3, frozen: int = 0) -> Layers:
    """A watched model: ``frozen`` of its first parameters are not trained and have no gradient."""
    rng = sketch.rng
    at = np.arange(0, sketch.rows, every, dtype=np.int64)
    names = tuple(f"h.{block}.{kind}" for block in range(blocks) for kind in _KINDS)
    count, samples = len(names), len(at)
    start = np.array([within(rng, 5, 80) for _ in names])
    growth = rng.uniform(0.05, 0.5, count)
    along = (sketch.place[at] / max(1, sketch.place.max()))[:, None]
    params = start * (1 + growth * np.sqrt(along)) * (1 + rng.normal(0, 1e-5, (samples, count)))
    share = rng.dirichlet(np.full(count, 6.0))
    grads = sketch.norm[at][:, None] * np.sqrt(share)
    grads = grads * np.exp(rng.normal(0, 0.15, (samples, count)))
    relative_lr = (sketch.lr[at] / sketch.lr.max())[:, None]
    ratios = np.array([within(rng, 3e-4, 6e-3) for _ in names]) * np.maximum(relative_lr, 0.02)
    ratios = ratios * np.exp(rng.normal(0, 0.1, (samples, count)))
    zeros = np.clip(rng.normal(0.01, 0.004, (samples, count)), 0, 1)
    for column in range(frozen):
        params[:, column] = params[0, column]
        ratios[:, column] = 0.0
        grads[:, column] = np.nan
        zeros[:, column] = np.nan
    sketch.layers = Layers(at, names, params, grads, zeros, ratios)
    return sketch.layers


def watched_t(sketch: Sketch, row: int) -> float:
    """When the watched layers of a row are written: just before its step record."""
    return round(float(sketch.t()[row]) - 0.001, 3)


def add_experts(
    sketch: Sketch, *, every: int, count: int, top_k: int, layers: int = 2, evenness: float = 12.0
) -> Experts:
    """Routers with a natural imbalance that drifts slowly; a little worse at the very start.

    A token picks an expert once, so a share is at most 1/k and an imbalance at most E/k.
    """
    rng = sketch.rng
    at = np.arange(0, sketch.rows, every, dtype=np.int64)
    samples = len(at)
    base = rng.normal(0, 1 / np.sqrt(evenness), (layers, count))
    walk = np.cumsum(rng.normal(0, 0.01, (samples, layers, count)), axis=0)
    walk -= walk.mean(axis=2, keepdims=True)
    walk /= np.maximum(1.0, np.abs(walk).max(axis=0, keepdims=True) / 0.3)
    early = 0.5 * np.exp(-sketch.place[at] / 200)[:, None, None] * rng.normal(0, 1, (layers, count))
    load = np.exp(base + walk + early + rng.normal(0, 0.04, (samples, layers, count)))
    load = np.minimum(load / load.sum(axis=2, keepdims=True), 0.9 / top_k)
    load /= load.sum(axis=2, keepdims=True)
    entropy = np.clip(rng.uniform(0.75, 0.93) + gaussian(rng, samples, width=0.01), 0, 1)
    aux = within(rng, 0.005, 0.05) * (1 + rng.normal(0, 0.03, samples))
    sketch.experts = Experts(at, top_k, load, entropy, aux)
    sketch.config.update(num_experts=count, num_experts_per_tok=top_k)
    return sketch.experts


def add_phases(sketch: Sketch, *, ranks: tuple[int, ...] = (0,)) -> Phases:
    """Phase times that add up to the step; the input waits little.

    A record covers 50 steps and ten seconds at least, and hardly more than a minute.
    """
    rng = sketch.rng
    row_s = float(np.median(sketch.step_ms)) * sketch.every / 1000
    enough = max(np.ceil(50 / sketch.every), np.ceil(10 / row_s))
    every = int(np.clip(np.floor(60 / row_s), 1, enough))
    at = np.arange(every - 1, sketch.rows, every, dtype=np.int64)
    wall = np.array([sketch.step_ms[max(0, row - every + 1) : row + 1].mean() for row in at])
    shares = {"forward": 0.27, "backward": 0.5, "optimizer": 0.06}
    shares |= {"data": rng.uniform(0.005, 0.09), "log": 0.001}
    if len(ranks) > 1:
        shares["sync"] = rng.uniform(0.03, 0.1)
    by_rank = {}
    for rank in ranks:
        parts = {n: wall * s * (1 + rng.normal(0, 0.04, len(at))) for n, s in shares.items()}
        parts = {name: np.maximum(part, 0.0) for name, part in parts.items()}
        parts["other"] = np.maximum(0.0, wall - np.sum(list(parts.values()), axis=0))
        by_rank[rank] = parts
    sketch.phases = Phases(at, every, by_rank)
    return sketch.phases


def add_machine(sketch: Sketch, *, more_s: float = 0.0) -> Machine:
    """Telemetry each ten seconds: temperature and clock swing, memory fills up and then stays."""
    rng = sketch.rng
    period = 10.0
    end = float(sketch.t()[-1]) + more_s
    t = np.arange(START_T + period, end + period, period)
    n = len(t)
    elapsed = t - START_T
    day = np.sin(elapsed / rng.uniform(800, 4000) + rng.uniform(0, 6))
    temperature = rng.uniform(52, 68) + 4 * day + 6 * (1 - np.exp(-elapsed / 120))
    temperature = temperature + gaussian(rng, n, width=0.8, memory=0.8)
    max_clock = float(rng.choice([1410.0, 1755.0, 1980.0, 2520.0]))
    is_capped = rng.random() < 0.3
    usual = max_clock * (rng.uniform(0.93, 0.97) if is_capped else rng.uniform(0.97, 1.0))
    clock = np.minimum(max_clock, usual + gaussian(rng, n, width=0.006 * max_clock, memory=0.5))
    words = ["power cap" if is_capped and rng.random() < 0.7 else "" for _ in range(n)]
    util = np.clip(rng.uniform(86, 98) - np.abs(heavy(rng, n, width=2.0, freedom=3)), 35, 100)
    limit = float(rng.choice([300.0, 400.0, 700.0]))
    power = limit * np.clip(rng.normal(0.97 if is_capped else 0.82, 0.03, n), 0.2, 1.0)
    dram_total = float(rng.choice([24, 40, 80, 141])) * GIB
    share = rng.uniform(0.45, 0.965)
    filling = 1 - 0.5 * np.exp(-elapsed / rng.uniform(5, 40))
    dram = dram_total * share * np.minimum(1.0, filling)
    dram = _steps_up(rng, dram, elapsed, size=0.004 * dram_total)
    ram_total = float(rng.choice([64, 128, 512])) * GIB
    rss = rng.uniform(2, 12) * GIB * (1 - 0.4 * np.exp(-elapsed / 90))
    rss = rss * (1 + gaussian(rng, n, width=0.01, memory=0.7))
    cache = ram_total * rng.uniform(0.02, 0.15) * (1 - np.exp(-elapsed / 1500))
    sketch.machine = Machine(
        t=t,
        period_s=period,
        util=util,
        clock=clock,
        max_clock=max_clock,
        power_w=power,
        power_limit_w=limit,
        temperature=temperature,
        throttle=words,
        dram_used=np.minimum(dram, 0.985 * dram_total),
        dram_total=dram_total,
        rss=rss,
        ram_used=rss * 1.3 + 4 * GIB + cache,
        ram_total=ram_total,
        cpu=np.clip(rng.uniform(8, 45) + gaussian(rng, n, width=3.0, memory=0.4), 1, 99),
    )
    return sketch.machine


def _steps_up(rng: Generator, used: Column, elapsed: Column, *, size: float) -> Column:
    """A caching allocator grows in a few steps within the first minutes, then not any more."""
    grown = used.copy()
    for _ in range(int(rng.integers(0, 3))):
        grown += size * (elapsed > rng.uniform(20, 300))
    return grown


def add_replicas(sketch: Sketch, *, world: int, every: int, weights: bool = True) -> Replicas:
    """Other ranks: losses of other data around the same curve, steps that end together."""
    rng = sketch.rng
    at = np.arange(0, sketch.rows, every, dtype=np.int64)
    smooth = smoothed(sketch.loss, 9)[at][:, None]
    width = max(sketch.noise_of_loss(), 1e-9 * float(np.abs(sketch.loss).max()))
    noise = rng.normal(0, 1, (len(at), world - 1))
    # The noise of a loss that falls shrinks with it.
    loss = smooth + noise * (sketch.relative_noise() * smooth if sketch.falls else width)
    skew = 1 + rng.uniform(-0.015, 0.015, world - 1)
    step_ms = sketch.step_ms[at][:, None] * skew * (1 + rng.normal(0, 0.01, loss.shape))
    norms = None
    if weights:
        common = within(rng, 20, 300) * (1 + 0.2 * np.sqrt(at / max(1, sketch.rows)))
        norms = np.repeat(common[:, None], world, axis=1)
        norms = norms * (1 + rng.normal(0, 1e-9, norms.shape))
    sketch.replicas = Replicas(at, loss, step_ms, norms)
    sketch.config["world_size"] = world
    return sketch.replicas


def smoothed(values: Column, width: int) -> Column:
    """A centred mean; the ends repeat."""
    width = min(width | 1, len(values) - (1 - len(values) % 2))
    padded = np.pad(values, width // 2, mode="edge")
    return np.convolve(padded, np.full(width, 1 / width), mode="valid")


def last_rows(rows: Rows, since: int) -> slice:
    """The samples of a track taken at row ``since`` or later."""
    return slice(int(np.searchsorted(rows, since)), None)
