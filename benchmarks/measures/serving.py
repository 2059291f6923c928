"""What a page waits for: a server's start, its answers, its streams; and the memory it takes."""

from __future__ import annotations

import json
import random
import shutil
import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks.contender import Contender
from benchmarks.outcome import Hold, Outcome, Table
from benchmarks.run_folders import seal, settle, write_run
from benchmarks.served import Listeners, Server, serving
from benchmarks.stage import Answer, Stage, say

NAME = "serving"
PIXELS = 1000
# What the page asks for where its charts lie in three columns of a window of 1440 pixels.
CHART_PIXELS = 350
SWEEP_RUNS = 60
SPIKE = 1000.0
EVENTS_A_SECOND = 10

# What is held, in which phase it is found, and under which name.
HOLDS = (
    ("server start to a 1M-step series", 500, "ms", "one", "data_ms"),
    ("server start to one metric of 100 runs", 1500, "ms", "many", "data_ms"),
    ("one metric of 100 runs over HTTP", 200, "ms", "many", "next_ms"),
    ("memory for 100 runs listed, not asked", 40, "MB", "many", "listed_mb"),
    ("12 charts of 60 runs of 3,000 steps, as sent", 1.5, "MB", "sweep", "sent_MB"),
    ("zooms of 10M steps that miss the spike", 0, "", "spike", "missed"),
    ("500 streams at 10 events/s, of a core", 30, "%", "streams", "cpu_percent"),
    ("events that 500 streams lost or heard twice", 0, "", "streams", "wrong"),
    ("log() to a browser, 95 %", 500, "ms", "latency", "p95_ms"),
)


