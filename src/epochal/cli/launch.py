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
from epochal.health.finding import Severity
from epochal.journal.layout import RunFolder
from epochal.journal.line import encode, now
from epochal.journal.process import part_header, read_identity
from epochal.journal.writer import JournalWriter
from epochal.records.format import format_duration
from epochal.records.redact import Redactor
from epochal.run.console.capture import MAX_CAPTURED_BYTES, Tee
from epochal.settings import read_settings
from epochal.settings.launch import launch_variable, read_announcements
from epochal.store.brief import open_findings
from epochal.store.local.by_path import load_run
from epochal.store.run import RunView

_WRITER = "launcher"
_FULL = "[epochal] kept output is full; the rest is not kept"
_END = "the command's output ends with it"
_NEVER = float("inf")
_REFRESH_S, _LOOK_S = 0.2, 1.0
_CHUNK_BYTES = 65536
# Output may go on when the command itself has ended: processes it left behind hold the pipe.
_DRAIN_S = 5.0


class KeptOutput:
    """Lines of a command, kept in the journal of its run; they wait until the run is known.

    Any thread may add lines. One thread writes them.
    """

    def __init__(self, limit_bytes: int = MAX_CAPTURED_BYTES) -> None:
        self._records: deque[dict[str, Any]] = deque()
        self._left = limit_bytes
        self._writer: JournalWriter | None = None
        self._keeps_lines = True
        redact = read_settings().redact
        self._redactor = Redactor(redact or (), is_on=redact is not False)

    def add(self, kind: str, **facts: Any) -> None:
        """Keep a record about the command."""
        self._records.append({"log": kind, "t": now(), **facts})

    def line(self, stream: str, text: str) -> None:
        """Keep a line that was printed on ``stdout`` or ``stderr``."""
        had, self._left = self._left, self._left - len(text) - 1
        if had > 0:
            level, text = (stream, text) if self._left > 0 else ("stderr", _FULL)
            self.add("message", level=level, text=text)

    def belongs_to(self, folder: RunFolder, attempt: int, *, keeps: bool) -> None:
        """From now on write to this run; ``keeps=False`` when it keeps its output itself."""
        self.close()
        self._keeps_lines = keeps
        self._writer = JournalWriter(
            folder,
            writer=_WRITER,
            attempt=attempt,
            header=lambda part: part_header(part, identity=read_identity(folder), rank=0),
            on_fault=lambda _sentence: None,
        )
        with contextlib.suppress(OSError):  # the first append tries again, and counts
            self._writer.open()

    def write(self) -> None:
        """Write what waits, if the run is known and was not deleted."""
        while self._writer is not None and self._records:
            record = self._records.popleft()
            is_line = record.get("level") in ("stdout", "stderr")
            if self._writer.folder.journal.is_dir() and (self._keeps_lines or not is_line):
                self._writer.append(encode(self._redactor.record(record)), now())

    def close(self) -> None:
        """End the file."""
        if self._writer is not None:
            self.add("finish", status="finished", reason=_END)
            self.write()
            if self._writer.folder.journal.is_dir():
                self._writer.close()
            self._writer = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When a command is reported or stopped.

    ``first_step_s`` is how long its run may take to begin, and that run's first step, before a
    warning; 0 is for ever. ``deadline`` is when it is stopped, as ``time.monotonic`` counts.
    ``stop_on`` is the least severity of findings that stop it, ``grace_s`` its time to save then.
    """

    first_step_s: float
    deadline: float
    stop_on: Severity | None
    grace_s: float


class Launch:
    """Runs a command to its end; ``tell`` takes a sentence for people.

    ``code`` is negative for a signal, ``run`` None when there was none. ``stopped`` is the exit
    code for what stopped it, and ``why`` the sentence about that.
    """

    def __init__(self, limits: Limits, tell: Callable[[str], None]) -> None:
        self.code = 0
        self.seconds = 0.0
        self.run: RunView | None = None
        self.was_signalled = False
        self.ends_in_line = False
        self.stopped: int | None = None
        self.why = ""
        self._limits = limits
        self._tell = tell
        self._kept = KeptOutput()
        self._num_seen = 0
        self._kill_at = self._late_at = _NEVER
        self._look_at = 0.0

    def __str__(self) -> str:
        if self.code >= 0:
            return f"exit {self.code}"
        known = {number.value: number.name for number in signal.Signals}
        return known.get(-self.code, f"signal {-self.code}")

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start the command and stay until it has ended; raises ``EpochalError`` if it cannot."""
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="epochal-") as folder:
            announcements = Path(folder) / "runs.jsonl"
            # Python holds back what it prints into a pipe; a crash would lose the last lines.
            variables = {"PYTHONUNBUFFERED": "1", **launch_variable(announcements)}
            variables = {**os.environ, **environment, **variables}
            pipe = subprocess.PIPE
            try:
                process = subprocess.Popen(command, env=variables, stdout=pipe, stderr=pipe)
            except OSError as error:
                raise EpochalError(f"{command[0]!r} cannot be started: {error}") from error
            readers = [
                threading.Thread(target=self._pass_through, args=arguments, daemon=True)
                for arguments in ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
            ]
            with self._passing_on(process):
                for reader in readers:
                    reader.start()
                self._await_step()
                while process.poll() is None:
                    with contextlib.suppress(subprocess.TimeoutExpired):
                        process.wait(_REFRESH_S)
                    self._find_runs(announcements)
                    self._check_limits(process)
                    self._kept.write()
                for reader in readers:
                    reader.join(_DRAIN_S)
            self._find_runs(announcements)
        self.code, self.seconds = process.returncode, time.monotonic() - begun
        self.has_stepped()
        seconds = round(self.seconds, 3)
        self._kept.add("event", name="exit", code=self.code, text=str(self), seconds=seconds)
        self._kept.close()

    def has_stepped(self) -> bool:
        """Whether a step or an epoch was logged by this attempt."""
        if self.run is None:
            return False
        self.run.refresh()
        return self.run.info.step is not None or self.run.info.epoch is not None

    def _find_runs(self, announcements: Path) -> None:
        """Find the runs that the command has started since; the newest is its run."""
        found = read_announcements(announcements)
        for announced in found[self._num_seen :]:
            folder = RunFolder(Path(announced.folder))
            self._kept.belongs_to(folder, announced.attempt, keeps=not announced.captures)
            self.run = load_run(folder.path)
            self._await_step()
        self._num_seen = len(found)

    def _await_step(self) -> None:
        self._late_at = time.monotonic() + (self._limits.first_step_s or _NEVER)

    def _check_limits(self, process: subprocess.Popen[bytes]) -> None:
        moment, limits = time.monotonic(), self._limits
        if moment >= self._late_at:
            self._late_at = _NEVER
            self._report_late(process.pid)
        if moment >= self._kill_at:
            self._kill_at = _NEVER
            self._tell(f"killing it: it did not end within {format_duration(limits.grace_s)}.")
            with contextlib.suppress(psutil.Error):
                for child in psutil.Process(process.pid).children(recursive=True):
                    child.kill()
            process.kill()
        if self.stopped is not None:
            return
        if moment >= limits.deadline:
            self.stopped, self.why = TIMEOUT, "It reached the timeout."
        elif limits.stop_on is not None and self.run is not None and moment >= self._look_at:
            self._look_at = moment + _LOOK_S
            # A run that cannot be read, as one that somebody deletes, stops nothing.
            with contextlib.suppress(EpochalError, OSError):
                self.run.refresh()
                for finding in open_findings(self.run, limits.stop_on)[:1]:
                    why = f"{finding.severity} {finding.rule}: {finding.sentence}"
                    self.stopped, self.why = FINDINGS, why
        if self.stopped is not None:
            self._report(f"stopping the training. {self.why}")
            self._kill_at = moment + limits.grace_s
            process.terminate()

    def _report_late(self, pid: int) -> None:
        within = format_duration(self._limits.first_step_s)
        if self.run is None:
            self._report(f"no run was started within {within}; process {pid} is still running.")
        elif not self.has_stepped():
            name = f"{self.run.info.project}/{self.run.info.name}"
            self._report(f"{name} logged no step within {within}; process {pid} is still running.")

    def _report(self, sentence: str) -> None:
        self._kept.add("message", level="warning", text=sentence)
        self._tell(sentence)

    @contextlib.contextmanager
    def _passing_on(self, process: subprocess.Popen[bytes]) -> Iterator[None]:
        """Forward signals that end the process, and wait for the end of the command."""

        def pass_on(number: int, frame: FrameType | None) -> None:
            self.was_signalled = True
            # A terminal sends Ctrl-C to the command as well; twice would cut its saving short.
            if number != signal.SIGINT or sys.stdin is None or not sys.stdin.isatty():
                process.send_signal(number)

        numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        before = {number: signal.signal(number, pass_on) for number in numbers}
        try:
            yield
        finally:
            for number, previous in before.items():
                signal.signal(number, previous)

    def _pass_through(self, pipe: IO[bytes], stream: TextIO) -> None:
        """Print what comes through a pipe, and keep its lines."""
        is_out = stream is sys.stdout
        tee = Tee(stream, partial(self._kept.line, "stdout" if is_out else "stderr"))
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        with pipe:
            while chunk := os.read(pipe.fileno(), _CHUNK_BYTES):
                tee.write(decoder.decode(chunk))
                tee.flush()
                if is_out:
                    self.ends_in_line = not chunk.endswith(b"\n")
        tee.end()
