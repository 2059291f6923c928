"""Reads one journal part for sealing: records in columns, other records as JSON, and damage."""

from __future__ import annotations

import itertools
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from epochal.journal.facts import FACT_EVENTS, Extent, SeriesKey
from epochal.journal.line import encode_json
from epochal.journal.reader import check_version
from epochal.journal.regular_file import regular_only
from epochal.journal.rows import FieldPath, Keys, Line, LineDecoder, Rows, paths_of, series_in
from epochal.journal.segments.footer import KEPT_KINDS, MAX_KEPT_BYTES, Group
from epochal.journal.state import PartColumns
from epochal.records import DENSE_KINDS, Record

_CHUNK_BYTES = 1024 * 1024
_MAX_KEPT = 4096
_DTYPES: dict[type, Any] = {float: np.float64, int: np.int64, bool: np.bool_, str: object}


class GroupColumns:
    """Records with the same keys and types of values: their ordinals, and a column of each path.

    Both are in chunks, which the series of the part share.
    """

    def __init__(self, kind: str, keys: Keys, types: Sequence[type], gpu: str) -> None:
        self.kind, self.keys, self.gpu = kind, keys, gpu
        self.types = dict(zip(paths_of(keys), types, strict=True))
        self.num_rows = 0
        self._chunks: list[list[NDArray[Any]]] = []

    def add(self, ordinals: NDArray[np.int64], columns: Iterable[NDArray[Any]]) -> None:
        self.num_rows += ordinals.size
        self._chunks.append([ordinals, *columns])

    def arrays(self) -> tuple[NDArray[np.int64], dict[FieldPath, NDArray[Any]]]:
        """The ordinals, and the values of each path."""
        ordinals, *columns = map(np.concatenate, zip(*self._chunks, strict=True))
        return ordinals, dict(zip(self.types, columns, strict=True))

    @property
    def group(self) -> Group:
        """What the footer says of it."""
        types = tuple(one.__name__ for one in self.types.values())
        return Group(self.kind, self.keys, types, self.gpu, self.num_rows)

    def documents(self) -> Iterator[Document]:
        """Its records as documents."""
        ordinals, columns = self.arrays()
        values = (column.tolist() for column in columns.values())
        return map(Document.of, ordinals.tolist(), self.group.records(values, self.num_rows))


class Document(NamedTuple):
    """A record that is kept as JSON, and its step and time where these are usual ones."""

    ordinal: int
    kind: str
    step: int | None
    t: float | None
    text: str

    @classmethod
    def of(cls, ordinal: int, record: Record, line: bytes = b"") -> Document:
        """One made of a record, or of the line that holds it."""
        step, t = record.get("step"), record.get("t")
        known = step if type(step) is int else None, t if type(t) is float else None
        return cls(ordinal, record["log"], *known, (line or encode_json(record)).decode())


