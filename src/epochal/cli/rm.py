"""``epochal rm``: move runs to the trash."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from epochal.cli.command import add_json, add_run, add_where, chosen_runs, store_of
from epochal.cli.output import agreed, remark, say_json
from epochal.errors import EpochalError, UsageError
from epochal.store.local.trash import check_removable
from epochal.store.row import RunRow

_NAMED = 10


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``rm``."""
    add_run(parser, several=True, optional=True)
    add_where(parser)
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Move runs to the trash after asking; none is moved when a named one may not be."""
    store = store_of(args)
    views = chosen_runs(store, args.runs, args.where, usage="name runs, or give --where QUERY")
    infos = [view.info for view in views]
    if args.where is not None:
        infos = _removable(infos)
    for info in infos:
        check_removable(info)
    what = name_of(infos[0]) if len(infos) == 1 else f"{len(infos):,} runs"
    if infos and not args.yes:
        name_runs(infos)
        if not agreed(f"Move {what} to the trash?"):
            remark(f"{what} {'was' if len(infos) == 1 else 'were'} kept.")
            return 1
    chosen = {info.folder for info in infos}
    moved = [store.remove(view).folder for view in views if view.info.folder in chosen]
    if args.json:
        say_json({"removed": [info.folder for info in infos], "trash": moved})
    elif moved:
        be, them = ("is", infos[0].name) if len(moved) == 1 else ("are", "RUN…")
        remark(f"{what} {be} in the trash; 'epochal trash restore {them}' undoes it.")
    return 0


def name_of(info: RunRow) -> str:
    """``project/name``."""
    return f"{info.project}/{info.name}"


def name_runs(infos: Sequence[RunRow]) -> None:
    """Print what several runs are called, the first few."""
    if len(infos) == 1:
        return
    for info in infos[:_NAMED]:
        remark(f"  {name_of(info)}")
    if len(infos) > _NAMED:
        remark(f"  and {len(infos) - _NAMED:,} more")


def _removable(infos: Sequence[RunRow]) -> list[RunRow]:
    """Those of the selected runs that can be moved; says why others cannot."""
    found: list[RunRow] = []
    for info in infos:
        try:
            check_removable(info)
        except UsageError as error:
            remark(str(error))
        else:
            found.append(info)
    if not found:
        raise EpochalError("none of the selected runs can be deleted.")
    return found
