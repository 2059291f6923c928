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

from epochal.errors import EpochalError, UsageError
from epochal.journal.process_action import ProcessAction
from epochal.store.answers import LIVE_STATES, Metric, RunInfo, State
from epochal.store.pattern import Pattern, PatternError, compile_pattern
from epochal.store.process_action import send_action
from epochal.store.store import RunView, Store
from epochal.tui.chart import extent_of
from epochal.tui.curves import Curves
from epochal.tui.run_log import RunLog
from epochal.tui.styles import COMPARED
from epochal.tui.view import Extent, View

REFRESH_EVERY_S = 0.25
LIST_EVERY_S = 2.0
_LOST_EVERY_S = 2.0
# The first refresh of a large run takes long and says nothing about the next.
_LONGEST_WAIT_S = 5.0
_REFRESH_SHARE, _LIST_SHARE = 0.03, 0.01
# How long one frame may take to read rows of runs that were never read.
_ROWS_WITHIN_S = 0.2
_LOOKS_LIKE_A_QUERY = re.compile(r"[<>=~]|\b(and|or|not|in|exists)\b")
_MACHINE = ("gpu/", "system/", "memory/", "resources/")


@dataclass(frozen=True, slots=True)
class RunRow:
    """A run in the list; ``figure`` is its last loss, ``alarm`` the gravest that still holds."""

    name: str
    project: str
    state: State
    figure: float | None
    alarm: Literal["error", "warning"] | None = None


