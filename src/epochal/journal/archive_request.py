"""Requests archives of a run, and starts the processes that write them.

The run's folder stores the requested paths (``archive.json``). So either process can write them at
the end of the run: the training process, or the companion after a crash. ``epochal export`` writes
each archive in a separate process; ``exports/archive.py`` is the writer.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from epochal.journal.layout import RunFolder, read_json, write_json

# How long a program waits for its archives when it ends normally, and when it is being stopped.
WAIT_S = 60.0
WAIT_WHEN_STOPPED_S = 5.0
_FILE = "archive.json"


def request_archive(folder: RunFolder, path: str | Path) -> None:
    """Request an archive that is written when the run has ended; each path once."""
    paths = dict.fromkeys([*requested_paths(folder), str(Path(path).expanduser().absolute())])
    write_json(folder.path / _FILE, {"paths": list(paths)})


def requested_paths(folder: RunFolder) -> list[str]:
    """The paths of the requested archives, in order."""
    file = folder.path / _FILE
    if not file.exists():
        return []
    request: dict[str, Any] = read_json(file)
    # Runs of version 0.1.0 hold one path.
    return [
        str(path) for path in request.get("paths", [request["path"]] if "path" in request else [])
    ]


def start_writing(
    folder: Path,
    path: str | Path,
    *,
    is_detached: bool = False,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a process that writes an archive; raises ``OSError``.

    A detached process survives this one, and its errors can be read from ``stderr``.
    ``environment`` is added to this process's own.
    """
    return subprocess.Popen(
        [sys.executable, "-m", "epochal", "--quiet", *_export(folder, path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE if is_detached else subprocess.DEVNULL,
        start_new_session=is_detached,
        env={**os.environ, **(environment or {})},
    )


def shell_command(folder: RunFolder, path: str) -> str:
    """The command that writes an archive, for a user's shell."""
    return shlex.join(["epochal", *_export(folder.path, path)])


def _export(folder: Path, path: str | Path) -> tuple[str, ...]:
    return ("export", str(folder), "--format", "html", "--output", str(path))


class ArchiveOutcome(msgspec.Struct, frozen=True):
    """Whether one archive was written, in a sentence."""

    path: str
    is_written: bool
    sentence: str


def write_requested_archives(
    folder: RunFolder, *, wait_s: float = WAIT_S, environment: Mapping[str, str] | None = None
) -> list[ArchiveOutcome]:
    """Write all requested archives at the same time and wait for them.

    A process that needs longer continues on its own.
    """
    until = time.monotonic() + wait_s
    started = [(path, _start(folder, path, environment)) for path in requested_paths(folder)]
    return [_outcome(folder, path, one, until) for path, one in started]


def _start(
    folder: RunFolder, path: str, environment: Mapping[str, str] | None
) -> subprocess.Popen[bytes] | OSError:
    try:
        return start_writing(folder.path, path, is_detached=True, environment=environment)
    except OSError as error:
        return error


def _outcome(
    folder: RunFolder, path: str, process: subprocess.Popen[bytes] | OSError, until: float
) -> ArchiveOutcome:
    retry = f"write it with: {shell_command(folder, path)}"
    if isinstance(process, OSError):
        sentence = f"the archive {path} was not written: {process}; {retry}"
        return ArchiveOutcome(path, False, sentence)
    try:
        _, stderr = process.communicate(timeout=max(until - time.monotonic(), 0.0))
    except subprocess.TimeoutExpired:
        process.returncode = 0  # it continues on its own: nobody waits for it
        if process.stderr is not None:
            process.stderr.close()
        sentence = f"the archive {path} is still being written; if it does not appear, {retry}"
        return ArchiveOutcome(path, False, sentence)
    if process.returncode:
        lines = stderr.decode("utf-8", "replace").strip().splitlines() or ["it gave no reason"]
        reason = lines[-1].removeprefix("epochal: ").rstrip(".")
        sentence = f"the archive {path} was not written: {reason}; {retry}"
        return ArchiveOutcome(path, False, sentence)
    return ArchiveOutcome(path, True, f"the archive is in {path}")


class ArchiveJob:
    """The companion's job after a crash: writes the requested archives one after the other."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._waiting = requested_paths(folder)
        self._path = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._failed: list[str] = []

    @property
    def command(self) -> str:
        """The command that writes the missing archives."""
        return " && ".join(shell_command(self._folder, path) for path in self._missing())

    def go_on(self) -> bool:
        """Start the next archive when the last one is done; False when none is left."""
        if self._process is not None and self._process.poll() is None:
            return True
        self._close()
        if not self._waiting:
            return False
        self._path = self._waiting.pop(0)
        self._process = start_writing(self._folder.path, self._path)
        return True

    def stop(self) -> None:
        """Kill the writing process; its partial file never appears."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def left(self) -> str | None:
        """A sentence about requested archives that are missing; None for none."""
        missing = self._missing()
        if not missing:
            return None
        return f"the archive {', '.join(missing)} was not written"

    def _missing(self) -> list[str]:
        is_open = self._process is not None and self._process.returncode != 0
        return [*self._failed, *([self._path] if is_open else []), *self._waiting]

    def _close(self) -> None:
        if self._process is not None and self._process.returncode != 0:
            self._failed.append(self._path)
        self._process = None
