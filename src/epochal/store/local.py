"""The store over run folders on this machine's file systems."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from types import TracebackType

from epochal.errors import UsageError
from epochal.journal.layout import RunFolder, is_run_folder
from epochal.settings import cache_folder
from epochal.store.adoption import asides_below
from epochal.store.cached import CachedSegments
from epochal.store.held import Held
from epochal.store.index import Index
from epochal.store.local_run import LocalRun
from epochal.store.lookup import choose
from epochal.store.selection import parse_order, parse_query
from epochal.store.store import RunView

# Rows are written to the index this many at a time, or when a list is done.
_WRITE_EVERY = 256


class LocalStore:
    """Every run below some folders; see ``epochal.store.store`` for what may be asked.

    With a ``cache`` folder, rows of runs are remembered there between processes, and copies of
    large unsealed parts are used from there; ``build`` has missing copies made, which is for
    servers. Without one, everything is worked out anew.
    """

    def __init__(self, *roots: str | Path, cache: Path | None = None, build: bool = False) -> None:
        self._roots = [Path(root).expanduser().absolute() for root in roots]
        self._runs: dict[Path, LocalRun] = {}
        self._by_id: dict[str, LocalRun] = {}
        # By folder, the id and version of each run that ``refresh`` has told of.
        self._told: dict[Path, tuple[str, int]] = {}
        self._looked = False
        self._index = Index(cache)
        self._held = Held(cached=None if cache is None else CachedSegments(cache, build=build))

    def __enter__(self) -> LocalStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write to the index what was learnt, and close every file."""
        self._remember()
        self._held.segments.close_all()
        if self._held.cached is not None:
            self._held.cached.close()

    @property
    def notices(self) -> Mapping[str, int]:
        """What the store had to do without, in sentences, and how often."""
        return self._index.notices

    def runs(
        self,
        query: str | None = None,
        *,
        order: str | None = None,
        offset: int = 0,
        limit: int | None = None,
    ) -> Sequence[LocalRun]:
        """Runs by creation, newest first, unless an order is given."""
        if offset < 0 or (limit is not None and limit < 0):
            raise UsageError(f"offset={offset} and limit={limit} must be 0 or more.")
        selects = None if query is None else parse_query(query)
        sort = None if order is None else parse_order(order)
        self._look_once()
        found = sorted(self._runs.values(), key=lambda run: run.created, reverse=True)
        if selects is not None:
            found = [run for run in found if selects(run)]
        if sort is not None:
            found = sort(found)
        self._remember(at_least=_WRITE_EVERY)
        return found[offset:] if limit is None else found[offset : offset + limit]

    def run(self, key: str) -> LocalRun:
        """The run that an id, its start, a name, project/name or a folder's path stands for."""
        path = Path(key).expanduser()
        if (len(path.parts) > 1 or key in (".", "..")) and is_run_folder(path):
            return self._at(path.absolute())
        runs = self.runs()
        return self._by_id.get(key) or runs[choose(key, [run.brief() for run in runs])]

    def find(self, run_id: str) -> LocalRun | None:
        """The run of exactly this id."""
        self._look_once()
        return self._by_id.get(run_id)

    def refresh(self) -> Set[str]:
        """Look for new runs and new records; the ids of runs that are new, changed or gone."""
        known = list(self._runs.values())
        self._look()
        for run in known:  # the others have not been read yet
            run.refresh()
        self._tell_apart()
        told = {path: (run.id, run.version) for path, run in self._runs.items()}
        before, self._told = self._told, told
        self._remember(at_least=_WRITE_EVERY)
        return {run_id for _, (run_id, _) in told.items() ^ before.items()}

    def remove(self, run: RunView) -> None:
        """Delete a run's folder and everything in it."""
        path = Path(run.info.folder)
        if not is_run_folder(path):
            raise UsageError(f"{path} is not a run folder, so it is not deleted.")
        known = self._runs.pop(path, None)
        if known is not None:
            self._tell_apart()
            known.close()
        shutil.rmtree(path)
        self._index.remove([str(path)])

    def _at(self, path: Path) -> LocalRun:
        """The run in a folder; one that this store does not list is read alone."""
        known = self._runs.get(path)
        if known is None:
            folder = path.resolve()
            same = (run for run in self._runs.values() if run.path.resolve() == folder)
            known = next(same, None)
        return known or load_run(path, held=self._held)

    def _look_once(self) -> None:
        if not self._looked:
            self._look()
            self._tell_apart()

    def _look(self) -> None:
        found = {path for root in self._roots for path in _run_paths(root, self._runs)}
        asides = {
            run: asides
            for root in {path.parent.parent for path in found}
            for run, asides in asides_below(root).items()
        }
        gone = [path for path in self._runs if path not in found]
        for path in gone:
            self._runs.pop(path).close()
        for path in found:
            run = self._runs.get(path)
            if run is None:
                run = self._runs[path] = LocalRun(RunFolder(path), held=self._held)
            run.asides = asides.get(path, ())
        if not self._looked:
            self._looked = True
            self._recall()
        else:
            self._index.remove(map(str, gone))

    def _tell_apart(self) -> None:
        """Give each run an id of its own; one that has it already keeps it."""
        by_id = {run.id: run for run in self._by_id.values() if run.path in self._runs}
        known = set(map(id, by_id.values()))
        others = [run for run in self._runs.values() if id(run) not in known]
        for run in sorted(others, key=lambda run: str(run.path)):
            run.copy = 1
            while run.id in by_id:
                run.copy += 1
            by_id[run.id] = run
        self._by_id = by_id

    def _recall(self) -> None:
        """Give every run the row that the index has of it."""
        for root in self._roots:
            gone = []
            for path, (signature, encoded) in self._index.rows(root).items():
                run = self._runs.get(Path(path))
                if run is None:
                    gone.append(path)
                    continue
                row = self._index.decode(encoded)
                if row is not None:
                    run.recall(signature, row)
            self._index.remove(gone)

    def _remember(self, *, at_least: int = 1) -> None:
        """Write the rows that have news; those of runs being written are not valid for long."""
        news = [run for run in self._runs.values() if run.has_news and run.is_settled]
        if len(news) >= at_least:
            self._index.put((str(run.path), run.signature, run.row) for run in news)
            for run in news:
                run.has_news = False