@dataclass(slots=True)
class PartContent:
    """The content of one part; ``groups`` have the records that are kept in columns.

    ``documents`` are the records that are kept as JSON, ``listed`` those of them that the metadata
    may have as well, by ordinal, and ``damage`` the bytes that no reader returns. ``numbers`` are
    all series, and ``documented`` those that have points in documents; ``kinds`` counts the records
    of each kind, and ``extents`` says how far they reach.
    """

    groups: dict[Any, GroupColumns] = field(default_factory=dict)
    documents: list[Document] = field(default_factory=list)
    listed: dict[str, list[tuple[int, Record]]] = field(default_factory=dict)
    damage: list[bytes] = field(default_factory=list)
    numbers: PartColumns = field(default_factory=PartColumns)
    documented: set[SeriesKey] = field(default_factory=set)
    kinds: Counter[str] = field(default_factory=Counter)
    extents: dict[str, Extent] = field(default_factory=dict)
    num_records: int = 0
    num_damaged: int = 0
    journal_bytes: int = 0
    journal_crc: int = 0

    def take(self, items: Sequence[Rows | Line], text: bytes) -> None:
        """Take in the next lines of the part."""
        for item in items:
            if isinstance(item, Rows):
                self._note(item.kind, item.ordinals.size, self.numbers.add_rows(item))
                if item.kind in DENSE_KINDS:
                    self._take_rows(item)
                else:
                    self._take_lines(item, text)
                continue
            line = text[item.start : item.end - 1]
            if not item.is_whole:
                # A torn line may end in a whole record; the bytes before it are kept as well.
                self.damage.append(line)
                self.num_damaged += item.record is None
            if item.record is not None:
                kind = item.record["log"]
                extent, keys = self.numbers.add(item.record, ordinal=item.ordinal)
                self._note(kind, 1, extent)
                self.documented.update(keys)
                whole = line if item.is_whole else b""
                self.documents.append(Document.of(item.ordinal, item.record, whole))
                if kind in KEPT_KINDS:
                    self.listed.setdefault(kind, []).append((item.ordinal, item.record))

    def _note(self, kind: str, count: int, extent: Extent) -> None:
        self.num_records += count
        self.kinds[kind] += count
        self.extents[kind] = extent.joined(self.extents.get(kind, Extent(None, None)))

    def _take_lines(self, rows: Rows, text: bytes) -> None:
        """Keep records as the lines they are."""
        spans = zip(rows.starts.tolist(), rows.ends.tolist(), strict=True)
        lines = (text[start : end - 1].decode() for start, end in spans)
        steps = rows.steps.tolist() or itertools.repeat(None)
        times = rows.numbers[("t",)].tolist() if ("t",) in rows.numbers else itertools.repeat(None)
        kind = itertools.repeat(rows.kind)
        self.documents += map(Document, rows.ordinals.tolist(), kind, steps, times, lines)
        self.documented.update(rows.series())

    def _take_rows(self, rows: Rows) -> None:
        """Add records to the groups of their types."""
        columns = rows.columns()
        kinds = [_types_of(column) for column in columns.values()]
        if all(len(some) == 1 for some in kinds):
            self._put(rows, tuple(some.pop() for some in kinds), rows.ordinals, columns.values())
            return
        by_types: dict[tuple[type, ...], list[int]] = {}
        lists = list(map(_as_list, columns.values()))
        for place, row in enumerate(zip(*lists, strict=True)):
            by_types.setdefault(tuple(map(type, row)), []).append(place)
        for types, places in by_types.items():
            some = [[column[place] for place in places] for column in lists]
            self._put(rows, types, rows.ordinals[places], some)

    def _put(
        self, rows: Rows, types: tuple[type, ...], ordinals: NDArray[np.int64], columns: Any
    ) -> None:
        """Add records with values of these types to their group."""
        made: list[NDArray[Any]] = []
        try:
            for kind, column in zip(types, columns, strict=True):
                made.append(np.asarray(column, _DTYPES[kind]))
        except OverflowError:  # an integer beyond 64 bits
            group = Group(rows.kind, rows.keys, (), rows.gpu, ordinals.size)
            records = group.records(map(_as_list, columns), ordinals.size)
            self.documents += map(Document.of, ordinals.tolist(), records)
            self.documented.update(rows.series())
            return
        key = (rows.kind, rows.keys, types, rows.gpu)
        if key not in self.groups:
            self.groups[key] = GroupColumns(rows.kind, rows.keys, types, rows.gpu)
        self.groups[key].add(ordinals, made)

    def dissolve(self, key: Any) -> None:
        """Keep the records of a group as JSON."""
        group = self.groups.pop(key)
        self.documents += group.documents()
        paths = series_in(group.kind, group.keys, group.gpu)
        self.documented.update(key for key, path in paths.items() if group.types[path] is not str)

    def kept(self) -> tuple[list[str], list[tuple[int, Record]]]:
        """The kinds whose records are few enough for the metadata, and their records."""
        few = {
            kind: records
            for kind, records in self.listed.items()
            if len(records) <= _MAX_KEPT and len(encode_json(records)) <= MAX_KEPT_BYTES
        }
        return [*few], sorted(itertools.chain.from_iterable(few.values()), key=itemgetter(0))

    def fact_events(self) -> list[tuple[int, Record]]:
        """The newest event of each name in ``FACT_EVENTS``."""
        entries = [e for e in self.listed.get("event", ()) if e[1].get("name") in FACT_EVENTS]
        return list({record["name"]: (ordinal, record) for ordinal, record in entries}.values())


def _as_list(column: Sequence[Any] | NDArray[Any]) -> Sequence[Any]:
    return column.tolist() if isinstance(column, np.ndarray) else column


def _types_of(column: Sequence[Any] | NDArray[Any]) -> set[type]:
    if isinstance(column, np.ndarray):
        return {float if column.dtype.kind == "f" else int}
    return set(map(type, column))


def read_content(path: Path) -> PartContent:
    """Read a whole part; raises ``NewerFormatError`` for one of a newer format."""
    content, decoder = PartContent(), LineDecoder()
    with open(path, "rb", buffering=0, opener=regular_only) as file:
        rest = b""
        while chunk := file.read(max(_CHUNK_BYTES, len(rest))):  # so that long lines end soon
            content.journal_bytes += len(chunk)
            content.journal_crc = zlib.crc32(chunk, content.journal_crc)
            text = rest + chunk
            # Reading ends at a torn last line, or at the line that holds the first NUL.
            nul = text.find(b"\0")
            end = text.rfind(b"\n", 0, len(text) if nul < 0 else nul) + 1
            lines, rest = text[:end], text[end:]
            decoded = decoder.decode(lines, first=content.num_records)
            if content.num_records == 0 and (first := decoded.header()) is not None:
                check_version(first, path)
            content.take(decoded.items, lines)
            if nul >= 0:
                behind = file.read()
                content.journal_bytes += len(behind)
                content.journal_crc = zlib.crc32(behind, content.journal_crc)
                rest += behind
                break
    if rest:
        content.damage.append(rest)
    return content
