"""``epochal ls``: lists runs, with any of their fields as columns."""

from __future__ import annotations

import itertools
import math
import re
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from epochal.cli.command import (
    cli_command,
    comma_list,
    csv_option,
    hub_option,
    json_option,
    local_store,
    reading_store,
    rules_now,
    runs_dir,
    shared,
)
from epochal.cli.figures import format_figure
from epochal.cli.output import complain, hint, remark, say, say_csv, say_json, say_lines
from epochal.cli.table import table, terminal_columns
from epochal.cli.words import most_severe_text, progress_text
from epochal.errors import UsageError
from epochal.format import UNKNOWN, format_number, plural
from epochal.query import Field
from epochal.store.answers import LIVE_STATES
from epochal.store.columns import Column, RunTable, parse_columns, run_table
from epochal.store.local.store import open_store
from epochal.store.lookup import is_address
from epochal.store.projects import ProjectRow
from epochal.store.row import RunRow
from epochal.store.selection import FIELDS, fields_in
from epochal.store.status import format_age

if TYPE_CHECKING:
    from epochal.store.store import Store

# So long a first list of thousands of runs reads them; the next one goes on.
_PATIENCE_S = 2.0
# In place of what was not read yet.
_PENDING = "…"
_FAILED = ("failed", "crashed")
_WORD = re.compile(r"[\w.+-]+")
_FOR_PROGRAMS = "status step loss errors warnings created tags notes".split()
# The columns of a table around those that a query or an order names.
_BEFORE, _AFTER = "project group owner status step loss".split(), ["findings", "age"]
# Fields that these columns say in other words.
_SAID = frozenset("name text created errors warnings open_errors open_warnings".split())
_NEVER_CUT = frozenset("status step loss findings age".split())


@cli_command
@click.argument("query", metavar="[QUERY|PROJECT|DIR]", required=False)
@click.option(
    "-c",
    "--columns",
    metavar="FIELDS",
    help="Columns, with commas between: loss,best.val/acc,config.lr,tags,notes.",
)
@click.option(
    "-s",
    "--sort",
    metavar="FIELDS",
    help="Sort by fields; - before one reverses it: -val/acc,name.",
)
@click.option(
    "-n", "--limit", type=click.IntRange(min=0), metavar="N", help="At most so many runs."
)
@click.option("-a", "--all", "with_hidden", is_flag=True, help="Also list hidden runs.")
@click.option("--projects", is_flag=True, help="List projects instead of runs.")
@hub_option
@csv_option
@json_option
def command(
    query: str | None,
    columns: str | None,
    sort: str | None,
    limit: int | None,
    with_hidden: bool,
    projects: bool,
    hub: str | None,
    as_csv: bool,
    as_json: bool,
) -> None:
    """List runs, the newest first.

    Name a project, another folder of runs (also of another tracker), or a query. A field is a
    metric (its last value), best.METRIC, config.KEY, or one of name, project, status, step, epoch,
    group, owner, tags, notes, created, errors and warnings. Fields that you sort or filter by are
    shown; * marks the best value of a metric.

    \b
    epochal ls 'val/acc > 0.9 and config.lr < 3e-4' --sort=-val/acc
    epochal ls 'tags == "baseline"' --columns loss,best.val/acc,notes
    epochal ls my-project --columns score,notes --sort=-score
    """
    if is_address(query) and hub is None:
        query, hub = None, query
    folder = None if query is None or hub is not None else _folder(query)
    selection = None if folder is not None else query
    if _is_project(selection):
        selection = f'project == "{selection}"'
    # The token of a link is not printed.
    where = (hub.partition("?")[0] or "the hub") if hub is not None else str(folder or runs_dir())
    with _store(folder, hub) as store:
        if projects:
            if query != (folder and str(query)) or sort is not None:
                raise UsageError("--projects lists all projects: it takes no query and no --sort.")
            rows = _projects(store, limit)
            if as_json:
                say_json(rows)
            elif rows:
                _print_projects(rows)
            else:
                remark(_nothing(where, None, is_here=hub is None))
            return
        is_plain = selection is None and sort is None and not (as_json or as_csv)
        known = store.known_runs(budget_s=_PATIENCE_S) if is_plain else None
        views = store.runs(selection, order=sort) if known is None else known.runs
        shown = (view for view in views if with_hidden or not view.outline().hidden)
        fields = _fields(comma_list(columns), selection, sort, for_programs=as_json or as_csv)
        until = time.monotonic() + _PATIENCE_S if is_plain else math.inf
        found = run_table(list(itertools.islice(shown, limit)), fields, until=until)
    is_partial = known is not None and known.pending and limit is None
    if is_partial or any(row.is_partial for row in found.runs):
        hint("Some runs are not read yet. 'epochal ls' reads on; 'epochal serve' reads all.")
    for column in found.columns:
        if column.hint is not None:
            hint(column.hint)
    if as_json:
        say_json(found.records())
    elif as_csv:
        say_csv(found.records())
    elif found.runs:
        _print(found, is_chosen=columns is not None)
    else:
        remark(_nothing(where, query if folder is None else None, is_here=hub is None))


def _fields(
    chosen: Sequence[str] | None, query: str | None, sort: str | None, *, for_programs: bool
) -> list[Field]:
    """The columns: those that were chosen, else the usual ones with what a query or order names."""
    if chosen is not None:
        return parse_columns(chosen if for_programs else ["project", "status", *chosen, "age"])
    usual = parse_columns([*_FOR_PROGRAMS] if for_programs else [*_BEFORE, *_AFTER])
    said = {*_SAID, *map(str, usual)}
    extra = [field for field in fields_in(query, sort) if str(field) not in said]
    return [*usual, *extra] if for_programs else [*usual[:-2], *extra, *usual[-2:]]


