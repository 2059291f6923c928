"""The store over the tables of a ClickHouse cluster.

It is the local store over a working copy that follows the tables, so results are the same. Lists
are made of rows that some hub has derived; the lines of a run are copied when they are asked for.
What people change, labels and deleted runs, is stored in the tables before it shows.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

from epochal.errors import RunNotFoundError
from epochal.health.rule_settings import RuleSettings
from epochal.journal.layout import RunFolder
from epochal.records import Axis, Position, Record
from epochal.series.series import Series
from epochal.shipping.offering import labels_of
from epochal.store.answers import Cursor, Entry, LabelsEdit, TrashedRun
from epochal.store.clickhouse import transfer
from epochal.store.clickhouse.connection import ClickHouseError
from epochal.store.clickhouse.copies import ERASED, Copies
from epochal.store.clickhouse.known import DerivedRow
from epochal.store.clickhouse.source import CopySource
from epochal.store.clickhouse.tables import DELETED, LABELS
from epochal.store.local.cache import MemoryBudget
from epochal.store.local.folder import FolderSource
from epochal.store.local.run import LocalRun
from epochal.store.local.run_files import patch_file
from epochal.store.local.store import LocalStore
from epochal.store.local.trash import FolderTrash
from epochal.store.row import Row
from epochal.store.store import RunView

# So many series of a run have summaries in its row; the others are read when they are asked for.
_MOST_SUMMARIES = 500


class ClickHouseStore(LocalStore):
    """The runs of a cluster; ``folders`` are those of the working copy, by default all of it.

    ``is_followed``: another thread brings the copy up to date all the time. Then no query waits for
    the cluster, and all are answered from the copy while it is away.
    """

    def __init__(
        self,
        copies: Copies,
        *folders: Path,
        cache: Path | None = None,
        build: bool = False,
        rules: RuleSettings | None = None,
        is_followed: bool = False,
    ) -> None:
        super().__init__(*(folders or (copies.root,)), cache=cache, build=build, rules=rules)
        self._copies = copies
        self._is_followed = is_followed

    def __enter__(self) -> ClickHouseStore:
        return self

    @property
    def notices(self) -> Mapping[str, int]:
        """What the store had to do without, in sentences, and how often."""
        return {**super().notices, **dict.fromkeys(self._copies.problems.values(), 1)}

    def refresh(self, *, budget_s: float = math.inf) -> Set[str]:
        """Copy what was stored since, then look at the copy."""
        self._follow()
        return super().refresh(budget_s=budget_s)

    def remove(self, run: RunView) -> TrashedRun:
        """Move a run to the trash, here and in the tables."""
        with run.lock, self._copies.lock(run.id):
            moved = super().remove(run)
            self._copies.delete(moved)
        return moved

    @property
    def trash(self) -> FolderTrash:
        """The runs that were deleted."""
        return _Trash(self._roots, self._copies)

    def _look_unless_done(self) -> None:
        if not self._looked:
            self._follow()
        super()._look_unless_done()

    def _follow(self) -> None:
        if not self._is_followed:
            self._copies.fetch_changed()

    def _source_in(self, path: str) -> FolderSource:
        return CopySource(
            path, self._copies, held=self._held, bounds=self._bounds, exact=not self._is_followed
        )

    def _run_in(self, source: FolderSource) -> LocalRun:
        assert isinstance(source, CopySource)
        run = ClickHouseRun(source, self._copies, held=self._held, is_followed=self._is_followed)
        run.look_once()
        return run

    # -- for all hubs -----------------------------------------------------------------------------

    def derive_rows(self, *, budget_s: float = math.inf) -> int:
        """Derive and store the rows that are due, for so many seconds; how many."""
        until = time.monotonic() + budget_s
        derived: list[DerivedRow] = []
        for run_id in self._copies.due():
            if time.monotonic() > until:
                break
            one = self._held.guard.run(f"row of {run_id}", self._derive, run_id)
            if isinstance(one, ClickHouseError):
                break  # the cluster is away: the next call goes on here
            if one is None:
                self._copies.put_off(run_id)
            else:
                derived.append(one)
        self._copies.put_rows(derived)
        return len(derived)

    def _derive(self, run_id: str) -> DerivedRow | ClickHouseError | None:
        """The row of a run, derived from its lines; None where it cannot be read.

        An error of the cluster is returned: it is no fault of the run.
        """
        place = self._copies.place_of(run_id)
        if place is None:
            return None
        try:
            self._copies.hold(run_id)
        except ClickHouseError as error:
            return error
        run, started_s = self._run_at(str(place)), time.monotonic()
        with run.lock:
            with self._copies.lock(run_id):  # the folder has all lines of the basis, or more
                basis = self._copies.basis(run_id)
                run.look_at_copy()
            row = run.derived_row()
        took_s = time.monotonic() - started_s
        return None if row.is_unreadable else DerivedRow(run_id, row, basis, took_s)

    def let_go(self, run_id: str) -> contextlib.ExitStack | None:
        """Free what was read of a run, and keep others from reading it until the result is closed.

        None while a query reads it.
        """
        place = self._copies.place_of(run_id)
        run = None if place is None else self._runs.get(str(place))
        held = contextlib.ExitStack()
        if run is not None:
            if not run.lock.acquire(blocking=False):
                return None
            held.callback(run.lock.release)
            run.close()
        return held

    def _run_at(self, place: str) -> ClickHouseRun:
        """The run in a folder, also before the next look finds it."""
        with self._lock:
            run = self._runs.get(place)
            if run is None:
                source = self._folders[place] = self._source_in(place)
                run = self._runs[place] = self._run_in(source)
        assert isinstance(run, ClickHouseRun)
        return run


class ClickHouseRun(LocalRun):
    """A run of a cluster: the local run over its copy, or known by its row without one."""

    def __init__(
        self, source: CopySource, copies: Copies, *, held: MemoryBudget, is_followed: bool
    ) -> None:
        super().__init__(source, held=held)
        self._copies = copies
        self._copy = source
        self._is_followed = is_followed

    def refresh(self) -> bool:
        """See what was stored since; True when there was anything."""
        if not self._is_followed:
            self._copies.fetch(self.own_id, lines=self._copies.is_held(self.own_id))
        return super().refresh()

    def look_at_copy(self) -> None:
        """Read what the copy has gained."""
        super().refresh()

    def look_once(self) -> None:
        """Take the row that is known, unless that was done."""
        with self.lock:
            self._reader.look_once()

    def on_change(self) -> None:
        """Drop the row; of a run whose lines are not here, take the one that is known now."""
        super().on_change()
        if not self._copy.is_held:
            row = self._copy.known_row()
            if row is None and self._is_followed:
                row = self._copy.outline(self.own_id)
            self._cached.recall(row)

    def on_read(self) -> None:
        """Make the row again after the lines were copied: there may be more of them."""
        super().on_read()
        if self._copy.was_copied:
            self._copy.was_copied = False
            self._cached.drop()

    @property
    def is_known(self) -> bool:
        """Whether lists have to read no more of it; some hub derives the row that is missing."""
        return super().is_known or (self._is_followed and not self._copy.is_held)

    def _diagnose_little(self, row: Row) -> None:
        if self._copy.is_held or not self._is_followed:
            super()._diagnose_little(row)

    def derived_row(self) -> Row:
        """The whole row for other hubs: with all summaries, of a live run those that lists show."""
        _ = self.info  # the rules look at the records that no companion saw
        row = self.row
        if self.status.is_live:
            for role in {metric.role for metric in row.metrics if metric.role is not None}:
                self.latest(role)
        else:
            for metric in row.metrics[:_MOST_SUMMARIES]:
                self.summary(metric.name, rank=metric.ranks[0], axis=metric.axis)
        return row

    def series(self, name: str, *, rank: int = 0, axis: Axis | None = None) -> Series:
        """Every point of a series."""
        self._copies.note_use(self.own_id)
        return super().series(name, rank=rank, axis=axis)

    def entries(self, *kinds: str, name: str | None = None, rank: int | None = 0) -> list[Entry]:
        """Records of these kinds in the order of steps, then of time."""
        self._copies.note_use(self.own_id)
        return super().entries(*kinds, name=name, rank=rank)

    def records(self, since: Cursor | None = None) -> Iterator[tuple[Position, Record]]:
        """Every record as written, writer by writer in file order; after ``since`` if given."""
        self._copies.note_use(self.own_id)
        return super().records(since)

    def blob(self, file: str) -> bytes:
        """The bytes of a blob that a record names; it is copied when it is first asked for."""
        transfer.fetch_blob(self._copies.tables, self.own_id, RunFolder(self.path), file)
        return super().blob(file)

    def patch(self) -> bytes:
        """The changes that were not committed when the run started."""
        file = patch_file(self.facts)
        if file is not None:
            transfer.fetch_blob(self._copies.tables, self.own_id, RunFolder(self.path), file)
        return super().patch()

    def relabel(self, edit: LabelsEdit) -> None:
        """Edit the labels as they are stored now, and store them."""
        with self.lock, self._copies.lock(self.own_id):
            self._copies.fetch(self.own_id, lines=False)
            folder = RunFolder(self.path)
            with contextlib.ExitStack() as undo:
                undo.callback(super().refresh)
                undo.callback(transfer.write_changed, folder.labels, labels_of(folder))
                super().relabel(edit)
                labels = transfer.encoded(labels_of(folder))
                self._copies.put_fact(self.own_id, LABELS, labels)
                undo.pop_all()
            super().refresh()


class _Trash(FolderTrash):
    """The trash of the working copy; what happens in it happens in the tables too."""

    def __init__(self, roots: Sequence[Path], copies: Copies) -> None:
        super().__init__(roots)
        self._copies = copies

    def restore(self, run: TrashedRun) -> str:
        """Move a run back."""
        place = super().restore(run)
        self._copies.folders.note(run.id, Path(place))
        self._copies.put_fact(run.id, DELETED, "")
        return place

    def erase(self, run: TrashedRun) -> None:
        """Delete a run for ever."""
        if not Path(run.folder).is_dir():
            raise RunNotFoundError(f"{run.project}/{run.name} is no longer in the trash.")
        self._copies.tables.erase(run.id)
        self._copies.put_fact(run.id, DELETED, ERASED)
        super().erase(run)
