"""One start of a command: its output passed on and kept, its run found, its first step awaited."""

from __future__ import annotations

import codecs
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any, TextIO

from epochal.errors import EpochalError
from epochal.format import format_duration
from epochal.journal.header import part_header, read_identity
from epochal.journal.layout import RunFolder
from epochal.journal.line import encode, now
from epochal.journal.writer import JournalWriter
from epochal.run.capture import MAX_CAPTURED_BYTES, Tee
from epochal.settings.launch import Announcement, launch_variable, read_announcements
from epochal.store.local.run import LocalRun
from epochal.store.local.store import LocalStore

# What a command printed, kept in the run that it started: in a file of the journal of its own.

WRITER = "launcher"
# What is printed before the run begins: imports that fail, warnings.
_MOST_WAITING = 2000
_FULL = "[epochal] kept output is full; the rest is not kept"


class KeptOutput:
    """Lines of a command; they wait until its run is known. Safe to call from several threads."""

    def __init__(self, limit_bytes: int = MAX_CAPTURED_BYTES) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[dict[str, Any]] = deque(maxlen=_MOST_WAITING)
        self._left = limit_bytes
        self._writer: JournalWriter | None = None
        self._keeps = True

    def line(self, stream: str, text: str) -> None:
        """Keep a line that was printed on ``stdout`` or ``stderr``."""
        with self._lock:
            if not self._keeps or self._left <= 0:
                return
            self._left -= len(text) + 1
            if self._left <= 0:
                stream, text = "stderr", _FULL
            self._add({"log": "message", "t": now(), "level": stream, "text": text})

    def say(self, level: str, text: str) -> None:
        """Keep a sentence about the command."""
        with self._lock:
            self._add({"log": "message", "t": now(), "level": level, "text": text})

    def event(self, name: str, **facts: Any) -> None:
        """Keep an event of the command."""
        with self._lock:
            self._add({"log": "event", "t": now(), "name": name, **facts})

    def belongs_to(self, folder: RunFolder, attempt: int, *, keeps: bool) -> None:
        """From now on write to this run; ``keeps=False`` when it keeps its output itself."""
        with self._lock:
            self._close()
            self._keeps = keeps
            self._writer = JournalWriter(
                folder,
                writer=WRITER,
                attempt=attempt,
                header=lambda part: part_header(part, identity=read_identity(folder), rank=0),
                on_fault=lambda _sentence: None,
            )
            with contextlib.suppress(OSError):  # the first append tries again, and counts
                self._writer.open()
            while self._waiting:
                record = self._waiting.popleft()
                if keeps or record["log"] != "message":
                    self._append(record)

    def close(self) -> None:
        """End the file."""
        with self._lock:
            self._close()

    def _add(self, record: dict[str, Any]) -> None:
        if self._writer is None:
            self._waiting.append(record)
        else:
            self._append(record)

    def _append(self, record: dict[str, Any]) -> None:
        assert self._writer is not None
        if self._writer.folder.journal.is_dir():  # a run that was deleted is not brought back
            self._writer.append(encode(record), now())

    def _close(self) -> None:
        if self._writer is None:
            return
        reason = "the command's output ends with it"
        self._append({"log": "finish", "t": now(), "status": "finished", "reason": reason})
        if self._writer.folder.journal.is_dir():
            self._writer.close()
        self._writer = None


