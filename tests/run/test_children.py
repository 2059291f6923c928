"""Processes that a training starts, and what they log: fork, multiprocessing, data loaders."""

import multiprocessing
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from epochal.run.current import current_run
from epochal.run.run import Run, recorder_of
from epochal.run.start import init
from tests.conftest import StartRun
from tests.doubles.journals import of_kind, records, steps


def writers(run: Run) -> list[str]:
    return [part.writer for part in recorder_of(run).folder.parts()]


def wait_for(child: int) -> None:
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_forked_child_has_a_file_of_its_own_and_no_rank(start_run: StartRun) -> None:
    run = start_run(config={"lr": 1})
    run.log({"a": 1}, step=0)
    child = os.fork()
    if child == 0:
        run.log({"a": 1}, step=1)
        os._exit(0)
    wait_for(child)
    run.log({"a": 1}, step=2)
    assert writers(run) == [f"child-{child}", "loop"]
    assert sorted(steps(run.dir)) == [0, 1, 2]
    ranks = {r["writer"]: (r["rank"], "config" in r) for r in of_kind(run.dir, "run")}
    assert ranks == {f"child-{child}": (-1, False), "loop": (0, True)}


def test_a_child_of_a_child_has_its_own_file_too(start_run: StartRun) -> None:
    run = start_run()
    child = os.fork()
    if child == 0:
        run.log({"a": 1}, step=1)
        grandchild = os.fork()
        run.log({"a": 1}, step=2 if grandchild else 3)
        if grandchild:
            os.waitpid(grandchild, 0)
        os._exit(0)
    wait_for(child)
    assert len(writers(run)) == 3
    assert sorted(steps(run.dir)) == [1, 2, 3]


def test_init_in_a_forked_child_gives_the_parents_run(start_run: StartRun) -> None:
    run = start_run()
    child = os.fork()
    if child == 0:
        joined = start_run("another")
        joined.log({"a": 1}, step=1)
        os._exit(0 if joined is run else 1)
    wait_for(child)
    assert steps(run.dir) == [1]


def test_a_child_that_finishes_leaves_the_run_open(start_run: StartRun) -> None:
    run = start_run()
    child = os.fork()
    if child == 0:
        run.log({"a": 1})
        run.finish()
        os._exit(0)
    wait_for(child)
    run.log({"a": 1})
    run.finish()
    loop = [r for r in records(run.dir) if r["log"] == "finish"]
    assert len(loop) == 2


def test_a_child_prints_no_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("EPOCHAL_GIT", "0")
    run = init("tests", "run", dir=tmp_path)
    capfd.readouterr()
    child = os.fork()
    if child == 0:
        run.log({"a": 1})
        run.log_step(1, 0.5, 10, 5.0, 1.0, 0.5, 0.1)
        os._exit(0)
    wait_for(child)
    assert capfd.readouterr().err == ""


def test_a_child_of_a_resumed_run_does_not_mark_a_resume(start_run: StartRun) -> None:
    start_run().log({"a": 1}, step=5)
    run = start_run(resume="must")
    child = os.fork()
    if child == 0:
        run.log({"a": 1}, step=0)
        os._exit(0)
    wait_for(child)
    assert of_kind(run.dir, "resume") == []
    run.log({"a": 1})
    assert [mark["step"] for mark in of_kind(run.dir, "resume")] == [6]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_fork_while_threads_log_does_not_hang_the_child(start_run: StartRun) -> None:
    run = start_run()
    stop = threading.Event()

    def log() -> None:
        while not stop.is_set():
            run.log({"a": 1})

    threads = [threading.Thread(target=log) for _ in range(4)]
    for thread in threads:
        thread.start()
    children = []
    for _ in range(10):
        child = os.fork()
        if child == 0:
            run.log({"child": 1})
            os._exit(0)
        children.append(child)
    stop.set()
    for thread in threads:
        thread.join()
    for child in children:
        wait_for(child)


def test_automatic_steps_of_threads_are_all_different(start_run: StartRun) -> None:
    run = start_run()

    def log() -> None:
        for _ in range(500):
            run.log({"a": 1})

    threads = [threading.Thread(target=log) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(steps(run.dir)) == list(range(4000))


def log_in_child(folder: str, step: int) -> None:
    run = init("other", "other", dir=folder, console=False)
    run.log({"a": 1}, step=step)
    current_run().log({"b": 1}, step=step + 1)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_init_in_a_multiprocessing_child_joins_the_parents_run(
    start_run: StartRun, tmp_path: Path, method: str
) -> None:
    run = start_run()
    context: Any = multiprocessing.get_context(method)
    child = context.Process(target=log_in_child, args=(str(tmp_path / "elsewhere"), 3))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert writers(run) == [f"child-{child.pid}", "loop"]
    assert steps(run.dir) == [3, 4]
    assert not (tmp_path / "elsewhere").exists()


def test_children_of_a_finished_run_start_their_own(start_run: StartRun, tmp_path: Path) -> None:
    run = start_run()
    run.finish()
    child = multiprocessing.get_context("spawn").Process(
        target=log_in_child, args=(str(tmp_path / "elsewhere"), 3)
    )
    child.start()
    child.join()
    assert child.exitcode == 0
    assert steps(run.dir) == []
    assert steps(tmp_path / "elsewhere" / "other" / "other") == [3, 4]


class LoggingDataset:
    """Three items; making one logs its index."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> int:
        if index >= len(self):
            raise IndexError
        self.run.log({"item": index}, step=index)
        return index


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_workers_of_a_data_loader_log_into_the_run(start_run: StartRun) -> None:
    data: Any = pytest.importorskip("torch.utils.data")
    run = start_run()
    loader = data.DataLoader(LoggingDataset(run), num_workers=2, multiprocessing_context="fork")
    assert sorted(int(batch[0]) for batch in loader) == list(range(6))
    run.log({"a": 1}, step=6)
    assert sorted(steps(run.dir)) == list(range(7))
    assert len(writers(run)) == 3


def test_a_child_does_not_wait_for_values_that_its_parent_reads(start_run: StartRun) -> None:
    class Array:
        """Like an array of JAX whose value is not computed yet."""

        shape = ()
        dtype = np.dtype(np.float32)
        computed = threading.Event()

        def is_ready(self) -> bool:
            return self.computed.is_set()

        def copy_to_host_async(self) -> None:
            pass

        def item(self) -> float:
            self.computed.wait()
            return 2.0

        __float__ = item

    Array.__module__ = "jaxlib._jax"
    Array.__name__ = Array.__qualname__ = "ArrayImpl"
    run = start_run()
    run.log({"a": Array()}, step=0)
    child = os.fork()
    if child == 0:
        run.log({"a": 1}, step=1)
        run.flush()
        os._exit(0)
    wait_for(child)
    Array.computed.set()
    run.finish()
    assert [r["m"]["a"] for r in of_kind(run.dir, "metrics") if r["step"] == 0] == [2.0]
    assert sorted(steps(run.dir)) == [0, 1]
