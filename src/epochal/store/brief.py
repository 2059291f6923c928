"""A run or one metric in short: what ``show`` and ``series`` print, and what agents read.

Status, progress, the main metrics, what was configured differently from the run before, and the
findings in one line each.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from epochal.errors import UsageError
from epochal.health.ending import BAD_ENDINGS
from epochal.health.finding import SEVERITIES, Finding, Severity, is_more_severe
from epochal.journal.diagnosis import Diagnosis, Remark, as_remark, with_finding
from epochal.journal.metrics import Metric
from epochal.journal.row import RunRow
from epochal.journal.siblings import MOST_ROWS, unexplained
from epochal.records import Axis, Record, finite
from epochal.records.values import flat_items
from epochal.series.series import Series, X
from epochal.series.summary import Summary
from epochal.series.trend import Goal
from epochal.store.comparison import MISSING, differences
from epochal.store.findings import RECORDS_A_LOOK
from epochal.store.metrics import by_importance
from epochal.store.row import latest_findings
from epochal.store.run import RunView
from epochal.store.store import Store

_MOST_METRICS = 10
_MOST_ENTRIES = 12
_MOST_FINDINGS = 6
_LONGEST_TEXT = 200
_UNEXPLAINED = "Compare it with one of them: 'epochal why'."
# What a brief says in the words of the row.
_OF_ROW = "name project id step total_steps epoch num_epochs created tags problem".split()


class BriefMetric(msgspec.Struct, frozen=True, omit_defaults=True):
    """The last and the best value of a metric; a value that the program set has no step.

    ``best`` is null where it is unknown whether more or less is better.
    """

    name: str
    last: float | None
    step: float | None = None
    best: float | None = None
    best_step: float | None = None
    is_finite: bool = True


class RunBrief(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run in short; times in Unix seconds.

    ``changed`` has the configuration that differs from the run ``previous``, the newest one of the
    project before this: each entry with its value there and here. Without such a run, ``config``
    has the whole configuration. ``summary`` has the texts that the program set; numbers are among
    the metrics. ``samples`` and ``files`` count those; the ``more_…`` count what was left out.
    """

    name: str
    project: str
    id: str
    status: str
    reason: str | None = None
    step: int | None = None
    total_steps: int | None = None
    epoch: int | None = None
    num_epochs: int | None = None
    created: float | None = None
    duration_s: float | None = None
    tags: Sequence[str] = ()
    notes: str | None = None
    problem: str | None = None
    metrics: list[BriefMetric] = []
    more_metrics: int = 0
    summary: Mapping[str, str] = {}
    previous: str | None = None
    changed: Mapping[str, list[Any]] = {}
    config: Mapping[str, Any] = {}
    more_config: int = 0
    diagnosis: str = ""
    findings: list[Remark] = []
    more_findings: int = 0
    samples: int = 0
    files: int = 0


def run_brief(store: Store, view: RunView) -> RunBrief:
    """A run in short."""
    row = view.info
    metrics = main_metrics(view)
    every = {metric.name for metric in (*view.metrics(), *view.set_metrics())}
    before = previous_run(store, row)
    own = dict(flat_items(view.config)) if before is None else {}
    changed = {} if before is None else _changed(before, view)
    known = view.diagnosis()
    found = [*map(as_remark, known.causes), *known.notes]
    values = flat_items(row.summary)
    texts = {name: text for name, text in values if isinstance(text, str) and name not in every}
    return RunBrief(
        **{name: getattr(row, name) for name in _OF_ROW},
        status=row.status.state,
        reason=_short(row.status.reason),
        duration_s=_duration_s(row),
        notes=_short(row.notes),
        metrics=[_metric(view, metric) for metric in metrics[:_MOST_METRICS]],
        more_metrics=len(every) - len(metrics[:_MOST_METRICS]),
        summary={
            name: _short(text) or ""
            for name, text in itertools.islice(texts.items(), _MOST_ENTRIES)
        },
        previous=None if before is None else before.outline().name,
        changed=dict(itertools.islice(changed.items(), _MOST_ENTRIES)),
        config=dict(itertools.islice(own.items(), _MOST_ENTRIES)),
        more_config=max(len(own) + len(changed) - _MOST_ENTRIES, 0),
        diagnosis=known.sentence,
        findings=[_shorter(one) for one in found[:_MOST_FINDINGS]],
        more_findings=max(len(found) - _MOST_FINDINGS, 0),
        samples=len(view.entries("blob", "text", rank=None)),
        files=len({entry.name for entry in view.entries("file", rank=None)}),
    )


