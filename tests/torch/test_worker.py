from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from epochal.torch.worker import CpuWorker

AT_EXIT = """
import pathlib, sys, time
from epochal.torch.worker import CpuWorker
worker = CpuWorker()
def slow():
    time.sleep(0.2)
    pathlib.Path(sys.argv[1]).write_text("written")
worker.submit(slow)
if len(sys.argv) > 2:
    worker.submit(lambda: 1 / 0)
"""


def test_tasks_run_in_order_on_another_thread() -> None:
    done: list[tuple[int, int]] = []
    with CpuWorker() as worker:
        for number in range(20):
            worker.submit(lambda n: done.append((n, threading.get_ident())), number)
    assert [number for number, _ in done] == list(range(20))
    assert {thread for _, thread in done} != {threading.get_ident()}


def test_running_and_queued_tasks_count_as_busy() -> None:
    started, gate = threading.Event(), threading.Event()

    def wait() -> None:
        started.set()
        gate.wait()

    with CpuWorker() as worker:
        assert worker.is_idle()
        worker.submit(wait)
        assert not worker.is_idle()
        started.wait()
        worker.submit(lambda: None)
        assert not worker.is_idle()
        gate.set()


def test_the_queue_is_bounded() -> None:
    gate, third = threading.Event(), threading.Event()

    with CpuWorker(max_queued=1) as worker:
        worker.submit(gate.wait)
        worker.submit(gate.wait)

        def submit() -> None:
            worker.submit(lambda: None)
            third.set()

        waiting = threading.Thread(target=submit)
        waiting.start()
        assert not third.wait(0.05)
        gate.set()
        waiting.join()
        assert third.is_set()


@pytest.mark.parametrize("call", ["submit", "is_idle", "finish"])
def test_an_error_is_raised_by_the_next_call(call: str) -> None:
    worker = CpuWorker()

    def fail() -> None:
        raise OSError("disk full")

    worker.submit(fail)
    while not worker._queue.is_empty():
        pass
    with pytest.raises(OSError, match="disk full"):
        worker.submit(lambda: None) if call == "submit" else getattr(worker, call)()
    worker.finish()


def test_tasks_after_a_failed_one_run_and_every_error_is_told() -> None:
    done: list[int] = []
    gate = threading.Event()

    def fail(error: Exception) -> None:
        gate.wait()
        raise error

    worker = CpuWorker()
    worker.submit(fail, OSError("first"))
    worker.submit(fail, ValueError("second"))
    worker.submit(done.append, 1)
    gate.set()
    with pytest.raises(OSError, match="first") as raised:
        worker.finish()
    assert isinstance(raised.value.__context__, ValueError)
    assert done == [1]


def test_a_worker_that_is_given_up_finishes_its_tasks(tmp_path: Path) -> None:
    worker = CpuWorker()
    worker.submit((tmp_path / "a").write_text, "x")
    del worker
    gc.collect()
    assert (tmp_path / "a").read_text() == "x"


def test_tasks_are_finished_before_the_program_ends(tmp_path: Path) -> None:
    path = tmp_path / "a"
    done = subprocess.run([sys.executable, "-c", AT_EXIT, str(path)], check=True)
    assert done.returncode == 0
    assert path.read_text() == "written"


def test_an_error_at_the_end_of_the_program_is_shown(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT, str(tmp_path / "a"), "fail"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ZeroDivisionError" in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_not_wait_for_a_thread_it_has_not(tmp_path: Path) -> None:
    script = AT_EXIT + "import os\nif os.fork() == 0:\n    sys.exit(0)\nos.wait()\n"
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "a")], check=True, timeout=120)


def test_a_finished_worker_takes_nothing_more() -> None:
    worker = CpuWorker()
    worker.finish()
    worker.finish()
    assert worker.is_idle()
    with pytest.raises(ValueError, match="has finished"):
        worker.submit(lambda: None)


def test_misuse_names_the_argument() -> None:
    with pytest.raises(ValueError, match="max_queued must be at least 1"):
        CpuWorker(max_queued=0)
