"""A TensorBoard folder of a hundred runs: from the start of a server to what a chart needs."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import urlencode

from benchmarks.contenders import OURS
from benchmarks.environments import clean_environment
from benchmarks.measures.event_files import FIRST_STEP, TAGS, write_events
from benchmarks.outcome import Hold, Outcome, Table, ratio
from benchmarks.served import serving
from benchmarks.stage import Stage, say

NAME = "log_folders"
THEIRS = "tensorboard --load_fast=true"
TAG = "metrics/scalar_3"
RUNS = 100
ROUNDS = 3
LIMIT_S = 300.0
ASK_EVERY_S = 0.02


def run(stage: Stage) -> Outcome:
    points = 1_000 if stage.quick else 10_000
    folder = stage.scratch / "log-folders"
    for number in range(RUNS):
        place = folder / f"run_{number:03d}"
        place.mkdir(parents=True)
        write_events(place / "events.out.tfevents.1700000000.host", points)
    size_mb = sum(file.stat().st_size for file in folder.rglob("*tfevents*")) / 1e6
    last = FIRST_STEP + (points - 1) // TAGS
    theirs = next((e for e in stage.present() if e.name == "torch SummaryWriter"), None)
    measured: dict[str, Callable[[], tuple[float, float]]] = {
        OURS: lambda: _ours(folder, stage.scratch / "cache", last)
    }
    if theirs is not None and theirs.python is not None:
        program = theirs.python.with_name("tensorboard")
        measured[THEIRS] = lambda: _theirs(program, folder, last)
    answers: dict[str, list[tuple[float, float]]] = {name: [] for name in measured}
    for _ in range(ROUNDS):  # in turns, so that a disturbance meets both
        for name, measure in measured.items():
            say(f"{NAME} · {name}")
            answers[name].append(measure())
    shutil.rmtree(folder)
    rows = {name: _figures(rounds) for name, rounds in answers.items()}
    hold = Hold(
        f"{RUNS} TensorBoard runs, server start to data, of TensorBoard's own time",
        1,
        ratio(rows[OURS][0], rows[THEIRS][0]) if THEIRS in rows else None,
        why_not="TensorBoard is not installed",
    )
    note = (
        f"{RUNS} runs, {points:,} scalars each under {TAGS} tags, {size_mb:.0f} MB. From the start"
        " of the process to an answer that has the last step of one tag of every run. Epochal reads"
        " every point, with an empty cache; TensorBoard keeps a sample of 1,000 a tag."
    )
    table = Table("milliseconds", ("to the data", "to the first answer"), rows, {})
    return Outcome("TensorBoard folders", note, (table,), (hold,))


def _figures(rounds: list[tuple[float, float]]) -> tuple[float, float]:
    return median(data for data, _ in rounds), median(first for _, first in rounds)


def _ours(folder: Path, cache: Path, last: int) -> tuple[float, float]:
    shutil.rmtree(cache, ignore_errors=True)
    os.environ["EPOCHAL_CACHE_DIR"] = str(cache)
    begun = time.perf_counter()
    with serving(folder) as server:
        rows = json.loads(server.ask("/api/runs", {"limit": 1000}))["rows"]
        first = time.perf_counter()
        asked = {"run": [row["id"] for row in rows], "name": TAG, "pixels": 1000}
        body = server.ask("/api/series", asked)
        done = time.perf_counter()
    head = json.loads(body[8 : 8 + int.from_bytes(body[4:8], "little")])
    assert len(head["series"]) == RUNS, f"{len(head['series'])} series"
    assert all(row["step"] == last for row in rows), "not every step was read"
    return (done - begun) * 1000, (first - begun) * 1000


def _theirs(program: Path, folder: Path, last: int) -> tuple[float, float]:
    begun = time.perf_counter()
    with _tensorboard(program, folder) as port:
        runs = [f"run_{number:03d}" for number in range(RUNS)]
        first = 0.0
        while time.perf_counter() - begun < LIMIT_S:
            listed = _ask(port, "/data/plugin/scalars/tags")
            first = first or time.perf_counter()
            if len(listed) == RUNS and all(TAG in tags for tags in listed.values()):
                found = _ask(port, "/data/plugin/scalars/scalars_multirun", tag=TAG, runs=runs)
                if len(found) == RUNS and all(p[-1][1] == last for p in found.values() if p):
                    return (time.perf_counter() - begun) * 1000, (first - begun) * 1000
            time.sleep(ASK_EVERY_S)
    raise TimeoutError(f"TensorBoard had not read {folder} after {LIMIT_S:.0f} s")


@contextlib.contextmanager
def _tensorboard(program: Path, folder: Path) -> Iterator[int]:
    command = [str(program), "--logdir", str(folder), "--load_fast=true", "--port", "0"]
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(),
    ) as process:
        try:
            assert process.stderr is not None
            said = ""
            while (at := re.search(r"http://[^:]+:(\d+)/", said)) is None:
                line = process.stderr.readline()
                assert line, f"TensorBoard ended: {said}"
                said += line
            yield int(at[1])
        finally:
            process.terminate()
            process.communicate()


def _ask(port: int, path: str, **form: object) -> dict[str, Any]:
    connection = http.client.HTTPConnection("localhost", port, timeout=LIMIT_S)
    with contextlib.closing(connection):
        body = urlencode(form, doseq=True) if form else None
        headers = {"Content-Type": "application/x-www-form-urlencoded"} if form else {}
        connection.request("POST" if form else "GET", path, body=body, headers=headers)
        response = connection.getresponse()
        text = response.read()
    assert response.status == 200, text[:200]
    found: dict[str, Any] = json.loads(text)
    return found
