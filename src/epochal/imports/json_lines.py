"""JSON lines: a row an object, in our own words or anybody's; read on as the file grows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from epochal.imports.foreign import Batch, Identity, empty_points, file_signature
from epochal.imports.rows import RowReader
from epochal.imports.text_file import TextFile, files_in, identity_of
from epochal.imports.values import json_value
from epochal.record import Record

_SUFFIXES = frozenset({".jsonl", ".ndjson", ".json", ".log"})
_PATTERNS = ("*.jsonl", "*.ndjson")
_BATCH_RECORDS = 8192
_PEEK_BYTES = 1024 * 1024


def find(path: Path) -> JsonLinesFiles | None:
    """The runs of a file or of a folder's files; None when they hold no JSON objects in lines."""
    return JsonLinesFiles(path) if _files(path) else None


def _files(path: Path) -> list[Path]:
    return [file for file in files_in(path, _PATTERNS) if _is_json_lines(file)]


def _is_json_lines(path: Path) -> bool:
    if path.suffix.lower() not in _SUFFIXES:
        return False
    with open(path, "rb") as file:
        first = file.read(_PEEK_BYTES).lstrip().partition(b"\n")[0]
    return first.startswith(b"{") and _object(first) is not None


class JsonLinesFiles:
    """Files of JSON lines, a run each."""

    label = "JSON lines"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._runs: dict[Path, JsonLinesRun] = {}

    def runs(self) -> Sequence[JsonLinesRun]:
        """Every file that is there."""
        self._runs = {f: self._runs.get(f) or JsonLinesRun(f) for f in _files(self.path)}
        return list(self._runs.values())


class JsonLinesRun:
    """One file."""

    def __init__(self, path: Path) -> None:
        self.key = path.name
        self._file = TextFile(path)
        self._rows = RowReader(t=self._file.changed)

    @property
    def identity(self) -> Identity:
        """Named after the file."""
        return identity_of(self._file.path, "json_lines")

    @property
    def problems(self) -> Sequence[str]:
        """Lines that are no JSON objects."""
        return self._file.problems

    def signature(self) -> object:
        """Size and time of the file."""
        return file_signature(self._file.path)

    def read_new(self) -> Iterator[Batch]:
        """The records of whole lines written since, and of a last one that is a whole object."""
        records: list[Record] = []
        lines = self._file.read_rest().split(b"\n")
        for number, line in enumerate(lines):
            is_last = number == len(lines) - 1
            row = _object(line) if line.strip() else None
            if row is None and is_last:
                break  # being written
            if row is not None:
                records += self._rows.records(row)
            elif line.strip():
                self._file.say_damage(self._file.offset, "the line is no JSON object")
            self._file.offset += len(line) + (not is_last)
            if len(records) >= _BATCH_RECORDS:
                yield Batch(empty_points(), records)
                records = []
        if records:
            yield Batch(empty_points(), records)

    def blob(self, file: str) -> bytes:
        """There are none."""
        raise KeyError(file)


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json_value(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
