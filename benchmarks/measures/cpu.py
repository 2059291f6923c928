"""CPU seconds per million points: the logging process alone, and with every process it started."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

from benchmarks.contender import Contender
from benchmarks.contenders import OURS
from benchmarks.outcome import Hold, Outcome, Table, middle, remarks
from benchmarks.samples import POOL, metric_names, rows
from benchmarks.stage import Answer, Stage
from benchmarks.tree import cpu_s, settled_cpu_s

NAME = "cpu"
NUM_SCALARS = 10
HELPERS_LIMIT_S = 40


def run(stage: Stage) -> Outcome:
    limits = {"calls": 20_000, "limit_s": 0.5} if stage.quick else {"calls": 100_000, "limit_s": 6}
    answers = stage.rounds(
        "cpu", count=1 if stage.quick else 3, cases=[limits], entrants=stage.present()
    )

    def figure(name: str, key: str) -> float | None:
        return middle(answers.get((name, 0), []), key)

    table = Table(
        title="10 scalars a call, CPU seconds per million points",
        columns=("all processes", "logging process", "calls"),
        rows={
            entrant.name: tuple(figure(entrant.name, key) for key in ("all_s", "own_s", "calls"))
            for entrant in stage.entrants
        },
        remarks=remarks(stage),
    )
    holds = (
        Hold("CPU per 1M points, training process", 1, figure(OURS, "own_s"), "s"),
        Hold("CPU per 1M points, companion included", 3, figure(OURS, "all_s"), "s"),
        Hold("CPU per 1M points, companion and sealing", 1.5, figure(OURS, "companion_s"), "s"),
    )
    note = (
        "User and system time from the first call until the helper processes are idle or gone; "
        "slow tools are scaled up from the calls they managed."
    )
    return Outcome("CPU", note, (table,), holds)


def work(contender: Contender, directory: Path, *, calls: int, limit_s: float) -> Answer:
    keys = metric_names(NUM_SCALARS)
    log = contender.open(directory, keys)
    pool = rows(keys)
    # Helpers may have been handed on to the process that watches the tree, so it is asked.
    all_before_s, own_before_s = cpu_s(os.getppid()), _own_cpu_s()
    deadline = time.perf_counter() + limit_s
    done = 0
    while done < calls:
        log(dict(pool[done % POOL]), step=done)
        done += 1
        if done % 16 == 0 and time.perf_counter() > deadline:
            break
    contender.close()
    own_after_s = _own_cpu_s()
    all_after_s = settled_cpu_s(os.getppid(), limit_s=HELPERS_LIMIT_S)
    per_million = 1e6 / NUM_SCALARS / done
    return {
        "calls": done,
        "own_s": (own_after_s - own_before_s) * per_million,
        "all_s": (all_after_s - all_before_s) * per_million,
        "companion_s": (all_after_s - all_before_s - own_after_s + own_before_s) * per_million,
    }


def _own_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
