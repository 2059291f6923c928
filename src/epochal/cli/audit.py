"""``epochal audit``: print who changed what on a hub, the newest first."""

from __future__ import annotations

import argparse
import sys
import time

from epochal.cli.command import add_json, hub_folder
from epochal.cli.output import remark, say, say_json
from epochal.cli.table import table, terminal_columns


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``audit``."""
    parser.add_argument("--hub", metavar="DIR", required=True, help="the folder of the hub")
    parser.add_argument(
        "-n", "--lines", type=int, default=100, help="how many lines (default: 100)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the log."""
    from epochal.hub.ledger import Ledger

    root = hub_folder(args.hub)
    ledger = Ledger(root)
    rows = ledger.audit(limit=args.lines)
    ledger.close()
    if args.json:
        say_json(rows)
        return 0
    if not rows:
        remark(f"Nobody has changed anything on the hub of {root} yet.")
        return 0
    cells = [
        (
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["t"])),
            row["who"],
            row["what"],
            row["run"] or "",
            row["details"],
        )
        for row in rows
    ]
    header = ("time", "who", "what", "run", "details")
    # In a pipe or a file nothing of the log is cut off.
    width = terminal_columns() if sys.stdout.isatty() else None
    say(table(header, cells, width=width, shrink=(2, 4)))
    return 0
