"""The runs of a cluster: who they are in PostgreSQL, their lines there, their files in a bucket.

Nothing of a run is kept in memory, so any machine of the cluster answers any request. What is said
to be here is committed: a line when its block is, a file when its row is, after its object.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from epochal.errors import EpochalError, FormatError, RunNotFoundError, UsageError
from epochal.journal.layout import json_bytes, slugify
from epochal.journal.line import encode
from epochal.shipping.offering import named_part
from epochal.shipping.protocol import (
    BATCH_BYTES,
    CHUNK_BYTES,
    FileKind,
    PartState,
    RunState,
    SegmentState,
    is_file_name,
)
from epochal.shipping.shipper import file_digest
from epochal.store.bucket import Bucket, pieces_of
from epochal.store.cluster.boards import ClusterBoards
from epochal.store.cluster.database import Database
from epochal.store.cluster.documents import ClusterDocuments
from epochal.store.cluster.lines import Block, Charging, append_lines, read_lines, unknown_run
from epochal.store.cluster.usage import add_bytes
from epochal.store.published import BUCKET_FILE, INDEX_NAME, RUN_FILES, upload_prefix

if TYPE_CHECKING:
    from epochal.journal.segments.read import Segment
    from epochal.store.cluster.database import Cursor

_PAGE = 1000


class LostLeaseError(EpochalError):
    """Another hub has taken over what this one was doing: its result is not stored."""


class _End(msgspec.Struct):
    """What a summary says of the end of a run."""

    is_ended: bool = False


class StoredRun(NamedTuple):
    """A row of the table of runs; times in Unix seconds. ``summary`` is as its sender sent it.

    ``writer`` is the token that sent it first, '' where that is not known.
    """

    id: str
    project: str
    slug: str
    identity: bytes
    labels: bytes
    summary: bytes | None
    writer: str
    stored_bytes: int
    received: float
    removed: float | None
    changed: int

    @property
    def folder(self) -> str:
        """The folder of the run in the bucket."""
        return f"{self.project}/{self.slug}"


class News(NamedTuple):
    """What has changed of all runs, up to a number; ``gone`` were erased or have to be read again.

    Runs that are in the trash now are among the changed ones.
    """

    number: int
    changed: Iterable[StoredRun]
    gone: Collection[str]


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A segment or a blob: its object, its size and its digest."""

    object: str
    num_bytes: int
    sha256: str
    records: int = 0


# Takes the next number of a change. Everybody locks the rows of runs before.
_NEXT = "with next as (update epochal.counter set value = value + 1 returning value)"
# What a ``StoredRun`` is made of.
COLUMNS = (
    "id, project, slug, identity, labels, summary, writer, stored_bytes,"
    " extract(epoch from received)::float8, extract(epoch from removed)::float8, changed"
)


