import os
import select
import subprocess
import sys

import pytest

from epochal.companion.ending import ParentWatch, Waker
from epochal.journal.process import process_identity


def sleeping() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])


def test_a_process_is_alive_until_it_ends_and_its_descriptor_tells() -> None:
    with sleeping() as process:
        watch = ParentWatch(process.pid, started=process_identity(process.pid)["pid_start"])
        assert watch.is_alive()
        assert watch.descriptor is not None
        process.kill()
        assert select.select([watch.descriptor], [], [], 30)[0]
        assert not watch.is_alive()  # although nobody has collected it yet
    watch.close()


def test_a_number_that_another_process_has_now_is_not_the_parent() -> None:
    watch = ParentWatch(os.getpid(), started=1.0)
    assert not watch.is_alive()
    assert watch.descriptor is None


def test_without_descriptors_the_number_and_start_time_tell(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(os, "pidfd_open")
    with sleeping() as process:
        watch = ParentWatch(process.pid)
        assert (watch.descriptor, watch.is_alive()) == (None, True)
        process.kill()
    assert not watch.is_alive()


def test_a_knock_ends_the_sleep_and_a_closed_line_is_silent() -> None:
    read, write = os.pipe()
    waker = Waker(None, wake_fd=read)
    assert not waker.wait(0)
    os.write(write, b"\n")
    assert waker.wait(120)
    assert not waker.wait(0)
    os.close(write)
    assert waker.wait(120)
    assert not waker.wait(0)
    waker.close()
    os.close(read)
