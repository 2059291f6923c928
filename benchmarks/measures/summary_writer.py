"""`add_scalar` of our SummaryWriter beside torch's own, in rounds that take turns."""

from __future__ import annotations

import time
from array import array
from pathlib import Path
from typing import Any

from benchmarks.contender import Contender
from benchmarks.contenders import OURS
from benchmarks.contenders.tensorboard import TensorBoard
from benchmarks.outcome import Hold, Outcome, Table, middle, remarks
from benchmarks.paired import paired
from benchmarks.samples import POOL, rows
from benchmarks.spread import spread_us
from benchmarks.stage import Answer, Stage

NAME = "summary_writer"
KINDS = ("float", "tensor")
LIMIT = 1 / 15
TAG = "Loss/train"
WARM_UP_CALLS = 200
MOST_CALLS = 100_000


def run(stage: Stage) -> Outcome:
    both = [entrant for entrant in stage.present() if entrant.name in (OURS, TensorBoard.name)]
    cases = [{"kind": kind, "limit_s": 0.3 if stage.quick else 1.0} for kind in KINDS]
    answers = stage.rounds(NAME, count=3 if stage.quick else 11, cases=cases, entrants=both)
    said = remarks(stage)
    tables = tuple(
        Table(
            title=f"add_scalar of a {kind}, µs",
            columns=("p50", "mean", "p99", "per call, close included"),
            rows={
                entrant.name: tuple(
                    middle(answers.get((entrant.name, index), []), key)
                    for key in ("p50", "mean", "p99", "with_close")
                )
                for entrant in both
            },
            remarks=said,
        )
        for index, kind in enumerate(KINDS)
    )
    floats, tensors = (
        paired(answers, OURS, [TensorBoard.name], case=index) for index in range(len(KINDS))
    )
    holds = (Hold("add_scalar of a float, x torch's SummaryWriter", LIMIT, floats.middle),)
    note = (
        "One tag, a step a call, unthrottled. The hold is the middle of each round's own ratio: "
        f"{floats} for floats; {tensors} for tensors of one element on the CPU."
    )
    return Outcome("SummaryWriter.add_scalar", note, tables, holds)


def work(contender: Contender, directory: Path, *, kind: str, limit_s: float) -> Answer:
    writer = _writer(contender, directory)
    add_scalar = writer.add_scalar
    pool = [_as(kind, values[TAG]) for values in rows([TAG])]
    clock = time.perf_counter_ns
    for step in range(WARM_UP_CALLS):
        add_scalar(TAG, pool[step % POOL], step)
    spent = array("q")
    begun = clock()
    deadline = begun + int(limit_s * 1e9)
    for step in range(WARM_UP_CALLS, WARM_UP_CALLS + MOST_CALLS):
        value = pool[step % POOL]
        before = clock()
        add_scalar(TAG, value, step)
        after = clock()
        spent.append(after - before)
        if after > deadline:
            break
    writer.close()
    return {**spread_us(spent), "with_close": (clock() - begun) / len(spent) / 1000}


def _writer(contender: Contender, directory: Path) -> Any:
    if contender.name == OURS:
        from epochal import SummaryWriter

        return SummaryWriter(directory / "run")
    from torch.utils.tensorboard import SummaryWriter as TorchWriter

    return TorchWriter(str(directory / "run"))


def _as(kind: str, value: float) -> Any:
    if kind == "float":
        return value
    import torch

    return torch.tensor(value)
