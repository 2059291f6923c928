"""One process of one training: `python -m benchmarks.clinic.training ID FOLDER [DEVICE]`.

The run is recorded in ``FOLDER/run``; what came of it is ``FOLDER/result-RANK.json``. A rank of
several has the environment of a launcher.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

import epochal
from benchmarks.clinic.harness import leave_group, prepare, train
from benchmarks.clinic.plan import parse

PROJECT = "clinic"


def main(name: str, folder: Path, device: str = "cpu") -> None:
    """Train, and write what came of it."""
    torch.set_num_threads(1)
    training = parse(name)
    kind, fault = training.kind, training.fault
    if kind.world > 1:
        dist.init_process_group("gloo")
    bench = prepare(kind, training.optimizer, training.seed, folder, device=device)
    if fault is not None:
        fault.plant(bench)
    config = {
        "optimizer": training.optimizer,
        "lr": bench.rate,
        "batch_size": bench.batch_size,
        **kind.config,
    }
    if device != "cpu":
        config["device"] = device
    run = epochal.init(
        PROJECT,
        training.id,
        dir=folder / "run",
        config=config,
        console=False,
        capture=False,
        total_steps=bench.steps,
    )
    with run:
        result = train(bench, run)
    (folder / f"result-{bench.rank}.json").write_text(json.dumps(result))
    leave_group()


if __name__ == "__main__":
    # Rank 1 that leaves a loop must not be waited for by the interpreter's own threads.
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:4])
    sys.stdout.flush()
    os._exit(0)
