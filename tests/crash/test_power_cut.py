"""Whatever was promised is there after a power cut, also on a disk that fails.

``make test ARGS='tests/crash/test_power_cut.py --thorough'`` tries many more seeds. A failure
prints the seed that repeats it.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epochal
from epochal.boards import read_boards
from epochal.hub.ledger import Ledger
from epochal.journal.layout import RunFolder
from epochal.reading import RunData
from epochal.store.answers import NO_LABELS
from epochal.store.local.run_files import read_labels
from tests.crash.operations import OPERATIONS, Training, noting, picture
from tests.crash.simulated_disk import (
    Fault,
    PowerCut,
    Recording,
    SimulatedDisk,
    after_everything,
    build,
    power_cut,
)
from tests.crash.test_samples import pixels

SEED = "POWER_CUT_SEED"


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimulatedDisk]:
    library = tmp_path_factory.mktemp("disk") / "disk.so"
    problem = build(library)
    if problem is not None:
        pytest.skip(problem)
    made = SimulatedDisk(library, "tests.crash.operations")
    yield made
    made.close()


@pytest.fixture
def place(original: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in memory; readers use the cache that the operation has left in it."""
    monkeypatch.setenv("EPOCHAL_CACHE_DIR", str(original / "cache"))
    return original


Check = Callable[[Recording, int], None]


@pytest.fixture
def check(request: pytest.FixtureRequest) -> Check:
    """Checks power cuts of a recording by a number of seeds, or by more with ``--thorough``."""
    more = 20 if request.config.getoption("thorough") else 1

    def check_cuts(recording: Recording, num_seeds: int) -> None:
        given = os.environ.get(SEED)
        for seed in [int(given)] if given else range(num_seeds * more):
            cut = power_cut(recording, seed)
            try:
                CHECKS[recording.operation](cut)
            except Exception as error:
                repeat = f"{SEED}={seed} make test ARGS='{request.node.nodeid}'"
                raise AssertionError(f"{error}\n{cut}\nRepeat it with:\n{repeat}") from error

    return check_cuts


# -- what was promised is there -------------------------------------------------------------------


def promised(cut: PowerCut, name: str) -> list[Any]:
    """All promises of a kind."""
    return [done[name] for done in cut.acknowledged if name in done]


def check_run(cut: PowerCut, root: str = "runs") -> None:
    folder = cut.folder / root
    runs = list(epochal.open(folder)) if folder.exists() else []
    num_steps = max(promised(cut, "steps"), default=0)
    num_lost = max(promised(cut, "lost"), default=0)
    if not runs:
        assert not num_steps, "the run is not there"
        return
    (run,) = runs
    for _ in run.view.records():
        pass
    check_steps(run, num_steps, num_lost)
    for step in promised(cut, "picture"):
        (sample,) = [sample for sample in run.samples("picture") if sample.step == step]
        assert np.array_equal(pixels(sample.read()), picture(step))
    if promised(cut, "finished"):
        assert run.info.status.text == "finished"


def check_steps(run: RunData, num_steps: int, num_lost: int = 0) -> None:
    """These steps are there but for so many, and every one that is there has its value."""
    if not [metric for metric in run.metrics() if metric.name == "loss"]:
        assert num_steps <= num_lost, "no step is there"
        return
    loss = run.series("loss", axis="step")
    missing = set(range(num_steps)) - set(loss.steps.tolist())
    assert len(missing) <= num_lost, f"these steps are missing: {sorted(missing)}"
    assert np.all(np.diff(loss.steps) > 0)
    assert np.array_equal(loss.floats, 1 / (loss.steps + 1))


def check_checkpoints(cut: PowerCut) -> None:
    """The latest checkpoint is the last one that was saved, or the one that was being saved."""
    training = Training(cut.folder / "checkpoints")
    for manifest in training.checkpoints.list():
        assert training.restored(manifest.step) == manifest.step
    last = max(promised(cut, "saved"), default=0)
    if last or training.checkpoints.list():
        assert training.restored() >= last
    training.save(9)
    assert training.restored() == 9


