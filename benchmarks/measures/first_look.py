"""A list of thousands of small runs: the first look, the next one, wide runs, a page of the list.

Every figure is taken in a fresh process, after its imports. CPU time counts the processes that it
started. Peers read as many scalars in as many runs, each from its own files.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from benchmarks.contenders import OURS
from benchmarks.environments import clean_environment, tool_python
from benchmarks.measures.event_files import write_events
from benchmarks.outcome import Cell, Hold, Outcome, Table
from benchmarks.run_folders import settle, write_many, write_run
from benchmarks.served import serving
from benchmarks.stage import Answer, Stage, say

NAME = "first_look"
RUNS, STEPS, METRICS = 18_000, 100, 5
WIDE = (1_000, 4_000)
WIDE_STEPS = 20
ROUNDS = 3
LIMIT_S = 900.0
QUERY = 'config.lr < 0.5 and status == "finished" and summary.loss.min < 1'
ORDER = "-summary.loss.last"
INDEX_FOLDER = ".epochal"
LAST = f"{OURS}: first look, identity and last values"
ALL = f"{OURS}: first look, all summaries"
AGAIN = f"{OURS}: again"
# Ten minutes for all of them.
TRACKIO_SHARE = 10
ONCE = ("Trackio",)
FIRST_ROWS = "server start to the first rows, s"
FIRST_ROWS_KNOWN = "server start to the first rows, with an index, s"

_SCRIPT = """
import json, resource, sys, time
{imports}
def cpu():
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)
found, cpu_before, begun = {{}}, cpu(), time.perf_counter()
{body}
found["wall_s"] = time.perf_counter() - begun
found["cpu_s"] = cpu() - cpu_before
# Not ru_maxrss: a process begins with that of the one that started it.
(peak,) = (line for line in open("/proc/self/status") if line.startswith("VmHWM"))
found["peak_mb"] = int(peak.split()[1]) / 1024
print("\\n" + json.dumps(found))
"""
_OUR_IMPORTS = """
import epochal.journal.segments.read
from pathlib import Path
from epochal.store.local.catalog import folder_store
"""
_LAST = """
with folder_store(sys.argv[1], cache=Path(sys.argv[2])) as store:
    found["runs"] = len([(run.outline(), run.latest("loss")) for run in store.runs()])
"""
_ALL = """
with folder_store(sys.argv[1], cache=Path(sys.argv[2])) as store:
    found["runs"] = 0
    for run in store.runs():
        rows = [run.info, *(run.summary(m.name, axis=m.axis) for m in run.metrics())]
        found["runs"] += 1
"""
# Count, last, extremes and mean of every metric of every run.
_DUCKDB = """
files = sys.argv[1] + "/*/*/journal/*.jsonl"
columns = "{log: 'VARCHAR', step: 'BIGINT', m: 'MAP(VARCHAR, DOUBLE)'}"
rows = duckdb.connect(config={"threads": 2}).execute(
    "with points as (select filename, step, unnest(map_entries(m)) as point from read_json(?,"
    f" format='newline_delimited', columns={columns}, filename=true) where log = 'metrics')"
    " select filename, point.key, count(*), arg_max(point.value, step), min(point.value),"
    " max(point.value), avg(point.value) from points group by all", [files]).fetchall()
found["runs"] = len({row[0] for row in rows})
"""
# The last record of every run, as its list of runs has it.
_TRACKIO = """
found["runs"] = 0
for name in SQLiteStorage.get_runs("bench"):
    found["runs"] += bool(SQLiteStorage.get_logs("bench", name)[-1])
"""
_TRACKIO_WRITE = """
SQLiteStorage.bulk_log("bench", "run-00000", [{f"metric_{m}": 0.5 for m in range(5)}] * 100)
path = SQLiteStorage.get_project_db_path("bench")
with contextlib.closing(sqlite3.connect(path)) as db, db:
    columns = [row[1] for row in db.execute("pragma table_info(metrics)") if row[1] != "id"]
    rows = [dict(zip(columns, row)) for row in
            db.execute(f"select {', '.join(columns)} from metrics").fetchall()]
    for number in range(1, int(sys.argv[3])):
        name = f"run-{number:05d}"
        changed = [[name if key in ("run_name", "run_id") else
                    f"{value}-{number}" if key == "log_id" and value else value
                    for key, value in row.items()] for row in rows]
        db.executemany(f"insert into metrics ({', '.join(columns)}) values"
                       f" ({', '.join('?' * len(columns))})", changed)
