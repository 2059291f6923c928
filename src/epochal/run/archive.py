"""Has the archives of a finished run written, one HTML file each, by processes of their own."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass

from epochal.journal.archive_wish import archive_command, archive_paths, shown_command
from epochal.journal.layout import RunFolder

# How long a program that ends as it should waits for its archives, and one that is being ended.
WAIT_S = 60.0
WAIT_WHEN_STOPPED_S = 5.0


@dataclass(frozen=True, slots=True)
class ArchiveOutcome:
    """How one archive stands when the waiting is over, in a sentence."""

    path: str
    is_written: bool
    sentence: str


def write_asked_archives(folder: RunFolder, *, wait_s: float = WAIT_S) -> list[ArchiveOutcome]:
    """Write every archive that was asked for, all at once, and wait for them.

    What is not written in time goes on by itself.
    """
    until = time.monotonic() + wait_s
    started = [(path, _start(folder, path)) for path in archive_paths(folder)]
    return [_outcome(folder, path, one, until) for path, one in started]


def _start(folder: RunFolder, path: str) -> subprocess.Popen[bytes] | OSError:
    try:
        return subprocess.Popen(
            archive_command(folder, path),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return error


def _outcome(
    folder: RunFolder, path: str, process: subprocess.Popen[bytes] | OSError, until: float
) -> ArchiveOutcome:
    again = f"write it with: {shown_command(folder, path)}"
    if isinstance(process, OSError):
        return ArchiveOutcome(
            path, False, f"the archive {path} was not written: {process}; {again}"
        )
    try:
        _, said = process.communicate(timeout=max(until - time.monotonic(), 0.0))
    except subprocess.TimeoutExpired:
        process.returncode = 0  # it goes on by itself: nobody waits for it
        if process.stderr is not None:
            process.stderr.close()
        sentence = f"the archive {path} is still being written; if it does not appear, {again}"
        return ArchiveOutcome(path, False, sentence)
    if process.returncode:
        lines = said.decode("utf-8", "replace").strip().splitlines() or ["it gave no reason"]
        why = lines[-1].removeprefix("epochal: ").rstrip(".")
        return ArchiveOutcome(path, False, f"the archive {path} was not written: {why}; {again}")
    return ArchiveOutcome(path, True, f"the archive is in {path}")
