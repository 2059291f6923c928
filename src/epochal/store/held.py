"""What is kept of one run in memory, and its row: carried, folded or read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from epochal.errors import FormatError
from epochal.journal.facts import SeriesKey
from epochal.journal.fold import Fold, RunMetrics
from epochal.journal.row import RunRow
from epochal.journal.state import RunState, StalePartError, run_metrics
from epochal.journal.summaries import read_metrics, summarise
from epochal.series.series import Series
from epochal.store.cache import MemoryBudget, locked
from epochal.store.folder import FolderSource
from epochal.store.listing import SETTLED_S
from epochal.store.row import completed, faulty_row, identity_row

if TYPE_CHECKING:
    from epochal.store.local.index import Index

# Of so much more than was folded all is read, which numpy does faster.
_QUICK_BYTES = 8 * 1024 * 1024
# A query is repeated each time that another part was sealed meanwhile.
MAX_MOVES = 100
T = TypeVar("T")


class HeldRun:
    """A run folder, and what is kept of it in memory: the state of its parts, series, and its row.

    Parts are read on as they grow. The row is kept while the files stay as they are, here and in
    the index. A fault in reading becomes the row of this run and reaches no other run.
    """

    def __init__(
        self,
        source: FolderSource,
        *,
        held: MemoryBudget | None = None,
        index: Index | None = None,
        signature: str | None = None,
    ) -> None:
        self.source = source
        self.lock = threading.RLock()
        self._held = MemoryBudget() if held is None else held
        self._index = index
        # Of its files, as its store has just seen; until they are looked at here.
        self._seen = signature
        # None before the first query, and after ``release``.
        self._state: RunState | None = None
        # Series of that state, by their ranks.
        self._series: dict[tuple[SeriesKey, int], Series] = {}
        self._series_bytes = 0
        # Whether a look has found more than was read.
        self._is_behind = False
        # Whether the index has the row; a list has it from here otherwise.
        self.is_indexed = True
        # The id by which its store knows it: copies of a folder recorded the same one.
        self.listed_id: str | None = None
        self._row: RunRow | None = None
        # The series of that row, and a fold of a live run that goes on from there.
        self._known: RunMetrics | None = None
        self._fold: Fold | None = None
        # How many records the last row counted, and when a row counted more than the one before.
        self._num_records: int | None = None
        self.grew_at: float | None = None

    # -- reading ----------------------------------------------------------------------------------

    def look_again(self) -> None:
        """Look at the files; what is new is read when a query needs it."""
        self._held.guard.run(self.place, self._look)

    def _look(self) -> bool:
        """Look at the files, and read nothing; True when they have changed since the last look."""
        before = self.source.signature
        self.source.look()
        if before is not None and before == self.source.signature:
            return False
        self._row = self._known = self._seen = None
        self._is_behind = True
        return True

    def _look_once(self) -> None:
        if self.source.signature is None:
            self._look()

    @locked
    def refresh(self) -> bool:
        """Read what was written since; True when there was anything."""
        origin = self.source.origin
        has_changed = False if origin is None else origin.ask()
        if origin is not None and self.source.signature is None:
            return has_changed  # nothing was copied yet
        has_changed = self._look()
        if self._state is None or not self._is_behind:
            return has_changed
        end = self._state.end()
        return self._load().end() != end

    def _load(self) -> RunState:
        """The state as of the last look; it is read now where it was not."""
        if self._state is not None and not self._is_behind:
            return self._state
        self._look_once()
        self._is_behind = False
        if self.source.poll() or self._state is None:
            self._state = RunState(self.source.parts, before=self._state)
            self._drop_series()
            self._held.loaded.grown(self)
        return self._state

    def _ask(self, query: Callable[[RunState], T]) -> T:
        """The result of a query; repeated where a part was sealed or became shorter meanwhile.

        Raises ``FormatError`` where the files cannot be read.
        """
        for _ in range(MAX_MOVES):
            try:
                return query(self._load())
            except (FileNotFoundError, StalePartError):
                self._catch_up()
            except OSError as error:
                raise FormatError(f"a part of the journal cannot be read: {error}") from error
        raise self._too_fast()

    def _catch_up(self) -> None:
        """Look at the files again; where they look the same, read all of them again."""
        before = self.source.signature
        self.refresh()
        if self.source.signature == before:
            self._free()

    def _free(self) -> None:
        """Free what was read; the next query reads it again."""
        self._state = None
        self._drop_series()
        self.source.close()

    def _drop_series(self) -> None:
        self._series.clear()
        self._series_bytes = 0

    def _too_fast(self) -> FormatError:
        return FormatError(f"the files in {self.source.path} change faster than they can be read.")

    @property
    def held_bytes(self) -> int:
        """How many bytes of it are kept in memory."""
        return self.source.held_bytes + self._series_bytes

    def release(self) -> bool:
        """Free what was read; False while the run grows, or another thread reads it.

        It never waits, as another run's lock is held.
        """
        if not self.lock.acquire(blocking=False):
            return False
        try:
            is_settled = time.time() - self.source.newest_s > SETTLED_S
            if self._state is None or not is_settled:
                return False
            if self.source.origin is None:
                self.read_row()  # lists ask for it
            self._free()
            return True
        finally:
            self.lock.release()

    @locked
    def close(self) -> None:
        """Free everything; the run is gone, or no query follows."""
        self._free()
        self._held.loaded.forget(self)

    # -- the row ----------------------------------------------------------------------------------

    @property
    def place(self) -> str:
        """The folder as a text, by which the index knows the run."""
        return self.source.place

    @property
    def path(self) -> Path:
        """The run's folder, or the file of another tracker that it was converted from."""
        return self.source.path

    @property
    def tracker(self) -> str | None:
        """The tracker that wrote the original files, which are never changed; None for our own."""
        return self.source.tracker

    @locked
    def read_row(self) -> RunRow:
        """The row as of the last look: what the run carries, where that is still so.

        Otherwise what was appended is folded in, or all of the run is read.
        """
        if self.source.origin is not None:
            return self.source.origin.read_row()
        guard = self._held.guard
        row = self._row or guard.run(self.place, self._make)
        if row is None:
            problem = f"the run cannot be read: {guard.faults[self.place].error}."
            row, self._known = faulty_row(self.source.path, problem), RunMetrics()
            self.is_indexed = False
        self._row = row
        return row

    def _make(self) -> RunRow:
        row = self._make_quickly()
        if row is None:
            row = self._made_of(self._ask(run_metrics))
        return row

    def _make_quickly(self) -> RunRow | None:
        """The row as far as it takes no time to speak of; None where the run has to be read."""
        row = None
        if self._seen is not None and self.source.signature is None:
            row = self._recall()
        row = row or self._carried() or self._recall()
        if row is None and (known := self._folded()) is not None:
            row = self._made_of(known)
        return row

    def _recall(self) -> RunRow | None:
        return None if self._index is None else self._index.get(self.place, self._signature())

    def _made_of(self, known: RunMetrics) -> RunRow:
        self._known = known
        row = summarise(known, self.source.run_json, place=self.source.place)
        return self._noted(completed(row, self.source, self.source.problems))

    def _noted(self, row: RunRow) -> RunRow:
        """Note whether the run has grown, and keep the row."""
        if self._num_records is not None and row.records > self._num_records:
            self.grew_at = time.time()
        self._num_records = row.records
        self._keep(row)
        return row

    def _carried(self) -> RunRow | None:
        self._look_once()
        row = self.source.carried
        if row is None:
            return None
        problem = self.source.label_problem
        return self._noted(completed(row, self.source, () if problem is None else (problem,)))

    def _folded(self) -> RunMetrics | None:
        """What was known, with what was appended since; None where all has to be read."""
        source, listing = self.source, self.source.listing
        if source.converted is not None or source.is_newer or listing.problem is not None:
            self._fold = None
            return None
        fold, self._fold = self._fold, None
        if fold is None and (known := read_metrics(source.place)) is not None:
            left = listing.unsealed_bytes - sum(mark.bytes for mark in known.marks.values())
            fold = None if left > _QUICK_BYTES else Fold(known)
        if fold is None:
            return None
        parts = {name: Path(part.path) for name, part in listing.journal.items()}
        try:
            fold.read(parts, listing.sealed)
        except FormatError:
            return None
        if not fold.is_known:
            return None
        known = fold.known()
        self._fold = None if known.facts.is_ended else fold
        return known

    def _keep(self, row: RunRow) -> None:
        """Have the index learn the row, and the series of a run that does not carry them."""
        if self._index is not None:
            is_settled = row.is_ended and self.source.is_settled
            self.is_indexed = self._index.put(
                self.place, row, self._known, signature=self._signature(), is_settled=is_settled
            )

    def _signature(self) -> str:
        if self._seen is not None and self.source.signature is None:
            return self._seen
        self._look_once()
        signature = self.source.signature
        assert signature is not None
        return signature

    @property
    def known(self) -> RunMetrics:
        """The series of the run and their summaries."""
        row = self.read_row()
        if (origin := self.source.origin) is not None:
            if (stored := origin.read_metrics()) is not None:
                return stored
            self._look_once()  # a copy that cannot be made is no fault of the run
        if self._known is None and self._index is not None:
            self._known = self._index.metrics(self.place)
        if self._known is None:
            self._known = self._held.guard.run(self.place, self._metrics_of, row)
        return self._known or RunMetrics()

    def _metrics_of(self, row: RunRow) -> RunMetrics:
        found = read_metrics(self.source.place)
        if found is None or (row.positions and found.marks != row.positions):
            found = self._folded() or self._ask(run_metrics)
        return found

    @property
    @locked
    def own_id(self) -> str:
        """The id that the run recorded; the folder's name where it recorded none."""
        return self.outline_row().id

    @locked
    def outline_row(self) -> RunRow:
        """The row without its status; of a run that nobody has summarised who it is."""
        if self.source.origin is not None:
            return self.source.origin.row
        self._row = row = self._row or self._held.guard.run(self.place, self._make_quickly)
        row = row or self._held.guard.run(self.place, identity_row, self.source)
        return row or self.read_row()
