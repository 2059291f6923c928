"""Writes the archives a run asked for, when the run could not do it itself any more."""

from __future__ import annotations

import subprocess

from epochal.journal.archive_wish import archive_command, archive_paths, shown_command
from epochal.journal.layout import RunFolder


class ArchivingJob:
    """The archives of a run whose process vanished, one after the other; often none."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._waiting = archive_paths(folder)
        self._path = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._failed: list[str] = []

    @property
    def command(self) -> str:
        """The command that writes what is not there yet."""
        return " && ".join(shown_command(self._folder, path) for path in self._missing())

    def go_on(self) -> bool:
        """Start the next writing when the one before is done; False when there is none left."""
        if self._process is not None and self._process.poll() is None:
            return True
        self._close()
        if not self._waiting:
            return False
        self._path = self._waiting.pop(0)
        self._process = subprocess.Popen(
            archive_command(self._folder, self._path),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        return True

    def stop(self) -> None:
        """End the process that writes; what it had written so far never shows."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def left(self) -> str | None:
        """The archives that were asked for and are not there."""
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
