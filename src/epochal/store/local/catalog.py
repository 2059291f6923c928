"""The catalog of run folders on this machine's file systems."""

from __future__ import annotations

import contextlib
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path
from weakref import WeakValueDictionary

from epochal.errors import FormatError, UsageError
from epochal.exchange.imports.converting import Conversions, ConvertedRun
from epochal.health.rule_settings import RuleSettings
from epochal.journal.boards import Boards, FolderBoards
from epochal.journal.layout import SearchBounds, read_json
from epochal.journal.row import RunRow
from epochal.query import filter as q
from epochal.settings import cache_folder
from epochal.store.cache import MemoryBudget
from epochal.store.catalog import SUMMARISE_S, KnownRuns, Versions
from epochal.store.folder import FolderSource
from epochal.store.listing import Aside, asides_of, is_as_signed, orphans_below, survey
from epochal.store.local.index import Index
from epochal.store.local.listed import (
    Entry,
    ListedRun,
    ListReader,
    known_entries,
    known_runs,
    newest_first,
)
from epochal.store.local.trash import FolderTrash, folder_usage
from epochal.store.row import TrashedRun
from epochal.store.run import RunView
from epochal.store.selection import Selection
from epochal.store.store import Store

# A journal of this size is read in a fraction of a second.
_QUICK_BYTES = 8 * 1024 * 1024
# A search for new runs looks at its time after so many.
_RUNS_AT_ONCE = 64
# Boards wait so long for the names of projects.
_BOARDS_S = 0.15


