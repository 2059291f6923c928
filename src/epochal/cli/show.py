"""``epochal show``: one run in short, or everything about it."""

from __future__ import annotations

import math
import textwrap
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from epochal.cli import options, output
from epochal.cli.command import ERROR, chosen_run, data_command, reading_store
from epochal.exchange.media.stored import StoredSample
from epochal.journal.blobs import TABLE
from epochal.journal.diagnosis import Remark
from epochal.journal.row import RunRow
from epochal.records.format import format_bytes, format_duration, plural
from epochal.records.values import flat_items
from epochal.store.brief import BriefMetric, RunBrief, everything, run_brief, summaries
from epochal.store.run import RunView
from epochal.store.status import format_age
from epochal.store.words import (
    MARKS,
    STYLES,
    epochs_text,
    format_moment,
    format_value,
    progress_text,
)

_LONGEST_NAME = 48
_OWN_COST = "system/epochal_cpu_pct"


@data_command
@options.run
@click.option("-a", "--all", "with_all", is_flag=True, help="Show everything that is known.")
@click.option("--files", "with_files", is_flag=True, help="List the samples and files.")
@options.hub
def command(run: str | None, with_all: bool, with_files: bool) -> int:
    """Show one run in short: status, progress, main metrics, configuration and findings.

    The configuration is what differs from the previous run of the project. --all shows every
    metric, the whole configuration, the hardware and more. --files lists pictures, tables and other
    samples, and the files that the program kept.
    """
    with reading_store() as store:
        view = chosen_run(store, run)
        if with_files:
            _list_files(view)
            return 0
        brief = run_brief(store, view)
        if output.form() == "json":
            output.say_json(everything(view) if with_all else brief)
        else:
            _print(view, brief, with_all=with_all)
    return ERROR if brief.problem else 0


def _list_files(view: RunView) -> None:
    found = [*view.files(), *view.samples(rank=None)]
    if output.said_json({"files": [_described(one) for one in found]}):
        return
    rows = []
    groups: dict[tuple[str, str], list[StoredSample]] = {}
    for one in found:
        groups.setdefault((one.name, one.media_type), []).append(one)
    for (name, media_type), same in groups.items():
        steps = sorted({one.step for one in same})
        at = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
        sizes = [one.bytes for one in same if one.bytes is not None]
        size = format_bytes(sum(sizes)) if len(sizes) == len(same) else ""
        rows.append((_short(name), media_type.replace(TABLE, "table"), f"{len(same):,}", at, size))
    if not rows:
        output.remark("This run has no samples and no files.")
        return
    output.say_table(("NAME", "TYPE", "COUNT", "STEPS", "BYTES"), rows, shrink=(0,), right=(2, 4))
    output.remark("'epochal export RUN --format files -o FOLDER' saves them.")


def _described(one: StoredSample) -> dict[str, Any]:
    names = ("name", "step", "rank", "index", "media_type", "bytes", "caption")
    about = {name: getattr(one, name) for name in names}
    kind = "file" if one.record["log"] == "file" else "sample"
    return {"kind": kind, **about, "file": one.record.get("file")}


def _print(view: RunView, brief: RunBrief, *, with_all: bool) -> None:
    info = view.info
    facts = {**_facts(info, brief), **(_more_facts(view, info) if with_all else {})}
    output.say(output.one_line(f"{info.project}/{info.name}"))
    for name, value in facts.items():
        if value is not None:
            # Further lines of a text are below its first.
            lines = map(output.one_line, str(value).rstrip("\n").split("\n"))
            output.say(f"  {name:<13} {(chr(10) + ' ' * 16).join(lines)}")
    since = "" if brief.previous is None or with_all else f" (changed since {brief.previous})"
    parts = {
        "METRICS": _every_metric(view) if with_all else _metrics(brief),
        "SUMMARY": _entries(info.summary if with_all else brief.summary),
        f"CONFIG{since}": _entries(info.config) if with_all else _config(brief),
    }
    for title, text in parts.items():
        if text:
            output.say(f"\n{output.one_line(title)}\n{text}")
    if brief.findings:
        output.say("\nFINDINGS")
        output.say_lines(line for finding in brief.findings for line in _finding(finding))
        more = f"{brief.more_findings} more. " if brief.more_findings else ""
        name = output.one_line(f"{info.project}/{info.name}")
        output.say(f"  {more}'epochal doctor {name}' shows the evidence and what to try.")


