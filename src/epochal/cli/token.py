"""``epochal token``: make, list and revoke the tokens of a hub."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from epochal.cli.command import add_json, command_user, hub_folder
from epochal.cli.output import hint, remark, say, say_json
from epochal.cli.table import table
from epochal.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from epochal.hub.ledger import TokenRow


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``token``."""
    parser.add_argument("action", choices=("add", "list", "revoke"))
    parser.add_argument("name", metavar="NAME", nargs="?", help="what the token is called")
    parser.add_argument("--hub", metavar="DIR", required=True, help="the folder of the hub")
    parser.add_argument(
        "--role",
        choices=("read", "write", "admin"),
        default="write",
        help="what it may do; each role includes the ones before it (default: write)",
    )
    parser.add_argument(
        "--project",
        metavar="NAME",
        action="append",
        dest="projects",
        help="only for this project; may be given several times (default: every project)",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Do what was asked for; a new token is printed once and stored as a digest."""
    from epochal.hub.ledger import Ledger
    from epochal.journal.layout import slugify

    ledger = Ledger(hub_folder(args.hub))
    if args.action == "list":
        _list(ledger.tokens(), as_json=args.json)
        return 0
    if args.name is None:
        raise UsageError(f"epochal token {args.action} needs a NAME.")
    if args.action == "revoke":
        ledger.revoke_token(args.name)
        ledger.note(command_user(), "token revoke", details=args.name)
        remark(f"The token {args.name!r} is refused from now on.")
        return 0
    projects = None if args.projects is None else [slugify(one) for one in args.projects]
    token = ledger.add_token(args.name, args.role, projects)
    where = "all projects" if projects is None else ", ".join(projects)
    ledger.note(command_user(), "token add", details=f"{args.name}: {args.role}, {where}")
    hint("The token is shown only now; set it as EPOCHAL_HUB_TOKEN on the machine:")
    say(token)
    return 0


def _list(tokens: Sequence[TokenRow], *, as_json: bool) -> None:
    rows = [
        {
            "name": one.name,
            "role": one.role,
            "projects": None if one.projects is None else sorted(one.projects),
            "created": one.created,
            "revoked": one.revoked,
        }
        for one in tokens
    ]
    if as_json:
        say_json(rows)
        return
    cells = [
        (
            one.name,
            one.role,
            "all" if one.projects is None else ", ".join(sorted(one.projects)),
            time.strftime("%Y-%m-%d %H:%M", time.localtime(one.created)),
            "revoked" if one.revoked else "",
        )
        for one in tokens
    ]
    say(table(("name", "role", "projects", "created", ""), cells))
