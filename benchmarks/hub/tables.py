"""What a hub over two ClickHouse servers costs: taking runs in, charts, lists, one metric of many.

``python -m benchmarks.hub.tables`` starts two servers on this machine and prints a table. CPU
seconds are those of this process, which does what a hub does, and of both servers together. A first
chart is of a store that has never seen the run; nothing is read before it.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from epochal.hub.clickhouse_inbox import ClickHouseInbox
from epochal.store.clickhouse.connection import HttpServer
from epochal.store.clickhouse.store import ClickHouseStore
from epochal.store.clickhouse.tables import Database
from tools.clickhouse_shards import Shards, fetch

STEM = "loop.0001.0000"
PIXELS = 1200
_BATCH_BYTES = 1 << 20  # as senders send them
_LINE_BYTES = {1: 62, 10: 150}
_QUERY = "config.lr > 0.009 and summary.loss < 0.5"


class Costs:
    """CPU and time of this process and of both servers."""

    def __init__(self, shards: Shards) -> None:
        self._processes = [psutil.Process(), *map(psutil.Process, shards.pids())]

    def _now(self) -> tuple[float, float]:
        times = [process.cpu_times() for process in self._processes]
        return sum(one.user + one.system for one in times), time.monotonic()

    @contextlib.contextmanager
    def of(
        self, what: str, note: Callable[[float, float], str] = lambda _c, _s: ""
    ) -> Iterator[None]:
        """Print what happens within it costs."""
        cpu_s, began_s = self._now()
        yield
        cpu_s, took_s = (
            after - before for after, before in zip(self._now(), (cpu_s, began_s), strict=True)
        )
        print(
            f"| {what} | {cpu_s:.2f} CPU-s | {took_s:.2f} s | {note(cpu_s, took_s)} |", flush=True
        )


def lines(first: int, end: int, names: int, chance: random.Random) -> bytes:
    """Records with a value of six digits for each name."""
    form = '{"log":"metrics","t":%.3f,"step":%d,"m":{'
    form += ",".join(['"loss":%.6f', *(f'"m{i}":%.6f' for i in range(1, names))]) + "}}\n"
    noise = chance.random
    return "".join(
        [
            form % (1.7e9 + step / 10, step, *[noise() for _ in range(names)])
            for step in range(first, end)
        ]
    ).encode()


def send(inbox: ClickHouseInbox, run_id: str, blocks: list[bytes], **config: float) -> None:
    """Send one run."""
    identity = {"v": 1, "id": run_id, "name": run_id, "project": "bench", "created": 1.7e9}
    inbox.register(run_id, {**identity, "config": config})
    have = 0
    for block in blocks:
        have = inbox.append(run_id, STEM, first=have, lines=block)


def settle(database: Database) -> None:
    """Wait for the merges that the servers do in the background: they are part of the costs."""
    for host in database.address.hosts:
        with contextlib.closing(HttpServer(database.address, [host])) as server:
            while int(server.query("SELECT count() FROM system.merges FORMAT TabSeparatedRaw")):
                time.sleep(0.1)


def sizes(database: Database) -> dict[str, tuple[int, int]]:
    """Bytes and rows of each table on all servers."""
    found: dict[str, tuple[int, int]] = {}
    for host in database.address.hosts:
        with contextlib.closing(HttpServer(database.address, [host])) as server:
            answer = server.query(
                "SELECT table, sum(bytes), sum(rows) FROM system.parts WHERE active"
                f" AND database = '{database.address.database}' GROUP BY table FORMAT TabSeparated"
            )
        for table, *numbers in (line.split("\t") for line in answer.decode().splitlines()):
            had = found.get(table, (0, 0))
            found[table] = had[0] + int(numbers[0]), had[1] + int(numbers[1])
    return found


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=20_000, help="small runs of the list")
    args = parser.parse_args()
    fetch()
    chance = random.Random(0)
    with tempfile.TemporaryDirectory(prefix="epochal-tables-") as folder:
        shards = Shards(Path(folder))
        shards.start()
        try:
            measure(Database(shards.address("bench")), Costs(shards), args.runs, chance)
        finally:
            shards.stop()


def measure(database: Database, costs: Costs, num_runs: int, chance: random.Random) -> None:
    """Take everything in, then ask."""
    inbox = ClickHouseInbox(database)
    print("| what | hub and servers | time | |\n|---|---:|---:|---|")
    for name, steps, names in (
        ("ten", 200_000, 10),
        ("long", 1_000_000, 1),
        ("longer", 10_000_000, 1),
    ):
        size, points = _BATCH_BYTES // _LINE_BYTES[names], steps * names

        def rate(cpu_s: float, _took_s: float, points: int = points) -> str:
            return f"{points / cpu_s / 1e6:.2f}M points per CPU-s"

        starts = range(0, steps, size)
        made = [lines(one, min(one + size, steps), names, chance) for one in starts]
        with costs.of(f"take in {steps:,} steps of {names} metrics", rate):
            send(inbox, name, made)
            settle(database)
    before = sizes(database)
    used, rows = before["points_local"][0] + before["records_local"][0], before["points_local"][1]
    print(f"| disk of points and records | {used / rows:.1f} B per point | | |")
    for name in ("ten", "long", "longer"):
        for _ in range(2):
            with costs.of(f"first chart of {name}"):
                ClickHouseStore(database).run(name).series("loss").buckets(PIXELS)
        with costs.of(f"row of {name}, all summaries"):
            ClickHouseStore(database).run(name).summary("loss")
    hundred = [f"sweep{number:03}" for number in range(100)]
    for run_id in hundred:
        send(inbox, run_id, [lines(0, 20_000, 1, chance)])
    settle(database)
    with costs.of("one metric of 100 runs of 20,000 steps"):
        store = ClickHouseStore(database)
        for run_id in hundred:
            found = store.find(run_id)
            assert found is not None
            assert len(found.series("loss").buckets(PIXELS))

    def small(number: int) -> None:
        send(inbox, f"small{number:05}", [lines(0, 3, 1, chance)], lr=number / num_runs)

    pool, what = ThreadPoolExecutor(16), f"take in {num_runs:,} runs of 3 steps from 16 senders"
    with costs.of(what), pool:
        list(pool.map(small, range(num_runs)))
    store = ClickHouseStore(database)
    with costs.of(f"make the rows of {num_runs:,} runs, once for all hubs"):
        while store.read_on(5.0)[1]:
            pass
    store.close()
    for _ in range(2):
        with costs.of("list the runs that a query selects, at a hub that starts"):
            num_found = len(ClickHouseStore(database).runs(_QUERY))
    print(f"| selected | {num_found:,} runs | | |")
    fresh = ClickHouseStore(database)
    fresh.runs(limit=1)
    with costs.of("the same at a hub that runs"):
        fresh.refresh()
        fresh.runs(_QUERY)
    inbox.close()


if __name__ == "__main__":
    main()
