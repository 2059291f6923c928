"""What every part of a run answers, be it a journal file that grows or a sealed segment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, Protocol

from epochal.errors import FormatError
from epochal.journal.layout import PartName
from epochal.records import Position, Record
from epochal.store.columns import Origin, Piece, SeriesKey
from epochal.store.facts import PartFacts


class StalePartError(FormatError):
    """A part's file no longer holds what was read of it: the run is to be read again."""


class Place(NamedTuple):
    """One record that is not a number: who wrote it, and what orders and replaces it.

    ``at`` is its step or epoch, -1 where it has none. ``key`` finds it again in its part.
    """

    ordinal: int
    origin: Origin
    label: str
    at: int
    t: float
    key: tuple[int, int]


class Part(Protocol):
    """One part; its facts are of what has been read of it so far."""

    @property
    def name(self) -> PartName:
        """Which part it is of its run."""

    @property
    def facts(self) -> PartFacts:
        """What it says of its run."""

    @property
    def held_bytes(self) -> int:
        """How much of it is in memory, roughly."""

    def series_keys(self) -> Iterable[SeriesKey]:
        """Every series it holds, in order of first appearance."""

    def piece(self, key: SeriesKey) -> Piece | None:
        """Its points of one series, None when there are none."""

    def places(self, kind: str, *, label: str | None = None) -> Iterable[Place]:
        """Where its records of a kind are, of one label or of all; not for ``DENSE_KINDS``."""

    def read(self, kind: str, places: list[Place]) -> Iterable[Record]:
        """The records at these places, in their order; ``places`` told them just before."""

    def records(self, *, first: int) -> Iterator[tuple[Position, Record]]:
        """Its records as written, from an ordinal on."""

    def close(self) -> None:
        """Let go of what it holds open."""


def label_of(record: Record) -> str:
    """What a record is called among others of its kind."""
    name = record.get("name", record.get("id", ""))
    return name if isinstance(name, str) else str(name)
