"""Makes the catalog of a cluster anew from its bucket, for a database that was lost.

The bucket has runs, labels, summaries, sealed parts and blobs. Lines that were not sealed come
again from their senders, as far as these still have them. Tokens, links, the audit log and boards
are in the database alone: they come from a backup of it, which is then completed from the bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from epochal.errors import EpochalError, UsageError
from epochal.store.bucket import Bucket
from epochal.store.cluster.publishing import adopt_bucket
from epochal.store.cluster.runs import ClusterRuns, sweep, touch
from epochal.store.published import (
    PublishedParts,
    PublishedRun,
    read_bucket,
    read_index,
    read_parts,
    summary_of,
)

if TYPE_CHECKING:
    from epochal.store.cluster.database import Cursor

NOT_IN_BUCKET = (
    "Lines that were not sealed come again from machines that still have them. Tokens, links, the"
    " audit log and boards are only in a backup of the database."
)
# Requests to the bucket at once, and runs in one transaction.
_REQUESTS = 16
_AT_ONCE = 200


class Rebuilt(NamedTuple):
    """How many runs were added, and what is wrong with others.

    Of those that were there already, ``num_renewed`` were older than in the bucket.
    """

    num_added: int
    num_renewed: int
    num_known: int
    problems: list[str]


class _Original(NamedTuple):
    """What a bucket has of a run."""

    project: str
    run: PublishedRun
    identity: bytes
    parts: PublishedParts


def rebuild(
    runs: ClusterRuns,
    *,
    adds: bool = False,
    leaves_out: bool = False,
    tell: Callable[[str], object] = lambda _line: None,
) -> Rebuilt:
    """Add the runs of the bucket to a database that has none; runs in the trash stay there.

    Raises ``UsageError`` for a database with runs, unless ``adds`` is set: then those that it lacks
    are added, and those that changed since a backup get what the bucket has more. It may be run
    again after it was interrupted.

    Hubs of this database fill the bucket from then on; not where runs cannot be read, because they
    would no longer be in its indexes, unless ``leaves_out`` is set.
    """
    known = runs.database.run(_changes)
    if known and not adds:
        raise UsageError(
            f"{runs.database.address} has {len(known):,} runs already: rebuild an empty database,"
            " or say that missing runs are to be added."
        )
    bucket = read_bucket(runs.bucket)
    listed = [
        (project, run)
        for project in sorted(bucket.projects)
        for run in read_index(runs.bucket, project)
    ]
    newer = [item for item in listed if item[1].changed > known.get(item[1].id, -1)]
    num_added, num_renewed, problems = 0, 0, list[str]()
    for start in range(0, len(newer), _AT_ONCE):
        originals, faults = _read(runs.bucket, newer[start : start + _AT_ONCE])
        problems += faults
        work = partial(_add, originals=originals, newest=bucket.changed)
        added = runs.database.run(work)
        num_added += len(added - known.keys())
        num_renewed += len(added & known.keys())
        tell(f"{start + len(originals):,} of {len(newer):,} runs")
    if not problems or leaves_out:
        adopt_bucket(runs, bucket.projects)
    num_known = sum(run.id in known for _, run in listed)
    return Rebuilt(num_added, num_renewed, num_known, problems)


def _changes(cursor: Cursor) -> dict[str, int]:
    """The number of the newest change of each run."""
    return dict(cursor.execute("select id, changed from epochal.runs").fetchall())


def _read(
    bucket: Bucket, listed: Iterable[tuple[str, PublishedRun]]
) -> tuple[list[_Original], list[str]]:
    """What the bucket has of some runs, and a sentence for each that cannot be read."""

    def read(item: tuple[str, PublishedRun]) -> _Original | str:
        project, run = item
        folder = f"{project}/{run.slug}"
        try:
            identity = bucket.get(f"{folder}/run.json")
            return _Original(project, run, identity, read_parts(bucket, folder))
        except EpochalError as error:
            return f"{folder} is left out: {error}"

    with ThreadPoolExecutor(_REQUESTS) as pool:
        answers = list(pool.map(read, listed))
    originals = [answer for answer in answers if isinstance(answer, _Original)]
    return originals, [answer for answer in answers if isinstance(answer, str)]


def _add(cursor: Cursor, *, originals: list[_Original], newest: int) -> set[str]:
    """Add runs with their parts and blobs, or what is newer of them; the ids of these runs.

    Readers have seen changes up to ``newest``.
    """
    cursor.execute("select value from epochal.counter for update")
    added: set[str] = set()
    for original in originals:
        if cursor.execute(_RUN, _run_values(original)).rowcount:
            added.add(original.run.id)
            before = _objects(cursor, original.run.id)
            cursor.executemany(_PART, list(_part_values(original)))
            cursor.executemany(_BLOB, list(_blob_values(original)))
            sweep(cursor, before - _objects(cursor, original.run.id))
    text = "update epochal.counter set value = greatest(value, %s)"
    cursor.execute(text, (newest,))
    touch(cursor, sorted(added), is_due=False)
    return added


def _objects(cursor: Cursor, run_id: str) -> set[str]:
    text = "select object from epochal.parts where run = %s and object is not null"
    return {key for (key,) in cursor.execute(text, (run_id,)).fetchall()}


_RUN = """
insert into epochal.runs (
    id, project, slug, launch_id, identity, labels, summary, stored_bytes, received, removed,
    changed, published
) values (
    %(id)s, %(project)s, %(slug)s, %(launch_id)s, %(identity)s, %(labels)s, %(summary)s,
    %(stored_bytes)s, to_timestamp(%(received)s), to_timestamp(%(removed)s), %(changed)s,
    %(published)s
) on conflict (id) do update set
    identity = excluded.identity, labels = excluded.labels, summary = excluded.summary,
    stored_bytes = excluded.stored_bytes, received = excluded.received,
    removed = excluded.removed, published = excluded.published
