"""Finished journal parts for tests of sealing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq

from epochal.journal.layout import PartName, RunFolder
from epochal.journal.line import encode_json
from epochal.journal.reader import read_part
from epochal.journal.segments.read import Segment
from epochal.journal.segments.seal import seal_part
from epochal.records import FORMAT_VERSION, Position, Record
from epochal.store.local.by_path import load_run

NAME = PartName("loop", 1, 0)
HEADER: Record = {"log": "run", "t": 1700000000.125, "v": FORMAT_VERSION, "writer": "loop"}
FINISH: Record = {"log": "finish", "t": 1700000999.5, "status": "finished"}


def lines(*records: Any) -> bytes:
    return b"".join(encode_json(record) + b"\n" for record in records)


def write_part(folder: Path, text: bytes, *, name: PartName = NAME) -> RunFolder:
    run_folder = RunFolder(folder)
    run_folder.journal.mkdir(parents=True, exist_ok=True)
    run_folder.part_path(name).write_bytes(text)
    return run_folder


def finished_part(folder: Path, *records: Record) -> RunFolder:
    return write_part(folder, lines(HEADER, *records, FINISH))


def sealed(folder: Path, *records: Record) -> Segment:
    return seal_part(finished_part(folder, *records), NAME)


def copied(folder: RunFolder, into: Path) -> Segment:
    return seal_part(folder, NAME, into=into)


def journal_texts(folder: RunFolder) -> list[bytes]:
    return texts(read_part(folder.part_path(NAME), NAME))


def texts(records: Iterable[tuple[Any, Record]]) -> list[bytes]:
    """JSON text tells ints from floats from bools; the order of keys does not matter."""
    return [msgspec.json.encode(record, order="sorted") for _, record in records]


def metrics(step: int, **values: Any) -> Record:
    return {"log": "metrics", "t": 1700000000 + step / 8, "step": step, "m": values}


def read_run(folder: RunFolder) -> list[tuple[Position, Record]]:
    """Every record of a run, writer by writer."""
    return list(load_run(folder.path).records())


def column_byte(segment: Path, name: str) -> int:
    """The place of a byte in the middle of the pages of a column."""
    metadata = pq.ParquetFile(segment).metadata.row_group(0)
    columns = map(metadata.column, range(metadata.num_columns))
    (column,) = (column for column in columns if column.path_in_schema == name)
    return int(column.data_page_offset + column.total_compressed_size // 2)


def flip(path: Path, place: int) -> None:
    """Change one bit of a file."""
    text = bytearray(path.read_bytes())
    text[place] ^= 4
    path.write_bytes(text)
