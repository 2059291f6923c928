"""The store over the tables of a ClickHouse cluster.

It is the local store over a working copy that follows the tables, so results are the same. What
people change, labels and deleted runs, is stored in the tables before it shows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from epochal.errors import RunNotFoundError
from epochal.health.rule_settings import RuleSettings
from epochal.journal.layout import RunFolder
from epochal.shipping.offering import labels_of
from epochal.store.answers import LabelsEdit, TrashedRun
from epochal.store.clickhouse import transfer
from epochal.store.clickhouse.copies import ERASED, Copies
from epochal.store.clickhouse.tables import DELETED, LABELS
from epochal.store.local.cache import MemoryBudget
from epochal.store.local.folder import FolderSource
from epochal.store.local.run import LocalRun
from epochal.store.local.store import LocalStore
from epochal.store.local.trash import FolderTrash
from epochal.store.store import RunView


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
        with self._copies.lock(run.id):
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

    def _run_in(self, source: FolderSource) -> LocalRun:
        return ClickHouseRun(source, self._copies, held=self._held, is_followed=self._is_followed)


class ClickHouseRun(LocalRun):
    """A run of a cluster: the local run over its copy."""

    def __init__(
        self, source: FolderSource, copies: Copies, *, held: MemoryBudget, is_followed: bool
    ) -> None:
        super().__init__(source, held=held)
        self._copies = copies
        self._is_followed = is_followed

    def refresh(self) -> bool:
        """Copy what was stored since; True when there was anything."""
        if not self._is_followed:
            self._copies.fetch(self.own_id)
        return super().refresh()

    def look_again(self) -> None:
        """Look at the copy: the store has just brought it up to date."""
        self._cached.or_faulty(super().refresh, lambda row: True)

    def blob(self, file: str) -> bytes:
        """The bytes of a blob that a record names; it is copied when it is first asked for."""
        transfer.fetch_blob(self._copies.tables, self.own_id, RunFolder(self.path), file)
        return super().blob(file)

    def patch(self) -> bytes:
        """The changes that were not committed when the run started."""
        git = self.facts.get("git")
        file = git.get("patch") if isinstance(git, Mapping) else None
        if isinstance(file, str):
            transfer.fetch_blob(self._copies.tables, self.own_id, RunFolder(self.path), file)
        return super().patch()

    def relabel(self, edit: LabelsEdit) -> None:
        """Edit the labels as they are stored now, and store them."""
        with self._copies.lock(self.own_id):
            self._copies.fetch(self.own_id)
            super().relabel(edit)
            labels = transfer.encoded(labels_of(RunFolder(self.path)))
            self._copies.put_fact(self.own_id, LABELS, labels)


class _Trash(FolderTrash):
    """The trash of the working copy; what happens in it happens in the tables too."""

    def __init__(self, roots: Sequence[Path], copies: Copies) -> None:
        super().__init__(roots)
        self._copies = copies

    def restore(self, run: TrashedRun) -> str:
        """Move a run back."""
        place = super().restore(run)
        self._copies.note_place(run.id, Path(place))
        self._copies.put_fact(run.id, DELETED, "")
        return place

    def erase(self, run: TrashedRun) -> None:
        """Delete a run for ever."""
        if not Path(run.folder).is_dir():
            raise RunNotFoundError(f"{run.project}/{run.name} is no longer in the trash.")
        self._copies.tables.erase(run.id)
        self._copies.put_fact(run.id, DELETED, ERASED)
        super().erase(run)
