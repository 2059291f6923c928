"""A hundred live runs on two hubs for twenty minutes: what it costs, and how old values are.

``python -m tests.drills.soak --minutes 20`` sends runs with the shippers that companions use, half
of them to each hub. One thread of this program writes the journals, and the others send them. Two
more measure: *logged* is the age of a value when the other hub first shows it, *sent* that of a
value whose request begins at once.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
import psutil

from epochal.journal.layout import PartName, RunFolder, write_json
from epochal.shipping.client import HubClient, HubError
from epochal.shipping.shipper import Shipper
from epochal.shipping.worker import rest_after
from tests.drills.hubs import DrillHubs, check_installed, drill_hubs
from tests.servers.processes import cpu_s

METRICS = ("loss", "lr", "norm", "a", "b", "c", "d", "e", "f", "g")
LINES_PER_S = 10
PART = PartName("loop", 1, 0)
_POLL_S = 0.05
_MEASURE_S = 5.0
Used: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]
# Memory grows at first, while caches fill.
_WARM_SHARE = 0.25


@dataclass
class Soak:
    """What was measured so far: ages in seconds, and memory with the moment."""

    hubs: DrillHubs
    folders: Sequence[RunFolder]
    stopping: threading.Event = field(default_factory=threading.Event)
    logged_s: list[float] = field(default_factory=list)
    sent_s: list[float] = field(default_factory=list)
    memory: list[tuple[float, ...]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    num_lines: int = 0
    num_verified: int = 0

    def url(self, index: int) -> str:
        return self.hubs.urls[index % 2]

    @contextlib.contextmanager
    def client(self, index: int) -> Iterator[HubClient]:
        with contextlib.closing(HubClient(self.url(index), self.hubs.token)) as client:
            yield client

    # -- sending ----------------------------------------------------------------------------------

    def write(self) -> None:
        """Append a line to every journal, so many times a second."""
        with contextlib.ExitStack() as stack:
            paths = [folder.part_path(PART) for folder in self.folders]
            files = [stack.enter_context(open(path, "ab", 0)) for path in paths]
            step, began_s = 0, time.monotonic()
            while not self.stopping.wait(max(0.0, began_s + step / LINES_PER_S - time.monotonic())):
                for file in files:
                    file.write(_line(step))
                step += 1
            self.num_lines = step * len(files)

    def ship(self, index: int) -> None:
        """Send a run as its companion does."""
        self.stopping.wait(random.uniform(0.0, 1.0))
        with self.client(index) as client:
            shipper = Shipper(self.folders[index], client)
            while not self.stopping.is_set():
                began_s = time.monotonic()
                try:
                    shipper.ship()
                except HubError as error:
                    self.errors.append(str(error))
                    shipper.forget()
                self.stopping.wait(rest_after(time.monotonic() - began_s))
            self._end(shipper)

    def _end(self, shipper: Shipper) -> None:
        """Send the rest, and have the hub say that it has everything."""
        while not shipper.ship():
            time.sleep(0.2)
        shipper.verify()
        self.num_verified += 1

    # -- measuring --------------------------------------------------------------------------------

    def measure_logged(self) -> None:
        """Wait at the other hub for new lines of a run, again and again."""
        chance = random.Random(1)
        while not self.stopping.wait(_POLL_S):
            index = chance.randrange(len(self.folders))
            # A run that has not come yet has no part.
            with contextlib.suppress(HubError, LookupError), self.client(index + 1) as client:
                run_id = self.folders[index].path.name
                first = client.state(run_id).parts[PART.stem].lines
                if lines := self._await(client, run_id, PART.stem, first):
                    now = time.time()
                    self.logged_s += [now - json.loads(one)["t"] for one in lines.splitlines()]

    def measure_sent(self) -> None:
        """Send a line to a hub, and wait for it at the other one."""
        run_id, stem, first = "probe", PART.stem, 0
        with self.client(0) as here, self.client(1) as there:
            here.register(run_id, _identity(run_id))
            here.append(run_id, stem, first=first, lines=_header(run_id))
            while not self.stopping.wait(_POLL_S):
                first, t = first + 1, time.time()
                seen: list[float] = []
                waiting = threading.Thread(target=self._note, args=(run_id, stem, first, seen))
                waiting.start()
                here.append(run_id, stem, first=first, lines=_line(first))
                waiting.join()
                self.sent_s += [one - t for one in seen]
                here, there = there, here

    def _note(self, run_id: str, stem: str, first: int, seen: list[float]) -> None:
        with self.client(first) as client:
            if self._await(client, run_id, stem, first):
                seen.append(time.time())

    def _await(self, client: HubClient, run_id: str, stem: str, first: int) -> bytes:
        """The lines from one on, as soon as a hub shows them."""
        while not self.stopping.is_set():
            if lines := client.lines(run_id, stem, first=first):
                return lines
            time.sleep(_POLL_S)
        return b""

    def measure_memory(self) -> None:
        while not self.stopping.wait(_MEASURE_S):
            sizes = [psutil.Process(pid).memory_info().rss / 1e6 for pid in self.hub_pids()]
            self.memory.append((time.monotonic(), *sizes))

    def hub_pids(self) -> list[int]:
        return [hub.process.pid for hub in self.hubs.hubs if hub.process is not None]


def _identity(run_id: str) -> dict[str, object]:
    return {"v": 1, "id": run_id, "name": run_id, "project": "soak", "created": time.time()}


def _header(run_id: str) -> bytes:
    head = {"log": "run", "t": time.time(), "v": 1, "id": run_id, "writer": "loop"}
    return json.dumps({**head, "attempt": 1, "part": 0}).encode() + b"\n"


def _line(step: int) -> bytes:
    values = {name: step * 0.37 + place for place, name in enumerate(METRICS)}
    record = {"log": "metrics", "t": round(time.time(), 3), "step": step, "m": values}
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def make_run(root: Path, index: int) -> RunFolder:
    """The folder of a run that has just begun."""
    run_id = f"soak-{index:03d}"
    folder = RunFolder(root / "soak" / run_id)
    folder.journal.mkdir(parents=True)
    write_json(folder.identity, _identity(run_id))
    folder.part_path(PART).write_bytes(_header(run_id))
    return folder


def run_soak(place: Path, *, minutes: float, num_runs: int) -> None:
    """Send for so long, and print what it took."""
    with drill_hubs(place) as hubs:
        folders = [make_run(place / "runs", index) for index in range(num_runs)]
        soak = Soak(hubs, folders)
        works: list[Callable[[], None]] = [soak.write, soak.measure_logged, soak.measure_sent]
        works.append(soak.measure_memory)
        threads = [threading.Thread(target=work, daemon=True) for work in works]
        threads += [
            threading.Thread(target=soak.ship, args=(one,), daemon=True) for one in range(num_runs)
        ]
        before, before_s = _used(soak), time.monotonic()
        for thread in threads:
            thread.start()
        try:
            time.sleep(60 * minutes)
            used, seconds = _used(soak) - before, time.monotonic() - before_s
        finally:
            soak.stopping.set()
        for thread in threads:
            thread.join()
        report(soak, used, seconds)


def _used(soak: Soak) -> Used:
    """Seconds of CPU: each hub, PostgreSQL on all nodes."""
    return np.array([*(cpu_s(pid) for pid in soak.hub_pids()), soak.hubs.database.cpu_s()])


def report(soak: Soak, used: Used, seconds: float) -> None:
    """Print a table."""
    runs = len(soak.folders)
    rows = [
        f"{runs} runs, {soak.num_lines / seconds:,.0f} lines/s of {len(METRICS)} metrics,"
        f" {seconds / 60:.1f} min, {len(soak.errors)} failed requests,"
        f" {soak.num_verified} runs complete at the end"
    ]
    for name, ages in {"logged": soak.logged_s, "sent": soak.sent_s}.items():
        p50, p99 = np.percentile(ages, (50, 99))
        rows.append(f"age of a value since it was {name}: p50 {p50:.2f} s, p99 {p99:.2f} s")
    memory = np.array(soak.memory)
    late = memory[memory[:, 0] >= memory[0, 0] + _WARM_SHARE * seconds]
    for number in (1, 2):
        slope = np.polyfit(late[:, 0] / 3600, late[:, number], 1)[0]
        sizes = f"{late[0, number]:.0f} to {late[-1, number]:.0f} MB, {slope:+.1f} MB/h"
        share = 1000 * used[number - 1] / seconds / (runs / 2)
        rows.append(f"hub {number}: {sizes}; {share:.2f} ms of CPU per second and run")
    share = 1000 * used[-1] / seconds / runs
    rows.append(f"PostgreSQL, three nodes: {share:.2f} ms of CPU per second and run")
    sys.stdout.write("\n".join([*rows, *sorted(set(soak.errors))[:5]]) + "\n")


def main() -> int:
    """Run the soak; raises where a hub does not have what it acknowledged."""
    parser = argparse.ArgumentParser(prog="python -m tests.drills.soak")
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--runs", type=int, default=100)
    args = parser.parse_args()
    check_installed()
    with tempfile.TemporaryDirectory(prefix="soak-") as place:
        run_soak(Path(place), minutes=args.minutes, num_runs=args.runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
