"""What programs do with Epochal before the power fails; run by ``test_power_cut.py``.

An operation acknowledges what a call has promised when the call returned, and only then. While its
calls may fail, it goes on as a program would that catches errors. At its end the disk works again,
and the same call has to succeed.
"""

from __future__ import annotations

import io
import json
import os
import sqlite3
import sys
import traceback
from collections.abc import Callable
from contextlib import closing, redirect_stderr
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import epochal
from epochal.errors import EpochalError
from epochal.exchange.media.types import Image
from epochal.hub.ledger import Ledger
from epochal.hub.serving import FolderRuns, open_noting
from epochal.journal.blobs import encode_pending
from epochal.journal.boards import Board, save_board
from epochal.journal.labels import LabelsEdit, edit_labels
from epochal.journal.layout import RunFolder, claim, free_names, staged_folder
from epochal.journal.segments.parts import sealable_parts
from epochal.journal.segments.seal import seal_part
from epochal.run.resume import find_parent
from epochal.run.run import Run, recorder_of
from epochal.shipping.worker import ship_now
from epochal.store.local.catalog import open_store
from epochal.store.store import Store
from epochal.torch.checkpoint.checkpoints import Checkpoints
from epochal.torch.checkpoint.manifest import Retention
from epochal.torch.checkpoint.training_state import TrainingState
from tests.crash.simulated_disk import Disk, Fault
from tests.doubles.companions import wait_for_the_end
from tests.doubles.hub_in_process import HubInProcess

_PART_BYTES = 3_000
_FAULTS = (OSError, EpochalError, sqlite3.Error)

Promise = dict[str, Any] | Callable[[], dict[str, Any]]


class Program:
    """A folder, the disk below it, and the fault that begins when the operation is ready."""

    def __init__(self, folder: Path, disk: Disk, fault: Fault | None) -> None:
        self.folder = folder
        self.disk = disk
        self.fault = fault

    def ready(self) -> None:
        """Everything so far is on the disk; from here on calls may fail."""
        os.sync()
        if self.fault is not None:
            self.disk.fail(self.fault)

    def attempt(self, call: Callable[[], Any], promise: Promise | None = None) -> None:
        """Call, and acknowledge unless it raises what a program may expect of a bad disk."""
        try:
            call()
        except _FAULTS as error:
            if self.fault is None:
                raise
            self.disk.acknowledge({"raised": type(error).__name__})
        else:
            self._acknowledge(promise)

    def succeed(self, call: Callable[[], Any], promise: Promise | None = None) -> None:
        """Call on a disk that works again."""
        self.disk.work()
        call()
        self._acknowledge(promise)

    def _acknowledge(self, promise: Promise | None) -> None:
        if promise is not None:
            self.disk.acknowledge(promise() if callable(promise) else promise)

    def start_run(self, **named: Any) -> Run:
        """A run whose parts are small."""
        root = self.folder / "runs"
        run = epochal.init("tests", "run", dir=root, console=False, **{"companion": False, **named})
        writer = recorder_of(run)._writer
        assert writer is not None
        writer._part_bytes = _PART_BYTES
        return run

    def finished_run(self, num_steps: int = 0) -> RunFolder:
        """A run that has ended."""
        run = self.start_run()
        log(run, 0, num_steps)
        if num_steps:
            run.log({"picture": Image(picture(2))}, step=2)
        run.finish()
        return RunFolder(run.dir)


def log(run: Run, first: int, end: int) -> None:
    for step in range(first, end):
        run.log({"loss": 1 / (step + 1), "text": f"step {step} " * 3}, step=step)


def picture(step: int) -> np.ndarray:
    return np.full((4, 4, 3), step, np.uint8)


def was_reported() -> bool:
    """Whether the run has said that it could not store something."""
    return isinstance(sys.stderr, io.StringIO) and bool(sys.stderr.getvalue())


# -- runs -----------------------------------------------------------------------------------------


