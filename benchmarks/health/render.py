"""Writes a sketch down as the records its loop, ranks and companion would have written."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from benchmarks.health.case import Case, Entry, Fault, Record
from benchmarks.health.sketch import START_T, Column, Experts, Machine, Sketch
from benchmarks.health.tracks import add_machine

Timed = tuple[float, Entry]
TELEMETRY = "telemetry-node"
_FEW_TOKENS = 1e-5  # a share of the assignments below this is an expert nobody chose


def render(sketch: Sketch, *, seed: int, fault: Fault | None = None) -> Case:
    """The run's records in the order of writing."""
    if sketch.has_machine and sketch.machine is None:
        add_machine(sketch)
    times = sketch.t()
    timed: list[Timed] = []
    timed.extend(_loop(sketch, times))
    if sketch.evals is not None:
        timed.extend(_evals(sketch, times))
    if sketch.layers is not None:
        timed.extend(_layers(sketch, times))
    if sketch.experts is not None:
        timed.extend(_experts(sketch.experts, sketch, times))
    if sketch.phases is not None:
        timed.extend(_phases(sketch, times))
    if sketch.replicas is not None:
        timed.extend(_replicas(sketch, times))
    if sketch.machine is not None:
        last = -1 if sketch.silent_after is None else sketch.silent_after
        timed.extend(_machine(sketch.machine, until=float(times[last]) + sketch.silence_s))
    timed.sort(key=lambda one: one[0])
    rows = sketch.rows if sketch.silent_after is None else sketch.silent_after + 1
    return Case(
        family=sketch.family,
        seed=seed,
        records=[entry for _, entry in timed],
        fault=fault,
        times=[t for t, _ in timed],
        row_times=times[:rows].tolist(),
        every=sketch.every,
        config=dict(sketch.config),
        silence_s=sketch.silence_s,
    )


def _loop(sketch: Sketch, times: Column) -> Iterator[Timed]:
    header = {"log": "run", "v": 1, "writer": "loop", "rank": 0, "config": dict(sketch.config)}
    yield START_T, _entry({"log": "run", "t": START_T, **header, "attempt": 1, "part": 0})
    if sketch.sol is not None:
        facts = {"blocks": 6.6e8, "lm_head": 2.3e8, "attention": 5.6e7, "tps": 1.1e6}
        yield START_T + 0.01, _entry({"log": "sol", "t": START_T + 0.01, **facts, "dtype": "bf16"})
    last = sketch.rows if sketch.silent_after is None else sketch.silent_after + 1
    for row, record in enumerate(_step_records(sketch, times)):
        if row >= last:
            return
        if row == sketch.resume_at:
            yield from _resume(sketch, before=float(times[row - 1]), at=float(times[row]))
        yield float(times[row]), _entry(record)
        if sketch.rows_per_epoch and (sketch.place[row] + 1) % sketch.rows_per_epoch == 0:
            yield float(times[row]), _entry(_epoch(sketch, row, record["t"]))
    if sketch.silent_after is None:
        end = float(times[-1]) + 0.1
        yield (
            end,
            _entry({"log": "finish", "t": end, "status": "finished", "last_step": record["step"]}),
        )


def _resume(sketch: Sketch, *, before: float, at: float) -> Iterator[Timed]:
    assert sketch.resume_at is not None
    if sketch.is_clean_stop:
        stop = {"log": "finish", "t": before + 0.1, "status": "interrupted"}
        yield before + 0.1, _entry(stop)
    begun = at - (at - before) * 0.2
    header = {"log": "run", "t": begun, "v": 1, "writer": "loop", "rank": 0}
    yield begun, _entry({**header, "attempt": 2, "part": 0})
    step = int(sketch.steps[sketch.resume_at])
    yield begun + 0.01, _entry({"log": "resume", "t": begun + 0.01, "attempt": 2, "step": step})


def _epoch(sketch: Sketch, row: int, t: float) -> Record:
    assert sketch.rows_per_epoch is not None
    epoch = int(sketch.place[row] + 1) // sketch.rows_per_epoch
    since = max(0, row + 1 - sketch.rows_per_epoch)
    duration = float(np.sum(sketch.step_ms[since : row + 1])) * sketch.every / 1000
    mean = float(np.mean(sketch.loss[since : row + 1]))
    metrics = {"epoch_loss": mean} if math.isfinite(mean) else {}
    return {"log": "epoch", "t": t, "epoch": epoch, "duration_s": round(duration, 3), "m": metrics}