def run(stage: Stage) -> Outcome:
    stage.failures.clear()
    scale = 10 if stage.quick else 1
    cases: dict[str, dict[str, Any]] = {
        "one": {"steps": 1_000_000 // scale, "count": 1, "metrics": 10},
        "many": {"steps": 20_000 // scale, "count": 100, "metrics": 10},
        "sweep": {"seeds": 1 if stage.quick else 3},
        "spike": {"steps": 10_000_000 // scale, "count": 1, "metrics": 1},
        "streams": {"clients": 500 // scale, "seconds": 20 // (4 if stage.quick else 1)},
        "latency": {"times": 60 // scale},
    }
    answers = {phase: _play(stage, phase, case) for phase, case in cases.items()}
    holds = tuple(
        Hold(
            what,
            limit,
            None if stage.quick else answers[phase].get(key),
            unit,
            "not in a quick run" if stage.quick else "failed",
        )
        for what, limit, unit, phase, key in HOLDS
    )
    note = (
        "A server process over sealed runs, asked over HTTP; its start is counted with all its "
        f"imports. {PIXELS} pixels a series. Memory is what the server takes beyond its own size "
        "when it is ready."
    )
    return Outcome("Serving", note, (_table(answers),), holds)


def work(_: Contender, directory: Path, *, phase: str, **case: Any) -> Answer:
    phases: dict[str, Any] = {
        "prepare": _prepare,
        "one": _one,
        "many": _many,
        "sweep": _sweep,
        "spike": _spike,
        "streams": _streams,
        "latency": _latency,
    }
    found: Answer = phases[phase](directory, **case)
    return found


def _play(stage: Stage, phase: str, case: dict[str, Any]) -> Answer:
    (ours,) = stage.present("ours")
    data = stage.scratch / f"serving-{phase}"
    data.mkdir()
    is_prepared = "steps" in case
    orders = [{"phase": "prepare", "spike": phase == "spike", **case}] if is_prepared else []
    orders += [{"phase": phase, **({} if is_prepared else case)}] * (1 if stage.quick else 3)
    answers: list[Answer] = []
    for order in orders:
        say(f"serving · {phase} · {'writing' if order['phase'] == 'prepare' else 'measuring'}")
        play = stage.play(ours, NAME, order, data=data, limit_s=1200)
        if play.failure:
            say(f"serving · {phase} · failed: {play.failure}")
        elif order["phase"] != "prepare":
            answers.append(play.answer)
        shutil.rmtree(play.folder)
    shutil.rmtree(data)
    if not answers:
        return {}
    # Of what must not happen the worst round counts, of times the middle one.
    worst = ("missed", "wrong")
    return {
        key: (max if key in worst else statistics.median)(answer[key] for answer in answers)
        for key in answers[0]
    }


def _table(answers: dict[str, Answer]) -> Table:
    rows = {
        f"{phase}: {key.rpartition('_')[0] or key}": (value, key.rpartition("_")[2])
        for phase, answer in answers.items()
        for key, value in answer.items()
    }
    return Table("a server of its own", ("figure", "unit"), rows, {}, ratios=False)


# -- in the worker --------------------------------------------------------------------------------


def _prepare(directory: Path, *, spike: bool, steps: int, count: int, metrics: int) -> Answer:
    for number in range(count):
        at = steps * 2 // 3 + 7 if spike else None
        name = f"run-{number:05d}"
        write_run(directory / "runs", name, steps=steps, metrics=metrics, spike=at)
    settle(directory)  # a part written to just now is not sealed
    seal(directory / "runs")
    settle(directory)
    return {}


def _one(directory: Path) -> Answer:
    begun = time.perf_counter()
    with serving(directory / "runs") as server:
        ready = time.perf_counter()
        series(server, ["run-00000"], "loss")
        return {"ready_ms": _ms(begun, ready), "data_ms": _ms(begun)}


def _many(directory: Path) -> Answer:
    begun = time.perf_counter()
    with serving(directory / "runs") as server:
        before_mb = server.resident_mb
        runs = run_ids(server)
        first_listed_mb = server.resident_mb - before_mb
        series(server, runs, "loss")
        data_ms = _ms(begun)
        asked = time.perf_counter()
        series(server, runs, "metric_3")
        next_ms = _ms(asked)
        asked_mb = server.resident_mb - before_mb
    # The first one had to open every part, the next one knows the runs from the index.
    with serving(directory / "runs") as server:
        before_mb = server.resident_mb
        run_ids(server)
        listed_mb = server.resident_mb - before_mb
    return {
        "data_ms": data_ms,
        "next_ms": next_ms,
        "first_listed_mb": first_listed_mb,
        "listed_mb": listed_mb,
        "two_metrics_asked_mb": asked_mb,
    }


def _spike(directory: Path) -> Answer:
    """Zooms into a part of the steps around the spike, from all of them to a few hundred."""
    with serving(directory / "runs") as server:
        (run,) = run_ids(server)
        steps = json.loads(server.ask(f"/api/runs/{run}"))["row"]["step"] + 1
        at, width, missed, times = steps * 2 // 3 + 7, steps, 0, []
        source = random.Random(1)
        while width >= 256:
            lo = max(0, at - source.randrange(width))
            begun = time.perf_counter()
            body = series(server, [run], "loss", lo=lo, hi=lo + width)
            times.append(_ms(begun))
            missed += highest(body) != SPIKE
            width //= 3
        return {"missed": missed, "first_ms": times[0], "zoom_ms": statistics.median(times[1:])}


def _sweep(directory: Path, *, seeds: int) -> Answer:
    """The bytes of all points of a sweep: every metric of every run over all of its steps."""
    from benchmarks.sweep import write_sweep

    shutil.rmtree(directory / "sweep", ignore_errors=True)
    write_sweep(directory / "sweep", seeds=seeds)
    sizes = {"identity": 0, "gzip": 0}
    with serving(directory / "sweep") as server:
        runs = run_ids(server)[:SWEEP_RUNS]
        metrics = json.loads(server.ask(f"/api/runs/{runs[0]}/metrics"))["metrics"]
        for encoding in sizes:
            for metric in metrics:
                query = {"run": runs, "name": metric["name"], "pixels": CHART_PIXELS}
                sizes[encoding] += len(server.ask("/api/series", query, encoding=encoding))
    return {"whole_MB": sizes["identity"] / 1e6, "sent_MB": sizes["gzip"] / 1e6}


def _streams(directory: Path, *, clients: int, seconds: int) -> Answer:
    import epochal

    shutil.rmtree(directory / "live", ignore_errors=True)
    run = epochal.init("bench", "live", dir=directory / "live", console=False, companion=False)
    run.log({"loss": 0.0}, step=0)
    total = seconds * EVENTS_A_SECOND
    with serving(directory / "live") as server:
        (run_id,) = run_ids(server)
        with Listeners(server, run=run_id, count=clients) as listeners:
            listeners.wait_for(b"event: ready", limit_s=60)
            spent, begun = server.cpu_s, time.perf_counter()
            for step in range(1, total + 1):
                run.log({"loss": step / 2}, step=step)
                listeners.listen(until=begun + step / EVENTS_A_SECOND)
            lasted, spent = time.perf_counter() - begun, server.cpu_s - spent
            listeners.listen(until=time.perf_counter() + 2)
            heard = listeners.steps()
    run.finish()
    wanted = list(range(1, total + 1))
    return {"cpu_percent": 100 * spent / lasted, "wrong": sum(steps != wanted for steps in heard)}


def _latency(directory: Path, *, times: int) -> Answer:
    import epochal

    shutil.rmtree(directory / "live", ignore_errors=True)
    run = epochal.init("bench", "live", dir=directory / "live", console=False, companion=False)
    run.log({"loss": 0.0}, step=0)
    waits, source = [], random.Random(2)
    with serving(directory / "live") as server:
        (run_id,) = run_ids(server)
        with Listeners(server, run=run_id, count=1) as listeners:
            listeners.wait_for(b"event: ready", limit_s=60)
            for step in range(1, times + 1):
                listeners.listen(until=time.perf_counter() + source.uniform(0.05, 0.5))
                begun = time.perf_counter()
                run.log({"loss": 1.0}, step=step)
                end = listeners.wait_for(b'"x":[%d]' % step, limit_s=20)
                waits.append((end - begun) * 1000)
    run.finish()
    return {
        "median_ms": statistics.median(waits),
        "p95_ms": sorted(waits)[int(0.95 * (len(waits) - 1))],
    }


def run_ids(server: Server) -> list[str]:
    rows = json.loads(server.ask("/api/runs", {"limit": 1000}))["rows"]
    return [row["id"] for row in rows]


def series(server: Server, runs: list[str], name: str, **query: Any) -> bytes:
    asked = {"run": runs, "name": name, "pixels": PIXELS, **query}
    return server.ask("/api/series", asked)


def highest(body: bytes) -> float:
    """The largest value of a body's one series."""
    import numpy as np

    from benchmarks.series_body import decode_series

    (series,) = decode_series(body)[1]
    return float(np.nanmax(series.columns["value" if series.head["raw"] else "max"]))


def _ms(begun: float, ended: float | None = None) -> float:
    return ((time.perf_counter() if ended is None else ended) - begun) * 1000
