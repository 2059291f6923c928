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
    return [str(path) for path in read_json(file).get("paths", ())]


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

    is_written: bool
    sentence: str


def write_requested_archives(
    folder: RunFolder, *, wait_s: float = WAIT_S, environment: Mapping[str, str] | None = None
) -> list[ArchiveOutcome]:
    """Write all requested archives at the same time and wait for them.

    A process that needs longer continues on its own.
    """
    until = time.monotonic() + wait_s
    started: dict[str, subprocess.Popen[bytes] | OSError] = {}
    for path in requested_paths(folder):
        try:
            started[path] = start_writing(
                folder.path, path, is_detached=True, environment=environment
            )
        except OSError as error:
            started[path] = error
    outcomes: list[ArchiveOutcome] = []
    for path, process in started.items():
        problem = str(process) if isinstance(process, OSError) else _wait(process, until)
        retry = f"write it with: {shell_command(folder, path)}"
        if problem is None:
            sentence = f"the archive is in {path}"
        elif problem:
            sentence = f"the archive {path} was not written: {problem}; {retry}"
        else:
            sentence = f"the archive {path} is still being written; if it does not appear, {retry}"
        outcomes.append(ArchiveOutcome(problem is None, sentence))
    return outcomes


def _wait(process: subprocess.Popen[bytes], until: float) -> str | None:
    """Why an archive was not written; None if it was, and empty if it is still being written."""
    try:
        _, stderr = process.communicate(timeout=max(until - time.monotonic(), 0.0))
    except subprocess.TimeoutExpired:
        process.returncode = 0  # it continues on its own: nobody waits for it
        if process.stderr is not None:
            process.stderr.close()
        return ""
    if not process.returncode:
        return None
    lines = stderr.decode("utf-8", "replace").strip().splitlines() or ["it gave no reason"]
    return lines[-1].removeprefix("epochal: ").rstrip(".")


class ArchiveJob:
    """The companion's job after a crash: writes the requested archives."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._paths = requested_paths(folder)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def command(self) -> str:
        return " && ".join(shell_command(self._folder, path) for path in self._missing())

    def go_on(self) -> bool:
        for path in self._paths:
            if path not in self._processes:
                self._processes[path] = start_writing(self._folder.path, path)
        return any(process.poll() is None for process in self._processes.values())

    def stop(self) -> None:
        """Kill the writing processes; their partial files never appear."""
        for process in self._processes.values():
            process.kill()
            process.wait()

    def left(self) -> str | None:
        missing = ", ".join(self._missing())
        return f"the archive {missing} was not written" if missing else None

    def _missing(self) -> list[str]:
        done = {path for path, process in self._processes.items() if process.returncode == 0}
        return [path for path in self._paths if path not in done]
