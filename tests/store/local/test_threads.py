from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from epochal.journal.layout import PartName
from epochal.journal.segments.seal import seal_part
from epochal.store.cache import LoadedRuns, MemoryBudget
from epochal.store.local.catalog import FolderCatalog, folder_store
from epochal.store.run import RunView
from epochal.store.store import Store
from tests.store.journals import Journal

WAIT_S = 120.0


@contextmanager
def being_read(run: RunView) -> Iterator[None]:
    """Another thread holds the run's lock, as one that reads a large journal does."""
    begun, done = threading.Event(), threading.Event()

    def read() -> None:
        with run.lock:
            begun.set()
            done.wait(WAIT_S)

    reading = threading.Thread(target=read)
    reading.start()
    assert begun.wait(WAIT_S)
    try:
        yield
    finally:
        done.set()
        reading.join(WAIT_S)


def test_other_runs_answer_while_one_is_being_read(tmp_path: Path) -> None:
    Journal(tmp_path, name="large").metrics(1, loss=1.0)
    Journal(tmp_path, name="small").metrics(1, loss=2.0)
    with folder_store(tmp_path) as store:
        large = store.run("large")
        with being_read(large):
            small = store.find("id-small")
            assert small is not None
            assert list(small.series("loss").values) == [2.0]
            assert store.find("id-large") is large


def test_a_look_does_not_wait_for_a_run_that_is_being_read(tmp_path: Path) -> None:
    journal = Journal(tmp_path, name="large").metrics(1, loss=1.0)
    with folder_store(tmp_path) as store:
        large = store.run("large")
        store.refresh()
        with being_read(large):
            journal.metrics(2, loss=2.0)
            Journal(tmp_path, name="new").metrics(1, loss=3.0)
            assert store.refresh() == {"id-large", "id-new"}
        large.refresh()
        assert list(large.series("loss").values) == [1.0, 2.0]


def test_a_run_that_vanishes_while_it_is_read_is_no_longer_listed(tmp_path: Path) -> None:
    journal = Journal(tmp_path, name="gone").metrics(1, loss=1.0)
    with folder_store(tmp_path) as store:
        gone = store.run("gone")
        store.refresh()
        with being_read(gone):
            journal.folder.path.rename(tmp_path.parent / f"{tmp_path.name}-gone")
            assert store.refresh() == {"id-gone"}
            assert store.find("id-gone") is None


@pytest.mark.slow
def test_many_threads_get_the_same_answers_with_little_memory(tmp_path: Path) -> None:
    """Runs give way to each other, are sealed and read again, all at the same time."""
    journals = [Journal(tmp_path, name=f"r{number}") for number in range(6)]
    for number, journal in enumerate(journals):
        for step in range(50):
            journal.metrics(step, loss=number + step, acc=step)
        journal.finish()
        if number % 2:
            seal_part(journal.folder, PartName("loop", 1, 0))
        for path in journal.folder.path.rglob("*.*"):
            os.utime(path, (1000.0, 1000.0))  # long settled: it may give way
    held = MemoryBudget(loaded=LoadedRuns(limit_bytes=1, most=2))
    catalog = FolderCatalog(tmp_path)
    catalog._held = held
    with Store(catalog) as store:
        wrong: list[str] = []

        def ask(turn: int) -> None:
            number = turn % len(journals)
            run = store.find(f"id-r{number}")
            assert run is not None
            if turn % 7 == 0:
                store.refresh()
            values = run.series("loss").values
            if list(values) != [number + step for step in range(50)]:
                wrong.append(f"series of r{number}")
            if run.summary("acc").max != 49 or run.info.step != 49:
                wrong.append(f"summary of r{number}")
            with run.lock:
                if len(list(run.records())) - 1 != run.end()["loop"].ordinal:
                    wrong.append(f"records of r{number}")

        each_of(range(400), ask)
        assert wrong == []


def test_ids_and_records_fit_together_while_runs_grow(tmp_path: Path) -> None:
    journal = Journal(tmp_path, name="grows").metrics(0, loss=0.0)
    with folder_store(tmp_path) as store:
        run = store.run("grows")
        stop = threading.Event()

        def grow() -> None:
            step = 1
            while not stop.is_set() and step < 2000:
                journal.metrics(step, loss=float(step))
                step += 1

        growing = threading.Thread(target=grow)
        growing.start()

        def ask(turn: int) -> None:
            run.refresh()
            with run.lock:
                end = run.end()["loop"].ordinal
                assert [position.ordinal for position, _ in run.records()][-1] == end
                assert len(run.series("loss")) == end

        each_of(range(100), ask)
        stop.set()
        growing.join(WAIT_S)


def each_of(turns: range, ask: Callable[[int], None]) -> None:
    with ThreadPoolExecutor(8) as pool:
        for answered in [pool.submit(ask, turn) for turn in turns]:
            answered.result(WAIT_S)


def test_a_list_is_whole_while_another_thread_looks_for_runs(tmp_path: Path) -> None:
    names = {f"run-{number}" for number in range(200)}
    for name in names:
        Journal(tmp_path, name).metrics(1, loss=1.0)
    with folder_store(tmp_path) as store, ThreadPoolExecutor(1) as pool:
        store.runs()
        looking = pool.submit(lambda: [store.refresh() for _ in range(20)])
        while not looking.done():
            assert {run.id for run in store.known_runs().runs} == {f"id-{name}" for name in names}
            assert store.find("id-run-7") is not None
            assert store.find("another") is None
        looking.result()
