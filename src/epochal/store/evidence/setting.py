"""The run as a whole: evaluation, times, and what differs from the nearest comparable run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from epochal.health.data_window import is_training
from epochal.journal.row import RunRow
from epochal.records.format import format_duration, format_reached
from epochal.records.values import flat_items
from epochal.series.importance import Importance
from epochal.store.comparison import MISSING, differences
from epochal.store.evidence.curves import course, metrics
from epochal.store.evidence.data import sizes
from epochal.store.evidence.material import Fact, Material, digits, listed, short
from epochal.store.evidence.model import optimizer, program
from epochal.store.run import RunView
from epochal.store.store import Store

_MOST_ENTRIES = 12
_MOST_TIMES, _MOST_EVALUATED = 10, 6
# Phases of a step, and what is timed without being asked.
_TIMES = ("phase/", "time/")
# So many of the newest runs of a project are compared by their configuration.
_MOST_RUNS = 50


def run(material: Material) -> Iterator[Fact]:
    """How far the run is, and what it was configured with."""
    row = material.row
    reached = format_reached(row.step, row.epoch)
    started, ended = row.created, row.updated
    took = "" if started is None or ended is None else f", {format_duration(ended - started)} long"
    planned = "" if row.total_steps is None else f" of {row.total_steps:,}"
    reason = f" ({short(row.status.reason)})" if row.status.reason else ""
    attempts = f", {row.attempts} attempts" if row.attempts > 1 else ""
    yield Fact(f"{row.status.text}{reason}, {reached}{planned}{took}{attempts}", 0)
    entries = [f"{short(k)} {short(digits(v))}" for k, v in flat_items(material.view.config)]
    if entries:
        yield Fact(f"config: {listed(entries, _MOST_ENTRIES)}", 1)


def evaluation(material: Material) -> Iterator[Fact]:
    """The course of what was evaluated, with its best value."""
    curves = {series.name: series for series in material.curves}
    for name, metric in list(material.evaluated.items())[:_MOST_EVALUATED]:
        summary = material.summaries.get(name)
        if summary is None:
            continue
        best = None if metric.goal is None else summary.best(metric.goal)
        at = "" if best is None else f"best {digits(best[1])} at {digits(best[0])}, "
        points = course(curves[name]) if name in curves else f"{summary.count:,} points"
        yield Fact(f"{short(name)}: {at}last {digits(summary.last)}; {points}", 1)


def times(material: Material) -> Iterator[Fact]:
    """Times of the loader, of steps and of phases, where they were recorded."""
    timing = [
        f"{short(metric.name)} {digits(s.mean)}"
        for metric in material.metrics
        if metric.importance == Importance.TIMING or metric.name.startswith(_TIMES)
        if (s := material.summaries.get(metric.name)) is not None and s.mean is not None
    ]
    if timing:
        yield Fact(f"means: {listed(timing, _MOST_TIMES)}", 1)
    hardware = material.newest("hardware").get("text")
    if hardware:
        yield Fact(f"machine: {short(str(hardware))}", 3)


def nearest(material: Material, store: Store | None) -> Iterator[Fact]:
    """What differs from the run of the project whose configuration is nearest."""
    other = None if store is None else _nearest_run(store, material.row)
    if other is None:
        return
    pairs = differences([other.config, material.view.config])
    row = other.outline()
    yield Fact(f"nearest configuration: {short(row.name)} ({row.status.text})", 1)
    texts = [
        f"{short(key)} {_value(old)} there, {_value(new)} here" for key, (old, new) in pairs.items()
    ]
    yield Fact(f"config: {'; '.join(texts[:_MOST_ENTRIES]) or 'equal'}", 1)
    own = {series.name: series for series in material.row.headline}
    for series in row.headline:
        if series.name in own and series.last != own[series.name].last:
            mine = own[series.name]
            yield Fact(
                f"{short(series.name)}: last {digits(series.last)} there, {digits(mine.last)} here"
                f"; smallest {digits(series.min)} there, {digits(mine.min)} here; largest"
                f" {digits(series.max)} there, {digits(mine.max)} here",
                2,
            )
    yield from _other_facts(material, Material(other))


def _other_facts(material: Material, other: Material) -> Iterator[Fact]:
    """Decisive facts of the other run that this run does not share."""
    for section in (sizes, program, optimizer, metrics):
        own = {fact.text for fact in section(material)}
        for fact in section(other):
            if fact.text not in own and fact.rank == 0:
                yield Fact(f"there: {fact.text}", 2)


def _nearest_run(store: Store, row: RunRow) -> RunView | None:
    """The run with the fewest other values in its configuration, and of these the newest."""
    project = row.project.replace("\\", "\\\\").replace('"', '\\"')
    runs = store.runs(f'project == "{project}"', limit=_MOST_RUNS + 1)
    own = dict(flat_items(row.config))
    best: tuple[int, RunView] | None = None
    for run_view in runs:
        outline = run_view.outline()
        if outline.id == row.id or outline.hidden or not outline.step or not outline.is_summarised:
            continue
        distance = _distance(own, dict(flat_items(outline.config)))
        if best is None or distance < best[0]:
            best = distance, run_view
    return None if best is None else best[1]


def _distance(left: Mapping[str, Any], right: Mapping[str, Any]) -> int:
    return sum(left.get(key, MISSING) != right.get(key, MISSING) for key in {*left, *right})


def _value(value: Any) -> str:
    return "not set" if isinstance(value, str) and value == MISSING else short(digits(value))


def not_recorded(material: Material) -> Iterator[Fact]:
    """The areas that the run says nothing about, each with the line that adds it."""
    are_timed = any(metric.name.startswith(_TIMES) for metric in material.metrics)
    is_trained = list(map(is_training, material.splits))
    recorded = (
        (material.newest("preflight"), "answers of the program", "epochal.preflight(model, batch)"),
        (material.newest("model"), "gradients, weights, optimizer", "epochal.watch(model)"),
        (any(is_trained), "training data", "loader = epochal.watch_data(loader)"),
        (not all(is_trained), "evaluation data", 'loader = epochal.watch_data(loader, "eval")'),
        (material.evaluated, "evaluation", 'run.log({"eval/loss": loss}, step=step)'),
        (are_timed, "time of the loader", 'with run.phase("data"):'),
    )
    for is_known, area, line in recorded:
        if not is_known:
            yield Fact(f"{area}: add `{line}`", 1)
    if not material.newest("hardware"):
        yield Fact("machine: start the run with its companion", 1)
