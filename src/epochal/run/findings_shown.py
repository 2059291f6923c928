"""Prints what the companion finds while the training runs: each finding once, with what to try.

Read from the findings' own file at most once a second, between two records of the training. When
the run ends, one line says how many there were and which command tells them.
"""

from __future__ import annotations

import os
import time

from epochal.errors import FormatError
from epochal.health.finding import Finding
from epochal.journal.layout import FINDINGS, PartName
from epochal.journal.reader import PartReader
from epochal.run.run import Run

_SHOWN = ("error", "warning")
# The companion reads the last records of a run about so long after them.
_WAIT_S = 0.3
_PAUSE_S = 0.02
# Somebody who stops a training wants it to stop.
_IMPATIENT = frozenset({"interrupted", "terminated"})


class FindingsShown:
    """The findings of one run's attempt, as they appear."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._pid = os.getpid()
        self._part = 0
        self._reader: PartReader | None = None
        self._told: dict[str, str] = {}  # severities by id
        self._has_ended = False

    def begin(self) -> None:
        """Look from now on; only rank 0 prints."""
        if self._run.rank == 0:
            self._run.on_look(self.look)
            self._run.after_finish(self.sum_up)

    def look(self) -> None:
        """Print what was found since."""
        if os.getpid() != self._pid:
            return
        for finding in self._news():
            if finding.severity in _SHOWN and finding.state == "open":
                self._say(finding)

    def sum_up(self, status: str) -> None:
        """The run has finished: look once more, and say how much was found."""
        if os.getpid() != self._pid:
            return
        deadline_s = time.monotonic() + (0.0 if status in _IMPATIENT else _WAIT_S)
        self.look()
        while self._reader is not None and not self._has_ended and time.monotonic() < deadline_s:
            time.sleep(_PAUSE_S)
            self.look()
        severities = list(self._told.values())
        counts = [(word, severities.count(word)) for word in _SHOWN]
        said = [f"{count} {word}{'' if count == 1 else 's'}" for word, count in counts if count]
        if said:
            were = "was" if len(severities) == 1 else "were"
            self._run.console.line(
                f"epochal: {' and '.join(said)} {were} found: epochal doctor {self._run.dir}"
            )

    def _news(self) -> list[Finding]:
        name = PartName(FINDINGS, self._run.attempt, self._part)
        if self._reader is None or self._reader.name != name:
            path = self._run.folder.part_path(name)
            if not path.exists():
                return []
            self._reader = PartReader(path, name)
        try:
            records = [record for _, record in self._reader.read()]
        except (OSError, FormatError):
            self._has_ended = True
            return []  # sealed, or the folder has gone: the journal says so itself
        self._has_ended |= any(record.get("log") == "finish" for record in records)
        found = [Finding.from_record(record) for record in records]
        if self._run.folder.part_path(name._replace(part=self._part + 1)).exists():
            self._part += 1
        return [finding for finding in found if finding is not None]

    def _say(self, finding: Finding) -> None:
        is_told = finding.id in self._told
        self._told[finding.id] = finding.severity
        if is_told:
            return
        console = self._run.console
        console.notice(f"{finding.severity}: {finding.sentence} {finding.advice}".rstrip())
        if finding.severity == "error":
            console.ring()
