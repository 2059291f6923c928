"""Reads sealed journal parts: one column at a time, or every record."""

from __future__ import annotations

import contextlib
import itertools
import os
import zlib
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary, ref

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from epochal.errors import FormatError
from epochal.journal.facts import STEP_LIMIT, SeriesKey
from epochal.journal.line import decode_json
from epochal.journal.rows import FieldPath, plan_of
from epochal.journal.segments.blocks import decode_section
from epochal.journal.segments.footer import Column, Group, decode_footer
from epochal.journal.state import NO_STEP, PartColumns, in_order
from epochal.records import DENSE_KINDS, Axis, Record
from epochal.series.blocks import Blocks
from epochal.series.series import Series

# The columns of a segment that are no values: the kind of a record, the number of its group, and
# the record as JSON where it is in no group.
LOG, GROUP, JSON = "log", "group", "json"
_BATCH_ROWS = 8192
# The segments that were opened last. So few files are open at once, whatever the number of runs.
_MAX_OPEN = 128
_opened: deque[ref[Segment]] = deque()


@contextlib.contextmanager
def translated(path: Path) -> Iterator[None]:
    """Raise what a damaged file makes as ``FormatError``."""
    try:
        yield
    except (FileNotFoundError, FormatError):
        raise
    # Columns that do not fit the metadata make the others.
    except (pa.ArrowException, OSError, KeyError, IndexError, TypeError, ValueError) as error:
        # A number comes from the system, as for a file without permission; damage has none.
        if isinstance(error, OSError) and error.errno is not None:
            raise FormatError(f"{path} cannot be read: {os.strerror(error.errno)}.") from error
        raise FormatError(f"{path} is damaged: {error}") from error


class _Group:
    """Records with the same keys: the types and columns of their values, and their series."""

    def __init__(self, group: Group, columns: Mapping[tuple[FieldPath, str], Column]) -> None:
        self.records, self.num_rows = group.records, group.num_rows
        self.types = group.columns()
        self.columns = {path: columns[path, kind.__name__] for path, kind in self.types.items()}
        plan = plan_of(group.kind, group.keys, group.gpu)
        assert plan is not None  # others are kept as JSON
        has_points = plan.axis == "time" or self.types.get(("step",)) is int
        self.series = {
            SeriesKey(name, plan.axis): path
            for name, path in (plan.paths.items() if has_points else ())
            if self.types[path] is not str
        }


