"""``epochal share``: links that show some runs of a hub to anybody who has them."""

from __future__ import annotations

import argparse
import time
from urllib.parse import urlsplit

from epochal.cli.command import check_own, command_user, hub_folder, runs_of, store_of
from epochal.cli.output import hint, remark, say
from epochal.errors import UsageError
from epochal.format import plural
from epochal.store.local.run import LocalRun

_DAY_S = 86_400.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``share``."""
    parser.add_argument("runs", metavar="RUN", nargs="*", help="runs or projects of the hub")
    parser.add_argument(
        "--query", help="also all runs that a query finds now, such as 'group == \"sweep\"'"
    )
    parser.add_argument("--hub", metavar="DIR", required=True, help="the folder of the hub")
    parser.add_argument("--url", default="", help="the hub's address, to print a whole link")
    parser.add_argument(
        "--view", metavar="URL", default="", help="address of the page whose view the link shows"
    )
    parser.add_argument(
        "--days", type=float, default=30.0, help="how long the link works (default: 30)"
    )
    parser.add_argument(
        "--revoke-all", action="store_true", help="end every link of this hub instead"
    )


def run(args: argparse.Namespace) -> int:
    """Print a link, or end all of them."""
    from epochal.hub.ledger import Ledger
    from epochal.hub.links import Links

    root = hub_folder(args.hub)
    links = Links(root)
    if args.revoke_all:
        links.revoke_all()
        Ledger(root).note(command_user(), "share --revoke-all")
        remark("Every link that was given out before is refused from now on.")
        return 0
    if not args.runs and args.query is None:
        raise UsageError("name at least one RUN, or --query.")
    if not 0 < args.days <= 3650:
        raise UsageError("--days must be more than 0, and 3650 at most.")
    args.dir = str(root)
    views = {view.id: view for view in (*runs_of(args), *_found(args))}
    for view in views.values():
        check_own(view)
    until = time.time() + args.days * _DAY_S
    token = links.make(list(views), until=until)
    details = f"until {time.strftime('%Y-%m-%d %H:%M', time.localtime(until))}: {', '.join(views)}"
    Ledger(root).note(command_user(), "share", details=details)
    hint(f"Whoever has this link can see {plural(len(views), 'run')} for {args.days:g} days:")
    try:
        shown = urlsplit(args.view)
    except ValueError as error:
        raise UsageError(f"--view: {args.view!r} is no address: {error}.") from error
    address = args.url or f"{shown.scheme}://{shown.netloc}{shown.path}" * bool(shown.netloc)
    # A browser keeps what stands behind # when the hub takes the token out of the address.
    fragment = f"#{shown.fragment}" if shown.fragment else ""
    say(f"{address.rstrip('/')}/?token={token}{fragment}")
    return 0


def _found(args: argparse.Namespace) -> list[LocalRun]:
    if args.query is None:
        return []
    with store_of(args) as store:
        found = [run for run in store.runs(args.query) if not run.outline().hidden]
    if not found:
        raise UsageError(f"--query: no run of the hub fits {args.query!r}.")
    return found
