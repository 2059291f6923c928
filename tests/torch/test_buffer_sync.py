"""Ranks that exchange buffers before a forward pass: it is a phase of its own."""

from __future__ import annotations

import copy
import datetime
import pickle
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

import epochal
from tests.doubles.journals import of_kind

STEPS = 8


def work(rank: int, folder: str, wraps: bool) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=2,
        timeout=datetime.timedelta(seconds=120),
    )
    run = epochal.init("ranks", dir=Path(folder) / f"run{rank}", console=False, capture=False)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    wrapped = DistributedDataParallel(model)
    epochal.watch(wrapped if wraps else model, run, every=1, histograms=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        optimizer.zero_grad()
        with run.phase("forward"):
            loss = wrapped(torch.ones(8, 4)).sum()
        with run.phase("backward"):
            loss.backward()
        optimizer.step()
        run.log({"loss": float(loss.detach())}, step=step)
    copy.deepcopy(model)(torch.ones(8, 4))
    assert isinstance(pickle.loads(pickle.dumps(model)), nn.Sequential)
    run.finish()
    dist.destroy_process_group()


def phases(folder: Path, *, wraps: bool) -> list[dict[str, float]]:
    spawn(work, (str(folder), wraps), nprocs=2)  # type: ignore[no-untyped-call]
    found = []
    for rank in (0, 1):
        (written,) = folder.glob(f"run{rank}/**/run.json")
        (record,) = of_kind(written.parent, "phases")
        assert all(one["name"] != "internal-error" for one in of_kind(written.parent, "event"))
        found.append(record["m"])
    return found


def test_the_exchange_of_a_watched_wrapper_is_the_phase_sync(tmp_path: Path) -> None:
    for means in phases(tmp_path, wraps=True):
        assert {"phase/sync", "phase/forward", "phase/backward"} <= set(means)


def test_the_wrapper_of_a_watched_model_is_found(tmp_path: Path) -> None:
    for means in phases(tmp_path, wraps=False):
        assert {"phase/sync", "phase/forward", "phase/backward"} <= set(means)


def test_an_exchange_outside_of_every_phase_is_not_timed(tmp_path: Path) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    with epochal.init("alone", dir=tmp_path / "run", console=False, capture=False) as run:
        wrapped = DistributedDataParallel(nn.BatchNorm1d(4))
        epochal.watch(wrapped, run, every=1)
        for step in range(3):
            wrapped(torch.ones(8, 4))
            run.log({"loss": 1.0}, step=step)
    dist.destroy_process_group()
    assert of_kind(run.dir, "phases") == []
