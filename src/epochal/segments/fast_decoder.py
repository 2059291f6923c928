"""A short cut for the records a training loop writes: the same keys and types, step after step."""

from __future__ import annotations

from typing import Any

from epochal.records import Record
from epochal.segments.shape import EXACT_INT, LATEST_S, Shape

_PLAIN = frozenset("ktsfibuo)")
_OBJECT = "m"


def signature_of(record: Record) -> tuple[Any, ...] | None:
    """What two records must share to have one shape, types included; None for unusual ones."""
    metrics = record.get(_OBJECT)
    if metrics is None:
        return (record["log"], *record, *map(type, record.values()))
    if type(metrics) is not dict:
        return None
    return (
        record["log"],
        *record,
        *map(type, record.values()),
        *metrics,
        *map(type, metrics.values()),
    )


class Lane:
    """Takes records of one signature apart without a look at each value's type."""

    def __init__(self, record: Record, shape: Shape) -> None:
        names = list(record)
        self.is_open = (
            _PLAIN.issuperset(shape.codes)
            and names[0] == "log"
            and shape.codes.count("o") == (_OBJECT in record)
        )
        self._t = names.index("t") if "t" in shape.codes else -1
        self._object = names.index(_OBJECT) if _OBJECT in record else -1
        # Places among the values, the kind left out.
        valued = [code for code in shape.codes if code not in "ko)"]
        self._ints = [place for place, code in enumerate(valued) if code in "is"]

    def values(self, record: Record) -> list[Any] | None:
        """The values of a record; None when one of them needs a closer look."""
        row = list(record.values())
        if self._t >= 0:
            t = row[self._t]
            if not 0 < t < LATEST_S:
                return None
            milliseconds = round(t * 1000)
            if milliseconds / 1000 != t:
                return None
            row[self._t] = milliseconds
        if self._object >= 0:
            row[self._object : self._object + 1] = row[self._object].values()
        del row[0]
        for place in self._ints:
            if not -EXACT_INT <= row[place] <= EXACT_INT:
                return None
        return row
