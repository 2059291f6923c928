"""Checks what a hub needs before people miss it: ``epochal hub doctor``."""

from __future__ import annotations

import contextlib
import secrets
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from epochal.base.atomic_file import folder_has_locks
from epochal.errors import EpochalError, UsageError
from epochal.hub.cluster_inbox import ONE_MACHINE
from epochal.hub.documents import FOLDER
from epochal.hub.folder_inbox import FolderInbox
from epochal.hub.ledger import only_hub
from epochal.hub.limits import RESERVE_BYTES
from epochal.hub.opening import BUCKET
from epochal.records.format import format_bytes, plural
from epochal.store.bucket import Bucket, BucketError, ObjectBucket, open_bucket
from epochal.store.cluster.database import Database
from epochal.store.cluster.documents import ClusterDocuments
from epochal.store.cluster.publishing import check_bucket
from epochal.store.cluster.runs import ClusterRuns
from epochal.store.cluster.sealing import SealRule
from epochal.store.cluster.sweeping import RECOVERY_S
from epochal.store.status import format_age

if TYPE_CHECKING:
    from epochal.store.cluster.database import Cursor

Level = Literal["ok", "warning", "error"]
_MOST_CLOCK_S = 5.0
# Hubs look for expired leases and due parts every few seconds; this long, and none does.
_OVERDUE_S = 900.0
_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Check:
    """What was checked, and how it is."""

    name: str
    level: Level
    text: str


def check_folder(root: Path) -> list[Check]:
    """Checks of the hub in a folder, which may be running."""
    path = root / FOLDER / "hub.sqlite"
    if not path.is_file():
        return [Check("hub", "error", f"no hub has run over {root} yet.")]
    return [
        check
        for name, work in (
            ("hub", partial(_running, root)),
            ("folder", partial(_writable, root)),
            ("disk", partial(_disk, root)),
            ("documents", partial(_sqlite, path)),
        )
        for check in _checked(name, work)
    ]


def check_cluster(catalog: str, bucket: str) -> list[Check]:
    """Checks of a database and a bucket; hubs may run over them."""
    with contextlib.closing(Database(catalog)) as database:
        checks = [*_checked("server", partial(_servers, database))]
        is_up = all(check.level != "error" for check in checks)
        if is_up:
            checks += _checked("standby", partial(_standby, database))
            checks += _checked("clock", partial(_clock, database))
            schema = [*_checked("schema", partial(_schema, database))]
            checks += schema
            is_up = schema[0].level == "ok"
        opened = open_bucket(bucket)
        checks += _checked("bucket", partial(_bucket, opened))
        if is_up:
            for name, work in (
                ("rights", partial(_rights, database)),
                ("bucket", partial(_belongs, ClusterRuns(database, opened))),
                ("lines", partial(_unsealed, database)),
                ("leases", partial(_leases, database)),
                ("objects", partial(_objects, database, opened)),
            ):
                checks += _checked(name, work)
    return checks


