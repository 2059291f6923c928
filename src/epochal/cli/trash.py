"""Deleted runs: ``epochal rm``, ``manage trash`` and ``manage prune``."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from epochal.cli.command import (
    DURATION,
    SIZE,
    cli_command,
    json_option,
    local_store,
    runs_argument,
    runs_dir,
    selected_runs,
    where_option,
    yes_option,
)
from epochal.cli.output import agreed, remark, say, say_json
from epochal.cli.table import table, terminal_columns
from epochal.errors import UsageError
from epochal.format import format_bytes, plural
from epochal.store.answers import TrashedRun
from epochal.store.local.disk_usage import disk_usage, folder_bytes
from epochal.store.local.store import LocalStore
from epochal.store.local.trash import check_removable, is_removable
from epochal.store.row import RunRow
from epochal.store.status import format_age

_NAMED = 10


@cli_command
@runs_argument
@where_option
@yes_option
@json_option
def rm(runs: tuple[str, ...], where: str | None, yes: bool, as_json: bool) -> int | None:
    """Move runs to the trash; 'epochal manage trash restore' undoes it.

    If one of the named runs cannot be deleted, none is.
    """
    with local_store() as store:
        views = selected_runs(store, runs, where)
        if where is not None:
            views = [view for view in views if _may_go(view.info)]
        infos = [view.info for view in views]
        for info in infos:
            check_removable(info)
        what = f"{infos[0].project}/{infos[0].name}" if len(infos) == 1 else f"{len(infos):,} runs"
        if infos and not yes:
            for info in infos[:_NAMED] if len(infos) > 1 else ():
                remark(f"  {info.project}/{info.name}")
            if len(infos) > _NAMED:
                remark(f"  and {len(infos) - _NAMED:,} more")
            if not agreed(f"Move {what} to the trash?"):
                remark("Nothing was deleted.")
                return 1
        moved = [store.remove(view).folder for view in views]
    if as_json:
        say_json({"removed": [info.folder for info in infos], "trash": moved})
    elif moved:
        be, them = ("is", infos[0].name) if len(moved) == 1 else ("are", "RUN…")
        remark(f"{what} {be} in the trash; 'epochal manage trash restore {them}' undoes it.")
    return None


def _may_go(info: RunRow) -> bool:
    """Whether a run can be deleted; prints why not."""
    try:
        check_removable(info)
    except UsageError as error:
        remark(str(error))
        return False
    return True


@cli_command
@click.argument("action", type=click.Choice(("list", "restore", "empty")), default="list")
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option(
    "--older", type=DURATION, default=0.0, help="Only runs deleted so long ago, such as 30d."
)
@yes_option
@json_option
def trash(action: str, runs: tuple[str, ...], older: float, yes: bool, as_json: bool) -> int | None:
    """List deleted runs, restore some of them, or erase them for ever."""
    with local_store() as store:
        if action == "restore":
            _restore(store, runs, as_json=as_json)
            return None
        found = list(map(store.trash.find, runs)) if runs else store.trash.runs()
        found = [run for run in found if run.deleted <= time.time() - older]
        sizes = [folder_bytes(Path(run.folder)) for run in found]
        if action == "list":
            _list(found, sizes, as_json=as_json)
            return None
        what = f"{plural(len(found), 'run')} ({format_bytes(sum(sizes))})"
        if found and not yes and not agreed(f"Erase {what} for ever?"):
            remark("Nothing was erased.")
            return 1
        for run in found:
            store.trash.erase(run)
    if as_json:
        say_json({"erased": [run.origin for run in found], "bytes": sum(sizes)})
    else:
        remark(f"{what} erased." if found else "There was nothing to erase.")
    return None


def _list(found: Sequence[TrashedRun], sizes: Sequence[int], *, as_json: bool) -> None:
    rows = list(zip(found, sizes, strict=True))
    if as_json:
        say_json([{"run": run, "bytes": size} for run, size in rows])
    elif rows:
        now = time.time()
        _print_table(
            "DELETED",
            [
                (run.name, run.project, size, f"{format_age(now - run.deleted)} ago")
                for run, size in rows
            ],
        )
    else:
        remark(f"The trash of {runs_dir()} is empty.")


def _restore(store: LocalStore, keys: Sequence[str], *, as_json: bool) -> None:
    if not keys:
        raise UsageError("name the runs to restore: 'epochal manage trash' lists them.")
    found = list({run.folder: run for run in map(store.trash.find, keys)}.values())
    places = [store.trash.restore(run) for run in found]
    if as_json:
        say_json({"restored": places})
        return
    for run, place in zip(found, places, strict=True):
        renamed = "" if place == run.origin else f" in {place}, because its folder name is taken"
        remark(f"{run.project}/{run.name} is restored{renamed}.")


@cli_command
@click.option("--older", type=DURATION, help="Runs that wrote nothing for so long, such as 30d.")
@click.option(
    "--max-size",
    type=SIZE,
    help="Then the oldest runs, until the others take at most this, such as 50GB.",
)
@click.option("--keep-tagged", is_flag=True, help="Keep every run with a tag.")
@click.option("--where", metavar="QUERY", help="Only runs that a query selects.")
@click.option("-y", "--yes", is_flag=True, help="Move them to the trash; without it: only list.")
@json_option
def prune(
    older: float | None,
    max_size: float | None,
    keep_tagged: bool,
    where: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """List the runs that are too old or too much; with --yes move them to the trash.

    Live runs always stay.
    """
    if older is None and max_size is None:
        raise UsageError("prune needs a limit: --older AGE, --max-size SIZE, or both.")
    with local_store() as store:
        views = {str(view.path): view for view in store.runs()}
        usage = disk_usage(list(views.values()))
        free = [view.info for view in (views.values() if where is None else store.runs(where))]
        free = [info for info in free if is_removable(info) and not (keep_tagged and info.tags)]
        free.sort(key=_written)
        now = time.time()
        going = {i.folder: i for i in free if older is not None and now - _written(i) >= older}
        left = usage.runs_bytes - sum(usage.by_run[folder] for folder in going)
        for info in free if max_size is not None else ():
            if left > max_size and info.folder not in going:
                going[info.folder] = info
                left -= usage.by_run[info.folder]
        for folder in going if yes else ():
            store.remove(views[folder])
    rows = [(info, usage.by_run[info.folder]) for info in going.values()]
    if as_json:
        say_json({"moved": yes, "runs": [{"run": info, "bytes": size} for info, size in rows]})
        return
    if not rows:
        remark("No run is beyond these limits.")
        return
    _print_table(
        "AGE",
        [(info.name, info.project, size, format_age(now - _written(info))) for info, size in rows],
    )
    total = sum(size for _, size in rows)
    what = f"{plural(len(rows), 'run')} ({format_bytes(total)})"
    if yes:
        remark(f"{what} moved to the trash; 'epochal manage trash empty' frees the space.")
    else:
        remark(f"{what} would go to the trash; --yes moves them.")


def _written(info: RunRow) -> float:
    return info.updated or info.created or 0.0


def _print_table(last: str, rows: Sequence[tuple[str, str, int, str]]) -> None:
    """Print names, projects, sizes and ages."""
    cells = [(name, project, format_bytes(size), age) for name, project, size, age in rows]
    header = ("NAME", "PROJECT", "SIZE", last)
    say(table(header, cells, width=terminal_columns(), shrink=(0, 1), right=(2, 3)))