@dataclass(slots=True)
class _RefreshTimer:
    """When to refresh again, so that refreshing takes at most a share of the time."""

    every_s: float
    share: float
    after_s: float = 0.0

    def took(self, started_s: float, ended_s: float) -> None:
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
        self.problem = ""
        self.lost = ""  # why the runs cannot be read now: a hub, or the way to it, is away
        self.curves = Curves()
        self._rows: dict[int, RunRow] = {}
        self._known: set[int] = set()
        self._waiting = False
        self._refresh_took_s = 0.0
        self._run_log: tuple[RunView, RunLog] | None = None
        self._list_timer = _RefreshTimer(LIST_EVERY_S, _LIST_SHARE)
        self._run_timer = _RefreshTimer(REFRESH_EVERY_S, _REFRESH_SHARE)
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
        ended = self._clock()
        self._run_timer.took(started, ended)
        self._refresh_took_s = ended - started
        return before != (self.run, self.runs, [run.end() for run in shown])

    def drew(self, seconds: float) -> None:
        """Count the time that drawing took as part of the refresh."""
        now = self._clock()
        self._run_timer.took(now - seconds - self._refresh_took_s, now)

    @property
    def place(self) -> int:
        """Where in the list the chosen run is; -1 when the filter left it out."""
        return next((i for i, run in enumerate(self.runs) if run is self.run), -1)

    def choose(self, place: int) -> None:
        """Choose another run of the list; a place beyond an end is that end."""
        if self.runs:
            chosen = self.runs[min(max(place, 0), len(self.runs) - 1)]
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
        if not self.problem and self.place < 0:
            self.choose(0)

    def compare(self) -> None:
        """Add the chosen run to the compared runs, or remove it."""
        if any(run is self.run for run in self.compared):
            self.compared = [run for run in self.compared if run is not self.run]
        elif self.run is not None:
            self.compared = [*self.compared, self.run][-len(COMPARED) :]

    def compared_styles(self) -> list[tuple[RunView, str]]:
        """The compared runs, each with its style."""
        return list(zip(self.compared, COMPARED, strict=False))

    def rows(self, runs: Sequence[RunView]) -> list[RunRow | None]:
        """The rows of some runs; None for rows that are read with the next frame."""
        until = self._clock() + _ROWS_WITHIN_S
        found: list[RunRow | None] = []
        for run in runs:
            row = self._rows.get(id(run))
            if row is None and self._clock() <= until:
                row = self._rows[id(run)] = _row(run)
            found.append(row)
        self._waiting = None in found
        return found

    @property
    def is_behind(self) -> bool:
        """Whether rows that are shown still wait to be read."""
        return self._waiting

    def _list(self) -> None:
        known = set(map(id, self._store.runs()))
        if self.run is not None and id(self.run) in self._known - known:
            self.run = None  # its folder is gone
        self.compared = [run for run in self.compared if id(run) not in self._known - known]
        self._known = known
        try:
            self.runs = self._found(self._filter)
            self.problem = ""
        except (UsageError, PatternError) as error:
            self.problem = " ".join(str(error).split())
        if self.run is None and self.runs:
            self.run = self.runs[0]

    def _found(self, text: str) -> list[RunView]:
        if _LOOKS_LIKE_A_QUERY.search(text):
            runs: Sequence[RunView] = self._store.runs(text)
        else:
            runs = self._store.runs()
            if text:
                pattern = compile_pattern(f"(?i){text}")
                runs = [run for run in runs if pattern.is_in(_full_name(run))]
        return [run for run in runs if not run.labels.hidden]

    @property
    def is_going(self) -> bool:
        """Whether the chosen run may still have a process to signal."""
        return self.run is not None and self.run.status.state in LIVE_STATES

    @property
    def is_suspended(self) -> bool:
        """Whether the chosen run's process is suspended."""
        return self.run is not None and self.run.status.text == "suspended"

    def signal(self, action: ProcessAction) -> str:
        """Signal the chosen run's processes; returns what was sent, or why nothing was."""
        if self.run is None:
            return ""
        try:
            sent = send_action(self.run, action)
        except EpochalError as error:
            return str(error)
        return f"{sent.signal} was sent to process {', '.join(map(str, sent.pids))}."

    def run_log(self) -> RunLog | None:
        """The log of the chosen run, read up to its last refresh."""
        if self.run is None:
            return None
        if self._run_log is None or self._run_log[0] is not self.run:
            self._run_log = (self.run, RunLog(self.run))
        run_log = self._run_log[1]
        run_log.read()
        return run_log

    def metrics(self, pattern: str = "") -> list[Metric]:
        """The series of the chosen run whose names match a regular expression.

        An invalid expression matches all. Series with a role come first, telemetry last.
        """
        if self.run is None:
            return []
        fits = _pattern(pattern)
        found = [m for m in self.run.metrics() if m.ranks and (not fits or fits.is_in(m.name))]
        return sorted(found, key=lambda m: (m.name.startswith(_MACHINE), m.role is None))

    def check_pattern(self, text: str) -> None:
        """Set ``problem`` when a text is no regular expression."""
        self.problem = ""
        try:
            compile_pattern(text)
        except PatternError as error:
            self.problem = str(error)

    def metric(self, name: str | None) -> Metric | None:
        """The series of a name, else the loss, else the first series."""
        metrics = self.metrics()
        named = next((metric for metric in metrics if metric.name == name), None)
        if named is not None:
            return named
        for role in ("loss", "eval_loss"):
            found = next((metric for metric in metrics if metric.role == role), None)
            if found is not None:
                return found
        return next(iter(metrics), None)

    def extent(self, view: View) -> Extent | None:
        """The range of the large chart's x axis."""
        metric = self.metric(view.metric)
        if metric is None or self.run is None:
            return None
        curves, kind = self.curves.of(self.run, metric, compared=self.compared_styles(), x=view.x)
        return extent_of(curves, kind)


def _row(run: RunView) -> RunRow:
    info, loss = run.info, run.role("loss")
    figure = None
    if loss is not None and loss.ranks:
        figure = run.summary(loss.name, rank=loss.ranks[0], axis=loss.axis).last
    return RunRow(info.name, info.project, info.status.state, figure, _alarm(info))


def _alarm(info: RunInfo) -> Literal["error", "warning"] | None:
    if info.open_errors or info.nonfinite:
        return "error"
    return "warning" if info.open_warnings else None


def _pattern(text: str) -> Pattern | None:
    try:
        return compile_pattern(f"(?i){text}") if text else None
    except PatternError:
        return None


def _full_name(run: RunView) -> str:
    """Project and name, of a run that was never read without reading its journal."""
    facts = run.facts
    name, project = run.labels.name or facts.get("name"), facts.get("project")
    if name is None or project is None:
        info = run.info
        name, project = info.name, info.project
    return f"{project}/{name}"
