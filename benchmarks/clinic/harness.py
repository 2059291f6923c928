"""The one training loop of the clinic, recorded by Epochal; faults change its parts beforehand."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.utils.data import DataLoader

import epochal
from benchmarks.clinic.optimizers import make_optimizer
from benchmarks.clinic.task import Batch, Kind, Loader, OptimizerChoice, Samples, Split, Task
from epochal.run.run import Run

# A watched run has about so many records of its layers.
WATCHED = 60
EVAL_BATCH = 64

ChangeBatch = Callable[[Tensor, Tensor, int], Batch]


@dataclass
class Bench:
    """A training before it runs. A fault changes attributes; nothing else knows of it."""

    kind: Kind
    choice: OptimizerChoice
    task: Task
    seed: int
    rank: int
    rate: float
    steps: int
    batch_size: int
    warmup: int
    clip: float | None
    trained: list[tuple[str, nn.Parameter]]
    loader: Loader
    eval_split: Split
    pace_ms: float
    folder: Path
    device: torch.device
    zero_grad: bool = True
    takes_steps: bool = True
    accumulate: int = 1
    divides: bool = True  # accumulated gradients by their number
    trains_in_train_mode: bool = True
    evaluates_in_eval_mode: bool = True
    syncs: bool = True  # gradients between ranks
    multiplier: Callable[[int], float] | None = None  # of the rate, instead of the kind's schedule
    change_batch: list[ChangeBatch] = field(default_factory=list)
    change_loss: list[Callable[[Tensor], Tensor]] = field(default_factory=list)
    change_gradients: list[Callable[[], object]] = field(default_factory=list)
    in_data: list[Callable[[int], object]] = field(default_factory=list)  # while loading
    in_step: list[Callable[[int], object]] = field(default_factory=list)  # in the forward pass
    facts: dict[str, float] = field(default_factory=dict)  # a fault's own measures

    def schedule(self, step: int) -> float:
        """The share of the rate that a step has."""
        if self.multiplier is not None:
            return self.multiplier(step)
        if step < self.warmup:
            return (step + 1) / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        match self.choice.decay or self.kind.decay:
            case "none":
                return 1.0
            case "cosine":
                return 0.1 + 0.9 * 0.5 * (1 + float(torch.cos(torch.tensor(done * torch.pi))))
            case "linear":
                return 1 - 0.95 * done
            case "steps":
                return 1.0 if done < 0.6 else 0.3 if done < 0.85 else 0.1
            case "sqrt":
                first = max(50, self.warmup)
                return math.sqrt(first / max(first, step))

    @property
    def model(self) -> nn.Module:
        """The model itself, without what wraps it for several ranks."""
        model = self.task.model
        inner = getattr(model, "module", None)
        return inner if isinstance(inner, nn.Module) else model


def prepare(
    kind: Kind, optimizer: str, seed: int, folder: Path = Path(), *, device: str = "cpu"
) -> Bench:
    """Build a healthy training; several ranks build the same model and data.

    Data and model are made on the CPU, so that they are the same for every device.
    """
    rank, place = int(os.environ.get("RANK", "0")), torch.device(device)
    torch.manual_seed(1000 + seed)  # of every GPU as well
    task = kind.build()
    if place.type != "cpu":
        task.to(place)
    choice = kind.optimizer(optimizer)
    parameters = [(name, one) for name, one in task.model.named_parameters() if one.requires_grad]
    loader = task.loader(kind.batch_size, seed, rank, kind.world)
    loader.pinned = place.type == "cuda"
    return Bench(
        kind=kind,
        choice=choice,
        task=task,
        seed=seed,
        rank=rank,
        rate=choice.rate,
        steps=kind.steps,
        batch_size=kind.batch_size,
        warmup=kind.warmup,
        clip=kind.clip,
        trained=parameters,
        loader=loader,
        eval_split=task.held_out,
        pace_ms=kind.pace_ms,
        folder=folder,
        device=place,
        accumulate=kind.accumulate,
    )


def train(bench: Bench, run: Run, *, watched: bool = True) -> dict[str, Any]:
    """Train and record; returns what came of it."""
    task = bench.task
    if bench.kind.world > 1:
        task.model = nn.parallel.DistributedDataParallel(task.model)
    optimizer = make_optimizer(bench.choice, bench.rate, [one for _, one in bench.trained])
    if watched:
        epochal.watch(bench.model, run, every=max(1, bench.steps // WATCHED), histograms=False)
        if "num_experts" in bench.kind.config:
            epochal.watch_moe(bench.model, run)
        if task.has_data:
            epochal.watch_data(bench.loader.data_loader, "train", run)
    evaluation = eval_loader(bench, run, watched=watched)
    eval_every = max(1, bench.steps // bench.kind.num_evals)
    reported: list[float] = []
    begun = time.monotonic()
    torch.manual_seed(2000 + bench.seed + 97 * bench.rank)
    for step in range(bench.steps):
        one_step(bench, run, optimizer, step)
        if (step + 1) % eval_every == 0 and bench.rank == 0:
            reported.append(evaluate(bench, run, step, evaluation))
    wall_s = time.monotonic() - begun
    task.model = bench.model  # without what exchanges between ranks
    return {
        "result": task.result(),
        "reported": reported[-1] if reported else None,
        "steps": bench.steps,
        "wall_s": wall_s,
        "step_ms": 1000 * wall_s / bench.steps,
        "parameters": float(sum(one.detach().double().sum() for one in bench.model.parameters())),
        **bench.facts,
    }


def one_step(bench: Bench, run: Run, optimizer: torch.optim.Optimizer, step: int) -> None:
    """One optimisation step and its record."""
    task, began = bench.task, time.perf_counter()
    rate = bench.rate * bench.schedule(step)
    for group in optimizer.param_groups:
        group["lr"] = rate
    task.model.train(bench.trains_in_train_mode)
    with run.phase("data" if task.has_data else "play"):
        for pause in bench.in_data:
            pause(step)
        batches = [bench.loader.take() for _ in range(bench.accumulate)]
    loaded = time.perf_counter()
    task.before_step(step, rate)
    if bench.zero_grad:
        optimizer.zero_grad()
    loss = sum(_backward(bench, run, batch, step) for batch in batches) / len(batches)
    for change in bench.change_gradients:
        change()
    norm, clipped = _norms(bench)
    if bench.takes_steps:
        optimizer.step()
    spare_s = bench.pace_ms / 1000 - (time.perf_counter() - began)
    if spare_s > 0:
        time.sleep(spare_s)
    if step % bench.kind.log_every == 0:
        duration_ms = 1000 * (time.perf_counter() - loaded)
        _log(bench, run, step, loss=loss, norm=norm, clipped=clipped, rate=rate, ms=duration_ms)


def _backward(bench: Bench, run: Run, batch: Batch, step: int) -> float:
    inputs, targets = batch
    for change in bench.change_batch:
        inputs, targets = change(inputs, targets, step)
    with _exchange(bench):
        with run.phase("forward"):
            for act in bench.in_step:
                act(step)
            inputs = inputs.to(bench.device, non_blocking=True)
            targets = targets.to(bench.device, non_blocking=True)
            with torch.autocast(
                bench.device.type, torch.bfloat16, bench.kind.precision == "bfloat16"
            ):
                outputs = bench.task.outputs(inputs)
                loss = bench.task.loss(outputs, targets)
        for wrong in bench.change_loss:
            loss = wrong(loss)
        share = bench.accumulate if bench.divides else 1
        with run.phase("backward"):  # ranks exchange gradients meanwhile
            (loss / share).backward()  # type: ignore[no-untyped-call]
    return float(loss.detach())


@contextlib.contextmanager
def _exchange(bench: Bench) -> Iterator[None]:
    model = bench.task.model
    if isinstance(model, nn.parallel.DistributedDataParallel) and not bench.syncs:
        with model.no_sync():
            yield
    else:
        yield


def _norms(bench: Bench) -> tuple[float, float | None]:
    """The gradient norm, and the norm after clipping if there is a limit."""
    gradients = [one.grad for one in bench.model.parameters() if one.grad is not None]
    if not gradients:
        return 0.0, None
    norm = float(nn.utils.get_total_norm(gradients))
    if bench.clip is None:
        return norm, None
    nn.utils.clip_grad_norm_([one for _, one in bench.trained], bench.clip)
    return norm, min(norm, bench.clip)


def _log(
    bench: Bench,
    run: Run,
    step: int,
    *,
    loss: float,
    norm: float,
    clipped: float | None,
    rate: float,
    ms: float,
) -> None:
    figures = bench.task.figures()
    if bench.kind.typed:
        epoch = bench.loader.epoch if bench.task.has_data else None
        size = bench.batch_size * bench.accumulate
        run.log_step(
            step, epoch, size, ms, norm, loss, rate, norm_clipped=clipped, metrics=figures or None
        )
    else:
        run.log({"loss": loss, "grad_norm": norm, "lr": rate, **figures}, step=step)


def eval_loader(bench: Bench, run: Run, *, watched: bool) -> DataLoader[Batch] | None:
    """What an evaluation reads; nothing where the kind plays instead."""
    if not bench.task.has_data:
        return None
    loader = DataLoader(
        Samples(bench.eval_split),
        EVAL_BATCH,
        generator=torch.Generator(),
        pin_memory=bench.loader.pinned,
    )
    return epochal.watch_data(loader, "eval", run) if watched else loader


def evaluate(bench: Bench, run: Run, step: int, loader: DataLoader[Batch] | None = None) -> float:
    """Evaluate as the training does it, and record it; returns its first figure."""
    task, begun = bench.task, time.perf_counter()
    bench.model.train(not bench.evaluates_in_eval_mode)
    inner, task.model = task.model, bench.model  # no exchange between ranks in an evaluation
    split = bench.eval_split
    if loader is not None:
        inputs, targets = zip(*loader, strict=True)
        split = Split(torch.cat(inputs), torch.cat(targets))
    figures = task.evaluate(split)
    task.model = inner
    reported = next(iter(figures.values()))
    loss = figures.pop("loss", None)
    if bench.kind.typed:
        duration_ms = 1000 * (time.perf_counter() - begun)
        epoch = bench.loader.epoch if task.has_data else None
        size = len(bench.eval_split)
        run.log_eval(step, epoch, size, duration_ms, loss, metrics=figures or None)
    else:
        shown = figures if loss is None else {"loss": loss, **figures}
        run.log({f"eval/{name}": value for name, value in shown.items()}, step=step)
    return reported


def leave_group() -> None:
    """Leave the group of ranks, if this process is in one."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
