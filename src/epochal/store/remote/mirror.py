"""The copy of one run of a server; its row comes from there, everything else is fetched."""

from __future__ import annotations

import os
import shutil
from collections.abc import Hashable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

from epochal.base.atomic_file import between_processes
from epochal.journal.fold import RunMetrics
from epochal.journal.labels import LabelsEdit
from epochal.journal.layout import RunFolder
from epochal.journal.row import RunRow
from epochal.journal.summaries import metrics_in
from epochal.shipping.fetching import RunReader, fetch_blob, mirror_run
from epochal.shipping.offering import PartCounts
from epochal.shipping.protocol import RunState


class RunServer(Protocol):
    """Where the original of a copied run is; several threads may use it.

    Its methods raise ``RunNotFoundError`` for a run that is not there.
    """

    def run(self, run_id: str) -> RunRow:
        """The row of a run, which is read where nobody has summarised it."""

    def metrics(self, run_id: str) -> bytes | None:
        """``metrics.json`` of a run; None where its server keeps none."""

    def reading(self, run_id: str) -> AbstractContextManager[RunReader]:
        """What copies the run, for one thread."""

    def relabel(self, run_id: str, edit: LabelsEdit) -> None:
        """Edit the labels of a run."""


class Mirror:
    """A run of a server, copied below a folder as far as queries need it (``folder.py::Origin``).

    Several processes may share the copy.
    """

    def __init__(self, row: RunRow, server: RunServer, root: Path) -> None:
        self.row = row
        # Below the folder, also if its server calls the run ``..``.
        self._root = root / quote(row.id, safe="").replace(".", "%2E")
        self.folder = RunFolder(self._root / "run")
        self._server = server
        self._counts = PartCounts()
        # The version of the row when the copy was last made; None before.
        self._fetched: Hashable = None
        # The series of the run, and the version of the row that they were asked for with.
        self._metrics: tuple[Hashable, RunMetrics | None] | None = None
        # What the server had when the copy was last made.
        self._copied: RunState | None = None
        # What the server had when a file was last asked for that it did not have before.
        self._state: RunState | None = None

    @property
    def is_in_use(self) -> bool:
        """Whether the copy was made by this process."""
        return self._fetched is not None

    @property
    def is_behind(self) -> bool:
        """Whether a copy is in use, and the run has changed since it was made."""
        return self._fetched is not None and self._fetched != version(self.row)

    def read_row(self) -> RunRow:
        """The row; the server reads the run where it has not summarised it."""
        if not self.row.is_summarised:
            self.row = self._server.run(self.row.id)
        return self.row

    def read_metrics(self) -> RunMetrics | None:
        """What the server keeps of all series, if that is of the same records as the row."""
        asked = version(self.row)
        if self._metrics is None or self._metrics[0] != asked:
            known = metrics_in(self._server.metrics(self.row.id) or b"")
            marks = self.row.positions or (None if known is None else known.marks)
            self._metrics = asked, None if known is None or known.marks != marks else known
        return self._metrics[1]

    def ask(self) -> bool:
        """Ask for the row again; True when the run has changed."""
        before, self.row = self.row, self._server.run(self.row.id)
        return version(before) != version(self.row)

    def fetch(self) -> None:
        """Fetch what is new; raises ``RunNotFoundError``."""
        run_id, asked = self.row.id, version(self.row)
        self._root.mkdir(parents=True, exist_ok=True)
        os.utime(self._root)
        with between_processes(self._root / ".lock"), self._server.reading(run_id) as reader:
            self._copied = mirror_run(
                reader, run_id, self.folder, counts=self._counts, before=self._copied
            )
        self._fetched = asked

    def fetch_blob(self, file: str) -> None:
        """Have a blob in the copy, if there is one of this name."""
        if (self.folder.blobs / file).is_file():
            return
        run_id = self.row.id
        with between_processes(self._root / ".lock"), self._server.reading(run_id) as reader:
            if self._state is None or file not in self._state.blobs:  # which never change
                self._state = reader.state(run_id)
            if file in self._state.blobs:
                fetch_blob(reader, run_id, self._state, self.folder, file)

    def relabel(self, edit: LabelsEdit) -> None:
        """Edit the labels that the server has now."""
        self._server.relabel(self.row.id, edit)

    def erase(self) -> None:
        """Erase the copy."""
        shutil.rmtree(self._root, ignore_errors=True)


def version(row: RunRow) -> Hashable:
    """What changes when a run has grown, was labelled, or has ended."""
    return row.updated, row.step, row.epoch, row.attempts, row.status.state, repr(row.labels)
