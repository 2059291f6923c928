"""Receives runs into a database and a bucket, which any number of hubs share.

A hub keeps nothing of a run: pieces of a file are objects until all of them are here, so they may
come to different hubs.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import tempfile
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from epochal.errors import EpochalError, FormatError, RunNotFoundError
from epochal.hub.inbox import (
    Readiness,
    UnknownRunError,
    check_lines,
    check_piece,
    fewer_records,
    other_content,
    other_project,
)
from epochal.hub.limits import Limits
from epochal.hub.line_queue import COLLECT_S, LineQueue
from epochal.hub.summaries import checked_metrics, checked_summary
from epochal.journal.layout import json_bytes, slugify
from epochal.journal.summaries import metrics_bytes, summary_bytes
from epochal.shipping import protocol
from epochal.shipping.offering import named_part
from epochal.store.bucket import BucketError, ObjectNotFoundError, pieces_of
from epochal.store.cluster.database import CatalogAwayError
from epochal.store.cluster.lines import Block
from epochal.store.cluster.runs import ClusterRuns, StoredFile
from epochal.store.cluster.usage import bytes_by
from epochal.store.published import object_key, upload_prefix

# Rank 0 may start so much earlier than the other ranks of its launch.
_LAUNCH_SLACK_S = 600.0
_MOST_PROJECTS = 10_000
# A prefix that no object has: listing it says whether the bucket is there.
_PROBE = "ready/"
# A failure counts for so long: who finds a hub not ready sends it nothing that could succeed.
_RECENT_S = 10.0
_NO_LINES = "the database stores no lines now."
_NO_FILES = "the bucket stores no files now: sealing and files wait."
ONE_MACHINE = (
    "what is acknowledged is durable on one machine: the database has no synchronous standby."
)


class ClusterInbox:
    """The runs of a cluster, as shippers see them; see ``epochal.hub.inbox``.

    ``limits`` are checked against what is stored when lines are, so several hubs together exceed
    them by no more than each of them stores at once. Lines wait ``collect_s`` for those of other
    senders.
    ``on_commit`` is called with the bytes of lines that were made durable, and the seconds that it
    took.
    """

    # Nearly all of them wait for the lines of other senders.
    num_threads = 256

    def __init__(
        self,
        runs: ClusterRuns,
        *,
        limits: Limits | None = None,
        on_commit: Callable[[int, float], None] = lambda _num_bytes, _seconds: None,
        collect_s: float = COLLECT_S,
    ) -> None:
        self._runs = runs
        self._limits = Limits() if limits is None else limits
        self._queue = LineQueue(self._store, collect_s=collect_s, on_commit=on_commit)
        # What failed last, and when; it is asked again only if senders come.
        self._failures: dict[str, float] = {}
        # The projects of runs that were asked for last: a run stays in its project.
        self._projects: OrderedDict[str, str] = OrderedDict()

    def close(self) -> None:
        """Store what waits; no call follows."""
        self._queue.close()

    # -- runs -------------------------------------------------------------------------------------

    def known_project(self, run_id: str) -> str | None:
        return self._projects.get(run_id)

    def project_of(self, run_id: str) -> str | None:
        run = self._runs.find(run_id)
        if run is None:
            self._projects.pop(run_id, None)
            return None
        self._projects[run_id] = run.project
        while len(self._projects) > _MOST_PROJECTS:
            self._projects.popitem(last=False)
        return run.project

    def rescan(self) -> None:
        """Nothing is kept that could be outdated."""

    def readiness(self) -> Readiness:
        missing: list[str] = []
        notes: list[str] = []
        try:
            if not self._runs.database.has_standby():
                notes.append(ONE_MACHINE)
        except CatalogAwayError:
            missing.append("the database cannot be reached, or takes no changes.")
        try:
            next(iter(self._runs.bucket.list(_PROBE)), None)
        except EpochalError:
            # Lines are acknowledged without it, so a balancer must not hide every hub.
            notes.append("the bucket cannot be reached: sealing and files wait.")
        # A full disk can still be read.
        if self._has_failed(_NO_LINES) and not missing:
            missing.append(_NO_LINES)
        if self._has_failed(_NO_FILES):
            notes.append(_NO_FILES)
        return Readiness(tuple(missing), tuple(notes))

    def _has_failed(self, what: str) -> bool:
        return time.monotonic() - self._failures.get(what, -math.inf) < _RECENT_S

    @contextlib.contextmanager
    def _noting(self, what: str, error: type[EpochalError]) -> Iterator[None]:
        """Note a failure for those who ask whether this hub is ready, until it succeeds."""
        try:
            yield
        except error:
            self._failures[what] = time.monotonic()
            raise
        self._failures.pop(what, None)

    def _store(self, blocks: Sequence[Block]) -> Sequence[int | EpochalError]:
        charging = self._limits.charging if self._limits else None
        with self._noting(_NO_LINES, CatalogAwayError):
            return self._runs.append(blocks, charging=charging)

    def register(
        self, run_id: str, identity: Mapping[str, Any], *, writer: str = ""
    ) -> protocol.RunState:
        checked = protocol.checked_identity(run_id, identity)
        project = slugify(checked["project"])
        if self._limits and self.project_of(run_id) is None:
            self._check_fits(writer, len(json_bytes(checked)))
        state = self._runs.register(run_id, checked, writer=writer)
        present = state.folder.partition("/")[0]
        if present != project:
            raise other_project(run_id, present)
        return state

    def launched(self, launch_id: str, project: str, *, age_s: float) -> str:
        within_s = age_s + _LAUNCH_SLACK_S
        run_id = self._runs.launched(launch_id, slugify(project), within_s=within_s)
        if run_id is None:
            raise UnknownRunError(f"no run of the launch {launch_id!r} is here.")
        return run_id

    def state(self, run_id: str) -> protocol.RunState:
        with _known():
            return self._runs.state(run_id)

    # -- what shippers send -----------------------------------------------------------------------

    def append(self, run_id: str, stem: str, *, first: int, lines: bytes) -> int:
        check_lines(lines)
        with _known():
            return self._queue.append(Block(run_id, named_part(stem).stem, first, lines))

    def put_file(
        self,
        run_id: str,
        kind: protocol.FileKind,
        name: str,
        chunk: bytes,
        *,
        offset: int,
        size: int,
        sha256: str,
    ) -> int:
        check_piece(kind, name, chunk, offset=offset, size=size, sha256=sha256)
        if kind == "live":
            self._runs.put_readings(run_id, name, chunk)
            return size
        before = self._runs.stored_file(run_id, kind, name)
        if before is not None and (before.sha256, before.num_bytes) == (sha256, size):
            return size
        if before is not None and kind == "blobs" and self._is_whole(before):
            raise other_content(kind, name)
        upload = _Upload(self._runs, run_id, kind, name, size, sha256)
        have = upload.num_bytes
        with self._noting(_NO_FILES, BucketError):
            if have < size or not size:
                if offset != have:
                    return have
                if self._limits:
                    replaced = self._runs.file_bytes(run_id, kind, name)
                    self._check_fits(upload.run.writer, size - replaced)
                have = upload.add(chunk, offset=offset)
            return have if have < size else self._complete(upload)

    def put_labels(
        self,
        run_id: str,
        labels: Mapping[str, Any],
        base: Mapping[str, Any],
        *,
        on_change: Callable[[list[str]], object] = lambda _fields: None,
    ) -> dict[str, Any]:
        def edit(here: Mapping[str, Any]) -> dict[str, Any]:
            return protocol.merged_labels(ours=here, theirs=labels, base=base)

        with _known():
            here, merged = self._runs.edit_labels(run_id, edit)
        fields = sorted(name for name in {*merged, *here} if merged.get(name) != here.get(name))
        if fields:
            on_change(fields)
        return merged

    def put_summary(self, run_id: str, body: bytes) -> bool:
        row = checked_summary(run_id, body)
        with _known():
            self._runs.put_summary(run_id, summary_bytes(row))
        return True

    def put_metrics(self, run_id: str, body: bytes) -> bool:
        known = checked_metrics(body)
        with _known():
            self._runs.put_metrics(run_id, metrics_bytes(known))
        return True

    # -- what others fetch ------------------------------------------------------------------------

    def lines(self, run_id: str, stem: str, *, first: int) -> bytes:
        return self._runs.lines(run_id, stem, first=first)

    def file(self, run_id: str, kind: protocol.FileKind, name: str, *, offset: int) -> bytes:
        return self._runs.file(run_id, kind, name, offset=offset)

    # -- files ------------------------------------------------------------------------------------

    def _check_fits(self, writer: str, num_bytes: int) -> None:
        """Raise ``FullError`` where so many bytes more do not fit."""
        used = self._runs.database.run(lambda cursor: bytes_by(cursor, "writer"))
        self._limits.charging(used)(writer, num_bytes)

    def _is_whole(self, file: StoredFile) -> bool:
        """Whether the object of a file is there with its digest."""
        digest = hashlib.sha256()
        with contextlib.suppress(ObjectNotFoundError):
            for piece in pieces_of(self._runs.bucket, file.object, file.num_bytes):
                digest.update(piece)
        return digest.hexdigest() == file.sha256

    def _complete(self, upload: _Upload) -> int:
        """Let a file appear under its name; 0 if it has another digest and is sent again."""
        with tempfile.TemporaryDirectory(prefix="epochal-") as scratch:
            path = Path(scratch) / upload.name
            if not upload.write(path):
                upload.drop()
                return 0
            records = self._checked_records(upload, path) if upload.kind == "segments" else 0
            file = StoredFile(upload.object, upload.size, upload.sha256, records)
            self._runs.put_object(file.object, path)
        if upload.kind == "blobs":
            self._runs.put_blob(upload.run.id, upload.name, file)
        else:
            stem = upload.name.removesuffix(".parquet")
            have = self._runs.put_segment(upload.run.id, stem, file)
            if have is not None:
                upload.drop()
                raise fewer_records(upload.name, records, have)
        upload.drop()
        return upload.size

    def _checked_records(self, upload: _Upload, path: Path) -> int:
        """How many lines a segment holds; raises ``FormatError`` for a damaged one."""
        from epochal.journal.segments.read import Segment

        try:
            with Segment(path) as segment:
                segment.check_pages()
                return segment.num_records + segment.num_damaged
        except FormatError:
            upload.drop()
            raise


class _Upload:
    """A file that comes in pieces; ``num_bytes`` are here."""

    def __init__(
        self,
        runs: ClusterRuns,
        run_id: str,
        kind: protocol.FileKind,
        name: str,
        size: int,
        sha256: str,
    ) -> None:
        self._runs = runs
        self.kind, self.name, self.size, self.sha256 = kind, name, size, sha256
        with _known():
            self.run = runs.present(run_id)
        self.num_bytes = runs.uploaded(run_id, kind, name, sha256)
        # A file of one piece is never an object of its own.
        self._only: bytes | None = None

    @property
    def object(self) -> str:
        """The key of the whole file."""
        return object_key(self.run.folder, self.kind, self.name, self.sha256)

    def add(self, chunk: bytes, *, offset: int) -> int:
        """Store a piece; how many bytes are here then."""
        if len(chunk) == self.size:
            self._only = chunk
        elif chunk:
            done = (self.run.id, self.kind, self.name, self.sha256)
            if not offset:  # noted first: pieces that nobody completes are swept
                self._runs.add_uploaded(*done, offset=0, num_bytes=0)
            self._runs.bucket.put(self._piece(offset), chunk, replace=True)
            self.num_bytes = self._runs.add_uploaded(*done, offset=offset, num_bytes=len(chunk))
            return self.num_bytes
        return len(chunk)

    def write(self, path: Path) -> bool:
        """Write the whole file to a path; False if it has another digest, or a piece is gone."""
        digest, size = hashlib.sha256(), 0
        with open(path, "wb") as file:
            for piece in [self._only] if self._only is not None else self._pieces():
                digest.update(piece)
                size += file.write(piece)
        return (digest.hexdigest(), size) == (self.sha256, self.size)

    def drop(self) -> None:
        """Forget the pieces."""
        if self._only is None and self.size:
            self._runs.bucket.delete(
                [stored.key for stored in self._runs.bucket.list(f"{self._prefix}/")]
            )
            self._runs.end_upload(self.run.id, self.kind, self.name, self.sha256)

    def _pieces(self) -> Iterator[bytes]:
        offset = 0
        while offset < self.num_bytes:
            try:
                piece = self._runs.bucket.get(self._piece(offset))
            except ObjectNotFoundError:  # whoever completed the file has dropped its pieces
                return
            yield piece
            offset += len(piece)

    @property
    def _prefix(self) -> str:
        return upload_prefix(self.run.folder, self.kind, self.name, self.sha256)

    def _piece(self, offset: int) -> str:
        return f"{self._prefix}/{offset:015d}"


@contextlib.contextmanager
def _known() -> Iterator[None]:
    """Raise what says that a run is not here as an inbox does."""
    try:
        yield
    except RunNotFoundError as error:
        raise UnknownRunError(str(error)) from error
