"""Makes everything go wrong while runs are sent to a hub, then compares every line.

``python -m benchmarks.hub.drill --lines 1000000 --runs 20 --faults 40`` writes the journals of some
runs and sends them with shippers in processes of their own. Meanwhile, at random:

* ``kill``: the hub or a shipper is killed with SIGKILL;
* ``cut``: the network between them ends every connection, for some seconds;
* ``full``: the hub's disk, a small tmpfs, has no byte left, for some seconds;
* ``skew``: the hub starts again with a clock that is up to a week wrong;
* ``restore``: the hub starts again from a copy that is older;
* ``repeat``: lines are sent twice, late and in the wrong order, and by two shippers at once.

In the end each part on the hub must be the part that was sent: no line lost, none doubled.
"""

from __future__ import annotations

import argparse
import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.hub.faults import (
    Hub,
    RepeatingClient,
    SmallDisk,
    Wire,
    await_port,
    copy_runs,
    free_port,
    kill,
    replace_runs,
)
from epochal.journal.layout import PartName, RunFolder, write_json
from epochal.shipping.client import HubClient, HubError
from epochal.shipping.shipper import BandwidthLimit, Shipper

PART = PartName("loop", 1, 0)
STEM = PART.stem
FAULTS = ("kill", "cut", "full", "skew", "restore", "repeat")
WEEK_S = 7 * 86400.0


@dataclass(frozen=True)
class Outcome:
    """What a drill came to."""

    num_lines: int
    num_lost: int
    num_doubled: int
    seconds: float
    faults: Counter[str] = field(default_factory=Counter)


def write_run(root: Path, index: int, num_lines: int) -> RunFolder:
    """The folder of a run with a journal of so many lines, three metrics each."""
    run_id = f"drill{index:05d}"
    folder = RunFolder(root / "drill" / run_id)
    folder.journal.mkdir(parents=True)
    write_json(folder.identity, {"v": 1, "id": run_id, "name": run_id, "project": "drill"})
    head = f'{{"log":"run","t":1.0,"v":1,"id":"{run_id}","writer":"loop","attempt":1,"part":0}}\n'
    with open(folder.journal / f"{STEM}.jsonl", "w", encoding="utf-8") as out:
        out.write(head)
        out.writelines(
            f'{{"log":"metrics","t":{1 + step / 1000:.3f},"step":{step},'
            f'"m":{{"loss":{1 / (step + 1):.9f},"lr":0.001,"norm":{step % 97 / 97:.6f}}}}}\n'
            if step % 50
            else f'{{"log":"message","t":{1 + step / 1000:.3f},"text":"step {step}"}}\n'
            for step in range(num_lines - 1)
        )
    return folder


def ship(
    folder: Path, url: str, token: str, bytes_per_s: float | None, seed: int | None, over: Path
) -> None:
    """Send a run as its companion does, until nothing goes wrong any more and the hub has all."""
    client = HubClient(url, token, timeout_s=10)
    if seed is not None:
        client = RepeatingClient(url, token, chance=random.Random(seed))
    limit = BandwidthLimit(bytes_per_s)
    shipper = Shipper(RunFolder(folder), client, limit=limit)
    while True:
        is_over, is_complete = over.exists(), False
        if is_over:
            shipper.forget()
        try:
            is_complete = shipper.ship()
        except HubError:
            shipper.forget()
        if shipper.conflicts:
            sys.exit(f"{folder.name}: {shipper.conflicts}")
        if is_over and is_complete:
            return
        time.sleep(0.2)


