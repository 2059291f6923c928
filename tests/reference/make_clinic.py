"""Train tasks of the clinic, shorter than there and without companions, and keep their journals.

    python -m tests.reference.make_clinic [--minutes 60] [--workers 2]

A journal that exists is kept. Its findings come from `python -m tests.reference.make --findings`.
"""

from __future__ import annotations

import argparse
import json
import lzma
import multiprocessing
import os
import sys
import tempfile
import time
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # what optimizers load, once for all processes that are forked
import torch.distributed as dist

import epochal
from benchmarks.clinic import evidence
from benchmarks.clinic.cost import cpu_s
from benchmarks.clinic.faults import FAULTS
from benchmarks.clinic.harness import leave_group, prepare, train
from benchmarks.clinic.kinds import KINDS
from benchmarks.clinic.plan import HEALTHY, Training

FOLDER = Path(__file__).parent / "clinic"
MAX_STEPS = 250
_WAIT = ("memory_leak", "hang")  # minutes of waiting
_MAX_CPU_S = 15.5
_PLACES = 4  # tasks of each fault


def trainings() -> list[Training]:
    """A healthy training of each cheap task, and each fault on its cheapest tasks, in turn."""
    cheap = [one for one in KINDS.values() if one.world > 1 or _cost(one.name) <= _MAX_CPU_S]
    healthy = [Training(one.name, one.optimizers[0].name, HEALTHY, 0) for one in cheap]
    healthy.sort(key=lambda one: (one.kind.world > 1, _cost(one.kind_name)))
    faulty = []
    for fault in FAULTS.values():
        places = sorted(fault.kinds(), key=lambda place: _cost(place[0]))
        places = [one for one in places if KINDS[one[0]].world > 1 or _cost(one[0]) <= _MAX_CPU_S]
        if fault.name not in _WAIT:
            faulty.append([Training(*place, fault.name, 0) for place in places[:_PLACES]])
    turns = [one for turn in zip_longest(*faulty) for one in turn if one is not None]
    found = [one for pair in zip_longest(turns, healthy) for one in pair if one is not None]
    return sorted(found, key=lambda one: _cost(one.kind_name))


def _cost(kind: str) -> float:
    return cpu_s(Training(kind, "", HEALTHY, 0))


def run_rank(training: Training, folder: Path, rank: int, port: int) -> None:
    """One rank of a training, in a process of its own."""
    os.chdir(folder)
    kind = replace(training.kind, steps=min(training.kind.steps, MAX_STEPS), pace_ms=0.0)
    os.environ |= {"EPOCHAL_COMPANION": "0", "EPOCHAL_GIT": "0"}
    if kind.world > 1:
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(kind.world), "LOCAL_RANK": str(rank)}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        os.environ |= {"GLOO_SOCKET_IFNAME": "lo", "LOCAL_WORLD_SIZE": str(kind.world)}
        dist.init_process_group("gloo")
    bench = prepare(kind, training.optimizer, training.seed, folder)
    if training.fault is not None:
        training.fault.plant(bench)
    config = {"optimizer": training.optimizer, "lr": bench.rate, "batch_size": bench.batch_size}
    run = epochal.init(
        "clinic",
        training.id,
        dir=folder / "run",
        config={**config, **kind.config},
        console=False,
        capture=False,
        total_steps=bench.steps,
    )
    with run:
        train(bench, run)
    leave_group()
    if rank > 0:
        os._exit(0)


def keep(training: Training, folder: Path) -> None:
    """Write the journal: what the training was, then ``[rank, writer, record]`` by time."""
    run = folder / "run" / "clinic" / training.id
    found = evidence.collect(training.id, run, {}, ended=time.time())
    facts: dict[str, Any] = {"id": training.id, "config": found.config}
    lines = [json.dumps(facts), *(json.dumps(entry) for entry in found.entries)]
    path = FOLDER / f"{training.id}.jsonl.xz"
    path.with_suffix(".part").write_bytes(lzma.compress("\n".join(lines).encode(), preset=6))
    path.with_suffix(".part").rename(path)


def run_one(training: Training, port: int) -> None:
    """Run a training and keep its journal; the process ends with 1 where it fails."""
    os.setsid()  # a busy machine shares its time between sessions
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        others = [
            multiprocessing.Process(target=run_rank, args=(training, folder, rank, port))
            for rank in range(1, training.kind.world)
        ]
        for process in others:
            process.start()
        run_rank(training, folder, 0, port)
        for process in others:
            process.join()
        keep(training, folder)
        os.chdir("/")


def main() -> int:
    """Run what has no journal yet, each training in a process of its own, until the time is up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--list", action="store_true")
    asked = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    waiting = [one for one in trainings() if not (FOLDER / f"{one.id}.jsonl.xz").exists()]
    if asked.list:
        print(*(one.id for one in waiting), len(waiting), sep="\n")
        return 0
    multiprocessing.set_start_method("fork")
    _ = epochal.watch, epochal.watch_data, epochal.watch_moe  # loaded at their first use
    until = time.monotonic() + 60 * asked.minutes
    running: list[multiprocessing.Process] = []
    for number, training in enumerate(waiting):
        while len(running) >= asked.workers:
            running = [one for one in running if one.is_alive()]
            time.sleep(0.05)
        if time.monotonic() > until:
            break
        if (FOLDER / f"{training.id}.jsonl.xz").exists():
            continue
        print(number, training.id, time.strftime("%X"), flush=True)
        process = multiprocessing.Process(target=run_one, args=(training, 20000 + number))
        process.start()
        running.append(process)
    for process in running:
        process.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
