"""Sorts what other trackers log under one name: numbers, texts, and objects with a type."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

import msgspec

from epochal.records import Record
from epochal.records.values import as_float, nonfinite_word

_MAX_DEPTH, _MOST_NESTED = 20, 50
_LARGEST = 2**63
# Larger than this, a time is in milliseconds (or in microseconds, or nanoseconds).
_YEAR_5138 = 1e11


class Sorted(msgspec.Struct):
    """The values of one row by what they are; names of nested ones are joined with dots."""

    numbers: dict[str, float | int] = {}
    texts: dict[str, str] = {}
    objects: dict[str, Mapping[str, Any]] = {}


def sort_values(values: Mapping[str, Any], *, type_key: str | None = None) -> Sorted:
    """Sort a row; a mapping with ``type_key`` is an object, any other is a group of values.

    What is neither (null, a list) is left out: no series of ours could show it.
    """
    found = Sorted()
    _sort_into(found, values, "", type_key, 0)
    return found


def plain_number(value: Any) -> float | int | None:
    """A number as a record stores it; a whole number beyond 64 bits is a float."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int):
        return value if -_LARGEST <= value < _LARGEST else as_float(value)
    return value if isinstance(value, float) else None


def number_of_text(text: Any) -> float | int | None:
    """The number that a text spells; None for any other."""
    for kind in (int, float):
        try:
            return kind(text)
        except (TypeError, ValueError):
            continue
    return None


def json_value(source: bytes | str) -> object:
    """JSON text as Python's own writer makes it: NaN and infinities are numbers there."""
    try:
        return msgspec.json.decode(source)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(source)


def json_safe(value: Any, *, depth: int = 0) -> Any:
    """A JSON value with nothing in it that our encoder refuses or loses without a word.

    Whole numbers beyond 64 bits become floats, nan and infinities words, and what is nested too
    deeply is left out.
    """
    if depth == _MOST_NESTED:
        return "…"
    if isinstance(value, Mapping):
        return {str(k): json_safe(v, depth=depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_safe(item, depth=depth + 1) for item in value]
    if isinstance(value, int) and not isinstance(value, bool):
        value = plain_number(value)
    if isinstance(value, float) and not math.isfinite(value):
        return nonfinite_word(value)
    return value


def unix_seconds(value: Any) -> float | None:
    """A time in any of the usual forms (number, ISO text) in Unix seconds; None if it is none."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return iso_seconds(value)
    number = plain_number(value)
    if number is None or isinstance(value, bool):
        return None
    seconds = float(number)
    for _ in range(3):
        if abs(seconds) < _YEAR_5138:
            return seconds
        seconds /= 1000.0
    return None


def iso_seconds(text: str, *, zone: timezone | None = None) -> float | None:
    """An ISO time in Unix seconds; one without a zone is in this zone, or in the local one."""
    try:
        # Python 3.10 reads no "Z".
        moment = datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
        return moment.replace(tzinfo=moment.tzinfo or zone).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


def _sort_into(
    found: Sorted, values: Mapping[str, Any], prefix: str, type_key: str | None, depth: int
) -> None:
    for key, value in values.items():
        name = f"{prefix}{key}" or "unnamed"
        number = plain_number(value)
        if number is not None:
            found.numbers[name] = number
        elif isinstance(value, str):
            if value in ("NaN", "Infinity", "-Infinity"):  # how some write them as JSON
                found.numbers[name] = float(value)
            else:
                found.texts[name] = value
        elif isinstance(value, Mapping):
            if type_key is not None and type_key in value:
                found.objects[name] = value
            elif depth < _MAX_DEPTH:
                _sort_into(found, value, f"{name}.", type_key, depth + 1)


OWN_PREFIX = "epochal."
SUMMARY_PREFIX = f"{OWN_PREFIX}summary."
_FACTS = ("group", "job_type")


def own_facts(named: Mapping[str, Any]) -> dict[str, str]:
    """Group and job type, as far as they are among the texts of a tracker."""
    found = {fact: named.get(f"{OWN_PREFIX}{fact}") for fact in _FACTS}
    return {fact: str(text) for fact, text in found.items() if text}


class SummaryReader:
    """Makes the records of a run's summary, and later of what has changed in it."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}

    def records(self, named: Mapping[str, Any], t: float) -> Iterator[Record]:
        """A record for each value that is new or has changed."""
        for key, value in named.items():
            name = key.removeprefix(SUMMARY_PREFIX)
            is_old = name in self._values and self._values[name] == value
            if name == key or is_old:
                continue
            self._values[name] = value
            yield {"log": "summary", "t": t, "name": name, "value": json_safe(value)}