def _step_records(sketch: Sketch, times: Column) -> Iterator[Record]:
    shift = 0.0 if sketch.clock_shift is None else sketch.clock_shift
    written = np.round(times + shift, 3).tolist()
    steps = sketch.steps if sketch.step_shift is None else sketch.steps + sketch.step_shift
    paused = sketch.pause_s * 1000 / sketch.every if sketch.counts_pauses else 0.0
    durations = np.round(sketch.step_ms + paused, 3)
    rates = sketch.tokens / durations * 1000
    columns = zip(
        written,
        steps.tolist(),
        durations.tolist(),
        sketch.norm.tolist(),
        sketch.loss.tolist(),
        sketch.lr.tolist(),
        rates.tolist(),
        strict=True,
    )
    if sketch.style == "metrics":
        loss_name, norm_name, lr_name = sketch.names
        for t, step, duration, norm, loss, lr, _ in columns:
            values = {loss_name: loss, norm_name: norm, lr_name: lr, "step_ms": duration}
            record: Record = {"log": "metrics", "t": t, "step": step, "m": values}
            yield _speakable(record, values)
        return
    epochs = sketch.place / sketch.rows_per_epoch if sketch.rows_per_epoch else None
    for row, (t, step, duration, norm, loss, lr, rate) in enumerate(columns):
        record = {"log": "step", "t": t, "step": step, "step_tokens": sketch.tokens}
        if epochs is not None:
            record["epoch"] = float(epochs[row])
        record |= {"duration_ms": duration, "norm": norm, "loss": loss, "lr": lr}
        if sketch.clip is not None:
            record["norm_clipped"] = min(norm, sketch.clip)
        record["tokens_per_second"] = rate
        if sketch.sol is not None:
            record["sol"] = float(sketch.sol[row])
        yield _speakable(record, record)


def _speakable(record: Record, values: Record) -> Record:
    """JSON has no NaN: null, and the word beside it."""
    words = {
        name: str(value)
        for name, value in values.items()
        if type(value) is float and not math.isfinite(value)
    }
    if words:
        for name in words:
            values[name] = None
        record["nonfinite"] = words
    return record


def _evals(sketch: Sketch, times: Column) -> Iterator[Timed]:
    evals = sketch.evals
    assert evals is not None
    for place, row in enumerate(evals.at.tolist()):
        if sketch.silent_after is not None and row > sketch.silent_after:
            return
        t = round(float(times[row]) + 0.001, 3)
        loss = float(evals.loss[place])
        metrics: Record = {}
        if evals.accuracy is not None:
            metrics[evals.accuracy_name] = float(evals.accuracy[place])
        step = int(sketch.steps[row])
        if sketch.style == "metrics":
            metrics["eval_loss"] = loss
            record: Record = {"log": "metrics", "t": t, "step": step, "m": metrics}
            yield t, _entry(_speakable(record, metrics))
            continue
        duration = evals.duration_s * 1000
        record = {"log": "eval", "t": t, "step": step, "eval_tokens": 65536}
        record |= {"duration_ms": duration, "loss": loss}
        if metrics:
            record["m"] = metrics
        yield t, _entry(_speakable(record, record))


def _layers(sketch: Sketch, times: Column) -> Iterator[Timed]:
    layers = sketch.layers
    assert layers is not None
    tables = (
        ("params/{}/norm", layers.params),
        ("grads/{}/norm", layers.grads),
        ("grads/{}/zeros", layers.zeros),
        ("update_ratio/{}", layers.ratios),
    )
    named = [([shape.format(name) for name in layers.names], table) for shape, table in tables]
    for place, row in enumerate(layers.at.tolist()):
        if sketch.silent_after is not None and row > sketch.silent_after:
            return
        t = round(float(times[row]) - 0.001, 3)
        values = {
            name: value
            for names, table in named
            for name, value in zip(names, table[place].tolist(), strict=True)
            if value == value
        }
        record = {"log": "metrics", "t": t, "step": int(sketch.steps[row]), "m": values}
        yield t, _entry(_speakable(record, values))


def _experts(experts: Experts, sketch: Sketch, times: Column) -> Iterator[Timed]:
    count = experts.load.shape[2]
    names = [f"h.{layer}.mlp" for layer in range(experts.load.shape[1])]
    used = experts.load > _FEW_TOKENS
    utilization = used.mean(axis=(1, 2)).tolist()
    imbalance = (experts.load.max(axis=2) * count).mean(axis=1).tolist()
    spread = (experts.load.std(axis=2) * count).mean(axis=1).tolist()
    for place, row in enumerate(experts.at.tolist()):
        if sketch.silent_after is not None and row > sketch.silent_after:
            return
        t, step = round(float(times[row]) + 0.002, 3), int(sketch.steps[row])
        load = experts.load[place]
        least = np.where(used[place], load, 1.0).min(axis=1).mean()
        fields: Record = {
            "aux_loss": float(experts.aux_loss[place]),
            "z_loss": 0.002,
            "expert_utilization": utilization[place],
            "load_imbalance": imbalance[place],
            "active_experts": float(used[place].sum(axis=1).mean()),
            "max_expert_fraction": float(load.max(axis=1).mean()),
            "min_active_expert_fraction": float(least),
            "load_cv": spread[place],
            "router_entropy": float(experts.entropy[place]),
            "router_confidence": 1 - 0.9 * float(experts.entropy[place]),
        }
        yield t, _entry({"log": "moe", "t": t, "step": step, **fields})
        if place % 10 == 0:
            shares = {"layers": names, "load": load.tolist(), "top_k": experts.top_k}
            yield t, _entry({"log": "experts", "t": t, "step": step, **shares})


