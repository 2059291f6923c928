"""``epochal rm``: delete runs."""

from __future__ import annotations

import argparse

from epochal.cli.command import add_json, add_run, store_of
from epochal.cli.output import agreed, remark, say_json
from epochal.errors import EpochalError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``rm``."""
    add_run(parser, several=True)
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask")
    parser.add_argument(
        "--force", action="store_true", help="delete a run that is still running, too"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Delete runs after asking; nothing is deleted when any of them may not be."""
    store = store_of(args)
    runs = list({view.place: view for view in map(store.run, args.runs)}.values())
    for view in runs:
        info = view.info
        if info.status.state == "running" and not args.force:
            raise EpochalError(
                f"{info.project}/{info.name} is still running; --force deletes it all the same."
            )
    removed = []
    for view in runs:
        info = view.info
        if not args.yes and not agreed(f"Delete {info.project}/{info.name} in {info.folder}?"):
            remark(f"{info.project}/{info.name} was kept.")
            continue
        store.remove(view)
        removed.append(info.folder)
        if not args.json:
            remark(f"{info.project}/{info.name} is deleted.")
    if args.json:
        say_json({"removed": removed})
    return 0 if len(removed) == len(runs) else 1
