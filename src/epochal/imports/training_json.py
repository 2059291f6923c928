"""A ``training.json``: one JSON array of records, whole, or cut in the middle of one.

The program that writes it replaces the closing bracket at every record, so the array is read
object by object, from where the last reading ended, and its end is never waited for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from epochal.imports.foreign import Batch, Identity, empty_points, file_signature
from epochal.imports.rows import RowReader
from epochal.imports.text_file import TextFile, files_in, identity_of
from epochal.record import Record

_PATTERNS = ("training.json", "*/training.json", "log-*.json", "*/log-*.json")
_BATCH_RECORDS = 8192
_PEEK_BYTES = 4096
_OBJECT = re.compile(r"[\s,\[\]]*(?=\{)")
_NEXT_LINE = re.compile(r"\n[\s,]*(?=\{)")
# How C and C++ print what JSON has no number for.
_BARE_WORD = re.compile(r"(?<=[:,\[\s])(-?)(nan|inf)(?:\([a-z]*\))?(?=[\s,}\]])")


def find(path: Path) -> TrainingJsonFiles | None:
    """The runs of a file or of a folder's files; None when they are no arrays of objects."""
    return TrainingJsonFiles(path) if _files(path) else None


def _files(path: Path) -> list[Path]:
    return [file for file in files_in(path, _PATTERNS) if _is_array_of_objects(file)]


def _is_array_of_objects(path: Path) -> bool:
    if path.suffix.lower() not in (".json", ".log"):
        return False
    with open(path, "rb") as file:
        start = file.read(_PEEK_BYTES).lstrip()
    rest = start[1:].lstrip()
    return start.startswith(b"[") and (rest[:1] == b"{" or rest in (b"", b"]"))


class TrainingJsonFiles:
    """Files with one array each, a run each."""

    label = "training.json"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._runs: dict[Path, TrainingJsonRun] = {}

    def runs(self) -> Sequence[TrainingJsonRun]:
        """Every file that is there."""
        self._runs = {f: self._runs.get(f) or TrainingJsonRun(f) for f in _files(self.path)}
        return list(self._runs.values())


class TrainingJsonRun:
    """One file."""

    def __init__(self, path: Path) -> None:
        self.key = f"{path.parent.name}/{path.name}"
        self._file = TextFile(path)
        self._rows = RowReader(t=self._file.changed)

    @property
    def identity(self) -> Identity:
        """Named after the file, or after its folder where it is called ``training.json``."""
        return identity_of(self._file.path, "training_json")

    @property
    def problems(self) -> Sequence[str]:
        """Objects that are no JSON."""
        return self._file.problems

    def signature(self) -> object:
        """Size and time of the file."""
        return file_signature(self._file.path)

    def read_new(self) -> Iterator[Batch]:
        """The records of whole objects written since."""
        records: list[Record] = []
        for row in self._objects():
            records += self._rows.records(row)
            if len(records) >= _BATCH_RECORDS:
                yield Batch(empty_points(), records)
                records = []
        if records:
            yield Batch(empty_points(), records)

    def blob(self, file: str) -> bytes:
        """There are none."""
        raise KeyError(file)

    def _objects(self) -> Iterator[dict[str, Any]]:
        # Every byte that is no UTF-8 has a stand-in, so that places can be counted in bytes.
        text = self._file.read_rest().decode("utf-8", "surrogateescape")
        place = 0
        while (start := _OBJECT.match(text, place)) is not None:
            found = _decode(text, start.end())
            if found is None:
                further = _NEXT_LINE.search(text, start.end())
                if further is None:
                    return  # being written, or cut
                begin = self._file.offset + _bytes(text[place : start.end()])
                self._file.say_damage(begin, "the object is no JSON")
                end = further.end()
            else:
                row, end = found
            self._file.offset += _bytes(text[place:end])
            place = end
            if found is not None:
                yield row


def _decode(text: str, start: int) -> tuple[dict[str, Any], int] | None:
    decoder = json.JSONDecoder()
    try:
        return decoder.raw_decode(text, start)
    except (ValueError, RecursionError):
        pass
    # The same without words in the place of numbers, as far as the line goes.
    end = text.find("\n", start)
    line = text[start : len(text) if end < 0 else end]
    plain = _BARE_WORD.sub(_json_word, line)
    if plain == line:
        return None
    try:
        row, used = decoder.raw_decode(plain)
    except (ValueError, RecursionError):
        return None
    rest = len(plain) - used  # what follows the object is the same in both
    return row, start + len(line) - rest


def _json_word(match: re.Match[str]) -> str:
    return "NaN" if match[2] == "nan" else f"{match[1]}Infinity"


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogateescape"))
