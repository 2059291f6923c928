"""The one training loop of the clinic, written as a user of Epochal would write it."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import epochal
from benchmarks.clinic.task import EVAL_BATCH, NOTHING, Batch, Split, Task, average
from epochal.run.run import Run

_NUM_EVALUATIONS = 15


@dataclass
class Setup:
    """A training before it runs. A fault changes attributes; nothing else knows of it."""

    task: Task
    seed: int
    rank: int
    lr: float
    trained: list[tuple[str, nn.Parameter]]
    train: Split
    evaluation: Split
    steps: int
    shuffle: bool = True
    zero_grad: bool = True
    sums_loss: bool = False
    evaluates_in_eval_mode: bool = True

    @property
    def model(self) -> nn.Module:
        """The model itself, without what wraps it for several ranks."""
        model = self.task.model
        return model.module if isinstance(model, nn.parallel.DistributedDataParallel) else model


def prepare(task: type[Task], seed: int, *, steps: int | None = None) -> Setup:
    """Build a healthy training; several ranks build the same model and data."""
    torch.manual_seed(1000 + seed)
    built = task()
    return Setup(
        task=built,
        seed=seed,
        rank=int(os.environ.get("RANK", "0")),
        lr=built.lr,
        trained=list(built.model.named_parameters()),
        train=built.train,
        evaluation=built.held_out,
        steps=steps or built.steps,
    )


def train(setup: Setup, run: Run) -> dict[str, float]:
    """Train and record; returns what came of it."""
    task = setup.task
    torch.manual_seed(2000 + setup.seed + 97 * setup.rank)
    if task.world > 1:
        task.model = nn.parallel.DistributedDataParallel(task.model)
    optimizer = _optimizer(setup)
    schedule = LambdaLR(optimizer, lambda step: _share(setup, step))
    epochal.watch(setup.model, run)
    if "num_experts" in task.config:
        epochal.watch_moe(setup.model, run)
    batches = _batches(setup, run) if task.has_data else task.play()
    evaluation = _evaluation_loader(setup, run) if task.has_data else None
    eval_every = max(1, setup.steps // _NUM_EVALUATIONS)
    reported = math.nan
    for step in range(setup.steps):
        _one_step(setup, run, optimizer, batches, step)
        schedule.step()
        if (step + 1) % eval_every == 0 and setup.rank == 0:
            reported = _evaluate(setup, run, evaluation, step)
    task.model = setup.model  # evaluated without the other ranks
    return {"result": task.result(), "reported": reported, "steps": setup.steps}


def _optimizer(setup: Setup) -> torch.optim.Optimizer:
    parameters = [parameter for _, parameter in setup.trained]
    match setup.task.optimizer:
        case "sgd":
            return torch.optim.SGD(parameters, setup.lr)
        case "momentum":
            return torch.optim.SGD(parameters, setup.lr, momentum=0.9)
        case "adam":
            return torch.optim.Adam(parameters, setup.lr)
        case "adagrad":
            return torch.optim.Adagrad(parameters, setup.lr)
        case "adamw":
            return torch.optim.AdamW(parameters, setup.lr)


def _share(setup: Setup, step: int) -> float:
    """The share of the learning rate that a step has."""
    warmup = setup.task.warmup
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, setup.steps - warmup)
    return 0.55 + 0.45 * math.cos(math.pi * done) if setup.task.cosine else 1.0


def _batches(setup: Setup, run: Run) -> Iterator[Batch]:
    """Batches of the training data, epoch after epoch."""
    task, data = setup.task, TensorDataset(setup.train.inputs, setup.train.targets)
    sampler: DistributedSampler[Any] | None = None
    if task.world > 1:
        sampler = DistributedSampler(
            data, task.world, setup.rank, setup.shuffle, setup.seed, drop_last=True
        )
    loader = DataLoader(
        data,
        task.batch_size,
        shuffle=setup.shuffle and sampler is None,
        sampler=sampler,
        drop_last=True,
        generator=torch.Generator().manual_seed(setup.seed),
    )
    loader = epochal.watch_data(loader, "train", run)
    epoch = 0
    while True:
        if sampler is not None:
            sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def _evaluation_loader(setup: Setup, run: Run) -> DataLoader[Any]:
    data = TensorDataset(setup.evaluation.inputs, setup.evaluation.targets)
    loader = DataLoader(data, EVAL_BATCH, generator=torch.Generator())
    return epochal.watch_data(loader, "eval", run)


def _one_step(
    setup: Setup, run: Run, optimizer: torch.optim.Optimizer, batches: Iterator[Batch], step: int
) -> None:
    task, began = setup.task, time.perf_counter()
    inputs, targets = next(batches)
    lr = optimizer.param_groups[0]["lr"]
    task.model.train()
    task.before_step(inputs, lr)
    if setup.zero_grad:
        optimizer.zero_grad()
    loss = task.loss(task.outputs(inputs), targets)
    if setup.sums_loss:
        loss = loss * len(inputs)
    loss.backward()  # type: ignore[no-untyped-call]
    limit = math.inf if task.clip is None else task.clip
    norm = float(nn.utils.clip_grad_norm_(task.model.parameters(), limit))
    optimizer.step()
    metrics = task.step_metrics()
    if task.typed:
        duration_ms = 1000 * (time.perf_counter() - began)
        epoch = step * task.batch_size * task.world / len(setup.train)
        clipped = None if task.clip is None else min(norm, task.clip)
        run.log_step(
            *(step, epoch, task.batch_size, duration_ms, norm, float(loss.detach()), lr),
            norm_clipped=clipped,
            metrics=metrics or None,
        )
    else:
        run.log({"loss": float(loss.detach()), "grad_norm": norm, "lr": lr, **metrics}, step=step)


def _evaluate(setup: Setup, run: Run, loader: DataLoader[Any] | None, step: int) -> float:
    """Evaluate as the training does it, and record it; returns its first metric."""
    task, began = setup.task, time.perf_counter()
    wrapped, task.model = task.model, setup.model  # the other ranks do not take part
    task.model.train(not setup.evaluates_in_eval_mode)
    with torch.no_grad():
        metrics = average(task, loader if loader is not None else [NOTHING])
    task.model = wrapped
    if setup.sums_loss:
        metrics["loss"] *= EVAL_BATCH
    reported = next(iter(metrics.values()))
    if task.typed:
        duration_ms = 1000 * (time.perf_counter() - began)
        epoch = step * task.batch_size * task.world / len(setup.train)
        loss = metrics.pop("loss", None)
        run.log_eval(
            *(step, epoch, len(setup.evaluation), duration_ms, loss), metrics=metrics or None
        )
    else:
        run.log({f"eval/{name}": value for name, value in metrics.items()}, step=step)
    return reported