def flush(program: Program) -> None:
    notes = program.folder.with_name(f"{program.folder.name}-notes.txt")
    notes.write_text("notes")
    run = program.start_run()
    run.flush()
    program.ready()
    for first in range(0, 120, 20):
        log(run, first, first + 20)
        run.log({"picture": Image(picture(first))}, step=first)
        run.log_file(notes, step=first)
        program.disk.acknowledge({"logged": flushed(run, first)})
        program.attempt(run.flush, partial(flushed, run, first))
    log(run, 120, 130)
    program.succeed(run.flush, lambda: {**flushed(run, 100), "steps": 130})


def flushed(run: Run, first: int) -> dict[str, Any]:
    """What ``flush`` promises: everything but the records whose loss was reported."""
    promise = {"steps": first + 20, "lost": recorder_of(run).lost_records}
    return promise if was_reported() else {**promise, "picture": first, "file": first}


def finish(program: Program, *, companion: bool = False) -> None:
    run = program.start_run(companion=companion)
    program.ready()
    log(run, 0, 100)
    run.log({"picture": Image(picture(99))}, step=99)
    writer = recorder_of(run)._writer
    assert writer is not None
    writer._part_bytes = writer._size + 1  # the last record fills its part
    promise = {"steps": 100, "picture": 99, "finished": True}
    program.attempt(run.finish, lambda: {} if was_reported() else promise)


def companion(program: Program) -> None:
    """The companion encodes the picture, records telemetry and syncs what it sees."""
    os.environ.pop("EPOCHAL_COMPANION")
    finish(program, companion=True)


def encode(program: Program) -> None:
    run = program.start_run()
    for step in range(3):
        run.log({"picture": Image(picture(step))}, step=step)
    run.finish()
    program.ready()
    program.disk.acknowledge(*({"picture": step} for step in range(3)))
    program.attempt(lambda: encode_pending(RunFolder(run.dir)))
    program.succeed(lambda: encode_pending(RunFolder(run.dir)))


def seal(program: Program) -> None:
    folder = program.finished_run(200)
    program.ready()
    program.disk.acknowledge({"steps": 200, "finished": True})
    program.attempt(lambda: seal_parts(folder))
    program.succeed(lambda: seal_parts(folder))


def seal_parts(folder: RunFolder) -> None:
    for part in folder.parts():
        os.utime(folder.part_path(part), (0, 0))  # nobody waits for lines that still come
    for part in sealable_parts(folder):
        seal_part(folder, part)


def fork(program: Program) -> None:
    program.finished_run(5)
    program.ready()
    project = program.folder / "runs" / "tests"

    def copy() -> None:
        parent = find_parent("run?step=3", root=project.parent, project="tests")
        with staged_folder(project) as staged:
            parent.copy_history(staged, {"id": "fork", "name": "fork", "project": "tests"})
            assert any(claim(staged, target) for target, _ in free_names(project, "fork"))

    program.attempt(copy, {"forks": 1})
    program.succeed(copy, {"forks": 1})


def move(program: Program) -> None:
    program.finished_run(5)
    program.ready()
    there_and_back(program, lambda: open_store(program.folder / "runs"))


def move_on_hub(program: Program) -> None:
    folder, root = program.finished_run(5), program.folder / "hub"
    with closing(HubInProcess(root)) as receiver:
        ship_now(folder, receiver, pause_s=0.0)
    program.ready()
    there_and_back(program, lambda: open_hub(root))


def open_hub(root: Path) -> Store:
    runs = FolderRuns(root)
    return open_noting(runs, Ledger(root), runs.whole)


def there_and_back(program: Program, open_new: Callable[[], Store]) -> None:
    """Delete a run and restore it."""

    def remove() -> None:
        store = open_new()
        store.remove(store.run("run"))

    def restore() -> None:
        store = open_new()
        store.trash.restore(store.trash.find("run"))

    for _ in range(3):
        program.attempt(remove, {"place": "trash"})
        program.attempt(restore, {"place": "runs"})


# -- other files ----------------------------------------------------------------------------------


