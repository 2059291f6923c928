"""What hubs over two ClickHouse servers take in, and what they keep when some are killed.

``python -m benchmarks.hub.cluster ingest`` prints points per second end to end, CPU and memory of
the hub, and bytes per point in the tables. ``python -m benchmarks.hub.cluster drill`` sends runs
through two hubs, kills a hub or a server at random, then compares every line.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil

from benchmarks.hub.drill import STEM
from benchmarks.hub.faults import await_port, free_port
from benchmarks.hub.ingest import METRICS, line, measure_live, measure_stream, new_run
from epochal.hub.ledger import Ledger
from epochal.journal.layout import RunFolder
from epochal.shipping.client import HubClient, HubError
from epochal.shipping.offering import PartCounts
from epochal.shipping.shipper import BandwidthLimit, Shipper
from epochal.store.clickhouse.connection import parse_address
from epochal.store.clickhouse.tables import Tables
from tools.clickhouse_shards import Shards, fetch

_TABLES = ("lines", "parts")


class ClusterHub:
    """``epochal hub`` over the cluster, with a working copy of its own."""

    def __init__(self, root: Path, store: str) -> None:
        self.root, self._store, self.port = root, store, free_port()
        with contextlib.closing(Ledger(root)) as ledger:
            self.token = ledger.add_token("load", "write")
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def process(self) -> psutil.Process:
        """Its process."""
        assert self._process is not None
        return psutil.Process(self._process.pid)

    def start(self) -> None:
        """Start it; returns when it listens."""
        command = (sys.executable, "-m", "epochal", "hub", str(self.root), "--store", self._store)
        self._process = subprocess.Popen(
            [*command, "--port", str(self.port)], stdout=subprocess.DEVNULL
        )

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def cluster(place: Path) -> Iterator[tuple[Shards, str]]:
    """Two servers, and the address of a store in them."""
    fetch()
    shards = Shards(place / "shards")
    shards.start()
    try:
        yield shards, shards.address("bench")
    finally:
        shards.stop()


def ingest(args: argparse.Namespace, place: Path) -> None:
    """One stream, many live runs, and how large they are."""
    with cluster(place) as (shards, store):
        hub = ClusterHub(place / "hub", store)
        await_port(hub.port)
        client = HubClient(hub.url, hub.token)
        try:
            print(measure_stream(hub.process, client, place / "runs", args.lines), flush=True)
            memory = hub.process.memory_info().rss / 2**20
            print(f"hub: {memory:.0f} MiB", flush=True)
            _print_sizes(shards, store, args.lines)
            if args.shippers:
                print(
                    measure_live(
                        hub.process,
                        hub.url,
                        hub.token,
                        place / "runs",
                        num_shippers=args.shippers,
                        seconds=args.seconds,
                        # Each waits for its rows; companions wait in processes of their own.
                        num_threads=min(args.shippers, 125),
                        registered_s=30.0,
                    )
                )
        finally:
            client.close()
            hub.kill()


def _print_sizes(shards: Shards, store: str, num_lines: int) -> None:
    with contextlib.closing(Tables(parse_address(store))) as tables:
        tables.optimize()
    total = sum(shards.bytes_of("bench", f"{table}_local") for table in _TABLES)
    points = num_lines * METRICS
    print(f"tables: {total / points:.2f} bytes/point", flush=True)


class Sender(threading.Thread):
    """Ships one run through any hub that answers, until everything is acknowledged."""

    def __init__(self, folder: RunFolder, hubs: list[ClusterHub], seed: int, rate: float) -> None:
        super().__init__(daemon=True)
        self._folder, self._hubs, self._random = folder, hubs, random.Random(seed)
        self._rate = rate

    def run(self) -> None:
        """Send; after an error, through another hub."""
        limit = BandwidthLimit(self._rate)
        while True:
            hub = self._random.choice(self._hubs)
            with contextlib.closing(HubClient(hub.url, hub.token, timeout_s=30)) as client:
                shipper = Shipper(self._folder, client, limit=limit)
                try:
                    for _ in range(self._random.randrange(2, 20)):
                        if shipper.ship():
                            return
                except HubError:
                    time.sleep(self._random.uniform(0.1, 0.5))


def drill(args: argparse.Namespace, place: Path) -> int:
    """Send runs through two hubs while something is killed again and again."""
    chance = random.Random(args.seed)
    faults: Counter[str] = Counter()
    with cluster(place) as (shards, store):
        hubs = [ClusterHub(place / f"hub{number}", store) for number in range(2)]
        for hub in hubs:
            await_port(hub.port)
        folders = [new_run(place / "runs", index) for index in range(args.runs)]
        per_run = args.lines // args.runs
        for folder in folders:
            data = b"".join(line(step) for step in range(per_run))
            (folder.journal / f"{STEM}.jsonl").write_bytes(data)
        rate = len(data) / args.seconds
        senders = [Sender(f, hubs, args.seed + n, rate) for n, f in enumerate(folders)]
        began_s = time.monotonic()
        for sender in senders:
            sender.start()
        while any(sender.is_alive() for sender in senders):
            time.sleep(chance.uniform(1.0, 4.0))
            if faults.total() >= args.faults:
                continue
            number = chance.randrange(2)
            if chance.random() < 0.5:
                faults["server killed"] += 1
                shards.kill_one(number)
                time.sleep(chance.uniform(0.2, 2.0))
                shards.start_one(number)
            else:
                faults["hub killed"] += 1
                hubs[number].kill()
                time.sleep(chance.uniform(0.2, 2.0))
                hubs[number].start()
        took_s = time.monotonic() - began_s
        for hub in hubs:
            hub.kill()
        lost, doubled, stored_twice = _compare(folders, store)
    print(
        f"{args.lines:,} lines of {args.runs} runs through two hubs in {took_s:.0f} s:"
        f" {lost:,} lost, {doubled:,} doubled ({stored_twice:,} rows stored twice, read once);"
        f" {dict(faults)}"
    )
    return 1 if lost or doubled else 0


def _compare(folders: list[RunFolder], store: str) -> tuple[int, int, int]:
    """Lines that are not read again, that are read twice, and rows that were inserted twice."""
    lost = doubled = 0
    counts = PartCounts()
    with contextlib.closing(Tables(parse_address(store))) as tables:
        for folder in folders:
            path = folder.journal / f"{STEM}.jsonl"
            have, _ = counts.whole(path)
            run_id = folder.path.name
            stored = {part.part: part.lines for part in tables.parts(run_id)}.get(STEM, 0)
            found = b"".join(tables.lines(run_id, STEM, first=0, end=stored)).splitlines()
            sent = path.read_bytes().splitlines()
            lost += len(Counter(sent) - Counter(found)) + max(0, have - stored)
            doubled += len(Counter(found) - Counter(sent))
        rows = tables.num_rows()
    return lost, doubled, rows - sum(counts.whole(f.journal / f"{STEM}.jsonl")[0] for f in folders)


def main() -> int:
    """Measure, or drill."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hub.cluster")
    parser.add_argument("what", choices=("ingest", "drill"))
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--shippers", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        if args.what == "ingest":
            ingest(args, Path(place))
            return 0
        return drill(args, Path(place))


if __name__ == "__main__":
    sys.exit(main())