def _facts(info: RunRow, brief: RunBrief) -> dict[str, Any]:
    is_reported = any(finding.rule == info.status.state for finding in brief.findings)
    reason = f": {info.status.reason}" if info.status.reason and not is_reported else ""
    age = "" if info.created is None else f" ({format_age(time.time() - info.created)} ago)"
    steps = None if info.step is None else progress_text(info, between=" of ")
    return {
        "status": f"{info.status.text}{reason}",
        "files of": info.tracker,
        "steps" if info.total_steps else "step": steps,
        "epoch": epochs_text(info, between=" of "),
        "created": None if info.created is None else f"{format_moment(info.created)}{age}",
        "duration": None if brief.duration_s is None else format_duration(brief.duration_s),
        "forked from": info.fork,
        "tags": ", ".join(info.tags) or None,
        "group": info.group,
        "samples": _samples_text(brief),
        "notes": info.notes,
        "last loss": "not finite" if info.nonfinite else None,
        "diagnosis": brief.diagnosis or None,
        "problem": info.problem,
    }


def _samples_text(brief: RunBrief) -> str | None:
    counts = ((brief.samples, "sample"), (brief.files, "file"))
    text = " and ".join(plural(count, noun) for count, noun in counts if count)
    return f"{text}: --files" if text else None


def _more_facts(view: RunView, info: RunRow) -> dict[str, Any]:
    """What the companion and Epochal recorded beside the training."""
    events = [entry.record for entry in view.entries("event", rank=None)]
    machines = dict.fromkeys(str(e.get("text")) for e in events if e.get("name") == "hardware")
    vanished = [e.get("sentence") for e in events if e.get("name") == "vanished"]
    goodput = view.goodput()
    cost = None if view.metric(_OWN_COST) is None else view.summary(_OWN_COST).mean
    return {
        "id": info.id,
        "folder": info.folder,
        "attempts": info.attempts if info.attempts > 1 else None,
        "records": info.records,
        "damaged lines": info.damaged or None,
        "job type": info.job_type,
        "owner": info.owner,
        "hardware": "\n".join(machines) or None,
        # That of the newest attempt is the reason of the status.
        "vanished": "\n".join(str(s) for s in vanished if s != info.status.reason) or None,
        "goodput": None if goodput is None else goodput.text,
        "cost": None if cost is None else f"epochal itself: {cost:.1f} % of one core",
    }


def _metrics(brief: RunBrief) -> str:
    rows = [(f"  {_short(one.name)}", *_values(one)) for one in brief.metrics]
    more = f"  {plural(brief.more_metrics, 'more metric')}: --all" if brief.more_metrics else ""
    lines = output.table(("  NAME", "LAST", "BEST"), rows, right=(1,)) if rows else ""
    return "\n".join(filter(None, [lines, more]))


def _values(one: BriefMetric) -> tuple[str, str]:
    last = format_value(one.name, one.last if one.is_finite else math.nan)
    at = "" if one.best_step is None else f" at {one.best_step:g}"
    return last, "" if one.best is None else f"{format_value(one.name, one.best)}{at}"


def _config(brief: RunBrief) -> str:
    changed = brief.changed.items()
    rows = [(f"  {key}", _value(now), f"was {_value(was)}") for key, (was, now) in changed]
    nothing = "  nothing" if brief.previous is not None and not changed else ""
    more = f"  {brief.more_config} more: --all" if brief.more_config else ""
    return "\n".join(filter(None, [_entries(brief.config), _columns(rows), nothing, more]))


def _value(value: Any) -> str:
    return "not set" if value is None else str(value)


def _finding(finding: Remark) -> Iterator[output.Line]:
    resolved = "  (resolved)" if finding.is_resolved else ""
    style = "" if finding.is_resolved else STYLES[finding.severity]
    text = f"{MARKS[finding.severity]} {output.one_line(finding.sentence)}{resolved}"
    for line in textwrap.wrap(text, output.terminal_columns() - 2, subsequent_indent="  "):
        yield [(f"  {line}", style)]


def _entries(entries: Mapping[str, Any]) -> str:
    return _columns([(f"  {name}", str(value)) for name, value in sorted(flat_items(entries))])


def _columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows without a header."""
    return output.table([""] * len(rows[0]), rows).partition("\n")[2] if rows else ""


def _every_metric(view: RunView) -> str:
    rows = []
    for metric, rank, summary in summaries(view):
        values = (summary.last, summary.min, summary.max)
        last, low, high = (format_value(metric.name, v, unit=metric.unit) for v in values)
        best = None if metric.goal is None else summary.best(metric.goal)
        at = "" if best is None else f"{low if metric.goal == 'min' else high} at {best[0]:.0f}"
        name = f"  {_short(metric.name)}" + (f" (rank {rank})" if rank else "")
        rows.append((name, metric.axis, str(summary.count), last, low, high, at))
    header = ("  NAME", "AXIS", "POINTS", "LAST", "MIN", "MAX", "BEST")
    return output.table(header, rows, right=(2, 3, 4, 5)) if rows else ""


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"
