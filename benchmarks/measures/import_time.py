"""What a script pays before its first step: the import, and all up to the first log."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from statistics import median

from benchmarks.contender import Contender
from benchmarks.contenders import OURS
from benchmarks.environments import Entrant, clean_environment
from benchmarks.outcome import Hold, Outcome, Table, middle, remarks
from benchmarks.samples import metric_names, rows
from benchmarks.stage import Answer, Stage, say

NAME = "import"
TIMED = "import time; begun = time.perf_counter(); {statement}; print(time.perf_counter() - begun)"


def run(stage: Stage) -> Outcome:
    entrants = stage.present("baseline", "ours", "peer")
    imports: dict[str, list[float]] = {entrant.name: [] for entrant in entrants}
    for turn in range(1 if stage.quick else 5):
        for entrant in entrants:
            say(f"import · round {turn + 1} · {entrant.name}")
            imports[entrant.name].append(_import_ms(entrant, stage.scratch))
    starts = stage.rounds(
        "import_time", count=1 if stage.quick else 3, cases=[{}], entrants=entrants
    )
    rows_ = {
        entrant.name: (
            median(imports[entrant.name]) if imports.get(entrant.name) else None,
            middle(starts.get((entrant.name, 0), []), "first_log_ms"),
        )
        for entrant in stage.entrants
        if entrant.contender.role != "control"
    }
    table = Table("milliseconds", ("import", "to the first log"), rows_, remarks(stage))
    holds = (Hold("import epochal", 50, rows_[OURS][0], "ms"),)
    note = (
        "Fresh processes, bytecode cached, the start of Python left out. The second figure is "
        "import, start of a run and one log together, where what an import puts off must be paid; "
        "it is taken in a process that has much of the standard library loaded already."
    )
    return Outcome("Import", note, (table,), holds)


def work(contender: Contender, directory: Path) -> Answer:
    keys = metric_names(10)
    (values, *_) = rows(keys)
    begun = time.perf_counter()
    contender.open(directory, keys)(values, step=0)
    first_log_ms = (time.perf_counter() - begun) * 1000
    contender.close()
    return {"first_log_ms": first_log_ms}


def _import_ms(entrant: Entrant, folder: Path) -> float:
    done = subprocess.run(
        [str(entrant.python), "-c", TIMED.format(statement=entrant.contender.import_statement)],
        capture_output=True,
        text=True,
        cwd=folder,
        env=clean_environment(),
        check=True,
    )
    return float(done.stdout.splitlines()[-1]) * 1000