class Training:
    """A model of one weight, the number of its save."""

    def __init__(self, folder: Path) -> None:
        self.model = nn.Linear(1, 1, bias=False)
        state, keep = TrainingState(self.model), Retention(rolling=2)
        self.checkpoints = Checkpoints(folder, state, keep=keep, signals=(), overwrite=True)

    def save(self, step: int, *, number: int | None = None) -> None:
        nn.init.constant_(self.model.weight, step if number is None else number)
        self.checkpoints.save(step)

    def restored(self, step: int | None = None) -> int:
        self.checkpoints.restore(step)
        return int(self.model.weight.item())


def checkpoint(program: Program) -> None:
    training = Training(program.folder / "checkpoints")
    program.ready()
    for step in range(1, 6):
        program.attempt(partial(training.save, step), {"saved": step})
    program.attempt(partial(training.save, 5, number=6), {"saved": 6})  # the same step again
    program.succeed(partial(training.save, 7), {"saved": 7})


def label(program: Program) -> None:
    folder = program.finished_run()
    program.ready()
    for number in range(6):
        program.attempt(partial(edit_labels, folder, noting(number)), {"note": number})
    program.succeed(partial(edit_labels, folder, noting(6)), {"note": 6})


def noting(number: int) -> LabelsEdit:
    """Replace the notes by some longer ones."""
    return lambda labels: replace(labels, notes=str(number) * 700 * (number + 1))


def board(program: Program) -> None:
    program.finished_run()
    program.ready()
    for number in range(6):
        for name in ("one", "two"):
            call = program.attempt if number < 5 else program.succeed
            new = Board(name=name, query=f"loss < {number}")
            folder = program.folder / "runs" / "tests"
            call(
                partial(save_board, folder, "tests", new, None, replaces=True),
                {"board": name, "number": number},
            )


# -- hubs -----------------------------------------------------------------------------------------


def hub(program: Program) -> None:
    """A run is sent to a hub while it goes on, then sealed and sent again."""
    (program.folder / "hub").mkdir()
    program.ready()
    # The sender is another machine: its folder is not below the one that is watched.
    run = epochal.init(
        "tests", "sent", dir=sender_of(program.folder), console=False, companion=False
    )
    folder = RunFolder(run.dir)
    for first in range(0, 60, 20):
        log(run, first, first + 20)
        if first == 20:
            run.log({"picture": Image(picture(first))}, step=first)
        program.attempt(partial(send, program, folder), {"steps": first + 20})
    run.finish()
    seal_parts(folder)
    program.attempt(partial(send, program, folder), {"steps": 60})
    program.succeed(partial(send, program, folder), {"steps": 60})


def sender_of(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}-sender")


def send(program: Program, folder: RunFolder) -> None:
    """Send what a hub that was just started does not have."""
    receiver = HubInProcess(
        program.folder / "hub",
        on_lines=lambda num: program.disk.acknowledge({"lines": num}),
        on_file=lambda kind: program.disk.acknowledge({"received": kind}),
    )
    with closing(receiver):
        ship_now(folder, receiver, pause_s=0.0, tries=1)


def token(program: Program) -> None:
    root = program.folder / "hub"
    root.mkdir()
    with closing(Ledger(root)) as ledger:
        old = ledger.add_token("old", "write")
    program.ready()
    for number in range(3):
        program.attempt(partial(add_token, program, f"token {number}"))
    program.attempt(lambda: revoke(root), {"revoked": old})


def add_token(program: Program, name: str) -> None:
    with closing(Ledger(program.folder / "hub")) as ledger:
        program.disk.acknowledge({"token": ledger.add_token(name, "write")})


def revoke(root: Path) -> None:
    with closing(Ledger(root)) as ledger:
        ledger.revoke_token("old")


# -- the process that runs them -------------------------------------------------------------------

OPERATIONS: dict[str, Callable[[Program], None]] = {
    operation.__name__: operation
    for operation in (
        *(flush, finish, companion, encode, seal, fork, move, move_on_hub),
        *(checkpoint, label, board, hub, token),
    )
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
    if task["operation"] == "companion":
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
