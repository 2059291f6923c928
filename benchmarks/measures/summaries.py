"""CPU time of the companion for the summaries of a run that logs 300 metrics 50 times a second.

`python -m benchmarks.measures.summaries` prints the numbers alone.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.outcome import Hold, Outcome, Table
from benchmarks.samples import POOL, metric_names, rows
from benchmarks.stage import Stage

NAME = "summaries"
METRICS = 300
RATE = 50  # records a second


def run(stage: Stage) -> Outcome:
    core_pct, behind_s = share_of_core(6 if stage.quick else 60)
    table = Table(
        title=f"Summaries, {METRICS} metrics × {RATE} steps a second",
        columns=("percent of a core", "seconds behind at the end"),
        rows={"epochal": (core_pct, behind_s)},
        remarks={},
        ratios=False,
    )
    holds = (Hold("summaries in the companion", 1.05, core_pct, "% of a core"),)
    note = "The companion's own looks at a journal that grows; the run takes place in real time."
    return Outcome("Summaries", note, (table,), holds)


def share_of_core(seconds: int) -> tuple[float, float]:
    """Percent of a core over a run of so many seconds, and how far its summary lags then."""
    from epochal.companion.summary import SummaryWriter
    from epochal.journal.layout import PartName, RunFolder
    from epochal.journal.line import encode
    from epochal.journal.summaries import read_summary

    keys = metric_names(METRICS)
    pool = rows(keys)
    with tempfile.TemporaryDirectory() as place:
        folder = RunFolder(Path(place))
        folder.journal.mkdir()
        writer, used_s, step = SummaryWriter(folder), 0.0, 0
        with folder.part_path(PartName("loop", 1, 0)).open("wb", buffering=0) as journal:
            journal.write(encode({"log": "run", "t": time.time(), "v": 1, "name": "run"}))
            begun_s = time.monotonic()
            while (passed_s := time.monotonic() - begun_s) < seconds:
                while step < passed_s * RATE:
                    values = pool[step % POOL]
                    journal.write(
                        encode({"log": "metrics", "t": time.time(), "step": step, "m": values})
                    )
                    step += 1
                before_s = time.thread_time()
                writer.look()
                used_s += time.thread_time() - before_s
                time.sleep(max(0.0, 1.0 - (time.monotonic() - begun_s - passed_s)))
        row = read_summary(place)
    reached = -1 if row is None or row.step is None else row.step
    return 100.0 * used_s / seconds, (step - 1 - reached) / RATE


def main() -> None:
    core_pct, behind_s = share_of_core(60)
    print(f"{core_pct:.2f} % of a core, {behind_s:.1f} s behind at the end")


if __name__ == "__main__":
    main()
