"""Kills real processes with SIGKILL at random moments and asks for every acknowledged record."""

import os
import random
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from epochal.journal.layout import RunFolder
from epochal.journal.writer import PART_BYTES
from epochal.run.run import recorder_of
from epochal.run.start import init
from tests.doubles import killed
from tests.doubles.journals import of_kind


@dataclass(frozen=True, slots=True)
class Load:
    """How the process that is killed logs, and how long it lives after its first records."""

    steps_per_s: float
    longest_s: float
    threads: int = 1
    part_bytes: int = PART_BYTES


SLOW = Load(steps_per_s=2, longest_s=2.5)
STEADY = Load(steps_per_s=100, longest_s=0.6)
UNTHROTTLED = Load(steps_per_s=0, longest_s=0.3)
THREADS = Load(steps_per_s=0, longest_s=0.3, threads=8)
ROTATING = Load(steps_per_s=0, longest_s=0.2, part_bytes=2_000)
ROTATING_THREADS = Load(steps_per_s=0, longest_s=0.2, threads=8, part_bytes=2_000)


def killed_run(folder: Path, load: Load, *, seed: int) -> list[int]:
    """The number of acknowledged calls of each thread of a process that was killed."""
    counters = folder / "counters"
    counters.write_bytes(bytes(8 * load.threads))
    arguments = [load.steps_per_s, load.threads, load.part_bytes]
    with subprocess.Popen(
        [sys.executable, killed.__file__, str(folder), str(counters), *map(str, arguments)],
        env={**os.environ, "EPOCHAL_GIT": "0"},
    ) as child:
        wait_for_first(counters, child)
        time.sleep(random.Random(seed).uniform(0, load.longest_s))
        child.kill()
    assert child.returncode == -9
    return acknowledged(counters)


def acknowledged(counters: Path) -> list[int]:
    text = counters.read_bytes()
    return list(struct.unpack(f"={len(text) // 8}q", text))


def wait_for_first(counters: Path, child: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while not all(acknowledged(counters)):
        assert child.poll() is None, "the training ended by itself"
        assert time.monotonic() < deadline, "the training never logged"
        time.sleep(0.002)


@pytest.mark.parametrize(
    ("load", "seed"),
    [
        *((SLOW, seed) for seed in range(2)),
        *((STEADY, seed) for seed in range(5)),
        *((UNTHROTTLED, seed) for seed in range(8)),
        *((THREADS, seed) for seed in range(4)),
        *((ROTATING, seed) for seed in range(4)),
        *((ROTATING_THREADS, seed) for seed in range(4)),
    ],
)
def test_every_acknowledged_record_is_read_back_once(tmp_path: Path, load: Load, seed: int) -> None:
    counts = killed_run(tmp_path, load, seed=seed)
    folder = RunFolder(tmp_path / "crash" / "killed")
    found: dict[int, list[int]] = {thread: [] for thread in range(load.threads)}
    for record in of_kind(folder, "metrics"):
        name = next(iter(record["m"]))
        found[int(name.removeprefix("thread"))].append(record["step"])
    for thread, count in enumerate(counts):
        # The call that was cut short may have come through or not.
        assert found[thread] in (list(range(count)), list(range(count + 1)))


def test_a_killed_run_goes_on_where_it_was(tmp_path: Path) -> None:
    (count,) = killed_run(tmp_path, STEADY, seed=0)
    run = init("crash", "killed", dir=tmp_path, console=False, resume="must")
    assert recorder_of(run).attempt == 2
    assert run.step in (count - 1, count)
