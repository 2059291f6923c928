"""The files of a run in the working copy, whose lines are copied when they are first needed.

While they are not here, the run is known by a row that some hub derived from them.
"""

from __future__ import annotations

from collections.abc import Sequence

from epochal.journal.search_bounds import SearchBounds
from epochal.store.answers import Machine
from epochal.store.clickhouse.copies import Copies
from epochal.store.clickhouse.known import KnownRow
from epochal.store.clickhouse.rows import with_labels
from epochal.store.local.cache import MemoryBudget
from epochal.store.local.folder import FolderSource
from epochal.store.local.index import Stamp
from epochal.store.local.listing import Listing
from epochal.store.local.row import identity_row
from epochal.store.local.small import SmallPart
from epochal.store.row import Row

# More than any list reads at once: it has to be copied first.
_MANY_BYTES = 1 << 60


class CopySource(FolderSource):
    """A run folder of the working copy.

    ``exact``: a row that was derived from less than what is stored is not used.
    """

    def __init__(
        self, path: str, copies: Copies, *, held: MemoryBudget, bounds: SearchBounds, exact: bool
    ) -> None:
        super().__init__(path, held=held, bounds=bounds)
        self._copies = copies
        self._exact = exact
        # What was known at the last look of a run whose lines were not here then.
        self._state: str | None = None
        self._row: KnownRow | None = None
        # Set when its lines were copied; whoever made a row before reads them now.
        self.was_copied = False

    @property
    def is_held(self) -> bool:
        """Whether its lines were here at the last look."""
        return self._state is None

    @property
    def _run_id(self) -> str:
        return self._copies.folders.id_at(self.place) or ""

    def look(self) -> None:
        """List the folder, or see what is known of the run."""
        run_id = self._run_id
        if not run_id or self._copies.is_held(run_id):
            self._state = self._row = None
            super().look()
        else:
            self._state, self._row = self._copies.state_of(run_id, exact=self._exact)
            self._listing = self._dirs = None

    @property
    def _known(self) -> Listing:
        if self._listing is None:
            FolderSource.look(self)
            assert self._listing is not None
        return self._listing

    @property
    def signature(self) -> str | None:
        """Of the files, or of what is known of the run, at the last look."""
        return self._state if self._state is not None else super().signature

    @property
    def version(self) -> object:
        """The same, and which files they were."""
        return self._state if self._state is not None else super().version

    @property
    def stamp(self) -> Stamp | None:
        """None while the lines are not here: the run changes without its files."""
        return None if self._state is not None else super().stamp

    @property
    def unsealed_bytes(self) -> int:
        """The size of the journal parts; a large number while they are not here."""
        return super().unsealed_bytes if self._state is None else _MANY_BYTES

    def known_row(self) -> Row | None:
        """The row that some hub derived, with the labels of now; None where there is none."""
        if self._row is None:
            return None
        row = self._row.row
        if row.labels_set is None and not self._copies.has_labels(self._run_id):
            return row
        return with_labels(row, self.run_json, self.labels, self.place)

    def outline(self, own_id: str) -> Row | None:
        """From run.json and labels.json alone while the lines are not here."""
        if self._state is None:
            return super().outline(own_id)
        updated = self._copies.received(self._run_id)
        return identity_row(
            self.run_json, self.labels, own_id=own_id, place=self.place, updated=updated
        )

    def small(self) -> Sequence[SmallPart] | None:
        """From one read of each part."""
        self._hold()
        return super().small()

    def poll(self) -> bool:
        """Read what the journal has gained; it is copied where it is not here."""
        self._hold()
        return super().poll()

    def machines(self) -> Sequence[Machine]:
        """The newest readings of the companions."""
        self._hold()
        return super().machines()

    def _hold(self) -> None:
        run_id = self._run_id
        if run_id:
            self._copies.hold(run_id)
            if self._state is not None:
                self.was_copied = True
                self.look()
