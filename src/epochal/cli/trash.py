"""``epochal trash``: list, restore or erase deleted runs."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from epochal.cli.command import add_json, age, runs_dir, store_of
from epochal.cli.disk_usage import folder_bytes
from epochal.cli.output import agreed, remark, say, say_json
from epochal.cli.table import table, terminal_columns
from epochal.errors import UsageError
from epochal.format import format_bytes
from epochal.store.answers import TrashedRun
from epochal.store.local.store import LocalStore
from epochal.store.status import format_age


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``trash``."""
    parser.add_argument(
        "action",
        choices=("list", "restore", "empty"),
        nargs="?",
        default="list",
        help="list deleted runs (default), restore some, or erase them for ever",
    )
    parser.add_argument(
        "runs", metavar="RUN", nargs="*", help="id, name, project/name or folder of a deleted run"
    )
    parser.add_argument(
        "--older",
        metavar="AGE",
        type=age,
        default=0.0,
        help="only runs that were deleted so long ago, such as 30d",
    )
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask before erasing")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Do what the action says; 1 when erasing was refused."""
    with store_of(args) as store:
        if args.action == "restore":
            return _restore(store, args)
        found = _selected(store, args)
        if args.action == "empty":
            return _empty(store, found, args)
        return _list(found, args)


def _selected(store: LocalStore, args: argparse.Namespace) -> list[TrashedRun]:
    if not args.runs:
        return list(store.trash.runs(older_s=args.older))
    before = time.time() - args.older
    return [run for run in map(store.trash.find, args.runs) if run.deleted <= before]


def _list(found: list[TrashedRun], args: argparse.Namespace) -> int:
    sizes = [folder_bytes(Path(run.folder)) for run in found]
    if args.json:
        say_json([{"run": run, "bytes": size} for run, size in zip(found, sizes, strict=True)])
    elif found:
        now = time.time()
        rows = [
            (run.name, run.project, format_bytes(size), f"{format_age(now - run.deleted)} ago")
            for run, size in zip(found, sizes, strict=True)
        ]
        header = ("NAME", "PROJECT", "SIZE", "DELETED")
        say(table(header, rows, width=terminal_columns(), shrink=(0, 1), right=(2, 3)))
    else:
        remark(f"The trash of {runs_dir(args)} is empty.")
    return 0


def _restore(store: LocalStore, args: argparse.Namespace) -> int:
    if not args.runs:
        raise UsageError("name the runs to restore: 'epochal trash list' lists them.")
    found = list({run.folder: run for run in map(store.trash.find, args.runs)}.values())
    places = [store.trash.restore(run) for run in found]
    if args.json:
        say_json({"restored": places})
    for run, place in zip(found, places, strict=True) if not args.json else ():
        renamed = "" if place == run.origin else f" in {place}, because its folder name is taken"
        remark(f"{run.project}/{run.name} is restored{renamed}.")
    return 0


def _empty(store: LocalStore, found: list[TrashedRun], args: argparse.Namespace) -> int:
    size = sum(folder_bytes(Path(run.folder)) for run in found)
    what = f"{len(found):,} run{'' if len(found) == 1 else 's'} ({format_bytes(size)})"
    if found and not args.yes and not agreed(f"Erase {what} for ever?"):
        remark("Nothing was erased.")
        return 1
    for run in found:
        store.trash.erase(run)
    if args.json:
        say_json({"erased": [run.origin for run in found], "bytes": size})
    else:
        remark(f"{what} erased." if found else "There was nothing to erase.")
    return 0
