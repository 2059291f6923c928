"""Kills a hub and shippers at random while runs are sent, then compares every line.

``python -m benchmarks.hub.drill --lines 1000000 --runs 20 --kills 20`` writes the journals of some
runs, sends them with shippers in processes of their own, and meanwhile kills the hub and shippers
with SIGKILL. In the end each part on the hub must be the part that was sent: no line lost, none
doubled.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from epochal.hub.ledger import Ledger
from epochal.journal.layout import RunFolder, write_json
from epochal.shipping.client import HubClient, HubError
from epochal.shipping.worker import ship_now

STEM = "loop.0001.0000"


@dataclass(frozen=True)
class Outcome:
    """What a drill came to."""

    num_lines: int
    num_lost: int
    num_doubled: int
    num_hub_kills: int
    num_shipper_kills: int
    seconds: float


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
            for step in range(num_lines - 1)
        )
    return folder


class Hub:
    """A hub on a fixed port that can be killed and started again."""

    def __init__(self, root: Path, port: int) -> None:
        self._command = [sys.executable, "-m", "epochal", "hub", str(root), "--port", str(port)]
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """Start it; requests are refused until it listens."""
        self.process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)

    def kill(self) -> None:
        """End it as a power cut would."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def ship(folder: Path, url: str, token: str, bytes_per_s: float | None) -> None:
    """Send a run until the hub has all of it."""
    client = HubClient(url, token, timeout_s=10)
    while True:
        with contextlib.suppress(HubError):
            ship_now(RunFolder(folder), client, bytes_per_s=bytes_per_s, tries=1)
            return
        time.sleep(0.2)


def run_drill(
    place: Path,
    *,
    num_lines: int,
    num_runs: int,
    num_kills: int,
    seed: int = 0,
    bytes_per_s: float | None = None,
) -> Outcome:
    """Write, send, kill, compare; ``bytes_per_s`` limits each shipper, so that there is time."""
    chance = random.Random(seed)
    per_run = num_lines // num_runs
    folders = [write_run(place / "runs", index, per_run) for index in range(num_runs)]
    root, port = place / "hub", free_port()
    ledger = Ledger(root)
    token = ledger.add_token("drill", "write")
    ledger.close()
    hub, began_s = Hub(root, port), time.monotonic()
    url = f"http://127.0.0.1:{port}"
    waiting = [folder.path for folder in folders]
    shippers: dict[Path, multiprocessing.process.BaseProcess] = {}
    spawn = multiprocessing.get_context("spawn")
    hub_kills = shipper_kills = 0
    next_kill_s = time.monotonic() + 3
    try:
        while waiting or shippers:
            while waiting and len(shippers) < 4:
                path = waiting.pop(0)
                shippers[path] = spawn.Process(target=ship, args=(path, url, token, bytes_per_s))
                shippers[path].start()
            time.sleep(0.05)
            for path, process in list(shippers.items()):
                if not process.is_alive():
                    process.join()
                    del shippers[path]
                    if process.exitcode:
                        waiting.append(path)
            if hub_kills + shipper_kills < num_kills and time.monotonic() > next_kill_s:
                next_kill_s = time.monotonic() + chance.uniform(0.3, 1.5)
                if chance.random() < 0.5 or not shippers:
                    hub.kill()
                    hub_kills += 1
                    time.sleep(chance.uniform(0.0, 0.5))
                    hub.start()
                    next_kill_s += 2.0  # it takes a moment to start
                else:
                    victim = chance.choice(list(shippers.values()))
                    assert victim.pid is not None
                    os.kill(victim.pid, signal.SIGKILL)
                    shipper_kills += 1
    finally:
        for process in shippers.values():
            process.kill()
        hub.kill()
    seconds = time.monotonic() - began_s
    lost = doubled = 0
    for folder in folders:
        there = root / "drill" / folder.path.name / "journal" / f"{STEM}.jsonl"
        sent, stored = _lines(folder.journal / f"{STEM}.jsonl"), _lines(there)
        lost += len(set(sent) - set(stored))
        doubled += len(stored) - len(set(stored))
        if sent != stored and not lost and not doubled:
            raise AssertionError(f"{there} has its lines in another order")
    return Outcome(per_run * num_runs, lost, doubled, hub_kills, shipper_kills, seconds)


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def free_port() -> int:
    """A port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    """Run a drill and print what it came to."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hub.drill")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        outcome = run_drill(
            Path(place),
            num_lines=args.lines,
            num_runs=args.runs,
            num_kills=args.kills,
            seed=args.seed,
        )
    sys.stdout.write(f"{outcome}\n")
    return 1 if outcome.num_lost or outcome.num_doubled else 0


if __name__ == "__main__":
    sys.exit(main())
