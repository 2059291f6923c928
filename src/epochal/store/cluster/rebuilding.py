"""Makes the catalog of a cluster anew from its bucket, for a database that was lost.

The bucket has runs, labels, summaries, sealed parts and blobs. Lines that were not sealed come
again from their senders, as far as these still have them. Tokens, links, the audit log and boards
are in the database alone: they come from a backup of it, which is then completed from the bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from epochal.errors import EpochalError, UsageError
from epochal.journal.layout import json_bytes, slugify
from epochal.store.bucket import Bucket
from epochal.store.cluster.publishing import adopt_bucket
from epochal.store.cluster.runs import ClusterRuns, free_name, sweep, touch
from epochal.store.cluster.usage import count_again
from epochal.store.published import (
    PublishedParts,
    PublishedRun,
    read_bucket,
    read_index,
    read_metrics,
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
    metrics: bytes | None


def rebuild(
    runs: ClusterRuns,
    *,
    adds: bool = False,
    leaves_out: bool = False,
    tell: Callable[[str], object] = lambda _line: None,
) -> Rebuilt:
    """Add the runs of the bucket to a database that has none; runs in the trash stay there.

    Raises ``UsageError`` for a database with runs, unless ``adds`` is set: then those that it lacks
    are added, and the others get what the bucket has and they have not, as after the restore of an
    older backup. It may be run again after it was interrupted.

    Hubs of this database fill the bucket from then on; not where runs cannot be read, because they
    would no longer be in its indexes, unless ``leaves_out`` is set.
    """
    known = runs.database.run(_ids)
    if known and not adds:
        raise UsageError(
            f"{runs.database.address} has {len(known):,} runs already: rebuild an empty database,"
            " or say that missing runs are to be added."
        )
    problems: list[str] = []
    num_added = num_renewed = 0
    projects = read_bucket(runs.bucket).projects
    listed = [(name, run) for name in sorted(projects) for run in read_index(runs.bucket, name)]
    for start in range(0, len(listed), _AT_ONCE):
        some = listed[start : start + _AT_ONCE]
        originals, faults = _read(runs.bucket, some, known)
        problems += faults
        added, renewed = runs.database.run(partial(_add, originals=originals))
        num_added, num_renewed = num_added + added, num_renewed + renewed
        tell(f"{start + len(some):,} of {len(listed):,} runs")
    if not problems or leaves_out:
        adopt_bucket(runs, projects)
    num_known = sum(run.id in known for _, run in listed)
    return Rebuilt(num_added, num_renewed, num_known, problems)


def _ids(cursor: Cursor) -> set[str]:
    return {run_id for (run_id,) in cursor.execute("select id from epochal.runs").fetchall()}


def _read(
    bucket: Bucket, listed: Iterable[tuple[str, PublishedRun]], known: Set[str]
) -> tuple[list[_Original], list[str]]:
    """What the bucket has of some runs, and a sentence for each new one that cannot be read."""

    def read(item: tuple[str, PublishedRun]) -> _Original | str:
        project, run = item
        folder = f"{project}/{run.slug}"
        try:
            identity = bucket.get(f"{folder}/run.json")
            return _Original(
                project, run, identity, read_parts(bucket, folder), read_metrics(bucket, folder)
            )
        except EpochalError as error:
            return "" if run.id in known else f"{folder} is left out: {error}"

    with ThreadPoolExecutor(_REQUESTS) as pool:
        answers = list(pool.map(read, listed))
    originals = [answer for answer in answers if isinstance(answer, _Original)]
    return originals, [answer for answer in answers if isinstance(answer, str) and answer]


def _add(cursor: Cursor, *, originals: list[_Original]) -> tuple[int, int]:
    """Add runs with their parts and blobs; how many were not there, and how many were older."""
    num_added = num_renewed = 0
    # Runs that changed, and those among them that the bucket does not show as they are now.
    changed: list[str] = []
    due: list[str] = []
    for original in originals:
        run_id = original.run.id
        text = "select project from epochal.runs where id = %s for update"
        row = cursor.execute(text, (run_id,)).fetchone()
        if row is None:
            num_added += 1
            (changed if _insert(cursor, original) else due).append(run_id)
            _add_files(cursor, original)
            _add_metrics(cursor, original)
        elif row[0] == original.project:
            is_newer = cursor.execute(_NEWER, _run_values(original)).rowcount
            if is_newer:
                _add_metrics(cursor, original)
            if _add_files(cursor, original) or is_newer:
                num_renewed += 1
                due.append(run_id)
    newest = max((original.run.changed for original in originals), default=0)
    text = "update epochal.counter set value = greatest(value, %s)"
    cursor.execute(text, (newest,))
    count_again(cursor, [*changed, *due])
    touch(cursor, changed, is_due=False)
    touch(cursor, due)
    return num_added, num_renewed


def _insert(cursor: Cursor, original: _Original) -> bool:
    """Insert a run; False if it has another name, because a newer run has that of it."""
    values = _run_values(original)
    if cursor.execute(_RUN, values).rowcount:
        return True
    identity: dict[str, Any] = msgspec.json.decode(original.identity)
    name = free_name(cursor, original.project, str(identity["name"]))
    body = json_bytes({**identity, "name": name})
    cursor.execute(_RUN, {**values, "slug": slugify(name), "identity": body, "published": 0})
    return False


def _add_files(cursor: Cursor, original: _Original) -> bool:
    """Add parts and blobs that are here with fewer lines or not at all; whether there were any."""
    run_id = original.run.id
    before = _objects(cursor, run_id)
    cursor.executemany(_PART, list(_part_values(original)))
    cursor.executemany(_BLOB, list(_blob_values(original)))
    after = _objects(cursor, run_id)
    sweep(cursor, before - after)
    return before != after


def _add_metrics(cursor: Cursor, original: _Original) -> None:
    if original.metrics is not None:
        cursor.execute(_METRICS, (original.run.id, original.metrics))


def _objects(cursor: Cursor, run_id: str) -> set[str]:
    text = (
        "select object from epochal.parts where run = %(run)s and object is not null"
        " union all select object from epochal.blobs where run = %(run)s"
    )
    return {key for (key,) in cursor.execute(text, {"run": run_id}).fetchall()}


_RUN = """
insert into epochal.runs (
    id, project, slug, launch_id, identity, labels, summary, writer, received, removed,
    changed, published
) values (
    %(id)s, %(project)s, %(slug)s, %(launch_id)s, %(identity)s, %(labels)s, %(summary)s,
    %(writer)s, to_timestamp(%(received)s), to_timestamp(%(removed)s), %(changed)s,
    %(published)s
) on conflict do nothing
"""
# Of a run that is here: what people changed after this state of the database.
_NEWER = """
update epochal.runs set identity = %(identity)s, labels = %(labels)s, summary = %(summary)s,
    removed = to_timestamp(%(removed)s)
