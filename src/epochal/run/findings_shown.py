"""Prints what the companion finds while the training runs: each finding once, with what to try.

Read from the findings' own file at most once a second, between two records of the training.
"""

from __future__ import annotations

import os

from epochal.errors import FormatError
from epochal.health.finding import Finding
from epochal.journal.layout import FINDINGS, PartName
from epochal.journal.reader import PartReader
from epochal.run.run import Run

_SHOWN = frozenset({"warning", "error"})


class FindingsShown:
    """The findings of one run's attempt, as they appear."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._pid = os.getpid()
        self._part = 0
        self._reader: PartReader | None = None
        self._told: set[str] = set()

    def begin(self) -> None:
        """Look from now on; only rank 0 prints."""
        if self._run.rank == 0:
            self._run.on_look(self.look)

    def look(self) -> None:
        """Print what was found since."""
        if os.getpid() != self._pid:
            return
        for finding in self._news():
            if finding.severity in _SHOWN and finding.state == "open":
                self._say(finding)

    def _news(self) -> list[Finding]:
        name = PartName(FINDINGS, self._run.attempt, self._part)
        if self._reader is None or self._reader.name != name:
            path = self._run.folder.part_path(name)
            if not path.exists():
                return []
            self._reader = PartReader(path, name)
        try:
            found = [Finding.from_record(record) for _, record in self._reader.read()]
        except (OSError, FormatError):
            return []  # sealed, or the folder has gone: the journal says so itself
        if self._run.folder.part_path(name._replace(part=self._part + 1)).exists():
            self._part += 1
        return [finding for finding in found if finding is not None]

    def _say(self, finding: Finding) -> None:
        if finding.id in self._told:
            return
        self._told.add(finding.id)
        console = self._run.console
        console.notice(f"{finding.severity}: {finding.sentence} {finding.advice}".rstrip())
        if finding.severity == "error":
            console.ring()
