"""CSV tables of metrics: wide (a column a metric) or long (name, step, value), any separator.

The step, time and epoch columns are found by their usual names; a column ``run`` makes several runs
of one file. A table without a header has columns ``column_1``, ``column_2`` and so on. The last
line is left for later while it may still be being written.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from epochal.imports.foreign import Identity
from epochal.imports.text_file import STEP_NAMES, TIME_NAMES, TextFileRun, files_in, identity_of
from epochal.journal.regular_file import read_regular, regular_only
from epochal.journal.search_bounds import SearchBounds
from epochal.records import Record

ORDER = 70
IS_GENERAL = True
_SUFFIXES = frozenset({".csv", ".tsv"})
_PATTERNS = ("*.csv", "*.tsv", "*/metrics.csv")
_SEPARATORS = ",;\t|"
_NAME_COLUMNS = ("tag", "metric", "name", "key", "variable")
_RUN_COLUMNS = ("run", "run_name", "run_id")
_PEEK_BYTES = 64 * 1024
_MAX_RUNS = 10_000


def find(path: Path, bounds: SearchBounds | None = None) -> CsvFiles | None:
    """The runs of a table or of a folder's tables; None when there are none."""
    return CsvFiles(path, bounds) if _files(path, bounds) else None


def _files(path: Path, bounds: SearchBounds | None) -> list[Path]:
    return [file for file in files_in(path, _PATTERNS, bounds) if _is_table(file)]


def _is_table(path: Path) -> bool:
    if path.suffix.lower() not in _SUFFIXES:
        return False
    with open(path, "rb", opener=regular_only) as file:
        start = file.read(_PEEK_BYTES)
    return bool(start.strip()) and b"\0" not in start


class CsvFiles:
    """Tables: each is one run, or one run per value of a column."""

    label = "CSV"

    def __init__(self, path: Path, bounds: SearchBounds | None = None) -> None:
        self.path = path
        self._bounds = bounds
        self._runs: dict[tuple[Path, str | None], CsvRun] = {}

    def runs(self) -> Sequence[CsvRun]:
        """Every run of every table."""
        found: dict[tuple[Path, str | None], CsvRun] = {}
        for file in _files(self.path, self._bounds):
            for name in _run_names(file):
                found[file, name] = self._runs.get((file, name)) or CsvRun(file, name)
        self._runs = found
        return list(found.values())


class CsvRun(TextFileRun):
    """One table, or those of its rows that name one run."""

    def __init__(self, path: Path, run: str | None) -> None:
        super().__init__(path, path.name if run is None else f"{path.name}/{run}")
        self._run = run

    def rewind(self) -> None:
        """Begin at the first byte again."""
        super().rewind()
        self._layout: Layout | None = None
        self._line = 0

    @property
    def identity(self) -> Identity:
        """Named after the file, or by the column of runs."""
        return identity_of(self.path, "csv", key=self._run or "")

    def _new_records(self) -> Iterator[Record]:
        text = self._file.read_rest()
        if not self._file.is_settled:
            text = text[: text.rfind(b"\n") + 1]
        raw = text.splitlines(keepends=True)
        if not raw:
            return
        places = list(accumulate(map(len, raw), initial=self._file.offset))
        lines = _lines(text)
        if self._layout is None:
            self._layout = layout_of(lines)
        reader = csv.reader(lines, delimiter=self._layout.separator)
        is_header = self._line == 0 and self._layout.has_header
        while True:
            self._file.offset = places[reader.line_num]
            try:
                cells = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                self._file.say_damage(self._file.offset, str(error))
                continue
            self._line += 1
            if is_header or not any(map(str.strip, cells)):
                is_header = False
                continue
            yield from self._records(cells, self._layout)
        self._file.offset = places[-1]

    def _records(self, cells: Sequence[str], layout: Layout) -> Iterator[Record]:
        if len(cells) > len(layout.columns):
            self._file.say_damage(
                self._file.offset,
                f"line {self._line} has {len(cells)} cells, the header {len(layout.columns)}",
            )
        row: dict[str, Any] = {}
        for column, cell in zip(layout.columns, cells, strict=False):
            value = _value(cell, layout.separator)
            if value is not None:
                row[column] = value
        if layout.run_column is not None and str(row.pop(layout.run_column, "")) != self._run:
            return
        if layout.value_column is not None:
            row = layout.widened(row, otherwise=self._file.path.stem)
        yield from self._rows.records(row)


