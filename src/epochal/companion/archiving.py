"""Writes the archive a run asked for, when the run could not do it itself any more."""

from __future__ import annotations

import shlex
import subprocess

from epochal.journal.archive_wish import archive_command
from epochal.journal.layout import RunFolder


class ArchivingJob:
    """The archive of a run whose process vanished; nothing when none was asked for."""

    def __init__(self, folder: RunFolder) -> None:
        self._command = archive_command(folder)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def command(self) -> str:
        """The command that writes the archive."""
        words = self._command or []
        return shlex.join(["epochal", *words[words.index("export") :]]) if words else ""

    def go_on(self) -> bool:
        """Start the writing, or look whether it is done."""
        if self._command is None:
            return False
        if self._process is None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        return self._process.poll() is None

    def stop(self) -> None:
        """End the process that writes; what it had written so far never shows."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def left(self) -> str | None:
        """The archive, when it was asked for and is not there."""
        if self._command is None or (self._process is not None and self._process.returncode == 0):
            return None
        return f"the archive {self._command[-1]} was not written"