class Drill:
    """A hub, its shippers, and what goes wrong between them."""

    def __init__(
        self, place: Path, *, faults: Sequence[str], disk_bytes: int, cut_s: float, seed: int
    ) -> None:
        self._cut_s = cut_s
        self._place = place
        self.faults = faults
        self.chance = random.Random(seed)
        self.counts: Counter[str] = Counter()
        self._queue: list[str] = []
        where = place / "hub"
        self._disk = SmallDisk(where, size=disk_bytes) if "full" in faults else None
        self.root = where if self._disk is None else self._disk.path
        where.mkdir(parents=True, exist_ok=True)
        self.hub = Hub(where, free_port(), disk=self._disk)
        self.token = self.hub.add_token("drill")
        self._wire = Wire(self.hub.port)
        self.url = f"http://127.0.0.1:{self._wire.port}"
        self._over = place / "over"
        self._shippers: dict[tuple[Path, int], multiprocessing.process.BaseProcess] = {}
        self._spawn = multiprocessing.get_context("spawn")
        self._copy: Path | None = None
        await_port(self.hub.port)

    def start_shipper(self, path: Path, number: int, bytes_per_s: float | None) -> None:
        """Start a process that sends a run."""
        seed = self.chance.randrange(1 << 30) if "repeat" in self.faults else None
        args = (path, self.url, self.token, bytes_per_s, seed, self._over)
        process = self._spawn.Process(target=ship, args=args)
        process.start()
        self._shippers[path, number] = process

    def watch(self, bytes_per_s: float | None) -> bool:
        """Start shippers again that were killed; whether any is left."""
        for (path, number), process in list(self._shippers.items()):
            if process.is_alive():
                continue
            process.join()
            del self._shippers[path, number]
            if process.exitcode == 1:
                raise AssertionError(f"the shipper of {path.name} gave up")
            if process.exitcode:
                self.start_shipper(path, number, bytes_per_s)
        return bool(self._shippers)

    def go_wrong(self) -> None:
        """Let one thing go wrong, and mend it."""
        if not self._queue:  # every fault once, then every fault again in another order
            self._queue = [one for one in self.faults if one != "repeat"]
            self.chance.shuffle(self._queue)
        fault = self._queue.pop()
        if fault == "kill" and self.chance.random() < 0.5:
            victim = self.chance.choice(list(self._shippers.values()))
            assert victim.pid is not None
            kill(victim.pid)
            fault = "kill shipper"
        elif fault == "cut":
            self._wire.cut()
            time.sleep(self.chance.uniform(self._cut_s / 8, self._cut_s))
            self._wire.is_cut = False
        elif fault == "full":
            assert self._disk is not None
            self._disk.fill()
            time.sleep(self.chance.uniform(1.0, 4.0))
            self._disk.free()
        else:
            self.hub.kill()
            if fault == "restore":
                fault = self._restore()
            skew_s = self.chance.uniform(-WEEK_S, WEEK_S) if fault == "skew" else 0.0
            self.hub.start(skew_s=skew_s)
            await_port(self.hub.port)
        self.counts[fault] += 1

    def _restore(self) -> str:
        """Go back to the copy, or make one if there is none that is older."""
        if self._copy is None:
            self._copy = self._place / "copy"
            copy_runs(self.root, self._copy)
            return "copy"
        replace_runs(self.root, self._copy)
        self._copy = None
        return "restore"

    def end(self, bytes_per_s: float | None) -> None:
        """Nothing goes wrong any more: return when the hub has everything."""
        self._over.touch()
        while self.watch(bytes_per_s):
            time.sleep(0.1)

    def close(self) -> None:
        """End every process."""
        for process in self._shippers.values():
            process.kill()
            process.join()
        self._wire.close()
        self.hub.kill()
        if self._disk is not None:
            self._disk.close()


def run_drill(
    place: Path,
    *,
    num_lines: int,
    num_runs: int,
    num_faults: int,
    faults: Sequence[str] = FAULTS,
    cut_s: float = 4.0,
    seed: int = 0,
    bytes_per_s: float | None = None,
) -> Outcome:
    """Write, send, break, compare; ``bytes_per_s`` limits each shipper, so that there is time.

    The network is cut for an eighth of ``cut_s`` to all of it.
    """
    per_run = num_lines // num_runs
    folders = [write_run(place / "runs", index, per_run) for index in range(num_runs)]
    size = sum(path.stat().st_size for path in (place / "runs").rglob("*.jsonl"))
    sent = [_lines(folder.part_path(PART)) for folder in folders]
    began_s = time.monotonic()
    drill = Drill(place, faults=faults, disk_bytes=size + (64 << 20), cut_s=cut_s, seed=seed)
    with closing(drill):
        for index, folder in enumerate(folders):
            # Some runs are sent twice at once, as by a companion and by a person.
            for number in range(2 if "repeat" in faults and index % 4 == 0 else 1):
                drill.start_shipper(folder.path, number, bytes_per_s)
        time.sleep(3.0)
        for _ in range(num_faults):
            time.sleep(drill.chance.uniform(0.3, 1.5))
            drill.watch(bytes_per_s)
            drill.go_wrong()
        drill.end(bytes_per_s)
        seconds = time.monotonic() - began_s
        lost = doubled = 0
        for folder, lines in zip(folders, sent, strict=True):
            there = drill.root / "drill" / folder.path.name / "journal" / f"{STEM}.jsonl"
            stored = _lines(there)
            lost += len(set(lines) - set(stored))
            doubled += len(stored) - len(set(stored))
            if lines != stored and not lost and not doubled:
                raise AssertionError(f"{folder.path.name} has its lines in another order")
    return Outcome(per_run * num_runs, lost, doubled, seconds, drill.counts)


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def main() -> int:
    """Run a drill and print what it came to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hub.drill")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--faults", type=int, default=40)
    parser.add_argument("--only", nargs="+", choices=FAULTS)
    parser.add_argument("--cut", type=float, default=4.0, help="longest cut in seconds")
    parser.add_argument("--rate", type=float, help="bytes a second of each shipper")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        outcome = run_drill(
            Path(place),
            num_lines=args.lines,
            num_runs=args.runs,
            num_faults=args.faults,
            faults=args.only or FAULTS,
            cut_s=args.cut,
            seed=args.seed,
            bytes_per_s=args.rate,
        )
    sys.stdout.write(f"{outcome}\n")
    return 1 if outcome.num_lost or outcome.num_doubled else 0


if __name__ == "__main__":
    sys.exit(main())