class Layout:
    """How a table is laid out: separator, names of columns, and which of them are special."""

    def __init__(self, separator: str, first: Sequence[str]) -> None:
        self.separator = separator
        self.has_header = any(isinstance(_value(cell, separator), str) for cell in first)
        if self.has_header:
            self.columns = _unique([cell.strip() for cell in first])
        else:
            self.columns = [f"column_{number}" for number in range(1, len(first) + 1)]
            if len(first) > 1 and isinstance(_value(first[0], separator), int):
                self.columns[0] = "step"
        lower = {column.lower(): column for column in reversed(self.columns)}
        self.run_column = next((lower[name] for name in _RUN_COLUMNS if name in lower), None)
        self.name_column: str | None = None
        self.value_column: str | None = None
        named = next((lower[name] for name in _NAME_COLUMNS if name in lower), None)
        plain = {*STEP_NAMES, *TIME_NAMES, *_RUN_COLUMNS, "value"}
        if "value" in lower and (named is not None or lower.keys() <= plain):
            self.name_column, self.value_column = named, lower["value"]

    def widened(self, row: Mapping[str, Any], *, otherwise: str) -> dict[str, Any]:
        """A row of a long table as one of a wide table."""
        wide = {k: v for k, v in row.items() if k not in (self.name_column, self.value_column)}
        name = str(row.get(self.name_column or "", otherwise))
        if self.value_column is not None and self.value_column in row:
            wide[name] = row[self.value_column]
        return wide


def layout_of(lines: Sequence[str]) -> Layout:
    """The layout that the first line of a table shows."""
    first = next((line for line in lines if line.strip()), "")
    separator = max(_SEPARATORS, key=lambda mark: len(_cells(first, mark)))
    return Layout(separator, _cells(first, separator))


def _run_names(path: Path) -> list[str | None]:
    """The runs of a table by a column; one without a name if there is no such column."""
    with open(path, "rb", opener=regular_only) as file:
        layout = layout_of(_lines(file.read(_PEEK_BYTES)))
    if layout.run_column is None or not layout.has_header:
        return [None]
    place = layout.columns.index(layout.run_column)
    names: dict[str | None, None] = {}
    reader = csv.reader(_lines(read_regular(path)), delimiter=layout.separator)
    while len(names) < _MAX_RUNS:
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error:
            continue
        if reader.line_num > 1 and place < len(cells) and cells[place].strip():
            names[str(_value(cells[place], layout.separator))] = None
    return list(names)


def _lines(text: bytes) -> list[str]:
    # Split before decoding: other characters that end lines may stand inside cells.
    lines = text.splitlines(keepends=True)
    return [line.decode("utf-8-sig", "replace").replace("\0", "") for line in lines]


def _cells(line: str, separator: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter=separator), [])
    except csv.Error:
        return [line]


def _value(cell: str, separator: str) -> float | int | str | None:
    """The value of a cell: a number, a text, or None if it is empty."""
    text = cell.strip()
    if not text or "_" in text:  # which Python would take for a part of a number
        return text or None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    if separator != "," and "," in text:
        try:
            return float(text.replace(",", "."))
        except ValueError:
            return text
    return {"true": 1, "false": 0}.get(text.lower(), text)


def _unique(names: Sequence[str]) -> list[str]:
    """Column names with numbers behind those that come again, so that none hides another."""
    found: dict[str, None] = {}
    # The number to try next for each name that came again.
    next_of: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        base = name or f"column_{number}"
        candidate, again = base, next_of.get(base, 2)
        while candidate in found:
            candidate, again = f"{base}_{again}", again + 1
        next_of[base] = again
        found[candidate] = None
    return list(found)