class FolderCatalog:
    """Every run below some folders; see ``epochal.store.catalog``.

    With a ``cache`` folder, rows of runs are kept there between processes, in one index for each
    root. Without one, everything is worked out anew. A root may be a file of another tracker. Links
    below a root that lead out of all roots are followed with ``follow_links`` only. ``rules`` are
    for runs that were recorded without settings of rules. ``only`` are the ids of the runs that are
    shown, whichever others lie, or come to lie, below the roots.
    """

    def __init__(
        self,
        *roots: str | Path,
        cache: Path | None = None,
        follow_links: bool = False,
        rules: RuleSettings | None = None,
        only: Set[str] | None = None,
    ) -> None:
        self._only = only
        self._roots = [Path(root).expanduser().absolute() for root in roots]
        self._bounds = SearchBounds(*self._roots, follow_links=follow_links)
        self._cache = cache
        rules = RuleSettings() if rules is None else rules
        self._held = MemoryBudget(rules=rules)
        self._indexes: Sequence[Index] = [Index(cache, root) for root in self._roots]
        # Of everything below; held for a scan, never while a journal is read.
        self._lock = threading.RLock()
        self._versions = Versions()
        # Never changed but replaced: lists go through it without the lock.
        self._entries: Mapping[str, Entry] = {}
        self._by_id: dict[str, Entry] = {}
        # Runs whose rows were read since ids were given.
        self._unassigned: dict[str, Entry] = {}
        self._asides: Mapping[str, Sequence[Aside]] = {}
        self._conversions = Conversions(self._bounds, cache, self._held.guard)
        self._converted: Mapping[str, ConvertedRun] = {}
        self._opened: WeakValueDictionary[str, RunView] = WeakValueDictionary()
        self._is_scanned = False
        self.trash = FolderTrash(self._roots)

    def close(self) -> None:
        for index in self._indexes:
            index.close()

    # -- lists ------------------------------------------------------------------------------------

    def select(
        self, selection: Selection, *, limit: int | None = None, budget_s: float = SUMMARISE_S
    ) -> KnownRuns:
        self._scan_once()
        if budget_s == math.inf:
            self._read_for(selection)
        else:
            self._read_known(budget_s)
        return known_runs(
            selection,
            [entry for entry in self._entries.values() if entry.id is not None],
            self._listed,
            self._open,
            guard=self._held.guard,
            limit=limit,
            projects=self._project_names(),
        )

    def rows(self, *, budget_s: float | None = None) -> list[RunRow]:
        self._scan_once()
        if budget_s is not None:
            self._read_known(budget_s)
        return [run.info for run in self._listed(None)]

    @property
    def boards(self) -> Boards:
        self._scan_once()
        self._read_known(_BOARDS_S)
        return FolderBoards(self._roots, self._project_names(), self._bounds.allows)

    def _project_names(self) -> list[str]:
        outlines = (entry.outline for entry in self._entries.values())
        quick = {row.project for row in outlines if row is not None}
        return sorted(quick.union(*(index.projects() for index in self._indexes)))

    def _listed(self, condition: q.Filter | None) -> list[ListedRun]:
        """The runs that a list shows, at least those that a query selects, newest first."""
        found: list[ListedRun] = []
        entries, reader = self._entries, ListReader(self._open)
        for index in self._indexes:
            known = ((entries.get(place), row) for place, *_, row in index.rows(condition))
            found += [
                ListedRun(entry, row, reader)
                for entry, row in known
                if entry is not None and entry.id is not None and not _is_aside(entry)
            ]
        others = [e for e in entries.values() if e.id is not None and _is_aside(e)]
        for entry in others:
            found.append(ListedRun(entry, entry.outline or self._open(entry).read_row(), reader))
        found.sort(key=lambda run: newest_first(run.entry))
        return found

    # -- rows -------------------------------------------------------------------------------------

    def _unread(self) -> list[Entry]:
        """The runs whose rows are not known as their files are."""
        entries = self._entries.values()
        return [e for e in entries if not e.is_current or e.outline is not None or e.id is None]

    def _read_for(self, selection: Selection) -> None:
        """Have the rows of all runs, as far as a selection may be about what is in them."""
        unread = self._unread()
        if not selection.needs_points:
            # Identity and configuration, which the records of a converted run may have.
            self._read_rows(unread, is_quick=True)
            unread = [e for e in unread if selection.query and e.place in self._converted]
        self._read_rows(unread)

    def _read_known(self, budget_s: float) -> None:
        """Have rows for a list: carried ones, and others for so many seconds, newest first.

        What is left is listed with its identity and status, or as it was read before.
        """
        unread = [e for e in self._unread() if e.outline is None or not e.is_current]
        self._read_rows(unread, until=time.monotonic() + budget_s, is_quick=True)
        self._read_rows(
            sorted((e for e in self._unread() if e.id is not None), key=newest_first),
            until=time.monotonic() + budget_s,
            most_bytes=_QUICK_BYTES if budget_s <= SUMMARISE_S else math.inf,
        )

    def _read_rows(
        self,
        entries: Sequence[Entry],
        *,
        until: float = math.inf,
        most_bytes: float = math.inf,
        is_quick: bool = False,
    ) -> None:
        """Have the rows of runs; one that another thread reads is passed over at ``until``.

        After that, and of runs with more bytes, those that would have to be read have an outline;
        with ``is_quick`` all of these.
        """
        with contextlib.ExitStack() as batches:
            for index in self._indexes:
                batches.enter_context(index.batch())
            for entry in entries:
                run = self._open(entry)
                left_s = max(until - time.monotonic(), 0.0)
                # A run without an id is waited for: nobody could ask for it.
                wait_s = left_s if entry.own_id is None or left_s == math.inf else 0.0
                if run.lock.acquire(timeout=min(wait_s, threading.TIMEOUT_MAX)):
                    try:
                        is_large = left_s < math.inf and run.source.unsealed_bytes > most_bytes
                        self._learn(entry, run, is_quick=is_quick or not left_s or is_large)
                    finally:
                        run.lock.release()
        self._assign_ids()

    def _learn(self, entry: Entry, run: RunView, *, is_quick: bool) -> None:
        """Read the row of a run, and note what is known of it."""
        if entry.signature is not None and run.source.signature not in (None, entry.signature):
            run.look_again()  # another thread was reading it at the last scan
        row = run.outline_row() if is_quick else run.read_row()
        if not row.is_summarised and entry.own_id is not None and entry.index.has(entry.place):
            return  # the list shows it as it was read before
        with self._lock:
            entry.own_id, entry.created = row.id, row.created
            self._unassigned[entry.place] = entry
        entry.is_current, entry.outline = True, None if row.is_summarised else row
        if run.source.signature is not None:  # otherwise the index knew it by what was seen here
            entry.signature = run.source.signature
            entry.is_settled = row.is_ended and run.source.is_settled
        entry.run = run if row.ending is None or not run.is_indexed else None

    # -- single runs ------------------------------------------------------------------------------

    def find(self, run_id: str) -> RunView | None:
        self._scan_once()
        self._read_rows([e for e in self._entries.values() if e.own_id is None], is_quick=True)
        entry = self._by_id.get(run_id)
        if entry is None or (self._only is not None and not _is_of(entry.place, self._only)):
            return None
        return self._open(entry)

    def listed_at(self, path: Path) -> RunView | None:
        """The listed run of a folder, or the only one of another tracker's file; else None."""
        self._scan_once()
        entry = self._entries.get(str(path))
        if entry is None:
            folder = path.resolve()
            same = [e for e in self._entries.values() if Path(e.place).resolve() == folder]
            if not same:
                inside = [place for place, run in self._converted.items() if run.path == path]
                same = [self._entries[place] for place in inside if len(inside) == 1]
            if not same:
                return None
            entry = same[0]
        self._read_rows([entry], is_quick=True)
        return self._open(entry)

    def _open(self, entry: Entry) -> RunView:
        with self._lock:
            run = self._opened.get(entry.place)
            if run is None:
                seen = entry.signature if entry.is_current else None
                source = self._source_at(entry.place)
                run = RunView(source, held=self._held, index=entry.index, signature=seen)
                self._opened[entry.place] = run
            run.listed_id = entry.id
            return run

    def _source_at(self, place: str) -> FolderSource:
        converted = self._converted.get(place)
        return FolderSource(
            place,
            asides=self._asides.get(place, ()),
            bounds=self._bounds if converted is None else None,
            converted=converted,
        )

    def usage(self, runs: Sequence[RunRow | TrashedRun]) -> Sequence[Counter[str]]:
        return [*map(folder_usage, runs)]

    def forget(self, run: RunView) -> None:
        with self._lock:
            entry = self._entries.get(run.place)
            self._entries = {p: e for p, e in self._entries.items() if p != run.place}
            if entry is not None:
                self._forget(entry)

    # -- scanning ---------------------------------------------------------------------------------

    def refresh(self, *, budget_s: float = math.inf) -> Set[str]:
        """Look for new runs and new records; the ids of runs that are new, changed or gone.

        A run that another thread reads at this moment is looked at the next time. Of thousands of
        new runs those whose turn does not come within the budget are new the next time.
        """
        until = time.monotonic() + budget_s
        if not self._is_scanned and budget_s < math.inf:
            self._scan_once()  # ids are left to the list that follows, which has its own budget
            return self._versions.changed({})
        for place in self._scan():
            run = self._opened.get(place)
            if run is not None and run.lock.acquire(blocking=False):
                try:
                    run.look_again()
                finally:
                    run.lock.release()
        unnamed = [entry for entry in self._entries.values() if entry.own_id is None]
        for at in range(0, len(unnamed), _RUNS_AT_ONCE):
            if time.monotonic() < until:
                self._read_rows(unnamed[at : at + _RUNS_AT_ONCE], until=0.0)
        with self._lock:
            known = {
                entry.id: (place, entry.signature)
                for place, entry in self._entries.items()
                if entry.id is not None
            }
        return self._versions.changed(known)

    def _scan_once(self) -> None:
        with self._lock:
            if not self._is_scanned:
                self._scan()

    def _scan(self) -> list[str]:
        """Look for run folders, and at the files of those that are known; the changed ones."""
        with self._lock:
            indexed = {} if self._is_scanned else self._indexed()
            unchanged = {place for place, entry in indexed.items() if _is_unchanged(entry)}
            known = unchanged if indexed else self._entries.keys()
            places: dict[str, Index] = {}
            foreign: list[str] = []
            for root, index in zip(self._roots, self._indexes, strict=True):
                found = survey(str(root), known, self._bounds)
                orphans = self._bounds.chosen([str(path) for path in orphans_below(root)])
                places.update(dict.fromkeys((*found.ours, *orphans), index))
                foreign += found.others
            self._converted = {
                str(run.folder.path): run
                for run in self._conversions.runs(map(Path, sorted(set(foreign))))
            }
            # A run that was imported is listed once, as the copy that was asked for.
            copied = self._imported(places) if self._converted else set()
            for place, run in self._converted.items():
                if run.run.identity.id not in copied:
                    places[place] = self._indexes[0]
            self._asides = asides_of(set(places))
            before, changed = self._entries, []
            entries: dict[str, Entry] = {}
            for place in sorted(places):
                entry = before.get(place) or indexed.get(place) or Entry(place, places[place])
                entries[place] = entry
                if place not in unchanged and self._has_changed(entry):
                    changed.append(place)
                self._assign_id(entry)
            self._entries = entries
            for place in before.keys() - places.keys():
                self._forget(before[place])
            for index in self._indexes:
                index.forget(indexed.keys() - places.keys())
            self._is_scanned = True
            return changed

    def _forget(self, entry: Entry) -> None:
        entry.index.forget([entry.place])
        self._opened.pop(entry.place, None)
        if entry.id is not None and self._by_id.get(entry.id) is entry:
            del self._by_id[entry.id]

    def _imported(self, places: Iterable[str]) -> set[str]:
        """The ids of runs that were copied from another tracker."""
        found: set[str] = set()
        for place in places:
            with contextlib.suppress(OSError, FormatError):
                told = read_json(f"{place}/run.json")
                if isinstance(told.get("source"), dict):
                    found.add(str(told.get("id")))
        return found

    def _indexed(self) -> dict[str, Entry]:
        return {entry.place: entry for index in self._indexes for entry in known_entries(index)}

    def _has_changed(self, entry: Entry) -> bool:
        """Whether the files of a run have changed since the last scan."""
        asides = self._asides.get(entry.place, ())
        if entry.signature is None:
            return False  # nothing was read of it yet
        if not asides and _is_unchanged(entry):
            return False
        source = self._source_at(entry.place)
        source.look()
        signature = source.signature
        if signature == entry.signature:
            return False
        entry.signature, entry.is_settled, entry.is_current = signature, False, False
        if not self._is_scanned or entry.own_id == os.path.basename(entry.place):
            entry.own_id = None  # a run that is just being created has no id for a moment
        return True

    def _assign_ids(self) -> None:
        """Give ids to runs whose rows were read; of copies, the first folder by name goes first."""
        with self._lock:
            waiting, self._unassigned = self._unassigned, {}
            for place in sorted(waiting):
                self._assign_id(waiting[place])

    def _assign_id(self, entry: Entry) -> None:
        """Give a run an id that no other has; one that has it already keeps it."""
        own_id = entry.own_id
        if own_id is not None and self._only is not None and own_id not in self._only:
            if entry.id is not None and self._by_id.get(entry.id) is entry:
                del self._by_id[entry.id]
            entry.id = None  # lists show what has an id
            return
        if own_id is None or (entry.id or "").partition("~")[0] == own_id:
            return
        run_id, copy = own_id, 1
        while self._by_id.get(run_id, entry) is not entry:
            copy += 1
            run_id = f"{own_id}~{copy}"
        if entry.id is not None:
            del self._by_id[entry.id]
        entry.id = run_id
        self._by_id[run_id] = entry


