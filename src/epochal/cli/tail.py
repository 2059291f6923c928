"""``epochal tail``: a run's latest records, and those still to come."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

import click

from epochal.cli.command import (
    chosen_run,
    cli_command,
    hub_option,
    json_option,
    reading_store,
    run_argument,
)
from epochal.cli.figures import format_figure
from epochal.cli.output import one_line, say_json, say_lines
from epochal.cli.severity import severity_of
from epochal.journal.layout import FINDINGS, LOOP
from epochal.records import Position, Record, moment_of, scalars_of
from epochal.store.store import RunView
from epochal.values import as_float

_LONGEST_TEXT = 200
_TELEMETRY = "telemetry"
_TEXTS = ("name", "level", "status", "reason", "sentence", "text", "value")
# What people look for in a run's latest; the rest is how the program keeps its books.
_TOLD = frozenset("step metrics eval epoch message finding event text resume".split())
_BOOKKEEPING_EVENTS = frozenset({"telemetry", "hardware"})
_FAILURES = frozenset(
    "exception vanished callback-running records-lost values-lost blob-lost sinks-failed"
    " companion-lost companion-failed alert-failed out-of-memory".split()
)
# Fields of events that are times, in Unix seconds.
_TIMES = frozenset({"asked", "at"})
_NOT_WORDS = frozenset("log t step epoch name rank traceback node m nonfinite".split())


def is_shown(position: Position, record: Record) -> bool:
    """Whether people mean this record when they ask what a run did last."""
    kind = record["log"]
    if kind == "finish":
        return position.writer == LOOP
    return kind in _TOLD and record.get("name") not in _BOOKKEEPING_EVENTS


def record_line(position: Position, record: Record) -> str:
    """The line of a record; who wrote it is named unless it is rank 0 or the run's companion."""
    words = [_clock(moment_of(record)), str(record["log"])]
    if not is_shown(position, record) or not _is_of_the_run(position.writer):
        words[1:1] = [f"[{position.writer}]"] if position.writer != LOOP else []
    words += [f"{axis} {record[axis]}" for axis in ("step", "epoch") if _is_place(record, axis)]
    words += [f"{name}={format_figure(name, value)}" for name, value in scalars_of(record)]
    return "  ".join([*words, *_words(record)])


def style_of(record: Record) -> str:
    """Errors in red and warnings in yellow, by level or by what a program printed."""
    kind = record["log"]
    if kind == "message":
        return severity_of(str(record.get("level", "")), str(record.get("text", "")))
    if kind == "finding":
        is_open = record.get("state") != "closed"
        return {"error": "bad", "warning": "warn"}.get(record.get("severity", ""), "") * is_open
    if kind == "event" and record.get("name") in _FAILURES:
        return "bad"
    if kind == "finish":
        return "good" if record.get("status") == "finished" else "bad"
    return ""


def _is_of_the_run(writer: str) -> bool:
    return writer in (LOOP, FINDINGS) or writer.startswith(_TELEMETRY)


def _is_place(record: Record, axis: str) -> bool:
    # The epoch of a step is one of its figures.
    return axis in record and (axis == "step" or record["log"] == "epoch")


def _words(record: Record) -> Iterator[str]:
    kind = record["log"]
    if kind == "event":
        yield from _event_words(record)
        return
    if kind == "finding":
        yield _short(str(record.get("severity", "")))
    for field in _TEXTS:
        if isinstance(record.get(field), str):
            yield _short(record[field])
    if kind == "finding" and record.get("state") == "closed":
        yield "(resolved)"


def _event_words(record: Record) -> Iterator[str]:
    """Its name and its facts: ``phase converging (was warm-up)``."""
    name = str(record.get("name", ""))
    facts = [_fact(name, key, value) for key, value in record.items() if key not in _NOT_WORDS]
    yield " ".join([_short(name), *(fact for fact in facts if fact)])


def _fact(name: str, key: str, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return ""
    if isinstance(value, str):
        text = _short(value)
    else:
        text = _clock(value) if key in _TIMES else f"{as_float(value):g}"
    if key == "was":
        return f"(was {text})"
    if key in _TEXTS or key in name:
        return text
    return f"{'gpu' if key == 'id' and name.startswith('gpu') else key} {text}"


def _short(text: str) -> str:
    shown = one_line(text[:_LONGEST_TEXT])
    return shown if len(text) <= _LONGEST_TEXT else f"{shown}…"


def _clock(t: float) -> str:
    try:
        return datetime.fromtimestamp(t).strftime("%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "--:--:--"


_LOOK_EVERY_S = 0.25
_ASK_EVERY_S = 1.0
# How many more records are looked through where too few of them are for people.
_FURTHER = 8
_Item = tuple[Position, Record]


@cli_command
@run_argument
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(min=0),
    default=10,
    metavar="N",
    help="Number of records (default: 10).",
)
@click.option(
    "-f", "--follow", is_flag=True, help="Print new records until the run ends, or Ctrl-C."
)
@click.option("-a", "--all", "all_kinds", is_flag=True, help="Also print internal records.")
@hub_option
@json_option
def command(
    run: str | None, lines: int, follow: bool, all_kinds: bool, hub: str | None, as_json: bool
) -> None:
    """Print the latest records of a run, and follow it with -f."""
    # Another machine is asked less often than a disk.
    pause_s = _LOOK_EVERY_S if hub is None else _ASK_EVERY_S
    with reading_store(hub) as store:
        view = chosen_run(store, run)
        _print(_latest(view, lines, all_kinds=all_kinds), as_json=as_json)
        while follow:
            # Asked before reading: what a run writes before it ends is never missed.
            may_go_on = view.info.status.state in ("running", "waiting")
            end = view.end()
            if view.refresh():
                news = _by_time(view.records(end))
                _print(_wanted(news, all_kinds=all_kinds), as_json=as_json)
            elif not may_go_on:
                break
            else:
                time.sleep(pause_s)


def _latest(view: RunView, count: int, *, all_kinds: bool) -> list[_Item]:
    """The latest records that are wanted; more are looked through until there are enough."""
    depth = count
    while count:
        # Each writer's last records are enough; one whose last part is short is read whole.
        since = {
            writer: position._replace(ordinal=position.ordinal - depth)
            for writer, position in view.end().items()
            if position.ordinal >= depth
        }
        found = _wanted(_by_time(view.records(since)), all_kinds=all_kinds)
        if len(found) >= count or not since:
            return found[-count:]
        depth *= _FURTHER
    return []


def _wanted(items: list[_Item], *, all_kinds: bool) -> list[_Item]:
    return [item for item in items if all_kinds or is_shown(*item)]


def _by_time(items: Iterable[_Item]) -> list[_Item]:
    return sorted(items, key=lambda item: moment_of(item[1]))


def _print(items: Iterable[_Item], *, as_json: bool) -> None:
    if as_json:
        for _, record in items:
            say_json(record)
    else:
        say_lines([(record_line(*item), style_of(item[1]))] for item in items)
    sys.stdout.flush()
