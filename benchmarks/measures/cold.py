"""The log call as a training loop meets it: caches cold, main thread busy."""

from __future__ import annotations

import itertools
import os
import time
from array import array
from collections.abc import Iterator
from pathlib import Path

from benchmarks.contender import Contender
from benchmarks.contenders import OURS, PLAIN
from benchmarks.outcome import Hold, Outcome, Table, middle, remarks
from benchmarks.paired import paired
from benchmarks.samples import POOL, metric_names, rows
from benchmarks.spread import spread_us
from benchmarks.stage import Answer, Stage

NAME = "cold"
NUM_SCALARS = 10
PERIOD_S = 0.01  # 100 steps a second
STREAM_BYTES = 64 * 2**20
CHUNK_BYTES = 2**20
WARM_UP_STEPS = 10


def run(stage: Stage) -> Outcome:
    cases = [{"steps": 60 if stage.quick else 300}]
    answers = stage.rounds(
        "cold", count=1 if stage.quick else 3, cases=cases, entrants=stage.present()
    )

    columns = ("p50", "mean", "p99", "steps_per_second")
    table = Table(
        title="10 scalars a call, µs",
        columns=("p50", "mean", "p99", "steps/s reached"),
        rows={
            entrant.name: tuple(middle(answers.get((entrant.name, 0), []), key) for key in columns)
            for entrant in stage.entrants
        },
        remarks=remarks(stage),
    )
    peers = [entrant.name for entrant in stage.present("peer")]
    to_plain, to_peer = paired(answers, OURS, [PLAIN]), paired(answers, OURS, peers)
    holds = (
        Hold("log of 10 scalars, cold, x json+write+flush", 0.7, to_plain.middle),
        Hold("log of 10 scalars, cold, x cheapest peer", 0.4, to_peer.middle),
    )
    note = (
        "100 steps/s, the main thread busy between them streaming 64 MB through the caches, "
        "which holds Python's lock as a loop on the CPU does. The holds are the middle of each "
        f"round's own ratio: {to_plain} to json+write+flush, {to_peer} to the cheapest peer."
    )
    return Outcome("The log call in a cold loop", note, (table,), holds)


def work(contender: Contender, directory: Path, *, steps: int) -> Answer:
    keys = metric_names(NUM_SCALARS)
    log = contender.open(directory, keys)
    pool = rows(keys)
    stream = _stream()
    clock = time.perf_counter_ns
    spent = array("q")
    begun = clock()
    for step in range(WARM_UP_STEPS + steps):
        _be_busy(stream, until_ns=begun + int((step + 1) * PERIOD_S * 1e9))
        values = dict(pool[step % POOL])
        before = clock()
        log(values, step=step)
        spent.append(clock() - before)
    rate = len(spent) / (clock() - begun) * 1e9
    contender.close()
    return {**spread_us(spent[WARM_UP_STEPS:]), "steps_per_second": rate}


def _stream() -> Iterator[None]:
    """Each turn copies one chunk; a whole pass reads one half of the bytes and writes the other."""
    half = STREAM_BYTES // 2
    source = memoryview(os.urandom(CHUNK_BYTES) * (half // CHUNK_BYTES))
    target = memoryview(bytearray(half))
    for start in itertools.cycle(range(0, half, CHUNK_BYTES)):
        target[start : start + CHUNK_BYTES] = source[start : start + CHUNK_BYTES]
        yield


def _be_busy(stream: Iterator[None], *, until_ns: int) -> None:
    """At least one whole pass, however late the loop is, then on until the step is due."""
    for _ in range(STREAM_BYTES // 2 // CHUNK_BYTES):
        next(stream)
    while time.perf_counter_ns() < until_ns:
        next(stream)
