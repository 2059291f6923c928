"""Where the made-up run's time goes: phases of a step, long phases, and a step that waited."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from epochal.recipes.demo.every_kind import scenario
from epochal.recipes.demo.every_kind.scenario import Attempt, Step
from epochal.records import Record

PHASE_STEPS = 20
# Shares of a step's time; what is left is nobody's.
_SHARES = {
    "data": 0.04,
    "forward": 0.30,
    "backward": 0.47,
    "optimizer": 0.06,
    "sync": 0.08,
    'augment "it" <i>': 0.02,
}
_SAVE_S = 0.83
_EVAL_S = 0.8125
_PERIOD_S = 0.1
_AROUND_S = 4.0


def phases_record(at: float, figures: Step, *, seed: int) -> Record:
    """The mean of the last steps' phases; the loader grows slower as the run goes on."""
    rng = np.random.default_rng((seed, 9, figures.step))
    wall_ms = 1000 * scenario.SECONDS_PER_STEP
    shares = {name: share * float(rng.uniform(0.95, 1.05)) for name, share in _SHARES.items()}
    shares["data"] += 0.10 * figures.step / scenario.NUM_STEPS
    shares["forward"] -= 0.09 * figures.step / scenario.NUM_STEPS
    means = {f"phase/{name}": round(wall_ms * share, 3) for name, share in shares.items()}
    record: Record = {"log": "phases", "t": at, "step": figures.step, "steps": PHASE_STEPS}
    ideal_ms = round(1000 * scenario.BATCH_TOKENS / scenario.SPEED_OF_LIGHT_TPS, 4)
    return {**record, "wall_ms": wall_ms, "m": means, "ideal_ms": ideal_ms}


def span_records(at: float, step: int) -> Iterator[Record]:
    """The evaluation and the save that end at a step."""
    yield _span("eval", at - _SAVE_S - _EVAL_S, _EVAL_S, step)
    yield _span("save", at - _SAVE_S, _SAVE_S, step)


def stall_span(at: float) -> Record:
    """The wait of the slow step, which ends with a hasty rest of the step; not logged as yet."""
    return _span("data", at - scenario.SLOW_S - 1.9, scenario.SLOW_S, scenario.SLOW_STEP - 1)


def timeline_record(attempt: Attempt, *, began: float, seed: int) -> Record:
    """What the companion saw around the slow step, ten times a second."""
    ends = began + attempt.seconds_at(scenario.SLOW_STEP)
    start = round(ends - scenario.SLOW_S - scenario.SECONDS_PER_STEP - _AROUND_S, 3)
    waits = (ends - scenario.SLOW_S - 1.9, ends - 1.9)
    times = np.arange(start, ends + _AROUND_S, _PERIOD_S)
    is_waiting = (times >= waits[0]) & (times < waits[1])
    rng = np.random.default_rng((seed, 10))
    samples: dict[str, Any] = {}
    for gpu in range(2):
        busy = np.where(is_waiting, rng.uniform(0, 4, times.size), rng.uniform(88, 99, times.size))
        samples[f"gpu/{gpu}/util"] = [round(float(value), 1) for value in busy]
    samples["gpu/1/util"][5] = None
    cpu = np.where(is_waiting, rng.uniform(92, 100, times.size), rng.uniform(25, 40, times.size))
    samples["cpu"] = [round(float(value), 1) for value in cpu]
    ratio = (scenario.SLOW_S + scenario.SECONDS_PER_STEP) / scenario.SECONDS_PER_STEP
    return {
        "log": "timeline",
        "t": round(float(times[-1]) + _PERIOD_S, 3),
        "start": start,
        "period_s": _PERIOD_S,
        "samples": samples,
        "step": scenario.SLOW_STEP,
        "gaps": [
            {
                "device": f"gpu/{gpu}",
                "start": round(waits[0], 3),
                "end": round(waits[1], 3),
                "cause": "data",
            }
            for gpu in range(2)
        ],
        "reason": f"step {scenario.SLOW_STEP} took"
        f" {scenario.SLOW_S + scenario.SECONDS_PER_STEP:.1f} s, {ratio:.1f} x the usual",
    }


def _span(name: str, start: float, duration_s: float, step: int) -> Record:
    span: Record = {"log": "span", "t": round(start + duration_s, 3), "name": name}
    return {**span, "start": round(start, 3), "duration_ms": 1000 * duration_s, "step": step}
