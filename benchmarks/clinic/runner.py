"""Runs trainings side by side, each in processes of its own, and keeps the evidence of each.

What is finished stands in ``OUT/evidence`` and is not run again. What failed has its output in
``OUT/failed``. Anything else, also what was cut off, begins anew. With the device ``both``, every
second job is on the GPU: one GPU is slow with many processes, and cores are idle beside it. A job
whose training failed on the GPU goes on without it, and begins with that training.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

from benchmarks.clinic import evidence
from benchmarks.clinic.faults.running import HANG_S, HANGING
from benchmarks.clinic.plan import Training
from benchmarks.clinic.training import PROJECT

_ROOT = Path(__file__).parents[2]
_POLL_S = 0.1
# Collecting and compressing evidence takes about a tenth of the time of a training.
_JOBS_PER_COLLECTOR = 4
# A companion writes its last findings within seconds of the end.
_COMPANION_S = 15.0


Device = Literal["cpu", "cuda", "both"]


@dataclass(slots=True)
class Progress:
    """How far a call of ``run`` has come."""

    total: int
    done: int = 0
    failed: list[str] = field(default_factory=list)


class TrainingFailedError(Exception):
    """A training did not come to its end."""


def run_all(
    trainings: Sequence[Training],
    out: Path,
    *,
    jobs: int,
    minutes: float | None,
    keep: bool,
    device: Device = "cpu",
) -> Progress:
    """Run what has no evidence yet, until all is done or the time is up."""
    folder = out / "evidence"
    waiting = [one for one in trainings if not evidence.path_of(folder, one.id).exists()]
    progress = Progress(total=len(waiting))
    until = None if minutes is None else time.monotonic() + 60 * minutes
    lock = threading.Lock()
    stretch = 1.5  # of the time that a training is expected to take

    def next_one() -> Training | None:
        """The first training that fits into the time that is left."""
        with lock:
            for one in waiting:
                needs_s = one.waits_s + stretch * (one.expected_s - one.waits_s)
                if until is None or time.monotonic() + needs_s < until:
                    waiting.remove(one)
                    return one
            return None

    def work(place: str) -> None:
        nonlocal stretch
        while (one := next_one()) is not None:
            began = time.monotonic()
            try:
                run_one(one, out, keep=keep, device=place, collectors=collectors)
                word = "done"
            except TrainingFailedError as error:
                (out / "failed").mkdir(exist_ok=True)
                (out / "failed" / f"{one.id}.txt").write_text(str(error))
                word = "FAILED"
            where = "" if place == "cpu" else f" on {place}"
            with lock:
                if word == "done":
                    progress.done += 1
                elif device == "both" and place == "cuda":
                    waiting.insert(0, one)
                    place = "cpu"
                else:
                    progress.failed.append(one.id)
                at = progress.done + len(progress.failed)
                took = time.monotonic() - began
                busy_s = one.expected_s - one.waits_s
                stretch += 0.1 * (1.2 * max(0.0, took - one.waits_s) / busy_s - stretch)
                print(f"{at}/{progress.total} {one.id} {word}{where}, {took:.0f} s", flush=True)

    out.mkdir(parents=True, exist_ok=True)
    places = {"both": ("cuda", "cpu")}.get(device, (device,))
    # Processes of their own: threads of this one would wait for each other.
    with ProcessPoolExecutor(
        max(1, jobs // _JOBS_PER_COLLECTOR), mp_context=get_context("spawn")
    ) as collectors:
        threads = [
            threading.Thread(target=work, args=(places[number % len(places)],))
            for number in range(jobs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return progress


def run_one(
    training: Training, out: Path, *, collectors: Executor, keep: bool = False, device: str = "cpu"
) -> None:
    """Run one training and write its evidence."""
    folder = out / "work" / training.id
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    ranks = _ranks(training)
    processes = [_start(training, folder, rank, port, device) for rank, port in ranks]
    try:
        ended = _wait(training, folder, processes)
    finally:
        for process in processes:
            _end(process)
    run = folder / "run" / PROJECT / training.id
    if not run.exists():
        raise TrainingFailedError(_output(folder))
    _wait_for_companion(run)
    path = evidence.path_of(out / "evidence", training.id)
    collectors.submit(_keep, training.id, run, _result(folder), ended, path).result()
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)


def _keep(name: str, run: Path, result: dict[str, Any], ended: float, path: Path) -> None:
    evidence.write(evidence.collect(name, run, result, ended=ended), path)


def _ranks(training: Training) -> list[tuple[int, int]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    return [(rank, port) for rank in range(training.kind.world)]


def _start(
    training: Training, folder: Path, rank: int, port: int, device: str
) -> subprocess.Popen[bytes]:
    paths = [str(_ROOT / "src"), str(_ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("EPOCHAL_")},
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
    }
    if device == "cpu":
        environment["CUDA_VISIBLE_DEVICES"] = ""
    fault = training.fault
    if fault is not None and fault.telemetry_s is not None:
        environment["EPOCHAL_TELEMETRY_EVERY"] = str(fault.telemetry_s)
    if training.kind.world > 1:
        world = str(training.kind.world)
        environment |= {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": world,
            "LOCAL_WORLD_SIZE": world,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": "lo",
        }
    with (folder / f"output-{rank}.txt").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "benchmarks.clinic.training", training.id, str(folder), device],
            cwd=_ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait(training: Training, folder: Path, processes: list[subprocess.Popen[bytes]]) -> float:
    """Wait for the end, or long enough for a hang to be one; returns when that was."""
    deadline = time.monotonic() + 60 + 6 * training.expected_s
    hangs = training.fault is not None and training.fault.harm == "hang"
    while any(process.poll() is None for process in processes):
        if hangs and (folder / HANGING).exists():
            time.sleep(HANG_S)
            return time.time()
        if any(process.returncode for process in processes):
            raise TrainingFailedError(_output(folder))
        if time.monotonic() > deadline:
            raise TrainingFailedError(f"not finished in time\n{_output(folder)}")
        time.sleep(_POLL_S)
    if any(process.returncode for process in processes):
        raise TrainingFailedError(_output(folder))
    return time.time()


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
        process.wait()


def _wait_for_companion(run: Path) -> None:
    """Until nobody writes findings any more, so that nothing is lost with the folder."""
    deadline = time.monotonic() + _COMPANION_S
    path = run / "journal" / "findings.0001.0000.jsonl"
    while time.monotonic() < deadline:
        if path.exists() and '"log":"finish"' in path.read_text(errors="replace")[-4000:]:
            return
        time.sleep(_POLL_S)


def _result(folder: Path) -> dict[str, Any]:
    results = [json.loads(path.read_text()) for path in sorted(folder.glob("result-*.json"))]
    if not results:
        return {"result": None}
    if len(results) > 1:
        sums = [one["parameters"] for one in results]
        results[0]["rank_difference"] = max(sums) - min(sums)
    first: dict[str, Any] = results[0]
    return first


def _output(folder: Path) -> str:
    texts = [path.read_text(errors="replace") for path in sorted(folder.glob("output-*.txt"))]
    return "\n".join(texts)[-4000:]
