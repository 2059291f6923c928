"""Acknowledged steps that a SIGKILL loses, at 2, 100 and unthrottled steps a second."""

from __future__ import annotations

import random
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks import acknowledged
from benchmarks.contender import Contender
from benchmarks.contenders import OURS
from benchmarks.environments import Entrant
from benchmarks.outcome import Hold, Outcome, Table, remarks
from benchmarks.samples import POOL, metric_names, rows
from benchmarks.stage import Answer, Stage, say

NAME = "kill"
HELPERS_GRACE_S = 5  # a helper may still write what it had in hand
START_LIMIT_S = 60


@dataclass(frozen=True, slots=True)
class ProgressEstimator:
    """Slow paces are where buffers lose everything; being idle, they run side by side."""

    label: str
    steps_per_second: float | None
    num_scalars: int
    seconds: float
    trials: int
    side_by_side: bool = False


@dataclass(frozen=True, slots=True)
class Loss:
    logged: int
    lost: int
    unreadable: bool = False


def run(stage: Stage) -> Outcome:
    stage.failures.clear()
    entrants = stage.present("baseline", "ours", "peer")
    paces = _paces(quick=stage.quick)
    losses: dict[tuple[str, str], list[Loss]] = {}
    for pace in paces:
        for trial in range(pace.trials):
            say(f"kill · {pace.label} · trial {trial + 1}/{pace.trials}")
            workers = len(entrants) if pace.side_by_side else 1
            with ThreadPoolExecutor(workers) as pool:
                found = pool.map(lambda entrant, pace=pace: _one(stage, entrant, pace), entrants)
                for entrant, loss in zip(entrants, found, strict=True):
                    if loss is not None:
                        losses.setdefault((entrant.name, pace.label), []).append(loss)
    table = Table(
        title="steps lost of steps acknowledged, the worst trial",
        columns=tuple(pace.label for pace in paces),
        rows={
            entrant.name: tuple(_worst(losses.get((entrant.name, pace.label))) for pace in paces)
            for entrant in stage.entrants
            if entrant.contender.role != "control"
        },
        remarks=remarks(stage),
        ratios=False,
    )
    note = (
        "The logging process alone is killed, at a random moment; its helpers have five seconds to "
        "write what they hold. Read back with each tool's own reader; for wandb, which ships none, "
        "from its file."
    )
    holds = tuple(
        Hold(f"acknowledged steps lost, {pace.label}", 0, _lost(losses.get((OURS, pace.label))))
        for pace in paces
    )
    return Outcome("kill -9", note, (table,), holds)


def work(
    contender: Contender,
    directory: Path,
    *,
    num_scalars: int,
    period_s: float = 0,
    counter: str = "",
) -> Answer:
    """With a counter: log until killed. Without: read back."""
    keys = metric_names(num_scalars)
    if not counter:
        return {"steps": sorted(contender.read_steps(directory, keys))}
    pool = rows(keys)
    count = acknowledged.open_for_writing(Path(counter))
    log = contender.open(directory, keys)
    begun = time.perf_counter()
    step = 0
    while True:
        log(dict(pool[step % POOL]), step=step)
        step += 1
        acknowledged.COUNT.pack_into(count, 0, step)
        if period_s:
            time.sleep(max(0.0, begun + step * period_s - time.perf_counter()))


def _paces(*, quick: bool) -> tuple[ProgressEstimator, ...]:
    return (
        ProgressEstimator("2 steps/s", 2, 1, 6 if quick else 20, 1, side_by_side=True),
        ProgressEstimator(
            "100 steps/s", 100, 10, 1.5 if quick else 3, 1 if quick else 2, side_by_side=quick
        ),
        ProgressEstimator(
            "unthrottled", None, 10, 0.5 if quick else 1, 1 if quick else 2, side_by_side=quick
        ),
    )


def _one(stage: Stage, entrant: Entrant, pace: ProgressEstimator) -> Loss | None:
    """Log, kill, read back; nothing when the contender could not log at all."""
    if entrant.name in stage.failures:
        return None
    counter = stage.new_counter()
    logging = stage.play(
        entrant,
        "kill",
        {
            "num_scalars": pace.num_scalars,
            "period_s": 1 / pace.steps_per_second if pace.steps_per_second else 0,
            "counter": str(counter),
        },
        counter=counter,
        kill_after_s=pace.seconds * random.uniform(0.8, 1.2),
        limit_s=START_LIMIT_S,
        grace_s=HELPERS_GRACE_S,
    )
    reading = stage.play(
        entrant, "kill", {"num_scalars": pace.num_scalars}, data=logging.data, limit_s=120
    )
    logged = acknowledged.read(counter)
    for play in (logging, reading):
        shutil.rmtree(play.folder)
    if logging.failure:
        stage.failures[entrant.name] = f"failed: {logging.failure}"
        return None
    if reading.failure:
        say(f"kill · {pace.label} · {entrant.name} cannot be read: {reading.failure}")
        return Loss(logged, logged, unreadable=True)
    return Loss(logged, len(set(range(logged)) - set(reading.answer["steps"])))


def _worst(losses: list[Loss] | None) -> str | None:
    if not losses:
        return None
    worst = max(losses, key=lambda loss: loss.lost)
    return f"{worst.lost:,} of {worst.logged:,}" + (", unreadable" if worst.unreadable else "")


def _lost(losses: list[Loss] | None) -> float | None:
    return max(loss.lost for loss in losses) if losses else None
