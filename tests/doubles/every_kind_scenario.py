"""What happens in the artificial run of ``every_kind.py``, and the records that say so.

Two ranks, two attempts, a few accidents. Everything follows from the seed, the step and the time
at which the run is said to have begun. Nothing in it was trained or measured.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from epochal.records import Record
from epochal.run import typed
from epochal.run.accepted import strict_values

NUM_STEPS = 400
STEPS_PER_EPOCH = 100
NUM_EPOCHS = NUM_STEPS // STEPS_PER_EPOCH
BATCH_TOKENS = 65_536
# Tokens per second at the speed of light.
SPEED_OF_LIGHT_TPS = 4.2e4
SECONDS_PER_STEP = 2.0
# Between the death of the first attempt and the first step of the second.
PAUSE_S = 90.0

NAN_STEP = 150
SPIKE_STEP = 310
SPIKE_RISE = 6.0
SPIKE_NORM = 34.0
# The loader had nothing to give at this step of the second attempt.
SLOW_STEP = 356
SLOW_S = 4.6
LATE_METRIC_FROM = 120
HOT_GPU = 1
HOT_STEPS = range(165, 190)
TRAINED_TOKENS = NUM_STEPS * BATCH_TOKENS


@dataclass(frozen=True, slots=True)
class Attempt:
    """One life of the process: the first step it logs and the step after its last."""

    number: int
    first: int
    end: int
    begins_s: float

    @property
    def steps(self) -> range:
        """Every step it logs."""
        return range(self.first, self.end)

    def seconds_at(self, step: float) -> float:
        """When a step ends, in seconds since the run began."""
        waited_s = SLOW_S if self.number == 2 and step >= SLOW_STEP else 0.0
        return self.begins_s + (step - self.first + 1) * SECONDS_PER_STEP + waited_s

    @property
    def ends_s(self) -> float:
        """When the last step ends."""
        return self.seconds_at(self.end - 1)


# The first is killed at step 260; the second goes on from the checkpoint before step 200, so that
# steps 200 to 259 were logged twice.
FIRST = Attempt(1, 0, 260, 0.0)
SECOND = Attempt(2, 200, NUM_STEPS, FIRST.ends_s + PAUSE_S)
ATTEMPTS = (FIRST, SECOND)
DURATION_S = SECOND.ends_s


@dataclass(frozen=True, slots=True)
class Step:
    """The figures of one step on one rank."""

    step: int
    seconds: float
    loss: float
    norm: float
    lr: float
    duration_ms: float

    @property
    def epoch(self) -> float:
        """Epochs completed after this step, with a fraction."""
        return (self.step + 1) / STEPS_PER_EPOCH


def make_steps(attempt: Attempt, *, rank: int, seed: int) -> Iterator[Step]:
    """An attempt's steps on one rank: a falling loss with noise, one NaN and one spike."""
    rng = np.random.default_rng((seed, attempt.number, rank))
    for step in attempt.steps:
        loss, norm = expected_loss(step) + 0.06 * rng.standard_normal(), rng.uniform(0.6, 1.1)
        if step == NAN_STEP:
            loss, norm = math.nan, math.inf
        elif step == SPIKE_STEP:
            loss, norm = expected_loss(step) + SPIKE_RISE, SPIKE_NORM
        yield Step(
            step=step,
            seconds=attempt.seconds_at(step),
            loss=float(loss),
            norm=float(norm),
            lr=learning_rate(step),
            duration_ms=round(1000 * _seconds(step, attempt) * (0.93 + 0.06 * rng.random()), 3),
        )


def phase(step: int) -> str:
    """What the training would call its own state."""
    if step < 40:
        return "warm-up"
    if SPIKE_STEP <= step < SPIKE_STEP + 15:
        return "unstable"
    return "plateau" if step >= 340 else "converging"


def _seconds(step: int, attempt: Attempt) -> float:
    return SECONDS_PER_STEP + (SLOW_S if attempt.number == 2 and step == SLOW_STEP else 0.0)


def expected_loss(step: int) -> float:
    """The loss without noise."""
    return 3.0 + 8.0 * math.exp(-step / 70.0)


