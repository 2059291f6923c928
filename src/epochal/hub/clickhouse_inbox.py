"""Receives runs into ClickHouse; see ``inbox`` for what an acknowledgement promises.

Nothing is kept in the hub but what spares questions: how much of a part was received is asked
again whenever a sender goes on from somewhere else. So the next request may go to another hub.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from epochal.errors import FormatError, UsageError
from epochal.hub.inbox import ConflictError, UnknownRunError
from epochal.journal.layout import slugify
from epochal.journal.line import encode_json
from epochal.shipping import protocol
from epochal.shipping.offering import named_part
from epochal.shipping.protocol import merged_labels
from epochal.store.clickhouse.blobs import (
    StoredBlob,
    digest_of,
    piece,
    put_piece,
    stored_blobs,
    whole_blobs,
)
from epochal.store.clickhouse.ingest import Ingest
from epochal.store.clickhouse.source import LABELS, LIVE, RUN, TRASH
from epochal.store.clickhouse.store import NOTICED_S
from epochal.store.clickhouse.tables import Database

# Rank 0 may start so much earlier than the other ranks of its launch.
_LAUNCH_SLACK_S = 600.0
_MOST_LINES = 20_000


class ClickHouseInbox:
    """The runs of one database, as shippers see them; see ``Inbox``."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ingest = Ingest(database.tables)
        self._lock = threading.Lock()
        self._locks: dict[str, threading.RLock] = {}
        self._projects: dict[str, tuple[float, str]] = {}

    def close(self) -> None:
        """Store what waits."""
        self._ingest.close()

    # -- runs -------------------------------------------------------------------------------------

    def known_project(self, run_id: str) -> str | None:
        """The project of a run that was asked for a moment ago; it waits for nothing."""
        asked_s, project = self._projects.get(run_id, (-NOTICED_S, ""))
        return project if time.monotonic() - asked_s < NOTICED_S else None

    def project_of(self, run_id: str) -> str | None:
        """The project of a run that is here; None for an unknown run."""
        found = self._database.documents.find([RUN, TRASH], [run_id])
        bodies = {one.kind: one.body for one in found}
        identity = bodies.get(RUN)
        if identity is None or bodies.get(TRASH):
            self._projects.pop(run_id, None)
            return None
        project = slugify(str(identity.get("project", "")))
        self._projects[run_id] = (time.monotonic(), project)
        return project

    def rescan(self) -> None:
        """Nothing to do: each question is asked of the servers."""

    @contextlib.contextmanager
    def locked(self, run_id: str) -> Iterator[None]:
        """Let this hub write nothing to a run meanwhile."""
        with self._lock:
            lock = self._locks.setdefault(run_id, threading.RLock())
        with lock:
            yield

    def register(self, run_id: str, identity: Mapping[str, Any]) -> protocol.RunState:
        """Take in who a run is, at its start and when it changes; what is here of it."""
        checked = protocol.checked_identity(run_id, identity)
        documents = self._database.documents
        with self.locked(run_id):
            found = {one.kind: one for one in documents.find([RUN, TRASH, LABELS], [run_id])}
            trash = found[TRASH].body if TRASH in found else None
            before = found[RUN].body if RUN in found else None
            if before is not None and trash is not None and trash.get("erasing"):
                raise OSError(f"the run {run_id} is being erased: send it again in a minute")
            if before is not None and slugify(before["project"]) != slugify(checked["project"]):
                raise ConflictError(f"the run {run_id} belongs to another project.")
            checked["name"] = checked["name"] if before is None else before["name"]
            if before != checked:
                version = found[RUN].version if RUN in found else 0
                documents.put(RUN, run_id, checked, after=version)
            if trash is not None:  # it was deleted, and is sent again
                documents.put(TRASH, run_id, None, after=found[TRASH].version)
            self._projects[run_id] = (time.monotonic(), slugify(checked["project"]))
            labels = found[LABELS].body if LABELS in found else None
            return self._state(run_id, checked, labels or {}, is_new=not found)

    def launched(self, launch_id: str, project: str, *, age_s: float) -> str:
        """The run of rank 0 of a launch that began so long ago; ids of launches come again."""
        since_ns = int((time.time() - age_s - _LAUNCH_SLACK_S) * 1e9)
        found = [
            (one.version, one.key)
            for one in self._database.documents.find([RUN], since=max(since_ns // 10**9, 0))
            if one.body is not None
            and (one.body.get("launch_id"), one.body.get("project")) == (launch_id, project)
        ]
        if not found:
            raise UnknownRunError(f"no run of the launch {launch_id!r} is here.")
        return max(found)[1]

    def state(self, run_id: str) -> protocol.RunState:
        """What is here of a run."""
        self._check(run_id)
        documents = self._database.documents
        found = {one.kind: one.body or {} for one in documents.find([RUN, LABELS], [run_id])}
        return self._state(run_id, found.get(RUN, {}), found.get(LABELS, {}))

    def _state(
        self, run_id: str, identity: dict[str, Any], labels: dict[str, Any], *, is_new: bool = False
    ) -> protocol.RunState:
        documents, tables = self._database.documents, self._database.tables
        received = {} if is_new else tables.received([run_id]).get(run_id, {})
        blobs = [] if is_new else whole_blobs(self._database, run_id)
        live = [] if is_new else documents.all(LIVE, prefix=f"{run_id}/")
        project = str(identity.get("project", ""))
        return protocol.RunState(
            id=run_id,
            project=project,
            folder=f"{slugify(project)}/{slugify(str(identity.get('name', '')))}",
            parts={
                name.stem: protocol.PartState(one.lines, records=one.records)
                for name, one in received.items()
            },
            segments={},
            blobs={blob.name: blob.size for blob in blobs},
            labels=labels,
            identity=identity,
            live=[key.partition("/")[2] for key, _ in live],
            takes_segments=False,
        )

    # -- what shippers send -----------------------------------------------------------------------

    def append(self, run_id: str, stem: str, *, first: int, lines: bytes) -> int:
        """Append lines of a part that are not here yet; how many lines are stored then.

        Lines beyond a gap are not taken: the answer says from where to send.
        """
        name = named_part(stem)
        if lines and not lines.endswith(b"\n"):
            raise FormatError("the last line has no end: send whole lines.")
        self._check(run_id)
        with self.locked(f"{run_id} {stem}"):
            have = self._ingest.received(run_id, name, expected=first).lines
            new = protocol.lines_after(lines, have - first) if first <= have else b""
            if new:
                have = self._ingest.append(run_id, name, new).lines
            return have

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
        """Take in a piece of a blob, or newest readings; how many bytes of it are here then.

        The whole size is returned only when all pieces are stored and have the stated digest.
        """
        if not protocol.is_file_name(kind, name) or kind == "segments":
            raise UsageError(f"{name!r} is not a name of a file in {kind} that this hub takes.")
        if not 0 <= offset <= size - len(chunk):
            raise UsageError(f"{len(chunk)} bytes at {offset} do not fit a file of {size} bytes.")
        self._check(run_id)
        if kind == "live":
            self._database.documents.put(LIVE, f"{run_id}/{name}", _object(chunk))
            return size
        with self.locked(f"{run_id} {name}"):
            blobs = stored_blobs(self._database, run_id, name)
            if any(blob.have == blob.size and blob.sha256 != sha256 for blob in blobs):
                raise ConflictError(f"{kind}/{name} is here already with other contents.")
            blob = StoredBlob(name, sha256, size, 0)
            blob = next((one for one in blobs if one[:3] == blob[:3]), blob)
            if blob.have == size and blobs:
                return size
            if offset != blob.have or not (chunk or not size):
                return blob.have
            is_last = offset + len(chunk) == size
            if is_last and digest_of(self._database, run_id, blob, chunk) != sha256:
                raise FormatError(f"{kind}/{name} does not have the digest that was stated.")
            put_piece(self._database, run_id, blob, offset, chunk)
            return offset + len(chunk)

    def put_labels(
        self,
        run_id: str,
        labels: Mapping[str, Any],
        base: Mapping[str, Any],
        *,
        on_change: Callable[[list[str]], object] = lambda _fields: None,
    ) -> dict[str, Any]:
        """Merge labels that were changed elsewhere; what holds for both sides then."""
        self._check(run_id)
        documents = self._database.documents
        with documents.lock:
            here = documents.get(LABELS, run_id) or {}
            merged = merged_labels(ours=here, theirs=labels, base=base)
            if merged != here:
                documents.put(LABELS, run_id, merged)
                fields = sorted({*merged, *here})
                on_change([name for name in fields if merged.get(name) != here.get(name)])
            return merged

    # -- what others fetch ------------------------------------------------------------------------

    def lines(self, run_id: str, stem: str, *, first: int) -> bytes:
        """Lines of a part from a number on, about as many as fit in one batch."""
        self._check(run_id)
        name = named_part(stem)
        found, size = list[bytes](), 0
        for line in self._database.tables.lines(run_id, name, first, _MOST_LINES):
            found.append(line + b"\n")
            size += len(found[-1])
            if size > protocol.BATCH_BYTES:
                break
        return b"".join(found)

    def file(self, run_id: str, kind: protocol.FileKind, name: str, *, offset: int) -> bytes:
        """A piece of a file from an offset on."""
        self._check(run_id)
        if kind == "live":
            said = self._database.documents.get(LIVE, f"{run_id}/{name}")
            return b"" if said is None else encode_json(said)[offset:]
        blobs = whole_blobs(self._database, run_id, name) if kind == "blobs" else []
        if not blobs:
            raise UnknownRunError(f"there is no {kind}/{name} in this run.")
        return piece(self._database, run_id, blobs[0], offset)

    # -- what is known ----------------------------------------------------------------------------

    def _check(self, run_id: str) -> str:
        project = self.known_project(run_id)
        project = self.project_of(run_id) if project is None else project
        if project is None:
            raise UnknownRunError(f"the hub does not know the run {run_id}.")
        return project


def _object(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"the readings are no JSON object: {error}.") from error
