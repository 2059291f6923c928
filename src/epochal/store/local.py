"""The store over run folders on this machine's file systems."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from epochal.errors import UsageError
from epochal.journal.layout import RunFolder, is_run_folder, run_folders
from epochal.store.adoption import asides_below
from epochal.store.local_run import LocalRun
from epochal.store.lookup import choose
from epochal.store.store import RunView


class LocalStore:
    """Every run below some folders; see ``epochal.store.store`` for what may be asked."""

    def __init__(self, *roots: str | Path) -> None:
        self._roots = [Path(root).expanduser().absolute() for root in roots]
        self._runs: dict[Path, LocalRun] = {}
        self._looked = False

    def runs(
        self,
        query: str | None = None,
        *,
        order: str | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> Sequence[LocalRun]:
        """Runs by creation, newest first."""
        if query is not None or order is not None:
            raise UsageError("query= and order= are not known to this store yet: leave them out.")
        if offset < 0 or (limit is not None and limit < 0):
            raise UsageError(f"offset={offset} and limit={limit} must be 0 or more.")
        if not self._looked:
            self._look()
        found = sorted(self._runs.values(), key=lambda run: run.created, reverse=True)
        return found[offset:] if limit is None else found[offset : offset + limit]

    def run(self, key: str) -> LocalRun:
        """The run that an id, its start, a name, project/name or a folder's path stands for."""
        path = Path(key).expanduser()
        if (len(path.parts) > 1 or key in (".", "..")) and is_run_folder(path):
            folder = path.absolute().resolve()
            known = {run.path.resolve(): run for run in self.runs()}
            return known.get(folder) or load_run(folder)
        runs = self.runs()
        return runs[choose(key, [run.brief() for run in runs])]

    def refresh(self) -> None:
        """Look for new runs and new records."""
        self._look()
        for run in self._runs.values():
            run.refresh()

    def remove(self, run: RunView) -> None:
        """Delete a run's folder and everything in it."""
        path = Path(run.info.folder)
        if not is_run_folder(path):
            raise UsageError(f"{path} is not a run folder, so it is not deleted.")
        shutil.rmtree(path)
        self._runs.pop(path, None)

    def _look(self) -> None:
        self._looked = True
        found = {folder.path: folder for root in self._roots for folder in run_folders(root)}
        asides = {
            run: asides
            for root in {path.parent.parent for path in found}
            for run, asides in asides_below(root).items()
        }
        self._runs = {
            path: self._runs.get(path) or LocalRun(folder) for path, folder in found.items()
        }
        for path, run in self._runs.items():
            run.asides = asides.get(path, ())


def open_store(path: str | Path) -> LocalStore:
    """The runs below a folder; raises ``UsageError`` when there is no such folder."""
    if not Path(path).expanduser().is_dir():
        raise UsageError(f"there is no folder {str(path)!r}.")
    return LocalStore(path)


def load_run(folder: str | Path) -> LocalRun:
    """One run by its folder; raises ``UsageError`` when there is no run in it."""
    path = Path(folder).expanduser().absolute()
    if not is_run_folder(path):
        raise UsageError(f"{str(folder)!r} is not a run folder: it has no run.json and no journal.")
    return LocalRun(RunFolder(path), asides_below(path.parent.parent).get(path, ()))
