"""``epochal share``: links that show some runs of a hub to anybody who has them."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from epochal.cli.command import check_own, runs_of
from epochal.cli.output import remark, say
from epochal.errors import UsageError
from epochal.format import plural

_DAY_S = 86_400.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``share``."""
    parser.add_argument("runs", metavar="RUN", nargs="*", help="runs or projects of the hub")
    parser.add_argument("--hub", metavar="DIR", required=True, help="the folder of the hub")
    parser.add_argument("--url", default="", help="the hub's address, to print a whole link")
    parser.add_argument(
        "--days", type=float, default=30.0, help="how long the link works (default: 30)"
    )
    parser.add_argument(
        "--revoke-all", action="store_true", help="end every link of this hub instead"
    )


def run(args: argparse.Namespace) -> int:
    """Print a link, or end all of them."""
    from epochal.hub.links import Links

    root = Path(args.hub).expanduser()
    if not root.is_dir():
        raise UsageError(f"--hub: there is no folder {root}.")
    links = Links(root)
    if args.revoke_all:
        links.revoke_all()
        remark("Every link that was given out before is refused from now on.")
        return 0
    if not args.runs:
        raise UsageError("name at least one RUN.")
    if not 0 < args.days <= 3650:
        raise UsageError("--days must be more than 0, and 3650 at most.")
    args.dir = str(root)
    views = runs_of(args)
    for view in views:
        check_own(view)
    token = links.make([view.id for view in views], until=time.time() + args.days * _DAY_S)
    remark(f"Whoever has this link can see {plural(len(views), 'run')} for {args.days:g} days:")
    say(f"{args.url.rstrip('/')}/?token={token}")
    return 0
