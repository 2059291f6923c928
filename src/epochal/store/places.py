"""Remembers where records that are not numbers lie: 57 bytes each, whatever they hold."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from epochal.record import Axis
from epochal.store.columns import NO_STEP, Origin
from epochal.store.parts import Span


class Place(NamedTuple):
    """One record: who wrote it, where it lies, and what orders and replaces it."""

    part: int
    ordinal: int
    span: Span
    origin: Origin
    label: str
    at: int
    t: float


class Places:
    """The places of all records of one kind, in the order they were read."""

    def __init__(self, axis: Axis) -> None:
        self.axis = axis
        self._numbers = array("q")  # part, ordinal, start, end, origin, label, at
        self._times = array("d")
        self._origins: dict[Origin, int] = {}
        self._labels: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._times)

    def add(self, place: Place) -> None:
        """Remember one more."""
        self._times.append(place.t)
        self._numbers.extend(
            (
                place.part,
                place.ordinal,
                *place.span,
                self._origins.setdefault(place.origin, len(self._origins)),
                self._labels.setdefault(place.label, len(self._labels)),
                place.at,
            )
        )

    def __iter__(self) -> Iterator[Place]:
        origins, labels, numbers = list(self._origins), list(self._labels), iter(self._numbers)
        for t in self._times:
            part, ordinal, start, end, origin, label, at = (next(numbers) for _ in range(7))
            yield Place(part, ordinal, Span(start, end), origins[origin], labels[label], at, t)


def standing(
    places: Places, *, cuts: dict[int, int], rank: int | None, label: str | None
) -> list[Place]:
    """What stands of one kind: not overtaken by a newer attempt, nor replaced at its step."""
    chosen = [
        place
        for place in places
        if rank in (None, place.origin.rank)
        and label in (None, place.label)
        and (places.axis not in ("step", "epoch") or _is_visible(place, cuts))
    ]
    chosen.sort(key=lambda place: (not place.origin.is_child, place.origin.attempt))
    if places.axis not in ("step", "epoch"):
        return chosen
    last: dict[object, Place] = {}
    for place in chosen:
        known = place.at != NO_STEP
        key = (place.origin.rank, place.label, place.at) if known else id(place)
        last[key] = place
    return list(last.values())


def _is_visible(place: Place, cuts: dict[int, int]) -> bool:
    cut = cuts.get(place.origin.attempt)
    return cut is None or place.at < cut
