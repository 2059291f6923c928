"""``epochal show``: one run in short, or everything about it."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from epochal.cli.command import (
    ERROR,
    chosen_run,
    cli_command,
    hub_option,
    json_option,
    reading_store,
    run_argument,
)
from epochal.cli.figures import format_figures
from epochal.cli.output import Line, one_line, say, say_json, say_lines
from epochal.cli.severity import MARKS, STYLES
from epochal.cli.table import table, terminal_columns
from epochal.cli.words import epochs_text, progress_text
from epochal.format import format_duration, plural
from epochal.store.answers import Metric
from epochal.store.brief import BriefFinding, BriefMetric, RunBrief, run_brief
from epochal.store.metrics import in_order
from epochal.store.row import RunRow
from epochal.store.status import format_age
from epochal.store.store import RunView
from epochal.values import flat_items

_LONGEST_NAME = 48
_OWN_COST = "system/epochal_cpu_pct"


@cli_command
@run_argument
@click.option(
    "-a",
    "--all",
    "with_all",
    is_flag=True,
    help="Show every metric, the whole configuration, hardware and more.",
)
@hub_option
@json_option
def command(run: str | None, with_all: bool, hub: str | None, as_json: bool) -> int:
    """Show one run in short: status, progress, main metrics, configuration and findings.

    The configuration is what differs from the previous run of the project.
    """
    with reading_store(hub) as store:
        view = chosen_run(store, run)
        brief = run_brief(store, view)
        if as_json:
            say_json(_everything(view) if with_all else brief)
        else:
            _print(view, brief, with_all=with_all)
    return ERROR if brief.problem else 0


def _print(view: RunView, brief: RunBrief, *, with_all: bool) -> None:
    info = view.info
    beside = _beside(view) if with_all else ()
    say("\n".join([*_heading(info, brief, with_all=with_all), *beside]))
    if with_all:
        parts = {
            "METRICS": _every_metric(view),
            "SUMMARY": _entries(info.summary),
            "CONFIG": _entries(info.config),
        }
    else:
        since = "" if brief.previous is None else f" (changed since {brief.previous})"
        parts = {"METRICS": _metrics(brief), f"CONFIG{since}": _config(brief)}
    for title, lines in parts.items():
        if lines:
            say(f"\n{one_line(title)}\n{lines}")
    if brief.findings:
        say("\nFINDINGS")
        say_lines(line for finding in brief.findings for line in _finding(finding))
        more = f"{brief.more_findings} more. " if brief.more_findings else ""
        name = one_line(f"{info.project}/{info.name}")
        say(f"  {more}'epochal doctor {name}' shows the evidence and what to try.")


def _heading(info: RunRow, brief: RunBrief, *, with_all: bool) -> Iterator[str]:
    yield one_line(f"{info.project}/{info.name}")
    is_reported = any(finding.rule == info.status.state for finding in brief.findings)
    reason = f": {info.status.reason}" if info.status.reason and not is_reported else ""
    duration = None if brief.duration_s is None else format_duration(brief.duration_s)
    age = "" if info.created is None else f" ({format_age(time.time() - info.created)} ago)"
    facts: dict[str, Any] = {
        "status": f"{info.status.text}{reason}",
        "steps" if info.total_steps else "step": None
        if info.step is None
        else progress_text(info, between=" of "),
        "epoch": epochs_text(info, between=" of "),
        "created": f"{_moment(info.created)}{age}" if info.created is not None else None,
        "duration": duration,
        "forked from": info.fork,
        "tags": ", ".join(info.tags) or None,
        "group": info.group,
        "notes": info.notes,
        "last loss": "not finite" if info.nonfinite else None,
        "problem": info.problem,
    }
    if with_all:
        facts |= {
            "id": info.id,
            "folder": info.folder,
            "files of": info.tracker,
            "updated": _moment(info.updated),
            "attempts": info.attempts if info.attempts > 1 else None,
            "records": info.records,
            "damaged lines": info.damaged or None,
            "job type": info.job_type,
            "owner": info.owner,
        }
    for name, value in facts.items():
        if value is not None:
            yield f"  {name:<13} {_fact_text(value)}"


def _fact_text(value: Any) -> str:
    """A fact beside its name; further lines of a text are below its first."""
    return ("\n" + " " * 16).join(map(one_line, str(value).rstrip("\n").split("\n")))


def _beside(view: RunView) -> Iterator[str]:
    """The companion's records: the machine, its own cost, and how the run ended."""
    events = [entry.record for entry in view.entries("event", rank=None)]
    for text in dict.fromkeys(str(e.get("text")) for e in events if e.get("name") == "hardware"):
        yield f"  {'hardware':<13} {one_line(text)}"
    for event in events:
        is_news = event.get("sentence") != view.status.reason  # of an attempt before
        if event.get("name") == "vanished" and is_news:
            yield f"  {'vanished':<13} {_fact_text(event.get('sentence'))}"
    goodput = view.goodput()
    if goodput is not None:
        yield f"  {'goodput':<13} {goodput.text}"
    if view.metric(_OWN_COST) is not None:
        cost = view.summary(_OWN_COST).mean or 0.0
        yield f"  {'cost':<13} epochal itself: {cost:.1f} % of one core"


