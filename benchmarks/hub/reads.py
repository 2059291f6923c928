"""What reading costs a hub over ClickHouse, beside the local store on the same sealed runs.

``prepare DIR`` makes one run of 10M steps and a hundred of 10,000 steps and 90 scalars, 100M points
in all: sealed in a folder, and as lines in two ClickHouse servers. The hundred are one run and 99
copies of it. ``series DIR`` has a hub with an empty disk copy the long run and the first of the
hundred, gives it the others' segments, then measures charts. ``rows DIR`` makes 20,000 runs and
derives their rows, in pieces of ``--seconds``. ``list DIR`` measures a filtered list on a hub that
has nothing but the rows.

    for part in prepare series rows list; do python -m benchmarks.hub.reads $part /tmp/reads; done
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import math
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.hub.drill import STEM
from epochal.journal.layout import RunFolder, parse_part_name, read_json, write_json
from epochal.segments.seal import seal_part
from epochal.store.clickhouse.connection import parse_address
from epochal.store.clickhouse.copies import Copies
from epochal.store.clickhouse.schema import LINES
from epochal.store.clickhouse.store import ClickHouseStore
from epochal.store.clickhouse.tables import IDENTITY, SEALED, Tables
from epochal.store.clickhouse.transfer import encoded
from epochal.store.local.store import LocalStore
from tools.clickhouse_shards import Shards, fetch

PIXELS = 1200
_BLOCK = 50_000
_QUERY, _ORDER = "summary.loss < 0.5 and config.lr > 0.001", "summary.loss"
_ROUNDS = 7
_FIRST = "many000"


def lines(first: int, end: int, names: list[str], chance: random.Random) -> bytes:
    """Records with a value of six digits for each name."""
    form = '{"log":"metrics","t":%.3f,"step":%d,"m":{'
    form += ",".join(f'"{name}":%.6f' for name in names) + "}}\n"
    noise = chance.random
    return "".join(
        [form % (1.7e9 + step / 10, step, *[noise() for _ in names]) for step in range(first, end)]
    ).encode()


class Writer:
    """Writes runs to a folder, sealed, and to the tables."""

    def __init__(self, root: Path, tables: Tables) -> None:
        self._root, self._tables = root, tables
        self._chance = random.Random(0)

    def run(self, name: str, *, steps: int, names: list[str], **config: float) -> None:
        """One run that has ended."""
        folder = RunFolder(self._root / "reads" / name)
        folder.journal.mkdir(parents=True)
        identity = {"v": 1, "id": name, "name": name, "project": "reads", "created": 1.7e9}
        identity["config"] = config
        write_json(folder.identity, identity)
        self._tables.put_fact(name, IDENTITY, encoded(identity))
        blocks = self._blocks(name, steps, names)
        first = 0
        part = parse_part_name(f"{STEM}.jsonl", ".jsonl")
        assert part is not None
        with open(folder.part_path(part), "wb") as file:
            for block in blocks:
                file.write(block)
                self._tables.append(name, STEM, first=first, lines=block)
                first += block.count(b"\n")
        seal_part(folder, part)
        self._tables.put_fact(name, f"{SEALED}{STEM}", str(first))

    def _blocks(self, name: str, steps: int, names: list[str]) -> Iterator[bytes]:
        yield b'{"log":"run","t":1.7e9,"v":1,"id":"%s"}\n' % name.encode()
        for first in range(0, steps, _BLOCK):
            yield lines(first, min(first + _BLOCK, steps), names, self._chance)
        yield b'{"log":"finish","t":1.8e9,"status":"finished"}\n'


@contextlib.contextmanager
def servers(place: Path) -> Iterator[Tables]:
    """Both servers over what an earlier part left, and their tables."""
    fetch()
    shards = Shards(place / "shards")
    shards.start()
    try:
        with contextlib.closing(Tables(parse_address(shards.address("reads")), every_s=0)) as found:
            yield found
    finally:
        shards.stop()


def prepare(args: argparse.Namespace, place: Path) -> None:
    """Make the runs."""
    names = [f"m{number:02d}" for number in range(args.metrics - 1)]
    root = place / "runs"
    with servers(place) as tables:
        writer = Writer(root, tables)
        writer.run(_FIRST, steps=args.steps, names=["loss", *names])
        for number in range(1, args.runs):
            _copy_run(tables, root, f"many{number:03d}")
        print(f"{args.runs} runs of {args.steps:,} steps are made", flush=True)
        writer.run("long", steps=args.long, names=["loss"])


def _copy_run(tables: Tables, root: Path, name: str) -> None:
    """A run with the lines of the first of the hundred."""
    folder, first = RunFolder(root / "reads" / name), RunFolder(root / "reads" / _FIRST)
    identity = {**read_json(first.identity), "id": name, "name": name}
    shutil.copytree(first.path, folder.path)
    write_json(folder.identity, identity)
    tables.put_fact(name, IDENTITY, encoded(identity))
    (part,) = tables.parts(_FIRST)
    lines = tables.name(LINES)
    tables.ask(
        f"INSERT INTO {lines} (run, part, ordinal, line) SELECT '{name}', part, ordinal, line"
        f" FROM {lines} WHERE run = '{_FIRST}'"
    )
    tables.put_fact(name, f"{SEALED}{STEM}", str(part.lines))


def _cpu_s(call: Callable[[], object]) -> float:
    gc.collect()
    before = time.process_time()
    call()
    return time.process_time() - before


def _compare(what: str, local: Callable[[], object], cluster: Callable[[], object]) -> None:
    """Print the medians of rounds that take turns."""
    local(), cluster()
    pairs = [(_cpu_s(local), _cpu_s(cluster)) for _ in range(_ROUNDS)]
    here, there = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"{what}: local {here:.4f} s, ClickHouse {there:.4f} s of CPU: {there / here:.2f}x")


def series(args: argparse.Namespace, place: Path) -> None:
    """Copy the runs as a hub does when they are opened, then measure charts."""
    with servers(place) as tables:
        copies = Copies(tables, place / "copy")
        copies.fetch_changed()
        for run_id in (_FIRST, "long"):
            began_s, own_s = time.monotonic(), time.process_time()
            copies.hold(run_id)
            took_s, cpu_s = time.monotonic() - began_s, time.process_time() - own_s
            print(f"{run_id} copied in {took_s:.1f} s ({cpu_s:.1f} s of CPU here)", flush=True)
        sealed = RunFolder(place / "copy/reads" / _FIRST).segments
        for folder in (place / "copy/reads").glob("many*"):
            if not RunFolder(folder).segments.is_dir():
                shutil.copytree(sealed, RunFolder(folder).segments)
        copies = Copies(tables, place / "copy")
        copies.fetch_changed()
        roots = (place / "runs", place / "copy")

        def chart(store: LocalStore, *names: str) -> None:
            for name in names:
                store.run(name).series("loss").buckets(PIXELS)

        def fresh(number: int, *names: str) -> None:
            with _opened(number) as store:
                chart(store, *names)

        def _opened(number: int) -> LocalStore:
            if number == 0:
                return LocalStore(roots[0])
            return ClickHouseStore(copies, is_followed=True)

        many = [f"many{number:03d}" for number in range(args.runs)]
        for what, names in (("one series of 10M steps", ["long"]), ("100 runs x 1 metric", many)):
            _compare(
                f"{what}, read from the segment",
                lambda names=names: fresh(0, *names),  # type: ignore[misc]
                lambda names=names: fresh(1, *names),  # type: ignore[misc]
            )
            with _opened(0) as local, _opened(1) as cluster:
                _compare(
                    f"{what}, again",
                    lambda names=names: chart(local, *names),  # type: ignore[misc]
                    lambda names=names: chart(cluster, *names),  # type: ignore[misc]
                )


def derive_rows(args: argparse.Namespace, place: Path) -> None:
    """Make many runs, and derive their rows on the hub that has received them."""
    root, chance = place / "many", random.Random(0)
    for number in range(args.listed):
        folder = RunFolder(root / "list" / f"run{number:05d}")
        if folder.path.is_dir():
            continue
        folder.journal.mkdir(parents=True)
        config = {"lr": 10 ** chance.uniform(-5, -1), "width": number % 8}
        identity = {"v": 1, "id": folder.path.name, "name": folder.path.name, "project": "list"}
        write_json(folder.identity, {**identity, "created": 1.7e9 + number, "config": config})
        names = ["loss", "acc", "grad_norm"]
        data = b'{"log":"run","t":1.7e9,"v":1}\n' + lines(0, 20, names, chance)
        finish = b'{"log":"finish","t":1.7e9,"status":"finished"}\n'
        (folder.journal / f"{STEM}.jsonl").write_bytes(data + finish)
    with servers(place) as tables:
        if not tables.parts("run00000"):
            _send_small(tables, root)
        began_s = time.monotonic()
        receiving = Copies(tables, root)
        receiving.fetch_changed()
        with ClickHouseStore(receiving, is_followed=True) as store:
            for run_id in receiving.folders.all():
                receiving.want_row(run_id)
            num_derived = store.derive_rows(budget_s=args.seconds)
            num_left = sum(not receiving.is_current(one) for one in receiving.folders.all())
        took_s = time.monotonic() - began_s
        print(f"{num_derived:,} rows derived in {took_s:.1f} s, {num_left:,} are left", flush=True)


def list_runs(args: argparse.Namespace, place: Path) -> None:
    """List the runs on a hub with an empty disk, and filter them there and here."""
    root = place / "many"
    empty = Path(tempfile.mkdtemp(prefix="empty-", dir=place))
    with servers(place) as tables:
        began_s, own_s = time.monotonic(), time.process_time()
        copies = Copies(tables, empty)
        fetching = threading.Thread(target=copies.fetch_changed)
        fetching.start()
        num_first = _await_first(copies, empty / "list")
        first_s = time.monotonic() - began_s
        fetching.join()
        with ClickHouseStore(copies, empty / "list", is_followed=True) as there:
            known = there.known_runs()
            took_s, own_s = time.monotonic() - began_s, time.process_time() - own_s
            print(
                f"an empty disk lists {len(known.runs):,} runs ({known.pending:,} pending)"
                f" {took_s:.2f} s after its start, the first {num_first:,} after {first_s:.2f} s,"
                f" {own_s:.2f} s of CPU here; lines copied:"
                f" {sum(map(copies.is_held, copies.folders.all())):,}"
            )
            with LocalStore(root, cache=place / "cache") as before:
                while before.read_on(60.0)[1]:
                    pass
                for run in before.runs():
                    run.summary("loss")
            with LocalStore(root, cache=place / "cache") as here:
                found = [
                    [run.id for run in one.known_runs(_QUERY, order=_ORDER, budget_s=60).runs]
                    for one in (here, there)
                ]
                assert found[0] == found[1], "the answers differ"
                _compare(
                    f"{args.listed:,} runs filtered to {len(found[0]):,} and sorted",
                    lambda: here.known_runs(_QUERY, order=_ORDER),
                    lambda: there.known_runs(_QUERY, order=_ORDER),
                )
                _compare("the same after a look", here.refresh, there.refresh)


def _await_first(copies: Copies, folder: Path) -> int:
    """Wait until a page would show runs; how many these are."""
    while True:
        if folder.is_dir():
            with ClickHouseStore(copies, folder, is_followed=True) as store:
                num_found = len(store.known_runs().runs)
            if num_found:
                return num_found
        time.sleep(0.05)


def _send_small(tables: Tables, root: Path) -> None:
    """Store all small runs; many wait for one insert."""

    def send(folder: Path) -> None:
        data = (folder / "journal" / f"{STEM}.jsonl").read_bytes()
        tables.put_fact(folder.name, IDENTITY, (folder / "run.json").read_text())
        tables.append(folder.name, STEM, first=0, lines=data)

    with ThreadPoolExecutor(200) as pool:
        list(pool.map(send, sorted((root / "list").glob("run*"))))


def main() -> int:
    """Run one part."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hub.reads")
    parser.add_argument("what", choices=("prepare", "series", "rows", "list"))
    parser.add_argument("place", type=Path)
    parser.add_argument("--long", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--metrics", type=int, default=90)
    parser.add_argument("--listed", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=math.inf)
    args = parser.parse_args()
    parts = {"prepare": prepare, "series": series, "rows": derive_rows, "list": list_runs}
    parts[args.what](args, args.place.absolute())
    return 0


if __name__ == "__main__":
    sys.exit(main())
