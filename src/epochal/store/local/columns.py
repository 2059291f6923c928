"""What tells the series of a run apart, and what counts as a time."""

from __future__ import annotations

from typing import Any, NamedTuple

from epochal.segments.columns import NO_STEP, Names, SeriesKey, SeriesTable, seconds

__all__ = ["NO_STEP", "Names", "Origin", "SeriesKey", "SeriesTable", "seconds", "unix_time"]

# The year 9999, where calendars of most programs end.
_TIME_LIMIT = 253_402_300_800


class Origin(NamedTuple):
    """Who logged a point: attempts and children are told apart until they are merged."""

    rank: int
    is_child: bool
    attempt: int


def unix_time(value: Any) -> float | None:
    """A time of a file in Unix seconds; None for a value that is not a time."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < _TIME_LIMIT else None
