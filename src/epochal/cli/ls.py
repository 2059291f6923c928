"""``epochal ls``: lists runs and their status."""

from __future__ import annotations

import argparse
import math
import re
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from epochal.cli.command import (
    add_hub_reading,
    add_json,
    follows_links,
    reading_store,
    rules_now,
    runs_dir,
    store_of,
)
from epochal.cli.output import Line, complain, remark, say, say_json, say_lines
from epochal.cli.table import GrowingTable, table, terminal_columns
from epochal.cli.words import most_severe_text, progress_text
from epochal.errors import UsageError
from epochal.format import UNKNOWN, format_number
from epochal.store.answers import LIVE_STATES
from epochal.store.local.store import LocalStore, open_store
from epochal.store.lookup import is_address
from epochal.store.projects import ProjectRow
from epochal.store.row import RunRow
from epochal.store.status import format_age

if TYPE_CHECKING:
    from epochal.store.store import RunView, Store

_WHOLE_S = 1.0
# The first few runs are read whole for longer, so that a list of few runs is complete.
_FEW = 10
_FEW_WHOLE_S = 5.0
# So many rows are printed first, and then twice as many each time, or those of some time.
_AT_ONCE = 100
_PATIENCE_S = 0.5
# In place of what was not read yet.
_PENDING = "…"
_FAILED = ("failed", "crashed")
_WORD = re.compile(r"[\w.+-]+")
# A run, and its last loss.
_Row = tuple[RunRow, float | None]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``ls``."""
    parser.add_argument(
        "query",
        metavar="QUERY|DIR",
        nargs="?",
        help="a project, a query such as 'config.lr < 3e-4', or another folder of runs,"
        " ours or another tracker's",
    )
    parser.add_argument("-a", "--all", action="store_true", help="also list hidden runs")
    parser.add_argument("-n", "--limit", type=int, metavar="N", help="at most N runs")
    parser.add_argument(
        "-s",
        "--sort",
        metavar="FIELDS",
        help="sort by fields: --sort=-summary.loss.last,name; rows then appear when all runs are"
        " read (default: newest first, as they are read)",
    )
    parser.add_argument(
        "--projects",
        action="store_true",
        help="list projects: runs, live and failed ones, findings, best value, last activity",
    )
    add_hub_reading(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """List runs, newest first by default."""
    folder, query = _meant(args)
    with _store(args, folder) as store:
        if args.projects:
            return _list_projects(args, store, _where(args, folder), query)
        rows = _rows(args, _listed(args, store, query))
        if args.json:
            say_json([{"info": info, "loss": loss} for info, loss in rows])
        elif not _print(rows):
            remark(_nothing(_where(args, folder), query, is_here=args.hub is None))
    return 0


def _list_projects(args: argparse.Namespace, store: Store, where: str, query: str | None) -> int:
    if query is not None or args.sort is not None:
        raise UsageError("--projects lists all projects: it takes no query and no --sort.")
    store.read_on(math.inf)
    rows = store.projects(budget_s=math.inf).projects[: args.limit]
    if args.json:
        say_json(rows)
        return 0
    if not rows:
        remark(_nothing(where, None, is_here=args.hub is None))
        return 0
    now = time.time()
    header = ("PROJECT", "RUNS", "LIVE", "FAILED", "FINDINGS", "BEST", "LAST ACTIVITY", "OWNERS")
    cells = [
        (
            row.name,
            f"{row.runs:,}",
            _count(row, LIVE_STATES),
            _count(row, _FAILED),
            f"{row.errors} error{_s(row.errors)}, {row.warnings} warning{_s(row.warnings)}",
            UNKNOWN
            if row.best is None
            else f"{format_number(row.best.value)} {row.best.role.replace('_', ' ')}",
            UNKNOWN if row.updated is None else f"{format_age(now - row.updated)} ago",
            ", ".join(row.owners) or UNKNOWN,
        )
        for row in rows
    ]
    say(table(header, cells, width=terminal_columns(), shrink=(7, 0), right=(1, 2, 3)))
    return 0


def _count(row: ProjectRow, states: Sequence[str]) -> str:
    return str(sum(count for state, count in row.states.items() if state in states))


def _listed(args: argparse.Namespace, store: Store, query: str | None) -> Iterable[RunView]:
    """The runs in their order; of a folder each as soon as it is known, unless they are sorted."""
    if isinstance(store, LocalStore) and not (args.sort or args.json):
        return store.newest_first(_query(query))
    if args.hub is None or query or args.sort or args.json:
        return store.runs(_query(query), order=args.sort)
    # What another machine has not read yet is listed in part, as here.
    return store.known_runs().runs


def _rows(args: argparse.Namespace, listed: Iterable[RunView]) -> Iterator[_Row]:
    begun, count = time.monotonic(), 0
    if args.limit is not None and args.limit <= 0:
        return
    for view in listed:
        # Of thousands of runs that nobody has listed before, some are read in part: of the first
        # few only those that are large, unless even the small ones take many seconds.
        took_s = time.monotonic() - begun
        is_few = count < _FEW and took_s < _FEW_WHOLE_S
        is_in_time = args.hub is None and (is_few or took_s < _WHOLE_S)
        info = view.info if args.json or is_in_time else view.outline()
        if not info.hidden or args.all:
            count += 1
            yield info, view.latest("loss")
            if count == args.limit:
                return


def _store(args: argparse.Namespace, folder: Path | None) -> AbstractContextManager[Store]:
    if folder is None:
        return reading_store(args)
    return open_store(folder, follow_links=follows_links(args), rules=rules_now())


def _where(args: argparse.Namespace, folder: Path | None) -> str:
    if args.hub is not None:
        return args.hub.partition("?")[0] or "the hub"  # without the token of a link
    return str(folder or runs_dir(args))


def _meant(args: argparse.Namespace) -> tuple[Path | None, str | None]:
    """The folder that the argument names, if it names one, and the query."""
    if is_address(args.query) and args.hub is None:
        args.hub, args.query = args.query, None
    if args.query is None or args.hub is not None:
        return None, args.query
    place = Path(args.query).expanduser()
    # A word alone may be a project as well, and then it is that.
    is_path = len(place.parts) > 1 or args.query in (".", "..")
    if not _exists(place) or (not is_path and _has_project(args)):
        return None, args.query
    return place, None


def _exists(place: Path) -> bool:
    try:
        return place.exists()
    except OSError:  # a query too long for a name
        return False


def _has_project(args: argparse.Namespace) -> bool:
    with store_of(args) as store:
        return any(view.outline().project == args.query for view in store.runs())


def _query(text: str | None) -> str | None:
    return f'project == "{text}"' if _is_project(text) else text


def _is_project(text: str | None) -> bool:
    """Whether a query is a word alone, and none that can only be a field."""
    if text is None or not _WORD.fullmatch(text):
        return False
    return not text.startswith(("config.", "summary.", "best."))


def _print(rows: Iterator[_Row]) -> bool:
    """Print a table, some rows at a time as they are known; False where there are none."""
    now = time.time()
    printed: list[RunRow] = []
    owners: set[str | None] = set()
    layout: _Layout | None = None
    at_once = _AT_ONCE
    while some := _next_rows(rows, at_once):
        owners |= {info.owner for info, _ in some}
        has_groups = any(info.group for info, _ in some)
        if layout is None or not layout.suits(has_groups=has_groups, owners=owners):
            # Columns that say something: a group where there is one, owners where there are
            # several. Rows that need one more have their own header.
            had_groups = layout is not None and layout.has_groups
            layout = _Layout(has_groups=has_groups or had_groups, has_owners=len(owners) > 1)
        say_lines(layout.lines(some, now))
        sys.stdout.flush()
        printed += [info for info, _ in some]
        at_once *= 2
    num_partial = sum(info.is_partial for info in printed)
    if num_partial:
        remark(
            f"{num_partial:,} runs were read in part ({_PENDING}): the next 'epochal ls' reads on,"
            " and 'epochal serve' reads all."
        )
    for info in printed:
        if info.problem:
            complain(f"{info.project}/{info.name}: {info.problem}")
    return bool(printed)


def _next_rows(rows: Iterator[_Row], at_once: int) -> list[_Row]:
    """So many rows, or those that are known after a moment; none where there are no more."""
    until = time.monotonic() + _PATIENCE_S
    some: list[_Row] = []
    for row in rows:
        some.append(row)
        if len(some) == at_once or (time.monotonic() > until and len(some) >= _AT_ONCE):
            break
    return some


class _Layout:
    """The columns of the table, and how wide the first rows made them."""

    def __init__(self, *, has_groups: bool, has_owners: bool) -> None:
        self.has_groups = has_groups
        self._has_owners = has_owners
        more = [*(["GROUP"] if has_groups else []), *(["OWNER"] if has_owners else [])]
        header = ("NAME", "PROJECT", *more, "STATUS", "STEP", "LOSS", "FINDINGS", "AGE")
        right = [len(more) + place for place in (3, 4, 6)]
        shrink = range(2 + len(more))
        self._grown = GrowingTable(header, width=terminal_columns(), shrink=shrink, right=right)
        self._has_header = False

    def suits(self, *, has_groups: bool, owners: Collection[str | None]) -> bool:
        """Whether the columns hold all that rows have to say."""
        return has_groups <= self.has_groups and (len(owners) > 1) <= self._has_owners

    def lines(self, rows: Sequence[_Row], now: float) -> Iterator[Line]:
        """The lines of some rows; the header first."""
        lines = self._grown.lines([self._cells(info, loss, now) for info, loss in rows])
        if not self._has_header:
            self._has_header = True
            yield [(lines.pop(0), "")]
        for line, (info, _) in zip(lines, rows, strict=True):
            yield _marked(line, info)

    def _cells(self, info: RunRow, loss: float | None, now: float) -> tuple[str, ...]:
        return (
            info.name,
            info.project,
            *((info.group or UNKNOWN,) if self.has_groups else ()),
            *((info.owner or UNKNOWN,) if self._has_owners else ()),
            info.status.text,
            progress_text(info) or UNKNOWN,
            UNKNOWN if loss is None else format_number(loss),
            _findings_text(info),
            UNKNOWN if info.created is None else format_age(now - info.created),
        )


def _findings_text(info: RunRow) -> str:
    return _PENDING if info.is_partial else most_severe_text(info) or UNKNOWN


def _marked(line: str, info: RunRow) -> Line:
    """A line of the table; open errors are red, open warnings yellow."""
    style = "bad" if info.open_errors else "warn" if info.open_warnings else ""
    before, found, after = line.rpartition(_findings_text(info))
    return [(before, ""), (found, style), (after, "")]


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


def _s(count: int) -> str:
    return "" if count == 1 else "s"
