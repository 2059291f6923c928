"""The log call in a tight loop, at 1, 10 and 100 scalars."""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable
from pathlib import Path

from benchmarks.contender import Contender, Log
from benchmarks.contenders import BARE, OURS
from benchmarks.environments import Entrant
from benchmarks.outcome import Hold, Outcome, Table, cheapest_peer, middle, remarks
from benchmarks.paired import paired
from benchmarks.samples import POOL, metric_names, rows
from benchmarks.spread import spread_us
from benchmarks.stage import Answer, Stage

NAME = "hot"
NUM_SCALARS = (1, 10, 100)
HELD_SCALARS = 10
WARM_UP_CALLS = 200
WARM_UP_S = 0.2
# A play ends after a second; these bounds keep what the fastest write within 50 MB or so.
MOST_CALLS = 100_000
MOST_POINTS = 2_000_000
# Peers this many times dearer than the cheapest are not measured again: they cannot become it.
FINALISTS_WITHIN = 3


def run(stage: Stage) -> Outcome:
    sizes = (HELD_SCALARS,) if stage.quick else NUM_SCALARS
    cases = [_case(size, quick=stage.quick) for size in sizes]
    held = sizes.index(HELD_SCALARS)
    answers = stage.rounds(
        NAME, count=1 if stage.quick else 3, cases=cases, entrants=stage.present()
    )
    said = remarks(stage)

    def p50(name: str) -> float | None:
        return middle(answers.get((name, held), []), "p50")

    finals = stage.rounds(
        NAME, count=4 if stage.quick else 8, cases=[cases[held]], entrants=_finalists(stage, p50)
    )
    for (name, _), more in finals.items():
        answers.setdefault((name, held), []).extend(more)
    said |= {name: remark for name, remark in remarks(stage).items() if remark}
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
            remarks=said,
        )
        for index, size in enumerate(sizes)
    )
    peers = [entrant.name for entrant in stage.present("peer")]
    to_bare = paired(answers, OURS, [BARE], case=held)
    to_peer = paired(answers, OURS, peers, case=held)
    holds = (
        Hold("log of 10 scalars, tight, x bare msgspec+write", 2, to_bare.middle),
        Hold("log of 10 scalars, tight, x cheapest peer", 0.1, to_peer.middle),
    )
    note = (
        "Unthrottled; a tool that queues shows its cost only with its close. The holds are the "
        f"middle of each round's own ratio: {to_bare} to bare, {to_peer} to the cheapest peer."
    )
    return Outcome("The log call in a tight loop", note, tables, holds)


def _case(num_scalars: int, *, quick: bool) -> dict[str, float]:
    return {
        "num_scalars": num_scalars,
        "calls": min(MOST_CALLS, MOST_POINTS // num_scalars),
        "limit_s": 0.3 if quick else 1.0,
    }


def _finalists(stage: Stage, p50: Callable[[str], float | None]) -> list[Entrant]:
    """Those the holds are about: measured more often, as these ratios have to be sure."""
    cheapest = cheapest_peer(stage, p50)
    return [
        entrant
        for entrant in stage.present()
        if entrant.name not in stage.failures
        and (entrant.name in (BARE, OURS) or _is_near(entrant, p50(entrant.name), cheapest))
    ]


def _is_near(entrant: Entrant, figure: float | None, cheapest: float | None) -> bool:
    if entrant.contender.role != "peer" or figure is None or cheapest is None:
        return False
    return figure <= FINALISTS_WITHIN * cheapest


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
