"""The data of the app: the runs of a store, the chosen run, the compared runs.

A run is read when it is shown, not before. Refreshing takes at most a few percent of the time,
however large the runs are.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from epochal.cli.tui.chart import COMPARED
from epochal.errors import EpochalError, UsageError
from epochal.journal.metrics import Metric
from epochal.journal.row import LIVE_STATES, State
from epochal.query.pattern import compile_pattern
from epochal.store.metrics import by_importance
from epochal.store.run import RunView
from epochal.store.store import Store

REFRESH_EVERY_S = 0.25
_LIST_EVERY_S, _LOST_EVERY_S, _LONGEST_WAIT_S = 2.0, 2.0, 5.0
_REFRESH_SHARE, _LIST_SHARE = 0.03, 0.01
# How long one frame may take to read rows of runs that were never read.
_ROWS_WITHIN_S = 0.2
_LOOKS_LIKE_A_QUERY = re.compile(r"[<>=~]|\b(and|or|not|in|exists)\b")


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the list; ``loss`` is its last one, ``alarm`` the most severe open finding."""

    project: str
    name: str
    state: State
    loss: float | None
    alarm: Literal["error", "warning"] | None = None


@dataclass(slots=True)
class _Timer:
    """When to refresh again, so that refreshing takes at most a share of the time."""

    every_s: float
    share: float
    after_s: float = 0.0

    def took(self, started_s: float, ended_s: float) -> None:
        # The first refresh of a large run takes long, so the wait has a limit.
        wait_s = max(self.every_s, min((ended_s - started_s) / self.share, _LONGEST_WAIT_S))
        self.after_s = ended_s + wait_s


class AppState:
    """The runs of a store, with the chosen run and the runs it is compared with."""

    def __init__(
        self,
        store: Store,
        *,
        chosen: RunView | None = None,
        compared: Sequence[RunView] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._clock = clock
        self._filter = ""
        self.runs: list[RunView] = []
        self.run = chosen
        self.compared = list(compared)[: len(COMPARED)]
        self.problem = ""  # what is wrong with the filter
        self.lost = ""  # why the runs cannot be read now: a hub, or the way to it, is away
        self.is_behind = False  # rows that are shown still wait to be read
        self._rows: dict[int, RunRow] = {}
        self._ids: set[int] = set()
        self._list_timer = _Timer(_LIST_EVERY_S, _LIST_SHARE)
        self._run_timer = _Timer(REFRESH_EVERY_S, _REFRESH_SHARE)
        self._list()

    def refresh(self) -> bool:
        """Read what was written since, if it is time to; True when anything was.

        Where runs of another machine cannot be reached, ``lost`` says so until they can.
        """
        started = self._clock()
        if started < self._run_timer.after_s:
            return False
        before = self.lost
        try:
            has_news = self._read(started)
            self.lost = ""
        except EpochalError as error:
            has_news, self.lost = False, f"{error} It is tried again."
            self._run_timer.after_s = self._clock() + _LOST_EVERY_S
        return has_news or self.lost != before

    def _read(self, started: float) -> bool:
        shown = [run for run in (self.run, *self.compared) if run is not None]
        before = (self.run, list(self.runs), [run.end() for run in shown])
        for run in shown:
            run.refresh()
        if started >= self._list_timer.after_s:
            listed = self._clock()
            self._store.refresh()
            self._rows = {
                key: row for key, row in self._rows.items() if row.state not in LIVE_STATES
            }
            self._list()
            self._list_timer.took(listed, self._clock())
        self._run_timer.took(started, self._clock())
        return before != (self.run, self.runs, [run.end() for run in shown])

    @property
    def trouble(self) -> str:
        """Why the run ended, and what cannot be read; empty when there is nothing."""
        texts = [self.lost]
        if self.run is not None:
            texts += [self.run.info.status.reason or "", self.run.info.problem or ""]
        return " ".join(filter(None, texts))

    @property
    def index(self) -> int:
        """The index of the chosen run in the list; -1 when the filter left it out."""
        return next((i for i, run in enumerate(self.runs) if run is self.run), -1)

    def choose(self, index: int) -> None:
        """Choose another run of the list; an index beyond an end is that end."""
        if self.runs:
            chosen = self.runs[min(max(index, 0), len(self.runs) - 1)]
            try:
                chosen.refresh()
            except EpochalError as error:  # of another machine, which cannot be reached
                self.lost = str(error)
            else:
                self.run = chosen

    def filter(self, text: str) -> None:
        """List only the runs that match a regular expression or a query.

        A filter that cannot be parsed sets ``problem`` and leaves the list as it is.
        """
        self._filter = text
        self._list()
        if not self.problem and self.index < 0:
            self.choose(0)

    def compare(self) -> None:
        """Add the chosen run to the compared runs, or remove it."""
        if any(run is self.run for run in self.compared):
            self.compared = [run for run in self.compared if run is not self.run]
        elif self.run is not None:
            self.compared = [*self.compared, self.run][-len(COMPARED) :]

    def rows(self, runs: Sequence[RunView]) -> list[RunRow | None]:
        """The rows of some runs; None for rows that are read with the next frame."""
        until = self._clock() + _ROWS_WITHIN_S
        rows: list[RunRow | None] = []
        for run in runs:
            row = self._rows.get(id(run))
            if row is None and self._clock() <= until:
                row = self._rows[id(run)] = _row(run)
            rows.append(row)
        self.is_behind = None in rows
        return rows

    def metrics(self) -> list[Metric]:
        """The series of the chosen run, the most important first."""
        if self.run is None:
            return []
        return by_importance(metric for metric in self.run.metrics() if metric.ranks)

    def metric(self, name: str | None) -> Metric | None:
        """The series of a name, else the most important one."""
        metrics = self.metrics()
        by_name = {metric.name: metric for metric in reversed(metrics)}
        return by_name.get(name or "") or next(iter(metrics), None)

    def _list(self) -> None:
        ids = set(map(id, self._store.runs()))
        gone = self._ids - ids
        if self.run is not None and id(self.run) in gone:
            self.run = None  # its folder was removed
        self.compared = [run for run in self.compared if id(run) not in gone]
        self._ids = ids
        try:
            self.runs = self._matches(self._filter)
            self.problem = ""
        except UsageError as error:
            self.problem = " ".join(str(error).split())
        if self.run is None and self.runs:
            self.run = self.runs[0]

    def _matches(self, text: str) -> list[RunView]:
        if _LOOKS_LIKE_A_QUERY.search(text):
            runs: Sequence[RunView] = self._store.runs(text)
        else:
            runs = self._store.runs()
            if text:
                pattern = compile_pattern(f"(?i){text}")
                runs = [run for run in runs if pattern.is_in(_full_name(run))]
        return [run for run in runs if not run.labels.hidden]


def _row(run: RunView) -> RunRow:
    info, loss = run.info, run.role("loss")
    last = None
    if loss is not None and loss.ranks:
        last = run.summary(loss.name, rank=loss.ranks[0], axis=loss.axis).last
    alarm: Literal["error", "warning"] | None = None
    if info.open_errors or info.nonfinite:
        alarm = "error"
    elif info.open_warnings:
        alarm = "warning"
    return RunRow(info.project, info.name, info.status.state, last, alarm)


def _full_name(run: RunView) -> str:
    """Project and name, of a run that was never read without reading its journal."""
    facts = run.facts
    name, project = run.labels.name or facts.get("name"), facts.get("project")
    if name is None or project is None:
        return f"{run.info.project}/{run.info.name}"
    return f"{project}/{name}"
