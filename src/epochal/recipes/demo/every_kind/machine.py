"""What the made-up machine measures: two GPUs and a host, every five seconds."""

from __future__ import annotations

import numpy as np

from epochal.recipes.demo.every_kind import scenario, timing
from epochal.recipes.demo.every_kind.opening import GPU_BYTES, NUM_GPUS
from epochal.recipes.demo.every_kind.record_writer import RecordWriter
from epochal.recipes.demo.every_kind.scenario import Attempt
from epochal.records import Record
from epochal.run import typed
from epochal.run.accepted import strict_values

EVERY_S = 5.0
_GIB = 2**30


def write_telemetry(writer: RecordWriter, attempt: Attempt, *, seed: int) -> None:
    """Everything the node's telemetry writes in one attempt."""
    rng = np.random.default_rng((seed, attempt.number, 2))
    seen = _seen(writer, attempt, seed=seed)
    for seconds in np.arange(attempt.begins_s, attempt.ends_s, EVERY_S):
        at = writer.at(float(seconds))
        while seen and seen[0]["t"] <= at:
            writer.write(seen.pop(0))
        step = attempt.first + int((seconds - attempt.begins_s) / scenario.SECONDS_PER_STEP)
        writer.write(_host(at, rng))
        for gpu in range(NUM_GPUS):
            is_hot = gpu == scenario.HOT_GPU and attempt.number == 1 and step in scenario.HOT_STEPS
            writer.write(_gpu(at, gpu, is_hot=is_hot, rng=rng))


def _seen(writer: RecordWriter, attempt: Attempt, *, seed: int) -> list[Record]:
    """What the companion notes when it happens, in the order of time."""
    if attempt is not scenario.FIRST:
        alive: Record = {"log": "heartbeat", "t": writer.at(attempt.begins_s)}
        return [alive, timing.timeline_record(attempt, began=writer.at(0.0), seed=seed)]
    changes = (("thermal cap", "no cap"), ("no cap", "thermal cap"))
    found = []
    for step, (word, was) in zip(
        (scenario.HOT_STEPS[0], scenario.HOT_STEPS[-1]), changes, strict=True
    ):
        at = writer.at(attempt.seconds_at(step))
        event: Record = {"log": "event", "t": at, "name": "gpu-throttle", "id": scenario.HOT_GPU}
        found.append({**event, "throttle": word, "was": was})
    return found


def _host(at: float, rng: np.random.Generator) -> Record:
    return {
        "log": "system",
        "t": at,
        "cpu_pct": round(float(rng.uniform(25, 40)), 1),
        "ram_used": 48 * _GIB + int(rng.integers(_GIB)),
        "ram_total": 256 * _GIB,
        "rss": 9 * _GIB,
        "children_rss": 4 * _GIB,
    }


def _gpu(at: float, gpu: int, *, is_hot: bool, rng: np.random.Generator) -> Record:
    used = 61 * _GIB // 2 + gpu * _GIB
    fields = {
        "clock": 1215 if is_hot else 1905 + int(rng.integers(0, 5)) * 15,
        "max_clock": 1980,
        # A passively cooled board: one of the two tells no fan speed at all.
        "fan": 0 if gpu == 0 else None,
        "power": 430_000 if is_hot else 610_000 + int(rng.integers(40_000)),
        "power_limit": 700_000,
        "temperature": 91 if is_hot else 58 + 4 * gpu + int(rng.integers(3)),
        "temp_slowdown": 87,
        "gpu_util": round(float(rng.uniform(88, 99)), 1),
        "mem_util": round(float(rng.uniform(40, 55)), 1),
        "dram_free": GPU_BYTES - used,
        "dram_used": used,
        "pcie_rx": int(rng.integers(2_000_000_000)),
        "pcie_tx": int(rng.integers(900_000_000)),
        "throttle": "thermal cap" if is_hot else "",
    }
    return typed.gpu_record(at, strict_values(), None, gpu, fields)
