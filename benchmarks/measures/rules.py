"""CPU time of the health rules for one record of 20 metrics, early in a run and late.

`python -m benchmarks.measures.rules` prints the numbers alone.
"""

from __future__ import annotations

import random
import time

from benchmarks.outcome import Hold, Outcome, Table
from benchmarks.stage import Stage

NAME = "rules"
METRICS = 20
CHUNK = 500
RATE = 50  # records a second: below the rate at which records are skipped


def run(stage: Stage) -> Outcome:
    counts = (1_000, 10_000) if stage.quick else (1_000, 10_000, 100_000)
    costs = costs_us(counts)
    table = Table(
        title=f"Health rules, {METRICS} metrics a record, CPU µs per evaluated record",
        columns=tuple(f"at record {count:,}" for count in counts),
        rows={"epochal": tuple(costs[count] for count in counts)},
        remarks={},
        ratios=False,
    )
    holds = (
        Hold("rules per evaluated record", 150, costs[counts[0]], "µs"),
        Hold("late over early", 1.2, costs[counts[-1]] / costs[counts[0]], "times"),
    )
    note = "A loss that falls with noise, a gradient norm, a learning rate and an evaluation loss."
    return Outcome("Rules", note, (table,), holds)


def costs_us(counts: tuple[int, ...]) -> dict[int, float]:
    """CPU microseconds per record at some records of one run: the better of two chunks."""
    from epochal.health.engine import Health

    source, health = random.Random(11), Health(config={"optimizer": "AdamW"})
    names = [f"m/{number}" for number in range(METRICS - 4)]
    found: dict[int, float] = {}
    for chunk in range(max(counts) // CHUNK + 2):
        records = []
        for step in range(chunk * CHUNK, (chunk + 1) * CHUNK):
            level, t = 2.0 * (1 + step / 100) ** -0.3, 1.7e9 + step / RATE
            metrics = {name: source.random() for name in names}
            metrics |= {"loss": level * (1 + 0.05 * source.gauss(0, 1)), "lr": 1e-3}
            metrics |= {"grad_norm": 1 + 0.1 * source.gauss(0, 1), "tps": 1000.0}
            records.append({"log": "metrics", "t": t, "step": step, "m": metrics})
            if step % 200 == 199:
                records.append({"log": "eval", "t": t, "step": step, "loss": level})
        begun = time.process_time()
        for record in records:
            health.feed(record)
        cost = (time.process_time() - begun) / CHUNK * 1e6
        for count in counts:
            if chunk in (count // CHUNK, count // CHUNK + 1):
                found[count] = min(cost, found.get(count, cost))
    return found


def main() -> None:
    for count, cost in costs_us((1_000, 10_000, 100_000)).items():
        print(f"at record {count:,}: {cost:.0f} µs")


if __name__ == "__main__":
    main()
