"""What the made-up data loaders give: sequences with padding, and an evaluation with copies."""

from __future__ import annotations

from collections import Counter

import numpy as np

from epochal.recipes.demo.every_kind import scenario
from epochal.records import Record

_KEPT = 256
_BATCHES = scenario.STEPS_PER_EPOCH
_BATCH = 32
_EDGES = (64, 128, 256, 512, 1024)


def loading_records(at: float, step: int, *, seed: int) -> tuple[Record, Record]:
    """The epoch of training data that ended at a step, and the evaluation after it."""
    epoch = (step + 1) // scenario.STEPS_PER_EPOCH
    rng = np.random.default_rng((seed, 9, epoch))
    order = rng.permutation(_KEPT)
    train = {
        **_record(at, step, "train", epoch, order, rng),
        "sampler": "DistributedSampler",
        "dataset": "Shards-1",
        "workers": 4,
        "worker_samples": [_BATCHES * _BATCH // 4] * 4,
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
        "first_batch": 0,
        "batches": _BATCHES,
        "samples": _BATCHES * _BATCH,
        "read_batches": _BATCHES,
        "hashed": _BATCHES * _BATCH,
        "indices": indices,
        "index_bits": 0,
        # The same sample has the same hash in both splits.
        "hashes": [(index + 1) * 0x9E3779B1 for index in indices],
        "hash_bits": 0,
        "hash_indices": indices,
        "orders": [[_BATCHES, _BATCHES * _BATCH, int(rng.integers(1 << 47))]],
        "labels": {str(label): count for label, count in enumerate(classes)},
        "labelled_batches": _BATCHES,
        "one_class_batches": 0,
        "padding": round(float(rng.uniform(0.2, 0.3)), 4),
        "lengths": {
            "sequences": len(lengths),
            "min": int(lengths.min()),
            "mean": float(lengths.mean()),
            "max": int(lengths.max()),
            "up_to": {str(edge): count for edge, count in sorted(counts.items())},
        },
        "ended": True,
        "complete": True,
    }
