"""Where the records of a run come from: a folder, or the tables of a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from epochal.store.answers import Labels, LabelsEdit, Machine
from epochal.store.local.part import Part


class RunSource(Protocol):
    """The parts of one run as of the last look, and what is stored beside them."""

    place: str

    @property
    def path(self) -> Path:
        """What people see as its place."""

    @property
    def tracker(self) -> str | None:
        """The tracker that wrote the original, which is only read; None for our own runs."""

    def look(self) -> None:
        """See how much there is, and read nothing."""

    @property
    def signature(self) -> str | None:
        """A text that changes with what there is; None before the first look."""

    @property
    def stamp(self) -> str | None:
        """A short form of the signature, where a cheaper look than ``look`` tells a change."""

    @property
    def newest_s(self) -> float:
        """When anything was received or written last."""

    @property
    def journal_written_s(self) -> float | None:
        """When a part that may still grow was written last."""

    @property
    def unsealed_bytes(self) -> int:
        """The size of what has to be read for a row."""

    @property
    def run_json(self) -> Mapping[str, Any]:
        """Who the run is."""

    @property
    def labels(self) -> Labels:
        """What people changed later."""

    @property
    def problems(self) -> Sequence[str]:
        """A sentence for each thing that cannot be read."""

    @property
    def is_newer(self) -> bool:
        """Whether a newer Epochal wrote it."""

    def poll(self) -> bool:
        """Read what there is since the last call; True when any part has changed."""

    @property
    def parts(self) -> Sequence[Part]:
        """The parts as they were read."""

    @property
    def held_bytes(self) -> int:
        """How much of them is in memory."""

    def blob_path(self, file: str) -> Path:
        """Where a file lies that a record names; any other raises ``UsageError``."""

    def machines(self) -> Sequence[Machine]:
        """The newest readings of the companions."""

    def relabel(self, edit: LabelsEdit) -> None:
        """Edit the labels."""

    def close(self) -> None:
        """Let go of everything that was read."""