def learning_rate(step: int) -> float:
    """Warm-up, then a cosine."""
    if step < 40:
        return 6e-4 * (step + 1) / 40
    return 3e-4 * (1.0 + math.cos(math.pi * (step - 40) / (NUM_STEPS - 40)))


GPU_NAME = "NVIDIA H100 80GB HBM3 (made up)"
GPU_BYTES = 85_520_809_984
NUM_GPUS = 2
_GIB = 2**30

CONFIG: dict[str, Any] = {
    "model": {"layers": 12, "width": 768, "heads": 12, "experts": 8, "experts_per_token": 2},
    "batch_tokens": BATCH_TOKENS,
    "lr": 6e-4,
    "betas": [0.9, 0.95],
    "compile": True,
    "init_from": None,
    "data": 'made up/with a slash & "quotes"',
}

# Messages as programs print them: every level, markup that must stay text, several lines.
MESSAGES = (
    ("debug", "compiled 214 kernels"),
    ("info", "training begins"),
    ("info", "<b>not bold</b> <script>alert('not run')</script> & <img src=x onerror=alert(1)>"),
    ("info", "größer als gedacht: κόσμε, 你好, 🚂"),
    ("warning", "3 of 2,000 shards are empty and are skipped"),
    ("error", "cannot reach the metrics host\n  tried twice\n  going on without it"),
    ("stdout", "tokens\tper\tshard: 1000000"),
    ("stderr", "UserWarning: the old name of an option is used"),
)


def opening_records(at: float, *, seed: int) -> Iterator[Record]:
    """Everything rank 0 writes once."""
    for name, value in CONFIG.items():
        yield {"log": "option", "t": at, "name": name, "value": value}
    yield from _definitions(at)
    yield from _data(at, seed=seed)
    for gpu in range(NUM_GPUS):
        yield _gpu_model(at, gpu)
        yield _memory(at, gpu)
    yield _speed_of_light(at)
    yield {"log": "graph", "t": at, "name": "model", "svg": _PICTURE, "parameters": 124_439_808}
    for level, text in MESSAGES:
        yield {"log": "message", "t": at, "level": level, "text": text}
    yield {
        "log": "message",
        "t": at,
        "level": "info",
        "text": "load the data",
        "duration_ms": 1532.25,
    }


def _definitions(at: float) -> Iterator[Record]:
    for name, unit, goal, x, role in (
        ("train/loss", "nats", "min", None, "loss"),
        ("eval/loss", "nats", "min", None, "eval_loss"),
        ("eval/accuracy", None, "max", None, None),
        ("data/wait_ms", "ms", "min", None, None),
        ("late/score", "%", "max", "data/tokens_seen", None),
    ):
        given = {"unit": unit, "goal": goal, "x": x, "role": role}
        yield {"log": "define", "t": at, "name": name, **{k: v for k, v in given.items() if v}}


def _data(at: float, *, seed: int) -> Iterator[Record]:
    shards = [f"shards/part-{number:05d}.bin" for number in range(12)]
    kind: Record = {"log": "dataset", "t": at}
    train = {"split": "train", "names": shards, "files": len(shards), "tokens": TRAINED_TOKENS}
    yield {**kind, **train, "file_index": 0, "chunk_index": 0, "seed": seed}
    yield {**kind, "split": "eval", "files": 1, "tokens": 40 * BATCH_TOKENS}


def _gpu_model(at: float, gpu: int) -> Record:
    facts = {
        "id": gpu,
        "rank": gpu,
        "name": GPU_NAME,
        "sm_count": 132,
        "major": 9,
        "minor": 0,
        "memory": GPU_BYTES,
        "free": GPU_BYTES - 2 * _GIB,
        "l2_size": 52_428_800,
        "uuid": f"GPU-00000000-0000-0000-0000-00000000000{gpu}",
        "ecc": True,
        "cuda_driver": 12_040,
        "cuda_runtime": 12_040,
    }
    return {"log": "gpu-model", "t": at, **facts}