def _phases(sketch: Sketch, times: Column) -> Iterator[Timed]:
    phases = sketch.phases
    assert phases is not None
    for rank, parts in phases.by_rank.items():
        walls = np.sum(list(parts.values()), axis=0).tolist()
        for place, row in enumerate(phases.at.tolist()):
            if sketch.silent_after is not None and row > sketch.silent_after:
                break
            t = round(float(times[row]) + 0.003, 3)
            metrics = {f"phase/{name}": float(part[place]) for name, part in parts.items()}
            record = {"log": "phases", "t": t, "step": int(sketch.steps[row])}
            record |= {"steps": phases.every * sketch.every, "wall_ms": walls[place], "m": metrics}
            yield t, _entry(record, rank)


def _replicas(sketch: Sketch, times: Column) -> Iterator[Timed]:
    replicas = sketch.replicas
    assert replicas is not None
    world = replicas.loss.shape[1] + 1
    for place, row in enumerate(replicas.at.tolist()):
        if sketch.silent_after is not None and row > sketch.silent_after:
            return
        step, lr, norm = int(sketch.steps[row]), float(sketch.lr[row]), float(sketch.norm[row])
        for rank in range(world):
            t = round(float(times[row]) + 0.004 * (rank > 0), 3)
            if rank:
                duration = float(replicas.step_ms[place, rank - 1])
                record = {"log": "step", "t": t, "step": step, "step_tokens": sketch.tokens}
                record |= {"duration_ms": duration, "norm": norm, "lr": lr}
                record["loss"] = float(replicas.loss[place, rank - 1])
                record["tokens_per_second"] = sketch.tokens / duration * 1000
                yield t, _entry(_speakable(record, record), rank)
            if replicas.weight_norm is not None:
                weight = {"params/model.weight/norm": float(replicas.weight_norm[place, rank])}
                yield t, _entry({"log": "metrics", "t": t, "step": step, "m": weight}, rank)


def _machine(machine: Machine, *, until: float) -> Iterator[Timed]:
    word = ""
    for place, t in enumerate(machine.t.tolist()):
        if t > until:
            return
        if machine.throttle[place] != word:
            was, word = word, machine.throttle[place]
            change = {"id": 0, "throttle": word or "no cap", "was": was or "no cap"}
            change_t = round(t - machine.period_s / 2, 3)
            event = {"log": "event", "t": change_t, "name": "gpu-throttle", **change}
            yield change_t, Entry(0, TELEMETRY, event)
        yield t, Entry(0, TELEMETRY, _gpu(machine, place, t))
        yield t, Entry(0, TELEMETRY, _system(machine, place, t))


def _gpu(machine: Machine, place: int, t: float) -> Record:
    used, total = float(machine.dram_used[place]), machine.dram_total
    util, clock = float(machine.util[place]), float(machine.clock[place])
    heat, power = float(machine.temperature[place]), float(machine.power_w[place])
    return {
        "log": "gpu",
        "t": round(t, 3),
        "id": 0,
        "clock": round(clock / 5) * 5,
        "max_clock": machine.max_clock,
        "power": round(power) * 1000,
        "power_limit": machine.power_limit_w * 1000,
        "temperature": round(heat),
        "temp_slowdown": 92,
        "gpu_util": round(util * 2) / 2,
        "throttle": machine.throttle[place],
        "dram_used": round(used),
        "dram_free": round(total - used),
        "dram_total": round(total),
        "interval_s": machine.period_s,
        "min": {"gpu_util": max(0, round(util - 8)), "clock": round(clock * 0.98)},
        "max": {"gpu_util": min(100, round(util + 3)), "temperature": round(heat + 1)},
    }


def _system(machine: Machine, place: int, t: float) -> Record:
    return {
        "log": "system",
        "t": round(t, 3),
        "cpu_pct": round(float(machine.cpu[place]) * 2) / 2,
        "ram_used": round(float(machine.ram_used[place])),
        "ram_total": round(machine.ram_total),
        "process_cpu_pct": 100.0,
        "rss": round(float(machine.rss[place])),
        "threads": 41,
        "interval_s": machine.period_s,
    }


def _entry(record: Record, rank: int = 0) -> Entry:
    return Entry(rank, "loop" if rank == 0 else f"rank-{rank:04d}", record)
