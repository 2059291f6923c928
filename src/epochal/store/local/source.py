"""What a run is read from: a folder of our own, or another tracker's files.

``look`` is called for every run of a list, and reads nothing. Identity, labels and parts are read
when they are asked for, as of the last look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from epochal.store.answers import Labels, LabelsEdit, Machine
from epochal.store.local.index import IndexPlace, Stamp
from epochal.store.local.part import Part
from epochal.store.local.small import SmallPart
from epochal.store.row import Row


class RunSource(Protocol):
    """The files of one run."""

    @property
    def path(self) -> Path:
        """The run's folder, or the file of another tracker."""

    @property
    def place(self) -> str:
        """A text that no other run of this machine has; it begins with a root's path."""

    @property
    def tracker(self) -> str | None:
        """The tracker that wrote the files; None for our own. Others' files are only read."""

    def look(self) -> None:
        """Look at the files, without reading them."""

    @property
    def signature(self) -> str | None:
        """A digest of sizes and times of the files; None before the first look."""

    @property
    def version(self) -> object:
        """What tells one look from another in this process, more exactly than the signature."""

    @property
    def index_place(self) -> IndexPlace:
        """Where the index keeps the row of this run."""

    @property
    def stamp(self) -> Stamp | None:
        """Of the files there were at the last look; None where two stats do not tell a change."""

    def has_stamp(self, stamp: Stamp) -> bool:
        """Whether the files have this stamp now."""

    @property
    def newest_s(self) -> float:
        """When anything was written last, in Unix seconds."""

    @property
    def journal_written_s(self) -> float | None:
        """When our journal was written last, by the clock of its disk; None for other trackers."""

    @property
    def run_json(self) -> Mapping[str, Any]:
        """The content of run.json, or the same fields of another tracker; empty if unreadable."""

    @property
    def labels(self) -> Labels:
        """What people changed later."""

    @property
    def problems(self) -> Sequence[str]:
        """One sentence for each file that cannot be read."""

    @property
    def is_newer(self) -> bool:
        """Whether a newer Epochal wrote the run; such a run is not read."""

    @property
    def unsealed_bytes(self) -> int:
        """How much has to be read for a whole row, as of the last look."""

    def outline(self, own_id: str) -> Row | None:
        """The row as far as identity and newest records say it; None where that is not enough."""

    def small(self) -> Sequence[SmallPart] | None:
        """The parts of a small run that has ended; None where they have to be read in full."""

    def poll(self) -> bool:
        """Read what the parts have gained; True when any of them has changed."""

    @property
    def parts(self) -> Sequence[Part]:
        """The parts as they were last read."""

    @property
    def held_bytes(self) -> int:
        """About how many bytes of the parts are in memory."""

    def blob(self, file: str) -> bytes:
        """The bytes of a blob that a record names; raises ``UsageError`` or ``OSError``."""

    def machines(self) -> Sequence[Machine]:
        """The newest readings of the run's machines."""

    def relabel(self, edit: LabelsEdit) -> None:
        """Store edited labels; raises ``UsageError`` where they cannot be stored."""

    def close(self) -> None:
        """Close the parts; the next query reads them again."""
