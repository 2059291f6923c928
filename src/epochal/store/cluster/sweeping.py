"""Deletes what a cluster no longer needs: partitions of sealed lines, and objects nobody has.

An object is deleted only after the recovery window: until then, a backup of the database that is
as old still has everything that it names.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from epochal.errors import EpochalError
from epochal.store.bucket import Bucket
from epochal.store.cluster.database import Database

if TYPE_CHECKING:
    from epochal.store.cluster.database import Cursor

RECOVERY_S = 7 * 86_400.0
# Appending lines waits so long at most for a partition that is dropped.
_LOCK_WAIT_MS = 200
_AT_ONCE = 200
_PARTITION = re.compile(r"lines_\d{8}")

# A transaction that began before midnight may still write to the partition of its day.
_OLD_PARTITIONS = """
select relname from pg_inherits join pg_class on pg_class.oid = inhrelid
where inhparent = 'epochal.lines'::regclass
and to_date(right(relname, 8), 'YYYYMMDD') + interval '1 day 1 hour' < now() at time zone 'UTC'
order by relname
"""
_HAS_UNSEALED = """
select exists (
    select from epochal.parts join epochal.{partition} as lines using (run, stem)
    where records > sealed and first >= sealed
)
"""
# Parts and blobs have the object, or another run has its folder.
_IS_NEEDED = """
exists (select from epochal.parts where parts.object = sweep.object)
or exists (select from epochal.blobs where blobs.object = sweep.object)
or split_part(object, '/', 4) = '' and exists (
    select from epochal.runs
    where project = split_part(object, '/', 1) and slug = split_part(object, '/', 2)
)
"""


class _BusyPartitionError(EpochalError):
    """Somebody reads or writes lines: the partition is dropped another time."""


def drop_partitions(database: Database) -> list[str]:
    """Drop the partitions of past days all of whose lines are sealed; their names."""
    rows = database.run(lambda cursor: cursor.execute(_OLD_PARTITIONS).fetchall())
    names = [name for (name,) in rows if _PARTITION.fullmatch(name)]
    return [name for name in names if _dropped(database, name)]


def _dropped(database: Database, partition: str) -> bool:
    try:
        return database.run(partial(_drop, partition=partition))
    except _BusyPartitionError:
        return False


def _drop(cursor: Cursor, *, partition: str) -> bool:
    from psycopg import errors

    cursor.execute(f"set local lock_timeout = {_LOCK_WAIT_MS}")
    try:
        exists = cursor.execute("select to_regclass(%s)", (f"epochal.{partition}",)).fetchone()
        if exists is None or exists[0] is None:  # another hub has dropped it
            return False
        cursor.execute(f"lock table epochal.{partition} in access exclusive mode")
        row = cursor.execute(_HAS_UNSEALED.format(partition=partition)).fetchone()
        if row is None or row[0]:
            return False
        cursor.execute(f"drop table epochal.{partition}")
    except errors.LockNotAvailable as error:
        raise _BusyPartitionError(f"{partition} is in use.") from error
    return True


def sweep_objects(database: Database, bucket: Bucket, *, after_s: float = RECOVERY_S) -> int:
    """Delete objects that nobody has had for so long; how many."""
    total = 0
    while True:
        num_rows, num_deleted = database.run(partial(_sweep, bucket=bucket, after_s=after_s))
        total += num_deleted
        if num_rows < _AT_ONCE:
            return total


def _sweep(cursor: Cursor, *, bucket: Bucket, after_s: float) -> tuple[int, int]:
    """Delete some objects; how many rows went, and how many objects.

    The rows stay locked until the objects are gone: whoever puts one of them again notes it first
    and so waits. A hub that ends in between leaves the rows, and the next one deletes again.
    """
    text = (
        f"select object, {_IS_NEEDED} from epochal.sweep"
        " where since < now() - make_interval(secs => %s)"
        " order by object limit %s for update of sweep skip locked"
    )
    rows = cursor.execute(text, (after_s, _AT_ONCE)).fetchall()
    unneeded = [key for key, is_needed in rows if not is_needed]
    bucket.delete(unneeded)
    keys = [key for key, _ in rows]
    cursor.execute("delete from epochal.sweep where object = any(%s)", (keys,))
    return len(rows), len(unneeded)