def _store(folder: Path | None, hub: str | None) -> AbstractContextManager[Store]:
    if folder is None:
        return reading_store(hub)
    return open_store(folder, follow_links=shared().follow_links, rules=rules_now())


def _folder(query: str) -> Path | None:
    """The folder that an argument names, if it names one; a word alone is a project first."""
    place = Path(query).expanduser()
    try:
        if not place.exists():
            return None
    except OSError:  # a query too long for a name
        return None
    if len(place.parts) > 1 or query in (".", ".."):
        return place
    with local_store() as store:
        return None if query in store.known_runs().projects else place


def _is_project(text: str | None) -> bool:
    """Whether a query is a word alone, and none that can only be a field."""
    if text is None or not _WORD.fullmatch(text):
        return False
    return not text.startswith(("config.", "summary.", "best."))


def _print(found: RunTable, *, is_chosen: bool) -> None:
    """Print a table without the columns that say nothing of these runs."""
    rows = found.runs
    is_one_project = len({row.project for row in rows}) == 1
    left_out = {
        "project": is_chosen and is_one_project,
        "group": not any(row.group for row in rows),
        "owner": len({row.owner for row in rows}) == 1,
        "status": is_chosen and all(row.status.state == "finished" for row in rows),
    }
    columns = [one for one in found.columns if not left_out.get(one.name)]
    titles = ["NAME", *(_title(one.name) for one in columns)]
    cells = [_cells(one, rows, marks=is_one_project) for one in columns]
    right = [at for at, one in enumerate(columns, 1) if _is_number(one)]
    shrink = [at for at, one in enumerate(columns, 1) if one.name not in _NEVER_CUT]
    text = table(
        titles,
        list(zip([row.name for row in rows], *cells, strict=True)),
        width=terminal_columns(),
        shrink=[0, *(at for at in shrink if at not in right)],
        right=right,
    )
    header, *lines = text.split("\n")
    say(header)
    say_lines(map(_marked, lines, rows))
    for row in rows:
        if row.problem:
            complain(f"{row.project}/{row.name}: {row.problem}")


def _title(name: str) -> str:
    return name.upper() if name == "loss" or name in FIELDS else name


def _is_number(column: Column) -> bool:
    if column.name in ("step", "age", "loss"):
        return True
    known = [value for value in column.values if value is not None]
    return bool(known) and all(isinstance(value, (int, float)) for value in known)


def _cells(column: Column, rows: Sequence[RunRow], *, marks: bool) -> list[str]:
    best = column.best if marks else None
    return [
        f"{'* ' if at == best else ''}{_cell(column, value, row)}"
        for at, (value, row) in enumerate(zip(column.values, rows, strict=True))
    ]


def _cell(column: Column, value: Any, row: RunRow) -> str:
    if column.name == "status":
        return row.status.text
    if column.name == "step":
        return progress_text(row) or UNKNOWN
    if column.name == "findings":
        return _findings(row)
    if value is None or value in ("", []):
        return _PENDING if row.is_partial and value is None else UNKNOWN
    if column.name == "age":
        return format_age(value)
    if column.is_metric and isinstance(value, float):
        return format_figure(column.name, value)
    return ", ".join(map(str, value)) if isinstance(value, list) else " ".join(str(value).split())


def _findings(row: RunRow) -> str:
    return _PENDING if row.is_partial else most_severe_text(row) or UNKNOWN


def _marked(line: str, row: RunRow) -> list[tuple[str, str]]:
    """A line of the table; open errors are red, open warnings yellow."""
    style = "bad" if row.open_errors else "warn" if row.open_warnings else ""
    before, found, after = line.rpartition(most_severe_text(row) or UNKNOWN)
    return [(before, ""), (found, style), (after, "")]


def _projects(store: Store, limit: int | None) -> Sequence[ProjectRow]:
    store.read_on(math.inf)
    return store.projects(budget_s=math.inf).projects[:limit]


def _print_projects(rows: Sequence[ProjectRow]) -> None:
    now = time.time()
    header = ("PROJECT", "RUNS", "LIVE", "FAILED", "FINDINGS", "BEST", "LAST ACTIVITY", "OWNERS")
    cells = [
        (
            row.name,
            f"{row.runs:,}",
            *(str(sum(row.states.get(one, 0) for one in some)) for some in (LIVE_STATES, _FAILED)),
            f"{plural(row.errors, 'error')}, {plural(row.warnings, 'warning')}",
            UNKNOWN
            if row.best is None
            else f"{format_number(row.best.value)} {row.best.role.replace('_', ' ')}",
            UNKNOWN if row.updated is None else f"{format_age(now - row.updated)} ago",
            ", ".join(row.owners) or UNKNOWN,
        )
        for row in rows
    ]
    say(table(header, cells, width=terminal_columns(), shrink=(7, 0), right=(1, 2, 3)))


def _nothing(where: str, query: str | None, *, is_here: bool) -> str:
    if _is_project(query):
        return f"No run of project {query!r} in {where}."
    if query is not None:
        return f"No run in {where} matches {query!r}."
    if not is_here:
        return f"No runs in {where} yet, or none that you may see."
    return (
        f"No runs in {where} yet. 'epochal demo' records one; in a training, epochal.init() does."
        " Another folder is named with --dir."
    )
