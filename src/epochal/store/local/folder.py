"""A run in a run folder: its small files, its parts, and the newest readings of its machines."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from epochal.errors import FormatError, UsageError
from epochal.journal.layout import JsonFileError, RunFolder, read_json
from epochal.journal.reader import NewerFormatError
from epochal.journal.regular_file import read_regular
from epochal.journal.search_bounds import SearchBounds
from epochal.records import FORMAT_VERSION
from epochal.store.answers import NO_LABELS, Fork, Labels, LabelsEdit, Machine
from epochal.store.local.cache import MemoryBudget
from epochal.store.local.fork import MAX_DEPTH, ForkedHistory, fork_of, parent_folder
from epochal.store.local.index import IndexPlace, Stamp
from epochal.store.local.labels import edit_labels, read_labels
from epochal.store.local.listing import LINK_OUT, Aside, Listing, Stat, is_orphan, orphaned_ranks
from epochal.store.local.outline import outline_row
from epochal.store.local.part import Part
from epochal.store.local.parts import LoadedParts
from epochal.store.local.small import SmallJournal, read_small
from epochal.store.row import Row

# A part may be sealed between a look and the reading; each look finds at least one of them settled.
_LOOKS = 100
_REMEDIES = {
    "run.json": "The run is listed by its journal; 'epochal repair' rebuilds that file.",
    "labels.json": "The run is listed without labels; fix or delete that file.",
}
_NO_PROBLEMS: Mapping[str, str] = {}
# A companion writes every second; what is older was left behind by one that was killed.
STALE_S = 5.0
# GPUs are read every second, the host every five; one that fell silent is not to look alive.
_SILENT_S = 15.0


class FolderSource:
    """A run folder; ``asides`` are parts that ranks wrote elsewhere for it."""

    tracker: str | None = None

    def __init__(
        self,
        path: str | Path,
        *,
        asides: Sequence[Aside] = (),
        held: MemoryBudget | None = None,
        bounds: SearchBounds | None = None,
        parents: SearchBounds | None = None,
        depth: int = 0,
    ) -> None:
        self.place = str(path)
        self._is_orphan = is_orphan(self.place)
        self._bounds = SearchBounds(self.place) if bounds is None else bounds
        self.asides = asides
        self._listing: Listing | None = None
        self._dirs: tuple[int, int] | None = None
        self._held = MemoryBudget() if held is None else held
        # Where the parents of forks may lie; how many forks led here.
        self._parents = self._bounds if parents is None else parents
        self._depth = depth
        self._history: ForkedHistory | None = None
        # Made when they are asked for: most runs of a list are known from the index.
        self._identity: Identity | None = None
        self._loaded: LoadedParts | None = None

    @property
    def _parts(self) -> LoadedParts:
        if self._loaded is None:
            self._loaded = LoadedParts(self._held)
        return self._loaded

    @property
    def folder(self) -> RunFolder:
        """The paths inside the folder."""
        return RunFolder(self.path)

    @property
    def path(self) -> Path:
        """The folder."""
        return Path(self.place)

    @property
    def index_place(self) -> IndexPlace:
        """Beside the run."""
        folder, _, name = self.place.rpartition(os.sep)
        return IndexPlace(folder, name, is_beside=True)

    def look(self) -> None:
        """List the folder."""
        self._dirs = _changed(self.place)  # first: what changes from here on makes another stamp
        self._listing = Listing(self.place, self.asides, bounds=self._bounds)

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
    def stamp(self) -> Stamp | None:
        """Of the folders and of labels.json; None where a link or another folder has a part."""
        listing = self._known
        if self._dirs is None or self.asides or self._is_orphan or listing.has_links:
            return None
        labels = listing.labels
        return Stamp(*self._dirs, labels=None if labels is None else (labels.size, labels.mtime_ns))

    def has_stamp(self, stamp: Stamp) -> bool:
        """Whether the files have this stamp now."""
        return not self.asides and has_stamp(self.place, stamp)

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
        identity = self._identity
        if identity is None:
            identity = self._identity = Identity(self.place)
        identity.refresh(self._known)
        return identity

    @property
    def run_json(self) -> Mapping[str, Any]:
        """The content of run.json."""
        return self._files.run_json

    @property
    def labels(self) -> Labels:
        """The content of labels.json."""
        return self._files.labels

    @property
    def problems(self) -> Sequence[str]:
        """Of the small files and of the parts."""
        if self._is_orphan:
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

    @property
    def unsealed_bytes(self) -> int:
        """The size of the journal parts."""
        return self._known.unsealed_bytes

    def outline(self, own_id: str) -> Row | None:
        """From run.json, labels.json and both ends of the newest part."""
        files = self._files
        if files.problems or self.asides or self._is_orphan:
            return None
        return outline_row(
            self._known, files.run_json, files.labels, own_id=own_id, place=self.place
        )

    def small(self) -> SmallJournal | None:
        """From one read of the only part."""
        files = self._files
        if files.problems or not files.run_json or "fork" in files.run_json:
            return None
        if self.asides or self._is_orphan:
            return None
        return read_small(self._known, self._held.shapes)

    def poll(self) -> bool:
        """Read what the journal has gained, and open new segments."""
        if self.is_newer:
            return False
        changed = self._poll_own()
        return self._poll_history() or changed

    def _poll_history(self) -> bool:
        """Read on in the parent of a fork; True when the history has changed."""
        fork = fork_of(self.run_json)
        if fork is None or any(part.name.attempt == 0 for part in self._parts.all):
            return False
        folder = parent_folder(fork, self.path, self._parents) if self._depth < MAX_DEPTH else None
        if folder is None:
            had_one, self._history = self._history is not None, None
            return had_one
        if self._history is None:
            source = FolderSource(
                folder,
                held=self._held,
                bounds=self._parents,
                parents=self._parents,
                depth=self._depth + 1,
            )
            self._history = ForkedHistory(fork, source)
        return self._history.poll()

    def _poll_own(self) -> bool:
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
        history = [] if self._history is None else self._history.parts
        return [*self._parts.all, *history]

    @property
    def held_bytes(self) -> int:
        """How much of the journal is in memory."""
        history = 0 if self._history is None else self._history.held_bytes
        return self._parts.held_bytes + history

    def has_parent(self, fork: Fork) -> bool:
        """Whether the run that this one was forked from is still there."""
        return parent_folder(fork, self.path, self._parents) is not None

    def blob(self, file: str) -> bytes:
        """The bytes of a file in the folder of blobs; any other raises ``UsageError``."""
        path = self.folder.blobs / file
        # A link could lead out of the folder, and a pipe would wait for somebody to write to it.
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise UsageError(f"blob {file!r} is not a file.")
        if not self._bounds.allows(path):
            raise UsageError(f"blob {file!r} lies outside of the searched folder.")
        fork = None if path.exists() else fork_of(self.run_json)
        parent = None if fork is None else parent_folder(fork, self.path, self._parents)
        if parent is not None and self._depth < MAX_DEPTH:
            source = FolderSource(
                parent,
                bounds=self._parents,
                parents=self._parents,
                depth=self._depth + 1,
            )
            return source.blob(file)
        return read_regular(path)

    def machines(self) -> Sequence[Machine]:
        """The newest readings of the companions."""
        return read_machines(self.folder, now=time.time())

    def relabel(self, edit: LabelsEdit) -> None:
        """Edit labels.json."""
        edit_labels(self.folder, edit)

    def close(self) -> None:
        """Close every part."""
        if self._loaded is not None:
            self._loaded.close()
        if self._history is not None:
            self._history.close()
            self._history = None


def has_stamp(place: str, stamp: Stamp) -> bool:
    """Whether a run folder has this stamp: two stats, and a third where there are labels."""
    if _changed(place) != (stamp.folder_ns, stamp.journal_ns):
        return False
    return stamp.labels is None or _stat_of(f"{place}/labels.json") == stamp.labels


def _changed(path: str) -> tuple[int, int] | None:
    """When a run's folder and its journal's changed; None where they are not two folders."""
    try:
        folder, journal = os.lstat(path), os.lstat(f"{path}/journal")
    except OSError:
        return None
    if not (stat.S_ISDIR(folder.st_mode) and stat.S_ISDIR(journal.st_mode)):
        return None
    return folder.st_mtime_ns, journal.st_mtime_ns


def _stat_of(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns


class Identity:
    """The content of run.json and labels.json; a file that cannot be read gives a sentence.

    ``newer_format`` is the sentence about a run that a newer Epochal wrote: it is never half-read.
    """

    __slots__ = (
        "_listing",
        "_place",
        "_problems",
        "_seen",
        "labels",
        "newer_format",
        "run_json",
    )

    def __init__(self, place: str) -> None:
        self._place = place
        self._listing: Listing | None = None
        self._seen: tuple[Stat | None, Stat | None] | None = None
        self._problems: Mapping[str, str] = _NO_PROBLEMS
        self.run_json: dict[str, Any] = {}
        self.labels = NO_LABELS
        self.newer_format: str | None = None

    @property
    def problems(self) -> list[str]:
        """One sentence for each file that cannot be read."""
        if self._problems is _NO_PROBLEMS and self.newer_format is None:
            return []
        found = list(self._problems.values())
        return found if self.newer_format is None else [*found, self.newer_format]

    def refresh(self, listing: Listing) -> None:
        """Read the files that have changed."""
        if listing is self._listing:
            return
        self._listing = listing
        seen, self._seen = self._seen, (listing.identity, listing.labels)
        if seen is None or seen[0] != listing.identity:
            self._read("run.json", listing)
        if seen is None or seen[1] != listing.labels:
            if listing.labels is None and not listing.may_have_labels:
                self._note("labels.json", None)  # most runs have none
                self.labels = NO_LABELS
            else:
                self._read("labels.json", listing)

    def _read(self, what: str, listing: Listing) -> None:
        problem: str | None = None
        try:
            if what in listing.refused:
                problem = f"{what} {LINK_OUT}"
            elif what == "run.json":
                self._read_identity()
            else:
                self._read_labels()
        except FileNotFoundError:
            problem = f"{what} is missing; 'epochal repair' can rebuild it."
        except JsonFileError as error:
            problem = f"{what} {error.fault}. {_REMEDIES[what]}"
        except OSError as error:
            reason = error.strerror or error
            problem = f"{what} cannot be read: {reason}. {_REMEDIES[what]}"
        self._note(what, problem)

    def _note(self, what: str, problem: str | None) -> None:
        if problem is not None:
            self._problems = {**self._problems, what: problem}
        elif what in self._problems:
            self._problems = {name: text for name, text in self._problems.items() if name != what}

    def _read_identity(self) -> None:
        self.run_json = {}
        run_json = read_json(f"{self._place}/run.json")
        version = run_json.get("v", FORMAT_VERSION)
        if isinstance(version, (int, float)) and int(version) > FORMAT_VERSION:
            self.newer_format = (
                f"run.json was written by a newer Epochal (format {str(version)[:20]}, this one"
                f" reads up to {FORMAT_VERSION}): upgrade with 'pip install -U epochal'."
            )
        self.run_json = run_json

    def _read_labels(self) -> None:
        self.labels = NO_LABELS
        self.labels = read_labels(RunFolder(Path(self._place)))


def read_machines(folder: RunFolder, *, now: float) -> list[Machine]:
    """The newest readings of a run's machines, by rank; none when no companion measures them."""
    try:
        files = sorted(folder.live.iterdir())
    except OSError:  # most runs have ended, or have no companion
        return []
    found = [_machine(read) for file in files if (read := _read(folder, file.name)) is not None]
    fresh = [one for one in found if one is not None and abs(now - one.t) <= STALE_S]
    return sorted(fresh, key=lambda one: (one.rank, one.node))


