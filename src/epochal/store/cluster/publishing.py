"""Keeps a bucket readable without its hub: writes the files of ``epochal.store.published``.

What is due is known from numbers of changes, so nothing is lost when a hub ends within its work: it
is done again. Runs and indexes are leased. A hub that took longer than its lease cannot know what
another has written meanwhile, so what it wrote is due again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from epochal.errors import UsageError
from epochal.journal.process import PROCESS_FIELDS
from epochal.store.cluster.leases import Leases
from epochal.store.cluster.runs import COLUMNS, ClusterRuns, StoredRun
from epochal.store.published import (
    PublishedBlob,
    PublishedBucket,
    PublishedPart,
    PublishedParts,
    PublishedRun,
    find_bucket,
    write_bucket,
    write_index,
    write_parts,
)

if TYPE_CHECKING:
    from epochal.store.cluster.database import Cursor

LEASE_S = 120.0
INDEX_EVERY_S = 60.0
_AT_ONCE = 50
# What lists need of a run that carries a summary; of another one, what makes its row as well.
_LISTED = frozenset(("id", "name", "project", "tags", "notes", "group", "job_type", "owner"))
_UNSUMMARISED = frozenset(("created", "totals", "config", "fork", *PROCESS_FIELDS))

_IS_DUE = """
select exists (
    select from epochal.runs
    where due > published
    and (lease_until is null or lease_until < now() or lease_owner = %(owner)s)
)
"""
_DUE_RUNS = """
with due as (
    select id from epochal.runs where due > published
    and (lease_until is null or lease_until < now() or lease_owner = %(owner)s)
    order by due limit %(at_once)s for update skip locked
)
update epochal.runs set
    lease_owner = %(owner)s, lease_until = now() + make_interval(secs => %(lease_s)s)
from due where runs.id = due.id returning runs.id
"""
_DONE_RUN = """
update epochal.runs set
    published = case when lease_owner = %(owner)s then %(changed)s else 0 end,
    lease_owner = nullif(lease_owner, %(owner)s),
    lease_until = case when lease_owner = %(owner)s then null else lease_until end
where id = %(id)s
"""
# The sum changes with every run that is published. The project '' stands for bucket.json.
_DUE_INDEXES = """
with projects as (
    select project, sum(published)::int8 as number, count(*) as num_runs
    from epochal.runs where published > 0 group by project
), states as (
    select project, number, num_runs from projects
    union all
    select project, 0, 0 from epochal.indexes
    where project <> '' and project not in (select project from projects)
    union all
    select '', hashtextextended(string_agg(project || ' ' || number, ',' order by project), 0),
        count(*)
    from epochal.indexes where project <> '' and written is not null having count(*) > 0
)
select project from states left join epochal.indexes as known using (project)
where (known.number, known.num_runs) is distinct from (states.number, states.num_runs)
"""
_LEASE_INDEX = """
insert into epochal.indexes as known (project, lease_owner, lease_until)
values (%(project)s, %(owner)s, now() + make_interval(secs => %(lease_s)s))
on conflict (project) do update
set lease_owner = excluded.lease_owner, lease_until = excluded.lease_until
where (known.lease_until is null or known.lease_until < now()
    or known.lease_owner = %(owner)s)
and (known.written is null or known.written <= now() - make_interval(secs => %(every_s)s))
returning project
"""
_DONE_INDEX = """
update epochal.indexes set
    number = case when lease_owner = %(owner)s then %(number)s else -1 end,
    num_runs = %(num_runs)s, written = now(),
    lease_owner = nullif(lease_owner, %(owner)s),
    lease_until = case when lease_owner = %(owner)s then null else lease_until end
