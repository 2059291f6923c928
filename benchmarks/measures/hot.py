"""The log call in a tight loop, at 1, 10 and 100 scalars."""

from __future__ import annotations

import time
from array import array
from pathlib import Path

from benchmarks.contender import Contender, Log
from benchmarks.contenders import BARE, OURS
from benchmarks.outcome import Hold, Outcome, Table, cheapest_peer, middle, ratio, remarks
from benchmarks.samples import POOL, metric_names, rows
from benchmarks.spread import spread_us
from benchmarks.stage import Answer, Stage

NAME = "hot"
NUM_SCALARS = (1, 10, 100)
WARM_UP_CALLS = 200
WARM_UP_S = 0.2


def run(stage: Stage) -> Outcome:
    limits = {"calls": 5_000, "limit_s": 0.3} if stage.quick else {"calls": 20_000, "limit_s": 1.5}
    sizes = (10,) if stage.quick else NUM_SCALARS
    cases = [{"num_scalars": size, **limits} for size in sizes]
    answers = stage.rounds(
        "hot", count=1 if stage.quick else 3, cases=cases, entrants=stage.present()
    )
    tables = tuple(
        Table(
            title=f"{size} scalar{'s' if size > 1 else ''} a call, µs",
            columns=("p50", "mean", "p99", "per call, close included"),
            rows={
                entrant.name: tuple(
                    middle(answers.get((entrant.name, index), []), key)
                    for key in ("p50", "mean", "p99", "with_close")
                )
                for entrant in stage.entrants
            },
            remarks=remarks(stage),
        )
        for index, size in enumerate(sizes)
    )

    def p50(name: str) -> float | None:
        return middle(answers.get((name, sizes.index(10)), []), "p50")

    holds = (
        Hold("log of 10 scalars, tight, x bare msgspec+write", 2, ratio(p50(OURS), p50(BARE))),
        Hold(
            "log of 10 scalars, tight, x cheapest peer",
            0.1,
            ratio(p50(OURS), cheapest_peer(stage, p50)),
        ),
    )
    note = "Unthrottled; a tool that queues shows its cost only with its close."
    return Outcome("The log call in a tight loop", note, tables, holds)


def work(
    contender: Contender, directory: Path, *, num_scalars: int, calls: int, limit_s: float
) -> Answer:
    keys = metric_names(num_scalars)
    log = contender.open(directory, keys)
    pool = rows(keys)
    first = _warm_up(log, pool)
    clock = time.perf_counter_ns
    spent = array("q")
    begun = clock()
    deadline = begun + int(limit_s * 1e9)
    for step in range(first, first + calls):
        values = dict(pool[step % POOL])
        before = clock()
        log(values, step=step)
        after = clock()
        spent.append(after - before)
        if after > deadline:
            break
    contender.close()
    return {**spread_us(spent), "with_close": (clock() - begun) / len(spent) / 1000}


def _warm_up(log: Log, pool: list[dict[str, float]]) -> int:
    """Returns the first step that was not used."""
    deadline = time.perf_counter() + WARM_UP_S
    for step in range(WARM_UP_CALLS):
        log(dict(pool[step % POOL]), step=step)
        if time.perf_counter() > deadline:
            return step + 1
    return WARM_UP_CALLS