def _read(folder: RunFolder, name: str) -> dict[str, Any] | None:
    if not name.endswith(".json"):
        return None
    try:
        return read_json(folder.live / name)
    except (OSError, FormatError):  # gone, or met in the middle of a write: the next look finds it
        return None


def _machine(said: dict[str, Any]) -> Machine | None:
    t, node, rank, gpus = (said.get(name) for name in ("t", "node", "rank", "gpus"))
    if not isinstance(t, (int, float)) or not isinstance(node, str) or not isinstance(rank, int):
        return None
    listed = [_plain(gpu) for gpu in gpus] if isinstance(gpus, list) else []
    system = _plain(said.get("system"))
    return Machine(
        node=node,
        rank=rank,
        t=float(t),
        gpus=tuple(gpu for gpu in listed if "id" in gpu and _is_read(gpu, t)),
        system=system if _is_read(system, t) else {},
    )


def _is_read(fields: Mapping[str, float | str], now: float) -> bool:
    """Whether it was measured lately; files of older versions do not say when."""
    t = fields.get("t")
    return not isinstance(t, (int, float)) or now - t <= _SILENT_S


def _plain(fields: Any) -> dict[str, float | str]:
    if not isinstance(fields, dict):
        return {}
    return {name: value for name, value in fields.items() if isinstance(value, (int, float, str))}
