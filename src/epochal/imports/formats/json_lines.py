"""JSON lines: one object per line, records or free metrics; follows a growing file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from epochal.imports.text_file import ObjectFiles, ObjectFormat, TextFile, files_in
from epochal.imports.values import json_value
from epochal.journal.regular_file import regular_only
from epochal.journal.search_bounds import SearchBounds

ORDER = 60
IS_GENERAL = True
_SUFFIXES = frozenset({".jsonl", ".ndjson", ".json", ".log"})
_PATTERNS = ("*.jsonl", "*.ndjson")
_PEEK_BYTES = 1024 * 1024


def find(path: Path, bounds: SearchBounds | None = None) -> ObjectFiles | None:
    """The runs of a file or of a folder's files; None if they have no lines of JSON objects."""
    return ObjectFiles(path, _FORMAT, bounds) if _files(path, bounds) else None


def _files(path: Path, bounds: SearchBounds | None) -> list[Path]:
    return [file for file in files_in(path, _PATTERNS, bounds) if _is_json_lines(file)]


def _is_json_lines(path: Path) -> bool:
    if path.suffix.lower() not in _SUFFIXES:
        return False
    with open(path, "rb", opener=regular_only) as file:
        first = file.read(_PEEK_BYTES).lstrip().partition(b"\n")[0]
    return first.startswith(b"{") and _object(first) is not None


def _objects(file: TextFile) -> Iterator[dict[str, Any]]:
    """The objects of whole lines, and of a last one that is a whole object."""
    lines = file.read_rest().split(b"\n")
    for number, line in enumerate(lines):
        is_last = number == len(lines) - 1
        row = _object(line) if line.strip() else None
        if row is None and is_last:
            return  # being written
        if row is None and line.strip():
            file.say_damage(file.offset, "the line is no JSON object")
        file.offset += len(line) + (not is_last)
        if row is not None:
            yield row


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json_value(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


_FORMAT = ObjectFormat("json_lines", "JSON lines", _files, _objects)