where project = %(project)s
"""


class Publisher:
    """Writes what is due; several may work at once.

    An index is written at most every ``index_every_s`` seconds.
    """

    def __init__(
        self, runs: ClusterRuns, *, lease_s: float = LEASE_S, index_every_s: float = INDEX_EVERY_S
    ) -> None:
        self._runs = runs
        self._run_leases, self._index_leases = Leases(lease_s), Leases(lease_s)
        self._index_every_s = index_every_s

    def publish_runs(self) -> int:
        """Publish some runs that are due; how many they were.

        Raises ``UsageError`` for the bucket of another database: its runs would no longer be in it.
        """
        database = self._runs.database
        with self._run_leases.taking() as taken:
            due = database.run(lambda cursor: cursor.execute(_IS_DUE, taken).fetchone())
            if due is None or not due[0]:
                return 0
            check_bucket(self._runs)
            asked = {**taken, "at_once": _AT_ONCE}
            leased = database.run(lambda cursor: cursor.execute(_DUE_RUNS, asked).fetchall())
            for (run_id,) in leased:
                self._publish_run(run_id, taken["owner"])
        return len(leased)

    def _publish_run(self, run_id: str, owner: str) -> None:
        content = self._runs.database.run(lambda cursor: _content(cursor, run_id))
        if content is None:  # erased meanwhile
            return
        run, parts = content
        files = {"run": run.identity, "labels": run.labels, "summary": run.summary}
        files["metrics"] = self._runs.metrics(run_id)
        for name, text in files.items():
            if text is not None:
                self._runs.bucket.put(f"{run.folder}/{name}.json", text, replace=True)
        write_parts(self._runs.bucket, run.folder, parts)
        done = {"id": run_id, "owner": owner, "changed": run.changed}
        self._runs.database.run(lambda cursor: cursor.execute(_DONE_RUN, done))

    def publish_indexes(self) -> None:
        """Write the indexes of projects in which something was published, then ``bucket.json``.

        Raises as ``publish_runs`` does.
        """
        with self._index_leases.taking() as taken:
            self._publish_indexes(taken, lambda project: bool(project))
            self._publish_indexes(taken, lambda project: not project)

    def _publish_indexes(self, taken: Mapping[str, Any], is_asked: Callable[[str], bool]) -> None:
        database = self._runs.database
        due = database.run(lambda cursor: cursor.execute(_DUE_INDEXES, binary=False).fetchall())
        if due:
            check_bucket(self._runs)
        for project in [name for (name,) in due if is_asked(name)]:
            asked = {**taken, "project": project, "every_s": self._index_every_s}
            if database.run(partial(_leased, asked=asked)):
                number, num_runs = self._write_index(project) if project else self._write_bucket()
                done = {**asked, "number": number, "num_runs": num_runs}
                database.run(partial(_finish, done=done))

    def _write_index(self, project: str) -> tuple[int, int]:
        """Write the index of a project; what tells it from the next one."""
        text = (
            f"select published, {COLUMNS} from epochal.runs where project = %s and published > 0"
            " order by created desc, id"
        )
        rows = self._runs.database.run(lambda cursor: cursor.execute(text, (project,)).fetchall())
        write_index(self._runs.bucket, project, (_line(StoredRun._make(row[1:])) for row in rows))
        return sum(row[0] for row in rows), len(rows)

    def _write_bucket(self) -> tuple[int, int]:
        text = (
            "select project, number, num_runs from epochal.indexes"
            " where project <> '' and written is not null order by project"
        )
        of_all = (
            "select hashtextextended(string_agg(project || ' ' || number, ',' order by project), 0)"
            " from epochal.indexes where project <> '' and written is not null"
        )

        def read(cursor: Cursor) -> tuple[int, list[tuple[str, int, int]]]:
            row = cursor.execute(of_all).fetchone()
            return 0 if row is None else int(row[0]), cursor.execute(text).fetchall()

        number, rows = self._runs.database.run(read)
        numbers = {project: number for project, number, num_runs in rows if num_runs}
        adopt_bucket(self._runs, numbers)
        return number, len(rows)


def check_bucket(runs: ClusterRuns) -> None:
    """Raise ``UsageError`` for a bucket with runs of another database, or of a newer state of it.

    Indexes would be replaced by those of this database, and then nobody finds the other runs.
    """
    there = find_bucket(runs.bucket)
    text = "select id, written from epochal.version"
    database, written = runs.database.run(partial(_numbers, text=text))
    if there is None or (there.database == database and there.changed <= written):
        return
    whose = "a newer state of this database" if there.database == database else "another database"
    raise UsageError(
        f"{runs.bucket.address} has the runs of {whose}: 'epochal hub rebuild' brings them into"
        f" {runs.database.address}."
    )


def adopt_bucket(runs: ClusterRuns, projects: Mapping[str, int]) -> None:
    """Replace ``bucket.json``: from then on hubs of this database fill the bucket."""
    # The database knows the number first. One that is restored from a copy has a lower number,
    # and what its senders add does not raise it.
    text = (
        "update epochal.version set written = counter.value from epochal.counter"
        " returning id, written"
    )
    database, newest = runs.database.run(partial(_numbers, text=text))
    content = PublishedBucket(projects=projects, database=database, changed=newest)
    write_bucket(runs.bucket, content)


def _numbers(cursor: Cursor, *, text: str) -> tuple[str, int]:
    """The id of a database, and the number of a change."""
    row = cursor.execute(text).fetchone()
    assert row is not None
    return row


def _leased(cursor: Cursor, *, asked: Mapping[str, Any]) -> bool:
    return cursor.execute(_LEASE_INDEX, asked).fetchone() is not None


def _finish(cursor: Cursor, *, done: Mapping[str, Any]) -> None:
    cursor.execute(_DONE_INDEX, done)


def _content(cursor: Cursor, run_id: str) -> tuple[StoredRun, PublishedParts] | None:
    """A run with its parts and blobs, all as of one moment."""
    # One statement: each statement sees what was committed before it began.
    text = (
        f"select {COLUMNS},"
        " (select coalesce(json_object_agg(stem, json_build_object('records', records,"
        " 'sealed', sealed, 'object', object, 'size', coalesce(object_bytes, 0),"
        " 'sha256', coalesce(sha256, ''), 'last_crc', sealed_crc) order by stem), '{}')"
        " from epochal.parts where run = runs.id),"
        " (select coalesce(json_object_agg(name, json_build_object('object', object,"
        " 'size', num_bytes, 'sha256', sha256) order by name), '{}')"
        " from epochal.blobs where run = runs.id)"
        " from epochal.runs where id = %s"
    )
    row = cursor.execute(text, (run_id,)).fetchone()
    if row is None:
        return None
    *of_run, parts, blobs = row
    run = StoredRun._make(of_run)
    return run, PublishedParts(
        id=run_id,
        changed=run.changed,
        parts=msgspec.convert(parts, dict[str, PublishedPart]),
        blobs=msgspec.convert(blobs, dict[str, PublishedBlob]),
    )


def _line(run: StoredRun) -> PublishedRun:
    names = _LISTED if run.summary is not None else _LISTED | _UNSUMMARISED
    identity: dict[str, Any] = msgspec.json.decode(run.identity)
    listed = {name: value for name, value in identity.items() if name in names}
    return PublishedRun(
        id=run.id,
        slug=run.slug,
        changed=run.changed,
        received=run.received,
        identity=msgspec.Raw(msgspec.json.encode(listed)),
        labels=msgspec.Raw(run.labels),
        summary=msgspec.Raw(run.summary or b"null"),
        writer=run.writer,
        stored_bytes=run.stored_bytes,
        removed=run.removed,
    )
