"""The index as a store uses it: what it knows at the first look, and which rows it learns.

A run that has ended costs two stats. If they are as they were when its row was made, its folder is
not listed, and the row of the index is used.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

from epochal.guard import Guard
from epochal.store.local.folder import has_stamp
from epochal.store.local.index import Index, IndexEntry, Stamp
from epochal.store.local.run import LocalRun

# Rows are written this many at a time, or so often, or when the store is closed.
_WRITE_EVERY = 256
_WRITE_S = 1.0


class IndexedFolders(Container[str]):
    """The folders whose runs are as the index knows them; for one look."""

    def __init__(self, index: Index, *, rules: str) -> None:
        self._index = index
        self._rules = rules
        self._entries: dict[tuple[str, bool], Mapping[str, IndexEntry]] = {}
        # The entries of the folder that was asked for last: runs come folder by folder.
        self._last: tuple[str, Mapping[str, IndexEntry]] = ("", {})
        # With the stamp that the files have.
        self._unchanged: dict[str, tuple[IndexEntry, Stamp]] = {}

    def __contains__(self, path: object) -> bool:
        assert isinstance(path, str)
        folder, _, name = path.rpartition(os.sep)
        last, entries = self._last
        if folder != last:
            entries = self._in(folder, is_beside=True)
            self._last = (folder, entries)
        entry = entries.get(name)
        if entry is None:
            return False
        stamp = entry.stamp
        if stamp is None or not has_stamp(path, stamp):
            return False
        self._unchanged[path] = (entry, stamp)
        return True

    def recall_all(self, runs: Mapping[str, LocalRun], guard: Guard) -> None:
        """Give runs the rows that the index has of them, if their files have not changed since."""
        unchanged = self._unchanged
        for place, run in runs.items():
            known = unchanged.get(place)
            source = run.source
            if known is None or source.asides:
                guard.run(place, self._recall, run)
            elif (row := self._index.row(known[0])) is not None:
                run.recall_unchanged(known[1], row)

    def _recall(self, run: LocalRun) -> None:
        folder, name, is_beside = run.source.index_place
        entry = self._in(folder, is_beside=is_beside).get(name)
        if entry is not None:
            run.recall(entry, self._index.row)

    def _in(self, folder: str, *, is_beside: bool) -> Mapping[str, IndexEntry]:
        key = (folder, is_beside)
        entries = self._entries.get(key)
        if entries is None:
            entries = self._index.entries(folder, rules=self._rules, is_beside=is_beside)
            self._entries[key] = entries
        return entries


class IndexWriter:
    """Writes rows that were learnt to the index; ``run_at`` gives the run at a place."""

    def __init__(
        self, index: Index, run_at: Callable[[str], LocalRun | None], *, rules: str
    ) -> None:
        self._index = index
        self._run_at = run_at
        self._rules = rules
        self._lock = threading.Lock()
        # Places of runs whose rows the index does not have, and of those being written or read.
        self._news: dict[str, None] = {}
        self._unsettled: dict[str, None] = {}
        self.written_at = time.monotonic()

    def note(self, place: str) -> None:
        """Have the index learn a row; what others learnt before is written, some at a time.

        So a reader that is killed has lost the work of about a second.
        """
        with self._lock:
            news = self._news
            is_due = len(news) >= _WRITE_EVERY or time.monotonic() > self.written_at + _WRITE_S
            if is_due:
                self._news = {}
            self._news[place] = None
        if is_due:
            self._write(news)

    def write_all(self) -> None:
        """Write every row that was noted, also of runs that were being written before."""
        with self._lock:
            news = {**self._news, **self._unsettled}
            self._news, self._unsettled = {}, {}
        self._write(news)

    def _write(self, places: Iterable[str]) -> None:
        """Write rows to the index, but for those of runs that are being written or read."""
        self.written_at = time.monotonic()
        entries: dict[tuple[str, bool], list[IndexEntry]] = {}
        runs = {place: run for place in places if (run := self._run_at(place)) is not None}
        for run in _settled(list(runs.values())):
            del runs[run.place]
            folder, name, is_beside = run.source.index_place
            signature, stamp, row = run.remembered()
            entry = self._index.entry(
                name, rules=self._rules, signature=signature, stamp=stamp, row=row
            )
            if entry is not None:
                entries.setdefault((folder, is_beside), []).append(entry)
        self._unsettled.update(dict.fromkeys(runs))
        for (folder, is_beside), found in entries.items():
            self._index.put(folder, found, is_beside=is_beside)


def _settled(runs: Sequence[LocalRun]) -> Iterator[LocalRun]:
    """Those of some runs that are not being written; each with its lock held, and none waited for.

    What another thread reads at this moment has its turn at the next time.
    """
    for run in runs:
        if run.lock.acquire(blocking=False):
            try:
                if run.is_settled:
                    yield run
            finally:
                run.lock.release()
