"""Faults of the machine and the pace."""

from __future__ import annotations

import numpy as np

from benchmarks.health.case import Fault
from benchmarks.health.faults.planting import fault, onset, ramp, require, row_of, set_pace
from benchmarks.health.parts import within
from benchmarks.health.sketch import START_T, Sketch
from benchmarks.health.strengths import Strengths
from benchmarks.health.tracks import GIB, add_machine, add_phases

WITHIN_S = 60.0
SILENCE_S = 60.0
WINDOW_OF_PHASES = 5  # records


def throughput_drop(sketch: Sketch, strengths: Strengths) -> Fault:
    """Steps take half as long again or more, from one step to the next and for good."""
    require(sketch.style == "step")
    set_pace(sketch, low_ms=120, high_ms=3000)
    row = onset(sketch, 150, 900)
    sketch.step_ms[row:] *= within(sketch.rng, *strengths.slower)
    return fault(sketch, "throughput-drop", row, rows=3, seconds=WITHIN_S)


def input_bound(sketch: Sketch, strengths: Strengths) -> Fault:
    """Two fifths of a step or more pass waiting for data, as phases say or else the machine.

    Without phases: the GPU is busy less than half of the time, between full use and none, and
    the processors have no time to spare.
    """
    rng = sketch.rng
    share = within(rng, *strengths.waiting)
    set_pace(sketch, low_ms=250, high_ms=1500)
    row = 0 if rng.random() < 0.5 else onset(sketch, 200, 900)
    if rng.random() < 0.7:
        phases = add_phases(sketch)
        parts = phases.by_rank[0]
        late = phases.at >= row + phases.every
        require(bool(late.any()))
        work = np.sum([part for name, part in parts.items() if name != "data"], axis=0)
        waits = np.minimum(share * (1 + rng.normal(0, 0.02, len(work))), 0.97)
        parts["data"] = np.where(late, work * waits / (1 - waits), parts["data"])
        sketch.step_ms[row:] /= 1 - share
        first = int(phases.at[int(np.argmax(late))])
        rows = 3 * WINDOW_OF_PHASES * phases.every
        return fault(sketch, "input-bound", first, rows=rows, seconds=180)
    sketch.step_ms[row:] /= 1 - share
    machine = add_machine(sketch)
    since = float(sketch.t()[row]) if row else START_T
    late = machine.t > since + machine.period_s
    machine.util[late] = np.clip(
        100 * (1 - share) * (1 + rng.normal(0, 0.1, int(late.sum()))), 3, 60
    )
    machine.cpu[late] = rng.uniform(91, 99.5, int(late.sum()))
    at = float(machine.t[int(np.argmax(late))])
    return fault(sketch, "input-bound", row_of(sketch, at), seconds=360, at=at)


def gpu_throttling(sketch: Sketch, strengths: Strengths) -> Fault:
    """A hot or power-starved GPU runs at three quarters of its clock or less, and says why."""
    rng = sketch.rng
    set_pace(sketch, low_ms=200, high_ms=1500)
    row = onset(sketch, 300, 900)
    share = within(rng, *strengths.clock)
    sketch.step_ms[row:] /= share**0.7
    machine = add_machine(sketch)
    first = int(np.searchsorted(machine.t, float(sketch.t()[row])))
    require(first < len(machine.t) - 8)
    word = "thermal cap" if rng.random() < 0.75 else "power cap"
    machine.clock[first:] = machine.max_clock * share * (1 + rng.normal(0, 0.01))
    machine.throttle[first:] = [word] * (len(machine.t) - first)
    if word == "thermal cap":
        machine.temperature[first:] = rng.uniform(88, 93)
    at = float(machine.t[first]) - machine.period_s / 2
    return fault(sketch, "gpu-throttling", row_of(sketch, at), seconds=WITHIN_S, at=at)


def memory_creep(sketch: Sketch, strengths: Strengths) -> Fault:
    """The process or its GPU memory grows by a per cent of itself or more each minute, for good."""
    rng = sketch.rng
    sketch.pause_s[:] = np.minimum(sketch.pause_s, 20)
    set_pace(sketch, low_ms=1400, high_ms=2400)
    machine = add_machine(sketch)
    since = START_T + rng.uniform(400, 900)
    minutes = np.maximum(0.0, machine.t - since) / 60
    rate = within(rng, *strengths.creep_per_min)
    if rng.random() < 0.6:
        grown = rng.uniform(3, 8) * GIB
        machine.rss = grown * (1 + rate * minutes) * (1 + rng.normal(0, 0.004, len(minutes)))
        machine.ram_total = 512 * GIB
        machine.ram_used = machine.rss * 1.1 + 6 * GIB
    else:
        used = rng.uniform(0.1, 0.2) * machine.dram_total
        machine.dram_used = np.minimum(used * (1 + rate * minutes), 0.85 * machine.dram_total)
    return fault(sketch, "memory-creep", row_of(sketch, since), seconds=1800, at=since)


def memory_full(sketch: Sketch, strengths: Strengths) -> Fault:
    """Memory of the GPU or the host fills steadily to the last byte; to be told before it is."""
    rng = sketch.rng
    sketch.pause_s[:] = np.minimum(sketch.pause_s, 20)
    set_pace(sketch, low_ms=900, high_ms=1800)
    machine = add_machine(sketch)
    since = START_T + rng.uniform(300, 600)
    length = within(rng, *strengths.filling_s)
    along = np.clip((machine.t - since) / length, 0.0, 1.0)
    if rng.random() < 0.5:
        base = rng.uniform(0.4, 0.8) * machine.dram_total
        machine.dram_used = base + (0.997 * machine.dram_total - base) * along
    else:
        base = rng.uniform(0.3, 0.7) * machine.ram_total
        machine.ram_used = base + (0.995 * machine.ram_total - base) * along
        machine.rss = machine.ram_used * 0.9
    return fault(sketch, "memory-full", row_of(sketch, since), seconds=length, at=since)


def low_sol(sketch: Sketch, strengths: Strengths) -> Fault:
    """The steps say less than half of the speed of light, all of them from then on."""
    require(sketch.style == "step" and sketch.resume_at is None)
    rng = sketch.rng
    row = 0 if rng.random() < 0.5 else int(rng.integers(200, 1000))
    good = np.clip(rng.normal(80, 2, sketch.rows), 65, 97)
    low = within(rng, *strengths.sol) * (1 + rng.normal(0, 0.03, sketch.rows))
    late = ramp(sketch.rows, since=row, length=1) > 0
    sketch.sol = np.where(late, low, good)
    return fault(sketch, "low-sol", row, rows=300, seconds=WITHIN_S)


def silent_run(sketch: Sketch, strengths: Strengths) -> Fault:
    """The loop writes nothing any more, though nobody ended it; its machine is watched on.

    To be told within three windows of a minute, or three times the longest silence so far where
    that is longer: a save or an evaluation of a minute is nothing unusual.
    """
    row = onset(sketch, 200, 900)
    times = sketch.t()
    longest = float(np.diff(times[: row + 1], prepend=START_T).max())
    seconds = 3 * max(SILENCE_S, longest)
    sketch.silent_after, sketch.silence_s = row, seconds + 120
    if sketch.has_machine:
        machine = add_machine(sketch, more_s=sketch.silence_s)
        idle = machine.t > times[row] + machine.period_s
        machine.util[idle] = 0.0
        machine.clock[idle] = 210.0
        machine.throttle = [
            "idle" if is_idle else word
            for is_idle, word in zip(idle.tolist(), machine.throttle, strict=True)
        ]
    return fault(sketch, "silent-run", row, seconds=seconds)
