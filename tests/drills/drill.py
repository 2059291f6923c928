"""Kills servers, hubs, companions and trainings at random, and counts what was acknowledged.

``python -m tests.drills.drill --seed 1 --seconds 300`` starts PostgreSQL on three nodes under
Patroni, Swift with three storage nodes, two hubs, senders that note each acknowledgement, and
trainings with their companions. After every fault all that was noted before must be in the
database. In the end a fresh reader counts, through each hub and in the bucket.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil

from epochal.shipping.client import HubClient, HubError
from epochal.shipping.protocol import RunState
from tests.drills.availability import Probe, longest_gap_s, read_probe, write_probe
from tests.drills.hubs import DrillHubs, check_installed, drill_hubs
from tests.drills.reader import Steps, read_afresh
from tests.drills.sender import PROJECT, read_ledger
from tests.servers.processes import kill_all, wait_for

NUM_SENDERS = 4
NUM_TRAININGS = 2
RATE = 50.0
# Parts are sealed half a minute after the end of a run, and indexes written once a minute. A hub
# that was killed meanwhile keeps its leases for three minutes more.
BUCKET_WAIT_S = 480.0
TRAINING = """
import pathlib, sys, time, epochal

name, over = sys.argv[1:]
with epochal.init("drill", name, config={"lr": 1e-3}, companion=True) as run:
    step = 0
    while not pathlib.Path(over).exists():
        run.log({"loss": 1.0 / (step + 1)}, step=step)
        step += 1
        time.sleep(0.02)
