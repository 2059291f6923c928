"""Waits for a run: until it ends, something is found, a condition is met or time is up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from epochal.errors import EpochalError, RunNotFoundError, UsageError
from epochal.health.finding import Finding, Severity
from epochal.journal.layout import LOOP, rank_of_writer
from epochal.journal.process_action import ProcessAction, SentAction, signal_processes
from epochal.journal.row import LIVE_STATES
from epochal.query.condition import Condition, ConditionTracker
from epochal.records import finite, scalars_by_name, whole_number
from epochal.records.format import format_duration, plural
from epochal.shipping.client import HubError
from epochal.store.brief import open_findings
from epochal.store.lookup import near_names
from epochal.store.run import RunView
from epochal.store.store import Store

Event = Literal["ended", "finding", "until", "timeout"]
# What a wait may end for besides the end of the run: findings of this severity or a higher one.
ON: Mapping[str, Severity | None] = {
    "finding": "info",
    "warning": "warning",
    "error": "error",
    "end": None,
}


class Waited(msgspec.Struct, frozen=True, kw_only=True):
    """How a wait ended: its event, and the run at that moment.

    ``status`` is "missing" if the run never appeared. ``reason`` says why a run ended, where that
    is known. ``values`` are those of the metrics in the condition. ``errors`` and ``warnings``
    count findings; they are null where no rule has run.
    """

    event: Event
    run: str
    id: str | None = None
    status: str = "missing"
    reason: str | None = None
    step: int | None = None
    waited_s: float = 0.0
    finding: Finding | None = None
    values: Mapping[str, float] = {}
    errors: int | None = None
    warnings: int | None = None

    @property
    def sentence(self) -> str:
        """One line for people."""
        at = "" if self.step is None else f" at step {self.step:,}"
        values = " and ".join(f"{name} is {value:.5g}" for name, value in self.values.items())
        if self.finding is not None:
            return f"{self.run}: {self.finding.severity}: {self.finding.sentence}"
        if self.event == "until":
            return f"{self.run}: the condition is met{at}: {values}."
        if self.id is None:
            return f"{self.run} has not appeared after {format_duration(self.waited_s)}."
        if self.event == "timeout":
            parts = [f"{self.run} is still {self.status} after {format_duration(self.waited_s)}"]
        else:
            parts = [f"{self.run}: {self.status}"]
        counts = [("error", self.errors or 0), ("warning", self.warnings or 0)]
        found = [plural(number, word) for word, number in counts if number]
        parts += [at, f" with {' and '.join(found)}" if found else ""]
        parts += [f"; {values}" if values else "", f": {self.reason}" if self.reason else ""]
        return "".join(parts).rstrip(".") + "."


def wait_for_run(
    store: Store,
    key: str,
    *,
    find: Callable[[str], RunView] | None = None,
    until: Condition | None = None,
    on: str = "error",
    timeout_s: float = math.inf,
    poll_s: float = 1.0,
    notice: Callable[[str], object] = lambda _sentence: None,
) -> Waited:
    """Wait for the run that ``key`` names, also for a run that does not exist yet.

    ``find`` returns the run of a key, by default as ``store.run`` does.
    ``on`` is one of ``ON``; findings that are open already end the wait at once. ``until`` counts
    from the newest points at the beginning. ``notice`` gets remarks while it waits. A hub that
    cannot be reached for a while is asked again.
    """
    clock = _Clock(timeout_s, poll_s)
    view = _find(store, key, find or store.run, clock, notice)
    if view is None:
        return Waited(event="timeout", run=key, waited_s=clock.waited_s)
    watched = None if until is None else _Watched(view, until, notice)
    while True:
        row = view.info
        least = ON[on]
        found = [] if least is None else open_findings(view, least)
        event: Event | None = None
        if watched is not None and watched.is_met():
            event = "until"
        elif found:
            event = "finding"
        elif not row.status.is_live:
            event = "ended"
        elif clock.left_s <= 0:
            event = "timeout"
        if event is not None:
            return Waited(
                event=event,
                run=f"{row.project}/{row.name}",
                id=row.id,
                status=row.status.text,
                reason=row.status.reason,
                step=watched.step if event == "until" and watched is not None else row.step,
                waited_s=round(clock.waited_s, 1),
                finding=found[0] if event == "finding" else None,
                values={} if watched is None else watched.tracker.values,
                errors=row.errors,
                warnings=row.warnings,
            )
        clock.sleep()
        try:
            view.refresh()
        except HubError as error:
            if error.is_final:
                raise


class _Clock:
    def __init__(self, timeout_s: float, poll_s: float) -> None:
        self._began = time.monotonic()
        self._timeout_s, self._poll_s = timeout_s, poll_s

    @property
    def waited_s(self) -> float:
        return time.monotonic() - self._began

    @property
    def left_s(self) -> float:
        return self._timeout_s - self.waited_s

    def sleep(self) -> None:
        time.sleep(max(0.0, min(self._poll_s, self.left_s)))


def _find(
    store: Store,
    key: str,
    find: Callable[[str], RunView],
    clock: _Clock,
    notice: Callable[[str], object],
) -> RunView | None:
    """The run, as soon as it exists; None when time is up."""
    is_first = True
    while True:
        try:
            return find(key)
        except RunNotFoundError as error:
            if is_first:
                notice(f"Waiting for the run to appear: {error}")
            if clock.left_s <= 0:
                return None
        is_first = False
        clock.sleep()
        store.refresh()


class _Watched:
    """Follows a condition: the newest points first, then each record that is written."""

    def __init__(self, view: RunView, until: Condition, notice: Callable[[str], object]) -> None:
        self.tracker = ConditionTracker(until)
        self._view = view
        self.step = view.info.step
        with view.lock:
            self._cursor = view.end()
            self._met = self._is_met_already(until)
            known = [metric.name for metric in view.metrics()]
        for name in until.metrics:
            hint = near_names(name, known)
            if hint and self._full_name(name) is None and name not in _POSITIONS:
                notice(f"The run has no metric {name!r} yet.{hint}")

    def is_met(self) -> bool:
        """Read what was written since the last call; True once the condition was met."""
        with self._view.lock:
            names = {name: self._full_name(name) for name in self.tracker.condition.metrics}
            for position, record in self._view.records(self._cursor):
                if self._met:
                    break
                if rank_of_writer(position.writer) in (None, 0):
                    values = scalars_by_name(record)
                    found = {
                        name: finite(record.get(name)) if full is None else values.get(full)
                        for name, full in names.items()
                        if values and (full is not None or name in _POSITIONS)
                    }
                    known = {name: value for name, value in found.items() if value is not None}
                    self._met = self.tracker.update(known) is True
                    self.step = whole_number(record.get("step"))
            self._cursor = self._view.end()
        return self._met

    def _is_met_already(self, until: Condition) -> bool:
        is_met = False
        row = self._view.info
        for name in until.metrics:
            metric, values = self._view.metric(name), list[float]()
            if metric is not None and metric.axis != "none" and 0 in metric.ranks:
                series = self._view.series(metric.name, axis=metric.axis)
                values = [float(value) for value in series.values[-until.most_points :]]
                if metric.axis == "step" and len(series):
                    self.step = int(series.at[-1])
            elif name in _POSITIONS and (reached := getattr(row, name)) is not None:
                values = [reached]
            for value in values:
                is_met = self.tracker.update({name: value}) is True
        return is_met

    def _full_name(self, name: str) -> str | None:
        metric = self._view.metric(name)
        return None if metric is None else metric.name


_POSITIONS = ("step", "epoch")


_LAUNCHER = "launcher"


def send_action(run: RunView, action: ProcessAction) -> SentAction:
    """Send a signal to all processes of a run's newest attempt that are on this machine.

    Raises ``EpochalError`` when the run has ended, and as ``signal_processes`` does.
    """
    info = run.info
    name = f"{info.project}/{info.name}"
    if info.tracker is not None:
        raise UsageError(f"{name!r} lies in files of {info.tracker}: its process is not known.")
    if info.status.state not in LIVE_STATES:
        raise EpochalError(f"{name} does not run: it is {info.status.text}.")
    headers = run.entries("run", rank=None) if action == "kill" else ()
    launchers = [e.record for e in headers if e.position.writer == _LAUNCHER]
    launcher = launchers[-1] if launchers else None
    return signal_processes(name, Path(info.folder), processes_of(run), action, launcher=launcher)


def processes_of(run: RunView) -> list[Mapping[str, Any]]:
    """The identities of the processes that train in the newest attempt, rank 0's first.

    Rank 0's is in run.json, anew for each attempt; the others' are in their journals.
    """
    headers = [
        (entry.position, entry.record)
        for entry in run.entries("run", rank=None)
        if rank_of_writer(entry.position.writer) is not None
    ]
    newest = max((position.attempt for position, _ in headers), default=0)
    others = {
        position.writer: record
        for position, record in sorted(headers, key=lambda header: header[0])
        if position.attempt == newest and position.writer != LOOP
    }
    return [run.facts, *others.values()]