def _metrics(brief: RunBrief) -> str:
    rows = [(f"  {_short(one.name)}", *_values(one)) for one in brief.metrics]
    more = f"  {plural(brief.more_metrics, 'more metric')}: --all" if brief.more_metrics else ""
    lines = [table(("  NAME", "LAST", "BEST"), rows, right=(1,))] if rows else []
    return "\n".join([*lines, *filter(None, [more])])


def _values(one: BriefMetric) -> tuple[str, str]:
    last, best = format_figures(one.name, one.last if one.is_finite else float("nan"), one.best)
    at = "" if one.best_step is None else f" at {one.best_step:g}"
    return last, "" if one.best is None else f"{best}{at}"


def _config(brief: RunBrief) -> str:
    changed = brief.changed.items()
    rows = [(f"  {key}", _value(now), f"was {_value(was)}") for key, (was, now) in changed]
    nothing = "  nothing" if brief.previous is not None and not changed else ""
    more = f"  {brief.more_config} more: --all" if brief.more_config else ""
    return "\n".join(filter(None, [_entries(brief.config), _columns(rows), nothing, more]))


def _value(value: Any) -> str:
    return "not set" if value is None else str(value)


def _finding(finding: BriefFinding) -> Iterator[Line]:
    resolved = "  (resolved)" if finding.is_resolved else ""
    style = "" if finding.is_resolved else STYLES[finding.severity]
    text = f"{MARKS[finding.severity]} {one_line(finding.sentence)}{resolved}"
    width = terminal_columns()
    for line in textwrap.wrap(text, width, initial_indent="  ", subsequent_indent="    "):
        yield [(line, style)]


def _entries(entries: Mapping[str, Any]) -> str:
    return _columns([(f"  {name}", str(value)) for name, value in sorted(flat_items(entries))])


def _columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows without a header."""
    return table([""] * len(rows[0]), rows).partition("\n")[2] if rows else ""


def _every_metric(view: RunView) -> str:
    """A line for each series; summaries say all of it, so no series is read where they are kept."""
    rows = [
        _metric_row(view, metric, rank)
        for metric in in_order(view.metrics())
        for rank in metric.ranks
    ]
    header = ("  NAME", "AXIS", "POINTS", "LAST", "MIN", "MAX", "BEST")
    return table(header, rows, right=(2, 3, 4, 5)) if rows else ""


def _metric_row(view: RunView, metric: Metric, rank: int) -> tuple[str, ...]:
    summary = view.summary(metric.name, rank=rank, axis=metric.axis)
    values = format_figures(metric.name, summary.last, summary.min, summary.max, unit=metric.unit)
    best = None if metric.goal is None else summary.best(metric.goal)
    return (
        f"  {_short(metric.name)}" + (f" (rank {rank})" if rank else ""),
        metric.axis,
        str(summary.count),
        *values,
        "" if best is None else f"{values[1 if metric.goal == 'min' else 2]} at {best[0]:.0f}",
    )


def _everything(view: RunView) -> dict[str, Any]:
    return {
        "info": view.info,
        "facts": view.facts,
        "goodput": view.goodput(),
        "metrics": [
            _metric_data(view, metric, rank)
            for metric in in_order(view.metrics())
            for rank in metric.ranks
        ],
        "findings": [entry.record for entry in view.findings(most=None)],
    }


def _metric_data(view: RunView, metric: Metric, rank: int) -> dict[str, Any]:
    summary = view.summary(metric.name, rank=rank, axis=metric.axis)
    return {
        "name": metric.name,
        "axis": metric.axis,
        "rank": rank,
        "summary": msgspec.structs.asdict(summary),
        "best": None if metric.goal is None else summary.best(metric.goal),
    }


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def _moment(t: float | None) -> str | None:
    if t is None:
        return None
    try:
        return datetime.fromtimestamp(t).isoformat(sep=" ", timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{t} s"
