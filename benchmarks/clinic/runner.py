"""Run trainings side by side, each in a forked process with torch already imported."""

from __future__ import annotations

import multiprocessing
import os
import socket
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.context import ForkProcess
from pathlib import Path

import torch
import torch.distributed as dist

import epochal
from benchmarks.clinic import journal
from benchmarks.clinic.harness import prepare, train
from benchmarks.clinic.plan import Training

_PROJECT = "clinic"
_LONGEST_S = 300.0
_POLL_S = 0.02
_FORK = multiprocessing.get_context("fork")


def run_all(wanted: Sequence[Training], folder: Path, *, workers: int) -> list[str]:
    """Run what has no journal yet; returns the ids of trainings that failed."""
    folder = folder.resolve()  # trainings run in folders of their own
    folder.mkdir(parents=True, exist_ok=True)
    known = set(journal.names(folder))
    waiting = [one for one in wanted if one.id not in known]
    _load()
    running: dict[ForkProcess, tuple[Training, float]] = {}
    failed: list[str] = []
    number = 0
    while waiting or running:
        while waiting and sum(one.task.world for one, _ in running.values()) < workers:
            training = waiting.pop(0)
            process = _FORK.Process(target=_run_one, args=(training, folder))
            process.start()
            running[process] = (training, time.monotonic())
        for process, (training, began) in list(running.items()):
            if process.is_alive() and time.monotonic() - began > _LONGEST_S:
                process.kill()
                process.join()
            if not process.is_alive():
                del running[process]
                number += 1
                took = time.monotonic() - began
                print(f"{number}: {training.id}, {took:.1f} s", flush=True)
                if process.exitcode != 0:
                    failed.append(training.id)
        time.sleep(_POLL_S)
    return failed


def _load() -> None:
    """Import here what each forked process would import at its first use."""
    _ = epochal.watch, epochal.watch_data, epochal.watch_moe
    torch.set_num_threads(1)
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.AdamW([weight])
    weight.sum().backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    torch.nn.utils.clip_grad_norm_([weight], 1.0)


def _run_one(training: Training, folder: Path) -> None:
    """Run all ranks of a training and write its journal."""
    with tempfile.TemporaryDirectory() as place, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
        free.close()
        others = [
            _FORK.Process(target=_run_rank, args=(training, Path(place), rank, port))
            for rank in range(1, training.task.world)
        ]
        for process in others:
            process.start()
        result = _run_rank(training, Path(place), 0, port)
        for process in others:
            process.join()
        used = os.times()
        result["cpu_s"] = used.user + used.system + used.children_user + used.children_system
        run = Path(place) / _PROJECT / training.id
        journal.write(journal.collect(training.id, run, result), folder)


def _run_rank(training: Training, folder: Path, rank: int, port: int) -> dict[str, float]:
    os.chdir(folder)  # no settings of the project around
    os.environ |= {"EPOCHAL_COMPANION": "0", "EPOCHAL_GIT": "0"}
    task, fault = training.task, training.fault
    if task.world > 1:
        world = str(task.world)
        os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": world}
        os.environ |= {"LOCAL_WORLD_SIZE": world, "GLOO_SOCKET_IFNAME": "lo"}
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        dist.init_process_group("gloo")
    setup = prepare(task, training.seed)
    if fault is not None:
        fault.apply(setup)
    config = {"optimizer": task.optimizer, "lr": setup.lr, "batch_size": task.batch_size}
    run = epochal.init(
        _PROJECT,
        training.id,
        dir=folder,
        config={**config, **task.config},
        console=False,
        capture=False,
        total_steps=setup.steps,
    )
    with run:
        result = train(setup, run)
    if task.world > 1:
        dist.destroy_process_group()
    return result