def _is_unchanged(entry: Entry) -> bool:
    """Whether the files of a run that has ended are as they were, by few of them."""
    signature = entry.signature if entry.is_settled else None
    return signature is not None and is_as_signed(entry.place, signature)


def _is_aside(entry: Entry) -> bool:
    """Whether its row is not in the index."""
    return entry.outline is not None or entry.is_unindexed


def _is_of(place: str, runs: Set[str]) -> bool:
    """Whether the run that lies in a folder at this moment is one of these."""
    try:
        return read_json(f"{place}/run.json").get("id") in runs
    except (OSError, FormatError):
        return False


def check_place(path: str | Path) -> None:
    """Raise ``UsageError`` unless a path is a folder, or a file with runs of another tracker."""
    place = Path(path).expanduser()
    if place.is_dir():
        return
    if not place.exists():
        raise UsageError(f"there is no folder {str(path)!r}.")
    place = place.absolute()
    if not Conversions(SearchBounds(place), cache_folder()).at(place):
        raise UsageError(f"{str(path)!r} is not a folder, nor a file with runs of any tracker.")


def folder_store(
    *roots: str | Path,
    cache: Path | None = None,
    follow_links: bool = False,
    rules: RuleSettings | None = None,
    only: Set[str] | None = None,
) -> Store:
    """The store over the runs below some folders; see ``FolderCatalog``."""
    return Store(
        FolderCatalog(*roots, cache=cache, follow_links=follow_links, rules=rules, only=only)
    )


def open_store(
    *paths: str | Path, follow_links: bool = False, rules: RuleSettings | None = None
) -> Store:
    """The runs below some folders, with the user's cache; ``UsageError`` when one is not there.

    A path may also be a file of another tracker.
    """
    for path in paths:
        check_place(path)
    return folder_store(*paths, cache=cache_folder(), follow_links=follow_links, rules=rules)
