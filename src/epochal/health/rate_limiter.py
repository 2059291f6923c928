"""Limits the rate of records: of thousands a second, rules see a sample and the extremes.

Above the limit every n-th record passes. The records in between are skipped, except for those with
the smallest and the largest value of a series that rules read by role. They pass, marked as
extremes, before the next record that passes. So a spike of one step reaches the rules at any speed.

What passes depends on the records alone, never on the machine, so that a live run and a later
reading see the same. Records with other names (an evaluation among steps) are counted separately,
and a value that is not finite always passes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

from epochal.health.context import CURVE_ROLES, Roles
from epochal.records import KINDS, Record, finite

# Judging a hundred records a second costs about one percent of a core.
MOST_A_SECOND = 100
_DENSE = frozenset({"step", "metrics", "moe"})
# So many records within one second of a run's clock, and the second is not waited for.
_BURST = 4 * MOST_A_SECOND
# Times on this side of it are finite.
_FAR = 1e300

# Series that rules read by role: the name, and the keys that lead to its value in a record.
_Series = tuple[tuple[str, tuple[str, ...]], ...]


class Sample(NamedTuple):
    """A record that rules see.

    ``is_extreme``: it was skipped, but has the smallest or largest value of its interval.
    """

    record: Record
    is_extreme: bool = False


class RateLimiter:
    """Decides record by record; a stride at most doubles at a time, so that rules can follow."""

    __slots__ = ("_defines", "_ranges", "_streams", "num_accepted", "num_records")

    def __init__(self) -> None:
        self.num_records = 0
        self.num_accepted = 0
        self._streams: dict[Any, _Stream] = {}
        self._defines: list[Record] = []
        # By rank and series: the extremes among the records since the last one that passed.
        self._ranges: dict[int, dict[str, _Range]] = {}

    def accepted(self, records: Sequence[Record], rank: int) -> list[Sample]:
        """The records that the rules see, in order."""
        seen: list[Sample] = []
        last_kind, last_names, stream = "", (), _Stream(())
        ranges = self._ranges.setdefault(rank, {})
        # Here every record of a flood comes by: few calls, and no look-up in one stream.
        for record in records:
            kind = str(record.get("log"))
            if kind in _DENSE:
                metrics = record.get("m")
                names = tuple(metrics) if isinstance(metrics, dict) else ()
                if names != last_names or kind != last_kind:
                    last_kind, last_names, stream = kind, names, self._stream(rank, kind, names)
                self.num_records += 1
                if "nonfinite" not in record and not stream.accepts(record.get("t")):
                    values = _finite_values(record, stream.series)
                    if values is not None:
                        at = (self.num_records, record)
                        for name, value in values:
                            _note(ranges, name, value, at)
                        continue
                self.num_accepted += 1
            elif kind == "define":
                self._define(record)
            if ranges:
                seen += self._extremes(rank)
            seen.append(Sample(record))
        return seen

    def rest(self) -> Iterator[tuple[int, list[Sample]]]:
        """Each rank and the extremes of its last interval, which no record has ended."""
        for rank in self._ranges:
            yield rank, self._extremes(rank)

    def _extremes(self, rank: int) -> list[Sample]:
        """The extremes of the interval that ends, in the order of their records."""
        ranges = self._ranges[rank]
        found = dict(at for each in ranges.values() for at in (each.lowest_at, each.highest_at))
        ranges.clear()
        self.num_accepted += len(found)
        return [Sample(found[order], is_extreme=True) for order in sorted(found)]

    def _define(self, record: Record) -> None:
        """A series may have been given a role: look again which ones have."""
        self._defines.append(record)
        for (_, kind, names), stream in self._streams.items():
            stream.series = self._series(kind, names)

    def _stream(self, rank: int, kind: str, names: tuple[str, ...]) -> _Stream:
        key = (rank, kind, frozenset(names))  # whatever their order
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = _Stream(self._series(kind, names))
        return stream

    def _series(self, kind: str, names: Collection[str]) -> _Series:
        declared = KINDS[kind]
        paths: dict[str, tuple[str, ...]] = {name: ("m", name) for name in names}
        paths |= {declared.prefix + field: (field,) for field in declared.scalars}
        roles = Roles()
        for record in self._defines:
            roles.define(record)
        roles.meet(paths)
        found = (roles.names[role] for role in CURVE_ROLES if role in roles.names)
        return tuple((name, paths[name]) for name in found)


class _Range:
    """The smallest and the largest of some values; order and record of where each was first."""

    __slots__ = ("highest", "highest_at", "lowest", "lowest_at")

    def __init__(self, value: float, at: tuple[int, Record]) -> None:
        self.lowest = self.highest = value
        self.lowest_at = self.highest_at = at


def _note(ranges: dict[str, _Range], name: str, value: float, at: tuple[int, Record]) -> None:
    """Add a value of a series; ``at`` is the order of its record, and the record."""
    known = ranges.get(name)
    if known is None:
        ranges[name] = _Range(value, at)
    elif value < known.lowest:
        known.lowest, known.lowest_at = value, at
    elif value > known.highest:
        known.highest, known.highest_at = value, at


def _finite_values(record: Record, series: _Series) -> list[tuple[str, float]] | None:
    """The values of some series in a record; None where one of them is not finite."""
    values: list[tuple[str, float]] = []
    for name, path in series:
        value: Any = record
        for key in path:
            value = value.get(key)
        if isinstance(value, (int, float)):
            if not -math.inf < value < math.inf:
                return None
            values.append((name, value))
    return values


class _Stream:
    """Records of one rank, kind and set of names."""

    __slots__ = ("index", "num_this_second", "second", "series", "stride")

    def __init__(self, series: _Series) -> None:
        self.series = series
        self.index = 0
        self.second = 0
        self.num_this_second = 0
        self.stride = 1  # every so many-th record passes

    def accepts(self, t: Any) -> bool:
        """Whether the next record passes; ``t`` is its time."""
        second = int(t if type(t) is float and -_FAR < t < _FAR else finite(t) or 0.0)
        if second != self.second:
            self.turn(second)
        self.num_this_second += 1
        if self.num_this_second > _BURST * self.stride:
            self.stride *= 2
        self.index += 1
        return self.index % self.stride == 0

    def turn(self, second: int) -> None:
        """Begin another second of the run's clock."""
        count, self.num_this_second = self.num_this_second, 0
        is_next, self.second = second == self.second + 1, second
        if count > MOST_A_SECOND * self.stride:
            self.stride *= 2
        elif self.stride > 1 and (not is_next or 2 * count < MOST_A_SECOND * self.stride):
            self.stride //= 2
