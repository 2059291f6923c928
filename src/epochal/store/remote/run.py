"""One run of a server: its row comes from there, everything else from a copy of the run."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from epochal.atomic_file import between_processes
from epochal.health.finding import Evaluated
from epochal.health.rule_settings import RuleSettings
from epochal.journal.layout import RunFolder
from epochal.records import Axis, Position, Record
from epochal.series.reduce import Summary
from epochal.series.series import Series
from epochal.shipping.client import HubError
from epochal.shipping.fetching import fetch_blob, mirror_run
from epochal.shipping.offering import PartCounts
from epochal.store.answers import Cursor, Entry, Labels, LabelsEdit, Machine, Metric, Status
from epochal.store.local.cache import MemoryBudget
from epochal.store.local.load import load_run
from epochal.store.local.run import LocalRun
from epochal.store.remote.server import RemoteServer
from epochal.store.row import ListedInfo, RunRow
from epochal.store.store import RunView

_KEPT_S = 30 * 86_400.0


class Mirrors:
    """The copies of a server's runs in the cache folder; each is made when it is first needed."""

    def __init__(
        self, server: RemoteServer, folder: Path, *, rules: RuleSettings | None = None
    ) -> None:
        self._server = server
        self._folder = folder
        self._held = MemoryBudget(rules=rules or RuleSettings())
        self._counts = PartCounts()

    def fetch(self, run_id: str) -> RunFolder:
        """Fetch what is new of a run; the folder of its copy. Raises ``RunNotFoundError``."""
        root = self.place(run_id)
        root.mkdir(parents=True, exist_ok=True)
        os.utime(root)
        with between_processes(root / ".lock"), self._server.client() as client:
            try:
                return mirror_run(client, run_id, root, counts=self._counts)
            except HubError as error:
                raise self._server.not_found(error, run_id) from error

    def open(self, run_id: str) -> LocalRun:
        """A run as it is now."""
        return load_run(self.fetch(run_id).path, held=self._held)

    def fetch_blob(self, run_id: str, folder: Path, name: str) -> None:
        """Have a blob in the copy of a run, if there is one of this name."""
        with between_processes(self.place(run_id) / ".lock"), self._server.client() as client:
            fetch_blob(client, run_id, RunFolder(folder), name)

    def place(self, run_id: str) -> Path:
        """Where the copy of a run lies."""
        return self._folder / quote(run_id, safe="")

    def close(self) -> None:
        """Erase copies that were not read for a month."""
        before = time.time() - _KEPT_S
        with contextlib.suppress(FileNotFoundError):
            for place in list(self._folder.iterdir()):
                if place.stat().st_mtime < before:
                    shutil.rmtree(place, ignore_errors=True)


