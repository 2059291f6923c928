"""CSV tables of metrics: wide (a column a metric) or long (name, step, value), any separator.

The step, time and epoch columns are found by their usual names; a column ``run`` makes several runs
of one file. The first line names the columns. The last line is left for later while it may still be
being written.
"""

from __future__ import annotations

import contextlib
import csv
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from epochal.exchange.imports.foreign import Identity
from epochal.exchange.imports.text_file import (
    STEP_NAMES,
    TIME_NAMES,
    TextFileRun,
    TextFiles,
    beginning,
)
from epochal.exchange.imports.values import number_of_text
from epochal.journal.regular_file import read_regular

ORDER = 70
IS_GENERAL = True
_SEPARATORS = ",;\t|"
_NAME_COLUMNS = ("tag", "metric", "name", "key", "variable")
_RUN_COLUMNS = ("run", "run_name", "run_id")


class CsvRun(TextFileRun):
    """One table, or those of its rows that name one run."""

    kind = "csv"

    def __init__(self, path: Path, run: str | None) -> None:
        super().__init__(path, path.name if run is None else f"{path.name}/{run}")
        self._run = run

    def rewind(self) -> None:
        super().rewind()
        self._layout: Layout | None = None
        self._line = 0

    @property
    def identity(self) -> Identity:
        """Named after the file, or by the column of runs."""
        return self._named(self._run or "")

    def _objects(self) -> Iterator[dict[str, Any]]:
        text = self._read_rest()
        if not self.is_settled:
            text = text[: text.rfind(b"\n") + 1]
        raw = text.splitlines(keepends=True)
        if not raw:
            return
        places = list(accumulate(map(len, raw), initial=self.offset))
        lines = _lines(text)
        if self._layout is None:
            self._layout = layout_of(lines)
        reader = csv.reader(lines, delimiter=self._layout.separator)
        is_header = self._line == 0
        while True:
            self.offset = places[reader.line_num]
            try:
                cells = next(reader)
            except StopIteration:
                break
            except csv.Error as error:
                self._said.say_damage(self.offset, str(error))
                continue
            self._line += 1
            if is_header or not any(map(str.strip, cells)):
                is_header = False
                continue
            row = self._row(cells, self._layout)
            if row is not None:
                yield row
        self.offset = places[-1]

    def _row(self, cells: Sequence[str], layout: Layout) -> dict[str, Any] | None:
        if len(cells) > len(layout.columns):
            what = f"line {self._line} has {len(cells)} cells, the header {len(layout.columns)}"
            self._said.say_damage(self.offset, what)
        named = zip(layout.columns, cells, strict=False)
        values = {column: _value(cell, layout.separator) for column, cell in named}
        row = {column: value for column, value in values.items() if value is not None}
        if layout.run_column is not None and str(row.pop(layout.run_column, "")) != self._run:
            return None
        return layout.widened(row, otherwise=self.path.stem) if layout.value_column else row


class CsvFiles(TextFiles[CsvRun]):
    """Tables: each is one run, or one run per value of a column."""

    label = "CSV"
    suffixes = frozenset({".csv", ".tsv"})
    patterns = ("*.csv", "*.tsv", "*/metrics.csv")
    run_type = CsvRun

    @staticmethod
    def is_ours(start: bytes) -> bool:
        """Whether the file has any text."""
        return bool(start.strip()) and b"\0" not in start

    def listed(self) -> Iterator[tuple[tuple[Path, str | None], None]]:
        """Every run of every table."""
        for file in self.files():
            for name in _run_names(file):
                yield (file, name), None


find = CsvFiles.find


class Layout:
    """How a table is laid out: separator, names of columns, and which of them are special."""

    def __init__(self, separator: str, header: Sequence[str]) -> None:
        self.separator = separator
        self.columns = _unique([cell.strip() for cell in header])
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
    layout = layout_of(_lines(beginning(path, CsvFiles.peek_bytes)))
    if layout.run_column is None:
        return [None]
    place = layout.columns.index(layout.run_column)
    names: dict[str | None, None] = {}
    reader = csv.reader(_lines(read_regular(path)), delimiter=layout.separator)
    with contextlib.suppress(csv.Error):
        for cells in itertools.islice(reader, 1, None):
            if place < len(cells) and cells[place].strip():
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
    if (number := number_of_text(text)) is not None:
        return number
    if separator != "," and re.fullmatch(r"-?\d+,\d+", text):
        return float(text.replace(",", "."))
    return {"true": 1, "false": 0}.get(text.lower(), text)


def _unique(names: Sequence[str]) -> list[str]:
    """Column names with numbers behind those that come again, so that none hides another."""
    seen: Counter[str] = Counter()
    columns = []
    for number, name in enumerate(names, 1):
        column = name or f"column_{number}"
        seen[column] += 1
        columns.append(column if seen[column] == 1 else f"{column}_{seen[column]}")
    return columns
