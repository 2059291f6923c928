"""Reads one journal part for sealing: records by shape, other records as JSON, and damage."""

from __future__ import annotations

import zlib
from collections import Counter
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any

from epochal.journal.line import encode_json
from epochal.journal.reader import check_version
from epochal.journal.regular_file import regular_only
from epochal.journal.shape import Decoded, LineDecoder, Rows, Shape, joined
from epochal.records import Record
from epochal.segments.columns import Extent, PartColumns, by_id
from epochal.segments.footer import KEPT_KINDS, MAX_KEPT_BYTES

_CHUNK_BYTES = 1024 * 1024
_MAX_KEPT = 4096


@dataclass(slots=True)
class PartContent:
    """The content of one part; ``groups`` are the rows of each shape and GPU.

    ``documents`` are the records that are kept as JSON, by ordinal, and ``damage`` the bytes that
    no reader returns.
    """

    groups: dict[tuple[Shape, Any], Rows] = field(default_factory=dict)
    documents: list[tuple[int, Record]] = field(default_factory=list)
    damage: list[bytes] = field(default_factory=list)
    num_records: int = 0
    num_damaged: int = 0
    journal_bytes: int = 0
    journal_crc: int = 0

    def take(self, decoded: Decoded, text: bytes) -> None:
        """Take in the next lines of the part, all but its rows."""
        for line in decoded.lines:
            if not line.is_whole:
                # A torn line may end in a whole record; the bytes before it are kept as well.
                self.damage.append(text[line.start : line.end - 1])
                self.num_damaged += line.record is None
            if line.record is not None:
                self.documents.append((line.ordinal, line.record))
        self.num_records += decoded.num_records

    def dissolve(self, key: tuple[Shape, Any]) -> None:
        """Keep the records of a group as JSON."""
        rows = self.groups.pop(key)
        self.documents += zip(rows.ordinals, rows.records(), strict=True)
        self.documents.sort(key=itemgetter(0))

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


class PartNumbers:
    """The series of a part, the number of its records of each kind, and how far those reach.

    ``documented`` are the series that have points in records that are kept as JSON.
    """

    def __init__(self, content: PartContent) -> None:
        self.columns = PartColumns()
        self.kinds: Counter[str] = Counter()
        self.extents: dict[str, Extent] = {}
        for ordinal, record in content.documents:
            self._note(record["log"], 1, self.columns.add(record, ordinal=ordinal))
        self.documented = set(self.columns)
        for (shape, gpu), rows in content.groups.items():
            self._note(shape.kind, len(rows.ordinals), self.columns.add_rows(rows, gpu))
        self.names = sorted(self.columns, key=self.columns.first_ordinal)

    def _note(self, kind: str, count: int, extent: Extent) -> None:
        self.kinds[kind] += count
        self.extents[kind] = extent.joined(self.extents.get(kind, Extent(None, None)))


def read_content(path: Path) -> PartContent:
    """Read a whole part; raises ``NewerFormatError`` for one of a newer format."""
    content, decoder = PartContent(), LineDecoder()
    pieces: dict[tuple[Shape, Any], list[Rows]] = {}
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
            for rows in decoded.rows:
                for gpu, some in by_id(rows):
                    pieces.setdefault((rows.shape, gpu), []).append(some)
            content.take(decoded, lines)
            if nul >= 0:
                behind = file.read()
                content.journal_bytes += len(behind)
                content.journal_crc = zlib.crc32(behind, content.journal_crc)
                rest += behind
                break
    content.groups = {key: joined(some) for key, some in pieces.items()}
    if rest:
        content.damage.append(rest)
    return content