def _checked(name: str, work: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    """What a check finds; what it cannot do is an error."""
    failures: tuple[type[Exception], ...] = (EpochalError, OSError, sqlite3.Error)
    with contextlib.suppress(ModuleNotFoundError):
        import psycopg

        failures += (psycopg.Error,)
    try:
        yield from work()
    except failures as error:
        yield Check(name, "error", str(error).strip().partition("\n")[0])


# -- a folder -------------------------------------------------------------------------------------


def _running(root: Path) -> Iterator[Check]:
    try:
        with only_hub(root):
            yield Check("hub", "ok", "no hub is running here.")
    except UsageError:
        yield Check("hub", "ok", "a hub is running here.")


def _writable(root: Path) -> Iterator[Check]:
    for sentence in FolderInbox(root).readiness().missing:
        yield Check("folder", "error", sentence)
        return
    if not folder_has_locks(root):
        yield Check("folder", "error", "the disk has no file locks, which a hub needs.")
        return
    yield Check("folder", "ok", "can be written. What is acknowledged is durable on one machine.")


def _disk(root: Path) -> Iterator[Check]:
    free = shutil.disk_usage(root).free
    level: Level = "ok" if free > 10 * RESERVE_BYTES else "warning"
    kept = format_bytes(RESERVE_BYTES)
    if free <= RESERVE_BYTES:
        level = "error"
    yield Check("disk", level, f"{format_bytes(free)} are free; the hub keeps {kept} free.")


def _sqlite(path: Path) -> Iterator[Check]:
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        found = db.execute("pragma quick_check(1)").fetchone()[0]
        (count,) = db.execute("select count(*) from documents").fetchone()
    whole = found == "ok"
    text = f"{plural(count, 'document')} in hub.sqlite." if whole else f"hub.sqlite: {found}"
    yield Check("documents", "ok" if whole else "error", text)


# -- a database and a bucket ----------------------------------------------------------------------


def _servers(database: Database) -> Iterator[Check]:
    has_primary = False
    for name, problem, is_primary in database.servers():
        has_primary |= is_primary
        if problem:
            yield Check("server", "warning", f"{name} does not answer: {problem}.")
        elif is_primary:
            yield Check("server", "ok", f"{name} is the primary.")
        else:
            yield Check("server", "ok", f"{name} is a standby.")
    if not has_primary:
        yield Check("server", "error", "no server takes changes.")


def _standby(database: Database) -> Iterator[Check]:
    if database.has_standby():
        yield Check("standby", "ok", "a synchronous standby has what is acknowledged as well.")
    else:
        yield Check("standby", "warning", ONE_MACHINE)


def _clock(database: Database) -> Iterator[Check]:
    text = "select extract(epoch from clock_timestamp())::float8"
    database.run(lambda cursor: cursor.execute(text))  # a connection is open then
    before = time.time()
    there = float(_row(database, text)[0])
    yield _clock_check("database", there - (before + time.time()) / 2)


def _clock_check(what: str, difference_s: float) -> Check:
    level: Level = "ok" if abs(difference_s) <= _MOST_CLOCK_S else "warning"
    text = f"the clock of the {what} differs by {abs(difference_s):.1f} s from this machine's."
    return Check("clock", level, text)


def _schema(database: Database) -> Iterator[Check]:
    problem = database.version_problem()
    yield Check("schema", "error" if problem else "ok", problem or "the tables have our version.")


_MISSING_RIGHTS = """
select relname from pg_class where relnamespace = 'epochal'::regnamespace and relkind in ('r', 'p')
and not (
    has_table_privilege(oid, 'select') and has_table_privilege(oid, 'insert')
    and has_table_privilege(oid, 'update') and has_table_privilege(oid, 'delete')
    and (relname not like 'lines%' or pg_has_role(relowner, 'usage'))
) order by relname
"""


def _rights(database: Database) -> Iterator[Check]:
    rows = database.run(lambda cursor: cursor.execute(_MISSING_RIGHTS).fetchall())
    text = "select current_user::text, has_schema_privilege('epochal', 'create')"
    user, may_create = _row(database, text)
    if rows or not may_create:
        names = _named([name for (name,) in rows]) or "the schema epochal"
        why = "it owns the tables of lines, and reads and changes all others"
        yield Check("rights", "error", f"{user} lacks rights on {names}: {why}.")
    else:
        yield Check("rights", "ok", f"{user} has the rights that a hub needs.")


def _bucket(bucket: Bucket) -> Iterator[Check]:
    key = f"doctor/{secrets.token_hex(8)}"
    try:
        bucket.put(key, b"probe")
        if bucket.put(key, b"other") or bucket.get(key) != b"probe":
            raise BucketError(f"{bucket.address} replaces an object that has to stay")
        seen = [stored for stored in bucket.list("doctor/") if stored.key == key]
    finally:
        bucket.delete([key])
    if not seen or any(stored.key == key for stored in bucket.list("doctor/")):
        raise BucketError(f"{bucket.address} does not list what it has")
    yield Check("bucket", "ok", "objects can be created, read, listed and deleted.")
    if isinstance(bucket, ObjectBucket) and not bucket.has_conditions:
        text = "has no conditional put: hubs ask before they write, which is safe but slower."
        yield Check("bucket", "ok", text)
    yield _clock_check("bucket", seen[0].modified - time.time())


def _belongs(runs: ClusterRuns) -> Iterator[Check]:
    known = ClusterDocuments(runs.database).get(*BUCKET)
    if known is not None and known["address"] != runs.bucket.address:
        yield Check("bucket", "error", f"the database says that its bucket is {known['address']}.")
    check_bucket(runs)


def _unsealed(database: Database) -> Iterator[Check]:
    text = (
        "select count(*), coalesce(extract(epoch from now() - min(unsealed)), 0)::float8"
        " from epochal.parts where records > sealed"
    )
    num_parts, age_s = _row(database, text)
    most_s = SealRule().oldest_s + _OVERDUE_S
    level: Level = "ok" if age_s <= most_s else "warning"
    parts = f"{plural(num_parts, 'part')} with lines that are not sealed"
    oldest = f"; the oldest line came {format_age(age_s)} ago" if num_parts else ""
    late = "" if level == "ok" else ", and no hub seals it"
    yield Check("lines", level, f"{parts}{oldest}{late}.")


def _leases(database: Database) -> Iterator[Check]:
    tables = ("parts", "runs", "indexes")
    each = (
        f"select lease_until from epochal.{table} where lease_owner is not null"
        f" and lease_until < now() - make_interval(secs => {_OVERDUE_S})"
        for table in tables
    )
    (count,) = _row(database, f"select count(*) from ({' union all '.join(each)}) as expired")
    if count:
        text = f"{plural(count, 'lease')} expired, and no hub has taken the work over."
        yield Check("leases", "warning", text)
    else:
        yield Check("leases", "ok", "no lease is overdue.")


_OBJECTS = """
select object, object_bytes from epochal.parts where object is not null
union all select object, num_bytes from epochal.blobs
"""


def _objects(database: Database, bucket: Bucket) -> Iterator[Check]:
    # Asked first: what a hub stores meanwhile is an object before it is a row.
    needed = _all(database, _OBJECTS)
    noted = _all(database, "select object, 0 from epochal.sweep")
    missing, old, old_bytes, oldest = dict(needed), list[str](), 0, time.time()
    num_objects = 0
    for stored in bucket.list():
        num_objects += 1
        if missing.get(stored.key) == stored.size:
            del missing[stored.key]
        elif (
            time.time() - stored.modified > RECOVERY_S
            and stored.key not in needed
            and stored.key not in noted
            and _is_file(stored.key)
        ):
            old.append(stored.key)
            old_bytes += stored.size
            oldest = min(oldest, stored.modified)
    if missing:
        names = _named(sorted(missing))
        yield Check("objects", "error", f"missing, or of another size: {names}.")
    if old:
        age = format_age(time.time() - oldest)
        size = format_bytes(old_bytes)
        what = f"{plural(len(old), 'object')} that no run has ({size}, the oldest of {age} ago)"
        yield Check("objects", "warning", f"{what}: {_named(old)}.")
    if not missing and not old:
        text = f"all {len(needed):,} files of runs are among {plural(num_objects, 'object')}."
        yield Check("objects", "ok", text)


def _is_file(key: str) -> bool:
    """Whether a key is one that a part or a blob has."""
    return key.split("/")[2:3] in (["segments"], ["blobs"])


def _all(database: Database, text: str) -> dict[str, int]:
    def read(cursor: Cursor) -> dict[str, int]:
        return dict(cursor.execute(text).fetchall())

    return database.run(read)


def _row(database: Database, text: str) -> tuple[Any, ...]:
    row = database.run(lambda cursor: cursor.execute(text).fetchone())
    assert row is not None
    return row


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more:,} more" if more > 0 else "")