class Segment:
    """One sealed part; its metadata is read at once, everything else when asked for.

    Raises FormatError, naming the file, for one that is damaged, of another format or unreadable.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: pq.ParquetFile | None = None
        with translated(path):
            self.footer = decode_footer(self._open().metadata.metadata or {}, file=str(path))
        # Series that were logged together have the same steps and times: these are read once for
        # as long as anybody uses them.
        self._shared: WeakValueDictionary[tuple[int, str, range], NDArray[Any]] = (
            WeakValueDictionary()
        )

    def __enter__(self) -> Segment:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file until something else is read from it."""
        self._file = None

    def _open(self) -> pq.ParquetFile:
        """The file; it stays open for the next read, unless too many others were opened since."""
        file = self._file
        if file is None:
            file = self._file = pq.ParquetFile(self.path, page_checksum_verification=True)
            _opened.append(ref(self))
            oldest = _opened.popleft()() if len(_opened) > _MAX_OPEN else None
            if oldest is not None:
                oldest.close()
        return file

    @property
    def num_records(self) -> int:
        """How many records the part holds."""
        return self.footer.num_records

    @property
    def num_damaged(self) -> int:
        """How many damaged lines a reader of the journal part would have counted."""
        return self.footer.num_damaged

    @property
    def journal_bytes(self) -> int:
        """How large the journal part was: a larger one has grown since it was sealed."""
        return self.footer.journal_bytes

    # -- damage -----------------------------------------------------------------------------------

    def check_pages(self) -> None:
        """Read every page and compare its checksum; raises ``FormatError`` for damage."""
        with translated(self.path):
            file = self._open()
            sizes = (file.read_row_group(n).num_rows for n in range(file.num_row_groups))
            if sum(sizes) != self.num_records:
                raise FormatError(f"{self.path} is damaged: some of its records are missing.")

    def verify(self) -> None:
        """Check the pages, and decode every record; raises ``FormatError`` for damage."""
        self.check_pages()
        found = Counter(record.get("log") for _, record in self.records())
        if found != Counter(self.footer.kinds):
            raise FormatError(f"{self.path} is damaged: it does not have the records of its part.")

    def damaged_columns(self) -> list[str]:
        """The names of the columns that cannot be read."""
        damaged: list[str] = []
        for name in self._open().schema_arrow.names:
            try:
                self._table([name])
            except FormatError:
                damaged.append(name)
        return damaged

    def damaged_blocks(self) -> list[str]:
        """The names of the series whose block summaries are damaged; their points are read."""
        return [key.name for key in self.footer.sections if self._section(key) is None]

    def num_records_in(self, columns: Iterable[str]) -> int:
        """How many records have a value in one of these columns."""
        damaged = set(columns)
        if damaged & {LOG, GROUP}:
            return self.num_records
        in_groups = sum(group.num_rows for group in self._groups)
        found = 0 if JSON not in damaged else self.num_records - in_groups
        for group in self._groups:
            if damaged & {column.name for column in group.columns.values()}:
                found += group.num_rows
        return found

    # -- numbers ----------------------------------------------------------------------------------

    def series(self, name: str, axis: Axis, rank: int = 0, *, rows: range | None = None) -> Series:
        """Every point of one series, in the order written; none for a name that is not here.

        ``rows`` are the records that are read, all by default.
        """
        key = SeriesKey(name, axis)
        rows = self._every if rows is None else rows
        groups = self._numbers if rows == self._every else self._group_column(rows)
        pieces = [
            self._points(key, number, rank, rows.start + np.flatnonzero(groups == number), rows)
            for number, group in enumerate(self._groups)
            if key in group.series
        ]
        if key in self._documented:
            points, ordinals = self._documents.points(key, rank)
            inside = (ordinals >= rows.start) & (ordinals < rows.stop)
            pieces.append((points.select(inside), ordinals[inside]))
        if pieces:
            return in_order(pieces)[0]
        none: NDArray[Any] = np.zeros(0)
        return Series(name, axis, rank, none.astype(np.int64), none, none)

    def blocks(self, key: SeriesKey, rank: int = 0) -> Blocks | None:
        """A series in blocks; None where the segment has no summaries of them, or damaged ones."""
        text = self._section(key) if key in self.footer.sections else None
        if text is None:
            return None
        rows, marks, first = decode_section(text, key.axis)
        bounds = [*first.tolist(), self.num_records]

        def points(start: int, stop: int) -> Series:
            return self.series(*key, rank, rows=range(bounds[start], bounds[stop]))

        return Blocks(key.axis, rows, marks, points)

    def _section(self, key: SeriesKey) -> bytes | None:
        """The block summaries of a series as they are stored; None where they are damaged."""
        _, offset, size, crc = self.footer.sections[key]
        with translated(self.path), open(self.path, "rb") as file:
            file.seek(offset)
            text = file.read(size)
        return text if zlib.crc32(text) == crc else None

    @property
    def _every(self) -> range:
        return range(self.num_records)

    @cached_property
    def _documented(self) -> set[SeriesKey]:
        return set(self.footer.documented)

    @cached_property
    def _documents(self) -> PartColumns:
        """The numbers of the records that are kept as JSON."""
        found = PartColumns()
        for ordinal, record in self._kept_as_json():
            found.add(record, ordinal=ordinal)
        return found

    @cached_property
    def _groups(self) -> list[_Group]:
        columns = {(column.path, column.type): column for column in self.footer.columns}
        return [_Group(group, columns) for group in self.footer.groups]

    def _points(
        self, key: SeriesKey, number: int, rank: int, ordinals: NDArray[np.int64], rows: range
    ) -> tuple[Series, NDArray[np.int64]]:
        """The points of a series in one group, and the ordinals of their records."""
        group = self._groups[number]
        column = group.columns[group.series[key]]
        values = self._values(column, ordinals, rows).astype(np.float64, copy=False)
        steps, times = (self._position(number, name, ordinals, rows) for name in ("step", "t"))
        return Series(*key, rank, steps, times, values), ordinals

    def _position(
        self, number: int, name: str, ordinals: NDArray[np.int64], rows: range
    ) -> NDArray[Any]:
        """The steps or the times of some records of a group."""
        group = self._groups[number]
        if group.types.get((name,)) not in ((int,) if name == "step" else (int, float)):
            return np.full(len(ordinals), NO_STEP if name == "step" else np.nan)
        found = self._shared.get((number, name, rows))
        if found is None:
            found = self._values(group.columns[name,], ordinals, rows)
            if name == "t":
                found = np.where(np.abs(found) < STEP_LIMIT, found, np.nan)
            found.flags.writeable = False
            self._shared[number, name, rows] = found
        return found

    @cached_property
    def _numbers(self) -> NDArray[np.int16]:
        """The number of the group of each row."""
        return self._group_column(self._every)

    def _group_column(self, rows: range) -> NDArray[np.int16]:
        found: NDArray[np.int16] = self._table([GROUP], rows).column(0).fill_null(-1).to_numpy()
        return found

    def _values(self, column: Column, ordinals: NDArray[np.int64], rows: range) -> NDArray[Any]:
        """The numbers of a column in some records, which are among these rows."""
        found = self._table([column.name], rows).column(0)
        if found.null_count:
            found = found.fill_null(False if column.type == "bool" else 0)
        values: NDArray[Any] = found.to_numpy()[ordinals - rows.start]
        return values / 1000 if column.stored == "ms" else values

    # -- records ----------------------------------------------------------------------------------

    def records(self, *, first: int = 0) -> Iterator[tuple[int, Record]]:
        """Every record from an ordinal on, with its ordinal."""
        with translated(self.path):
            file, start = self._open(), 0
        for number in range(file.num_row_groups):
            end = start + file.metadata.row_group(number).num_rows
            if end > first:
                with translated(self.path):
                    batches = file.iter_batches(_BATCH_ROWS, row_groups=[number])
                    for batch in batches:
                        if start + batch.num_rows > first:
                            found = enumerate(self._records_of(batch), start)
                            yield from (item for item in found if item[0] >= first)
                        start += batch.num_rows
            start = end

    def entries(self, *kinds: str) -> Iterator[tuple[int, Record]]:
        """The records of some kinds, in file order."""
        there = {kind for kind in kinds if kind in self.footer.kinds}
        if there <= set(self.footer.kept):
            found: Iterable[tuple[int, Record]] = self.footer.records
        elif there & DENSE_KINDS:
            found = self.records()
        else:
            found = self._kept_as_json(there)
        return (entry for entry in found if entry[1]["log"] in there)

    def _kept_as_json(self, kinds: Set[str] | None = None) -> Iterator[tuple[int, Record]]:
        """The records that are kept as JSON, of some kinds or of all."""
        table = self._table([LOG, JSON])
        has_text = table.column(1).is_valid().to_numpy()
        if kinds is not None:
            logs = table.column(0).combine_chunks()
            logs = logs if pa.types.is_dictionary(logs.type) else logs.dictionary_encode()
            wanted = [n for n, kind in enumerate(logs.dictionary.to_pylist()) if kind in kinds]
            has_text &= np.isin(logs.indices.fill_null(-1).to_numpy(), wanted)
        places = np.flatnonzero(has_text)
        for start in range(0, len(places), _BATCH_ROWS):
            some = places[start : start + _BATCH_ROWS]
            texts = table.column(1).take(pa.array(some)).to_pylist()
            yield from zip(some.tolist(), map(decode_json, texts), strict=True)

    def _records_of(self, batch: pa.RecordBatch) -> list[Record]:
        found: list[Record] = [{}] * batch.num_rows
        texts, groups = batch.column(JSON), batch.column(GROUP).fill_null(-1).to_numpy()
        for row in np.flatnonzero(texts.is_valid().to_numpy(False)).tolist():
            found[row] = decode_json(texts[row].as_py())
        for number in np.unique(groups[groups >= 0]).tolist():
            rows, group = np.flatnonzero(groups == number), self._groups[number]
            columns: list[Sequence[Any]] = []
            for column in group.columns.values():
                values = batch.column(column.name).take(pa.array(rows)).to_numpy(False)
                columns.append((values / 1000 if column.stored == "ms" else values).tolist())
            records = group.records(columns, len(rows))
            for row, record in zip(rows.tolist(), records, strict=True):
                found[row] = record
        return found

    def _table(self, names: list[str], rows: range | None = None) -> pa.Table:
        """Some columns, of some rows or of all."""
        with translated(self.path):
            file = self._open()
            if rows is None or rows == self._every:
                return file.read(columns=names, use_threads=False).select(names)
            metadata = file.metadata
            sizes = [metadata.row_group(n).num_rows for n in range(metadata.num_row_groups)]
            ends = list(itertools.accumulate(sizes))
            first, last = bisect_right(ends, rows.start), bisect_left(ends, rows.stop) + 1
            groups = list(range(first, min(last, len(ends))))
            found = file.read_row_groups(groups, columns=names, use_threads=False).select(names)
            return found.slice(rows.start - (ends[first - 1] if first else 0), len(rows))
