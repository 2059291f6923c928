"""What a hub keeps: ``epochal hub token``, ``hub share``, ``hub audit`` and ``hub migrate``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from epochal.cli import options
from epochal.cli.command import (
    ERROR,
    check_own,
    cli_command,
    data_command,
    local_store,
    named_runs,
    rules_now,
    selected_runs,
)
from epochal.cli.output import answer, hint, remark, said_json, say, table, terminal_columns
from epochal.errors import UsageError
from epochal.format import plural
from epochal.store.words import format_moment

if TYPE_CHECKING:
    from epochal.hub.ledger import Ledger
    from epochal.server.access import Role
    from epochal.store.clickhouse.tables import Database
    from epochal.store.local.store import LocalStore

ROLES = click.Choice(("read", "write", "admin"))  # each includes the ones before it
_DAY_S = 86_400.0


class _Place(click.Path):
    """The folder of a hub, or the address of the store that several hubs share."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from epochal.store.clickhouse.connection import is_address

        return value if is_address(str(value)) else super().convert(value, param, ctx)


_HUB = _Place(exists=True, file_okay=False, path_type=Path)
_hub_option = click.option(
    "--hub", type=_HUB, required=True, metavar="DIR", help="The hub's folder or store address."
)


@contextmanager
def open_database(address: str) -> Iterator[Database]:
    """The database that hubs share."""
    from epochal.store.clickhouse.tables import Database

    with closing(Database(address)) as database:
        yield database


@contextmanager
def _ledger(hub: Path | str) -> Iterator[Ledger]:
    from epochal.hub.ledger import Ledger

    if isinstance(hub, Path):
        with closing(Ledger(hub)) as ledger:
            yield ledger
    else:
        with open_database(hub) as database, closing(Ledger(database.documents)) as ledger:
            yield ledger


@contextmanager
def _store(hub: Path | str) -> Iterator[LocalStore]:
    from epochal.store.clickhouse.store import ClickHouseStore

    if isinstance(hub, Path):
        yield local_store(hub)
    else:
        with open_database(hub) as database:
            yield ClickHouseStore(database, rules=rules_now())


@data_command
@click.argument("action", type=click.Choice(("add", "list", "revoke")))
@click.argument("name", required=False)
@_hub_option
@click.option("--role", type=ROLES, default="write", help="What the token may do (write).")
@click.option("--project", "projects", multiple=True, help="Only for this project.")
def token(
    action: str, name: str | None, hub: Path | str, role: Role, projects: tuple[str, ...]
) -> None:
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
    runs: tuple[str, ...],
    where: str | None,
    hub: Path | str,
    url: str,
    days: float,
    revoke_all: bool,
) -> None:
    """Make a link that shows runs of a hub to anybody who has it, for 30 days or --days.

    RUN may be a project. With the address of a page as --url, the link shows that view.
    """
    from epochal.hub.links import Links

    with _ledger(hub) as ledger, _store(hub) as store:
        links = Links(ledger.documents)
        if revoke_all:
            links.revoke_all()
            ledger.note(_user(), "share --revoke-all")
            sentence = "Every link that was given out before is refused from now on."
            answer({"revoked": "all"}, sentence)
            return
        views = named_runs(store, runs) if runs else selected_runs(store, runs, where)
        ids = {view.id: check_own(view) for view in views if runs or not view.outline().hidden}
        until = time.time() + days * _DAY_S
        link_token = links.make(list(ids), until=until)
        ledger.note(_user(), "share", details=f"until {format_moment(until)}: {', '.join(ids)}")
    try:
        page = urlsplit(url)
    except ValueError as error:
        raise UsageError(f"--url: {url!r} is no address: {error}.") from error
    address = f"{page.scheme}://{page.netloc}{page.path}" if page.netloc else ""
    # A browser keeps what comes after # when the hub takes the token out of the address.
    link = f"{address.rstrip('/')}/?token={link_token}{'#' * bool(page.fragment)}{page.fragment}"
    hint(f"Whoever has this link can see {plural(len(ids), 'run')} for {days:g} days:")
    if not said_json({"link": link, "runs": list(ids), "until": until}):
        say(link)


@data_command
@_hub_option
@click.option("-n", "--lines", default=100, help="How many lines (100).")
def audit(hub: Path | str, lines: int) -> None:
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


@cli_command
@click.argument("source", metavar="FROM", type=_HUB)
@click.argument("target", metavar="TO", type=_Place(file_okay=False, path_type=Path))
def migrate(source: Path | str, target: Path | str) -> int:
    """Copy a hub from a folder to a store address, or from there to a folder.

    Runs, boards, tokens and the audit log are copied; what TO has already is not sent again. Stop
    the hubs first. Deleted runs are left out. The exit code is 2 if a run could not be copied.
    """
    from epochal.hub.ledger import only_hub
    from epochal.hub.migration import copy_hub

    is_out = isinstance(target, Path)
    folder, address = (target, source) if is_out else (source, target)
    if not isinstance(folder, Path) or not isinstance(address, str):
        raise UsageError("one of FROM and TO is a folder, the other the address of a store.")
    with only_hub(folder), _ledger(folder) as ledger, open_database(address) as database:
        num_failed = copy_hub(folder, ledger.documents, database, is_out=is_out, tell=remark)
    if num_failed:
        say(f"{plural(num_failed, 'run')} could not be copied; repeat the command to try again.")
        return ERROR
    say("Everything is copied.")
    return 0


def _user() -> str:
    """Who changes a hub with a command, as its audit log names them."""
    from epochal.provenance import user_name

    return f"{user_name() or 'someone'} (command line)"
