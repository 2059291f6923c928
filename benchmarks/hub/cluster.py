"""What hubs over two ClickHouse servers take in, and what they keep when some are killed.

``python -m benchmarks.hub.cluster ingest`` prints points per second end to end, CPU and memory of
the hub, and bytes per point in the tables. ``python -m benchmarks.hub.cluster drill`` sends runs
through two hubs, lets something go wrong at random, then compares every line:

* ``hub`` and ``server``: one of them is killed, and started again;
* ``cut``: no hub reaches any server, for some seconds;
* ``full``: the disk of a server, a small tmpfs, has no byte left, for some seconds;
* ``skew``: a hub starts again with a clock that is up to a week wrong.

``python -m benchmarks.hub.cluster bytes [--engine chdb]`` prints bytes per point by kind of values.

``… drill --engine chdb`` has one hub with the engine in its process: killing it kills both.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy
import psutil

from benchmarks.hub.drill import STEM, WEEK_S
from benchmarks.hub.faults import HUB, SmallDisk, Wire, await_port, free_port
from benchmarks.hub.ingest import METRICS, line, measure_live, measure_stream, new_run
from epochal.hub.ledger import Ledger
from epochal.journal.layout import RunFolder
from epochal.journal.line import encode_json
from epochal.shipping.client import HubClient, HubError
from epochal.shipping.offering import PartCounts
from epochal.shipping.shipper import BandwidthLimit, Shipper
from epochal.store.clickhouse.connection import parse_address
from epochal.store.clickhouse.tables import Tables
from tools.clickhouse_shards import Shards, fetch

_TABLES = ("lines", "parts", "runs")
_BLOCK = 5000
_SIZE = "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = '{database}'"
_SIZE += " FORMAT TabSeparatedRaw"
FAULTS = ("hub", "server", "cut", "full", "skew")


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

    def start(self, *, skew_s: float = 0.0) -> None:
        """Start it, with a clock that is so much ahead; requests are refused until it listens."""
        command = (sys.executable, "-c", HUB, str(self.root), str(self.port), str(skew_s))
        self._process = subprocess.Popen(
            [*command, "--store", self._store], stdout=subprocess.DEVNULL
        )

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def cluster(place: Path, disk: SmallDisk | None = None) -> Iterator[tuple[Shards, str]]:
    """Two servers, and the address of a store in them; the first may have a disk of its own."""
    fetch()
    shards = Shards(place / "shards")
    if disk is not None:
        shards.within[0] = disk.within
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


def _training(step: int, chance: random.Random) -> list[float]:
    """What a small training logs: float32 values, a schedule, times, counts."""
    loss = float(numpy.float32(1.5 + 2 / (1 + step / 500) + chance.gauss(0, 0.05)))
    lr = 1.5e-4 * (1 + math.cos(math.pi * step / 60_000))
    norm, total = (float(numpy.float32(chance.gauss(mean, 0.1))) for mean in (1.0, 50.0))
    seconds = 0.4 + abs(chance.gauss(0, 0.01))
    memory = 8_123_456_789 + 4096 * (step // 1000)
    return [loss, lr, norm, total, lr * norm / total, 8192 / seconds, seconds, memory, loss / 10, 0]


KINDS: dict[str, Callable[[int, random.Random], list[float]]] = {
    "float64": lambda step, chance: [2.5 + chance.gauss(0, 0.1) for _ in range(METRICS)],
    "float32": lambda step, chance: [
        float(numpy.float32(2.5 + chance.gauss(0, 0.1))) for _ in range(METRICS)
    ],
    "9 digits": lambda step, chance: [round(2.5 + chance.gauss(0, 0.1), 9) for _ in range(METRICS)],
    "training": _training,
}


def measure_bytes(args: argparse.Namespace, place: Path) -> None:
    """How large lines are in the tables, by the kind of their values."""
    with contextlib.ExitStack() as stack:
        if args.engine == "servers":
            shards, _ = stack.enter_context(cluster(place))
        for number, (kind, values) in enumerate(KINDS.items()):
            chance, name = random.Random(0), f"bytes{number}"
            engine = f"chdb://{place / 'engine'}?database={name}"
            address = parse_address(engine if args.engine == "chdb" else shards.address(name))
            with contextlib.closing(Tables(address, every_s=0.0)) as tables:
                for first in range(0, args.lines, _BLOCK):
                    lines = [_line(n, values(n, chance)) for n in range(first, first + _BLOCK)]
                    tables.append("one", STEM, first=first, lines=b"".join(lines))
                tables.optimize()
                size = sum(
                    int(server.query(_SIZE.format(database=name)) or 0)
                    for server in tables._each_server()
                )
            print(f"{args.engine}, {kind}: {size / args.lines / METRICS:.2f} bytes/point")


def _line(step: int, values: list[float]) -> bytes:
    head = {"log": "metrics", "t": round(1.7e9 + step / 10, 3), "step": step}
    named = {f"train/metric_{number}": value for number, value in enumerate(values)}
    return encode_json({**head, "m": named}) + b"\n"


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


class Troubles:
    """Two hubs and two servers, and what goes wrong with them; each call is one fault."""

    def __init__(self, place: Path, shards: Shards, disk: SmallDisk | None, seed: int) -> None:
        self._shards, self._disk, self._chance = shards, disk, random.Random(seed)
        self._wires = [Wire(port) for port in shards.http_ports]
        store = shards.address("bench", ports=[wire.port for wire in self._wires])
        self.hubs = [ClusterHub(place / f"hub{number}", store) for number in range(2)]
        for hub in self.hubs:
            await_port(hub.port)

    def happen(self, fault: str) -> None:
        """Let something go wrong for some seconds."""
        number = self._chance.randrange(2)
        if fault == "server":
            self._shards.kill_one(number)
            self._wait()
            self._shards.start_one(number)
        elif fault == "cut":
            for wire in self._wires:
                wire.cut()
            self._wait()
            for wire in self._wires:
                wire.is_cut = False
        elif fault == "full":
            assert self._disk is not None
            self._disk.fill()
            self._wait()
            self._disk.free()
        else:
            self.hubs[number].kill()
            self._wait()
            skew_s = self._chance.uniform(-WEEK_S, WEEK_S) if fault == "skew" else 0.0
            self.hubs[number].start(skew_s=skew_s)

    def _wait(self) -> None:
        time.sleep(self._chance.uniform(0.2, 4.0))

    def close(self) -> None:
        """End the hubs and the wires."""
        for hub in self.hubs:
            hub.kill()
        for wire in self._wires:
            wire.close()


class EngineTroubles:
    """One hub with the engine in its process; each call kills both."""

    def __init__(self, place: Path, store: str, seed: int) -> None:
        self._chance = random.Random(seed)
        self.hubs = [ClusterHub(place / "hub", store)]
        await_port(self.hubs[0].port)

    def happen(self, fault: str) -> None:
        """Kill the hub and start it again, for ``skew`` with another clock."""
        self.hubs[0].kill()
        skew_s = self._chance.uniform(-WEEK_S, WEEK_S) if fault == "skew" else 0.0
        self.hubs[0].start(skew_s=skew_s)
        await_port(self.hubs[0].port)

    def close(self) -> None:
        """End the hub."""
        self.hubs[0].kill()


def drill(args: argparse.Namespace, place: Path) -> int:
    """Send runs through hubs while something goes wrong again and again."""
    chance = random.Random(args.seed)
    faults: Counter[str] = Counter()
    data_folder = place / "shards/shard1/data"
    disk = SmallDisk(data_folder, size=args.disk_mb << 20) if "full" in args.only else None
    with contextlib.ExitStack() as stack:
        if disk is not None:
            stack.callback(disk.close)
        troubles: Troubles | EngineTroubles
        if args.engine == "chdb":
            store = f"chdb://{place / 'engine'}"
            troubles = EngineTroubles(place, store, args.seed)
        else:
            shards, store = stack.enter_context(cluster(place, disk))
            troubles = Troubles(place, shards, disk, args.seed)
        with contextlib.closing(troubles):
            folders = [new_run(place / "runs", index) for index in range(args.runs)]
            per_run = args.lines // args.runs
            for folder in folders:
                data = b"".join(line(step) for step in range(per_run))
                (folder.journal / f"{STEM}.jsonl").write_bytes(data)
            rate = len(data) / args.seconds
            senders = [Sender(f, troubles.hubs, args.seed + n, rate) for n, f in enumerate(folders)]
            began_s = time.monotonic()
            for sender in senders:
                sender.start()
            while any(sender.is_alive() for sender in senders):
                time.sleep(chance.uniform(1.0, 4.0))
                if faults.total() < args.faults:
                    fault = args.only[faults.total() % len(args.only)]
                    faults[fault] += 1
                    troubles.happen(fault)
            took_s = time.monotonic() - began_s
        lost, doubled, stored_twice = _compare(folders, store)
    print(
        f"{args.lines:,} lines of {args.runs} runs in {took_s:.0f} s:"
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
    parser.add_argument("what", choices=("ingest", "bytes", "drill"))
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--shippers", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--disk-mb", type=int, default=1024)
    parser.add_argument("--only", nargs="+", choices=FAULTS, default=list(FAULTS))
    parser.add_argument("--engine", choices=("servers", "chdb"), default="servers")
    args = parser.parse_args()
    if args.engine == "chdb":
        args.only = [fault for fault in args.only if fault in ("hub", "skew")]
    with tempfile.TemporaryDirectory() as place:
        if args.what == "ingest":
            ingest(args, Path(place))
            return 0
        if args.what == "bytes":
            measure_bytes(args, Path(place))
            return 0
        return drill(args, Path(place))


if __name__ == "__main__":
    sys.exit(main())
