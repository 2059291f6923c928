"""``epochal audit``: print who changed what on a hub, the newest first."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from epochal.cli.command import add_json
from epochal.cli.output import say, say_json
from epochal.cli.table import table, terminal_columns
from epochal.errors import UsageError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``audit``."""
    parser.add_argument("--hub", metavar="DIR", required=True, help="the folder of the hub")
    parser.add_argument(
        "-n", "--lines", type=int, default=100, help="how many lines (default: 100)"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the log."""
    from epochal.hub.shared_ledger import open_ledger

    root = Path(args.hub).expanduser()
    if not root.is_dir():
        raise UsageError(f"--hub: there is no folder {root}.")
    ledger = open_ledger(root)
    rows = ledger.audit(limit=args.lines)
    ledger.close()
    if args.json:
        say_json(rows)
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
    say(table(header, cells, width=terminal_columns(), shrink=(2, 4)))
    return 0