_LOOK_EVERY_S = 0.2
_CHUNK_BYTES = 65536
# Output may go on when the command itself has ended: processes it left behind hold the pipe.
_DRAIN_S = 5.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a start ended; ``code`` is negative for a signal, ``run`` None when there was none."""

    code: int
    seconds: float
    run: LocalRun | None
    was_stopped: bool

    @property
    def has_stepped(self) -> bool:
        """Whether a step or an epoch was logged by this attempt."""
        return self.run is not None and _has_stepped(self.run)

    def __str__(self) -> str:
        if self.code >= 0:
            return f"exit {self.code}"
        try:
            return signal.Signals(-self.code).name
        except ValueError:
            return f"signal {-self.code}"


class Launch:
    """Runs a command to its end.

    ``first_step_s`` is how long its run may take to begin, and that run's first step, before
    somebody is told; 0 is for ever. ``tell`` takes a sentence for people.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        first_step_s: float,
        tell: Callable[[str], None],
    ) -> None:
        self._command = list(command)
        self._environment = dict(environment)
        self._first_step_s = first_step_s
        self._tell = tell
        self._kept = KeptOutput()
        self._run: LocalRun | None = None
        self._store: LocalStore | None = None
        self._num_seen = 0
        self._was_stopped = False
        self._late_at: float | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def run(self) -> Ended:
        """Start the command and stay until it has ended; raises ``EpochalError`` if it cannot."""
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="epochal-") as folder:
            announcements = Path(folder) / "runs.jsonl"
            process = self._process = self._started(announcements)
            with self._signals():
                readers = [
                    _reader(
                        process.stdout, sys.stdout, lambda line: self._kept.line("stdout", line)
                    ),
                    _reader(
                        process.stderr, sys.stderr, lambda line: self._kept.line("stderr", line)
                    ),
                ]
                self._watch(process, announcements)
                for reader in readers:
                    reader.join(_DRAIN_S)
            self._look(announcements)
        return self._ended(process.returncode, time.monotonic() - begun)

    def _started(self, announcements: Path) -> subprocess.Popen[bytes]:
        # Python holds back what it prints into a pipe; the last lines would be lost with a crash.
        variables = {**self._environment, "PYTHONUNBUFFERED": "1", **launch_variable(announcements)}
        try:
            return subprocess.Popen(
                self._command,
                env={**os.environ, **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            raise EpochalError(f"{self._command[0]!r} cannot be started: {error}") from error

    def _watch(self, process: subprocess.Popen[bytes], announcements: Path) -> None:
        self._await_step()
        while process.poll() is None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_EVERY_S)
            self._look(announcements)
            if self._late_at is not None and time.monotonic() >= self._late_at:
                self._late_at = None
                self._say_late(process.pid)

    def _await_step(self) -> None:
        is_awaited = self._first_step_s > 0
        self._late_at = time.monotonic() + self._first_step_s if is_awaited else None

    def _say_late(self, pid: int) -> None:
        within = format_duration(self._first_step_s)
        if self._run is None:
            self._tell(f"no run was started within {within}; process {pid} is still running.")
        elif not _has_stepped(self._run):
            info = self._run.info
            sentence = f"{info.project}/{info.name} logged no step within {within} of its start."
            self._kept.say("warning", sentence)
            self._tell(f"{sentence} Process {pid} is still running.")

    def _look(self, announcements: Path) -> None:
        """Find the runs that the command has started since; the newest is its run."""
        found = read_announcements(announcements)
        for announced in found[self._num_seen :]:
            self._take(announced)
        self._num_seen = len(found)

    def _take(self, announced: Announcement) -> None:
        folder = RunFolder(Path(announced.folder))
        self._kept.belongs_to(folder, announced.attempt, keeps=not announced.captures)
        if self._store is not None:
            self._store.close()
        self._store = LocalStore(folder.path)
        self._run = self._store.run(str(folder.path))
        self._await_step()

    def _ended(self, code: int, seconds: float) -> Ended:
        if self._run is not None:
            self._run.refresh()
        ended = Ended(code, seconds, self._run, self._was_stopped)
        self._kept.event("exit", code=code, text=str(ended), seconds=round(seconds, 3))
        self._kept.close()
        return ended

    @contextlib.contextmanager
    def _signals(self) -> Any:
        """Forward signals that end the process, and wait for the end of the command."""
        before: dict[int, Any] = {}
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            number = getattr(signal, name, None)
            if number is not None and threading.current_thread() is threading.main_thread():
                before[number] = signal.signal(number, self._pass_on)
        try:
            yield
        finally:
            for number, previous in before.items():
                signal.signal(number, previous)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._was_stopped = True
        # A terminal sends Ctrl-C to the command as well; twice would cut its cleaning up short.
        if number == signal.SIGINT and sys.stdin is not None and sys.stdin.isatty():
            return
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)


def _has_stepped(run: LocalRun) -> bool:
    run.refresh()
    return run.info.step is not None or run.info.epoch is not None


def _reader(
    pipe: IO[bytes] | None, stream: TextIO, keep: Callable[[str], None]
) -> threading.Thread:
    """A thread that passes on what comes through a pipe, and keeps its lines."""
    assert pipe is not None
    thread = threading.Thread(target=_pass_through, args=(pipe, Tee(stream, keep)), daemon=True)
    thread.start()
    return thread


def _pass_through(pipe: IO[bytes], tee: Tee) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
    with pipe:
        while chunk := os.read(pipe.fileno(), _CHUNK_BYTES):
            tee.write(decoder.decode(chunk))
            tee.flush()
    tee.end()