"""
_TRACKIO_IMPORTS = """
import contextlib, sqlite3
from trackio.sqlite_storage import SQLiteStorage
"""
# Its data server has read every file, exact, and lists all tags of all runs.
_TENSORBOARD = """
ingester = server_ingester.SubprocessServerDataIngester(
    server_binary=server_ingester.get_server_binary(), logdir=sys.argv[1], reload_interval=0,
    channel_creds_type=grpc_util.ChannelCredsType.LOCAL, samples_per_plugin={"scalars": 0})
ingester.start()
while found.get("runs", 0) < int(sys.argv[3]):
    time.sleep(0.2)
    listed = ingester.data_provider.list_scalars(
        context.RequestContext(), experiment_id="", plugin_name="scalars")
    found["runs"] = len(listed)
for child in psutil.Process().children():
    child.terminate()
    child.wait()
"""
_TENSORBOARD_IMPORTS = """
import psutil
from tensorboard import context
from tensorboard.data import server_ingester
from tensorboard.util import grpc_util
"""


@dataclass(frozen=True, slots=True)
class Case:
    """What one process does, over which folder; ``before`` makes the state that it starts from."""

    python: Path | None
    imports: str
    body: str
    folder: Path
    before: Callable[[], None] = lambda: None
    environment: Mapping[str, str] = field(default_factory=dict)


def run(stage: Stage) -> Outcome:
    count = RUNS // 10 if stage.quick else RUNS
    runs, cache = stage.scratch / "first-look", stage.scratch / "first-look-cache"
    say(f"{NAME} · writing {count:,} runs")
    write_many(runs, count=count, steps=STEPS, metrics=METRICS)
    wide = {names: stage.scratch / f"wide-{names}" for names in WIDE}
    for names, folder in wide.items():
        write_run(folder, "wide", steps=WIDE_STEPS, metrics=names)
        settle(folder)
    cases = _our_cases(runs, cache, wide) | _peers_cases(stage.scratch, runs, count)
    found, failures = _in_rounds(cases, cache, count, rounds=1 if stage.quick else ROUNDS)
    found["server"] = _over_http(runs, cache)
    rows: dict[str, tuple[Cell, ...]] = {
        name: (one.get("cpu_s"), one.get("wall_s"), one.get("peak_mb"))
        for name, one in found.items()
        if name in cases
    }
    rows |= dict.fromkeys(failures, (None,))
    server = {name: (value, None) for name, value in found["server"].items()}
    note = (
        f"{count:,} finished runs of {STEPS} steps and {METRICS} scalars, unsealed, files in the"
        f" page cache. Wide runs have {WIDE_STEPS} steps. Peers read as many scalars in as many"
        " runs: TensorBoard's data server (exact) until it lists every run, Trackio the last record"
        " of each run, DuckDB count, last, extremes and mean of every metric from our own files."
        f" Trackio has a {TRACKIO_SHARE}th of the runs, in one round."
    )
    tables = (
        Table("seconds and MB", ("CPU s", "wall s", "peak MB"), rows, failures, ratios=False),
        Table("the list over HTTP", ("figure", ""), server, {}, ratios=False),
    )
    return Outcome("First look", note, tables, _holds(found, is_quick=stage.quick))


def _holds(found: Mapping[str, Answer], *, is_quick: bool) -> tuple[Hold, ...]:
    limits = (
        ("18,000 runs, first look: identity and last values", 3, LAST, "cpu_s"),
        ("18,000 runs, first look: all summaries", 7, ALL, "cpu_s"),
        ("18,000 runs, again", 0.7, AGAIN, "cpu_s"),
        ("all summaries of 1,000 metrics", 0.1, _wide_name(1_000), "cpu_s"),
        ("all summaries of 4,000 metrics", 0.4, _wide_name(4_000), "cpu_s"),
        ("18,000 runs, server start to the first rows", 1, "server", FIRST_ROWS),
    )
    return tuple(
        Hold(
            what,
            limit,
            None if is_quick and what.startswith("18,000") else found.get(name, {}).get(key),
            "s",
            "not in a quick run" if is_quick else "failed",
        )
        for what, limit, name, key in limits
    )


def _wide_name(names: int) -> str:
    return f"{OURS}: all summaries of {names:,} metrics"


def _our_cases(runs: Path, cache: Path, wide: Mapping[int, Path]) -> dict[str, Case]:
    python = Path(sys.executable)

    def forget() -> None:
        for folder in (cache, *runs.glob(f"*/{INDEX_FOLDER}")):
            shutil.rmtree(folder, ignore_errors=True)

    cases = {
        LAST: Case(python, _OUR_IMPORTS, _LAST, runs, before=forget),
        ALL: Case(python, _OUR_IMPORTS, _ALL, runs, before=forget),
        AGAIN: Case(python, _OUR_IMPORTS, _LAST, runs),  # right after ALL
    }
    for names, folder in wide.items():
        cases[_wide_name(names)] = Case(python, _OUR_IMPORTS, _ALL, folder, before=forget)
    return cases


def _peers_cases(scratch: Path, runs: Path, count: int) -> dict[str, Case]:
    duckdb = Case(tool_python("duckdb"), "import duckdb", _DUCKDB, runs)
    trackio = Case(
        tool_python("trackio"),
        _TRACKIO_IMPORTS,
        _TRACKIO,
        scratch / "trackio",
        environment={"TRACKIO_DIR": str(scratch / "trackio")},
    )
    (scratch / "trackio").mkdir()
    if trackio.python is not None:
        say(f"{NAME} · writing for Trackio")
        play(replace(trackio, body=_TRACKIO_WRITE), scratch, count // TRACKIO_SHARE)
    tensorboard = Case(
        tool_python("tensorboard-data-server", "tensorboard", "psutil"),
        _TENSORBOARD_IMPORTS,
        _TENSORBOARD,
        scratch / "event-files",
    )
    if tensorboard.python is not None:
        say(f"{NAME} · writing for TensorBoard")
        template = scratch / "events"
        write_events(template, STEPS * METRICS)
        for number in range(count):
            folder = tensorboard.folder / f"run-{number:05d}"
            folder.mkdir(parents=True)
            shutil.copyfile(template, folder / "events.out.tfevents.1700000000.host")
    return {"DuckDB": duckdb, "Trackio": trackio, "TensorBoard data server": tensorboard}


def _in_rounds(
    cases: Mapping[str, Case], cache: Path, count: int, *, rounds: int
) -> tuple[dict[str, Answer], dict[str, str]]:
    """The middle of each figure over rounds that take turns; and who failed, and why."""
    answers: dict[str, list[Answer]] = {}
    failures = {name: "not installed" for name, case in cases.items() if case.python is None}
    for turn in range(rounds):
        for name, case in cases.items():
            if name in failures or (turn and name in ONCE):
                continue
            say(f"{NAME} · round {turn + 1}/{rounds} · {name}")
            case.before()
            try:
                answers.setdefault(name, []).append(play(case, cache, count))
            except (subprocess.SubprocessError, ValueError) as error:
                failures[name] = f"failed: {error}"
    middles = {
        name: {key: median(answer[key] for answer in found) for key in found[0]}
        for name, found in answers.items()
        if name not in failures
    }
    return middles, failures


def play(case: Case, cache: Path, count: int) -> Answer:
    script = _SCRIPT.format(imports=case.imports, body=case.body)
    done = subprocess.run(
        [str(case.python), "-c", script, str(case.folder), str(cache), str(count)],
        capture_output=True,
        text=True,
        env={**clean_environment(), **case.environment},
        timeout=LIMIT_S,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise ValueError(lines[-1] if lines else f"it ended with {done.returncode}")
    answer: Answer = json.loads(done.stdout.splitlines()[-1])
    return answer


def _over_http(runs: Path, cache: Path) -> Answer:
    """What a page waits for: with nothing known of the runs, and with an index of all of them."""
    os.environ["EPOCHAL_CACHE_DIR"] = str(cache)
    found: Answer = {}
    for is_known in (False, True):
        if not is_known:
            for folder in (cache, *runs.glob(f"*/{INDEX_FOLDER}")):
                shutil.rmtree(folder, ignore_errors=True)
        else:
            play(Case(Path(sys.executable), _OUR_IMPORTS, _ALL, runs), cache, 0)
        begun = time.perf_counter()
        with serving(runs) as server:
            body = server.ask("/api/runs", {"limit": 100, "summary": "role:loss"})
            first = FIRST_ROWS_KNOWN if is_known else FIRST_ROWS
            found[first] = time.perf_counter() - begun
            found[f"CPU: {first}"] = server.cpu_s
            assert json.loads(body)["rows"]
            if is_known:
                query = {"query": QUERY, "order": ORDER, "limit": 100, "summary": "role:loss"}
                server.ask("/api/runs", query)
                begun = time.perf_counter()
                body = server.ask("/api/runs", query)
                found["filter, sort and 100 rows, s"] = time.perf_counter() - begun
                found["bytes of 100 rows"] = len(body)
    return found
