"""What a hub costs: a folder and PostgreSQL with a bucket, one after the other, in one run.

``python -m benchmarks.hub.targets --data FOLDER`` prints a table. Costs are CPU seconds of the hub
and its database, through HTTP. The bucket is a folder; ``--s3`` measures with moto's S3 server
instead, which is written in Python and is not counted. Runs that are sent are made in FOLDER, where
the next time finds them. ``--share 10`` sends a tenth of everything.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import msgspec
import psutil

from benchmarks.environments import BENCH
from benchmarks.hub.ingest import METRICS, line, new_run
from benchmarks.hub.watch import Watchers
from benchmarks.measures.lists import write_runs
from benchmarks.outcome import aligned
from benchmarks.run_folders import PROJECT, seal, settle, write_run
from epochal.hub.documents import FOLDER
from epochal.journal.layout import RunFolder, run_folders
from epochal.journal.summaries import fold_and_write
from epochal.shipping.client import HubClient
from epochal.shipping.shipper import Shipper
from tests.servers.postgres import new_database, postgres_address
from tests.servers.s3 import s3_server

TURNS = 5
LIVE_RUNS, LIVE_LINES, LIVE_BATCH = 100, 400, 20
LISTED_RUNS, FEW_RUNS, LISTED_METRICS, LISTED_KEYS = 20_000, 1_000, 200, 40
SWEEP_RUNS, SWEEP_STEPS = 100, 20_000


@dataclass
class MeasuredHub:
    """A hub in a process of its own; ``servers`` are processes whose children count as well."""

    name: str
    url: str
    token: str
    process: psutil.Process
    servers: Sequence[psutil.Process] = ()
    catalog: str | None = None
    bucket: str | None = None

    def cpu_s(self) -> float:
        """CPU seconds of the hub and of its servers until now."""
        processes = [self.process, *self.servers]
        processes += [child for one in self.servers for child in one.children(recursive=True)]
        return sum(_cpu_s(one) for one in processes)

    def memory_mb(self) -> float:
        """Memory of the hub alone."""
        return float(self.process.memory_info().rss) / 1e6

    def client(self) -> HubClient:
        return HubClient(self.url, self.token, timeout_s=300)


def _cpu_s(process: psutil.Process) -> float:
    with contextlib.suppress(psutil.NoSuchProcess):
        times = process.cpu_times()
        return float(times.user + times.system + times.children_user + times.children_system)
    return 0.0


# -- hubs -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def served(
    name: str, options: Sequence[str], cache: Path, environment: Mapping[str, str] | None = None
) -> Iterator[MeasuredHub]:
    """A hub with a token, until the end of the block."""
    command = [sys.executable, "-m", "epochal", "hub", "serve", "--port", "0", *options]
    own = {"EPOCHAL_CACHE_DIR": str(cache), "PYTHONUNBUFFERED": "1", **(environment or {})}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, **own}
    ) as process:
        try:
            yield _started(name, process)
        finally:
            process.terminate()


def _started(name: str, process: subprocess.Popen[str]) -> MeasuredHub:
    url = token = ""
    assert process.stdout is not None
    for text in process.stdout:
        url = text.strip() if text.startswith("http://") else url
        token = text.strip() if text.startswith("ep_") else token
        if text.startswith("A token for a machine"):
            return MeasuredHub(name, url.rstrip("/"), token, psutil.Process(process.pid))
    raise AssertionError("the hub did not start")


@contextlib.contextmanager
def folder_hub(root: Path, scratch: Path) -> Iterator[MeasuredHub]:
    """A hub over a folder."""
    with served("folder", [str(root)], scratch / "cache") as hub:
        yield hub


@contextlib.contextmanager
def shared_hub(scratch: Path, *, is_s3: bool, root: Path | None = None) -> Iterator[MeasuredHub]:
    """A hub over PostgreSQL and a bucket, which has the runs of a folder."""
    import psycopg

    catalog = new_database(postgres_address())
    if root is not None:
        store_rows(catalog, root)
    with psycopg.connect(catalog) as connection:
        postmaster = psutil.Process(connection.info.backend_pid).parent()
    assert postmaster is not None
    with contextlib.ExitStack() as stack:
        bucket, environment = str(scratch / "bucket"), dict[str, str]()
        if is_s3:
            server = stack.enter_context(s3_server())
            bucket = server.make_bucket(f"b-{secrets.token_hex(4)}")
            environment = dict(server.environment)
        options = ["--catalog", catalog, "--bucket", bucket]
        hub = stack.enter_context(served("shared", options, scratch / "cache", environment))
        hub.servers, hub.catalog, hub.bucket = [postmaster], catalog, bucket
        yield hub


# -- what is measured -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Case:
    """Folders of runs that are sent, and a share of everything for a quick look."""

    data: Path
    share: int

    def run(self, name: str, *, steps: int, metrics: int) -> RunFolder:
        """A sealed run; it is made once."""
        root = self.data / f"{name}-{steps}-{metrics}"
        if not root.exists():
            making = root.with_suffix(".making")
            write_run(making, name, steps=steps, metrics=metrics)
            folder = RunFolder(making / PROJECT / name)
            assert fold_and_write(folder, most_bytes=1 << 40)
            settle(making)
            seal(making)
            assert fold_and_write(folder, most_bytes=1 << 40)
            making.rename(root)
        return RunFolder(root / PROJECT / name)


def cost_s(hub: MeasuredHub, work: Callable[[], object]) -> float:
    """CPU seconds that some work takes of a hub and its servers."""
    before = hub.cpu_s()
    work()
    return hub.cpu_s() - before


def ship(hub: MeasuredHub, folders: Sequence[RunFolder]) -> None:
    """Send runs, one after the other."""
    for folder in folders:
        with contextlib.closing(hub.client()) as client:
            shipper = Shipper(folder, client)
            while not shipper.ship():
                pass


def chart(hub: MeasuredHub, names: Sequence[str]) -> bytes:
    """What a chart of the loss of some runs asks for."""
    asked = [("name", "loss"), ("pixels", "1200"), *(("run", name) for name in names)]
    with contextlib.closing(hub.client()) as client:
        return client.request("GET", f"/api/series?{urlencode(asked)}")


def list_runs(hub: MeasuredHub, query: str = "") -> int:
    """What the page asks for to show the first runs of a list; how many the query selects."""
    with contextlib.closing(hub.client()) as client:
        path = f"/api/runs?{urlencode({'query': query, 'projects': 1})}"
        return int(client.get_json(path)["total"])


def warm_up(hub: MeasuredHub, case: Case) -> None:
    """Have a hub import what it needs later."""
    ship(hub, [case.run("warm", steps=2_000, metrics=1)])
    assert chart(hub, ["warm"])
    list_runs(hub)


def measure_sealed(hub: MeasuredHub, case: Case) -> Iterator[tuple[str, float]]:
    """Sealed parts taken in, and the first chart of each."""
    steps, many_steps = 1_000_000 // case.share, 10_000_000 // case.share
    wide = [case.run(f"wide-{number}", steps=steps, metrics=METRICS) for number in range(2)]
    spent_s = cost_s(hub, partial(ship, hub, wide))
    yield "sealed parts, points per CPU-s", len(wide) * steps * METRICS / spent_s
    charts = [cost_s(hub, partial(chart, hub, [one.path.name])) for one in wide]
    yield "first chart, 1M steps, CPU-s", statistics.mean(charts)
    long = case.run("long", steps=many_steps, metrics=1)
    ship(hub, [long])
    yield "first chart, 10M steps, CPU-s", cost_s(hub, partial(chart, hub, ["long"]))
    if hub.bucket is not None and not hub.bucket.startswith("s3:"):
        sizes = [one.stat().st_size for one in Path(hub.bucket).rglob("wide-*/segments/*loop*")]
        yield "sealed, bytes per point", sum(sizes) / (len(wide) * steps * METRICS)


def measure_sweep(hub: MeasuredHub, case: Case) -> Iterator[tuple[str, float]]:
    """One metric of many runs."""
    steps = SWEEP_STEPS // case.share
    runs = [case.run(f"sweep-{n:03d}", steps=steps, metrics=1) for n in range(SWEEP_RUNS)]
    yield "a sealed run of 20,000 steps sent, CPU-ms", 10 * cost_s(hub, partial(ship, hub, runs))
    names = [one.path.name for one in runs]
    yield "100 runs, one metric of 20,000 steps, CPU-s", cost_s(hub, partial(chart, hub, names))
    yield "the same again, CPU-s", cost_s(hub, partial(chart, hub, names))


def measure_lines(hub: MeasuredHub, case: Case) -> Iterator[tuple[str, float]]:
    """Lines as fast as one sender goes, and those of many live runs."""
    with tempfile.TemporaryDirectory() as place:
        folder = new_run(Path(place), 99_999)
        lines = 200_000 // case.share
        (folder.journal / "loop.0001.0000.jsonl").write_bytes(b"".join(map(line, range(lines))))
        spent_s = cost_s(hub, partial(ship, hub, [folder]))
        yield "lines of one sender, points per CPU-s", lines * METRICS / spent_s
    before = _stored_bytes(hub)
    spent_s = cost_s(hub, partial(_send_live, hub))
    points = LIVE_RUNS * LIVE_LINES * METRICS
    yield f"lines of {LIVE_RUNS} live runs, points per CPU-s", points / spent_s
    if before is not None:
        yield "live, bytes per point", ((_stored_bytes(hub) or 0) - before) / points


def _send_live(hub: MeasuredHub) -> None:
    """Some lines of each of many runs at about the same time, again and again."""
    bodies = [
        b"".join(map(line, range(first, first + LIVE_BATCH)))
        for first in range(0, LIVE_LINES, LIVE_BATCH)
    ]

    def send(number: int) -> None:
        run_id = f"live-{number:04d}"
        with contextlib.closing(hub.client()) as client:
            client.register(run_id, {"v": 1, "id": run_id, "name": run_id, "project": "live"})
            for batch, body in enumerate(bodies):
                client.append(run_id, "loop.0001.0000", first=batch * LIVE_BATCH, lines=body)

    with ThreadPoolExecutor(LIVE_RUNS) as pool:
        list(pool.map(send, range(LIVE_RUNS)))


def _stored_bytes(hub: MeasuredHub) -> int | None:
    """How many bytes the lines that are not sealed take in the database, their index included."""
    if hub.catalog is None:
        return None
    import psycopg

    text = "select sum(pg_total_relation_size(inhrelid))::int8 from pg_inherits"
    text += " where inhparent = 'epochal.lines'::regclass"
    with psycopg.connect(hub.catalog) as connection:
        row = connection.execute(text).fetchone()
    return None if row is None else int(row[0])


def measure_requests(hub: MeasuredHub, case: Case) -> Iterator[tuple[str, float]]:
    """What a live run sends besides lines."""
    folder = case.run("sweep-000", steps=SWEEP_STEPS // case.share, metrics=1)
    identity = msgspec.json.decode(folder.identity.read_bytes())
    summary = msgspec.json.decode(folder.summary.read_bytes())
    metrics = folder.metrics.read_bytes()
    readings = msgspec.json.encode(dict.fromkeys(map("gpu_{}".format, range(60)), 123.456))
    count = 300

    def each(send: Callable[[HubClient, int], object]) -> float:
        def work() -> None:
            with contextlib.closing(hub.client()) as client:
                for number in range(count):
                    send(client, number)

        return cost_s(hub, work) / count * 1000

    def register(client: HubClient, number: int) -> None:
        run_id = f"new-{number:05d}"
        client.register(run_id, {**identity, "id": run_id, "name": run_id})

    def put_summary(client: HubClient, number: int) -> None:
        run_id = f"new-{number % 10:05d}"
        row = {**summary, "id": run_id, "step": number, "positions": {}}
        assert client.put_summary(run_id, msgspec.json.encode(row))

    def put_metrics(client: HubClient, number: int) -> None:
        client.put_metrics(f"new-{number % 10:05d}", metrics)

    def put_readings(client: HubClient, number: int) -> None:
        body = readings.replace(b"123.456", str(number).encode())
        size, sha256 = len(body), hashlib.sha256(body).hexdigest()
        client.put_file(
            f"new-{number % 10:05d}", "live", "node.json", body, size=size, sha256=sha256
        )

    yield "registering a run, CPU-ms", each(register)
    yield "newest readings of a machine, CPU-ms", each(put_readings)
    yield "summary of a live run, CPU-ms", each(put_summary)
    yield "its metrics.json, CPU-ms", each(put_metrics)


def measure_page(hub: MeasuredHub, case: Case) -> Iterator[tuple[str, float]]:
    """A page that shows a live run: what each event costs, over lines that nobody watches."""
    count = 40

    def send(client: HubClient, first: int) -> None:
        for number in range(first, first + count):
            client.append("watched", "loop.0001.0000", first=number, lines=line(number))
            time.sleep(0.25)

    with contextlib.closing(hub.client()) as client:
        client.register("watched", {"v": 1, "id": "watched", "name": "watched", "project": "live"})
        summary = msgspec.json.decode(case.run("warm", steps=2_000, metrics=1).summary.read_bytes())
        kept = {name: summary[name] for name in summary if name not in ("ending", "positions")}
        now = {"id": "watched", "is_ended": False, "updated": time.time(), "identity": None}
        client.put_summary("watched", msgspec.json.encode({**kept, **now}))
        unwatched_s = cost_s(hub, partial(send, client, 0))
        watchers = Watchers(hub.url, hub.token, ["watched"])
        watched_s = cost_s(hub, partial(send, client, count))
        watchers.close()
    yield "a line of a live run, CPU-ms", unwatched_s / count * 1000
    yield "an event of its page, CPU-ms", (watched_s - unwatched_s) / count * 1000


QUERIES = {
    "list": "",
    "by config": "config.lr < 0.5",
    "by a headline metric": "summary.loss < 0.5",
    "by another metric": "metric_150 < 0.5",
}


def measure_lists(hub: MeasuredHub, count: int) -> Iterator[tuple[str, float]]:
    """Lists of a hub that knows its runs, and the memory it takes then."""
    assert list_runs(hub) == count
    for name, query in QUERIES.items():
        first_s = cost_s(hub, partial(list_runs, hub, query))
        if name == "by another metric":
            yield f"{count:,} runs, {name}, first, CPU-s", first_s
        again = [cost_s(hub, partial(list_runs, hub, query)) for _ in range(TURNS)]
        yield f"{count:,} runs, {name}, CPU-s", statistics.median(again)
    yield f"memory of a hub with {count:,} runs, MB", hub.memory_mb()


# -- many runs ------------------------------------------------------------------------------------


def many_runs(data: Path, count: int) -> Path:
    """Finished runs with summaries; they are made once."""
    root = data / f"many-{count}"
    if not root.exists():
        making = root.with_suffix(".making")
        write_runs(making, count, LISTED_METRICS, LISTED_KEYS)
        making.rename(root)
    shutil.rmtree(root / FOLDER, ignore_errors=True)  # of the hub that served it before
    return root


def store_rows(catalog: str, root: Path) -> None:
    """Put runs into the tables of a cluster, as their registration and summaries would."""
    import psycopg

    from epochal.store.cluster.database import Database

    with contextlib.closing(Database(catalog)) as database:
        database.prepare()
    with psycopg.connect(catalog) as connection, connection.cursor() as cursor:
        folders = list(run_folders(root))
        text = (
            "copy epochal.runs (id, project, slug, identity, summary, writer, changed) from stdin"
        )
        with cursor.copy(text) as copy:
            for number, folder in enumerate(folders, 1):
                name, summary = folder.path.name, folder.summary.read_bytes()
                identity = folder.identity.read_bytes()
                copy.write_row((name, PROJECT, name, identity, summary, "admin", number))
        with cursor.copy("copy epochal.metrics (run, data) from stdin") as copy:
            for folder in folders:
                copy.write_row((folder.path.name, folder.metrics.read_bytes()))
        cursor.execute("update epochal.counter set value = %s", (len(folders),))


# -- the table ------------------------------------------------------------------------------------

TARGETS = {
    "sealed parts, points per CPU-s": "10M",
    "lines of one sender, points per CPU-s": "1.5M",
    "first chart, 1M steps, CPU-s": "0.2",
    "first chart, 10M steps, CPU-s": "0.3",
    "100 runs, one metric of 20,000 steps, CPU-s": "0.6",
    "registering a run, CPU-ms": "4",
    "newest readings of a machine, CPU-ms": "1.5",
    "summary of a live run, CPU-ms": "1.5",
    **{f"{LISTED_RUNS:,} runs, {name}, CPU-s": "0.15" for name in QUERIES},
}
MEASURES = {
    "sealed": measure_sealed,
    "sweep": measure_sweep,
    "lines": measure_lines,
    "requests": measure_requests,
    "page": measure_page,
}


def number(value: float | None) -> str:
    """A figure of three digits."""
    if value is None:
        return ""
    return f"{value / 1e6:.3g}M" if value >= 1e5 else f"{value:.3g}"


def table(found: Mapping[str, Mapping[str, float]]) -> str:
    """A row for each figure, a column for each hub, and the targets."""
    hubs = list(found)
    names = dict.fromkeys(name for of_hub in found.values() for name in of_hub)
    rows = [["", *hubs, "target of a shared hub"]]
    rows += [
        [name, *(number(found[hub].get(name)) for hub in hubs), TARGETS.get(name, "")]
        for name in names
    ]
    return aligned(rows)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hub.targets")
    parser.add_argument("measures", nargs="*", help=", ".join((*MEASURES, "lists")))
    parser.add_argument("--data", type=Path, default=BENCH / "hub-targets")
    parser.add_argument("--share", type=int, default=1)
    parser.add_argument("--s3", action="store_true", help="with moto's S3 server")
    asked = parser.parse_args()
    case = Case(asked.data, asked.share)
    found: dict[str, dict[str, float]] = {"folder": {}, "shared": {}}
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        hubs = [
            stack.enter_context(folder_hub(Path(place, "one", "hub"), Path(place, "one"))),
            stack.enter_context(shared_hub(Path(place, "two"), is_s3=asked.s3)),
        ]
        for hub in hubs:
            warm_up(hub, case)
        for name in asked.measures or MEASURES:
            for hub in hubs if name in MEASURES else ():
                _note(found, hub, MEASURES[name](hub, case))
    if not asked.measures or "lists" in asked.measures:
        for count in (FEW_RUNS // case.share, LISTED_RUNS // case.share):
            _measure_lists(found, many_runs(asked.data, count), count)
    print(table(found))
    return 0


def _measure_lists(found: dict[str, dict[str, float]], root: Path, count: int) -> None:
    """Lists of two new hubs."""
    with tempfile.TemporaryDirectory() as place:
        with folder_hub(root, Path(place, "one")) as hub:
            _note(found, hub, measure_lists(hub, count))
        with shared_hub(Path(place, "two"), is_s3=False, root=root) as hub:
            _note(found, hub, measure_lists(hub, count))


def _note(
    found: dict[str, dict[str, float]], hub: MeasuredHub, figures: Iterable[tuple[str, float]]
) -> None:
    for name, value in figures:
        found[hub.name][name] = value
        print(f"{hub.name}: {name}: {number(value)}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
