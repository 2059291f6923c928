"""The metadata of a segment: what lists need of a part, and how to read its columns.

It is one JSON document among the key-value metadata of the Parquet file, so that no column has to
be read for a list of runs or for the summaries of a run.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from epochal.errors import FormatError
from epochal.journal.facts import Extent, SeriesKey
from epochal.journal.rows import FieldPath, Keys, paths_of
from epochal.journal.state import PartSummary
from epochal.records import Record

KEY = b"epochal.part"
VERSION = 1
# The kinds whose records are kept in the metadata, unless they take more than this.
KEPT_KINDS = (
    "run", "finish", "define", "resume", "option", "summary", "epoch", "event", "finding",
)  # fmt: skip
MAX_KEPT_BYTES = 64 * 1024
_DIGEST_CHARS = 32
_PLAIN_BYTES = 4096
_TYPES = {kind.__name__: kind for kind in (float, int, bool, str)}


class Group(NamedTuple):
    """Records with the same keys and types of values, of a kind whose series are named by its GPU
    of one GPU; ``types`` has the name of each type in the order of ``paths_of``.
    """

    kind: str
    keys: Keys
    types: tuple[str, ...]
    gpu: str
    num_rows: int

    def columns(self) -> dict[FieldPath, type]:
        """The type of the values of each path."""
        return dict(zip(paths_of(self.keys), map(_TYPES.__getitem__, self.types), strict=True))

    def records(self, columns: Iterable[Sequence[Any]], size: int) -> Iterator[Record]:
        """So many records, from the values of each path."""
        left = iter(columns)
        names: list[str] = ["log"]
        cells: list[Iterable[Any]] = [itertools.repeat(self.kind, size)]
        for name, members in self.keys:
            names.append(name)
            if members is None:
                cells.append(next(left))
            elif members:
                inside = zip(*(next(left) for _ in members), strict=True)
                cells.append([dict(zip(members, row, strict=True)) for row in inside])
            else:
                cells.append({} for _ in range(size))
        return (dict(zip(names, row, strict=True)) for row in zip(*cells, strict=True))


class Column(NamedTuple):
    """A column of the file: the path of its values, the name of their type, how they are stored.

    ``stored`` is "ms" for times in whole milliseconds, else the name of the Parquet type.
    """

    name: str
    path: FieldPath
    type: str
    stored: str


class Section(NamedTuple):
    """Where the block summaries of a series lie in the file, and their CRC-32.

    ``number`` is the place of the series among ``Footer.names``.
    """

    number: int
    offset: int
    size: int
    crc: int


class Footer(msgspec.Struct, dict=True, frozen=True, kw_only=True):
    """The metadata of one segment; ``records`` are those of the kinds in ``kept``.

    ``documented`` are the series that have points in records kept as JSON. ``packed`` has the
    summaries of the series in their order, as MessagePack, which can hold NaN. ``blocks`` are the
    block summaries of long series; segments of 0.2.0 have none. Where events are too many to be
    kept, ``events`` are the newest of those named in ``FACT_EVENTS``.
    """

    v: int
    part: str
    num_records: int
    num_damaged: int
    num_malformed: int
    journal_bytes: int
    journal_crc: int
    kinds: dict[str, int]
    extents: dict[str, Extent]
    groups: list[Group]
    columns: list[Column]
    names: list[SeriesKey]
    documented: list[SeriesKey]
    packed: bytes = msgspec.field(name="summaries")
    kept: list[str]
    records: list[tuple[int, Record]]
    blocks: list[Section] = []
    events: list[tuple[int, Record]] | None = None

    @cached_property
    def keys(self) -> dict[SeriesKey, None]:
        """The series of the part, in order of first appearance."""
        return dict.fromkeys(self.names)

    @cached_property
    def sections(self) -> dict[SeriesKey, Section]:
        """Where the block summaries of each long series are."""
        return {self.names[section.number]: section for section in self.blocks}

    @cached_property
    def summaries(self) -> dict[SeriesKey, PartSummary]:
        found = msgspec.msgpack.decode(zlib.decompress(self.packed), type=list[PartSummary])
        return dict(zip(self.names, found, strict=True))

    def encode(self) -> bytes:
        """The text that is kept in the file; other programs read it as a string."""
        text = msgspec.json.encode(self)
        if len(text) > _PLAIN_BYTES:
            text = base64.b64encode(zlib.compress(text, 3))
        return _digest(text) + text


def pack_summaries(summaries: list[PartSummary]) -> bytes:
    """Summaries as ``Footer.packed`` has them."""
    return zlib.compress(msgspec.msgpack.encode(summaries), 3)


def decode_footer(metadata: Mapping[bytes, bytes], *, file: str) -> Footer:
    """The metadata of a file; raises ``FormatError``, naming the file, where it cannot be read."""
    value = metadata.get(KEY)
    if value is None:
        raise FormatError(f"{file} is not a sealed part of a journal.")
    text = value[_DIGEST_CHARS:]
    if value[:_DIGEST_CHARS] != _digest(text):
        raise FormatError(f"{file} is damaged: its metadata does not have its checksum.")
    if not text.startswith(b"{"):
        text = zlib.decompress(base64.b64decode(text))
    if msgspec.json.decode(text, type=_Version).v > VERSION:
        raise FormatError(
            f"{file} was sealed by a newer Epochal: upgrade with 'pip install -U epochal'."
        )
    return msgspec.json.decode(text, type=Footer)


class _Version(msgspec.Struct):
    v: int


def _digest(text: bytes) -> bytes:
    return hashlib.blake2b(text, digest_size=_DIGEST_CHARS // 2).hexdigest().encode()
