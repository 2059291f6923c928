"""What a run is read from: a folder of our own, or another tracker's files.

``look`` is for every run whenever a list is looked at, and reads nothing; what the run says of
itself and its parts are read when they are asked for, as of the last look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from epochal.store.answers import Labels, Machine
from epochal.store.local.index import IndexPlace, Stamp
from epochal.store.local.part import Part


class RunSource(Protocol):
    """The files of one run."""

    @property
    def path(self) -> Path:
        """The file or folder that people know the run by."""

    @property
    def place(self) -> str:
        """What tells it from every other run of this machine; begins with a root's path."""

    @property
    def tracker(self) -> str | None:
        """Whose files these are, where they are not ours and only read."""

    def look(self) -> None:
        """Look at the files, without reading them."""

    @property
    def signature(self) -> str | None:
        """What the files looked like; equal ones mean that nothing changed. None before a look."""

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
        """When a journal of ours was written last, by the clock of its disk; None for others."""

    @property
    def said(self) -> Mapping[str, Any]:
        """What the run says of itself, as run.json does; empty where that cannot be read."""

    @property
    def labels(self) -> Labels:
        """What people changed later."""

    @property
    def problems(self) -> Sequence[str]:
        """What could not be read, a sentence each."""

    @property
    def is_newer(self) -> bool:
        """Whether a newer Epochal wrote the run, which is then not read at all."""

    def poll(self) -> bool:
        """Read on in the parts; True when any of them has changed."""

    @property
    def parts(self) -> Sequence[Part]:
        """The parts as they were last read."""

    @property
    def held_bytes(self) -> int:
        """How much of the parts is in memory."""

    def blob(self, file: str) -> bytes:
        """The bytes of a blob that a record names; raises ``UsageError`` or ``OSError``."""

    def machines(self) -> Sequence[Machine]:
        """The run's machines as they were a moment ago."""

    def relabel(self, labels: Labels) -> None:
        """Store the labels; raises ``UsageError`` where there is no place for them."""

    def close(self) -> None:
        """Let go of the parts; they are read again when asked for."""
