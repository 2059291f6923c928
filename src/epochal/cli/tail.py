"""``epochal tail``: a run's latest records, and those still to come."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from datetime import datetime

from epochal.cli.command import add_json, add_run, print_json, run_of
from epochal.errors import UsageError
from epochal.format import format_number
from epochal.record import Position, Record, scalars_of
from epochal.store.store import RunView
from epochal.tui.cells import Span
from epochal.tui.paint import Painter, painter_for
from epochal.tui.severity import severity_of

_LOOK_EVERY_S = 0.25
_LONGEST_TEXT = 200
_FAILURES = frozenset(
    "exception vanished records-lost values-lost blob-lost sinks-failed companion-lost"
    " companion-failed".split()
)
_Item = tuple[Position, Record]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tail``."""
    add_run(parser)
    parser.add_argument("-n", "--lines", type=int, default=10, metavar="N", help="how many (10)")
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on until the run ends, or Ctrl-C"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the latest records of all writers by time; with ``-f`` go on."""
    if args.lines < 0:
        raise UsageError(f"-n {args.lines} must be 0 or more.")
    view = run_of(args)
    painter = painter_for(sys.stdout)
    _print(_latest(view, args.lines), painter, as_json=args.json)
    while args.follow:
        # Asked before reading: what a run writes before it ends is never missed.
        may_go_on = view.info.status.state in ("running", "waiting")
        end = view.end()
        if view.refresh():
            _print(_by_time(view.records(end)), painter, as_json=args.json)
        elif not may_go_on:
            break
        else:
            time.sleep(_LOOK_EVERY_S)
    return 0


def _latest(view: RunView, count: int) -> list[_Item]:
    # Each writer's last records are enough; one whose last part is short is read from the start.
    since = {
        writer: position._replace(ordinal=position.ordinal - count)
        for writer, position in view.end().items()
        if position.ordinal >= count
    }
    return _by_time(view.records(since))[-count:] if count else []


def _by_time(items: Iterable[_Item]) -> list[_Item]:
    return sorted(items, key=lambda item: _time_of(item[1]))


def _print(items: Iterable[_Item], painter: Painter, *, as_json: bool) -> None:
    for position, record in items:
        if as_json:
            print_json(record)
        else:
            print(painter.paint((Span(_line(position, record), _style(record)),)))
    sys.stdout.flush()


def _line(position: Position, record: Record) -> str:
    words = [_clock(_time_of(record)), str(record["log"])]
    if position.writer != "loop":
        words.insert(1, f"[{position.writer}]")
    words += [f"{axis} {record[axis]}" for axis in ("step", "epoch") if axis in record]
    words += [f"{name}={format_number(value)}" for name, value in scalars_of(record)]
    texts = ("name", "level", "status", "reason", "sentence", "text", "value")
    words += [_short(record[field]) for field in texts if isinstance(record.get(field), str)]
    return "  ".join(words)


def _style(record: Record) -> str:
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


def _short(text: str) -> str:
    shown = text[:_LONGEST_TEXT]
    shown = shown if shown.isprintable() else repr(shown)[1:-1]
    return shown if len(text) <= _LONGEST_TEXT else f"{shown}…"


def _time_of(record: Record) -> float:
    t = record.get("t")
    return float(t) if isinstance(t, (int, float)) else 0.0


def _clock(t: float) -> str:
    try:
        return datetime.fromtimestamp(t).strftime("%H:%M:%S")
    except (OverflowError, ValueError, OSError):
        return "--:--:--"