class RemoteRun(RunView):
    """A run of a server; see ``epochal.store.store`` for what may be asked."""

    def __init__(self, listed: ListedInfo, server: RemoteServer, mirrors: Mirrors) -> None:
        self.lock = threading.RLock()
        self.listed = listed
        self._server = server
        self._mirrors = mirrors
        self._copy: LocalRun | None = None

    # -- its row ----------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The id of this run and of no other on its server."""
        return self.listed.info.id

    @property
    def created(self) -> float | None:
        """When the run was created, in Unix seconds."""
        return self.listed.info.created

    @property
    def info(self) -> RunRow:
        """The run in one row, as of the last look."""
        with self.lock:
            if self.listed.info.is_partial:
                self.listed = self._server.run(self.id)
            return self.listed.info

    def outline(self) -> RunRow:
        """The same as far as the server has read the run."""
        return self.listed.info

    @property
    def status(self) -> Status:
        """The status that the server derived at the last look."""
        return self.listed.info.status

    @property
    def config(self) -> Mapping[str, Any]:
        """What the run was configured with, options set later included."""
        return self.info.config

    @property
    def labels(self) -> Labels:
        """What people changed later."""
        return self.listed.labels

    def latest(self, role: str) -> float | None:
        """The last value of the metric that plays a role on rank 0."""
        if role in self.listed.latest:
            return self.listed.latest[role]
        return None if self._copy is None else self._copy.latest(role)

    def relabel(self, edit: LabelsEdit) -> None:
        """Edit the labels on the server."""
        with self.lock:
            change = asdict(edit(self._server.run(self.id).labels))
            self._server.send("PATCH", f"/api/runs/{quote(self.id, safe='')}/labels", change)
            self.refresh()

    # -- its copy ---------------------------------------------------------------------------------

    @property
    def is_copied(self) -> bool:
        """Whether the copy of this run is in use."""
        return self._copy is not None

    @property
    def copy(self) -> LocalRun:
        """The copy of this run, as of the last look."""
        with self.lock:
            if self._copy is None:
                self._copy = self._mirrors.open(self.id)
            return self._copy

    def refresh(self) -> bool:
        """Fetch what was written since; True when there was anything."""
        with self.lock:
            before, self.listed = self.listed, self._server.run(self.id)
            if self._copy is None:
                return version(before) != version(self.listed)
            self._mirrors.fetch(self.id)
            return self._copy.refresh()

    @property
    def facts(self) -> Mapping[str, Any]:
        """Everything that was recorded about how the run was started."""
        return self.copy.facts

    def metrics(self) -> Sequence[Metric]:
        """Every series there is, in order of first appearance."""
        return self.copy.metrics()

    def set_metrics(self) -> Sequence[Metric]:
        """The numbers that the program set with ``run.summary`` under names that no series has."""
        return self.copy.set_metrics()

    def series(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Series:
        """Every point of a series."""
        return self.copy.series(name, rank=rank, axis=axis)

    def all_series(self, axis: Axis, *, rank: int = 0) -> Sequence[Series]:
        """Every series of a rank on an axis, in order of first appearance."""
        return self.copy.all_series(axis, rank=rank)

    def summary(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Summary:
        """Last, extremes and mean of a series."""
        return self.copy.summary(name, rank=rank, axis=axis)

    def metric(self, name: str) -> Metric | None:
        """The metric of a name; else of a role; else one whose name ends in ``/name``."""
        return self.copy.metric(name)

    def role(self, role: str) -> Metric | None:
        """The metric that plays a role, defined or guessed."""
        return self.copy.role(role)

    def entries(self, *kinds: str, name: str | None = None, rank: int | None = 0) -> list[Entry]:
        """Records of these kinds by step, then by time."""
        return self.copy.entries(*kinds, name=name, rank=rank)

    def blob(self, file: str) -> bytes:
        """The bytes of a blob that a record names; it is fetched when it is first asked for."""
        self._mirrors.fetch_blob(self.id, self.copy.path, file)
        return self.copy.blob(file)

    def findings(self, *, most: int | None = 50_000) -> list[Entry]:
        """Findings of the health rules, by time."""
        return self.copy.findings(most=most)

    def evaluated(self) -> Evaluated | None:
        """How many records the rules saw."""
        return self.copy.evaluated()

    def internal_errors(self) -> list[Entry]:
        """Faults of Epochal itself."""
        return self.copy.internal_errors()

    def machines(self) -> Sequence[Machine]:
        """The newest readings of the run's machines, as of the last look."""
        return self.copy.machines()

    def records(self, since: Cursor | None = None) -> Iterator[tuple[Position, Record]]:
        """Every record as written, writer by writer in file order; after ``since`` if given."""
        return self.copy.records(since)

    def end(self) -> Cursor:
        """The end of the records read so far."""
        return self.copy.end()


def version(one: ListedInfo) -> object:
    """What changes when a run has grown, was labelled, or has ended."""
    info = one.info
    return info.updated, info.step, info.epoch, info.attempts, info.status.state, repr(one.labels)
