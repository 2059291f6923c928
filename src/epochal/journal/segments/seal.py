"""Turns a finished journal part into a segment: one Parquet file.

The file is written under a name that no reader looks at, opened again, brought to the disk and
renamed. Only then is the journal part deleted, so that its records are always in one of the two.
Bytes that are no record are kept beside the journal part, in a file with the suffix ``.damaged``.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from epochal.base.atomic_file import replaced_file, sync_folder, sync_or_rewrite
from epochal.errors import FormatError, UsageError
from epochal.journal.layout import PartName, RunFolder
from epochal.journal.rows import FieldPath
from epochal.journal.segments.blocks import write_blocks
from epochal.journal.segments.content import PartContent, read_content
from epochal.journal.segments.footer import KEY, VERSION, Column, Footer, Section, pack_summaries
from epochal.journal.segments.parts import is_sealable
from epochal.journal.segments.read import GROUP, JSON, LOG, Segment

_ABANDONED_S = 3600.0
_LATEST_MS = 2**52
# Fewer records with the same keys are kept as JSON.
_WORTH_COLUMNS = 64
# Cells of the table, empty ones included; records of keys beyond that are kept as JSON.
_MAX_CELLS = 1 << 24
_MAX_COLUMNS = 8192
_ROWS_IN_GROUP = 1 << 17
_NUMPY_TYPES: dict[type, Any] = {float: np.float64, int: np.int64, bool: np.bool_}


def seal_part(folder: RunFolder, name: PartName, *, into: Path | None = None) -> Segment:
    """Seal one part, and open its segment.

    With ``into``, the segment is a copy in that folder, and the journal part stays.

    Raises UsageError for a part that may still be written, FormatError when the segment cannot be
    read again; the journal is then as it was.
    """
    journal = folder.part_path(name)
    target = (folder.segments if into is None else into) / f"{name.stem}.parquet"
    if into is None and not (journal.exists() and is_sealable(folder, name)):
        raise UsageError(
            f"{journal} may still be written, or is not there: only finished parts can be sealed."
        )
    covered = _covers(target, journal) if target.exists() else False
    content = read_content(journal)
    if not covered:
        _write(content, name, target)
    elif into is None:  # whoever wrote it may have met a power cut or a fault before its name was
        sync_or_rewrite(target)
        sync_folder(target.parent)
        sync_folder(target.parent.parent)
    segment = Segment(target)
    if journal.stat().st_size != segment.journal_bytes:
        if into is None and not covered:
            target.unlink()
        raise UsageError(f"{journal} was written to while it was being sealed: try again later.")
    if into is None:
        if content.damage:
            with open(journal.with_name(f"{journal.name}.damaged"), "ab") as kept:
                kept.writelines(text + b"\n" for text in content.damage)
                kept.flush()
                os.fsync(kept.fileno())
            sync_folder(journal.parent)
        with contextlib.suppress(FileNotFoundError):  # another process has sealed it as well
            journal.unlink()
        sync_folder(journal.parent)
    return segment


def _write(content: PartContent, name: PartName, target: Path) -> None:
    """Make a segment appear under its name, complete and readable."""
    target.parent.mkdir(parents=True, exist_ok=True)
    _sweep(target)
    with replaced_file(target, durable=True) as temporary:
        write_segment(temporary, content, part=name.stem)
        with Segment(temporary) as segment:
            segment.check_pages()
            if segment.num_records != content.num_records or segment.damaged_blocks():
                raise FormatError(f"{name.stem} was not sealed: its segment lacks some records.")
    sync_folder(target.parent.parent)  # an earlier try may have made the folder and failed


def _sweep(target: Path) -> None:
    """Remove what an earlier attempt left that was killed; a young file may be someone's work."""
    for left in target.parent.glob(f".{target.name}.*.tmp"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - left.stat().st_mtime > _ABANDONED_S:
                left.unlink()


def _covers(target: Path, journal: Path) -> bool:
    """Whether a segment that is already there has all of the journal part.

    One that has less, or that is damaged, is written again from the journal. One that was made of
    other lines is never replaced: raises UsageError.
    """
    with contextlib.suppress(FormatError), Segment(target) as segment:
        size, checksum = segment.footer.journal_bytes, segment.footer.journal_crc
        text = journal.read_bytes()
        if zlib.crc32(text[:size]) != checksum:
            raise UsageError(f"{target} and {journal} hold different records: move one away.")
        segment.verify()
        return size == len(text)
    return False


# -- the file -------------------------------------------------------------------------------------


def write_segment(path: Path, content: PartContent, *, part: str) -> None:
    """Write a part as Parquet: a row for each record in file order."""
    _keep_rare_groups(content)
    cells = _Table(content.num_records)
    numbers = np.full(content.num_records, -1, dtype=np.int16)
    for number, group in enumerate(content.groups.values()):
        ordinals, arrays = group.arrays()
        numbers[ordinals] = number
        for key in group.types.items():
            cells[key].put(ordinals, arrays[key[0]])
    _put_positions(cells, content)
    columns = {
        LOG: _kinds(content, numbers),
        GROUP: pa.array(numbers, mask=numbers < 0),
        JSON: _texts(content),
    }
    described: list[Column] = []
    used = set(columns)
    for one in cells.values():
        name = _unused(".".join(one.path), used)
        columns[name], stored = one.array()
        described.append(Column(name, one.path, one.type.__name__, stored))
    table = pa.table(columns)
    numeric = [column for column in described if column.type in ("int", "float")]
    encodings = {
        column.name: "BYTE_STREAM_SPLIT" if "float" in column.stored else "DELTA_BINARY_PACKED"
        for column in numeric
    }
    texts = [column.name for column in described if column.type == "str"]
    with (
        open(path, "wb") as file,
        pq.ParquetWriter(
            file,
            table.schema,
            compression="zstd",
            compression_level=3,
            use_dictionary=[LOG, GROUP, *texts],
            column_encoding=encodings,
            write_statistics=False,
            write_page_checksum=True,
            store_schema=False,
        ) as writer,
    ):
        writer.write_table(table, row_group_size=_ROWS_IN_GROUP)
        blocks = list(write_blocks(file, content))
        footer = _footer(content, described, part=part, blocks=blocks)
        writer.add_key_value_metadata({KEY: footer.encode()})


def _keep_rare_groups(content: PartContent) -> None:
    """Keep records of rare keys as JSON, and those that would make the table mostly empty."""
    known: set[tuple[FieldPath, type]] = set()
    by_size = sorted(content.groups.items(), key=lambda item: -item[1].num_rows)
    for key, group in by_size:
        more = known | set(group.types.items())
        is_wide = len(more) > _MAX_COLUMNS or len(more) * content.num_records > _MAX_CELLS
        if group.num_rows < _WORTH_COLUMNS or is_wide:
            content.dissolve(key)
        else:
            known = more
    content.documents.sort(key=itemgetter(0))


def _put_positions(cells: _Table, content: PartContent) -> None:
    """Give records that are kept as JSON their step and time as well, for other programs."""
    documents, limit = content.documents, _LATEST_MS // 1000
    steps = [(d.ordinal, d.step) for d in documents if d.step is not None and abs(d.step) < limit]
    if steps:
        cells[("step",), int].put(*map(np.array, zip(*steps, strict=True)))
    times = [(d.ordinal, d.t) for d in documents if d.t is not None and abs(d.t) < limit]
    if times:
        ordinals, values = map(np.array, zip(*times, strict=True))
        fits = np.rint(values * 1000) / 1000 == values
        if fits.any():
            cells[("t",), float].put(ordinals[fits], values[fits])


class _Cells:
    """The values of one path and type for all rows; rows without one are empty."""

    def __init__(self, num_rows: int, path: FieldPath, kind: type) -> None:
        self.path, self.type = path, kind
        self._values: NDArray[Any] = np.zeros(num_rows, dtype=_NUMPY_TYPES.get(kind, object))
        self._is_empty = np.ones(num_rows, dtype=np.bool_)

    def put(self, places: NDArray[np.int64], values: Any) -> None:
        self._values[places] = values
        self._is_empty[places] = False

    def array(self) -> tuple[pa.Array, str]:
        """The column, and how its values are stored."""
        values, stored = self._values, {float: "float64", int: "int64"}.get(self.type, "")
        if self.type is float:
            with np.errstate(over="ignore", invalid="ignore"):
                small, ms = values.astype(np.float32), np.rint(values * 1000)
            is_ms = self.path == ("t",) and bool(np.all(np.abs(ms) < _LATEST_MS))
            if is_ms and np.array_equal(ms / 1000, values) and not np.signbit(values).any():
                values, stored = ms.astype(np.int64), "ms"
            elif np.array_equal(small, values, equal_nan=True):
                values, stored = small, "float32"
        mask = self._is_empty if self._is_empty.any() else None
        return pa.array(values, pa.string() if self.type is str else None, mask=mask), stored


class _Table(dict[tuple[FieldPath, type], _Cells]):
    """The columns of values by path and type; made when they are first asked for."""

    def __init__(self, num_rows: int) -> None:
        super().__init__()
        self._num_rows = num_rows

    def __missing__(self, key: tuple[FieldPath, type]) -> _Cells:
        made = self[key] = _Cells(self._num_rows, *key)
        return made


def _unused(name: str, used: set[str]) -> str:
    """A name for a column that no other has, whatever the case of its letters."""
    found, number = name, 2
    while found.lower() in used:
        found, number = f"{name}#{number}", number + 1
    used.add(found.lower())
    return found


def _kinds(content: PartContent, groups: NDArray[np.int16]) -> pa.Array:
    """The kind of each record, from the number of its group or from its document."""
    kinds = list(content.kinds)
    of_groups = [kinds.index(group.kind) for group in content.groups.values()]
    numbers = np.array([*of_groups, 0], np.int32)[groups]
    for document in content.documents:
        numbers[document.ordinal] = kinds.index(document.kind)
    return pa.DictionaryArray.from_arrays(pa.array(numbers), pa.array(kinds, pa.string()))


def _texts(content: PartContent) -> pa.Array:
    texts: list[str | None] = [None] * content.num_records
    for document in content.documents:
        texts[document.ordinal] = document.text
    return pa.array(texts, pa.string())


def _footer(
    content: PartContent, columns: list[Column], *, part: str, blocks: list[Section]
) -> Footer:
    kept, records = content.kept()
    summaries = content.numbers.summaries()
    return Footer(
        v=VERSION,
        part=part,
        num_records=content.num_records,
        num_damaged=content.num_damaged,
        num_malformed=content.numbers.num_malformed,
        journal_bytes=content.journal_bytes,
        journal_crc=content.journal_crc,
        kinds=dict(content.kinds),
        extents=content.extents,
        groups=[group.group for group in content.groups.values()],
        columns=columns,
        names=list(content.numbers),
        documented=[key for key in content.numbers if key in content.documented],
        packed=pack_summaries([summaries[key] for key in content.numbers]),
        kept=kept,
        records=records,
        blocks=blocks,
        events=content.fact_events() if "event" in content.listed.keys() - {*kept} else None,
    )