class ClusterRuns:
    """The table of runs, their parts and their files; several threads and machines may use it.

    Raises ``RunNotFoundError`` for a run that is not here or in the trash, and what the database
    and the bucket raise when they cannot be reached.
    """

    def __init__(self, database: Database, bucket: Bucket) -> None:
        self.database = database
        self.bucket = bucket
        # The segment whose lines were asked for last, by its object and the next ordinal.
        self._opened: dict[tuple[str, int], Iterator[bytes]] = {}

    # -- runs -------------------------------------------------------------------------------------

    def find(self, run_id: str, *, is_removed: bool = False) -> StoredRun | None:
        """The run of an id, or the one of it in the trash; None where there is none."""
        text = f"select {COLUMNS} from epochal.runs where id = %s and (removed is not null) = %s"
        rows = self.database.rows(text, (run_id, is_removed))
        return StoredRun._make(rows[0]) if rows else None

    @property
    def address(self) -> str:
        """The addresses of the database and of the bucket."""
        return f"{self.database.address} {self.bucket.address}"

    def boards(self, projects: Callable[[], Collection[str]]) -> ClusterBoards:
        """The boards of some projects."""
        return ClusterBoards(ClusterDocuments(self.database), projects)

    def news(self, seen: int | None, known: Callable[[], Mapping[str, int]]) -> News:
        """The runs that changed after a change of this number, in the order of their changes.

        Without a number, it is that of the newest change that is known.
        """
        gone: Collection[str] = ()
        newest = self._newest_change()
        if seen is None:
            there = known()
            gone, seen = there.keys() - self._ids(), max(there.values(), default=0)
        if newest < seen:  # the database was restored from an older copy
            gone, seen = known().keys(), 0
        return News(newest, self._changed_since(seen) if seen < newest else (), gone)

    def _changed_since(self, number: int) -> Iterator[StoredRun]:
        text = f"select {COLUMNS} from epochal.runs where changed > %s order by changed limit %s"
        while True:
            rows = self.database.rows(text, (number, _PAGE))
            yield from map(StoredRun._make, rows)
            if len(rows) < _PAGE:
                return
            number = rows[-1][-1]

    def _newest_change(self) -> int:
        """The number of the newest change of any run."""
        rows = self.database.rows("select value from epochal.counter")
        return int(rows[0][0]) if rows else 0

    def _ids(self) -> set[str]:
        """The ids of all runs that are not in the trash."""
        text = "select id from epochal.runs where removed is null"
        return {run_id for (run_id,) in self.database.rows(text)}

    def removed(self) -> list[StoredRun]:
        """The runs in the trash, the newest deletion first."""
        text = f"select {COLUMNS} from epochal.runs where removed is not null order by removed desc"
        return [*map(StoredRun._make, self.database.rows(text))]

    def sizes(self, runs: Sequence[str]) -> dict[str, int]:
        """How many lines some runs have."""
        text = "select run, sum(records)::int8 from epochal.parts where run = any(%s) group by run"
        return dict(self.database.rows(text, (list(runs),)))

    def stored_bytes(self, runs: Sequence[str]) -> dict[str, int]:
        """How much some runs take, those in the trash as well."""
        text = "select id, stored_bytes from epochal.runs where id = any(%s)"
        return dict(self.database.rows(text, (list(runs),)))

    def silent(self, since: Mapping[str, float | None]) -> list[str]:
        """Runs of which nothing was received since a moment, the longest silent first.

        The moment may be another one for each project, ``since['']`` is that of all others. None:
        their runs are left out.
        """
        text = (
            "select id from epochal.runs"
            " left join unnest(%s::text[], %s::float8[]) as since(project, moment) using (project)"
            " where removed is null and received <= to_timestamp("
            " case when since.project is null then %s else moment end) order by received"
        )
        asked = (list(since), list(since.values()), since[""])
        return [run_id for (run_id,) in self.database.rows(text, asked)]

    def register(self, run_id: str, identity: Mapping[str, Any], *, writer: str = "") -> RunState:
        """Take in who a run is; a name that another run of the project has gets a number.

        A run keeps its project, its name and its writer. One that is in the trash comes back,
        unless its sender names another project.
        """

        def work(cursor: Cursor) -> RunState:
            run = _run_of(cursor, run_id, locks=True)
            if run is None:
                return _state(cursor, _inserted(cursor, run_id, identity, writer))
            if run.project != slugify(str(identity["project"])):
                return _state(cursor, run)
            before = msgspec.json.decode(run.identity)
            kept = {key: before[key] for key in ("name", "project") if key in before}
            if before != {**identity, **kept} or run.removed is not None:
                body = json_bytes({**identity, **kept})
                text = (
                    "update epochal.runs set identified = now(), removed = null, received = now()"
                    " where id = %s"
                )
                cursor.execute(text, (run_id,))
                _change(cursor, [run_id], {"identity": body, "launch_id": _launch_of(identity)})
                run = run._replace(identity=body, removed=None)
            return _state(cursor, run)

        return self.database.run(work)

    def launched(self, launch_id: str, project: str, *, within_s: float) -> str | None:
        """The newest run of a launch that said who it is within the last so many seconds."""
        text = (
            "select id from epochal.runs where launch_id = %s and project = %s and removed is null"
            " and extract(epoch from now() - identified) <= %s order by identified desc limit 1"
        )
        rows = self.database.rows(text, (launch_id, project, within_s))
        return str(rows[0][0]) if rows else None

    def present(self, run_id: str) -> StoredRun:
        """The run of an id that is not in the trash."""
        return _present(self.find(run_id), run_id)

    def edit_labels(
        self, run_id: str, edit: Callable[[Mapping[str, Any]], dict[str, Any]]
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Change the labels of a run; what they were before, and what they are now."""

        def work(cursor: Cursor) -> tuple[dict[str, Any], dict[str, Any]]:
            run = _present(_run_of(cursor, run_id, locks=True), run_id)
            before: dict[str, Any] = msgspec.json.decode(run.labels)
            after = edit(before)
            if after != before:
                _change(cursor, [run_id], {"labels": json_bytes(after)})
            return before, after

        return self.database.run(work)

    def put_summary(self, run_id: str, summary: bytes) -> None:
        """Replace the summary of a run."""

        text = "select summary = %s from epochal.runs where id = %s and removed is null for update"

        def work(cursor: Cursor) -> None:
            row = cursor.execute(text, (summary, run_id)).fetchone()
            if row is None:
                raise unknown_run(run_id)
            if not row[0]:
                # While a run goes on, the bucket shows what it was when its last part was sealed.
                is_ended = msgspec.json.decode(summary, type=_End).is_ended
                _change(cursor, [run_id], {"summary": summary}, is_due=is_ended)

        self.database.run(work)

    def put_metrics(self, run_id: str, metrics: bytes) -> None:
        """Replace the summaries of all series of a run."""
        text = (
            "insert into epochal.metrics (run, data) select id, %s from epochal.runs"
            " where id = %s and removed is null"
            " on conflict (run) do update set data = excluded.data returning run"
        )
        if not self.database.rows(text, (metrics, run_id)):
            raise unknown_run(run_id)

    def metrics(self, run_id: str) -> bytes | None:
        """The summaries of all series as their sender sent them; None where it sent none."""
        text = "select data from epochal.metrics where run = %s"
        rows = self.database.rows(text, (run_id,))
        return bytes(rows[0][0]) if rows else None

    # -- lines ------------------------------------------------------------------------------------

    def append(
        self, blocks: Sequence[Block], charging: Charging | None = None
    ) -> list[int | EpochalError]:
        """Store the lines of many senders in one transaction; how many each part has then.

        Lines that are here already are acknowledged again, and lines beyond a gap are not taken.
        The answer to a block that cannot be stored is an error; the others are stored.
        """
        return self.database.run(lambda cursor: append_lines(cursor, blocks, charging))

    def lines(self, run_id: str, stem: str, *, first: int) -> bytes:
        """Whole lines of a part from an ordinal on, about as many as fit in one batch."""
        part = named_part(stem)
        sealed = self._segment(run_id, f"{part.stem}.parquet")
        if sealed is not None and first < sealed.records:
            return self._unsealed(sealed, first)
        return self.database.run(lambda cursor: read_lines(cursor, run_id, part.stem, first))

    def _unsealed(self, sealed: StoredFile, first: int) -> bytes:
        """Lines of a segment, from an ordinal on, about as many as fit in one batch.

        Whoever copies a part asks for the next ones soon: the segment stays open for that.
        """
        segment = self._opened.pop((sealed.object, first), None)
        segment = segment or self.sealed_lines(sealed, first=first)
        found, size = list[bytes](), 0
        for line in segment:
            found.append(line)
            size += len(line)
            if size > BATCH_BYTES:
                self._opened = {(sealed.object, first + len(found)): segment}
                break
        return b"".join(found)

    def sealed_lines(self, sealed: StoredFile, *, first: int = 0) -> Iterator[bytes]:
        """The lines of a segment, from an ordinal on."""
        from epochal.journal.segments.read import Segment

        with tempfile.TemporaryDirectory(prefix="epochal-") as scratch:
            path = Path(scratch) / "segment.parquet"
            with open(path, "wb") as file:
                file.writelines(pieces_of(self.bucket, sealed.object, sealed.num_bytes))
            if file_digest(path)[0] != sealed.sha256:
                raise FormatError(f"{sealed.object} in {self.bucket.address} is damaged.")
            with Segment(path) as segment:
                yield from _lines_of(segment, sealed.records, first)

    def unsealed_lines(self, run_id: str, stem: str, *, first: int) -> Iterator[bytes]:
        """The lines of a part from the first that is not sealed on, in pieces of whole lines."""
        read = partial(read_lines, run_id=run_id, stem=stem)
        while lines := self.database.run(partial(read, first=first)):
            yield lines
            first += lines.count(b"\n")

    # -- files ------------------------------------------------------------------------------------

    def state(self, run_id: str, *, is_removed: bool = False) -> RunState:
        """What is here of a run, or of one that is in the trash."""

        def work(cursor: Cursor) -> RunState:
            run = _run_of(cursor, run_id)
            if run is None or (run.removed is not None) != is_removed:
                raise unknown_run(run_id)
            return _state(cursor, run)

        return self.database.run(work)

    def stored_file(self, run_id: str, kind: FileKind, name: str) -> StoredFile | None:
        """A segment that has all lines of its part, or a blob; None where there is none."""
        if kind == "segments":
            return self._segment(run_id, name)
        text = "select object, num_bytes, sha256 from epochal.blobs where run = %s and name = %s"
        rows = self.database.rows(text, (run_id, name))
        return StoredFile(*rows[0]) if rows else None

    def put_object(self, key: str, content: Path) -> None:
        """Put an object, which is swept some time unless a part or a blob gets it."""
        self.database.run(lambda cursor: sweep(cursor, [key]))
        self.bucket.put(key, content)

    def put_segment(
        self,
        run_id: str,
        stem: str,
        file: StoredFile,
        *,
        lease_owner: str | None = None,
        last_crc: int = 0,
    ) -> int | None:
        """Have a segment in place of the first lines of a part.

        If it has fewer lines than are here it is refused, and their number returned. A segment of
        a sender has all lines of its part. One that a hub has sealed has those that had come, and
        is stored only while its lease holds, else ``LostLeaseError`` is raised.
        """

        def work(cursor: Cursor) -> int | None:
            cursor.execute(
                "insert into epochal.parts (run, stem) values (%s, %s) on conflict do nothing",
                (run_id, stem),
            )
            row = cursor.execute(
                "select records, sealed, object, lease_owner from epochal.parts"
                " where run = %s and stem = %s for update",
                (run_id, stem),
            ).fetchone()
            assert row is not None
            records, sealed, before, owner = row
            if lease_owner is not None and before == file.object and sealed == file.records:
                return None  # the answer to the first try was lost
            if lease_owner not in (None, owner):
                raise LostLeaseError(f"another hub seals {stem} of the run {run_id}.")
            have: int = records if lease_owner is None else sealed
            if file.records < have:
                return have
            num_bytes = _part_bytes(cursor, run_id, stem)
            _replace_segment(cursor, run_id, stem, file, last_crc)
            keep(cursor, file.object)
            if before is not None and before != file.object:
                sweep(cursor, [before])
            growth = _part_bytes(cursor, run_id, stem) - num_bytes
            add_bytes(cursor, {run_id: growth}, is_received=lease_owner is None)
            touch(cursor, [run_id])
            return None

        return self.database.run(work)

    def put_blob(self, run_id: str, name: str, file: StoredFile) -> None:
        """Have a blob under its name.

        The bucket shows it when the next part is sealed, if lines are waiting for that.
        """
        is_waiting = "select exists (select from epochal.parts where run = %s and records > sealed)"

        def work(cursor: Cursor) -> None:
            # Locked first: whoever seals the last part meanwhile publishes the blob as well.
            cursor.execute("select 1 from epochal.runs where id = %s for update", (run_id,))
            row = cursor.execute(is_waiting, (run_id,)).fetchone()
            growth = file.num_bytes - _blob_bytes(cursor, run_id, name)
            cursor.execute(
                "insert into epochal.blobs (run, name, object, num_bytes, sha256)"
                " values (%s, %s, %s, %s, %s) on conflict (run, name) do update set"
                " object = excluded.object, num_bytes = excluded.num_bytes,"
                " sha256 = excluded.sha256",
                (run_id, name, file.object, file.num_bytes, file.sha256),
            )
            keep(cursor, file.object)
            add_bytes(cursor, {run_id: growth}, is_received=True)
            touch(cursor, [run_id], is_due=row is None or not row[0])

        self.database.run(work)

    def file_bytes(self, run_id: str, kind: FileKind, name: str) -> int:
        """How much a file takes now, which another one may replace: lines as well as an object."""
        if kind == "segments":
            stem = name.removesuffix(".parquet")
            return self.database.run(lambda cursor: _part_bytes(cursor, run_id, stem))
        return self.database.run(lambda cursor: _blob_bytes(cursor, run_id, name))

    def uploaded(self, run_id: str, kind: FileKind, name: str, sha256: str) -> int:
        """How many bytes are here of a file that is not complete."""
        text = (
            "select num_bytes from epochal.uploads"
            " where run = %s and kind = %s and name = %s and sha256 = %s"
        )
        which = (run_id, kind, name, sha256)
        rows = self.database.rows(text, which)
        return int(rows[0][0]) if rows else 0

    def add_uploaded(
        self, run_id: str, kind: FileKind, name: str, sha256: str, *, offset: int, num_bytes: int
    ) -> int:
        """Count a piece that begins where the others end; how many bytes are here then."""

        def work(cursor: Cursor) -> int:
            which = (run_id, kind, name, sha256)
            cursor.execute(
                "insert into epochal.uploads (run, kind, name, sha256, num_bytes)"
                " values (%s, %s, %s, %s, 0) on conflict do nothing",
                which,
            )
            row = cursor.execute(
                "update epochal.uploads set started = now(), num_bytes ="
                " case when num_bytes = %s then num_bytes + %s else num_bytes end"
                " where run = %s and kind = %s and name = %s and sha256 = %s returning num_bytes",
                (offset, num_bytes, *which),
            ).fetchone()
            assert row is not None
            return int(row[0])

        return self.database.run(work)

    def end_upload(self, run_id: str, kind: FileKind, name: str, sha256: str) -> None:
        """Forget how much of a file had come."""
        text = (
            "delete from epochal.uploads where run = %s and kind = %s and name = %s and sha256 = %s"
        )
        self.database.rows(text, (run_id, kind, name, sha256))

    def drop_uploads(self, *, after_s: float, run_id: str | None = None) -> int:
        """Forget files of which no piece came for so many seconds; how many they were.

        Their pieces are swept. Of one run, or of all.
        """
        text = (
            "select run, kind, name, sha256, project || '/' || slug from epochal.uploads"
            " join epochal.runs on runs.id = run"
            " where started <= now() - make_interval(secs => %s) and run = coalesce(%s, run)"
        )
        found = self.database.rows(text, (after_s, run_id))
        for *upload, folder in found:
            _, kind, name, sha256 = upload
            prefix = f"{upload_prefix(folder, kind, name, sha256)}/"
            pieces = [stored.key for stored in self.bucket.list(prefix)]
            self.database.run(partial(sweep, objects=pieces))
            self.end_upload(*upload)
        return len(found)

    def put_readings(self, run_id: str, name: str, data: bytes) -> None:
        """Replace the newest readings of a machine, which a failure of the database may lose."""
        text = (
            "insert into epochal.readings (run, name, data) values (%s, %s, %s)"
            " on conflict (run, name) do update set data = excluded.data"
        )
        self.database.rows(text, (run_id, name, data))

    def file(self, run_id: str, kind: FileKind, name: str, *, offset: int) -> bytes:
        """A piece of a file from an offset on."""
        if not is_file_name(kind, name):
            raise UsageError(f"{name!r} is not a name of a file in {kind}.")
        if kind == "live":
            text = "select data from epochal.readings where run = %s and name = %s"
            rows = self.database.rows(text, (run_id, name))
            if not rows:
                raise RunNotFoundError(f"there is no {kind}/{name} in this run.")
            return bytes(rows[0][0])[offset : offset + CHUNK_BYTES]
        file = self.stored_file(run_id, kind, name)
        if file is None:
            raise RunNotFoundError(f"there is no {kind}/{name} in this run.")
        end = min(offset + CHUNK_BYTES, file.num_bytes)
        return self.bucket.get_ranges(file.object, [range(offset, end)])[0] if offset < end else b""

    def _segment(self, run_id: str, name: str) -> StoredFile | None:
        text = (
            "select object, object_bytes, sha256, sealed from epochal.parts"
            " where run = %s and stem = %s and object is not null"
        )
        stem = name.removesuffix(".parquet")
        rows = self.database.rows(text, (run_id, stem))
        return StoredFile(*rows[0]) if rows else None

    # -- the trash --------------------------------------------------------------------------------

    def remove(self, run_id: str, *, at: float | None = None) -> None:
        """Move a run to the trash, now or at a time in the past, in Unix seconds."""
        when = "now()" if at is None else f"to_timestamp({at!r})"
        self._move(run_id, f"coalesce(removed, {when})")

    def restore(self, run_id: str) -> None:
        """Take a run out of the trash."""
        self._move(run_id, "null")

    def _move(self, run_id: str, when: str) -> None:
        text = f"update epochal.runs set removed = {when} where id = %s"

        def work(cursor: Cursor) -> None:
            if not cursor.execute(text, (run_id,)).rowcount:
                raise RunNotFoundError(f"there is no run {run_id} here.")
            touch(cursor, [run_id])

        self.database.run(work)

    def erase(self, run_id: str) -> None:
        """Delete a run that is in the trash; its objects go after the recovery window.

        What makes it a run for readers of the bucket goes soon.
        """
        self.drop_uploads(after_s=0.0, run_id=run_id)

        def work(cursor: Cursor) -> None:
            run = _run_of(cursor, run_id, locks=True)
            if run is None:
                return  # it was deleted, and the answer was lost
            if run.removed is None:
                raise RunNotFoundError(f"there is no run {run_id} in the trash.")
            cursor.execute(
                "insert into epochal.sweep (object, since) select unnest(%s::text[]), '-infinity'"
                " on conflict (object) do update set since = excluded.since",
                ([f"{run.folder}/{name}" for name in RUN_FILES],),
            )
            for table in ("parts", "blobs"):
                text = f"select object from epochal.{table} where run = %s and object is not null"
                sweep(cursor, [key for (key,) in cursor.execute(text, (run_id,)).fetchall()])
            for table in ("lines", "readings"):
                cursor.execute(f"delete from epochal.{table} where run = %s", (run_id,))
            add_bytes(cursor, {run_id: -run.stored_bytes}, is_received=False)
            cursor.execute("delete from epochal.runs where id = %s", (run_id,))

        self.database.run(work)


# -- transactions ---------------------------------------------------------------------------------


def touch(cursor: Cursor, runs: Sequence[str], *, is_due: bool = True) -> None:
    """Have everybody who polls see that runs have changed; the last step of a transaction.

    The number is taken from a row that stays locked until the commit, so nobody sees a higher one
    before a lower one. ``is_due``: the bucket has to show the change as well.
    """
    ids = sorted(runs)
    cursor.execute("select 1 from epochal.runs where id = any(%s) order by id for update", (ids,))
    _change(cursor, ids, {}, is_due=is_due)


def _change(
    cursor: Cursor, runs: Sequence[str], columns: Mapping[str, Any], *, is_due: bool = True
) -> None:
    """Set columns of runs that this transaction has locked, as the last step of it."""
    values = "".join(f"{name} = %s, " for name in columns)
    cursor.execute(
        f"{_NEXT} update epochal.runs set {values}changed = next.value,"
        " due = case when %s then next.value else due end from next where id = any(%s)",
        (*columns.values(), is_due, list(runs)),
    )


def sweep(cursor: Cursor, objects: Iterable[str]) -> None:
    """Have objects deleted after the recovery window, unless ``keep`` is called before."""
    cursor.execute(
        "insert into epochal.sweep (object) select unnest(%s::text[])"
        " on conflict (object) do update set since = now()",
        (sorted(objects),),
    )


def keep(cursor: Cursor, key: str) -> None:
    """Have an object stay that a part or a blob has."""
    cursor.execute("delete from epochal.sweep where object = %s", (key,))


def _replace_segment(
    cursor: Cursor, run_id: str, stem: str, file: StoredFile, last_crc: int
) -> None:
    is_senders = last_crc == 0
    cursor.execute(
        "update epochal.parts set sealed = %s, records = greatest(records, %s), sealed_crc = %s,"
        " last_crc = case when %s then 0 else last_crc end,"
        " unsealed = case when records > %s then now() end,"
        " object = %s, object_bytes = %s, sha256 = %s, lease_owner = null, lease_until = null"
        " where run = %s and stem = %s",
        (
            *(file.records, file.records, last_crc, is_senders, file.records),
            *(file.object, file.num_bytes, file.sha256, run_id, stem),
        ),
    )


def _part_bytes(cursor: Cursor, run_id: str, stem: str) -> int:
    """The size of a part: its object, and its lines that are in none."""
    text = (
        "select coalesce(object_bytes, 0) + coalesce((select sum(num_bytes) from epochal.lines"
        " where lines.run = parts.run and lines.stem = parts.stem and first >= sealed), 0)::int8"
        " from epochal.parts where run = %s and stem = %s"
    )
    row = cursor.execute(text, (run_id, stem)).fetchone()
    return 0 if row is None else int(row[0])


def _blob_bytes(cursor: Cursor, run_id: str, name: str) -> int:
    text = "select num_bytes from epochal.blobs where run = %s and name = %s"
    row = cursor.execute(text, (run_id, name)).fetchone()
    return 0 if row is None else int(row[0])


def _lines_of(segment: Segment, num_lines: int, first: int) -> Iterator[bytes]:
    """The lines that a segment was made of, from an ordinal on.

    Lines that were no records follow at the end, so that every ordinal has one line.
    """
    for _, record in segment.records(first=first):
        yield encode(record)
    num_damaged = segment.num_damaged
    num_empty = num_lines - segment.num_records - num_damaged
    others = [b"?\n"] * num_damaged + [b"\n"] * num_empty
    yield from others[max(0, first - segment.num_records) :]


def _present(run: StoredRun | None, run_id: str) -> StoredRun:
    """A run that is not in the trash; raises ``RunNotFoundError`` for any other."""
    if run is None or run.removed is not None:
        raise unknown_run(run_id)
    return run


def _launch_of(identity: Mapping[str, Any]) -> str | None:
    launch_id = identity.get("launch_id")
    return launch_id if isinstance(launch_id, str) else None


def _run_of(cursor: Cursor, run_id: str, *, locks: bool = False) -> StoredRun | None:
    text = f"select {COLUMNS} from epochal.runs where id = %s{' for update' * locks}"
    row = cursor.execute(text, (run_id,)).fetchone()
    return None if row is None else StoredRun._make(row)


def free_name(cursor: Cursor, project: str, name: str) -> str:
    """The first of ``name``, ``name-2`` and so on that no run of a project has.

    Whoever registers a run of this project at the same time waits until the transaction ends.
    """
    cursor.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"epochal/{project}",))
    text = "select slug from epochal.runs where project = %s and slug like %s"
    start = slugify(name)[:80].replace("_", r"\_")
    taken = {slug for (slug,) in cursor.execute(text, (project, f"{start}%")).fetchall()}
    taken.add(INDEX_NAME)  # in a folder, no run can have the name of a file
    number, candidate = 1, name
    while slugify(candidate) in taken:
        number += 1
        candidate = f"{name}-{number}"
    return candidate


def _inserted(cursor: Cursor, run_id: str, identity: Mapping[str, Any], writer: str) -> StoredRun:
    """Insert a run under the first name that is free in its project."""
    project = slugify(str(identity["project"]))
    if project == BUCKET_FILE:
        raise UsageError(f"no project can be named {BUCKET_FILE!r}: choose another name.")
    name = free_name(cursor, project, str(identity["name"]))
    body = json_bytes({**identity, "name": name})
    row = cursor.execute(
        f"{_NEXT} insert into epochal.runs"
        " (id, project, slug, launch_id, identity, writer, changed, due)"
        f" select %s, %s, %s, %s, %s, %s, value, value from next returning {COLUMNS}",
        (run_id, project, slugify(name), _launch_of(identity), body, writer),
    ).fetchone()
    assert row is not None
    return StoredRun._make(row)


_FILES = """
select 'part', stem, records, last_crc, sealed, object_bytes from epochal.parts where run = %(run)s
union all
select 'blob', name, num_bytes, 0, 0, 0 from epochal.blobs where run = %(run)s
union all
select 'live', name, 0, 0, 0, 0 from epochal.readings where run = %(run)s
"""


def _state(cursor: Cursor, run: StoredRun) -> RunState:
    parts: dict[str, PartState] = {}
    segments: dict[str, SegmentState] = {}
    blobs: dict[str, int] = {}
    live: list[str] = []
    for kind, name, count, crc, sealed, size in sorted(cursor.execute(_FILES, {"run": run.id})):
        if kind == "blob":
            blobs[name] = count
        elif kind == "live":
            live.append(name)
        elif size is not None and sealed == count:
            segments[f"{name}.parquet"] = SegmentState(size, sealed)
        # Its sender may have more lines.
        if kind == "part" and count and (crc or sealed < count):
            parts[name] = PartState(count, crc)
    identity = msgspec.json.decode(run.identity)
    return RunState(
        id=run.id,
        project=str(identity.get("project", "")),
        folder=run.folder,
        parts=parts,
        segments=segments,
        blobs=blobs,
        labels=msgspec.json.decode(run.labels),
        identity=identity,
        live=live,
    )
