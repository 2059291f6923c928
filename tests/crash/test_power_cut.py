"""Whatever was promised is there after a power cut, also on a disk that fails.

``make test ARGS='tests/crash/test_power_cut.py --thorough'`` tries many more seeds. A failure
prints the seed that repeats it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epochal
from epochal.api.reading import RunData
from epochal.hub.ledger import Ledger
from epochal.journal.blobs import RAW, encode_pending
from epochal.journal.boards import read_boards
from epochal.journal.labels import read_labels
from epochal.journal.layout import RunFolder
from epochal.journal.row import NO_LABELS
from epochal.shipping.client import HubError
from epochal.shipping.worker import ship_now
from epochal.store.local.catalog import open_store
from tests.crash.operations import OPERATIONS, Training, noting, picture, seal_parts, sender_of
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
from tests.doubles.hub_in_process import HubInProcess

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
    """A folder in memory; readers on the restarted machine use the cache that is left in it."""
    original.parent.joinpath("boot_id").write_text("restarted")
    monkeypatch.setattr("epochal.store.local.index._BOOT", original.parent / "boot_id")
    monkeypatch.setenv("EPOCHAL_CACHE_DIR", str(original / "cache"))
    return original


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> Callable[[int], Iterable[int]]:
    """So many seeds, with ``--thorough`` twenty times as many; or the one to be repeated."""
    more = 20 if request.config.getoption("thorough") else 1
    given = os.environ.get(SEED)
    return lambda number: [int(given)] if given else range(number * more)


def check(recording: Recording, seed: int, *, num_cuts: int = 1) -> None:
    """Check what some power cuts leave of what an operation has done."""
    for number in range(num_cuts):
        cut = power_cut(recording, f"{seed}.{number}")
        try:
            CHECKS[recording.operation](cut)
        except Exception as error:
            test = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
            fault = f"{recording.fault}\n" if recording.fault else ""
            repeat = f"Repeat it with:\n{SEED}={seed} make test ARGS='{test}'"
            raise AssertionError(f"{error}\n{fault}{cut}\n{repeat}") from error


# -- what was promised is there -------------------------------------------------------------------


def promised(cut: PowerCut, name: str) -> list[Any]:
    """All promises of a kind."""
    return [done[name] for done in cut.acknowledged if name in done]


def check_run(cut: PowerCut) -> None:
    """What was flushed is there; where only the process was killed, what was logged as well."""
    runs = list(epochal.open(cut.folder / "runs")) if (cut.folder / "runs").exists() else []
    promises = [*cut.acknowledged, *(promised(cut, "logged") if cut.is_kill else [])]
    num_steps = max((promise.get("steps", 0) for promise in promises), default=0)
    num_lost = max((promise.get("lost", 0) for promise in promises), default=0)
    if not runs:
        assert not num_steps, "the run is not there"
        return
    (run,) = runs
    for _ in run.view.records():
        pass
    check_steps(run, num_steps, num_lost)
    check_samples(run, promises)
    if promised(cut, "finished"):
        assert run.info.status.text == "finished"


def check_samples(run: RunData, promises: Iterable[dict[str, Any]]) -> None:
    for promise in promises:
        if "picture" in promise:
            (sample,) = (one for one in run.samples("picture") if one.step == promise["picture"])
            assert np.array_equal(pixels(sample.read()), picture(promise["picture"]))
        if "file" in promise:
            (file,) = (one for one in run.files() if one.step == promise["file"])
            assert file.read() == b"notes"


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


def check_encoded(cut: PowerCut) -> None:
    """Every picture is there, before and after the rest is encoded."""
    check_run(cut)
    folder = RunFolder(cut.folder / "runs" / "tests" / "run")
    assert encode_pending(folder)
    assert not list(folder.blobs.glob(f"*{RAW}"))
    check_run(cut)


def check_sealed(cut: PowerCut) -> None:
    """Every record is there, before and after the rest is sealed."""
    check_run(cut)
    seal_parts(RunFolder(cut.folder / "runs" / "tests" / "run"))
    check_run(cut)


def check_forks(cut: PowerCut) -> None:
    """Every fork that is listed has the whole history."""
    runs = list(epochal.open(cut.folder / "runs"))
    for run in runs:
        assert run.series("loss", axis="step").steps.tolist()[:4] == [0, 1, 2, 3]
        check_samples(run, [{"picture": 2}])
    assert len(runs) > len(promised(cut, "forks")) or not cut.is_kill


def check_moved(cut: PowerCut) -> None:
    """The run is in its place or in the trash, and whole."""
    check_place(cut, cut.folder / "runs")


def check_moved_on_hub(cut: PowerCut) -> None:
    folder = RunFolder(cut.folder / "runs" / "tests" / "run")
    with (
        contextlib.closing(HubInProcess(cut.folder / "hub")) as receiver,
        contextlib.suppress(HubError),  # a sender that nobody asked sends no deleted run
    ):
        ship_now(folder, receiver, pause_s=0.0, tries=1, unless_removed=True)
    check_place(cut, cut.folder / "hub")


def check_place(cut: PowerCut, root: Path) -> None:
    with open_store(root) as store:
        trashed = store.trash.runs()
        assert len(store.runs()) + len(trashed) == 1
        last = cut.acknowledged[-1].get("place") if cut.acknowledged else None
        if cut.is_kill and not cut.num_since and last is not None:
            assert last == ("trash" if trashed else "runs")
        for deleted in trashed:
            store.trash.restore(deleted)
    (run,) = epochal.open(root)
    check_steps(run, 5)
    check_samples(run, [{"picture": 2}])


def check_checkpoints(cut: PowerCut) -> None:
    """The latest checkpoint is the last one that was saved, or the one that was being saved."""
    training = Training(cut.folder / "checkpoints")
    for manifest in training.checkpoints.list():
        assert training.restored(manifest.step) in (manifest.step, 6)
    last = max(promised(cut, "saved"), default=0)
    if last or training.checkpoints.list():
        assert training.restored() >= last
    training.save(9)
    assert training.restored() == 9


def check_labels(cut: PowerCut) -> None:
    notes = read_labels(RunFolder(cut.folder / "runs" / "tests" / "run")).notes
    last = max(promised(cut, "note"), default=None)
    later = [noting(number)(NO_LABELS).notes for number in range(last or 0, 7)]
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
    """What the hub acknowledged is there, and everything when the run was sent again."""
    runs = list(epochal.open(cut.folder / "hub"))
    num_records = sum(1 for run in runs for _ in run.view.records())
    assert num_records >= max(promised(cut, "lines"), default=0)
    if promised(cut, "steps"):
        check_steps(runs[0], max(promised(cut, "steps")))
    if "blobs" in promised(cut, "received"):
        check_samples(runs[0], [{"picture": 20}])
    sent = RunFolder(sender_of(cut.folder) / "tests" / "sent")
    with contextlib.closing(HubInProcess(cut.folder / "hub")) as receiver:
        ship_now(sent, receiver, pause_s=0.0)
    (run,) = epochal.open(cut.folder / "hub")
    assert [record for _, record in run.view.records()] == [
        record for _, record in epochal.load(sent.path).view.records()
    ]
    check_samples(run, [{"picture": 20}])


def check_tokens(cut: PowerCut) -> None:
    with contextlib.closing(Ledger(cut.folder / "hub")) as ledger:
        assert all(ledger.principal(token) for token in promised(cut, "token"))
        assert not any(ledger.principal(token) for token in promised(cut, "revoked"))
        assert ledger.principal(ledger.add_token("another", "admin"))


CHECKS: dict[str, Callable[[PowerCut], None]] = {
    "flush": check_run,
    "finish": check_run,
    "companion": check_run,
    "encode": check_encoded,
    "seal": check_sealed,
    "fork": check_forks,
    "move": check_moved,
    "move_on_hub": check_moved_on_hub,
    "checkpoint": check_checkpoints,
    "label": check_labels,
    "board": check_boards,
    "hub": check_hub,
    "token": check_tokens,
}


@pytest.mark.parametrize("operation", CHECKS)
def test_what_was_promised_is_there_after_a_power_cut(
    operation: str, disk: SimulatedDisk, place: Path, seeds: Callable[[int], Iterable[int]]
) -> None:
    recording = disk.record(operation, place)
    for seed in seeds(20):
        check(recording, seed)


# Tried first, by the first seeds.
FAULTS = (
    Fault("fsync", errno.EIO),
    Fault("fsync", errno.EIO, skip=3),
    Fault("fsync", errno.EIO, times=-1),
    Fault("write", errno.ENOSPC, skip=5),
    Fault("write", errno.ENOSPC, times=-1, skip=5),
    Fault("write", 0, times=3, skip=2),
    Fault("read", errno.EIO, skip=1),
    Fault("read", errno.EIO, times=-1, skip=3),
)


def fault_of(seed: int) -> Fault:
    if seed < len(FAULTS):
        return FAULTS[seed]
    chance = random.Random(seed)
    call = chance.choice(("fsync", "write", "read", "name", "change"))
    errors = {"write": (errno.ENOSPC, errno.EIO, 0), "name": (errno.ENOSPC, errno.EIO)}
    error = chance.choice(errors.get(call, (errno.EIO,)))
    return Fault(call, error, chance.choice((1, 1, 3, -1)), int(chance.expovariate(0.1)))


@pytest.mark.parametrize("operation", CHECKS)
def test_what_was_promised_by_a_bad_disk_is_there(
    operation: str, disk: SimulatedDisk, place: Path, seeds: Callable[[int], Iterable[int]]
) -> None:
    for seed in seeds(4 if operation == "companion" else 12):  # a companion takes a second
        recording = disk.record(operation, place, fault=fault_of(seed))
        check(recording, seed, num_cuts=2)


# -- the simulated disk itself --------------------------------------------------------------------


def test_every_change_of_a_file_is_seen(disk: SimulatedDisk, place: Path) -> None:
    """The calls alone make the files that the programs have left, whoever has written them."""
    suffixes: set[str] = set()
    seen: Counter[tuple[str, str]] = Counter()
    for operation in OPERATIONS:
        recording = disk.record(operation, place / operation)
        replayed = place / f"{operation}-replayed"
        after_everything(recording, replayed)
        files = contents(replayed)
        assert files == contents(recording.folder)
        suffixes |= {path.suffix for path, data in files.items() if data}
        seen += recording.seen()
        if operation == "companion":
            assert len({call.pid for call in recording.calls}) > 1
    for (name, suffix), number in sorted(seen.items()):
        sys.stdout.write(f"{number:7,} {name} {suffix}\n")  # pytest shows it with -rP
    assert suffixes >= {".jsonl", ".json", ".png", ".safetensors", ".parquet", ".sqlite"}
    written = {suffix for name, suffix in seen if "write" in name}
    assert written >= {".jsonl", ".sqlite-wal", ".sqlite-journal", ".partial"}


def contents(folder: Path) -> dict[Path, bytes]:
    return {
        path.relative_to(folder): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.name.endswith("-shm")
    }
