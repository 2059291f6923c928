"""A ``training.json``: one JSON array of records, complete or truncated.

The program that writes it replaces the closing bracket at every record. So the array is read object
by object, from the position of the last reading, without waiting for its end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from epochal.imports.text_file import ObjectFiles, ObjectFormat, TextFile, files_in
from epochal.journal.regular_file import regular_only
from epochal.journal.search_bounds import SearchBounds

ORDER = 45
_PATTERNS = ("training.json", "*/training.json", "log-*.json", "*/log-*.json")
_PEEK_BYTES = 4096
_OBJECT = re.compile(r"[\s,\[\]]*(?=\{)")
_NEXT_LINE = re.compile(r"\n[\s,]*(?=\{)")
# How C and C++ print what JSON has no number for.
_BARE_WORD = re.compile(r"(?<=[:,\[\s])(-?)(nan|inf)(?:\([a-z]*\))?(?=[\s,}\]])")


def find(path: Path, bounds: SearchBounds | None = None) -> ObjectFiles | None:
    """The runs of a file or of a folder's files; None when they are no arrays of objects."""
    return ObjectFiles(path, _FORMAT, bounds) if _files(path, bounds) else None


def _files(path: Path, bounds: SearchBounds | None) -> list[Path]:
    return [file for file in files_in(path, _PATTERNS, bounds) if _is_array_of_objects(file)]


def _is_array_of_objects(path: Path) -> bool:
    if path.suffix.lower() not in (".json", ".log"):
        return False
    with open(path, "rb", opener=regular_only) as file:
        start = file.read(_PEEK_BYTES).lstrip()
    rest = start[1:].lstrip()
    return start.startswith(b"[") and (rest[:1] == b"{" or rest in (b"", b"]"))


def _objects(file: TextFile) -> Iterator[dict[str, Any]]:
    # Every byte that is no UTF-8 has a stand-in, so that places can be counted in bytes.
    text = file.read_rest().decode("utf-8", "surrogateescape")
    place = 0
    while (start := _OBJECT.match(text, place)) is not None:
        found = _decode(text, start.end())
        if found is None:
            further = _NEXT_LINE.search(text, start.end())
            if further is None:
                return  # being written, or cut
            begin = file.offset + _bytes(text[place : start.end()])
            file.say_damage(begin, "the object is no JSON")
            end = further.end()
        else:
            row, end = found
        file.offset += _bytes(text[place:end])
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


_FORMAT = ObjectFormat("training_json", "training.json", _files, _objects)
