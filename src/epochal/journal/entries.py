"""Records that are no points of series: texts, histograms, messages, findings, and so on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from epochal.records import Position, Record, finite, whole_number

# One position per writer: its last record that was read.
Cursor = Mapping[str, Position]


class Entry(msgspec.Struct, frozen=True):
    """One record that is not part of a series: a text, a histogram, a message, a finding, …

    ``record`` has the fields that ``docs/explanation/journal.md`` gives its kind.
    """

    position: Position
    rank: int
    record: Record

    @property
    def kind(self) -> str:
        """The record's kind."""
        return str(self.record["log"])

    @property
    def t(self) -> float | None:
        """When it was written, in Unix seconds."""
        return finite(self.record.get("t"))

    @property
    def step(self) -> int | None:
        """Its step; None where it has none."""
        return whole_number(self.record.get("step"))

    @property
    def name(self) -> str | None:
        """Its name; None where its kind has no names."""
        name = self.record.get("name")
        return name if isinstance(name, str) else None


def by_time(entries: Iterable[Entry]) -> list[Entry]:
    """The same entries, the oldest first."""
    return sorted(entries, key=lambda entry: entry.t or 0.0)
