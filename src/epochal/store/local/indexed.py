"""The run folders that the index knows, as a first look finds them.

A run that has ended costs two stats: where they say what they said when its row was made, its
folder is not looked into, and its row is the one of the index.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping

from epochal.store.local.folder import FolderSource, has_stamp
from epochal.store.local.index import Index, IndexEntry
from epochal.store.local.run import LocalRun
from epochal.store.row import Row


class IndexedFolders(Container[str]):
    """The folders whose runs are as the index knows them; for one look."""

    def __init__(self, index: Index, *, rules: str) -> None:
        self._index = index
        self._rules = rules
        self._entries: dict[tuple[str, bool], Mapping[str, IndexEntry]] = {}
        self._unchanged: dict[str, IndexEntry] = {}

    def __contains__(self, path: object) -> bool:
        folder, _, name = str(path).rpartition(os.sep)
        entry = self._in(folder, is_beside=True).get(name)
        if entry is None or entry.stamp is None or not has_stamp(str(path), entry.stamp):
            return False
        self._unchanged[str(path)] = entry
        return True

    def recall(self, run: LocalRun) -> None:
        """Give a run the row that the index has of it, if its files have not changed since."""
        source = run.source
        if isinstance(source, FolderSource):
            place = source.place
            entry = self._unchanged.get(place)
            if entry is not None and not source.asides:
                run.recall(entry, self._row, is_unchanged=True)
                return
            folder, _, name = place.rpartition(os.sep)
            entry = self._in(folder, is_beside=True).get(name)
        else:
            folder, name, is_beside = source.index_place
            entry = self._in(folder, is_beside=is_beside).get(name)
        if entry is not None:
            run.recall(entry, self._row)

    def _row(self, entry: IndexEntry) -> Row | None:
        return self._index.row(entry)

    def _in(self, folder: str, *, is_beside: bool) -> Mapping[str, IndexEntry]:
        key = (folder, is_beside)
        entries = self._entries.get(key)
        if entries is None:
            entries = self._index.entries(folder, rules=self._rules, is_beside=is_beside)
            self._entries[key] = entries
        return entries
