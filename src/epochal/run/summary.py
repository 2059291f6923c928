"""What a run came to, as the program sees it: ``run.summary``.

A metric has the value of its last step, read from the run's own journal when it is asked for;
logging keeps nothing for it. What the program sets itself is a ``summary`` record. It wins over
what was logged, here and in every view, until it is deleted.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any

from epochal.errors import FormatError, ValueTypeError
from epochal.journal.layout import LOOP, PartName, RunFolder, rank_writer
from epochal.journal.line import now
from epochal.records import Record, numbers_of
from epochal.run.watched import Attributes, plain, watched
from epochal.values import as_float, plain_json

if TYPE_CHECKING:
    from epochal.journal.reader import PartReader
    from epochal.run.recorder import Recorder

_CHILD = "child-"


class RunSummary(Attributes, MutableMapping[str, Any]):
    """What ``run.summary`` returns: a mapping, and its entries as attributes."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._journal = _OwnJournal()
        # What this process set; a run that is switched off has no journal to read it from.
        self._set: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        return self._set[name] if name in self._set else self._read()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        known: Any = name
        if not isinstance(known, str) or not known:
            raise ValueTypeError(f"a name of run.summary must be a text, not {name!r}.")
        given, record = plain_json(value), partial(self._record, name)
        record(given)
        self._set[name] = watched(given, self._recorder.check_open, record)

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._recorder.write({"log": "summary", "t": now(), "name": name, "deleted": True})
        self._set.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter({**self._read(), **self._set})

    def __len__(self) -> int:
        return len({**self._read(), **self._set})

    def copy(self) -> dict[str, Any]:
        """A plain dict of all values as they are now."""
        return {**self._read(), **plain(self._set)}

    def __repr__(self) -> str:
        return repr(self.copy())

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (self.copy(),)

    def _record(self, name: str, value: Any) -> None:
        self._recorder.write({"log": "summary", "t": now(), "name": name, "value": value})

    def _read(self) -> Mapping[str, Any]:
        recorder = self._recorder
        if not recorder.is_recorded:
            return {}
        recorder.flush_values()
        return self._journal.values(recorder.folder, max(recorder.rank, 0))


class _OwnJournal:
    """The last values of a rank's metrics and its ``summary`` records; reads on when asked."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: dict[PartName, PartReader] = {}
        # By metric, its value at the highest step of the newest attempt that logged it.
        self._last: dict[str, tuple[tuple[int, float], float]] = {}
        self._set: dict[str, Any] = {}

    def values(self, folder: RunFolder, rank: int) -> dict[str, Any]:
        with self._lock:
            for name in sorted({*folder.parts(), *folder.sealed_parts()}, key=_by_attempt):
                if name.writer == rank_writer(rank) or (rank == 0 and _is_rank_zero(name)):
                    for record in self._new_records(folder, name):
                        self._take(name.attempt, record)
            last = {name: value for name, (_, value) in self._last.items()}
            return {**last, **self._set}

    def _new_records(self, folder: RunFolder, name: PartName) -> Iterator[Record]:
        from epochal.journal.reader import PartReader, ShorterFileError

        reader = self._readers.get(name)
        if reader is None:
            reader = self._readers[name] = PartReader(folder.part_path(name), name)
        try:
            for records in reader.read_blocks():
                yield from records
        except ShorterFileError:
            reader.recover()
        except FileNotFoundError:
            yield from _sealed_records(folder, reader)

    def _take(self, attempt: int, record: Record) -> None:
        if record["log"] == "summary":
            name = str(record.get("name"))
            self._set[name] = record.get("value")
            if record.get("deleted"):
                del self._set[name]
            return
        at = record.get("step", record.get("epoch"))
        place = (attempt, as_float(at) if isinstance(at, (int, float)) else 0.0)
        is_plain = record["log"] == "metrics" and "nonfinite" not in record
        for name, value in record["m"].items() if is_plain else numbers_of(record):
            if name not in self._last or place >= self._last[name][0]:
                self._last[name] = (place, value)


def _sealed_records(folder: RunFolder, reader: PartReader) -> Iterator[Record]:
    from epochal.segments.read import Segment  # loads pyarrow, for runs of many parts only

    try:
        with Segment(folder.sealed_path(reader.name)) as segment:
            if reader.ordinal < segment.num_records:
                for _, record in segment.records(first=reader.ordinal):
                    yield record
            reader.ordinal = segment.num_records
    except (FileNotFoundError, FormatError):  # being moved, or damaged: readers report that
        return


def _by_attempt(name: PartName) -> tuple[int, bool, PartName]:
    """Older attempts first, children before rank 0 itself."""
    return name.attempt, not name.writer.startswith(_CHILD), name


def _is_rank_zero(name: PartName) -> bool:
    return name.writer == LOOP or name.writer.startswith(_CHILD)
