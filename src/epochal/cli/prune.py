"""``epochal prune``: move old runs to the trash, after showing which."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

from epochal.cli.command import add_json, age, size, store_of
from epochal.cli.disk_usage import DiskUsage, disk_usage
from epochal.cli.output import remark, say, say_json
from epochal.cli.table import table, terminal_columns
from epochal.errors import UsageError
from epochal.format import format_bytes
from epochal.store.local.trash import is_removable
from epochal.store.row import RunRow
from epochal.store.status import format_age


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``prune``."""
    parser.add_argument(
        "--older", metavar="AGE", type=age, help="runs that wrote nothing for so long, such as 30d"
    )
    parser.add_argument(
        "--max-size",
        metavar="SIZE",
        type=size,
        help="then the oldest runs, until the others take at most this, such as 50GB",
    )
    parser.add_argument("--keep-tagged", action="store_true", help="keep every run with a tag")
    parser.add_argument("--where", metavar="QUERY", help="only runs that a query selects")
    parser.add_argument(
        "-y", "--yes", action="store_true", help="move them to the trash; without it: only list"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """List the runs that the limits select; with ``--yes`` move them to the trash."""
    if args.older is None and args.max_size is None:
        raise UsageError("prune needs a limit: --older AGE, --max-size SIZE, or both.")
    with store_of(args) as store:
        views = list(store.runs())
        usage = disk_usage(views)
        by_folder = {str(view.path): view for view in views}
        may_go = views if args.where is None else list(store.runs(args.where))
        infos = [view.info for view in views]
        names = {str(view.path) for view in may_go}
        going = selected(infos, usage, args, may_go=names)
        if args.yes:
            for info in going:
                store.remove(by_folder[info.folder])
    if args.json:
        rows = [{"run": info, "bytes": usage.by_run[info.folder]} for info in going]
        say_json({"moved": args.yes, "runs": rows})
        return 0
    _print(going, usage, moved=args.yes)
    return 0


def selected(
    infos: Sequence[RunRow], usage: DiskUsage, args: argparse.Namespace, *, may_go: set[str]
) -> list[RunRow]:
    """The runs that go, the oldest first; never live ones."""
    now = time.time()
    free = [
        info
        for info in infos
        if info.folder in may_go and not (args.keep_tagged and info.tags) and is_removable(info)
    ]
    free.sort(key=_written)
    too_old = args.older if args.older is not None else float("inf")
    going = {info.folder: info for info in free if now - _written(info) >= too_old}
    if args.max_size is not None:
        left = usage.runs_bytes - sum(usage.by_run[folder] for folder in going)
        for info in free:
            if left <= args.max_size:
                break
            if info.folder not in going:
                going[info.folder] = info
                left -= usage.by_run[info.folder]
    return list(going.values())


def _written(info: RunRow) -> float:
    return info.updated or info.created or 0.0


def _print(going: Sequence[RunRow], usage: DiskUsage, *, moved: bool) -> None:
    if not going:
        remark("No run is beyond these limits.")
        return
    now = time.time()
    rows = [
        (
            info.name,
            info.project,
            format_age(now - _written(info)),
            format_bytes(usage.by_run[info.folder]),
        )
        for info in going
    ]
    header = ("NAME", "PROJECT", "AGE", "SIZE")
    say(table(header, rows, width=terminal_columns(), shrink=(0, 1), right=(2, 3)))
    total = format_bytes(sum(usage.by_run[info.folder] for info in going))
    what = f"{len(going):,} run{'' if len(going) == 1 else 's'} ({total})"
    if moved:
        remark(f"{what} moved to the trash; 'epochal trash empty' frees the space.")
    else:
        remark(f"{what} would go to the trash; --yes moves them.")
