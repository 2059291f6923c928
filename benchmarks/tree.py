"""Run a command and account for every process it leaves behind.

Trackers start helpers, and some outlive their parent. This process adopts such orphans (Linux:
child subreaper), so that the whole tree can be seen under it, and waits for them. It can also kill
the command with SIGKILL, the helpers untouched, a given time after its first acknowledged step.

    python -m benchmarks.tree JOB.json     answers into the file the job names
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks import acknowledged

PR_SET_CHILD_SUBREAPER = 36
POLL_S = 0.002
QUIET_S = 1.0
IDLE_SHARE = 0.05
UTIME, CSTIME = 11, 14  # in /proc/PID/stat, counted after the command name


@dataclass(frozen=True, slots=True)
class Job:
    command: list[str]
    answer: str
    errors: str  # the file that gets the command's stdout and stderr
    limit_s: float
    grace_s: float  # how long orphans may go on
    counter: str = ""
    kill_after_s: float | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    returncode: int
    timed_out: bool
    stopped_orphans: int  # those still there after the grace time


def main(job: Job) -> None:
    _adopt_orphans()
    with open(job.errors, "wb") as errors:
        process = subprocess.Popen(job.command, stdout=errors, stderr=errors)
    timed_out = False
    try:
        if job.kill_after_s is not None:
            _kill_later(process, job)
        returncode = process.wait(job.limit_s)
    except subprocess.TimeoutExpired:
        timed_out = True
        process.kill()
        returncode = process.wait()
    stopped = _wait_for_orphans(job.grace_s)
    ended = Ended(returncode, timed_out, stopped)
    Path(job.answer).write_text(json.dumps(asdict(ended)))


def _adopt_orphans() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _kill_later(process: subprocess.Popen[bytes], job: Job) -> None:
    deadline = time.monotonic() + job.limit_s
    counter = Path(job.counter)
    while acknowledged.read(counter) == 0 and process.poll() is None:
        if time.monotonic() > deadline:
            return
        time.sleep(POLL_S)
    time.sleep(job.kill_after_s or 0)
    process.kill()


def _wait_for_orphans(grace_s: float) -> int:
    """Wait for every adopted process; returns how many stayed too long and were ended."""
    deadline = time.monotonic() + grace_s
    stopped: set[int] = set()
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return len(stopped)
        if pid == 0:
            if time.monotonic() > deadline:
                for child in _children(os.getpid()) - stopped:
                    os.kill(child, signal.SIGKILL)
                    stopped.add(child)
            time.sleep(POLL_S)


def settled_cpu_s(pid: int, *, limit_s: float) -> float:
    """The CPU time of a tree once its helpers have done what was left to do."""
    deadline = time.monotonic() + limit_s
    spent_s = cpu_s(pid)
    while time.monotonic() < deadline:
        time.sleep(QUIET_S)
        before_s, spent_s = spent_s, cpu_s(pid)
        if spent_s - before_s < IDLE_SHARE * QUIET_S:
            break
    return spent_s


def cpu_s(pid: int) -> float:
    """User and system time of all living descendants of a process, and of those they waited for.

    Raises OSError where there is no /proc to read it from.
    """
    if sys.platform != "linux":
        raise OSError("the CPU time of a process tree is read from /proc, which only Linux has")
    ticks = 0
    for child in _children(pid):
        try:
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # gone since it was listed
        ticks += sum(map(int, fields[UTIME : CSTIME + 1]))
    return ticks / os.sysconf("SC_CLK_TCK") + sum(map(cpu_s, _children(pid)))


def _children(pid: int) -> set[int]:
    """Of all its threads; empty where the system has no such list."""
    children: set[int] = set()
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children.update(map(int, listing.read_text().split()))
        except (FileNotFoundError, ProcessLookupError):
            continue  # the thread ended since it was listed
    return children


if __name__ == "__main__":
    main(Job(**json.loads(Path(sys.argv[1]).read_text())))
