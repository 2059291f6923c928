"""Samples by name and step, kept between requests."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import msgspec

from epochal.store.answers import Cursor, Entry
from epochal.store.store import RunView

_KINDS = ("text", "blob")
_MOST_RUNS = 12


class Samples(msgspec.Struct, frozen=True):
    """All samples of a run up to its last record, ``by_name`` in the order of steps."""

    end: Cursor
    by_name: dict[str, list[Entry]]
    steps: Sequence[int]

    def up_to(self, at: int) -> Iterator[Entry]:
        """Of each name the samples of its last step up to a step."""
        for entries in self.by_name.values():
            stop = bisect_right(entries, at, key=_step)
            if stop:
                yield from entries[bisect_left(entries, _step(entries[stop - 1]), key=_step) : stop]


class SampleCache:
    """The samples of the runs that were requested last: a slider asks for many steps."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_run: OrderedDict[str, Samples] = OrderedDict()

    def read(self, run: RunView) -> Samples:
        """Return a run's samples up to its last record; the caller holds the run's lock."""
        with self._lock:
            found = self._by_run.pop(run.id, None)
        if found is None or found.end != run.end():
            by_name: dict[str, list[Entry]] = {}
            for entry in run.entries(*_KINDS, rank=0):
                by_name.setdefault(entry.name or "", []).append(entry)
            steps = {_step(entry) for entries in by_name.values() for entry in entries} - {-1}
            # Names as they were logged first: records of one call may share their time.
            logged = dict(sorted(by_name.items(), key=lambda item: item[1][0].position))
            found = Samples(dict(run.end()), logged, sorted(steps))
        with self._lock:
            self._by_run[run.id] = found
            while len(self._by_run) > _MOST_RUNS:
                self._by_run.popitem(last=False)
        return found


def _step(entry: Entry) -> int:
    return -1 if entry.step is None else entry.step
