"""Remembers where records that are not numbers lie in a part: 56 bytes each, whatever they hold."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from epochal.records import Axis
from epochal.store.local.columns import NO_STEP, Origin
from epochal.store.local.part import Part, Place


class RecordIndex:
    """The places of all records of one kind in a part, in the order they were read."""

    def __init__(self) -> None:
        self._numbers = array("q")  # ordinal, start, end, label, at
        self._times = array("d")
        self._labels: dict[str, int] = {}

    def add(self, ordinal: int, span: tuple[int, int], label: str, at: int, t: float) -> None:
        """Remember one more."""
        self._times.append(t)
        number = self._labels.setdefault(label, len(self._labels))
        self._numbers.extend((ordinal, *span, number, at))

    def of(self, origin: Origin, *, label: str | None) -> Iterator[Place]:
        """The places, of one label or of all."""
        labels, numbers = list(self._labels), iter(self._numbers)
        for t in self._times:
            ordinal, start, end, number, at = (next(numbers) for _ in range(5))
            if label in (None, labels[number]):
                yield Place(ordinal, origin, labels[number], at, t, (start, end))


class Candidate(NamedTuple):
    """A place, the part it lies in and its kind."""

    place: Place
    part: Part
    kind: str


def standing(
    candidates: Iterable[Candidate], *, axis: Axis, cuts: Mapping[int, int]
) -> list[Candidate]:
    """What stands of one kind: not overtaken by a newer attempt, nor replaced at its step."""
    chosen = sorted(candidates, key=lambda c: (not c.place.origin.is_child, c.place.origin.attempt))
    if axis not in ("step", "epoch"):
        return chosen
    last: dict[object, Candidate] = {}
    for candidate in chosen:
        place = candidate.place
        cut = cuts.get(place.origin.attempt)
        if cut is None or place.at < cut:
            known = place.at != NO_STEP
            key = (place.origin.rank, place.label, place.at) if known else id(candidate)
            last[key] = candidate
    return list(last.values())
