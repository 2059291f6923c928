"""One attempt of a run in another tracker's files, answered as a part of a journal is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from epochal.imports.gathered import GatheredAttempt
from epochal.journal.layout import LOOP, PartName
from epochal.records import Position, Record
from epochal.store.columns import Piece, SeriesKey
from epochal.store.digest import PartDigest
from epochal.store.facts import PartFacts
from epochal.store.part import Place

_POINT_BYTES = 32
# A small dictionary with a few numbers in it, as Python keeps it.
_RECORD_BYTES = 600


class ForeignPart:
    """What was gathered of one attempt; a ``run`` record that its tracker never wrote goes first.

    That record is made by ``header`` when it is asked for; a run's configuration may grow.
    """

    def __init__(
        self, attempt: int, gathered: GatheredAttempt, header: Callable[[PartName], Record]
    ) -> None:
        self.name = PartName(LOOP, attempt, 0)
        self.gathered = gathered
        self._header = header
        self._digest = PartDigest(self.name)
        self._num_taken = 0
        first = {key: value for key, value in header(self.name).items() if key != "config"}
        self._digest.take(0, first, 0, 0)

    def poll(self) -> None:
        """Take in what was gathered since."""
        gathered, facts = self.gathered, self._digest.facts
        for place in range(self._num_taken, len(gathered.others)):
            ordinal, record = gathered.others[place]
            self._digest.take(ordinal + 1, record, place, place)
        self._num_taken = len(gathered.others)
        if gathered.latest is not None:
            facts.updated = max(gathered.latest, facts.updated or gathered.latest)
        if gathered.furthest is not None:
            facts.reach("step", gathered.furthest)
        facts.num_records = gathered.num_records + 1

    @property
    def facts(self) -> PartFacts:
        """What it says of its run."""
        return self._digest.facts

    @property
    def held_bytes(self) -> int:
        """The points, and the records as they are."""
        gathered = self.gathered
        return gathered.num_points * _POINT_BYTES + len(gathered.others) * _RECORD_BYTES

    def series_keys(self) -> Iterable[SeriesKey]:
        """Every series it holds: those that came as points, then those of records."""
        points = (SeriesKey(name, "step") for name in self.gathered.names)
        return dict.fromkeys((*points, *self._digest.blocks))

    def piece(self, key: SeriesKey) -> Piece | None:
        """Its points of one series, None when there are none."""
        column = self.gathered.column(key.name) if key.axis == "step" else None
        blocks = self._digest.blocks
        rest = blocks.piece(key) if key in blocks else None
        if column is None:
            return rest
        piece = Piece(column.steps, column.times, column.values)
        if rest is None:
            return piece
        order = np.argsort(
            np.concatenate([column.ordinals + 1, blocks.ordinals(key)]), kind="stable"
        )
        return Piece(
            np.concatenate([piece.steps, rest.steps])[order],
            np.concatenate([piece.times, rest.times])[order],
            np.concatenate([piece.values, rest.values])[order],
        )

    def places(self, kind: str, *, label: str | None = None) -> Iterable[Place]:
        """Where its records of a kind are."""
        places = self._digest.places.get(kind)
        return () if places is None else places.of(self.facts.origin, label=label)

    def read(self, kind: str, places: list[Place]) -> Iterator[Record]:
        """The records at these places."""
        for place in places:
            yield self._header(self.name) if place.ordinal == 0 else self._other(place)

    def _other(self, place: Place) -> Record:
        return self.gathered.others[place.key[0]][1]

    def records(self, *, first: int) -> Iterator[tuple[Position, Record]]:
        """The records read so far, from an ordinal on; a point is one."""
        if first == 0:
            yield Position(*self.name, 0), self._header(self.name)
        for ordinal, record in self.gathered.records(first=max(0, first - 1)):
            yield Position(*self.name, ordinal + 1), record

    def close(self) -> None:
        """Nothing is held open between questions."""
