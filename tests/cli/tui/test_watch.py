"""What people see: the screen's contents, in a terminal that tmux keeps."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.doubles.scripts import start_script
from tests.store.journals import Journal

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")

WATCH = Path(__file__).with_name("start_watch.py")


class Screen:
    """A shell in a terminal of tmux, with what is to be seen of it."""

    def __init__(self, *, columns: int, rows: int) -> None:
        self._name = f"epochal-{uuid.uuid4().hex[:8]}"
        size = ["-x", str(columns), "-y", str(rows)]
        self._tmux("-f", "/dev/null", "new-session", "-d", *size, "env PS1='$ ' sh")
        self._tmux("set-option", "-g", "window-size", "manual")

    def _tmux(self, *arguments: str) -> str:
        done = subprocess.run(
            ["tmux", "-u", "-L", self._name, *arguments],
            # A size that a shell exported must not go before that of the terminal.
            env={**os.environ, "LC_ALL": "C.UTF-8", "COLUMNS": "120", "LINES": "50"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def type(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def watch(self, *arguments: str) -> None:
        self.type(shlex.join([sys.executable, str(WATCH), *arguments]), "Enter")

    def resize(self, *, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def text(self) -> str:
        return self._tmux("capture-pane", "-p")

    def until(self, seen: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + 120
        while not seen(text := self.text()):
            assert time.monotonic() < deadline, text
            time.sleep(0.05)
        return text

    def cursor_is_shown(self) -> bool:
        return self._tmux("display-message", "-p", "#{cursor_flag}").strip() == "1"

    def close(self) -> None:
        self._tmux("kill-server")


@pytest.fixture
def small() -> Iterator[Screen]:
    screen = Screen(columns=60, rows=20)
    yield screen
    screen.close()


def test_the_screen_from_start_to_end(small: Screen, tmp_path: Path) -> None:
    for name in ("one", "two"):
        Journal(tmp_path, name).metrics(0, loss=2.0).metrics(9, loss=1.0).finish()
    small.type("echo before", "Enter")
    small.watch(str(tmp_path))
    text = small.until(lambda text: "run 1 of 2" in text and "? keys" in text)
    assert "before" not in text
    small.type("Down")
    small.until(lambda text: "run 2 of 2" in text)
    small.type("s", "l", "/")
    small.until(lambda text: "log  smooth 0.6" in text and "filter runs:" in text)
    small.type("t", "w")
    small.until(lambda text: "filter runs: tw" in text)
    small.type("Enter")
    small.until(lambda text: "? keys" in text and "p/two" in text)
    small.type("Escape")
    small.resize(columns=140, rows=40)
    text = small.until(lambda text: "one" in text and "two" in text)
    assert len(text.splitlines()) == 40
    small.type("q")
    small.until(lambda text: "before" in text and text.rstrip().endswith("$"))
    assert small.cursor_is_shown()


def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_again(
    small: Screen, tmp_path: Path
) -> None:
    Journal(tmp_path, "job").metrics(0, loss=1.5)
    small.watch(str(tmp_path))
    small.until(lambda text: "p/job" in text)
    small.type("C-z")
    small.until(lambda text: "Stopped" in text and "? keys" not in text)
    assert small.cursor_is_shown()
    small.type("echo in between", "Enter")
    small.until(lambda text: text.count("in between") == 2)
    small.type("fg", "Enter")
    small.until(lambda text: "? keys" in text and "in between" not in text)
    small.type("C-c")
    small.until(lambda text: "in between" in text)


def test_a_process_that_is_told_to_continue_while_it_runs_reads_keys_once(
    small: Screen, tmp_path: Path
) -> None:
    Journal(tmp_path, "job").metrics(0, loss=1.5)
    small.watch(str(tmp_path))
    small.until(lambda text: "p/job" in text)
    processes = psutil.process_iter(["cmdline"])
    process = next(one for one in processes if str(tmp_path) in (one.info["cmdline"] or ())[2:])
    num_threads = process.num_threads()
    for _ in range(3):
        process.send_signal(signal.SIGCONT)
        time.sleep(0.2)
    small.type("s")
    small.until(lambda text: "smooth 0.6" in text)
    assert process.num_threads() == num_threads  # keys are read once
    small.type("q")
    process.wait(120)
    small.until(lambda text: text.rstrip().endswith("$"))


def test_what_another_process_logs_appears(small: Screen, tmp_path: Path) -> None:
    source = """
    with start("live", total_steps=1000) as run:
        for step in (99, 500):
            run.log({"loss": 1.0 / step}, step=step)
            print(flush=True)
            sys.stdin.readline()
    """
    with start_script(tmp_path, source) as training:
        small.resize(columns=100, rows=30)
        small.watch(str(tmp_path))
        small.until(lambda text: "● running tests/live" in text and "step 100/1,000" in text)
        assert training.stdin is not None
        training.stdin.write("\n")
        training.stdin.flush()
        small.until(lambda text: "step 501/1,000" in text and "best 0.0020 @ 500" in text)
        training.communicate("\n", timeout=120)
    small.until(lambda text: "○ finished tests/live" in text)


def once(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(WATCH), *arguments],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def test_without_a_terminal_it_is_printed_once(tmp_path: Path) -> None:
    journal = Journal(tmp_path, "job").metrics(0, loss=1.5).metrics(9, loss=0.5).finish()
    shown = once(str(journal.folder.path), PYTHONIOENCODING="utf-8")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "\x1b" not in shown.stdout
    assert "finished p/job" in shown.stdout
    assert any("⠀" < character <= "⣿" for character in shown.stdout)


def test_a_run_is_named_like_everywhere_and_compared_with_another(tmp_path: Path) -> None:
    Journal(tmp_path, "one").metrics(0, loss=1.0).metrics(9, loss=2.0)
    Journal(tmp_path, "two").metrics(0, loss=2.0).metrics(9, loss=1.0)
    shown = once("p/one", "--dir", str(tmp_path), "-c", "two", PYTHONIOENCODING="utf-8").stdout
    assert "p/one" in shown.splitlines()[0]
    assert "━━ two" in shown


def test_folders_and_files_of_other_trackers_are_watched_in_place(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("step,loss\n1,2.0\n", encoding="utf-8")
    for what in (tmp_path, tmp_path / "table.csv"):
        shown = once(str(what), PYTHONIOENCODING="utf-8")
        assert shown.returncode == 0
        assert "/table" in shown.stdout.splitlines()[0]
        assert "best 2.0000 @ 1" in shown.stdout
