"""What programs do with Epochal before the power fails; run by ``test_power_cut.py``.

An operation acknowledges what a call has promised when the call returned, and only then.
"""

from __future__ import annotations

import io
import json
import os
import sqlite3
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stderr
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import epochal
from epochal.boards import Board, save_board
from epochal.errors import EpochalError
from epochal.hub.ledger import Ledger
from epochal.journal.layout import RunFolder
from epochal.media.types import Image
from epochal.run.run import Run, recorder_of
from epochal.segments.finished import sealable_parts
from epochal.segments.seal import seal_part
from epochal.shipping.worker import ship_now
from epochal.store.answers import LabelsEdit
from epochal.store.local.run_files import edit_labels
from epochal.torch.checkpoint.checkpoints import Checkpoints
from epochal.torch.checkpoint.manifest import Retention
from epochal.torch.checkpoint.training_state import TrainingState
from tests.crash.simulated_disk import Disk, Fault
from tests.doubles.companions import wait_for_the_end
from tests.doubles.hub_in_process import HubInProcess

_PART_BYTES = 3_000
Promise = dict[str, Any] | Callable[[], dict[str, Any]]
_FAULTS = (OSError, EpochalError, sqlite3.Error)


class Program:
    """A folder, the disk below it, and the fault that begins when the operation says so."""

    def __init__(self, folder: Path, disk: Disk, fault: Fault | None) -> None:
        self.folder = folder
        self.disk = disk
        self._fault = fault

    def ready(self) -> None:
        """Everything so far is on the disk; from here on calls may fail."""
        os.sync()
        if self._fault is not None:
            self.disk.fail(self._fault)

    def attempt(self, call: Callable[[], Any], promise: Promise | None = None) -> None:
        """Call, and acknowledge unless it raises what a program may expect of a bad disk."""
        try:
            call()
        except _FAULTS as error:
            if self._fault is None:
                raise
            self.disk.acknowledge({"raised": type(error).__name__})
        else:
            if promise is not None:
                self.disk.acknowledge(promise() if callable(promise) else promise)

    @contextmanager
    def run(self, **named: Any) -> Iterator[Run]:
        """A run whose parts are small."""
        run = epochal.init(
            "tests", "run", dir=self.folder / "runs", console=False, **{"companion": False, **named}
        )
        writer = recorder_of(run)._writer
        assert writer is not None
        writer._part_bytes = _PART_BYTES
        yield run


def log(run: Run, first: int, end: int) -> None:
    for step in range(first, end):
        run.log({"loss": 1 / (step + 1), "text": f"step {step} " * 3}, step=step)


def picture(step: int) -> np.ndarray:
    return np.full((4, 4, 3), step, np.uint8)


def flush(program: Program) -> None:
    with program.run() as run:
        run.flush()
        program.ready()
        for first in range(0, 120, 20):
            log(run, first, first + 20)
            run.log({"picture": Image(picture(first))}, step=first)
            program.attempt(run.flush, partial(flushed, run, first + 20, first))
        log(run, 120, 130)


def finish(program: Program, *, companion: bool = False) -> None:
    with program.run(companion=companion) as run:
        program.ready()
        log(run, 0, 100)
        run.log({"picture": Image(picture(99))}, step=99)
        promise = {"steps": 100, "picture": 99, "finished": True}
        program.attempt(run.finish, lambda: {} if was_reported() else promise)


def flushed(run: Run, num_steps: int, last_picture: int) -> dict[str, Any]:
    """What ``flush`` promises: everything but the records whose loss was reported."""
    promise = {"steps": num_steps, "lost": recorder_of(run).lost_records}
    return (
        promise
        if recorder_of(run).lost_records or was_reported()
        else {**promise, "picture": last_picture}
    )


def was_reported() -> bool:
    """Whether the run has said that it could not store something."""
    return isinstance(sys.stderr, io.StringIO) and bool(sys.stderr.getvalue())


def companion(program: Program) -> None:
    """The companion encodes the picture, records telemetry and syncs what it sees."""
    os.environ.pop("EPOCHAL_COMPANION")
    finish(program, companion=True)


class Training:
    """A model of one weight, the number of its save."""

    def __init__(self, folder: Path) -> None:
        self.model = nn.Linear(1, 1, bias=False)
        self.checkpoints = Checkpoints(
            folder, TrainingState(self.model), keep=Retention(rolling=2), signals=(), overwrite=True
        )

    def save(self, step: int) -> None:
        nn.init.constant_(self.model.weight, step)
        self.checkpoints.save(step)

    def restored(self, step: int | None = None) -> int:
        self.checkpoints.restore(step)
        return int(self.model.weight.item())


