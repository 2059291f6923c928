"""What one journal part says of its run beside numbers: who wrote it, how far it came, its end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from epochal.journal.layout import LOOP, PartName, rank_of_writer
from epochal.journal.line import nests_too_deeply
from epochal.records import Axis, Record
from epochal.store.columns import Origin, whole_number

# Kinds that say something about the run as a whole; "epoch" says how many there will be.
FACT_KINDS = ("run", "finish", "define", "resume", "option", "epoch")
_MEANINGS = ("unit", "goal", "x", "role")
_CHILD = "child-"


@dataclass(slots=True)
class PartFacts:
    """The sum of a part's records of ``FACT_KINDS``, and how far the others came.

    ``header`` is the first record; empty where the first line of the file is damaged, None before
    anything was read. ``reached`` and ``takeovers`` are rank 0's own.
    """

    name: PartName
    header: Record | None = None
    finish: Record | None = None
    config: dict[str, Any] = field(default_factory=dict)
    definitions: dict[str, dict[str, Any]] = field(default_factory=dict)
    takeovers: dict[Axis, int] = field(default_factory=dict)
    reached: dict[Axis, int] = field(default_factory=dict)
    first_epoch: int | None = None
    num_epochs: int | None = None
    updated: float | None = None
    num_records: int = 0
    num_damaged: int = 0

    @property
    def is_loop(self) -> bool:
        """Whether rank 0 itself wrote the part."""
        return self.name.writer == LOOP

    @property
    def origin(self) -> Origin:
        """Who wrote the part."""
        return Origin(self._rank(), self.name.writer.startswith(_CHILD), self.name.attempt)

    def _rank(self) -> int:
        said = rank_of_writer(self.name.writer)
        if said is not None:
            return said
        # Telemetry of a node says which rank it sits beside; children say -1 and are rank 0's.
        rank = (self.header or {}).get("rank")
        return rank if isinstance(rank, int) and rank > 0 else 0

    def reach(self, axis: Axis, at: int) -> None:
        """Rank 0 came to a step or epoch."""
        if self.is_loop and at > self.reached.get(axis, at - 1):
            self.reached[axis] = at

    def note(self, ordinal: int, record: Record) -> None:
        """Take in a record of one of ``FACT_KINDS``; fields that nest too deeply are damage."""
        if nests_too_deeply(record):
            self.num_damaged += 1
            record = {key: value for key, value in record.items() if not nests_too_deeply(value)}
        kind = record["log"]
        if kind == "run" and ordinal == 0:
            self.header = record
        if kind == "finish":
            self.finish = record
        elif kind == "define" and isinstance(record.get("name"), str):
            meaning = {key: record[key] for key in _MEANINGS if key in record}
            self.definitions.setdefault(record["name"], {}).update(meaning)
        elif kind == "epoch":
            self._note_epoch(record)
        elif not self.is_loop:
            return
        elif kind == "resume":
            for axis in ("step", "epoch"):
                takeover = whole_number(record.get(axis))
                if takeover is not None:
                    self.takeovers[axis] = takeover
        elif kind == "run" and isinstance(record.get("config"), dict):
            self.config.update(record["config"])
        elif kind == "option" and "name" in record:
            self.config[str(record["name"])] = record.get("value")

    def _note_epoch(self, record: Record) -> None:
        self.num_epochs = whole_number(record.get("total")) or self.num_epochs
        epoch = whole_number(record.get("epoch"))
        if epoch is not None and self.is_loop and self.first_epoch is None:
            self.first_epoch = epoch
