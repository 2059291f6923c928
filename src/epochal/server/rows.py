"""Converts the store's results to wire types."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from epochal.errors import FormatError, MetricNotFoundError, UsageError
from epochal.journal.diagnosis import in_a_list
from epochal.journal.metrics import Metric
from epochal.journal.row import MetricSummary, RunRow
from epochal.records import ROLES
from epochal.records.values import nonfinite_word
from epochal.series.summary import Summary
from epochal.server import wire
from epochal.server.updates import format_cursors
from epochal.store.comparison import unfinished_text
from epochal.store.metrics import section_of
from epochal.store.progress import expected_end
from epochal.store.row import with_set_value
from epochal.store.run import RunView

_ROLE = "role:"
# So many a page draws, sorts and searches without a delay.
MOST_METRICS = 2000


def finite(value: float | None) -> float | None:
    """The number, or None where JSON cannot represent it."""
    return value if value is not None and math.isfinite(value) else None


def run_row(
    run: RunView, *, with_config: bool = False, summaries: Sequence[str] = (), whole: bool = True
) -> RunRow:
    """A run's row; ``summaries`` names metrics, or roles as ``role:loss``.

    Unless it is to be ``whole``, a run that carries no summary is not read for it.
    """
    row = run.info if whole else run.outline()
    is_followed = row.status.state == "running" and row.is_summarised and row.tracker is None
    return msgspec.structs.replace(
        row,
        config=(run.config if row.is_cut else row.config) if with_config else {},
        summaries={
            name: summary
            for name in summaries
            if (summary := _named_summary(run, row, name)) is not None
        },
        ends_at=_expected_end(run, row) if row.is_summarised else None,
        host=_text(run.facts.get("host")) if is_followed else None,
        phase=_phase(run) if is_followed else None,
        unfinished=unfinished_text(row),
        # What a row is made of stays here: a page of a thousand rows is as large as it has to be.
        diagnosis=in_a_list(row.diagnosis),
        headline=(),
        positions={},
        process=None,
        ending=None,
        source=None,
        written=None,
    )


def group_row(
    values: Sequence[Any], runs: Sequence[RunView], *, summaries: Sequence[str] = ()
) -> wire.RunGroup:
    """A group of runs: how many, how they stand, and the spread of their last values."""
    rows = [run_row(run, summaries=summaries, whole=False) for run in runs]
    last = {
        name: [s.last for row in rows if (s := row.summaries.get(name)) and s.last is not None]
        for name in summaries
    }
    return wire.RunGroup(
        values=list(values),
        count=len(rows),
        states=dict(Counter(row.status.state for row in rows)),
        last={
            name: wire.Spread(len(found), math.fsum(found) / len(found), min(found), max(found))
            for name, found in last.items()
            if found
        },
    )


def chosen_metrics(metrics: Sequence[Metric], most: int) -> Sequence[Metric]:
    """At most so many metrics: roles and small sections whole, large ones share what is left."""
    if len(metrics) <= most:
        return metrics
    chosen = {place for place, metric in enumerate(metrics) if metric.role is not None}
    sections: dict[str, list[int]] = {}
    for place, metric in enumerate(metrics):
        if place not in chosen:
            sections.setdefault(section_of(metric.name), []).append(place)
    by_size = sorted(sections.values(), key=len)
    for number, places in enumerate(by_size):
        share = (most - len(chosen)) // (len(by_size) - number)
        chosen.update(places[: max(0, share)])
    return [metrics[place] for place in sorted(chosen)]


def run_detail(run: RunView, *, with_summaries: bool = True) -> wire.RunDetail:
    """Everything about a run but its points and entries."""
    row = run_row(run)
    metrics = run.metrics()
    listed = chosen_metrics(metrics, MOST_METRICS)
    return wire.RunDetail(
        row=row,
        folder=run.info.folder,
        config=dict(run.config),
        summary=dict(run.info.summary),
        facts=dict(run.facts),
        labels=run.labels,
        metrics=[metric_row(run, metric, with_summary=with_summaries) for metric in listed],
        num_metrics=len(metrics),
        sections={}
        if len(listed) == len(metrics)
        else dict(Counter(section_of(metric.name) for metric in metrics)),
        roles={metric.role: metric.name for metric in reversed(metrics) if metric.role},
        hardware=[_fields(entry.record) for entry in run.entries("gpu-model", rank=None)],
        sol=_newest(run, "sol"),
        goodput=run.goodput(),
        recorded=sorted(run.kinds()),
        position=format_cursors({row.id: run.end()}),
    )


def summary_row(metric: Metric, summary: Summary) -> MetricSummary:
    """The summary of a series for the page."""
    best = None if metric.goal is None else summary.best(metric.goal)
    return MetricSummary(
        count=summary.count,
        nonfinite=summary.nonfinite,
        last=finite(summary.last),
        last_nonfinite=None if summary.last is None else nonfinite_word(summary.last),
        last_x=finite(summary.last_step),
        min=summary.min,
        min_x=finite(summary.min_step),
        max=summary.max,
        max_x=finite(summary.max_step),
        mean=finite(summary.mean),
        best=None if best is None else best[1],
        best_x=None if best is None else finite(best[0]),
    )


def _expected_end(run: RunView, info: RunRow) -> float | None:
    try:
        return expected_end(run, info)
    except FormatError:  # reported in the run's own row; the rest of the list is fine
        return None


def metric_row(run: RunView, metric: Metric, *, with_summary: bool) -> wire.MetricRow:
    """A series that exists, with what it amounts to."""
    is_read = with_summary and metric.ranks
    summary = _summary(run, metric, rank=metric.ranks[0]) if is_read else None
    fields = msgspec.structs.asdict(metric)
    del fields["importance"]  # the page orders its charts itself
    return wire.MetricRow(**fields, summary=summary)


def _role(name: str) -> str:
    role = name[len(_ROLE) :]
    if role not in ROLES:
        raise UsageError(f"summary={name!r} names no role: use one of {', '.join(ROLES)}.")
    return role


def _phase(run: RunView) -> str | None:
    """What the training of a live run is doing, by the last change of its phase."""
    changes = [entry for entry in run.entries("event", rank=None) if entry.name == "phase"]
    # A companion that catches up writes several changes at one time: the later line counts.
    newest = max(changes, key=lambda one: (one.t or 0.0, one.position[1:]), default=None)
    return None if newest is None else _text(newest.record.get("phase"))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _named_summary(run: RunView, row: RunRow, name: str) -> MetricSummary | None:
    if not row.is_summarised:
        return None
    role = _role(name) if name.startswith(_ROLE) else None
    same = (one for one in row.headline if one.name == name and one.rank == 0)
    known = row.of_role(role) if role is not None else next(same, None)
    if known is not None and known.axis == "step":
        shown = with_set_value(row, known.name, known.rank, known.summary, is_series=True)
        of = Metric(known.name, known.axis, (known.rank,), goal=known.goal)
        return None if shown is None else summary_row(of, shown)
    metric = run.role(role) if role is not None else run.metric(name)
    if metric is None or not metric.ranks:
        return None
    if role is not None:
        return _summary(run, metric, rank=metric.ranks[0])
    if metric.name != name or 0 not in metric.ranks:
        return None  # a name never falls back to a similar one
    return _summary(run, metric, rank=0)


def _summary(run: RunView, metric: Metric, *, rank: int) -> MetricSummary | None:
    try:
        return summary_row(metric, run.summary(metric.name, rank=rank, axis=metric.axis))
    except (FormatError, MetricNotFoundError):  # the rest of the list is fine
        return None


def _newest(run: RunView, kind: str) -> dict[str, Any] | None:
    found = run.entries(kind, rank=None)
    return _fields(max(found, key=lambda entry: entry.t or 0.0).record) if found else None


def _fields(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key not in ("log", "t")}