def everything(view: RunView) -> dict[str, Any]:
    """All that is known of a run, for programs."""
    return {
        "info": view.info,
        "facts": view.facts,
        "goodput": view.goodput(),
        "metrics": [
            {
                "name": metric.name,
                "axis": metric.axis,
                "rank": rank,
                "summary": msgspec.structs.asdict(summary),
                "best": None if metric.goal is None else summary.best(metric.goal),
            }
            for metric, rank, summary in summaries(view)
        ],
        "findings": [entry.record for entry in view.findings(most=None)],
    }


def summaries(view: RunView) -> Iterator[tuple[Metric, int, Summary]]:
    """Every metric of a run on each rank, and its summary."""
    for metric in by_importance(view.metrics()):
        for rank in metric.ranks:
            yield metric, rank, view.summary(metric.name, rank=rank, axis=metric.axis)


def diagnosis_in(store: Store, view: RunView) -> Diagnosis:
    """The diagnosis of a run, also beside runs of its project that differ in the seed alone."""
    known, row = view.diagnosis(most=None), view.info
    if known.causes or not row.is_ended:
        return known
    others = store.runs(f"project == {json.dumps(row.project)}", limit=MOST_ROWS)
    found = unexplained(row, (other.info for other in others))
    if found is None:
        return known
    told = {"rule": "unexplained", "severity": "warning", "certainty": "inferred"}
    return with_finding(known, {**told, "sentence": found.sentence, "advice": _UNEXPLAINED})


def diagnosis_facts(view: RunView, known: Diagnosis) -> dict[str, Any]:
    """The diagnosis of a run, which run that is, and what it is based on, for programs."""
    row, counts = view.info, view.evaluated()
    return {
        "run": row.id,
        "name": row.name,
        "project": row.project,
        "status": row.status.state,
        "reason": row.status.reason,
        "step": row.step,
        "epoch": row.epoch,
        "errors": row.errors,
        "warnings": row.warnings,
        **msgspec.to_builtins(known),
        "goodput": view.goodput(),
        "evaluated": counts and counts.evaluated,
        "records": counts and counts.records,
        "internal_errors": [
            _without(entry.record, "log", "name") for entry in view.internal_errors()
        ],
    }


def _without(record: Record, *keys: str) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in keys}


def main_metrics(view: RunView) -> list[Metric]:
    """Each metric of a run but those of tensors and machines, the most important first."""
    found = by_importance([*view.metrics(), *view.set_metrics()])
    named: dict[str, Metric] = {}
    for metric in found:
        if not metric.importance.is_detail and 0 in metric.ranks:
            named.setdefault(metric.name, metric)
    return list(named.values())


def previous_run(store: Store, row: RunRow) -> RunView | None:
    """The newest run of the same project that was created before this one."""
    if row.created is None:
        return None
    project = row.project.replace("\\", "\\\\").replace('"', '\\"')
    before = store.runs(f'project == "{project}" and created < {row.created!r}', limit=1)
    return before[0] if before else None


def findings_of(
    view: RunView, least: Severity = "info", *, most: int | None = None
) -> list[Finding]:
    """The latest version of every finding of at least a severity: severe ones first, then by step.

    ``most`` bounds the records that are read for it where no companion watched the run.
    """
    records = ((entry.position.attempt, entry.record) for entry in view.findings(most=most))
    found = latest_findings(records, attempts=view.info.attempts)
    return sorted((one for one in found if not is_more_severe(least, one.severity)), key=_gravity)


def open_findings(view: RunView, least: Severity = "info") -> list[Finding]:
    """Those that are open, apart from how the run ended; of a live run, as far as it was read."""
    found = findings_of(view, least, most=RECORDS_A_LOOK if view.info.status.is_live else None)
    return [one for one in found if one.state == "open" and one.rule not in BAD_ENDINGS]


def _gravity(finding: Finding) -> tuple[int, bool, float]:
    step = finding.steps[0] if finding.steps is not None else 0
    return -SEVERITIES.index(finding.severity), finding.state == "closed", step


def _metric(view: RunView, metric: Metric) -> BriefMetric:
    summary = view.summary(metric.name, axis=metric.axis)
    best = None if metric.goal is None or metric.axis == "none" else summary.best(metric.goal)
    return BriefMetric(
        metric.name,
        finite(summary.last),
        summary.last_step,
        None if best is None else best[1],
        None if best is None else best[0],
        summary.last is None or math.isfinite(summary.last),
    )


