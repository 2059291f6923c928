"""Reads one journal part for sealing: records in columns, other records as JSON, and damage."""

from __future__ import annotations

import zlib
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from epochal.journal.facts import Extent, SeriesKey
from epochal.journal.line import decode_json, encode_json
from epochal.journal.reader import check_version
from epochal.journal.regular_file import regular_only
from epochal.journal.rows import FieldPath, Keys, Line, LineDecoder, Rows, paths_of, series_in
from epochal.journal.segments.footer import KEPT_KINDS, MAX_KEPT_BYTES, Group
from epochal.journal.state import PartColumns
from epochal.records import DENSE_KINDS, Record

_CHUNK_BYTES = 1024 * 1024
_MAX_KEPT = 4096
_CODES = {float: "d", int: "q", bool: "b"}


class GroupColumns:
    """Records with the same keys and types of values: their ordinals, and a column of each path."""

    def __init__(self, kind: str, keys: Keys, types: Sequence[type], gpu: str) -> None:
        self.kind, self.keys, self.gpu = kind, keys, gpu
        self.types = dict(zip(paths_of(keys), types, strict=True))
        self.ordinals = array("q")
        self.columns: dict[FieldPath, Any] = {
            path: array(_CODES[one]) if one in _CODES else [] for path, one in self.types.items()
        }

    @property
    def group(self) -> Group:
        """What the footer says of it."""
        types = tuple(one.__name__ for one in self.types.values())
        return Group(self.kind, self.keys, types, self.gpu, len(self.ordinals))

    def records(self) -> list[tuple[int, Record]]:
        """The records with their ordinals."""
        columns = [
            list(map(bool, column)) if self.types[path] is bool else column
            for path, column in self.columns.items()
        ]
        size = len(self.ordinals)
        return list(zip(self.ordinals, self.group.records(columns, size), strict=True))


@dataclass(slots=True)
class PartContent:
    """The content of one part; ``groups`` have the records that are kept in columns.

    ``documents`` are the records that are kept as JSON, by ordinal, and ``damage`` the bytes that
    no reader returns. ``numbers`` are all series, and ``documented`` those that have points in
    documents; ``kinds`` counts the records of each kind, and
    ``extents`` says how far they reach.
    """

    groups: dict[Any, GroupColumns] = field(default_factory=dict)
    documents: list[tuple[int, Record]] = field(default_factory=list)
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
                    places = zip(item.starts.tolist(), item.ends.tolist(), strict=True)
                    records = [decode_json(text[start:end]) for start, end in places]
                    self.documents += zip(item.ordinals.tolist(), records, strict=True)
                    self.documented.update(item.series())
                continue
            if not item.is_whole:
                # A torn line may end in a whole record; the bytes before it are kept as well.
                self.damage.append(text[item.start : item.end - 1])
                self.num_damaged += item.record is None
            if item.record is not None:
                kind = item.record["log"]
                extent, keys = self.numbers.add(item.record, ordinal=item.ordinal)
                self._note(kind, 1, extent)
                self.documented.update(keys)
                self.documents.append((item.ordinal, item.record))

    def _note(self, kind: str, count: int, extent: Extent) -> None:
        self.num_records += count
        self.kinds[kind] += count
        self.extents[kind] = extent.joined(self.extents.get(kind, Extent(None, None)))

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
        made: list[Any] = []
        try:
            for kind, column in zip(types, columns, strict=True):
                values = column.tobytes() if isinstance(column, np.ndarray) else column
                made.append(array(_CODES[kind], values) if kind in _CODES else values)
        except OverflowError:  # an integer beyond 64 bits
            group = Group(rows.kind, rows.keys, (), rows.gpu, ordinals.size)
            records = group.records(map(_as_list, columns), ordinals.size)
            self.documents += zip(ordinals.tolist(), records, strict=True)
            self.documented.update(rows.series())
            return
        key = (rows.kind, rows.keys, types, rows.gpu)
        if key not in self.groups:
            self.groups[key] = GroupColumns(rows.kind, rows.keys, types, rows.gpu)
        self.groups[key].ordinals.frombytes(ordinals.tobytes())
        for column, values in zip(self.groups[key].columns.values(), made, strict=True):
            column.extend(values)

    def dissolve(self, key: Any) -> None:
        """Keep the records of a group as JSON."""
        group = self.groups.pop(key)
        self.documents += group.records()
        paths = series_in(group.kind, group.keys, group.gpu)
        self.documented.update(key for key, path in paths.items() if group.types[path] is not str)

    def kept(self) -> tuple[list[str], list[tuple[int, Record]]]:
        """The kinds whose records are few enough for the metadata, and their records."""
        by_kind: dict[str, list[tuple[int, Record]]] = {}
        for ordinal, record in self.documents:
            if record["log"] in KEPT_KINDS:
                by_kind.setdefault(record["log"], []).append((ordinal, record))
        kinds = [
            kind
            for kind, records in by_kind.items()
            if len(records) <= _MAX_KEPT and len(encode_json(records)) <= MAX_KEPT_BYTES
        ]
        return kinds, [entry for entry in self.documents if entry[1]["log"] in kinds]


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
