"""One start of a command: its output passed on and kept, its run found, watched and stopped."""

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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import IO, Any, TextIO

import psutil

from epochal.cli.command import FINDINGS, TIMEOUT
from epochal.errors import EpochalError
from epochal.format import format_duration
from epochal.health.finding import Finding, Severity
from epochal.journal import layout
from epochal.journal.header import part_header, read_identity
from epochal.journal.layout import RunFolder
from epochal.journal.line import encode, now
from epochal.journal.writer import JournalWriter
from epochal.run.capture import MAX_CAPTURED_BYTES, Tee
from epochal.settings.launch import launch_variable, read_announcements
from epochal.store.finding_counts import latest_findings
from epochal.store.local.run import LocalRun
from epochal.store.local.store import LocalStore

WRITER = "launcher"
# What is printed before the run begins: imports that fail, warnings.
_MOST_WAITING = 2000
_FULL = "[epochal] kept output is full; the rest is not kept"
_REFRESH_S = 0.2
_CHUNK_BYTES = 65536
# Output may go on when the command itself has ended: processes it left behind hold the pipe.
_DRAIN_S = 5.0


class KeptOutput:
    """Lines of a command, kept in the journal of its run; they wait until the run is known.

    Safe to call from several threads.
    """

    def __init__(self, limit_bytes: int = MAX_CAPTURED_BYTES) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[dict[str, Any]] = deque(maxlen=_MOST_WAITING)
        self._left = limit_bytes
        self._writer: JournalWriter | None = None
        self._keeps = True

    def line(self, stream: str, text: str) -> None:
        """Keep a line that was printed on ``stdout`` or ``stderr``."""
        if not self._keeps or self._left <= 0:
            return
        self._left -= len(text) + 1
        if self._left <= 0:
            stream, text = "stderr", _FULL
        self.add("message", level=stream, text=text)

    def add(self, kind: str, **facts: Any) -> None:
        """Keep a record about the command."""
        with self._lock:
            self._add({"log": kind, "t": now(), **facts})

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
            for record in self._waiting:
                if keeps or record["log"] != "message":
                    self._add(record)
            self._waiting.clear()

    def close(self) -> None:
        """End the file."""
        with self._lock:
            self._close()

    def _add(self, record: dict[str, Any]) -> None:
        if self._writer is None:
            self._waiting.append(record)
        elif self._writer.folder.journal.is_dir():  # a run that was deleted is not brought back
            self._writer.append(encode(record), now())

    def _close(self) -> None:
        if self._writer is None:
            return
        reason = "the command's output ends with it"
        self._add({"log": "finish", "t": now(), "status": "finished", "reason": reason})
        if self._writer.folder.journal.is_dir():
            self._writer.close()
        self._writer = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a command is reported or stopped.

    ``first_step_s`` is how long its run may take to begin, and that run's first step, before a
    warning; 0 is for ever. ``deadline`` is when it is stopped, as ``time.monotonic`` counts.
    ``stop_on`` is the severity of findings that stop it, ``grace_s`` its time to save then.
    """

    first_step_s: float
    deadline: float
    stop_on: Severity | None
    grace_s: float


@dataclass(frozen=True, slots=True)
class Ended:
    """How a start ended; ``code`` is negative for a signal, ``run`` None when there was none.

    ``stopped`` is the exit code of what stopped it, and ``why`` a sentence about that.
    """

    code: int
    seconds: float
    run: LocalRun | None
    was_signalled: bool
    stopped: int | None
    why: str
    ends_in_line: bool

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
    """Runs a command to its end; ``tell`` takes a sentence for people."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        limits: Limits,
        tell: Callable[[str], None],
    ) -> None:
        self._limits = limits
        self._tell = tell
        self._kept = KeptOutput()
        self._run: LocalRun | None = None
        self._num_seen = 0
        self._findings_bytes = 0
        self._was_signalled = False
        self._stopped: int | None = None
        self._why = ""
        self._kill_at = float("inf")
        self._late_at = float("inf")
        self._ends_in_line = False
        self._begun = time.monotonic()
        self._folder = tempfile.TemporaryDirectory(prefix="epochal-")
        self._announcements = Path(self._folder.name) / "runs.jsonl"
        # Python holds back what it prints into a pipe; the last lines would be lost with a crash.
        variables = {"PYTHONUNBUFFERED": "1", **launch_variable(self._announcements)}
        try:
            self._process = subprocess.Popen(
                command,
                env={**os.environ, **environment, **variables},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as error:
            self._folder.cleanup()
            raise EpochalError(f"{command[0]!r} cannot be started: {error}") from error

    def run(self) -> Ended:
        """Stay until the command has ended."""
        process = self._process
        with self._folder, self._signals():
            readers = [
                threading.Thread(target=self._pass_through, args=arguments, daemon=True)
                for arguments in (
                    (process.stdout, sys.stdout, "stdout"),
                    (process.stderr, sys.stderr, "stderr"),
                )
            ]
            for reader in readers:
                reader.start()
            self._await_step()
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_REFRESH_S)
                self._find_runs()
                self._check_limits()
            for reader in readers:
                reader.join(_DRAIN_S)
            self._find_runs()
        if self._run is not None:
            self._run.refresh()
        ended = Ended(
            process.returncode,
            time.monotonic() - self._begun,
            self._run,
            self._was_signalled,
            self._stopped,
            self._why,
            self._ends_in_line,
        )
        seconds = round(ended.seconds, 3)
        self._kept.add("event", name="exit", code=ended.code, text=str(ended), seconds=seconds)
        self._kept.close()
        return ended

    def _find_runs(self) -> None:
        """Find the runs that the command has started since; the newest is its run."""
        found = read_announcements(self._announcements)
        for announced in found[self._num_seen :]:
            folder = RunFolder(Path(announced.folder))
            self._kept.belongs_to(folder, announced.attempt, keeps=not announced.captures)
            self._run = LocalStore(folder.path).run(str(folder.path))
            self._findings_bytes = 0
            self._await_step()
        self._num_seen = len(found)

    def _await_step(self) -> None:
        self._late_at = time.monotonic() + (self._limits.first_step_s or float("inf"))

    def _check_limits(self) -> None:
        moment, limits = time.monotonic(), self._limits
        if moment >= self._late_at:
            self._late_at = float("inf")
            self._report_late()
        if self._stopped is not None:
            if moment >= self._kill_at:
                self._kill_at = float("inf")
                self._kill()
        elif moment >= limits.deadline:
            took = format_duration(moment - self._begun)
            self._stop(TIMEOUT, f"It reached the timeout after {took}.")
        elif limits.stop_on is not None and self._run is not None:
            grave = ("error",) if limits.stop_on == "error" else ("error", "warning")
            finding = next((one for one in self._new_findings() if one.severity in grave), None)
            if finding is not None:
                self._stop(FINDINGS, f"{finding.severity} {finding.rule}: {finding.sentence}")

    def _new_findings(self) -> list[Finding]:
        """The open findings, if the companion has written something since the last call."""
        assert self._run is not None
        paths = RunFolder(self._run.path).journal.glob(f"{layout.FINDINGS}.*")
        size = sum(path.stat().st_size for path in paths)
        if size == self._findings_bytes:
            return []
        self._findings_bytes = size
        self._run.refresh()
        return open_findings(self._run)

    def _stop(self, code: int, why: str) -> None:
        self._stopped, self._why = code, why
        self._kill_at = time.monotonic() + self._limits.grace_s
        self._kept.add("message", level="warning", text=f"epochal run stops the training. {why}")
        self._tell(f"stopping the training. {why}")
        self._process.terminate()

    def _kill(self) -> None:
        grace = format_duration(self._limits.grace_s)
        self._tell(f"killing the training: it did not end within {grace}.")
        with contextlib.suppress(psutil.Error):
            for child in psutil.Process(self._process.pid).children(recursive=True):
                child.kill()
        self._process.kill()

    def _report_late(self) -> None:
        within, pid = format_duration(self._limits.first_step_s), self._process.pid
        if self._run is None:
            self._tell(f"no run was started within {within}; process {pid} is still running.")
        elif not _has_stepped(self._run):
            info = self._run.info
            sentence = f"{info.project}/{info.name} logged no step within {within} of its start."
            self._kept.add("message", level="warning", text=sentence)
            self._tell(f"{sentence} Process {pid} is still running.")

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Forward signals that end the process, and wait for the end of the command."""
        names = ("SIGINT", "SIGTERM", "SIGHUP")
        numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
        if threading.current_thread() is not threading.main_thread():
            numbers = []
        before = {number: signal.signal(number, self._pass_on) for number in numbers}
        try:
            yield
        finally:
            for number, previous in before.items():
                signal.signal(number, previous)

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        self._was_signalled = True
        # A terminal sends Ctrl-C to the command as well; twice would cut its cleaning up short.
        if number == signal.SIGINT and sys.stdin is not None and sys.stdin.isatty():
            return
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _pass_through(self, pipe: IO[bytes], stream: TextIO, name: str) -> None:
        """Print what comes through a pipe, and keep its lines."""
        tee = Tee(stream, partial(self._kept.line, name))
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        with pipe:
            while chunk := os.read(pipe.fileno(), _CHUNK_BYTES):
                tee.write(decoder.decode(chunk))
                tee.flush()
                if name == "stdout":
                    self._ends_in_line = not chunk.endswith(b"\n")
        tee.end()


def open_findings(run: LocalRun) -> list[Finding]:
    """The findings that the companion of a run has written and that are still open."""
    told = ((entry.position.attempt, entry.record) for entry in run.entries("finding", rank=None))
    found = latest_findings(told, attempts=run.info.attempts)
    return [finding for finding in found if finding.state == "open"]


def _has_stepped(run: LocalRun) -> bool:
    run.refresh()
    return run.info.step is not None or run.info.epoch is not None