where runs.project = excluded.project and runs.slug = excluded.slug
    and runs.changed < excluded.changed
"""
# A sender goes on behind the last sealed line.
_PART = """
insert into epochal.parts (
    run, stem, records, last_crc, sealed, sealed_crc, object, object_bytes, sha256
) values (
    %(run)s, %(stem)s, %(sealed)s, %(crc)s, %(sealed)s, %(crc)s, %(object)s, %(size)s, %(sha256)s
) on conflict (run, stem) do update set
    records = greatest(parts.records, excluded.records),
    last_crc = case when parts.records > excluded.records then parts.last_crc
        else excluded.last_crc end,
    unsealed = case when parts.records > excluded.records then now() end,
    sealed = excluded.sealed, sealed_crc = excluded.sealed_crc, object = excluded.object,
    object_bytes = excluded.object_bytes, sha256 = excluded.sha256
where parts.sealed < excluded.sealed
"""
_BLOB = """
insert into epochal.blobs (run, name, object, num_bytes, sha256)
values (%(run)s, %(name)s, %(object)s, %(size)s, %(sha256)s) on conflict do nothing
"""


def _run_values(original: _Original) -> dict[str, Any]:
    identity: dict[str, Any] = msgspec.json.decode(original.identity)
    launch_id = identity.get("launch_id")
    return {
        "id": original.run.id,
        "project": original.project,
        "slug": original.run.slug,
        "launch_id": launch_id if isinstance(launch_id, str) else None,
        "identity": original.identity,
        "labels": bytes(original.run.labels),
        "summary": summary_of(original.run),
        "stored_bytes": original.run.stored_bytes,
        "received": original.run.received,
        "removed": original.run.removed,
        "changed": original.run.changed,
        "published": original.parts.changed,
    }


def _part_values(original: _Original) -> Iterable[dict[str, Any]]:
    for stem, part in original.parts.parts.items():
        if part.object is not None:
            yield {
                "run": original.run.id,
                "stem": stem,
                "sealed": part.sealed,
                "crc": part.last_crc,
                "object": part.object,
                "size": part.size,
                "sha256": part.sha256,
            }


def _blob_values(original: _Original) -> Iterable[dict[str, Any]]:
    for name, blob in original.parts.blobs.items():
        yield {
            "run": original.run.id,
            "name": name,
            "object": blob.object,
            "size": blob.size,
            "sha256": blob.sha256,
        }
