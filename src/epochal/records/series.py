"""Reads a record by its declaration: its axis, its time, and the numbers that are series.

A record is one JSON object. ``log`` is its kind, ``t`` Unix seconds, ``step`` where it has one,
then the kind's own fields. Free metrics are in ``m``, so no user's name is ever reserved.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from epochal.records.kind import ROLES, Axis, Field, Kind, Role
from epochal.records.kinds import KINDS, declared_series
from epochal.records.kinds.machine import ALLOCATOR, ALLOCATOR_PLACES
from epochal.records.kinds.training import EPOCH, METRICS
from epochal.records.values import as_float

FORMAT_VERSION = 1
# While a companion sees the process of its run alive, it writes something about this often.
HEARTBEAT_EVERY_S = 30.0
_LARGEST = sys.float_info.max
_RESOURCES = "resources/"


class Position(NamedTuple):
    """The position of a record: no byte offset, so it stays valid after sealing and copying."""

    writer: str
    attempt: int
    part: int
    ordinal: int

    def __str__(self) -> str:
        return f"{self.writer}.{self.attempt:04d}.{self.part:04d}.{self.ordinal}"


def moment_of(record: Mapping[str, Any]) -> float:
    """When a record was written, in Unix seconds; 0 where it does not say."""
    at = finite(record.get("t"))
    return 0.0 if at is None else at


def finite(value: Any) -> float | None:
    """A field's number, as a float; None for anything that is no finite number."""
    # An integer beyond every float cannot be asked whether it is finite.
    if not isinstance(value, (int, float)) or not -_LARGEST <= value <= _LARGEST:
        return None
    return float(value)


def whole_number(value: Any) -> int | None:
    """A step or epoch as 64 bits hold it; None for anything that is not one."""
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if -(2**63) <= value < 2**63 else None


def axis_of(record: Mapping[str, Any]) -> Axis:
    """The axis of a record; unknown kinds with a step are on the step axis."""
    kind = KINDS.get(str(record.get("log")))
    if kind is not None:
        return kind.axis
    return "step" if "step" in record else "none"


def scalars_of(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Every (series name, value) of a record as floats, non-finite values included."""
    for name, number in numbers_of(record):
        yield name, as_float(number)


def scalars_by_name(record: Mapping[str, Any]) -> dict[str, float]:
    """``scalars_of`` as a dict."""
    metrics: Any = record.get("m")
    is_free = type(metrics) is dict and record.get("log") == METRICS.name
    if is_free and set(map(type, metrics.values())) == {float}:
        return dict(metrics)  # nearly every record of a training
    return dict(scalars_of(record))


def numbers_of(record: Mapping[str, Any]) -> Iterator[tuple[str, float | int]]:
    """Like ``scalars_of``, with whole numbers as they were written."""
    words = _words(record)
    yield from _items(record, "m", "", words)
    kind = KINDS.get(str(record.get("log")))
    if kind is None:
        return
    if kind is ALLOCATOR:
        yield from _allocator_scalars(record)
        return
    for field in kind.objects:
        yield from _items(record, field, kind.prefix, words)
    if not kind.scalars:
        return
    for field, name in kind.series_names(record).items():
        number = _number(record[field], field, words)
        if number is not None:
            yield name, number


def stored_numbers_of(record: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Like ``scalars_of``, with an epoch's duration and resources, which trackers do not get."""
    yield from scalars_of(record)
    if record.get("log") != EPOCH.name:
        return
    resources = record.get("resources")
    extras = {"epoch/duration_s": record.get("duration_s")}
    if isinstance(resources, Mapping):
        extras |= {f"{_RESOURCES}{name}": value for name, value in resources.items()}
    for name, value in extras.items():
        if isinstance(value, (int, float)):
            yield name, as_float(value)


def unit_of(series: str) -> str:
    """The unit of a declared series; empty where it has none, and for free metrics."""
    field = _BY_SERIES.get(series)
    if field is None:
        group, _, _ = series.partition("/")
        field = _BY_GROUP.get(f"{group}/", {}).get(series.rpartition("/")[2])
    return "" if field is None else field.unit


def _items(
    record: Mapping[str, Any], field: str, prefix: str, words: Mapping[str, str]
) -> Iterator[tuple[str, float | int]]:
    """The series of an object, one for each of its items."""
    items = record.get(field)
    if isinstance(items, Mapping):
        for name, value in items.items():
            number = _number(value, word_key(name, record) if value is None else name, words)
            if number is not None:
                yield f"{prefix}{name}" if prefix else name, number


def _words(record: Mapping[str, Any]) -> Mapping[str, str]:
    words = record.get("nonfinite")
    if not isinstance(words, Mapping):
        return {}
    return {name: word for name, word in words.items() if word in ("nan", "inf", "-inf")}


def word_key(name: str, record: Mapping[str, Any]) -> str:
    """Where ``nonfinite`` keeps the word of a name inside ``m``, apart from a field's."""
    return f"m.{name}" if name in record else name


def _allocator_scalars(record: Mapping[str, Any]) -> Iterator[tuple[str, float | int]]:
    prefix = ALLOCATOR.prefix + (f"gpu{record['id']}/" if "id" in record else "")
    stats = record.get("stats")
    for segment in stats if isinstance(stats, list) else ():
        if not isinstance(segment, Mapping):
            continue
        for place in ALLOCATOR_PLACES:
            number = _number(segment.get(place), place, {})
            if number is not None:
                yield f"{prefix}{segment.get('name')}/{place}", number


def _number(value: Any, key: str, words: Mapping[str, str]) -> float | int | None:
    """A number, or the word for one that JSON cannot represent."""
    if isinstance(value, (int, float)):
        return value
    word = words.get(key) if value is None else None
    return None if word is None else float(word)


def _scalar_fields(kind: Kind) -> dict[str, Field]:
    return {name: kind[name] for name in kind.scalars}


_BY_SERIES: Mapping[str, Field] = dict(declared_series())
# Where something stands between the prefix and the field's name, or the prefix is of an object.
_BY_GROUP: Mapping[str, Mapping[str, Field]] = {
    **{kind.prefix: _scalar_fields(kind) for kind in KINDS.values() if kind.by_id},
    ALLOCATOR.prefix: {field.name: field for field in ALLOCATOR["stats"].fields},
    _RESOURCES: {field.name: field for field in EPOCH["resources"].fields},
}


_OTHER_NAMES: Mapping[Role, str] = {
    "loss": "loss train_loss Loss/train total_loss training_loss",
    "eval_loss": (
        "val/loss val_loss eval_loss valid/loss validation/loss Loss/validation test/loss test_loss"
    ),
    "norm": "grad_norm train/grad_norm norm gradient_norm Gradient/norm",
    "lr": "lr learning_rate train/learning_rate Learning_Rate/lr",
    "throughput": (
        "tokens_per_second tokens_per_sec samples_per_second Performance/tokens_per_sec"
    ),
}
_DECLARED = {field.role: name for name, field in declared_series() if field.role is not None}
# Names tried in this order when no metric was defined with the role; the first that exists is it.
ROLE_GUESSES: Mapping[str, tuple[str, ...]] = {
    role: (_DECLARED[role], *_OTHER_NAMES[role].split()) for role in ROLES
}
# The role that each of those names is a guess for.
GUESSED_ROLE: Mapping[str, str] = {
    name: role for role, names in ROLE_GUESSES.items() for name in names
}
