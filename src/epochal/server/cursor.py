"""Cursors as text, for the id of a server-sent event and for URLs.

``<run>:<writer>.<attempt>.<part>.<ordinal>,…;<run>:…`` with the run's id percent-encoded. It names
the last record read of each writer, so it stays valid on another server and after a restart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote, unquote

from epochal.errors import UsageError
from epochal.records import Position
from epochal.store.answers import Cursor

Cursors = Mapping[str, Cursor]

MAX_CHARACTERS = 32_768
_POSITION = re.compile(r"([a-z0-9][a-z0-9_-]*)\.(-?\d{1,9})\.(\d{1,9})\.(\d{1,18})")


def format_cursors(cursors: Cursors) -> str:
    """Format the position of each run."""
    return ";".join(
        f"{quote(run, safe='')}:{','.join(format_position(p) for p in cursor.values())}"
        for run, cursor in cursors.items()
    )


def format_position(position: Position) -> str:
    """Format one position."""
    return f"{position.writer}.{position.attempt}.{position.part}.{position.ordinal}"


def parse_cursors(texts: Iterable[str]) -> dict[str, Cursor]:
    """Parse cursors; later texts replace earlier ones. Raises ``UsageError``."""
    cursors: dict[str, Cursor] = {}
    for text in texts:
        if len(text) > MAX_CHARACTERS:
            raise UsageError(f"since= has more than {MAX_CHARACTERS} characters.")
        for one in filter(None, text.split(";")):
            run, colon, positions = one.partition(":")
            if not run or not colon:
                raise UsageError(f"since={one!r} is not a position: it has no run.")
            cursors[unquote(run)] = _parse_positions(positions)
    return cursors


def _parse_positions(text: str) -> dict[str, Position]:
    cursor: dict[str, Position] = {}
    for one in filter(None, text.split(",")):
        match = _POSITION.fullmatch(one)
        if match is None:
            raise UsageError(f"since={one!r} is not a position: use writer.attempt.part.ordinal.")
        writer, attempt, part, ordinal = match.groups()
        cursor[writer] = Position(writer, int(attempt), int(part), int(ordinal))
    return cursor


def is_within(cursor: Cursor, end: Cursor) -> bool:
    """Whether every position of a cursor is at or before the end."""
    return all(
        writer in end and position[1:] <= end[writer][1:] for writer, position in cursor.items()
    )
