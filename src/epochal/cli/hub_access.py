"""What a hub keeps: ``epochal hub token``, ``hub share`` and ``hub audit``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from epochal.cli import options
from epochal.cli.command import data_command, named_runs, selected_runs
from epochal.cli.output import answer, hint, said_json, say, table, terminal_columns
from epochal.errors import UsageError
from epochal.records.format import plural
from epochal.store.words import format_moment

if TYPE_CHECKING:
    from epochal.hub.ledger import Ledger
    from epochal.server.access import Role

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_NO_RULES = "There are no rules: nothing is deleted by itself."
ROLES = click.Choice(("read", "write", "admin"))  # each includes the ones before it
_DAY_S = 86_400.0


_hub_option = click.option(
    "--hub",
    required=True,
    metavar="DIR",
    help="The hub's folder, or the address of the catalog that hubs share.",
)


@contextmanager
def _ledger(hub: str) -> Iterator[Ledger]:
    from epochal.hub.opening import open_hub

    with open_hub(hub) as (ledger, _):
        yield ledger


@data_command
@click.argument("action", type=click.Choice(("add", "list", "revoke")))
@click.argument("name", required=False)
@_hub_option
@click.option("--role", type=ROLES, default="write", help="What the token may do (write).")
@click.option("--project", "projects", multiple=True, help="Only for this project.")
def token(action: str, name: str | None, hub: str, role: Role, projects: tuple[str, ...]) -> None:
    """Make, list and revoke the tokens of a hub. A new token is printed once."""
    from epochal.journal.layout import slugify

    with _ledger(hub) as ledger:
        if action == "list":
            _list_tokens(ledger)
        elif name is None:
            raise UsageError(f"'token {action}' needs a NAME.")
        elif action == "revoke":
            ledger.revoke_token(name)
            ledger.note(_user(), "token revoke", details=name)
            answer({"revoked": name}, f"The token {name!r} is refused from now on.")
        else:
            only = [slugify(project) for project in projects] or None
            new = ledger.add_token(name, role, only)
            where = "all projects" if only is None else ", ".join(only)
            ledger.note(_user(), "token add", details=f"{name}: {role}, {where}")
            hint("The token is shown only now; set it as EPOCHAL_HUB_TOKEN on the machine:")
            if not said_json({"token": new, "name": name, "role": role}):
                say(new)


def _list_tokens(ledger: Ledger) -> None:
    cells = [
        (
            one.name,
            one.role,
            "all" if one.projects is None else ", ".join(sorted(one.projects)),
            format_moment(one.created),
            "revoked" if one.revoked else "",
        )
        for one in ledger.tokens()
    ]
    if not said_json(ledger.tokens()):
        say(table(("NAME", "ROLE", "PROJECTS", "CREATED", ""), cells))


@data_command
@options.runs
@options.where
@_hub_option
@click.option("--url", default="", help="Address of the hub, or of its page as you see it.")
@click.option("--days", type=click.FloatRange(0, 3650, min_open=True), default=30.0)
@click.option("--revoke-all", is_flag=True, help="End every link of this hub instead.")
def share(
    runs: tuple[str, ...], where: str | None, hub: str, url: str, days: float, revoke_all: bool
) -> None:
    """Make a link that shows runs of a hub to anybody who has it, for 30 days or --days.

    RUN may be a project. With the address of a page as --url, the link shows that view.
    """
    from epochal.hub.ledger import Links
    from epochal.hub.opening import open_hub

    with open_hub(hub) as (ledger, store):
        links = Links(ledger.documents)
        if revoke_all:
            links.revoke_all()
            ledger.note(_user(), "share --revoke-all")
            sentence = "Every link that was given out before is refused from now on."
            answer({"revoked": "all"}, sentence)
            return
        views = named_runs(store, runs) if runs else selected_runs(store, runs, where)
        ids = [view.id for view in views if runs or not view.outline().hidden]
        until = time.time() + days * _DAY_S
        link_token = links.make(ids, until=until)
        ledger.note(_user(), "share", details=f"until {format_moment(until)}: {', '.join(ids)}")
    try:
        page = urlsplit(url)
    except ValueError as error:
        raise UsageError(f"--url: {url!r} is no address: {error}.") from error
    address = f"{page.scheme}://{page.netloc}{page.path}" if page.netloc else ""
    # A browser keeps what comes after # when the hub takes the token out of the address.
    link = f"{address.rstrip('/')}/?token={link_token}{'#' * bool(page.fragment)}{page.fragment}"
    hint(f"Whoever has this link can see {plural(len(ids), 'run')} for {days:g} days:")
    if not said_json({"link": link, "runs": ids, "until": until}):
        say(link)


@data_command
@_hub_option
@click.option("-n", "--lines", default=100, help="How many lines (100).")
def audit(hub: str, lines: int) -> None:
    """Print who changed what on a hub, the newest first."""
    with _ledger(hub) as ledger:
        rows = ledger.audit(limit=lines)
    if not rows:
        answer([], f"Nobody has changed anything on the hub of {hub} yet.")
    elif not said_json(rows):
        header = ("time", "who", "what", "run", "details")
        cells = [
            (format_moment(row["t"]), *(row[name] or "" for name in header[1:])) for row in rows
        ]
        # In a pipe or a file nothing of the log is cut off.
        width = terminal_columns() if sys.stdout.isatty() else None
        say(table([name.upper() for name in header], cells, width=width, shrink=(2, 4)))


@data_command
@_hub_option
@click.option("--set", "path", type=_FILE, help="Have all hubs apply [retention] of this file.")
def retention(hub: str, path: Path | None) -> None:
    """Print the retention rules of a hub, and what they would move or erase now.

    Hubs that share a database apply the rules that --set stored there, for the first time an
    interval later (an hour, unless the rules say 'every'). Those of a hub over a folder stand in
    epochal.toml in that folder.
    """
    from epochal.hub.opening import open_beside
    from epochal.hub.retention import set_rules

    with open_beside(hub) as opened:
        if path is not None:
            if "://" not in hub:
                raise UsageError(f"the rules of this hub stand in {hub}/epochal.toml.")
            set_rules(opened.ledger, path, _user())
        rules = opened.retention.rules
        would = opened.retention.preview()
    data = {"rules": str(rules) if rules else None, "now": would}
    answer(data, f"{rules} They would move or erase now: {would}." if rules else _NO_RULES)


def _user() -> str:
    """Who changes a hub with a command, as its audit log names them."""
    from epochal.run.provenance import user_name

    return f"{user_name() or 'someone'} (command line)"
