"""Runs from Python: ``epochal.open("runs")`` for many, ``epochal.load(folder)`` for one."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochal.base.invocation import invocation
from epochal.compare.groups import Choice, RunGroups, group_members, members_of
from epochal.compare.importance import Importance, importance
from epochal.compare.why import Why, why_in
from epochal.exchange.media.stored import StoredSample
from epochal.health.finding import Finding
from epochal.health.rule_settings import reader_rules
from epochal.journal.diagnosis import Diagnosis
from epochal.journal.metrics import Metric
from epochal.journal.row import RunRow
from epochal.records import Axis
from epochal.records.format import format_number, format_reached, plural
from epochal.series.downsample import Buckets
from epochal.series.html import Point, card, chart, table
from epochal.series.series import X_KINDS, Series, X, data_frame
from epochal.series.smooth import parse_smoothing
from epochal.series.summary import Summary
from epochal.settings import read_settings
from epochal.store.brief import find_metric, findings_of, main_metrics, read_series
from epochal.store.evidence.sheet import Evidence, evidence_of
from epochal.store.local.by_path import load_run, named_run
from epochal.store.metrics import matching
from epochal.store.opening import open_runs
from epochal.store.projects import ProjectRow
from epochal.store.run import RunView
from epochal.store.store import Store
from epochal.store.words import state_text

_MOST_ROWS, _MOST_METRICS, _MOST_NOTES = 50, 6, 5


def open(  # noqa: A001 - epochal.open is its public name
    path: str | Path | None = None, *, follow_links: bool = False, token: str | None = None
) -> Runs:
    """The runs below a folder, by default the one that runs are recorded in.

    Raises ``UsageError`` when there is no such folder.

    Args:
        path: The folder, the address of a hub or a server, such as ``https://host``, or a bucket
            that a hub has filled, such as ``s3://bucket/runs``.
        follow_links: Follow links that lead out of the folder.
        token: The token of the hub or server, by default that of EPOCHAL_HUB_TOKEN.
    """
    path = read_settings().dir if path is None else path
    rules = reader_rules()
    return Runs(open_runs(path, token=token, follow_links=follow_links, rules=rules))


def load(folder: str | Path, *, follow_links: bool = False) -> RunData:
    """One run by its folder; raises ``UsageError`` when there is no run in it.

    Args:
        folder: The folder of the run.
        follow_links: Follow links that lead out of the folder.
    """
    return RunData(load_run(folder, follow_links=follow_links, rules=reader_rules()))


class RunData:
    """One run: what it was configured with, what it logged; reads nothing before it is asked."""

    def __init__(self, view: RunView) -> None:
        self._view = view

    def __repr__(self) -> str:
        name, status, steps, loss, diagnosis = _cells(self._view)
        facts = (status, steps, loss and f"loss {loss}", diagnosis)
        return f"<run {name}: {', '.join(fact for fact in facts if fact)}>"

    def _repr_html_(self) -> str:
        """In a notebook: status, progress, main metrics, a chart of the losses, open findings."""
        info, view = self.info, self._view
        losses = [m for role in ("loss", "eval_loss") if (m := view.role(role)) is not None]
        curves = {
            metric.name: _points(self.series(metric.name, axis=metric.axis, pixels=200))
            for metric in losses
            if metric.axis == losses[0].axis
        }
        facts = {"progress": _steps(info)} if _steps(info) else {}
        for metric in main_metrics(view)[:_MOST_METRICS]:
            summary = view.summary(metric.name, axis=metric.axis)
            is_set = metric.axis == "none"  # one number, without a course
            best = None if metric.goal is None or is_set else summary.best(metric.goal)
            if summary.last is not None:
                facts[metric.name] = format_number(summary.last)
            if best is not None:
                facts[f"best {metric.name}"] = format_number(best[1])
        known = self.diagnosis
        notes = [f"{known.sentence}.", *(f"{one.severity}: {one.sentence}" for one in known.causes)]
        return card(
            f"{info.project}/{info.name}",
            info.status.text,
            facts=facts,
            picture=chart(curves),
            notes=[*([] if info.problem is None else [info.problem]), *notes[:_MOST_NOTES]],
            command=f"{invocation()} show {shlex.quote(info.folder)}",
        )

    @property
    def info(self) -> RunRow:
        """The run in one row: identity, status, progress, labels."""
        return self._view.info

    @property
    def name(self) -> str:
        """What the run is called."""
        return self.info.name

    @property
    def config(self) -> Mapping[str, Any]:
        """What it was configured with, options set later included."""
        return self._view.config

    @property
    def diagnosis(self) -> Diagnosis:
        """How the training is: state, ranked causes with evidence and advice, what was observed."""
        return self._view.diagnosis(most=None)

    @property
    def findings(self) -> list[Finding]:
        """Every finding as it stands now, also what was resolved; severe ones first."""
        return findings_of(self._view)

    def __getitem__(self, name: str) -> Series | Any:
        """The series of a metric: ``run["loss"]`` is ``run.series("loss")``."""
        return self.series(name)

    @property
    def view(self) -> RunView:
        """Everything else that can be asked: histograms, messages, raw records."""
        return self._view

    @property
    def evidence(self) -> Evidence:
        """The decisive facts of the run without judgement; ``print`` shows them as text."""
        return evidence_of(self._view)

    def metrics(self) -> list[Metric]:
        """Every series there is, in order of first appearance."""
        return list(self._view.metrics())

    def refresh(self) -> bool:
        """Read what was written since; True when there was anything."""
        return self._view.refresh()

    def summary(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Summary:
        """Last, min, max, mean and count of a series; names are as for ``series``.

        ``last`` is what the program set with ``run.summary``, where it did.

        Args:
            name: The metric, or a role.
            rank: The rank of a distributed run.
            axis: ``step``, ``epoch`` or ``time``.
        """
        metric = find_metric(self._view, name, axis)
        return self._view.summary(metric.name, rank=rank, axis=metric.axis)

    def series(
        self,
        name: str,
        *,
        rank: int = 0,
        axis: Axis | None = None,
        x: X | None = None,
        lo: float | None = None,
        hi: float | None = None,
        pixels: int | None = None,
        smooth: str | float | None = None,
    ) -> Series | Any:
        """A series: every point, or with ``pixels`` those that a chart that wide shows.

        ``name`` may be a role (``eval_loss``), the end of a name (``loss`` finds ``train/loss``) or
        a formula (``train/loss - eval/loss``). For a pattern such as ``eval/*`` you get a dict with
        the series of each name.

        ``x`` is step, epoch, tokens, wall, relative, progress or the name of a metric; by default
        the axis that the run defined for this one (``run.define(name, x=…)``), else its steps. The
        result keeps its own axis where it cannot be converted. ``lo`` and ``hi`` are along ``x``.
        With ``pixels`` each slice keeps its first, last, smallest and largest point, and what is
        not finite.

        ``smooth`` smooths the values over every point: ``"ema:0.9"`` or the weight alone, as on
        the page, ``"time-ema:0.9"``, ``"gaussian:12"`` or ``"mean:25"``.
        Raises ``MetricNotFoundError``.

        Args:
            name: A metric, a role, the end of a name, a formula or a pattern.
            rank: The rank of a distributed run.
            axis: ``step``, ``epoch`` or ``time``.
            x: The axis of the result.
            lo: The lowest position along ``x``.
            hi: The highest position along ``x``.
            pixels: The width of the chart; without it, every point is returned.
            smooth: How to smooth the values.
        """
        if (names := matching(name, self._view.metrics())) is not None:
            options: Any = {"rank": rank, "axis": axis, "x": x, "lo": lo, "hi": hi}
            return {one: self.series(one, **options, pixels=pixels, smooth=smooth) for one in names}
        if x is not None and x not in X_KINDS:
            self._view.series(x)  # says what there is instead
        moved = read_series(self._view, name, rank=rank, axis=axis, x=x)
        smoothing = None if smooth is None else parse_smoothing(smooth)
        chosen = (moved if smoothing is None else moved.smoothed(smoothing)).between(lo, hi)
        if pixels is None or len(chosen) <= pixels:
            # A copy: the store's own arrays are shared, and cannot be written to.
            return chosen.select(np.arange(len(chosen)))
        return chosen.select(_shown(chosen.buckets(pixels, lo=lo, hi=hi), chosen.at))

    def samples(self, name: str | None = None) -> list[StoredSample]:
        """Pictures, tables, sounds, videos, pages and texts by step.

        ``name`` may be a pattern, as in ``samples("val/*")``; without it you get all of them.
        Each has a ``name``, ``step``, ``index`` in its list, ``media_type`` and ``caption``.
        ``data`` is a text, the rows of a table, or bytes; ``save(path)`` writes it to a file.
        """
        found = self._view.samples(rank=None)
        return [one for one in found if name is None or one.fits(name)]

    def files(self, name: str | None = None) -> list[StoredSample]:
        """The files that were kept with ``run.log_file``, the newest version of a name last.

        ``name`` may be a pattern.
        """
        return [one for one in self._view.files() if name is None or one.fits(name)]

    def frame(self, *names: str, rank: int = 0) -> Any:
        """A data frame of some step series, or of all: one row per step, one column per series.

        Args:
            names: The metrics; all of them if you give none.
            rank: The rank of a distributed run.
        """
        view = self._view
        wanted = [find_metric(view, name, "step").name for name in names]
        columns: Sequence[Series] = (
            [view.series(name, rank=rank, axis="step") for name in wanted]
            if wanted
            else view.all_series("step", rank=rank)
        )
        nothing = np.empty(0, dtype=np.int64)
        steps = np.unique(np.concatenate([nothing, *(series.steps for series in columns)]))
        table: dict[str, NDArray[Any]] = {"step": steps}
        for series in columns:
            table[series.name] = _spread(series, steps)
        return data_frame(table)


class RunList(list[RunData]):
    """Some runs; in a notebook they are shown as a table."""

    def _repr_html_(self) -> str:
        return _table([run.view for run in self[:_MOST_ROWS]], len(self))


class Runs:
    """The runs below a folder; use it in ``with``, or close it, to keep what was learnt of them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> Runs:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[RunData]:
        return iter(self.runs())

    def __len__(self) -> int:
        return len(self._store.runs())

    def __getitem__(self, key: str) -> RunData:
        """The run of a key: ``runs["mnist/first"]`` is ``runs.run("mnist/first")``."""
        return self.run(key)

    def __repr__(self) -> str:
        return f"<{plural(len(self._store.runs()), 'run')}>"

    def _repr_html_(self) -> str:
        """In a notebook: a table of the newest runs."""
        views = self._store.runs()
        return _table(views[:_MOST_ROWS], len(views))

    def runs(
        self, query: str | None = None, *, order: str | None = None, limit: int | None = None
    ) -> RunList:
        """Runs that a query selects, newest first or by ``order``; see the reference for both.

        Args:
            query: Selects runs, such as ``config.lr < 0.1``; all of them if you give none.
            order: The order, such as ``-created``.
            limit: The largest number of runs.
        """
        return RunList(map(RunData, self._store.runs(query, order=order, limit=limit)))

    def projects(self) -> list[ProjectRow]:
        """Every project: its runs by state, open findings, owners, best loss, last activity."""
        return self._store.projects(budget_s=math.inf).projects

    def groups(
        self,
        query: str | None = None,
        *,
        by: Sequence[str] | None = None,
        by_all_but: Sequence[str] | None = None,
        unfinished: bool = False,
    ) -> RunGroups:
        """Runs in groups by keys of their configs, ``by=["lr", "model"]``; hidden runs are in none.

        ``by_all_but=["seed"]`` groups by every key that differs between the runs but these. Runs
        that have not finished are in no number of a group unless ``unfinished``.

        Args:
            query: Selects runs, such as ``config.lr < 0.1``; all of them if you give none.
            by: The keys of the configuration that make a group.
            by_all_but: The keys that make no group; all others that differ do.
            unfinished: Include runs that have not finished.
        """
        members = members_of(self._store.runs(query))
        return group_members(members, by=by, all_but=by_all_but, unfinished=unfinished)

    def importance(
        self,
        metric: str,
        query: str | None = None,
        *,
        value: Choice = "last",
        at: float | None = None,
        pair: Sequence[str] | None = None,
        unfinished: bool = False,
    ) -> Importance:
        """Which keys of the config a metric depends on, the most important first.

        ``value`` and ``at`` choose the value of a run, ``pair`` the keys of the interaction.
        ``unfinished`` includes runs that have not finished. Raises ``MetricNotFoundError``.

        Args:
            metric: The metric.
            query: Selects runs, such as ``config.lr < 0.1``; all of them if you give none.
            value: Which value of a run counts, such as ``last`` or ``best``.
            at: The step whose value counts.
            pair: The two keys of an interaction.
            unfinished: Include runs that have not finished.
        """
        runs = self._store.runs(query)
        return importance(runs, metric, value=value, at=at, pair=pair, unfinished=unfinished)

    def why(
        self,
        run: str,
        other: str | None = None,
        *,
        against: str | None = None,
        metric: str | None = None,
        unfinished: bool = False,
    ) -> Why:
        """Why a run differs from another one in a metric: differences ranked by what they explain.

        Without ``other``, it is compared with the runs that the query ``against`` selects, by
        default those of its group or project; of these, only finished ones unless ``unfinished``.
        ``metric`` is the evaluation loss or the loss by default. Raises ``MetricNotFoundError``.

        Args:
            run: The run.
            other: The run to compare with.
            against: A query that selects the runs to compare with.
            metric: The metric, by default the evaluation loss or the loss.
            unfinished: Include runs that have not finished.
        """
        left = named_run(self._store, run)
        right = None if other is None else named_run(self._store, other)
        return why_in(
            self._store, left, right, against=against, metric=metric, unfinished=unfinished
        )

    def run(self, key: str) -> RunData:
        """The run that an id, its start, a name, project/name, a path or ``latest`` stands for.

        Args:
            key: What identifies the run.
        """
        return RunData(named_run(self._store, key))

    def refresh(self) -> None:
        """Look for new runs and new records."""
        self._store.refresh()

    def close(self) -> None:
        """Remember what was learnt of the runs, and close every file."""
        self._store.close()


def _table(views: Sequence[RunView], count: int) -> str:
    below = "" if count <= len(views) else f"The first {len(views)} of {count:,} runs."
    header = ("run", "status", "progress", "last loss", "diagnosis")
    return table(header, map(_cells, views), below=below)


def _cells(view: RunView) -> tuple[str, str, str, str, str]:
    """The row of a run in a table, from what is quickly read of it."""
    info, last = view.outline(), view.latest("loss")
    shown = "nan" if info.nonfinite else "" if last is None else format_number(last)
    return (
        f"{info.project}/{info.name}",
        info.status.text,
        _steps(info),
        shown,
        state_text(info) or "",
    )


def _steps(info: RunRow) -> str:
    if info.step is None or info.total_steps is None:
        return format_reached(info.step, info.epoch)
    return f"{info.steps_done:,} of {info.total_steps:,} steps"


def _points(series: Series) -> list[Point]:
    return list(zip(series.at.tolist(), series.floats.tolist(), strict=True))


def _spread(series: Series, steps: NDArray[np.int64]) -> NDArray[Any]:
    """The values of a series at steps; nan where it has none."""
    if len(series) == steps.size:
        return series.values
    values = np.full(steps.size, np.nan)
    values[np.searchsorted(steps, series.steps)] = series.values
    return values


def _shown(cut: Buckets, at: NDArray[Any]) -> NDArray[np.intp]:
    """The places of the points that slices are drawn with: real points, never means."""
    steps = (cut.first_step, cut.min_step, cut.max_step, cut.last_step, cut.nonfinite_steps)
    # Several points of one place come together: all of them are kept.
    wanted = np.unique(np.concatenate([np.asarray(one, dtype=at.dtype) for one in steps]))
    return np.flatnonzero(np.isin(at, wanted))
