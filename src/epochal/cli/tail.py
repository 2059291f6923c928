"""``epochal tail``: a run's latest records, and those still to come."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable

from epochal.cli.command import add_json, add_run, run_of
from epochal.cli.output import say_json, say_lines
from epochal.cli.record_line import is_told, record_line, style_of, time_of
from epochal.errors import UsageError
from epochal.records import Position, Record
from epochal.store.store import RunView

_LOOK_EVERY_S = 0.25
# How many more records are looked through where too few of them are for people.
_FURTHER = 8
_Item = tuple[Position, Record]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``tail``."""
    add_run(parser)
    parser.add_argument(
        "-n", "--lines", type=int, default=10, metavar="N", help="number of records (10)"
    )
    parser.add_argument(
        "-f",
        "--follow",
        action="store_true",
        help="print new records until the run ends, or Ctrl-C",
    )
    parser.add_argument(
        "-a",
        "--all",
        action="store_true",
        help="also print telemetry and internal records",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the latest records of all writers by time; with ``-f`` go on."""
    if args.lines < 0:
        raise UsageError(f"-n {args.lines} must be 0 or more.")
    view = run_of(args)
    _print(_latest(view, args.lines, all_kinds=args.all), as_json=args.json)
    while args.follow:
        # Asked before reading: what a run writes before it ends is never missed.
        may_go_on = view.info.status.state in ("running", "waiting")
        end = view.end()
        if view.refresh():
            news = _by_time(view.records(end))
            _print(_wanted(news, all_kinds=args.all), as_json=args.json)
        elif not may_go_on:
            break
        else:
            time.sleep(_LOOK_EVERY_S)
    return 0


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
    return [item for item in items if all_kinds or is_told(*item)]


def _by_time(items: Iterable[_Item]) -> list[_Item]:
    return sorted(items, key=lambda item: time_of(item[1]))


def _print(items: Iterable[_Item], *, as_json: bool) -> None:
    if as_json:
        for _, record in items:
            say_json(record)
    else:
        say_lines([(record_line(*item), style_of(item[1]))] for item in items)
    sys.stdout.flush()
