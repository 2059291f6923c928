"""The terminal is left as it was, whatever ends the view."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.store.journals import Journal

WATCH = Path(__file__).with_name("start_watch.py")
ENTERED, LEFT = b"\x1b[?1049h", b"\x1b[?1049l"


class Watching:
    """A view in a terminal of its own."""

    def __init__(self, process: subprocess.Popen[bytes], terminal: int) -> None:
        self.process = process
        self.terminal = terminal
        self.seen = b""

    def until(self, text: bytes, *, times: int = 1) -> None:
        deadline = time.monotonic() + 120
        while self.seen.count(text) < times:
            assert time.monotonic() < deadline, self.seen[-2000:]
            self.seen += os.read(self.terminal, 65536)

    def modes(self) -> list[Any]:
        return termios.tcgetattr(self.terminal)


@contextmanager
def watching(folder: Path, *, prelude: str = "") -> Iterator[Watching]:
    terminal, inner = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, *(["-c", prelude] if prelude else [str(WATCH)]), str(folder)],
        stdin=inner,
        stdout=inner,
        stderr=inner,
        env={**os.environ, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"},
        start_new_session=True,
    )
    try:
        yield Watching(process, terminal)
    finally:
        process.kill()
        process.wait()
        os.close(inner)
        os.close(terminal)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    Journal(tmp_path).metrics(0, loss=1.0).metrics(1, loss=0.5)
    return tmp_path


@pytest.mark.parametrize(
    ("end", "code"), [(b"q", 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_every_end_gives_the_terminal_back(
    folder: Path, end: bytes | signal.Signals, code: int
) -> None:
    with watching(folder) as view:
        before = view.modes()
        view.until(b"loss")
        assert view.modes() != before
        if isinstance(end, bytes):
            os.write(view.terminal, end)
        else:
            view.process.send_signal(end)
        view.until(LEFT)
        assert view.process.wait(120) == code
        assert view.modes() == before


def test_an_error_is_printed_on_a_terminal_that_was_given_back(folder: Path) -> None:
    broken = (
        "import runpy, epochal.cli.tui.app as app; app.SMOOTHINGS = ();"
        f"runpy.run_path({str(WATCH)!r}, run_name='__main__')"
    )
    with watching(folder, prelude=broken) as view:
        before = view.modes()
        view.until(b"loss")
        os.write(view.terminal, b"s")
        view.until(b"ValueError")
        assert view.process.wait(120) == 1
        assert view.seen.index(LEFT) < view.seen.index(b"Traceback")
        assert view.modes() == before


def test_a_view_that_is_told_to_continue_while_it_ends_ends(folder: Path) -> None:
    """The system does so when a terminal is closed."""
    continued = (
        "import os, runpy, signal; from epochal.cli.tui.app import _Terminal as terminal;"
        "stop = terminal.disable_input; terminal.disable_input ="
        " lambda self: (stop(self), os.kill(os.getpid(), signal.SIGCONT));"
        f"runpy.run_path({str(WATCH)!r}, run_name='__main__')"
    )
    with watching(folder, prelude=continued) as view:
        view.until(b"loss")
        os.write(view.terminal, b"q")
        view.until(LEFT)
        assert view.process.wait(120) == 0


def test_a_stopped_view_gives_the_terminal_back_and_takes_it_again(folder: Path) -> None:
    with watching(folder) as view:
        before = view.modes()
        view.until(b"keys")
        os.write(view.terminal, b"s")
        view.until(b"smooth 0.6")
        view.process.send_signal(signal.SIGTSTP)
        view.until(LEFT)
        while psutil.Process(view.process.pid).status() != psutil.STATUS_STOPPED:
            time.sleep(0.01)
        assert view.modes() == before
        view.process.send_signal(signal.SIGCONT)
        view.until(ENTERED, times=2)
        while view.modes() == before:  # the screen is entered before the keys are
            time.sleep(0.01)
        view.seen = view.seen.rpartition(ENTERED)[2]
        view.until(b"keys")  # in the last line, which has not changed
        os.write(view.terminal, b"q")
        view.until(LEFT)
        assert view.process.wait(120) == 0


@pytest.mark.parametrize("prelude", ["", "os.isatty = lambda descriptor: True"])
def test_a_terminal_that_hangs_up_without_a_signal_ends_the_view(
    folder: Path, prelude: str
) -> None:
    """Not a session of its own, so no SIGHUP; nor does every system deny a dead terminal."""
    terminal, inner = pty.openpty()
    source = f"import os, runpy; {prelude}\nrunpy.run_path({str(WATCH)!r}, run_name='__main__')"
    with subprocess.Popen(
        [sys.executable, "-c", source, str(folder)], stdin=inner, stdout=inner, stderr=inner
    ) as process:
        os.close(inner)
        seen = b""
        while b"loss" not in seen:
            seen += os.read(terminal, 65536)
        os.close(terminal)
        try:
            assert process.wait(120) == 128 + signal.SIGHUP
        finally:
            process.kill()
