"""Limits the rate of records: of thousands a second, rules see only some.

What passes depends on the records alone, never on the machine, so that a live run and a later
reading see the same. Records of other names (an evaluation among steps) are counted apart, and a
value that is not finite always passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

from epochal.journal.alike import AlikeRecords
from epochal.records import Record, finite

# Judging a hundred records a second costs about one percent of a core.
MOST_A_SECOND = 100
_DENSE = frozenset({"step", "metrics", "moe"})
# So many times the limit within one second of a run's clock, and the second is not waited for.
_BURST = 4
# Times on this side of it are finite.
_FAR = 1e300


class RateLimiter:
    """Decides record by record; a stride at most doubles at a time, so that rules can follow."""

    __slots__ = ("_streams",)

    def __init__(self) -> None:
        self._streams: dict[Any, _Stream] = {}

    def accepted(self, records: Iterable[Record], rank: int) -> list[Record]:
        """The records that the rules see."""
        if isinstance(records, AlikeRecords) and records.kind in _DENSE:
            return self._accepted_alike(records, rank)
        seen: list[Record] = []
        last_kind, last_names, stream = "", (), _Stream()
        # Here every record of a flood comes by: no calls, and no look-up in one stream.
        for record in records:
            kind = str(record.get("log"))
            if kind not in _DENSE or "nonfinite" in record:
                seen.append(record)
                continue
            metrics = record.get("m")
            names = tuple(metrics) if isinstance(metrics, dict) else ()
            if names != last_names or kind != last_kind:
                last_kind, last_names, stream = kind, names, self._stream(rank, kind, names)
            t = record.get("t")
            second = int(t if type(t) is float and -_FAR < t < _FAR else finite(t) or 0.0)
            if second != stream.second:
                stream.turn(second)
            stream.num_this_second += 1
            if stream.num_this_second > stream.burst:
                stream.scale(2 * stream.stride)
            stream.index += 1
            if stream.index % stream.stride == 0:
                seen.append(record)
        return seen

    def _accepted_alike(self, records: AlikeRecords, rank: int) -> list[Record]:
        """The same for records of one stream, a second of them at a time."""
        stream = self._stream(rank, records.kind, records.names)
        seen: list[Record] = []
        start = 0
        for second, some in groupby(map(int, records.times)):
            if second != stream.second:
                stream.turn(second)
            end = start + len(list(some))
            seen += [records[place] for place in stream.places(start, end)]
            start = end
        return seen

    def _stream(self, rank: int, kind: str, names: tuple[str, ...]) -> _Stream:
        key = (rank, kind, frozenset(names))  # whatever their order
        stream = self._streams.get(key)
        if stream is None:
            stream = self._streams[key] = _Stream()
        return stream


class _Stream:
    """Records of one rank, kind and set of names."""

    __slots__ = ("burst", "index", "num_this_second", "second", "stride")

    def __init__(self) -> None:
        self.index = 0
        self.second = 0
        self.num_this_second = 0
        self.scale(1)

    def scale(self, stride: int) -> None:
        """Let every so many-th record pass."""
        self.stride = stride
        self.burst = _BURST * MOST_A_SECOND * stride

    def places(self, start: int, end: int) -> Iterator[int]:
        """Which of some records in one second pass."""
        while start < end:
            if self.num_this_second >= self.burst:
                self.scale(2 * self.stride)
            size = min(end - start, self.burst - self.num_this_second)
            # The next one whose index is a multiple of the stride.
            first = start + self.stride - 1 - self.index % self.stride
            yield from range(first, start + size, self.stride)
            self.num_this_second += size
            self.index += size
            start += size

    def turn(self, second: int) -> None:
        """Begin another second of the run's clock."""
        count, self.num_this_second = self.num_this_second, 0
        is_next, self.second = second == self.second + 1, second
        if count > MOST_A_SECOND * self.stride:
            self.scale(2 * self.stride)
        elif self.stride > 1 and (not is_next or 2 * count < MOST_A_SECOND * self.stride):
            self.scale(self.stride // 2)
