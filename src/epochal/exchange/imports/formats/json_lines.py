"""JSON lines: one object per line, records or free metrics; follows a growing file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from epochal.exchange.imports.text_file import TextFileRun, TextFiles
from epochal.exchange.imports.values import json_value

ORDER = 60
IS_GENERAL = True


class JsonLinesRun(TextFileRun):
    """One file."""

    kind = "json_lines"

    def _objects(self) -> Iterator[dict[str, Any]]:
        """The objects of whole lines, and of a last one that is a whole object."""
        lines = self._read_rest().split(b"\n")
        for number, line in enumerate(lines):
            is_last = number == len(lines) - 1
            row = _object(line) if line.strip() else None
            if row is None and is_last:
                return  # being written
            if row is None and line.strip():
                self._said.say_damage(self.offset, "the line is no JSON object")
            self.offset += len(line) + (not is_last)
            if row is not None:
                yield row


class JsonLinesFiles(TextFiles[JsonLinesRun]):
    """Files of lines, a run each."""

    label = "JSON lines"
    suffixes = frozenset({".jsonl", ".ndjson", ".json", ".log"})
    patterns = ("*.jsonl", "*.ndjson")
    peek_bytes = 1024 * 1024
    run_type = JsonLinesRun

    @staticmethod
    def is_ours(start: bytes) -> bool:
        """Whether the first line is a JSON object."""
        first = start.lstrip().partition(b"\n")[0]
        return first.startswith(b"{") and _object(first) is not None


find = JsonLinesFiles.find


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        value = json_value(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
