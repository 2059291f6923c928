"""The metadata of a segment: what lists need of a part, and how to read its columns.

It is one JSON document among the key-value metadata of the Parquet file, so that no column has to
be read for a list of runs or for the summaries of a run.
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import msgspec

from epochal.errors import FormatError
from epochal.journal.layout import LOOP, PartName, RunFolder, json_or_empty
from epochal.journal.process import liveness, read_header
from epochal.journal.reader import records_from_end
from epochal.journal.rows import FieldPath, Keys, paths_of
from epochal.journal.segments.columns import Extent, PartSummary, SeriesKey
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


class Footer(msgspec.Struct, dict=True, frozen=True, kw_only=True):
    """The metadata of one segment; ``records`` are those of the kinds in ``kept``.

    ``documented`` are the series that have points in records kept as JSON. ``packed`` has the
    summaries of the series in their order, as MessagePack, which can hold NaN.
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

    @cached_property
    def keys(self) -> dict[SeriesKey, None]:
        """The series of the part, in order of first appearance."""
        return dict.fromkeys(self.names)

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


# Smaller parts are read as quickly as they are, and would hardly shrink: they are not sealed.
WORTH_SEALING_BYTES = 64 * 1024
# A thread may be inside a write while another has already turned to the next part.
_SETTLED_S = 5.0
# Companions go on for half a minute after their run has finished.
_OUT_OF_SIGHT_S = 120.0
_END_BYTES = 64 * 1024


def sealable_parts(folder: RunFolder) -> list[PartName]:
    """The journal parts that are complete.

    A part is complete if a later one of the same writer and attempt follows it. The newest part is
    complete if its writer recorded its end, or if its process is gone. A writer on another machine
    that has not finished counts as living. An imported run was complete when its folder appeared.
    """
    return [part for part in folder.parts() if is_sealable(folder, part)]


def is_sealable(folder: RunFolder, part: PartName) -> bool:
    """Whether one journal part is complete; looks at no other part but the next one."""
    following = folder.part_path(part._replace(part=part.part + 1))
    if following.exists():
        return _age_s(folder, part) >= _SETTLED_S
    return _has_ended(folder, part)


def _has_ended(folder: RunFolder, part: PartName) -> bool:
    if has_finish(folder, part):
        return True
    header = read_header(folder.part_path(part))
    if "pid" not in header and "source" in json_or_empty(folder.identity):
        return True  # it was imported
    seen = liveness(header)
    if seen != "unknown":
        return seen == "dead"
    if part.writer == LOOP or _age_s(folder, part) < _OUT_OF_SIGHT_S:
        return False
    return _loop_has_ended(folder, part.attempt)


def _loop_has_ended(folder: RunFolder, attempt: int) -> bool:
    """Whether the newest part of rank 0 ends with ``finish``; its last part is sealed after that.

    A run of a thousand ranks is not listed for it.
    """
    last = PartName(LOOP, attempt, 0)
    while _exists(folder, following := last._replace(part=last.part + 1)):
        last = following
    return has_finish(folder, last) or folder.sealed_path(last).exists()


def _exists(folder: RunFolder, part: PartName) -> bool:
    return folder.part_path(part).exists() or folder.sealed_path(part).exists()


def has_finish(folder: RunFolder, part: PartName) -> bool:
    """Whether a journal part ends with ``finish``; reads only the end of the file."""
    try:
        last = records_from_end(folder.part_path(part), most_bytes=_END_BYTES)
        return any(record["log"] == "finish" for record in last)
    except FileNotFoundError:
        return False


def _age_s(folder: RunFolder, part: PartName) -> float:
    """How long ago a part was written to; less than 0 when it is gone."""
    try:
        return max(0.0, time.time() - folder.part_path(part).stat().st_mtime)
    except FileNotFoundError:
        return -1.0
