"""A catalog: the table of runs below folders, or of a server; ``store.py`` works over it."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence, Set
from typing import Any, NamedTuple, Protocol

from epochal.journal.boards import Boards
from epochal.journal.row import RunRow
from epochal.store.row import TrashedRun
from epochal.store.run import RunView
from epochal.store.selection import Selection

# Kinds of bytes: of what was deleted, and of runs whose files nobody tells apart.
TRASH = "trash"
RUNS = "runs"
# So long a list reads runs that carry no summary.
SUMMARISE_S = 2.0


class KnownRuns(NamedTuple):
    """Runs of a list; of ``unsummarised`` runs of the store only identity and status are known.

    ``stored`` counts all runs, whatever the query; ``projects`` names their projects, in order.
    """

    runs: Sequence[RunView]
    unsummarised: int
    # By the values of the fields that were grouped by, in the order of the runs.
    groups: Sequence[tuple[tuple[Any, ...], Sequence[RunView]]] = ()
    stored: int = 0
    projects: Sequence[str] = ()

    @property
    def ids(self) -> Sequence[str]:
        """The ids of the runs; a catalog that opens runs when they are asked for opens none."""
        found = getattr(self.runs, "ids", None)
        return [run.id for run in self.runs] if found is None else found


class Trash(Protocol):
    """The deleted runs of a store; nothing in it is erased by itself."""

    def runs(self) -> Sequence[TrashedRun]:
        """All of them, the newest deletion first."""

    def find(self, key: str) -> TrashedRun:
        """The one that a key names, as in ``Store.run``; of several the one deleted last.

        Raises ``RunNotFoundError``.
        """

    def put(self, run: RunView) -> TrashedRun:
        """Move a run here; see ``Store.remove``."""

    def restore(self, run: TrashedRun) -> str:
        """Move a run back; its folder, which has another name where its own is taken.

        Raises ``RunNotFoundError`` for a run that is no longer in the trash, and ``OSError``.
        """

    def erase(self, run: TrashedRun) -> None:
        """Delete a run for ever; raises ``OSError`` when that fails."""


class Versions:
    """Compares what a catalog knows of all runs with what it knew before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: Mapping[str, Hashable] = {}

    def changed(self, known: Mapping[str, Hashable]) -> Set[str]:
        """The ids of runs that are new, gone or another version than at the last call."""
        with self._lock:
            before, self._known = self._known, known
        return {run_id for run_id, _ in known.items() ^ before.items()}


class Catalog(Protocol):
    """A table of runs; see ``epochal.store.store`` for the rules that hold for each."""

    def select(
        self, selection: Selection, *, limit: int | None = None, budget_s: float = SUMMARISE_S
    ) -> KnownRuns:
        """A part of a list of runs; those that carry no summary are read for so many seconds."""

    def rows(self, *, budget_s: float | None = None) -> Sequence[RunRow]:
        """Every run in one row, newest first; without seconds as it is known now."""

    def find(self, run_id: str) -> RunView | None:
        """The run of exactly this id, as of the last look; None where there is none."""

    def refresh(self, *, budget_s: float) -> Set[str]:
        """Look for new runs and new records; see ``Store.refresh``.

        Nothing where the budget leaves the runs to the list that follows.
        """

    def forget(self, run: RunView) -> None:
        """Leave out a run that has just been moved to the trash."""

    def usage(self, runs: Sequence[RunRow | TrashedRun]) -> Sequence[Counter[str]]:
        """How many bytes each of some runs takes, by kind.

        Raises ``UsageError`` where only those can tell who keep the runs.
        """

    @property
    def trash(self) -> Trash:
        """The runs that were deleted."""

    @property
    def boards(self) -> Boards:
        """What people arranged for the projects, as of now."""

    def close(self) -> None:
        """Write what is kept, and close every file and connection."""