def checkpoint(program: Program) -> None:
    training = Training(program.folder / "checkpoints")
    program.ready()
    for step in range(1, 7):
        program.attempt(partial(training.save, step), {"saved": step})


def label(program: Program) -> None:
    with program.run() as run:
        run.finish()
    program.ready()
    folder = RunFolder(run.dir)
    for number in range(6):
        program.attempt(partial(edit_labels, folder, noting(number)), {"note": number})


def noting(number: int) -> LabelsEdit:
    """Replace the notes by some longer ones."""
    return lambda labels: replace(labels, notes=str(number) * 700 * (number + 1))


def board(program: Program) -> None:
    folder = program.folder / "runs" / "tests"
    with program.run() as run:
        run.finish()
    program.ready()
    for number in range(6):
        for name in ("one", "two"):
            new = Board(name=name, query=f"loss < {number}")
            program.attempt(
                partial(save_board, folder, "tests", new, None, replaces=True),
                {"board": name, "number": number},
            )


def seal(program: Program) -> None:
    with program.run() as run:
        log(run, 0, 200)
        run.finish()
    program.ready()
    program.disk.acknowledge({"steps": 200, "finished": True})

    for _ in range(2):
        program.attempt(partial(seal_parts, RunFolder(run.dir)))


def seal_parts(folder: RunFolder) -> None:
    for part in folder.parts():
        os.utime(folder.part_path(part), (0, 0))  # nobody waits for lines that still come
    for part in sealable_parts(folder):
        seal_part(folder, part)


def hub(program: Program) -> None:
    """A run is sent to a hub while it goes on, then sealed and sent again."""
    (program.folder / "hub").mkdir()
    program.ready()
    # The sender is another machine: its folder is not below the one that is watched.
    sender = program.folder.with_name(f"{program.folder.name}-sender")
    run = epochal.init("tests", "sent", dir=sender, console=False, companion=False)
    folder = RunFolder(run.dir)
    for first in range(0, 60, 20):
        log(run, first, first + 20)
        if first == 20:
            run.log({"picture": Image(picture(first))}, step=first)
        program.attempt(partial(send, program, folder), {"steps": first + 20})
    run.finish()
    seal_parts(folder)
    program.attempt(partial(send, program, folder), {"steps": 60})
    for name in ("one", "two"):
        program.attempt(partial(add_token, program, name))


def send(program: Program, folder: RunFolder) -> None:
    """Send what a hub that was just started does not have."""
    with closing(_Hub(program)) as receiver:
        ship_now(folder, receiver, pause_s=0.0, tries=1)


def add_token(program: Program, name: str) -> None:
    with closing(Ledger(program.folder / "hub")) as ledger:
        program.disk.acknowledge({"token": ledger.add_token(name, "write")})


class _Hub(HubInProcess):
    def __init__(self, program: Program) -> None:
        super().__init__(
            program.folder / "hub",
            on_lines=lambda num: program.disk.acknowledge({"lines": num}),
            on_file=lambda kind: program.disk.acknowledge({"file": kind}),
        )


OPERATIONS: dict[str, Callable[..., None]] = {
    operation.__name__: operation
    for operation in (flush, finish, companion, checkpoint, label, board, seal, hub)
}


def run_one(task: dict[str, Any]) -> str | None:
    """Run an operation in this process; None, or what it raised."""
    disk = Disk()
    disk.watch(task["folder"], task["log"])
    fault = Fault(*task["fault"]) if task["fault"] else None
    os.environ["EPOCHAL_CACHE_DIR"] = f"{task['folder']}/cache"
    try:
        with redirect_stderr(io.StringIO()):
            OPERATIONS[task["operation"]](Program(Path(task["folder"]), disk, fault))
    except Exception:  # noqa: BLE001 - the test says what it was
        return traceback.format_exc()
    finally:
        disk.work()  # for the companion, which ends after this process
    return None


def run_in_child(task: dict[str, Any]) -> bytes:
    """Run an operation in a fork; what it answers, in JSON."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.write(writing, json.dumps(run_one(task)).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer = pipe.read()
    os.wait()
    wait_for_the_end(Path(task["folder"]) / "runs" / "tests" / "run")
    return answer or b'"the operation died"'


def main() -> None:
    """Run each task of the standard input, and answer with what it raised."""
    torch.set_num_threads(1)
    answers = os.dup(1)
    os.dup2(2, 1)
    for line in sys.stdin:
        os.write(answers, run_in_child(json.loads(line)) + b"\n")


if __name__ == "__main__":
    main()
