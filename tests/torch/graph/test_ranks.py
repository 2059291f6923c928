"""A graph under DistributedDataParallel: gradients agree, and ranks put their metrics together."""

from __future__ import annotations

import datetime
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.multiprocessing.spawn import spawn

from epochal import FlowBuilder
from epochal.torch import ScalarSum


def work(rank: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=f"file://{folder}/store",
        rank=rank,
        world_size=2,
        timeout=datetime.timedelta(seconds=120),
    )
    torch.manual_seed(rank)
    graph = (
        FlowBuilder.start(nn.Linear(4, 4))
        .tag("encoder")
        .split(nn.Linear(4, 1), nn.Linear(4, 1))
        .merge("mean")
        .build()
    )
    model = nn.parallel.DistributedDataParallel(graph)
    loss = model(torch.full((8, 4), float(rank))).mean()
    loss.backward()
    graph.record_scalar("loss", float(rank), weight=1 + rank)
    parts: list[dict[str, ScalarSum] | None] = [None, None]
    dist.all_gather_object(parts, graph.drain_scalars())
    for part in parts:
        graph.absorb_scalars(part or {})
    graph.flush()
    gradient = graph.qualified_parameters()["encoder/weight"].grad
    torch.save((gradient, graph.latest_metrics()), f"{folder}/rank{rank}.pt")
    dist.destroy_process_group()


def test_two_ranks_agree_on_gradients_and_metrics(tmp_path: Path) -> None:
    spawn(work, (str(tmp_path),), nprocs=2)  # type: ignore[no-untyped-call]
    (first, metrics), (second, others) = (
        torch.load(tmp_path / f"rank{rank}.pt", weights_only=True) for rank in (0, 1)
    )
    assert torch.equal(first, second)
    assert metrics == others == {"loss": 2 / 3}