def check_labels(cut: PowerCut) -> None:
    notes = read_labels(RunFolder(cut.folder / "runs" / "tests" / "run")).notes
    last = max(promised(cut, "note"), default=None)
    later = [noting(number)(NO_LABELS).notes for number in range(last or 0, 6)]
    assert notes in (later if last is not None else [None, *later])


def check_boards(cut: PowerCut) -> None:
    folder = cut.folder / "runs" / "tests"
    boards = {stored.board.name: stored.board for stored in read_boards(folder, "tests")}
    for name in ("one", "two"):
        numbers = [done["number"] for done in cut.acknowledged if done.get("board") == name]
        if numbers or name in boards:
            number = int(str(boards[name].query).rpartition(" ")[2])
            assert number >= max(numbers, default=0)


def check_hub(cut: PowerCut) -> None:
    """What the hub acknowledged is there, and the tokens that it gave are valid."""
    folder = cut.folder / "hub"
    runs = list(epochal.open(folder)) if folder.exists() else []
    num_records = sum(1 for run in runs for _ in run.view.records())
    assert num_records >= max(promised(cut, "lines"), default=0)
    if promised(cut, "steps"):
        check_steps(runs[0], max(promised(cut, "steps")))
    if "blobs" in promised(cut, "file"):
        (sample,) = runs[0].samples("picture")
        assert np.array_equal(pixels(sample.read()), picture(sample.step))
    with contextlib.closing(Ledger(folder)) as ledger:
        assert all(ledger.principal(token) for token in promised(cut, "token"))
        assert ledger.principal(ledger.add_token("another", "admin"))


CHECKS: dict[str, Callable[[PowerCut], None]] = {
    "flush": check_run,
    "finish": check_run,
    "companion": check_run,
    "checkpoint": check_checkpoints,
    "label": check_labels,
    "board": check_boards,
    "seal": check_run,
    "hub": check_hub,
}


@pytest.mark.parametrize("operation", CHECKS)
def test_what_was_promised_is_there_after_a_power_cut(
    operation: str, disk: SimulatedDisk, place: Path, check: Check
) -> None:
    recording = disk.record(operation, place)
    assert recording.acknowledged
    check(recording, 30)


FAULTS = {
    "fsync fails once": Fault("fsync", errno.EIO),
    "fsync fails later": Fault("fsync", errno.EIO, skip=3),
    "fsync fails for ever": Fault("fsync", errno.EIO, times=-1),
    "the disk is full once": Fault("write", errno.ENOSPC, skip=5),
    "the disk is full": Fault("write", errno.ENOSPC, times=-1, skip=5),
    "a write is short": Fault("write", 0, times=3, skip=2),
    "reading fails once": Fault("read", errno.EIO, skip=1),
    "reading fails": Fault("read", errno.EIO, times=-1, skip=3),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("operation", CHECKS)
def test_what_was_promised_by_a_bad_disk_is_there(
    operation: str, fault: str, disk: SimulatedDisk, place: Path, check: Check
) -> None:
    recording = disk.record(operation, place, fault=FAULTS[fault])
    check(recording, 5)


# -- the simulated disk itself --------------------------------------------------------------------


def test_every_change_of_a_file_is_seen(disk: SimulatedDisk, place: Path) -> None:
    """The calls alone make the files that the programs have left, whoever has written them."""
    seen: set[str] = set()
    for operation in OPERATIONS:
        recording = disk.record(operation, place / operation)
        replayed = place / f"{operation}-replayed"
        after_everything(recording, replayed)
        files = contents(replayed)
        assert files == contents(recording.folder)
        seen |= {path.suffix for path, data in files.items() if data}
        if operation == "companion":
            assert len({call.pid for call in recording.calls}) > 1
    assert seen >= {".jsonl", ".json", ".png", ".safetensors", ".parquet", ".sqlite"}


def contents(folder: Path) -> dict[Path, bytes]:
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith("-shm")
    }