def _changed(before: RunView, view: RunView) -> dict[str, list[Any]]:
    return {
        key: [None if value == MISSING else value for value in pair]
        for key, pair in differences([before.config, view.config]).items()
    }


def _shorter(remark: Remark) -> Remark:
    return msgspec.structs.replace(remark, sentence=_short(remark.sentence) or "", id="")


def _duration_s(row: RunRow) -> float | None:
    if row.created is None or row.updated is None:
        return None
    return round(max(row.updated - row.created, 0.0), 1)


def _short(text: str | None) -> str | None:
    if text is None or len(text) <= _LONGEST_TEXT:
        return text
    return f"{text[: _LONGEST_TEXT - 1]}…"


# The first, last, smallest and largest point, and the first one that is not finite.
_FEWEST = 5


class SeriesPoints(msgspec.Struct, frozen=True):
    """Points of a metric along ``x``; the others between them are left out.

    ``first``, ``last``, ``min`` and ``max`` have a position and an exact value, and are among the
    points, whose values have six digits. ``count`` counts all points, ``nonfinite`` those that are
    nan or infinite.
    """

    run: str
    metric: str
    x: str
    goal: Goal | None
    count: int
    nonfinite: int
    first: tuple[float, float] | None
    last: tuple[float, float] | None
    min: tuple[float, float] | None
    max: tuple[float, float] | None
    steps: list[float]
    values: list[float]

    def rows(self) -> list[dict[str, float | str]]:
        """One mapping per point."""
        points = zip(self.steps, self.values, strict=True)
        return [{"metric": self.metric, self.x: at, "value": value} for at, value in points]


def find_metric(view: RunView, name: str, axis: Axis | None = None) -> Metric:
    """The metric that a name or a formula means, or the one of that axis; see ``resolve``.

    Raises ``MetricNotFoundError``, which suggests similar names.
    """
    found = view.metric(name)
    if found is not None and axis in (None, found.axis):
        return found
    for metric in view.metrics():
        if metric.name == name and metric.axis == axis:
            return metric
    series = view.series(name, axis=axis)  # says what there is instead, unless it is a formula
    assert found is not None
    return msgspec.structs.replace(found, axis=series.axis)


def read_series(
    view: RunView,
    name: str,
    *,
    rank: int | None = None,
    axis: Axis | None = None,
    x: X | None = None,
) -> Series:
    """The series of ``find_metric`` along ``x``, by default along the axis defined for it.

    Without a rank it is the lowest that has the metric. Raises ``MetricNotFoundError``.
    """
    metric = find_metric(view, name, axis)
    lowest = metric.ranks[0] if metric.ranks else 0
    series = view.series(metric.name, rank=lowest if rank is None else rank, axis=metric.axis)
    return series.reindex(x or metric.x or "step", view)


def series_points(view: RunView, series: Series, points: int) -> SeriesPoints:
    """At most so many points of a series, evenly spread, and its extremes."""
    if points < _FEWEST:
        raise UsageError(f"points={points} must be {_FEWEST} or more.")
    shown = series if len(series) <= points else series.select(_spread(series.values, points))
    summary = series.summary
    row = view.outline()
    return SeriesPoints(
        run=f"{row.project}/{row.name}",
        metric=series.name,
        x=series.x,
        goal=series.goal,
        count=summary.count,
        nonfinite=summary.nonfinite,
        first=_pair(series.at[0].item(), summary.first) if len(series) else None,
        last=_pair(summary.last_step, summary.last),
        min=_pair(summary.min_step, summary.min),
        max=_pair(summary.max_step, summary.max),
        steps=shown.at.tolist(),
        values=[float(f"{value:.6g}") for value in shown.values.tolist()],
    )


def _spread(values: NDArray[np.float64], points: int) -> NDArray[np.intp]:
    """The positions of points at equal distances, of both extremes and of the first that is nan."""
    finite = np.isfinite(values)
    even = np.linspace(0, len(values) - 1, points - 3).round().astype(np.intp)
    known = np.where(finite, values, np.nan)
    extremes = [np.nanargmin(known), np.nanargmax(known)] if finite.any() else []
    return np.unique([*even, *extremes, *np.flatnonzero(~finite)[:1]])


def _pair(at: float | None, value: float | None) -> tuple[float, float] | None:
    return None if at is None or value is None else (at, value)
