"""Room on the disk: ``epochal rm``, ``manage trash``, ``manage prune`` and ``manage du``."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import click

from epochal.cli import options
from epochal.cli.command import data_command, full_name, local_store, runs_dir, selected_runs
from epochal.cli.output import answer, confirm, remark, said_json, say_table
from epochal.errors import UsageError
from epochal.journal.row import RunRow
from epochal.records.format import format_bytes, plural
from epochal.store.catalog import TRASH
from epochal.store.local.trash import KINDS, check_removable, is_removable
from epochal.store.row import TrashedRun
from epochal.store.status import format_age
from epochal.store.store import Store

_NAMED = 10


@data_command
@options.runs
@options.where
@options.yes
def rm(runs: tuple[str, ...], where: str | None, yes: bool) -> None:
    """Move runs to the trash; 'epochal manage trash restore' undoes it.

    If one of the named runs cannot be deleted, none is.
    """
    store, views = local_store(), []
    for view in selected_runs(store, runs, where):
        try:
            check_removable(view.info)
            views.append(view)
        except UsageError as error:
            if where is None:
                raise
            remark(str(error))
    names = [full_name(view) for view in views]
    what = names[0] if len(names) == 1 else f"{len(names):,} runs"
    if names and not yes:
        shown = [*names[:_NAMED], f"and {len(names) - _NAMED:,} more"][: len(names)]
        for name in shown if len(names) > 1 else ():
            remark(f"  {name}")
        confirm(f"Move {what} to the trash?", yes=yes)
    moved = [store.remove(view) for view in views]
    said_json({"removed": [one.origin for one in moved], "trash": [one.folder for one in moved]})
    if moved:
        be, them = ("is", moved[0].name) if len(moved) == 1 else ("are", "RUN…")
        remark(f"{what} {be} in the trash; 'epochal manage trash restore {them}' undoes it.")


@data_command
@click.argument(
    "action",
    metavar="[list|restore|empty]",
    type=click.Choice(("list", "restore", "empty")),
    default="list",
)
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option(
    "--older", type=options.DURATION, default="0s", help="Only runs deleted longer ago, as 30d."
)
@options.yes
def trash(action: str, runs: tuple[str, ...], older: float, yes: bool) -> None:
    """List deleted runs, restore some of them, or erase them for ever."""
    store, now = local_store(), time.time()
    if action == "restore":
        _restore(store, runs)
        return
    found = [store.trash.find(key) for key in runs] if runs else store.trash.runs()
    found = [run for run in found if run.deleted <= now - older]
    rows = [*zip(found, [usage.total() for usage in store.catalog.usage(found)], strict=True)]
    size = sum(bytes_ for _, bytes_ in rows)
    what = f"{plural(len(rows), 'run')} ({format_bytes(size)})"
    if action == "list":
        if not rows:
            answer([], f"The trash of {runs_dir()} is empty.")
        elif not said_json([{"run": run, "bytes": bytes_} for run, bytes_ in rows]):
            cells = [(run.name, run.project, bytes_, now - run.deleted) for run, bytes_ in rows]
            _print_table("DELETED AGO", cells)
        return
    confirm(f"Erase {what} for ever?", yes=yes or not rows)
    for run, _ in rows:
        store.trash.erase(run)
    done = f"{what} erased." if rows else "There was nothing to erase."
    answer({"erased": [run.origin for run, _ in rows], "bytes": size}, done)


def _restore(store: Store, keys: Sequence[str]) -> None:
    if not keys:
        raise UsageError("name the runs to restore: 'epochal manage trash' lists them.")
    found = {run.folder: run for run in map(store.trash.find, keys)}.values()
    restored = [(run, store.trash.restore(run)) for run in found]
    said_json({"restored": [place for _, place in restored]})
    for run, place in restored:
        renamed = "" if place == run.origin else f" in {place}, because its folder name is taken"
        remark(f"{run.project}/{run.name} is restored{renamed}.")


@data_command
@click.option(
    "--older", type=options.DURATION, help="Runs without news for this time, such as 30d."
)
@click.option("--max-size", type=options.SIZE, help="The oldest runs, until the others fit (50GB).")
@click.option("--keep-tagged", is_flag=True, help="Keep every run with a tag.")
@click.option("--where", metavar="QUERY", help="Only runs that a query selects.")
@click.option("-y", "--yes", is_flag=True, help="Move them to the trash; without it: only list.")
def prune(
    older: float | None, max_size: float | None, keep_tagged: bool, where: str | None, yes: bool
) -> None:
    """List the runs that are too old or too large; with --yes move them to the trash.

    Live runs always stay.
    """
    if older is None and max_size is None:
        raise UsageError("prune needs a limit: --older AGE, --max-size SIZE, or both.")
    store, now = local_store(), time.time()
    views = {view.outline().folder: view for view in store.runs() if view.tracker is None}
    usage = store.catalog.usage([view.outline() for view in views.values()])
    sizes = dict(zip(views, [one.total() for one in usage], strict=True))
    free = [view.info for view in (views.values() if where is None else store.runs(where))]
    free = [info for info in free if is_removable(info) and not (keep_tagged and info.tags)]
    free.sort(key=_written)
    going = {i.folder: i for i in free if older is not None and now - _written(i) >= older}
    left = sum(sizes.values()) - sum(sizes[folder] for folder in going)
    for info in free:
        if max_size is not None and left > max_size and info.folder not in going:
            going[info.folder] = info
            left -= sizes[info.folder]
    for folder in going if yes else ():
        store.remove(views[folder])
    rows = [(info, sizes[folder]) for folder, info in going.items()]
    what = f"{plural(len(rows), 'run')} ({format_bytes(sum(size for _, size in rows))})"
    data = {"moved": yes, "runs": [{"run": info, "bytes": size} for info, size in rows]}
    if not rows:
        answer(data, "No run is beyond these limits.")
    elif not said_json(data):
        _print_table("AGE", [(i.name, i.project, size, now - _written(i)) for i, size in rows])
        done = "moved to the trash; 'epochal manage trash empty' frees the space"
        remark(f"{what} {done if yes else 'would go to the trash; --yes moves them'}.")


def _written(info: RunRow) -> float:
    return info.updated or info.created or 0.0


def _print_table(last: str, rows: Sequence[tuple[str, str, int, float]]) -> None:
    """Print names, projects, bytes and ages in seconds."""
    cells = [(name, project, format_bytes(size), format_age(s)) for name, project, size, s in rows]
    header = ("NAME", "PROJECT", "SIZE", last)
    say_table(header, cells, shrink=(0, 1), right=(2, 3))


def _usage(store: Store) -> dict[str, Counter[str]]:
    """Bytes by project and kind, of runs of ours and of the trash."""
    found: dict[str, Counter[str]] = {}
    ours = [run.outline() for run in store.runs() if run.tracker is None]
    runs: list[RunRow | TrashedRun] = [*ours, *store.trash.runs()]
    for run, num_bytes in zip(runs, store.catalog.usage(runs), strict=True):
        found.setdefault(run.project, Counter()).update(num_bytes)
    return found


@data_command
def du() -> None:
    """Show how many bytes runs and the trash take, by project and kind of file."""
    with local_store() as store:
        usage = _usage(store)
    total = sum(usage.values(), Counter[str]())
    kinds = [kind for kind in KINDS if total[kind]]
    projects = sorted(usage.items(), key=lambda one: one[1].total(), reverse=True)
    if said_json({"disk": {name: dict(found) for name, found in projects}}):
        return
    if not projects:
        remark(f"No runs in {runs_dir()} yet.")
        return
    rows = [("all projects", total), *projects] if len(projects) > 1 else projects
    header = ("PROJECT", *(kind.upper() for kind in kinds), "TOTAL")
    cells = [
        (name, *(format_bytes(found[kind]) for kind in kinds), format_bytes(found.total()))
        for name, found in rows
    ]
    say_table(header, cells, shrink=(0,), right=range(1, len(header)))
    remark("Checkpoints and files outside of run folders are not counted.")
    if total[TRASH]:
        remark("'epochal manage trash empty --older 30d' erases what was deleted long ago.")
