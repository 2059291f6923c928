"""A run in a folder of our own."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epochal.errors import UsageError
from epochal.journal.layout import RunFolder
from epochal.journal.reader import NewerFormatError
from epochal.journal.regular_file import read_regular
from epochal.journal.search_bounds import SearchBounds
from epochal.store.adoption import Aside, is_orphan, orphaned_ranks
from epochal.store.answers import Labels, Machine
from epochal.store.identity import Identity
from epochal.store.labels import write_labels
from epochal.store.listing import Listing
from epochal.store.live import read_machines
from epochal.store.loading import LoadedParts
from epochal.store.memory_budget import MemoryBudget
from epochal.store.part import Part

# A part may be sealed between a look and the reading; each look finds at least one of them settled.
_LOOKS = 100


class FolderSource:
    """A run folder; ``asides`` are what ranks wrote elsewhere for it."""

    tracker: str | None = None

    def __init__(
        self,
        folder: RunFolder,
        *,
        asides: Sequence[Aside] = (),
        held: MemoryBudget | None = None,
        bounds: SearchBounds | None = None,
    ) -> None:
        self.folder = folder
        self._bounds = SearchBounds(folder.path) if bounds is None else bounds
        self.asides = asides
        self._listing: Listing | None = None
        self._identity = Identity(folder)
        self._parts = LoadedParts(MemoryBudget() if held is None else held)

    @property
    def path(self) -> Path:
        """The folder."""
        return self.folder.path

    @property
    def place(self) -> str:
        """The folder's path."""
        return str(self.folder.path)

    def look(self) -> None:
        """List the folder."""
        self._listing = Listing(self.folder, self.asides, bounds=self._bounds)

    @property
    def _known(self) -> Listing:
        if self._listing is None:
            self.look()
            assert self._listing is not None
        return self._listing

    @property
    def signature(self) -> str | None:
        """Of the files there were at the last look."""
        return None if self._listing is None else self._listing.signature

    @property
    def newest_s(self) -> float:
        """When anything was written last."""
        return self._known.newest_s

    @property
    def journal_written_s(self) -> float | None:
        """When a part that is not sealed was written last."""
        return self._known.journal_written_s

    @property
    def _files(self) -> Identity:
        self._identity.refresh(self._known)
        return self._identity

    @property
    def said(self) -> Mapping[str, Any]:
        """What run.json says."""
        return self._files.said

    @property
    def labels(self) -> Labels:
        """What labels.json says."""
        return self._files.labels

    @property
    def problems(self) -> Sequence[str]:
        """Of the small files and of the parts."""
        if is_orphan(self.folder):
            return [self._without_rank_zero(), *self._parts.problems]
        return [*self._files.problems, *self._parts.problems]

    def _without_rank_zero(self) -> str:
        ranks = orphaned_ranks((*self.folder.parts(), *self.folder.sealed_parts()))
        one = len(ranks) == 1
        who = f"rank{'' if one else 's'} {', '.join(map(str, ranks))}"
        return (
            f"{who} wrote without rank 0, which started no run within its wait; the records of"
            f" rank {ranks[0] if ranks else 0} are shown in its place."
        )

    @property
    def is_newer(self) -> bool:
        """Whether run.json or a part is of a newer format."""
        return self._files.newer_format is not None

    def poll(self) -> bool:
        """Read on in the journal, and by column in what is sealed."""
        if self.is_newer:
            return False
        try:
            changed = self._parts.poll(self._known)
            for _ in range(_LOOKS):
                if not self._parts.has_moved:
                    break
                self.look()  # sealed since the last look
                changed |= self._parts.poll(self._known)
        except NewerFormatError as error:
            self._parts.close()
            self._files.newer_format = str(error)
            return True
        return changed

    @property
    def parts(self) -> Sequence[Part]:
        """The journal's parts, sealed or not."""
        return self._parts.all

    @property
    def held_bytes(self) -> int:
        """How much of the journal is in memory."""
        return self._parts.held_bytes

    def blob(self, file: str) -> bytes:
        """A file of the folder of blobs, and nothing else."""
        path = self.folder.blobs / file
        # A link could lead out of the folder, and a pipe would wait for somebody to write to it.
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise UsageError(f"blob {file!r} is not a file.")
        if not self._bounds.allows(path):
            raise UsageError(f"blob {file!r} lies outside of the searched folder.")
        return read_regular(path)

    def machines(self) -> Sequence[Machine]:
        """What companions read just now."""
        return read_machines(self.folder, now=time.time())

    def relabel(self, labels: Labels) -> None:
        """Write labels.json."""
        write_labels(self.folder, labels)

    def close(self) -> None:
        """Let go of every part."""
        self._parts.close()
