"""``epochal tail``: a run's latest records, and those still to come."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable

import click

from epochal.cli import options
from epochal.cli.command import chosen_run, data_command, reading_store, shared
from epochal.cli.output import form, say_json, say_lines
from epochal.records import Position, Record, moment_of
from epochal.store.run import RunView
from epochal.store.words import is_shown, record_line, style_of

_PAUSE_S = 0.25
_REMOTE_PAUSE_S = 1.0  # another machine is asked less often than a disk
# How many more records are looked through where too few of them are for people.
_FURTHER = 8
_Item = tuple[Position, Record]


@data_command
@options.run
@click.option("-n", "--lines", type=click.IntRange(0), default=10, help="Number of records (10).")
@click.option("-f", "--follow", is_flag=True, help="Print new records until the run ends.")
@click.option("-a", "--all", "all_kinds", is_flag=True, help="Also print internal records.")
@options.hub
def command(run: str | None, lines: int, follow: bool, all_kinds: bool) -> None:
    """Print the latest records of a run, and follow it with -f."""
    with reading_store() as store:
        view = chosen_run(store, run)
        _print(_latest(view, lines, all_kinds=all_kinds))
        while follow:
            # Asked before reading: what a run writes before it ends is never missed.
            may_go_on = view.info.status.state in ("running", "waiting")
            end = view.end()
            if view.refresh():
                news = _by_time(view.records(end))
                _print(_wanted(news, all_kinds=all_kinds))
            elif not may_go_on:
                break
            else:
                time.sleep(_PAUSE_S if shared().hub is None else _REMOTE_PAUSE_S)


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


def _print(items: Iterable[_Item]) -> None:
    if form() == "json":
        for _, record in items:
            say_json(record)
    else:
        say_lines([(record_line(*item), style_of(item[1]))] for item in items)
    sys.stdout.flush()
