"""What the made-up run says before its first step: options, data, devices, estimates, a picture."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from epochal.recipes.demo.every_kind.scenario import (
    BATCH_TOKENS,
    NUM_STEPS,
    SPEED_OF_LIGHT_TPS,
    TRAINED_TOKENS,
)
from epochal.records import Record
from epochal.run import typed
from epochal.run.accepted import strict_values

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
        yield typed.define_record(at, name=name, unit=unit, goal=goal, x=x, role=role)


def _data(at: float, *, seed: int) -> Iterator[Record]:
    shards = [f"shards/part-{number:05d}.bin" for number in range(12)]
    place = {"file_index": 0, "chunk_index": 0, "seed": seed}
    call = strict_values()
    yield typed.dataset_record(at, call, "train", shards, tokens=TRAINED_TOKENS, **place)
    yield typed.dataset_record(at, call, "eval", 1, tokens=40 * BATCH_TOKENS)


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
    return typed.facts_record("gpu-model", at, strict_values(), facts)


def _memory(at: float, gpu: int) -> Record:
    segments = [
        {"name": "weights", "device": _GIB // 4},
        {"name": "gradients", "device": _GIB // 4},
        {"name": "optimizer", "device": _GIB, "pinned": _GIB // 2},
        {"name": "activations", "device": 21 * _GIB + gpu},
        {"name": "dataset", "pageable": 3 * _GIB, "managed": 4096},
    ]
    record = typed.allocator_record(at, strict_values(), 0, stats=segments, gpu=gpu)
    assert record is not None
    return record


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
    return typed.facts_record("sol", at, strict_values(), estimate)


_PICTURE = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 260 60"'
    ' font-size="12" font-family="sans-serif">'
    '<rect x="5" y="15" width="100" height="30" fill="#eef" stroke="#888"/>'
    '<text x="20" y="34">12 blocks</text>'
    '<path d="M105 30H155" stroke="#888"/>'
    '<rect x="155" y="15" width="100" height="30" fill="#efe" stroke="#888"/>'
    f'<text x="170" y="34">{NUM_STEPS} steps</text></svg>'
)