where id = %(id)s and changed < %(changed)s
"""
# A sender goes on behind the last sealed line.
_PART = """
insert into epochal.parts (
    run, stem, records, last_crc, sealed, sealed_crc, object, object_bytes, sha256
) values (
    %(run)s, %(stem)s, %(sealed)s, %(crc)s, %(sealed)s, %(crc)s, %(object)s, %(size)s, %(sha256)s
) on conflict (run, stem) do update set
    records = greatest(parts.records, excluded.records),
    last_crc = case when parts.records > excluded.sealed
        then parts.last_crc else excluded.last_crc end,
    unsealed = case when parts.records > excluded.sealed then now() end,
    sealed = excluded.sealed, sealed_crc = excluded.sealed_crc, object = excluded.object,
    object_bytes = excluded.object_bytes, sha256 = excluded.sha256,
    lease_owner = null, lease_until = null
where parts.sealed < excluded.sealed
"""
_BLOB = """
insert into epochal.blobs (run, name, object, num_bytes, sha256)
values (%(run)s, %(name)s, %(object)s, %(size)s, %(sha256)s) on conflict do nothing
"""
_METRICS = """
insert into epochal.metrics (run, data) values (%s, %s)
on conflict (run) do update set data = excluded.data
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
        "writer": original.run.writer,
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
