"""A ``training.json``: one JSON array of records, complete or truncated.

The program that writes it replaces the closing bracket at every record. So the array is read object
by object, from the position of the last reading, without waiting for its end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from epochal.exchange.imports.text_file import TextFileRun, TextFiles

ORDER = 45
_OBJECT = re.compile(r"[\s,\[\]]*(?=\{)")
_NEXT_LINE = re.compile(r"\n[\s,]*(?=\{)")
# How C and C++ print what JSON has no number for.
_BARE_WORD = re.compile(r"(?<=[:,\[\s])(-?)(nan|inf)(?:\([a-z]*\))?(?=[\s,}\]])")


class TrainingJsonRun(TextFileRun):
    """One file."""

    kind = "training_json"

    def _objects(self) -> Iterator[dict[str, Any]]:
        # Every byte that is no UTF-8 has a stand-in, so that places can be counted in bytes.
        text = self._read_rest().decode("utf-8", "surrogateescape")
        place = 0
        while (start := _OBJECT.match(text, place)) is not None:
            found = _decode(text, start.end())
            if found is None:
                further = _NEXT_LINE.search(text, start.end())
                if further is None:
                    return  # being written, or cut
                begin = self.offset + _bytes(text[place : start.end()])
                self._said.say_damage(begin, "the object is no JSON")
                end = further.end()
            else:
                row, end = found
            self.offset += _bytes(text[place:end])
            place = end
            if found is not None:
                yield row


class TrainingJsonFiles(TextFiles[TrainingJsonRun]):
    """Files that are an array of objects, a run each."""

    label = "training.json"
    suffixes = frozenset({".json", ".log"})
    patterns = ("training.json", "*/training.json", "log-*.json", "*/log-*.json")
    run_type = TrainingJsonRun

    @staticmethod
    def is_ours(start: bytes) -> bool:
        """Whether an array begins, with an object or with nothing yet."""
        start = start.lstrip()
        rest = start[1:].lstrip()
        return start.startswith(b"[") and (rest[:1] == b"{" or rest in (b"", b"]"))


find = TrainingJsonFiles.find


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
