"""One run of a server: its row comes from there, everything else from a copy of the run."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

from epochal.base.atomic_file import between_processes
from epochal.health.rule_settings import RuleSettings
from epochal.journal.layout import RunFolder
from epochal.journal.row import Labels, RunRow, Status
from epochal.journal.summaries import last_value
from epochal.shipping.client import HubError
from epochal.shipping.fetching import fetch_blob, mirror_run
from epochal.shipping.offering import PartCounts
from epochal.shipping.protocol import RunState
from epochal.store.answers import LabelsEdit
from epochal.store.local.by_path import load_run
from epochal.store.local.cache import MemoryBudget
from epochal.store.local.run import LocalRun
from epochal.store.remote.server import RemoteServer
from epochal.store.store import RunView

P = ParamSpec("P")
T = TypeVar("T")

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
        # What the server had when a file was last asked for that it did not have before.
        self._states: dict[str, RunState] = {}

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
        if (folder / "blobs" / name).is_file():
            return
        with between_processes(self.place(run_id) / ".lock"), self._server.client() as client:
            state = self._states.get(run_id)
            if state is None or name not in state.blobs:  # which never change
                state = self._states[run_id] = client.state(run_id)
            if name in state.blobs:
                fetch_blob(client, run_id, state, RunFolder(folder), name)

    def place(self, run_id: str) -> Path:
        """Where the copy of a run lies: below the folder, also if its server calls it ``..``."""
        return self._folder / quote(run_id, safe="").replace(".", "%2E")

    def close(self) -> None:
        """Erase copies that were not read for a month."""
        before = time.time() - _KEPT_S
        with contextlib.suppress(FileNotFoundError):
            for place in list(self._folder.iterdir()):
                if place.stat().st_mtime < before:
                    shutil.rmtree(place, ignore_errors=True)


def _of_copy(
    method: Callable[Concatenate[LocalRun, P], T],
) -> Callable[Concatenate[RemoteRun, P], T]:
    """A method that the copy of a run answers."""

    @functools.wraps(method)
    def call(run: RemoteRun, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(run.copy, *args, **kwargs)

    return call


class RemoteRun(RunView):
    """A run of a server; see ``epochal.store.store`` for what may be asked."""

    def __init__(self, row: RunRow, server: RemoteServer, mirrors: Mirrors) -> None:
        self.lock = threading.RLock()
        self.row = row
        self._server = server
        self._mirrors = mirrors
        self._copy: LocalRun | None = None

    # -- its row ----------------------------------------------------------------------------------

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def created(self) -> float | None:
        return self.row.created

    @property
    def info(self) -> RunRow:
        """The run in one row, as of the last look."""
        with self.lock:
            if not self.row.is_summarised:
                self.row = self._server.run(self.id)
            return self.row

    def outline(self) -> RunRow:
        """The same, also of a run that the server has not summarised."""
        return self.row

    @property
    def status(self) -> Status:
        """The status that the server derived at the last look."""
        return self.row.status

    @property
    def config(self) -> Mapping[str, Any]:
        return self.copy.config if self.info.is_cut else self.row.config

    @property
    def labels(self) -> Labels:
        return self.row.labels

    def latest(self, role: str) -> float | None:
        return last_value(self.row, role)

    def relabel(self, edit: LabelsEdit) -> None:
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
        with self.lock:
            before, self.row = self.row, self._server.run(self.id)
            if self._copy is None:
                return version(before) != version(self.row)
            self._mirrors.fetch(self.id)
            return self._copy.refresh()

    @property
    def facts(self) -> Mapping[str, Any]:
        return self.copy.facts

    metrics = _of_copy(LocalRun.metrics)
    set_metrics = _of_copy(LocalRun.set_metrics)
    series = _of_copy(LocalRun.series)
    all_series = _of_copy(LocalRun.all_series)
    summary = _of_copy(LocalRun.summary)
    goodput = _of_copy(LocalRun.goodput)
    metric = _of_copy(LocalRun.metric)
    role = _of_copy(LocalRun.role)
    kinds = _of_copy(LocalRun.kinds)
    entries = _of_copy(LocalRun.entries)
    findings = _of_copy(LocalRun.findings)
    evaluated = _of_copy(LocalRun.evaluated)
    internal_errors = _of_copy(LocalRun.internal_errors)
    machines = _of_copy(LocalRun.machines)
    records = _of_copy(LocalRun.records)
    end = _of_copy(LocalRun.end)

    blob_types = _of_copy(LocalRun.blob_types)

    def blob_path(self, file: str) -> Path:
        """Where a file lies that a record names; it is fetched when it is first asked for."""
        if file in self.blob_types():
            self._mirrors.fetch_blob(self.id, self.copy.path, file)
        return self.copy.blob_path(file)


def version(row: RunRow) -> object:
    """What changes when a run has grown, was labelled, or has ended."""
    return row.updated, row.step, row.epoch, row.attempts, row.status.state, repr(row.labels)
