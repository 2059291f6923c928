"""Every acknowledged record is found exactly once, wherever a process ended or a disk failed."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import epochal
from epochal.cli.main import main
from epochal.errors import EpochalError
from epochal.exchange.media.types import Image
from epochal.hub.ledger import Ledger
from epochal.hub.serving import FolderRuns, open_noting
from epochal.journal.layout import FINDINGS, RunFolder, claim, staged_folder
from epochal.run.resume import find_parent
from epochal.run.run import Run
from epochal.shipping.client import HubError
from epochal.shipping.worker import ship_now
from epochal.store.local.catalog import open_store
from epochal.store.store import Store
from tests.conftest import StartRun
from tests.crash.crash_points import Child, Crash, Fault, crashes
from tests.doubles.hub_in_process import HubInProcess
from tests.doubles.journals import append_step, failing_sync, open_writer, steps

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
Found = tuple[list[Any], list[bytes]]


@pytest.fixture
def run(original: Path, start_run: StartRun) -> Iterator[Run]:
    """A run with a few records."""
    run = start_run(dir=original / "runs")
    for step in range(5):
        run.log({"loss": 1 / (step + 1)}, step=step)
    yield run
    run.finish()


def found(root: Path) -> Found:
    """The records and blobs that a fresh reader finds in the only run of a folder, if any.

    Without findings: packing judges what no companion watched.
    """
    runs = list(epochal.open(root)) if root.exists() else []
    assert len(runs) <= 1, f"there are {runs}"
    records: list[Any] = []
    blobs: list[bytes] = []
    for view in (run.view for run in runs):
        records += [record for at, record in view.records() if at.writer != FINDINGS]
        with contextlib.suppress(FileNotFoundError):  # its blob is on the way
            blobs += [view.blob(entry.record["file"]) for entry in view.entries("blob")]
    return records, blobs


def test_every_call_is_seen(original: Path) -> None:
    original.mkdir()

    def write(folder: Path, child: Child) -> None:
        child.attempt(lambda: (folder / "a").write_bytes(b"text"))  # two calls
        child.attempt(lambda: shutil.move(folder / "a", folder / "b"))
        child.attempt(lambda: os.makedirs(folder / "c" / "d"))  # two calls
        child.attempt(lambda: shutil.rmtree(folder / "c"))  # two calls
        database = sqlite3.connect(folder / "sqlite")
        child.attempt(lambda: database.execute("create table a (b)"))
        (folder / "e").touch()

    tried = [(crash.fault, crash.number) for crash in crashes(original, write)]
    calls = [(fault, n + 1) for fault in Fault for n in range(2 if fault is Fault.TORN else 9)]
    assert tried == calls


# -- what is sent to a hub ------------------------------------------------------------------------


def send(folder: Path, hub: HubInProcess, **named: Any) -> None:
    ship_now(RunFolder(folder / "runs" / "tests" / "run"), hub, pause_s=0.0, **named)


def push(folder: Path, child: Child) -> None:
    hub = HubInProcess(folder / "hub", on_lines=child.acknowledge, on_file=child.acknowledge)
    child.attempt(lambda: send(folder, hub, tries=child.tries))
    child.acknowledge("everything")


def push_again(folder: Path, **named: Any) -> None:
    with contextlib.closing(HubInProcess(folder / "hub")) as hub:
        send(folder, hub, **named)


def check_pushed(crash: Crash, expected: Found) -> None:
    """What the hub acknowledged is there, and everything when the run was sent again."""
    records, blobs = found(crash.folder / "hub")
    assert records == expected[0][: len(records)], crash
    num_lines = [have for have in crash.acknowledged if isinstance(have, int)]
    assert len(records) >= max(num_lines, default=0), crash
    num_sealed = len(list((crash.folder / "runs").rglob("*.parquet")))
    are_sealed = 0 < num_sealed <= crash.acknowledged.count("segments")
    if are_sealed or "everything" in crash.acknowledged:
        assert records == expected[0], crash
    if {"blobs", "everything"} & {*crash.acknowledged}:
        assert blobs == expected[1], crash
    push_again(crash.folder)
    assert found(crash.folder / "hub") == expected, crash


@pytest.mark.parametrize("is_known", [False, True], ids=["new run", "known run"])
def test_lines_that_a_hub_receives(original: Path, run: Run, is_known: bool) -> None:
    Ledger(original / "hub").close()
    if is_known:
        push_again(original)
        run.log({"loss": 0.5}, step=5)
        run.log({"loss": 0.4}, step=6)
    expected = found(original / "runs")
    for crash in crashes(original, push):
        check_pushed(crash, expected)


def test_a_segment_and_a_blob_that_a_hub_receives(original: Path, run: Run) -> None:
    push_again(original)
    run.log({"picture": Image(np.zeros((8, 8), np.uint8))}, 5)
    run.finish()
    expected = found(original / "runs")
    assert pack(original) == 0
    for crash in crashes(original, push):
        check_pushed(crash, expected)


# -- what is flushed ------------------------------------------------------------------------------


@pytest.mark.parametrize("failures", [0, 1])
def test_parts_that_are_synced_and_written_again(original: Path, failures: int) -> None:
    original.mkdir()

    def sync(folder: Path, child: Child) -> None:
        writer = open_writer(folder / "run", part_bytes=200)
        for step in range(5):
            append_step(writer, step)

        with failing_sync(times=failures):
            child.attempt(writer.sync)

    for crash in crashes(original, sync):
        assert steps(crash.folder / "run") == [0, 1, 2, 3, 4], crash


# -- what changes in place ------------------------------------------------------------------------


def pack(folder: Path) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("epochal.cli.pack.WORTH_SEALING_BYTES", 0)
        return main(["--dir", str(folder / "runs"), "--quiet", "manage", "pack", "--all"])


def test_a_run_that_is_sealed(original: Path, run: Run) -> None:
    run.finish()
    expected = found(original / "runs")

    def seal(folder: Path, child: Child) -> None:
        def call() -> None:
            if pack(folder) != 0:
                raise EpochalError("a part was not sealed.")

        child.attempt(call)

    for crash in crashes(original, seal):
        assert found(crash.folder / "runs") == expected, crash
        assert pack(crash.folder) == 0, crash
        assert found(crash.folder / "runs") == expected, crash


def test_a_run_that_is_forked(original: Path, run: Run) -> None:
    run.log({"picture": Image(b"\x89PNG\r\n\x1a\npixels")}, 2)
    run.finish()

    def fork(folder: Path, child: Child) -> None:
        parent = find_parent("run?step=3", root=folder / "runs", project="tests")

        def call() -> None:
            with staged_folder(folder / "runs" / "tests") as staged:
                parent.copy_history(staged, {"id": "fork", "name": "fork", "project": "tests"})
                assert claim(staged, folder / "runs" / "tests" / "fork")

        child.attempt(call)
        child.acknowledge("copied")

    for crash in crashes(original, fork):
        views = [run.view for run in epochal.open(crash.folder / "runs")]
        assert len(views) == 2 or not crash.acknowledged, crash
        for view in views:
            assert view.series("loss").steps.tolist()[:4] == [0, 1, 2, 3], crash
            assert view.samples()[0].read().endswith(b"pixels"), crash


def delete(store: Store) -> None:
    store.remove(store.run("run"))


def move(store: Store, child: Child, action: str) -> None:
    if action == "delete":
        view = store.run("run")
        child.attempt(lambda: store.remove(view))
    else:
        trashed = store.trash.find("run")
        child.attempt(lambda: store.trash.restore(trashed))
    child.acknowledge(action)


def check_place(crash: Crash, root: Path, expected: Found) -> None:
    """The run is in its place or in the trash, as was acknowledged, and whole."""
    with open_store(root) as store:
        num_runs, trashed = len(store.runs()), store.trash.runs()
        assert num_runs + len(trashed) == 1, crash
        assert crash.acknowledged in ([], ["restore" if num_runs else "delete"]), crash
        for run in trashed:
            store.trash.restore(run)
    assert found(root) == expected, crash


@pytest.mark.parametrize("action", ["delete", "restore"])
def test_a_run_that_is_moved(original: Path, run: Run, every: int, action: str) -> None:
    run.finish()
    expected = found(original / "runs")
    if action == "restore":
        delete(open_store(original / "runs"))

    def operation(folder: Path, child: Child) -> None:
        move(open_store(folder / "runs"), child, action)

    for crash in crashes(original, operation, every=every):
        check_place(crash, crash.folder / "runs", expected)


@pytest.mark.parametrize("action", ["delete", "restore"])
def test_a_run_that_is_moved_on_a_hub(original: Path, run: Run, every: int, action: str) -> None:
    run.finish()
    push_again(original)
    expected = found(original / "runs")

    def hub_store(folder: Path) -> Store:
        runs = FolderRuns(folder / "hub")
        return open_noting(runs, Ledger(folder / "hub"), runs.whole)

    if action == "restore":
        delete(hub_store(original))
    for crash in crashes(
        original, lambda folder, child: move(hub_store(folder), child, action), every=every
    ):
        # A sender that nobody asked sends no run again that is in the trash.
        with contextlib.suppress(HubError):
            push_again(crash.folder, tries=1, unless_removed=True)
        check_place(crash, crash.folder / "hub", expected)


def test_tokens_of_a_hub(original: Path) -> None:
    with contextlib.closing(Ledger(original)) as ledger:
        old = ledger.add_token("old", "write")
        ledger.claim("run", "tests", "old")

    def change(folder: Path, child: Child) -> None:
        ledger = child.attempt(lambda: Ledger(folder))
        child.acknowledge(child.attempt(lambda: ledger.add_token("new", "write")))
        child.attempt(
            lambda: ledger.claim("run", "tests", "new")
        )  # a hub stores something meanwhile
        child.attempt(lambda: ledger.revoke_token("old"))
        child.acknowledge("revoked")
        child.acknowledge(child.attempt(lambda: ledger.add_token("old", "read")))

    for crash in crashes(original, change):
        with contextlib.closing(Ledger(crash.folder)) as ledger:
            added = [token for token in crash.acknowledged if token != "revoked"]
            assert all(ledger.principal(token) for token in added), crash
            assert "revoked" not in crash.acknowledged or not ledger.principal(old), crash
            ledger.add_token("another", "admin")
