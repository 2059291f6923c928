"""``epochal ls``: lists runs, with any of their fields as columns."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import click

from epochal.cli import options, output
from epochal.cli.command import data_command, local_store, reading_store, runs_dir, shared
from epochal.journal.row import RunRow
from epochal.query.filter import Field
from epochal.records.format import UNKNOWN
from epochal.series.importance import Importance
from epochal.store.columns import RunTable, parse_columns, run_table
from epochal.store.lookup import is_address
from epochal.store.opening import is_bucket
from epochal.store.run import RunView
from epochal.store.selection import FIELDS, fields_in
from epochal.store.words import STATE_STYLES, state_text

# A word alone is a project, unless it can only be a field.
_PROJECT = re.compile(r"(?!(?:config|summary|best)\.)[\w.+-]+")
_FAILED = ("failed", "crashed")
_FOR_PROGRAMS = "status step loss diagnosis errors warnings created tags notes".split()
# The columns of a table around those that a query or an order names.
_BEFORE, _AFTER = "project group owner status step loss".split(), ["diagnosis", "age"]
# Fields that these columns say in other words.
_SAID = frozenset("name text created errors warnings open_errors open_warnings".split())
_NEVER_CUT = frozenset("status step loss diagnosis age".split())
# Metrics with a declared goal are columns as well: so many, in lists of so many runs, where one of
# the newest has them.
_MOST_GOALS, _MOST_WITH_GOALS, _NEWEST = 2, 200, 10
_CAPITALS = frozenset(("loss", *FIELDS))


@data_command
@click.argument("query", metavar="[QUERY|PROJECT|DIR]", required=False)
@click.option("-c", "--columns", metavar="FIELDS", help="Columns: loss,best.acc,config.lr,notes.")
@click.option("-s", "--sort", metavar="FIELDS", help="Sort by fields; - descends: -val/acc,name.")
@click.option("-n", "--limit", type=click.IntRange(0), metavar="N", help="List at most N runs.")
@click.option("-a", "--all", "with_hidden", is_flag=True, help="Also list hidden runs.")
@options.csv
@options.hub
def command(
    query: str | None, columns: str | None, sort: str | None, limit: int | None, with_hidden: bool
) -> None:
    """List runs, the newest first.

    Name a project, another folder of runs (also of another tracker), or a query. A field is a
    metric (its last value), best.METRIC, config.KEY, or one of name, project, status, step, epoch,
    group, owner, tags, notes, created, diagnosis, errors and warnings. Fields that you sort or
    filter by, and metrics with a declared goal, are shown; * marks the best value of a metric.

    \b
    epochal ls 'val/acc > 0.9 and config.lr < 3e-4' --sort=-val/acc
    epochal ls 'tags == "baseline"' --columns loss,best.val/acc,notes
    epochal ls my-project --columns score,notes --sort=-score
    """
    hub = shared().hub
    if is_address(query) and hub is None:
        query, hub = None, query
    folder = None if query is None or hub is not None else _folder(query)
    query = None if folder is not None else query
    is_project = query is not None and _PROJECT.fullmatch(query) is not None
    selection = f'project == "{query}"' if is_project else query
    # The token of a link is not printed.
    path = folder or shared().dir or runs_dir()
    where = str(path) if hub is None else hub.partition("?")[0] or "the hub"
    nothing = _nothing(where, query, is_project=is_project, is_here=hub is None)
    with reading_store(hub, folder) as store:
        for_programs = output.form() != "text"
        is_plain = selection is None and sort is None and not for_programs
        known = store.known_runs() if is_plain else None
        views = store.runs(selection, order=sort) if known is None else known.runs
        shown = (view for view in views if with_hidden or not view.outline().hidden)
        chosen = options.comma_list(columns)
        fields = _fields(chosen, selection, sort, for_programs=for_programs)
        listed = list(itertools.islice(shown, limit))
        if chosen is None and not for_programs and hub is None:
            fields = _with_goals(fields, listed, whole=known is None)
        found = run_table(listed, fields, whole=known is None)
    in_bucket = is_bucket(path if hub is None else hub)
    if num_left := sum(not row.is_summarised for row in found.runs):
        are = "1 run is" if num_left == 1 else f"{num_left:,} runs are"
        is_local = hub is None and not in_bucket
        how = ": 'epochal manage pack --all' does that" if is_local else ""
        output.hint(f"{are} not summarised yet{how}.")
    if in_bucket:
        output.hint("A bucket has what its hub has sealed; the hub itself has newer records.")
    for text in (column.hint for column in found.columns if column.hint is not None):
        output.hint(text)
    if for_programs:
        output.say_rows(found.records())
    elif found.runs:
        _print(found, chosen)
    else:
        output.remark(nothing)


def _fields(
    chosen: Sequence[str] | None, query: str | None, sort: str | None, *, for_programs: bool
) -> list[Field]:
    """The columns: those that were chosen, else the usual ones with what a query or order names."""
    if chosen is not None:
        return parse_columns(chosen if for_programs else ["project", "status", *chosen, "age"])
    usual = parse_columns(_FOR_PROGRAMS if for_programs else [*_BEFORE, *_AFTER])
    said = {*_SAID, *map(str, usual)}
    extra = [field for field in fields_in(query, sort) if str(field) not in said]
    return [*usual, *extra] if for_programs else [*usual[:-2], *extra, *usual[-2:]]


def _with_goals(fields: list[Field], views: Sequence[RunView], *, whole: bool) -> list[Field]:
    """The columns, and those metrics of the newest runs whose goals the program declared."""
    few = views if len(views) <= _MOST_WITH_GOALS else ()
    rows = (view.info if whole else view.outline() for view in few)
    for row in itertools.islice((row for row in rows if row.is_summarised), _NEWEST):
        goals = [
            one.name
            for one in row.headline
            if one.importance == Importance.GOAL and one.role != "loss"
        ]
        if goals:
            extra = [field for field in parse_columns(goals[:_MOST_GOALS]) if field not in fields]
            return [*fields[:-2], *extra, *fields[-2:]]
    return fields


def _folder(query: str) -> Path | None:
    """The folder that an argument names, if it names one; a word alone is a project first."""
    place = Path(query).expanduser()
    with contextlib.suppress(OSError):  # a query too long for a name
        if place.exists():
            if len(place.parts) > 1 or query in (".", ".."):
                return place
            with local_store() as store:
                return None if query in store.known_runs().projects else place
    return None


def _print(found: RunTable, chosen: Sequence[str] | None) -> None:
    """Print a table without the columns that say nothing of these runs."""
    rows = found.runs
    is_one_project = len({row.project for row in rows}) == 1
    left_out = {
        "project": chosen is not None and is_one_project,
        "status": chosen is not None and all(row.status.state == "finished" for row in rows),
        "group": not any(row.group for row in rows),
        "owner": len({row.owner for row in rows}) == 1,
    }
    kept = {name for name, is_left_out in left_out.items() if not is_left_out} | {*(chosen or ())}
    columns = [one for one in found.columns if one.name in kept or one.name not in left_out]
    right = [at for at, one in enumerate(columns, 1) if one.is_number]
    shrink = [at for at, one in enumerate(columns, 1) if one.name not in _NEVER_CUT]
    text = output.table(
        ["NAME", *(one.name.upper() if one.name in _CAPITALS else one.name for one in columns)],
        [
            (row.name, *(one.text(at, row, marks=is_one_project) for one in columns))
            for at, row in enumerate(rows)
        ],
        width=output.terminal_columns(),
        shrink=[0, *(at for at in shrink if at not in right)],
        right=right,
    )
    header, *lines = text.split("\n")
    output.say(header)
    output.say_lines(map(_marked, lines, rows))
    names: dict[str, list[str]] = {}
    for row in rows:
        if row.problem:
            names.setdefault(row.problem, []).append(f"{row.project}/{row.name}")
    for problem, (first, *more) in names.items():
        others = f" and {len(more)} more" if more else ""
        output.complain(f"{first}{others}: {problem}")


def _marked(line: str, row: RunRow) -> list[tuple[str, str]]:
    """A line of the table; what is broken is red, what is suspicious yellow."""
    style = STATE_STYLES[row.diagnosis.state]
    before, found, after = line.rpartition(state_text(row) or UNKNOWN)
    return [(before, ""), (found, style), (after, "")]


def _nothing(where: str, query: str | None, *, is_project: bool, is_here: bool) -> str:
    if query is not None:
        what = f"of project {query!r} in {where}" if is_project else f"in {where} matches {query!r}"
        return f"No run {what}."
    if not is_here:
        return f"No runs in {where} yet, or none that you may see."
    return (
        f"No runs in {where} yet. 'epochal demo' records one; in a training, epochal.init() does."
        " Another folder is named with --dir."
    )
