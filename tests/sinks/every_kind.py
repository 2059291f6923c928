"""A small run with one of everything that a tracker can hold."""

from __future__ import annotations

import numpy as np

from epochal.media.types import Image
from epochal.run.run import Run, recorder_of

MIB = 1024 * 1024
CONFIG = {"lr": 0.1, "model": {"depth": 2}, "layers": [1, 2]}


def log_every_kind(run: Run) -> None:
    run.log_allocator(
        [
            {"name": "weights", "device": 6 * MIB},
            {"name": "optimizer", "device": 2 * MIB, "pinned": MIB},
        ],
        step=0,
    )
    for step in range(3):
        run.log_step(step, step / 10, 1000, 100, 0.5, 3.0 - step, 1e-3)
        for gpu in (0, 1):
            run.log_gpu_state(gpu_id=gpu, step=step, power=300_000 + gpu, dram_free=5 * MIB)
    run.log_moe_stats(2, 0.5, 0.1, 0.9, 1.5)
    run.log_eval(2, 0.2, 500, 50, 1.5)
    run.log({"odd name: ä/b": 1.0, "nan": float("nan")}, step=2)
    recorder_of(run).write_histogram("weights/wte", np.arange(10.0), 2, bins=5)
    run.log({"sample": "Hello <b>&</b>"}, step=2)
    run.log({"noise": Image(np.zeros((4, 6, 3), dtype=np.uint8))}, 2)
    run.finish()
