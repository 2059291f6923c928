"""Who may see and change the runs of a hub: ``epochal hub token``, ``hub share``, ``hub audit``."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from epochal.cli.command import RUN, check_own, cli_command, json_option, local_store, named_runs
from epochal.cli.output import hint, remark, say, say_json
from epochal.cli.table import table, terminal_columns
from epochal.errors import UsageError
from epochal.format import plural

_DAY_S = 86_400.0


_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_hub_option: Callable[[Any], Any] = click.option(
    "--hub", type=_FOLDER, required=True, metavar="DIR", help="The folder of the hub."
)


@cli_command
@click.argument("action", type=click.Choice(("add", "list", "revoke")))
@click.argument("name", required=False)
@_hub_option
@click.option(
    "--role",
    type=click.Choice(("read", "write", "admin")),
    default="write",
    help="What the token may do (default: write); each role includes the ones before it.",
)
@click.option(
    "--project",
    "projects",
    metavar="NAME",
    multiple=True,
    help="Only for this project; may be given several times (default: every project).",
)
@json_option
def token(
    action: str, name: str | None, hub: Path, role: str, projects: tuple[str, ...], as_json: bool
) -> None:
    """Make, list and revoke the tokens of a hub. A new token is printed once."""
    from epochal.hub.ledger import Ledger
    from epochal.journal.layout import slugify

    with closing(Ledger(hub)) as ledger:
        if action == "list":
            _list(ledger.tokens(), as_json=as_json)
            return
        if name is None:
            raise UsageError(f"'token {action}' needs a NAME.")
        if action == "revoke":
            ledger.revoke_token(name)
            ledger.note(_user(), "token revoke", details=name)
            remark(f"The token {name!r} is refused from now on.")
            return
        only = [slugify(project) for project in projects] or None
        new = ledger.add_token(name, role, only)
        where = "all projects" if only is None else ", ".join(only)
        ledger.note(_user(), "token add", details=f"{name}: {role}, {where}")
    if as_json:
        say_json({"name": name, "role": role, "projects": only, "token": new})
    else:
        hint("The token is shown only now; set it as EPOCHAL_HUB_TOKEN on the machine:")
        say(new)


def _list(tokens: Any, *, as_json: bool) -> None:
    if as_json:
        names = ("name", "role", "projects", "created", "revoked")
        rows = [{name: getattr(one, name) for name in names} for one in tokens]
        say_json([{**row, "projects": row["projects"] and sorted(row["projects"])} for row in rows])
        return
    cells = [
        (
            one.name,
            one.role,
            "all" if one.projects is None else ", ".join(sorted(one.projects)),
            _clock(one.created),
            "revoked" if one.revoked else "",
        )
        for one in tokens
    ]
    say(table(("NAME", "ROLE", "PROJECTS", "CREATED", ""), cells))


@cli_command
@click.argument("runs", metavar="[RUN]...", nargs=-1, type=RUN)
@click.option("--query", help="Also all runs that a query finds now, such as 'group == \"sweep\"'.")
@_hub_option
@click.option("--url", default="", help="The hub's address, to print a full link.")
@click.option(
    "--view", metavar="URL", default="", help="Address of the page whose view the link shows."
)
@click.option(
    "--days",
    type=click.FloatRange(0, 3650, min_open=True),
    default=30.0,
    help="How long the link works (default: 30).",
)
@click.option("--revoke-all", is_flag=True, help="End every link of this hub instead.")
@json_option
def share(
    runs: tuple[str, ...],
    query: str | None,
    hub: Path,
    url: str,
    view: str,
    days: float,
    revoke_all: bool,
    as_json: bool,
) -> None:
    """Make a link that shows runs of a hub to anybody who has it. RUN may be a project."""
    from epochal.hub.ledger import Ledger
    from epochal.hub.links import Links

    links = Links(hub)
    with closing(Ledger(hub)) as ledger:
        if revoke_all:
            links.revoke_all()
            ledger.note(_user(), "share --revoke-all")
            remark("Every link that was given out before is refused from now on.")
            return
        if not runs and query is None:
            raise UsageError("name at least one RUN, or --query.")
        with local_store(hub) as store:
            views = named_runs(store, runs)
            if query is not None:
                views += [run for run in store.runs(query) if not run.outline().hidden]
            ids = {run.id: check_own(run) for run in views}
        if not ids:
            raise UsageError(f"--query: no run of the hub fits {query!r}.")
        until = time.time() + days * _DAY_S
        link_token = links.make(list(ids), until=until)
        ledger.note(_user(), "share", details=f"until {_clock(until)}: {', '.join(ids)}")
    try:
        shown = urlsplit(view)
    except ValueError as error:
        raise UsageError(f"--view: {view!r} is no address: {error}.") from error
    address = url or f"{shown.scheme}://{shown.netloc}{shown.path}" * bool(shown.netloc)
    # A browser keeps what comes after # when the hub takes the token out of the address.
    fragment = f"#{shown.fragment}" if shown.fragment else ""
    link = f"{address.rstrip('/')}/?token={link_token}{fragment}"
    if as_json:
        say_json({"link": link, "runs": list(ids), "until": until})
    else:
        hint(f"Whoever has this link can see {plural(len(ids), 'run')} for {days:g} days:")
        say(link)


@cli_command
@_hub_option
@click.option("-n", "--lines", default=100, help="How many lines (default: 100).")
@json_option
def audit(hub: Path, lines: int, as_json: bool) -> None:
    """Print who changed what on a hub, the newest first."""
    from epochal.hub.ledger import Ledger

    with closing(Ledger(hub)) as ledger:
        rows = ledger.audit(limit=lines)
    if as_json:
        say_json(rows)
    elif not rows:
        remark(f"Nobody has changed anything on the hub of {hub} yet.")
    else:
        cells = [
            (_clock(row["t"]), row["who"], row["what"], row["run"] or "", row["details"])
            for row in rows
        ]
        # In a pipe or a file nothing of the log is cut off.
        width = terminal_columns() if sys.stdout.isatty() else None
        say(table(("TIME", "WHO", "WHAT", "RUN", "DETAILS"), cells, width=width, shrink=(2, 4)))


def _clock(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _user() -> str:
    """Who changes a hub with a command, as its audit log names them."""
    from epochal.run.provenance import user_name

    return f"{user_name() or 'someone'} (command line)"