"""


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@dataclass
class Fault:
    """What was killed, when, and when everything was whole again."""

    kind: str
    t: float
    whole: float


@dataclass
class Drill:
    """Everything that runs; ``problems`` are sentences about what was lost or doubled."""

    hubs: DrillHubs
    chance: random.Random
    place: Path
    senders: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    trainings: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    num_trainings: int = 0

    # -- processes --------------------------------------------------------------------------------

    @property
    def over(self) -> Path:
        return self.place / "over"

    def ledger(self, run: str) -> Path:
        return self.place / f"{run}.ledger"

    def start_sender(self, run: str) -> None:
        command = [sys.executable, "-m", "tests.drills.sender", run, str(self.ledger(run))]
        command += [str(RATE), str(self.over), *self.hubs.urls]
        environment = {**os.environ, **self.hubs.environment}
        self.senders[run] = subprocess.Popen(command, env=environment)

    def start_training(self) -> None:
        name = f"training-{self.num_trainings}"
        url = self.hubs.urls[self.num_trainings % 2]
        self.num_trainings += 1
        environment = {**os.environ, **self.hubs.environment, "EPOCHAL_HUB": url}
        environment |= {"EPOCHAL_DIR": str(self.place / "runs"), "EPOCHAL_CONSOLE": "0"}
        command = [sys.executable, "-c", TRAINING, name, str(self.over)]
        with open(self.place / f"{name}.log", "ab") as log:
            self.trainings[name] = subprocess.Popen(
                command, env=environment, stdout=log, stderr=log
            )

    def noted(self) -> dict[str, int]:
        """Up to which step each sender has acknowledgements."""
        ledgers = {run: read_ledger(self.ledger(run)) for run in self.senders}
        return {run: max((one.steps for one in all_), default=0) for run, all_ in ledgers.items()}

    # -- what goes wrong --------------------------------------------------------------------------

    def kill_hub(self) -> None:
        number = self.chance.randrange(2)
        self.hubs.hubs[number].kill()
        time.sleep(self.chance.uniform(0.0, 5.0))
        self.hubs.start_hub(number)

    def kill_primary(self, *, in_place: bool) -> None:
        database = self.hubs.database
        database.restart_in_place(in_place)
        time.sleep(2.0)  # Patroni reads its settings once a second
        database.kill_server(wait_for(database.primary, what="a primary"))

    def kill_node(self, role: str) -> None:
        # A standby that was just caught up is not one that commits wait for.
        name = wait_for(partial(self.hubs.database.member, role), what=f"a {role}")
        self.hubs.database.kill_node(name)
        time.sleep(self.chance.uniform(0.0, 30.0))
        self.hubs.database.start_node(name)

    def kill_storage_node(self) -> None:
        node = self.chance.choice(("s1", "s2", "s3"))
        self.hubs.objects.kill_node(node)
        time.sleep(self.chance.uniform(2.0, 15.0))
        self.hubs.objects.start_node(node)

    def kill_companion(self) -> None:
        kill_all(companions(self.place / "runs" / PROJECT / self._live_training()))

    def kill_training(self) -> None:
        training = self.trainings[self._live_training()]
        training.kill()
        training.wait()
        self.start_training()

    def _live_training(self) -> str:
        live = [name for name, process in self.trainings.items() if process.poll() is None]
        return self.chance.choice(live)

    def kill_sender(self) -> None:
        run = self.chance.choice(sorted(self.senders))
        self.senders[run].kill()
        self.senders[run].wait()
        time.sleep(self.chance.uniform(0.0, 2.0))
        self.start_sender(run)

    # -- rounds -----------------------------------------------------------------------------------

    def go_wrong(self, kind: str) -> None:
        """Let something go wrong, wait until all is whole, and compare with what was noted."""
        time.sleep(self.chance.uniform(0.5, 4.0))
        t, noted = time.time(), self.noted()
        KINDS[kind](self)
        noted = {run: max(steps, noted[run]) for run, steps in self.noted().items()}
        self.hubs.database.wait_until_whole()
        wait_for(partial(self.has_gone_on, noted), what="acknowledgements", timeout_s=300)
        self.faults.append(Fault(kind, t, time.time()))
        self.check_stored()
        say(f"{len(self.faults):3d}. {kind}: whole after {time.time() - t:.1f} s")

    def has_gone_on(self, noted: Mapping[str, int]) -> bool:
        now = self.noted()
        return all(now[run] > steps for run, steps in noted.items())

    def check_stored(self) -> None:
        """Compare what hubs have of each run with what was noted before they are asked."""
        for run, steps in self.noted().items():
            state = self.ask(partial(HubClient.state, run_id=run))
            stored = sum(max(part.lines - 1, 0) for part in state.parts.values())
            if stored < steps:
                self.problems.append(f"{run}: {steps} steps acknowledged, {stored} stored")

    def ask(self, question: Callable[[HubClient], RunState]) -> RunState:
        """The answer of any hub."""

        def answer() -> RunState | None:
            for url in self.hubs.urls:
                client = HubClient(url, self.hubs.token)
                try:
                    return question(client)
                except HubError:
                    continue
                finally:
                    client.close()
            return None

        return wait_for(answer, what="an answer of a hub")

    # -- the end ----------------------------------------------------------------------------------

    def end(self) -> None:
        """Let everything come to its end, and push what no companion has sent."""
        self.over.touch()
        for process in (*self.senders.values(), *self.trainings.values()):
            process.wait(300)
        runs = self.place / "runs"
        wait_for(lambda: not companions(runs), what="the end of the companions", timeout_s=300)
        environment = {**os.environ, **self.hubs.environment, "EPOCHAL_DIR": str(runs)}
        command = [sys.executable, "-m", "epochal", "hub", "push", PROJECT]
        command += ["--to", self.hubs.urls[0]]
        done = subprocess.run(command, env=environment, capture_output=True, timeout=300)
        if done.returncode:
            self.problems.append(f"the last push: {done.stdout!r} {done.stderr!r}")

    def kill_all(self) -> None:
        """End what this drill has started."""
        for process in (*self.senders.values(), *self.trainings.values()):
            process.kill()
            process.wait()
        kill_all(companions(self.place / "runs"))

    def count(self) -> None:
        """Compare what fresh readers find with what senders noted and trainings recorded."""
        must = {run: Steps(steps, steps, steps) for run, steps in self.noted().items()}
        recorded = read_afresh(str(self.place / "runs"), {})
        for url in self.hubs.urls:
            say(f"through {url}: {self.compare(url, {**must, **recorded}):,} records of steps")
        ended = {name for name, process in self.trainings.items() if process.returncode == 0}
        sealed = {name: steps for name, steps in recorded.items() if name in ended}
        num_records = self.compare_bucket({**must, **sealed})
        say(f"in the bucket: {num_records:,} records of the runs that have ended")
        acknowledged = sum(steps.records for steps in must.values())
        trained = sum(steps.records for steps in recorded.values())
        say(
            f"{acknowledged:,} acknowledged and {trained:,} recorded by trainings;"
            f" {len(self.faults)} faults, {len(self.problems)} problems"
        )

    def compare(self, address: str, must: Mapping[str, Steps]) -> int:
        """Read everything afresh at an address; how many records of steps there are."""
        there = read_afresh(address, self.hubs.environment)
        self.problems += [f"{address}: {line}" for line in differences(must, there)]
        return sum(steps.records for steps in there.values())

    def compare_bucket(self, must: Mapping[str, Steps]) -> int:
        """The same in the bucket, when the hubs have sealed and published what has ended."""
        deadline = time.monotonic() + BUCKET_WAIT_S
        while time.monotonic() < deadline:
            there = read_afresh(self.hubs.bucket, self.hubs.environment)
            if not differences(must, there):
                break
            time.sleep(5.0)
        for run in must:
            state = self.ask(partial(HubClient.state, run_id=run)) if run in self.senders else None
            if state and (open_ := {*state.parts} - {name[:-8] for name in state.segments}):
                say(f"{run}: not sealed: {sorted(open_)}")
        return self.compare(self.hubs.bucket, must)


KINDS: Mapping[str, Callable[[Drill], None]] = {
    "hub": Drill.kill_hub,
    "primary-taken-over": partial(Drill.kill_primary, in_place=False),
    "primary-restarted": partial(Drill.kill_primary, in_place=True),
    "primary-node": partial(Drill.kill_node, role="leader"),
    "standby-node": partial(Drill.kill_node, role="sync_standby"),
    "storage-node": Drill.kill_storage_node,
    "companion": Drill.kill_companion,
    "training": Drill.kill_training,
    "sender": Drill.kill_sender,
}


def differences(must: Mapping[str, Steps], there: Mapping[str, Steps]) -> list[str]:
    """Sentences about runs that have less than they must have, or something twice."""
    lines: list[str] = []
    for run, steps in must.items():
        has = there.get(run)
        if has is None or has.unbroken < steps.unbroken:
            lines.append(f"{run} must have {steps}, and has {has}")
        elif has.records != has.distinct:
            lines.append(f"{run} has steps twice: {has}")
    return lines


def companions(folder: Path) -> list[int]:
    """The processes beside the runs of a folder, or beside one run."""
    pids: list[int] = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            words = process.cmdline()
            if "epochal.companion" in words and any(word.startswith(f"{folder}") for word in words):
                pids.append(process.pid)
    return pids


def report(drill: Drill, probes: Mapping[str, Probe]) -> None:
    """Print the longest gaps by kind of fault."""
    acks = {run: [one.t for one in read_ledger(drill.ledger(run))] for run in drill.senders}
    every = sorted(t for times in acks.values() for t in times)
    gaps: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for fault in drill.faults:
        period = (fault.t, fault.whole)
        worst = max(longest_gap_s(times, *period) for times in acks.values())
        reads = (longest_gap_s(probe.times, *period) for probe in probes.values())
        gaps[fault.kind].append((longest_gap_s(every, *period), worst, *reads))
    say("longest gap in seconds, median and most: acknowledgements of any sender, of one sender,")
    say(", ".join(probes))
    for kind, rows in sorted(gaps.items()):
        columns = [sorted(column) for column in zip(*rows, strict=True)]
        cells = [f"{column[len(column) // 2]:5.1f} {column[-1]:5.1f}" for column in columns]
        say(f"{kind:22s} x{len(rows):<3d} {'  |  '.join(cells)}")


def run_drill(place: Path, *, seed: int, seconds: float, kinds: Sequence[str]) -> int:
    """Run a drill and print what it came to; the number of problems."""
    with ExitStack() as stack:
        hubs = stack.enter_context(drill_hubs(place))
        drill = Drill(hubs, random.Random(seed), place)
        stack.callback(drill.kill_all)
        for number in range(NUM_SENDERS):
            drill.start_sender(f"sender-{number}")
        for _ in range(NUM_TRAININGS):
            drill.start_training()
        wait_for(partial(drill.has_gone_on, drill.noted()), what="first acknowledgements")
        reads = {"reads of lines": read_lines, "lists of runs": read_list}
        probes = {
            name: stack.enter_context(read_probe(hubs.urls, hubs.token, read))
            for name, read in reads.items()
        }
        probes["writes without a hub"] = stack.enter_context(write_probe(hubs.database.address))
        say(f"seed {seed}: {NUM_SENDERS} senders, {NUM_TRAININGS} trainings, two hubs")
        deadline, queue = time.monotonic() + seconds, list[str]()
        while time.monotonic() < deadline:
            if not queue:  # every kind once, then every kind again in another order
                queue = drill.chance.sample(kinds, len(kinds))
            drill.go_wrong(queue.pop())
        report(drill, probes)
        drill.end()
        drill.count()
    for problem in drill.problems:
        say(f"PROBLEM: {problem}")
    return len(drill.problems)


def read_lines(client: HubClient) -> object:
    """Read the last lines of a run that is being sent."""
    state = client.state("sender-0")
    stem = max(state.parts)
    return client.lines("sender-0", stem, first=max(state.parts[stem].lines - 1, 0))


def read_list(client: HubClient) -> object:
    """Read the list of runs as the page does."""
    return client.get_json("/api/runs")


def main() -> int:
    """Run a drill; the exit code is 1 where anything was lost or doubled."""
    names = sorted(KINDS)
    parser = argparse.ArgumentParser(prog="python -m tests.drills.drill")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    args = parser.parse_args()
    check_installed()
    with tempfile.TemporaryDirectory(prefix="drill-") as place:
        return bool(run_drill(Path(place), seed=args.seed, seconds=args.seconds, kinds=args.only))


if __name__ == "__main__":
    sys.exit(main())