def _memory(at: float, gpu: int) -> Record:
    segments = [
        {"name": "weights", "device": _GIB // 4},
        {"name": "gradients", "device": _GIB // 4},
        {"name": "optimizer", "device": _GIB, "pinned": _GIB // 2},
        {"name": "activations", "device": 21 * _GIB + gpu},
        {"name": "dataset", "pageable": 3 * _GIB, "managed": 4096},
    ]
    fields = {"id": gpu, "stats": segments}
    return typed.record("allocator", at, strict_values(), fields, step=0)


def _speed_of_light(at: float) -> Record:
    estimate = {
        "blocks": 2.1e10,
        "lm_head": 1.2e9,
        "attention": 1.4e9,
        "tps": SPEED_OF_LIGHT_TPS,
        "bf16_peak": 989.4,
        "tf32_peak": 494.7,
        "fp8_peak": 1978.9,
        "measured_peak": 812.5,
        "useful_tps": SPEED_OF_LIGHT_TPS,
        "peak_clock": 1980,
        "device": GPU_NAME,
        "dtype": "bf16",
    }
    return {"log": "sol", "t": at, **estimate}


_PICTURE = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 260 60"'
    ' font-size="12" font-family="sans-serif">'
    '<rect x="5" y="15" width="100" height="30" fill="#eef" stroke="#888"/>'
    '<text x="20" y="34">12 blocks</text>'
    '<path d="M105 30H155" stroke="#888"/>'
    '<rect x="155" y="15" width="100" height="30" fill="#efe" stroke="#888"/>'
    f'<text x="170" y="34">{NUM_STEPS} steps</text></svg>'
)


NUM_EXPERTS = 8
TOP_K = 2
# Layers are named by whoever wrote the model: anything may stand in them.
LAYERS = ("blocks.1.mlp", "blocks.3.mlp", "blocks.5.mlp", "blocks.7.mlp", "<b>blocks.9</b>&mlp")
_FADING_LAYER = 3
_FADING_EXPERTS = (2, 6)


def routing_records(at: float, step: int, *, seed: int) -> tuple[Record, Record]:
    """What the router did at a step: its figures, and each expert's share of the work."""
    load = _load(step, seed=seed)
    worst = load[_FADING_LAYER]
    figures = {
        "aux_loss": 0.012,
        "z_loss": 0.0011,
        "expert_utilization": float((load > 0.1 / NUM_EXPERTS).mean()),
        "load_imbalance": float((load.max(axis=1) * NUM_EXPERTS).mean()),
        "active_experts": float((load > 0.1 / NUM_EXPERTS).sum(axis=1).mean()),
        "max_expert_fraction": float(load.max()),
        "min_active_expert_fraction": float(worst[worst > 0].min()),
        "load_cv": float((load.std(axis=1) * NUM_EXPERTS).mean()),
        "router_entropy": 0.88,
        "router_confidence": 0.42,
    }
    shares = [[round(float(share), 5) for share in layer] for layer in load]
    experts = {"log": "experts", "t": at, "step": step, "layers": list(LAYERS)}
    return (
        {"log": "moe", "t": at, "step": step, **figures},
        {**experts, "load": shares, "top_k": TOP_K},
    )


def _load(step: int, *, seed: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    habits = np.random.default_rng((seed, 7)).uniform(0.6, 1.4, (len(LAYERS), NUM_EXPERTS))
    noise = np.random.default_rng((seed, 8, step)).uniform(0.9, 1.1, habits.shape)
    load = habits * noise
    for expert in _FADING_EXPERTS:
        load[_FADING_LAYER, expert] *= max(0.004, 1.0 - step / (0.8 * NUM_STEPS))
    shares: np.ndarray[tuple[int, int], np.dtype[np.float64]] = load / load.sum(
        axis=1, keepdims=True
    )
    return shares


_KEPT = 256
_BATCHES = STEPS_PER_EPOCH
_BATCH = 32
_EDGES = (64, 128, 256, 512, 1024)


def loading_records(at: float, step: int, *, seed: int) -> tuple[Record, Record]:
    """The epoch of training data that ended at a step, and the evaluation after it."""
    epoch = (step + 1) // STEPS_PER_EPOCH
    rng = np.random.default_rng((seed, 9, epoch))
    order = rng.permutation(_KEPT)
    train = {
        **_record(at, step, "train", epoch, order, rng),
        "sampler": "DistributedSampler",
        "dataset": "Shards-1",
        "workers": 4,
    }
    other = np.concatenate([np.arange(4), np.arange(1000, 1124)])
    evaluation = {
        **_record(at, step, "eval", epoch, other, rng),
        "sampler": "SequentialSampler",
        "dataset": "Shards-2",
        "workers": 0,
    }
    return train, evaluation


def _record(
    at: float,
    step: int,
    name: str,
    epoch: int,
    samples: np.ndarray[tuple[int], np.dtype[np.int64]],
    rng: np.random.Generator,
) -> Record:
    indices = samples.tolist()
    lengths = rng.integers(20, 1024, 500)
    counts = Counter(int(next(edge for edge in _EDGES if edge >= one)) for one in lengths)
    classes = rng.multinomial(_BATCHES * _BATCH, [0.5, 0.3, 0.15, 0.05]).tolist()
    return {
        "log": "data",
        "t": at,
        "name": name,
        "step": step,
        "epoch": epoch,
        "batches": _BATCHES,
        "samples": _BATCHES * _BATCH,
        "read_batches": _BATCHES,
        "indices": indices,
        "index_bits": 0,
        # The same sample has the same hash in both splits.
        "hashes": [(index + 1) * 0x9E3779B1 for index in indices],
        "hash_bits": 0,
        "hash_indices": indices,
        "hash_labels": [index % len(classes) for index in indices],
        "orders": [[_BATCHES, _BATCHES * _BATCH, int(rng.integers(1 << 47))]],
        "labels": {str(label): count for label, count in enumerate(classes)},
        "labelled_batches": _BATCHES,
        "one_class_batches": 0,
        "padding": round(float(rng.uniform(0.2, 0.3)), 4),
        "lengths": {
            "mean": float(lengths.mean()),
            "up_to": {str(edge): count for edge, count in sorted(counts.items())},
        },
        "ended": True,
        "complete": True,
    }


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
    wall_ms = 1000 * SECONDS_PER_STEP
    shares = {name: share * float(rng.uniform(0.95, 1.05)) for name, share in _SHARES.items()}
    shares["data"] += 0.10 * figures.step / NUM_STEPS
    shares["forward"] -= 0.09 * figures.step / NUM_STEPS
    means = {f"phase/{name}": round(wall_ms * share, 3) for name, share in shares.items()}
    record: Record = {"log": "phases", "t": at, "step": figures.step, "steps": PHASE_STEPS}
    ideal_ms = round(1000 * BATCH_TOKENS / SPEED_OF_LIGHT_TPS, 4)
    return {**record, "wall_ms": wall_ms, "m": means, "ideal_ms": ideal_ms}


def span_records(at: float, step: int) -> Iterator[Record]:
    """The evaluation and the save that end at a step."""
    yield _span("eval", at - _SAVE_S - _EVAL_S, _EVAL_S, step)
    yield _span("save", at - _SAVE_S, _SAVE_S, step)


def stall_span(at: float) -> Record:
    """The wait of the slow step, which ends with a hasty rest of the step; not logged as yet."""
    return _span("data", at - SLOW_S - 1.9, SLOW_S, SLOW_STEP - 1)


def timeline_record(attempt: Attempt, *, began: float, seed: int) -> Record:
    """What the companion saw around the slow step, ten times a second."""
    ends = began + attempt.seconds_at(SLOW_STEP)
    start = round(ends - SLOW_S - SECONDS_PER_STEP - _AROUND_S, 3)
    waits = (ends - SLOW_S - 1.9, ends - 1.9)
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
    ratio = (SLOW_S + SECONDS_PER_STEP) / SECONDS_PER_STEP
    return {
        "log": "timeline",
        "t": round(float(times[-1]) + _PERIOD_S, 3),
        "start": start,
        "period_s": _PERIOD_S,
        "samples": samples,
        "step": SLOW_STEP,
        "gaps": [
            {
                "device": f"gpu/{gpu}",
                "start": round(waits[0], 3),
                "end": round(waits[1], 3),
                "cause": "data",
            }
            for gpu in range(2)
        ],
        "reason": f"step {SLOW_STEP} took"
        f" {SLOW_S + SECONDS_PER_STEP:.1f} s, {ratio:.1f} x the usual",
    }


def _span(name: str, start: float, duration_s: float, step: int) -> Record:
    span: Record = {"log": "span", "t": round(start + duration_s, 3), "name": name}
    return {**span, "start": round(start, 3), "duration_ms": 1000 * duration_s, "step": step}
