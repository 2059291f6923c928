"""The store over run folders, and other trackers' files, on this machine's file systems."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from operator import attrgetter, methodcaller
from pathlib import Path

from epochal.errors import RunNotFoundError, UsageError
from epochal.health.rule_settings import RuleSettings
from epochal.imports.converting import Conversions, ConvertedRun
from epochal.journal.layout import is_run_folder
from epochal.journal.search_bounds import SearchBounds
from epochal.settings import cache_folder
from epochal.store.answers import TrashedRun
from epochal.store.local.cache import CachedSegments, MemoryBudget
from epochal.store.local.folder import FolderSource
from epochal.store.local.index import Index
from epochal.store.local.indexed import IndexedFolders, IndexWriter
from epochal.store.local.known import (
    KnownList,
    Unread,
    by_creation,
    judging,
    read_row,
    without_collections,
)
from epochal.store.local.listing import Aside, asides_of, orphans_below, survey
from epochal.store.local.load import check_place, load_converted, load_run
from epochal.store.local.row import changed_at
from epochal.store.local.run import LocalRun
from epochal.store.local.trash import FolderTrash, move_to_trash
from epochal.store.lookup import choose
from epochal.store.projects import ProjectList
from epochal.store.selection import parse_groups, parse_order, parse_query
from epochal.store.store import KnownRuns, RunView

# Rows that were not settled are tried again so often.
_REWRITE_S = 10.0
_NEWEST_FIRST = "-created"
# So few runs have their ids read in a moment.
_MANY = 100
_created, _place, _turn = attrgetter("created"), attrgetter("place"), methodcaller("turn")
_SMALL_BYTES = 4 * 1024 * 1024


class LocalStore:
    """Every run below some folders; see ``epochal.store.store`` for what may be asked.

    With a ``cache`` folder, rows of runs are remembered there between processes, and copies of
    large unsealed parts are used from there; ``build`` has missing copies made, which is for
    servers. Without one, everything is worked out anew. A root may be a file of another tracker.
    Links below a root that lead out of all roots are followed with ``follow_links`` only.
    ``rules`` are for runs that were recorded without settings of rules.
    """

    def __init__(
        self,
        *roots: str | Path,
        cache: Path | None = None,
        build: bool = False,
        follow_links: bool = False,
        rules: RuleSettings | None = None,
    ) -> None:
        self._roots = [Path(root).expanduser().absolute() for root in roots]
        self._bounds = SearchBounds(*self._roots, follow_links=follow_links)
        self._cache = cache
        # Of everything below; held for a look, never while a journal is read.
        self._lock = threading.RLock()
        self._folders: dict[str, FolderSource] = {}
        # By place, as are the rows of the index.
        self._runs: dict[str, LocalRun] = {}
        self._by_id: dict[str, LocalRun] = {}
        # By place, the id and version of each run that ``refresh`` has told of.
        self._told: dict[str, tuple[str, int]] = {}
        # Of which runs that was, after how many changes of rows.
        self._told_of: tuple[Mapping[str, LocalRun], int] = ({}, 0)
        self._looked = False
        self._has_asides = False
        # What the last list was made of.
        self._known: KnownList | None = None
        # Whose last points the last query that needed such did not read.
        self._tails_left: Unread = {}
        # By place, when it is the turn of runs that are not listed yet.
        self._turns: dict[str, float] = {}
        self._index = Index(cache)
        rules = RuleSettings() if rules is None else rules
        self._writer = IndexWriter(self._index, self._listed_at, rules=rules.digest)
        self._held = MemoryBudget(
            on_news=self._writer.note,
            cached=None if cache is None else CachedSegments(cache, build=build),
            rules=rules,
        )
        self._conversions = Conversions(self._bounds, cache, self._held.guard)

    def __enter__(self) -> LocalStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Write to the index what was learnt, and close every file."""
        self._writer.write_all()
        self._held.segments.close_all()

    @property
    def notices(self) -> Mapping[str, int]:
        """What the store had to do without, in sentences, and how often."""
        return self._index.notices

    def runs(
        self,
        query: str | None = None,
        *,
        order: str | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> Sequence[LocalRun]:
        """Runs by creation, newest first, unless an order is given."""
        if offset < 0 or (limit is not None and limit < 0):
            raise UsageError(f"offset={offset} and limit={limit} must be 0 or more.")
        selects = None if query is None else parse_query(query)
        sort = None if order is None else parse_order(order)
        with without_collections(is_first=not self._looked):
            with self._lock:
                self._look_once()
                found = list(self._runs.values())
            found.sort(key=_created, reverse=True)
        if selects is not None:
            found = self._held.guard.select(found, selects, _place)
        if sort is not None:
            found = sort(found)
        return found[offset:] if limit is None else found[offset : offset + limit]

    def newest_first(self, query: str | None = None) -> Iterator[LocalRun]:
        """The same runs as ``runs``, each as soon as no newer one can come."""
        selects = None if query is None else parse_query(query)
        with self._lock:
            self._look_unless_done()
            found = list(self._runs.values())
        for run in by_creation(found):
            if selects is None or self._held.guard.select([run], selects, _place):
                yield run

    def known_runs(
        self,
        query: str | None = None,
        *,
        order: str | None = None,
        group: str | None = None,
        budget_s: float = 0.5,
    ) -> KnownRuns:
        """Runs as far as they are known after so many seconds; see ``epochal.store.store``."""
        selects = None if query is None else parse_query(query)
        sort = None if order in (None, _NEWEST_FIRST) else parse_order(order)
        group_by = None if group is None else parse_groups(group)
        listed, num_waiting = self._list_known(budget_s)
        known = listed.runs
        with judging(budget_s=budget_s) as left:
            if selects is not None:
                known = self._held.guard.select(known, selects, lambda one: one.run.place)
                known = [one for one in known if one not in left] if left else known
            if sort is not None:
                known = sort(known)
            groups = () if group_by is None else group_by(known)
        tails_left: Unread = {one: tail for one, tail in left.items() if tail is not None}
        if tails_left:
            self._tails_left = tails_left
        return KnownRuns(
            [one.run for one in known],
            num_waiting + listed.pending + len(tails_left),
            [(values, [one.run for one in some]) for values, some in groups],
            stored=len(listed.runs),
            projects=listed.project_names,
            unread=len(left),
        )

    def projects(self, *, budget_s: float = 0.5) -> ProjectList:
        """Every project in one row, from what is known after about so many seconds."""
        listed, num_waiting = self._list_known(budget_s)
        return listed.projects(num_waiting)

    def _list_known(self, budget_s: float) -> tuple[KnownList, int]:
        """The known runs, the newest first, and how many are not listed yet."""
        with self._lock:
            self._look_unless_done()
            # From here on: a look at thousands of runs would leave no time for the first rows.
            until = time.monotonic() + budget_s
            self._look_once(until=until)
            by_id = self._by_id
            num_waiting = len(self._runs) - len(by_id)
        before = self._known
        if before is not None and before.is_current(by_id) and not before.pending:
            return before, num_waiting
        listed = sorted(by_id.values(), key=_created, reverse=True)
        self._read_first(listed, until)
        known = self._known = KnownList(by_id, listed, self._held.row_changes, before)
        return known, num_waiting

    def _read_first(self, listed: Sequence[LocalRun], until: float) -> None:
        """Read rows that a list needs and that are not known, until a monotonic time.

        A few are read whatever the clock says: on a busy machine too a short list is whole.
        """
        unread = [(place, run) for place, run in enumerate(listed) if not run.is_known]
        for place, run in unread:
            limit = until if place >= _MANY else math.inf
            if not run.is_outlined and not read_row(run, limit, whole=False):
                break
        left_bytes = _SMALL_BYTES
        for place, run in unread:
            if run.is_known or not run.is_quickly_read:
                continue
            left_bytes -= run.source.unsealed_bytes
            limit = math.inf if place < _MANY and left_bytes >= 0 else until
            if not read_row(run, limit, whole=True):
                break

    def read_on(self, budget_s: float, *, only_small: bool = False) -> tuple[Set[str], int]:
        """Read whole rows for so many seconds; which runs were read, and how many are left."""
        until = time.monotonic() + budget_s
        known, by_id = self._known, self._by_id
        is_listed = known is not None and known.is_current(by_id) and len(by_id) == len(self._runs)
        if known is not None and is_listed and not known.pending:
            # Every row is known: what follows would look at thousands of runs for nothing.
            return set(), 0 if only_small else self._read_tails(until)
        with self._lock:
            self._look_once(until=until)
            self._tell_apart(until=until)
            listed = list(self._by_id.values())
            num_waiting = len(self._runs) - len(listed)
        left = sorted((run for run in listed if not run.is_known), key=_turn)
        until = time.monotonic() + budget_s  # telling apart may have taken all of it
        read: set[str] = set()
        for run in left:
            if only_small and not run.is_quickly_read:
                continue
            if not read_row(run, until, whole=True):
                break
            if run.is_known:
                read.add(run.id)
        num_left = num_waiting + len(left) - len(read)
        return read, num_left if only_small else num_left + self._read_tails(until)

    def _read_tails(self, until: float) -> int:
        """Read last points that a query needed, until a monotonic time; how many are left."""
        wanted = self._tails_left
        unread = dict(wanted)
        for run, tail in wanted.items():
            if time.monotonic() > until:
                break
            if tail is not None:
                run.read_tail(*tail)
            del unread[run]
        if self._tails_left is wanted:  # another query may have needed others meanwhile
            self._tails_left = unread
        return len(unread)

    def run(self, key: str) -> LocalRun:
        """The run that an id, its start, a name, project/name or a folder's path stands for."""
        path = Path(key).expanduser()
        if (len(path.parts) > 1 or key in (".", "..")) and is_run_folder(path):
            return self._at(path.absolute())
        known = self.find(key)
        if known is not None:
            return known
        runs = self.runs()
        try:
            return runs[choose(key, [run.brief() for run in runs])]
        except RunNotFoundError:
            if not path.exists():
                raise
            return self._foreign_at(path.absolute())

    def find(self, run_id: str) -> LocalRun | None:
        """The run of exactly this id."""
        with self._lock:
            self._look_once()
            return self._by_id.get(run_id)

    def refresh(self, *, budget_s: float = math.inf) -> Set[str]:
        """Look for new runs and new records; the ids of runs that are new, changed or gone.

        A run that another thread reads at this moment is looked at the next time, unless its id is
        not known yet. Of thousands of new runs those whose turn does not come within the budget are
        new the next time.
        """
        until = time.monotonic() + budget_s
        with self._lock:
            if not self._looked and budget_s < math.inf:
                # Ids are left to the list that follows, which has a budget of its own.
                self._look_unless_done()
                return set()
            known = [run for run in self._runs.values() if run.was_looked_at]
            self._look()
        for run in known:  # of the others nothing has been read yet
            if run.is_unchanged:
                continue
            patience_s = 0.0 if run.has_recorded_id else max(until - time.monotonic(), 0.0)
            if run.lock.acquire(timeout=min(patience_s, threading.TIMEOUT_MAX)):
                try:
                    run.look_again()
                finally:
                    run.lock.release()
        with self._lock:
            changed = self._tell_changes(until)
        if time.monotonic() > self._writer.written_at + _REWRITE_S:
            self._writer.write_all()
        return changed

    def _tell_changes(self, until: float) -> Set[str]:
        """The ids of runs that are new, changed or gone since the last call."""
        num_changes, (runs, num_before) = self._held.row_changes.value, self._told_of
        if self._runs is runs and num_changes == num_before and len(runs) == len(self._by_id):
            return set()
        self._tell_apart(until=until)
        told = {run.place: (run.id, run.version) for run in self._by_id.values()}
        before, self._told = self._told, told
        self._told_of = (self._runs, num_changes)
        return {run_id for _, (run_id, _) in told.items() ^ before.items()}

    def remove(self, run: RunView) -> TrashedRun:
        """Move a run's folder to the trash; other trackers' files are never moved."""
        moved = move_to_trash(run.info)
        path = Path(moved.origin)
        with self._lock:
            self._runs = dict(self._runs)
            known = self._runs.pop(str(path), None)
            self._folders.pop(str(path), None)
            self._tell_apart()
        if known is not None:
            known.close_unless_read()
        return moved

    @property
    def trash(self) -> FolderTrash:
        """The runs that were deleted below the roots."""
        return FolderTrash(self._roots)

    def _listed_at(self, place: str) -> LocalRun | None:
        return self._runs.get(place)

    def _at(self, path: Path) -> LocalRun:
        """The run in a folder; one that this store does not list is read alone."""
        with self._lock:
            known = self._runs.get(str(path))
            if known is None:
                folder = path.resolve()
                same = (run for run in self._runs.values() if run.path.resolve() == folder)
                known = next(same, None)
        return known or load_run(path, held=self._held, bounds=self._bounds.with_root(path))

    def _foreign_at(self, path: Path) -> LocalRun:
        """The one run of another tracker that lies in a file or folder."""
        with self._lock:
            same = [run for run in self._runs.values() if run.path == path]
        if len(same) == 1:
            return same[0]
        bounds = SearchBounds(path, follow_links=self._bounds.follow_links)
        conversions = Conversions(bounds, self._cache, self._held.guard)
        return load_converted(path, conversions, held=self._held)

    def _look_once(self, until: float = math.inf) -> None:
        """Look for runs, unless that was done; until a monotonic time, some may have to wait."""
        self._look_unless_done()
        if len(self._by_id) < len(self._runs):
            self._tell_apart(until=until)

    def _look_unless_done(self) -> None:
        if not self._looked:
            with without_collections(is_first=True):
                self._look()

    def _look(self) -> None:
        before = self._runs
        indexed = (
            None if self._looked else IndexedFolders(self._index, rules=self._held.rules.digest)
        )
        known = self._folders if indexed is None else indexed
        found = [survey(str(root), known, self._bounds) for root in self._roots]
        orphans = {str(path) for root in self._roots for path in orphans_below(root)}
        ours = {path for one in found for path in one.ours}
        ours.update(self._bounds.chosen(orphans))
        places = {path for one in found for path in one.others}
        asides = asides_of(ours)
        if self._looked and not (places or asides or self._has_asides) and before.keys() == ours:
            return  # no run came or went
        self._has_asides = bool(asides)
        self._runs = self._folder_runs(ours, asides)
        for converted in self._conversions.runs(map(Path, sorted(places))):
            self._take_converted(converted, before)
        gone = [place for place in before if place not in self._runs]
        for place in gone:
            before[place].close_unless_read()
        if indexed is not None:
            self._looked = True
            indexed.recall_all(self._runs, self._held.guard)
        self._leave_out_copied()

    def _folder_runs(
        self, found: Set[str], asides: Mapping[str, Sequence[Aside]]
    ) -> dict[str, LocalRun]:
        """The runs in folders of ours, with what was written aside for them."""
        runs: dict[str, LocalRun] = {}
        sources: dict[str, FolderSource] = {}
        for path in found:
            source = self._folders.get(path)
            if source is None:
                source = FolderSource(path, held=self._held, bounds=self._bounds)
            source.asides = asides.get(path, ())
            sources[path] = source
            runs[path] = self._runs.get(path) or LocalRun(source, held=self._held)
        self._folders = sources
        return runs

    def _source_in(self, path: str) -> FolderSource:
        """The files of a folder; engines over a working copy have classes of their own."""
        return FolderSource(path, held=self._held, bounds=self._bounds)

    def _run_in(self, source: FolderSource) -> LocalRun:
        """The run of a folder."""
        return LocalRun(source, held=self._held)

    def _take_converted(self, converted: ConvertedRun, before: Mapping[str, LocalRun]) -> None:
        """List a run of another tracker; one that lies below two roots is listed once."""
        place = str(converted.folder.path)
        known = before.get(place)
        if known is None or known.source.converted is not converted:
            source = FolderSource(place, held=self._held, converted=converted)
            known = LocalRun(source, held=self._held)
        self._runs.setdefault(place, known)

    def _leave_out_copied(self) -> None:
        """A run that was imported is listed once, as the copy that was asked for."""
        foreign = [run for run in self._runs.values() if run.tracker is not None]
        if len(foreign) in (0, len(self._runs)):
            return
        ours = {run.own_id for run in self._runs.values() if run.tracker is None}
        for run in foreign:
            if run.own_id in ours:
                self._runs.pop(run.place).close_unless_read()

    def _tell_apart(self, until: float = math.inf) -> None:
        """Give each run an id of its own; one that has it already keeps it.

        Runs whose turn has not come at ``until`` are not listed before the next call.
        """
        by_id = {run.id: run for run in self._by_id.values() if run.place in self._runs}
        known = set(map(id, by_id.values()))
        others = [run for run in self._runs.values() if id(run) not in known]
        is_short = until < math.inf and len(others) > _MANY
        for number, run in enumerate(sorted(others, key=self._turn if is_short else _place)):
            # A few are listed whatever the clock says: a list has to have a beginning.
            if is_short and number >= _MANY and time.monotonic() > until and not run.is_outlined:
                break
            run.copy = 1
            run_id = run.own_id
            while run_id in by_id:
                run.copy += 1
                run_id = run.id
            by_id[run_id] = run
        if by_id != self._by_id:  # lists are kept while it is the same one
            self._by_id = by_id

    def _turn(self, run: LocalRun) -> float:
        """When it is a run's turn to be listed: known ones first, then by the folder's time."""
        if run.is_outlined:
            return -math.inf
        turn = self._turns.get(run.place)
        if turn is None:
            turn = self._turns[run.place] = -changed_at(Path(run.place))
        return turn


def open_store(
    *paths: str | Path,
    build: bool = False,
    follow_links: bool = False,
    rules: RuleSettings | None = None,
) -> LocalStore:
    """The runs below some folders, with the user's cache; ``UsageError`` when one is not there.

    A path may also be a file of another tracker.
    """
    for path in paths:
        check_place(path)
    return LocalStore(
        *paths, cache=cache_folder(), build=build, follow_links=follow_links, rules=rules
    )