def open_store(*paths: str | Path, build: bool = False) -> LocalStore:
    """The runs below some folders, with the user's cache; ``UsageError`` when one is not there."""
    for path in paths:
        if not Path(path).expanduser().is_dir():
            raise UsageError(f"there is no folder {str(path)!r}.")
    return LocalStore(*paths, cache=cache_folder(), build=build)


def load_run(folder: str | Path, *, held: Held | None = None) -> LocalRun:
    """One run by its folder; raises ``UsageError`` when there is no run in it."""
    path = Path(folder).expanduser().absolute()
    if not is_run_folder(path):
        raise UsageError(f"{str(folder)!r} is not a run folder: it has no run.json and no journal.")
    asides = asides_below(path.parent.parent).get(path, ())
    return LocalRun(RunFolder(path), asides=asides, held=held)


def _run_paths(root: Path, known: Mapping[Path, object]) -> Iterator[Path]:
    """Every run folder below one: itself, a project's, or a tree of projects'."""
    if is_run_folder(root):
        yield root
        return
    for entry in _folders_in(root):
        if entry in known or _may_hold_run(entry):
            yield entry
        else:
            for inner in _folders_in(entry):
                if inner in known or _may_hold_run(inner):
                    yield inner


def _may_hold_run(path: Path) -> bool:
    """Whether a folder is listed: it holds a run, or nobody can tell, which is then its problem."""
    try:
        return is_run_folder(path)
    except OSError:
        return True


def _folders_in(path: Path) -> list[Path]:
    try:
        with os.scandir(path) as entries:
            return [
                Path(entry.path)
                for entry in entries
                if not entry.name.startswith(".") and _is_folder(entry)
            ]
    except OSError:  # gone, or not for us to look into
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads to itself, or into what cannot be looked into
        return False
