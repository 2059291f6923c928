"""Copies all that a hub keeps to another one: from its folder to a cluster, and the way back.

What is there already is compared and not sent again, so a copy that was interrupted is completed
by the next one. Everything that was copied is read back and compared: lines as records in their
order, files by their digests. Nothing of the original is changed, and nothing is replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import msgspec

from epochal.errors import EpochalError, FormatError, RunNotFoundError, UsageError
from epochal.hub.cluster_inbox import ClusterInbox
from epochal.hub.documents import Documents, FolderDocuments
from epochal.hub.folder_inbox import FolderInbox
from epochal.hub.inbox import ConflictError, Inbox
from epochal.hub.ledger import only_hub
from epochal.hub.opening import open_cluster
from epochal.journal.boards import Boards, FolderBoards, StoredBoard
from epochal.journal.layout import RunFolder, json_or_empty, run_folders, slugify
from epochal.journal.line import decode
from epochal.shipping.fetching import RunReader
from epochal.shipping.protocol import FileKind, RunState
from epochal.store.bucket import BucketError
from epochal.store.cluster.database import CatalogAwayError
from epochal.store.cluster.documents import ClusterDocuments
from epochal.store.cluster.runs import ClusterRuns, StoredRun
from epochal.store.local.trash import FolderTrash, put_in_trash
from epochal.store.lookup import choose

_AT_ONCE = 8
# A larger file travels in pieces; a smaller one is written to a bucket once.
_PIECE_BYTES = 64 << 20
_TELL_EVERY_S = 2.0
# A cluster knows its bucket, and keeps boards where a folder has files.
_OWN_KINDS = frozenset(("hub", "board"))


class Original(NamedTuple):
    """A run that is copied; ``removed`` is when it was moved to the trash, None for the others.

    ``known`` returns ``summary.json`` and ``metrics.json``, None for one that is not there.
    """

    id: str
    name: str
    project: str
    folder: str
    reader: RunReader
    state: Callable[[], RunState]
    known: Callable[[], tuple[bytes | None, bytes | None]]
    removed: float | None = None


class FolderData:
    """What the hub in a folder keeps: runs, documents and boards."""

    def __init__(self, root: Path, documents: Documents) -> None:
        self._root = root
        self.documents = documents
        self.inbox = FolderInbox(root)
        self._trash = FolderTrash([root]).runs()

    def originals(self) -> Sequence[Original]:
        """All runs; those in the trash come last, the newest deletion first."""
        here = [_in_folder(folder, self.inbox) for folder in run_folders(self._root)]
        for run in self._trash:
            folder = RunFolder(Path(run.folder))
            trashed = _in_folder(folder, FolderInbox(folder.path.parent))
            here.append(trashed._replace(removed=run.deleted))
        return here

    def boards(self, projects: Collection[str]) -> Boards:
        """The boards, also those of projects that may have no runs."""
        return FolderBoards([self._root], projects, lambda _path: True)

    def has_removed(self, run_id: str) -> bool:
        """Whether a run was in the trash."""
        return any(run.id == run_id for run in self._trash)

    def remove(self, run_id: str, at: float) -> None:
        """Move a run to the trash, as it was at a time in Unix seconds."""
        folder = self.inbox.folder_of(run_id)
        if folder is None:
            raise RunNotFoundError(f"the run {run_id} is no longer there.")
        put_in_trash(folder, at)


class ClusterData:
    """The same of a database and a bucket."""

    def __init__(self, runs: ClusterRuns, inbox: ClusterInbox) -> None:
        self._runs = runs
        self.inbox = inbox
        self.documents: Documents = ClusterDocuments(runs.database)

    def originals(self) -> Sequence[Original]:
        return [self._original(stored) for stored in self._runs.news(None, dict).changed]

    def _original(self, stored: StoredRun) -> Original:
        identity = msgspec.json.decode(stored.identity)
        return Original(
            id=stored.id,
            name=str(identity.get("name", "")),
            project=str(identity.get("project", "")),
            folder=stored.folder,
            reader=self._runs,
            state=partial(self._runs.state, stored.id, is_removed=stored.removed is not None),
            known=lambda: (stored.summary, self._runs.metrics(stored.id)),
            removed=stored.removed,
        )

    def boards(self, projects: Collection[str]) -> Boards:
        keys = (key for key, _ in self.documents.all("board"))
        names = [*(key.partition("/")[0] for key in keys), *projects]
        return self._runs.boards(lambda: names)

    def has_removed(self, run_id: str) -> bool:
        return self._runs.find(run_id, is_removed=True) is not None

    def remove(self, run_id: str, at: float) -> None:
        self._runs.remove(run_id, at=at)


@contextlib.contextmanager
def folder_data(root: Path) -> Iterator[FolderData]:
    """What a folder has; raises ``UsageError`` while a hub runs over it."""
    with only_hub(root), contextlib.closing(FolderDocuments(root)) as documents:
        yield FolderData(root, documents)


@contextlib.contextmanager
def cluster_data(catalog: str, bucket: str) -> Iterator[ClusterData]:
    """What a cluster has; its hubs may run."""
    with (
        open_cluster(catalog, bucket) as runs,
        contextlib.closing(ClusterInbox(runs, collect_s=0.0)) as inbox,
    ):
        yield ClusterData(runs, inbox)


HubData: TypeAlias = FolderData | ClusterData


def _in_folder(folder: RunFolder, inbox: FolderInbox) -> Original:
    """A run in a folder; its id is empty where ``run.json`` cannot be read."""
    identity = json_or_empty(folder.identity)
    run_id, named = str(identity.get("id", "")), str(identity.get("project", ""))
    project = inbox.project_of(run_id) or slugify(named)
    return Original(
        id=run_id,
        name=str(identity.get("name", "")),
        # A person may have moved it to the folder of another project.
        project=named if project == slugify(named) else project,
        folder=str(folder.path),
        reader=inbox,
        state=partial(inbox.state, run_id),
        known=lambda: (_content(folder.summary), _content(folder.metrics)),
    )


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


@dataclass(slots=True)
class Copied:
    """What is the same on both sides now, and a sentence for all that is not.

    ``num_trashed`` runs were copied to the trash by an earlier call, and are not read again.
    """

    num_runs: int = 0
    num_trashed: int = 0
    num_records: int = 0
    num_files: int = 0
    num_documents: int = 0
    problems: list[str] = field(default_factory=list)


def copy_hub(
    source: HubData,
    target: HubData,
    *,
    names: Sequence[str] = (),
    tell: Callable[[str], object] = lambda _line: None,
) -> Copied:
    """Copy everything, or only the runs that ``names`` name.

    Raises ``CatalogAwayError`` and ``BucketError`` where these cannot be reached: a later call goes
    on there.
    """
    runs = source.originals()
    if names:
        runs = [runs[choose(name, runs)] for name in names]
    copied, told_s = Copied(), time.monotonic()
    runs = _each_id_once(runs, copied)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        done = [pool.submit(_copy_run, run, target) for run in runs]
        try:
            for number, future in enumerate(done, 1):
                _add(copied, future.result())
                if time.monotonic() - told_s > _TELL_EVERY_S:
                    told_s = time.monotonic()
                    tell(f"{number:,} of {len(runs):,} runs")
        finally:
            pool.shutdown(cancel_futures=True)
    if not names:
        _copy_documents(source.documents, target.documents, copied)
        projects = {run.project for run in runs}
        boards = source.boards(projects).list()
        _copy_boards(boards, target.boards(projects | {one.project for one in boards}), copied)
    return copied


def _each_id_once(runs: Sequence[Original], copied: Copied) -> list[Original]:
    """Leave out copies of a run, such as one that was deleted and then sent again."""
    found: dict[str, Original] = {}
    for run in runs:
        if run.id and run.id in found:
            name = found[run.id].folder
            copied.problems.append(f"{run.folder}: {name} has the same id, so this is left out.")
        else:
            found[run.id or run.folder] = run
    return list(found.values())


def _add(copied: Copied, other: Copied) -> None:
    copied.num_runs += other.num_runs
    copied.num_trashed += other.num_trashed
    copied.num_records += other.num_records
    copied.num_files += other.num_files
    copied.problems += other.problems


def _copy_run(run: Original, target: HubData) -> Copied:
    """Copy one run; what cannot be copied is a problem that leaves the others."""
    copied = Copied()
    try:
        if run.removed is not None and target.has_removed(run.id):
            return Copied(num_trashed=1)  # it went there when all of it was the same
        _RunCopy(run, target.inbox, copied).copy()
        if run.removed is not None and not copied.problems:
            target.remove(run.id, run.removed)
    except (CatalogAwayError, BucketError):
        raise
    except (EpochalError, OSError) as error:
        copied.problems.append(str(error))
    copied.num_runs = int(not copied.problems)
    name = "/".join(Path(run.folder).parts[-2:])
    copied.problems = [f"{name}: {problem}" for problem in copied.problems]
    return copied


@dataclass(frozen=True, slots=True)
class _RunCopy:
    """The copy of one run; what differs afterwards is a problem."""

    run: Original
    inbox: Inbox
    copied: Copied

    def copy(self) -> None:
        if not self.run.id:
            raise FormatError("run.json does not say which run it is.")
        state = self.run.state()
        identity = {**state.identity, "project": self.run.project}
        there = self.inbox.register(self.run.id, identity)
        labels = there.labels
        if state.labels and not labels:
            labels = self.inbox.put_labels(self.run.id, state.labels, {})
        for name, mine, theirs in (
            ("run.json", identity, there.identity),
            ("labels.json", state.labels, labels),
        ):
            if mine != theirs:
                self._differs(name)
        files: Mapping[FileKind, Collection[str]] = {
            "blobs": state.blobs,
            "segments": state.segments,
        }
        for kind, names in files.items():
            for name in names:
                self._file(kind, name)
        self.copied.num_records += sum(one.lines for one in state.segments.values())
        for stem, part in state.parts.items():
            if f"{stem}.parquet" not in state.segments:
                self._part(stem, part.lines)
        self._known()

    def _differs(self, what: str) -> None:
        self.copied.problems.append(f"{what} is another one there, which stays as it is.")

    def _file(self, kind: FileKind, name: str) -> None:
        with tempfile.TemporaryFile() as file:
            sha256 = _read_file(self.run.reader, self.run.id, kind, name, file)
            size, have = file.tell(), -1
            while have < size:
                file.seek(max(0, have))
                # The first piece is empty: it asks what is there.
                piece = b"" if have < 0 else file.read(_PIECE_BYTES)
                before, offset = have, max(0, have)
                have = self.inbox.put_file(
                    self.run.id, kind, name, piece, offset=offset, size=size, sha256=sha256
                )
                if have <= before:
                    raise FormatError(f"{kind}/{name} does not arrive as it is.")
        if _read_file(self.inbox, self.run.id, kind, name) != sha256:
            self._differs(f"{kind}/{name}")
        self.copied.num_files += 1

    def _part(self, stem: str, num_lines: int) -> None:
        """Copy lines of a part that are not there, and compare all of them."""
        have = self.inbox.append(self.run.id, stem, first=num_lines, lines=b"")
        while have < num_lines:
            lines = self.run.reader.lines(self.run.id, stem, first=have)
            before, have = have, self.inbox.append(self.run.id, stem, first=have, lines=lines)
            if have <= before:
                raise ConflictError(f"{stem} has {have:,} lines there, and cannot get more.")
        there = self.inbox.state(self.run.id)
        if stem not in there.parts:  # it was sealed in the folder, and has as many lines
            return
        pairs = zip_longest(
            _records(self.run.reader, self.run.id, stem, num_lines),
            _records(self.inbox, self.run.id, stem, num_lines),
        )
        if not all(mine == theirs for mine, theirs in pairs):
            self._differs(stem)
        self.copied.num_records += num_lines

    def _known(self) -> None:
        """Copy the summaries; readers make those again that are not taken."""
        summary, metrics = self.run.known()
        with contextlib.suppress(FormatError, UsageError):
            if metrics is not None:
                self.inbox.put_metrics(self.run.id, metrics)
            if summary is not None:
                self.inbox.put_summary(self.run.id, summary)


def _read_file(
    reader: RunReader, run_id: str, kind: FileKind, name: str, into: BinaryIO | None = None
) -> str:
    """The SHA-256 of a file, which is written to another one as well."""
    digest, offset = hashlib.sha256(), 0
    while piece := reader.file(run_id, kind, name, offset=offset):
        digest.update(piece)
        offset += len(piece)
        if into is not None:
            into.write(piece)
    return digest.hexdigest()


def _records(reader: RunReader, run_id: str, stem: str, num_lines: int) -> Iterator[Any]:
    """The records of the first lines of a part; lines that are none have no order."""
    first = 0
    while first < num_lines and (lines := reader.lines(run_id, stem, first=first)):
        for line in lines.split(b"\n")[: num_lines - first]:
            if (record := decode(line)) is not None:
                yield record
        first += lines.count(b"\n")


def _copy_documents(source: Documents, target: Documents, copied: Copied) -> None:
    for kind in source.kinds():
        if kind in _OWN_KINDS:
            continue
        bodies = dict(source.all(kind))
        target.add(kind, bodies)
        there = dict(target.all(kind))
        for key, body in bodies.items():
            if there.get(key) == body:
                copied.num_documents += 1
            else:
                copied.problems.append(f"{kind} {key!r} is another one there, which stays.")


def _copy_boards(boards: Sequence[StoredBoard], target: Boards, copied: Copied) -> None:
    there = {(slugify(one.project), one.board.name): one.board for one in target.list()}
    for stored in boards:
        name = f"the board {stored.board.name!r} of {stored.project}"
        key = (slugify(stored.project), stored.board.name)
        if stored.problem is not None:
            copied.problems.append(f"{name}: {stored.problem}")
        elif key in there and there[key] != stored.board:
            copied.problems.append(f"{name} is another one there, which stays as it is.")
        else:
            if key not in there:
                target.save(stored.project, stored.board, None)
            copied.num_documents += 1
