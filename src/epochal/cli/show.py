"""``epochal show``: one run on one screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

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
from epochal.cli.output import one_line, say, say_json
from epochal.cli.table import table
from epochal.cli.words import epochs_text, findings_text, progress_text
from epochal.series.reduce import Summary
from epochal.series.series import Series
from epochal.store.answers import Entry, Metric
from epochal.store.metrics import in_order
from epochal.store.row import RunRow
from epochal.store.store import RunView
from epochal.values import flat_items

_LONGEST_NAME = 48
_MANY_SERIES = 200
_OWN_COST = "system/epochal_cpu_pct"


@cli_command
@run_argument
@hub_option
@json_option
def command(run: str | None, hub: str | None, as_json: bool) -> int:
    """Show one run: status, progress, configuration and metrics."""
    with reading_store(hub) as store:
        return _show(chosen_run(store, run), as_json=as_json)


def _show(view: RunView, *, as_json: bool) -> int:
    info = view.info
    if as_json:
        say_json(_as_data(view, info))
    else:
        say("\n".join([*_heading(info), *_beside(view)]))
        for title, lines in (
            ("config", _config(info.config)),
            ("summary", _config(info.summary)),
            ("metrics", _metrics(view)),
        ):
            if lines:
                say(f"\n{title}\n{lines}")
    return ERROR if info.problem else 0


def _series(view: RunView) -> Iterator[Series]:
    metrics = in_order(view.metrics())
    tables = {(metric.axis, rank) for metric in metrics for rank in metric.ranks}
    # Series that were logged together are read together; few long ones are read one by one.
    together = (
        {
            (series.name, axis, rank): series
            for axis, rank in tables
            for series in view.all_series(axis, rank=rank)
        }
        if len(metrics) > _MANY_SERIES
        else {}
    )
    for metric in metrics:
        for rank in metric.ranks:
            read = together.get((metric.name, metric.axis, rank))
            if read is None:
                read = view.series(metric.name, rank=rank, axis=metric.axis)
            yield read


def _heading(info: RunRow) -> Iterator[str]:
    yield one_line(f"{info.project}/{info.name}")
    reason = f": {info.status.reason}" if info.status.reason else ""
    facts: dict[str, Any] = {
        "status": f"{info.status.text}{reason}",
        "id": info.id,
        "folder": info.folder,
        "files of": info.tracker,
        "created": _moment(info.created),
        "updated": _moment(info.updated),
        "forked from": info.fork,
        "attempts": info.attempts if info.attempts > 1 else None,
        "steps" if info.total_steps else "step": _steps(info),
        "epoch": epochs_text(info, between=" of "),
        "findings": _findings(info),
        "records": info.records,
        "damaged lines": info.damaged or None,
        "tags": ", ".join(info.tags) or None,
        "group": info.group,
        "job type": info.job_type,
        "owner": info.owner,
        "notes": info.notes,
        "problem": info.problem,
    }
    for name, value in facts.items():
        if value is not None:
            yield f"  {name:<13} {_fact_text(value)}"


def _fact_text(value: Any) -> str:
    """A fact beside its name; further lines of a text are below its first."""
    return ("\n" + " " * 16).join(map(one_line, str(value).rstrip("\n").split("\n")))


def _beside(view: RunView) -> Iterator[str]:
    """The companion's records: the machine, its own cost, and how the run ended."""
    machines = dict.fromkeys(str(e.record.get("text")) for e in _events(view, "hardware"))
    for text in machines:
        yield f"  {'hardware':<13} {one_line(text)}"
    for event in _events(view, "vanished"):
        if event.record.get("sentence") != view.status.reason:  # of an attempt before
            yield f"  {'vanished':<13} {_fact_text(event.record.get('sentence'))}"
    goodput = view.goodput()
    if goodput is not None:
        yield f"  {'goodput':<13} {goodput.text}"
    cost = _own_cost(view)
    if cost is not None:
        yield f"  {'cost':<13} epochal itself: {cost:.1f} % of one core"


def _events(view: RunView, name: str) -> list[Entry]:
    entries = view.entries("event", rank=None)
    return [entry for entry in entries if entry.record.get("name") == name]


def _own_cost(view: RunView) -> float | None:
    if view.metric(_OWN_COST) is None:
        return None
    return view.summary(_OWN_COST).mean


def _config(config: Mapping[str, Any]) -> str:
    rows = [(one_line(name), one_line(str(value))) for name, value in sorted(flat_items(config))]
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)


def _metrics(view: RunView) -> str:
    """A line for each series; summaries say all of it, so no series is read where they are kept."""
    rows = [
        _metric_row(metric, rank, view.summary(metric.name, rank=rank, axis=metric.axis))
        for metric in in_order(view.metrics())
        for rank in metric.ranks
    ]
    if not rows:
        return ""
    header = ("  NAME", "AXIS", "POINTS", "LAST", "MIN", "MAX", "BEST")
    return table(header, rows, right=(2, 3, 4, 5))


def _metric_row(metric: Metric, rank: int, summary: Summary) -> tuple[str, ...]:
    figures = format_figures(metric.name, summary.last, summary.min, summary.max, unit=metric.unit)
    best = None if metric.goal is None else summary.best(metric.goal)
    return (
        f"  {_short(metric.name)}" + (f" (rank {rank})" if rank else ""),
        metric.axis,
        str(summary.count),
        *figures,
        "" if best is None else f"{figures[1 if metric.goal == 'min' else 2]} at {best[0]:.0f}",
    )


def _as_data(view: RunView, info: RunRow) -> dict[str, Any]:
    return {
        "info": info,
        "facts": view.facts,
        "goodput": view.goodput(),
        "metrics": [_metric_data(view, info, one) for one in _series(view)],
        "findings": [entry.record for entry in view.findings(most=None)],
    }


def _metric_data(view: RunView, info: RunRow, series: Series) -> dict[str, Any]:
    # What a program set as its summary stands in place of the last value, but not here. Otherwise
    # the summaries of thousands of series were made together.
    summary = (
        series.summary
        if info.summary
        else view.summary(series.name, rank=series.rank, axis=series.axis)
    )
    return {
        "name": series.name,
        "axis": series.axis,
        "rank": series.rank,
        "duplicates": series.duplicates,
        "hidden": series.hidden,
        "summary": msgspec.structs.asdict(summary),
        "best": None if series.goal is None else summary.best(series.goal),
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


def _steps(info: RunRow) -> str | None:
    return None if info.step is None else progress_text(info, between=" of ")


def _findings(info: RunRow) -> str | None:
    """How much was found, and the command that tells more where there is more to tell."""
    found = findings_text(info)
    finite = ["the last loss is not finite"] if info.nonfinite else []
    words = ", ".join([*([] if found in (None, "none") else [found or ""]), *finite])
    return f"{words} (epochal doctor {info.project}/{info.name})" if words else found
