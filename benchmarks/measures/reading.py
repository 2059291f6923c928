"""How long answers take: one long series, one metric of many runs, a list of thousands of runs."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

from benchmarks.contender import Contender
from benchmarks.contenders import OURS
from benchmarks.environments import Entrant
from benchmarks.outcome import Hold, Outcome, Table, middle, remarks
from benchmarks.run_folders import seal, settle, write_run
from benchmarks.samples import metric_names, rows
from benchmarks.stage import Answer, Stage, say

NAME = "reading"
PIXELS = 1000
KEY = "train/metric_00"
QUERY = 'config.lr < 0.5 and status == "finished" and summary.loss.min < 1'
ORDER = "-summary.loss.last"


def run(stage: Stage) -> Outcome:
    stage.failures.clear()
    scale = 10 if stage.quick else 1
    (ours,) = stage.present("ours")
    cases = {
        "one": {"steps": 1_000_000 // scale, "count": 1, "metrics": 10},
        "many": {"steps": 20_000 // scale, "count": 100, "metrics": 10},
        "thousands": {"steps": 20, "count": 10_000 // scale, "metrics": 5},
    }
    answers = {name: _ours(stage, ours, name, case) for name, case in cases.items()}
    steps = 5_000 if stage.quick else 50_000
    beside = _beside_peers(stage, steps)
    holds = tuple(
        Hold(
            what, limit, None if stage.quick else answers[name].get(key), "ms", "not in a quick run"
        )
        for what, limit, name, key in (
            ("1M-step series, cold, sealed", 150, "one", "first_ms"),
            ("1M-step series, cold, unsealed", 3000, "one", "unsealed_ms"),
            ("one metric of 100 runs", 200, "many", "next_ms"),
            ("one metric of 100 runs, cold", 1500, "many", "first_ms"),
            ("10,000 runs filtered, sorted", 100, "thousands", "query_ms"),
        )
    )
    note = (
        "Fresh processes, after imports. Exact answers: every point is looked at, "
        f"{PIXELS} pixels are handed out. Beside peers: one of ten metrics of one run of "
        f"{steps:,} steps, through each tool's own reader"
        + (", at a tenth of the size the holds are for." if stage.quick else ".")
    )
    return Outcome("Reading", note, (_table(answers), beside), holds)


def work(contender: Contender, directory: Path, *, phase: str, **case: Any) -> Answer:
    phases: dict[str, Any] = {
        "write": _write,
        "read": _read,
        "prepare": _prepare,
        "one": _one,
        "many": _many,
        "thousands": _thousands,
    }
    found: Answer = phases[phase](contender, directory, **case)
    return found


# -- ours alone -----------------------------------------------------------------------------------


def _ours(stage: Stage, ours: Entrant, name: str, case: dict[str, Any]) -> Answer:
    data = stage.scratch / f"reading-{name}"
    data.mkdir()
    say(f"reading · {name} · writing")
    prepared = {"phase": "prepare", "name": name, **case}
    plays = [stage.play(ours, "reading", prepared, data=data, limit_s=600)]
    for turn in range(1 if stage.quick else 5):
        say(f"reading · {name} · round {turn + 1}")
        plays.append(stage.play(ours, "reading", {"phase": name}, data=data))
    failures = [play.failure for play in plays if play.failure]
    answers = [play.answer for play in plays[1:] if not failures]
    for play in plays:
        shutil.rmtree(play.folder)
    for failure in failures:
        say(f"reading · {name} · failed: {failure}")
    shutil.rmtree(data)
    return {key: middle(answers, key) for key in answers[0]} if answers else {}


def _prepare(
    _: Contender, directory: Path, *, name: str, steps: int, count: int, metrics: int
) -> Answer:
    for number in range(count):
        write_run(directory / "runs", f"run-{number:05d}", steps=steps, metrics=metrics)
    settle(directory)  # a part written to just now is not sealed
    if name == "one":
        shutil.copytree(directory / "runs", directory / "unsealed")
    if name != "thousands":
        seal(directory / "runs")
    settle(directory)
    return {}


def _one(_: Contender, directory: Path) -> Answer:
    store = _imported()

    def first(root: Path) -> float:
        begun = time.perf_counter()
        series = store(root).runs()[0].series("loss")
        series.buckets(PIXELS)
        return (time.perf_counter() - begun) * 1000

    return {"first_ms": first(directory / "runs"), "unsealed_ms": first(directory / "unsealed")}


def _many(_: Contender, directory: Path) -> Answer:
    store = _imported()
    begun = time.perf_counter()
    runs = store(directory / "runs").runs()
    for run_ in runs:
        run_.series("loss").buckets(PIXELS)
    opened = time.perf_counter()
    for run_ in runs:
        run_.series("metric_3").buckets(PIXELS)
    return {"first_ms": (opened - begun) * 1000, "next_ms": (time.perf_counter() - opened) * 1000}


def _thousands(_: Contender, directory: Path) -> Answer:
    store = _imported()
    begun = time.perf_counter()
    with store(directory / "runs", cache=directory / "cache") as opened:
        opened.runs(QUERY, order=ORDER)
        first = time.perf_counter()
        opened.runs(QUERY, order=ORDER, limit=50)
        return {
            "first_ms": (first - begun) * 1000,
            "query_ms": (time.perf_counter() - first) * 1000,
        }


def _imported() -> Any:
    import epochal.journal.segments.read  # noqa: F401
    from epochal.store.local.catalog import folder_store

    return folder_store


def _table(answers: dict[str, Answer]) -> Table:
    one, many, thousands = (answers[name] for name in ("one", "many", "thousands"))
    return Table(
        "milliseconds",
        ("first answer", "next answer"),
        {
            "one series, sealed": (one.get("first_ms"), None),
            "one series, unsealed": (one.get("unsealed_ms"), None),
            "one metric of 100 runs, sealed": (many.get("first_ms"), many.get("next_ms")),
            "10,000 runs by a query": (thousands.get("first_ms"), thousands.get("query_ms")),
        },
        {},
        ratios=False,
    )


# -- beside peers ---------------------------------------------------------------------------------


def _beside_peers(stage: Stage, steps: int) -> Table:
    cells: dict[str, tuple[float | None]] = {}
    for entrant in stage.entrants:
        if not hasattr(entrant.contender, "read_series"):
            continue
        if entrant.python is not None:
            cells[entrant.name] = (_peer(stage, entrant, steps),)
        else:
            cells[entrant.name] = (None,)
    return Table(
        f"one of ten metrics of {steps:,} steps, ms",
        ("first answer",),
        cells,
        remarks(stage),
        ratios=OURS in cells,
    )


def _peer(stage: Stage, entrant: Entrant, steps: int) -> float | None:
    data = stage.scratch / f"reading-{entrant.contender.role}"
    data.mkdir()
    say(f"reading · beside peers · {entrant.name}")
    answer: Answer = {}
    for phase in ("write", "read"):
        parameters = {"phase": phase, "steps": steps}
        play = stage.play(entrant, "reading", parameters, data=data, limit_s=300)
        if play.failure:
            stage.failures[entrant.name] = f"failed: {play.failure}"
        answer = play.answer
        shutil.rmtree(play.folder)
    shutil.rmtree(data)
    return answer.get("read_ms")


def _write(contender: Contender, directory: Path, *, steps: int) -> Answer:
    keys = metric_names(10)
    pool = rows(keys)
    log = contender.open(directory, keys)
    for step in range(steps):
        log(pool[step % len(pool)], step=step)
    contender.close()
    return {}


def _read(contender: Any, directory: Path, *, steps: int) -> Answer:
    return {"read_ms": contender.read_series(directory, KEY, steps) * 1000}
